package spannerstore

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"cloud.google.com/go/civil"
	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
)

// Every type comes back, and has one spelling.
func TestValues(t *testing.T) {
	for _, v := range []any{true, 7, int64(-1 << 63), 1.5, "é", []byte{0, 255}, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), civil.Date{Year: 2026, Month: 1, Day: 2},
		big.NewRat(1, 4), spanner.NullString{}, spanner.NullInt64{Int64: 3, Valid: true}, spanner.NullBool{}, spanner.NullFloat64{}, spanner.NullTime{}, spanner.NullDate{}, spanner.NullNumeric{}} {
		e, err := Write("insert", "T", []string{"A"}, []any{v})
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		w, err := ParseWrite(e.Body)
		if err != nil || len(w.Values) != 1 {
			t.Errorf("%s: %v", e.Body, err)
		}
	}
	for _, bad := range []any{nil, 'x', uint64(1), struct{}{}, (*big.Rat)(nil)} {
		if _, err := Write("insert", "T", []string{"A"}, []any{bad}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%T: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "null", "{}", `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"INT64","value":"01"}]}`, `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"INT64","value":"9223372036854775808"}]}`,
		`{"op":"insert","table":"T","columns":["A"],"values":[{"type":"FLOAT64","value":"NaN"}]}`, `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"BYTES","value":"AA"}]}`,
		`{"op":"insert","table":"T","columns":["A"],"values":[{"type":"JSON","value":"1"}]}`, `{"op":"insert","table":"T","columns":["A","B"],"values":[{"type":"INT64","value":"1"}]}`,
		`{"op":"upsert","table":"T","columns":["A"],"values":[{"type":"INT64","value":"1"}]}`, `{"op":"delete","table":"T","values":[]}`, `{"op":"insert","table":"T;","columns":["A"],"values":[{"type":"INT64","value":"1"}]}`,
		`{"op":"insert","table":"T","columns":["A b"],"values":[{"type":"INT64","value":"1"}]}`, `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"NUMERIC","value":"1/3"}]}`, `{"op":"insert","x":1}`} {
		if _, err := ParseWrite([]byte(bad)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "{}", `{"sql":"SELECT 1"}`, `{"sql":"CREATE TABLE x (a INT64) PRIMARY KEY (a)"}`, `{"sql":"-- x\nDELETE FROM FENCEDSTORERECORD WHERE TRUE"}`, `{"sql":"UPDATE T SET A = @a WHERE TRUE","params":{"a":{"type":"?"}}}`} {
		if _, err := ParseDML([]byte(bad)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzParseWrite(f *testing.F) {
	e, err := Write("insert", "T", []string{"A", "B"}, []any{"x", spanner.NullInt64{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Body)
	f.Add([]byte(`{"op":"delete","table":"T","values":[{"type":"DATE","value":"2026-01-02"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := ParseWrite(body)
		if err == nil && ours(w.Table) {
			t.Errorf("%q is ours", w.Table)
		}
	})
}
