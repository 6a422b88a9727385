package grant

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal reads strict JSON into v: one value, every field known, written once
// and in its own case, all text good UTF-8. MALFORMED names the field by its
// path, such as issuers[0].keys[1].epoch; empty for the whole. A field that is
// missing or null is left at its zero value.
func Unmarshal(b []byte, v any) error {
	err := json.Unmarshal(b, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	var form *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return malformed(path(syntax.JSONPointer), "written twice; write it once")
	case errors.As(err, &syntax):
		return malformed(path(syntax.JSONPointer), "byte %d: not one JSON value in UTF-8", syntax.ByteOffset)
	case errors.As(err, &form) && errors.Is(err, json.ErrUnknownName):
		return malformed(path(form.JSONPointer), "not a field of this form; take it out, or look at its spelling and case")
	case errors.As(err, &form) && form.JSONKind == '0':
		return malformed(path(form.JSONPointer), "a JSON number; integers are decimal strings, in quotes")
	case errors.As(err, &form):
		return malformed(path(form.JSONPointer), "another kind of JSON value than the form has here")
	}
	return malformed("", "cannot be read as JSON")
}

// path writes a JSON pointer as people write fields. Names come from hostile
// input: long and odd ones are cut and quoted, so that none reaches a terminal.
func path(p jsontext.Pointer) string {
	var b strings.Builder
	for name := range p.Tokens() {
		if b.Len() > 0 && name != "" && strings.Trim(name, "0123456789") == "" {
			b.WriteString("[" + clip(name) + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if plain(name) {
			b.WriteString(name)
		} else {
			b.WriteString(strconv.QuoteToASCII(clip(name)))
		}
		if b.Len() > 200 {
			break
		}
	}
	return b.String()
}

func plain(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= maxClip
}

const maxClip = 40

// clip keeps hostile input short in messages.
func clip(s string) string {
	if len(s) > maxClip {
		return s[:maxClip] + "…"
	}
	return s
}
