package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// DefaultDeadline is how long an unknown outcome may stay one before a person has
// it.
const DefaultDeadline = 15 * time.Minute

// Case is what a person gets who has to settle what a program could not.
type Case struct {
	Intent
	Why      string         // what was tried last, and what came of it
	Attempts int            // how often
	Observed sdk.FenceState // the fence as it was last seen; Highest 0 if it was not
	// Advice says what to do, step by step.
	Advice string
}

// Escalator hands a case to a person: a ticket, a page. It may be called again
// for the same intent after a restart.
type Escalator interface {
	Escalate(ctx context.Context, c Case) error
}

// Options configure a reconciler. Journal and Escalator are required.
type Options struct {
	Journal   Journal
	Escalator Escalator
	Deadline  time.Duration // from Intent.Since; DefaultDeadline by default
	// Retry is between two attempts at one intent; it doubles up to a minute. 200
	// ms by default.
	Retry time.Duration

	Clock  clock.Clock  // nil is the system's
	Logger *slog.Logger // nil discards
}

// Reconciler writes with a journal, and settles what stayed open. Safe for
// concurrent use.
type Reconciler struct{ opts Options }

// New returns a reconciler; UNSUITABLE: an option is missing.
func New(o Options) (*Reconciler, error) {
	switch {
	case o.Journal == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "Options.Journal", "missing; a worker that is killed would not know what it does not know")
	case o.Escalator == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "Options.Escalator", "missing; somebody has to hear of what cannot be settled")
	}
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Retry <= 0 {
		o.Retry = 200 * time.Millisecond
	}
	o.Clock = clock.Or(o.Clock)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{o}, nil
}

// Owner is who settles: a worker with its gate, the store behind it, and its
// grant.
type Owner struct {
	Gate  *gate.Gate
	Store sdk.FencedStore
	// Request returns the grant and the newest proof; a session's Request(0, "")
	// does. What else it says is not used.
	Request func() gate.Request
}

// intent names a request for the journal.
func (r *Reconciler) intent(req *gate.Request) (Intent, error) {
	token, digest, owner, err := read(req.Grant)
	if err != nil {
		return Intent{}, err
	}
	in := Intent{Resource: req.Resource, Operation: req.Operation, Segment: req.Segment, Fence: token, Grant: digest, Owner: owner,
		Audience: req.Audience, Category: req.Category, Root: req.Root, Effects: slices.Clone(req.Effects), Result: req.Result, Input: req.Input,
		Since: r.opts.Clock.Now().UTC().Truncate(time.Millisecond)}
	if len(req.Input) > 0 {
		in.Payload = sdk.InputDigest(req.Operation, req.Input)
	} else {
		in.Payload = sdk.PayloadDigest(req.Operation, req.Result, req.Effects)
	}
	return in, nil
}

// read takes token, digest and owner from a grant. It verifies nothing: that is
// the gate's work, which comes next.
func read(envelope []byte) (sdk.Token, sdk.Digest, string, error) {
	e, err := grant.ParseEnvelope(envelope)
	if err != nil {
		return 0, sdk.Digest{}, "", err
	}
	g, err := grant.ParseGrant(e.Payload)
	if err != nil {
		return 0, sdk.Digest{}, "", err
	}
	return g.Fence, sdk.SumDigest(e.Payload), g.Owner, nil
}

// Write is gate.ApplyFencedMutation with the intent in the journal before it is
// sent. An outcome that is known closes the intent; MUTATION_UNKNOWN leaves it
// open for Settle, and so does any refusal of an operation that was open before.
// NOT_APPLIED, before anything else: the journal could not take
// it, and nothing was sent.
func (r *Reconciler) Write(ctx context.Context, g *gate.Gate, req gate.Request) (sdk.Outcome, error) {
	in, err := r.intent(&req)
	if err != nil {
		return sdk.Refusal(err), err
	}
	fresh, err := r.opts.Journal.Begin(ctx, in)
	if err != nil {
		err = sdk.Errorf(sdk.NotApplied, "journal", "it cannot take the intent, and nothing was sent: %w", err)
		return sdk.Refusal(err), err
	}
	out, err := g.ApplyFencedMutation(ctx, req)
	if s := closes(sdk.WriteCode(err), fresh); s != "" {
		// An intent that cannot be closed is settled again later, with the same end.
		if jerr := r.opts.Journal.Settle(context.WithoutCancel(ctx), in.Resource, in.Operation, s); jerr != nil {
			r.opts.Logger.WarnContext(ctx, "an intent is left open", "resource", string(in.Resource), "operation", string(in.Operation), "error", jerr)
		}
	}
	return out, err
}

