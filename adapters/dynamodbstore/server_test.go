package dynamodbstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
)

// writerDSN makes the test binary a writer that the suite kills.
const writerDSN = "FENCEDSTORE_TEST_WRITER"

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": lab.AccessKey, "AWS_SECRET_ACCESS_KEY": lab.SecretKey,
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull} {
		os.Setenv(name, value)
	}
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

// server is a server behind a proxy that a test may bend.
type server struct {
	*lab.Proxy
	process *lab.Process
	table   string
	layout  string
	client  *dynamodb.Client
}

// start runs moto, which has transactions.
func start(t testing.TB) *server {
	t.Helper()
	return startOn(t, lab.Moto, LayoutTransaction)
}

// startItem runs dynalite, which is on disk.
func startItem(t testing.TB) *server {
	t.Helper()
	return startOn(t, lab.Dynalite, LayoutItem)
}

// eachLayout runs a test on both layouts.
func eachLayout(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Run(LayoutTransaction, func(t *testing.T) { test(t, start(t)) })
	t.Run(LayoutItem, func(t *testing.T) { test(t, startItem(t)) })
}

func startOn(t testing.TB, on *lab.Server, layout string) *server {
	t.Helper()
	s := &server{table: "fences", layout: layout, process: lab.Start(t, on)}
	s.Proxy = lab.Front(t, s.process.URL(), operation)
	s.client = dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider(lab.AccessKey, lab.SecretKey, "")})
	if err := CreateTable(t.Context(), s.client, s.table); err != nil {
		t.Fatal(err)
	}
	return s
}

// operation is what a request asks for: TransactWriteItems, GetItem, …
func operation(r *http.Request) string {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return op
}

func (s *server) dsn() string {
	return Scheme + s.table + "?region=us-east-1&environment=emulator&quarantine=20&layout=" + s.layout + "&endpoint=" + url.QueryEscape(s.URL)
}

// commits reports whether a request is one that commits a mutation, and leaves
// its body to be read.
func (s *server) commits(r *http.Request) bool {
	if s.layout == LayoutTransaction {
		return operation(r) == "TransactWriteItems"
	}
	if operation(r) != "PutItem" {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte(`"sk":{"S":"head"}`))
}

// quickCases are those of lab.SlowServerCases without a few that take half of
// the time; what they ask is asked here by TestLostAnswer, TestLostRequest,
// TestConflictsUnderLoad and TestNumbersInTheTable.
func quickCases() *regexp.Regexp {
	if os.Getenv(lab.WholeSuite) != "" {
		return nil
	}
	return regexp.MustCompile(`^(contract|fence|claim|replay|honest|monotonic|linearizable)/|^exact/(token-n|segment|out)|^echo/lost|^conflict/(position|operation|same|resolve)|^once/(next|new|across)|^atomic/(all|bad|native)|^apart/(native|key|shadow)`)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := start(t)
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
	h := s.harness()
	h.Native = func(r sdk.ResourceID) conformance.Native { return nativeOf(t, s, scope, r) }
	conformance.Run(t, h, &conformance.Options{Profile: conformance.Quick, Schedules: 20, Match: quickCases()})
}

// harness plays the suite on a server.
func (s *server) harness() conformance.Harness {
	return conformance.Harness{Name: "dynamodb", Network: true,
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) { return Open(ctx, s.dsn(), o) },
		Spawn: func(context.Context) (*exec.Cmd, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerDSN+"="+s.dsn())
			return cmd, nil
		},
		Damage: func(ctx context.Context, r sdk.ResourceID) error {
			_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyOf(pkOf("main", r), s.main())})
			return err
		},
	}
}

var onlyDescribe = regexp.MustCompile(`^contract/descri`)

func TestItemConformance(t *testing.T) {
	t.Parallel()
	s := startItem(t)
	conformance.Run(t, s.harness(), &conformance.Options{Profile: conformance.Quick, Schedules: 20})
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
