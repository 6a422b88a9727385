package mutant

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
)

func monotonic() []Mutant {
	return []Mutant{
		{Name: "fence-reset-on-delete", Law: sdk.F7, Story: "deleting the last key deletes the object that holds the fence, as a lease that is deleted when it is released",
			bend: committed(func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
				if deletesLast(rec, m) {
					rec.reset()
				}
			})},
		{Name: "fence-row-deleted", Law: sdk.F7, Story: "deleting the last key deletes the fence's row; receipts lie elsewhere, and a missing row is a fresh resource",
			bend: func(f *flaws) {
				f.blindToDamage = true
				f.committed = func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
					if deletesLast(rec, m) {
						rec.state = sdk.FenceState{}
					}
				}
			}},
		{Name: "fence-reset-on-open", Law: sdk.F7, Story: "opening the store writes its initial state",
			bend: func(f *flaws) { f.opened = (*record).reset }},
		{Name: "fence-reset-on-close", Law: sdk.F7, Story: "a worker that stops releases its lock by deleting the fence (C87, C101)",
			bend: func(f *flaws) {
				f.blindToDamage = true
				f.shut = func(d *data, _ *store) error {
					d.each(func(rec *record) { rec.state = sdk.FenceState{} })
					return nil
				}
			}},
		{Name: "segment-reset-on-open", Law: sdk.F7, Story: "the last segment is kept in memory only",
			bend: func(f *flaws) { f.opened = func(rec *record) { rec.state.Segment = min(rec.state.Segment, 1) } }},
		{Name: "grant-forgotten-on-open", Law: sdk.F7, Story: "the fence's grant and root are kept in memory only",
			bend: func(f *flaws) {
				f.opened = func(rec *record) { rec.state.Grant, rec.state.Root = sdk.Digest{}, sdk.Digest{} }
			}},
		{Name: "restored-on-open", Law: sdk.F7, Story: "opening restores the last checkpoint, which is one write old (C29)",
			bend: func(f *flaws) { f.opened = func(rec *record) { rec.state = rec.before } }},
		{Name: "absent-is-zero", Law: sdk.F7, Story: "a fence that was removed (TTL, lifecycle rule, by hand) is created afresh (C8, C20)",
			bend: func(f *flaws) { f.blindToDamage = true }},
		{Name: "damage-hidden-from-inspect", Law: sdk.F7, Story: "Inspect reads the fence alone, and calls a missing one fresh",
			bend: func(f *flaws) {
				f.inspect = func(_ *store, rec *record, _ sdk.ResourceID, _ sdk.FenceState, _ error) (sdk.FenceState, error) {
					return rec.state, nil
				}
			}},
		{Name: "damage-seen-by-inspect-only", Law: sdk.F7, Story: "only Inspect looks whether the fence is missing; Apply finds it out where its own operation has a receipt",
			bend: func(f *flaws) {
				f.blindToDamage = true
				f.inspect = func(_ *store, rec *record, _ sdk.ResourceID, state sdk.FenceState, _ error) (sdk.FenceState, error) {
					if state.Absent() && len(rec.receipts) > 0 {
						return sdk.FenceState{}, &sdk.Error{Code: sdk.FenceRegression, Field: "fence", Msg: "missing beside receipts", Alarm: true}
					}
					return state, nil
				}
			}},
		{Name: "fence-evicted", Law: sdk.F7, Story: "the store is a cache that forgets what was not used for long when it is full (C8, C84)",
			bend: committed(func(s *store, rec *record, _ *sdk.Mutation, _ *sdk.Receipt) { s.data.evict(rec, 200) })},
		{Name: "probe-leaves-fence", Law: sdk.F7, Story: "the probe writes to a resource that a team may use",
			bend: func(f *flaws) {
				f.probe = func(s *store, ctx context.Context) {
					if rec, unlock, err := s.acquire(ctx, "probe", true); err == nil {
						rec.state = sdk.FenceState{Highest: 1, Segment: 1}
						unlock()
					}
				}
			}},
		{Name: "probe-deletes-all", Law: sdk.F7, Story: "the probe cleans up by a prefix that is too short",
			bend: func(f *flaws) {
				f.probe = func(s *store, _ context.Context) { s.data.each(func(rec *record) { rec.reset() }) }
			}},
	}
}