// closes is how an answer settles an intent; empty if it does not. A refusal
// speaks of its own attempt, and settles an intent that had no other.
func closes(code sdk.Code, fresh bool) Status {
	switch {
	case code == 0, code == sdk.AlreadyApplied:
		return Applied
	case code == sdk.MutationUnknown, !fresh:
		return ""
	}
	return Refused
}

// Resolution is what became of an intent.
type Resolution struct {
	Status Status
	// Receipt is the operation's, where it is Applied: its Result can be reused.
	Receipt *sdk.Receipt
}

// Settle finds out what became of an intent, and closes it.
//
// The owner under whose fence it was sent sends it again: a replay has no second
// effect (F4). A later owner claims, so that nothing older can land any more, and
// only then looks the receipt up (O3).
//
//  1. Applied with the receipt, Absent, or Refused, nil.
//  2. Undetermined, nil: the deadline passed, and a person has it.
//  3. an error: this owner cannot settle it now (its lease is over, the context
//     ended, the journal cannot be written to, an earlier grant than the
//     intent's). The intent stays open for the next.
func (r *Reconciler) Settle(ctx context.Context, in Intent, o Owner) (Resolution, error) {
	wait := r.opts.Retry
	c := Case{Intent: in}
	for {
		c.Attempts++
		res, err := r.attempt(ctx, &c, o)
		switch {
		case err == nil:
			if jerr := r.opts.Journal.Settle(ctx, in.Resource, in.Operation, res.Status); jerr != nil {
				return res, sdk.Errorf(sdk.NotApplied, "journal", "settled as %s, and the journal cannot note it: %w", res.Status, jerr)
			}
			return res, nil
		}
		c.Why = err.Error()
		now, code := r.opts.Clock.Now(), sdk.CodeOf(err)
		switch {
		case code == sdk.Invalid, code == sdk.Closed:
			return Resolution{}, err // the caller's affair
		case now.Sub(in.Since) >= r.opts.Deadline:
			return r.escalate(ctx, c, now)
		case !again(err):
			return Resolution{}, err
		}
		timer := r.opts.Clock.Timer(min(wait, in.Since.Add(r.opts.Deadline).Sub(now)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return Resolution{}, sdk.Errorf(sdk.NotApplied, "", "ended before it was settled: %w", ctx.Err())
		case <-timer.C:
			timer.Stop()
		}
		wait = min(2*wait, time.Minute)
	}
}

// again reports whether an error may go away by itself.
func again(err error) bool {
	switch sdk.WriteCode(err) {
	case sdk.MutationUnknown, sdk.NotApplied, sdk.FenceRegression:
		return true
	}
	return false
}

func (r *Reconciler) attempt(ctx context.Context, c *Case, o Owner) (Resolution, error) {
	if err := ctx.Err(); err != nil {
		return Resolution{}, sdk.Errorf(sdk.Closed, "", "ended before it was settled: %w", err)
	}
	req := o.Request()
	token, digest, _, err := read(req.Grant)
	switch {
	case err != nil:
		return Resolution{}, err
	case token == c.Fence && digest == c.Grant:
		return r.resend(ctx, c, o, req)
	case token <= c.Fence:
		return Resolution{}, sdk.Errorf(sdk.Invalid, "fence token", "the intent was sent under %s, and %s is no later owner's", c.Fence, token)
	}
	state, err := o.Gate.Claim(ctx, claim(req))
	if err != nil {
		// A newer owner still: what is older cannot land either.
		var e *sdk.Error
		if sdk.CodeOf(err) != sdk.StaleOwner || !errors.As(err, &e) {
			return Resolution{}, err
		}
		state = e.Observed
	}
	c.Observed = state
	if state.Highest <= c.Fence {
		return Resolution{}, sdk.Errorf(sdk.MutationUnknown, "fence", "it is seen at %s, which proves nothing about %s", state.Highest, c.Fence)
	}
	return r.lookup(ctx, c, o)
}

// claim keeps what a claim takes of a request.
func claim(req gate.Request) gate.Request {
	return gate.Request{Grant: req.Grant, Status: req.Status, Audience: req.Audience, Resource: req.Resource, Root: req.Root, Category: req.Category}
}

// resend sends the intent again under the very grant that it was sent under.
func (r *Reconciler) resend(ctx context.Context, c *Case, o Owner, req gate.Request) (Resolution, error) {
	if len(c.Input) > 0 {
		// The function that goes with the input is the worker's; the receipt is there
		// for everybody.
		return r.ask(ctx, c, o)
	}
	out, err := o.Gate.ApplyFencedMutation(ctx, c.request(req))
	if !out.Observed.Absent() {
		c.Observed = out.Observed
	}
	switch code := sdk.WriteCode(err); {
	case err == nil, code == sdk.AlreadyApplied:
		return Resolution{Applied, out.Receipt}, nil
	case code == sdk.StaleOwner && out.Observed.Highest > c.Fence:
		// H above f was observed, and the look-up begins afterwards.
		return r.lookup(ctx, c, o)
	case code == sdk.Quarantined:
		return Resolution{Refused, out.Receipt}, nil
	}
	return Resolution{}, err
}

// ask looks a receipt up that proves by being there, and nothing by not being
// there.
func (r *Reconciler) ask(ctx context.Context, c *Case, o Owner) (Resolution, error) {
	res, err := r.lookup(ctx, c, o)
	if err == nil && res.Status == Absent {
		return Resolution{}, sdk.Errorf(sdk.MutationUnknown, "receipt", "there is none yet; send the same ApplyTx again, or let the next owner settle it")
	}
	return res, err
}

// lookup reads the receipt. Only after the fence was seen above the intent's is
// finding nothing a proof.
func (r *Reconciler) lookup(ctx context.Context, c *Case, o Owner) (Resolution, error) {
	receipt, err := o.Store.Receipt(ctx, c.Resource, c.Operation)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return Resolution{Status: Absent}, nil
	case err != nil:
		return Resolution{}, sdk.Errorf(sdk.MutationUnknown, "receipt", "it cannot be read: %w", err)
	case receipt.Payload != c.Payload:
		// The operation has its one receipt (F10), with other content: this one was
		// not applied and cannot be.
		return Resolution{Refused, &receipt}, nil
	}
	return Resolution{Applied, &receipt}, nil
}

