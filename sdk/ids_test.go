package sdk_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

func errorsIs(err, target error) bool { return errors.Is(err, target) }

func sentinelOf(c sdk.Code) error { return errors.Unwrap(onlyCode{c}) }

type onlyCode struct{ c sdk.Code }

func (o onlyCode) Error() string { return o.c.String() }
func (o onlyCode) Unwrap() error { return (&sdk.Error{Code: o.c}).Unwrap()[0] }

func TestResourceID(t *testing.T) {
	good := []string{
		"a", "a/b", "invoice-batch/2026-07-19", "café/\ufffd", "...", "a/..b", "~", "a b", "_", "A/a", "日本/語",
		strings.Repeat("x", 512), "a:b@c!$&'()*+,=[]{}<>|\"^`",
	}
	for _, s := range good {
		if _, err := sdk.ParseResourceID(s); err != nil {
			t.Errorf("%+q: %v", s, err)
		}
	}
	bad := []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a/..", "a%2Fb", "a%252Fb", "acct/x/%2E%2E/a/b", "acct/a/b%3Bv=1",
		"a\\b", "a?b", "a#b", "a;v=1", "a\x00b", "a\nb", "a\x7fb", "a\u0085b", "cafe\u0301", "\u212a", "\u212b",
		"\xff", "a\xc3", strings.Repeat("x", 513),
	}
	for _, s := range bad {
		_, err := sdk.ParseResourceID(s)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.Invalid || e.Field != "resource" || e.Msg == "" {
			t.Errorf("%+q: %v, want INVALID that names the field", s, err)
		}
	}
}

func FuzzResourceID(f *testing.F) {
	f.Add("a/b")
	f.Add("cafe\u0301/..")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := sdk.ParseResourceID(s); err != nil {
			return
		}
		for seg := range strings.SplitSeq(s, "/") {
			if seg == "" || seg == "." || seg == ".." || strings.ContainsAny(seg, "%\\?#;\x00\n") {
				t.Errorf("accepted %+q", s)
			}
		}
	})
}

func TestParseToken(t *testing.T) {
	for s, want := range map[string]sdk.Token{
		"1": 1, "10": 10, "9007199254740993": 1<<53 + 1, "9223372036854775807": sdk.MaxToken,
	} {
		if got, err := sdk.ParseToken(s); err != nil || got != want || got.String() != s {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", "1.0", "1e3", " 1", "1 ", "9223372036854775808",
		"18446744073709551616", "99999999999999999999999", "0x1", "1_0", "١"} {
		if got, err := sdk.ParseToken(s); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
}

func TestParseDigest(t *testing.T) {
	d := sdk.SumDigest([]byte("x"))
	if got, err := sdk.ParseDigest(d.String()); err != nil || got != d {
		t.Errorf("%v %v", got, err)
	}
	hexa := strings.TrimPrefix(d.String(), "sha256:")
	for _, s := range []string{"", hexa, "sha256:" + strings.ToUpper(hexa), "SHA256:" + hexa, "sha256:" + hexa[1:], "sha256:" + hexa + "0",
		"sha256:" + strings.Repeat("g", 64), "sha256:" + strings.Repeat("0", 64), "sha512:" + hexa} {
		if _, err := sdk.ParseDigest(s); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
	var zero sdk.Digest
	if b, err := zero.MarshalText(); err != nil || len(b) != 0 {
		t.Errorf("zero digest marshals as %q %v", b, err)
	}
}

func TestNames(t *testing.T) {
	for _, s := range []string{"x", strings.Repeat("x", 256), "é", "a b", "cafe\u0301"} {
		if err := sdk.OperationID(s).Validate(); err != nil {
			t.Errorf("%+q: %v", s, err)
		}
	}
	for _, s := range []string{"", strings.Repeat("x", 257), "a\nb", "\xff", "a\x00"} {
		if err := sdk.OperationID(s).Validate(); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%+q: %v", s, err)
		}
	}
	if !sdk.ClaimID(sdk.SumDigest(nil)).Reserved() || sdk.OperationID("fencedstore").Reserved() {
		t.Error("reserved is the prefix with the dot")
	}
}

func TestCodes(t *testing.T) {
	codes := sdk.Codes()
	if len(codes) != 23 {
		t.Fatalf("%d codes", len(codes))
	}
	for i, c := range codes {
		if int(c) != i+1 {
			t.Errorf("%v is %d: codes are numbered without gaps", c, c)
		}
		if back, err := sdk.ParseCode(c.String()); err != nil || back != c {
			t.Errorf("%v: %v %v", c, back, err)
		}
		if c.Ok() {
			continue
		}
		err := error(&sdk.Error{Code: c, Err: errors.New("cause")})
		if !errors.Is(err, sentinelOf(c)) || sdk.CodeOf(err) != c {
			t.Errorf("%v does not survive errors.Is or CodeOf", c)
		}
		if got := sdk.WriteCode(err); got != c {
			t.Errorf("WriteCode(%v) = %v", c, got)
		}
		for _, other := range codes {
			if other != c && !other.Ok() && errors.Is(err, sentinelOf(other)) {
				t.Errorf("%v matches %v", c, other)
			}
		}
	}
	for _, err := range []error{errors.New("x"), &sdk.Error{Code: 999}, &sdk.Error{}, &sdk.Error{Code: sdk.Accepted}} {
		if got := sdk.WriteCode(err); got != sdk.MutationUnknown {
			t.Errorf("WriteCode(%v) = %v, want MUTATION_UNKNOWN", err, got)
		}
	}
	if sdk.WriteCode(nil) != 0 || sdk.CodeOf(nil) != 0 {
		t.Error("nil has no code")
	}
	if got := sdk.Code(999).String(); got != "CODE_999" {
		t.Errorf("unknown code prints %q", got)
	}
}
