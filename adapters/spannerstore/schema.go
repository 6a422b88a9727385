package spannerstore

import (
	"context"
	"strings"

	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"github.com/fencedstore/fencedstore/sdk"
)

// tablePrefix begins the name of every table of ours, in any case of letters.
const tablePrefix = "Fencedstore"

const (
	metaTable       = tablePrefix + "Meta"
	recordTable     = tablePrefix + "Record"
	valueTable      = tablePrefix + "Value"
	quarantineTable = tablePrefix + "Quarantine"
	droppedTable    = tablePrefix + "Dropped"
	probeTable      = tablePrefix + "Probe"
)

var tables = []string{metaTable, recordTable, valueTable, quarantineTable, droppedTable, probeTable}

// DDL returns the statements that make the tables of the store, in order.
func DDL() []string {
	return []string{
		`CREATE TABLE FencedstoreMeta (
  Name STRING(64) NOT NULL,
  Value STRING(256) NOT NULL,
) PRIMARY KEY (Name)`,
		// One row for the fence of a resource, one for the marker that there is one,
		// one for each receipt: a single read by three keys sees all that a verdict
		// needs. Every row is checked again when it is read; the constraints are for
		// what writes past the store.
		`CREATE TABLE FencedstoreRecord (
  Namespace STRING(80) NOT NULL,
  Resource STRING(512) NOT NULL,
  Kind STRING(8) NOT NULL,
  Operation STRING(256) NOT NULL,
  Fence INT64,
  Segment INT64,
  Root BYTES(32),
  GrantDigest BYTES(32),
  PolicyGeneration INT64,
  TrustGeneration INT64,
  Payload BYTES(32),
  Owner STRING(256),
  TimeMillis INT64,
  Result BYTES(65536),
  CONSTRAINT FencedstoreRecordKind CHECK (Kind IN ('fence', 'marker', 'receipt')),
  CONSTRAINT FencedstoreRecordRange CHECK (Kind = 'marker' OR (Fence >= 1 AND Segment >= 1)),
) PRIMARY KEY (Namespace, Resource, Kind, Operation)`,
		`CREATE TABLE FencedstoreValue (
  Namespace STRING(80) NOT NULL,
  Resource STRING(512) NOT NULL,
  ItemKey STRING(512) NOT NULL,
  Value BYTES(MAX) NOT NULL,
) PRIMARY KEY (Namespace, Resource, ItemKey)`,
		`CREATE TABLE FencedstoreQuarantine (
  Namespace STRING(80) NOT NULL,
  Resource STRING(512) NOT NULL,
  Fence INT64 NOT NULL,
  Segment INT64 NOT NULL,
  Operation STRING(256) NOT NULL,
  Payload BYTES(32) NOT NULL,
  GrantDigest BYTES(32) NOT NULL,
  Owner STRING(256) NOT NULL,
  TimeMillis INT64 NOT NULL,
  ResolvedBy STRING(256) NOT NULL,
) PRIMARY KEY (Namespace, Resource, Fence, Segment, Operation, Payload)`,
		`CREATE TABLE FencedstoreDropped (
  Namespace STRING(80) NOT NULL,
  Resource STRING(512) NOT NULL,
  Records INT64 NOT NULL,
) PRIMARY KEY (Namespace, Resource)`,
		`CREATE TABLE FencedstoreProbe (
  Name STRING(64) NOT NULL,
  Number INT64 NOT NULL,
) PRIMARY KEY (Name)`,
	}
}

// Schema returns the tables of a store and the roles around it. INVALID: the DSN
// does not parse.
func Schema(s string) ([]sdk.SchemaPart, error) {
	d, err := parseDSN(s)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(d.database, "/")
	shell := "gcloud spanner databases ddl update " + parts[5] + " --project=" + parts[1] + " --instance=" + parts[3] + " --ddl-file=fencedstore.sql\n"
	return []sdk.SchemaPart{
		{Title: "Tables; save as fencedstore.sql. None may have a row deletion policy.", Format: "sql", Text: strings.Join(DDL(), ";\n\n") + ";\n"},
		{Title: "Made in the database", Format: "sh", Text: shell},
		{Title: "Roles: the gate's may write, the workers' may only read. Enforcement begins when no other role has more.", Format: "sql", Text: `CREATE ROLE FencedstoreGate;
GRANT SELECT, INSERT, UPDATE ON TABLE ` + strings.Join(tables, ", ") + ` TO ROLE FencedstoreGate;
GRANT DELETE ON TABLE ` + valueTable + `, ` + probeTable + ` TO ROLE FencedstoreGate;
CREATE ROLE FencedstoreReader;
GRANT SELECT ON TABLE ` + strings.Join(tables, ", ") + ` TO ROLE FencedstoreReader;
`},
	}, nil
}

// CreateSchema makes the tables in the database of a DSN, which must be there;
// tables that are there already stay as they are. Answers as Open.
func CreateSchema(ctx context.Context, s string, opts sdk.OpenOptions) error {
	d, err := parseDSN(s)
	if err != nil {
		return err
	}
	admin, err := database.NewDatabaseAdminClient(ctx, d.clientOptions(opts)...)
	if err != nil {
		return sdk.Errorf(sdk.NotApplied, "Spanner", "%w", err)
	}
	defer admin.Close()
	have, err := admin.GetDatabaseDdl(ctx, &databasepb.GetDatabaseDdlRequest{Database: d.database})
	if err != nil {
		return readError(err)
	}
	var missing []string
	for i, statement := range DDL() {
		if !hasTable(have.GetStatements(), tables[i]) {
			missing = append(missing, statement)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	op, err := admin.UpdateDatabaseDdl(ctx, &databasepb.UpdateDatabaseDdlRequest{Database: d.database, Statements: missing})
	if err == nil {
		err = op.Wait(ctx)
	}
	if err != nil {
		return sdk.Errorf(sdk.NotApplied, "tables", "they could not be made: %w", err)
	}
	return nil
}

func hasTable(ddl []string, name string) bool {
	for _, s := range ddl {
		if strings.HasPrefix(s, "CREATE TABLE "+name+" ") {
			return true
		}
	}
	return false
}
