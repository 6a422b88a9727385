package plugins

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os/exec"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	goplugrun "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/fencedstore/fencedstore/plugins/internal/wire"
	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
)

// process is one run of a plug-in. It is never started again: a dead one is
// replaced by another.
type process struct {
	client *goplugin.Client
	runner *runner
	conn   *grpc.ClientConn
	rpc    pb.StoreServiceClient
	number uint64
}

// startProcess starts the image and connects to it.
func startProcess(ctx context.Context, im *image, o *Options, log *slog.Logger, number uint64) (*process, *Fault) {
	log = log.With("process", number)
	out, errs := newLines(log, "stdout"), newLines(log, "stderr")
	cert, certPEM, err := clientCertificate()
	if err != nil {
		return nil, faultf(Unreachable, "no certificate: %w", err)
	}
	p := &process{number: number, runner: newRunner(out, errs, MinProtocol)}
	cfg := &goplugin.ClientConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {pluginName: &grpcPlugin{}}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		// What AutoMTLS does, but with a curve that TLS libraries of other
		// languages take: go-plugin's own is P-521, which BoringSSL, and with it
		// grpcio, refuses. There is no way without.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, ServerName: "localhost",
			RootCAs: x509.NewCertPool()}, // nobody, until the handshake names the one certificate
		SkipHostEnv:      true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: im.dir},
		StartTimeout:     o.startTimeout(),
		Logger:           quietLog{hclog.NewNullLogger()},
		SyncStdout:       out,
		SyncStderr:       errs,
		GRPCDialOptions:  dialOptions(),
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (goplugrun.Runner, error) {
			cmd.Path, cmd.Args = im.path, []string{im.name}
			cmd.Env = append(append(o.environment(), cmd.Env...), "PLUGIN_CLIENT_CERT="+certPEM, dirEnv+"="+im.dir)
			cmd.Err = nil
			p.runner.cmd = cmd
			return p.runner, nil
		},
	}
	p.client = goplugin.NewClient(cfg)
	stop := context.AfterFunc(ctx, p.runner.kill)
	defer stop()
	if f := p.connect(ctx, o); f != nil {
		p.kill()
		return nil, f
	}
	return p, nil
}

// quietLog is go-plugin's logger: silent under every name, so that nothing of
// what a plug-in writes is parsed.
type quietLog struct{ hclog.Logger }

func (q quietLog) Named(string) hclog.Logger      { return q }
func (q quietLog) ResetNamed(string) hclog.Logger { return q }
func (q quietLog) With(...any) hclog.Logger       { return q }
func (q quietLog) GetLevel() hclog.Level          { return hclog.Off }

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes)),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0), // a connection that is lost is lost
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
	}
}

func (p *process) connect(ctx context.Context, o *Options) *Fault {
	_, err := p.client.Start()
	if err != nil {
		return p.startFailed(ctx, o, err)
	}
	proto, err := p.client.Client()
	if err != nil {
		return p.orFault(faultf(Unreachable, "it cannot be connected to: %w", err))
	}
	raw, err := proto.Dispense(pluginName)
	if err != nil {
		return p.orFault(faultf(Unreachable, "it serves no store: %w", err))
	}
	p.conn = raw.(*grpc.ClientConn)
	p.rpc = pb.NewStoreServiceClient(p.conn)
	wait, cancel := context.WithTimeout(ctx, o.startTimeout())
	defer cancel()
	p.conn.Connect()
	for state := p.conn.GetState(); state != connectivity.Ready; state = p.conn.GetState() {
		if state == connectivity.TransientFailure || state == connectivity.Shutdown {
			return p.orFault(faultf(Unreachable, "the connection cannot be made, or its certificate is not the one in the handshake"))
		}
		if !p.conn.WaitForStateChange(wait, state) {
			return p.orFault(faultf(Unreachable, "no connection within %v", o.startTimeout()))
		}
	}
	return nil
}

func (p *process) startFailed(ctx context.Context, o *Options, err error) *Fault {
	if ctx.Err() != nil {
		return faultf(NoHandshake, "the caller gave up: %w", ctx.Err())
	}
	if f := p.runner.failed(); f != nil {
		return f
	}
	if p.runner.was(&p.runner.shook) {
		return faultf(Unreachable, "its handshake leads nowhere: %w", err)
	}
	if p.runner.process() == 0 {
		return faultf(TempDir, "%w", err)
	}
	<-p.runner.exited // go-plugin kills what it gives up
	if f := p.runner.failed(); f != nil {
		return f
	}
	if !p.runner.was(&p.runner.cut) {
		return faultf(Exited, "%s, before the handshake", p.runner.ending())
	}
	if tail := p.runner.out.tail(); tail != "" {
		return faultf(NoHandshake, "no handshake within %v, only %q", o.startTimeout(), clipText(tail, 200))
	}
	return faultf(NoHandshake, "no handshake within %v", o.startTimeout())
}

// orFault prefers what the runner saw, or the end of the process, to f.
func (p *process) orFault(f *Fault) *Fault {
	if seen := p.runner.failed(); seen != nil {
		return seen
	}
	select {
	case <-p.runner.exited:
		return faultf(Exited, "%s", p.runner.ending())
	case <-time.After(100 * time.Millisecond):
	}
	return f
}

// watch returns when the process is gone, or its connection: a connection that
// was lost is not made again, as whoever listened then need not be the same.
func (p *process) watch() *Fault {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lost := make(chan struct{})
	go func() {
		for p.conn.WaitForStateChange(ctx, connectivity.Ready) {
			if p.conn.GetState() != connectivity.Ready {
				close(lost)
				return
			}
		}
	}()
	select {
	case <-p.runner.exited:
	case <-lost:
		return p.orFault(faultf(Lost, "the connection dropped"))
	}
	if f := p.runner.failed(); f != nil {
		return f
	}
	return faultf(Exited, "%s", p.runner.ending())
}

// kill ends the process and waits until it and its group are gone.
func (p *process) kill() {
	p.runner.kill()
	if p.runner.process() != 0 {
		<-p.runner.exited
	}
	if p.conn != nil {
		p.conn.Close()
	}
	p.client.Kill() // removes its socket folder
}

// shutdown lets the process end by itself for a while and then kills it.
func (p *process) shutdown() {
	stop := time.AfterFunc(3*time.Second, p.runner.kill)
	p.client.Kill() // asks first
	stop.Stop()
	p.kill()
}

// clientCertificate is a new key and a certificate that lives as long as the
// process may.
func clientCertificate() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, "", err
	}
	now := time.Now()
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost", Organization: []string{"fencedstore"}}, DNSNames: []string{"localhost"},
		SerialNumber: serial, NotBefore: now.Add(-time.Minute), NotAfter: now.AddDate(30, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(text), nil
}
