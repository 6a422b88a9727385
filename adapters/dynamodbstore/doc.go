// Package dynamodbstore keeps fences, receipts and data in a DynamoDB table,
// with aws-sdk-go-v2. Its layout is "transaction": one TransactWriteItems moves
// the fence item, puts the receipt and carries out the effects.
//
// Which primitive keeps which law:
//
//   - F1–F6, F10, F11, F13: the fence item is updated on the condition that it is
//     still the one by which sdk.Decide judged (highest, segment and grant equal),
//     the receipt is put on the condition that there is none. DynamoDB commits all
//     actions of a transaction or none. Numbers are exact decimals (38 digits).
//   - F7: neither fence nor receipts have a time to live; Probe refuses a table
//     that has one. A marker item, written with the first fence, tells a removed
//     fence from one that never was.
//   - F8: reads are TransactGetItems or strongly consistent.
//   - O1, O2: a transaction is sent once, without the SDK's retries, under a
//     ClientRequestToken of this Apply call alone. What its answer does not prove
//     is settled by reading fence and receipt: the state that a condition names
//     never comes back once it is gone.
//
// Steady state: one TransactWriteItems. A handle's first write to a resource, and
// a refusal, cost one TransactGetItems more.
//
// # Limits
//
// 100 actions and 4 MB in a transaction, 400 KB in an item: 96 effects, 256 KiB
// each, 3 MiB together. Caller's code cannot run inside a transaction (there are
// none that stay open); use the native effect dynamodb.write.v1, a Put, Update,
// Delete or ConditionCheck on the team's own tables in the same account and
// region.
//
// # What the table must be
//
// Partition key pk and sort key sk, both strings; no time to live; in one region,
// or with home_region set and writers in it alone: a global table that resolves
// by the last writer keeps no fence. The gate's role needs GetItem, PutItem,
// UpdateItem, DeleteItem, ConditionCheckItem, Query, DescribeTable and
// DescribeTimeToLive on it; the workers' roles must not have PutItem, UpdateItem,
// DeleteItem or BatchWriteItem on it or on the tables of native effects.
package dynamodbstore
