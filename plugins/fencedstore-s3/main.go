// Command fencedstore-s3 is the adapter s3store as a plug-in.
package main

import (
	"github.com/fencedstore/fencedstore/adapters/s3store"
	"github.com/fencedstore/fencedstore/plugins"
)

func main() { plugins.Serve(s3store.Open) }
