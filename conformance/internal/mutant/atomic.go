package mutant

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

const betweenSteps = "the gap between two steps is seen only by a call that falls into it"

// unchecked lets effects through that the description refuses.
func unchecked(f *flaws) {
	f.check = func(_ *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) { return a.Mutation() }
}

func atomicity() []Mutant {
	return []Mutant{
		{Name: "check-then-write", Law: sdk.F6, Story: "read, compare, then an unconditional write (C53, C69)", Concurrent: betweenSteps,
			bend: func(f *flaws) { f.unlocked = anyTime }},
		{Name: "receipt-in-second-write", Law: sdk.F6, Story: "the fence is written first, receipt and effects after it", Concurrent: betweenSteps,
			bend: func(f *flaws) { f.fenceFirst = true }},
		{Name: "fence-in-second-write", Law: sdk.F6, Story: "effects and receipt are written first, the fence after them (C45)", Concurrent: betweenSteps,
			bend: func(f *flaws) { f.fenceLast = true }},
		{Name: "refused-effects-stay", Law: sdk.F6, Story: "effects go out in one batch with the fence and are not taken back when it is refused (C56)",
			bend: func(f *flaws) {
				f.answer = func(s *store, m *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
					if out.Code == sdk.StaleOwner || out.Code == sdk.SegmentSkipped || out.Code == sdk.RootMismatch {
						rec := s.data.record(s.namespace, m.Resource)
						rec.lock <- struct{}{}
						_ = effects(s, rec, m)
						<-rec.lock
					}
					return out, err
				}
			}},
		{Name: "refusal-leaves-receipt", Law: sdk.F6, Story: "the receipt is inserted before the fence is compared, in a statement of its own",
			bend: early(sdk.SegmentSkipped, func(s *store, rec *record, m *sdk.Mutation) {
				if rec.receipts[m.Operation] == nil && !rec.state.Absent() {
					s.data.putReceipt(rec, m, receiptOf(m))
				}
			})},
		{Name: "first-effect-only", Law: sdk.F6, Story: "the loop over effects ends early",
			bend: func(f *flaws) {
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					if len(m.Effects) > 0 {
						s.effect(rec, m, m.Effects[0])
					}
					return nil
				}
			}},
		{Name: "half-on-bad-effect", Law: sdk.F6, Story: "effects are written one by one until one is found that the store does not take (C67)",
			bend: func(f *flaws) {
				unchecked(f)
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					for _, e := range m.Effects {
						if !slices.Contains(sdk.PortableKinds(), e.Kind) {
							return sdk.Errorf(sdk.Unsupported, "effect kind", "%q", e.Kind)
						}
						if len(e.Body) > maxValue {
							return sdk.Errorf(sdk.TooLarge, "effect", "%d bytes", len(e.Body))
						}
						s.effect(rec, m, e)
					}
					return nil
				}
			}},
		{Name: "effects-dropped", Law: sdk.F6, Story: "fence and receipt are written, the effects are left to a queue that nobody reads",
			bend: func(f *flaws) { f.apply = func(*store, *record, *sdk.Mutation) error { return nil } }},
		{Name: "effects-in-chunks", Law: sdk.F6, Story: "a batch limit of the server splits the effects, and the second batch gets lost",
			bend: func(f *flaws) {
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					for _, e := range m.Effects[:min(len(m.Effects), 10)] {
						s.effect(rec, m, e)
					}
					return nil
				}
			}},
		{Name: "takeover-wipes-values", Law: sdk.F6, Story: "a takeover puts a new item in place of the old one",
			bend: func(f *flaws) {
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					if m.Fence > rec.state.Highest {
						clear(rec.values)
					}
					return effects(s, rec, m)
				}
			}},
		{Name: "limits-not-kept", Law: sdk.F6, Story: "the declared limit is not looked at, and the server's is another (C58)",
			bend: func(f *flaws) {
				f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
					c := *d
					c.Limits = sdk.Limits{}
					return c.Check(a)
				}
			}},
		{Name: "limit-off-by-one", Law: sdk.F6, Story: "less than the limit in place of up to the limit",
			bend: func(f *flaws) {
				f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
					c := *d
					c.Limits.ValueBytes--
					return c.Check(a)
				}
			}},
		{Name: "kind-ignored", Law: sdk.F6, Story: "an effect of an unknown kind is skipped and the mutation accepted", bend: unchecked},
	}
}

func values() []Mutant {
	return []Mutant{
		{Name: "result-not-kept", Law: sdk.F6, Story: "the receipt is written without its result",
			bend: committed(func(_ *store, _ *record, _ *sdk.Mutation, kept *sdk.Receipt) { kept.Result = nil })},
		{Name: "result-truncated", Law: sdk.F6, Story: "a column of 4 KiB for the result",
			bend: committed(func(_ *store, _ *record, _ *sdk.Mutation, kept *sdk.Receipt) {
				kept.Result = kept.Result[:min(len(kept.Result), 4<<10)]
			})},
		{Name: "result-as-text", Law: sdk.F6, Story: "the result goes through a text column or JSON, which repairs what is not UTF-8",
			bend: committed(func(_ *store, _ *record, _ *sdk.Mutation, kept *sdk.Receipt) {
				kept.Result = bytes.ToValidUTF8(kept.Result, []byte("?"))
			})},
		{Name: "receipt-time-in-seconds", Law: sdk.F6, Story: "a timestamp column without milliseconds",
			bend: committed(func(_ *store, _ *record, _ *sdk.Mutation, kept *sdk.Receipt) { kept.Time = kept.Time.Truncate(1e9) })},
		{Name: "receipt-owner-missing", Law: sdk.F6, Story: "the receipt does not say who wrote",
			bend: committed(func(_ *store, _ *record, _ *sdk.Mutation, kept *sdk.Receipt) { kept.Owner = "" })},
		{Name: "receipt-root-missing", Law: sdk.F6, Story: "the receipt does not say for which job",
			bend: committed(func(_ *store, _ *record, _ *sdk.Mutation, kept *sdk.Receipt) { kept.Root = sdk.Digest{} })},
		{Name: "value-as-text", Law: sdk.F6, Story: "values go through a text column or JSON, which repairs what is not UTF-8",
			bend: put(func(s *store, rec *record, m *sdk.Mutation, key string, v []byte) {
				s.data.putValue(rec, m.Resource, key, append([]byte{}, bytes.ToValidUTF8(v, []byte("?"))...))
			})},
		{Name: "value-ends-at-zero-byte", Law: sdk.F6, Story: "values are C strings somewhere on their way",
			bend: put(func(s *store, rec *record, m *sdk.Mutation, key string, v []byte) {
				v, _, _ = bytes.Cut(v, []byte{0})
				s.data.putValue(rec, m.Resource, key, append([]byte{}, v...))
			})},
		{Name: "value-trimmed", Law: sdk.F6, Story: "a fixed-width column pads and trims",
			bend: put(func(s *store, rec *record, m *sdk.Mutation, key string, v []byte) {
				s.data.putValue(rec, m.Resource, key, append([]byte{}, bytes.TrimRight(v, " ")...))
			})},
		{Name: "empty-value-not-set", Law: sdk.F6, Story: "an empty value is stored as NULL and reads as absent",
			bend: put(func(s *store, rec *record, m *sdk.Mutation, key string, v []byte) {
				if len(v) > 0 {
					s.data.putValue(rec, m.Resource, key, bytes.Clone(v))
				} else {
					s.data.putValue(rec, m.Resource, key, nil)
				}
			})},
		{Name: "empty-value-nil", Law: sdk.F6, Story: "an empty value reads as nil, like one that is not there",
			bend: func(f *flaws) {
				f.read = func(_ *store, _ *record, _ sdk.ResourceID, key string, v []byte) ([]byte, error) {
					if v == nil {
						return nil, noKey(key)
					}
					return append([]byte(nil), v...), nil
				}
			}},
		{Name: "put-keeps-old-value", Law: sdk.F6, Story: "INSERT … ON CONFLICT DO NOTHING for values",
			bend: put(func(s *store, rec *record, m *sdk.Mutation, key string, v []byte) {
				if _, there := s.data.value(rec, m.Resource, key); !there {
					s.data.putValue(rec, m.Resource, key, append([]byte{}, v...))
				}
			})},
		{Name: "delete-ignored", Law: sdk.F6, Story: "a delete is accepted and left to a clean-up that never runs (C107)",
			bend: func(f *flaws) {
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					for _, e := range m.Effects {
						if e.Kind != sdk.KindDelete {
							s.effect(rec, m, e)
						}
					}
					return nil
				}
			}},
		{Name: "delete-by-prefix", Law: sdk.F12, Story: "a delete takes every key that begins like the one named",
			bend: func(f *flaws) {
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					for _, e := range m.Effects {
						s.effect(rec, m, e)
						for k := range rec.values {
							if e.Kind == sdk.KindDelete && strings.HasPrefix(k, string(e.Body)) {
								delete(rec.values, k)
							}
						}
					}
					return nil
				}
			}},
		{Name: "bytes-aliased", Law: sdk.F6, Story: "the store's own slices are given away, and change with what callers do to them",
			bend: func(f *flaws) { f.aliased = true }},
	}
}

