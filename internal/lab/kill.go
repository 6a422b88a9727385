package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// Killing is a workload under which a server is killed and started again.
type Killing struct {
	Server *Process
	Store  sdk.FencedStore
	// Apply sends a mutation to Store, as only tests of this module may.
	Apply  func(context.Context, *sdk.Mutation) (sdk.Outcome, error)
	Rounds int
	Seed   uint64
}

const killWriters = 4

// Run writes with several workers, kills the server at random instants, starts
// it again and looks: what was accepted is there, nothing is there by half or
// twice, and each operation whose answer was lost is settled by sending it
// again (F6, F9, F10, O1).
func (k *Killing) Run(t *testing.T) {
	t.Helper()
	rng := rand.New(rand.NewPCG(k.Seed, 1))
	t.Logf("seed %d", k.Seed)
	accepted := make([]int, killWriters)
	for round := range k.Rounds {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		acks := make(chan struct{}, 1000)
		for w := range killWriters {
			wg.Go(func() { k.write(t, ctx, w, &accepted[w], acks) })
		}
		for range 1 + rng.IntN(20) {
			select {
			case <-acks:
			case <-t.Context().Done():
			}
		}
		pause := time.NewTimer(time.Duration(rng.IntN(4000)) * time.Microsecond)
		<-pause.C
		k.Server.Kill()
		stop()
		wg.Wait()
		k.Server.Restart()
		for w := range killWriters {
			if err := k.check(t.Context(), w, &accepted[w]); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%v mutations were accepted", accepted)
}

func killResource(w int) sdk.ResourceID { return sdk.ResourceID("killed/" + strconv.Itoa(w)) }

func killMutation(w, n int) *sdk.Mutation {
	id := sdk.OperationID("op-" + strconv.Itoa(n))
	effects := []sdk.Effect{sdk.Put("last", []byte(strconv.Itoa(n))), sdk.Put("n-"+strconv.Itoa(n%8), []byte(strconv.Itoa(n)))}
	return &sdk.Mutation{Resource: killResource(w), Operation: id, Fence: 1, Segment: sdk.Segment(n), Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte("grant")), Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

// write writes on from what was accepted until something fails.
func (k *Killing) write(t *testing.T, ctx context.Context, w int, accepted *int, acks chan<- struct{}) {
	for ctx.Err() == nil {
		out, err := k.Apply(ctx, killMutation(w, *accepted+1))
		switch out.Code {
		case sdk.Accepted, sdk.Replayed:
			*accepted++
			select {
			case acks <- struct{}{}:
			default:
			}
		case sdk.NotApplied, sdk.MutationUnknown:
			return
		default:
			t.Errorf("writer %d, %d: %v, %v", w, *accepted+1, out.Code, err)
			return
		}
	}
}

// check looks what is there after the server came back. One more than what was
// acknowledged may be.
func (k *Killing) check(ctx context.Context, w int, accepted *int) error {
	r := killResource(w)
	state, err := k.Store.Inspect(ctx, r)
	if err != nil {
		return err
	}
	last := int(state.Segment)
	if last < *accepted || last > *accepted+1 {
		return fmt.Errorf("writer %d: the store is at %d, %d were acknowledged", w, last, *accepted)
	}
	for n := max(1, last-3); n <= last; n++ {
		receipt, err := k.Store.Receipt(ctx, r, sdk.OperationID("op-"+strconv.Itoa(n)))
		if err != nil || receipt.Segment != sdk.Segment(n) {
			return fmt.Errorf("writer %d: receipt %d: %+v, %v", w, n, receipt, err)
		}
	}
	for key, want := range map[string]int{"last": last, "n-" + strconv.Itoa(last%8): last} {
		if v, err := k.Store.Read(ctx, r, key); last > 0 && (err != nil || string(v) != strconv.Itoa(want)) {
			return fmt.Errorf("writer %d: %s is %q, %v, want %d", w, key, v, err, want)
		}
	}
	if _, err := k.Store.Receipt(ctx, r, sdk.OperationID("op-"+strconv.Itoa(last+1))); !errors.Is(err, sdk.ErrNotFound) {
		return fmt.Errorf("writer %d: a receipt beyond the fence's segment: %v", w, err)
	}
	*accepted = last
	return nil
}
