package gate

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// Call is a kind of call on a gate.
type Call string

const (
	CallApply   Call = "apply"
	CallApplyTx Call = "apply_tx"
	CallClaim   Call = "claim"
	CallShadow  Call = "shadow" // a legacy write, and what the gate would have said
)

// Observer sees every call of a gate. It must not block and is called from many
// goroutines.
type Observer interface {
	// Begin is called first; the context that it returns goes to the store, and
	// end is called once with how the call ended.
	Begin(ctx context.Context, s Start) (_ context.Context, end func(End))
}

// Start is what is known of a call before authentication: values from outside,
// not yet checked.
type Start struct {
	Call      Call
	Resource  sdk.ResourceID
	Operation sdk.OperationID
	Segment   sdk.Segment
}

// End is how a call ended.
type End struct {
	Code     sdk.Code
	Alarm    bool // FENCE_REGRESSION, alone or beside Code
	Fence    sdk.Token
	Observed sdk.FenceState
	Err      error // nil when the mutation is in the store
	Duration time.Duration

	// UnknownOpen counts this gate's outcomes that are unknown and not settled
	// since, UnknownAge the age of the oldest.
	UnknownOpen int
	UnknownAge  time.Duration
}

func newEnd(out sdk.Outcome, err error, d time.Duration, g *Gate) End {
	e := End{Code: out.Code, Alarm: alarmed(err), Observed: out.Observed, Err: err, Duration: d}
	if out.Receipt != nil && out.Code.Ok() {
		e.Fence = out.Receipt.Fence
	}
	e.UnknownOpen, e.UnknownAge = g.Unknowns()
	return e
}

// Observers joins several observers into one.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Begin(ctx context.Context, s Start) (context.Context, func(End)) {
	ends := make([]func(End), len(o))
	for i, one := range o {
		ctx, ends[i] = one.Begin(ctx, s)
	}
	return ctx, func(e End) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](e)
		}
	}
}

// LogObserver writes one line per call to l: accepted ones at debug, refusals at
// warn, alarms and unknown outcomes at error.
func LogObserver(l *slog.Logger) Observer { return logObserver{l} }

type logObserver struct{ log *slog.Logger }

func (o logObserver) Begin(ctx context.Context, s Start) (context.Context, func(End)) {
	return ctx, func(e End) {
		level := slog.LevelWarn
		switch {
		case e.Alarm || e.Code == sdk.MutationUnknown:
			level = slog.LevelError
		case e.Err == nil:
			level = slog.LevelDebug
		}
		if !o.log.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{
			slog.String("call", string(s.Call)), slog.String("code", e.Code.String()),
			slog.String("resource", string(s.Resource)), slog.String("operation", string(s.Operation)),
			slog.Uint64("segment", uint64(s.Segment)), slog.Duration("took", e.Duration),
		}
		if !e.Observed.Absent() {
			attrs = append(attrs, slog.Uint64("highest_fence", uint64(e.Observed.Highest)))
		}
		if e.UnknownOpen > 0 {
			attrs = append(attrs, slog.Int("unknown_open", e.UnknownOpen), slog.Duration("unknown_age", e.UnknownAge))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("err", e.Err.Error()))
		}
		o.log.LogAttrs(ctx, level, "fenced mutation", attrs...)
	}
}
