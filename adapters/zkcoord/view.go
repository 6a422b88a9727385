package zkcoord

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"github.com/go-json-experiment/json"
	"github.com/go-zookeeper/zk"
)

// place is the content of the holder's node.
type place struct {
	Resource  string `json:"resource"`
	Owner     string `json:"owner"`
	RequestID string `json:"requestId"`
	Token     string `json:"fenceToken"`
}

// record is the content of a request's node.
type record struct {
	Resource  string `json:"resource"`
	Owner     string `json:"owner"`
	RequestID string `json:"requestId"`
	Token     string `json:"fenceToken"`
	Attempt   string `json:"attempt"`
	TTL       int64  `json:"ttlMillis"`
	Params    []byte `json:"params"`
	Note      []byte `json:"note"`
	State     string `json:"state"`
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("zkcoord: " + err.Error()) // names were checked to be UTF-8
	}
	return b
}

// view is a resource as it was at one moment, with the record of one request.
type view struct {
	paths
	key     registry.Key
	counter sdk.Token
	version int32 // of the sequence

	held    bool // somebody holds the resource
	session int64
	holder  place

	record *registry.Record // nil if there is none
	wire   record
	rstat  zk.Stat
}

// mine reports whether the holder is this request.
func (v *view) mine() bool {
	return v.held && v.record != nil && v.holder == place{string(v.key.Resource), v.key.Owner, v.key.RequestID, v.record.Token.String()}
}

func damaged(path string, err error) error {
	return sdk.Errorf(sdk.Unsuitable, "node", "%s was not written by this version: %w", path, err)
}

// known is the highest token that this handle has seen of a resource.
func (c *Coordinator) known(r sdk.ResourceID) sdk.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[r]
}

func (c *Coordinator) saw(r sdk.ResourceID, t sdk.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r] = max(c.seen[r], t)
}

// look reads a resource and confirms by a multi that all of it held at one moment.
// known is from before the reads: what is seen meanwhile is no contradiction.
func (c *Coordinator) look(ctx context.Context, k registry.Key) (v *view, known sdk.Token, err error) {
	if err := c.ensure(ctx, k.Resource); err != nil {
		return nil, 0, err
	}
	for {
		known = c.known(k.Resource)
		v, err = c.read(ctx, k)
		if err != nil {
			return nil, 0, err
		}
		checks := []any{&zk.CheckVersionRequest{Path: v.sequence, Version: v.version}}
		if v.record != nil {
			checks = append(checks, &zk.CheckVersionRequest{Path: v.paths.record, Version: v.rstat.Version})
		}
		if v.held {
			checks = append(checks, &zk.CheckVersionRequest{Path: v.paths.holder, Version: -1})
		}
		switch err := c.multi(ctx, reading, checks...); {
		case err == nil:
			return v, known, nil
		case !moved(err):
			return nil, 0, err
		}
	}
}

func (c *Coordinator) read(ctx context.Context, k registry.Key) (*view, error) {
	v := &view{paths: c.paths(k), key: k}
	s, err := c.get(ctx, v.sequence)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, damaged(v.sequence, sdk.Errorf(sdk.FenceRegression, "node", "the sequence was deleted"))
	}
	n, err := sdk.ParseDecimal("sequence", string(s.data))
	if v.counter = sdk.Token(n); err != nil || v.counter > sdk.MaxToken {
		return nil, damaged(v.sequence, sdk.Errorf(sdk.Invalid, "sequence", "%q", s.data))
	}
	v.version = s.stat.Version
	h, err := c.get(ctx, v.paths.holder)
	if err != nil {
		return nil, err
	}
	if v.held = h != nil; v.held {
		v.session = h.stat.EphemeralOwner
		if err := json.Unmarshal(h.data, &v.holder, json.RejectUnknownMembers(true)); err != nil {
			return nil, damaged(v.paths.holder, err)
		}
	}
	r, err := c.get(ctx, v.paths.record)
	if err != nil || r == nil {
		return v, err
	}
	v.rstat = r.stat
	w := &v.wire
	if err := json.Unmarshal(r.data, w, json.RejectUnknownMembers(true)); err != nil {
		return nil, damaged(v.paths.record, err)
	}
	t, err := sdk.ParseToken(w.Token)
	if err != nil || w.Resource != string(k.Resource) || w.Owner != k.Owner || w.RequestID != k.RequestID {
		return nil, damaged(v.paths.record, sdk.Errorf(sdk.Invalid, "record", "of another request, or token %q", w.Token))
	}
	v.record = &registry.Record{Ref: registry.Ref{Key: k, Token: t}, Lease: w.Attempt, Revision: uint64(r.stat.Czxid),
		TTL: time.Duration(w.TTL) * time.Millisecond, Params: w.Params, Note: w.Note, State: grant.State(w.State),
		Observed: uint64(max(r.stat.Mzxid, s.stat.Mzxid))}
	if v.record.State == grant.StateHeld && !v.mine() {
		v.record.State = grant.StateExpired
	}
	return v, nil
}
