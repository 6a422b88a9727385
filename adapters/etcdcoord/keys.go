package etcdcoord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// names are the keys of a request.
type names struct {
	counter, queue, place, record string
}

func (c *Coordinator) names(k registry.Key) names {
	n := c.resource(k.Resource)
	h := sha256.New()
	h.Write([]byte(strconv.Itoa(len(k.Owner)) + ":" + k.Owner + k.RequestID))
	id := hex.EncodeToString(h.Sum(nil))
	n.place, n.record = n.queue+id, n.record+id
	return n
}

// resource names what belongs to no request; queue and record are prefixes.
func (c *Coordinator) resource(r sdk.ResourceID) names {
	sum := sha256.Sum256([]byte(r))
	id := hex.EncodeToString(sum[:])
	return names{counter: c.prefix + "c/" + id, queue: c.prefix + "q/" + id + "/", record: c.prefix + "r/" + id + "/"}
}

// place is the value of a queue key; the token is there once it is granted.
type place struct {
	Resource  string `json:"resource"`
	Owner     string `json:"owner"`
	RequestID string `json:"requestId"`
	Token     string `json:"fenceToken,omitempty"`
}

func newPlace(k registry.Key, t sdk.Token) string {
	p := place{Resource: string(k.Resource), Owner: k.Owner, RequestID: k.RequestID}
	if t > 0 {
		p.Token = t.String()
	}
	return encode(p)
}

// record is the value of a record key.
type record struct {
	Resource  string `json:"resource"`
	Owner     string `json:"owner"`
	RequestID string `json:"requestId"`
	Token     string `json:"fenceToken"`
	Lease     string `json:"lease"` // in hex, as etcdctl shows it
	TTL       int64  `json:"ttlMillis"`
	Params    []byte `json:"params"`
	Note      []byte `json:"note"`
	Released  bool   `json:"released,omitempty"`
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("etcdcoord: " + err.Error()) // names were checked to be UTF-8
	}
	return string(b)
}

func damaged(key []byte, err error) error {
	return sdk.Errorf(sdk.Unsuitable, "record", "the key %q was not written by this version: %w", key, err)
}

// parseCounter reads the sequence; 0 if there is none.
func parseCounter(kvs []*mvccpb.KeyValue) (sdk.Token, error) {
	if len(kvs) == 0 {
		return 0, nil
	}
	t, err := sdk.ParseToken(string(kvs[0].Value))
	if err != nil {
		return 0, damaged(kvs[0].Key, err)
	}
	return t, nil
}

// held is a record with what the queue says of it.
type held struct {
	registry.Record
	lease     clientv3.LeaseID
	retention clientv3.LeaseID
	mod       int64 // revision of the record
	wire      record
}

// parseRecord reads a record and the queue key beside it; nil if there is none.
func parseRecord(k registry.Key, records, places []*mvccpb.KeyValue, observed int64) (*held, error) {
	if len(records) == 0 {
		return nil, nil
	}
	kv := records[0]
	h := &held{retention: clientv3.LeaseID(kv.Lease), mod: kv.ModRevision}
	w := &h.wire
	if err := json.Unmarshal(kv.Value, w, json.RejectUnknownMembers(true)); err != nil {
		return nil, damaged(kv.Key, err)
	}
	lease, err := strconv.ParseInt(w.Lease, 16, 64)
	if err != nil {
		return nil, damaged(kv.Key, err)
	}
	t, err := sdk.ParseToken(w.Token)
	if err != nil {
		return nil, damaged(kv.Key, err)
	}
	if w.Resource != string(k.Resource) || w.Owner != k.Owner || w.RequestID != k.RequestID {
		return nil, damaged(kv.Key, sdk.Errorf(sdk.Unsuitable, "record", "it is of another request"))
	}
	h.lease = clientv3.LeaseID(lease)
	h.Record = registry.Record{Ref: registry.Ref{Key: k, Token: t}, Lease: w.Lease, Revision: uint64(kv.CreateRevision),
		TTL: time.Duration(w.TTL) * time.Millisecond, Params: w.Params, Note: w.Note, State: grant.StateExpired, Observed: uint64(observed)}
	switch {
	case w.Released:
		h.State = grant.StateReleased
	case len(places) > 0 && string(places[0].Value) == newPlace(k, t):
		h.State = grant.StateHeld
	}
	return h, nil
}

// txn sends one transaction, once, and notes the revision that it was answered
// at.
func (c *Coordinator) txn(ctx context.Context, p phase, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	c.mu.Lock()
	closed, before := c.closed, c.revision
	c.mu.Unlock()
	if closed {
		return nil, sdk.Errorf(sdk.Closed, "", "the coordinator was closed")
	}
	if err := ctx.Err(); err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "etcd", "nothing was sent: %w", err)
	}
	r, err := c.client.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return nil, classify(p, wrapped(ctx, err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := r.Header.Revision; at < before {
		// Not beside a slower answer: this one was asked for after the other came.
		c.back++
		c.revision = at
		c.log.Error("the cluster's revision went back; it was restored from a snapshot", "from", before, "to", at)
	} else {
		c.revision = max(c.revision, at)
	}
	return r, nil
}

// saw remembers a token of the sequence.
func (c *Coordinator) saw(r sdk.ResourceID, t sdk.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r] = max(c.seen[r], t)
}

// mark is what a handle knew of a resource before it asked. An answer is compared
// with nothing that became known meanwhile: that would be a false alarm.
type mark struct {
	resource sdk.ResourceID
	seen     sdk.Token
}

func (c *Coordinator) mark(r sdk.ResourceID) mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	return mark{r, c.seen[r]}
}

// check compares the sequence, read after a mark was taken, with what was known
// by then and what the caller knows.
func (c *Coordinator) check(m mark, at, floor sdk.Token) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := max(m.seen, floor)
	if at < known {
		return registry.WentBack(m.resource, at, known)
	}
	if c.cleared[m.resource] != c.back {
		return sdk.Errorf(sdk.FenceRegression, "revision", "the cluster was restored from a snapshot, and tokens of %q that were issued since may be lost; stop its writers and raise the floor above the highest stored fence", m.resource)
	}
	c.seen[m.resource] = max(c.seen[m.resource], at)
	return nil
}

// behind reports whether a number is below what this handle saw, or the handle
// does not grant for the resource.
func (c *Coordinator) behind(r sdk.ResourceID, at sdk.Token) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return at < c.seen[r] || c.cleared[r] != c.back
}
