package s3store

import (
	"errors"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/fencedstore/fencedstore/sdk"
)

// meaning is what a server's answer to a conditional PUT says.
type meaning uint8

const (
	unknown    meaning = iota // nothing is proved
	mismatch                  // the condition did not hold; nothing was written
	notApplied                // the server refused without deciding; nothing was written
	unsuitable                // it will never work this way; nothing was written
)

// answers are the proofs, by HTTP status and S3 error code; an empty code stands
// for every other of its status. What is not listed is unknown. 5xx are unknown
// but for the two that say that the request was not begun.
var answers = []struct {
	status int
	code   string
	means  meaning
	advice string
}{
	{http.StatusPreconditionFailed, "", mismatch, "another version is there"},
	{http.StatusNotFound, "NoSuchKey", mismatch, "the object is not there"},
	{http.StatusNotFound, "NotFound", mismatch, "the object is not there"},
	{http.StatusNotFound, "NoSuchBucket", unsuitable, "the bucket does not exist; create it"},
	{http.StatusConflict, "ConditionalRequestConflict", notApplied, "the server was deciding another conditional write; try again"},
	{http.StatusConflict, "ObjectParentIsFile", unsuitable, "the server keeps objects as files, and one of the key's parents is one"},
	{http.StatusConflict, "ExistingObjectIsDirectory", unsuitable, "the server keeps objects as files, and others lie below this key"},
	{http.StatusBadRequest, "KeyTooLongError", unsuitable, "the server does not take a key of this length"},
	{http.StatusForbidden, "", unsuitable, "no permission, or a signature that the server does not take; see doc.go for what the role needs"},
	{http.StatusUnauthorized, "", unsuitable, "no credentials that the server takes"},
	{http.StatusMovedPermanently, "", unsuitable, "the bucket is in another region; name it in the DSN"},
	{http.StatusNotImplemented, "", unsuitable, "the server does not offer this header or checksum; try checksum=when_required, or another server"},
	{http.StatusBadRequest, "XAmzContentSHA256Mismatch", unsuitable, "the server does not take this kind of checksum; try checksum=when_required"},
	{http.StatusBadRequest, "BadDigest", notApplied, "the body was damaged on the way"},
	{http.StatusBadRequest, "IncompleteBody", notApplied, "the body was cut on the way"},
	{http.StatusBadRequest, "RequestTimeout", notApplied, "the body did not come in time"},
	{http.StatusBadRequest, "EntityTooLarge", notApplied, "the object is too large"},
	{http.StatusBadRequest, "MetadataTooLarge", unsuitable, "the server takes less metadata than the 2 KB of S3"},
	{http.StatusBadRequest, "InvalidArgument", unsuitable, "the server does not understand a header"},
	{http.StatusBadRequest, "InvalidRequest", unsuitable, "the server does not take the request"},
	{http.StatusBadRequest, "NotImplemented", unsuitable, "the server does not offer this header or checksum; try checksum=when_required"},
	{http.StatusServiceUnavailable, "SlowDown", notApplied, "the server sheds load; try again"},
	{http.StatusTooManyRequests, "", notApplied, "the server sheds load; try again"},
}

// answered finds the status and code of a server's answer; 0 if there was none.
func answered(err error) (status int, code string) {
	var re *awshttp.ResponseError
	if errors.As(err, &re) {
		status = re.HTTPStatusCode()
	}
	var ae smithy.APIError
	if errors.As(err, &ae) {
		code = ae.ErrorCode()
	}
	return status, code
}

// classify says what an error of a conditional PUT means. sent tells whether a
// connection had been taken for it: before that nothing can have been applied.
func classify(err error, sent bool) (meaning, error) {
	status, code := answered(err)
	if status == 0 && !sent {
		return notApplied, sdk.Errorf(sdk.NotApplied, "S3", "nothing was sent: %w", err)
	}
	best, advice := unknown, ""
	for _, a := range answers {
		if a.status == status && (a.code == code || a.code == "" && best == unknown) {
			best, advice = a.means, a.advice
			if a.code == code {
				break
			}
		}
	}
	switch best {
	case mismatch:
		return mismatch, nil
	case notApplied:
		return best, sdk.Errorf(sdk.NotApplied, "S3", "%s (%d %s): %w", advice, status, code, err)
	case unsuitable:
		return best, sdk.Errorf(sdk.Unsuitable, "S3", "%s (%d %s): %w", advice, status, code, err)
	}
	return unknown, sdk.Errorf(sdk.MutationUnknown, "S3", "the answer does not tell what became of it (%d %s): %w", status, code, err)
}

// readError is the error of a read: there is no such object, or it could not be
// asked.
func readError(name string, err error) error {
	status, code := answered(err)
	switch {
	case code == "NoSuchKey", status == http.StatusNotFound && code != "NoSuchBucket":
		return sdk.Errorf(sdk.NotFound, name, "no such object")
	case status == http.StatusForbidden, code == "NoSuchBucket", code == "KeyTooLongError", status == http.StatusMovedPermanently:
		_, err := classify(err, true)
		return err
	}
	return sdk.Errorf(sdk.NotApplied, "S3", "%s could not be read: %w", name, err)
}
