//go:build unix

package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/fencedstore/fencedstore/internal/seal"
	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

// modeEnv says what kind of plug-in the test binary is.
const modeEnv = "FENCEDSTORE_TEST_MODE"

func TestMain(m *testing.M) {
	if os.Getenv(cookieEnv) != "" {
		beginAs(os.Getenv(modeEnv))
		return
	}
	if path := os.Getenv("FENCEDSTORE_TEST_HOST"); path != "" {
		hostUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

// certificateText is as long as one is.
var certificateText = strings.Repeat("A", 60)

// beginAs is what goes wrong before anything is served.
func beginAs(mode string) {
	switch mode {
	case "noise":
		fmt.Println("hi \x1b[31mthere")
	case "silent":
		<-make(chan struct{})
	case "chatty":
		fmt.Print("no end of line")
		<-make(chan struct{})
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot find my licence")
		os.Exit(7)
	case "panic":
		panic("in the plug-in")
	case "version-0":
		fmt.Println("1|0|unix|nowhere|grpc|" + certificateText)
		<-make(chan struct{})
	case "version-99":
		fmt.Println("1|99|unix|nowhere|grpc|" + certificateText)
		<-make(chan struct{})
	case "core-2":
		fmt.Println("2|1|unix|nowhere|grpc|" + certificateText)
		<-make(chan struct{})
	case "netrpc":
		fmt.Println("1|1|unix|nowhere|netrpc|" + certificateText)
		<-make(chan struct{})
	case "no-tls":
		fmt.Println("1|1|unix|nowhere|grpc|")
		<-make(chan struct{})
	case "far":
		fmt.Println("1|1|tcp|192.0.2.1:80|grpc|" + certificateText)
		<-make(chan struct{})
	case "nobody-listens":
		fmt.Println("1|1|unix|nowhere|grpc|" + certificateText)
		<-make(chan struct{})
	case "flood":
		for range 200_000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 100))
		}
		fmt.Fprint(os.Stderr, strings.Repeat("y", 1<<20))
	case "json":
		fmt.Fprintln(os.Stderr, `{"@message": 1}`)
		fmt.Fprintln(os.Stderr, `{"@message": {"a": [1]}, "@level": 7, "@timestamp": false}`)
		fmt.Fprintln(os.Stderr, "panic: \x00\xff not really")
	case "child":
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintf(os.Stderr, "child %d\n", cmd.Process.Pid)
	case "env":
		for _, v := range os.Environ() {
			fmt.Fprintln(os.Stderr, "env "+v)
		}
	}
	if _, rpc, ok := strings.Cut(mode, "rpc:"); ok {
		serveHostile(rpc)
		return
	}
	Serve(openToy, nil)
}

// serveHostile serves a protocol of which one thing is wrong.
func serveHostile(how string) {
	stop, err := watchHost()
	if err != nil {
		panic(err)
	}
	defer stop()
	s := &hostile{server: newServer(openToy, &ServeOptions{}, slog.New(slog.DiscardHandler)), how: how}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: map[int]goplugin.PluginSet{1: {pluginName: s}},
		Logger:           hclog.NewNullLogger(),
		GRPCServer:       func(o []grpc.ServerOption) *grpc.Server { return grpc.NewServer(o...) }, // no limits
	})
}

type hostile struct {
	goplugin.NetRPCUnsupportedPlugin
	*server
	how string
}

func (h *hostile) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if h.how == "twice" {
		s.RegisterService(h.twice(), h)
		return nil
	}
	pb.RegisterStoreServiceServer(s, h)
	return nil
}

func (h *hostile) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	panic("not a client")
}

// twice answers every Apply two times.
func (h *hostile) twice() *grpc.ServiceDesc {
	d := pb.StoreService_ServiceDesc
	d.Methods = nil
	for _, m := range pb.StoreService_ServiceDesc.Methods {
		if m.MethodName != "Apply" {
			d.Methods = append(d.Methods, m)
		}
	}
	d.Streams = []grpc.StreamDesc{{StreamName: "Apply", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		req := &pb.ApplyRequest{}
		if err := stream.RecvMsg(req); err != nil {
			return err
		}
		for range 2 {
			res, err := h.server.Apply(stream.Context(), req)
			if err != nil {
				return err
			}
			if err := stream.SendMsg(res); err != nil {
				return err
			}
		}
		return nil
	}}}
	return &d
}

func (h *hostile) Open(ctx context.Context, req *pb.OpenRequest) (*pb.OpenResponse, error) {
	res, err := h.server.Open(ctx, req)
	o := res.GetOpened()
	if o == nil {
		return res, err
	}
	switch h.how {
	case "lie-name":
		o.Description.Name = "Toy; DROP"
	case "lie-kinds":
		o.Description.Kinds = nil
	case "lie-reason":
		o.Description.Capabilities = []*pb.Capability{{Name: "durable", Support: pb.Support_SUPPORT_UNSUPPORTED}}
	case "lie-environment":
		o.Description.Environment = "heaven"
	case "lie-limit":
		o.Description.Limits.TotalBytes = 1 << 63
	case "lie-handle":
		o.Handle = 0
	case "lie-nothing":
		res.Result = nil
	case "lie-changes":
		o.Description.Version = fmt.Sprint(os.Getpid())
	case "ignores-dial-via":
		o.HonorsDialVia = false
	}
	return res, err
}