// evict forgets what was not written to for longest, until n records are left.
func (d *data) evict(used *record, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock++
	used.used = d.clock
	for len(d.records) > n {
		oldest := ""
		for k, rec := range d.records {
			if oldest == "" || rec.used < d.records[oldest].used {
				oldest = k
			}
		}
		delete(d.records, oldest)
	}
}

func deletesLast(rec *record, m *sdk.Mutation) bool {
	for _, e := range m.Effects {
		if e.Kind == sdk.KindDelete && len(rec.values) == 0 {
			return true
		}
	}
	return false
}

// remembered keeps in the handle what it first saw under a name, and answers
// that from then on.
func remembered[T any](s *store, name string, now T) T {
	v, _ := s.memo.LoadOrStore(name, now)
	return v.(T)
}

func reads() []Mutant {
	return []Mutant{
		{Name: "judged-by-cache", Law: sdk.F8, Story: "each handle judges by the fence that it read at its first write, and overwrites what others wrote since (C12)",
			bend: func(f *flaws) {
				f.seen = func(s *store, m *sdk.Mutation, now sdk.FenceState) sdk.FenceState {
					return remembered(s, "fence "+string(m.Resource), now)
				}
				f.committed = func(s *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
					s.memo.Store("fence "+string(m.Resource), rec.state)
				}
			}},
		{Name: "stale-inspect", Law: sdk.F8, Story: "eventually consistent reads, or a cache in the handle",
			bend: func(f *flaws) {
				f.inspect = func(s *store, _ *record, r sdk.ResourceID, state sdk.FenceState, err error) (sdk.FenceState, error) {
					if err != nil {
						return state, err
					}
					return remembered(s, "inspect "+string(r), state), nil
				}
			}},
		{Name: "stale-receipt", Law: sdk.F8, Story: "'not found' is cached, or read from a replica",
			bend: func(f *flaws) {
				f.receipt = func(s *store, _ *record, r sdk.ResourceID, op sdk.OperationID, got *sdk.Receipt) (*sdk.Receipt, error) {
					name := "receipt " + string(r) + "\x00" + string(op)
					if _, missing := s.memo.LoadAndDelete(name); missing { // the cache's entry lives for one look-up
						return nil, nil
					}
					if got == nil {
						s.memo.Store(name, true)
					}
					return got, nil
				}
			}},
		{Name: "stale-read", Law: sdk.F8, Story: "values are read from a cache",
			bend: func(f *flaws) {
				f.read = func(s *store, _ *record, r sdk.ResourceID, key string, v []byte) ([]byte, error) {
					name := "read " + string(r) + "\x00" + key
					if v != nil {
						v = remembered(s, name, v)
					} else if old, ok := s.memo.Load(name); ok {
						v = old.([]byte)
					}
					if v == nil {
						return nil, noKey(key)
					}
					return append([]byte{}, v...), nil
				}
			}},
		{Name: "stale-quarantined", Law: sdk.F8, Story: "the list of records is cached in the handle",
			bend: func(f *flaws) {
				f.quarantine = func(s *store, _ *record, r sdk.ResourceID, all []sdk.Quarantine) []sdk.Quarantine {
					return remembered(s, "quarantine "+string(r), all)
				}
			}},
		{Name: "replica-lags", Law: sdk.F8, Story: "other handles read from a replica that is one write behind (C12, C76)",
			bend: func(f *flaws) {
				f.inspect = func(s *store, rec *record, _ sdk.ResourceID, state sdk.FenceState, err error) (sdk.FenceState, error) {
					if err == nil && rec.writer != nil && rec.writer != s {
						return rec.before, nil
					}
					return state, err
				}
			}},
		{Name: "replica-lacks-receipt", Law: sdk.F8, Story: "receipts are read from a replica that is one write behind",
			bend: func(f *flaws) {
				f.receipt = func(s *store, rec *record, _ sdk.ResourceID, op sdk.OperationID, got *sdk.Receipt) (*sdk.Receipt, error) {
					if n := len(rec.order); n > 0 && rec.order[n-1] == op && rec.writer != s {
						return nil, nil
					}
					return got, nil
				}
			}},
	}
}

