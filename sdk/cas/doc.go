// Package cas makes a whole sdk.FencedStore of any store that can compare and
// swap one object: object storage, a key-value store, a directory. An adapter
// gives it four methods, [Objects]; the kit owns everything else.
//
// Each resource has one head object. It holds the fence, the last receipts,
// small values, and references to the rest; replacing it on the condition that
// it is still the one that was read is the commit (F6). Everything large or old
// lies in immutable parts, written before the head that refers to them:
//
//   - values and results above InlineBytes, one part each;
//   - receipts that leave the head, in buckets by the hash of their operation,
//     found through a directory with a 16-bit fingerprint of each (F10).
//
// A head never comes back: it carries a sequence number and a nonce, so its
// bytes, and with them any version that a store derives from bytes, are used
// once. That settles a lost answer: if the head has moved on and does not have
// the attempt's receipt, the attempt can never land.
//
// A marker object, written after the first head and before the first answer,
// tells a removed head from one that never was (F7).
//
// Steady state: one PutIf per mutation. A refusal costs one Get more, the first
// write of a handle one or two.
package cas
