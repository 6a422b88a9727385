package pluginpython

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	program   = "fencedstore-pysqlite"
	writerDSN = "FENCEDSTORE_TEST_WRITER" // the test binary is the writer that the suite kills
	writerBin = "FENCEDSTORE_TEST_PYTHON"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(writerDSN); dsn != "" {
		s, err := open(context.Background(), os.Getenv(writerBin), dsn)
		if err == nil {
			err = conformance.ServeWriter(context.Background(), s, os.Stdin, os.Stdout)
			s.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func options(bin string) *plugins.Options {
	return &plugins.Options{Env: []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}, StartTimeout: time.Minute}
}

func open(ctx context.Context, bin, dsn string) (*plugins.Store, error) {
	o := options(bin)
	o.DSN = dsn
	return plugins.Open(ctx, program, o)
}

// The manifest lists every file that the plug-in loads, as it is.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile(program + plugins.ManifestSuffix)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
			t.Errorf("%s has another hash; run ./manifest.sh", name)
		}
		listed[name] = true
	}
	for _, pattern := range []string{"*.py", "fencedstore/v1/*.py"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !listed[f] {
				t.Errorf("%s is not listed; add it to manifest.sh", f)
			}
		}
	}
}

// The plug-in certifies.
func TestCertifies(t *testing.T) {
	bin := filepath.Join(lab.Need(t, lab.GRPCPy), "bin")
	dsn := "pysqlite:" + filepath.Join(t.TempDir(), "store.db")
	p, err := plugins.Start(t.Context(), program, options(bin))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	h := conformance.Harness{Name: "pysqlite", Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := p.Open(ctx, dsn, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}, Spawn: func(context.Context) (*exec.Cmd, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), writerDSN+"="+dsn, writerBin+"="+bin)
		return cmd, nil
	}}
	r, err := conformance.Check(t.Context(), h, &conformance.Options{Profile: conformance.Quick, Schedules: 40})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Results {
		for _, f := range r.Results[i].Failures {
			t.Errorf("%s: got %s, want %s", r.Results[i].ID, f.Got, f.Want)
		}
	}
	if !r.Certified {
		t.Error(r.Verdict)
	}
}
