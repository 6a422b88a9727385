package mongowire

import (
	"errors"
	"net"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// ErrCut, returned by a Bend, closes the connection without an answer.
var ErrCut = errors.New("the connection is cut")

// Bend sees every command before the server does, and may answer it itself, or
// change what it or the answer says. next hands a command on.
type Bend func(name string, command bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error)

// Handler answers a command; a server in this process.
type Handler func(name string, command bson.Raw) bson.Raw

// Proxy stands before a server, counts what passes and lets a test give the
// answers that no server here gives.
type Proxy struct {
	listener net.Listener
	target   string  // of a server elsewhere
	handler  Handler // of one here
	serial   bool
	one      sync.Mutex // held for one command where serial

	mu     sync.Mutex
	bend   Bend
	calls  map[string]int
	conns  map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

// Front puts a proxy before the server at target until the test ends. With
// serial, it lets one command through at a time.
func Front(tb testing.TB, target string, serial bool) *Proxy {
	tb.Helper()
	return listen(tb, &Proxy{target: target, serial: serial})
}

// Handle is Front for a server in this process.
func Handle(tb testing.TB, h Handler) *Proxy {
	tb.Helper()
	return listen(tb, &Proxy{handler: h})
}

func listen(tb testing.TB, p *Proxy) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p.listener, p.calls, p.conns = l, map[string]int{}, map[net.Conn]bool{}
	p.wg.Go(p.accept)
	tb.Cleanup(p.Close)
	return p
}

// Addr is HOST:PORT.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set puts bend before every command from now on; nil takes it away.
func (p *Proxy) Set(bend Bend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bend = bend
}

// Count is how many commands of a name came, of every name with "" but for those
// by which a client watches its servers.
func (p *Proxy) Count(name string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != "" {
		return p.calls[name]
	}
	for name, c := range p.calls {
		switch name {
		case "hello", "isMaster", "ismaster", "ping", "endSessions":
		default:
			n += c
		}
	}
	return n
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.listener.Close()
	p.wg.Wait()
}

// keep notes a connection, to close it at the end; false if that is now.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.keep(c) {
			p.wg.Go(func() { p.serve(c) })
		}
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.drop(client)
	next := p.local
	if p.handler == nil {
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(server) {
			return
		}
		defer p.drop(server)
		next = func(f Frame) (Frame, error) {
			if _, err := server.Write(f); err != nil {
				return nil, err
			}
			return ReadFrame(server)
		}
	}
	for {
		f, err := ReadFrame(client)
		if err != nil {
			return
		}
		reply, err := p.pass(f, next)
		if err != nil {
			return
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

// pass takes one command through.
func (p *Proxy) pass(f Frame, next func(Frame) (Frame, error)) (Frame, error) {
	command, err := f.Document()
	if err != nil {
		return nil, err
	}
	name := NameOf(command)
	p.mu.Lock()
	p.calls[name]++
	bend := p.bend
	p.mu.Unlock()
	through := next
	if p.serial {
		through = func(f Frame) (Frame, error) {
			p.one.Lock()
			defer p.one.Unlock()
			return next(f)
		}
	}
	if bend == nil {
		return through(f)
	}
	reply, err := bend(name, command, func(c bson.Raw) (bson.Raw, error) {
		again := f
		if len(c) != len(command) || &c[0] != &command[0] {
			again = f.carrying(c)
		}
		r, err := through(again)
		if err != nil {
			return nil, err
		}
		return r.Document()
	})
	if err != nil {
		return nil, err
	}
	return f.answer(reply), nil
}

// carrying is f with another command.
func (f Frame) carrying(c bson.Raw) Frame {
	out := f.answer(c)
	copy(out[4:12], f[4:12])
	return out
}

func (p *Proxy) local(f Frame) (Frame, error) {
	command, err := f.Document()
	if err != nil {
		return nil, err
	}
	return f.answer(p.handler(NameOf(command), command)), nil
}

// NameOf is the name of a command.
func NameOf(command bson.Raw) string {
	e, err := command.IndexErr(0)
	if err != nil {
		return ""
	}
	return e.Key()
}
