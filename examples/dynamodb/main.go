// Command dynamodb settles an invoice, in the team's own table: two workers, one
// invoice, and a store that refuses the one whose lease is over.
//
//	go run ./examples/dynamodb 'dynamodb://FENCES?region=eu-central-1' INVOICES
//
// INVOICES is a table of yours whose partition key is the string "id". Fence,
// receipt and invoice change in one transaction. Without INVOICES the amount is a
// value in the fence's own table, which works with &layout=item too: half the cost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/adapters/dynamodbstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		log.Fatal("usage: dynamodb dynamodb://FENCES?region=… [INVOICES]")
	}
	invoices := ""
	if len(os.Args) == 3 {
		invoices = os.Args[2]
	}
	if err := run(context.Background(), os.Args[1], invoices, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dsn, invoices string, out io.Writer) error {
	// A resource may write the invoice of its own name and nothing else. Without
	// this function every write in a table of yours is refused.
	scope := func(r sdk.ResourceID, e sdk.Effect) error {
		w, err := dynamodbstore.ParseWrite(e.Body)
		if err != nil {
			return err
		}
		if w.Update == nil || aws.ToString(w.Update.TableName) != invoices {
			return errors.New("it is no update of the invoices' table")
		}
		if id, ok := w.Update.Key["id"].(*types.AttributeValueMemberS); !ok || len(w.Update.Key) != 1 || id.Value != string(r) {
			return errors.New("it is another invoice")
		}
		return nil
	}
	// Credentials come from the SDK's own chain. dynamodbstore.New takes a client
	// that you already have.
	store, err := dynamodbstore.Open(ctx, dsn, sdk.OpenOptions{Scope: scope})
	if err != nil {
		return err
	}
	defer store.Close()
	// Once, when a service starts: does this table decide conditions, is it in one
	// region, does nothing in it expire, and may we do what we need to?
	if err := store.Probe(ctx); err != nil {
		return err
	}

	// A registry in miniature, with a throw-away key. Yours signs the grants and
	// gives the bundle; its tokens are above all that the store has seen.
	invoice := sdk.ResourceID(fmt.Sprintf("invoices/%d", time.Now().UnixNano()))
	registry, err := gatetest.New("invoices")
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
	pay := func(cents int) (sdk.Effect, error) {
		if invoices == "" {
			return sdk.Put("paid", []byte(strconv.Itoa(cents))), nil
		}
		return dynamodbstore.Update(types.Update{TableName: &invoices, Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: string(invoice)}},
			UpdateExpression: aws.String("SET paid = :c"), ExpressionAttributeValues: map[string]types.AttributeValue{":c": &types.AttributeValueMemberN{Value: strconv.Itoa(cents)}}})
	}
	write := func(worker string, lease *gatetest.Lease, segment sdk.Segment, op sdk.OperationID, cents int) error {
		effect, err := pay(cents)
		if err != nil {
			return err
		}
		result, err := gates[worker].ApplyFencedMutation(ctx, lease.Request(segment, op, effect))
		fmt.Fprintf(out, "%s, %d cents: %s\n", worker, cents, result.Code)
		return err
	}

	leaseA, err := registry.Acquire(invoice, "worker-a", "settle-march")
	if err != nil {
		return err
	}
	if err := write("worker-a", leaseA, 1, "first instalment", 500); err != nil {
		return err
	}

	registry.Advance(2 * time.Minute) // worker-a stands still, and its lease ends.

	leaseB, err := registry.Acquire(invoice, "worker-b", "settle-march")
	if err != nil {
		return err
	}
	if _, err := gates["worker-b"].Claim(ctx, leaseB.Claim()); err != nil { // From here on worker-a cannot write.
		return err
	}
	// What did the owner before us get done? Its operations have receipts.
	receipt, err := store.Receipt(ctx, invoice, "first instalment")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%q was done by %s\n", receipt.Operation, receipt.Owner)
	if err := write("worker-b", leaseB, 2, "rest", 1180); err != nil {
		return err
	}

	// worker-a wakes up and goes on.
	if err := write("worker-a", leaseA, 2, "rest", 900); !errors.Is(err, sdk.ErrStaleOwner) {
		return fmt.Errorf("a stale owner was answered %w", err)
	}
	return nil
}
