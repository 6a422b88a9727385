package dirstore

import "github.com/fencedstore/fencedstore/sdk"

// The phase of a call decides what its error means, not the error's text. A
// store behind a network has a third class between these two: an answer by
// which the server itself says that it rolled back is NOT_APPLIED too.

// beforeSending is an error from before the one step that commits: it proves
// that nothing was and nothing will be applied.
func beforeSending(err error) error {
	return sdk.Errorf(sdk.NotApplied, "", "nothing was written: %w", err)
}

// afterSending is an error from the committing step on: whether it was applied
// cannot be told.
func afterSending(err error) error {
	return sdk.Errorf(sdk.MutationUnknown, "", "the write may be in place: %w", err)
}

func closed() error { return sdk.Errorf(sdk.Closed, "store", "the handle was closed; open another") }

// regression is the alarm that something was removed behind the adapter's back.
func regression(format string, args ...any) error {
	e := sdk.Errorf(sdk.FenceRegression, "fence", format+": it was removed or restored in part; stop writers, restore it, and raise the registry's floor", args...)
	e.Alarm = true
	return e
}
