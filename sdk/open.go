package sdk

import (
	"context"
	"log/slog"
	"net"
	"strings"
)

// DefaultNamespace is the namespace of a store that was opened without one.
const DefaultNamespace = "main"

const shadowSuffix = ".shadow"

// OpenOptions are what every adapter's Open takes. The zero value is useful.
type OpenOptions struct {
	// Namespace separates fence state kept in one place: 1 to 64 of a-z 0-9 _ -,
	// "main" if empty. A store remembers the namespace that it was created with
	// and refuses others, so that two openings cannot give one resource two
	// fences; only its shadow (see ShadowNamespace) lies beside it.
	Namespace string

	// Dial opens every connection to the store; nil is net.Dialer. The
	// conformance suite uses it to hold, cut and drop what goes over the wire.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Logger takes what a person operating the store should know; nil discards.
	Logger *slog.Logger

	// Scope says which native effects a resource may carry; its error refuses
	// the mutation. Without it every native effect is refused (F12). Portable
	// effects lie inside the resource and need no scope.
	Scope func(ResourceID, Effect) error
}

// Log returns the logger, never nil.
func (o *OpenOptions) Log() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// ParseNamespace returns the namespace to use ("main" for the empty one), the
// base that a store remembers, and whether it is the base's shadow; INVALID for
// anything else.
func (o *OpenOptions) ParseNamespace() (name, base string, shadow bool, err error) {
	name = o.Namespace
	if name == "" {
		name = DefaultNamespace
	}
	base, shadow = strings.CutSuffix(name, shadowSuffix)
	ok := len(base) >= 1 && len(base) <= 64
	for i := 0; ok && i < len(base); i++ {
		c := base[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	}
	if !ok {
		return "", "", false, Errorf(Invalid, "namespace", "%+q is not 1 to 64 of a-z 0-9 _ -", clip(o.Namespace))
	}
	return name, base, shadow, nil
}

// ShadowNamespace is the namespace in which shadow mode keeps what it has seen
// of a store whose namespace is base ("main" if empty).
func ShadowNamespace(base string) string {
	if base == "" {
		base = DefaultNamespace
	}
	return base + shadowSuffix
}

// CheckScope refuses a native effect without a scope function or outside it
// with INVALID; portable effects pass.
func (o *OpenOptions) CheckScope(r ResourceID, e Effect) error {
	switch e.Kind {
	case KindPut, KindDelete, KindResolve:
		return nil
	}
	if o.Scope == nil {
		return Errorf(Invalid, "effect kind", "%q is native and the store was opened without OpenOptions.Scope, which says what a resource may touch", e.Kind)
	}
	if err := o.Scope(r, e); err != nil {
		return Errorf(Invalid, "effect", "%s is outside the scope of %q: %w", e.Kind, r, err)
	}
	return nil
}
