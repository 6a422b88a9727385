package lab

import (
	"slices"
	"testing"
	"time"
)

// Compare measures a fenced write against the plain conditional write of the
// same business data in turns, so that whatever else the machine does falls on
// both. It reports the ratio of the medians and the requests that each took,
// as count counts them.
func Compare(b *testing.B, count func() int, fenced, plain func(i int) error) {
	b.Helper()
	var times [2][]time.Duration
	var requests [2]int
	for i := 0; b.Loop(); i++ {
		for k, write := range []func(int) error{fenced, plain} {
			before, start := count(), time.Now()
			if err := write(i); err != nil {
				b.Fatal(err)
			}
			times[k] = append(times[k], time.Since(start))
			requests[k] += count() - before
		}
	}
	n := len(times[0])
	slices.Sort(times[0])
	slices.Sort(times[1])
	b.ReportMetric(float64(times[0][n/2])/float64(times[1][n/2]), "fenced/plain")
	b.ReportMetric(float64(times[0][n/2].Microseconds()), "µs/fenced")
	b.ReportMetric(float64(requests[0])/float64(n), "requests/fenced")
	b.ReportMetric(float64(requests[1])/float64(n), "requests/plain")
}
