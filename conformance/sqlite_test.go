package conformance_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

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
		store = &hasty{FencedStore: store}
	}
	if err := conformance.ServeWriter(ctx, store, os.Stdin, os.Stdout); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// hasty answers ACCEPTED when a write is queued and writes in batches, as an
// adapter does that acknowledges before the sync.
type hasty struct {
	sdk.FencedStore
	mu    sync.Mutex
	queue []sdk.Admission
}

const hastyBatch = 16

func (h *hasty) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queue = append(h.queue, a); len(h.queue) == hastyBatch {
		for _, a := range h.queue {
			h.FencedStore.Apply(ctx, a)
		}
		h.queue = nil
	}
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
	o := &conformance.Options{Profile: conformance.Quick, Schedules: 300}
	if testing.Short() { // what runs at the same time
		o = only("^(atomic|durable|linearizable|prompt|races|schedules)/")
	}
	conformance.Run(t, sqliteHarness(t), o)
}

// A certificate takes a proof of everything that the store declares.
func TestCertificate(t *testing.T) {
	if testing.Short() {
		t.Skip("two runs of the whole suite are long; the full test run has them")
	}
	o := &conformance.Options{Profile: conformance.Quick, Schedules: 20}
	h := sqliteHarness(t)
	h.Native = func(sdk.ResourceID) conformance.Native { return conformance.Native{} }
	h.Spawn = nil
	r, err := conformance.Check(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Certified || !strings.Contains(r.Verdict, "F9 durable") && !strings.Contains(r.Verdict, "durable/killed-writer") {
		t.Errorf("durable and no writer was killed: certified %v, %s", r.Certified, r.Verdict)
	}
	h = sqliteHarness(t)
	open := h.Open
	h.Open = func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		return portable{s}, nil
	}
	if r, err = conformance.Check(t.Context(), h, o); err != nil {
		t.Fatal(err)
	}
	if !r.Certified || !r.Complete || !strings.Contains(r.Verdict, "not proven: F7 monotonic (the harness has no Damage") {
		t.Errorf("certified %v, complete %v, failed %v: %s", r.Certified, r.Complete, failedCases(r), r.Verdict)
	}
}

// portable is sqlitestore without its own kinds.
type portable struct{ sdk.FencedStore }

func (p portable) Describe() sdk.Description {
	d := p.FencedStore.Describe()
	d.Kinds = sdk.PortableKinds()
	d.Capabilities[sdk.CapNativeEffects] = sdk.Declared{Support: sdk.NotSupported, Reason: "for this test"}
	return d
}

func (p portable) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	d := p.Describe()
	if _, err := d.Check(a); err != nil {
		return sdk.Refusal(err), err
	}
	return p.FencedStore.Apply(ctx, a)
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
