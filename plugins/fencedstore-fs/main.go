// Command fencedstore-fs is the adapter fsstore as a plug-in.
package main

import (
	"github.com/fencedstore/fencedstore/adapters/fsstore"
	"github.com/fencedstore/fencedstore/plugins"
)

func main() { plugins.Serve(fsstore.Open) }
