package dynamodbstore

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
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

// python is the interpreter that has moto: .cache/moto, as `make servers` sets it
// up. In CI its absence fails the run.
func python(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../.cache/moto/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if os.Getenv("FENCEDSTORE_SERVERS_REQUIRED") != "" {
			t.Fatal("moto is not there; run: make servers")
		}
		t.Skip("moto, the DynamoDB stand-in, is not there; to have it: make servers")
	}
	return path
}

// server is moto behind a proxy that a test may bend.
type server struct {
	*httptest.Server
	table  string
	client *dynamodb.Client

	mu    sync.Mutex
	bend  func(w http.ResponseWriter, r *http.Request, op string, next http.Handler)
	calls map[string]int
}

func start(t testing.TB) *server {
	t.Helper()
	cmd := exec.Command(python(t), "testdata/serve_moto.py")
	cmd.Stderr = io.Discard
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("moto did not start: %v", err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("moto said %q", line)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	s := &server{table: "fences", calls: map[string]int{}}
	next := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)})
	next.ErrorLog = nil
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		s.mu.Lock()
		s.calls[op]++
		bend := s.bend
		s.mu.Unlock()
		if bend != nil {
			bend(w, r, op, next)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	s.client = dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err := CreateTable(t.Context(), s.client, s.table); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) set(bend func(w http.ResponseWriter, r *http.Request, op string, next http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bend = bend
}

func (s *server) count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op != "" {
		return s.calls[op]
	}
	n := 0
	for _, c := range s.calls {
		n += c
	}
	return n
}

func (s *server) dsn() string {
	return Scheme + s.table + "?region=us-east-1&environment=emulator&quarantine=20&endpoint=" + url.QueryEscape(s.URL)
}

// wholeSuite asks for every case; moto takes some ten minutes for it, most of it
// for the verdict table and the races.
const wholeSuite = "FENCEDSTORE_WHOLE_SUITE"

var quickCases = regexp.MustCompile(`^(contract|fence|claim|replay|exact|echo|wire|honest|monotonic|linearizable)/|^conflict/(position|operation|same|resolve)|^once/(next|new|across)|^atomic/(all|bad|native)|^apart/(native|key|shadow)`)

func TestConformance(t *testing.T) {
	s := start(t)
	match := quickCases
	if os.Getenv(wholeSuite) != "" {
		match = nil
	}
	scope := func(_ sdk.ResourceID, e sdk.Effect) error {
		w, err := ParseWrite(e.Body)
		if err != nil {
			return err
		}
		if table := tableOf(w); table != "team" && table != s.table {
			return errors.New("not the team's table")
		}
		return nil
	}
	createTeamTable(t, s)
	conformance.Run(t, conformance.Harness{Name: "dynamodb", Network: true,
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) { return Open(ctx, s.dsn(), o) },
		Spawn: func(context.Context) (*exec.Cmd, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerDSN+"="+s.dsn())
			return cmd, nil
		},
		Damage: func(ctx context.Context, r sdk.ResourceID) error {
			_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyOf(pkOf("main", r), skFence)})
			return err
		},
		Native: func(r sdk.ResourceID) conformance.Native { return nativeOf(t, s, scope, r) },
	}, &conformance.Options{Profile: conformance.Quick, Schedules: 20, Match: match})
}

func nativeOf(t *testing.T, s *server, scope func(sdk.ResourceID, sdk.Effect) error, r sdk.ResourceID) conformance.Native {
	add := func(table string) sdk.Effect {
		e, err := Update(updateOf(table, string(r)))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	check := checkOf("team", string(r))
	failing, err := Check(check)
	if err != nil {
		t.Fatal(err)
	}
	return conformance.Native{Scope: scope, Inside: add("team"), Outside: add("another"), Own: []sdk.Effect{add(s.table)}, Failing: failing,
		Count: func(ctx context.Context) (int, error) {
			out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("team"), Key: keyOf(string(r), "n"), ConsistentRead: aws.Bool(true)})
			if err != nil || len(out.Item) == 0 {
				return 0, err
			}
			rd := reader{item: out.Item, what: "team"}
			return int(rd.number("n")), rd.err
		}}
}
