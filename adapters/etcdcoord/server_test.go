package etcdcoord

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk/registry"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	serverDir = "FENCEDSTORE_TEST_ETCD_DIR" // the child is a server on this directory
	serverURL = "FENCEDSTORE_TEST_ETCD_URL"
	holderDSN = "FENCEDSTORE_TEST_HOLDER" // the child is a holder
)

// TestMain is a server or a holder too, as processes that are really killed.
func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(serverDir) != "":
		err = serve(os.Getenv(serverDir), os.Getenv(serverURL))
	case os.Getenv(holderDSN) != "":
		err = hold(os.Getenv(holderDSN))
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
	cfg.Dir, cfg.LogLevel = dir, "fatal"
	cfg.TickMs, cfg.ElectionMs = 10, 100 // the shortest lease is one second
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

// hold acquires, says so, and waits to be killed.
func hold(dsn string) error {
	c, err := Open(context.Background(), dsn, nil)
	if err != nil {
		return err
	}
	r, err := c.Acquire(context.Background(), registry.Acquisition{Key: key("killed", "1"), TTL: time.Second})
	if err != nil {
		return err
	}
	fmt.Println(r.Token)
	bufio.NewReader(os.Stdin).ReadByte()
	return errors.New("the test is gone")
}

// server is an etcd process on a directory and a port of its own.
type server struct {
	dir, copied, host string
	cmd               *exec.Cmd
}

func start(t testing.TB) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{dir: t.TempDir(), host: l.Addr().String()}
	l.Close()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

func (s *server) run() error {
	cmd, line, err := child(serverDir+"="+s.dir, serverURL+"=http://"+s.host)
	s.cmd = cmd
	if err == nil && line != "ready\n" {
		s.kill()
		err = fmt.Errorf("the server said %q", line)
	}
	return err
}

// child starts this binary as something else and returns its first line.
func child(env ...string) (*exec.Cmd, string, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
	return cmd, line, err
}

func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func (s *server) restart(context.Context) error {
	s.kill()
	return s.run()
}

// snapshot copies the data as it is; rewind starts on the copy.
func (s *server) snapshot(context.Context) error {
	s.kill()
	s.copied = s.dir + "-copy"
	if err := errors.Join(os.RemoveAll(s.copied), os.CopyFS(s.copied, os.DirFS(s.dir))); err != nil {
		return err
	}
	return s.run()
}

func (s *server) rewind(context.Context) error {
	s.kill()
	if err := errors.Join(os.RemoveAll(s.dir), os.Rename(s.copied, s.dir)); err != nil {
		return err
	}
	return s.run()
}

func (s *server) dsn() string { return Scheme + s.host + "/coord" }

// client is a client of the test's own.
func (s *server) client(t testing.TB, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.host}, DialOptions: options, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *server) open(t testing.TB) *Coordinator {
	t.Helper()
	c, err := Open(t.Context(), s.dsn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func key(owner, id string) registry.Key {
	return registry.Key{Resource: "invoice/42", Owner: owner, RequestID: id}
}

func ask(owner, id string) registry.Acquisition {
	return registry.Acquisition{Key: key(owner, id), TTL: time.Minute}
}

func keyValue(value []byte) *mvccpb.KeyValue { return &mvccpb.KeyValue{Value: value} }
