//go:build unix

package plugins

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// logged collects what the host logs.
type logged struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func newLogged() *logged { return &logged{changed: make(chan struct{})} }

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(b)
	close(l.changed)
	l.changed = make(chan struct{})
	return len(b), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// wait waits until what was logged holds text.
func (l *logged) wait(t *testing.T, text string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		l.mu.Lock()
		s, changed := l.buf.String(), l.changed
		l.mu.Unlock()
		if strings.Contains(s, text) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("never logged %q:\n%s", text, s)
		}
	}
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// options are for a plug-in of a mode; when the test ends no child and no file
// of it may be left.
func options(t testing.TB, mode string) (*Options, *logged) {
	t.Helper()
	temp, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left in the temporary folder: %v %v", left, err)
		}
		os.RemoveAll(temp)
		if left := running(temp); len(left) > 0 {
			t.Errorf("processes left behind: %v", left)
		}
	})
	l := newLogged()
	return &Options{DSN: "toy:", Env: []string{modeEnv + "=" + mode}, TempDir: temp, StartTimeout: 30 * time.Second,
		Logger: slog.New(slog.NewTextHandler(l, nil))}, l
}

// running are the processes of a program below dir, where /proc tells.
func running(dir string) (out []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if exe, err := os.Readlink(l); err == nil && strings.HasPrefix(exe, dir+"/") {
			out = append(out, l+" "+exe)
		}
	}
	return out
}

// wantFault wants UNSUITABLE for the reason, in words that hold texts.
func wantFault(t *testing.T, err error, reason Reason, texts ...string) {
	t.Helper()
	var f *Fault
	if !errors.As(err, &f) || f.Reason != reason || sdk.CodeOf(err) != sdk.Unsuitable {
		t.Fatalf("got %v, want UNSUITABLE because of %s", err, reason)
	}
	for _, text := range texts {
		if !strings.Contains(f.Detail, text) {
			t.Errorf("%q does not say %q", f.Detail, text)
		}
	}
}

// C34, C36, C96: each way in which a plug-in cannot be started has a reason of
// its own, and leaves nothing behind.
func TestStartFaults(t *testing.T) {
	for _, tc := range []struct {
		mode   string
		reason Reason
		texts  []string
	}{
		{"noise", StdoutNoise, []string{"hi ", "there"}},
		{"silent", NoHandshake, nil},
		{"chatty", NoHandshake, nil},
		{"exit", Exited, []string{"7", "cannot find my licence"}},
		{"panic", Exited, []string{"in the plug-in"}},
		{"version-0", WrongVersion, []string{"version 0", "below 1"}},
		{"version-99", WrongVersion, []string{"version 99", "speaks 1"}},
		{"core-2", WrongProtocol, nil},
		{"netrpc", WrongProtocol, nil},
		{"no-tls", NoTLS, nil},
		{"far", WrongProtocol, nil},
		{"nobody-listens", Unreachable, nil},
		{"rpc:lie-name", BadDescription, nil},
		{"rpc:lie-kinds", BadDescription, nil},
		{"rpc:lie-reason", BadDescription, nil},
		{"rpc:lie-environment", BadDescription, nil},
		{"rpc:lie-limit", BadDescription, nil},
		{"rpc:lie-handle", BadDescription, nil},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			o, l := options(t, tc.mode)
			if tc.reason == NoHandshake {
				o.StartTimeout = 300 * time.Millisecond
			}
			s, err := Open(t.Context(), self(t), o)
			if err == nil {
				s.Close()
				t.Fatal("it was started")
			}
			wantFault(t, err, tc.reason, tc.texts...)
			if said := fmt.Sprint(err); strings.Contains(said, "\x1b") || strings.Contains(l.String(), "\x1b") {
				t.Error("an escape sequence of the plug-in's got through")
			}
		})
	}
}

// An answer that is none is NOT_APPLIED, and what the plug-in refuses comes
// with its own code.
func TestOpenRefused(t *testing.T) {
	o, _ := options(t, "rpc:lie-nothing")
	if _, err := Open(t.Context(), self(t), o); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("no answer: %v", err)
	}
	o, _ = options(t, "good")
	o.DSN = "toy:refuse"
	if _, err := Open(t.Context(), self(t), o); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("refused: %v", err)
	}
}

func TestPathFaults(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	foreign = bytes.Clone(foreign[:4096])
	foreign[18], foreign[19] = byte(elf.EM_SPARCV9), 0
	for name, tc := range map[string]struct {
		path   string
		reason Reason
	}{
		"missing":      {filepath.Join(dir, "missing"), NotFound},
		"folder":       {dir, NotExecutable},
		"no x bit":     {file("plain", "#!/bin/sh\n", 0o644), NotExecutable},
		"text":         {file("text", "hello\n", 0o755), NotExecutable},
		"empty":        {file("empty", "", 0o755), NotExecutable},
		"damaged":      {file("damaged", "\x7fELF and nothing", 0o755), NotExecutable},
		"architecture": {file("foreign", string(foreign), 0o755), WrongArchitecture},
		"windows":      {file("windows.exe", "MZ\x00\x00", 0o755), WrongArchitecture},
		"script":       {file("script", "#!/bin/sh\nexit 0\n", 0o755), NoManifest},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(t, "")
			_, err := Open(t.Context(), tc.path, o)
			wantFault(t, err, tc.reason)
		})
	}
}

