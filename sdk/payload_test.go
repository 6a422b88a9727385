package sdk_test

import (
	"bytes"
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
