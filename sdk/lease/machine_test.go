package lease

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// allowed is L1 as design.md has it, written down again.
var allowed = map[State]string{
	"REQUESTED":         "HELD OWNERSHIP_UNKNOWN EXPIRED",
	"HELD":              "RENEWING OWNERSHIP_UNKNOWN EXPIRED RELEASED",
	"RENEWING":          "HELD OWNERSHIP_UNKNOWN EXPIRED",
	"OWNERSHIP_UNKNOWN": "HELD EXPIRED RELEASED",
	"EXPIRED":           "",
	"RELEASED":          "",
}

func TestEdges(t *testing.T) {
	states := []State{Requested, Held, Renewing, OwnershipUnknown, Expired, Released}
	for _, from := range states {
		for _, to := range states {
			want := from == to || slices.Contains(strings.Fields(allowed[from]), string(to))
			got := func() (ok bool) {
				defer func() { ok = recover() == nil }()
				m := machine{state: from}
				m.to(to)
				return m.state == to
			}()
			if got != want {
				t.Errorf("%s to %s: %v, want %v", from, to, got, want)
			}
		}
	}
}

// model is the session as the laws tell it, apart from the machine: what was
// said, when, and what follows.
type model struct {
	state   State
	limit   time.Time // until when the lease is known to be held, less the margin
	granted bool
	out     int // the request that is waited for, -1 for none
	beat    time.Time
}

// walk is one random life of a session.
type walk struct {
	m     machine
	model model
	rng   *rand.Rand
	now   time.Time
	sent  []time.Time // of every request, by number
	open  []int       // requests without an answer, those given up among them
	log   []string
	bad   string
}

const (
	ttl     = 10 * time.Second
	every   = 3 * time.Second
	timeout = 2 * time.Second
	margin  = time.Second
	retry   = 500 * time.Millisecond
	beats   = 5 * time.Second
)

func newWalk(rng *rand.Rand) *walk {
	w := &walk{rng: rng, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.model = model{state: Requested, out: -1}
	w.m = machine{state: Requested, times: times{ttl: ttl, every: every, timeout: timeout, margin: margin, retry: retry, heartbeat: beats,
		jitter: func(d time.Duration) time.Duration { return d }}}
	w.m.moved = func(from, to State) {
		if !slices.Contains(strings.Fields(allowed[from]), string(to)) {
			w.bad = fmt.Sprintf("went from %s to %s", from, to)
		}
	}
	return w
}

func (w *walk) note(format string, args ...any) {
	w.log = append(w.log, w.now.Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (w *walk) send() int {
	w.sent = append(w.sent, w.now)
	w.open = append(w.open, len(w.sent)-1)
	return len(w.sent) - 1
}

// step lets one thing happen to the machine and to the model.
func (w *walk) step() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(700)+1) * time.Millisecond)
	if w.rng.IntN(40) == 0 {
		w.now = w.now.Add(time.Duration(w.rng.IntN(12000)) * time.Millisecond) // the process stood still
	}
	md := &w.model
	switch n := w.rng.IntN(20); {
	case n < 3 && !md.granted && md.out < 0 && !md.state.Final():
		w.note("acquire is sent")
		md.out = w.send()
		w.m.begin(w.now, acquiring)
	case n < 8 && len(w.open) > 0:
		i := w.rng.IntN(len(w.open)) // answers overtake each other
		n := w.open[i]
		w.open = slices.Delete(w.open, i, i+1)
		w.held(n)
	case n < 10 && md.out >= 0:
		w.failed()
	case n < 12:
		w.note("beat")
		md.beat = w.now
		w.m.beaten(w.now)
	case n == 12 && w.rng.IntN(6) == 0:
		w.release()
	case n == 13 && w.rng.IntN(8) == 0:
		w.note("superseded")
		w.m.end(Expired, CauseSuperseded)
		if !md.state.Final() {
			md.state, md.out = Expired, -1
		}
	default:
		w.tick()
	}
	w.check()
}

