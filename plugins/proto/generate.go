// Package proto holds the protocol between hosts and plug-ins. The .proto files
// are enough to write a plug-in in any language; docs/plugin-protocol.md goes
// with them.
//
// buf comes from a module file of its own, so that whoever uses this module does
// not take on what buf needs.
package proto

//go:generate go tool -modfile=tools.mod buf generate
