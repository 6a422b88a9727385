// Package report writes what the conformance suite found, for machines (JSON,
// JUnit XML) and for people (HTML, Markdown).
//
// A document holds one report or several, one per target, in the order given.
package report

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

// Format is a kind of document.
type Format struct {
	Name  string // "JSON", "JUnit XML", "HTML", "Markdown"
	Ext   string // the file name's extension, with the dot
	Write func(w io.Writer, reports ...*conformance.Report) error
}

// Formats lists every format.
func Formats() []Format {
	return []Format{
		{Name: "JSON", Ext: ".json", Write: JSON},
		{Name: "JUnit XML", Ext: ".xml", Write: JUnit},
		{Name: "HTML", Ext: ".html", Write: HTML},
		{Name: "Markdown", Ext: ".md", Write: Markdown},
	}
}

// FormatOf returns the format that the extension of path names, or INVALID.
func FormatOf(path string) (Format, error) {
	ext := strings.ToLower(filepath.Ext(path))
	var known []string
	for _, f := range Formats() {
		if f.Ext == ext {
			return f, nil
		}
		known = append(known, f.Ext)
	}
	return Format{}, sdk.Errorf(sdk.Invalid, "report", "%q: the extension says what to write, one of %s", path, strings.Join(known, ", "))
}

// Writable returns nil if Write could now write to path: the format is known,
// path is no directory, and a file can be made beside it. It leaves nothing
// behind. Failures are INVALID.
func Writable(path string) error {
	if _, err := FormatOf(path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return sdk.Errorf(sdk.Invalid, "report", "%q is not a regular file; name a file to write or to replace", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPattern)
	if err != nil {
		return unwritable(path, err)
	}
	f.Close()
	return os.Remove(f.Name())
}

// Write writes the reports to path in the format that its extension names. The
// file is complete or untouched; one that exists is replaced.
//
// INVALID: unknown extension, or path cannot be written.
func Write(path string, reports ...*conformance.Report) error {
	format, err := FormatOf(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPattern)
	if err != nil {
		return unwritable(path, err)
	}
	defer os.Remove(f.Name())
	err = format.Write(f, reports...)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return unwritable(path, err)
	}
	return nil
}

const tempPattern = ".adaptercheck-*"

func unwritable(path string, err error) error {
	return sdk.Errorf(sdk.Invalid, "report", "%q cannot be written; choose a directory that exists and is yours: %w", path, err)
}
