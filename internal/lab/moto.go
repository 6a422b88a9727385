package lab

import "path/filepath"

// Moto is a stand-in for AWS, served one request at a time: its own threads lose
// transactions. One small table per test: its cost grows with the table.
var Moto = &Server{
	Name: "moto", Version: "5.2.5",
	About:  "AWS in Python (PyPI, Apache-2.0), one request at a time: DynamoDB with transactions, S3",
	Cannot: "concurrency, ClientRequestToken, TransactionConflict, durability, permissions",
	Pins:   "moto", Install: installPip, Ready: "/moto-api/",
	Command: func(at Place) (argv, env []string, err error) { return motoCommand(at, "one-by-one"), nil, nil },
}

// MotoThreads is the same with threads of its own, which certification refuses.
var MotoThreads = &Server{
	Name: Moto.Name, Version: Moto.Version,
	About:  "moto as it comes, deciding requests side by side: a target that certification refuses",
	Cannot: Moto.Cannot, Pins: Moto.Pins, Install: installPip, Ready: Moto.Ready,
	Command: func(at Place) (argv, env []string, err error) { return motoCommand(at, "threads"), nil, nil },
}

func motoCommand(at Place, how string) []string {
	return []string{filepath.Join(at.Install, "bin", "python"), filepath.Join(at.Install, "serve.py"), at.Addr(), how}
}
