// Command fencedstore-sqlite is the adapter sqlitestore as a plug-in.
package main

import (
	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/plugins"
)

func main() { plugins.Serve(sqlitestore.Open) }
