package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// A memory store behind a socket, so that the cases that cut connections have
// something to cut. One request and one response a line.

type wireRequest struct {
	Method   string
	Resource sdk.ResourceID
	Name     string
	Mutation *wireMutation `json:",omitempty"`
}

// wireMutation is a Mutation without what no wire can carry.
type wireMutation struct {
	sdk.Mutation
	Hook *struct{} `json:",omitempty"` // shadows the one that cannot be encoded
}

type wireResponse struct {
	Outcome    sdk.Outcome
	Err        *sdk.Error
	State      sdk.FenceState
	Receipt    sdk.Receipt
	Value      []byte
	Quarantine []sdk.Quarantine
}

func wireError(err error) *sdk.Error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return nil
	}
	c := *e
	c.Err = nil
	return &c
}

func serveWire(conn net.Conn, s sdk.FencedStore) {
	defer conn.Close()
	ctx := context.Background()
	in := bufio.NewReader(conn)
	enc := json.NewEncoder(conn)
	for {
		line, rerr := in.ReadBytes('\n')
		var q wireRequest
		if json.Unmarshal(line, &q) != nil {
			return
		}
		var a wireResponse
		var err error
		switch q.Method {
		case "Apply":
			m := q.Mutation.Mutation
			a.Outcome, err = s.Apply(ctx, sdk.NewAdmission(seal.Cut(), &m))
		case "Inspect":
			a.State, err = s.Inspect(ctx, q.Resource)
		case "Receipt":
			a.Receipt, err = s.Receipt(ctx, q.Resource, sdk.OperationID(q.Name))
		case "Read":
			a.Value, err = s.Read(ctx, q.Resource, q.Name)
		case "Quarantined":
			a.Quarantine, err = s.Quarantined(ctx, q.Resource)
		}
		a.Err = wireError(err)
		if enc.Encode(a) != nil || rerr != nil {
			return
		}
	}
}

// wireFlaw is how a client of the socket store goes wrong.
type wireFlaw int

const (
	wireHonest      wireFlaw = iota
	wireAllFailed            // every error is "failed", whatever was sent
	wireEchoStale            // sends again by itself, and takes its own success for somebody else's
	wireReadMissing          // a receipt that could not be read does not exist
	wireOwnDial              // declares dial, and dials by itself
	wireNoContext            // looks at the context before it sends, and never again
)

type wireStore struct {
	addr string
	opts sdk.OpenOptions
	flaw wireFlaw
	desc sdk.Description

	lock chan struct{}
	conn net.Conn
	in   *bufio.Reader

	mu     sync.Mutex
	closed bool
}

// call sends q and reads its answer. Sent says whether a byte may have left.
func (s *wireStore) call(ctx context.Context, q wireRequest) (a wireResponse, sent bool, err error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return a, false, sdk.Errorf(sdk.Closed, "store", "the handle was closed")
	}
	if err := ctx.Err(); err != nil {
		return a, false, err
	}
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return a, false, ctx.Err()
	}
	defer func() { <-s.lock }()
	if s.conn == nil {
		dial := s.opts.Dial
		if dial == nil || s.flaw == wireOwnDial {
			dial = new(net.Dialer).DialContext
		}
		conn, err := dial(ctx, "tcp", s.addr)
		if err != nil {
			return a, false, err
		}
		s.conn, s.in = conn, bufio.NewReader(conn)
	}
	conn := s.conn
	stop := func() bool { return true }
	if s.flaw != wireNoContext {
		stop = context.AfterFunc(ctx, func() { conn.Close() })
	}
	defer func() {
		if !stop() { // it was closed, or is going to be
			s.conn = nil
		}
	}()
	b, err := json.Marshal(q)
	if err != nil {
		return a, false, err
	}
	if _, err = conn.Write(append(b, '\n')); err == nil {
		var line []byte
		if line, err = s.in.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &a)
		}
	}
	if err != nil {
		conn.Close()
		s.conn = nil
	}
	return a, true, err
}

func (s *wireStore) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a)
	if err != nil {
		return sdk.Refusal(err), err
	}
	q := wireRequest{Method: "Apply", Mutation: &wireMutation{Mutation: *m}}
	r, sent, err := s.call(ctx, q)
	if err != nil && sent && s.flaw == wireEchoStale {
		if r, _, err = s.call(ctx, q); err == nil && r.Outcome.Code == sdk.Replayed {
			err = sdk.Errorf(sdk.StaleOwner, "fence", "the condition failed")
		}
	}
	switch {
	case err != nil && sdk.CodeOf(err) != 0:
		return sdk.Refusal(err), err
	case err != nil:
		code := sdk.MutationUnknown
		if !sent || s.flaw == wireAllFailed {
			code = sdk.NotApplied
		}
		err := sdk.Errorf(code, "connection", "%w", err)
		return sdk.Refusal(err), err
	case r.Err != nil:
		return r.Outcome, r.Err
	}
	return r.Outcome, nil
}

