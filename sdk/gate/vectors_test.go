package gate_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

type grantVector struct {
	Name    string `json:"name"`
	Expect  string `json:"expect"`
	Request struct {
		Resource string `json:"resource"`
		Root     string `json:"root"`
		Category string `json:"category"`
		Caller   string `json:"caller"`
		Now      string `json:"now"`
	} `json:"request"`
	Grant       json.RawMessage `json:"grant"`
	Status      json.RawMessage `json:"status"`
	GrantDigest string          `json:"grantDigest"`
}

func grantVectors(t *testing.T) (*trust.Bundle, []grantVector) {
	t.Helper()
	b, err := os.ReadFile("testdata/trust.json")
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := trust.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/grant.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []grantVector
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.DisallowUnknownFields()
		var v grantVector
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("line %d: %v", len(out)+1, err)
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return bundle, out
}

// Every grant vector passes through a gate whose store counts what reaches it:
// a refusal leaves no trace (A7).
func TestGrantVectors(t *testing.T) {
	bundle, vectors := grantVectors(t)
	if len(vectors) != 87 {
		t.Errorf("%d vectors, want 87", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339Nano, v.Request.Now)
			if err != nil {
				t.Fatal(err)
			}
			store := newCounting(t)
			g, err := gate.New(store, bundle, &gate.Options{
				Caller: gate.CallerFunc(func(context.Context) (string, error) { return v.Request.Caller, nil }),
				Now:    func() time.Time { return now },
			})
			if err != nil {
				t.Fatal(err)
			}
			root, _ := sdk.ParseDigest(v.Request.Root)
			req := gate.Request{
				Grant: v.Grant, Audience: bundle.Audience(), Resource: sdk.ResourceID(v.Request.Resource),
				Root: root, Category: v.Request.Category, Segment: 1, Operation: "op",
			}
			if !bytes.Equal(v.Status, []byte("null")) {
				req.Status = v.Status
			}
			// Twice: the second time from the cache of verified bytes.
			for range 2 {
				out, err := g.ApplyFencedMutation(t.Context(), req)
				if v.Expect != "OK" {
					if out.Code.String() != v.Expect || sdk.CodeOf(err) != out.Code {
						t.Fatalf("got %v (%v), want %s", out.Code, err, v.Expect)
					}
					if n := store.calls.Load(); n != 0 {
						t.Fatalf("a refusal made %d store calls", n)
					}
					continue
				}
				if err != nil {
					t.Fatalf("got %v, want it accepted", err)
				}
				if out.Receipt.Grant.String() != v.GrantDigest {
					t.Errorf("grant digest %v, want %s", out.Receipt.Grant, v.GrantDigest)
				}
			}
		})
	}
}
