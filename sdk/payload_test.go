package sdk_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

type payloadVector struct {
	Name      string `json:"name"`
	Operation string `json:"operation"`
	Result    []byte `json:"resultBase64"`
	Effects   []struct {
		Kind string `json:"kind"`
		Body []byte `json:"bodyBase64"`
	} `json:"effects"`
	Digest string `json:"digest"`
}

func TestPayloadVectors(t *testing.T) {
	vectors := readLines[payloadVector](t, "testdata/payload.jsonl")
	if len(vectors) != 11 {
		t.Errorf("%d vectors, want 11", len(vectors))
	}
	seen := map[sdk.Digest]string{}
	for _, v := range vectors {
		var effects []sdk.Effect
		for _, e := range v.Effects {
			effects = append(effects, sdk.Effect{Kind: e.Kind, Body: e.Body})
		}
		d := sdk.PayloadDigest(sdk.OperationID(v.Operation), v.Result, effects)
		if d.String() != v.Digest {
			t.Errorf("%s: %v, want %s", v.Name, d, v.Digest)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s share a digest", v.Name, other)
		}
		seen[d] = v.Name
	}
}

func TestInputDigestIsApart(t *testing.T) {
	in := []byte("input")
	d := sdk.InputDigest("op", in)
	for name, other := range map[string]sdk.Digest{
		"payload with the input as result": sdk.PayloadDigest("op", in, nil),
		"another operation":                sdk.InputDigest("op2", in),
		"another input":                    sdk.InputDigest("op", []byte("Input")),
		"moved boundary":                   sdk.InputDigest("opi", []byte("nput")),
	} {
		if d == other {
			t.Errorf("%s: same digest", name)
		}
	}
}

// naive is the encoding as its definition says it.
func naive(op string, result []byte, effects []sdk.Effect) sdk.Digest {
	var b []byte
	add := func(p []byte) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	add([]byte("fencedstore.payload.v1"))
	add([]byte(op))
	add(result)
	b = binary.BigEndian.AppendUint64(b, uint64(len(effects)))
	for _, e := range effects {
		add([]byte(e.Kind))
		add(e.Body)
	}
	return sha256.Sum256(b)
}

// Sizes around the encoder's buffer, for every part.
func TestPayloadSizes(t *testing.T) {
	for _, n := range []int{0, 1, 900, 950, 1000, 1010, 1023, 1024, 1025, 2048, 5000} {
		long := bytes.Repeat([]byte("x"), n)
		for _, effects := range [][]sdk.Effect{nil, {{Kind: "k", Body: long}}, {{Kind: string(long), Body: long}, {Kind: "k", Body: []byte("y")}}} {
			for _, result := range [][]byte{nil, long} {
				for _, op := range []string{"op", string(long)} {
					if got, want := sdk.PayloadDigest(sdk.OperationID(op), result, effects), naive(op, result, effects); got != want {
						t.Fatalf("%d bytes, %d effects, op %d, result %d: %v, want %v", n, len(effects), len(op), len(result), got, want)
					}
				}
			}
		}
	}
}

func TestPayloadDigestAllocates(t *testing.T) {
	effects := []sdk.Effect{sdk.Put("key", []byte("value"))}
	if n := testing.AllocsPerRun(100, func() { sdk.PayloadDigest("op", nil, effects) }); n != 0 {
		t.Errorf("a small mutation takes %v allocations", n)
	}
}

func TestEffectRoundTrip(t *testing.T) {
	for _, key := range []string{"k", "a/b", "é", string(bytes.Repeat([]byte("x"), sdk.MaxKeyBytes))} {
		k, v, err := sdk.ParsePut(sdk.Put(key, []byte("value")).Body)
		if err != nil || k != key || string(v) != "value" {
			t.Errorf("put %q: %q %q %v", key, k, v, err)
		}
		k, err = sdk.ParseDelete(sdk.Delete(key).Body)
		if err != nil || k != key {
			t.Errorf("delete %q: %q %v", key, k, err)
		}
	}
	q := sdk.Quarantine{QuarantineKey: sdk.QuarantineKey{Fence: 1<<53 + 1, Segment: 7, Operation: "op", Payload: sdk.SumDigest(nil)}}
	if k, err := sdk.ParseResolve(sdk.Resolve(q).Body); err != nil || k != q.QuarantineKey {
		t.Errorf("resolve: %v %v", k, err)
	}
}

func FuzzParseEffects(f *testing.F) {
	f.Add(sdk.Put("key", []byte("value")).Body)
	f.Add(sdk.Delete("key").Body)
	f.Add(sdk.Resolve(sdk.Quarantine{QuarantineKey: sdk.QuarantineKey{Fence: 1, Segment: 1, Operation: "o", Payload: sdk.SumDigest(nil)}}).Body)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		if k, v, err := sdk.ParsePut(body); err == nil && !bytes.Equal(sdk.Put(k, v).Body, body) {
			t.Errorf("put %x decodes to %q %x, which encodes otherwise", body, k, v)
		}
		if k, err := sdk.ParseDelete(body); err == nil && !bytes.Equal(sdk.Delete(k).Body, body) {
			t.Errorf("delete %x decodes to %q", body, k)
		}
		if k, err := sdk.ParseResolve(body); err == nil && !bytes.Equal(sdk.Resolve(sdk.Quarantine{QuarantineKey: k}).Body, body) {
			t.Errorf("resolve %x decodes to %v", body, k)
		}
	})
}
