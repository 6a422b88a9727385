package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

// pluginFlags are those of commands that open stores.
type pluginFlags struct {
	path string
	env  []string
}

func (f *pluginFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.path, "plugin", "", "open the store through the plug-in `PATH`, or the one of that name in "+plugins.PathEnv)
	flags.StringArrayVar(&f.env, "plugin-env", nil, "pass the variable `NAME` (or NAME=value) on to the plug-in; may be repeated")
}

// pluginRef is the plug-in of a target.
type pluginRef struct {
	path string
	env  []string
}

// what the writer that certify kills is told.
const (
	pluginEnv     = "ADAPTERCHECK_PLUGIN"
	pluginPassEnv = "ADAPTERCHECK_PLUGIN_ENV" // a name or NAME=value a line
)

func (f *pluginFlags) ref() (*pluginRef, error) {
	if f.path == "" {
		if len(f.env) > 0 {
			return nil, usagef("--plugin-env goes with --plugin")
		}
		return nil, nil
	}
	path := f.path
	if filepath.Base(path) == path {
		for _, found := range plugins.Discover(os.Getenv(plugins.PathEnv)) {
			if found.Name == path || plugins.FilePrefix+found.Name == path {
				path = found.Path
			}
		}
	}
	if _, err := os.Stat(path); err != nil {
		return nil, usagef("--plugin %s: there is no such file, and no such name in the folders of %s", f.path, plugins.PathEnv)
	}
	return &pluginRef{path: path, env: f.env}, nil
}

// name is the plug-in's, without folder and prefix.
func (r *pluginRef) name() string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(r.path), plugins.FilePrefix), ".exe")
}

// through is a target opened through a plug-in. The built-in adapter, where
// there is one for the DSN, still makes fresh stores and does what is done
// behind a store's back.
func (c *cli) through(ref *pluginRef, arg string) (target, error) {
	t, err := c.parseTarget(arg)
	if err != nil {
		if !strings.Contains(arg, ":") {
			return t, usagef("%q is neither a DSN nor a built-in adapter that makes a fresh store; name a DSN that %s opens", arg, filepath.Base(ref.path))
		}
		t = target{Arg: arg, dsn: arg, adapter: &adapter{Name: ref.name(), Network: true, Kill: true}}
	}
	t.plugin = ref
	return t, nil
}

// start starts the plug-in and returns what opens its stores.
func (r *pluginRef) start(ctx context.Context, dsn string, log *slog.Logger) (opener, *plugins.Plugin, error) {
	p, err := plugins.Start(ctx, r.path, &plugins.Options{Env: r.env, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := p.Open(ctx, dsn, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}, p, nil
}

// environ is what a spawned writer needs to open the same.
func (r *pluginRef) environ() []string {
	if r == nil {
		return nil
	}
	return []string{pluginEnv + "=" + r.path, pluginPassEnv + "=" + strings.Join(r.env, "\n")}
}

// spawnedRef is the plug-in that this process was told to write through.
func spawnedRef() *pluginRef {
	path := os.Getenv(pluginEnv)
	if path == "" {
		return nil
	}
	r := &pluginRef{path: path}
	for line := range strings.SplitSeq(os.Getenv(pluginPassEnv), "\n") {
		if line != "" {
			r.env = append(r.env, line)
		}
	}
	return r
}

// pluginHarness leaves out of h what a plug-in of an adapter that is not built
// in cannot be asked for.
func (s *subject) pluginHarness(h conformance.Harness) conformance.Harness {
	if s.plugin != nil {
		h.Name = fmt.Sprintf("%s through %s", h.Name, filepath.Base(s.plugin.path))
	}
	return h
}
