// Package spannerstore keeps fences, receipts and data in a Spanner database,
// with cloud.google.com/go/spanner: one read-write transaction per mutation.
//
// Which primitive keeps which law:
//
//   - F1–F6, F10, F11, F13: a transaction reads the rows of the fence and of the
//     receipt by their keys in one request, judges by sdk.Decide, and commits the
//     new fence, the receipt and every effect, or nothing. It is serializable and
//     locks what it reads, whatever the client's own defaults are; ABORTED, all of
//     it is done anew from the read. Tokens are INT64. Batch writes and
//     transactions applied at least once are not used.
//   - F7: a marker, a row of its own, and every receipt tell a removed fence from
//     one that never was. No table may have a row deletion policy. Statements and
//     functions reach no table of ours, however they spell it.
//   - F8: reads are strong.
//   - O1, O2: an error before the commit is sent proves that nothing was applied;
//     of those that come after it, errors.go lists the proofs. Everything else is
//     settled by reading fence and receipt: if another transaction has moved the
//     fence that this one has read, this one can never commit.
//
// Why a loop of its own: the client's runs a transaction anew after some INTERNAL
// answers to its commit too, which may have landed, and does not say so. Here only
// ABORTED is run anew, up to 100 times within the context. Below that the client
// sends the same commit again after UNAVAILABLE; where it did, or where that cannot
// be known since the client was given to [New], no answer is believed before the
// receipt was read, and a refusal at the door (permission, credentials) is
// MUTATION_UNKNOWN.
//
// Steady state: two round trips, the read and the commit. A refusal costs the
// read and a rollback, a resource's first write one read more.
//
// # Limits
//
// 80,000 mutation cells in a commit, those of fence and receipt included: rows
// times columns of kv effects, of spanner.write.v1 and of a function's writes are
// counted before anything is sent; what indexes, DML and deleted ranges add, only
// the server knows, and its refusal is final. A function of ApplyTx, and DML, may
// run several times, since ABORTED transactions are run anew; what it did before
// is undone.
//
// A statement may not have both a name in backticks and a backslash, which could
// spell any table: strings go into parameters.
//
// # What the database must be
//
// GoogleSQL, with the tables of [DDL] (`adaptercheck schema` prints them, and the
// grants). The gate's role needs SELECT, INSERT and UPDATE on them, DELETE on
// FencedstoreValue and FencedstoreProbe, and what effects need on the team's own
// tables; workers must have none of INSERT, UPDATE and DELETE on either. Nobody
// makes synonyms of the tables.
//
// # What was proved where
//
// On Google's emulator, in which one transaction runs at a time and of each
// session one is kept: a handle takes its own in turns there, and one client is
// for one handle. It proves no concurrency, durability, permission or limit of
// mutations. Answers that it never gives (a commit whose outcome is unknown, a
// commit asked for twice, a session that is gone, refused permissions) come from
// an interceptor. Nothing was run against the service.
package spannerstore
