package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// widest is the longest line that is written on purpose: it reads well in a
// small window and in a log.
const widest = 100

// screen is one of the program's two outputs.
type screen struct {
	w     io.Writer
	fd    int  // -1 when w is not a terminal
	color bool // paint
	live  bool // a line can be written over
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w, fd: -1}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.fd = int(f.Fd())
		s.color, s.live = abilities(os.Getenv)
	}
	return s
}

// abilities are those of a terminal in this environment; see no-color.org.
func abilities(getenv func(string) string) (color, live bool) {
	live = getenv("TERM") != "dumb"
	return live && getenv("NO_COLOR") == "", live
}

// width is that of the terminal, from 40 to widest; 80 where there is none.
func (s *screen) width() int {
	if s.fd < 0 {
		return 80
	}
	w, _, err := term.GetSize(s.fd)
	if err != nil || w <= 0 {
		return 80
	}
	return max(40, min(w, widest))
}

func (s *screen) printf(format string, args ...any) { fmt.Fprintf(s.w, format, args...) }

func (s *screen) paint(code, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) bold(t string) string   { return s.paint("1", t) }
func (s *screen) dim(t string) string    { return s.paint("2", t) }
func (s *screen) red(t string) string    { return s.paint("31", t) }
func (s *screen) green(t string) string  { return s.paint("32", t) }
func (s *screen) yellow(t string) string { return s.paint("33", t) }

// wrapped prints text in lines no longer than the screen, the first behind
// head, the others under it.
func (s *screen) wrapped(head, text string) {
	pad := strings.Repeat(" ", runes(head))
	for i, line := range wrap(text, s.width()-runes(head)) {
		if i > 0 {
			head = pad
		}
		s.printf("%s%s\n", head, line)
	}
}

// wrap breaks text into lines of at most width characters; a longer word
// stands alone on its line. Line breaks in text are kept; other control
// characters are made visible, for a store's text must not drive the terminal.
func wrap(text string, width int) []string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
	var out []string
	for par := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(par) {
			switch {
			case line == "":
				line = word
			case runes(line)+1+runes(word) <= width:
				line += " " + word
			default:
				out = append(out, line)
				line = word
			}
		}
		out = append(out, line)
	}
	return out
}

func runes(s string) int { return utf8.RuneCountInString(s) }

// pad fills s with spaces on the right up to width characters.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-runes(s)))
}

// clip cuts s to width characters, the last an ellipsis.
func clip(s string, width int) string {
	if runes(s) <= width {
		return s
	}
	r := []rune(s)
	return string(r[:max(0, width-1)]) + "…"
}

// thousands writes n with a comma at every third digit.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
