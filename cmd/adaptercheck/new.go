package main

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

//go:embed template
var templates embed.FS

// scaffold is what the template's files are filled with.
type scaffold struct {
	Name    string // of the adapter
	Module  string
	Version string // of this module
	Replace string // a folder with this module, or empty
}

func (c *cli) newCmd() *cobra.Command {
	s := scaffold{}
	cmd := &cobra.Command{
		Use:   "new NAME DIR",
		Short: "Write the beginning of an adapter of your own, as a plug-in",
		Long: `New writes a Go module into DIR, which it makes: a store whose methods are still
to be written, the main of the plug-in, and a test that plays the suite against
it. It compiles and serves at once; the cases that fail say what is left to do.`,
		Example: `  adaptercheck new acme ./fencedstore-acme
  cd fencedstore-acme && go mod tidy && go test ./...`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("give a name and a folder: 'adaptercheck new acme ./fencedstore-acme'")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			s.Name = args[0]
			return c.scaffold(&s, args[1])
		},
	}
	cmd.Flags().StringVar(&s.Module, "module", "", "the module's `PATH`; example.com/fencedstore-NAME if not given")
	cmd.Flags().StringVar(&s.Replace, "replace", "", "use the copy of fencedstore in `DIR` in place of a released version")
	return cmd
}

func (c *cli) scaffold(s *scaffold, dir string) error {
	ok := len(s.Name) >= 1 && len(s.Name) <= 30 && s.Name[0] >= 'a' && s.Name[0] <= 'z' && strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
	if !ok {
		return usagef("%q: a name is 1 to 30 of a-z 0-9 and begins with a letter", s.Name)
	}
	if s.Module == "" {
		s.Module = "example.com/fencedstore-" + s.Name
	}
	s.Version = "v0.0.0"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		s.Version = info.Main.Version
	}
	if s.Replace != "" {
		abs, err := filepath.Abs(s.Replace)
		if err != nil {
			return usagef("--replace: %w", err)
		}
		s.Replace = abs
	}
	if _, err := os.Stat(dir); err == nil {
		return usagef("%s is there already; name a folder that is not", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usagef("%w", err)
	}
	err := fs.WalkDir(templates, "template", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		t, err := template.ParseFS(templates, path)
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".tmpl")))
		if err != nil {
			return err
		}
		if err := t.Execute(f, s); err != nil {
			f.Close()
			return err
		}
		return f.Close()
	})
	if err != nil {
		return err
	}
	c.out.printf("%s is ready. Next:\n\n  cd %s\n  go mod tidy\n  go test ./...        # the failing cases are what is left to write\n  go build -o fencedstore-%s . && adaptercheck certify --plugin ./fencedstore-%s %s:\n",
		dir, shellWord(dir), s.Name, s.Name, s.Name)
	return nil
}
