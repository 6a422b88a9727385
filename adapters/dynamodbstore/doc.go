// Package dynamodbstore keeps fences, receipts and data in a DynamoDB table, with
// aws-sdk-go-v2, in one of two layouts. The first opening of a table fixes its
// layout.
//
// # Layout "transaction"
//
// One TransactWriteItems moves the fence item, puts the receipt and carries out
// the effects, in the team's own tables too.
//
//   - F1–F6, F10, F11, F13: the fence item is updated on the condition that it is
//     still the one by which sdk.Decide judged (highest, segment and grant equal),
//     the receipt is put on the condition that there is none. DynamoDB commits all
//     actions of a transaction or none.
//   - F7: a marker item, written with the first fence, tells a removed fence from
//     one that never was.
//   - F8: reads are TransactGetItems or strongly consistent.
//   - O1, O2: a transaction is sent once, without the SDK's retries, under a
//     ClientRequestToken of this Apply call alone. What its answer does not prove
//     is settled by reading fence and receipt: the state that a condition names
//     never comes back once it is gone.
//
// Steady state: one TransactWriteItems. A handle's first write to a resource, and
// a refusal, cost one TransactGetItems more.
//
// # Layout "item"
//
// One item of a resource, its head, holds the fence, the last receipts and all
// values; a PutItem on the condition that it is still the one that was read (a
// nonce, of one Apply call) is the commit. It is half the cost: a transaction
// pays twice for each of three items, this once for one and once for a receipt.
//
//   - F1–F6, F11, F13: sdk.Decide judges by the head that is replaced.
//   - F10: of each ten receipts the older eight leave the head for permanent items
//     of their own, found by operation; these are written before the head that no
//     longer has them. An index of 64-bit fingerprints, in immutable pages of 64,
//     read once by each handle, says without a request that an operation has none.
//   - F7: a marker item, written after the first head and before the first answer;
//     a missing head beside any other item of the resource is FENCE_REGRESSION, a
//     missing receipt that the index has is UNSUITABLE.
//   - F8: reads are strongly consistent.
//   - O1, O2: the head is sent once, without the SDK's retries. What its answer
//     does not prove is settled by reading the head: a nonce never comes back.
//
// Steady state: one PutItem, and for each eighth mutation one BatchWriteItem. A
// refusal costs nothing more than the failed PutItem, which returns the old item
// (on servers that do not return it, a read), and a GetItem if it is about a
// receipt that has left the head. A handle's first write to a resource costs a
// GetItem more, and a Query for each 100,000 receipts or part.
//
// Why not sdk/cas: its archive is made of objects that are written anew, of up to
// a megabyte; here an item has 400 KB, each KB written costs, and the table itself
// finds a receipt by its key.
//
// # Limits
//
// Transaction: 100 actions and 4 MB: 96 effects, 256 KiB each, 3 MiB together.
// Item: 96 effects, 64 KiB each, 192 KiB together, and all values of a resource
// within 396 KB less the last result; 200 quarantine records of a resource.
//
// Caller's code cannot run inside a transaction (there are none that stay open).
// In layout transaction use the native effect dynamodb.write.v1, a Put, Update,
// Delete or ConditionCheck on the team's own tables, by name, in the same account
// and region. Layout item has no native effects: one item is written at a time.
//
// # What the table must be
//
// Partition key pk and sort key sk, both strings; no time to live; in one region,
// or with home_region set and writers in it alone: a global table that resolves by
// the last writer keeps no fence. A global table of strong consistency takes
// layout item only: it has no transactions. Schema prints definition and policies;
// the workers' roles must not be able to write items of the table.
//
// # What was proved where
//
// Transaction on moto, which serves one request at a time; item on dynalite,
// killed with SIGKILL, and on moto. The answers that no stand-in gives
// (TransactionConflict, TransactionInProgress, a changed token, conflicts of
// replicas, throttling) come from a proxy. Nothing was run against AWS.
package dynamodbstore
