package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const readyFile = ".ready"

// dir is where s is or will be installed; other pins, another folder.
func (s *Server) dir() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, s.Name, s.Version)
	if s.Pins != "" {
		pins := os.DirFS(filepath.Join(root, "internal", "lab", "pins", s.Pins))
		err := fs.WalkDir(pins, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(pins, p)
			fmt.Fprintf(sum, "%s %d\n%s", p, len(b), b)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return filepath.Join(root, ".cache", "lab", s.Name+"-"+hex.EncodeToString(sum.Sum(nil)[:6])), nil
}

// Installed returns where s is; an error that wraps fs.ErrNotExist says that
// Setup has not been run.
func (s *Server) Installed() (string, error) {
	if s.Find != nil {
		return s.Find()
	}
	dir, err := s.dir()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, readyFile)); err != nil {
		return "", fmt.Errorf("%s %s is not installed: %w", s.Name, s.Version, err)
	}
	return dir, nil
}

// Setup installs s unless it is there. An installation that was cut short is
// begun again.
func (s *Server) Setup(ctx context.Context) error {
	if s.Find != nil {
		_, err := s.Find()
		return err
	}
	if _, err := s.Installed(); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := s.dir()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if s.Pins != "" {
		root, err := Root()
		if err != nil {
			return err
		}
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "internal", "lab", "pins", s.Pins))); err != nil {
			return err
		}
	}
	if err := s.Install(ctx, dir); err != nil {
		return fmt.Errorf("%s %s: %w", s.Name, s.Version, err)
	}
	return os.WriteFile(filepath.Join(dir, readyFile), []byte(s.Version+"\n"), 0o644)
}

// run runs a command in dir; its output is in the error.
func run(ctx context.Context, dir string, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// tries repeats what needs the network: registries now and then do not answer.
func tries(n int, f func() error) (err error) {
	for range n {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

// installPip makes a Python environment with exactly what requirements.txt pins.
func installPip(ctx context.Context, dir string) error {
	if err := run(ctx, dir, nil, "python3", "-m", "venv", "."); err != nil {
		return err
	}
	python := filepath.Join(dir, "bin", "python")
	return tries(2, func() error {
		err := run(ctx, dir, nil, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5", "--timeout", "60", "--no-deps", "-r", "requirements.txt")
		if err != nil {
			return err
		}
		return run(ctx, dir, nil, python, "-m", "pip", "check")
	})
}

// installNpm installs exactly what package-lock.json pins, without running the
// packages' own scripts.
func installNpm(ctx context.Context, dir string) error {
	return tries(3, func() error {
		return run(ctx, dir, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	})
}

// installGo builds packages of the module that lies in the pins.
func installGo(packages ...string) func(ctx context.Context, dir string) error {
	return func(ctx context.Context, dir string) error {
		for _, p := range packages {
			err := tries(2, func() error {
				return run(ctx, dir, []string{"GOFLAGS=-mod=readonly", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0"},
					"go", "build", "-trimpath", "-o", filepath.Join(dir, "bin")+string(filepath.Separator), p)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// installMaven copies the dependencies that pom.xml pins to lib/.
func installMaven(ctx context.Context, dir string) error {
	return tries(3, func() error {
		return run(ctx, dir, nil, "mvn", "-q", "-B", "-f", "pom.xml", "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "lib"))
	})
}
