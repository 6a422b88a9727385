package dynamodbstore

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/fencedstore/fencedstore/sdk"
)

// meaning is what an answer to a transaction says.
type meaning uint8

const (
	unknown    meaning = iota // nothing is proved: read fence and receipt
	recheck                   // a condition did not hold, nothing was written: read and judge again
	retry                     // the server did not decide, nothing was written: send again after a while
	unsuitable                // it will never work this way, nothing was written
	tooLarge                  // beyond a limit, nothing was written
	effect                    // a condition or form of the team's own write; nothing was written
)

// answers are the proofs, by the service's error code. What is not listed is
// unknown: InternalServerError, TransactionInProgressException and
// IdempotentParameterMismatchException among others.
var answers = []struct {
	code   string
	means  meaning
	advice string
}{
	{"ConditionalCheckFailedException", recheck, "a condition did not hold"},
	{"TransactionConflictException", retry, "another transaction is at the item"},
	{"ReplicatedWriteConflictException", retry, "a replica is writing the item"},
	{"ProvisionedThroughputExceededException", retry, "the table's capacity is used up"},
	{"RequestLimitExceeded", retry, "the account's capacity is used up"},
	{"ThrottlingException", retry, "the service sheds load"},
	{"ResourceNotFoundException", unsuitable, "the table does not exist; create it with pk and sk as its keys"},
	{"AccessDeniedException", unsuitable, "the permission dynamodb:OPERATION is missing; see Schema"},
	{"UnrecognizedClientException", unsuitable, "the credentials are not known"},
	{"InvalidSignatureException", unsuitable, "the signature does not hold: the secret or this host's clock is wrong"},
	{"ExpiredTokenException", unsuitable, "the credentials have run out"},
	{"ItemCollectionSizeLimitExceededException", tooLarge, "the items of one resource exceed 10 GB in an index"},
	{"ValidationException", unsuitable, "the service does not take the request"},
}

// reasons are those of a cancelled transaction, one per action, by their code.
var reasons = map[string]meaning{
	"ConditionalCheckFailed":          recheck,
	"TransactionConflict":             retry,
	"ThrottlingError":                 retry,
	"ProvisionedThroughputExceeded":   retry,
	"ValidationError":                 unsuitable,
	"ItemCollectionSizeLimitExceeded": tooLarge,
	"AccessDenied":                    unsuitable,
}

// rank orders the reasons of one cancellation: a conflict beside a failed
// condition means that the condition was not decided (C4).
// What an effect was refused for counts only if nothing else went wrong: the
// state by which it was sent may have been old.
var rank = map[meaning]int{effect: 1, recheck: 2, retry: 3, tooLarge: 4, unsuitable: 5, unknown: 6}

// judge says what an error of a transaction means. sent tells whether a
// connection had been taken for it, own how many of its actions, the first ones,
// are the store's and not an effect's.
func judge(err error, sent bool, own int) (meaning, error) {
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		return judgeReasons(cancelled, own)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		for _, a := range answers {
			if a.code == api.ErrorCode() {
				return a.means, coded(a.means, advise(a.advice, err), err)
			}
		}
		return unknown, coded(unknown, "the answer does not tell what became of it", err)
	}
	if !sent {
		return retry, sdk.Errorf(sdk.NotApplied, "DynamoDB", "nothing was sent: %w", err)
	}
	return unknown, coded(unknown, "no answer", err)
}

// advise names the operation that was refused.
func advise(advice string, err error) string {
	operation := "…"
	var op *smithy.OperationError
	if errors.As(err, &op) {
		operation = op.Operation()
	}
	return strings.ReplaceAll(advice, "OPERATION", operation)
}

// errorCode is the service's code of an error, empty if it has none.
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func judgeReasons(c *types.TransactionCanceledException, own int) (meaning, error) {
	worst, text, seen := recheck, "", false
	for i, r := range c.CancellationReasons {
		if r.Code == nil || *r.Code == "None" {
			continue
		}
		means, ok := reasons[*r.Code]
		if !ok {
			means = unknown
		}
		if i >= own && (means == recheck || means == unsuitable) {
			means = effect
		}
		if !seen || rank[means] > rank[worst] {
			worst, text = means, *r.Code
			if r.Message != nil {
				text += ": " + *r.Message
			}
		}
		seen = true
	}
	if !seen {
		// Cancelled without a reason: it was not committed, that much is said, and
		// nothing of why.
		return retry, coded(retry, "cancelled without a reason", c)
	}
	return worst, coded(worst, text, c)
}

func coded(m meaning, text string, err error) error {
	code := map[meaning]sdk.Code{unknown: sdk.MutationUnknown, recheck: sdk.NotApplied, retry: sdk.NotApplied, unsuitable: sdk.Unsuitable, tooLarge: sdk.TooLarge, effect: sdk.Invalid}[m]
	return sdk.Errorf(code, "DynamoDB", "%s: %w", text, err)
}

// all says that every action is the store's own.
const all = 1 << 10

// readError is the error of a read.
func readError(err error) error {
	if m, cerr := judge(err, true, all); m == unsuitable {
		return cerr
	}
	return sdk.Errorf(sdk.NotApplied, "DynamoDB", "could not be read: %w", err)
}
