package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const childEnv = "FENCEDSTORE_LAB_CHILD"

// TestMain makes the test binary a process that starts a server and waits to be
// killed.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "1000")
	started, done := make(chan error), make(chan struct{})
	go supervise(cmd, started, done)
	if err := <-started; err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	<-done
}

// Whoever is killed takes the servers along that it has started.
func TestNothingIsLeftByAKilledTest(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	// The server inherits this pipe: it ends when both are gone.
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(line)
	}
	cmd.Process.Kill()
	io.Copy(io.Discard, lines)
	cmd.Wait()
	for syscall.Kill(pid, 0) == nil { // its new parent has yet to collect it
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, fs.ErrNotExist) || strings.Contains(string(b), ") Z ") {
			break
		}
	}
}

// A server that is killed is gone, and serves its data again after Restart.
func TestKillAndRestart(t *testing.T) {
	p := Start(t, Versitygw)
	req := func() error {
		res, err := http.Get(p.URL() + "/")
		if err == nil {
			res.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
		return err
	}
	if err := req(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Data+"/kept", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if err := req(); err == nil {
		t.Error("a killed server answers")
	}
	p.Restart()
	if err := req(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.Data + "/kept"); err != nil {
		t.Error(err)
	}
}

func TestProxy(t *testing.T) {
	p := Handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }), func(r *http.Request) string { return r.Method })
	front := Front(t, p.URL, func(r *http.Request) string { return r.Method })
	res, err := http.Get(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(host) != front.Listener.Addr().String() {
		t.Errorf("the Host header became %q", host)
	}
	front.Set(func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })
	if _, err := http.Post(front.URL, "text/plain", strings.NewReader("x")); err == nil {
		t.Error("a cut request was answered")
	}
	if front.Count("GET") != 1 || front.Count("POST") != 1 || front.Count("") != 2 || p.Count("") != 1 {
		t.Errorf("%v, %v", front.calls, p.calls)
	}
	front.Set(nil)
	p.CloseClientConnections()
	p.Close()
	if _, err := http.Post(front.URL, "text/plain", nil); err == nil {
		t.Error("a server that is gone was answered for")
	}
}

func TestServers(t *testing.T) {
	for _, s := range append(Servers(), MotoThreads) {
		if s.Name == "" || s.Version == "" || s.About == "" || s.Cannot == "" || s.Command == nil {
			t.Errorf("%+v", s)
		}
		if Find(s.Name) == nil {
			t.Errorf("%s is not found", s.Name)
		}
	}
	if Find("") != nil {
		t.Error("a server without a name")
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