func hooks() []Mutant {
	undeclared := func(d *sdk.Description) {
		d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.NotSupported, Reason: "no transactions"}
	}
	return []Mutant{
		{Name: "hook-ignored", Law: sdk.F6, Story: "a hook is accepted and never run", bend: func(f *flaws) { f.hookIgnored = true }},
		{Name: "hook-ignored-undeclared", Law: sdk.F6, Story: "a store that runs no hooks accepts the mutation without its hook",
			bend: func(f *flaws) {
				unchecked(f)
				f.describe, f.hookIgnored = undeclared, true
			}},
		{Name: "hook-run-undeclared", Law: sdk.F6, Story: "a store that runs no hooks in its transaction runs them outside it",
			bend: func(f *flaws) {
				unchecked(f)
				f.describe = undeclared
			}},
		{Name: "hook-error-commits", Law: sdk.F6, Story: "the error of the caller's code is logged, and the transaction committed (C9)",
			bend: func(f *flaws) { f.hookErrorKept = true }},
		{Name: "hook-result-lost", Law: sdk.F6, Story: "what the caller's code returned is not in the receipt",
			bend: func(f *flaws) { f.hookResult = func([]byte) []byte { return nil } }},
	}
}

func natives() []Mutant {
	return []Mutant{
		{Name: "native-scope-ignored", Law: sdk.F12, Story: "native effects are carried out whatever the scope function says",
			bend: func(f *flaws) { f.native, f.noScope = true, true }},
		{Name: "native-scope-optional", Law: sdk.F12, Story: "without a scope function every native effect is allowed",
			bend: func(f *flaws) { f.native, f.scopeOption = true, true }},
		{Name: "native-own-tables", Law: sdk.F7, Story: "a native statement may name the fence's own table",
			bend: func(f *flaws) { f.native, f.ownTables = true, true }},
		{Name: "native-fails-halfway", Law: sdk.F6, Story: "a native statement fails and those before it stay (C54)",
			bend: func(f *flaws) {
				f.native, f.nativeLate = true, true
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					for _, e := range m.Effects {
						if fails(e) {
							return full(e)
						}
						s.effect(rec, m, e)
					}
					return nil
				}
			}},
		{Name: "native-failure-swallowed", Law: sdk.F6, Story: "a native statement's error is dropped and the rest committed (C9)",
			bend: func(f *flaws) { f.native, f.nativeLate = true, true }},
		{Name: "native-before-verdict", Law: sdk.F12, Story: "native statements run first, on a connection of their own, so that a refusal does not take them back",
			bend: func(f *flaws) {
				f.native = true
				f.before = func(s *store, rec *record, m *sdk.Mutation) {
					if honest(rec.state, rec.receipts[m.Operation], m).Code != sdk.Accepted {
						_ = effects(s, rec, m)
					}
				}
			}},
		{Name: "native-kind-undeclared", Law: sdk.F12, Story: "a store that declares no native effects lists a kind of its own and takes it",
			bend: func(f *flaws) {
				f.describe = func(d *sdk.Description) { d.Kinds = append(d.Kinds, "sql.exec.v1") }
			}},
	}
}
