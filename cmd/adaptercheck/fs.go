package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencedstore/fencedstore/adapters/fsstore"
	"github.com/fencedstore/fencedstore/sdk"
)

// freshFS makes a directory for a store of its own.
func freshFS() (dsn string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "adaptercheck-*")
	if err != nil {
		return "", nil, err
	}
	return fsstore.Scheme + filepath.Join(dir, "store"), func() error { return os.RemoveAll(dir) }, nil
}

// damageFS removes the head of a resource, the directory of versions whose files
// name it; the marker stays.
func damageFS(_ context.Context, dsn string, r sdk.ResourceID) error {
	heads, err := filepath.Glob(filepath.Join(strings.TrimPrefix(dsn, fsstore.Scheme), "main", "head", "*"))
	if err != nil {
		return err
	}
	name, err := json.Marshal(string(r))
	if err != nil {
		return err
	}
	for _, dir := range heads {
		versions, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(versions) == 0 {
			continue
		}
		body, err := os.ReadFile(versions[0])
		if err != nil {
			return err
		}
		if bytes.Contains(body, append([]byte(`"resource":`), name...)) {
			return os.RemoveAll(dir)
		}
	}
	return sdk.Errorf(sdk.NotFound, "head", "%q has none", r)
}
