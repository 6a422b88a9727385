// Package pluginpython holds a plug-in in Python, written from the proto files
// and docs/plugin-protocol.md alone, over a SQLite file of its own. The Go files
// are its test.
package pluginpython