func (w *walk) held(n int) {
	remaining := time.Duration(w.rng.IntN(int(ttl+2*time.Second)/1e6)) * time.Millisecond
	w.note("request %d is answered HELD for %v", n, remaining)
	w.m.held(w.now, w.sent[n], remaining, ttl)
	md := &w.model
	if md.state.Final() {
		return
	}
	if !md.granted {
		md.granted, md.beat = true, w.now
	}
	if until := w.sent[n].Add(min(remaining, ttl) - margin); until.After(md.limit) {
		md.limit = until
	}
	if md.out == n {
		md.out = -1
	}
	switch {
	case !w.now.Before(md.limit):
		md.state, md.out = Expired, -1
	case md.out < 0:
		md.state = Held
	}
}

func (w *walk) failed() {
	md := &w.model
	proved := w.rng.IntN(2) == 0
	k := renewing
	if !md.granted {
		k = acquiring
	}
	w.note("request %d fails, proved %v", md.out, proved)
	w.m.failed(w.now, w.m.sending, w.sent[md.out], proved)
	w.open = slices.DeleteFunc(w.open, func(n int) bool { return n == md.out })
	md.out = -1
	if k == acquiring && proved && md.state == Requested {
		return
	}
	md.state = OwnershipUnknown
}

func (w *walk) release() {
	w.note("release")
	w.m.release()
	md := &w.model
	if md.state.Final() {
		return
	}
	if md.state == Requested && md.out < 0 {
		md.state = Expired
	} else {
		md.state = Released
	}
	md.out = -1
}

func (w *walk) tick() {
	md := &w.model
	was, waited := w.m.state, md.out
	send := w.m.tick(w.now)
	w.note("tick: %v", send)
	switch {
	case md.state.Final():
	case md.granted && !w.now.Before(md.limit):
		if cause := w.m.cause; (cause == CauseUnreachable) != (was == OwnershipUnknown) {
			w.bad = fmt.Sprintf("%s ended as %s", was, cause)
		}
		md.state, md.out = Expired, -1
	case md.granted && waited >= 0 && !w.now.Before(w.sent[waited].Add(timeout)):
		md.state, md.out = OwnershipUnknown, -1
	}
	if send == none {
		return
	}
	switch {
	case md.state != Held && md.state != OwnershipUnknown, !md.granted, md.out >= 0:
		w.bad = fmt.Sprintf("a renewal was sent in %s, granted %v, waiting %v", md.state, md.granted, md.out >= 0)
	case w.now.Sub(md.beat) > beats:
		w.bad = fmt.Sprintf("a renewal was sent for work that was silent for %v", w.now.Sub(md.beat))
	}
	if md.state == Held {
		md.state = Renewing
	}
	md.out = w.send()
}

func (w *walk) check() {
	md := &w.model
	switch {
	case w.bad != "":
	case w.m.state != md.state:
		w.bad = fmt.Sprintf("the machine is %s and the model %s", w.m.state, md.state)
	case w.m.state.Final() != (w.m.cause != ""):
		w.bad = fmt.Sprintf("%s with the cause %q", w.m.state, w.m.cause)
	case w.m.state == Released && w.m.cause != CauseReleased:
		w.bad = "RELEASED as " + string(w.m.cause)
	}
}

// Random orders of events against the model. A failure prints its seed;
// FENCEDSTORE_LEASE_SEED runs it alone.
func TestRandomOrders(t *testing.T) {
	seeds := make([]uint64, 3000)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if s := os.Getenv("FENCEDSTORE_LEASE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	reached := map[State]int{}
	for _, seed := range seeds {
		w := newWalk(rand.New(rand.NewPCG(seed, 0)))
		func() {
			defer func() {
				if p := recover(); p != nil {
					w.bad = fmt.Sprint(p)
				}
			}()
			for range 60 {
				if w.step(); w.bad != "" {
					return
				}
				reached[w.m.state]++
			}
		}()
		if w.bad != "" {
			t.Fatalf("%s\nFENCEDSTORE_LEASE_SEED=%d go test -run TestRandomOrders ./sdk/lease\n%s", w.bad, seed, strings.Join(w.log, "\n"))
		}
	}
	if len(seeds) > 1 && len(reached) != len(allowed) {
		t.Errorf("the walks reached %v", reached)
	}
}
