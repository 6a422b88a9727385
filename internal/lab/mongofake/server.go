// Package mongofake is a MongoDB replica set of one member in the test's own
// process, as far as adapters/mongostore needs it: documents in memory, and
// transactions with snapshots, write conflicts and labelled errors as the
// server's manual describes them. It was written beside the adapter, so it shows
// that the adapter does what it means to, and nothing about a real server.
package mongofake

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/internal/lab/mongowire"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// lifetime is how long a transaction may hold its documents against others; a
// real server's limit is a minute.
const lifetime = 2 * time.Second

// revision is what a document was from a commit on; nil: deleted.
type revision struct {
	at  uint64
	doc bson.Raw
}

// data holds every revision, by namespace and _id.
type data map[string]map[string][]revision

// Server holds the data.
type Server struct {
	*mongowire.Proxy

	mu      sync.Mutex
	changed sync.Cond
	data    data
	clock   uint64 // of the last commit
	running map[string]*txn
	ended   map[string]bool // of transactions: whether committed
	locks   map[string]*txn // by namespace and _id
}

// txn is one that runs.
type txn struct {
	key      string
	began    time.Time
	snapshot uint64
	writes   map[string]map[string]bson.Raw // nil: deleted
}

// Start listens until the test ends.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{data: data{}, running: map[string]*txn{}, ended: map[string]bool{}, locks: map[string]*txn{}}
	s.changed.L = &s.mu
	ready := make(chan struct{})
	s.Proxy = mongowire.Handle(tb, func(name string, c bson.Raw) bson.Raw {
		<-ready
		return s.answer(name, c)
	})
	close(ready)
	return s
}

// failure is an error as the server answers it.
type failure struct {
	code   int
	name   string
	labels []string
}

func (f failure) Error() string { return f.name }

var (
	conflict = failure{112, "WriteConflict", []string{"TransientTransactionError"}}
	noSuch   = failure{251, "NoSuchTransaction", []string{"TransientTransactionError"}}
	dup      = failure{11000, "DuplicateKey", nil}
	bad      = failure{9, "FailedToParse", nil}
	missing  = failure{59, "CommandNotFound", nil}
)

// Failure is the reply that says that a command failed.
func Failure(code int, name string, labels ...string) bson.Raw {
	d := bson.D{{Key: "ok", Value: 0.0}, {Key: "errmsg", Value: name}, {Key: "code", Value: int32(code)}, {Key: "codeName", Value: name}}
	if len(labels) > 0 {
		d = append(d, bson.E{Key: "errorLabels", Value: labels})
	}
	return must(d)
}

func must(d bson.D) bson.Raw {
	b, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

func (s *Server) answer(name string, c bson.Raw) bson.Raw {
	d, err := s.command(name, c)
	if f, ok := err.(failure); ok {
		return Failure(f.code, f.name, f.labels...)
	}
	if err != nil {
		return Failure(bad.code, fmt.Sprint(bad.name, ": ", err))
	}
	return must(append(d, bson.E{Key: "ok", Value: 1.0}))
}

func (s *Server) command(name string, c bson.Raw) (bson.D, error) {
	switch name {
	case "hello", "isMaster", "ismaster":
		return bson.D{{Key: "isWritablePrimary", Value: true}, {Key: "ismaster", Value: true}, {Key: "helloOk", Value: true}, {Key: "setName", Value: "fake"}, {Key: "hosts", Value: bson.A{s.Addr()}},
			{Key: "me", Value: s.Addr()}, {Key: "primary", Value: s.Addr()}, {Key: "setVersion", Value: int32(1)}, {Key: "maxBsonObjectSize", Value: int32(16 << 20)}, {Key: "maxMessageSizeBytes", Value: int32(48000000)},
			{Key: "maxWriteBatchSize", Value: int32(100000)}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)}, {Key: "minWireVersion", Value: int32(0)}, {Key: "maxWireVersion", Value: int32(21)}}, nil
	case "ping", "endSessions":
		return nil, nil
	case "buildInfo":
		return bson.D{{Key: "version", Value: "0.0.0 (mongofake)"}}, nil
	case "listCollections":
		return cursor("x.$cmd.listCollections", nil), nil
	case "listIndexes":
		return cursor("x", []bson.Raw{must(bson.D{{Key: "v", Value: int32(2)}, {Key: "key", Value: bson.D{{Key: "_id", Value: int32(1)}}}, {Key: "name", Value: "_id_"}})}), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.transaction(name, c)
	if err != nil {
		return nil, err
	}
	switch name {
	case "commitTransaction":
		return nil, s.commit(c, t)
	case "abortTransaction":
		if t == nil {
			return nil, noSuch
		}
		s.end(t, false)
		return nil, nil
	}
	space := text(c, "$db") + "." + text(c, name)
	var d bson.D
	switch name {
	case "find":
		d, err = s.find(t, space, c)
	case "insert":
		d, err = s.insert(t, space, c)
	case "update":
		d, err = s.update(t, space, c)
	case "delete":
		d, err = s.remove(t, space, c)
	default:
		return nil, missing
	}
	if err != nil && t != nil {
		s.end(t, false)
	}
	return d, err
}

