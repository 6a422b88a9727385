package cas

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// Names of objects. A resource is named by its hash: IDs are longer and freer
// than many stores' keys.
//
//	store                             what this place is
//	NAMESPACE/head/RESOURCE           the head
//	NAMESPACE/marker/RESOURCE         that there was a head
//	NAMESPACE/part/RESOURCE/SEQ-NONCE-N
//	NAMESPACE/quarantine/RESOURCE/KEY
//	NAMESPACE/dropped/RESOURCE        how many records were only counted
const storeName = "store"

var lower32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

type names struct{ namespace, resource string }

// HeadName is the name of a resource's head among the objects, for tests that
// remove it.
func HeadName(namespace string, r sdk.ResourceID) string { return namesOf(namespace, r).head() }

func namesOf(namespace string, r sdk.ResourceID) names {
	sum := sha256.Sum256([]byte(r))
	return names{namespace, lower32.EncodeToString(sum[:])}
}

func (n names) object(kind string) string { return n.namespace + "/" + kind + "/" + n.resource }
func (n names) head() string              { return n.object("head") }
func (n names) marker() string            { return n.object("marker") }
func (n names) dropped() string           { return n.object("dropped") }
func (n names) quarantines() string       { return n.object("quarantine") + "/" }
func (n names) parts() string             { return n.object("part") + "/" }

func (n names) quarantine(k sdk.QuarantineKey) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d/%d/%s/%x", k.Fence, k.Segment, k.Operation, k.Payload)
	return n.quarantines() + lower32.EncodeToString(h.Sum(nil))
}

// staging names the parts of one attempt: by the head's sequence that it builds
// on and a nonce, never by content.
type staging struct {
	names
	sequence uint64
	nonce    string
	count    int
}

func (s *staging) next() string {
	s.count++
	return fmt.Sprintf("%s%020d-%s-%d", s.parts(), s.sequence, s.nonce, s.count)
}

// stagedOn is the sequence in the name of a part.
func stagedOn(name string) (uint64, bool) {
	last := name[strings.LastIndexByte(name, '/')+1:]
	digits, _, ok := strings.Cut(last, "-")
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

func newNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
