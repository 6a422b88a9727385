// Package sqlitecoord is a durable coordinator in a SQLite file: for one machine,
// and for tests. Any number of processes on it may have the file open.
//
// Every call is one transaction on the write-ahead log, BEGIN IMMEDIATE to COMMIT
// with synchronous=FULL, so a grant survives the death of every process and of
// the machine (R1, R2). The schema allows one holder a resource (R4) and no
// sequence that goes down, whoever writes. Waiters stand in a table in the order
// in which they came; one whose process has not been seen for [WaiterLife] loses
// its place.
//
// # Limits
//
// Leases end by the machine's clock: one that is set forwards ends leases early,
// one that is set backwards lets them last longer. Either costs time and no
// data: the fence decides at the store. The file is on a local file system.
//
// A copy of the file that is put back is an older state with the same sequence; a
// handle that saw more notices it, and so does a registry by its marks (R5).
package sqlitecoord

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

const (
	// Scheme begins a DSN: sqlitecoord:PATH
	Scheme = "sqlitecoord:"
	// WaiterLife is how long a waiter that is not seen keeps its place.
	WaiterLife = 10 * time.Second

	// poll is how often a waiter looks when nothing of this process wakes it.
	poll = 25 * time.Millisecond
)

// Options may be nil; the zero value is useful.
type Options struct {
	Clock clock.Clock // of leases; nil is the system's
}

// Coordinator is a handle on a file. It implements registry.Coordinator.
type Coordinator struct {
	db    *sql.DB
	conn  *sql.Conn
	turn  chan struct{} // holds one token: whose turn it is on conn
	clock clock.Clock

	mu     sync.Mutex
	seen   map[sdk.ResourceID]sdk.Token
	wake   map[sdk.ResourceID]chan struct{} // closed when something changed here
	closed chan struct{}
	work   sync.WaitGroup
}

var _ registry.Coordinator = (*Coordinator)(nil)

// settings hold on the connection. busy_timeout is short: who waits longer looks
// at its context in between.
const settings = "_pragma=busy_timeout(20)&_pragma=foreign_keys(1)&_pragma=recursive_triggers(1)&_pragma=trusted_schema(0)&_pragma=synchronous(FULL)"

// Open opens the coordinator in the file that the DSN names, and makes it if
// there is none.
//
//  1. coordinator, nil.
//  2. INVALID: the DSN does not parse.
//  3. UNSUITABLE: the folder does not exist, or the file is of another
//     application or version, damaged, or not to be written; nothing in it was
//     changed.
//  4. NOT_APPLIED: it could not be opened in time.
func Open(ctx context.Context, dsn string, opts *Options) (*Coordinator, error) {
	path, ok := strings.CutPrefix(dsn, Scheme)
	if !ok || path == "" || strings.ContainsAny(path, "?\x00") || path == ":memory:" {
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "%q names no file; write %sPATH", dsn, Scheme)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "%w", err)
	}
	if info, err := os.Stat(path); err == nil && (!info.Mode().IsRegular() || info.Size() > 0 && info.Size() < 512) {
		return nil, sdk.Errorf(sdk.Unsuitable, "file", "%s is not a SQLite database", path)
	}
	c := &Coordinator{turn: make(chan struct{}, 1), seen: map[sdk.ResourceID]sdk.Token{}, wake: map[sdk.ResourceID]chan struct{}{}, closed: make(chan struct{})}
	c.turn <- struct{}{}
	c.clock = clock.System()
	if opts != nil {
		c.clock = clock.Or(opts.Clock)
	}
	if err := c.open(ctx, (&url.URL{Scheme: "file", Path: path, RawQuery: settings}).String()); err != nil {
		c.release()
		return nil, classify(err)
	}
	return c, nil
}

func (c *Coordinator) open(ctx context.Context, uri string) (err error) {
	if c.db, err = sql.Open("sqlite", uri); err != nil {
		return err
	}
	c.db.SetMaxOpenConns(1)
	if err := retryBusy(ctx, func() (err error) { c.conn, err = c.db.Conn(ctx); return err }); err != nil {
		return err
	}
	// The tables first: a file that is refused keeps its journal mode.
	if err := retryBusy(ctx, func() error { return migrate(ctx, c.conn) }); err != nil {
		return err
	}
	var mode string
	err = retryBusy(ctx, func() error { return c.conn.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode) })
	if err == nil && mode != "wal" {
		err = sdk.Errorf(sdk.Unsuitable, "journal_mode", "%q and not WAL; the file must be on a local file system", mode)
	}
	return err
}

func (c *Coordinator) release() {
	if c.conn != nil {
		c.conn.Close()
	}
	if c.db != nil {
		c.db.Close()
	}
}

// Close waits for the calls under way, which end promptly, and closes the file. A
// second Close does nothing.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	select {
	case <-c.closed:
		c.mu.Unlock()
		return nil
	default:
	}
	close(c.closed)
	c.mu.Unlock()
	c.work.Wait()
	c.release()
	return nil
}

// enter joins the calls that Close waits for.
func (c *Coordinator) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return sdk.Errorf(sdk.Closed, "", "the coordinator was closed")
	default:
		c.work.Add(1)
		return nil
	}
}

// retryBusy runs f again while another process holds the lock.
func retryBusy(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !busy(err) || ctx.Err() != nil {
			return err
		}
	}
}

// How far a transaction is, as seen from who waits for it.
const (
	running int32 = iota
	committing
	abandoned
)

// transact runs f in a transaction and commits it. f may run again. When the
// context ends, the call does: with NOT_APPLIED where COMMIT has not begun, which
// then never does. What f writes to may be read only if the answer is nil.
func (c *Coordinator) transact(ctx context.Context, f func(context.Context) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		c.work.Done()
		return classify(ctx.Err())
	case <-c.turn:
	}
	var phase atomic.Int32
	done := make(chan error, 1)
	go func() {
		defer c.work.Done()
		defer func() { c.turn <- struct{}{} }()
		done <- c.run(ctx, &phase, f)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if phase.CompareAndSwap(running, abandoned) {
			return classify(ctx.Err())
		}
	}
	select {
	case err := <-done:
		return err
	default:
		return committed(ctx.Err())
	}
}

func (c *Coordinator) run(ctx context.Context, phase *atomic.Int32, f func(context.Context) error) error {
	err := retryBusy(ctx, func() error { _, err := c.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); return err })
	if err != nil {
		return classify(err)
	}
	err = f(ctx)
	if err == nil && !phase.CompareAndSwap(running, committing) {
		err = context.Canceled
	}
	always := context.WithoutCancel(ctx)
	if err == nil {
		if _, err = c.conn.ExecContext(always, "COMMIT"); err == nil {
			return nil
		}
		err = committed(err)
	}
	c.conn.ExecContext(always, "ROLLBACK")
	return classify(err)
}
