package fsstore

import "encoding/json"

func unmarshalLoose(b []byte, v any) error { return json.Unmarshal(b, v) }
