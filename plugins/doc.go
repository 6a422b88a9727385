// Package plugins runs adapters as processes of their own. A plug-in's main
// calls [Serve] with the adapter's open function; a host calls [Open] with the
// path of the binary and gets an sdk.FencedStore. docs/plugin-protocol.md says
// how to write a plug-in in another language.
//
// What is executed is what was hashed: the host copies the binary into a folder
// that only it can read, hashes the bytes while it copies them, and executes the
// copy. Traffic goes over a Unix socket in that folder with TLS on both sides,
// by certificates that live as long as the process.
//
// A plug-in that dies is replaced by a new process, with backoff. Writes that
// were under way are MUTATION_UNKNOWN and never sent again by the host; a
// receipt settles them.
package plugins

import (
	"fmt"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/fencedstore/fencedstore/sdk"
)

const (
	// ProtocolVersion is the newest version of the protocol that this package
	// speaks, MinProtocol the oldest.
	ProtocolVersion = 1
	MinProtocol     = 1

	// pluginName is the one service that a process has.
	pluginName = "store"
	// aliveEnv names the file descriptor of a pipe that ends with the host.
	aliveEnv = "FENCEDSTORE_PLUGIN_ALIVE_FD"
	// dirEnv names the private folder, for a plug-in whose host is gone to remove.
	dirEnv = "FENCEDSTORE_PLUGIN_DIR"
	// cookieEnv shows a plug-in that a host started it; it is no secret.
	cookieEnv   = "FENCEDSTORE_PLUGIN"
	cookieValue = "fencedstore.v1"
)

// handshake is what go-plugin compares. A function, as ServeConfig and
// ClientConfig keep what they are given.
func handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: cookieEnv, MagicCookieValue: cookieValue}
}

// Reason is why a plug-in was not started, or not kept. The set only grows.
type Reason string

const (
	NotFound          Reason = "not-found"          // there is no such file
	NotExecutable     Reason = "not-executable"     // it is no program, or may not be executed
	WrongArchitecture Reason = "wrong-architecture" // a program for another machine
	TempDir           Reason = "temp-dir"           // no private folder can be made
	SocketPath        Reason = "socket-path"        // the folder's path is too long for a Unix socket
	HashMismatch      Reason = "hash-mismatch"      // the bytes are not those that were pinned
	NoManifest        Reason = "no-manifest"        // a script without a list of what it loads
	BadManifest       Reason = "bad-manifest"       // the list does not parse, or a file is not as listed
	StdoutNoise       Reason = "stdout-noise"       // text before the handshake
	NoHandshake       Reason = "no-handshake"       // nothing within the start timeout
	Exited            Reason = "exited"             // it ended before or while it was asked
	WrongProtocol     Reason = "wrong-protocol"     // not gRPC over a local socket
	WrongVersion      Reason = "wrong-version"      // no version of the protocol in common
	NoTLS             Reason = "no-tls"             // it offers no certificate
	Unreachable       Reason = "unreachable"        // it cannot be connected to
	BadDescription    Reason = "bad-description"    // what it says of itself cannot be true, or changed
	Hung              Reason = "hung"               // a call ran into the host's own limit
	Lost              Reason = "lost"               // the connection dropped

	NotListed          Reason = "not-listed"          // the lock file has no such plug-in
	BadLock            Reason = "bad-lock"            // the lock file does not parse
	NoCertificate      Reason = "no-certificate"      // none is named, or the file is missing
	BadCertificate     Reason = "bad-certificate"     // it does not parse, or its signature does not hold
	ForeignCertificate Reason = "foreign-certificate" // signed by a key that does not count, or for another binary
	StaleCertificate   Reason = "stale-certificate"   // of an older suite than the lock demands
	NotCertified       Reason = "not-certified"       // the certificate says that the plug-in falls short
	LowEnvironment     Reason = "low-environment"     // certified against less than the lock demands
)

// Fault is what went wrong with a plug-in. It is the cause of an *sdk.Error;
// take it out with errors.As.
type Fault struct {
	Reason Reason
	Detail string // for a person
	Err    error  // the cause, may be nil
}

func (f *Fault) Error() string { return string(f.Reason) + ": " + f.Detail }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

func faultf(r Reason, format string, args ...any) *Fault {
	err := fmt.Errorf(format, args...)
	f := &Fault{Reason: r, Detail: err.Error()}
	if u, ok := err.(interface{ Unwrap() error }); ok {
		f.Err = u.Unwrap()
	}
	return f
}

// unsuitable is a fault as the error of Open.
func (f *Fault) unsuitable(path string) error {
	return sdk.Errorf(sdk.Unsuitable, "plug-in", "%s: %w", path, f)
}
