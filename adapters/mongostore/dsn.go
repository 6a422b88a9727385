package mongostore

import (
	"net/url"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// Schemes of DSNs; everything after them is a MongoDB URI.
const (
	Scheme    = "mongodb://"
	SchemeSRV = "mongodb+srv://"
)

type dsn struct {
	uri                          string // without our options
	database, collection, layout string
	environment                  sdk.Environment
	secret                       bool // it holds credentials
}

// parseDSN takes our options out of a URI. It is not parsed as a URL: a list of
// hosts is none. Errors do not repeat it, since it may hold a password.
func parseDSN(s string) (dsn, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "mongodb" && scheme != "mongodb+srv" {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "it is not mongodb://HOST/DB?collection=NAME")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, database, _ := strings.Cut(rest, "/")
	d := dsn{database: database, secret: strings.Contains(hosts, "@")}
	if hosts == "" || database == "" {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "hosts or database are missing: mongodb://HOST/DB?collection=NAME")
	}
	var theirs []string
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		to, ours := map[string]*string{"collection": &d.collection, "layout": &d.layout, "environment": (*string)(&d.environment)}[name]
		if !ours {
			theirs = append(theirs, pair)
			continue
		}
		v, err := url.QueryUnescape(value)
		if err != nil || v == "" || seen[name] {
			return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "option %s is empty, given twice or badly escaped", name)
		}
		*to, seen[name] = v, true
	}
	if d.collection == "" {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "option collection is missing: the store has a collection of its own")
	}
	if d.environment != "" && d.environment != sdk.Emulator && d.environment != sdk.Live {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "option environment=%s is not emulator or live", d.environment)
	}
	d.uri = scheme + "://" + hosts + "/" + database
	if len(theirs) > 0 {
		d.uri += "?" + strings.Join(theirs, "&")
	}
	return d, checkNames(d.database, d.collection)
}
