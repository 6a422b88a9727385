package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// SpannerEmulatorVariable names the emulator's binary where it is not beside
// gcloud.
const SpannerEmulatorVariable = "FENCEDSTORE_SPANNER_EMULATOR"

// SpannerEmulator is Google's, a binary that no package registry for programs
// has; it is looked for in the variable, beside gcloud, and in PATH.
var SpannerEmulator = &Server{
	Name: "spanner", Version: "as installed",
	About:  "Google's Spanner emulator (Debian package google-cloud-cli-spanner-emulator, Apache-2.0)",
	Cannot: "concurrency (one transaction at a time), durability, permissions, mutation limits, lost commits",
	Find:   findSpannerEmulator,
	Command: func(at Place) (argv, env []string, err error) {
		return []string{at.Install, "--host_port=" + at.Addr(), "--abort_current_transaction_probability=100"}, nil, nil
	},
}

func findSpannerEmulator() (string, error) {
	if path := os.Getenv(SpannerEmulatorVariable); path != "" {
		_, err := os.Stat(path)
		return path, err
	}
	const name = "emulator_main"
	if gcloud, err := exec.LookPath("gcloud"); err == nil {
		if gcloud, err = filepath.EvalSymlinks(gcloud); err == nil {
			path := filepath.Join(filepath.Dir(gcloud), "cloud_spanner_emulator", name)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%s is not beside gcloud, not in PATH and not named by %s (apt-get install google-cloud-cli-spanner-emulator): %w", name, SpannerEmulatorVariable, fs.ErrNotExist)
	}
	return path, err
}
