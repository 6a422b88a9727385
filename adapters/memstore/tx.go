package memstore

import "github.com/fencedstore/fencedstore/sdk"

// Tx is what a gate.ApplyTx function gets: the values of its resource, written
// back when it returns without an error. It is of no use afterwards and not
// safe for concurrent use.
type Tx struct {
	values map[string][]byte
	done   bool
}

func (tx *Tx) check(key string) error {
	if tx.done {
		return sdk.Errorf(sdk.Closed, "transaction", "it ended when the function returned")
	}
	return sdk.ValidateKey(key)
}

// Get returns the value of key; NOT_FOUND if it is not set.
func (tx *Tx) Get(key string) ([]byte, error) {
	if err := tx.check(key); err != nil {
		return nil, err
	}
	v, ok := tx.values[key]
	if !ok {
		return nil, sdk.Errorf(sdk.NotFound, "key", "%q is not set", key)
	}
	return append([]byte{}, v...), nil
}

// Put sets key to value.
func (tx *Tx) Put(key string, value []byte) error {
	if err := tx.check(key); err != nil {
		return err
	}
	tx.values[key] = append([]byte{}, value...)
	return nil
}

// Delete removes key, which may be absent.
func (tx *Tx) Delete(key string) error {
	if err := tx.check(key); err != nil {
		return err
	}
	delete(tx.values, key)
	return nil
}
