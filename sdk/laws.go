package sdk

// Law is the ID of one law; it never changes, and is what a conformance check
// names.
type Law string

// The laws. Groups: A authentication (gate), F fence (store), O outcome
// (adapter and gate), R registry, L lease, P rollout.
const (
	A1  Law = "A1"
	A2  Law = "A2"
	A3  Law = "A3"
	A4  Law = "A4"
	A5  Law = "A5"
	A6  Law = "A6"
	A7  Law = "A7"
	F1  Law = "F1"
	F2  Law = "F2"
	F3  Law = "F3"
	F4  Law = "F4"
	F5  Law = "F5"
	F6  Law = "F6"
	F7  Law = "F7"
	F8  Law = "F8"
	F9  Law = "F9"
	F10 Law = "F10"
	F11 Law = "F11"
	F12 Law = "F12"
	F13 Law = "F13"
	O1  Law = "O1"
	O2  Law = "O2"
	O3  Law = "O3"
	O4  Law = "O4"
	R1  Law = "R1"
	R2  Law = "R2"
	R3  Law = "R3"
	R4  Law = "R4"
	R5  Law = "R5"
	R6  Law = "R6"
	L1  Law = "L1"
	L2  Law = "L2"
	L3  Law = "L3"
	L4  Law = "L4"
	P1  Law = "P1"
	P2  Law = "P2"
	P3  Law = "P3"
)

// LawText is what a person should know of a law.
type LawText struct {
	ID       Law
	Name     string // one word or two
	Keeper   string // who keeps it: gate, store, adapter, registry, worker
	Sentence string // the law
	Why      string // what happens without it
	Breaks   string // how real adapters break it
	Fix      string // what to do when the suite says that it is broken
}
