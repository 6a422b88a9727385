package conformance_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

// The test binary is the writer that the suite kills: it runs again with these
// set. The second makes it break F9.
const (
	writerDSN   = "CONFORMANCE_TEST_WRITER"
	writerEarly = "CONFORMANCE_TEST_EARLY"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(writerDSN); dsn != "" {
		os.Exit(serveWriter(dsn, os.Getenv(writerEarly) != ""))
	}
	os.Exit(m.Run())
}

func serveWriter(dsn string, early bool) int {
	ctx := context.Background()
	store, err := sqlitestore.Open(ctx, dsn, sdk.OpenOptions{})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	defer store.Close()
	if early {
		store = newHasty(store)
	}
	if err := conformance.ServeWriter(ctx, store, os.Stdin, os.Stdout); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// hasty answers ACCEPTED when a write is queued, as an adapter does that
// acknowledges before the sync.
type hasty struct {
	sdk.FencedStore
	mu    sync.Mutex
	queue map[sdk.ResourceID]chan sdk.Admission
}

func newHasty(s sdk.FencedStore) *hasty {
	return &hasty{FencedStore: s, queue: map[sdk.ResourceID]chan sdk.Admission{}}
}

func (h *hasty) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := a.Mutation()
	if err != nil {
		return sdk.Refusal(err), err
	}
	h.mu.Lock()
	q := h.queue[m.Resource]
	if q == nil {
		q = make(chan sdk.Admission, 1024)
		h.queue[m.Resource] = q
		go func() {
			for a := range q {
				time.Sleep(2 * time.Millisecond) // a disk that is busy
				h.FencedStore.Apply(ctx, a)
			}
		}()
	}
	h.mu.Unlock()
	q <- a
	return sdk.Outcome{Code: sdk.Accepted}, nil
}

func sqliteHarness(t *testing.T, env ...string) conformance.Harness {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return conformance.Harness{Name: "sqlite",
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
			return sqlitestore.Open(ctx, dsn, o)
		},
		Spawn: func(context.Context) (*exec.Cmd, error) {
			cmd := exec.Command(self)
			cmd.Env = append(slices.Concat(os.Environ(), env), writerDSN+"="+dsn)
			return cmd, nil
		},
	}
}

func TestSQLite(t *testing.T) {
	schedules := 300
	if testing.Short() {
		schedules = 30
	}
	conformance.Run(t, sqliteHarness(t), &conformance.Options{Profile: conformance.Quick, Schedules: schedules})
}

// A writer that acknowledges too early is found by killing it.
func TestKilledWriterFindsEarlyAcknowledgement(t *testing.T) {
	r, err := conformance.Check(t.Context(), sqliteHarness(t, writerEarly+"=1"), only("^durable/killed-writer$"))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Results[0].Status; s != conformance.Failed {
		t.Errorf("%s, want failed", s)
	}
}

// A writer process that ends by itself, or says nothing sensible, is a failure
// and no hang.
func TestKilledWriterProcessThatEnds(t *testing.T) {
	h := sqliteHarness(t)
	h.Spawn = func(context.Context) (*exec.Cmd, error) {
		cmd := exec.Command("true")
		return cmd, nil
	}
	r, err := conformance.Check(t.Context(), h, only("^durable/killed-writer$"))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Results[0].Status; s != conformance.Failed {
		t.Errorf("%s, want failed", s)
	}
}
