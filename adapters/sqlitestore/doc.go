// Package sqlitestore keeps fences, receipts and data in one SQLite file, beside
// the team's own tables if it likes: the durable store for one machine. The
// library is modernc.org/sqlite, SQLite itself translated to Go; no C compiler
// is needed.
//
// Which primitive keeps which law:
//
//   - F1–F5, F10–F13: sdk.Decide inside one BEGIN IMMEDIATE transaction, which
//     holds the file's only write lock from the first read to the commit.
//   - F6: one SAVEPOINT per mutation inside that transaction. Mutations that wait
//     at the same time share one COMMIT, and so its sync.
//   - F7: triggers abort a statement that lowers or deletes a fence, or changes
//     or deletes a receipt, whoever sends it. A fence that is missing beside
//     receipts is FENCE_REGRESSION.
//   - F8: reads are transactions of their own, begun after the call; in WAL mode
//     they see every commit before them and wait for none.
//   - F9: journal_mode=WAL and synchronous=FULL: COMMIT returns after the log was
//     synced.
//   - O1: an error before COMMIT rolls the mutation back and is NOT_APPLIED; an
//     error of COMMIT itself is MUTATION_UNKNOWN to every mutation in it.
//   - O4: a call whose context ends before its COMMIT begins is taken out of the
//     transaction and answered NOT_APPLIED; afterwards it is MUTATION_UNKNOWN.
//
// # Limits
//
// SQLite has one writer at a time: an ApplyTx function holds up the writes of
// every resource in the file while it runs, so keep it short. It must not write
// through a store on the same file: with its own context that is INVALID, with
// another one it waits for itself until that ends.
//
// The file must be on a local file system: SQLite's locks do not hold over NFS
// or SMB.
//
// # Whose file it is
//
// Workers write through a process that has the file; to take away their own
// permission, give the file (and its folder) to that process's user, mode 0600.
// The folder matters: -wal and -shm lie beside the file.
package sqlitestore
