package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
)

// The suite and a spawned writer speak JSON, a value a line: the writer says
// that it is ready, the suite sends writes, the writer answers each. Writes of
// one lane are carried out in order, lanes at the same time.

type writerCommand struct {
	Lane     int            `json:"lane"`
	Resource sdk.ResourceID `json:"resource"`
	Fence    sdk.Token      `json:"fence,string"`
	Segment  sdk.Segment    `json:"segment,string"`
}

type writerAnswer struct {
	Ready   bool        `json:"ready,omitempty"`
	Lane    int         `json:"lane"`
	Fence   sdk.Token   `json:"fence,string"`
	Segment sdk.Segment `json:"segment,string"`
	Code    sdk.Code    `json:"code"`
	Error   string      `json:"error,omitempty"`
}

// writerLanes is how many resources one spawned writer writes to at a time.
const writerLanes = 4

// mutation is what both sides take the command for: two keys that must agree
// with each other and with the receipt.
func (w *writerCommand) mutation() *sdk.Mutation {
	op := writerOperation(w.Fence, w.Segment)
	return ownerOf(w.Resource, w.Fence, "").mutation(w.Segment, op, []byte("result of "+op),
		sdk.Put("head", []byte(op)), sdk.Put(string(op), make([]byte, 700)))
}

func writerOperation(f sdk.Token, s sdk.Segment) sdk.OperationID {
	return sdk.OperationID(fmt.Sprintf("op-%s-%s", f, s))
}

// ServeWriter writes to store what the suite sends on r and answers on w, until
// r or ctx ends. It is what the process of Harness.Spawn calls; the suite kills
// that process.
func ServeWriter(ctx context.Context, store sdk.FencedStore, r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	enc := json.NewEncoder(w)
	answer := func(a writerAnswer) error {
		mu.Lock()
		defer mu.Unlock()
		return enc.Encode(a)
	}
	if err := answer(writerAnswer{Ready: true}); err != nil {
		return err
	}
	commands, failed := readLines[writerCommand](r)
	var lanes [writerLanes]chan writerCommand
	var wg sync.WaitGroup
	for i := range lanes {
		lanes[i] = make(chan writerCommand, 64)
		wg.Go(func() {
			for cmd := range lanes[i] {
				out, err := store.Apply(ctx, admit(cmd.mutation()))
				a := writerAnswer{Lane: cmd.Lane, Fence: cmd.Fence, Segment: cmd.Segment, Code: out.Code}
				if err != nil {
					a.Code, a.Error = sdk.WriteCode(err), err.Error()
				}
				if answer(a) != nil {
					cancel() // nobody listens
				}
			}
		})
	}
	defer func() {
		for i := range lanes {
			close(lanes[i])
		}
		wg.Wait()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case cmd, ok := <-commands:
			if !ok {
				return <-failed
			}
			if cmd.Lane < 0 || cmd.Lane >= writerLanes {
				return sdk.Errorf(sdk.Invalid, "lane", "%d is none of 0 to %d", cmd.Lane, writerLanes-1)
			}
			select {
			case lanes[cmd.Lane] <- cmd:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// readLines reads JSON values until r ends or is cut; the error channel then
// has nil, or what was not JSON.
func readLines[T any](r io.Reader) (<-chan T, <-chan error) {
	out := make(chan T, 256)
	failed := make(chan error, 1)
	go func() {
		defer close(out)
		sc := bufio.NewScanner(r)
		for sc.Scan() {
			var v T
			if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
				failed <- sdk.Errorf(sdk.Invalid, "writer", "not a line of its protocol: %w", err)
				return
			}
			out <- v
		}
		failed <- nil
	}()
	return out, failed
}
