package cas

import (
	"bytes"
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// Apply implements sdk.FencedStore.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	out, err := s.apply(ctx, a)
	if err != nil && out.Code == 0 {
		out = sdk.Refusal(err)
	}
	return out, err
}

func (s *Store) apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a)
	if err != nil {
		return sdk.Outcome{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.Outcome{}, err
	}
	defer s.leave()
	t := &try{store: s, names: namesOf(s.namespace, m.Resource), admission: a, mutation: m, nonce: newNonce()}
	// What this handle saw last is a good guess: the commit is on the condition
	// that it still holds. It is no basis for a refusal.
	base, guess := s.heads.get(string(m.Resource))
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if !guess {
			if base, err = s.fresh(ctx, m.Resource); err != nil {
				return sdk.Outcome{}, t.unsent(err)
			}
		}
		out, done, err := t.once(ctx, base, guess)
		if done {
			return out, err
		}
		guess = false
		if base == nil {
			if t.refused++; t.refused > maxRefused {
				return sdk.Outcome{}, sdk.Errorf(sdk.Unsuitable, "head", "%d times the store refused to create it since it is there, and said that it is not: it is deleted and kept at once, or reads are not of what writes see", t.refused)
			}
		}
		if t.lost++; t.lost > 2 && !pause(ctx, wait) {
			return sdk.Outcome{}, sdk.Errorf(sdk.NotApplied, "head", "other writers were faster until the context ended; nothing was applied: %w", ctx.Err())
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxRefused is how often creating a head may lose to one that then is not there.
const maxRefused = 10

// try is one Apply.
type try struct {
	store     *Store
	names     names
	admission sdk.Admission
	mutation  *sdk.Mutation
	nonce     string
	lost      int // swaps that others won
	refused   int // of these, without a head before
}

// unsent is the error of a read before anything was sent that could change a
// verdict.
func (t *try) unsent(err error) error {
	switch sdk.CodeOf(err) {
	case sdk.FenceRegression, sdk.Unsuitable, sdk.Closed, sdk.NotApplied, sdk.Invalid, sdk.TooLarge:
		return err
	}
	return sdk.Errorf(sdk.NotApplied, "", "the head was not replaced: %w", err)
}

// once judges by base, nil for none, and swaps. done is false when another
// writer was faster, or the guess was too old to refuse by.
func (t *try) once(ctx context.Context, base *known, guess bool) (out sdk.Outcome, done bool, err error) {
	s, m := t.store, t.mutation
	var state sdk.FenceState
	if base != nil {
		state = base.state
	}
	prior, err := s.receiptOf(ctx, base, m.Resource, m.Operation)
	if err != nil {
		return t.failed(ctx, base, guess, err)
	}
	d := sdk.Decide(state, prior, t.admission)
	if d.Code != sdk.Accepted && guess {
		return sdk.Outcome{}, false, nil
	}
	// F7: whatever the answer, a head has its marker before it is given.
	if err := s.marked(ctx, t.names, base); err != nil {
		if d.Code == sdk.Replayed {
			return sdk.Outcome{}, true, unmarked(t.names, err)
		}
		return sdk.Outcome{}, true, t.unsent(err)
	}
	if d.Code != sdk.Accepted {
		if d.Code == sdk.Quarantined {
			if err := s.putQuarantine(ctx, t.names, m); err != nil {
				return sdk.Outcome{}, true, sdk.Errorf(sdk.NotApplied, "quarantine", "the conflict could not be put on record; nothing was applied: %w", err)
			}
		}
		out, err := d.Outcome()
		return out, true, err
	}
	next, w, err := t.build(ctx, base, &d)
	if err != nil {
		return t.failed(ctx, base, guess, err)
	}
	return t.swap(ctx, base, next, w, &d)
}

// failed says what an error means that came while base's parts were read or new
// ones written. A base that is not the head any more tells nothing: its parts
// may have been cleaned up.
func (t *try) failed(ctx context.Context, base *known, guess bool, err error) (sdk.Outcome, bool, error) {
	if !guess && base != nil && sdk.CodeOf(err) == sdk.Unsuitable {
		k, ferr := t.store.fresh(ctx, t.mutation.Resource)
		guess = ferr == nil && k != nil && k.head.Nonce != base.head.Nonce
	}
	if guess {
		t.nonce = newNonce() // names of parts are not used again
		return sdk.Outcome{}, false, nil
	}
	return sdk.Outcome{}, true, t.unsent(err)
}

// wire is a head as it is written.
type wire struct {
	state, content []byte
}

// build writes the parts and returns the next head, which refers to them.
func (t *try) build(ctx context.Context, base *known, d *sdk.Decision) (*head, wire, error) {
	s, m := t.store, t.mutation
	next := &head{Schema: headSchema, Resource: string(m.Resource), Values: map[string]content{}}
	var sequence uint64
	if base != nil {
		next = base.head.clone()
		next.Schema, next.Resource = headSchema, string(m.Resource)
		next.Marked = base.head.fenced()
		sequence, _ = base.head.sequence() // parseHead has checked it; 0 where nobody has fenced yet
	}
	next.Sequence, next.Nonce, next.Fence = decimal(sequence+1), t.nonce, fenceOf(d.Next)
	st := &staging{names: t.names, sequence: sequence, nonce: t.nonce}
	result, err := s.stage(ctx, st, m.Result)
	if err != nil {
		return nil, wire{}, err
	}
	next.Recent = append(next.Recent, receiptOf(d.Receipt, result))
	limit := s.maxHead
	for _, e := range m.Effects {
		if e.Kind == sdk.KindPut {
			limit = s.maxHead - s.maxHead/8
		}
		if err := t.effect(ctx, next, st, e); err != nil {
			return nil, wire{}, err
		}
	}
	if len(next.Recent) > maxRecent {
		if err := s.seal(ctx, next, st, keepRecent); err != nil {
			return nil, wire{}, err
		}
	}
	w, err := s.encode(ctx, next, st, limit)
	if sdk.CodeOf(err) == sdk.TooLarge && len(next.Recent) > 1 {
		if err := s.seal(ctx, next, st, 1); err != nil {
			return nil, wire{}, err
		}
		w, err = s.encode(ctx, next, st, limit)
	}
	return next, w, err
}

// encode turns a head into what is written, TOO_LARGE above limit.
func (s *Store) encode(ctx context.Context, h *head, st *staging, limit int) (wire, error) {
	if s.together != nil {
		return s.split(ctx, h, st, limit)
	}
	body, err := json.Marshal(h)
	if err != nil {
		return wire{}, sdk.Errorf(sdk.NotApplied, "head", "%w", err)
	}
	return wire{state: body}, checkHead(body, limit)
}

func checkHead(body []byte, limit int) error {
	if len(body) > limit {
		return sdk.Errorf(sdk.TooLarge, "resource", "its head would have %d bytes, above %d: too many keys in one resource; what lies above is kept for claims and deletes", len(body), limit)
	}
	return nil
}

// putHead swaps the head.
func (s *Store) putHead(ctx context.Context, n names, r sdk.ResourceID, w wire, version string) (bool, string, error) {
	if s.together != nil {
		return s.together.PutHead(ctx, r, w.state, w.content, version)
	}
	return s.objects.PutIf(ctx, n.head(), w.state, version)
}

// stage keeps small content inline and writes large content into a part.
func (s *Store) stage(ctx context.Context, st *staging, b []byte) (content, error) {
	if len(b) <= s.inline {
		return content{Inline: append([]byte(nil), b...)}, nil
	}
	p := partOf(st.next(), b)
	return content{Part: p}, s.objects.PutNew(ctx, p.Name, b)
}

// effect carries one effect out on a head that is being built. The forms were
// checked by Mutation.Validate.
func (t *try) effect(ctx context.Context, h *head, st *staging, e sdk.Effect) error {
	switch e.Kind {
	case sdk.KindPut:
		key, value, _ := sdk.ParsePut(e.Body)
		if t.store.together != nil && key == t.store.adapter.ContentKey {
			h.Values[key] = content{Inline: bytes.Clone(value)}
			return nil
		}
		c, err := t.store.stage(ctx, st, value)
		h.Values[key], h.dirty = c, true
		return err
	case sdk.KindDelete:
		key, _ := sdk.ParseDelete(e.Body)
		delete(h.Values, key)
		h.dirty = h.dirty || key != t.store.adapter.ContentKey
	case sdk.KindResolve:
		key, _ := sdk.ParseResolve(e.Body)
		name := t.names.quarantine(key)
		if _, done := h.Resolved[name]; done {
			return nil
		}
		if _, _, err := t.store.objects.Get(ctx, name); err != nil {
			if sdk.CodeOf(err) == sdk.NotFound {
				return nil
			}
			return err
		}
		if h.Resolved == nil {
			h.Resolved = map[string]string{}
		}
		h.Resolved[name], h.dirty = string(t.mutation.Operation), true
	}
	return nil
}

// swap sends the head, and settles an answer that was lost.
func (t *try) swap(ctx context.Context, base *known, next *head, w wire, d *sdk.Decision) (out sdk.Outcome, done bool, err error) {
	s, m := t.store, t.mutation
	if err := ctx.Err(); err != nil {
		return sdk.Outcome{}, true, sdk.Errorf(sdk.NotApplied, "", "the head was not replaced: %w", err)
	}
	version := ""
	if base != nil {
		version = base.version
	}
	swapped, now, err := s.putHead(ctx, t.names, m.Resource, w, version)
	switch {
	case err != nil && sdk.WriteCode(err) != sdk.MutationUnknown:
		s.heads.drop(string(m.Resource))
		return sdk.Outcome{}, true, err
	case err != nil:
		s.heads.drop(string(m.Resource))
		return t.settle(ctx, base, d, err)
	case !swapped:
		return sdk.Outcome{}, false, nil
	}
	s.keep(m.Resource, &known{next, d.Next, now})
	return t.accepted(ctx, next.Marked, d)
}

// accepted answers once the marker is known to be there.
func (t *try) accepted(ctx context.Context, marked bool, d *sdk.Decision) (sdk.Outcome, bool, error) {
	if !marked {
		if err := t.store.mark(ctx, t.names); err != nil {
			return sdk.Outcome{}, true, unmarked(t.names, err)
		}
	}
	out, err := d.Outcome()
	return out, true, err
}

// settle finds out what became of a swap without an answer. The base's version
// never comes back, so once the head is another one the swap has landed or
// never will.
func (t *try) settle(ctx context.Context, base *known, d *sdk.Decision, lost error) (sdk.Outcome, bool, error) {
	s, m := t.store, t.mutation
	unknown := func(why error) (sdk.Outcome, bool, error) {
		return sdk.Outcome{}, true, sdk.Errorf(sdk.MutationUnknown, "head", "the answer was lost (%v), and what became of it cannot be told: %w", lost, why)
	}
	k, err := s.fresh(ctx, m.Resource)
	if err != nil {
		return unknown(err)
	}
	if k != nil && k.head.Nonce == t.nonce {
		return t.accepted(ctx, k.head.Marked, d)
	}
	if k == nil || base != nil && k.head.Nonce == base.head.Nonce {
		return unknown(lost) // it may yet land
	}
	receipt, err := s.receiptOf(ctx, k, m.Resource, m.Operation)
	if err != nil {
		return unknown(err)
	}
	if receipt != nil && receipt.Echoes(m) {
		return sdk.Outcome{Code: sdk.Replayed, Receipt: receipt, Observed: k.state}, true, nil
	}
	// Another head took the base's place: this swap's condition can never hold.
	t.nonce = newNonce()
	return sdk.Outcome{}, false, nil
}

func unmarked(n names, err error) error {
	return sdk.Errorf(sdk.MutationUnknown, n.marker(), "the head was written and its marker, without which it is not safe, could not be: %w", err)
}

// mark writes the marker, which may be there already.
func (s *Store) mark(ctx context.Context, n names) error {
	body := []byte(`{"schema":"fencedstore.marker.v1"}`)
	_, _, err := s.objects.PutIf(ctx, n.marker(), body, "")
	if err == nil || sdk.WriteCode(err) != sdk.MutationUnknown {
		return err
	}
	if _, _, gerr := s.objects.Get(ctx, n.marker()); gerr == nil {
		return nil
	}
	return err
}

// marked makes sure that the marker of a head is there. The first head says
// nothing of it; every later one was written after it.
func (s *Store) marked(ctx context.Context, n names, k *known) error {
	if k == nil || k.head.Marked || !k.head.fenced() {
		return nil
	}
	if _, _, err := s.objects.Get(ctx, n.marker()); sdk.CodeOf(err) != sdk.NotFound {
		return err
	}
	return s.mark(ctx, n)
}
