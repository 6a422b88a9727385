package s3store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// BenchmarkRatio is a fenced write of a kilobyte on versitygw against the plain
// If-Match PUT of the same kilobyte. The aim is 1.3 or less.
func BenchmarkRatio(b *testing.B) {
	value := []byte(strings.Repeat("v", 1<<10))
	for name, layout := range map[string]string{"head": "", "object": objectLayout} {
		b.Run(name, func(b *testing.B) {
			s, _ := realServer(b, lab.Versitygw)
			s.layout = layout
			st := open(b, s)
			plain := &bucket{client: s.client(), bucket: bucketName, prefix: "plain"}
			version, key := "", "k"
			if layout != "" {
				key = ContentKey
			}
			lab.Compare(b, func() int { return s.Count("") },
				func(i int) error {
					_, err := st.Apply(context.Background(), sdk.NewAdmission(seal.Cut(), mutation(1, i+1, fmt.Sprint("op-", i), sdk.Put(key, value))))
					return err
				},
				func(i int) error {
					ok, next, err := plain.PutIf(context.Background(), "object", append(value, fmt.Sprint(i)...), version)
					if err == nil && !ok {
						err = fmt.Errorf("write %d lost", i)
					}
					version = next
					return err
				})
		})
	}
}
