package sqlitestore

import "github.com/fencedstore/fencedstore/sdk"

// Schema returns the tables and triggers that Open makes in the file of a DSN,
// and what a file needs of the machine. INVALID: the DSN does not parse.
func Schema(dsn string) ([]sdk.SchemaPart, error) {
	if _, err := parseDSN(dsn); err != nil {
		return nil, err
	}
	var out []sdk.SchemaPart
	for _, m := range migrations {
		out = append(out, sdk.SchemaPart{Title: "Tables and triggers; Open makes them in a new file", Format: "sql", Text: m[1:]})
	}
	return append(out, sdk.SchemaPart{Title: "Permissions: only the gate's user may write the file", Format: "sh",
		Text: "chown GATE-USER: DATABASE DATABASE-wal DATABASE-shm\nchmod 0600 DATABASE DATABASE-wal DATABASE-shm\n"}), nil
}
