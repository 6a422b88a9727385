package fsstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

const (
	// storeDir marks a directory as a store, and holds temporary files.
	storeDir = ".fencedstore"
	// swapped is the ending of an object's directory of versions.
	swapped = ".v"
	// keepVersions is how many versions of an object stay behind the current one:
	// a reader has that many swaps' time to open the file that it found.
	keepVersions = 8
)

// files is a directory as cas.Objects.
type files struct{ root string }

func (f *files) prepare() error {
	dir := filepath.Join(f.root, storeDir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		f.sweep()
		return nil
	}
	if err == nil {
		err = syncDir(f.root)
	}
	if err != nil {
		return sdk.Errorf(sdk.Unsuitable, "DSN", "the directory cannot be written: %w", err)
	}
	return nil
}

// sweep removes temporary files that killed processes have left. One that is an
// hour old belongs to nobody, or to a call that will fail for want of it.
func (f *files) sweep() {
	dir := filepath.Join(f.root, storeDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the first write will say so
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func (f *files) path(name string) string { return filepath.Join(f.root, filepath.FromSlash(name)) }

func before(err error) error { return sdk.Errorf(sdk.NotApplied, "file", "%w", err) }

func contextError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "", "nothing was written: %w", err)
	}
	return nil
}

// versions lists the numbers of an object's versions in ascending order.
func versions(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, 0, len(entries))
	for _, e := range entries {
		n, err := strconv.ParseUint(e.Name(), 10, 64)
		if err != nil {
			return nil, sdk.Errorf(sdk.Unsuitable, "file", "%s is not a version of an object", filepath.Join(dir, e.Name()))
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}

// version is a number and the nonce of the file that bears it: a number that was
// removed could come back with other content, a nonce never does.
type version struct {
	n     uint64
	nonce string
}

const nonceLen = 32

func (v version) String() string { return strconv.FormatUint(v.n, 10) + "-" + v.nonce }

func parseVersion(s string) (v version, err error) {
	digits, nonce, _ := strings.Cut(s, "-")
	v.nonce = nonce
	if v.n, err = strconv.ParseUint(digits, 10, 64); err != nil || v.n == 0 || len(nonce) != nonceLen {
		return v, sdk.Errorf(sdk.Invalid, "version", "%q is not one of a file's", s)
	}
	return v, nil
}

// readVersion reads a version: its nonce, a line end, and the body.
func readVersion(dir string, n uint64) (nonce string, body []byte, err error) {
	b, err := os.ReadFile(versionFile(dir, n))
	if err != nil {
		return "", nil, err
	}
	if len(b) <= nonceLen || b[nonceLen] != '\n' {
		return "", nil, sdk.Errorf(sdk.Unsuitable, "file", "%s is damaged", versionFile(dir, n))
	}
	return string(b[:nonceLen]), b[nonceLen+1:], nil
}

func versionFile(dir string, n uint64) string {
	return filepath.Join(dir, strconv.FormatUint(n, 10))
}

// Get implements cas.Objects.
func (f *files) Get(ctx context.Context, name string) ([]byte, string, error) {
	if err := contextError(ctx); err != nil {
		return nil, "", err
	}
	body, err := os.ReadFile(f.path(name))
	if err == nil {
		return body, "part", nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", before(err)
	}
	dir := f.path(name) + swapped
	for {
		all, err := versions(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(all) == 0 {
			return nil, "", sdk.Errorf(sdk.NotFound, name, "no such object")
		}
		if err != nil {
			return nil, "", before(err)
		}
		n := all[len(all)-1]
		nonce, body, err := readVersion(dir, n)
		if errors.Is(err, fs.ErrNotExist) {
			// So many swaps went by that it was removed; look again.
			if err := contextError(ctx); err != nil {
				return nil, "", err
			}
			continue
		}
		if err != nil {
			return nil, "", before(err)
		}
		return body, version{n, nonce}.String(), nil
	}
}

// PutIf implements cas.Objects.
func (f *files) PutIf(ctx context.Context, name string, body []byte, on string) (bool, string, error) {
	if err := contextError(ctx); err != nil {
		return false, "", err
	}
	var base version
	if on != "" {
		var err error
		if base, err = parseVersion(on); err != nil {
			return false, "", err
		}
	}
	dir := f.path(name) + swapped
	if on == "" {
		if err := makeDirs(f.root, dir); err != nil {
			return false, "", before(err)
		}
	}
	next := version{base.n + 1, newNonce()}
	temp, err := f.writeTemp(append([]byte(next.nonce+"\n"), body...))
	if err != nil {
		return false, "", err
	}
	defer os.Remove(temp)
	switch err := os.Link(temp, versionFile(dir, next.n)); {
	case errors.Is(err, fs.ErrExist):
		return false, "", nil
	case errors.Is(err, fs.ErrNotExist):
		return false, "", nil // the object is gone, and its directory with it
	case err != nil:
		return false, "", sdk.Errorf(sdk.MutationUnknown, "file", "%w", err)
	}
	if err := syncDir(dir); err != nil {
		return false, "", sdk.Errorf(sdk.MutationUnknown, "file", "%w", err)
	}
	all, err := versions(dir)
	if err != nil {
		return false, "", sdk.Errorf(sdk.MutationUnknown, "file", "%w", err)
	}
	nonce := ""
	if on != "" {
		nonce, _, _ = readVersion(dir, base.n) // not to be read is not to be there
	}
	won, known := verdict(all, base, nonce)
	switch {
	case !known:
		return false, "", sdk.Errorf(sdk.MutationUnknown, "file", "other writers have gone on by more than %d versions", keepVersions)
	case !won:
		os.Remove(versionFile(dir, next.n))
		return false, "", nil
	}
	prune(dir, all)
	return true, next.String(), nil
}

// verdict judges a link to the number after base by the versions that are there
// after it, and the nonce that base's number bears now.
//
// While base itself is there, the number after it was never removed, since
// versions go in ascending order; so the link was the first to it. A new
// object's is the first while nothing can have been removed: the versions go
// from 1 without a gap and are too few. If nothing else is there, the object was
// removed by hand and the link made it anew: that is no swap. Otherwise so much
// happened since that it cannot be told from here.
func verdict(all []uint64, base version, nonce string) (won, known bool) {
	switch {
	case base.n > 0 && nonce == base.nonce:
		return true, true
	case base.n > 0 && len(all) == 1 && all[0] == base.n+1:
		return false, true
	case base.n == 0 && len(all) > 0 && len(all) <= keepVersions+1 && all[0] == 1 && all[len(all)-1] == uint64(len(all)):
		return true, true
	}
	return false, false
}

// prune removes old versions in ascending order, and stops at the first that it
// cannot: a gap would let an old number be used again.
func prune(dir string, all []uint64) {
	for len(all) > keepVersions+1 {
		if os.Remove(versionFile(dir, all[0])) != nil {
			return
		}
		all = all[1:]
	}
}

// PutNew implements cas.Objects.
func (f *files) PutNew(ctx context.Context, name string, body []byte) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	path := f.path(name)
	if err := makeDirs(f.root, filepath.Dir(path)); err != nil {
		return before(err)
	}
	temp, err := f.writeTemp(body)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, path); err != nil {
		if got, rerr := os.ReadFile(path); rerr != nil || !bytes.Equal(got, body) {
			return before(err)
		}
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return before(err)
	}
	return nil
}

