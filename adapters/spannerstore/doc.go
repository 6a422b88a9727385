// Package spannerstore keeps fences, receipts and data in a Spanner database,
// with cloud.google.com/go/spanner: one read-write transaction per mutation.
//
// Which primitive keeps which law:
//
//   - F1–F6, F10, F11, F13: a transaction reads the rows of the fence, of its
//     marker and of the receipt by their keys in one request, judges by sdk.Decide, and commits the new fence,
//     the receipt and every effect, or nothing. What it has read is locked, or
//     the commit is ABORTED and all of it is done anew from the read. Tokens are
//     INT64. Batch writes and transactions applied at least once are not used.
//   - F7: the marker, a row of its own, tells a removed fence from one that never
//     was. No table may have a row deletion policy.
//   - F8: reads are strong.
//   - O1, O2: an error before the commit is sent proves that nothing was applied;
//     of those that come after it, errors.go lists the proofs. Everything else is
//     settled by reading fence and receipt: if another transaction has moved the
//     fence that this one has read, this one can never commit.
//
// Steady state: two round trips, the read and the commit. A refusal costs the
// read and a rollback.
//
// # Limits
//
// 80,000 mutation cells in a commit, those of fence and receipt included: rows
// times columns of kv effects and of spanner.write.v1 are counted before anything
// is sent; what indexes and DML add, only the server knows, and its refusal is
// final. A function of ApplyTx, and DML, may run several times, since ABORTED
// transactions are run anew; what it did before is undone.
//
// # What the database must be
//
// GoogleSQL, with the tables of [DDL] (`adaptercheck schema` prints them, and the
// grants). The gate's role needs SELECT, INSERT and UPDATE on them, DELETE on
// FencedstoreValue and FencedstoreProbe, and what effects need on the team's own tables; workers must
// have none of INSERT, UPDATE and DELETE on either.
package spannerstore
