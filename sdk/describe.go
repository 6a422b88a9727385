package sdk

import (
	"slices"
	"strings"
)

// Support says whether a store offers a capability.
type Support uint8

const (
	// Unknown: not stated; reported, not failed.
	Unknown Support = iota
	// Supported: the suite's cases for it must pass.
	Supported
	// NotSupported: calls that need it are answered UNSUPPORTED.
	NotSupported
)

// String returns "unknown", "supported" or "unsupported", as on the wire and in
// reports.
func (s Support) String() string {
	switch s {
	case Supported:
		return "supported"
	case NotSupported:
		return "unsupported"
	}
	return "unknown"
}

// Capability is one thing that stores may differ in. The string is the same on
// the wire, in reports and in the suite's cases.
type Capability string

const (
	// CapDurable: an accepted mutation survives the death of every process (F9).
	CapDurable Capability = "durable"
	// CapShared: handles opened apart, in other processes too, see one set of
	// data.
	CapShared Capability = "shared"
	// CapApplyTx: caller's code runs inside the store's transaction.
	CapApplyTx Capability = "apply_tx"
	// CapNativeEffects: effects of the store's own kinds, within the scope
	// function that the store was opened with (F12).
	CapNativeEffects Capability = "native_effects"
	// CapParallel: an ApplyTx function of one resource holds up no mutation of
	// another.
	CapParallel Capability = "parallel"
	// CapDial: every byte to the store goes through OpenOptions.Dial.
	CapDial Capability = "dial"
)

// Capabilities lists those that this version knows.
func Capabilities() []Capability {
	return []Capability{CapDurable, CapShared, CapApplyTx, CapNativeEffects, CapParallel, CapDial}
}

// Declared is a capability's support with the reason for it.
type Declared struct {
	Support Support
	Reason  string // one sentence; required unless Supported
}

// Limits are what one mutation may hold; more is TOO_LARGE before anything is
// sent. 0 means that the store states none.
type Limits struct {
	Effects    int   // effects in a mutation
	ValueBytes int   // one effect's body
	TotalBytes int64 // bodies of all effects and the result together
	Quarantine int   // records kept per resource; more are only counted
}

// Environment is where a store runs, for certificates.
type Environment string

const (
	Embedded Environment = "embedded" // inside the process or on its file system
	Emulator Environment = "emulator" // a stand-in for the real service
	Live     Environment = "live"
)

// Description says what a store is and what it can do.
type Description struct {
	Name        string // the adapter's, lower case
	Version     string // the adapter's
	Backend     string // the server or library and its version, as it reports itself
	Environment Environment
	Layout      string // how fence and receipts are laid out, where there is a choice

	// Kinds are the effect kinds that the store takes, portable and native.
	Kinds        []string
	Capabilities map[Capability]Declared
	Limits       Limits
}

// Supports reports what was declared of c; Unknown if nothing was.
func (d *Description) Supports(c Capability) Support { return d.Capabilities[c].Support }

// PortableKinds are the kinds that every store takes.
func PortableKinds() []string { return []string{KindPut, KindDelete, KindResolve} }

// Check is the first step of every Apply: it returns the mutation, or INVALID
// (zero admission, field out of range), UNSUPPORTED (an effect kind or a hook
// that the store does not take) or TOO_LARGE. Nothing has been sent by then.
func (d *Description) Check(a Admission) (*Mutation, error) {
	m, err := a.Mutation()
	if err != nil {
		return nil, err
	}
	if m.Hook != nil && d.Supports(CapApplyTx) != Supported {
		return nil, Errorf(Unsupported, "hook", "%s runs no caller's code in its transaction: %s", d.Name, d.Capabilities[CapApplyTx].Reason)
	}
	if n := d.Limits.Effects; n > 0 && len(m.Effects) > n {
		return nil, Errorf(TooLarge, "effects", "%d; %s takes up to %d in one mutation", len(m.Effects), d.Name, n)
	}
	total := int64(len(m.Result))
	for i := range m.Effects {
		e := &m.Effects[i]
		if !slices.Contains(d.Kinds, e.Kind) {
			return nil, Errorf(Unsupported, "effect kind", "%q; %s takes %s", e.Kind, d.Name, strings.Join(d.Kinds, ", "))
		}
		if n := d.Limits.ValueBytes; n > 0 && len(e.Body) > n {
			return nil, Errorf(TooLarge, "effect", "%s of %d bytes; %s takes up to %d", e.Kind, len(e.Body), d.Name, n)
		}
		total += int64(len(e.Body))
	}
	if n := d.Limits.TotalBytes; n > 0 && total > n {
		return nil, Errorf(TooLarge, "effects", "%d bytes with the result; %s takes up to %d in one mutation", total, d.Name, n)
	}
	return m, nil
}
