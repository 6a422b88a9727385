package plugins

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/proxy"

	"github.com/fencedstore/fencedstore/sdk"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialVia is a Dial that goes through the SOCKS5 proxy at the URL.
func dialVia(raw string) (dialFunc, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "socks5" || u.Host == "" {
		return nil, sdk.Errorf(sdk.Invalid, "dial_via", "not socks5://USER:PASSWORD@HOST:PORT")
	}
	pass, _ := u.User.Password()
	d, err := proxy.SOCKS5("tcp", u.Host, &proxy.Auth{User: u.User.Username(), Password: pass}, &net.Dialer{})
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "dial_via", "%w", err)
	}
	cd, ok := d.(proxy.ContextDialer)
	if !ok {
		return nil, sdk.Errorf(sdk.Invalid, "dial_via", "this build's SOCKS5 client takes no context")
	}
	return cd.DialContext, nil
}

// socks is a SOCKS5 proxy on the loopback through which the connections of one
// store go to the host's Dial. Only who knows its password may use it. Names
// are passed on as they come: the host's Dial resolves them.
type socks struct {
	listener net.Listener
	dial     dialFunc
	password string
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

const socksUser = "fencedstore"

func newSocks(dial dialFunc) (*socks, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var secret [16]byte
	rand.Read(secret[:]) // does not fail: crypto/rand
	s := &socks{listener: l, dial: dial, password: hex.EncodeToString(secret[:])}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

// url is what a plug-in gets as dial_via.
func (s *socks) url() string {
	u := url.URL{Scheme: "socks5", User: url.UserPassword(socksUser, s.password), Host: s.listener.Addr().String()}
	return u.String()
}

// close ends every connection.
func (s *socks) close() {
	s.cancel()
	s.listener.Close()
	s.wg.Wait()
}

func (s *socks) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.serve(c) })
	}
}

func (s *socks) serve(c net.Conn) {
	defer c.Close()
	stop := context.AfterFunc(s.ctx, func() { c.Close() })
	defer stop()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	addr, err := s.greet(c)
	if err != nil {
		return
	}
	far, err := s.dial(s.ctx, "tcp", addr)
	if err != nil {
		c.Write([]byte{5, socksReply(err), 0, 1, 0, 0, 0, 0, 0, 0})
		return
	}
	defer far.Close()
	stopFar := context.AfterFunc(s.ctx, func() { far.Close() })
	defer stopFar()
	if _, err := c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return
	}
	c.SetDeadline(time.Time{})
	// One end cut is both ends cut: a store that closes its half to be polite
	// gets no half-open connection, and nobody here needs one.
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(onlyWriter{far}, c)
		far.Close()
		c.Close()
	})
	io.Copy(onlyWriter{c}, onlyReader{far})
	far.Close()
	c.Close()
	wg.Wait()
}

// onlyWriter and onlyReader keep io.Copy from going past the host's connection,
// which counts and cuts.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }

var errSocks = errors.New("not a SOCKS5 request that this proxy takes")

// greet reads method, password and CONNECT, and returns the address.
func (s *socks) greet(c net.Conn) (string, error) {
	methods, err := readCounted(c, 5)
	if err != nil {
		return "", err
	}
	if !containsByte(methods, 2) {
		c.Write([]byte{5, 0xff})
		return "", errSocks
	}
	if _, err := c.Write([]byte{5, 2}); err != nil {
		return "", err
	}
	user, err := readCounted(c, 1)
	if err != nil {
		return "", err
	}
	pass, err := readString(c)
	if err != nil {
		return "", err
	}
	if subtle.ConstantTimeCompare(user, []byte(socksUser))&subtle.ConstantTimeCompare(pass, []byte(s.password)) != 1 {
		c.Write([]byte{1, 1})
		return "", errSocks
	}
	if _, err := c.Write([]byte{1, 0}); err != nil {
		return "", err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", err
	}
	var host string
	switch {
	case head[0] != 5:
		return "", errSocks
	case head[1] != 1:
		c.Write([]byte{5, 7, 0, 1, 0, 0, 0, 0, 0, 0})
		return "", errSocks
	case head[3] == 3:
		name, err := readString(c)
		if err != nil {
			return "", err
		}
		host = string(name)
	case head[3] == 1, head[3] == 4:
		ip := make(net.IP, 4)
		if head[3] == 4 {
			ip = make(net.IP, 16)
		}
		if _, err := io.ReadFull(c, ip); err != nil {
			return "", err
		}
		host = ip.String()
	default:
		c.Write([]byte{5, 8, 0, 1, 0, 0, 0, 0, 0, 0})
		return "", errSocks
	}
	var port [2]byte
	if _, err := io.ReadFull(c, port[:]); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:])))), nil
}

// readCounted reads a version byte and a counted string.
func readCounted(c io.Reader, version byte) ([]byte, error) {
	var v [1]byte
	if _, err := io.ReadFull(c, v[:]); err != nil {
		return nil, err
	}
	if v[0] != version {
		return nil, errSocks
	}
	return readString(c)
}

func readString(c io.Reader) ([]byte, error) {
	var n [1]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return nil, err
	}
	b := make([]byte, n[0])
	_, err := io.ReadFull(c, b)
	return b, err
}

func containsByte(b []byte, want byte) bool {
	for _, c := range b {
		if c == want {
			return true
		}
	}
	return false
}

func socksReply(err error) byte {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return 5
	case errors.Is(err, syscall.EHOSTUNREACH):
		return 4
	case errors.Is(err, syscall.ENETUNREACH):
		return 3
	}
	return 1
}
