package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// Mark is what a registry knows of a resource from outside its coordinator: the
// highest token that it let out, and by which backend under which epoch.
type Mark struct {
	Token   sdk.Token
	Backend string // Options.Backend at that time; empty if nothing was issued
	Epoch   uint64
}

// Marks keep the high-water marks of a registry, where a snapshot of the
// coordinator does not reach (R5). All registries that issue for a resource share
// them. Safe for concurrent use.
type Marks interface {
	// Load returns the mark of r, zero if there is none. An error if it cannot be
	// read: never zero for one that was lost.
	Load(ctx context.Context, r sdk.ResourceID) (Mark, error)
	// Raise makes the mark durable unless the one that is kept has a higher token;
	// a mark's token never goes down. It answers after it is on the disk.
	Raise(ctx context.Context, r sdk.ResourceID, m Mark) error
}

// FileMarks keep each mark in a file of its own below a directory.
type FileMarks struct {
	dir string
	mu  sync.Mutex
}

// markFile is what a file holds; numbers are decimal strings, exact for every
// reader.
type markFile struct {
	Schema   string `json:"schema"`
	Resource string `json:"resource"`
	Token    string `json:"fenceToken"`
	Backend  string `json:"backend"`
	Epoch    uint64 `json:"issuerEpoch,string"`
}

const markSchema = "fencedstore.mark.v1"

// NewFileMarks keeps marks below dir, which is made if its parent exists. One
// process has it at a time.
//
// UNSUITABLE: dir is not a directory that can be written to.
func NewFileMarks(dir string) (*FileMarks, error) {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return nil, sdk.Errorf(sdk.Unsuitable, "marks", "%w", err)
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return nil, sdk.Errorf(sdk.Unsuitable, "marks", "%q cannot be written to: %w", dir, err)
	}
	return &FileMarks{dir: dir}, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func (f *FileMarks) path(r sdk.ResourceID) string {
	sum := sha256.Sum256([]byte(r))
	return filepath.Join(f.dir, hex.EncodeToString(sum[:])+".json")
}

// Load implements Marks.
func (f *FileMarks) Load(_ context.Context, r sdk.ResourceID) (Mark, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load(r)
}

func (f *FileMarks) load(r sdk.ResourceID) (Mark, error) {
	b, err := os.ReadFile(f.path(r))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Mark{}, nil
	case err != nil:
		return Mark{}, sdk.Errorf(sdk.NotApplied, "marks", "%w", err)
	}
	var m markFile
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true)); err != nil {
		return Mark{}, sdk.Errorf(sdk.Unsuitable, "marks", "the mark of %q is damaged; restore it, or write one above every token issued: %w", r, err)
	}
	t, err := sdk.ParseToken(m.Token)
	if err != nil || m.Schema != markSchema || m.Resource != string(r) {
		return Mark{}, sdk.Errorf(sdk.Unsuitable, "marks", "the mark of %q is damaged; restore it, or write one above every token issued", r)
	}
	return Mark{Token: t, Backend: m.Backend, Epoch: m.Epoch}, nil
}

// Raise implements Marks.
func (f *FileMarks) Raise(_ context.Context, r sdk.ResourceID, m Mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, err := f.load(r)
	if err != nil {
		return err
	}
	if old.Token > m.Token || old == m {
		return nil
	}
	b, err := json.Marshal(markFile{markSchema, string(r), m.Token.String(), m.Backend, m.Epoch})
	if err == nil {
		err = replace(f.path(r), b)
	}
	if err != nil {
		return sdk.Errorf(sdk.NotApplied, "marks", "the mark of %q cannot be kept: %w", r, err)
	}
	return nil
}

// replace writes a file so that after a crash it has the old content or the new.
func replace(path string, b []byte) error {
	t, err := os.CreateTemp(filepath.Dir(path), ".mark-*")
	if err != nil {
		return err
	}
	_, err = t.Write(b)
	err = errors.Join(err, t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(t.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
