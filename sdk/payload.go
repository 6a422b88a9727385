package sdk

import (
	"bytes"
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
	var e encoder
	e.text(payloadDomain)
	e.text(string(op))
	e.bytes(result)
	e.number(len(effects))
	for i := range effects {
		e.text(effects[i].Kind)
		e.bytes(effects[i].Body)
	}
	return e.sum()
}

// InputDigest is the payload digest of a mutation whose effects are the
// caller's own code in the store's transaction: over operation ID and the
// declared input, in the domain "fencedstore.input.v1".
func InputDigest(op OperationID, input []byte) Digest {
	var e encoder
	e.text(inputDomain)
	e.text(string(op))
	e.bytes(input)
	return e.sum()
}

// encoder hashes length-prefixed strings. It gathers them in a buffer of its own,
// so that a small mutation is hashed in one piece without an allocation; what
// does not fit goes to the hash as it comes, without a copy.
type encoder struct {
	n     int
	small [1024]byte
	h     hash.Hash
}

func (e *encoder) number(n int) {
	if len(e.small)-e.n < 8 {
		e.flush()
	}
	binary.BigEndian.PutUint64(e.small[e.n:], uint64(n))
	e.n += 8
}

func (e *encoder) text(s string) {
	e.number(len(s))
	for len(s) > 0 {
		if e.n == len(e.small) {
			e.flush()
		}
		n := copy(e.small[e.n:], s)
		e.n, s = e.n+n, s[n:]
	}
}

func (e *encoder) bytes(b []byte) {
	e.number(len(b))
	if len(b) <= len(e.small)-e.n {
		e.n += copy(e.small[e.n:], b)
		return
	}
	e.flush()
	e.h.Write(b)
}

func (e *encoder) flush() {
	if e.h == nil {
		e.h = sha256.New()
	}
	// The hash keeps nothing of what it is given, but the compiler cannot know
	// that of an interface; the copy keeps the encoder itself off the heap.
	e.h.Write(bytes.Clone(e.small[:e.n]))
	e.n = 0
}

func (e *encoder) sum() Digest {
	if e.h == nil {
		return sha256.Sum256(e.small[:e.n])
	}
	e.flush()
	return Digest(e.h.Sum(nil))
}
