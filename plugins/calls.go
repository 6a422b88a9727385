package plugins

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fencedstore/fencedstore/plugins/internal/wire"
	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

// closeTimeout is how long a handle may take to close.
const closeTimeout = 2 * time.Second

func errClosed() error { return sdk.Errorf(sdk.Closed, "store", "the handle was closed") }

// Apply implements sdk.FencedStore. Once the mutation was handed to the
// connection, everything but the plug-in's own answer is MUTATION_UNKNOWN; it
// is never sent a second time.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	if s.closed.Load() {
		return refuse(errClosed())
	}
	m, err := s.desc.Check(a)
	if err != nil {
		return refuse(err)
	}
	for i := range m.Effects {
		if err := s.opts.CheckScope(m.Resource, m.Effects[i]); err != nil {
			return refuse(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return refuse(sdk.Errorf(sdk.NotApplied, "", "nothing was sent: %w", err))
	}
	req := &pb.ApplyRequest{Admission: wire.Admission(m)}
	if n := proto.Size(req) + 16; n > wire.MaxMessageBytes {
		return refuse(sdk.Errorf(sdk.TooLarge, "mutation", "%d bytes as a message; %d cross to a plug-in", n, wire.MaxMessageBytes))
	}
	ctx, done := s.callContext(ctx)
	defer done()
	p, id, err := s.handle(ctx)
	if err != nil {
		return refuse(s.beforeSending(err))
	}
	req.Handle = id
	res, err := p.rpc.Apply(ctx, req)
	if err != nil {
		s.suspect(ctx, p, err)
		return refuse(sdk.Errorf(sdk.MutationUnknown, "plug-in", "there is no answer: %w", cause(ctx, err)))
	}
	return wire.ParseAnswer(m, res)
}

// beforeSending is an error of handle as the answer to a write that was not
// sent: a handle that could not be had again is a store that cannot be reached.
func (s *Store) beforeSending(err error) error {
	switch sdk.CodeOf(err) {
	case sdk.Closed, sdk.Unsuitable, sdk.NotApplied:
		return err
	}
	return sdk.Errorf(sdk.NotApplied, "plug-in", "its store could not be opened again, nothing was sent: %w", err)
}

func refuse(err error) (sdk.Outcome, error) { return sdk.Refusal(err), err }

// cause is err with the context's own error in its tree, for errors.Is.
func cause(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case status.Code(err) == codes.DeadlineExceeded: // the plug-in's clock was first
		return errors.Join(err, context.DeadlineExceeded)
	}
	return err
}

// suspect kills a process that let a call run into the host's own limit.
func (s *Store) suspect(ctx context.Context, p *process, err error) {
	if ctx.Value(ownLimit{}) != nil && status.Code(err) == codes.DeadlineExceeded {
		s.plugin.condemn(p, "a call was not answered within the host's own limit of "+s.plugin.opts.callTimeout().String())
	}
}

// lost is the error of a call other than Apply that got no answer.
func (s *Store) lost(ctx context.Context, p *process, err error) error {
	s.suspect(ctx, p, err)
	if s.closed.Load() {
		return errClosed()
	}
	return sdk.Errorf(sdk.NotApplied, "plug-in", "there is no answer: %w", cause(ctx, err))
}

// ask makes a call that changes nothing.
func (s *Store) ask(ctx context.Context, call func(ctx context.Context, p *process, id uint64) error) error {
	if s.closed.Load() {
		return errClosed()
	}
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "", "nothing was sent: %w", err)
	}
	ctx, done := s.callContext(ctx)
	defer done()
	p, id, err := s.handle(ctx)
	if err != nil {
		return s.beforeSending(err)
	}
	if err := call(ctx, p, id); err != nil {
		return s.lost(ctx, p, err)
	}
	return nil
}

// strange is an answer that is no answer, to a read.
func strange(err error) error {
	return sdk.Errorf(sdk.NotApplied, "plug-in", "its answer is none: %w", err)
}

