package fsstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

const writerDSN = "FENCEDSTORE_TEST_WRITER"

// TestMain is the writer process too, which the suite kills.
func TestMain(m *testing.M) {
	dsn := os.Getenv(writerDSN)
	if dsn == "" {
		os.Exit(m.Run())
	}
	s, err := Open(context.Background(), dsn, sdk.OpenOptions{})
	if err == nil {
		err = conformance.ServeWriter(context.Background(), s, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestConformance(t *testing.T) {
	dsn := Scheme + filepath.Join(t.TempDir(), "store")
	conformance.Run(t, conformance.Harness{Name: "fs",
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) { return Open(ctx, dsn, o) },
		Spawn: func(ctx context.Context) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), writerDSN+"="+dsn)
			return cmd, nil
		},
		Damage: func(_ context.Context, r sdk.ResourceID) error { return removeHead(dsn, r) },
	}, &conformance.Options{Match: lab.Cases(), Profile: conformance.Quick, Schedules: 100})
}

// removeHead removes a resource's head behind the store's back: of all heads the
// one that names it.
func removeHead(dsn string, r sdk.ResourceID) error {
	root, err := parseDSN(dsn)
	if err != nil {
		return err
	}
	f := &files{root: root}
	ctx := context.Background()
	return f.List(ctx, "main/head/", func(name string) error {
		body, _, err := f.Get(ctx, name)
		if err != nil {
			return err
		}
		var h struct {
			Resource string `json:"resource"`
		}
		if err := unmarshalLoose(body, &h); err != nil {
			return err
		}
		if h.Resource == string(r) {
			return os.RemoveAll(f.path(name) + swapped)
		}
		return nil
	})
}

