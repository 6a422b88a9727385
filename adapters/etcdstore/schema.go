package etcdstore

import (
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// Schema returns the user and the role that leave write access to a DSN's prefix
// to the gate alone. Nothing else is needed. INVALID: the DSN does not parse.
func Schema(dsn string) ([]sdk.SchemaPart, error) {
	d, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(`etcdctl role add fencedstore-gate
etcdctl role grant-permission fencedstore-gate --prefix=true readwrite $PREFIX/
etcdctl user add GATE-USER
etcdctl user grant-role GATE-USER fencedstore-gate
etcdctl auth enable
`, "$PREFIX", d.prefix)
	return []sdk.SchemaPart{{Title: "Role and user of the gate; no other role may write below the prefix", Format: "sh", Text: text}}, nil
}
