package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// Version is this adapter's.
const Version = "1.0.0"

// Limits of one mutation and of the quarantine of one resource.
const (
	MaxEffects    = 1000
	MaxValueBytes = 8 << 20
	MaxTotalBytes = 16 << 20
	MaxQuarantine = 1000
)

// Store is a handle on a file. It implements sdk.FencedStore; several handles,
// also in several processes, may be open on one file.
type Store struct {
	path      string
	namespace string
	version   string // of SQLite
	opts      sdk.OpenOptions
	desc      sdk.Description

	readers *sql.DB
	writers *sql.DB
	conn    *sql.Conn // the one connection that writes, owned by the writer
	guard   guard
	opened  [2]fs.FileInfo // the file and its log, as they were opened
	stmts   statements

	queue   chan *job
	closing chan struct{} // closed when Close begins
	done    chan struct{} // closed when the writer has ended
	once    sync.Once
	reads   sync.WaitGroup
	mu      sync.RWMutex // held for reading while a call may still join reads
	closed  bool
}

// statements are prepared on the writer's connection.
type statements struct {
	both, anyReceipt                          *sql.Stmt
	addFence, moveFence, addReceipt           *sql.Stmt
	put, del                                  *sql.Stmt
	countQuarantine, addQuarantine, knownQ    *sql.Stmt
	addDropped, resolve                       *sql.Stmt
	begin, commit, rollback, save, undo, free *sql.Stmt
}

const (
	// selectBoth always yields one row; highest is 0 where there is no fence, the
	// receipt's fence 0 where there is no receipt.
	selectBoth = `SELECT coalesce(f.highest, 0), f.grant_digest, f.root, coalesce(f.segment, 0),
		coalesce(f.policy_generation, 0), coalesce(f.trust_generation, 0),
		coalesce(r.fence, 0), coalesce(r.segment, 0), r.root, r.grant_digest, r.payload, coalesce(r.owner, ''), coalesce(r.time_millis, 0), r.result
		FROM (SELECT 1) LEFT JOIN fencedstore_fence f ON f.namespace = ?1 AND f.resource = ?2
		LEFT JOIN fencedstore_receipt r ON r.namespace = ?1 AND r.resource = ?2 AND r.operation = ?3`
	selectReceipt = `SELECT fence, segment, root, grant_digest, payload, owner, time_millis, result
		FROM fencedstore_receipt WHERE namespace = ? AND resource = ? AND operation = ?`
	selectAny = `SELECT EXISTS (SELECT 1 FROM fencedstore_receipt WHERE namespace = ?1 AND resource = ?2)
		OR EXISTS (SELECT 1 FROM fencedstore_quarantine WHERE namespace = ?1 AND resource = ?2)`
)

