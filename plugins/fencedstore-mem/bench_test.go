package main

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

func write(r, n int) sdk.Admission {
	op := sdk.OperationID("op-" + strconv.Itoa(n))
	effects := []sdk.Effect{sdk.Put("k", make([]byte, 100))}
	return sdk.NewAdmission(seal.Cut(), &sdk.Mutation{Resource: sdk.ResourceID("r-" + strconv.Itoa(r)), Operation: op, Fence: 1,
		Segment: sdk.Segment(n), Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte("grant")),
		Payload: sdk.PayloadDigest(op, nil, effects), Owner: "worker", Time: time.UnixMilli(1_700_000_000_000).UTC(), Effects: effects,
		GrantEnvelope: make([]byte, 900), StatusEnvelope: make([]byte, 600)})
}

func stores(b *testing.B) map[string]sdk.FencedStore {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	s, err := plugins.Open(b.Context(), self, &plugins.Options{DSN: "mem://"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return map[string]sdk.FencedStore{"in-process": memstore.New(), "plug-in": s}
}

// BenchmarkApply is one write after another, in process beside through the
// plug-in; the median is what to compare.
func BenchmarkApply(b *testing.B) {
	all := stores(b)
	for _, name := range []string{"in-process", "plug-in"} {
		n := 0
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				n++
				a := write(0, n)
				at := time.Now()
				if _, err := all[name].Apply(b.Context(), a); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(at))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs-median")
		})
	}
}

// BenchmarkApply32 has 32 writes in flight.
func BenchmarkApply32(b *testing.B) {
	all := stores(b)
	for _, name := range []string{"in-process", "plug-in"} {
		var next [32]int
		b.Run(name, func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan error)
			at := time.Now()
			for r := range next {
				go func() {
					for left.Add(-1) >= 0 {
						next[r]++
						if _, err := all[name].Apply(context.Background(), write(r, next[r])); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range next {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/time.Since(at).Seconds(), "applies/s")
		})
	}
}

// BenchmarkStart is from a fresh start to the first answer.
func BenchmarkStart(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := plugins.Open(b.Context(), self, &plugins.Options{DSN: "mem://"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Inspect(b.Context(), "r"); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}
