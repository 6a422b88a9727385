package sdk

// SchemaPart is one thing that a store must have before it is opened, or that
// an operator sets around it so that writers go through the gate: a table's
// definition, a policy, a grant. Adapters export a function Schema(dsn) that
// returns theirs; `adaptercheck schema` prints them.
type SchemaPart struct {
	Title  string // one line: what it is and for whom
	Format string // how a file of it ends: "sql", "json", "sh", "tf", "js"
	Text   string // names in capitals, such as ACCOUNT, are for the reader to fill in
}
