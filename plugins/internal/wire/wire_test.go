package wire

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

func full() *sdk.Mutation {
	effects := []sdk.Effect{sdk.Put("k", []byte("v\x00\xff")), {Kind: "sql.exec.v1", Body: []byte{0xff}}}
	return &sdk.Mutation{Resource: "a/é", Operation: "op", Fence: sdk.MaxToken, Segment: sdk.MaxSegment, Root: sdk.SumDigest([]byte("r")),
		Grant: sdk.SumDigest([]byte("g")), Payload: sdk.PayloadDigest("op", []byte("res"), effects), Owner: "w",
		Time: time.UnixMilli(1_700_000_000_123).UTC(), Effects: effects, Result: []byte("res"),
		Generations: sdk.Generations{Policy: 3, Trust: 4}, GrantEnvelope: []byte("grant bytes"), StatusEnvelope: []byte("status bytes"),
		Seed: sdk.FenceState{Highest: 2, Grant: sdk.SumDigest([]byte("o")), Root: sdk.SumDigest([]byte("p")), Segment: 9, Generations: sdk.Generations{Policy: 1}}}
}

// An admission crosses whole, to the last bit of every number.
func TestAdmissionCrosses(t *testing.T) {
	for name, m := range map[string]*sdk.Mutation{"full": full(), "bare": {Resource: "r", Operation: "op", Fence: 1, Segment: 1,
		Root: sdk.SumDigest([]byte("r")), Grant: sdk.SumDigest([]byte("g")), Payload: sdk.SumDigest([]byte("p")), Owner: "w", Time: time.UnixMilli(0).UTC()}} {
		b, err := proto.Marshal(Admission(m))
		if err != nil {
			t.Fatal(err)
		}
		var p pb.Admission
		if err := proto.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		got, err := ParseMutation(&p)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got, cmp.Comparer(func(a, b sdk.Hook) bool { return a == nil && b == nil })); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// C90: what this version does not know is refused before the store, and not
// left out.
func TestUnknownFieldRefused(t *testing.T) {
	b, err := proto.Marshal(Admission(full()))
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, 0x98, 0x06, 0x01) // field 99, a number
	var p pb.Admission
	if err := proto.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseMutation(&p); sdk.CodeOf(err) != sdk.Invalid {
		t.Errorf("got %v", err)
	}
}

// Whatever arrives is parsed or refused, and what was parsed crosses again.
func FuzzMutation(f *testing.F) {
	b, err := proto.Marshal(Admission(full()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p pb.Admission
		if proto.Unmarshal(b, &p) != nil {
			return
		}
		m, err := ParseMutation(&p)
		if err != nil {
			return
		}
		Admit(m)
		again, err := ParseMutation(Admission(m))
		if err != nil || again.Payload != m.Payload || again.Fence != m.Fence || !again.Time.Equal(m.Time) {
			t.Errorf("%v and again %v (%v)", m, again, err)
		}
	})
}

// Whatever a plug-in answers, a success carries the mutation's own receipt and
// an error a code that a write may have.
func FuzzAnswer(f *testing.F) {
	m := full()
	good := &pb.ApplyResponse{Code: pb.Code_CODE_ACCEPTED, Observed: State(m.Seed), Receipt: Receipt(&sdk.Receipt{Resource: m.Resource,
		Operation: m.Operation, Fence: m.Fence, Segment: m.Segment, Root: m.Root, Grant: m.Grant, Payload: m.Payload, Owner: m.Owner, Time: m.Time})}
	b, err := proto.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p pb.ApplyResponse
		if proto.Unmarshal(b, &p) != nil {
			return
		}
		out, err := ParseAnswer(m, &p)
		switch {
		case err == nil && (!out.Code.Ok() || out.Receipt == nil || !out.Receipt.Echoes(m)):
			t.Errorf("%v without an error", out)
		case err != nil && (out.Code.Ok() || !out.Code.Known() || sdk.CodeOf(err) != out.Code):
			t.Errorf("%v with %v", out, err)
		}
		_ = ParseFailure(&pb.Failure{Code: p.Code, Receipt: p.Receipt, Observed: p.Observed})
	})
}
