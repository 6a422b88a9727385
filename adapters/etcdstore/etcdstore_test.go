package etcdstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

const (
	serverDir = "FENCEDSTORE_TEST_ETCD_DIR" // the child is a server on this directory
	serverURL = "FENCEDSTORE_TEST_ETCD_URL"
	writerDSN = "FENCEDSTORE_TEST_WRITER" // the child is a writer
)

// TestMain is a server or a writer too, as processes that are really killed.
func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(serverDir) != "":
		err = serve(os.Getenv(serverDir), os.Getenv(serverURL))
	case os.Getenv(writerDSN) != "":
		var s sdk.FencedStore
		if s, err = Open(context.Background(), os.Getenv(writerDSN), sdk.OpenOptions{}); err == nil {
			err = conformance.ServeWriter(context.Background(), s, os.Stdin, os.Stdout)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is an etcd server until its standard input ends, that is: until the test
// is gone.
func serve(dir, client string) error {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = dir, "error"
	u, err := url.Parse(client)
	if err != nil {
		return err
	}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*u}, []url.URL{*u}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
		fmt.Println("ready")
	case err := <-e.Err():
		return err
	}
	bufio.NewReader(os.Stdin).ReadByte()
	return nil
}

// server is an etcd process on a directory and a port of its own.
type server struct {
	dir, host string
	cmd       *exec.Cmd
}

func start(t testing.TB) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{dir: t.TempDir(), host: l.Addr().String()}
	l.Close()
	s.run(t)
	t.Cleanup(s.kill)
	return s
}

func (s *server) run(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), serverDir+"="+s.dir, serverURL+"=http://"+s.host)
	s.cmd.Stderr = os.Stderr
	if _, err := s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		s.kill()
		t.Fatalf("the server said %q, %v", line, err)
	}
}

func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func (s *server) dsn(prefix string) string { return Scheme + s.host + "/" + prefix }

func opened(t testing.TB, s *server) sdk.FencedStore {
	t.Helper()
	st, err := Open(t.Context(), s.dsn("p"), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func TestConformance(t *testing.T) {
	s := start(t)
	conformance.Run(t, conformance.Harness{Name: "etcdkv",
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
			return Open(ctx, s.dsn("suite"), o)
		},
		Spawn: func(context.Context) (*exec.Cmd, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerDSN+"="+s.dsn("suite"))
			return cmd, nil
		},
		Damage: func(ctx context.Context, r sdk.ResourceID) error {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.host}})
			if err != nil {
				return err
			}
			defer client.Close()
			heads, err := client.Get(ctx, "suite/main/head/", clientv3.WithPrefix())
			if err != nil {
				return err
			}
			for _, kv := range heads.Kvs {
				if strings.Contains(string(kv.Value), `"resource":`+strconv.Quote(string(r))) {
					_, err := client.Delete(ctx, string(kv.Key))
					return err
				}
			}
			return errors.New("no head")
		},
	}, &conformance.Options{Match: lab.Cases(), Profile: conformance.Quick, Schedules: 50})
}

const resource sdk.ResourceID = "invoice/42"

func mutation(fence sdk.Token, segment int, op string, effects ...sdk.Effect) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: resource, Operation: id, Fence: fence, Segment: sdk.Segment(segment), Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())),
		Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

func apply(ctx context.Context, s sdk.FencedStore, m *sdk.Mutation) (sdk.Outcome, error) {
	return s.Apply(ctx, sdk.NewAdmission(seal.Cut(), m))
}

// The server is killed while a writer writes, again and again: nothing that was
// accepted is lost, and a repeat of what was under way is accepted once.
func TestServerIsKilled(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	segment := 0
	for round := range 5 {
		for range 3 {
			segment++
			if out, err := apply(t.Context(), st, mutation(1, segment, fmt.Sprint("op-", segment))); err != nil {
				t.Fatal(out.Code, err)
			}
		}
		killed := make(chan struct{})
		go func() { defer close(killed); s.kill() }()
		segment++
		m := mutation(1, segment, fmt.Sprint("op-", segment), sdk.Put("k", []byte("v")))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		out, err := apply(ctx, st, m)
		cancel()
		if err != nil && out.Code != sdk.MutationUnknown && out.Code != sdk.NotApplied {
			t.Fatalf("round %d: %v, %v", round, out.Code, err)
		}
		<-killed
		s.run(t)
		again, rerr := apply(t.Context(), st, m)
		if rerr != nil {
			t.Fatalf("round %d: first %v (%v), then %v, %v", round, out.Code, err, again.Code, rerr)
		}
		if out.Code.Ok() && again.Code != sdk.Replayed {
			t.Fatalf("round %d: %v before the kill is %v after it", round, out.Code, again.Code)
		}
		for i := 1; i <= segment; i++ {
			if r, err := st.Receipt(t.Context(), resource, sdk.OperationID(fmt.Sprint("op-", i))); err != nil || r.Segment != sdk.Segment(i) {
				t.Fatalf("round %d: receipt %d: %+v, %v", round, i, r, err)
			}
		}
	}
}

// C29: the cluster is restored from an older copy of its data, and its revisions
// come again with other content. A handle that remembers a head from before must
// not swap on it.
func TestRestoredCluster(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	if out, err := apply(t.Context(), st, mutation(1, 1, "op-1")); err != nil {
		t.Fatal(out.Code, err)
	}
	s.kill()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	s.run(t)
	if out, err := apply(t.Context(), st, mutation(1, 2, "op-2", sdk.Put("k", []byte("lost")))); err != nil {
		t.Fatal(out.Code, err)
	}
	s.kill()
	s.dir = copied
	s.run(t)
	// Another owner goes on from the restored state; the old handle's head has the
	// same revision as this one's.
	other := opened(t, s)
	if out, err := apply(t.Context(), other, mutation(1, 2, "op-x", sdk.Put("k", []byte("restored")))); err != nil {
		t.Fatal(out.Code, err)
	}
	out, err := apply(t.Context(), st, mutation(1, 3, "op-3"))
	if err != nil {
		t.Fatal(out.Code, err)
	}
	for op, want := range map[sdk.OperationID]sdk.Code{"op-1": 0, "op-x": 0, "op-3": 0, "op-2": sdk.NotFound} {
		if _, err := st.Receipt(t.Context(), resource, op); sdk.CodeOf(err) != want {
			t.Errorf("receipt of %s: %v", op, err)
		}
	}
}

// One transaction a mutation in the steady state, counted by the revisions that
// they make; the reads, by the client's own calls.
func TestRoundTrips(t *testing.T) {
	s := start(t)
	var calls atomic.Int64
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.host}, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			calls.Add(1)
			return invoke(ctx, method, req, reply, cc, opts...)
		})}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	st, err := New(t.Context(), client, "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i := 1; i <= 12; i++ {
		before := calls.Load()
		if _, err := apply(t.Context(), st, mutation(1, i, fmt.Sprint("op-", i))); err != nil {
			t.Fatal(err)
		}
		if n := calls.Load() - before; i > 2 && n != 1 {
			t.Errorf("segment %d took %d calls", i, n)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, r := range refusals {
		if err := classify(r.err, sdk.MutationUnknown); sdk.CodeOf(err) != r.code {
			t.Errorf("%v: %v", r.err, err)
		}
	}
	for _, err := range []error{rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrLeaderChanged, rpctypes.ErrStopped,
		context.DeadlineExceeded, context.Canceled, errors.New("EOF")} {
		if got := classify(err, sdk.MutationUnknown); sdk.CodeOf(got) != sdk.MutationUnknown {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestBadDSN(t *testing.T) {
	for _, d := range []string{"", "etcd:", "etcdkv://", "etcdkv://h", "etcdkv://h/p", "etcdkv://h:1", "etcdkv://h:1/", "etcdkv://user:pw@h:1/p", "etcdkv://h:1/a//b", "etcdkv://h:1/p?x=1",
		"etcdkv://h:1/p?tls=yes", "etcdkv://:1/p", "etcdkv://h:1,/p", "http://h:1/p", "etcdkv://h:1/a%2Fb"} {
		if _, err := Open(t.Context(), d, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, "etcdkv://127.0.0.1:1/p", sdk.OpenOptions{}); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("%v", err)
	}
}
