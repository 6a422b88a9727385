package lease

import (
	"slices"
	"time"
)

// State is where a session stands (L1).
type State string

const (
	Requested        State = "REQUESTED"
	Held             State = "HELD"
	Renewing         State = "RENEWING"
	OwnershipUnknown State = "OWNERSHIP_UNKNOWN"
	Expired          State = "EXPIRED"
	Released         State = "RELEASED"
)

// edges are all that there are; Expired and Released are final.
var edges = map[State][]State{
	Requested:        {Held, OwnershipUnknown, Expired},
	Held:             {Renewing, OwnershipUnknown, Expired, Released},
	Renewing:         {Held, OwnershipUnknown, Expired},
	OwnershipUnknown: {Held, Expired, Released},
}

// Working reports whether new effects may start (L2).
func (s State) Working() bool { return s == Held || s == Renewing }

// Final reports whether the session is over.
func (s State) Final() bool { return s == Expired || s == Released }

// Cause says why a session is over.
type Cause string

const (
	// CauseExpired: the lease ended, by its time or by what the registry says.
	CauseExpired Cause = "expired"
	// CauseSuperseded: a store has seen a newer owner.
	CauseSuperseded Cause = "superseded"
	// CauseRevoked: the issuer's epoch is over.
	CauseRevoked Cause = "revoked"
	// CauseReleased: Release was called.
	CauseReleased Cause = "released"
	// CauseUnreachable: the registry could not be asked until the lease had ended.
	CauseUnreachable Cause = "unreachable"
)

// kind is what a request is for.
type kind uint8

const (
	none kind = iota
	acquiring
	renewing
)

// times are the durations that a session goes by, validated.
type times struct {
	ttl, every, timeout, margin, retry, heartbeat time.Duration
	jitter                                        func(time.Duration) time.Duration
}

// machine is the session without goroutines, clocks and calls: events go in with
// the time at which they happen, and it says what to send. Every change of state
// goes through to.
type machine struct {
	times
	state    State
	cause    Cause
	granted  bool
	deadline time.Time // of the lease, by this process's clock, less the margin
	renewAt  time.Time
	beat     time.Time // when the work was last known to be alive

	sending kind      // the request under way
	sent    time.Time // from before it was sent (L3)

	moved func(from, to State) // sees every change
}

// to changes the state along an edge. Another change is a defect of this package:
// it panics, in tests, and a session that cannot be told from a broken one ends.
func (m *machine) to(s State) {
	if m.state == s {
		return
	}
	if !slices.Contains(edges[m.state], s) {
		panic("lease: no edge from " + string(m.state) + " to " + string(s))
	}
	from := m.state
	m.state = s
	if m.moved != nil {
		m.moved(from, s)
	}
}

func (m *machine) end(s State, c Cause) {
	if m.state.Final() {
		return
	}
	m.cause, m.sending = c, none
	m.to(s)
}

// tick lets time pass, and returns what is to be sent now.
func (m *machine) tick(now time.Time) kind {
	if m.state.Final() {
		return none
	}
	if m.granted && !now.Before(m.deadline) {
		c := CauseExpired
		if m.state == OwnershipUnknown {
			c = CauseUnreachable
		}
		m.end(Expired, c)
		return none
	}
	if m.sending != none && !now.Before(m.sent.Add(m.timeout)) && m.sending != acquiring {
		m.failed(now, m.sending, m.sent, false)
	}
	if m.sending != none || !m.granted || now.Before(m.renewAt) {
		return none
	}
	if now.Sub(m.beat) > m.heartbeat {
		return none // the work is not known to be alive; nobody renews for it
	}
	if m.state == Held {
		m.to(Renewing)
	}
	m.begin(now, renewing)
	return renewing
}

// wake is when tick is due again; zero for never.
func (m *machine) wake(now time.Time) time.Time {
	switch {
	case m.state.Final() || !m.granted:
		return time.Time{}
	case m.sending == renewing:
		return earlier(m.deadline, m.sent.Add(m.timeout))
	case m.sending == none && now.Sub(m.beat) <= m.heartbeat:
		return earlier(m.deadline, m.renewAt)
	}
	return m.deadline
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// begin notes that a request is about to be sent.
func (m *machine) begin(now time.Time, k kind) { m.sending, m.sent = k, now }

// held takes in an answer that says HELD, to a request that was sent at a time;
// life is that of the proof that came with it. An old answer is as true as a new
// one: it counts from its own sending.
func (m *machine) held(now, sent time.Time, remaining, life time.Duration) {
	if m.state.Final() {
		return
	}
	if !m.granted {
		m.granted, m.beat = true, now
	}
	if sent.Equal(m.sent) {
		m.sending = none
	}
	if d := sent.Add(min(remaining, m.ttl) - m.margin); d.After(m.deadline) {
		m.deadline = d
		m.renewAt = sent.Add(m.jitter(min(m.every, life/2)))
	}
	if !now.Before(m.deadline) {
		m.end(Expired, CauseExpired)
		return
	}
	if m.sending == none {
		m.to(Held)
	}
}

// failed takes in that the request sent at a time brought no answer. proved says
// that it changed nothing.
func (m *machine) failed(now time.Time, k kind, sent time.Time, proved bool) {
	if m.state.Final() || m.sending != k || !sent.Equal(m.sent) {
		return
	}
	m.sending = none
	m.renewAt = now.Add(m.jitter(m.retry))
	if k == acquiring && proved && m.state == Requested {
		return // nothing was granted; it may be asked for again
	}
	m.to(OwnershipUnknown)
}

// beaten notes that the work is alive.
func (m *machine) beaten(now time.Time) { m.beat = now }

// release ends the session. A renewal under way is left to itself, and what
// becomes of it is not known: that is the edge it goes by.
func (m *machine) release() {
	switch m.state {
	case Renewing:
		m.to(OwnershipUnknown)
	case Requested:
		if m.sending == none {
			m.end(Expired, CauseReleased)
			return
		}
		m.to(OwnershipUnknown)
	}
	m.end(Released, CauseReleased)
}
