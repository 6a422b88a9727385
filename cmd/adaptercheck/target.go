package main

import (
	"context"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

// target is a store as it was named on the command line; nothing is opened yet.
type target struct {
	Arg     string // as given
	adapter *adapter
	dsn     string // empty: a fresh store
	plugin  *pluginRef
}

// parseTarget reads a DSN or the bare name of an adapter.
func (c *cli) parseTarget(arg string) (target, error) {
	scheme, _, isDSN := strings.Cut(arg, ":")
	if !isDSN {
		for i := range c.adapters {
			if a := &c.adapters[i]; a.Name == arg {
				if a.Fresh == nil {
					return target{}, usagef("%s needs a DSN, for example %s", arg, a.Example)
				}
				return target{Arg: arg, adapter: a}, nil
			}
		}
		return target{}, usagef("%q is neither an adapter nor a DSN%s; 'adaptercheck adapters' lists what can be checked",
			arg, didYouMean(arg, c.adapterNames()))
	}
	for i := range c.adapters {
		for _, s := range c.adapters[i].Schemes {
			if s == scheme {
				return target{Arg: arg, adapter: &c.adapters[i], dsn: arg}, nil
			}
		}
	}
	return target{}, usagef("%q: no adapter opens %q%s; 'adaptercheck adapters' lists the schemes",
		redact(arg), scheme+":", didYouMean(scheme, c.schemes()))
}

func (c *cli) parseTargets(args []string, ref *pluginRef) ([]target, error) {
	var out []target
	for _, arg := range args {
		t, err := c.parseAny(arg, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// parseAny is parseTarget, through a plug-in where one is given or where only
// one in the folders of FENCEDSTORE_PLUGIN_PATH is named like the scheme.
func (c *cli) parseAny(arg string, ref *pluginRef) (target, error) {
	if ref != nil {
		return c.through(ref, arg)
	}
	t, err := c.parseTarget(arg)
	if err == nil {
		return t, nil
	}
	scheme, _, isDSN := strings.Cut(arg, ":")
	for _, found := range plugins.Discover(os.Getenv(plugins.PathEnv)) {
		if isDSN && found.Name == scheme {
			return c.through(&pluginRef{path: found.Path}, arg)
		}
	}
	return t, err
}

func (c *cli) adapterNames() []string {
	var out []string
	for i := range c.adapters {
		out = append(out, c.adapters[i].Name)
	}
	return out
}

func (c *cli) schemes() []string {
	var out []string
	for i := range c.adapters {
		out = append(out, c.adapters[i].Schemes...)
	}
	return out
}

// completeTarget offers the bare names to the shell; a DSN is not completed.
func (c *cli) completeTarget(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for i := range c.adapters {
		if a := &c.adapters[i]; a.Fresh != nil {
			out = append(out, a.Name+"\t"+a.About)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// Name is the target as reports show it: without a password.
func (t target) Name() string { return redact(t.Arg) }

// subject is a target whose data can be opened.
type subject struct {
	target
	dsn    string
	open   func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) // the same data every time
	remove func() error                                                          // of a fresh store, and of a plug-in's process
	sha256 string                                                                // of a plug-in
}

// bind makes the fresh store that a bare name asks for, and settles what data
// the target's handles share. Call remove at the end.
func (t target) bind() (*subject, error) {
	s := &subject{target: t, dsn: t.dsn, remove: func() error { return nil }}
	if s.dsn == "" {
		var err error
		if s.dsn, s.remove, err = t.adapter.Fresh(); err != nil {
			return nil, usagef("%s: no fresh store could be made: %w", t.Arg, err)
		}
	}
	if t.plugin != nil {
		return s, s.bindPlugin()
	}
	open, err := t.adapter.Bind(s.dsn)
	if err != nil {
		s.remove()
		return nil, usagef("%s: %w", t.Name(), err)
	}
	s.open = open
	return s, nil
}

// bindPlugin starts the plug-in, which ends with remove.
func (s *subject) bindPlugin() error {
	open, p, err := s.plugin.start(context.Background(), s.dsn, nil)
	if err != nil {
		s.remove()
		return usagef("%s: %w", s.Name(), err)
	}
	remove := s.remove
	s.open, s.sha256 = open, p.SHA256()
	s.remove = func() error {
		p.Close()
		return remove()
	}
	return nil
}

// use calls f with the target's data and an open handle on it, and takes a
// fresh store away afterwards.
func (t target) use(ctx context.Context, f func(s *subject, store sdk.FencedStore) error) (err error) {
	s, err := t.bind()
	if err != nil {
		return err
	}
	defer func() {
		if rerr := s.remove(); err == nil {
			err = rerr
		}
	}()
	store, err := s.open(ctx, sdk.OpenOptions{})
	if err != nil {
		return usagef("%s cannot be opened: %w", t.Name(), err)
	}
	err = f(s, store)
	if cerr := store.Close(); err == nil {
		err = cerr
	}
	return err
}

// redact hides the password of a DSN.
func redact(dsn string) string {
	if u, err := url.Parse(dsn); err == nil && u.User != nil {
		if _, ok := u.User.Password(); ok {
			return u.Redacted()
		}
	}
	return dsn
}

// shellWord quotes s for a shell where it needs it.
func shellWord(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@=+,", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