// ask is call for reads.
func (s *wireStore) ask(ctx context.Context, method string, r sdk.ResourceID, name string) (wireResponse, error) {
	a, _, err := s.call(ctx, wireRequest{Method: method, Resource: r, Name: name})
	switch {
	case err != nil && sdk.CodeOf(err) != 0:
		return a, err
	case err != nil:
		code := sdk.NotApplied
		if s.flaw == wireReadMissing && method == "Receipt" {
			code = sdk.NotFound
		}
		return wireResponse{}, sdk.Errorf(code, "connection", "%w", err)
	case a.Err != nil:
		return a, a.Err
	}
	return a, nil
}

func (s *wireStore) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	if err := r.Validate(); err != nil {
		return sdk.FenceState{}, err
	}
	a, err := s.ask(ctx, "Inspect", r, "")
	return a.State, err
}

func (s *wireStore) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	if err := errors.Join(r.Validate(), op.Validate()); err != nil {
		return sdk.Receipt{}, sdk.Errorf(sdk.Invalid, "name", "%w", err)
	}
	a, err := s.ask(ctx, "Receipt", r, string(op))
	return a.Receipt, err
}

func (s *wireStore) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	if err := errors.Join(r.Validate(), sdk.ValidateKey(key)); err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "name", "%w", err)
	}
	a, err := s.ask(ctx, "Read", r, key)
	return a.Value, err
}

func (s *wireStore) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	a, err := s.ask(ctx, "Quarantined", r, "")
	return a.Quarantine, err
}

func (s *wireStore) Probe(ctx context.Context) error {
	_, err := s.ask(ctx, "Probe", "", "")
	return err
}

func (s *wireStore) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

func (s *wireStore) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	return nil
}

// wireHarness serves memory over a socket until the test ends.
func wireHarness(t *testing.T, flaw wireFlaw) conformance.Harness {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	main, shadow := memstore.NewData(), memstore.NewData()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s, err := main.Open(sdk.OpenOptions{})
			if err != nil {
				return
			}
			wg.Go(func() { serveWire(conn, s) })
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return conformance.Harness{Name: "wire", Open: func(_ context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		if name, _, isShadow, err := o.ParseNamespace(); err != nil {
			return nil, err
		} else if isShadow && name == sdk.ShadowNamespace("") {
			return shadow.Open(sdk.OpenOptions{})
		} else if name != sdk.DefaultNamespace {
			return nil, sdk.Errorf(sdk.Unsuitable, "namespace", "%q is not this store's", name)
		}
		d := memstore.New().Describe()
		d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.Supported}
		d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.NotSupported, Reason: "no code goes over the wire"}
		return &wireStore{addr: ln.Addr().String(), opts: o, flaw: flaw, desc: d, lock: make(chan struct{}, 1)}, nil
	}}
}

// The whole suite passes over a socket, with what it does to connections.
func TestWireStore(t *testing.T) {
	o := &conformance.Options{Profile: conformance.Quick, Schedules: 30}
	if testing.Short() { // what runs at the same time
		o = only("^(wire|honest|prompt|races|schedules)/")
	}
	conformance.Run(t, wireHarness(t, wireHonest), o)
}

// wireKills are the flaws that the cases on the wire are there for.
var wireKills = map[string]wireFlaw{
	"wire/cut-while-sending":      wireAllFailed,
	"wire/lost-acknowledgement":   wireEchoStale,
	"wire/lost-reads":             wireReadMissing,
	"wire/dial-undeclared":        wireOwnDial,
	"wire/cancelled-while-silent": wireNoContext,
}

func TestWireFlawsAreFound(t *testing.T) {
	for id, flaw := range wireKills {
		o := only("^" + id + "$")
		o.Stall = 4 * time.Second
		r, err := conformance.Check(t.Context(), wireHarness(t, flaw), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Results) != 1 || r.Results[0].Status != conformance.Failed {
			t.Errorf("%s: %+v, want failed", id, r.Results)
		}
	}
}
