package lab

import (
	"path/filepath"
	"strconv"
)

// Servers that cannot keep a fence, as targets that certification refuses.
var (
	Rclone = &Server{
		Name: "rclone", Version: "1.76.0",
		About:  "rclone serve s3 (Go module, MIT) over local files: a target that certification refuses",
		Cannot: "anything: it ignores the conditions of a PUT",
		Pins:   "rclone", Install: installGo("."), Ready: "/",
		Command: func(at Place) (argv, env []string, err error) {
			return []string{filepath.Join(at.Install, "bin", "rclone"), "serve", "s3", at.Data, "--addr", at.Addr(), "--auth-key", AccessKey + "," + SecretKey},
				[]string{"RCLONE_CONFIG=" + filepath.Join(at.Data, ".rclone.conf")}, nil
		},
	}
	S3rver = &Server{
		Name: "s3rver", Version: "3.7.1",
		About:  "S3 over files (npm, MIT): a target that certification refuses",
		Cannot: "anything: it ignores the conditions of a PUT",
		Pins:   "npm-s3", Install: installNpm, Ready: "/",
		Command: func(at Place) (argv, env []string, err error) {
			return []string{"node", filepath.Join(at.Install, "s3rver.cjs"), strconv.Itoa(at.Port), at.Data, AccessKey, SecretKey}, nil, nil
		},
	}
	Fauxqs = &Server{
		Name: "fauxqs", Version: "1.9.2",
		About:  "SQS, SNS and S3 in memory (npm, MIT): a target that certification refuses",
		Cannot: "anything: it ignores the conditions of a PUT",
		Pins:   "npm-s3", Install: installNpm, Ready: "/",
		Command: func(at Place) (argv, env []string, err error) {
			return []string{"node", filepath.Join(at.Install, "fauxqs.mjs"), strconv.Itoa(at.Port)}, nil, nil
		},
	}
)
