package s3store

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"io"
)

// Unique says how two versions of an object with the same value differ, so that
// their ETags do.
type Unique string

const (
	UniqueSpace Unique = "space" // white space after the value
	UniqueGzip  Unique = "gzip"  // a gzip stream with a nonce in its header
	UniqueETag  Unique = "etag"  // nothing: the bucket's ETags are never used twice
)

// coding is how a value becomes an object's bytes and back.
type coding struct {
	header string // Content-Encoding
	encode func(value []byte) ([]byte, error)
	decode func(body []byte) ([]byte, error)
}

var codings = map[Unique]coding{
	UniqueSpace: {"", appendSpace, cutSpace},
	UniqueGzip:  {"gzip", zip, unzip},
	UniqueETag:  {"", plain, plain},
}

func plain(b []byte) ([]byte, error) { return b, nil }

const (
	nonceBytes = 16
	white      = " \t\n\r" // two bits each
	spaceBytes = nonceBytes * 4
)

func newNonce() (n [nonceBytes]byte) {
	rand.Read(n[:])
	return n
}

func appendSpace(value []byte) ([]byte, error) {
	out := make([]byte, 0, len(value)+spaceBytes)
	out = append(out, value...)
	for _, b := range newNonce() {
		out = append(out, white[b&3], white[b>>2&3], white[b>>4&3], white[b>>6])
	}
	return out, nil
}

func cutSpace(body []byte) ([]byte, error) {
	if len(body) < spaceBytes {
		return nil, errors.New("it is shorter than the white space that ends it")
	}
	at := len(body) - spaceBytes
	if len(bytes.Trim(body[at:], white)) > 0 {
		return nil, errors.New("it does not end in white space")
	}
	return body[:at], nil
}

func zip(value []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	n := newNonce()
	z.Extra = n[:]
	z.Write(value) // into memory
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func unzip(body []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(z, maxObjectBytes+1))
	if err == nil && len(b) > maxObjectBytes {
		err = errors.New("it unpacks to more than was ever written")
	}
	return b, err
}
