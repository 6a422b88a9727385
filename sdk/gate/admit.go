package gate

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// admit turns a request into an admission: A1–A6, the request's own form, then
// what the gate knows of the resource.
func (g *Gate) admit(ctx context.Context, req *Request, hook sdk.Hook) (admission, error) {
	auth, err := g.authenticate(ctx, req)
	if err != nil {
		return admission{}, err
	}
	if req.Operation.Reserved() {
		return admission{}, reservedOperation(req.Operation)
	}
	return g.admitAs(ctx, req, hook, &auth)
}

func reservedOperation(op sdk.OperationID) error {
	return sdk.Errorf(sdk.Invalid, "operation", "%q begins with \"fencedstore.\", which is reserved", op)
}

func (g *Gate) admitAs(ctx context.Context, req *Request, hook sdk.Hook, auth *authenticated) (admission, error) {
	adm, err := g.mutation(req, hook, auth)
	if err != nil {
		return admission{}, err
	}
	e := g.memory.of(req.Resource)
	if err := g.look(ctx, e, auth.grant.Fence); err != nil {
		return admission{}, err
	}
	if err := g.checkGenerations(e, adm.mutation.Generations); err != nil {
		return admission{}, err
	}
	seen, seed := e.snapshot()
	if seen.Absent() {
		adm.mutation.Seed = seed
	}
	adm.memory = e
	return adm, nil
}

// mutation builds what the store is asked to do, and validates it.
func (g *Gate) mutation(req *Request, hook sdk.Hook, auth *authenticated) (admission, error) {
	m := &sdk.Mutation{
		Resource: req.Resource, Operation: req.Operation, Segment: req.Segment, Root: req.Root,
		Fence: auth.grant.Fence, Grant: auth.digest, Owner: auth.grant.Owner,
		Time:    g.opts.Now().UTC().Truncate(time.Millisecond),
		Effects: req.Effects, Result: req.Result, Hook: hook,
		Generations:   sdk.Generations{Policy: g.opts.Policy.generation(), Trust: auth.bundle.Generation()},
		GrantEnvelope: req.Grant, StatusEnvelope: auth.status,
	}
	if hook != nil {
		m.Payload = sdk.InputDigest(req.Operation, req.Input)
	} else {
		m.Payload = sdk.PayloadDigest(req.Operation, req.Result, req.Effects)
	}
	sealed := sdk.NewAdmission(g.key, m)
	if _, err := sealed.Mutation(); err != nil {
		return admission{}, err
	}
	return admission{sealed: sealed, mutation: m, until: auth.until}, nil
}

// checkGenerations keeps P1 and P2 across hosts: a gate whose policy or trust
// bundle is older than one that has written refuses.
func (g *Gate) checkGenerations(e *resource, own sdk.Generations) error {
	seen, _ := e.snapshot()
	if own.Trust < seen.Generations.Trust {
		return sdk.Errorf(sdk.PolicyStale, "trust bundle", "this gate's is generation %d, the store has seen %d; rotate it", own.Trust, seen.Generations.Trust)
	}
	// A gate without a policy enforces everything: no policy is newer than that.
	if g.opts.Policy != nil && own.Policy < seen.Generations.Policy {
		return sdk.Errorf(sdk.PolicyStale, "policy", "this gate's is generation %d, the store has seen %d; load the newer one", own.Policy, seen.Generations.Policy)
	}
	return nil
}

// commit has the store decide and commit, then settles what is unknown.
func (g *Gate) commit(ctx context.Context, adm admission) (sdk.Outcome, error) {
	before, _ := adm.memory.snapshot()
	out, err := g.send(ctx, &adm)
	if err != nil && out.Code == sdk.MutationUnknown {
		out, err = g.resolve(ctx, &adm, err)
	}
	g.unknowns.note(adm.mutation, out.Code, g.opts.Now)
	return out, g.learn(&adm, out, err, before)
}

// send is the store call; it ends with the proof of liveness. Whatever is not
// a success with this mutation's own receipt, or a refusal with a code that
// this version knows, is unknown (O1).
func (g *Gate) send(ctx context.Context, adm *admission) (sdk.Outcome, error) {
	if !time.Now().Before(adm.until) {
		return refuse(sdk.Errorf(sdk.NotHeld, "status", "the lease was known to be held until %v ago, before the mutation was sent; send a newer proof", time.Since(adm.until)))
	}
	ctx, cancel := context.WithDeadline(ctx, adm.until)
	defer cancel()
	out, err := g.store.Apply(ctx, adm.sealed)
	if err == nil {
		if out.Code.Ok() && out.Receipt != nil && out.Receipt.Echoes(adm.mutation) {
			return out, nil
		}
		err = sdk.Errorf(sdk.MutationUnknown, "store", "%s answered %v without an error and without this mutation's receipt", g.store.Describe().Name, out.Code)
	} else if c := sdk.CodeOf(err); c != sdk.WriteCode(err) {
		err = sdk.Errorf(sdk.MutationUnknown, "store", "the answer carries no code that this version knows (%d): %w", uint32(c), err)
	}
	full := sdk.Refusal(err)
	if full.Observed.Absent() {
		full.Observed = out.Observed
	}
	return full, err
}

// learn remembers what the store's answer shows and raises FENCE_REGRESSION
// where it is less than what had been seen before the call was sent.
func (g *Gate) learn(adm *admission, out sdk.Outcome, err error, before sdk.FenceState) error {
	e := adm.memory
	if alarmed(err) {
		g.pause(e, out.Observed)
	}
	if out.Observed.Absent() {
		return err
	}
	if !e.saw(out.Observed, before) {
		return err
	}
	g.pause(e, out.Observed)
	if err == nil {
		// It was accepted all the same: the caller hears that, the resource stands.
		g.opts.Logger.Error("fence regression beside an accepted write", "resource", string(e.id), "err", wentBack(out.Observed, before))
		return nil
	}
	return withAlarm(err)
}
