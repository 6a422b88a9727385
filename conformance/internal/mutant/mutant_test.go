package mutant

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	laws := map[sdk.Law]int{}
	for _, m := range All() {
		if m.Name == "" || m.Story == "" || m.bend == nil || seen[m.Name] {
			t.Errorf("%q: incomplete or twice", m.Name)
		}
		seen[m.Name] = true
		laws[m.Law]++
	}
	for _, law := range []sdk.Law{sdk.F1, sdk.F2, sdk.F3, sdk.F4, sdk.F5, sdk.F6, sdk.F7, sdk.F8, sdk.F9, sdk.F10, sdk.F11, sdk.F12, sdk.F13,
		sdk.O1, sdk.O2, sdk.O3, sdk.O4, sdk.P1, sdk.A2, sdk.A7} {
		if laws[law] == 0 {
			t.Errorf("no mutant breaks %s", law)
		}
	}
	t.Logf("%d mutants: %v", len(seen), laws)
}

// Every mutant tells the story otherwise than the honest store does, unless it
// says why that takes calls at the same time. The honest store tells it the
// same each time.
func TestMutantsDiffer(t *testing.T) {
	want, native := tell(t, Honest(), nil), tell(t, HonestNative(), nil)
	if again := tell(t, Honest(), nil); !slices.Equal(again, want) {
		t.Fatalf("the honest store tells two stories: %s", firstDifference(want, again))
	}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			target := m.New()
			want := want
			if target.Native != nil {
				want = native
			}
			diff := firstDifference(want, tell(t, target, want))
			switch {
			case diff == "" && m.Concurrent == "":
				t.Errorf("%s: it does what the honest store does", m.Story)
			case diff != "" && m.Concurrent != "":
				t.Errorf("%s, and still calls one after the other show: %s", m.Concurrent, diff)
			}
		})
	}
}

// firstDifference is where got, which may end there, and want part.
func firstDifference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		w, g := "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			return g + ", and not " + w
		}
	}
	return ""
}

// A mutant's targets share nothing.
func TestTargetsAreFresh(t *testing.T) {
	for _, m := range []Mutant{All()[0], {Name: "honest", bend: func(*flaws) {}}} {
		for range 2 {
			s, err := m.New().Open(t.Context(), sdk.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if state, err := s.Inspect(t.Context(), "s/1"); err != nil || !state.Absent() {
				t.Errorf("%s: %v, %v", m.Name, state, err)
			}
			if out, err := s.Apply(t.Context(), sealed(worker("s/1", 7).put(1, "op", "k", "v"))); err != nil {
				t.Errorf("%s: %v, %v", m.Name, out.Code, err)
			}
		}
	}
}

type vectorState struct {
	Highest uint64     `json:"highest,string"`
	Grant   sdk.Digest `json:"grant"`
	Root    sdk.Digest `json:"root"`
	Segment uint64     `json:"segment,string"`
}

type vectorMutation struct {
	Operation string     `json:"operation"`
	Fence     uint64     `json:"fence,string"`
	Grant     sdk.Digest `json:"grant"`
	Root      sdk.Digest `json:"root"`
	Segment   uint64     `json:"segment,string"`
	Digest    sdk.Digest `json:"digest"`
}

type vector struct {
	Name               string           `json:"name"`
	State              vectorState      `json:"state"`
	Receipts           []vectorMutation `json:"receipts"`
	Mutation           vectorMutation   `json:"mutation"`
	Verdict            string           `json:"verdict"`
	Next               vectorState      `json:"next"`
	ReceiptOfOperation *vectorMutation  `json:"receiptOfOperation"`
	Pure               bool             `json:"pure"`
}

func (s vectorState) state() sdk.FenceState {
	return sdk.FenceState{Highest: sdk.Token(s.Highest), Grant: s.Grant, Root: s.Root, Segment: sdk.Segment(s.Segment)}
}

func (v vectorMutation) mutation(r sdk.ResourceID) *sdk.Mutation {
	return &sdk.Mutation{Resource: r, Operation: sdk.OperationID(v.Operation), Fence: sdk.Token(v.Fence), Segment: sdk.Segment(v.Segment),
		Root: v.Root, Grant: v.Grant, Payload: v.Digest, Owner: "vectors"}
}

// The honest store plays every row of the verdict table to which a store can
// be brought.
func TestHonestPlaysTheVectors(t *testing.T) {
	file, err := os.Open("../../testdata/decide.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s, err := Honest().Open(t.Context(), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	rows, pure := 0, 0
	for ; lines.Scan(); rows++ {
		dec := json.NewDecoder(strings.NewReader(lines.Text()))
		dec.DisallowUnknownFields()
		var v vector
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("row %d: %v", rows+1, err)
		}
		if v.Pure {
			pure++
			continue
		}
		r := sdk.ResourceID("vectors/" + sdk.Token(rows).String())
		if v.State.Highest > 0 && len(v.Receipts) == 0 {
			v.Receipts = []vectorMutation{{Operation: "filler", Fence: v.State.Highest, Grant: v.State.Grant, Root: v.State.Root,
				Segment: v.State.Segment, Digest: sdk.SumDigest([]byte("filler"))}}
		}
		for _, m := range v.Receipts {
			if out, err := s.Apply(t.Context(), sealed(m.mutation(r))); out.Code != sdk.Accepted {
				t.Fatalf("%s: on the way to its state: %v, %v", v.Name, out.Code, err)
			}
		}
		out, _ := s.Apply(t.Context(), sealed(v.Mutation.mutation(r)))
		state, err := s.Inspect(t.Context(), r)
		if out.Code.String() != v.Verdict || err != nil || state != v.Next.state() {
			t.Errorf("%s: %v and then %v, %v; want %s and %v", v.Name, out.Code, state, err, v.Verdict, v.Next.state())
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if rows-pure < 1000 {
		t.Errorf("%d rows, %d of them for sdk.Decide alone: the table is not whole", rows, pure)
	}
}

func sealed(m *sdk.Mutation) sdk.Admission { return sdk.NewAdmission(seal.Cut(), m) }
