package sqlitestore_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	childFile = "FENCEDSTORE_TEST_WRITE" // the file that a child process writes to
	childFrom = "FENCEDSTORE_TEST_FROM"
)

var killSeed = flag.Uint64("seed", 0, "seed of the kill test; 0 draws one")

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		from, err := strconv.Atoi(os.Getenv(childFrom))
		if err == nil {
			err = writeForEver(path, from)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const killWriters = 4

func killResource(w int) sdk.ResourceID { return sdk.ResourceID("kill/" + strconv.Itoa(w)) }

func killMutation(w, n int) *sdk.Mutation {
	value := []byte(strconv.Itoa(n))
	m := mutation(3, sdk.Segment(n), "op-"+strconv.Itoa(n), sdk.Put("last", value), sdk.Put("n-"+strconv.Itoa(n), value))
	m.Resource = killResource(w)
	return m
}

// writeForEver is the child: several writers, each telling on stdout what was
// accepted, until it is killed.
func writeForEver(path string, round int) error {
	s, err := sqlitestore.Open(context.Background(), "sqlite:"+path, sdk.OpenOptions{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	errs := make(chan error, killWriters)
	for w := range killWriters {
		state, err := s.Inspect(context.Background(), killResource(w))
		if err != nil {
			return err
		}
		go func() {
			for n := int(state.Segment) + 1; ; n++ {
				out, err := s.Apply(context.Background(), admit(killMutation(w, n)))
				if err != nil {
					errs <- fmt.Errorf("writer %d, %d: %v, %w", w, n, out.Code, err)
					return
				}
				mu.Lock()
				fmt.Printf("%d %d\n", w, n)
				mu.Unlock()
			}
		}()
	}
	return <-errs
}

// A writing process is killed at random instants: no accepted receipt is
// missing, no mutation is there by half, none was applied twice.
func TestKill(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	if *killSeed == 0 {
		*killSeed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d rounds; replay: go test ./adapters/sqlitestore -run TestKill -seed %d", rounds, *killSeed)
	rng := rand.New(rand.NewPCG(*killSeed, 0))
	path := tempFile(t)
	accepted := make([]int, killWriters)
	total := 0
	for round := range rounds {
		acks := killOnce(t, path, round, 1+rng.IntN(30), time.Duration(rng.IntN(3000))*time.Microsecond)
		for _, a := range acks {
			if accepted[a[0]] >= a[1] {
				t.Fatalf("round %d: writer %d had %d accepted twice", round, a[0], a[1])
			}
			accepted[a[0]] = a[1]
			total++
		}
		checkKilled(t, path, accepted)
	}
	t.Logf("%d mutations were acknowledged", total)
}

// killOnce runs a child, lets it acknowledge some mutations and then a little
// more, and kills it.
func killOnce(t *testing.T, path string, round, acks int, more time.Duration) (out [][2]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childFile+"="+path, childFrom+"="+strconv.Itoa(round))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	read := func() bool {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false // without its end, a line was not acknowledged
		}
		var w, n int
		if _, err := fmt.Sscanf(line, "%d %d\n", &w, &n); err != nil || w >= killWriters {
			t.Fatalf("round %d: the child said %q", round, line)
		}
		out = append(out, [2]int{w, n})
		return true
	}
	for range acks {
		if !read() {
			cmd.Wait()
			t.Fatalf("round %d: the child ended: %s", round, stderr.String())
		}
	}
	timer := time.AfterFunc(more, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for read() {
	}
	cmd.Wait()
	return out
}

// checkKilled looks at what is in the file against what was acknowledged. At
// most one more mutation per writer may be there: the one under way.
func checkKilled(t *testing.T, path string, accepted []int) {
	t.Helper()
	s := open(t, path, sdk.OpenOptions{})
	defer s.Close()
	for w, n := range accepted {
		r := killResource(w)
		state, err := s.Inspect(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		last := int(state.Segment)
		if last < n || last > n+1 {
			t.Fatalf("writer %d: the store is at %d, %d were acknowledged", w, last, n)
		}
		for i := max(1, n-2); i <= last; i++ {
			receipt, err := s.Receipt(t.Context(), r, sdk.OperationID("op-"+strconv.Itoa(i)))
			if err != nil || receipt.Segment != sdk.Segment(i) {
				t.Fatalf("writer %d: receipt %d: %+v, %v", w, i, receipt, err)
			}
			if v, err := s.Read(t.Context(), r, "n-"+strconv.Itoa(i)); err != nil || string(v) != strconv.Itoa(i) {
				t.Fatalf("writer %d: value %d: %q, %v", w, i, v, err)
			}
		}
		if _, err := s.Read(t.Context(), r, "n-"+strconv.Itoa(last+1)); sdk.CodeOf(err) != sdk.NotFound {
			t.Fatalf("writer %d: half a mutation %d: %v", w, last+1, err)
		}
		if v, err := s.Read(t.Context(), r, "last"); last > 0 && (err != nil || string(v) != strconv.Itoa(last)) {
			t.Fatalf("writer %d: last is %q, %v, want %d", w, v, err, last)
		}
		accepted[w] = last
	}
}
