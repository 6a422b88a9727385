package grant

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// Payload types of the envelopes.
const (
	GrantType = "application/vnd.fencedstore.lockgrant.v1+json"
	ProofType = "application/vnd.fencedstore.statusproof.v1+json"
)

// MaxEnvelopeBytes bounds an envelope of a grant or a proof, and its payload,
// before it is parsed. The longest fields that are allowed fit in.
const MaxEnvelopeBytes = 16 << 10

// Signature is one signature of an envelope.
type Signature struct {
	KeyID string
	Sig   []byte
}

// Envelope is a DSSE envelope, parsed and not verified.
type Envelope struct {
	PayloadType string
	Payload     []byte
	Signatures  []Signature
}

type wireEnvelope struct {
	PayloadType string          `json:"payloadType"`
	Payload     string          `json:"payload"`
	Signatures  []wireSignature `json:"signatures"`
}

type wireSignature struct {
	KeyID string  `json:"keyid"`
	Sig   *string `json:"sig"` // an empty one is there and does not verify
}

// ParseEnvelope reads an envelope with exactly one signature, as grants and
// proofs have; MALFORMED otherwise.
func ParseEnvelope(b []byte) (*Envelope, error) {
	e, err := ParseEnvelopeMulti(b, MaxEnvelopeBytes)
	if err == nil && len(e.Signatures) != 1 {
		return nil, malformed("signatures", "%d; there is exactly one", len(e.Signatures))
	}
	return e, err
}

// ParseEnvelopeMulti reads an envelope of up to limit bytes with one or more
// signatures; MALFORMED otherwise.
func ParseEnvelopeMulti(b []byte, limit int) (*Envelope, error) {
	if len(b) == 0 || len(b) > limit {
		return nil, malformed("envelope", "%d bytes; it has 1 to %d", len(b), limit)
	}
	var w wireEnvelope
	if err := Unmarshal(b, &w); err != nil {
		return nil, under("envelope", err)
	}
	switch {
	case w.PayloadType == "":
		return nil, malformed("payloadType", "missing")
	case w.Payload == "":
		return nil, malformed("payload", "missing")
	case len(w.Signatures) == 0:
		return nil, malformed("signatures", "missing")
	}
	e := &Envelope{PayloadType: w.PayloadType, Signatures: make([]Signature, len(w.Signatures))}
	var err error
	if e.Payload, err = decodeBase64("payload", w.Payload); err != nil {
		return nil, err
	}
	for i, s := range w.Signatures {
		switch {
		case s.KeyID == "":
			return nil, malformed("keyid", "missing")
		case s.Sig == nil:
			return nil, malformed("sig", "missing")
		}
		e.Signatures[i].KeyID = s.KeyID
		if e.Signatures[i].Sig, err = decodeBase64("sig", *s.Sig); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Encode writes e as JSON. MALFORMED: a part of it is missing or not UTF-8.
func (e *Envelope) Encode() ([]byte, error) {
	w := wireEnvelope{PayloadType: e.PayloadType, Payload: base64.StdEncoding.EncodeToString(e.Payload)}
	complete := e.PayloadType != "" && len(e.Payload) > 0 && len(e.Signatures) > 0
	for _, s := range e.Signatures {
		sig := base64.StdEncoding.EncodeToString(s.Sig)
		w.Signatures = append(w.Signatures, wireSignature{s.KeyID, &sig})
		complete = complete && s.KeyID != ""
	}
	if !complete {
		return nil, malformed("envelope", "lacks payload type, payload, signatures or the key ID of one")
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, malformed("envelope", "payload type or key ID is not UTF-8")
	}
	return b, nil
}

// PAE is DSSE's pre-authentication encoding: the bytes that are signed.
func PAE(payloadType string, payload []byte) []byte {
	b := make([]byte, 0, len("DSSEv1 ")+len(payloadType)+len(payload)+24)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(payloadType)), 10)
	b = append(b, ' ')
	b = append(b, payloadType...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, ' ')
	return append(b, payload...)
}

// decodeBase64 takes standard base64 with its padding and nothing else; Go's
// decoder would skip line ends.
func decodeBase64(field, s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, malformed(field, "has a line end; it is base64 in one line")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, malformed(field, "not standard base64 with padding")
	}
	return b, nil
}

func malformed(field, format string, args ...any) error {
	return sdk.Errorf(sdk.Malformed, field, format, args...)
}

// under names what stands in the error of Unmarshal where that names no field.
func under(what string, err error) error {
	var e *sdk.Error
	if errors.As(err, &e) && e.Field == "" {
		return malformed(what, "%s", e.Msg)
	}
	return err
}
