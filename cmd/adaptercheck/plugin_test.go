package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

// servePlugin makes the test binary a plug-in with every built-in adapter, each
// with one set of data for a DSN.
func servePlugin() {
	bound := map[string]opener{}
	plugins.Serve(func(ctx context.Context, dsn string, o sdk.OpenOptions) (sdk.FencedStore, error) {
		if bound[dsn] == nil {
			t, err := (&cli{adapters: builtin()}).parseTarget(dsn)
			if err != nil {
				return nil, sdk.Errorf(sdk.Invalid, "DSN", "%w", err)
			}
			if bound[dsn], err = t.adapter.Bind(dsn); err != nil {
				return nil, err
			}
		}
		return bound[dsn](ctx, o)
	})
}

// noHook is a store without apply_tx, which does not cross to a plug-in.
type noHook struct{ sdk.FencedStore }

func (s noHook) Describe() sdk.Description {
	d := s.FencedStore.Describe()
	d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.NotSupported, Reason: "as through a plug-in"}
	return d
}

func (s noHook) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	d := s.Describe()
	if _, err := d.Check(a); err != nil {
		return sdk.Refusal(err), err
	}
	return s.FencedStore.Apply(ctx, a)
}

// The whole suite gives the same verdict for every case through a plug-in as in
// process: for a store in memory, on disk, and behind a network.
func TestSameVerdictsThroughPlugin(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	passed := []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"}
	for _, arg := range []string{"mem", "sqlite", "s3"} {
		t.Run(arg, func(t *testing.T) {
			if testing.Short() && arg != "sqlite" {
				t.Skip("short: run without -short for every store")
			}
			verdicts := func(ref *pluginRef) []string {
				if arg == "s3" {
					arg = fakeS3(t)
				}
				c := &cli{adapters: builtin()}
				tgt, err := c.parseAny(arg, ref)
				if err != nil {
					t.Fatal(err)
				}
				s, err := tgt.bind()
				if err != nil {
					t.Fatal(err)
				}
				defer s.remove()
				h := s.harness()
				if ref == nil {
					h.Open = func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
						store, err := s.open(ctx, o)
						if err != nil {
							return nil, err
						}
						return noHook{store}, nil
					}
				}
				r, err := conformance.Check(t.Context(), h, &conformance.Options{Profile: conformance.Quick, Seed: 11, Schedules: 40})
				if err != nil {
					t.Fatal(err)
				}
				var out []string
				for i := range r.Results {
					out = append(out, r.Results[i].ID+" "+string(r.Results[i].Status))
					for _, f := range r.Results[i].Failures {
						t.Errorf("%s, plug-in %v: got %s, want %s", r.Results[i].ID, ref != nil, f.Got, f.Want)
					}
				}
				return out
			}
			within, over := verdicts(nil), verdicts(&pluginRef{path: self, env: passed})
			if !slices.Equal(within, over) {
				t.Errorf("in process %q\nthrough the plug-in %q", within, over)
			}
		})
	}
}

// fakeS3 is a bucket in this process's memory, behind HTTP.
func fakeS3(t *testing.T) string {
	t.Helper()
	for k, v := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull} {
		t.Setenv(k, v)
	}
	backend := s3mem.New()
	if err := backend.CreateBucket("fences"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(srv.Close)
	return "s3://fences/p?region=us-east-1&path_style=true&checksum=when_required&environment=emulator&quarantine=20&endpoint=" + url.QueryEscape(srv.URL)
}

// What 'new' writes compiles, serves and plays the suite, which fails.
func TestNew(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it compiles another module; run without -short")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "acme")
	if code := run([]string{"new", "--replace", root, "acme", dir}, strings.NewReader(""), os.Stdout, os.Stderr); code != 0 {
		t.Fatalf("new: exit code %d", code)
	}
	// The sums of this module are those of the new one, which needs no network.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := command("vet", "./..."); err != nil {
		t.Fatalf("vet: %v\n%s", err, out)
	}
	if out, err := command("build", "-o", "fencedstore-acme", "."); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	s, err := plugins.Open(t.Context(), filepath.Join(dir, "fencedstore-acme"), &plugins.Options{DSN: "acme:"})
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Describe(); d.Name != "acme" {
		t.Errorf("it calls itself %q", d.Name)
	}
	s.Close()
	out, err := command("test", "-run", "TestConformance/(contract|fence)/", "./...")
	if err == nil || !strings.Contains(out, "--- FAIL: TestConformance/fence/stale-token-refused") || !strings.Contains(out, "not written yet") {
		t.Errorf("the suite did not fail as it should: %v\n%s", err, out)
	}
}

// keys NAME... writes throw-away keys to NAME.pem and NAME.pub.
func keysCmd(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		public, private, err := ed25519.GenerateKey(nil)
		ts.Check(err)
		secret, err := x509.MarshalPKCS8PrivateKey(private)
		ts.Check(err)
		open, err := x509.MarshalPKIXPublicKey(public)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
		ts.Check(os.WriteFile(ts.MkAbs(name+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o600))
	}
}
