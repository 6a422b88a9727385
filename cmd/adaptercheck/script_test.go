package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary run as adaptercheck: in the scripts, and where
// adaptercheck starts itself as the writer that it kills.
func TestMain(m *testing.M) {
	if os.Getenv("FENCEDSTORE_PLUGIN") != "" {
		servePlugin()
	}
	testscript.Main(m, map[string]func(){"adaptercheck": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			tmp := filepath.Join(env.WorkDir, "tmp")
			env.Setenv("TMPDIR", tmp)
			env.Setenv("NO_COLOR", "")
			env.Setenv("TERM", "xterm")
			self, err := os.Executable()
			if err != nil {
				return err
			}
			env.Setenv("SELF", self) // which is a plug-in too
			return os.MkdirAll(tmp, 0o755)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":       codeCmd,
			"keys":       keysCmd,
			"empty":      emptyCmd,
			"jsonhas":    jsonHasCmd,
			"wellformed": wellFormedCmd,
			"widest":     widestCmd,
			"interrupt":  interruptCmd,
		},
	})
}

// code N args... runs adaptercheck, which must end with exit code N.
func codeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N [args...]")
	}
	err := ts.Exec("adaptercheck", args[1:]...)
	got := 0
	if err != nil {
		var ok bool
		if got, ok = exitCode(err); !ok {
			ts.Fatalf("adaptercheck: %v", err)
		}
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("adaptercheck %s: exit code %d, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

func exitCode(err error) (int, bool) {
	type coder interface{ ExitCode() int }
	if e, ok := err.(coder); ok {
		return e.ExitCode(), true
	}
	return 0, false
}

// empty DIR fails unless nothing is in DIR.
func emptyCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty DIR")
	}
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, e := range entries {
		ts.Fatalf("%s is left behind in %s", e.Name(), args[0])
	}
}

// jsonhas FILE PATH WANT looks a value up by a dotted path of keys and indices.
func jsonHasCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: jsonhas FILE PATH WANT")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	dec.UseNumber()
	var v any
	ts.Check(dec.Decode(&v))
	for key := range strings.SplitSeq(args[1], ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(node) {
				ts.Fatalf("%s: no element %q", args[1], key)
			}
			v = node[i]
		default:
			ts.Fatalf("%s: nothing under %q", args[1], key)
		}
	}
	if got := fmt.Sprint(v); (got == args[2]) == neg {
		ts.Fatalf("%s of %s is %s, want %s", args[1], args[0], got, args[2])
	}
}

// wellformed FILE parses XML to its end.
func wellFormedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: wellformed FILE")
	}
	dec := xml.NewDecoder(bytes.NewReader([]byte(ts.ReadFile(args[0]))))
	elements := 0
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		ts.Check(err)
		if _, ok := tok.(xml.StartElement); ok {
			elements++
		}
	}
	if elements == 0 {
		ts.Fatalf("%s has no element", args[0])
	}
}

// widest N fails if a line of stdout has more than N characters.
func widestCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: widest N")
	}
	var limit int
	if _, err := fmt.Sscan(args[0], &limit); err != nil {
		ts.Fatalf("widest %s: %v", args[0], err)
	}
	for l := range strings.SplitSeq(ts.ReadFile("stdout"), "\n") {
		if n := runes(l); n > limit {
			ts.Fatalf("%d characters, want at most %d: %s", n, limit, l)
		}
	}
}
