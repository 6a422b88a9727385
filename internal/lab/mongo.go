package lab

import (
	"context"
	"path/filepath"
	"strconv"
)

// MongoJava is a MongoDB server over one H2 file. Its own main is in the pins: it
// writes the file before every answer, which the library does once a second.
var MongoJava = &Server{
	Name: "mongojava", Version: "1.47.0",
	About:  "mongo-java-server (Maven, BSD-3-Clause) over an H2 file that is synced before every answer",
	Cannot: "transactions, read and write concerns, failover, permissions: it is one node that knows of none of them",
	Pins:   "mongojava", Install: installMongoJava,
	Command: func(at Place) (argv, env []string, err error) {
		path := filepath.Join(at.Install, "classes") + string(filepath.ListSeparator) + filepath.Join(at.Install, "lib", "*")
		return []string{"java", "-Xmx512m", "-cp", path, "Serve", at.Host, strconv.Itoa(at.Port), filepath.Join(at.Data, "mongo.mv.db")}, nil, nil
	},
}

// FerretDB is FerretDB over SQLite files. It loses concurrent conditional
// updates: as it comes, certification refuses it; behind mongowire's proxy, one
// command at a time, it is a second implementation of the protocol.
var FerretDB = &Server{
	Name: "ferretdb", Version: "1.24.2",
	About:  "FerretDB (Go module, Apache-2.0) over SQLite files; as it comes a target that certification refuses",
	Cannot: "concurrency, transactions, read and write concerns, failover, permissions",
	Pins:   "ferretdb", Install: installGo("."),
	Command: func(at Place) (argv, env []string, err error) {
		return []string{filepath.Join(at.Install, "bin", "ferretdb"), at.Addr(), at.Data}, nil, nil
	},
}

func installMongoJava(ctx context.Context, dir string) error {
	if err := installMaven(ctx, dir); err != nil {
		return err
	}
	return run(ctx, dir, nil, "javac", "-cp", filepath.Join(dir, "lib", "*"), "-d", filepath.Join(dir, "classes"), "Serve.java")
}
