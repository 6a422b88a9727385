//go:build unix

package plugins

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func open(t testing.TB, mode string, change ...func(*Options)) (*Store, *logged) {
	t.Helper()
	o, l := options(t, mode)
	for _, f := range change {
		f(o)
	}
	s, err := Open(t.Context(), self(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, l
}

// Every code of the sdk crosses unchanged, with all that comes with it.
func TestCodes(t *testing.T) {
	s, _ := open(t, "good")
	for _, code := range sdk.Codes() {
		c, err := s.Plugin().Open(t.Context(), fmt.Sprintf("toy:code:%d", uint32(code)), sdk.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := mutation(7, 1, "op")
		out, err := c.Apply(t.Context(), admission(m))
		switch {
		case code.Ok():
			if err != nil || out.Code != code || out.Receipt == nil || !out.Receipt.Echoes(m) || !out.Receipt.Time.Equal(m.Time) || out.Receipt.Owner != m.Owner {
				t.Errorf("%s: %v %v", code, out, err)
			}
		case code == sdk.NotFound: // no answer to a write
			if out.Code != sdk.MutationUnknown || sdk.CodeOf(err) != sdk.MutationUnknown {
				t.Errorf("%s on a write: %v %v", code, out, err)
			}
		default:
			var e *sdk.Error
			if !errors.As(err, &e) || out.Code != code || e.Code != code || e.Field != "a field" || e.Msg != "a message" ||
				e.Alarm != (code%2 == 0) || e.Observed.Highest != 9 || out.Observed != e.Observed {
				t.Errorf("%s: %v %v", code, out, err)
			}
		}
		_, err = c.Read(t.Context(), "r", "k")
		want := sdk.NotApplied
		switch code {
		case sdk.FenceRegression, sdk.Invalid, sdk.Closed, sdk.Unsuitable, sdk.NotApplied, sdk.NotFound:
			want = code
		}
		if sdk.CodeOf(err) != want {
			t.Errorf("%s on a read: %v", code, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Whatever a plug-in answers to a write that is no answer is MUTATION_UNKNOWN;
// to a read, NOT_APPLIED. C36, O1.
func TestLies(t *testing.T) {
	for _, how := range []string{"code-0", "code-99", "code-negative", "code-not-found", "no-receipt", "other-receipt", "other-grant",
		"short-digest", "bad-state", "status", "twice", "oversize"} {
		t.Run(how, func(t *testing.T) {
			s, _ := open(t, "rpc:"+how)
			out, err := s.Apply(t.Context(), admission(mutation(7, 1, "op")))
			if out.Code != sdk.MutationUnknown || sdk.CodeOf(err) != sdk.MutationUnknown {
				t.Errorf("%v %v", out, err)
			}
			if how == "oversize" || how == "code-99" {
				if _, err := s.Read(t.Context(), "r", "k"); sdk.CodeOf(err) != sdk.NotApplied {
					t.Errorf("Read: %v", err)
				}
			}
			if s.Plugin().Starts() != 1 {
				t.Error("a lie is no reason to start another process")
			}
		})
	}
	for _, how := range []string{"read-nothing", "read-accepted"} {
		s, _ := open(t, "rpc:"+how)
		if v, err := s.Read(t.Context(), "r", "k"); v != nil || sdk.CodeOf(err) != sdk.NotApplied {
			t.Errorf("%s: %q %v", how, v, err)
		}
	}
}

// What cannot cross is refused before anything is sent.
func TestBeforeSending(t *testing.T) {
	s, _ := open(t, "good")
	m := mutation(7, 1, "op")
	m.Effects = []sdk.Effect{sdk.Put("k", make([]byte, 65<<20))}
	m.Payload = sdk.PayloadDigest(m.Operation, m.Result, m.Effects)
	if out, err := s.Apply(t.Context(), admission(m)); out.Code != sdk.TooLarge || sdk.CodeOf(err) != sdk.TooLarge {
		t.Errorf("too large: %v %v", out.Code, err)
	}
	if out, _ := s.Apply(t.Context(), sdk.Admission{}); out.Code != sdk.Invalid {
		t.Errorf("zero admission: %v", out.Code)
	}
	m = mutation(7, 1, "op")
	m.Effects, m.Hook = nil, func(context.Context, any) ([]byte, error) { return nil, nil }
	if out, _ := s.Apply(t.Context(), admission(m)); out.Code != sdk.Unsupported {
		t.Errorf("hook: %v", out.Code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := s.Apply(ctx, admission(mutation(7, 1, "op"))); out.Code != sdk.NotApplied || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v %v", out.Code, err)
	}
	s.Close()
	if out, _ := s.Apply(t.Context(), admission(mutation(7, 1, "op"))); out.Code != sdk.Closed {
		t.Errorf("closed: %v", out.Code)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Close")
	}
}

// C36: deadline and cancellation reach the plug-in, and the answer is unknown.
func TestCancelled(t *testing.T) {
	s, l := open(t, "rpc:slow")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	out, err := s.Apply(ctx, admission(mutation(7, 1, "op")))
	cancel()
	if out.Code != sdk.MutationUnknown || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v %v", out.Code, err)
	}
	l.wait(t, "apply was cancelled")
	if s.Plugin().Starts() != 1 {
		t.Error("the caller's own deadline is no reason to start another process")
	}

	s, l = open(t, "rpc:slow")
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		defer cancel()
		l.wait(t, "apply began")
	}()
	out, err = s.Apply(ctx, admission(mutation(7, 1, "op")))
	if out.Code != sdk.MutationUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v %v", out.Code, err)
	}
	l.wait(t, "apply was cancelled")
}

// Close ends what is under way, as unknown.
func TestCloseWhileWriting(t *testing.T) {
	s, l := open(t, "rpc:slow")
	done := make(chan sdk.Outcome)
	go func() {
		out, _ := s.Apply(context.Background(), admission(mutation(7, 1, "op")))
		done <- out
	}()
	l.wait(t, "apply began")
	s.Close()
	if out := <-done; out.Code != sdk.MutationUnknown {
		t.Errorf("got %v", out.Code)
	}
}

// A plug-in that dies in the middle of a write: unknown, sent once, and the
// next call is a new process's. One that hangs is killed first.
func TestReplaced(t *testing.T) {
	for how, reason := range map[string]Reason{"exit-before": Exited, "exit-after": Exited, "panic-after": Exited, "deaf": Hung} {
		t.Run(how, func(t *testing.T) {
			s, l := open(t, "rpc:"+how, func(o *Options) {
				if how == "deaf" {
					o.CallTimeout = 2 * time.Second
				}
			})
			first := s.Plugin().PID()
			out, err := s.Apply(t.Context(), admission(mutation(7, 1, "op")))
			if out.Code != sdk.MutationUnknown {
				t.Fatalf("%v %v", out.Code, err)
			}
			l.wait(t, "reason="+string(reason))
			l.wait(t, "was replaced")
			if _, err := s.Inspect(t.Context(), "r"); err != nil {
				t.Errorf("after: %v", err)
			}
			if second := s.Plugin().PID(); second == first || s.Plugin().Starts() != 2 {
				t.Errorf("process %d after %d, %d starts", second, first, s.Plugin().Starts())
			}
		})
	}
}

// A plug-in that describes itself otherwise after a restart is not used.
func TestDescriptionChanges(t *testing.T) {
	s, l := open(t, "rpc:lie-changes")
	kill(t, s.Plugin())
	l.wait(t, "was replaced")
	out, err := s.Apply(t.Context(), admission(mutation(7, 1, "op")))
	wantFault(t, err, BadDescription)
	if out.Code != sdk.Unsuitable {
		t.Errorf("got %v", out.Code)
	}
}

func kill(t *testing.T, p *Plugin) {
	t.Helper()
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// Where it cannot be started again it is given up: Done is closed, calls are
// NOT_APPLIED.
func TestGivenUp(t *testing.T) {
	s, l := open(t, "good", func(o *Options) { o.Restarts = -1 })
	kill(t, s.Plugin())
	<-s.Done()
	l.wait(t, "given up")
	if out, err := s.Apply(t.Context(), admission(mutation(7, 1, "op"))); out.Code != sdk.NotApplied {
		t.Errorf("%v %v", out.Code, err)
	}
	var f *Fault
	if err := s.Plugin().Err(); !errors.As(err, &f) || f.Reason != Exited {
		t.Errorf("Err: %v", err)
	}
}

// Nothing that a plug-in writes to its standard error stalls or breaks the host.
func TestOutput(t *testing.T) {
	s, l := open(t, "flood")
	if _, err := s.Apply(t.Context(), admission(mutation(7, 1, "op"))); err != nil {
		t.Error(err)
	}
	s.Close()
	if got := l.String(); len(got) > 4<<20 || !strings.Contains(got, "left out") {
		t.Errorf("%d bytes logged of 20 MB", len(got))
	}
	s, l = open(t, "json")
	if _, err := s.Apply(t.Context(), admission(mutation(7, 1, "op"))); err != nil {
		t.Error(err)
	}
	l.wait(t, `@message`)
	l.wait(t, `not really`)
}

// C95: nothing of the host's environment but what is listed.
func TestEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the secret")
	t.Setenv("TEST_PASSED", "passed on")
	_, l := open(t, "env", func(o *Options) { o.Env = append(o.Env, "TEST_PASSED", "TEST_SET=set here", "TEST_MISSING") })
	l.wait(t, "TEST_PASSED=passed on")
	l.wait(t, "TEST_SET=set here")
	if s := l.String(); strings.Contains(s, "the secret") || strings.Contains(s, "TEST_MISSING") {
		t.Error("the plug-in sees more than it may")
	}
}

// The group goes with its leader.
func TestChildOfPlugin(t *testing.T) {
	for _, how := range []string{"closed", "killed"} {
		s, l := open(t, "child", func(o *Options) { o.Restarts = -1 })
		l.wait(t, "child ")
		found := regexp.MustCompile(`child (\d+)`).FindStringSubmatch(l.String())
		child, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		if how == "closed" {
			s.Close()
		} else {
			kill(t, s.Plugin())
			<-s.Done()
		}
		// It was killed; whoever adopted it may need a moment to reap it.
		for alive(child) {
			if t.Context().Err() != nil {
				t.Fatalf("%s: the plug-in's child lives on", how)
			}
		}
	}
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// dial_via: what the plug-in opens comes through the host's Dial, by the name
// that the plug-in gave.
func TestDialVia(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	said := make(chan string, 1)
	go func() {
		c, err := far.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		line, _ := bufio.NewReader(c).ReadString('\n')
		said <- line
	}()
	var dialled atomic.Value
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Store(addr)
		var d net.Dialer
		return d.DialContext(ctx, network, far.Addr().String())
	}
	s, _ := open(t, "good")
	c, err := s.Plugin().Open(t.Context(), "toy:dial:store.example:4711", sdk.OpenOptions{Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := <-said; got != "hello\n" || dialled.Load() != "store.example:4711" {
		t.Errorf("%q at %v", got, dialled.Load())
	}
	d := c.Describe()
	if d.Supports(sdk.CapDial) != sdk.Supported {
		t.Error("dial is not declared")
	}
	refuse := func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	if _, err := s.Plugin().Open(t.Context(), "toy:dial:store.example:4711", sdk.OpenOptions{Dial: refuse}); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("refused: %v", err)
	}
	// Nobody else may use the proxy.
	u := "socks5://fencedstore:wrong@" + c.socks.listener.Addr().String()
	other, err := dialVia(u)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := other(t.Context(), "tcp", "store.example:1"); err == nil {
		conn.Close()
		t.Error("a wrong password was taken")
	}
	s, _ = open(t, "rpc:ignores-dial-via")
	d = s.Describe()
	if d.Supports(sdk.CapDial) != sdk.NotSupported || d.Capabilities[sdk.CapDial].Reason == "" {
		t.Error("a plug-in that ignores dial_via still declares dial")
	}
}
