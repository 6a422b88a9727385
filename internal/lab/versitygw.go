package lab

import (
	"os"
	"path/filepath"
)

// Versitygw is an S3 server over a folder of files, which survives kill -9 and
// checks signatures. Key and secret are in its environment.
var Versitygw = &Server{
	Name: "versitygw", Version: "1.8.0",
	About:  "S3 over files (Go module, Apache-2.0): durable, checks signatures",
	Cannot: "409 ConditionalRequestConflict, conditional DELETE, lifecycle rules, several endpoints of one bucket",
	Pins:   "versitygw", Install: installGo("github.com/versity/versitygw/cmd/versitygw"), Ready: "/",
	Command: func(at Place) (argv, env []string, err error) {
		data := filepath.Join(at.Data, "buckets")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, nil, err
		}
		return []string{filepath.Join(at.Install, "bin", "versitygw"), "--port", at.Addr(), "--quiet", "posix", data},
			[]string{"ROOT_ACCESS_KEY=" + AccessKey, "ROOT_SECRET_KEY=" + SecretKey}, nil
	},
}

// AccessKey and SecretKey are what the lab's servers take; they open nothing
// else.
const (
	AccessKey = "lab"
	SecretKey = "lab-secret"
)
