package dirstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fencedstore/fencedstore/sdk"
)

// record is all that is kept of a resource. One rename replaces it, so fence,
// receipts, values and quarantine change together or not at all (F6).
type record struct {
	Resource    sdk.ResourceID
	State       sdk.FenceState
	Receipts    map[sdk.OperationID]sdk.Receipt
	Values      map[string][]byte
	Quarantined []sdk.Quarantine
	Dropped     uint64
}

func (rec *record) receipt(op sdk.OperationID) *sdk.Receipt {
	if r, ok := rec.Receipts[op]; ok {
		return &r
	}
	return nil
}

// apply makes the changes of an accepted mutation.
func (rec *record) apply(m *sdk.Mutation, d *sdk.Decision) error {
	for _, e := range m.Effects {
		switch e.Kind {
		case sdk.KindPut:
			key, value, err := sdk.ParsePut(e.Body)
			if err != nil {
				return err
			}
			rec.Values[key] = value
		case sdk.KindDelete:
			key, err := sdk.ParseDelete(e.Body)
			if err != nil {
				return err
			}
			delete(rec.Values, key)
		case sdk.KindResolve:
			key, err := sdk.ParseResolve(e.Body)
			if err != nil {
				return err
			}
			rec.resolve(key, m.Operation)
		}
	}
	rec.State = d.Next
	rec.Receipts[m.Operation] = *d.Receipt
	return nil
}

// resolve settles a quarantine record, once; naming one that is not there
// changes nothing.
func (rec *record) resolve(key sdk.QuarantineKey, by sdk.OperationID) {
	for i := range rec.Quarantined {
		if q := &rec.Quarantined[i]; q.QuarantineKey == key && q.ResolvedBy == "" {
			q.ResolvedBy = by
		}
	}
}

// quarantine reports whether the record changed.
func (rec *record) quarantine(q sdk.Quarantine, limit int) bool {
	for i := range rec.Quarantined {
		if rec.Quarantined[i].QuarantineKey == q.QuarantineKey {
			return false
		}
	}
	if len(rec.Quarantined) >= limit {
		rec.Dropped++
	} else {
		rec.Quarantined = append(rec.Quarantined, q)
	}
	return true
}

func compareQuarantine(a, b sdk.Quarantine) int {
	return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Segment, b.Segment),
		cmp.Compare(a.Operation, b.Operation), bytes.Compare(a.Payload[:], b.Payload[:]))
}

// file is where a resource is kept. Its name is a digest: no two resources
// share one, whatever the file system makes of case and length (F12).
func (s *Store) file(r sdk.ResourceID) string {
	sum := sha256.Sum256([]byte(r))
	return filepath.Join(s.path, hex.EncodeToString(sum[:])+".json")
}

// marker is the file that says that the resource was in use (F7).
func (s *Store) marker(r sdk.ResourceID) string { return s.file(r) + ".seen" }

// load reads the resource's record; an empty one if it was never in use.
func (s *Store) load(r sdk.ResourceID) (*record, error) {
	b, err := os.ReadFile(s.file(r))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(s.marker(r)); err == nil {
			return nil, regression("%q has a marker and no record", r)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, beforeSending(err)
		}
		return &record{Resource: r, Receipts: map[sdk.OperationID]sdk.Receipt{}, Values: map[string][]byte{}}, nil
	}
	if err != nil {
		return nil, beforeSending(err)
	}
	rec := &record{}
	if err := json.Unmarshal(b, rec); err != nil || rec.Resource != r {
		return nil, sdk.Errorf(sdk.Unsuitable, "record", "%s is damaged; restore it from a backup", s.file(r))
	}
	if rec.State.Absent() {
		return nil, regression("%q has receipts and no fence", r)
	}
	return rec, nil
}

// save replaces the resource's record, durably, and then writes its marker.
// Until the rename nothing is applied; from the rename on, an error proves
// nothing.
func (s *Store) save(ctx context.Context, r sdk.ResourceID, rec *record) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return beforeSending(err)
	}
	tmp := s.file(r) + ".new"
	if err := writeSynced(tmp, b); err != nil {
		return beforeSending(err)
	}
	if err := ctx.Err(); err != nil {
		return beforeSending(err)
	}
	if err := os.Rename(tmp, s.file(r)); err != nil {
		return afterSending(err)
	}
	if err := syncDir(s.path); err != nil {
		return afterSending(err)
	}
	if err := s.mark(r); err != nil {
		return afterSending(err)
	}
	return nil
}

// mark writes the resource's marker unless it is there.
func (s *Store) mark(r sdk.ResourceID) error {
	if _, err := os.Stat(s.marker(r)); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeSynced(s.marker(r), nil); err != nil {
		return err
	}
	return syncDir(s.path)
}

// claimNamespace writes down the namespace of a new directory and compares it
// with that of an old one.
func (d *Dir) claimNamespace(base string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	file := filepath.Join(d.path, "namespace")
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return beforeSending(err)
		}
		if err := writeSynced(file, []byte(base)); err != nil {
			return beforeSending(err)
		}
		return nil
	case err != nil:
		return beforeSending(err)
	case string(b) != base:
		return sdk.Errorf(sdk.Unsuitable, "namespace", "the directory was made for %q and not for %q; a second one would give one resource two fences", b, base)
	}
	return nil
}

func (s *Store) probe() error {
	dir, err := os.MkdirTemp(s.path, "probe-*") // of this call alone
	if err != nil {
		return sdk.Errorf(sdk.Unsuitable, "directory", "%s cannot be written to: %w", s.path, err)
	}
	err = replaceAndRead(dir)
	if rerr := os.RemoveAll(dir); err == nil {
		err = rerr
	}
	if err != nil {
		return sdk.Errorf(sdk.Unsuitable, "directory", "a file below %s cannot be replaced and read back: %w", s.path, err)
	}
	return nil
}

func replaceAndRead(dir string) error {
	file := filepath.Join(dir, "file")
	for _, want := range []string{"old", "new"} {
		if err := writeSynced(file+".new", []byte(want)); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
		if err := syncDir(dir); err != nil {
			return err
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			return errors.Join(err, fmt.Errorf("%q was written and %q is read", want, got))
		}
	}
	return nil
}

func writeSynced(file string, b []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes a rename durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
