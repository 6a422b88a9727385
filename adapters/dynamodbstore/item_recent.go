package dynamodbstore

import (
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// recentReceipt is a receipt in a head: JSON, since servers spend more on ten
// maps of attributes than on the rest of a write. What it has in common with the
// fence is left out (F3, F13). Integers are decimal strings.
type recentReceipt struct {
	Operation string `json:"op"`
	Fence     string `json:"fence,omitzero"`
	Root      []byte `json:"root,omitempty"`
	Grant     []byte `json:"grant,omitempty"`
	Segment   string `json:"segment"`
	Payload   []byte `json:"payload"`
	Owner     string `json:"owner"`
	Time      string `json:"timeMillis"`
	Result    []byte `json:"result,omitempty"`
}

func recentText(list []*sdk.Receipt, state *sdk.FenceState) (string, error) {
	out := make([]recentReceipt, 0, len(list))
	for _, r := range list {
		w := recentReceipt{Operation: string(r.Operation), Segment: r.Segment.String(), Payload: r.Payload[:], Owner: r.Owner,
			Time: strconv.FormatInt(r.Time.UnixMilli(), 10), Result: r.Result}
		if r.Fence != state.Highest {
			w.Fence, w.Root, w.Grant = r.Fence.String(), r.Root[:], r.Grant[:]
		}
		out = append(out, w)
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// parseRecent reads the receipts of a head strictly.
func parseRecent(text string, id sdk.ResourceID, state *sdk.FenceState) ([]*sdk.Receipt, error) {
	var list []recentReceipt
	if err := json.Unmarshal([]byte(text), &list, json.RejectUnknownMembers(true)); err != nil {
		return nil, damaged("head", "its receipts: %w", err)
	}
	out := make([]*sdk.Receipt, 0, len(list))
	for i := range list {
		r, err := list[i].receipt(id, state)
		if err != nil {
			return nil, damaged("head", "receipt of %q: %w", list[i].Operation, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func (w *recentReceipt) receipt(id sdk.ResourceID, state *sdk.FenceState) (*sdk.Receipt, error) {
	r := &sdk.Receipt{Resource: id, Operation: sdk.OperationID(w.Operation), Fence: state.Highest, Root: state.Root, Grant: state.Grant, Owner: w.Owner}
	if len(w.Result) > 0 {
		r.Result = w.Result
	}
	var err error
	if w.Fence != "" {
		if r.Fence, err = sdk.ParseToken(w.Fence); err != nil {
			return nil, err
		}
		if err := digestInto(&r.Root, w.Root); err != nil {
			return nil, err
		}
		if err := digestInto(&r.Grant, w.Grant); err != nil {
			return nil, err
		}
	}
	if err := digestInto(&r.Payload, w.Payload); err != nil {
		return nil, err
	}
	segment, err := sdk.ParseDecimal("segment", w.Segment)
	if err != nil {
		return nil, err
	}
	millis, err := strconv.ParseInt(w.Time, 10, 64)
	if err != nil {
		return nil, err
	}
	r.Segment, r.Time = sdk.Segment(segment), time.UnixMilli(millis).UTC()
	if !r.Segment.Valid() {
		return nil, sdk.Errorf(sdk.Unsuitable, "segment", "%d", segment)
	}
	return r, r.Operation.Validate()
}

func digestInto(d *sdk.Digest, b []byte) error {
	if len(b) != len(d) {
		return sdk.Errorf(sdk.Unsuitable, "digest", "%d bytes", len(b))
	}
	copy(d[:], b)
	return nil
}
