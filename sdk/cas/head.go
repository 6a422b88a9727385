package cas

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

const (
	headSchema   = "fencedstore.head.v1"
	bucketSchema = "fencedstore.bucket.v1"

	// InlineBytes is the longest value or result that lies in the head or a
	// bucket itself.
	InlineBytes = 2 << 10
	// maxHeadBytes bounds a head: the keys of a resource all have an entry in it.
	// The last eighth is not for new values, so that a full resource can still be
	// taken over and emptied.
	maxHeadBytes = 1 << 20
	// A head keeps between keepRecent and maxRecent receipts; then the older ones
	// are sealed. One that is full keeps fewer.
	keepRecent, maxRecent = 16, 48
)

// head is the object that a commit replaces. Integers are decimal strings: any
// program may read it.
type head struct {
	Schema   string             `json:"schema"`
	Resource string             `json:"resource"`
	Sequence string             `json:"sequence"` // of this head, from 1
	Nonce    string             `json:"nonce"`
	Marked   bool               `json:"marked"` // the marker is known to be there
	Fence    fence              `json:"fence"`
	Recent   []receipt          `json:"recent"` // the last ones, oldest first
	Archive  []shard            `json:"archive,omitempty"`
	Values   map[string]content `json:"values"`
	Resolved map[string]string  `json:"resolved,omitempty"` // quarantine object to operation

	// Of a head that lies beside a value, see split.go.
	Rest    *part   `json:"rest,omitzero"`
	Content *beside `json:"content,omitzero"`
	inRest  int     // how many of Recent are in Rest
	dirty   bool    // Rest has to be written anew
}

type fence struct {
	Highest string     `json:"highest"`
	Grant   sdk.Digest `json:"grant"`
	Root    sdk.Digest `json:"root"`
	Segment string     `json:"segment"`
	Policy  string     `json:"policyGeneration"`
	Trust   string     `json:"trustGeneration"`
}

type receipt struct {
	Operation string     `json:"operation"`
	Fence     string     `json:"fence"`
	Segment   string     `json:"segment"`
	Root      sdk.Digest `json:"root"`
	Grant     sdk.Digest `json:"grant"`
	Payload   sdk.Digest `json:"payload"`
	Owner     string     `json:"owner"`
	Time      string     `json:"timeMillis"`
	Result    content    `json:"result,omitzero"`
}

// content is bytes that lie here, or in a part.
type content struct {
	Inline []byte `json:"inline,omitempty"`
	Part   *part  `json:"part,omitzero"`
}

// part refers to an immutable object.
type part struct {
	Name   string     `json:"name"`
	Size   int        `json:"size"`
	SHA256 sdk.Digest `json:"sha256"`
}

func partOf(name string, body []byte) *part {
	return &part{Name: name, Size: len(body), SHA256: sha256.Sum256(body)}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func damaged(name, format string, args ...any) error {
	return sdk.Errorf(sdk.Unsuitable, name, "a damaged object: "+format, args...)
}

func unmarshal(name string, b []byte, v any) error {
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return damaged(name, "%w", err)
	}
	return nil
}

// parseHead reads a head strictly: whatever does not parse is UNSUITABLE, never
// a fence of 0.
func parseHead(name string, b []byte, r sdk.ResourceID) (*head, sdk.FenceState, error) {
	var h head
	if err := unmarshal(name, b, &h); err != nil {
		return nil, sdk.FenceState{}, err
	}
	if h.Schema != headSchema || h.Resource != string(r) {
		return nil, sdk.FenceState{}, damaged(name, "it is a %q of %q", h.Schema, h.Resource)
	}
	if _, err := h.sequence(); err != nil || len(h.Nonce) != 32 {
		return nil, sdk.FenceState{}, damaged(name, "sequence %q, nonce %q", h.Sequence, h.Nonce)
	}
	if err := parseShards(name, h.Archive); err != nil {
		return nil, sdk.FenceState{}, err
	}
	s, err := h.Fence.state()
	if err != nil {
		return nil, sdk.FenceState{}, damaged(name, "%w", err)
	}
	return &h, s, nil
}

func (h *head) sequence() (uint64, error) {
	n, err := sdk.ParseDecimal("sequence", h.Sequence)
	if err == nil && n == 0 {
		err = errors.New("sequence 0")
	}
	return n, err
}

func (f *fence) state() (s sdk.FenceState, err error) {
	if s.Highest, err = sdk.ParseToken(f.Highest); err != nil {
		return s, err
	}
	segment, err := sdk.ParseDecimal("segment", f.Segment)
	if err != nil {
		return s, err
	}
	if s.Generations.Policy, err = sdk.ParseDecimal("policyGeneration", f.Policy); err != nil {
		return s, err
	}
	if s.Generations.Trust, err = sdk.ParseDecimal("trustGeneration", f.Trust); err != nil {
		return s, err
	}
	s.Segment, s.Grant, s.Root = sdk.Segment(segment), f.Grant, f.Root
	if !s.Segment.Valid() || s.Grant.IsZero() || s.Root.IsZero() {
		return s, sdk.Errorf(sdk.Unsuitable, "fence", "segment %d, grant %q, root %q", segment, s.Grant, s.Root)
	}
	return s, nil
}

func fenceOf(s sdk.FenceState) fence {
	return fence{Highest: s.Highest.String(), Grant: s.Grant, Root: s.Root, Segment: s.Segment.String(),
		Policy: decimal(s.Generations.Policy), Trust: decimal(s.Generations.Trust)}
}

func receiptOf(r *sdk.Receipt, result content) receipt {
	return receipt{Operation: string(r.Operation), Fence: r.Fence.String(), Segment: r.Segment.String(), Root: r.Root, Grant: r.Grant,
		Payload: r.Payload, Owner: r.Owner, Time: strconv.FormatInt(r.Time.UnixMilli(), 10), Result: result}
}

// receipt turns a stored receipt into one without its result.
func (r *receipt) receipt(id sdk.ResourceID) (*sdk.Receipt, error) {
	out := &sdk.Receipt{Resource: id, Operation: sdk.OperationID(r.Operation), Root: r.Root, Grant: r.Grant, Payload: r.Payload, Owner: r.Owner}
	var err error
	if out.Fence, err = sdk.ParseToken(r.Fence); err != nil {
		return nil, damaged("receipt", "%w", err)
	}
	segment, err := sdk.ParseDecimal("segment", r.Segment)
	if err != nil {
		return nil, damaged("receipt", "%w", err)
	}
	millis, err := strconv.ParseInt(r.Time, 10, 64)
	if err != nil {
		return nil, damaged("receipt", "%w", err)
	}
	out.Segment, out.Time = sdk.Segment(segment), time.UnixMilli(millis).UTC()
	if !out.Segment.Valid() || out.Payload.IsZero() || out.Grant.IsZero() {
		return nil, damaged("receipt", "of operation %q", r.Operation)
	}
	return out, nil
}

// fenced is false for an object that nobody has fenced yet.
func (h *head) fenced() bool { return h.Nonce != "" }

// clone copies what a new head changes.
func (h *head) clone() *head {
	c := *h
	c.Recent = append([]receipt(nil), h.Recent...)
	c.Values = make(map[string]content, len(h.Values)+1)
	for k, v := range h.Values {
		c.Values[k] = v
	}
	c.Resolved = make(map[string]string, len(h.Resolved))
	for k, v := range h.Resolved {
		c.Resolved[k] = v
	}
	return &c
}
