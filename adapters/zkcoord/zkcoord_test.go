package zkcoord

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance/coordination"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"github.com/go-zookeeper/zk"
)

const holderDSN = "FENCEDSTORE_TEST_HOLDER" // the child is a holder

// TestMain is a holder too, as a process that is really killed.
func TestMain(m *testing.M) {
	dsn := os.Getenv(holderDSN)
	if dsn == "" {
		os.Exit(m.Run())
	}
	c, err := Open(context.Background(), dsn, nil)
	if err == nil {
		var r registry.Record
		a := ask("killed", "1")
		a.TTL = time.Second
		if r, err = c.Acquire(context.Background(), a); err == nil {
			fmt.Println(r.Token)
			bufio.NewReader(os.Stdin).ReadByte()
			err = errors.New("the test is gone")
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func dsnOf(p *lab.Process, session time.Duration) string {
	return Scheme + p.Addr() + "/team/coord?session=" + session.String()
}

func open(t testing.TB, p *lab.Process, o *Options) *Coordinator {
	t.Helper()
	c, err := Open(t.Context(), dsnOf(p, 30*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func key(owner, id string) registry.Key {
	return registry.Key{Resource: "invoice/42", Owner: owner, RequestID: id}
}

func ask(owner, id string) registry.Acquisition {
	return registry.Acquisition{Key: key(owner, id), TTL: 10 * time.Second}
}

// until polls for what the server does by itself; the test's deadline bounds it.
func until(ctx context.Context, holds func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func TestConformance(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	looker := open(t, p, &Options{Clock: now})
	coordination.Run(t, coordination.Harness{Name: "zookeeper",
		Open: func(ctx context.Context) (coordination.Handle, error) {
			c, err := Open(ctx, dsnOf(p, 30*time.Second), &Options{Clock: now})
			if err != nil {
				return coordination.Handle{}, err
			}
			return coordination.Handle{Coordinator: c, Close: c.Close}, nil
		},
		Expire: func(ctx context.Context, r registry.Record) error {
			now.Advance(r.TTL)
			return until(ctx, func() (bool, error) {
				is, err := looker.Status(ctx, r.Ref)
				return is.State == grant.StateExpired, err
			})
		},
		Queued: func(ctx context.Context, r sdk.ResourceID) (int, error) {
			names, err := looker.children(ctx, looker.resource(r).queue)
			return len(names), err
		},
		Restart: func(context.Context) error { p.Restart(); return nil },
	})
}

// C103: the process of the holder is killed without a release. The one who waits
// is served when the session is over.
func TestHolderKilled(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	c := open(t, p, nil)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderDSN+"="+dsnOf(p, time.Second))
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	a := ask("heir", "1")
	a.Wait = true
	heir, err := c.Acquire(t.Context(), a)
	if err != nil || line != "1\n" || heir.Token != 2 {
		t.Fatalf("token %s after %q: %v", heir.Token, line, err)
	}
	if old, err := c.ByRequest(t.Context(), key("killed", "1")); err != nil || old.State != grant.StateExpired {
		t.Errorf("%s, %v", old.State, err)
	}
}

// A lease that is renewed lasts; also through another handle, whose session it
// lives on from then on, so that the first one's end does not end it (C80).
func TestRenewedElsewhere(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	one, two := open(t, p, &Options{Clock: now}), open(t, p, &Options{Clock: now})
	r, err := one.Acquire(t.Context(), ask("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	now.Advance(9 * time.Second)
	again, err := two.Renew(t.Context(), r.Ref)
	if err != nil || !again.Until.Equal(now.Now().Add(10*time.Second)) {
		t.Fatal(again.Until, err)
	}
	now.Advance(9 * time.Second) // the first handle's time is over
	one.Close()
	if is, err := two.Status(t.Context(), r.Ref); err != nil || is.State != grant.StateHeld {
		t.Fatal(is.State, err)
	}
	now.Advance(time.Second)
	err = until(t.Context(), func() (bool, error) {
		is, err := two.Status(t.Context(), r.Ref)
		return is.State == grant.StateExpired, err
	})
	if err != nil {
		t.Error(err)
	}
}

// A renewal whose answer is not known is found when the time would be over, and
// the lease lasts as long as that answer would have said, or longer.
func TestRenewalUnknown(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	c := open(t, p, &Options{Clock: now})
	r, err := c.Acquire(t.Context(), ask("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	now.Advance(5 * time.Second)
	v, _, err := c.look(t.Context(), r.Key)
	if err == nil {
		err = c.extend(t.Context(), v) // and nobody hears of it
	}
	if err != nil {
		t.Fatal(err)
	}
	now.Advance(5 * time.Second)
	now.Await(1) // armed anew
	if is, err := c.Status(t.Context(), r.Ref); err != nil || is.State != grant.StateHeld {
		t.Fatal(is.State, err)
	}
	now.Advance(10 * time.Second)
	if err := until(t.Context(), func() (bool, error) {
		is, err := c.Status(t.Context(), r.Ref)
		return is.State == grant.StateExpired, err
	}); err != nil {
		t.Error(err)
	}
}

// C79: a TTL that the session does not outlast is refused, by what the server
// allowed and not by what was asked for.
func TestLongerThanSession(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	c, err := Open(t.Context(), dsnOf(p, 10*time.Minute), nil) // the server allows one minute
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := ask("a", "1")
	a.TTL = time.Minute
	if _, err := c.Acquire(t.Context(), a); err != nil {
		t.Error(err)
	}
	a = ask("b", "1")
	a.Resource, a.TTL = "another", time.Minute+time.Second
	if _, err := c.Acquire(t.Context(), a); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("%v, want UNSUITABLE", err)
	}
}

// C31: the answer to a create was lost. The place is found by the attempt's ID,
// and taken only if it lives on this session.
func TestAdopted(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	c, other := open(t, p, nil), open(t, p, nil)
	if err := c.ensure(t.Context(), "invoice/42"); err != nil {
		t.Fatal(err)
	}
	a := ask("a", "1")
	v, _, err := c.look(t.Context(), a.Key)
	if err != nil {
		t.Fatal(err)
	}
	at := &attempt{c: c, a: &a, id: "ATTEMPT"}
	if _, err := other.conn.Create(v.queue+"/ATTEMPT-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if err := at.adopt(t.Context(), v); err != nil || at.node != "" {
		t.Errorf("took %q of another session, %v", at.node, err)
	}
	own, err := c.conn.Create(v.queue+"/ATTEMPT-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	if err := at.adopt(t.Context(), v); err != nil || at.node != own {
		t.Errorf("%q and not %q, %v", at.node, own, err)
	}
	c.tidy(v.queue, "ATTEMPT")
	if err := until(t.Context(), func() (bool, error) {
		names, err := c.children(t.Context(), v.queue)
		return len(names) == 0, err
	}); err != nil {
		t.Error(err)
	}
}

// C30: the suffix wraps, and its minus is part of it. The order goes on; the token
// has nothing to do with it.
func TestSuffixWraps(t *testing.T) {
	names := []string{"A--2147483647", "B-2147483647", "C-2147483646", "D--2147483648"}
	order(names)
	if want := []string{"C-2147483646", "B-2147483647", "D--2147483648", "A--2147483647"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	for _, bad := range []string{"", "A", "A-", "A-x", "A-2147483648", "A-1-2"} {
		if _, ok := sequence(bad); ok {
			t.Errorf("%q has a suffix", bad)
		}
	}
}

// The server is away: calls end with their context, and with an answer that does
// not say more than is known; afterwards everything goes on.
func TestServerAway(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	c := open(t, p, nil)
	r, err := c.Acquire(t.Context(), ask("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for name, call := range map[string]func() error{
		"Renew":   func() error { _, err := c.Renew(ctx, r.Ref); return err },
		"Status":  func() error { _, err := c.Status(ctx, r.Ref); return err },
		"Highest": func() error { _, err := c.Highest(ctx, r.Resource); return err },
		"Acquire": func() error { _, err := c.Acquire(ctx, ask("b", "1")); return err },
	} {
		if code := sdk.CodeOf(call()); code != sdk.NotApplied && code != sdk.MutationUnknown {
			t.Errorf("%s: %v", name, code)
		}
	}
	p.Restart()
	if at, err := c.Highest(t.Context(), r.Resource); err != nil || at != 1 {
		// A request that was under way when the connection broke is told so.
		if at, err = c.Highest(t.Context(), r.Resource); err != nil || at != 1 {
			t.Error(at, err)
		}
	}
}

// What somebody else wrote is refused, and counts as no token.
func TestDamaged(t *testing.T) {
	p := lab.Start(t, lab.ZooKeeper)
	c := open(t, p, nil)
	for n, value := range []string{"", "-1", "1e3", "01", "9223372036854775808", "x"} {
		a := ask("a", "1")
		a.Resource = sdk.ResourceID(fmt.Sprint("r", n))
		if err := c.ensure(t.Context(), a.Resource); err != nil {
			t.Fatal(err)
		}
		if _, err := c.conn.Set(c.paths(a.Key).sequence, []byte(value), -1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Acquire(t.Context(), a); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("a sequence of %q: %v, want UNSUITABLE", value, err)
		}
	}
	if err := c.conn.Delete(c.resource("r0").sequence, -1); err != nil {
		t.Fatal(err)
	}
	a := ask("a", "1")
	a.Resource = "r0"
	if _, err := c.Acquire(t.Context(), a); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("a sequence that was deleted: %v, want UNSUITABLE", err)
	}
}

func TestClassify(t *testing.T) {
	for _, r := range rules {
		if err := classify(writing, r.err); sdk.CodeOf(err) != r.code {
			t.Errorf("%v: %v", r.err, err)
		}
	}
	for _, err := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrClosing, zk.ErrUnknown, zk.ErrAPIError, context.Canceled, errors.New("EOF")} {
		if got := classify(writing, err); sdk.CodeOf(got) != sdk.MutationUnknown {
			t.Errorf("%v: %v", err, got)
		}
		if got := classify(reading, err); sdk.CodeOf(got) != sdk.NotApplied {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestBadDSN(t *testing.T) {
	for _, d := range []string{"", "zookeeper:", "zookeeper://", "zookeeper://h", "zookeeper://h/p", "zookeeper://h:1", "zookeeper://h:1/", "zookeeper://u:p@h:1/p",
		"zookeeper://h:1/a//b", "zookeeper://h:1/p?x=1", "zookeeper://h:1/p?session=1", "zookeeper://h:1/p?session=1ms", "zookeeper://:1/p", "zookeeper://h:1/zookeeper/x"} {
		if _, err := Open(t.Context(), d, nil); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, "zookeeper://127.0.0.1:1/p", nil); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("%v", err)
	}
}
