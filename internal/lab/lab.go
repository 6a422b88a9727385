// Package lab installs and runs the servers that tests need: pinned versions
// below .cache in the repository, free loopback ports, logs kept, every process
// gone at the end. None of it is part of what users link.
//
//	go run ./internal/lab/labctl list
//	go run ./internal/lab/labctl setup [NAME…]
//	go run ./internal/lab/labctl run NAME
package lab

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Server is one kind of test server.
type Server struct {
	Name    string
	Version string
	// About says what it is; Cannot what it cannot prove of the real service.
	About  string
	Cannot string

	// Pins is a folder below internal/lab/pins, copied to the installation before
	// Install runs; its content is part of the installation's identity.
	Pins string
	// Install puts the server into dir. Of one that is on the machine, or not at
	// all, Find gives the place in its stead.
	Install func(ctx context.Context, dir string) error
	Find    func() (string, error)
	// Command is what to run.
	Command func(at Place) (argv, env []string, err error)
	// Ready is an HTTP path whose answer, whatever it is, shows that the server
	// takes requests; empty: a TCP connection does.
	Ready string
}

// Place is where one process runs.
type Place struct {
	Install string // where the server was installed
	Data    string // its data, kept over Restart
	Host    string // 127.0.0.1
	Port    int
}

// Addr is HOST:PORT.
func (p Place) Addr() string { return fmt.Sprintf("%s:%d", p.Host, p.Port) }

// Servers are all that this package knows, by name.
func Servers() []*Server {
	list := []*Server{Dynalite, Fauxqs, FerretDB, GRPCPy, Minidyn, MongoJava, Moto, Rclone, S3rver, SpannerEmulator, Versitygw, ZooKeeper}
	slices.SortFunc(list, func(a, b *Server) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Find returns the server of a name, nil if there is none.
func Find(name string) *Server {
	for _, s := range Servers() {
		if s.Name == name {
			return s
		}
	}
	return nil
}

const module = "module github.com/fencedstore/fencedstore\n"

// Root is the repository, found from the working directory upwards.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(b), module) {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("the working directory is not inside the fencedstore repository")
		}
		dir = up
	}
}

// answers reports whether anything answers at a URL.
func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return true
}

// DataDir is where labctl run keeps a server's data, made if it is not there.
func DataDir(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "lab", "data", name)
	return dir, os.MkdirAll(dir, 0o755)
}
