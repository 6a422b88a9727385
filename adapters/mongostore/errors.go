package mongostore

import (
	"context"
	"errors"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// meaning is what an error of a command says.
type meaning uint8

const (
	unknown    meaning = iota // nothing is proved
	duplicate                 // there is a document with this key; nothing was written
	notApplied                // the server refused without beginning, or rolled back; nothing was written
	unsuitable                // it will never work this way; nothing was written
	tooLarge                  // the document is too large; nothing was written
)

// answers are the proofs, by the server's error code at the head of an answer or
// of the one statement of a write. What is not listed is unknown, and so is
// every error of the write concern, whatever its code: it comes after the write
// (C22). Codes that a server may also give in the midst of a command (50, 91,
// 189, 262, 11600, 11602) are left out on purpose.
var answers = []struct {
	code   int
	means  meaning
	advice string
}{
	{11000, duplicate, "there is a document with this key"},
	{11001, duplicate, "there is a document with this key"},

	{10107, notApplied, "the node is not the primary; the driver looks for it"},
	{13435, notApplied, "the node is not the primary; the driver looks for it"},
	{112, notApplied, "another write was at the document; rolled back"},
	{133, notApplied, "the router found no primary"},
	{391, notApplied, "the session's credentials ran out"},
	{462, notApplied, "the server sheds load"},

	{13, unsuitable, "permission"},
	{18, unsuitable, "the server does not take the credentials"},
	{2, unsuitable, "the server does not take a value"},
	{9, unsuitable, "the server does not understand the command"},
	{14, unsuitable, "the server does not take a value's type"},
	{20, unsuitable, "the server does not do this here; transactions need a replica set"},
	{59, unsuitable, "the server does not know the command"},
	{72, unsuitable, "the server does not take an option"},
	{73, unsuitable, "the server does not take the name of database or collection"},
	{115, unsuitable, "the server does not support the command"},
	{121, unsuitable, "a validator on the collection refuses the store's documents; take it away"},
	{123, unsuitable, "the server is no member of a replica set"},
	{166, unsuitable, "the name is that of a view; name a collection"},
	{238, unsuitable, "the server does not support this"},
	{263, unsuitable, "the server does not do this in a transaction"},

	{10334, tooLarge, "the document is too large"},
	{17280, tooLarge, "the key is too long"},
	{17419, tooLarge, "the document is too large"},
	{17420, tooLarge, "the document is too large"},
}

// noWrites is the server's own label for an error before which it wrote nothing.
const noWrites = "NoWritesPerformed"

// judge says what the error of a command means. sent tells whether the command
// may have been sent.
func judge(err error, sent bool) (means meaning, advice string) {
	if errors.Is(err, mongo.ErrClientDisconnected) || errors.As(err, &topology.ServerSelectionError{}) || errors.As(err, &topology.WaitQueueTimeoutError{}) {
		return notApplied, "nothing was sent"
	}
	code := 0
	var we mongo.WriteException
	var ce mongo.CommandError
	switch {
	case errors.As(err, &we):
		if len(we.WriteErrors) == 0 {
			return unknown, "" // the write concern alone: written, and perhaps not for good
		}
		code = we.WriteErrors[0].Code
	case errors.As(err, &ce):
		code = int(ce.Code)
	}
	for _, a := range answers {
		if code == a.code {
			return a.means, a.advice
		}
	}
	if !sent {
		return notApplied, "nothing was sent"
	}
	if ce.HasErrorLabel(noWrites) {
		return notApplied, "the server wrote nothing"
	}
	return unknown, ""
}

// classify is judge with the error to answer. For a duplicate there is none.
func classify(err error, sent bool, action string) (meaning, error) {
	means, advice := judge(err, sent)
	switch means {
	case duplicate:
		return means, nil
	case notApplied:
		return means, sdk.Errorf(sdk.NotApplied, "MongoDB", "%s: %w", advice, err)
	case unsuitable:
		return means, unfit(err, advice, action)
	case tooLarge:
		return means, sdk.Errorf(sdk.TooLarge, "MongoDB", "%s: %w", advice, err)
	}
	return means, sdk.Errorf(sdk.MutationUnknown, "MongoDB", "the answer does not tell what became of it: %w", err)
}

// unfit names the permission that is missing, where it is one.
func unfit(err error, advice, action string) error {
	if advice == "permission" {
		return sdk.Errorf(sdk.Unsuitable, "permission", "the user lacks %q; see doc.go for what the role needs: %w", action, err)
	}
	return sdk.Errorf(sdk.Unsuitable, "MongoDB", "%s: %w", advice, err)
}

// readError is the error of a read.
func readError(err error, action string) error {
	if means, advice := judge(err, true); means == unsuitable {
		return unfit(err, advice, action)
	}
	return sdk.Errorf(sdk.NotApplied, "MongoDB", "could not be read: %w", err)
}

func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "MongoDB", "nothing was sent: %w", err)
	}
	return nil
}
