package mutant

import (
	"slices"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

func atomicity() []Mutant {
	return []Mutant{
		{"check-then-write", sdk.F6, "read, compare, then an unconditional write (C69, C53)", func(f *flaws) { f.unlocked = true }},
		{"receipt-in-second-write", sdk.F6, "the fence is written first, the receipt and the effects after it", func(f *flaws) { f.torn = true }},
		{"first-effect-only", sdk.F6, "the loop over effects ends early", func(f *flaws) {
			f.apply = func(r *record, m *sdk.Mutation) error {
				if len(m.Effects) > 0 {
					oneEffect(r, m, m.Effects[0])
				}
				return nil
			}
		}},
		{"half-on-bad-effect", sdk.F6, "effects are written one by one until one is found that does not parse", func(f *flaws) {
			f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
				m, err := a.Mutation()
				return m, err
			}
			f.apply = func(r *record, m *sdk.Mutation) error {
				for _, e := range m.Effects {
					if !slices.Contains(sdk.PortableKinds(), e.Kind) {
						return sdk.Errorf(sdk.Unsupported, "effect kind", "%q", e.Kind)
					}
					if len(e.Body) > maxValue {
						return sdk.Errorf(sdk.TooLarge, "effect", "%d bytes", len(e.Body))
					}
					oneEffect(r, m, e)
				}
				return nil
			}
		}},
		{"effects-dropped", sdk.F6, "fence and receipt are written, the effects are left to a queue that nobody reads", func(f *flaws) {
			f.apply = func(*record, *sdk.Mutation) error { return nil }
		}},
		{"fence-reset-on-delete", sdk.F7, "deleting the last key deletes the object that holds the fence (litestream's lease)", func(f *flaws) {
			f.committed = func(r *record, m *sdk.Mutation, _ *sdk.Receipt) {
				for _, e := range m.Effects {
					if e.Kind == sdk.KindDelete && len(r.values) == 0 {
						r.state, r.receipts = sdk.FenceState{}, map[sdk.OperationID]*sdk.Receipt{}
					}
				}
			}
		}},
		{"fence-reset-on-open", sdk.F7, "opening the store writes its initial state", func(f *flaws) {
			f.opened = func(d *data) {
				for _, r := range d.records {
					r.state, r.receipts = sdk.FenceState{}, map[sdk.OperationID]*sdk.Receipt{}
				}
			}
		}},
		{"absent-is-zero", sdk.F7, "a fence that was removed (TTL, lifecycle rule, by hand) is created afresh (C8, C20)", func(f *flaws) { f.blindToDamage = true }},
		{"segment-reset-on-open", sdk.F7, "the last segment is kept in memory only", func(f *flaws) {
			f.opened = func(d *data) {
				for _, r := range d.records {
					r.state.Segment = min(r.state.Segment, 1)
				}
			}
		}},
		{"not-durable", sdk.F9, "accepted means queued: what was not flushed is lost with the process", func(f *flaws) {
			f.closed = func(d *data) { d.records = map[string]*record{} }
		}},
		{"receipts-not-durable", sdk.F9, "receipts are a cache", func(f *flaws) {
			f.closed = func(d *data) {
				for _, r := range d.records {
					r.receipts = map[sdk.OperationID]*sdk.Receipt{}
				}
			}
			f.blindToDamage = true
		}},
		{"probe-leaves-fence", sdk.F7, "the probe writes to a resource that a team may use", func(f *flaws) { f.probeWrites = true }},
	}
}

func reading() []Mutant {
	return []Mutant{
		{"judged-by-cache", sdk.F8, "each handle judges by the fence that it read at its first write", func(f *flaws) { f.cachedFence = true }},
		{"stale-inspect", sdk.F8, "eventually consistent reads, or a cache in the handle", func(f *flaws) { f.cachedInspect = true }},
		{"stale-receipt", sdk.F8, "'not found' is cached, or read from a replica", func(f *flaws) { f.cachedReceipt = true }},
		{"stale-read", sdk.F8, "values are read from a cache", func(f *flaws) { f.cachedRead = true }},
	}
}

func isolation() []Mutant {
	return []Mutant{
		{"one-lock", sdk.F12, "one table lock: a slow transaction of one resource holds up all", func(f *flaws) { f.oneLock = true }},
		{"case-folded", sdk.F12, "a case-insensitive collation or file system", func(f *flaws) {
			f.key = func(ns, r string) string { return ns + "\x00" + strings.ToLower(r) }
		}},
		{"names-truncated", sdk.F12, "a key column of 255 bytes", func(f *flaws) {
			f.key = func(ns, r string) string { return ns + "\x00" + r[:min(len(r), 255)] }
		}},
		{"slashes-lost", sdk.F12, "the separator is replaced when a key or file name is made", func(f *flaws) {
			f.key = func(ns, r string) string { return ns + "\x00" + strings.ReplaceAll(r, "/", "_") }
		}},
		{"prefix-shared", sdk.F12, "a look-up by prefix: a/b finds a/b/c", func(f *flaws) {
			f.key = func(ns, r string) string {
				parts := strings.SplitN(r, "/", 4)
				return ns + "\x00" + strings.Join(parts[:min(len(parts), 3)], "/")
			}
		}},
		{"namespaces-mixed", sdk.F12, "the namespace is not in the key, so shadow mode moves the enforced fence", func(f *flaws) {
			f.key = func(_, r string) string { return sdk.DefaultNamespace + "\x00" + r }
		}},
	}
}

