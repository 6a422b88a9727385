package gate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk/gate"
)

// handshake makes a real TLS connection with a client certificate for uri and
// returns what the server knows of its peer.
func handshake(t *testing.T, auth tls.ClientAuthType, uri string) *tls.ConnectionState {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"server"}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		leaf.URIs = []*url.URL{u}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	c, s := net.Pipe()
	defer c.Close()
	defer s.Close()
	server := tls.Server(s, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: auth, ClientCAs: pool})
	client := tls.Client(c, &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: "server"})
	done := make(chan error, 1)
	go func() { done <- client.HandshakeContext(t.Context()) }()
	if err := server.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	state := server.ConnectionState()
	return &state
}

func TestSPIFFECaller(t *testing.T) {
	caller, err := gate.SPIFFECaller("example.org")
	if err != nil {
		t.Fatal(err)
	}
	good := "spiffe://example.org/worker/settlement-7"
	id, err := caller.Identity(gate.WithPeer(t.Context(), handshake(t, tls.RequireAndVerifyClientCert, good)))
	if err != nil || id != good {
		t.Errorf("got %q, %v", id, err)
	}
	for name, state := range map[string]*tls.ConnectionState{
		"another trust domain": handshake(t, tls.RequireAndVerifyClientCert, "spiffe://evil.org/worker/settlement-7"),
		"no SPIFFE ID":         handshake(t, tls.RequireAndVerifyClientCert, ""),
		"not a SPIFFE URI":     handshake(t, tls.RequireAndVerifyClientCert, "https://example.org/worker/settlement-7"),
		"not verified":         handshake(t, tls.RequireAnyClientCert, good),
		"no peer":              nil,
	} {
		if id, err := caller.Identity(gate.WithPeer(t.Context(), state)); err == nil {
			t.Errorf("%s: %q", name, id)
		}
	}
	if id, err := caller.Identity(t.Context()); err == nil {
		t.Errorf("no TLS: %q", id)
	}
	if _, err := gate.SPIFFECaller("not a domain/"); err == nil {
		t.Error("bad trust domain accepted")
	}
}