// List implements cas.Objects.
func (f *files) List(ctx context.Context, prefix string, each func(name string) error) error {
	dir := f.path(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		name, isObject := strings.CutSuffix(filepath.ToSlash(rel), swapped)
		if e.IsDir() && !isObject {
			return nil
		}
		if strings.HasPrefix(name, prefix) {
			if err := each(name); err != nil {
				return err
			}
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return contextError(ctx)
	})
	if err != nil && sdk.CodeOf(err) == 0 {
		return before(err)
	}
	return err
}

// Remove implements cas.Remover: for parts, which are single files.
func (f *files) Remove(ctx context.Context, name string) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return before(err)
	}
	return nil
}

// writeTemp writes a synced file that can be linked to its name.
func (f *files) writeTemp(body []byte) (path string, err error) {
	path = filepath.Join(f.root, storeDir, newNonce())
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", before(err)
	}
	_, err = file.Write(body)
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path)
		return "", before(err)
	}
	return path, nil
}

func newNonce() string {
	var b [nonceLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// makeDirs makes a directory below root and syncs the entry of each that it
// made.
func makeDirs(root, dir string) error {
	if dir == root {
		return nil
	}
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDirs(root, filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// probe proves that links are exclusive and directories can be synced here.
func (f *files) probe(ctx context.Context) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	temp, err := f.writeTemp([]byte("probe"))
	if err != nil {
		return sdk.Errorf(sdk.Unsuitable, "directory", "cannot be written: %w", err)
	}
	defer os.Remove(temp)
	link := temp + "-link"
	if err := os.Link(temp, link); err != nil {
		return sdk.Errorf(sdk.Unsuitable, "directory", "this file system makes no hard links: %w", err)
	}
	defer os.Remove(link)
	if err := os.Link(temp, link); !errors.Is(err, fs.ErrExist) {
		return sdk.Errorf(sdk.Unsuitable, "directory", "a second link to one name did not fail as it must (%v)", err)
	}
	if err := syncDir(filepath.Dir(temp)); err != nil {
		return sdk.Errorf(sdk.Unsuitable, "directory", "cannot be synced: %w", err)
	}
	return nil
}
