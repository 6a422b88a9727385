package plugins

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/plugins/internal/wire"
	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

// server is the plug-in's side of the protocol over any open function.
type server struct {
	pb.UnimplementedStoreServiceServer
	open     sdk.OpenFunc
	opts     *ServeOptions
	log      *slog.Logger
	verifier *verifier // nil without Trust

	mu      sync.Mutex
	last    uint64
	handles map[uint64]sdk.FencedStore
}

func newServer(open sdk.OpenFunc, o *ServeOptions, log *slog.Logger) *server {
	s := &server{open: open, opts: o, log: log, handles: map[uint64]sdk.FencedStore{}}
	if o.Trust != nil {
		s.verifier = &verifier{source: o.Trust, now: time.Now}
	}
	return s
}

func (s *server) handle(id uint64) (sdk.FencedStore, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.handles[id]; store != nil {
		return store, nil
	}
	return nil, sdk.Errorf(sdk.Closed, "handle", "%d is not open", id)
}

func (s *server) closeAll() {
	s.mu.Lock()
	all := s.handles
	s.handles = map[uint64]sdk.FencedStore{}
	s.mu.Unlock()
	for _, store := range all {
		if err := store.Close(); err != nil {
			s.log.Warn("a store did not close", "err", err)
		}
	}
}

// scope is what the store is opened with.
func (s *server) scope(req *pb.OpenRequest) func(sdk.ResourceID, sdk.Effect) error {
	switch {
	case !req.Scoped, s.opts.Trust != nil && s.opts.Scope == nil:
		return nil
	case s.opts.Scope != nil:
		return s.opts.Scope
	}
	return func(sdk.ResourceID, sdk.Effect) error { return nil } // the host has asked its own
}

// Open implements the protocol.
func (s *server) Open(ctx context.Context, req *pb.OpenRequest) (*pb.OpenResponse, error) {
	store, err := s.openStore(ctx, req)
	if err != nil {
		return &pb.OpenResponse{Result: &pb.OpenResponse_Failure{Failure: wire.Failure(err)}}, nil
	}
	s.mu.Lock()
	s.last++
	id := s.last
	s.handles[id] = store
	s.mu.Unlock()
	d := store.Describe()
	return &pb.OpenResponse{Result: &pb.OpenResponse_Opened{Opened: &pb.Opened{
		Handle: id, Description: wire.Description(&d), HonorsDialVia: true}}}, nil
}

func (s *server) openStore(ctx context.Context, req *pb.OpenRequest) (sdk.FencedStore, error) {
	o := sdk.OpenOptions{Namespace: req.Namespace, Logger: s.log, Scope: s.scope(req)}
	if req.DialVia != "" {
		dial, err := dialVia(req.DialVia)
		if err != nil {
			return nil, err
		}
		o.Dial = dial
	}
	// The store outlives the call that opens it: what an adapter derives from
	// the context must not end with it, but a caller that gives up is heard.
	store, err := s.open(ctx, req.Dsn, o)
	if err == nil && ctx.Err() != nil {
		store.Close()
		return nil, sdk.Errorf(sdk.NotApplied, "", "the host gave up: %w", ctx.Err())
	}
	return store, err
}

// Apply implements the protocol.
func (s *server) Apply(ctx context.Context, req *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	out, err := s.apply(ctx, req)
	return wire.Answer(out, err), nil
}

func (s *server) apply(ctx context.Context, req *pb.ApplyRequest) (sdk.Outcome, error) {
	store, err := s.handle(req.Handle)
	if err != nil {
		return sdk.Refusal(err), err
	}
	m, err := wire.ParseMutation(req.Admission)
	if err == nil && s.verifier != nil {
		var until time.Time
		if until, err = s.verifier.verify(m); err == nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, until)
			defer cancel()
		}
	}
	if err != nil {
		return sdk.Refusal(err), err
	}
	return store.Apply(ctx, wire.Admit(m))
}