func (h *hostile) Apply(ctx context.Context, req *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	switch h.how {
	case "exit-before":
		os.Exit(5)
	case "deaf":
		<-make(chan struct{})
	case "slow":
		fmt.Fprintln(os.Stderr, "apply began")
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "apply was cancelled")
		return nil, ctx.Err()
	}
	res, err := h.server.Apply(ctx, req)
	switch h.how {
	case "exit-after":
		os.Exit(5)
	case "panic-after":
		panic("after the commit")
	case "oversize":
		res.Message = strings.Repeat("x", 65<<20)
	case "code-0":
		res.Code = 0
	case "code-99":
		res.Code = 99
	case "code-negative":
		res.Code = -1
	case "code-not-found":
		res.Code = pb.Code_CODE_NOT_FOUND
	case "no-receipt":
		res.Receipt = nil
	case "other-receipt":
		res.Receipt.Operation = "another"
	case "other-grant":
		res.Receipt.Grant[0]++
	case "short-digest":
		res.Receipt.Grant = []byte{1}
	case "bad-state":
		res.Observed.Root = nil
	case "status":
		return nil, context.Canceled
	}
	return res, err
}

func (h *hostile) Read(ctx context.Context, req *pb.ReadRequest) (*pb.ReadResponse, error) {
	switch h.how {
	case "oversize":
		return &pb.ReadResponse{Result: &pb.ReadResponse_Value{Value: make([]byte, 65<<20)}}, nil
	case "read-nothing":
		return &pb.ReadResponse{}, nil
	case "code-99":
		return &pb.ReadResponse{Result: &pb.ReadResponse_Failure{Failure: &pb.Failure{Code: 99}}}, nil
	case "read-accepted":
		return &pb.ReadResponse{Result: &pb.ReadResponse_Failure{Failure: &pb.Failure{Code: pb.Code_CODE_ACCEPTED}}}, nil
	}
	return h.server.Read(ctx, req)
}

// toy is a store that says it is durable, for what happens around a plug-in.
type toy struct {
	mu     sync.Mutex
	states map[sdk.ResourceID]sdk.FenceState
	opts   sdk.OpenOptions
	dsn    string
}

func openToy(ctx context.Context, dsn string, o sdk.OpenOptions) (sdk.FencedStore, error) {
	if dsn == "toy:refuse" {
		return nil, sdk.Errorf(sdk.Unsuitable, "layout", "refused")
	}
	t := &toy{states: map[sdk.ResourceID]sdk.FenceState{}, opts: o, dsn: dsn}
	if addr, ok := strings.CutPrefix(dsn, "toy:dial:"); ok {
		conn, err := o.Dial(ctx, "tcp", addr)
		if err != nil {
			return nil, sdk.Errorf(sdk.NotApplied, "dial", "%w", err)
		}
		defer conn.Close()
		fmt.Fprintln(conn, "hello")
	}
	return t, nil
}

func (t *toy) Describe() sdk.Description {
	no := sdk.Declared{Support: sdk.NotSupported, Reason: "a toy"}
	return sdk.Description{Name: "toy", Version: "1", Environment: sdk.Embedded, Kinds: sdk.PortableKinds(),
		Limits: sdk.Limits{ValueBytes: 1 << 30},
		Capabilities: map[sdk.Capability]sdk.Declared{sdk.CapDurable: {Support: sdk.Supported}, sdk.CapApplyTx: {Support: sdk.Supported},
			sdk.CapDial: {Support: sdk.Supported}, sdk.CapNativeEffects: no, sdk.CapParallel: no, sdk.CapShared: no}}
}

// Apply answers with the code after the colon of "toy:code:N".
func (t *toy) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	d := t.Describe()
	m, err := d.Check(a)
	if err != nil {
		return sdk.Refusal(err), err
	}
	var code sdk.Code
	if n, _ := fmt.Sscanf(t.dsn, "toy:code:%d", &code); n == 1 && !code.Ok() {
		err := &sdk.Error{Code: code, Field: "a field", Msg: "a message", Alarm: code%2 == 0,
			Observed: sdk.FenceState{Highest: 9, Grant: m.Grant, Root: m.Root, Segment: 3}}
		return sdk.Refusal(err), err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	dec := sdk.Decide(t.states[m.Resource], nil, a)
	t.states[m.Resource] = dec.Next
	if code == sdk.Replayed {
		dec.Code = code
	}
	return dec.Outcome()
}

func (t *toy) Inspect(_ context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[r], nil
}

func (t *toy) Receipt(context.Context, sdk.ResourceID, sdk.OperationID) (sdk.Receipt, error) {
	return sdk.Receipt{}, t.failure()
}

func (t *toy) Read(context.Context, sdk.ResourceID, string) ([]byte, error) { return nil, t.failure() }

func (t *toy) failure() error {
	var code sdk.Code
	if n, _ := fmt.Sscanf(t.dsn, "toy:code:%d", &code); n == 1 {
		return &sdk.Error{Code: code, Field: "a field", Msg: "a message"}
	}
	return sdk.Errorf(sdk.NotFound, "", "nothing")
}

func (t *toy) Quarantined(context.Context, sdk.ResourceID) ([]sdk.Quarantine, error) { return nil, nil }
func (t *toy) Probe(context.Context) error                                           { return nil }
func (t *toy) Close() error                                                          { return nil }

func mutation(fence sdk.Token, segment sdk.Segment, op string) *sdk.Mutation {
	effects := []sdk.Effect{sdk.Put("k", []byte("v"))}
	return &sdk.Mutation{Resource: "r", Operation: sdk.OperationID(op), Fence: fence, Segment: segment, Root: sdk.SumDigest([]byte("root")),
		Grant: sdk.SumDigest([]byte(fence.String())), Payload: sdk.PayloadDigest(sdk.OperationID(op), nil, effects), Owner: "worker",
		Time: time.UnixMilli(1_700_000_000_000).UTC(), Effects: effects}
}

func admission(m *sdk.Mutation) sdk.Admission { return sdk.NewAdmission(seal.Cut(), m) }
