// Command mongodb posts payments to accounts in the team's own MongoDB
// collections, each in one transaction with its fence and receipt:
//
//	mongodb 'mongodb://HOST/DB?replicaSet=NAME&collection=fences&layout=transaction'
//
// The user in the DSN is the gate's. It may write the collections fences,
// accounts and payments; the workers' own users may not (docs/operations.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/fencedstore/fencedstore/adapters/mongostore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	database = "bank"
	account  = "accounts/42"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: mongodb DSN")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dsn string, out io.Writer) error {
	store, err := mongostore.Open(ctx, dsn, sdk.OpenOptions{Scope: scope})
	if err != nil {
		return err
	}
	defer store.Close()
	// Once, when the program starts: can this server keep the laws at all?
	if err := store.Probe(ctx); err != nil {
		return err
	}

	// A registry in miniature, with a throw-away key. Yours signs the grants and gives the bundle.
	registry, err := gatetest.New("bank")
	if err != nil {
		return err
	}
	gateOf := func(worker string) (*gate.Gate, error) {
		return gate.New(store, registry.Bundle(), &gate.Options{Caller: gate.FixedCaller(worker), Now: registry.Now})
	}
	a, err := gateOf("worker-a")
	if err != nil {
		return err
	}
	b, err := gateOf("worker-b")
	if err != nil {
		return err
	}

	// A: declared writes, as effects.
	leaseA, err := registry.Acquire(account, "worker-a", "post-march")
	if err != nil {
		return err
	}
	opened, err := mongostore.Replace("accounts", bson.D{{Key: "_id", Value: account}}, bson.D{{Key: "balance", Value: int64(100)}})
	if err != nil {
		return err
	}
	got, err := a.ApplyFencedMutation(ctx, leaseA.Request(1, "open", opened))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "A opens the account:", got.Code)

	registry.Advance(2 * time.Minute) // A pauses, and its lease ends.

	// B: code that reads before it writes, in the same transaction.
	leaseB, err := registry.Acquire(account, "worker-b", "post-march")
	if err != nil {
		return err
	}
	if _, err := b.Claim(ctx, leaseB.Claim()); err != nil { // From here on A cannot write.
		return err
	}
	request := leaseB.Request(2, "pay/1")
	request.Input = []byte("pay/1 30")
	got, err = gate.ApplyTx(ctx, b, request, func(ctx context.Context, s *mongo.Session) ([]byte, error) {
		return pay(ctx, s, "pay/1", 30)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "B pays 30: %v, balance %s\n", got.Code, got.Receipt.Result)

	// A wakes up and still believes that the account is its own.
	late := leaseA.Request(2, "pay/1")
	late.Input = []byte("pay/1 30")
	got, err = gate.ApplyTx(ctx, a, late, func(ctx context.Context, s *mongo.Session) ([]byte, error) {
		return pay(ctx, s, "pay/1", 30)
	})
	if !errors.Is(err, sdk.ErrStaleOwner) {
		return fmt.Errorf("a stale owner was answered %w", err)
	}
	fmt.Fprintln(out, "A pays 30:", got.Code)
	return nil
}

// scope says which documents a mutation of a resource may touch by effects: its
// own account.
func scope(r sdk.ResourceID, e sdk.Effect) error {
	w, err := mongostore.ParseWrite(e.Body)
	if err != nil {
		return err
	}
	id, _ := w.Filter.Lookup("_id").StringValueOK()
	if w.Database != "" || w.Collection != "accounts" || id != string(r) {
		return errors.New("a mutation writes its own account and no other")
	}
	return nil
}

// pay takes an amount off the account and notes the payment. Every call takes
// ctx, which carries the transaction; what does not is outside of it.
func pay(ctx context.Context, s *mongo.Session, id string, amount int64) ([]byte, error) {
	db := s.Client().Database(database)
	var doc struct {
		Balance int64 `bson:"balance"`
	}
	mine := bson.D{{Key: "_id", Value: account}}
	if err := db.Collection("accounts").FindOne(ctx, mine).Decode(&doc); err != nil {
		return nil, err
	}
	if doc.Balance < amount {
		return nil, fmt.Errorf("%d is more than the balance of %d", amount, doc.Balance)
	}
	left := doc.Balance - amount
	if _, err := db.Collection("accounts").UpdateOne(ctx, mine, bson.D{{Key: "$set", Value: bson.D{{Key: "balance", Value: left}}}}); err != nil {
		return nil, err
	}
	_, err := db.Collection("payments").UpdateOne(ctx, bson.D{{Key: "_id", Value: id}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "amount", Value: amount}}}}, options.UpdateOne().SetUpsert(true))
	return fmt.Append(nil, left), err
}
