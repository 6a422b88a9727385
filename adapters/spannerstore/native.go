package spannerstore

import (
	"encoding/base64"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/civil"
	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// The native effects, on the team's own tables in the same database. Bodies are
// JSON with typed values: {"type": "INT64", "value": "5"}, without value for
// NULL; types are those of [Value].
const (
	// KindWrite is one mutation of one row:
	// {"op": "insert|update|insertOrUpdate|replace|delete", "table", "columns", "values"}.
	KindWrite = "spanner.write.v1"
	// KindDML is one statement: {"sql", "params"}.
	KindDML = "spanner.dml.v1"
)

// Value is a typed value in an effect's body.
type Value struct {
	Type  string  `json:"type"` // BOOL INT64 FLOAT64 STRING BYTES TIMESTAMP DATE NUMERIC
	Value *string `json:"value,omitzero"`
}

// RowWrite is the body of a spanner.write.v1 effect.
type RowWrite struct {
	Op      string   `json:"op"`
	Table   string   `json:"table"`
	Columns []string `json:"columns,omitempty"` // none for a delete
	Values  []Value  `json:"values"`            // of the columns, or of the primary key for a delete
}

type wireDML struct {
	SQL    string           `json:"sql"`
	Params map[string]Value `json:"params,omitempty"`
}

// valueOf encodes a Go value: bool, int, int64, float64, string, []byte,
// time.Time, civil.Date, *big.Rat, or a spanner.Null… of these.
func valueOf(v any) (Value, error) {
	of := func(typ, text string) (Value, error) { return Value{typ, &text}, nil }
	null := func(typ string, valid bool, v any) (Value, error) {
		if !valid {
			return Value{Type: typ}, nil
		}
		return valueOf(v)
	}
	switch v := v.(type) {
	case bool:
		return of("BOOL", strconv.FormatBool(v))
	case int:
		return of("INT64", strconv.Itoa(v))
	case int64:
		return of("INT64", strconv.FormatInt(v, 10))
	case float64:
		return of("FLOAT64", strconv.FormatFloat(v, 'g', -1, 64))
	case string:
		return of("STRING", v)
	case []byte:
		return of("BYTES", base64.StdEncoding.EncodeToString(v))
	case time.Time:
		return of("TIMESTAMP", v.UTC().Format(time.RFC3339Nano))
	case civil.Date:
		return of("DATE", v.String())
	case *big.Rat:
		if v != nil {
			return of("NUMERIC", spanner.NumericString(v))
		}
	case spanner.NullBool:
		return null("BOOL", v.Valid, v.Bool)
	case spanner.NullInt64:
		return null("INT64", v.Valid, v.Int64)
	case spanner.NullFloat64:
		return null("FLOAT64", v.Valid, v.Float64)
	case spanner.NullString:
		return null("STRING", v.Valid, v.StringVal)
	case spanner.NullTime:
		return null("TIMESTAMP", v.Valid, v.Time)
	case spanner.NullDate:
		return null("DATE", v.Valid, v.Date)
	case spanner.NullNumeric:
		return null("NUMERIC", v.Valid, &v.Numeric)
	}
	return Value{}, sdk.Errorf(sdk.Invalid, "value", "%T is none of bool, int, int64, float64, string, []byte, time.Time, civil.Date, *big.Rat and spanner.Null… of these", v)
}

// decode is the inverse of valueOf: exactly one spelling of each value.
func (v Value) decode() (any, error) {
	bad := sdk.Errorf(sdk.Invalid, "value", "type %q has not the form that this adapter writes", v.Type)
	var out any
	var err error
	text := ""
	if v.Value != nil {
		text = *v.Value
	}
	switch v.Type {
	case "BOOL":
		out = spanner.NullBool{Bool: text == "true", Valid: v.Value != nil}
	case "INT64":
		n := spanner.NullInt64{Valid: v.Value != nil}
		if n.Valid {
			n.Int64, err = strconv.ParseInt(text, 10, 64)
		}
		out = n
	case "FLOAT64":
		n := spanner.NullFloat64{Valid: v.Value != nil}
		if n.Valid {
			n.Float64, err = strconv.ParseFloat(text, 64)
		}
		if math.IsNaN(n.Float64) {
			return nil, bad
		}
		out = n
	case "STRING":
		out = spanner.NullString{StringVal: text, Valid: v.Value != nil}
	case "BYTES":
		var b []byte
		if v.Value != nil {
			b, err = base64.StdEncoding.Strict().DecodeString(text)
			if err != nil {
				return nil, bad
			}
			b = notNil(b)
		}
		return b, nil
	case "TIMESTAMP":
		n := spanner.NullTime{Valid: v.Value != nil}
		if n.Valid {
			n.Time, err = time.Parse(time.RFC3339Nano, text)
		}
		out = n
	case "DATE":
		n := spanner.NullDate{Valid: v.Value != nil}
		if n.Valid {
			n.Date, err = civil.ParseDate(text)
		}
		out = n
	case "NUMERIC":
		n := spanner.NullNumeric{Valid: v.Value != nil}
		if n.Valid {
			r, ok := new(big.Rat).SetString(text)
			if !ok || len(text) > 64 || strings.ContainsAny(text, "/eE") {
				return nil, bad
			}
			n.Numeric = *r
		}
		out = n
	default:
		return nil, bad
	}
	if err != nil {
		return nil, bad
	}
	if back, err := valueOf(out); err != nil || v.Value != nil && *back.Value != text {
		return nil, bad
	}
	return out, nil
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,127})?$`)

// checkTable refuses a name that is none, and the store's own.
func checkTable(name string) error {
	if !identifier.MatchString(name) {
		return sdk.Errorf(sdk.Invalid, "table", "%q is not a table's name", name)
	}
	if ours(name) {
		return sdk.Errorf(sdk.Invalid, "table", "%q is one of the store's own", name)
	}
	return nil
}

// ours reports whether a text names something of the store.
func ours(text string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(tablePrefix))
}

var (
	comments  = regexp.MustCompile(`^(\s|#[^\n]*\n|--[^\n]*\n|/\*(?s:.*?)\*/|@\{[^}]*\})*`)
	dmlVerb   = regexp.MustCompile(`(?i)^(insert|update|delete)\b`)
	queryVerb = regexp.MustCompile(`(?i)^(select|with|from|graph)\b|^\(`)
)

