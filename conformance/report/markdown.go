package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/fencedstore/fencedstore/conformance"
)

// Markdown writes a page for a pull request or a wiki.
func Markdown(w io.Writer, reports ...*conformance.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Conformance of fenced stores\n")
	for _, r := range reports {
		markdownReport(&b, r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownReport(b *strings.Builder, r *conformance.Report) {
	fmt.Fprintf(b, "\n## %s: %s\n\n%s\n\n", mdText(r.Target), Words(r), mdText(r.Verdict))
	b.WriteString("| | |\n|---|---|\n")
	rows := facts(r)[1:]
	if len(r.Results) > 0 {
		rows = append(rows, figures(r)...)
	}
	for _, f := range rows {
		fmt.Fprintf(b, "| %s | %s |\n", f.Name, mdText(f.Value))
	}
	if len(r.Results) == 0 {
		return
	}
	b.WriteString("\n| law | cases | passed | failed | not proven |\n|---|--:|--:|--:|---|\n")
	for _, l := range lawViews(r) {
		open := "0"
		if l.Line.NotProven > 0 {
			open = fmt.Sprintf("%d: %s", l.Line.NotProven, mdText(strings.Join(l.Line.Reasons, "; ")))
		}
		fail := "0"
		if l.Line.Failed > 0 {
			fail = fmt.Sprintf("**%d**", l.Line.Failed)
		}
		fmt.Fprintf(b, "| %s %s | %d | %d | %s | %s |\n", l.Text.ID, mdText(l.Text.Name), l.Line.Cases, l.Line.Passed, fail, open)
	}
	if list := failed(r); len(list) > 0 {
		b.WriteString("\n### Failures\n")
		for _, res := range list {
			fmt.Fprintf(b, "\n#### `%s` (%s)\n", res.ID, res.Law)
			if res.Reason != "" {
				fmt.Fprintf(b, "\n%s\n", mdText(res.Reason))
			}
			for _, f := range res.Failures {
				fmt.Fprintf(b, "\n- got: %s\n- want: %s\n- law: %s\n- at: %s\n", mdText(f.Got), mdText(f.Want), mdText(f.Law), mdText(f.Where))
				if f.Replay != "" {
					fmt.Fprintf(b, "- replay: `%s`\n", strings.ReplaceAll(oneLine(f.Replay), "`", "'"))
				}
			}
		}
	}
}

var mdEscape = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "#", `\#`)

// mdText is s on one line with nothing that Markdown would read as markup.
func mdText(s string) string { return mdEscape.Replace(oneLine(s)) }

// oneLine joins the lines of s and drops its control characters.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
