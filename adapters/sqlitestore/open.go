package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
	"modernc.org/sqlite"
)

// Scheme begins a DSN: sqlite:PATH, or sqlite:PATH?create=beside.
const Scheme = "sqlite:"

// dsn is a parsed DSN.
type dsn struct {
	path   string
	beside bool // create our tables in a file that has others
}

// parseDSN reads sqlite:PATH[?create=beside|never]. PATH is as the system takes
// it; a '?' in it cannot be said.
func parseDSN(s string) (dsn, error) {
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "%q does not begin with %q", s, Scheme)
	}
	path, query, _ := strings.Cut(rest, "?")
	d := dsn{path: strings.TrimPrefix(path, "//")}
	switch {
	case d.path == "", strings.ContainsRune(d.path, 0):
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "%q names no file; write sqlite:PATH", s)
	case d.path == ":memory:":
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "a store in memory keeps nothing; use mem:// for tests")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "options %q: %w", query, err)
	}
	for name, v := range values {
		if name != "create" || len(v) != 1 || v[0] != "beside" {
			return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "option %s=%s is not known; create=beside is", name, strings.Join(v, ","))
		}
		d.beside = true
	}
	abs, err := filepath.Abs(d.path)
	if err != nil {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "%q: %w", d.path, err)
	}
	d.path = abs
	return d, nil
}

// uri is the file's name for SQLite, in which every odd character is escaped.
func (d dsn) uri(query string) string {
	return (&url.URL{Scheme: "file", Path: d.path, RawQuery: query}).String()
}

// settings hold on every connection. busy_timeout is short: who waits longer
// looks at its context in between.
const settings = "_pragma=busy_timeout(50)&_pragma=foreign_keys(1)&_pragma=recursive_triggers(1)&_pragma=trusted_schema(0)"

// Open opens the store in the file that the DSN names, and makes it if there is
// none; see sdk.OpenFunc. OpenOptions.Dial is of no use to a file.
//
// UNSUITABLE: the folder does not exist, or the file is of another application,
// of a newer version, damaged, not a database or not to be written. A file that
// is refused stays as it was.
func Open(ctx context.Context, s string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	d, err := parseDSN(s)
	if err != nil {
		return nil, err
	}
	namespace, base, _, err := opts.ParseNamespace()
	if err != nil {
		return nil, err
	}
	if err := look(ctx, d, base); err != nil {
		return nil, err
	}
	st := &Store{path: d.path, namespace: namespace, opts: opts}
	if err := st.open(ctx, d, base); err != nil {
		st.release()
		return nil, classify(opening, err)
	}
	return st, nil
}

// smallestDatabase is one page of the smallest size. SQLite takes a shorter file
// for an empty one and would overwrite it.
const smallestDatabase = 512

// look refuses what Open must not touch, through a connection that cannot
// write. It does not open the file itself: closing it would drop the locks that
// another handle in this process holds on it.
func look(ctx context.Context, d dsn, base string) error {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir, err := os.Stat(filepath.Dir(d.path)); err != nil || !dir.IsDir() {
			return sdk.Errorf(sdk.Unsuitable, "DSN", "the folder %s does not exist; create it first", filepath.Dir(d.path))
		}
		return nil
	case err != nil:
		return sdk.Errorf(sdk.Unsuitable, "DSN", "%w", err)
	case !info.Mode().IsRegular():
		return sdk.Errorf(sdk.Unsuitable, "DSN", "%s is not a regular file", d.path)
	case info.Size() == 0:
		return nil
	case info.Size() < smallestDatabase:
		return sdk.Errorf(sdk.Unsuitable, "file", "%d bytes; it is not a SQLite database", info.Size())
	}
	db, err := sql.Open("sqlite", d.uri("mode=ro&"+settings))
	if err != nil {
		return classify(opening, err)
	}
	defer db.Close()
	var f found
	if err := retryBusy(ctx, func() (err error) { f, err = inspectFile(ctx, db); return err }); err != nil {
		return classify(opening, err)
	}
	return f.check(base, d.beside)
}

func (s *Store) open(ctx context.Context, d dsn, base string) (err error) {
	writers, err := sql.Open("sqlite", d.uri(settings+"&_pragma=synchronous(FULL)&_txlock=immediate"))
	if err != nil {
		return err
	}
	s.writers = writers
	writers.SetMaxOpenConns(1)
	if s.readers, err = sql.Open("sqlite", d.uri(settings+"&_pragma=query_only(1)")); err != nil {
		return err
	}
	s.readers.SetMaxOpenConns(4)
	s.readers.SetMaxIdleConns(4)
	if s.conn, err = writers.Conn(ctx); err != nil {
		return err
	}
	var mode string
	err = retryBusy(ctx, func() error { return s.conn.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode) })
	if err != nil {
		return err
	}
	if mode != "wal" {
		return sdk.Errorf(sdk.Unsuitable, "journal_mode", "%q and not WAL; the file must be on a local file system", mode)
	}
	if err := retryBusy(ctx, func() error { return migrate(ctx, s.conn, base, d.beside) }); err != nil {
		return err
	}
	if err := s.conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&s.version); err != nil {
		return err
	}
	err = s.conn.Raw(func(dc any) error {
		hooks := dc.(sqlite.HookRegisterer)
		hooks.RegisterCommitHook(s.guard.onCommit)
		hooks.RegisterRollbackHook(s.guard.onRollback)
		return dc.(sqlite.AuthorizerRegisterer).RegisterAuthorizer(s.guard.authorize)
	})
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	// The log is there as long as a handle is open.
	for i, name := range s.files() {
		if s.opened[i], err = os.Stat(name); err != nil {
			return err
		}
	}
	s.desc = describe(s.version)
	s.queue, s.closing, s.done = make(chan *job), make(chan struct{}), make(chan struct{})
	go s.write()
	return nil
}

func (s *Store) files() [2]string { return [...]string{s.path, s.path + "-wal"} }

// inPlace refuses to go on with files that are not those of the path any more:
// SQLite still has the old ones open, but what is written there nobody would
// see, and whoever opens the path has other fences.
func (s *Store) inPlace() error {
	for i, name := range s.files() {
		now, err := os.Stat(name)
		if err != nil {
			return sdk.Errorf(sdk.Unsuitable, "file", "it was removed or moved while the store was open; stop writers, restore it, and raise the registry's floor above every token issued: %w", err)
		}
		if !os.SameFile(now, s.opened[i]) {
			return sdk.Errorf(sdk.Unsuitable, "file", "%s was replaced while the store was open; stop writers, raise the registry's floor above every token issued, and open it anew", name)
		}
	}
	return nil
}
