package mongostore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/lab/mongowire"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
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
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// server is a MongoDB server behind a proxy that a test may bend.
type server struct {
	*mongowire.Proxy
	process *lab.Process
	layout  string
}

func newServer(t testing.TB) *server {
	t.Helper()
	p := lab.Start(t, lab.MongoJava)
	return &server{Proxy: mongowire.Front(t, p.Addr(), false), process: p}
}

func (s *server) dsn(collection string) string {
	return Scheme + s.Addr() + "/test?collection=" + collection + "&environment=emulator" + s.layout
}

// client is one of the test's own, past the store.
func client(t testing.TB, addr string) *mongo.Client {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(Scheme + addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Disconnect(context.Background()) })
	return c
}

func opened(t testing.TB, s *server) sdk.FencedStore {
	t.Helper()
	st, err := Open(t.Context(), s.dsn("p"), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

const resource sdk.ResourceID = "invoice/42"

func mutation(fence sdk.Token, segment int, op string, effects ...sdk.Effect) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: resource, Operation: id, Fence: fence, Segment: sdk.Segment(segment), Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())),
		Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

func apply(t testing.TB, s sdk.FencedStore, m *sdk.Mutation, want sdk.Code) error {
	t.Helper()
	out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
	if out.Code != want || (err == nil) != want.Ok() {
		t.Fatalf("%s: %v, %v; want %v", m.Operation, out.Code, err, want)
	}
	return err
}

// certify runs the suite, with writers that are really killed and fences that are
// really removed.
func certify(t *testing.T, name, dsn string, collection *mongo.Collection, fence func(sdk.ResourceID) string, native func(sdk.ResourceID) conformance.Native, match *regexp.Regexp) {
	if short := lab.Cases(); short != nil {
		all := match
		match = cases(func(id string) bool { return all.MatchString(id) && short.MatchString(id) })
	}
	conformance.Run(t, conformance.Harness{Name: name, Network: true, Native: native,
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
			return Open(ctx, dsn, o)
		},
		Spawn: func(context.Context) (*exec.Cmd, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerDSN+"="+dsn)
			return cmd, nil
		},
		Damage: func(ctx context.Context, r sdk.ResourceID) error {
			res, err := collection.DeleteOne(ctx, bson.D{{Key: "_id", Value: fence(r)}})
			if err == nil && res.DeletedCount != 1 {
				err = fmt.Errorf("there is no %s", fence(r))
			}
			return err
		},
	}, &conformance.Options{Profile: conformance.Quick, Schedules: 50, Match: match})
}

func headName(r sdk.ResourceID) string { return cas.HeadName("main", r) }

// longCases are left to FENCEDSTORE_WHOLE_SUITE. Those that cut connections wait
// half a second each time until the driver looks at the server again.
var longCases = regexp.MustCompile(`^wire/(cut|lost-reads)|^vectors/|^conflict/capped`)

func quickly(id string) bool { return os.Getenv(lab.WholeSuite) != "" || !longCases.MatchString(id) }

// cases are the IDs for which is says yes.
func cases(is func(id string) bool) *regexp.Regexp {
	var ids []string
	for _, c := range conformance.Cases() {
		if is(c.ID) {
			ids = append(ids, regexp.QuoteMeta(c.ID))
		}
	}
	return regexp.MustCompile("^(" + strings.Join(ids, "|") + ")$")
}

// apart have a server of their own: large values, since mongo-java-server reads a
// whole collection for a filter that names more than _id; and lost
// acknowledgements, which are mostly waiting and left to FENCEDSTORE_WHOLE_SUITE
// too: TestConformanceTransaction and TestLostAnswer play them.
func apart(id string) bool {
	return id == "contract/large-values" || id == "wire/lost-acknowledgement"
}

func onMongoJava(t *testing.T, is func(id string) bool) {
	s := newServer(t)
	certify(t, "mongodb on mongo-java-server", s.dsn("suite"), client(t, s.Addr()).Database("test").Collection("suite"), headName, nil, cases(is))
}

func TestConformanceMongoJava(t *testing.T) {
	t.Parallel()
	onMongoJava(t, func(id string) bool { return !apart(id) && quickly(id) })
}

func TestConformanceMongoJavaApart(t *testing.T) {
	t.Parallel()
	onMongoJava(t, func(id string) bool {
		return apart(id) && (os.Getenv(lab.WholeSuite) != "" || id != "wire/lost-acknowledgement")
	})
}

// ferretCases leaves out what takes long: FerretDB too reads whole collections.
var ferretCases = regexp.MustCompile(`^contract/(zero|probe)|^(fence|claim|replay|monotonic)/|^exact/token-n|^conflict/(position|same)|^once/(next|new)|^atomic/(all|bad)|^apart/(key|shadow)|^linearizable/read-after-accept|^races/(first|next)`)

// FerretDB takes one command at a time from the proxy: alone it loses updates,
// see TestFerretDBIsRefused.
func TestConformanceFerretDB(t *testing.T) {
	t.Parallel()
	p := lab.Start(t, lab.FerretDB)
	s := &server{Proxy: mongowire.Front(t, p.Addr(), true)}
	certify(t, "mongodb on FerretDB", s.dsn("suite"), client(t, s.Addr()).Database("test").Collection("suite"), headName, nil, ferretCases)
}

// FerretDB as it comes loses concurrent filtered updates: Probe says so, and the
// suite refuses it for the laws that are broken.
func TestFerretDBIsRefused(t *testing.T) {
	p := lab.Start(t, lab.FerretDB)
	dsn := Scheme + p.Addr() + "/test?environment=emulator&collection="
	s, err := Open(t.Context(), dsn+"probed", sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("Probe: %v", err)
	}
	laws := map[sdk.Law]bool{}
	for range 5 { // a race may be won by chance
		report, err := conformance.Check(t.Context(), conformance.Harness{Name: "FerretDB", Network: true,
			Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
				return Open(ctx, dsn+"suite", o)
			},
		}, &conformance.Options{Profile: conformance.Quick, Match: regexp.MustCompile(`^races/(first|next|takeover)`)})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Results {
			if c.Status == conformance.Failed {
				laws[c.Law] = true
			}
		}
		if len(laws) > 0 {
			break
		}
	}
	if !laws[sdk.F1] && !laws[sdk.F3] && !laws[sdk.F6] && !laws[sdk.F10] {
		t.Errorf("the suite refuses it for %v", laws)
	}
}
