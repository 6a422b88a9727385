// Package gate is the one way to a fenced write: it authenticates the grant,
// admits the mutation, has the store decide and commit it, and settles lost
// acknowledgements.
//
//	g, err := gate.New(store, bundle, &gate.Options{Caller: gate.FixedCaller("worker-7")})
//	out, err := g.ApplyFencedMutation(ctx, gate.Request{ … })
//
// A request that fails authentication (laws A1–A6) causes no store call (A7).
// There is no way to switch the gate off: in shadow mode a resource's legacy
// write runs and the gate records what it would have said, and from enforce
// there is no way back (P1).
package gate
