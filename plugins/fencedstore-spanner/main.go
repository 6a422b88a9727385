// Command fencedstore-spanner is the adapter spannerstore as a plug-in.
package main

import (
	"github.com/fencedstore/fencedstore/adapters/spannerstore"
	"github.com/fencedstore/fencedstore/plugins"
)

func main() { plugins.Serve(spannerstore.Open) }