// C98: the path of the socket is checked up front, to the byte.
func TestTempDir(t *testing.T) {
	base, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	grow := func(n int) string {
		dir := base + "/" + strings.Repeat("d", n-len(base)-1)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	limit := maxSocketPathLinux
	if !strings.HasPrefix(elfOrOther(), "linux") {
		limit = maxSocketPathOther
	}
	most := limit - len("/"+privatePrefix+"4294967295/plugin-dir4294967295/plugin4294967295")
	o, _ := options(t, "good")
	o.TempDir = grow(most + 1)
	_, err = Open(t.Context(), self(t), o)
	wantFault(t, err, SocketPath, fmt.Sprint(limit))
	o.TempDir = grow(most)
	s, err := Open(t.Context(), self(t), o)
	if err != nil {
		t.Fatalf("at the limit: %v", err)
	}
	s.Close()
	o.TempDir = filepath.Join(base, "missing")
	_, err = Open(t.Context(), self(t), o)
	wantFault(t, err, TempDir)
	o.TempDir = file(t, filepath.Join(base, "file"))
	_, err = Open(t.Context(), self(t), o)
	wantFault(t, err, TempDir)
	// TMPDIR is what counts where no option is given.
	t.Setenv("TMPDIR", grow(120))
	o.TempDir = ""
	_, err = Open(t.Context(), self(t), o)
	wantFault(t, err, SocketPath)
}

func file(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// C97: what is executed is what was hashed.
func TestHash(t *testing.T) {
	o, _ := options(t, "good")
	o.SHA256 = strings.Repeat("0", 64)
	_, err := Open(t.Context(), self(t), o)
	wantFault(t, err, HashMismatch, o.SHA256)
	o.SHA256 = "short"
	if _, err := Open(t.Context(), self(t), o); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("short: %v", err)
	}

	// A link that is turned after the plug-in was started: the next process is
	// of the old bytes still.
	o, _ = options(t, "good")
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(self(t), link); err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), link, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o.SHA256 = p.SHA256()
	os.Remove(link)
	if err := os.WriteFile(link, []byte("#!/bin/sh\necho evil\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	old := p.PID()
	p.condemn(p.cur, "for this test")
	s, err := p.Open(t.Context(), "toy:", sdk.OpenOptions{})
	for err != nil && errors.Is(err, sdk.ErrNotApplied) && t.Context().Err() == nil {
		s, err = p.Open(t.Context(), "toy:", sdk.OpenOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if p.PID() == old || p.Starts() < 2 {
		t.Errorf("not replaced: %d starts", p.Starts())
	}
}

func elfOrOther() string {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "linux"
	}
	return "other"
}

// A script is executed from copies of what its manifest lists, and of nothing
// else.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), name)
	}
	script := write("run", "#!/bin/sh\n. \"$(dirname \"$0\")/lib/part\"\ntest -e \"$(dirname \"$0\")/unlisted\" && echo found it >&2\nexit 4\n")
	os.MkdirAll(filepath.Join(dir, "lib"), 0o700)
	part := write("lib/part", "echo part was loaded >&2\n")
	write("unlisted", "")
	path := filepath.Join(dir, "run")
	for name, tc := range map[string]struct {
		manifest string
		reason   Reason
	}{
		"good":           {script + part, Exited},
		"empty":          {"", BadManifest},
		"no lines":       {"hello\n", BadManifest},
		"another first":  {part + script, BadManifest},
		"twice":          {script + script, BadManifest},
		"above":          {script + strings.Repeat("0", 64) + "  ../x\n", BadManifest},
		"missing file":   {script + strings.Repeat("0", 64) + "  lib/none\n", BadManifest},
		"script differs": {strings.Repeat("0", 64) + "  run\n", HashMismatch},
		"part differs":   {script + strings.Repeat("0", 64) + "  lib/part\n", HashMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path+ManifestSuffix, []byte(tc.manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			o, l := options(t, "")
			_, err := Open(t.Context(), path, o)
			if name != "good" {
				wantFault(t, err, tc.reason)
				return
			}
			// cwd is the host's; $0 is in the copy's folder.
			wantFault(t, err, Exited, "exit status 4", "part was loaded")
			if strings.Contains(l.String(), "found it") {
				t.Error("a file that is not listed was copied")
			}
		})
	}
}

// A context that ends ends the start, and with it the child.
func TestStartCancelled(t *testing.T) {
	o, _ := options(t, "silent")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, self(t), o); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("got %v", err)
	}
}

// Started by hand it says what it is.
func TestByHand(t *testing.T) {
	var out, errs bytes.Buffer
	if code := serve(openToy, &ServeOptions{}, []string{"dir/fencedstore-toy", "--version"}, &out, &errs); code != 0 || !strings.HasPrefix(out.String(), "fencedstore-toy ") {
		t.Errorf("--version: %d %q", code, out.String())
	}
	if code := serve(openToy, &ServeOptions{}, []string{"fencedstore-toy"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "adaptercheck certify --plugin") {
		t.Errorf("by hand: %d %q", code, errs.String())
	}
	cmd := exec.Command(self(t), "-test.run=^$")
	cmd.Env = []string{cookieEnv + "=" + cookieValue}
	if b, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("with arguments: %s", b)
	}
}