func durability() []Mutant {
	return []Mutant{
		{Name: "not-durable", Law: sdk.F9, Story: "accepted means queued: what was not flushed is lost with the process",
			bend: func(f *flaws) { f.closed = (*record).reset }},
		{Name: "receipts-not-durable", Law: sdk.F9, Story: "receipts are a cache",
			bend: func(f *flaws) { f.blindToDamage, f.closed = true, func(rec *record) { clear(rec.receipts) } }},
		{Name: "values-not-durable", Law: sdk.F9, Story: "fence and receipt are synced, values are left to the operating system",
			bend: func(f *flaws) { f.closed = func(rec *record) { clear(rec.values) } }},
		{Name: "last-write-not-durable", Law: sdk.F9, Story: "each commit syncs the one before (C25)",
			bend: func(f *flaws) {
				f.before = func(_ *store, rec *record, m *sdk.Mutation) {
					state, op := rec.state, m.Operation
					if _, known := rec.receipts[op]; known || honest(state, nil, m).Code != sdk.Accepted {
						return
					}
					rec.undo = func() {
						rec.state = state
						delete(rec.receipts, op)
					}
				}
				f.closed = func(rec *record) {
					if rec.undo != nil {
						rec.undo()
						rec.undo = nil
					}
				}
			}},
		{Name: "accepted-not-stored", Law: sdk.F9, Story: "the acknowledgement comes before the commit, and one in seven commits fails (C24, C75)",
			bend: func(f *flaws) {
				f.committed = func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
					if len(rec.order)%7 == 0 && len(m.Effects) > 0 {
						rec.state, rec.order = rec.before, rec.order[:len(rec.order)-1]
						delete(rec.receipts, m.Operation)
					}
				}
			}},
		{Name: "quarantine-time-lost", Law: sdk.F9, Story: "what is read after a restart has lost its fraction of a second",
			bend: func(f *flaws) {
				f.closed = func(rec *record) {
					for _, q := range rec.quarantine {
						q.Time = q.Time.Truncate(1e9)
					}
				}
			}},
		{Name: "answers-after-close", Law: sdk.F9, Story: "a closed handle goes on answering", bend: func(f *flaws) { f.closedAnswers = true }},
		{Name: "close-closes-all", Law: sdk.F9, Story: "handles share one connection, and the first to close takes it from the others",
			bend: func(f *flaws) {
				var closed atomic.Bool
				f.shut = func(*data, *store) error {
					closed.Store(true)
					return nil
				}
				f.opened = func(*record) { closed.Store(false) } // which connects again
				f.answer = func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
					if closed.Load() {
						e := sdk.Errorf(sdk.Closed, "store", "the connection was closed")
						return sdk.Refusal(e), e
					}
					return out, err
				}
			}},
		{Name: "second-close-fails", Law: sdk.F9, Story: "Close passes on that the connection is closed already",
			bend: func(f *flaws) {
				f.shut = func(_ *data, again *store) error {
					if again != nil {
						return sdk.Errorf(sdk.Closed, "store", "closed already")
					}
					return nil
				}
			}},
		{Name: "results-not-durable", Law: sdk.F9, Story: "long results go to a file beside, which is not synced",
			bend: func(f *flaws) {
				f.closed = func(rec *record) {
					for op, r := range rec.receipts {
						if len(r.Result) > 100 {
							lost := *r
							lost.Result = bytes.Clone(r.Result[:100])
							rec.receipts[op] = &lost
						}
					}
				}
			}},
	}
}
