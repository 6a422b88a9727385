package registry

import (
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/go-json-experiment/json"
)

// params are what makes a repeated request the same one, beside key and TTL.
type params struct {
	Audience string     `json:"audience"`
	Category string     `json:"category"`
	Root     sdk.Digest `json:"operationRoot"`
}

// note is what goes into the grant as it was when it was granted, so that a
// repetition is the same to the byte, whatever the registry is by then.
type note struct {
	Backend  string `json:"backend"`
	Issuer   string `json:"issuer"`
	Epoch    uint64 `json:"issuerEpoch,string"`
	Policy   uint64 `json:"policyGeneration,string"`
	IssuedAt int64  `json:"issuedAt,string"` // Unix seconds
}

func (r *Registry) encode(req *Request) (p, n []byte, err error) {
	p, err = json.Marshal(params{req.Audience, req.Category, req.Root})
	if err == nil {
		n, err = json.Marshal(note{r.opts.Backend, r.opts.Issuer, r.opts.Epoch, r.opts.Policy, r.opts.Clock.Now().Unix()})
	}
	if err != nil {
		return nil, nil, sdk.Errorf(sdk.Invalid, "request", "%w", err)
	}
	return p, n, nil
}

// answer signs what a record says.
func (r *Registry) answer(rec *Record) (Answer, error) {
	var p params
	var n note
	strict := json.RejectUnknownMembers(true)
	if json.Unmarshal(rec.Params, &p, strict) != nil || json.Unmarshal(rec.Note, &n, strict) != nil {
		return Answer{}, sdk.Errorf(sdk.Unsuitable, "record", "the coordinator's record of request %q was not written by a registry of this version", rec.RequestID)
	}
	if n.Issuer != r.opts.Issuer || n.Epoch != r.opts.Epoch || n.Backend != r.opts.Backend {
		return Answer{}, sdk.Errorf(sdk.Revoked, "issuerEpoch", "granted by issuer %q in epoch %d over %q, which is over; acquire again with a new request ID", n.Issuer, n.Epoch, n.Backend)
	}
	g := &grant.Grant{Audience: p.Audience, Resource: rec.Resource, Owner: rec.Owner, RequestID: rec.RequestID, Lease: rec.Lease,
		Category: p.Category, Root: p.Root, Fence: rec.Token, Backend: n.Backend, BackendRevision: rec.Revision,
		PolicyGeneration: n.Policy, Issuer: n.Issuer, IssuerEpoch: n.Epoch, TTL: rec.TTL, IssuedAt: time.Unix(n.IssuedAt, 0).UTC()}
	payload, err := g.Encode()
	if err != nil {
		return Answer{}, sdk.Errorf(sdk.Unsuitable, "record", "the coordinator's record of request %q makes no grant: %w", rec.RequestID, err)
	}
	a := Answer{Ref: rec.Ref, Content: g, Digest: sdk.SumDigest(payload), State: rec.State}
	if a.Grant, err = r.opts.Signer.Sign(grant.GrantType, payload); err != nil {
		return Answer{}, err
	}
	if rec.State != grant.StateHeld {
		return a, nil
	}
	now := r.opts.Clock.Now()
	a.Remaining = max(rec.Until.Sub(now), 0)
	a.Proof, err = r.prove(&a, rec, now)
	return a, err
}

// prove signs that the lease is held, from now to the last whole second within
// it; nil if there is none.
func (r *Registry) prove(a *Answer, rec *Record, now time.Time) ([]byte, error) {
	issued := now.UTC().Truncate(time.Second)
	life := min(now.Add(a.Remaining).UTC().Truncate(time.Second).Sub(issued), r.opts.ProofLife.Truncate(time.Second), rec.TTL.Truncate(time.Second))
	if life < time.Second {
		return nil, nil
	}
	p := grant.Proof{Grant: a.Digest, Resource: rec.Resource, Fence: rec.Token, State: grant.StateHeld, BackendRevision: rec.Observed,
		Issuer: r.opts.Issuer, IssuerEpoch: r.opts.Epoch, IssuedAt: issued, ExpiresAt: issued.Add(life)}
	payload, err := p.Encode()
	if err != nil {
		return nil, err
	}
	return r.opts.Signer.Sign(grant.ProofType, payload)
}
