// Package mongostore keeps fences, receipts and data in a MongoDB collection,
// with go.mongodb.org/mongo-driver/v2. There are two layouts; a collection keeps
// the one that it was made with.
//
// # Layout document
//
// The default, for every deployment: package sdk/cas over one collection. A
// resource has one main document, with the fence as 64-bit integers, the last
// receipts, small values, and references to the rest.
//
//   - F1–F6, F10, F11, F13: one update replaces the main document. Its filter is
//     the law: _id, highest, segment, grant and a version that is used once are
//     still those by which sdk.Decide judged. MongoDB changes one document in one
//     step. A first write is an insert; its duplicate key (E11000) is no success
//     and no verdict: what is there is read and judged.
//   - F7: a marker document, written after the first main document and before the
//     first answer.
//   - F8: reads are linearizable, from the primary.
//   - F9: writes wait for the majority and its journals. On a server without a
//     replica set, which takes no linearizable reads, each read is followed by a
//     write that waits for the journal, so that nothing is shown that could be
//     lost.
//   - O1, O2: commands are sent by RunCommand, which the driver sends once,
//     whatever the client's retryWrites says. An answer that was lost, or an
//     error of the write concern, is settled by reading the main document.
//
// Documents stay bounded: older receipts and values above 2 KiB move to documents
// of their own, written before the main document that refers to them; it has up
// to 1 MiB. Steady state: one update. A refusal costs one find more, a handle's
// first write to a resource one or two. Every few dozen segments receipts move
// out, which costs some inserts. There are no native effects and no ApplyTx here.
//
// # Layout transaction
//
// For replica sets, and sharded clusters whose collection is not sharded: fence,
// receipt, values and the team's own collections in one transaction, with read
// concern snapshot, write concern majority and the primary, pinned whatever the
// client's defaults are.
//
//   - F1–F6, F10, F11, F13: the first command of the transaction updates the fence
//     by the same filter, makes the receipt if there is none, and puts values.
//     Where one of its statements touched no document, the transaction is aborted,
//     and fence and receipt are read, linearizable, and judged.
//   - F7: a marker document, made with the first fence.
//   - O1: until the commit is sent nothing can be applied. A commit labelled
//     UnknownTransactionCommitResult, whatever other label it has, is sent again,
//     and nothing else is; after five times, or the context's end (30 s where it
//     has none), the receipt tells, or the answer is MUTATION_UNKNOWN.
//     TransientTransactionError alone runs everything again.
//
// gate.ApplyTx takes a *mongo.Session; its function's ctx carries it:
//
//	gate.ApplyTx(ctx, g, request, func(ctx context.Context, s *mongo.Session) ([]byte, error) {
//		_, err := s.Client().Database("shop").Collection("orders").UpdateOne(ctx, …)
//		return nil, err
//	})
//
// What does not get that ctx is outside the transaction. The function runs after
// the fence has moved in the transaction, may run again, and leaves commit and
// abort to the store. The native effect is mongodb.write.v1, see [Write]; the
// store's own collection is refused. Steady state: one command and the commit,
// and one command for each native effect; ApplyTx one more.
//
// # Limits
//
// Tokens and segments are signed 64-bit integers. document: 100 effects, 8 MiB
// each, 16 MiB together. transaction: 500 effects, 8 MiB each, 12 MiB together;
// MongoDB ends a transaction after a minute. 1,000 quarantine records a resource.
//
// # What the collection must be
//
// A plain collection with its index on _id, without TTL index, cap, collation or
// validator; sharded by _id or not at all, and with layout transaction not at
// all. Probe refuses others. The URI must not ask for a write concern below
// majority, nor for reads of less than the primary's. A client that the team
// gives to New may; every command names its own.
//
// The gate's role needs find, insert, update, remove, listCollections and
// listIndexes on the collection, and in a sharded cluster find on
// config.collections; for native effects and ApplyTx, the writes on the team's
// collections, which the workers' roles then must not have:
//
//	db.createRole({role: "fencedstoreGate", roles: [], privileges: [
//	  {resource: {db: "shop", collection: "fences"}, actions: ["find", "insert", "update", "remove", "listIndexes"]},
//	  {resource: {db: "shop", collection: ""}, actions: ["listCollections"]}]})
//
// # What was proved where
//
// No mongod can be had where this is built. The suite runs with layout document
// on mongo-java-server over an H2 file and on FerretDB over SQLite, the latter one
// command at a time, since it loses concurrent updates: alone, Probe and the suite
// refuse it. Both are single servers. Layout transaction, and what a replica set
// answers, were tried on a fake that was written beside this package: concerns,
// labels and conflicts as the manual describes them. Neither layout has been run
// on MongoDB itself; FENCEDSTORE_MONGODB_URI makes the tests do so.
package mongostore
