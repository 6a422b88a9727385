package plugins

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencedstore/fencedstore/plugins/certificate"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

const (
	// LockFile is the usual name of a lock file.
	LockFile = "fencedstore.lock.json"
	// LockSchema names its form.
	LockSchema = "fencedstore.lock.v1"
	maxLock    = 1 << 20
)

// Lock is the lock file: which plug-ins a team uses, by hash, and whose
// certificates count. It is read at every start.
type Lock struct {
	Schema string `json:"schema"` // "fencedstore.lock.v1"
	// Certifiers are the public keys whose certificates count: PKIX DER in base64.
	Certifiers []string `json:"certifiers"`
	// Suite is the oldest version of the suite that counts.
	Suite   string       `json:"suite"`
	Plugins []LockPlugin `json:"plugins"`
}

// LockPlugin is one plug-in of a lock file.
type LockPlugin struct {
	Name        string `json:"name"`        // the file's
	Version     string `json:"version"`     // the adapter's, as it describes itself
	SHA256      string `json:"sha256"`      // of the binary, or of a script's manifest
	Certificate string `json:"certificate"` // the file, relative to the lock's folder
	// Environment is the least against which it must be certified: embedded takes
	// all, emulator what ran against one or the real service, live the real one.
	Environment string `json:"environment"`
}

// Locked is what a lock and a certificate say of a plug-in.
type Locked struct {
	Adapter string // its name, as it describes itself
	Version string
}

// ReadLock reads a lock file. INVALID or MALFORMED name what is wrong with it.
func ReadLock(path string) (*Lock, []*grant.Key, error) {
	b, err := readSmall(path, maxLock)
	if err != nil {
		return nil, nil, sdk.Errorf(sdk.Invalid, "lock", "%w", err)
	}
	var l Lock
	if err := grant.Unmarshal(b, &l); err != nil {
		return nil, nil, err
	}
	if l.Schema != LockSchema {
		return nil, nil, sdk.Errorf(sdk.Malformed, "schema", "not %s", LockSchema)
	}
	var keys []*grant.Key
	for i, text := range l.Certifiers {
		der, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, nil, sdk.Errorf(sdk.Malformed, "certifiers", "[%d]: not base64", i)
		}
		k, err := certificate.ParseDER(der)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, k)
	}
	seen := map[string]bool{}
	for i, p := range l.Plugins {
		switch {
		case p.Name == "" || !isSHA256(p.SHA256) || seen[p.Name+" "+strings.ToLower(p.SHA256)]:
			return nil, nil, sdk.Errorf(sdk.Malformed, "plugins", "[%d]: no name or no SHA-256 of 64 hex digits, or listed twice", i)
		case rank(p.Environment) < 0:
			return nil, nil, sdk.Errorf(sdk.Malformed, "plugins", "[%d]: environment is none of embedded, emulator and live", i)
		}
		seen[p.Name+" "+strings.ToLower(p.SHA256)] = true
	}
	return &l, keys, nil
}

// rank orders environments by how much a run against one proves; -1 for none.
func rank(e string) int {
	switch sdk.Environment(e) {
	case sdk.Embedded:
		return 0
	case sdk.Emulator:
		return 1
	case sdk.Live:
		return 2
	}
	return -1
}

func readSmall(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = errors.New("longer than any such file")
	}
	return b, err
}

// checkLock finds the image in the lock file at path and holds its certificate
// against what the lock demands.
func checkLock(path string, im *image) (*Locked, *Fault) {
	l, keys, err := ReadLock(path)
	if err != nil {
		return nil, faultf(BadLock, "%s: %w", path, err)
	}
	var found *LockPlugin
	named := false
	for i := range l.Plugins {
		if p := &l.Plugins[i]; p.Name == im.name {
			named = true
			if strings.EqualFold(p.SHA256, im.digest) {
				found = p
			}
		}
	}
	switch {
	case found == nil && named:
		return nil, faultf(HashMismatch, "it has the SHA-256 %s, which %s does not list for %s", im.digest, path, im.name)
	case found == nil:
		return nil, faultf(NotListed, "%s does not list %s (SHA-256 %s)", path, im.name, im.digest)
	case found.Certificate == "":
		return nil, faultf(NoCertificate, "%s names no certificate for %s", path, im.name)
	}
	file := found.Certificate
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(path), file)
	}
	b, err := readSmall(file, certificate.MaxBytes)
	if err != nil {
		return nil, faultf(NoCertificate, "%w", err)
	}
	s, err := certificate.Verify(b, keys)
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.Unauthenticated && e.Field == "key" {
		return nil, faultf(ForeignCertificate, "%s: %w", file, err)
	}
	if err != nil {
		return nil, faultf(BadCertificate, "%s: %w", file, err)
	}
	return acceptCertificate(file, s, l, found, im)
}

func acceptCertificate(file string, s *certificate.Statement, l *Lock, want *LockPlugin, im *image) (*Locked, *Fault) {
	p := &s.Predicate
	switch {
	case s.Subject[0].Digest.SHA256 != im.digest:
		return nil, faultf(ForeignCertificate, "%s is for the SHA-256 %s and this is %s", file, s.Subject[0].Digest.SHA256, im.digest)
	case want.Version != "" && p.Adapter.Version != want.Version:
		return nil, faultf(ForeignCertificate, "%s is for version %q and the lock lists %q", file, p.Adapter.Version, want.Version)
	case l.Suite != "" && certificate.OlderThan(p.Suite, l.Suite):
		return nil, faultf(StaleCertificate, "%s is of the suite's version %s and the lock demands %s; certify it again", file, p.Suite, l.Suite)
	case !p.Certified:
		return nil, faultf(NotCertified, "%s: %s", file, clipText(p.Verdict, 300))
	case rank(p.Adapter.Environment) < rank(want.Environment):
		return nil, faultf(LowEnvironment, "%s is of a run against %s and the lock demands %s", file, p.Adapter.Environment, want.Environment)
	}
	return &Locked{Adapter: p.Adapter.Name, Version: p.Adapter.Version}, nil
}