// lie answers something else after the work was done.
func lie(when func(out sdk.Outcome) bool, code sdk.Code) func(*flaws) {
	return func(f *flaws) {
		f.answer = func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
			if !when(out) {
				return out, err
			}
			e := sdk.Errorf(code, "", "the answer of a later attempt")
			return sdk.Refusal(e), e
		}
	}
}

func outcomes() []Mutant {
	everyThird := func() func(sdk.Outcome) bool {
		n := 0
		return func(out sdk.Outcome) bool {
			if out.Code == sdk.Accepted {
				n++
			}
			return out.Code == sdk.Accepted && n%3 == 0
		}
	}
	return []Mutant{
		{"success-called-not-applied", sdk.O1, "a time-out after the commit is taken for a failure", lie(everyThird(), sdk.NotApplied)},
		{"echo-called-stale", sdk.O2, "an SDK retried, and its own success came back as a lost race (C1, C2)", lie(everyThird(), sdk.StaleOwner)},
		{"echo-called-skipped", sdk.O2, "a retry after a lost acknowledgement found its own segment", lie(everyThird(), sdk.SegmentSkipped)},
		{"replay-called-conflict", sdk.O2, "a token mismatch on a retry is read as another payload (C17)", lie(func(out sdk.Outcome) bool { return out.Code == sdk.Replayed }, sdk.Quarantined)},
		{"context-looked-at-late", sdk.O1, "a context that ended is reported as NOT_APPLIED after the commit", func(f *flaws) { f.lateContext = true }},
		{"context-ignored", sdk.O4, "waiting for a lock or a pool without the context", func(f *flaws) { f.noContext = true }},
		{"no-error", sdk.O1, "a refusal comes back without an error", func(f *flaws) {
			f.answer = func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if out.Code == sdk.StaleOwner {
					return out, nil
				}
				return out, err
			}
		}},
		{"observed-missing", sdk.F1, "a refusal does not say what it saw", func(f *flaws) {
			f.answer = func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if e, ok := err.(*sdk.Error); ok {
					c := *e
					c.Observed, out.Observed = sdk.FenceState{}, sdk.FenceState{}
					return out, &c
				}
				return out, err
			}
		}},
		{"plain-errors", sdk.O1, "errors of the client library come through without a code", func(f *flaws) {
			f.answer = func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if err != nil {
					return sdk.Outcome{}, errPlain
				}
				return out, nil
			}
		}},
	}
}

type plainError struct{}

func (plainError) Error() string { return "ConditionalCheckFailedException" }

var errPlain = plainError{}

func forms() []Mutant {
	return []Mutant{
		{"any-name", sdk.A2, "names are not checked, so two spellings are two fences (C39, C91)", func(f *flaws) {
			f.anyResource = true
			f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) { return d.Check(a) }
		}},
		{"limits-not-kept", sdk.F6, "the declared limit is not looked at, and the server's is another", func(f *flaws) {
			f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
				c := *d
				c.Limits = sdk.Limits{}
				return c.Check(a)
			}
		}},
		{"kind-ignored", sdk.F6, "an effect of an unknown kind is skipped and the mutation accepted", func(f *flaws) {
			f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
				m, err := a.Mutation()
				if err != nil {
					return nil, err
				}
				c := *d
				c.Kinds = nil
				for _, e := range m.Effects {
					c.Kinds = append(c.Kinds, e.Kind)
				}
				return c.Check(a)
			}
		}},
		{"hook-ignored", sdk.F6, "a hook is accepted and never run", func(f *flaws) { f.hookIgnored = true }},
		{"hook-taken-undeclared", sdk.F6, "says that it runs no hooks, and takes them all the same", func(f *flaws) {
			f.describe = func(d *sdk.Description) {
				d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.NotSupported, Reason: "no transactions"}
			}
			f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) { return a.Mutation() }
			f.hookIgnored = true
		}},
		{"empty-admission-panics", sdk.A7, "the zero admission is dereferenced", func(f *flaws) {
			f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
				m, err := a.Mutation()
				if m == nil && err != nil && sdk.CodeOf(err) == sdk.Invalid {
					panic("nil mutation")
				}
				return d.Check(a)
			}
		}},
		{"bytes-aliased", sdk.F6, "the caller's slices are kept, and change with the caller's next use", func(f *flaws) { f.aliased = true }},
		{"answers-after-close", sdk.F9, "a closed handle goes on answering", func(f *flaws) { f.openAfterClose = true }},
		{"reason-missing", sdk.O1, "a capability is declared unsupported without a reason", func(f *flaws) {
			f.describe = func(d *sdk.Description) {
				d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported}
			}
		}},
	}
}
