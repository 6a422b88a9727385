package sqlitestore

import (
	"context"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
	"modernc.org/sqlite"
)

// KindExec is this adapter's native effect: one statement with typed arguments
// on the team's own tables. Body: JSON {"sql": …, "args": […]}, an argument
// being null or an object with one of "int" and "real" (as decimal strings),
// "text", "blob" (base64).
const KindExec = "sql.exec.v1"

type wireExec struct {
	SQL  string     `json:"sql"`
	Args []*wireArg `json:"args"`
}

type wireArg struct {
	Int  *string `json:"int,omitzero"`
	Real *string `json:"real,omitzero"`
	Text *string `json:"text,omitzero"`
	Blob *string `json:"blob,omitzero"`
}

// Exec returns the native effect that runs one INSERT, UPDATE, DELETE or REPLACE
// (WITH may come first) on the team's own tables. An argument is nil, bool,
// int, int64, float64, string or []byte.
//
// INVALID: another statement or type. The store refuses statements that touch
// its own tables, and everything outside OpenOptions.Scope.
func Exec(query string, args ...any) (sdk.Effect, error) {
	w := wireExec{SQL: query, Args: make([]*wireArg, len(args))}
	for i, a := range args {
		var arg wireArg
		switch v := a.(type) {
		case nil:
			continue
		case bool:
			n := "0"
			if v {
				n = "1"
			}
			arg.Int = &n
		case int:
			n := strconv.Itoa(v)
			arg.Int = &n
		case int64:
			n := strconv.FormatInt(v, 10)
			arg.Int = &n
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return sdk.Effect{}, sdk.Errorf(sdk.Invalid, "argument", "%d is %v, which SQLite cannot hold", i+1, v)
			}
			n := strconv.FormatFloat(v, 'g', -1, 64)
			arg.Real = &n
		case string:
			arg.Text = &v
		case []byte:
			n := base64.StdEncoding.EncodeToString(v)
			arg.Blob = &n
		default:
			return sdk.Effect{}, sdk.Errorf(sdk.Invalid, "argument", "%d is a %T; it is nil, bool, int, int64, float64, string or []byte", i+1, a)
		}
		w.Args[i] = &arg
	}
	body, err := json.Marshal(w)
	if err != nil {
		return sdk.Effect{}, sdk.Errorf(sdk.Invalid, "statement", "%w", err)
	}
	if _, _, err := ParseExec(body); err != nil {
		return sdk.Effect{}, err
	}
	return sdk.Effect{Kind: KindExec, Body: body}, nil
}

// ParseExec reads the body of a sql.exec.v1 effect, for scope functions.
func ParseExec(body []byte) (query string, args []any, err error) {
	var w wireExec
	if err := json.Unmarshal(body, &w, json.RejectUnknownMembers(true)); err != nil {
		return "", nil, sdk.Errorf(sdk.Invalid, "effect", "%s: not {sql, args}: %w", KindExec, err)
	}
	for i, a := range w.Args {
		v, ok := a.value()
		if !ok {
			return "", nil, sdk.Errorf(sdk.Invalid, "argument", "%d is not null or exactly one of int, real, text, blob in its form", i+1)
		}
		args = append(args, v)
	}
	return w.SQL, args, checkStatement(w.SQL)
}

func (a *wireArg) value() (v any, ok bool) {
	if a == nil {
		return nil, true
	}
	n := 0
	var err error
	if a.Int != nil {
		n++
		v, err = strconv.ParseInt(*a.Int, 10, 64)
		if err == nil && strconv.FormatInt(v.(int64), 10) != *a.Int {
			return nil, false
		}
	}
	if a.Real != nil {
		n++
		v, err = strconv.ParseFloat(*a.Real, 64)
		if err == nil && (math.IsNaN(v.(float64)) || math.IsInf(v.(float64), 0)) {
			return nil, false
		}
	}
	if a.Text != nil {
		n++
		v = *a.Text
	}
	if a.Blob != nil {
		n++
		v, err = base64.StdEncoding.Strict().DecodeString(*a.Blob)
	}
	return v, n == 1 && err == nil
}

// checkStatement takes exactly one statement that changes rows. What it touches
// is the guard's to say, once SQLite has resolved the names.
func checkStatement(query string) error {
	if strings.ContainsRune(query, 0) {
		return sdk.Errorf(sdk.Invalid, "statement", "it has a NUL byte, at which SQLite would stop reading")
	}
	first, more, ok := tokens(query)
	switch {
	case !ok:
		return sdk.Errorf(sdk.Invalid, "statement", "a quote or comment is not closed")
	case more:
		return sdk.Errorf(sdk.Invalid, "statement", "there is another one after the ';'; send one statement per effect")
	}
	switch strings.ToUpper(first) {
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH":
		return nil
	}
	return sdk.Errorf(sdk.Invalid, "statement", "it begins with %q; it is one INSERT, UPDATE, DELETE or REPLACE", first)
}

