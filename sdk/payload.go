package sdk

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

const (
	payloadDomain = "fencedstore.payload.v1"
	inputDomain   = "fencedstore.input.v1"
)

// PayloadDigest is the SHA-256 over operation ID, result and effects: what makes
// two mutations the same. Byte strings stand behind their length as 8 bytes
// big-endian: the domain "fencedstore.payload.v1", the operation ID, the
// result; then the number of effects as 8 bytes big-endian, without a length
// before it, and kind and body of each.
func PayloadDigest(op OperationID, result []byte, effects []Effect) Digest {
	h := sha256.New()
	var scratch [64]byte
	writeString(h, &scratch, payloadDomain)
	writeString(h, &scratch, string(op))
	writeBytes(h, &scratch, result)
	binary.BigEndian.PutUint64(scratch[:8], uint64(len(effects)))
	h.Write(scratch[:8])
	for i := range effects {
		writeString(h, &scratch, effects[i].Kind)
		writeBytes(h, &scratch, effects[i].Body)
	}
	var d Digest
	h.Sum(d[:0])
	return d
}

// InputDigest is the payload digest of a mutation whose effects are the
// caller's own code in the store's transaction: over operation ID and the
// declared input, in the domain "fencedstore.input.v1".
func InputDigest(op OperationID, input []byte) Digest {
	h := sha256.New()
	var scratch [64]byte
	writeString(h, &scratch, inputDomain)
	writeString(h, &scratch, string(op))
	writeBytes(h, &scratch, input)
	var d Digest
	h.Sum(d[:0])
	return d
}

func writeBytes(h hash.Hash, scratch *[64]byte, b []byte) {
	binary.BigEndian.PutUint64(scratch[:8], uint64(len(b)))
	h.Write(scratch[:8])
	h.Write(b)
}

// writeString copies through scratch so that a string needs no allocation.
func writeString(h hash.Hash, scratch *[64]byte, s string) {
	binary.BigEndian.PutUint64(scratch[:8], uint64(len(s)))
	h.Write(scratch[:8])
	for len(s) > 0 {
		n := copy(scratch[:], s)
		h.Write(scratch[:n])
		s = s[n:]
	}
}
