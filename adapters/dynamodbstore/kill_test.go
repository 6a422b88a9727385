package dynamodbstore

import (
	"context"
	"testing"

	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// F9: the server is killed with SIGKILL under four writers, and started again on
// its data.
func TestServerKilled(t *testing.T) {
	s := startItem(t)
	st := opened(t, s)
	k := lab.Killing{Server: s.process, Store: st, Rounds: 8, Seed: 3,
		Apply: func(ctx context.Context, m *sdk.Mutation) (sdk.Outcome, error) {
			return st.Apply(ctx, sdk.NewAdmission(seal.Cut(), m))
		}}
	k.Run(t)
}