func (r *Reconciler) escalate(ctx context.Context, c Case, now time.Time) (Resolution, error) {
	c.Advice = fmt.Sprintf("1. See that the store of audience %q answers. 2. Have any worker acquire %q and claim: adaptercheck inspect shows the fence, which must then be above %s. "+
		"3. Look up the receipt of operation %q after that. If it is there the work is done, else it never will be and may be done again under the same operation ID. 4. Close the intent in the journal.",
		c.Audience, c.Resource, c.Fence, c.Operation)
	if c.Escalated.IsZero() {
		if err := r.opts.Escalator.Escalate(ctx, c); err != nil {
			return Resolution{}, sdk.Errorf(sdk.NotApplied, "escalator", "nobody could be told: %w", err)
		}
		if err := r.opts.Journal.Escalated(ctx, c.Resource, c.Operation, now.UTC().Truncate(time.Millisecond)); err != nil {
			return Resolution{}, sdk.Errorf(sdk.NotApplied, "journal", "a person was told, and the journal cannot note it: %w", err)
		}
	}
	return Resolution{Status: Undetermined}, nil
}

// Stats are for metrics.
type Stats struct {
	Open      int           // intents that are not settled, those under way among them
	Escalated int           // of these, with a person
	Oldest    time.Duration // age of the oldest
}

// Stats counts what is open.
func (r *Reconciler) Stats(ctx context.Context) (Stats, error) {
	open, err := r.opts.Journal.Open(ctx)
	if err != nil {
		return Stats{}, err
	}
	s := Stats{Open: len(open)}
	for _, in := range open {
		if !in.Escalated.IsZero() {
			s.Escalated++
		}
		s.Oldest = max(s.Oldest, r.opts.Clock.Now().Sub(in.Since))
	}
	return s, nil
}