func text(c bson.Raw, key string) string {
	v, _ := c.Lookup(key).StringValueOK()
	return v
}

// transaction finds the one that a command belongs to, or begins it.
func (s *Server) transaction(name string, c bson.Raw) (*txn, error) {
	if auto, ok := c.Lookup("autocommit").BooleanOK(); !ok || auto {
		return nil, nil
	}
	key := c.Lookup("lsid").String() + c.Lookup("txnNumber").String()
	if start, _ := c.Lookup("startTransaction").BooleanOK(); start {
		t := &txn{key: key, began: time.Now(), snapshot: s.clock, writes: map[string]map[string]bson.Raw{}}
		s.running[key] = t
		return t, nil
	}
	t := s.running[key]
	if t == nil && name != "commitTransaction" {
		return nil, noSuch
	}
	return t, nil
}

func (s *Server) commit(c bson.Raw, t *txn) error {
	if t == nil {
		if s.ended[c.Lookup("lsid").String()+c.Lookup("txnNumber").String()] {
			return nil // sent again
		}
		return noSuch
	}
	s.clock++
	for space, docs := range t.writes {
		for id, doc := range docs {
			s.put(space, id, doc)
		}
	}
	s.end(t, true)
	return nil
}

func (s *Server) end(t *txn, committed bool) {
	delete(s.running, t.key)
	s.ended[t.key] = committed
	for lock, by := range s.locks {
		if by == t {
			delete(s.locks, lock)
		}
	}
	s.changed.Broadcast()
}

func (s *Server) put(space, id string, doc bson.Raw) {
	if s.data[space] == nil {
		s.data[space] = map[string][]revision{}
	}
	s.data[space][id] = append(s.data[space][id], revision{s.clock, doc})
}

// latest is the last revision of a document.
func (s *Server) latest(space, id string) (r revision) {
	if all := s.data[space][id]; len(all) > 0 {
		r = all[len(all)-1]
	}
	return r
}

// get is a document as a command sees it; nil if there is none.
func (s *Server) get(t *txn, space, id string) bson.Raw {
	if t == nil {
		return s.latest(space, id).doc
	}
	if doc, mine := t.writes[space][id]; mine {
		return doc
	}
	for _, r := range slices.Backward(s.data[space][id]) {
		if r.at <= t.snapshot {
			return r.doc
		}
	}
	return nil
}

// ids are those of all documents that there are or were.
func (s *Server) ids(t *txn, space string) map[string]bool {
	out := map[string]bool{}
	for id := range s.data[space] {
		out[id] = true
	}
	if t != nil {
		for id := range t.writes[space] {
			out[id] = true
		}
	}
	return out
}

// lock takes a document for a write. Outside a transaction it waits; inside one
// it does not, and a document that has changed since the snapshot is a conflict.
// again says that it waited, so that what was read before is old.
func (s *Server) lock(t *txn, space, id string) (again bool, err error) {
	lock := space + "\x00" + id
	if by := s.locks[lock]; by != nil && by != t {
		if time.Since(by.began) > lifetime {
			s.end(by, false)
			return true, nil
		}
		if t != nil {
			return false, conflict
		}
		wake := time.AfterFunc(lifetime, s.changed.Broadcast)
		defer wake.Stop()
		s.changed.Wait()
		return true, nil
	}
	if t == nil {
		return false, nil
	}
	if _, mine := t.writes[space][id]; !mine && s.latest(space, id).at > t.snapshot {
		return false, conflict
	}
	s.locks[lock] = t
	return false, nil
}

func (s *Server) write(t *txn, space, id string, doc bson.Raw) {
	if t == nil {
		s.clock++
		s.put(space, id, doc)
		return
	}
	if t.writes[space] == nil {
		t.writes[space] = map[string]bson.Raw{}
	}
	t.writes[space][id] = doc
}
