package spannerstore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
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

const databaseOf = "projects/test/instances/test/databases/fences"

// teamTable is one of the team's own.
const teamTable = "CREATE TABLE Ledger (Account STRING(600) NOT NULL, Balance INT64 NOT NULL, CONSTRAINT NotBelow CHECK (Balance >= 0)) PRIMARY KEY (Account)"

// emulator is the emulator with a database that holds the store's tables.
type emulator struct {
	endpoint string
}

func start(t testing.TB) *emulator {
	t.Helper()
	p := lab.Start(t, lab.SpannerEmulator)
	e := &emulator{endpoint: p.Addr()}
	ctx := context.Background()
	instances, err := instance.NewInstanceAdminClient(ctx, e.options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer instances.Close()
	made, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{Parent: "projects/test", InstanceId: "test",
		Instance: &instancepb.Instance{Config: "projects/test/instanceConfigs/emulator-config", DisplayName: "test", NodeCount: 1}})
	if err == nil {
		_, err = made.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	databases, err := database.NewDatabaseAdminClient(ctx, e.options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer databases.Close()
	op, err := databases.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{Parent: "projects/test/instances/test", CreateStatement: "CREATE DATABASE fences", ExtraStatements: []string{teamTable}})
	if err == nil {
		_, err = op.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // once more is no error
		if err := CreateSchema(ctx, e.dsn(), sdk.OpenOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func (e *emulator) dsn() string {
	return Scheme + databaseOf + "?plaintext=true&environment=emulator&quarantine=20&endpoint=" + url.QueryEscape(e.endpoint)
}

func (e *emulator) options() []option.ClientOption {
	d := dsn{endpoint: e.endpoint, plaintext: true}
	return d.clientOptions(sdk.OpenOptions{})
}

// client is one for what tests look at past the store.
func (e *emulator) client(t testing.TB, more ...option.ClientOption) *spanner.Client {
	t.Helper()
	c, err := spanner.NewClientWithConfig(context.Background(), databaseOf, spanner.ClientConfig{DisableNativeMetrics: true}, append(e.options(), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t testing.TB, e *emulator) sdk.FencedStore {
	t.Helper()
	s, err := Open(context.Background(), e.dsn(), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const resource sdk.ResourceID = "invoice/42"

func mutation(fence sdk.Token, segment int, op string, effects ...sdk.Effect) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: resource, Operation: id, Fence: fence, Segment: sdk.Segment(segment), Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())),
		Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

func apply(t testing.TB, s sdk.FencedStore, m *sdk.Mutation, want sdk.Code) (sdk.Outcome, error) {
	t.Helper()
	out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
	if out.Code != want || (err == nil) != want.Ok() {
		t.Fatalf("%s: %v, %v; want %v", m.Operation, out.Code, err, want)
	}
	return out, err
}

// bend stands before a unary request, and may answer it itself.
type bend func(ctx context.Context, method string, req, reply any, send func() error) error

// calls counts requests by method, and lets a test bend the unary ones.
type calls struct {
	mu     sync.Mutex
	counts map[string]int
	bend   bend
	refuse func(method string) error // of streams
}

func (c *calls) refusal() func(string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuse
}

func (c *calls) count(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[method]
}

func (c *calls) note(method string) (string, bend) {
	method = method[strings.LastIndexByte(method, '/')+1:]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[method]++
	return method, c.bend
}

func (c *calls) set(bend bend) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bend = bend
}

func (c *calls) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.counts {
		n += k
	}
	return n
}

// watched is a store whose requests are counted and can be bent.
func watched(t testing.TB, e *emulator) (*Store, *calls) {
	t.Helper()
	c := &calls{counts: map[string]int{}}
	s, err := New(context.Background(), c.client(t, e), &Options{Environment: sdk.Emulator})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.counted = true // as with Open
	return s, c
}

func (c *calls) client(t testing.TB, e *emulator) *spanner.Client {
	return e.client(t,
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(countCommits)),
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
			send := func() error { return invoke(ctx, method, req, reply, cc, o...) }
			if name, bend := c.note(method); bend != nil {
				return bend(ctx, name, req, reply, send)
			}
			return send()
		})),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			name, _ := c.note(method)
			if refuse := c.refusal(); refuse != nil {
				if err := refuse(name); err != nil {
					return nil, err
				}
			}
			return streamer(ctx, desc, cc, method, o...)
		})))
}

func TestConformance(t *testing.T) {
	e := start(t)
	client := e.client(t)
	scope := func(_ sdk.ResourceID, f sdk.Effect) error {
		w, err := ParseWrite(f.Body)
		if err != nil {
			return nil // a statement; its own check refuses what is ours
		}
		if w.Table != "Ledger" {
			return fmt.Errorf("%s is not the team's", w.Table)
		}
		return nil
	}
	conformance.Run(t, conformance.Harness{Name: "spanner", Network: true,
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) { return Open(ctx, e.dsn(), o) },
		Spawn: func(context.Context) (*exec.Cmd, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerDSN+"="+e.dsn())
			return cmd, nil
		},
		Damage: func(ctx context.Context, r sdk.ResourceID) error {
			_, err := client.ReadWriteTransaction(ctx, func(_ context.Context, tx *spanner.ReadWriteTransaction) error {
				return tx.BufferWrite([]*spanner.Mutation{spanner.Delete(recordTable, spanner.Key{sdk.DefaultNamespace, string(r), kindFence, ""})})
			})
			return err
		},
		Native: func(r sdk.ResourceID) conformance.Native { return nativeOf(t, client, scope, r) },
	}, &conformance.Options{Profile: conformance.Quick, Schedules: 20, Match: lab.SlowServerCases()})
}

func nativeOf(t *testing.T, client *spanner.Client, scope func(sdk.ResourceID, sdk.Effect) error, r sdk.ResourceID) conformance.Native {
	must := func(e sdk.Effect, err error) sdk.Effect {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	add := must(DML(spanner.Statement{SQL: "INSERT OR UPDATE INTO Ledger (Account, Balance) SELECT @a, 1 + IFNULL((SELECT Balance FROM Ledger WHERE Account = @a), 0)", Params: map[string]any{"a": string(r)}}))
	return conformance.Native{Scope: scope, Inside: add,
		Outside: must(Write("insert", "Others", []string{"A"}, []any{1})),
		Own: []sdk.Effect{{Kind: KindWrite, Body: []byte(`{"op":"delete","table":"FencedstoreRecord","values":[{"type":"STRING","value":"main"}]}`)},
			{Kind: KindDML, Body: []byte(`{"sql":"DELETE FROM fencedstoreRECORD WHERE true"}`)}},
		Failing: must(Write("insertOrUpdate", "Ledger", []string{"Account", "Balance"}, []any{string(r) + "-failing", -1})),
		Count: func(ctx context.Context) (int, error) {
			row, err := client.Single().ReadRow(ctx, "Ledger", spanner.Key{string(r)}, []string{"Balance"})
			if isMissing(err) {
				return 0, nil
			}
			var n int64
			if err == nil {
				err = row.Columns(&n)
			}
			return int(n), err
		}}
}

// alter changes the database's tables.
func (e *emulator) alter(t testing.TB, statements ...string) {
	t.Helper()
	ctx := context.Background()
	admin, err := database.NewDatabaseAdminClient(ctx, e.options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	op, err := admin.UpdateDatabaseDdl(ctx, &databasepb.UpdateDatabaseDdlRequest{Database: databaseOf, Statements: statements})
	if err == nil {
		err = op.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}
