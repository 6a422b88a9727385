package sdk_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/google/go-cmp/cmp"
)

type vectorState struct {
	Highest, Grant, Root, Segment string
}

type vectorMutation struct {
	Operation, Fence, Grant, Root, Segment, Digest string
}

type decideVector struct {
	Name               string           `json:"name"`
	State              vectorState      `json:"state"`
	Receipts           []vectorMutation `json:"receipts"`
	Mutation           vectorMutation   `json:"mutation"`
	Verdict            string           `json:"verdict"`
	Next               vectorState      `json:"next"`
	ReceiptOfOperation *vectorMutation  `json:"receiptOfOperation"`
	Pure               bool             `json:"pure"`
}

// readLines decodes a file of JSON lines; an unknown key is fatal.
func readLines[T any](t *testing.T, path string) []T {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.DisallowUnknownFields()
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s, line %d: %v", path, len(out)+1, err)
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := sdk.ParseDecimal("vector", s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func digest(t *testing.T, s string) (d sdk.Digest) {
	t.Helper()
	if err := d.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return d
}

func (v vectorState) state(t *testing.T) sdk.FenceState {
	return sdk.FenceState{
		Highest: sdk.Token(number(t, v.Highest)), Grant: digest(t, v.Grant),
		Root: digest(t, v.Root), Segment: sdk.Segment(number(t, v.Segment)),
	}
}

func (v vectorMutation) mutation(t *testing.T) *sdk.Mutation {
	return &sdk.Mutation{
		Resource: "vector/1", Owner: "worker",
		Operation: sdk.OperationID(v.Operation), Fence: sdk.Token(number(t, v.Fence)),
		Grant: digest(t, v.Grant), Root: digest(t, v.Root),
		Segment: sdk.Segment(number(t, v.Segment)), Payload: digest(t, v.Digest),
	}
}

func (v vectorMutation) receipt(t *testing.T) *sdk.Receipt {
	m := v.mutation(t)
	return &sdk.Receipt{Resource: m.Resource, Operation: m.Operation, Fence: m.Fence, Segment: m.Segment,
		Root: m.Root, Grant: m.Grant, Payload: m.Payload, Owner: m.Owner}
}

func TestDecideVectors(t *testing.T) {
	vectors := readLines[decideVector](t, "testdata/decide.jsonl")
	if len(vectors) != 1643 {
		t.Errorf("%d vectors, want 1643", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			var prior, want *sdk.Receipt
			for _, r := range v.Receipts {
				if r.Operation == v.Mutation.Operation {
					prior = r.receipt(t)
				}
			}
			if v.ReceiptOfOperation != nil {
				want = v.ReceiptOfOperation.receipt(t)
			}
			m := v.Mutation.mutation(t)
			d := sdk.Decide(v.State.state(t), prior, sdk.NewAdmission(seal.Cut(), m))
			if d.Code.String() != v.Verdict {
				t.Fatalf("verdict %v, want %s", d.Code, v.Verdict)
			}
			if diff := cmp.Diff(v.Next.state(t), d.Next); diff != "" {
				t.Errorf("next state (-want +got):\n%s", diff)
			}
			if d.Code == sdk.Accepted {
				want = v.Mutation.receipt(t)
			}
			if diff := cmp.Diff(want, d.Receipt); diff != "" {
				t.Errorf("receipt (-want +got):\n%s", diff)
			}
			out, err := d.Outcome()
			if out.Code != d.Code || sdk.CodeOf(err) != d.Code && !d.Code.Ok() || (err == nil) != d.Code.Ok() {
				t.Errorf("outcome %v, %v does not say %v", out, err, d.Code)
			}
		})
	}
}

// state and mutation of a resource at fence 5, segment 2.
func atFive() (sdk.FenceState, *sdk.Mutation) {
	g, r := sdk.SumDigest([]byte("grant")), sdk.SumDigest([]byte("root"))
	s := sdk.FenceState{Highest: 5, Grant: g, Root: r, Segment: 2, Generations: sdk.Generations{Policy: 7, Trust: 3}}
	m := &sdk.Mutation{Resource: "a/b", Operation: "op", Fence: 5, Segment: 3, Root: r, Grant: g,
		Payload: sdk.SumDigest([]byte("payload")), Owner: "w"}
	return s, m
}

func decide(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
	return sdk.Decide(s, prior, sdk.NewAdmission(seal.Cut(), m))
}

func TestDecideZeroAdmission(t *testing.T) {
	s, _ := atFive()
	for _, a := range []sdk.Admission{{}, sdk.NewAdmission(seal.Key{}, &sdk.Mutation{})} {
		if d := sdk.Decide(s, nil, a); d.Code != sdk.Invalid || d.Next != s {
			t.Errorf("zero admission: %v, %v", d.Code, d.Next)
		}
	}
}

// A store that lost its fence, or went back to an older one, must not look like
// a fresh one (F7).
func TestDecideReceiptAboveFence(t *testing.T) {
	s, m := atFive()
	prior := &sdk.Receipt{Operation: m.Operation, Fence: 5, Segment: 3, Payload: m.Payload, Grant: m.Grant}
	for _, tc := range []struct {
		name  string
		state sdk.FenceState
		fence sdk.Token
		want  sdk.Code
	}{
		{"absent", sdk.FenceState{}, 6, sdk.FenceRegression},
		{"same fence, earlier segment", s, 5, sdk.FenceRegression},
		{"lower fence", sdk.FenceState{Highest: 4, Grant: s.Grant, Root: s.Root, Segment: 9}, 5, sdk.FenceRegression},
		{"stale says stale", s, 4, sdk.StaleOwner},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := *m
			m.Fence, m.Segment = tc.fence, 1
			d := decide(tc.state, prior, &m)
			if d.Code != tc.want || !d.Alarm || d.Next != tc.state {
				t.Errorf("got %v alarm %v next %v, want %v with alarm and no change", d.Code, d.Alarm, d.Next, tc.want)
			}
			_, err := d.Outcome()
			if !errorsIs(err, sdk.ErrFenceRegression) || !errorsIs(err, sentinelOf(tc.want)) {
				t.Errorf("%v does not match both sentinels", err)
			}
		})
	}
}