// readFailure is a failure with a code that a read may have.
func readFailure(f *pb.Failure, notFound bool) error {
	err := wire.ParseFailure(f)
	switch c := sdk.CodeOf(err); {
	case c == sdk.FenceRegression, c == sdk.Invalid, c == sdk.Closed, c == sdk.Unsuitable, c == sdk.NotApplied, c == sdk.NotFound && notFound:
		return err
	}
	return sdk.Errorf(sdk.NotApplied, "plug-in", "it answered a read with %w", err)
}

// Inspect implements sdk.FencedStore.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	if err := r.Validate(); err != nil && !s.closed.Load() {
		return sdk.FenceState{}, err
	}
	var res *pb.InspectResponse
	err := s.ask(ctx, func(ctx context.Context, p *process, id uint64) (err error) {
		res, err = p.rpc.Inspect(ctx, &pb.InspectRequest{Handle: id, Resource: string(r)})
		return err
	})
	switch {
	case err != nil:
		return sdk.FenceState{}, err
	case res.GetState() == nil:
		return sdk.FenceState{}, readFailure(res.GetFailure(), false)
	}
	state, err := wire.ParseState(res.GetState())
	if err != nil {
		return sdk.FenceState{}, strange(err)
	}
	return state, nil
}

// Receipt implements sdk.FencedStore.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	if err := firstOf(r.Validate(), op.Validate()); err != nil && !s.closed.Load() {
		return sdk.Receipt{}, err
	}
	var res *pb.ReceiptResponse
	err := s.ask(ctx, func(ctx context.Context, p *process, id uint64) (err error) {
		res, err = p.rpc.Receipt(ctx, &pb.ReceiptRequest{Handle: id, Resource: string(r), Operation: string(op)})
		return err
	})
	switch {
	case err != nil:
		return sdk.Receipt{}, err
	case res.GetReceipt() == nil:
		return sdk.Receipt{}, readFailure(res.GetFailure(), true)
	}
	rec, err := wire.ParseReceipt(res.GetReceipt())
	if err == nil && (rec.Resource != r || rec.Operation != op) {
		err = sdk.Errorf(sdk.Invalid, "receipt", "of another operation")
	}
	if err != nil {
		return sdk.Receipt{}, strange(err)
	}
	return *rec, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Read implements sdk.FencedStore.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	if err := firstOf(r.Validate(), sdk.ValidateKey(key)); err != nil && !s.closed.Load() {
		return nil, err
	}
	var res *pb.ReadResponse
	err := s.ask(ctx, func(ctx context.Context, p *process, id uint64) (err error) {
		res, err = p.rpc.Read(ctx, &pb.ReadRequest{Handle: id, Resource: string(r), Key: key})
		return err
	})
	if err != nil {
		return nil, err
	}
	v, ok := res.GetResult().(*pb.ReadResponse_Value)
	if !ok {
		return nil, readFailure(res.GetFailure(), true)
	}
	if v.Value == nil {
		return []byte{}, nil
	}
	return v.Value, nil
}

// Quarantined implements sdk.FencedStore.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	if err := r.Validate(); err != nil && !s.closed.Load() {
		return nil, err
	}
	var res *pb.QuarantinedResponse
	err := s.ask(ctx, func(ctx context.Context, p *process, id uint64) (err error) {
		res, err = p.rpc.Quarantined(ctx, &pb.QuarantinedRequest{Handle: id, Resource: string(r)})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case res.GetList() == nil:
		return nil, readFailure(res.GetFailure(), false)
	}
	list, err := wire.ParseQuarantine(r, res.GetList().GetRecords())
	if err != nil {
		return nil, strange(err)
	}
	return list, nil
}

// Probe implements sdk.FencedStore.
func (s *Store) Probe(ctx context.Context) error {
	var res *pb.ProbeResponse
	err := s.ask(ctx, func(ctx context.Context, p *process, id uint64) (err error) {
		res, err = p.rpc.Probe(ctx, &pb.ProbeRequest{Handle: id})
		return err
	})
	if err != nil || res.GetSuited() != nil {
		return err
	}
	return readFailure(res.GetFailure(), false)
}
