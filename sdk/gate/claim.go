package gate

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// Claim raises the fence to the grant's and so shuts every older owner out,
// without changing any data. Segment, Operation, Effects, Result and Input of
// the request stay empty. A new owner claims before it looks receipts up: only
// a look-up begun after the claim proves by finding nothing that no older
// attempt can land any more (O3).
//
// It returns the fence state under which the caller now writes; the next
// segment is State.Segment+1. Claiming again is free of effect.
//
//  1. state, nil: claimed; state.Highest is the grant's fence.
//  2. zero or observed state and an error as of ApplyFencedMutation.
//     STALE_OWNER: a newer owner has claimed or written.
func (g *Gate) Claim(ctx context.Context, req Request) (sdk.FenceState, error) {
	ctx, end := g.begin(ctx, CallClaim, &req)
	out, err := g.claim(ctx, &req)
	end(out, err)
	return out.Observed, err
}

func (g *Gate) claim(ctx context.Context, req *Request) (sdk.Outcome, error) {
	if req.Segment != 0 || req.Operation != "" || len(req.Effects) > 0 || len(req.Result) > 0 || len(req.Input) > 0 {
		return refuse(sdk.Errorf(sdk.Invalid, "claim", "leave Segment, Operation, Effects, Result and Input empty"))
	}
	auth, err := g.authenticate(ctx, req)
	if err != nil {
		return refuse(err)
	}
	c := *req
	c.Segment, c.Operation = 1, sdk.ClaimID(auth.digest)
	adm, err := g.admitAs(ctx, &c, nil, &auth)
	if err != nil {
		return refuse(err)
	}
	if out, done, err := g.held(ctx, &adm); done || err != nil {
		return out, err
	}
	out, err := g.commit(ctx, adm)
	if out.Code == sdk.NotApplied || out.Code == sdk.Replayed && out.Observed.Absent() {
		// Another worker under the same grant was first, or the answer came by the
		// receipt, which does not tell the state.
		if held, done, herr := g.held(ctx, &adm); done && herr == nil {
			return held, nil
		}
	}
	return out, err
}

// held reads the fence: done if it is this grant's already.
func (g *Gate) held(ctx context.Context, adm *admission) (out sdk.Outcome, done bool, err error) {
	before, _ := adm.memory.snapshot()
	m := adm.mutation
	state, err := g.store.Inspect(ctx, m.Resource)
	if err != nil {
		out, err = refuse(notSent(err, "the fence could not be read before the claim"))
		return out, false, err
	}
	if adm.memory.saw(state, before) {
		g.pause(adm.memory, state)
		out, err = refuse(wentBack(state, before))
		return out, false, err
	}
	if state.Highest == m.Fence && state.Grant == m.Grant {
		return sdk.Outcome{Code: sdk.Replayed, Observed: state}, true, nil
	}
	return sdk.Outcome{}, false, nil
}
