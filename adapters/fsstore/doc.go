// Package fsstore keeps a fenced store in a directory of a local file system:
// package sdk/cas over files. It has no server and no library; what it needs of
// the file system is that link(2) fails where the name exists, and fsync.
//
// An object that is swapped is a directory with one file per version; the
// highest number is the current one. The next version is written to a temporary
// file, synced, and linked to the next number: link never overwrites, so one
// writer wins (rename would overwrite, and is no compare-and-swap). The directory
// is synced before the answer (F9). Older versions are removed in ascending
// order, a few behind the current one: as long as the version that a writer
// built on is there, the next number was never used before.
//
// # Limits
//
// A local file system only: over NFS a lost answer to link looks like a lost
// race, and caches are not coherent. Two syncs a mutation, not shared between
// mutations. Directory entries must be synced by fsync on the directory, as
// ext4, XFS, Btrfs and APFS do.
//
// # Whose directory it is
//
// Give it to the user of the one process that writes, mode 0700.
package fsstore
