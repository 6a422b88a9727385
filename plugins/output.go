package plugins

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// maxLine is how much of a line is logged; the rest of it is only counted.
	maxLine = 4 << 10
	// A flood is logged up to lineBurst lines at once and lineRate a second
	// after that; what is left out is counted.
	lineBurst = 500
	lineRate  = 50
	// keepLines are the last lines that an error shows.
	keepLines = 8
)

// lines takes a plug-in's output and logs it line by line. It never stops
// taking, blocks on nothing but the logger, and reads nothing out of a line.
type lines struct {
	log    *slog.Logger
	stream string

	mu      sync.Mutex
	part    []byte
	cut     int // bytes of the line beyond maxLine
	tokens  float64
	at      time.Time
	dropped int
	last    []string
	crash   string // the line that began a crash
}

func newLines(log *slog.Logger, stream string) *lines {
	return &lines{log: log, stream: stream, tokens: lineBurst, at: time.Now()}
}

// Write takes everything.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		room := min(len(line), maxLine-len(l.part))
		l.part = append(l.part, line[:room]...)
		l.cut += len(line) - room
		if whole {
			l.flush()
		}
		b = rest
	}
	return n, nil
}

// end logs what is left of a line without an end.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.flush()
	}
	if l.dropped > 0 {
		l.log.Warn("plug-in output left out", "stream", l.stream, "lines", l.dropped)
		l.dropped = 0
	}
}

func (l *lines) flush() {
	text := printable(l.part)
	cut := l.cut
	l.part, l.cut = l.part[:0], 0
	l.last = append(l.last, text)
	if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
		l.crash = text
	}
	if len(l.last) > keepLines {
		l.last = l.last[1:]
	}
	now := time.Now()
	l.tokens = min(lineBurst, l.tokens+now.Sub(l.at).Seconds()*lineRate)
	l.at = now
	if l.tokens < 1 {
		l.dropped++
		return
	}
	l.tokens--
	if l.dropped > 0 {
		l.log.Warn("plug-in output left out", "stream", l.stream, "lines", l.dropped)
		l.dropped = 0
	}
	attrs := []slog.Attr{slog.String("stream", l.stream), slog.String("line", text)}
	if cut > 0 {
		attrs = append(attrs, slog.Int("cut", cut))
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, "plug-in", attrs...)
}

// tail is the last lines, for an error.
func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := strings.Join(l.last, "\n")
	if l.crash != "" && !slices.Contains(l.last, l.crash) {
		out = l.crash + "\n" + out
	}
	if len(l.part) > 0 {
		out += "\n" + printable(l.part)
	}
	return strings.TrimSpace(out)
}

// drain copies r into l until it ends.
func (l *lines) drain(r io.Reader) {
	_, _ = io.Copy(l, r)
	l.end()
}

// printable is b without what could play with a terminal.
func printable(b []byte) string {
	s := strings.ToValidUTF8(string(bytes.TrimRight(b, "\r")), "\uFFFD")
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if unprintable(r) {
			q := strconv.QuoteRuneToASCII(r)
			out.WriteString(q[1 : len(q)-1])
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }
