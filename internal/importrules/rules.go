package importrules

// cloud lists client libraries of stores and coordinators, and what they drag
// along.
var cloud = []string{
	"github.com/aws/...", "cloud.google.com/...", "google.golang.org/api/...",
	"github.com/Azure/...", "go.mongodb.org/...", "github.com/jackc/...",
	"go.etcd.io/...", "github.com/go-zookeeper/...", "github.com/redis/...",
	"github.com/minio/...", "modernc.org/sqlite/...",
}

var plugin = []string{"github.com/hashicorp/go-plugin/...", "google.golang.org/grpc/..."}

// above are the layers that stand on the sdk.
var above = []string{"adapters/...", "conformance/...", "plugins/...", "cmd/...", "internal/lab/..."}

func join(lists ...[]string) (out []string) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// Rules are this project's.
func Rules() []Rule {
	return []Rule{
		{For: "sdk", Only: []string{"std", "internal/seal", "sdk/internal/nfc"},
			Why: "the words and laws stand on the standard library alone, so that whoever implements a store takes on nothing else"},
		{For: "sdk/...", Deny: join(above, cloud, plugin),
			Why: "the sdk is below every store; a worker that uses one store must not link another's client"},
		{For: "sdk/...", Only: []string{"std", "sdk/...", "internal/seal", "golang.org/x/text/...",
			"github.com/go-json-experiment/json/...", "filippo.io/edwards25519", "github.com/spiffe/go-spiffe/v2/spiffeid", "github.com/spiffe/go-spiffe/v2/svid/x509svid",
			"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace"},
			Why: "the sdk uses small libraries, each named in this list for a reason"},
		{For: "sdk/...", Deny: []string{"plugins/...", "cmd/..."}, Tests: true,
			Why: "a test of the sdk may stand on a store and the suite, not on what is above them"},
		{For: "sdk/internal/...", Only: []string{"std", "sdk"},
			Why: "parts of the sdk that nobody else may use are small"},

		{For: "adapters/...", Deny: []string{"adapters/..."}, Own: 2, Tests: true,
			Why: "an adapter is its store's client and the sdk; what two of them need belongs into the sdk"},
		{For: "adapters/...", Deny: join(plugin[:1], []string{"conformance/...", "plugins/...", "cmd/..."}),
			Why: "an adapter is linked into workers, which need neither suite nor host"},
		{For: "adapters/...", Deny: []string{"plugins/...", "cmd/..."}, Tests: true,
			Why: "an adapter's tests stand on the suite, not on the command that runs it"},
		{For: "adapters/memstore/...", Only: []string{"std", "sdk/..."},
			Why: "the reference needs no library"},
		{For: "adapters/sqlitestore/...", Only: []string{"std", "sdk/...", "adapters/sqlitestore/...", "modernc.org/sqlite/...", "github.com/go-json-experiment/json/..."},
			Why: "sqlitestore is the sdk, one client library and the sdk's strict JSON"},

		{For: "conformance/...", Deny: join(cloud, plugin, []string{"adapters/...", "plugins/...", "cmd/...", "internal/lab/..."}),
			Why: "the suite knows a store by its interface alone, or it would judge by something else"},
		{For: "conformance/...", Deny: join(cloud, plugin, []string{"plugins/...", "cmd/..."}), Tests: true,
			Why: "the suite is tested on the embedded stores and on mutants"},
		{For: "conformance/internal/mutant/...", Deny: []string{"conformance", "conformance/report"}, Tests: true,
			Why: "a mutant that knows the suite could break what the suite looks at, and nothing else"},

		{For: "plugins/...", Unless: []string{"plugins/fencedstore-*/..."}, Deny: []string{"adapters/...", "cmd/..."}, Tests: true,
			Why: "host and protocol carry every adapter and know none; the mains know theirs"},

		{For: "...", Deny: []string{"cmd/..."}, Own: 2, Tests: true,
			Why: "a command is the top; what somebody wants from it belongs below"},
		{For: "...", Deny: []string{"examples/...", "docs/..."}, Own: 2, Tests: true,
			Why: "examples and docs are read, not imported"},
		{For: "internal/seal", Only: []string{},
			Why: "the seal is nothing but a key"},
		{For: "...", Unless: []string{"sdk", "sdk/gate", "sdk/fault", "conformance/...", "plugins/...", "internal/seal"},
			Deny: []string{"internal/seal"}, Direct: true,
			Why: "only gate, suite and plug-in server make an Admission; tests inside this module may, to reach what no gate lets through"},
		{For: "...", Unless: []string{"conformance", "conformance/coordination", "sdk/gate/gatetest", "internal/lab/..."}, Deny: []string{"std/testing"}, Direct: true,
			Why: "package testing belongs to tests and to what tests are built from"},
		{For: "...", Unless: []string{"cmd/...", "examples/...", "docs/...", "internal/lab/..."}, Deny: []string{"std/log", "std/flag"}, Direct: true,
			Why: "a library logs to the *slog.Logger that it was given, and leaves the command line to its caller"},
		{For: "...", Deny: []string{"std/math/rand"}, Direct: true, Tests: true,
			Why: "math/rand/v2 seeds explicitly; a run that cannot be replayed proves little"},
		{For: "...", Deny: []string{"std/encoding/gob", "std/unsafe", "std/io/ioutil"}, Direct: true, Tests: true,
			Why: "nothing here needs them"},
	}
}
