package plugins

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/fencedstore/fencedstore/sdk"
)

// Options are what a host may choose. Nil is fine where no store is opened.
type Options struct {
	// DSN and Store are what the plug-in opens its store with. Store.Scope stays
	// in the host and is asked before a mutation is sent. Store.Dial is reached
	// through a local SOCKS5 proxy, the protocol's dial_via.
	DSN   string
	Store sdk.OpenOptions

	// SHA256, where set, is what the binary must have: 64 hex digits. For a
	// script it is that of its manifest.
	SHA256 string
	// Lock, where set, is the lock file that must list the plug-in; see [Lock].
	Lock string
	// AllowUncertified starts a plug-in that the lock does not list or whose
	// certificate does not do. It is logged each time. A hash that differs from
	// a pinned one is refused all the same.
	AllowUncertified bool

	// Env are the variables that the plug-in gets beside PATH, HOME, TMPDIR,
	// LANG, LC_ALL, TZ, SSL_CERT_FILE and SSL_CERT_DIR: a name, which is taken
	// from this process where it is set, or NAME=value.
	Env []string

	// TempDir is where the private folder is made that holds the copy of the
	// binary and its socket; os.TempDir if empty. Its path must be short.
	TempDir string

	// StartTimeout is how long the handshake may take; 10 s if 0.
	StartTimeout time.Duration
	// CallTimeout bounds every call that has no earlier deadline; 1 min if 0. A
	// plug-in that lets a call run into it is taken for hung, killed and replaced.
	CallTimeout time.Duration
	// Restarts is how often in a row a start may fail before the plug-in is given
	// up; 10 if 0, and below 0 a dead plug-in is not replaced at all.
	Restarts int
	// Backoff is the pause before the second start in a row, doubled for each
	// further one up to 5 s; 50 ms if 0. The first follows at once.
	Backoff time.Duration

	// Logger takes what the plug-in writes and how it fares; nil discards.
	Logger *slog.Logger
}

const maxBackoff = 5 * time.Second

// passed are the variables that every plug-in gets.
var passed = []string{"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}

func (o *Options) environment() []string {
	out := []string{}
	for _, name := range append(passed[:len(passed):len(passed)], o.Env...) {
		if strings.Contains(name, "=") {
			out = append(out, name)
		} else if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}

func (o *Options) startTimeout() time.Duration { return orDefault(o.StartTimeout, 10*time.Second) }
func (o *Options) callTimeout() time.Duration  { return orDefault(o.CallTimeout, time.Minute) }

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// Plugin is a plug-in that is kept running. It is safe for concurrent use.
type Plugin struct {
	path string
	opts Options
	log  *slog.Logger
	im   *image
	lock *Locked // what the lock says of it, nil without

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing runs and nothing will
	wg     sync.WaitGroup

	mu      sync.Mutex
	cur     *process      // nil while there is none
	changed chan struct{} // closed when cur or failure change
	fault   *Fault        // why there is none
	number  uint64
}

// Start starts the plug-in at path and keeps it running until Close.
//
//  1. plugin, nil.
//  2. UNSUITABLE: it cannot be used; the cause is a *[Fault].
//  3. INVALID: an option does not parse.
//  4. NOT_APPLIED: ctx ended first.
func Start(ctx context.Context, path string, opts *Options) (*Plugin, error) {
	p := &Plugin{path: path, changed: make(chan struct{}), done: make(chan struct{})}
	if opts != nil {
		p.opts = *opts
	}
	p.log = p.opts.Logger
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if err := ctx.Err(); err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "", "not started: %w", err)
	}
	if pin := p.opts.SHA256; pin != "" && !isSHA256(pin) {
		return nil, sdk.Errorf(sdk.Invalid, "SHA256", "%q is not 64 hex digits", clipText(pin, 80))
	}
	im, fault := load(path, p.opts.TempDir)
	if fault != nil {
		return nil, fault.unsuitable(path)
	}
	p.im = im
	p.log = p.log.With("plugin", im.name)
	if fault := p.checkPins(); fault != nil {
		im.remove()
		return nil, fault.unsuitable(path)
	}
	p.number = 1
	proc, fault := startProcess(ctx, im, &p.opts, p.log, p.number)
	if fault != nil {
		im.remove()
		if ctx.Err() != nil {
			return nil, sdk.Errorf(sdk.NotApplied, "plug-in", "%s: not started: %w", path, fault)
		}
		return nil, fault.unsuitable(path)
	}
	p.cur = proc
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.supervise)
	return p, nil
}

func isSHA256(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return len(s) == 64
}

