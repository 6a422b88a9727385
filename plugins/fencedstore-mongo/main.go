// Command fencedstore-mongo is the adapter mongostore as a plug-in.
package main

import (
	"github.com/fencedstore/fencedstore/adapters/mongostore"
	"github.com/fencedstore/fencedstore/plugins"
)

func main() { plugins.Serve(mongostore.Open) }