// checkNames refuses a statement that names the store's tables, in a string or a
// comment too. A name in backticks may have the escape sequences of a string:
// what is behind them is not looked for, so the two do not go together.
func checkNames(sql string) error {
	if ours(sql) {
		return sdk.Errorf(sdk.Invalid, "statement", "it names something that begins with %s, as the store's own tables do", tablePrefix)
	}
	if strings.Contains(sql, "`") && strings.Contains(sql, `\`) {
		return sdk.Errorf(sdk.Invalid, "statement", "it has a name in backticks and a backslash, which could spell one of the store's own tables; give strings as parameters")
	}
	return nil
}

// checkStatement refuses what is not DML, and whatever names the store's tables.
func checkStatement(sql string) error {
	if !dmlVerb.MatchString(comments.ReplaceAllString(sql, "")) {
		return sdk.Errorf(sdk.Invalid, "statement", "it is not an INSERT, UPDATE or DELETE")
	}
	return checkNames(sql)
}

// checkQuery also takes queries: Spanner runs DML wherever it takes a query.
func checkQuery(sql string) error {
	if !queryVerb.MatchString(comments.ReplaceAllString(sql, "")) {
		return checkStatement(sql)
	}
	return checkNames(sql)
}

// DML returns the effect that runs one INSERT, UPDATE or DELETE. Parameters are
// as for [Write]. INVALID: another statement or type.
func DML(statement spanner.Statement) (sdk.Effect, error) {
	w := wireDML{SQL: statement.SQL}
	for name, v := range statement.Params {
		value, err := valueOf(v)
		if err != nil {
			return sdk.Effect{}, err
		}
		if w.Params == nil {
			w.Params = map[string]Value{}
		}
		w.Params[name] = value
	}
	return effect(KindDML, w, func(b []byte) error { _, err := ParseDML(b); return err })
}

// Write returns the effect that writes one row: op is "insert", "update",
// "insertOrUpdate", "replace", or "delete" with the primary key as values and no
// columns. A value is a bool, int, int64, float64, string, []byte, time.Time,
// civil.Date, *big.Rat or a spanner.Null… of these. INVALID: anything else.
func Write(op, table string, columns []string, values []any) (sdk.Effect, error) {
	w := RowWrite{Op: op, Table: table, Columns: columns}
	for _, v := range values {
		value, err := valueOf(v)
		if err != nil {
			return sdk.Effect{}, err
		}
		w.Values = append(w.Values, value)
	}
	return effect(KindWrite, w, func(b []byte) error { _, err := ParseWrite(b); return err })
}

func effect(kind string, w any, check func([]byte) error) (sdk.Effect, error) {
	body, err := json.Marshal(w, json.Deterministic(true))
	if err != nil {
		return sdk.Effect{}, sdk.Errorf(sdk.Invalid, "effect", "%w", err)
	}
	return sdk.Effect{Kind: kind, Body: body}, check(body)
}

// ParseDML reads the body of a spanner.dml.v1 effect, for scope functions.
func ParseDML(body []byte) (*spanner.Statement, error) {
	var w wireDML
	if err := json.Unmarshal(body, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "effect", "%s: not {sql, params}: %w", KindDML, err)
	}
	st := &spanner.Statement{SQL: w.SQL, Params: map[string]any{}}
	for name, v := range w.Params {
		value, err := v.decode()
		if err != nil {
			return nil, err
		}
		st.Params[name] = value
	}
	return st, checkStatement(w.SQL)
}

// ParseWrite reads the body of a spanner.write.v1 effect, for scope functions.
func ParseWrite(body []byte) (*RowWrite, error) {
	var w RowWrite
	if err := json.Unmarshal(body, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "effect", "%s: not {op, table, columns, values}: %w", KindWrite, err)
	}
	if err := checkTable(w.Table); err != nil {
		return nil, err
	}
	_, err := w.mutation()
	return &w, err
}

func (w *RowWrite) mutation() (*spanner.Mutation, error) {
	var values []any
	for _, v := range w.Values {
		value, err := v.decode()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	if w.Op == "delete" {
		if len(w.Columns) != 0 || len(values) == 0 {
			return nil, sdk.Errorf(sdk.Invalid, "effect", "a delete has a primary key as values, and no columns")
		}
		return spanner.Delete(w.Table, spanner.Key(values)), nil
	}
	if len(values) == 0 || len(w.Columns) != len(values) {
		return nil, sdk.Errorf(sdk.Invalid, "effect", "%d columns and %d values", len(w.Columns), len(values))
	}
	for _, c := range w.Columns {
		if !identifier.MatchString(c) {
			return nil, sdk.Errorf(sdk.Invalid, "column", "%q is not a column's name", c)
		}
	}
	switch w.Op {
	case "insert":
		return spanner.Insert(w.Table, w.Columns, values), nil
	case "update":
		return spanner.Update(w.Table, w.Columns, values), nil
	case "insertOrUpdate":
		return spanner.InsertOrUpdate(w.Table, w.Columns, values), nil
	case "replace":
		return spanner.Replace(w.Table, w.Columns, values), nil
	}
	return nil, sdk.Errorf(sdk.Invalid, "op", "%q is not insert, update, insertOrUpdate, replace or delete", w.Op)
}
