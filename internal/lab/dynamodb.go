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

// Minidyn is a target that certification refuses.
var Minidyn = &Server{
	Name: "minidyn", Version: "0.8.2",
	About:  "DynamoDB in memory (Go module, MIT): a target that certification refuses",
	Cannot: "anything: it keeps numbers as floating point",
	Pins:   "minidyn", Install: installGo("."), Ready: "/",
	Command: func(at Place) (argv, env []string, err error) {
		return []string{filepath.Join(at.Install, "bin", "minidyn"), at.Addr()}, nil, nil
	},
}
