//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	hostDSN  = "FENCEDSTORE_TEST_HOST" // the test binary is a host, to be killed
	killsEnv = "FENCEDSTORE_KILLS"     // how often the plug-in is killed; 20 if not set
)

// The test binary is the plug-in and the host to be killed too.
func TestMain(m *testing.M) {
	if os.Getenv("FENCEDSTORE_PLUGIN") != "" {
		main()
	}
	if dsn := os.Getenv(hostDSN); dsn != "" {
		hostUntilKilled(dsn)
	}
	os.Exit(m.Run())
}

func open(ctx context.Context, dsn string) (*plugins.Store, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return plugins.Open(ctx, self, &plugins.Options{DSN: dsn, StartTimeout: time.Minute})
}

func mutation(r string, fence sdk.Token, n int) sdk.Admission {
	op := sdk.OperationID("op-" + strconv.Itoa(n))
	effects := []sdk.Effect{sdk.Put("last", []byte(strconv.Itoa(n))), sdk.Put(string(op), make([]byte, 300))}
	return sdk.NewAdmission(seal.Cut(), &sdk.Mutation{Resource: sdk.ResourceID(r), Operation: op, Fence: fence, Segment: sdk.Segment(n),
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())), Payload: sdk.PayloadDigest(op, nil, effects),
		Owner: "worker", Time: time.UnixMilli(1_700_000_000_000).UTC(), Effects: effects})
}

// C33, C96: the plug-in is SIGKILLed at random instants while it writes. No
// accepted receipt is lost, none is applied twice, NOT_APPLIED is never said of
// what is there.
func TestKilled(t *testing.T) {
	kills := 20
	if s := os.Getenv(killsEnv); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d kills; %s=200 for more", seed, kills, killsEnv)
	rng := rand.New(rand.NewPCG(seed, 0))
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	s, err := open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	const writers = 4
	var wrote, unknown, replayed atomic.Int64
	acks := make(chan struct{}, 1)
	stop := make(chan struct{})
	last := make([]int, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := "kill/" + strconv.Itoa(w)
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				said := sdk.Code(0)
				for said == 0 || !said.Ok() {
					before := said
					out, err := s.Apply(t.Context(), mutation(r, 3, n))
					said = out.Code
					switch said {
					case sdk.Accepted:
					case sdk.Replayed:
						replayed.Add(1)
						if before == sdk.NotApplied || before == 0 {
							t.Errorf("%s %d: REPLAYED after %v", r, n, before)
						}
					case sdk.MutationUnknown:
						unknown.Add(1)
					case sdk.NotApplied:
						if before == sdk.MutationUnknown {
							said = before // what is unknown stays so until it is settled
						}
					default:
						t.Errorf("%s %d: %v", r, n, err)
						return
					}
				}
				last[w] = n
				wrote.Add(1)
				select {
				case acks <- struct{}{}:
				default:
				}
			}
		})
	}
	for last, killed := 0, 0; killed < kills; {
		for range 1 + rng.IntN(12) {
			<-acks
		}
		for range rng.IntN(20_000) { // somewhere within a write
			_ = s.Plugin()
		}
		if pid := s.Plugin().PID(); pid != 0 && pid != last {
			syscall.Kill(pid, syscall.SIGKILL)
			last = pid
			killed++
		}
	}
	close(stop)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d writes, %d unknown, %d of them replayed, %d processes", wrote.Load(), unknown.Load(), replayed.Load(), s.Plugin().Starts())

	direct, err := sqlitestore.Open(t.Context(), dsn, sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	for w := range writers {
		r := sdk.ResourceID("kill/" + strconv.Itoa(w))
		state, err := direct.Inspect(t.Context(), r)
		if err != nil || state.Segment != sdk.Segment(last[w]) {
			t.Errorf("%s: %v %v, want segment %d", r, state, err, last[w])
		}
		for n := 1; n <= last[w]; n++ {
			rec, err := direct.Receipt(t.Context(), r, sdk.OperationID("op-"+strconv.Itoa(n)))
			if err != nil || rec.Segment != sdk.Segment(n) {
				t.Errorf("%s: receipt %d lost: %v", r, n, err)
			}
		}
	}
}

func hostUntilKilled(dsn string) {
	s, err := open(context.Background(), dsn)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Plugin().PID())
	for n := 1; ; n++ {
		if _, err := s.Apply(context.Background(), mutation("orphan", 3, n)); err != nil {
			select {} // to be killed
		}
	}
}

// C33: a plug-in that slept through its host's death, and through the next
// owner's claim, is refused by the fence, and ends.
func TestOrphanWakesLate(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	temp, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp) // a killed host leaves its private folder
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), hostDSN+"="+dsn, "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(bufio.NewReader(out), &pid); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() && running(pid) { // asleep for ever
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	s, err := open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// Put to sleep where it does not hold SQLite's lock, or nobody could write.
	for n, free := 1, false; !free; n++ {
		syscall.Kill(pid, syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := s.Apply(ctx, mutation("another-"+strconv.Itoa(n), 1, 1))
		cancel()
		if free = err == nil; !free {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if out, err := s.Apply(t.Context(), claim(4)); err != nil && out.Code != sdk.NotApplied {
		t.Fatalf("claim: %v", err)
	}
	before, err := s.Inspect(t.Context(), "orphan")
	if err != nil || before.Highest != 4 {
		t.Fatalf("%v %v", before, err)
	}
	syscall.Kill(pid, syscall.SIGCONT)
	limit := time.Now().Add(3 * time.Second)
	for running(pid) {
		if time.Now().After(limit) {
			t.Fatal("the orphan is alive after 3 s")
		}
	}
	after, err := s.Inspect(t.Context(), "orphan")
	if err != nil || after != before {
		t.Errorf("the orphan changed %v to %v (%v)", before, after, err)
	}
	if out, _ := s.Apply(t.Context(), mutation("orphan", 3, 1_000_000)); out.Code != sdk.StaleOwner {
		t.Errorf("under the old fence: %v", out.Code)
	}
}

func claim(fence sdk.Token) sdk.Admission {
	grant := sdk.SumDigest([]byte(fence.String()))
	op := sdk.ClaimID(grant)
	return sdk.NewAdmission(seal.Cut(), &sdk.Mutation{Resource: "orphan", Operation: op, Fence: fence, Segment: 1,
		Root: sdk.SumDigest([]byte("root")), Grant: grant, Payload: sdk.PayloadDigest(op, nil, nil), Owner: "worker",
		Time: time.UnixMilli(1_700_000_000_000).UTC()})
}

// running reports whether a process runs; a zombie does not.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	var n int
	var name, state string
	fmt.Sscanf(string(b), "%d %s %s", &n, &name, &state)
	return state != "Z"
}