func TestDecideGenerations(t *testing.T) {
	s, m := atFive()
	m.Generations = sdk.Generations{Policy: 9, Trust: 2}
	if d := decide(s, nil, m); d.Code != sdk.Accepted || d.Next.Generations != s.Generations {
		t.Errorf("same fence: %v with %v, want the old generations", d.Code, d.Next.Generations)
	}
	m.Fence, m.Segment = 6, 1
	if d := decide(s, nil, m); d.Code != sdk.Accepted || d.Next.Generations != (sdk.Generations{Policy: 9, Trust: 3}) {
		t.Errorf("takeover: %v with %v, want the higher of each", d.Code, d.Next.Generations)
	}
}

func TestDecideSeed(t *testing.T) {
	seed, m := atFive()
	m.Seed = seed
	for _, tc := range []struct {
		name    string
		stored  sdk.FenceState
		fence   sdk.Token
		segment sdk.Segment
		want    sdk.Code
	}{
		{"next segment under the seed", sdk.FenceState{}, 5, 3, sdk.Accepted},
		{"takeover above the seed", sdk.FenceState{}, 6, 1, sdk.Accepted},
		{"below the seed", sdk.FenceState{}, 4, 1, sdk.StaleOwner},
		{"skips from the seed", sdk.FenceState{}, 5, 4, sdk.SegmentSkipped},
		{"the stored fence wins", sdk.FenceState{Highest: 8, Grant: seed.Grant, Root: seed.Root, Segment: 1}, 6, 1, sdk.StaleOwner},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := *m
			m.Fence, m.Segment = tc.fence, tc.segment
			d := decide(tc.stored, nil, &m)
			if d.Code != tc.want {
				t.Errorf("got %v, want %v", d.Code, tc.want)
			}
			if d.Code != sdk.Accepted && d.Next != tc.stored {
				t.Errorf("a refusal changed the state to %v", d.Next)
			}
		})
	}
}

// A claim under a fence that its own grant holds is a read, never quarantined.
func TestDecideClaim(t *testing.T) {
	s, m := atFive()
	m.Operation, m.Segment = sdk.ClaimID(m.Grant), 1
	m.Payload = sdk.PayloadDigest(m.Operation, nil, nil)
	if d := decide(s, nil, m); d.Code != sdk.NotApplied || d.Next != s {
		t.Errorf("claim of a held fence: %v, %v", d.Code, d.Next)
	}
	first := decide(sdk.FenceState{}, nil, m)
	if first.Code != sdk.Accepted {
		t.Fatalf("first claim: %v", first.Code)
	}
	if d := decide(first.Next, first.Receipt, m); d.Code != sdk.Replayed {
		t.Errorf("claim again: %v", d.Code)
	}
	m.Grant = sdk.SumDigest([]byte("another"))
	if d := decide(s, nil, m); d.Code != sdk.FenceRegression {
		t.Errorf("claim with the ID of another grant at its fence: %v", d.Code)
	}
}
