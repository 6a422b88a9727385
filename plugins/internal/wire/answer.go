package wire

import (
	"errors"

	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

// Answer is what a store answered to a write, as a message. An error without a
// code, and an answer without error whose code is no success, is
// MUTATION_UNKNOWN.
func Answer(out sdk.Outcome, err error) *pb.ApplyResponse {
	p := &pb.ApplyResponse{Code: pb.Code(out.Code), Receipt: Receipt(out.Receipt), Observed: State(out.Observed)}
	if err == nil {
		if !out.Code.Ok() {
			p.Code, p.Message = pb.Code_CODE_MUTATION_UNKNOWN, Text("the store answered "+out.Code.String()+" without an error")
		}
		return p
	}
	p.Code, p.Message = pb.Code(sdk.WriteCode(err)), Text(err.Error())
	var e *sdk.Error
	if errors.As(err, &e) {
		p.Field, p.Message, p.Alarm = Text(e.Field), Text(e.Msg), e.Alarm
		if e.Receipt != nil {
			p.Receipt = Receipt(e.Receipt)
		}
		if !e.Observed.Absent() {
			p.Observed = State(e.Observed)
		}
	}
	return p
}

// ParseAnswer reads what a plug-in answered to the write m. Whatever is not a
// success with m's own receipt, or a refusal with a code that this version
// knows and with nothing of another operation, is MUTATION_UNKNOWN (O1).
func ParseAnswer(m *sdk.Mutation, p *pb.ApplyResponse) (sdk.Outcome, error) {
	code := sdk.Code(uint32(p.GetCode()))
	receipt, err := ParseReceipt(p.GetReceipt())
	if err != nil {
		return unknown("%s with a receipt that is none: %w", code, err)
	}
	observed, err := ParseState(p.GetObserved())
	if err != nil {
		return unknown("%s with a state that is none: %w", code, err)
	}
	if receipt != nil && (receipt.Resource != m.Resource || receipt.Operation != m.Operation) {
		return unknown("%s with the receipt of another operation", code)
	}
	if code.Ok() {
		if receipt == nil || !receipt.Echoes(m) {
			return unknown("%s without this mutation's receipt", code)
		}
		return sdk.Outcome{Code: code, Receipt: receipt, Observed: observed}, nil
	}
	if !code.Known() || code == sdk.NotFound {
		return unknown("code %d, which is no answer to a write", uint32(code))
	}
	e := &sdk.Error{Code: code, Field: Text(p.GetField()), Msg: Text(p.GetMessage()), Alarm: p.GetAlarm(),
		Observed: observed, Receipt: receipt}
	return sdk.Refusal(e), e
}

func unknown(format string, args ...any) (sdk.Outcome, error) {
	err := sdk.Errorf(sdk.MutationUnknown, "plug-in", "it answered "+format, args...)
	return sdk.Refusal(err), err
}

// Failure is the error of a call other than Apply, as a message.
func Failure(err error) *pb.Failure {
	p := &pb.Failure{Code: pb.Code(sdk.CodeOf(err)), Message: Text(err.Error())}
	var e *sdk.Error
	if errors.As(err, &e) {
		p.Field, p.Message, p.Alarm = Text(e.Field), Text(e.Msg), e.Alarm
		p.Observed, p.Receipt = State(e.Observed), Receipt(e.Receipt)
	}
	return p
}

// ParseFailure reads the failure of a call other than Apply; never nil. A nil
// message, no code and codes that say that something is in the store are
// NOT_APPLIED: the store could not be asked.
func ParseFailure(p *pb.Failure) error {
	code := sdk.Code(uint32(p.GetCode()))
	if p == nil || !code.Known() || code.Ok() || code == sdk.MutationUnknown {
		return sdk.Errorf(sdk.NotApplied, "plug-in", "it answered neither a result nor a failure that this version knows (code %d)", uint32(code))
	}
	e := &sdk.Error{Code: code, Field: Text(p.Field), Msg: Text(p.Message), Alarm: p.Alarm}
	var err error
	if e.Observed, err = ParseState(p.Observed); err != nil {
		e.Observed = sdk.FenceState{}
	}
	if e.Receipt, err = ParseReceipt(p.Receipt); err != nil {
		e.Receipt = nil
	}
	return e
}
