package gate

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// WriteResult is what became of a Write.
type WriteResult struct {
	Mode Mode
	// Outcome is the fenced write's in Enforce; in Shadow it is what the gate
	// would have said, by the fence that shadow mode keeps.
	Outcome sdk.Outcome
	// Shadow is the error that the gate would have answered in Shadow; nil where
	// it would have accepted.
	Shadow error
}

// Write is for the time of the rollout. While the resource is in shadow mode it
// runs legacy, the write as it was, and then records what the gate would have
// said; the gate's opinion changes nothing of the legacy write's outcome. In
// enforce it applies the fenced write and never calls legacy.
//
// The store remembers what was enforced: a resource with a fence in the
// enforcing namespace is enforced, whatever this gate's policy says (P1).
//
// In Enforce the error is ApplyFencedMutation's. In Shadow it is legacy's own;
// NOT_APPLIED if it could not be told whether the resource is enforced already,
// and then legacy did not run.
func (g *Gate) Write(ctx context.Context, req Request, legacy func(ctx context.Context) error) (WriteResult, error) {
	mode, err := g.mode(ctx, &req)
	if err != nil {
		return WriteResult{Outcome: sdk.Refusal(err)}, err
	}
	if mode == Enforce {
		out, err := g.ApplyFencedMutation(ctx, req)
		return WriteResult{Mode: Enforce, Outcome: out}, err
	}
	legacyErr := legacy(ctx)
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.ShadowTimeout)
	defer cancel()
	sctx, end := g.begin(sctx, CallShadow, &req)
	out, err := g.wouldSay(sctx, &req)
	end(out, err)
	return WriteResult{Mode: Shadow, Outcome: out, Shadow: err}, legacyErr
}

// mode asks the policy, and the store where the policy says shadow.
func (g *Gate) mode(ctx context.Context, req *Request) (Mode, error) {
	if g.opts.Policy == nil || g.opts.Policy.Policy().Mode(req.Resource) == Enforce {
		return Enforce, nil
	}
	if err := req.Resource.Validate(); err != nil {
		return "", err
	}
	state, err := g.store.Inspect(ctx, req.Resource)
	if err != nil {
		return "", notSent(err, "it cannot be told whether the resource is enforced already")
	}
	if !state.Absent() {
		return Enforce, nil
	}
	return Shadow, nil
}

// wouldSay puts the request before the shadow's fence, without its effects and
// result: the legacy write has made the change already.
func (g *Gate) wouldSay(ctx context.Context, req *Request) (sdk.Outcome, error) {
	auth, err := g.authenticate(ctx, req)
	if err != nil {
		return refuse(err)
	}
	if req.Operation.Reserved() {
		return refuse(reservedOperation(req.Operation))
	}
	adm, err := g.mutation(req, nil, &auth)
	if err != nil {
		return refuse(err)
	}
	adm.mutation.Effects, adm.mutation.Result = nil, nil
	ctx, cancel := context.WithDeadline(ctx, adm.until)
	defer cancel()
	return g.opts.Shadow.Apply(ctx, adm.sealed)
}
