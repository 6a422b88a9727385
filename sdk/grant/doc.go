// Package grant reads, writes, signs and verifies lockGrant.v1 and
// statusProof.v1: the permission to attempt, and the short-lived statement that
// the lease is held.
//
// Both are DSSE envelopes: what is signed is the bytes with their type, and the
// bytes that were signed are the bytes that are parsed; nothing is encoded
// again to be verified. Parsing is strict: unknown, repeated or case-variant
// fields, bad UTF-8, numbers out of range and non-canonical resource IDs are
// MALFORMED. Integers are decimal strings, times are whole seconds in UTC.
package grant
