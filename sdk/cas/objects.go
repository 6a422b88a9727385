package cas

import "context"

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

// Remover is what CleanUp needs beside Objects. A writer's own credentials need
// no permission to delete.
type Remover interface {
	// Remove deletes an object; one that is absent is no error.
	Remove(ctx context.Context, name string) error
}
