// Command fencedstore-dynamodb is the adapter dynamodbstore as a plug-in.
package main

import (
	"github.com/fencedstore/fencedstore/adapters/dynamodbstore"
	"github.com/fencedstore/fencedstore/plugins"
)

func main() { plugins.Serve(dynamodbstore.Open) }
