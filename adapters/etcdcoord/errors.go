package etcdcoord

import (
	"context"
	"errors"

	"github.com/fencedstore/fencedstore/sdk"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// phase says what an error without a rule means.
type phase = sdk.Code

const (
	reading = sdk.NotApplied      // nothing is changed by it
	writing = sdk.MutationUnknown // it may have been applied
)

// refusals are the answers with which the server says that it has not begun and
// will not, each with what it means.
var refusals = []struct {
	err    error
	code   sdk.Code
	advice string
}{
	{rpctypes.ErrRequestTooLarge, sdk.Unsuitable, "the server's request limit is below what a grant needs; raise --max-request-bytes"},
	{rpctypes.ErrNoSpace, sdk.NotApplied, "the database is full; compact it, defragment it and disarm the alarm"},
	{rpctypes.ErrTooManyRequests, sdk.NotApplied, "the server sheds load"},
	{rpctypes.ErrNoLeader, sdk.NotApplied, "the cluster has no leader"},
	{rpctypes.ErrPermissionDenied, sdk.Unsuitable, "the user's role lacks readwrite on the prefix"},
	{rpctypes.ErrAuthFailed, sdk.Unsuitable, "user or password are wrong"},
	{rpctypes.ErrInvalidAuthToken, sdk.NotApplied, "the session's token ran out"},
	{rpctypes.ErrUserEmpty, sdk.Unsuitable, "the cluster wants a user; set ETCDCTL_USER"},
	{rpctypes.ErrCorrupt, sdk.Unsuitable, "the cluster found its data corrupt"},
	{rpctypes.ErrNotCapable, sdk.Unsuitable, "the server is too old"},
	{rpctypes.ErrLeaseNotFound, sdk.NotApplied, "the lease ended before the transaction"},
}

// classify says what an error means; one that is ours already stays.
func classify(p phase, err error) error {
	if err == nil || sdk.CodeOf(err) != 0 {
		return err
	}
	for _, r := range refusals {
		if errors.Is(rpctypes.Error(err), r.err) {
			return sdk.Errorf(r.code, "etcd", "%s: %w", r.advice, err)
		}
	}
	return sdk.Errorf(p, "etcd", "%w", err)
}

// wrapped gives err the cause of a context that is done, which the client's own
// error does not always carry.
func wrapped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return errors.Join(err, ctx.Err())
	}
	return err
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.Canceled
}

func leaseGone(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }
