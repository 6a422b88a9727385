package main

import (
	"strings"
	"time"
)

// timeline prints two stories beside each other.
type timeline struct {
	o    *screen
	cell int // width of a cell's text
	last time.Duration
}

const (
	timeWidth = 5
	longWhile = 8 * time.Second // an empty row stands for it
)

func newTimeline(o *screen, left, right string) *timeline {
	t := &timeline{o: o, cell: (max(80, o.width()) - timeWidth - 2*3) / 2}
	o.printf("\n%s\n\n", o.bold("Two workers, one report. A lease lets a worker try; only the store can refuse."))
	t.row("", o.bold(pad(left, t.cell)), o.bold(right))
	t.rule("┼")
	return t
}

func (t *timeline) rule(cross string) {
	bar := strings.Repeat("─", t.cell+2)
	t.o.printf("%s\n", t.o.dim(strings.Repeat("─", timeWidth+1)+cross+bar+cross+bar[:len(bar)-len("─")]))
}

// row prints cells that are padded and painted already.
func (t *timeline) row(time, left, right string) {
	bar := t.o.dim("│")
	t.o.printf("%s\n", strings.TrimRight(pad(time, timeWidth)+" "+bar+" "+left+" "+bar+" "+right, " "))
}

func (t *timeline) scene(at time.Duration, left, right []line) {
	if at-t.last >= longWhile {
		t.row("", strings.Repeat(" ", t.cell), "")
	}
	t.last = at
	l, r := t.lines(left), t.lines(right)
	when := clock(at)
	for i := range max(len(l), len(r)) {
		blank := strings.Repeat(" ", t.cell)
		cells := [2]string{blank, blank}
		if i < len(l) {
			cells[0] = l[i]
		}
		if i < len(r) {
			cells[1] = r[i]
		}
		t.row(when, cells[0], strings.TrimRight(cells[1], " "))
		when = ""
	}
}

func (t *timeline) end() { t.rule("┴") }

// lines wraps, pads and paints a cell.
func (t *timeline) lines(cell []line) []string {
	var out []string
	for _, l := range cell {
		head := [...]string{act: "", note: "  · ", good: "  ✓ ", bad: "  ✗ "}[l.kind]
		for i, text := range wrap(l.text, t.cell-runes(head)) {
			if i > 0 {
				head = strings.Repeat(" ", runes(head))
			}
			text = pad(head+text, t.cell)
			switch l.kind {
			case note:
				text = t.o.dim(text)
			case good:
				text = t.o.green(text)
			case bad:
				text = t.o.red(text)
			}
			out = append(out, text)
		}
	}
	return out
}
