package cas

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// In layout "object" a head lies beside the value of one key, in little room: a
// part, its rest, holds the receipts that do not fit and all other keys. The
// head then names the rest, has the receipts since, and the size and hash of the
// value beside it: a head that something else than this program has put before
// another value is a damaged one.

const (
	restSchema = "fencedstore.rest.v1"
	// inlineBeside is the longest result that lies in such a head.
	inlineBeside = 64
	// keepContent is the longest value that a handle remembers with its head; with
	// a longer one each write reads first.
	keepContent = 64 << 10
)

type rest struct {
	Schema   string             `json:"schema"`
	Recent   []receipt          `json:"recent"`
	Values   map[string]content `json:"values"`
	Resolved map[string]string  `json:"resolved,omitempty"`
}

type beside struct {
	Size   int        `json:"size"`
	SHA256 sdk.Digest `json:"sha256"`
}

// split turns a head into state and content, and writes the rest if it has to.
func (s *Store) split(ctx context.Context, h *head, st *staging, limit int) (wire, error) {
	w := wire{content: []byte{}}
	h.Content = nil
	if c, ok := h.Values[s.adapter.ContentKey]; ok {
		w.content = c.Inline
		h.Content = &beside{len(c.Inline), sha256.Sum256(c.Inline)}
	}
	if h.dirty {
		if err := s.putRest(ctx, h, st, limit); err != nil {
			return wire{}, err
		}
	}
	state, err := s.short(h)
	if err == nil && len(state) > s.adapter.StateBytes && h.inRest < len(h.Recent)-1 {
		if err = s.putRest(ctx, h, st, limit); err == nil {
			state, err = s.short(h)
		}
	}
	if err != nil {
		return wire{}, err
	}
	if len(state) > s.adapter.StateBytes {
		return wire{}, sdk.Errorf(sdk.TooLarge, "operation", "with its owner it needs %d bytes beside the object, which takes %d; use shorter names", len(state), s.adapter.StateBytes)
	}
	w.state = state
	return w, nil
}

// deflaters are large, and used again.
var deflaters = sync.Pool{New: func() any {
	z, err := flate.NewWriter(nil, flate.BestCompression)
	if err != nil {
		panic(err) // the level is one of the package's own
	}
	return z
}}

// short is the head without what lies in its rest or beside it.
func (s *Store) short(h *head) ([]byte, error) {
	c := *h
	sum := sdk.SumDigest([]byte(h.Resource))
	c.Resource, c.Recent, c.Values, c.Resolved = sum.String(), h.Recent[h.inRest:], nil, nil
	b, err := json.Marshal(&c)
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "head", "%w", err)
	}
	var out bytes.Buffer
	z := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(z)
	z.Reset(&out)
	z.Write(b) // into memory
	z.Close()
	return out.Bytes(), nil
}

func (s *Store) putRest(ctx context.Context, h *head, st *staging, limit int) error {
	h.inRest, h.dirty = len(h.Recent)-1, false
	r := &rest{Schema: restSchema, Recent: slices.Clone(h.Recent[:h.inRest]), Values: maps.Clone(h.Values), Resolved: h.Resolved}
	delete(r.Values, s.adapter.ContentKey)
	body, err := json.Marshal(r)
	if err != nil {
		return sdk.Errorf(sdk.NotApplied, "head", "%w", err)
	}
	if err := checkHead(body, limit); err != nil {
		return err
	}
	h.Rest = partOf(st.next(), body)
	if err := s.objects.PutNew(ctx, h.Rest.Name, body); err != nil {
		return err
	}
	s.rests.put(h.Rest.Name, r)
	return nil
}

// joined reads a head from beside its value. A rest that is missing is looked for
// again in a fresh head: another writer may have moved on and it been cleaned up.
func (s *Store) joined(ctx context.Context, r sdk.ResourceID) (*known, error) {
	for last, mixed := "", 0; ; {
		state, body, version, err := s.together.GetHead(ctx, r)
		if err != nil {
			return nil, err
		}
		if state == nil {
			return &known{&head{Values: map[string]content{s.adapter.ContentKey: {Inline: body}},
				Content: &beside{len(body), sha256.Sum256(body)}}, sdk.FenceState{}, version}, nil
		}
		h, fence, err := s.unpack(state, r)
		if err != nil {
			return nil, err
		}
		if !h.holds(body) {
			// Some servers mix the two up for a moment, see s3store.
			if mixed++; mixed < 3 {
				continue
			}
			return nil, damaged("head", "the object of %q is not the one that was written with it: something else than the gate has changed it", r)
		}
		err = s.join(ctx, h, body)
		if sdk.CodeOf(err) == sdk.Unsuitable && h.Nonce != last {
			last = h.Nonce
			continue
		}
		if err != nil {
			return nil, err
		}
		return &known{h, fence, version}, nil
	}
}

// holds reports whether body is the value that the head was written with.
func (h *head) holds(body []byte) bool {
	if h.Content == nil {
		return len(body) == 0
	}
	return len(body) == h.Content.Size && sha256.Sum256(body) == h.Content.SHA256
}

// join completes a head with its rest and the value beside it.
func (s *Store) join(ctx context.Context, h *head, body []byte) error {
	h.Values = map[string]content{}
	if h.Rest != nil {
		r, ok := s.rests.get(h.Rest.Name)
		if !ok {
			b, err := s.part(ctx, h.Rest)
			if err != nil {
				return err
			}
			r = new(rest)
			if err := unmarshal(h.Rest.Name, b, r); err != nil {
				return err
			}
			if r.Schema != restSchema {
				return damaged(h.Rest.Name, "it is a %q", r.Schema)
			}
			s.rests.put(h.Rest.Name, r)
		}
		h.inRest, h.Resolved = len(r.Recent), maps.Clone(r.Resolved)
		h.Recent = slices.Concat(r.Recent, h.Recent)
		maps.Copy(h.Values, r.Values)
	}
	if h.Content != nil {
		h.Values[s.adapter.ContentKey] = content{Inline: body}
	}
	return nil
}

func (s *Store) unpack(state []byte, r sdk.ResourceID) (*head, sdk.FenceState, error) {
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(state)), maxHeadBytes))
	if err != nil {
		return nil, sdk.FenceState{}, damaged("head", "%w", err)
	}
	h, fence, err := parseHead("head", b, sdk.ResourceID(sdk.SumDigest([]byte(r)).String()))
	if err != nil {
		return nil, sdk.FenceState{}, err
	}
	h.Resource = string(r)
	return h, fence, nil
}
