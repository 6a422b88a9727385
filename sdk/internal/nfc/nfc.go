// Package nfc is being written; this file is replaced in a few minutes.
package nfc

import "unicode/utf8"

// IsNormal reports whether s is valid UTF-8 in NFC.
func IsNormal(s string) bool { return utf8.ValidString(s) }
