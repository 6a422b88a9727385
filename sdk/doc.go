// Package sdk holds the words and the laws of fencedstore: what a mutation of
// a protected resource is, when a store may accept it, and how each answer is
// named.
//
// A lease only permits an attempt. The one acceptance point is the write at
// the resource, and [FencedStore] is the interface of a store that checks
// there who is writing. [Decide] is that check as a pure function. Nobody calls
// [FencedStore.Apply] with a mutation of their own making: an [Admission] comes
// from the gate (package sdk/gate), which has authenticated the grant first.
//
// The package imports the standard library only.
package sdk