// checkPins holds the image against the pinned hash and the lock file.
func (p *Plugin) checkPins() *Fault {
	if pin := p.opts.SHA256; pin != "" && !strings.EqualFold(pin, p.im.digest) {
		return faultf(HashMismatch, "it has the SHA-256 %s and %s is pinned", p.im.digest, strings.ToLower(pin))
	}
	if p.opts.Lock == "" {
		return nil
	}
	locked, fault := checkLock(p.opts.Lock, p.im)
	if fault != nil && p.opts.AllowUncertified && fault.Reason != HashMismatch {
		p.log.Warn("an uncertified plug-in is started, as AllowUncertified says", "reason", string(fault.Reason), "detail", fault.Detail, "sha256", p.im.digest)
		return nil
	}
	p.lock = locked
	return fault
}

// SHA256 is the digest of what is executed.
func (p *Plugin) SHA256() string { return p.im.digest }

// Done is closed when no process runs and none will: after Close, or when the
// plug-in was given up. Err says which.
func (p *Plugin) Done() <-chan struct{} { return p.done }

// Err is nil while the plug-in is kept running, then CLOSED or UNSUITABLE.
func (p *Plugin) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return sdk.Errorf(sdk.Closed, "plug-in", "it was closed")
	}
	return p.fault.unsuitable(p.path)
}

// Starts is how many processes were started so far.
func (p *Plugin) Starts() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number
}

// PID is the process ID of the one that runs, 0 while none does.
func (p *Plugin) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		return 0
	}
	return p.cur.runner.process()
}

// Close ends the process: it is asked, given 2 s, and killed with its group.
// Writes that are under way end as MUTATION_UNKNOWN. A second Close returns nil.
func (p *Plugin) Close() error {
	p.cancel()
	p.wg.Wait()
	return nil
}

func (p *Plugin) set(cur *process, f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cur, p.fault = cur, f
	close(p.changed)
	p.changed = make(chan struct{})
}

// supervise replaces processes that end.
func (p *Plugin) supervise() {
	defer close(p.done)
	defer p.im.remove()
	for {
		cur := p.cur // written by this goroutine only
		gone := make(chan *Fault, 1)
		go func() { gone <- cur.watch() }()
		select {
		case <-p.ctx.Done():
			p.set(nil, nil)
			cur.shutdown()
			<-gone
			return
		case f := <-gone:
			p.set(nil, f)
			cur.kill()
			p.log.Warn("the plug-in is gone", "reason", string(f.Reason), "detail", f.Detail, "process", cur.number)
		}
		if !p.replace() {
			return
		}
	}
}

// replace starts another process; false if it was given up or closed.
func (p *Plugin) replace() bool {
	most := p.opts.Restarts
	if most == 0 {
		most = 10
	}
	pause := orDefault(p.opts.Backoff, 50*time.Millisecond)
	for try := 0; try < most; try++ {
		if try > 0 {
			select {
			case <-p.ctx.Done():
				return false
			case <-time.After(pause):
			}
			pause = min(2*pause, maxBackoff)
		}
		p.mu.Lock()
		p.number++
		n := p.number
		p.mu.Unlock()
		proc, f := startProcess(p.ctx, p.im, &p.opts, p.log, n)
		if p.ctx.Err() != nil {
			if proc != nil {
				proc.kill()
			}
			return false
		}
		if f == nil {
			p.log.Info("the plug-in was replaced", "process", n)
			p.set(proc, nil)
			return true
		}
		p.log.Warn("the plug-in could not be started again", "reason", string(f.Reason), "detail", f.Detail, "process", n)
		p.set(nil, f)
	}
	p.log.Error("the plug-in was given up", "starts", p.Starts())
	return false
}

// process returns the one that runs, and waits for one while one is being
// started. NOT_APPLIED: ctx ended first, or the plug-in was given up; CLOSED.
func (p *Plugin) process(ctx context.Context) (*process, error) {
	for {
		p.mu.Lock()
		cur, changed, fault := p.cur, p.changed, p.fault
		p.mu.Unlock()
		if cur.ready() {
			return cur, nil
		}
		select {
		case <-p.done:
			if p.ctx.Err() != nil {
				return nil, sdk.Errorf(sdk.Closed, "plug-in", "it was closed")
			}
			return nil, sdk.Errorf(sdk.NotApplied, "plug-in", "it was given up, nothing was sent: %w", fault)
		case <-changed:
		case <-p.ctx.Done():
			return nil, sdk.Errorf(sdk.Closed, "plug-in", "it was closed")
		case <-ctx.Done():
			return nil, sdk.Errorf(sdk.NotApplied, "plug-in", "it is being replaced, nothing was sent: %w", errors.Join(ctx.Err(), fault.orNil()))
		}
	}
}

// ready reports whether p can be sent to; nil cannot. A connection that was lost
// is not made again, so that nothing is sent into it: supervise replaces p.
func (p *process) ready() bool { return p != nil && p.conn.GetState() == connectivity.Ready }

func (f *Fault) orNil() error {
	if f == nil {
		return nil
	}
	return f
}

// condemn kills a process that does not answer; supervise replaces it.
func (p *Plugin) condemn(proc *process, why string) {
	proc.runner.fail(faultf(Hung, "%s", why))
	proc.runner.kill()
}
