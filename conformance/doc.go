// Package conformance tells stores that keep the laws from those that seem to.
//
// One engine has two faces: [Run] plays the suite inside a Go test, each case a
// sub-test; [Check] plays it anywhere and returns a [Report]. A case is data: an
// ID that never changes, the law that it proves, what it needs, and a function.
//
// A harness says how to open the store under test. Every call opens the same
// data again: two writers are two handles. The suite writes under resource names
// of its own, drawn anew at each run, and leaves what it wrote; receipts are
// permanent, so name a store that is meant for tests.
//
// A case that cannot be proven is never a pass. For a capability that the store
// declares as unsupported the other side is checked: the call must answer
// UNSUPPORTED.
package conformance
