package cas

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// Objects is what the kit needs of a store. Names are 1 to 512 bytes of a–z,
// 0–9, '.', '-' and '/', without empty segments. All methods may be called at
// the same time, and end promptly when the context does.
type Objects interface {
	// Get returns an object and its version, linearizable with every PutIf.
	//
	//  1. body, version, nil; the version is not empty.
	//  2. nil, "", NOT_FOUND: there is no such object.
	//  3. nil, "", another code: it could not be read.
	Get(ctx context.Context, name string) (body []byte, version string, err error)

	// PutIf replaces the object whose version is still version, or, with an empty
	// version, makes one where there is none; in one atomic step.
	//
	//  1. true, next, nil: it is durable; next is its version.
	//  2. false, "", nil: there was another version, or none, or, with an empty
	//     version, one. Proved that this call changed nothing and will not.
	//  3. false, "", NOT_APPLIED: proved likewise.
	//  4. false, "", any other error: unknown (O1).
	//
	// An implementation sends one attempt: a retry inside a client library could
	// meet its own success and call it 2.
	PutIf(ctx context.Context, name string, body []byte, version string) (swapped bool, next string, err error)

	// PutNew writes an object under a name that nobody has used before or will
	// again; durable when it returns nil. A repetition with the same body is
	// allowed to succeed.
	PutNew(ctx context.Context, name string, body []byte) error

	// List calls each for every object whose name begins with prefix, in any
	// order, and with no object missing whose PutIf or PutNew had returned before
	// the call.
	List(ctx context.Context, prefix string, each func(name string) error) error
}

// Heads keeps the head of a resource beside one value of it, in one object that
// anybody may read: layout "object". The kit asks nothing of it but two methods;
// everything else stays with Objects. Versions are as those of Objects.
type Heads interface {
	// GetHead returns what PutHead wrote, linearizable with it.
	//
	//  1. state, content, version, nil. A state of nil: there is an object, and
	//     nobody has fenced it yet (or somebody has overwritten it past the gate;
	//     the marker tells).
	//  2. NOT_FOUND: there is no such object.
	//  3. INVALID: the resource cannot have one.
	//  4. another code: it could not be read.
	GetHead(ctx context.Context, r sdk.ResourceID) (state, content []byte, version string, err error)

	// PutHead writes state, up to Adapter.StateBytes, and content in one step, on
	// the condition and with the outcomes of PutIf.
	PutHead(ctx context.Context, r sdk.ResourceID, state, content []byte, version string) (swapped bool, next string, err error)
}

// Remover is what CleanUp needs beside Objects. A writer's own credentials need
// no permission to delete.
type Remover interface {
	// Remove deletes an object; one that is absent is no error.
	Remove(ctx context.Context, name string) error
}
