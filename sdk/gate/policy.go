package gate

import (
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/internal/pattern"
)

// Mode says whether a resource's legacy writes still run.
type Mode string

const (
	// Shadow: the legacy write runs, and the gate records what it would have
	// said.
	Shadow Mode = "shadow"
	// Enforce: the fenced write runs, and nothing else. No way leads back.
	Enforce Mode = "enforce"
)

// Rule gives the resources of a pattern a mode. Pattern is a resource ID in
// which whole segments may be "*" and the last one "**" (one or more segments).
type Rule struct {
	Pattern string
	Mode    Mode
}

// Policy is a list of rules with a generation. The first rule that matches a
// resource decides; a resource that no rule matches is enforced. A Policy does
// not change.
type Policy struct {
	generation uint64
	rules      []compiledRule
}

type compiledRule struct {
	pattern pattern.Pattern
	mode    Mode
}

// NewPolicy returns the policy of a generation, 1 or above.
//
// INVALID: names the rule that does not parse.
func NewPolicy(generation uint64, rules []Rule) (*Policy, error) {
	if generation == 0 || generation > uint64(sdk.MaxToken) {
		return nil, sdk.Errorf(sdk.Invalid, "policy generation", "%d; generations go from 1 to %s", generation, sdk.MaxToken)
	}
	p := &Policy{generation: generation}
	for i, r := range rules {
		pat, err := pattern.Parse(r.Pattern)
		if err != nil {
			return nil, sdk.Errorf(sdk.Invalid, "policy rule", "%d: %w", i, err)
		}
		if r.Mode != Shadow && r.Mode != Enforce {
			return nil, sdk.Errorf(sdk.Invalid, "policy rule", "%d: mode %q is not %q or %q", i, r.Mode, Shadow, Enforce)
		}
		p.rules = append(p.rules, compiledRule{pat, r.Mode})
	}
	return p, nil
}

type wirePolicy struct {
	Generation string     `json:"generation"`
	Rules      []wireRule `json:"rules"`
}

type wireRule struct {
	Pattern string `json:"pattern"`
	Mode    string `json:"mode"`
}

// MaxPolicyBytes bounds a policy file before it is parsed.
const MaxPolicyBytes = 1 << 20

// LoadPolicy reads a policy file, such as
//
//	{"generation": "2", "rules": [{"pattern": "invoice-batch/**", "mode": "shadow"}]}
//
// INVALID: it is not of this form; the error names the field.
func LoadPolicy(b []byte) (*Policy, error) {
	if len(b) == 0 || len(b) > MaxPolicyBytes {
		return nil, sdk.Errorf(sdk.Invalid, "policy", "%d bytes; it has 1 to %d", len(b), MaxPolicyBytes)
	}
	var w wirePolicy
	if err := grant.Unmarshal(b, &w); err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "policy", "not {generation, rules: [{pattern, mode}]}: %w", err)
	}
	if w.Generation == "" {
		return nil, sdk.Errorf(sdk.Invalid, "generation", "missing; it is a decimal string, 1 or above")
	}
	generation, err := sdk.ParseDecimal("generation", w.Generation)
	if err != nil {
		return nil, err
	}
	rules := make([]Rule, len(w.Rules))
	for i, r := range w.Rules {
		rules[i] = Rule{Pattern: r.Pattern, Mode: Mode(r.Mode)}
	}
	return NewPolicy(generation, rules)
}

// Generation returns the policy's generation.
func (p *Policy) Generation() uint64 { return p.generation }

// Mode returns the mode of a resource.
func (p *Policy) Mode(r sdk.ResourceID) Mode {
	for _, rule := range p.rules {
		if rule.pattern.Match(r) {
			return rule.mode
		}
	}
	return Enforce
}

// shadowed reports whether p is known to leave every resource of q in shadow: a
// shadow rule covers q and no enforce rule before it touches q.
func (p *Policy) shadowed(q pattern.Pattern) bool {
	for _, rule := range p.rules {
		switch {
		case rule.mode == Shadow && rule.pattern.Covers(q):
			return true
		case rule.mode == Enforce && rule.pattern.Intersects(q):
			return false
		}
	}
	return false
}

// PolicyHolder holds the policy in force and lets it move on, never back.
type PolicyHolder struct {
	mu     sync.RWMutex
	policy *Policy
}

// NewPolicyHolder starts with p.
func NewPolicyHolder(p *Policy) *PolicyHolder { return &PolicyHolder{policy: p} }

// Policy returns the policy in force.
func (h *PolicyHolder) Policy() *Policy {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.policy
}

// generation is 0 for a gate without a policy, which enforces everything.
func (h *PolicyHolder) generation() uint64 {
	if h == nil {
		return 0
	}
	return h.Policy().generation
}

// Replace puts next in force.
//
//   - POLICY_STALE: its generation is not above the one in force.
//   - UNSUITABLE: a shadow rule of next is not wholly within one shadow rule of
//     the policy in force, so it could take a resource back from enforce.
func (h *PolicyHolder) Replace(next *Policy) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if next.generation <= h.policy.generation {
		return sdk.Errorf(sdk.PolicyStale, "policy generation", "%d is not above %d, which is in force", next.generation, h.policy.generation)
	}
	for _, rule := range next.rules {
		if rule.mode == Shadow && !h.policy.shadowed(rule.pattern) {
			return sdk.Errorf(sdk.Unsuitable, "policy rule", "%q: shadow for resources that generation %d enforces or may enforce; from enforce there is no way back", rule.pattern, h.policy.generation)
		}
	}
	h.policy = next
	return nil
}
