package sdk

import (
	"encoding/binary"
)

// Effect is one business change. Kind says how Body is read: the portable kinds
// below work on every store; native kinds belong to one adapter.
type Effect struct {
	Kind string // 1 to 64 of a-z 0-9 . _ -, beginning with a letter
	Body []byte
}

// Portable effect kinds.
const (
	// KindPut sets a key inside the resource. Body: the key's length as 8 bytes
	// big-endian, the key, the value.
	KindPut = "kv.put.v1"
	// KindDelete removes a key inside the resource; a key that is absent stays
	// so. Body: the key.
	KindDelete = "kv.delete.v1"
	// KindResolve marks a quarantine record as settled. Body: fence, segment,
	// payload digest and operation ID of the record, see Resolve.
	KindResolve = "quarantine.resolve.v1"
)

// MaxKeyBytes is the longest key of a portable effect.
const MaxKeyBytes = 512

// Put returns the effect that sets key to value inside the resource.
func Put(key string, value []byte) Effect {
	body := make([]byte, 0, 8+len(key)+len(value))
	body = binary.BigEndian.AppendUint64(body, uint64(len(key)))
	body = append(body, key...)
	body = append(body, value...)
	return Effect{Kind: KindPut, Body: body}
}

// Delete returns the effect that removes key inside the resource.
func Delete(key string) Effect { return Effect{Kind: KindDelete, Body: []byte(key)} }

// Resolve returns the effect that marks q as settled by the mutation that
// carries it. The record stays; its ResolvedBy names the operation.
func Resolve(q Quarantine) Effect {
	body := make([]byte, 0, 48+len(q.Operation))
	body = binary.BigEndian.AppendUint64(body, uint64(q.Fence))
	body = binary.BigEndian.AppendUint64(body, uint64(q.Segment))
	body = append(body, q.Payload[:]...)
	body = append(body, q.Operation...)
	return Effect{Kind: KindResolve, Body: body}
}

// ParsePut reads the body of a kv.put.v1 effect. Value shares the body's
// memory.
func ParsePut(body []byte) (key string, value []byte, err error) {
	if len(body) < 8 {
		return "", nil, Errorf(Invalid, "effect", "%s body of %d bytes is too short; build it with sdk.Put", KindPut, len(body))
	}
	n := binary.BigEndian.Uint64(body)
	if n > uint64(len(body)-8) {
		return "", nil, Errorf(Invalid, "effect", "%s body is shorter than the key length it names; build it with sdk.Put", KindPut)
	}
	key, value = string(body[8:8+n]), body[8+n:]
	return key, value, ValidateKey(key)
}

// ParseDelete reads the body of a kv.delete.v1 effect.
func ParseDelete(body []byte) (key string, err error) {
	key = string(body)
	return key, ValidateKey(key)
}

// ParseResolve reads the body of a quarantine.resolve.v1 effect into the fields
// that key a quarantine record.
func ParseResolve(body []byte) (QuarantineKey, error) {
	if len(body) < 48 {
		return QuarantineKey{}, Errorf(Invalid, "effect", "%s body of %d bytes is too short; build it with sdk.Resolve", KindResolve, len(body))
	}
	k := QuarantineKey{
		Fence:     Token(binary.BigEndian.Uint64(body)),
		Segment:   Segment(binary.BigEndian.Uint64(body[8:])),
		Operation: OperationID(body[48:]),
	}
	copy(k.Payload[:], body[16:48])
	if !k.Fence.Valid() || !k.Segment.Valid() || k.Payload.IsZero() {
		return QuarantineKey{}, Errorf(Invalid, "effect", "%s names no quarantine record; build it with sdk.Resolve", KindResolve)
	}
	return k, k.Operation.Validate()
}

// ValidateKey returns INVALID unless key is 1 to 512 bytes of UTF-8 without
// control characters.
func ValidateKey(key string) error {
	if len(key) == 0 || len(key) > MaxKeyBytes {
		return Errorf(Invalid, "key", "%d bytes; a key has 1 to %d", len(key), MaxKeyBytes)
	}
	return validateText("key", key)
}

func validateKind(kind string) error {
	ok := len(kind) >= 1 && len(kind) <= 64 && kind[0] >= 'a' && kind[0] <= 'z'
	for i := 0; ok && i < len(kind); i++ {
		c := kind[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !ok {
		return Errorf(Invalid, "effect kind", "%+q is not 1 to 64 of a-z 0-9 . _ - beginning with a letter", clip(kind))
	}
	return nil
}

// validateEffects checks every effect that every store knows, and that no two
// portable effects touch one key: their order would be the store's choice.
func validateEffects(effects []Effect) error {
	var seen map[string]bool
	for i := range effects {
		e := &effects[i]
		if err := validateKind(e.Kind); err != nil {
			return err
		}
		var key string
		switch e.Kind {
		case KindPut:
			k, _, err := ParsePut(e.Body)
			if err != nil {
				return err
			}
			key = k
		case KindDelete:
			k, err := ParseDelete(e.Body)
			if err != nil {
				return err
			}
			key = k
		case KindResolve:
			if _, err := ParseResolve(e.Body); err != nil {
				return err
			}
			key = "\x00" + string(e.Body)
		default:
			continue
		}
		if len(effects) == 1 {
			return nil
		}
		if seen == nil {
			seen = make(map[string]bool, len(effects))
		}
		if seen[key] {
			return Errorf(Invalid, "effects", "two effects touch the key %q; merge them into one", key)
		}
		seen[key] = true
	}
	return nil
}