func (s *Store) prepare(ctx context.Context) error {
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.stmts.both, selectBoth}, {&s.stmts.anyReceipt, selectAny},
		{&s.stmts.addFence, `INSERT INTO fencedstore_fence (highest, grant_digest, root, segment, policy_generation, trust_generation, namespace, resource)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.stmts.moveFence, `UPDATE fencedstore_fence SET highest = ?, grant_digest = ?, root = ?, segment = ?, policy_generation = ?, trust_generation = ?
			WHERE namespace = ? AND resource = ?`},
		{&s.stmts.addReceipt, `INSERT INTO fencedstore_receipt (namespace, resource, operation, fence, segment, root, grant_digest, payload, owner, time_millis, result)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.stmts.put, `INSERT INTO fencedstore_value (namespace, resource, key, value) VALUES (?, ?, ?, ?)
			ON CONFLICT (namespace, resource, key) DO UPDATE SET value = excluded.value`},
		{&s.stmts.del, `DELETE FROM fencedstore_value WHERE namespace = ? AND resource = ? AND key = ?`},
		{&s.stmts.knownQ, `SELECT count(*) FROM fencedstore_quarantine WHERE namespace = ? AND resource = ? AND fence = ? AND segment = ? AND operation = ? AND payload = ?`},
		{&s.stmts.countQuarantine, `SELECT count(*) FROM fencedstore_quarantine WHERE namespace = ? AND resource = ?`},
		{&s.stmts.addQuarantine, `INSERT INTO fencedstore_quarantine (namespace, resource, fence, segment, operation, payload, grant_digest, owner, time_millis)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.stmts.addDropped, `INSERT INTO fencedstore_dropped (namespace, resource, records) VALUES (?, ?, 1)
			ON CONFLICT (namespace, resource) DO UPDATE SET records = records + 1`},
		{&s.stmts.resolve, `UPDATE fencedstore_quarantine SET resolved_by = ? WHERE namespace = ? AND resource = ? AND fence = ? AND segment = ? AND operation = ? AND payload = ? AND resolved_by = ''`},
		{&s.stmts.begin, "BEGIN IMMEDIATE"}, {&s.stmts.commit, "COMMIT"}, {&s.stmts.rollback, "ROLLBACK"},
		{&s.stmts.save, "SAVEPOINT fencedstore_one"}, {&s.stmts.undo, "ROLLBACK TO fencedstore_one"}, {&s.stmts.free, "RELEASE fencedstore_one"},
	} {
		var err error
		if *p.to, err = s.conn.PrepareContext(ctx, p.sql); err != nil {
			return err
		}
	}
	return nil
}

func describe(version string) sdk.Description {
	return sdk.Description{
		Name: "sqlite", Version: Version, Backend: "SQLite " + version, Environment: sdk.Embedded, Layout: layout,
		Kinds: append(sdk.PortableKinds(), KindExec),
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable:       {Support: sdk.Supported},
			sdk.CapShared:        {Support: sdk.Supported},
			sdk.CapApplyTx:       {Support: sdk.Supported},
			sdk.CapNativeEffects: {Support: sdk.Supported},
			sdk.CapParallel:      {Support: sdk.NotSupported, Reason: "SQLite has one writer at a time; an ApplyTx function holds it while it runs"},
			sdk.CapDial:          {Support: sdk.NotSupported, Reason: "a file is not dialled"},
		},
		Limits: sdk.Limits{Effects: MaxEffects, ValueBytes: MaxValueBytes, TotalBytes: MaxTotalBytes, Quarantine: MaxQuarantine},
	}
}

// Describe implements sdk.FencedStore.
func (s *Store) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Path is the file.
func (s *Store) Path() string { return s.path }

// Close ends the handle: mutations that are queued are answered CLOSED, those
// in the running transaction are waited for.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.closing)
		<-s.done
		s.reads.Wait()
		// Move the log into the file, so that it alone is the store while nobody has
		// it open. It fails where somebody has; then the log stays, as it may.
		s.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
		s.release()
	})
	return nil
}

// release closes what open opened, as far as it came.
func (s *Store) release() {
	if s.readers != nil {
		s.readers.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	if s.writers != nil {
		s.writers.Close()
	}
}

func closedError() error { return sdk.Errorf(sdk.Closed, "store", "the handle was closed") }

// read runs fn against a fresh snapshot of the file.
func (s *Store) read(ctx context.Context, r sdk.ResourceID, fn func(ctx context.Context, q *sql.DB) error) error {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return closedError()
	}
	s.reads.Add(1)
	s.mu.RUnlock()
	defer s.reads.Done()
	if err := r.Validate(); err != nil {
		return err
	}
	if err := s.inPlace(); err != nil {
		return err
	}
	return classify(reading, retryBusy(ctx, func() error { return fn(ctx, s.readers) }))
}

// retryBusy runs fn again while another process holds a lock that it needs,
// until the context ends.
func retryBusy(ctx context.Context, fn func() error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn()
		if !busy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Inspect implements sdk.FencedStore.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (state sdk.FenceState, err error) {
	err = s.read(ctx, r, func(ctx context.Context, q *sql.DB) error {
		// One statement, so that fence and receipts are of one snapshot.
		var left bool
		state, left, err = scanFence(q.QueryRowContext(ctx, `SELECT coalesce(f.highest, 0), f.grant_digest, f.root, coalesce(f.segment, 0),
			coalesce(f.policy_generation, 0), coalesce(f.trust_generation, 0), f.highest IS NULL AND (`+selectAny+`)
			FROM (SELECT 1) LEFT JOIN fencedstore_fence f ON f.namespace = ?1 AND f.resource = ?2`, s.namespace, string(r)))
		if err == nil && left {
			err = missingFence()
		}
		return err
	})
	if err != nil {
		return sdk.FenceState{}, err
	}
	return state, nil
}

func missingFence() error {
	e := sdk.Errorf(sdk.FenceRegression, "fence", "missing though receipts or quarantine records exist: it was deleted; stop writers and raise the registry's floor above every token issued")
	e.Alarm = true
	return e
}

// Receipt implements sdk.FencedStore.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (receipt sdk.Receipt, err error) {
	if err := op.Validate(); err != nil {
		return sdk.Receipt{}, err
	}
	err = s.read(ctx, r, func(ctx context.Context, q *sql.DB) error {
		found, err := scanReceipt(q.QueryRowContext(ctx, selectReceipt, s.namespace, string(r), string(op)), r, op)
		if err != nil {
			return err
		}
		if found == nil {
			return sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt at %q", op, r)
		}
		receipt = *found
		return nil
	})
	return receipt, err
}

// Read implements sdk.FencedStore.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) (value []byte, err error) {
	if err := sdk.ValidateKey(key); err != nil {
		return nil, err
	}
	err = s.read(ctx, r, func(ctx context.Context, q *sql.DB) error {
		err := q.QueryRowContext(ctx, `SELECT value FROM fencedstore_value WHERE namespace = ? AND resource = ? AND key = ?`,
			s.namespace, string(r), key).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return sdk.Errorf(sdk.NotFound, "key", "%q is not set at %q", key, r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if value == nil {
		value = []byte{}
	}
	return value, nil
}

// Quarantined implements sdk.FencedStore.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) (out []sdk.Quarantine, err error) {
	err = s.read(ctx, r, func(ctx context.Context, q *sql.DB) error {
		out = nil
		rows, err := q.QueryContext(ctx, `SELECT fence, segment, operation, payload, grant_digest, owner, time_millis, resolved_by, 0
			FROM fencedstore_quarantine WHERE namespace = ?1 AND resource = ?2
			UNION ALL SELECT 9223372036854775807, 0, '', NULL, NULL, '', 0, '', records FROM fencedstore_dropped WHERE namespace = ?1 AND resource = ?2
			ORDER BY 9, 1, 2, 3, 4`, s.namespace, string(r))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			q, err := scanQuarantine(rows, r)
			if err != nil {
				return err
			}
			out = append(out, q)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Probe implements sdk.FencedStore: it looks at the settings that the laws need
// and at the file's own check, and takes the write lock once without writing.
func (s *Store) Probe(ctx context.Context) error {
	err := s.read(ctx, "probe", func(ctx context.Context, q *sql.DB) error {
		var mode, check string
		if err := q.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
			return err
		}
		if mode != "wal" {
			return sdk.Errorf(sdk.Unsuitable, "journal_mode", "%q; another program took the file out of WAL mode", mode)
		}
		if err := q.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&check); err != nil {
			return err
		}
		if check != "ok" {
			return sdk.Errorf(sdk.Unsuitable, "file", "damaged: %s", check)
		}
		var triggers int
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND substr(name, 1, 12) = 'fencedstore_'").Scan(&triggers); err != nil {
			return err
		}
		if triggers != triggerCount {
			return sdk.Errorf(sdk.Unsuitable, "triggers", "%d of %d are there: somebody dropped those that keep fences from going down", triggers, triggerCount)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.submit(ctx, &job{probe: true}).err
}
