package lab

import (
	"path/filepath"
	"strconv"
)

// Dynalite is a stand-in for DynamoDB without transactions: for stores that move
// one item at a time.
var Dynalite = &Server{
	Name: "dynalite", Version: "4.0.0",
	About:  "DynamoDB over LevelDB (npm, Apache-2.0), durable, strict about numbers and sizes",
	Cannot: "transactions, the old item on a failed condition, TransactionConflict, permissions, replicas",
	Pins:   "npm-dynamodb", Install: installNpm, Ready: "/",
	Command: func(at Place) (argv, env []string, err error) {
		return []string{"node", filepath.Join(at.Install, "dynalite.cjs"), at.Host, strconv.Itoa(at.Port), at.Data}, nil, nil
	},
}
