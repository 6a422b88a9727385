package dynamodbstore

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// The policies are JSON, name the DSN's table, and leave no name of ours open;
// the gate is allowed what it sends, the workers nothing that writes.
func TestSchema(t *testing.T) {
	for _, layout := range []string{LayoutTransaction, LayoutItem} {
		parts, err := Schema("dynamodb://fences?region=eu-central-1&layout=" + layout)
		if err != nil || len(parts) != 5 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		for _, p := range parts {
			if strings.Contains(p.Text, "$") || !strings.Contains(p.Text, "fences") || !strings.HasSuffix(p.Text, "\n") {
				t.Errorf("%s:\n%s", p.Title, p.Text)
			}
			if p.Format == "json" && !json.Valid([]byte(p.Text)) {
				t.Errorf("%s is no JSON:\n%s", p.Title, p.Text)
			}
		}
		if strings.Contains(parts[2].Text, "BatchWriteItem") != (layout == LayoutItem) {
			t.Errorf("%s:\n%s", layout, parts[2].Text)
		}
	}
	if _, err := Schema("s3://fences"); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("%v, want INVALID", err)
	}
}

func TestCreateSchema(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		s.table = "another"
		for range 2 {
			if err := CreateSchema(t.Context(), s.dsn(), sdk.OpenOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := opened(t, s).Probe(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
