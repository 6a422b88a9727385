package s3store

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

// writerDSN makes the test binary a writer that the suite kills.
const writerDSN = "FENCEDSTORE_TEST_WRITER"

func TestMain(m *testing.M) {
	dsn := os.Getenv(writerDSN)
	if dsn == "" {
		os.Exit(m.Run())
	}
	s, err := Open(context.Background(), dsn, sdk.OpenOptions{})
	if err == nil {
		err = conformance.ServeWriter(context.Background(), s, os.Stdin, os.Stdout)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// certify runs the suite on a server, with writers that are really killed and
// heads that are really removed.
func certify(t *testing.T, s *server, name string, key func(sdk.ResourceID) string, match *regexp.Regexp) {
	conformance.Run(t, conformance.Harness{Name: name, Network: true,
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
			return Open(ctx, s.dsn("suite"), o)
		},
		Spawn: func(context.Context) (*exec.Cmd, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerDSN+"="+s.dsn("suite"))
			return cmd, nil
		},
		Damage: func(ctx context.Context, r sdk.ResourceID) error { return s.remove(ctx, key(r)) },
	}, &conformance.Options{Profile: conformance.Quick, Schedules: 50, Match: match})
}

func headKey(r sdk.ResourceID) string { return "suite/" + cas.HeadName("main", r) }

func objectKey(r sdk.ResourceID) string { return "team/" + string(r) }

func TestConformance(t *testing.T) {
	certify(t, newServer(t), "s3 on gofakes3", headKey, lab.Cases())
}

func TestConformanceVersitygw(t *testing.T) {
	s, _ := realServer(t, lab.Versitygw)
	certify(t, s, "s3 on versitygw", headKey, lab.Cases())
}

func TestConformanceMoto(t *testing.T) {
	s, _ := realServer(t, lab.Moto)
	certify(t, s, "s3 on moto", headKey, lab.SlowServerCases())
}

// fileNames leaves out the two cases whose resources cannot be files on a POSIX
// file system: one is the other's folder (apart/key-does-not-cross), or a name
// has more than 255 bytes (apart/awkward-names). moto plays both.
var fileNames = regexp.MustCompile(`^([b-z]|at)|^apart/([b-jl-z]|a[^w])`)

func TestConformanceObjectVersitygw(t *testing.T) {
	s, _ := realServer(t, lab.Versitygw)
	s.layout = objectLayout
	match := fileNames
	if testing.Short() {
		match = lab.Cases()
	}
	certify(t, s, "s3 object on versitygw", objectKey, match)
}

func TestConformanceObjectMoto(t *testing.T) {
	s, _ := realServer(t, lab.Moto)
	s.layout = "&layout=object&objects=team/&unique=gzip"
	certify(t, s, "s3 object on moto", objectKey, lab.SlowServerCases())
}
