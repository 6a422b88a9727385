package fsstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

// Version is this adapter's.
const Version = "1.0.0"

// Scheme begins a DSN: fs:DIRECTORY.
const Scheme = "fs:"

// Open opens the store in a directory, which it makes if its parent exists; see
// sdk.OpenFunc. OpenOptions.Dial is of no use to files.
//
// UNSUITABLE: the parent does not exist, it is no directory, or it holds
// something else than a store.
func Open(ctx context.Context, dsn string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	root, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if _, _, _, err := opts.ParseNamespace(); err != nil {
		return nil, err
	}
	f, err := openFiles(root)
	if err != nil {
		return nil, err
	}
	s, err := cas.Open(ctx, cas.Adapter{Objects: f, Description: describe(), Probe: f.probe}, opts)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// CleanUp removes what the attempts of other times left of a resource's parts;
// see cas.Store.CleanUp.
func CleanUp(ctx context.Context, dsn string, opts sdk.OpenOptions, r sdk.ResourceID) (removed int, err error) {
	s, err := Open(ctx, dsn, opts)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	root, err := parseDSN(dsn)
	if err != nil {
		return 0, err
	}
	return s.(*cas.Store).CleanUp(ctx, r, &files{root: root})
}

func parseDSN(dsn string) (string, error) {
	path, ok := strings.CutPrefix(dsn, Scheme)
	if !ok {
		return "", sdk.Errorf(sdk.Invalid, "DSN", "%q does not begin with %q", dsn, Scheme)
	}
	path = strings.TrimPrefix(path, "//")
	if path == "" || strings.ContainsAny(path, "\x00?") {
		return "", sdk.Errorf(sdk.Invalid, "DSN", "%q names no directory; write fs:DIRECTORY, without options", dsn)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", sdk.Errorf(sdk.Invalid, "DSN", "%q: %w", path, err)
	}
	return abs, nil
}

func describe() sdk.Description {
	return sdk.Description{
		Name: "fs", Version: Version, Backend: "files, " + runtime.GOOS, Environment: sdk.Embedded,
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable: {Support: sdk.Supported},
			sdk.CapShared:  {Support: sdk.Supported},
			sdk.CapDial:    {Support: sdk.NotSupported, Reason: "a file is not dialled"},
		},
	}
}

// openFiles makes the directory, and refuses one that holds something else.
func openFiles(root string) (*files, error) {
	switch err := os.Mkdir(root, 0o700); {
	case err == nil:
		if err := syncDir(filepath.Dir(root)); err != nil {
			return nil, sdk.Errorf(sdk.Unsuitable, "DSN", "the directory's own entry cannot be synced: %w", err)
		}
	case errors.Is(err, fs.ErrNotExist):
		return nil, sdk.Errorf(sdk.Unsuitable, "DSN", "the folder %s does not exist; create it first", filepath.Dir(root))
	case !errors.Is(err, fs.ErrExist):
		return nil, sdk.Errorf(sdk.Unsuitable, "DSN", "%w", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, sdk.Errorf(sdk.Unsuitable, "DSN", "%w", err)
	}
	ours := false
	for _, e := range entries {
		ours = ours || e.Name() == storeDir
	}
	if len(entries) > 0 && !ours {
		return nil, sdk.Errorf(sdk.Unsuitable, "DSN", "%s holds something else (%s, …); name a directory of the store's own", root, entries[0].Name())
	}
	f := &files{root: root}
	return f, f.prepare()
}
