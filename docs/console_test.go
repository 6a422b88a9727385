package docs

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// command is one "$ …" of a console block with what it should print.
type command struct {
	page   string
	line   int
	shown  string // as the page has it
	run    string // what is run, where that is a cheaper command
	exit   string
	output string
}

// commands reads the console blocks under a comment "<!-- run -->". The comment
// may go on: "; exit 1" and "; as: COMMAND", which is run in place of the one
// that the page shows and prints the same but for numbers.
func commands(t *testing.T) []command {
	t.Helper()
	var out []command
	for _, p := range pages(t) {
		for _, b := range blocks(p.text) {
			notes := strings.Split(b.comment, "; ")
			if b.lang != "console" || notes[0] != "run" {
				continue
			}
			for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
				if shown, ok := strings.CutPrefix(line, "$ "); ok {
					c := command{page: p.name, line: b.line + i + 1, shown: shown, run: shown, exit: "0"}
					for _, n := range notes[1:] {
						if as, ok := strings.CutPrefix(n, "as: "); ok {
							c.run = as
						} else if exit, ok := strings.CutPrefix(n, "exit "); ok {
							c.exit = exit
						} else {
							t.Fatalf("%s:%d: note %q", p.name, b.line, n)
						}
					}
					out = append(out, c)
				} else if len(out) == 0 {
					t.Fatalf("%s:%d: the block does not begin with a command", p.name, b.line)
				} else {
					out[len(out)-1].output += line + "\n"
				}
			}
		}
	}
	return out
}

const viaGo = "go run ./cmd/adaptercheck"

var update = flag.Bool("update", false, "run the commands as the pages show them and write what they print into the pages")

// rewrite puts output behind the command in its page.
func (c *command) rewrite(t *testing.T, output string) {
	t.Helper()
	file := filepath.Join(root, c.page)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := "\n$ " + c.shown + "\n"
	text := strings.Replace(string(b), before+c.output, before+strings.TrimRight(output, "\n")+"\n", 1)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestCommands(t *testing.T) {
	list := commands(t)
	if len(list) < 3 {
		t.Fatalf("%d commands in the pages", len(list))
	}
	binary := filepath.Join(t.TempDir(), "adaptercheck")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "./cmd/adaptercheck")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	for _, c := range list {
		t.Run(c.page+"/"+c.shown, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			line := c.run
			if *update {
				line = c.shown
			}
			line = strings.ReplaceAll(line, viaGo, binary)
			cmd := exec.CommandContext(ctx, "sh", "-c", line)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "NO_COLOR=1", "TMPDIR="+t.TempDir())
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			if exit := strconv.Itoa(cmd.ProcessState.ExitCode()); exit != c.exit {
				t.Fatalf("%s:%d: exit %s, want %s\n%s%s", c.page, c.line, exit, c.exit, out, &stderr)
			}
			if *update {
				c.rewrite(t, string(out))
			} else if diff := compare(c.output, string(out)); diff != "" {
				t.Errorf("%s:%d: %s prints something else (-page +now):\n%s", c.page, c.line, c.run, diff)
			}
		})
	}
}

var (
	number = regexp.MustCompile(`\b\d[\d,.]*( ?(µs|ms|s|min|m|h))?(\d+(ms|s))?\b`)
	spaces = regexp.MustCompile(`[ \t]+`)
)

// compare returns the difference between what a page shows and what is printed,
// with every number taken as the same; "" if there is none. A line "..." on the
// page stands for any number of lines.
func compare(shown, printed string) string {
	var pattern strings.Builder
	for _, l := range lines(shown) {
		if l == "..." {
			pattern.WriteString(`(.*\n)*?`)
		} else {
			pattern.WriteString(regexp.QuoteMeta(l) + `\n`)
		}
	}
	now := strings.Join(lines(printed), "\n") + "\n"
	if regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(now) {
		return ""
	}
	return cmp.Diff(lines(shown), lines(printed))
}

func lines(s string) []string {
	var out []string
	for _, l := range strings.Split(strings.TrimRight(s, "\n"), "\n") {
		out = append(out, strings.TrimSpace(spaces.ReplaceAllString(number.ReplaceAllString(l, "0"), " ")))
	}
	return out
}

func TestCompare(t *testing.T) {
	tests := []struct {
		shown, printed string
		same           bool
	}{
		{"took 1.5 s\n", "took  320ms\n", true},
		{"a\n...\nz\n", "a\nb\nc\nz\n", true},
		{"a\n...\nz\n", "a\nb\n", false},
		{"stale 0\n", "late 0\n", false},
		{"law F1\n", "law F2\n", false},
		{"a\nb\n", "a\n", false},
		{"", "", true},
		{"", "a\n", false},
	}
	for _, x := range tests {
		if got := compare(x.shown, x.printed) == ""; got != x.same {
			t.Errorf("compare(%q, %q): same %v, want %v", x.shown, x.printed, got, x.same)
		}
	}
}
