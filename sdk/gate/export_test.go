package gate

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// Admit is authentication from the cache, admission and the decision: what
// every write pays before its store does anything.
func (g *Gate) Admit(req *Request, state sdk.FenceState) (sdk.Decision, error) {
	auth, err := g.authenticate(context.Background(), req)
	if err != nil {
		return sdk.Decision{}, err
	}
	adm, err := g.mutation(req, nil, &auth)
	if err != nil {
		return sdk.Decision{}, err
	}
	return sdk.Decide(state, nil, adm.sealed), nil
}
