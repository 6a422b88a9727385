package plugins

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/fencedstore/fencedstore/plugins/internal/wire"
	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

// ServeOptions are what a plug-in may choose. Nil is fine.
type ServeOptions struct {
	// Version is printed by --version; the module's own if empty.
	Version string

	// Trust makes the plug-in verify grant and status proof of every write for
	// itself (A1–A3, A5, A6), so that a host which lies gets nothing applied. The
	// plug-in then holds the store's credentials, and the host needs none. A
	// write whose gate asked the registry in place of a proof is NOT_HELD.
	Trust trust.Source

	// Scope says which native effects a resource may carry, beside the host's
	// own scope. Without it the host's counts alone, and with Trust none: a host
	// that is not trusted cannot say what is in scope.
	Scope func(sdk.ResourceID, sdk.Effect) error
}

// Serve is all that the main of a plug-in calls: it serves the stores that open
// opens until the host ends it or is gone, and does not return. Started by a
// person it says what it is; with --version it prints its version.
//
// Whatever the process writes to standard output and error reaches the host's
// log, line by line. Nothing may be written to standard output before Serve.
func Serve(open sdk.OpenFunc, opts ...*ServeOptions) {
	o := &ServeOptions{}
	for _, given := range opts {
		if given != nil {
			o = given
		}
	}
	os.Exit(serve(open, o, os.Args, os.Stdout, os.Stderr))
}

func serve(open sdk.OpenFunc, o *ServeOptions, args []string, stdout, stderr io.Writer) int {
	name := "plug-in"
	if len(args) > 0 {
		name = filepath.Base(args[0])
	}
	switch {
	case len(args) == 2 && args[1] == "--version":
		fmt.Fprintf(stdout, "%s %s (fencedstore plug-in, protocol %d)\n", name, o.version(), ProtocolVersion)
		return 0
	case os.Getenv(cookieEnv) != cookieValue || len(args) > 1:
		fmt.Fprintf(stderr, `%s is a fencedstore plug-in: a store that another program starts and talks to.
It does nothing when started by hand.

Try it:     adaptercheck certify --plugin PATH DSN
Version:    %s --version
In a host:  plugins.Open(ctx, path, &plugins.Options{DSN: dsn})
`, name, name)
		return 2
	}
	if versions := os.Getenv("PLUGIN_PROTOCOL_VERSIONS"); !speaks(versions) {
		fmt.Fprintf(stderr, "%s speaks version %d of the protocol and the host %s\n", name, ProtocolVersion, versions)
	}
	stop, err := watchHost()
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 2
	}
	defer stop()
	if os.Getenv("GOGC") == "" {
		// A plug-in's heap is small beside what calls leave behind: collecting less
		// often is cheap in memory and saves a tenth of the time of a small write.
		debug.SetGCPercent(400)
	}
	// A logger of the process's own: go-plugin puts its pipe into os.Stderr.
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := newServer(open, o, log)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {pluginName: &grpcPlugin{server: s}}},
		Logger:           hclog.NewNullLogger(),
		GRPCServer: func(more []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(more, serverOptions()...)...)
		},
	})
	s.closeAll()
	return 0
}

// serverOptions are the limits of a plug-in's server.
func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(wire.MaxMessageBytes),
		grpc.MaxSendMsgSize(wire.MaxMessageBytes),
		grpc.MaxConcurrentStreams(4096),
		grpc.NumStreamWorkers(8),
		grpc.InitialWindowSize(4 << 20),
		grpc.InitialConnWindowSize(16 << 20),
	}
}

func speaks(versions string) bool {
	for v := range strings.SplitSeq(versions, ",") {
		if v == fmt.Sprint(ProtocolVersion) {
			return true
		}
	}
	return false
}

func (o *ServeOptions) version() string {
	if o.Version != "" {
		return o.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// grpcPlugin is both sides of the service, as go-plugin wants them.
type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	server *server
}

func (p *grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterStoreServiceServer(s, p.server)
	return nil
}

func (p *grpcPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
