// Command fencedstore-etcd is the adapter etcdstore as a plug-in.
package main

import (
	"github.com/fencedstore/fencedstore/adapters/etcdstore"
	"github.com/fencedstore/fencedstore/plugins"
)

func main() { plugins.Serve(etcdstore.Open) }