// Inspect implements the protocol.
func (s *server) Inspect(ctx context.Context, req *pb.InspectRequest) (*pb.InspectResponse, error) {
	var state sdk.FenceState
	store, err := s.handle(req.Handle)
	if err == nil {
		state, err = store.Inspect(ctx, sdk.ResourceID(req.Resource))
	}
	if err != nil {
		return &pb.InspectResponse{Result: &pb.InspectResponse_Failure{Failure: wire.Failure(err)}}, nil
	}
	p := wire.State(state)
	if p == nil {
		p = &pb.FenceState{} // a state all the same: that of a resource without one
	}
	return &pb.InspectResponse{Result: &pb.InspectResponse_State{State: p}}, nil
}

// Receipt implements the protocol.
func (s *server) Receipt(ctx context.Context, req *pb.ReceiptRequest) (*pb.ReceiptResponse, error) {
	var rec sdk.Receipt
	store, err := s.handle(req.Handle)
	if err == nil {
		rec, err = store.Receipt(ctx, sdk.ResourceID(req.Resource), sdk.OperationID(req.Operation))
	}
	if err != nil {
		return &pb.ReceiptResponse{Result: &pb.ReceiptResponse_Failure{Failure: wire.Failure(err)}}, nil
	}
	return &pb.ReceiptResponse{Result: &pb.ReceiptResponse_Receipt{Receipt: wire.Receipt(&rec)}}, nil
}

// Read implements the protocol.
func (s *server) Read(ctx context.Context, req *pb.ReadRequest) (*pb.ReadResponse, error) {
	var value []byte
	store, err := s.handle(req.Handle)
	if err == nil {
		value, err = store.Read(ctx, sdk.ResourceID(req.Resource), req.Key)
	}
	if err != nil {
		return &pb.ReadResponse{Result: &pb.ReadResponse_Failure{Failure: wire.Failure(err)}}, nil
	}
	return &pb.ReadResponse{Result: &pb.ReadResponse_Value{Value: value}}, nil
}

// Quarantined implements the protocol.
func (s *server) Quarantined(ctx context.Context, req *pb.QuarantinedRequest) (*pb.QuarantinedResponse, error) {
	var list []sdk.Quarantine
	store, err := s.handle(req.Handle)
	if err == nil {
		list, err = store.Quarantined(ctx, sdk.ResourceID(req.Resource))
	}
	if err != nil {
		return &pb.QuarantinedResponse{Result: &pb.QuarantinedResponse_Failure{Failure: wire.Failure(err)}}, nil
	}
	out := &pb.QuarantineList{}
	for i := range list {
		out.Records = append(out.Records, wire.Quarantine(&list[i]))
	}
	return &pb.QuarantinedResponse{Result: &pb.QuarantinedResponse_List{List: out}}, nil
}

// Probe implements the protocol.
func (s *server) Probe(ctx context.Context, req *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	store, err := s.handle(req.Handle)
	if err == nil {
		err = store.Probe(ctx)
	}
	if err != nil {
		return &pb.ProbeResponse{Result: &pb.ProbeResponse_Failure{Failure: wire.Failure(err)}}, nil
	}
	return &pb.ProbeResponse{Result: &pb.ProbeResponse_Suited{Suited: &pb.Suited{}}}, nil
}

// Close implements the protocol.
func (s *server) Close(_ context.Context, req *pb.CloseRequest) (*pb.CloseResponse, error) {
	s.mu.Lock()
	store := s.handles[req.Handle]
	delete(s.handles, req.Handle)
	s.mu.Unlock()
	if store != nil {
		if err := store.Close(); err != nil {
			return &pb.CloseResponse{Result: &pb.CloseResponse_Failure{Failure: wire.Failure(err)}}, nil
		}
	}
	return &pb.CloseResponse{Result: &pb.CloseResponse_Closed{Closed: &pb.Closed{}}}, nil
}
