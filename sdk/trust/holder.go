package trust

import "sync/atomic"

// Holder holds the bundle in force and rotates it. It is a Source, safe for
// concurrent use. The zero Holder trusts nobody.
type Holder struct{ current atomic.Pointer[Bundle] }

// NewHolder starts with b.
func NewHolder(b *Bundle) *Holder {
	h := &Holder{}
	h.current.Store(b)
	return h
}

// Bundle returns the bundle in force; never nil.
func (h *Holder) Bundle() *Bundle {
	if b := h.current.Load(); b != nil {
		return b
	}
	return &Bundle{}
}

// Rotate puts the next generation in force; answers as Bundle.Rotate, and leaves
// the old one in force on an error. What the program loads after a restart is
// its own affair: a gate whose bundle is older than what the store has seen
// refuses with POLICY_STALE.
func (h *Holder) Rotate(envelope []byte) error {
	for {
		old := h.current.Load()
		if old == nil {
			old = &Bundle{}
		}
		next, err := old.Rotate(envelope)
		if err != nil {
			return err
		}
		if h.current.CompareAndSwap(old, next) {
			return nil
		}
	}
}
