package mongostore

import (
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// Schema returns the collection of a DSN and the roles around it, for mongosh.
// The collection needs no index but the one on _id; Open makes it. INVALID: the
// DSN does not parse.
func Schema(s string) ([]sdk.SchemaPart, error) {
	d, err := parseDSN(s)
	if err != nil {
		return nil, err
	}
	r := strings.NewReplacer("$DB", d.database, "$COLLECTION", d.collection)
	return []sdk.SchemaPart{
		{Title: "The collection: no TTL index, cap, collation or validator; the index on _id is enough", Format: "js",
			Text: r.Replace("use(\"$DB\")\ndb.createCollection(\"$COLLECTION\")\n")},
		{Title: "The gate's role", Format: "js", Text: r.Replace(`use("$DB")
db.createRole({role: "fencedstoreGate", roles: [], privileges: [
  {resource: {db: "$DB", collection: "$COLLECTION"}, actions: ["find", "insert", "update", "remove", "listIndexes"]},
  {resource: {db: "$DB", collection: ""}, actions: ["listCollections"]}]})
`)},
		{Title: "The workers' role: they read, and write neither here nor where the gate writes. Enforcement begins when they have no other.", Format: "js", Text: r.Replace(`use("$DB")
db.createRole({role: "fencedstoreWorker", roles: [], privileges: [
  {resource: {db: "$DB", collection: "$COLLECTION"}, actions: ["find"]}]})
`)},
	}, nil
}
