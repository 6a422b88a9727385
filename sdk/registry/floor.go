package registry

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fencedstore/fencedstore/sdk"
)

// settle returns the highest token known of a resource from outside the
// coordinator, and on first use since the start puts the sequence above it.
//
// A sequence that stands below what this very backend issued went back: that is
// for a person. A backend that never counted for the resource is raised, under a
// new epoch if another one counted before (P3).
func (r *Registry) settle(ctx context.Context, res sdk.ResourceID) (sdk.Token, error) {
	m, err := r.load(ctx, res)
	if err != nil {
		return 0, err
	}
	if m.Token > 0 && m.Backend != r.opts.Backend && m.Epoch >= r.opts.Epoch {
		return 0, sdk.Errorf(sdk.Unsuitable, "Options.Epoch", "%q had its tokens from backend %q in epoch %d, and this is %q in epoch %d; revoke that epoch at every gate and use a higher one (P3)",
			res, m.Backend, m.Epoch, r.opts.Backend, r.opts.Epoch)
	}
	if m.Epoch > r.opts.Epoch {
		return 0, sdk.Errorf(sdk.Unsuitable, "Options.Epoch", "%d, and %q has had tokens in epoch %d; this registry's configuration is old", r.opts.Epoch, res, m.Epoch)
	}
	if r.settled(res) {
		return m.Token, nil
	}
	stored, err := r.stored(ctx, res)
	if err != nil {
		return 0, err
	}
	floor := max(m.Token, stored)
	at, err := r.coordinator.Highest(ctx, res)
	switch {
	case err != nil:
		return 0, err
	case at >= floor:
	case m.Token > 0 && m.Backend == r.opts.Backend, m.Token == 0 && at > 0:
		err := WentBack(res, at, floor)
		r.pause(res, err)
		return 0, err
	default:
		if at, err = r.coordinator.Raise(ctx, res, floor); err != nil {
			return 0, err
		}
		r.opts.Logger.InfoContext(ctx, "the sequence was raised above what was stored", slog.String("resource", string(res)), slog.String("floor", floor.String()), slog.String("at", at.String()))
	}
	r.remember(res, true)
	return max(m.Token, stored), nil
}

func (r *Registry) load(ctx context.Context, res sdk.ResourceID) (Mark, error) {
	if r.opts.Marks == nil {
		return Mark{}, nil
	}
	m, err := r.opts.Marks.Load(ctx, res)
	if err != nil && sdk.CodeOf(err) == 0 {
		err = sdk.Errorf(sdk.NotApplied, "marks", "the high-water mark of %q cannot be read: %w", res, err)
	}
	return m, err
}

// stored is the highest fence of a resource over all stores. One that cannot be
// asked stops the issuing: its fence may be the highest.
func (r *Registry) stored(ctx context.Context, res sdk.ResourceID) (highest sdk.Token, err error) {
	for _, s := range r.opts.Stores {
		state, err := s.Inspect(ctx, res)
		if err != nil {
			code := sdk.NotApplied
			if errors.Is(err, sdk.ErrFenceRegression) {
				code = sdk.FenceRegression
			}
			return 0, sdk.Errorf(code, "stores", "the fence of %q in %s cannot be read, and no token is issued without it: %w", res, s.Describe().Name, err)
		}
		highest = max(highest, state.Highest)
	}
	return highest, nil
}

func (r *Registry) settled(res sdk.ResourceID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready[res]
}

func (r *Registry) remember(res sdk.ResourceID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok {
		r.ready[res] = true
	} else {
		delete(r.ready, res)
	}
}

// pause has the next Acquire look at every floor again; until the sequence is
// above them it is refused.
func (r *Registry) pause(res sdk.ResourceID, err error) {
	r.remember(res, false)
	r.opts.Logger.Error("issuing is paused", slog.String("resource", string(res)), slog.Any("error", err))
}

// Raise is the operator's answer to FENCE_REGRESSION: the next token of the
// resource is above floor, above every store and above every mark. It returns the
// highest token afterwards. Floor may be 0 where the stores and marks are known
// to have seen every token.
//
//  1. token, nil: issuing goes on.
//  2. NOT_APPLIED, MUTATION_UNKNOWN: it may be called again.
func (r *Registry) Raise(ctx context.Context, res sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
	m, err := r.load(ctx, res)
	if err != nil {
		return 0, err
	}
	stored, err := r.stored(ctx, res)
	if err != nil {
		return 0, err
	}
	floor = max(floor, m.Token, stored)
	at, err := r.coordinator.Raise(ctx, res, floor)
	if err != nil {
		return 0, err
	}
	if r.opts.Marks != nil && at > 0 {
		if err := r.opts.Marks.Raise(ctx, res, Mark{at, r.opts.Backend, max(m.Epoch, r.opts.Epoch)}); err != nil {
			return 0, err
		}
	}
	r.opts.Logger.WarnContext(ctx, "the floor was raised", slog.String("resource", string(res)), slog.String("floor", floor.String()), slog.String("at", at.String()))
	return at, nil
}
