package lab

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Bend sees every request before the server does, and may answer it itself,
// change it, or lose it (panic(http.ErrAbortHandler) cuts the connection).
type Bend func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Proxy stands before an HTTP server, counts what passes and lets a test give
// the answers that no local server gives.
type Proxy struct {
	*httptest.Server
	name func(*http.Request) string

	mu    sync.Mutex
	bend  Bend
	calls map[string]int
}

// Front puts a proxy before target until the test ends. Name gives the name by
// which a request is counted. The Host header stays the client's, which has
// signed it.
func Front(tb testing.TB, target string, name func(*http.Request) string) *Proxy {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	next := &httputil.ReverseProxy{Transport: transport, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host },
		// A server that is gone looks like one: the connection is cut.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }}
	p := Handle(tb, next, name)
	tb.Cleanup(transport.CloseIdleConnections)
	return p
}

// Handle is Front for a server in this process.
func Handle(tb testing.TB, next http.Handler, name func(*http.Request) string) *Proxy {
	p := &Proxy{name: name, calls: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.calls[p.name(r)]++
		bend := p.bend
		p.mu.Unlock()
		if bend != nil {
			bend(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}))
	tb.Cleanup(p.Close)
	return p
}

// Set puts bend before every request from now on; nil takes it away.
func (p *Proxy) Set(bend Bend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bend = bend
}

// Count is how many requests of a name came, of every name with "".
func (p *Proxy) Count(name string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != "" {
		return p.calls[name]
	}
	for _, c := range p.calls {
		n += c
	}
	return n
}
