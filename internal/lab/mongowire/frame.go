// Package mongowire speaks MongoDB's wire protocol from the server's side, as far
// as tests need it: a proxy that counts, bends and lines up commands, and what a
// server in the test's own process listens with.
package mongowire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Frame is one message as it goes over the wire.
type Frame []byte

const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013

	headerBytes = 16
	maxFrame    = 48_000_000 + headerBytes
)

// ReadFrame reads one message.
func ReadFrame(r io.Reader) (Frame, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(n[:])
	if size < headerBytes || size > maxFrame {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	f := make(Frame, size)
	copy(f, n[:])
	_, err := io.ReadFull(r, f[4:])
	return f, err
}

func (f Frame) requestID() uint32 { return binary.LittleEndian.Uint32(f[4:]) }
func (f Frame) op() uint32        { return binary.LittleEndian.Uint32(f[12:]) }

var errFrame = errors.New("a message that is neither OP_MSG nor OP_QUERY, or is cut")

// Document is the command or the reply that a message carries. Documents that an
// OP_MSG carries beside its body are put into it, as arrays.
func (f Frame) Document() (bson.Raw, error) {
	switch b := []byte(f[headerBytes:]); f.op() {
	case opQuery: // flags, name with its zero, skip, number
		for i := 4; i < len(b); i++ {
			if b[i] == 0 && len(b) > i+9 {
				doc, _, err := document(b[i+9:])
				return doc, err
			}
		}
	case opReply:
		if len(b) > 20 {
			doc, _, err := document(b[20:])
			return doc, err
		}
	case opMsg:
		if len(b) > 4 {
			return sections(b[4:], binary.LittleEndian.Uint32(b)&1 == 1)
		}
	}
	return nil, errFrame
}

func document(b []byte) (doc bson.Raw, rest []byte, err error) {
	if len(b) < 5 {
		return nil, nil, errFrame
	}
	n := binary.LittleEndian.Uint32(b)
	if n < 5 || int64(n) > int64(len(b)) {
		return nil, nil, errFrame
	}
	doc = bson.Raw(b[:n])
	return doc, b[n:], doc.Validate()
}

func sections(b []byte, checksum bool) (bson.Raw, error) {
	if checksum {
		b = b[:max(0, len(b)-4)]
	}
	var body bson.Raw
	var beside bson.D
	for len(b) > 0 {
		kind := b[0]
		b = b[1:]
		var err error
		switch kind {
		case 0:
			if body, b, err = document(b); err != nil {
				return nil, err
			}
		case 1:
			if len(b) < 5 {
				return nil, errFrame
			}
			n := binary.LittleEndian.Uint32(b)
			if n < 5 || int64(n) > int64(len(b)) {
				return nil, errFrame
			}
			seq := b[4:n]
			b = b[n:]
			end := 0
			for end < len(seq) && seq[end] != 0 {
				end++
			}
			if end == len(seq) {
				return nil, errFrame
			}
			name, list := string(seq[:end]), bson.A{}
			for seq = seq[end+1:]; len(seq) > 0; {
				var doc bson.Raw
				if doc, seq, err = document(seq); err != nil {
					return nil, err
				}
				list = append(list, doc)
			}
			beside = append(beside, bson.E{Key: name, Value: list})
		default:
			return nil, errFrame
		}
	}
	if body == nil {
		return nil, errFrame
	}
	if beside == nil {
		return body, nil
	}
	var whole bson.D
	if err := bson.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	return bson.Marshal(append(whole, beside...))
}

// answer is the message that carries doc as the reply to f.
func (f Frame) answer(doc bson.Raw) Frame {
	op, before := uint32(opMsg), make([]byte, 5) // flags, kind 0
	if f.op() == opQuery {
		op, before = opReply, make([]byte, 20) // flags, cursor, from, number
		before[16] = 1
	}
	out := make(Frame, headerBytes, headerBytes+len(before)+len(doc))
	binary.LittleEndian.PutUint32(out, uint32(cap(out)))
	binary.LittleEndian.PutUint32(out[8:], f.requestID())
	binary.LittleEndian.PutUint32(out[12:], op)
	return append(append(out, before...), doc...)
}
