package gate

import (
	"context"
	"crypto/tls"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// Caller tells the workload identity of whoever makes the call (A4). Never take
// it from the request or the grant.
type Caller interface {
	// Identity returns the caller's identity, not empty, or an error; both an
	// error and "" refuse the call with OWNER_MISMATCH.
	Identity(ctx context.Context) (string, error)
}

// CallerFunc is a Caller by function.
type CallerFunc func(ctx context.Context) (string, error)

// Identity calls f.
func (f CallerFunc) Identity(ctx context.Context) (string, error) { return f(ctx) }

// FixedCaller is the identity of a process in which only one workload runs,
// told by the process's own configuration.
func FixedCaller(identity string) Caller {
	err := sdk.ValidateName("caller", identity)
	return CallerFunc(func(context.Context) (string, error) { return identity, err })
}

type callerKey struct{}

// WithCaller returns a context that carries identity for ContextCaller. Only
// the code that authenticated the caller should call it.
func WithCaller(ctx context.Context, identity string) context.Context {
	return context.WithValue(ctx, callerKey{}, identity)
}

// ContextCaller takes the identity that WithCaller put into the context.
func ContextCaller() Caller {
	return CallerFunc(func(ctx context.Context) (string, error) {
		identity, ok := ctx.Value(callerKey{}).(string)
		if !ok {
			return "", sdk.Errorf(sdk.OwnerMismatch, "caller", "no identity in the context; authenticate the caller and use gate.WithCaller")
		}
		return identity, sdk.ValidateName("caller", identity)
	})
}

type peerKey struct{}

// WithPeer returns a context that carries the TLS connection state of the peer
// for SPIFFECaller.
func WithPeer(ctx context.Context, state *tls.ConnectionState) context.Context {
	return context.WithValue(ctx, peerKey{}, state)
}

// SPIFFECaller takes the SPIFFE ID in the certificate of the TLS peer that
// WithPeer put into the context, within the trust domain. The connection must
// have verified the peer's certificate (tls.RequireAndVerifyClientCert); one
// without a verified chain is refused.
func SPIFFECaller(trustDomain string) (Caller, error) {
	td, err := spiffeid.TrustDomainFromString(trustDomain)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "trust domain", "%q: %w", trustDomain, err)
	}
	return CallerFunc(func(ctx context.Context) (string, error) {
		state, ok := ctx.Value(peerKey{}).(*tls.ConnectionState)
		if !ok || state == nil {
			return "", sdk.Errorf(sdk.OwnerMismatch, "caller", "no TLS peer in the context; use gate.WithPeer")
		}
		if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
			return "", sdk.Errorf(sdk.OwnerMismatch, "caller", "the TLS peer's certificate was not verified; use tls.RequireAndVerifyClientCert")
		}
		id, err := x509svid.IDFromCert(state.VerifiedChains[0][0])
		if err != nil {
			return "", sdk.Errorf(sdk.OwnerMismatch, "caller", "no SPIFFE ID in the TLS peer's certificate: %w", err)
		}
		if !id.MemberOf(td) {
			return "", sdk.Errorf(sdk.OwnerMismatch, "caller", "%s is not of the trust domain %s", id, td)
		}
		return id.String(), nil
	}), nil
}
