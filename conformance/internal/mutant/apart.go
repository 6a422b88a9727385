package mutant

import (
	"hash/fnv"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// kept keeps resources under other names.
func kept(name func(resource string) string) func(*flaws) {
	return func(f *flaws) {
		f.key = func(ns, r string) string { return ns + "\x00" + name(r) }
	}
}

func isolation() []Mutant {
	const held = "another resource is held up only while caller's code stands still in a transaction"
	return []Mutant{
		{Name: "one-lock", Law: sdk.F12, Story: "one table lock: a slow transaction of one resource holds up reads and writes of all", Concurrent: held,
			bend: func(f *flaws) {
				f.extra = func(d *data, _ sdk.ResourceID, _ bool) chan struct{} { return d.locks[0] }
			}},
		{Name: "one-writer-undeclared", Law: sdk.F12, Story: "writers wait for one another, and the store declares that they do not", Concurrent: held,
			bend: func(f *flaws) {
				f.extra = func(d *data, _ sdk.ResourceID, write bool) chan struct{} {
					if write {
						return d.locks[0]
					}
					return nil
				}
			}},
		{Name: "striped-locks", Law: sdk.F12, Story: "locks are striped by hash, so that some resources wait for strangers", Concurrent: held,
			bend: func(f *flaws) {
				f.extra = func(d *data, r sdk.ResourceID, _ bool) chan struct{} {
					h := fnv.New32a()
					h.Write([]byte(r))
					return d.locks[h.Sum32()%uint32(len(d.locks))]
				}
			}},
		{Name: "receipts-shared", Law: sdk.F12, Story: "receipts are keyed by the operation alone, so that two resources share them",
			bend: func(f *flaws) { f.receiptName = func(_, op string) string { return op } }},
		{Name: "receipt-key-concatenated", Law: sdk.F12, Story: "the receipt's key is resource, slash, operation: a and b/c is a/b and c",
			bend: func(f *flaws) { f.receiptName = func(r, op string) string { return r + "/" + op } }},
		{Name: "value-key-concatenated", Law: sdk.F12, Story: "the value's key is resource, slash, key: a and b/c is a/b and c",
			bend: func(f *flaws) { f.valueName = func(r, key string) string { return r + "/" + key } }},
		{Name: "values-shared", Law: sdk.F12, Story: "keys are not inside the resource, so that two resources write one value",
			bend: func(f *flaws) { f.valueName = func(_, key string) string { return key } }},
		{Name: "namespaces-mixed", Law: sdk.F12, Story: "the namespace is not in the key, so that shadow mode moves the enforced fence",
			bend: func(f *flaws) {
				f.key = func(_, r string) string { return sdk.DefaultNamespace + "\x00" + r }
			}},
		{Name: "namespaces-all-taken", Law: sdk.F12, Story: "each opening chooses its namespace, so that one resource gets two fences",
			bend: func(f *flaws) { f.anyNamespace = true }},
		{Name: "damage-spreads", Law: sdk.F12, Story: "one resource without its fence stops the whole store",
			bend: func(f *flaws) {
				f.answer = func(s *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
					if out.Code == sdk.FenceRegression && out.Observed.Absent() {
						s.memo.Store("stopped", err)
					}
					if stopped, ok := s.memo.Load("stopped"); ok {
						e := stopped.(error)
						return sdk.Refusal(e), e
					}
					return out, err
				}
			}},
	}
}

func names() []Mutant {
	fold := func(s string) string {
		return strings.NewReplacer("é", "e", "è", "e", "É", "E").Replace(s)
	}
	firstBytes := func(n int) func(string) string {
		return func(s string) string { return s[:min(len(s), n)] }
	}
	return []Mutant{
		{Name: "case-folded", Law: sdk.F12, Story: "a case-insensitive collation or file system", bend: kept(strings.ToLower)},
		{Name: "accents-folded", Law: sdk.F12, Story: "a collation that compares base letters (C91)", bend: kept(fold)},
		{Name: "names-padded", Law: sdk.F12, Story: "a PAD SPACE collation: trailing spaces do not count",
			bend: kept(func(r string) string { return strings.TrimRight(r, " ") })},
		{Name: "names-trimmed-of-dots", Law: sdk.F12, Story: "a file system that drops dots at the end of names",
			bend: kept(func(r string) string { return strings.TrimRight(r, ".") })},
		{Name: "names-truncated", Law: sdk.F12, Story: "a key column of 255 bytes", bend: kept(firstBytes(255))},
		{Name: "slashes-lost", Law: sdk.F12, Story: "the separator is replaced when a key or file name is made",
			bend: kept(func(r string) string { return strings.ReplaceAll(r, "/", "_") })},
		{Name: "odd-characters-lost", Law: sdk.F12, Story: "what a file name cannot hold becomes an underscore",
			bend: kept(func(r string) string {
				return strings.Map(func(c rune) rune {
					if strings.ContainsRune(`<>:"|*`, c) {
						return '_'
					}
					return c
				}, r)
			})},
		{Name: "prefix-shared", Law: sdk.F12, Story: "a look-up by prefix: a/b/c finds a/b",
			bend: kept(func(r string) string {
				parts := strings.SplitN(r, "/", 4)
				return strings.Join(parts[:min(len(parts), 3)], "/")
			})},
		{Name: "last-segment-only", Law: sdk.F12, Story: "two tenants' local IDs share a fence: the tenant is not in the key (C88)",
			bend: kept(func(r string) string { return r[strings.LastIndex(r, "/")+1:] })},
		{Name: "operations-case-folded", Law: sdk.F12, Story: "operation IDs lie in a column with a case-insensitive collation",
			bend: func(f *flaws) {
				f.receiptName = func(r, op string) string { return r + "\x00" + strings.ToLower(op) }
			}},
		{Name: "operations-truncated", Law: sdk.F12, Story: "a column of 128 bytes for the operation ID",
			bend: func(f *flaws) {
				f.receiptName = func(r, op string) string { return r + "\x00" + firstBytes(128)(op) }
			}},
		{Name: "keys-case-folded", Law: sdk.F12, Story: "keys lie in a column with a case-insensitive collation",
			bend: func(f *flaws) {
				f.valueName = func(r, key string) string { return r + "\x00" + strings.ToLower(key) }
			}},
		{Name: "keys-truncated", Law: sdk.F12, Story: "a column of 255 bytes for the key",
			bend: func(f *flaws) {
				f.valueName = func(r, key string) string { return r + "\x00" + firstBytes(255)(key) }
			}},
		{Name: "keys-cleaned", Law: sdk.F12, Story: "keys are paths, and are cleaned: //a is a",
			bend: func(f *flaws) {
				f.valueName = func(r, key string) string { return r + "\x00" + strings.Trim(key, "/") }
			}},
	}
}