func newFiles(t testing.TB) *files {
	t.Helper()
	f, err := openFiles(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// 16 writers swap one object as fast as they can: every number is won once, and
// a version is never won on a base that is not current.
func TestSwapRace(t *testing.T) {
	f := newFiles(t)
	const writers, rounds = 16, 30
	var wins atomic.Int64
	var mu sync.Mutex
	won := map[string]bool{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				_, version, err := f.Get(t.Context(), "main/head/x")
				if err != nil && sdk.CodeOf(err) != sdk.NotFound {
					t.Error(err)
					return
				}
				ok, next, err := f.PutIf(t.Context(), "main/head/x", fmt.Appendf(nil, "%d-%d on %s", w, i, version), version)
				if err != nil && sdk.CodeOf(err) != sdk.MutationUnknown {
					t.Error(err)
					return
				}
				if ok {
					wins.Add(1)
					mu.Lock()
					if won[next] {
						t.Errorf("version %s was won twice", next)
					}
					won[next] = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	all, err := versions(f.path("main/head/x") + swapped)
	if err != nil || len(all) > keepVersions+1+writers {
		t.Errorf("%d versions are left, %v", len(all), err)
	}
	if wins.Load() == 0 {
		t.Error("nobody won")
	}
}

// A writer that slept while its base, and the number after it, were removed must
// not win an old number; nor must the next one, on what the first left behind.
func TestOldNumberIsNotWonAgain(t *testing.T) {
	f := newFiles(t)
	var all []string
	on := ""
	for i := range 40 {
		ok, next, err := f.PutIf(t.Context(), "main/head/x", fmt.Appendf(nil, "%d", i), on)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		all = append(all, next)
		on = next
	}
	for _, base := range []string{"", all[0], all[1], all[2], all[20], all[21], all[30], all[31], all[38]} {
		ok, _, err := f.PutIf(t.Context(), "main/head/x", []byte("stale"), base)
		if ok {
			t.Errorf("base %q: a stale swap won", base)
		}
		if err != nil && sdk.CodeOf(err) != sdk.MutationUnknown {
			t.Errorf("base %q: %v", base, err)
		}
		if body, v, err := f.Get(t.Context(), "main/head/x"); err != nil || string(body) != "39" || v != on {
			t.Errorf("base %q: %q, %s, %v", base, body, v, err)
		}
	}
	if ok, _, err := f.PutIf(t.Context(), "main/head/x", []byte("next"), on); !ok || err != nil {
		t.Errorf("the current writer: %v, %v", ok, err)
	}
}

func TestVerdict(t *testing.T) {
	run := func(from, to uint64) (out []uint64) {
		for n := from; n <= to; n++ {
			out = append(out, n)
		}
		return out
	}
	seven := version{7, "a"}
	for _, tc := range []struct {
		name       string
		all        []uint64
		base       version
		nonce      string
		won, known bool
	}{
		{"first", run(1, 1), version{}, "", true, true},
		{"first, others went on", run(1, 9), version{}, "", true, true},
		{"1 may have been removed before", run(1, 10), version{}, "", false, false},
		{"1 was removed before", append([]uint64{1}, run(5, 13)...), version{}, "", false, false},
		{"base is there", run(7, 8), seven, "a", true, true},
		{"base is there, others went on", run(7, 12), seven, "a", true, true},
		{"base's number came back", run(7, 20), seven, "b", false, false},
		{"base is gone, others went on", run(8, 20), seven, "", false, false},
		{"all was removed", run(8, 8), seven, "", false, true},
	} {
		if won, known := verdict(tc.all, tc.base, tc.nonce); won != tc.won || known != tc.known {
			t.Errorf("%s: won %v, known %v", tc.name, won, known)
		}
	}
}

func TestBadDSN(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.tex"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dsn, want := range map[string]error{
		"": sdk.ErrInvalid, "fs:": sdk.ErrInvalid, "sqlite:x": sdk.ErrInvalid, "fs:a?b": sdk.ErrInvalid, "fs:a\x00": sdk.ErrInvalid,
		"fs:" + filepath.Join(foreign, "no", "store"): sdk.ErrUnsuitable,
		"fs:" + file:    sdk.ErrUnsuitable,
		"fs:" + foreign: sdk.ErrUnsuitable,
	} {
		if _, err := Open(t.Context(), dsn, sdk.OpenOptions{}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", dsn, err, want)
		}
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("the foreign directory has %d entries, %v", len(entries), err)
	}
}

func TestSweepAndCleanUp(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	dsn := Scheme + root
	s, err := Open(t.Context(), dsn, sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		op := sdk.OperationID(fmt.Sprint("op-", i))
		d := sdk.SumDigest([]byte("x"))
		m := &sdk.Mutation{Resource: "a", Operation: op, Fence: 1, Segment: sdk.Segment(i), Owner: "w", Root: d, Grant: d, Payload: d,
			Effects: []sdk.Effect{sdk.Put("big", make([]byte, 10_000+i))}}
		if _, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	old, young := filepath.Join(root, storeDir, "old"), filepath.Join(root, storeDir, "young")
	for _, p := range []string{old, young} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if n, err := CleanUp(t.Context(), dsn, sdk.OpenOptions{}, "a"); err != nil || n != 2 {
		t.Errorf("removed %d parts, %v; want the two that were replaced", n, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old temporary file is left: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a young temporary file is gone: %v", err)
	}
}

func BenchmarkApply(b *testing.B) {
	s, err := Open(b.Context(), Scheme+filepath.Join(b.TempDir(), "store"), sdk.OpenOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	d := sdk.SumDigest([]byte("x"))
	for i := 1; b.Loop(); i++ {
		m := &sdk.Mutation{Resource: "a", Operation: sdk.OperationID(fmt.Sprint("op-", i)), Fence: 1, Segment: sdk.Segment(i), Owner: "w", Root: d, Grant: d, Payload: d,
			Effects: []sdk.Effect{sdk.Put("key", []byte("value"))}}
		if _, err := s.Apply(b.Context(), sdk.NewAdmission(seal.Cut(), m)); err != nil {
			b.Fatal(err)
		}
	}
}
