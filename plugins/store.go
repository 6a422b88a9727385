package plugins

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fencedstore/fencedstore/plugins/internal/wire"
	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

// Store is a store in a plug-in. It implements sdk.FencedStore.
type Store struct {
	plugin *Plugin
	owns   bool // Close closes the plug-in too
	req    *pb.OpenRequest
	opts   sdk.OpenOptions
	socks  *socks
	desc   sdk.Description
	closed atomic.Bool
	once   sync.Once
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu   sync.Mutex
	open map[*process]uint64 // at most one element: the handle in the process that runs
	busy chan struct{}       // held while the handle is opened again
}

// Open starts the plug-in at path and opens its store by opts.DSN and
// opts.Store; Close ends both. Errors are those of [Start] and of
// sdk.OpenFunc.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	p, err := Start(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	s, err := p.Open(ctx, p.opts.DSN, p.opts.Store)
	if err != nil {
		p.Close()
		return nil, err
	}
	s.owns = true
	return s, nil
}

// Open opens a store in the plug-in's process; many can be open at a time.
// Closing one leaves the process running.
func (p *Plugin) Open(ctx context.Context, dsn string, opts sdk.OpenOptions) (*Store, error) {
	if _, _, _, err := opts.ParseNamespace(); err != nil {
		return nil, err
	}
	s := &Store{plugin: p, opts: opts, open: map[*process]uint64{}, busy: make(chan struct{}, 1),
		req: &pb.OpenRequest{Dsn: dsn, Namespace: opts.Namespace, Scoped: opts.Scope != nil}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if opts.Dial != nil {
		var err error
		if s.socks, err = newSocks(opts.Dial); err != nil {
			return nil, sdk.Errorf(sdk.NotApplied, "dial", "no local proxy: %w", err)
		}
		s.req.DialVia = s.socks.url()
	}
	if proto.Size(s.req) > wire.MaxMessageBytes/2 || dsn != wire.Text(dsn) {
		s.release()
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "too long, or not UTF-8")
	}
	ctx, done := s.callContext(ctx)
	defer done()
	if _, _, err := s.handle(ctx); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Store) release() {
	s.cancel()
	if s.socks != nil {
		s.socks.close()
	}
}

// Plugin is the process that the store is in.
func (s *Store) Plugin() *Plugin { return s.plugin }

// Done is the plug-in's: closed when no process runs and none will.
func (s *Store) Done() <-chan struct{} { return s.plugin.done }

// ownLimit marks a context that ends with the host's own limit for a call.
type ownLimit struct{}

// callContext bounds a call by the host's own limit and by Close.
func (s *Store) callContext(ctx context.Context) (context.Context, func()) {
	limit := time.Now().Add(s.plugin.opts.callTimeout())
	if d, ok := ctx.Deadline(); !ok || limit.Before(d) {
		ctx = context.WithValue(ctx, ownLimit{}, true)
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// handle returns the process that runs and the handle in it. In a new process
// the store is opened again; nothing else is sent again. NOT_APPLIED: there is
// none now; nothing was sent.
func (s *Store) handle(ctx context.Context) (*process, uint64, error) {
	for {
		if s.closed.Load() {
			return nil, 0, errClosed()
		}
		p, err := s.plugin.process(ctx)
		if err != nil {
			return nil, 0, err
		}
		s.mu.Lock()
		id := s.open[p]
		s.mu.Unlock()
		if id != 0 {
			return p, id, nil
		}
		select {
		case s.busy <- struct{}{}:
		case <-ctx.Done():
			return nil, 0, sdk.Errorf(sdk.NotApplied, "plug-in", "it is being opened again, nothing was sent: %w", ctx.Err())
		}
		err = s.openIn(ctx, p)
		<-s.busy
		if err != nil {
			return nil, 0, err
		}
	}
}

func (s *Store) openIn(ctx context.Context, p *process) error {
	s.mu.Lock()
	first, have := s.desc.Name == "", s.open[p] != 0
	s.mu.Unlock()
	switch {
	case have:
		return nil
	case !first && s.desc.Supports(sdk.CapDurable) != sdk.Supported:
		// Opened again it would be empty, and take a stale owner for the first.
		return sdk.Errorf(sdk.Unsuitable, "plug-in", "the process ended, and what %s had accepted with it; open another store", s.desc.Name)
	}
	res, err := p.rpc.Open(ctx, s.req)
	if err != nil {
		return s.lost(ctx, p, err)
	}
	opened := res.GetOpened()
	if opened == nil {
		return wire.ParseFailure(res.GetFailure())
	}
	d, err := wire.ParseDescription(opened.Description)
	if err != nil || opened.Handle == 0 {
		if err == nil {
			err = sdk.Errorf(sdk.Invalid, "handle", "0")
		}
		return faultf(BadDescription, "%w", err).unsuitable(s.plugin.path)
	}
	s.adjust(&d, opened.HonorsDialVia)
	if l := s.plugin.lock; l != nil && (d.Name != l.Adapter || l.Version != "" && d.Version != l.Version) {
		return faultf(BadDescription, "it calls itself %s %s and the certificate is of %s %s", d.Name, d.Version, l.Adapter, l.Version).unsuitable(s.plugin.path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !first && !sameStore(&s.desc, &d) {
		return faultf(BadDescription, "it describes itself otherwise than before it was started again").unsuitable(s.plugin.path)
	}
	if first {
		s.desc = d
	}
	s.open = map[*process]uint64{p: opened.Handle}
	return nil
}

// adjust takes away what does not cross the wire.
func (s *Store) adjust(d *sdk.Description, dialVia bool) {
	d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.NotSupported,
		Reason: "the caller's code cannot run in a plug-in's transaction"}
	if !dialVia && d.Supports(sdk.CapDial) == sdk.Supported {
		d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported, Reason: "the plug-in does not send its connections through dial_via"}
	}
}

// sameStore compares all but what a server may change meanwhile: its version.
func sameStore(a, b *sdk.Description) bool {
	x, y := *a, *b
	x.Backend, y.Backend = "", ""
	return reflect.DeepEqual(x, y)
}

// Describe implements sdk.FencedStore. apply_tx is never supported: the
// caller's code cannot run in another process.
func (s *Store) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Close implements sdk.FencedStore.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.closed.Store(true)
		s.cancel()
		s.mu.Lock()
		open := s.open
		s.open = nil
		s.mu.Unlock()
		for p, id := range open {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			res, rerr := p.rpc.Close(ctx, &pb.CloseRequest{Handle: id})
			cancel()
			if f := res.GetFailure(); rerr == nil && f != nil {
				err = wire.ParseFailure(f)
			}
		}
		if s.owns {
			s.plugin.Close()
		}
		s.release()
	})
	return err
}