// tokens reads a statement as SQLite's tokenizer would, as far as quotes,
// comments and ';' go: its first word, whether anything but space and comments
// follows a ';', and whether every quote and comment is closed.
func tokens(q string) (first string, more, ok bool) {
	ended := false
	for i := 0; i < len(q); {
		c := q[i]
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			i++
			continue
		case strings.HasPrefix(q[i:], "--"):
			n := strings.IndexByte(q[i:], '\n')
			if n < 0 {
				return first, more, true
			}
			i += n + 1
			continue
		case strings.HasPrefix(q[i:], "/*"):
			n := strings.Index(q[i+2:], "*/")
			if n < 0 {
				return first, more, false
			}
			i += n + 4
			continue
		case c == ';':
			ended = true
			i++
			continue
		}
		more = more || ended
		n := 1
		switch c {
		case '\'', '"', '`':
			if n = quoted(q[i:], c); n == 0 {
				return first, more, false
			}
		case '[':
			if n = strings.IndexByte(q[i:], ']') + 1; n == 0 {
				return first, more, false
			}
		default:
			for i+n < len(q) && isWord(q[i]) && isWord(q[i+n]) {
				n++
			}
		}
		if first == "" {
			first = q[i : i+n]
		}
		i += n
	}
	return first, more, true
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// quoted returns the length of a quoted token, in which the quote is doubled; 0
// if it does not end.
func quoted(s string, q byte) int {
	for i := 1; i < len(s); i++ {
		if s[i] != q {
			continue
		}
		if i+1 < len(s) && s[i+1] == q {
			i++
			continue
		}
		return i + 1
	}
	return 0
}

func (s *Store) checkEffect(r sdk.ResourceID, e sdk.Effect) error {
	if e.Kind == KindExec {
		if _, _, err := ParseExec(e.Body); err != nil {
			return err
		}
	}
	return s.opts.CheckScope(r, e)
}

// exec runs a native effect on the writer's connection, under the guard. The
// caller's context ends it, and with it the transaction.
func (s *Store) exec(ctx context.Context, e sdk.Effect) error {
	query, args, err := ParseExec(e.Body)
	if err != nil {
		return err
	}
	s.guard.set(native)
	defer s.guard.set(free)
	_, err = s.conn.ExecContext(ctx, query, args...)
	return classify(effecting, err)
}

// constraints refuses a mutation that leaves a deferred foreign key broken: left
// to COMMIT it would take the whole transaction with it.
func (s *Store) constraints() error {
	return s.conn.Raw(func(dc any) error {
		broken, _, err := dc.(sqlite.DBStatus).Status(sqlite.DBStatusDeferredFKs, false)
		if err == nil && broken != 0 {
			err = sdk.Errorf(sdk.Invalid, "foreign key", "a deferred constraint of the team's own tables is broken at the end of the mutation")
		}
		return err
	})
}

// guard is SQLite's authorizer on the connection that writes: asked for every
// table, trigger and view while a statement is compiled, after all names are
// resolved. It also knows of the open transaction whether it is still the one
// that the writer began: statements may roll it back (ON CONFLICT ROLLBACK,
// RAISE(ROLLBACK), a full disk), and those after it would commit on their own.
type guard struct {
	mode    atomic.Int32
	lost    atomic.Bool // rolled back since begun
	commits atomic.Bool // the writer commits; nothing else may
}

// begun notes a new transaction.
func (g *guard) begun() { g.lost.Store(false) }

// commit runs fn, the only one that may commit.
func (g *guard) commit(fn func() error) error {
	g.commits.Store(true)
	defer g.commits.Store(false)
	return fn()
}

func (g *guard) onCommit() int32 {
	if g.commits.Load() {
		return 0
	}
	return 1 // SQLite makes it a rollback
}

func (g *guard) onRollback() { g.lost.Store(true) }

const (
	free   = iota // our own statements
	native        // a sql.exec.v1 effect: rows of the team's tables only
	hooked        // an ApplyTx function: anything but our tables and the transaction
)

func (g *guard) set(mode int32) { g.mode.Store(mode) }

func (g *guard) authorize(action sqlite.AuthorizerActionCode, arg1, arg2, db, _ string) sqlite.AuthorizerReturnCode {
	mode := g.mode.Load()
	if mode == free {
		return sqlite.AuthorizerOK
	}
	if g.lost.Load() {
		return sqlite.AuthorizerDeny
	}
	if ours(arg1) || ours(arg2) {
		return sqlite.AuthorizerDeny
	}
	switch action {
	case sqlite.AuthTransaction, sqlite.AuthAttach, sqlite.AuthDetach, sqlite.AuthPragma:
		return sqlite.AuthorizerDeny
	case sqlite.AuthSelect, sqlite.AuthRead, sqlite.AuthFunction, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	case sqlite.AuthInsert, sqlite.AuthUpdate, sqlite.AuthDelete:
		if mode == native && (db != "main" || strings.HasPrefix(strings.ToLower(arg1), "sqlite_")) {
			return sqlite.AuthorizerDeny
		}
		return sqlite.AuthorizerOK
	}
	if mode == native {
		return sqlite.AuthorizerDeny
	}
	return sqlite.AuthorizerOK
}

func ours(name string) bool {
	return len(name) >= len(tablePrefix) && strings.EqualFold(name[:len(tablePrefix)], tablePrefix)
}
