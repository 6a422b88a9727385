package cas_test

import (
	"fmt"
	"testing"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// A resource that is full to the last byte can still be taken over, and emptied.
func TestFullResourceIsTakenOver(t *testing.T) {
	b := newBucket()
	s := open(t, b)
	segment, key := 0, 0
	for size := 2000; size > 0; {
		var effects []sdk.Effect
		for range 20 {
			effects = append(effects, sdk.Put(fmt.Sprintf("key-%06d", key+len(effects)), make([]byte, size)))
		}
		m := mutation(1, segment+1, fmt.Sprintf("op-%d-%d", segment, size), effects...)
		out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
		switch out.Code {
		case sdk.Accepted:
			segment++
			key += len(effects)
		case sdk.TooLarge:
			size /= 2
		default:
			t.Fatalf("%v, %v", out.Code, err)
		}
	}
	for fence := sdk.Token(2); fence < 60; fence++ {
		m := mutation(fence, 1, "")
		m.Operation = sdk.ClaimID(m.Grant)
		m.Payload = sdk.PayloadDigest(m.Operation, nil, nil)
		apply(t, s, m, sdk.Accepted)
	}
	for i := 1; i <= 20; i++ {
		apply(t, s, mutation(60, i, fmt.Sprintf("empties-%d", i), sdk.Delete(fmt.Sprintf("key-%06d", i))), sdk.Accepted)
	}
	apply(t, s, mutation(60, 21, "again", sdk.Put("key", make([]byte, 100))), sdk.Accepted)
}
