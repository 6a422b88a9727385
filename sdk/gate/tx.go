package gate

import (
	"context"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
)

// ApplyTx runs fn inside the store's transaction that moves the fence, for
// business logic that must read before it writes. What fn does through tx
// commits together with the fence and the receipt or not at all; what it
// returns becomes the receipt's result. fn may run more than once, or its work
// may be rolled back after it returned: it has no effect but through tx. Req
// carries what fn works on as Input, over which the payload digest is taken;
// Effects and Result stay empty.
//
// Tx is the adapter's transaction type, *sql.Tx for sqlitestore. Answers are
// those of ApplyFencedMutation, and
//
//   - UNSUPPORTED: the store has no such transactions, or they are not a Tx.
//   - NOT_APPLIED with fn's error as its cause: fn failed, nothing was applied.
func ApplyTx[Tx any](ctx context.Context, g *Gate, req Request, fn func(ctx context.Context, tx Tx) (result []byte, err error)) (sdk.Outcome, error) {
	ctx, end := g.begin(ctx, CallApplyTx, &req)
	out, err := applyTx(ctx, g, &req, fn)
	end(out, err)
	return out, err
}

func applyTx[Tx any](ctx context.Context, g *Gate, req *Request, fn func(ctx context.Context, tx Tx) ([]byte, error)) (sdk.Outcome, error) {
	if fn == nil || len(req.Effects) > 0 || len(req.Result) > 0 {
		return refuse(sdk.Errorf(sdk.Invalid, "ApplyTx", "it takes a function and Input; Effects and Result stay empty"))
	}
	var mismatch atomic.Pointer[sdk.Error]
	hook := func(ctx context.Context, tx any) ([]byte, error) {
		typed, ok := tx.(Tx)
		if !ok {
			mismatch.Store(sdk.Errorf(sdk.Unsupported, "ApplyTx", "this store's transactions are %T, not %T", tx, *new(Tx)))
			return nil, mismatch.Load()
		}
		return fn(ctx, typed)
	}
	adm, err := g.admit(ctx, req, hook)
	if err != nil {
		return refuse(err)
	}
	out, err := g.commit(ctx, adm)
	if e := mismatch.Load(); e != nil && out.Code == sdk.NotApplied {
		return refuse(e)
	}
	return out, err
}
