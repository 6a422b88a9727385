package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
)

//go:embed report.tmpl.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"status": Status,
	"words":  Words,
	"laws":   lawViews,
	"failed": failed,
	"figures": func(r *conformance.Report) []figure {
		return figures(r)
	},
	"facts":   facts,
	"adapter": NewAdapter,
	"join":    strings.Join,
	"ms":      func(d time.Duration) string { return thousands(d.Milliseconds()) + " ms" },
	"bytes":   func(n int) string { return limit(int64(n)) },
	"bytes64": limit,
	"mark": func(res *conformance.Result) string {
		switch res.Status {
		case conformance.Passed:
			return "passed"
		case conformance.Failed:
			return "failed"
		}
		return "open"
	},
	"suite": func() string { return conformance.SuiteVersion },
}).Parse(page))

// HTML writes one self-contained page: no script, nothing loaded from
// elsewhere. Laws have the anchors "#F1", or "#t2-F1" for the second target;
// cases that of their ID.
func HTML(w io.Writer, reports ...*conformance.Report) error {
	type target struct {
		*conformance.Report
		Prefix string
	}
	var data []target
	for i, r := range reports {
		t := target{Report: r}
		if i > 0 {
			t.Prefix = "t" + thousands(int64(i+1)) + "-"
		}
		data = append(data, t)
	}
	return pageTemplate.Execute(w, data)
}

func limit(n int64) string {
	if n == 0 {
		return "none stated"
	}
	return thousands(n)
}
