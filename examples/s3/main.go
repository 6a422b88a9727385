// Command s3 keeps a report in an S3 bucket: two workers, one report, and a
// store that refuses the one whose lease is over.
//
//	AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… go run ./examples/s3 's3://BUCKET/fences?region=eu-central-1'
//
// With &layout=object&objects=reports/&unique=space the report is an object that
// anybody reads with a plain GET.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/fencedstore/fencedstore/adapters/s3store"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: s3 s3://BUCKET/PREFIX?region=…")
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dsn string, out io.Writer) error {
	store, err := s3store.Open(ctx, dsn, sdk.OpenOptions{})
	if err != nil {
		return err
	}
	defer store.Close()
	// Once, when a service starts: does this bucket decide conditions, atomically,
	// and does nothing in it expire?
	if err := store.Probe(ctx); err != nil {
		return err
	}

	// A registry in miniature, with a throw-away key. Yours signs the grants and
	// gives the bundle; its tokens are above all that the store has seen.
	report := sdk.ResourceID(fmt.Sprintf("reports/%d.json", time.Now().UnixNano()))
	registry, err := gatetest.New("reports")
	if err != nil {
		return err
	}
	gates := map[string]*gate.Gate{}
	for _, worker := range []string{"worker-a", "worker-b"} {
		gates[worker], err = gate.New(store, registry.Bundle(), &gate.Options{Caller: gate.FixedCaller(worker), Now: registry.Now})
		if err != nil {
			return err
		}
	}

	lease, err := registry.Acquire(report, "worker-a", "monthly")
	if err != nil {
		return err
	}
	write := lease.Request(1, "count", sdk.Put(s3store.ContentKey, []byte(`{"status":"counting"}`)))
	if _, err := gates["worker-a"].ApplyFencedMutation(ctx, write); err != nil {
		return err
	}
	fmt.Fprintln(out, "worker-a: written")

	registry.Advance(2 * time.Minute) // worker-a stands still, and its lease ends.

	next, err := registry.Acquire(report, "worker-b", "monthly")
	if err != nil {
		return err
	}
	if _, err := gates["worker-b"].Claim(ctx, next.Claim()); err != nil { // From here on worker-a cannot write.
		return err
	}
	write = next.Request(2, "total", sdk.Put(s3store.ContentKey, []byte(`{"total":1180}`)))
	if _, err := gates["worker-b"].ApplyFencedMutation(ctx, write); err != nil {
		return err
	}
	fmt.Fprintln(out, "worker-b: written")

	// worker-a wakes up and goes on.
	write = lease.Request(2, "total", sdk.Put(s3store.ContentKey, []byte(`{"total":990}`)))
	_, err = gates["worker-a"].ApplyFencedMutation(ctx, write)
	var refused *sdk.Error
	if !errors.As(err, &refused) || !errors.Is(err, sdk.ErrStaleOwner) {
		return fmt.Errorf("a stale owner was answered %w", err)
	}
	fmt.Fprintln(out, "worker-a:", refused.Code)

	value, err := store.Read(ctx, report, s3store.ContentKey)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the report: %s\n", value)
	return nil
}
