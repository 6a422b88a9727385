package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
)

// progress shows how far the suite is: one line that is written over on a
// terminal, a line per finished case elsewhere.
type progress struct {
	s     *screen
	cases int

	mu    sync.Mutex
	done  int
	shown time.Time // when the last line was written
}

const (
	liveEvery  = 80 * time.Millisecond
	plainEvery = 10 * time.Second // so that a long case in a log does not look hung
)

func newProgress(s *screen, cases int) *progress {
	return &progress{s: s, cases: cases, shown: time.Now()}
}

func (p *progress) event(e conformance.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Result != nil {
		p.done++
		p.finished(e.Result)
		return
	}
	now := time.Now()
	line := fmt.Sprintf("%s %s", p.count(p.done+1), e.Case)
	if e.Total > 0 {
		line += fmt.Sprintf("  %s of %s", thousands(int64(e.Done)), thousands(int64(e.Total)))
	} else if e.Done > 0 {
		line += "  " + thousands(int64(e.Done))
	}
	switch {
	case p.s.live && now.Sub(p.shown) >= liveEvery:
		p.s.printf("\r\x1b[K%s", p.s.dim(clip(line, p.s.width()-1)))
	case !p.s.live && now.Sub(p.shown) >= plainEvery:
		p.s.printf("%s\n", line)
	default:
		return
	}
	p.shown = now
}

func (p *progress) finished(r *conformance.Result) {
	if p.s.live {
		if r.Status == conformance.Failed {
			p.s.printf("\r\x1b[K%s\n", p.s.red("failed  "+r.ID))
		}
		return
	}
	word := strings.ReplaceAll(string(r.Status), "_", " ")
	p.s.printf("%s %-10s  %s\n", p.count(p.done), word, r.ID)
	p.shown = time.Now()
}

func (p *progress) count(n int) string {
	total := fmt.Sprint(p.cases)
	return fmt.Sprintf("%*d/%s", len(total), min(n, p.cases), total)
}

// end leaves the terminal's line empty for what follows.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.s.live {
		p.s.printf("\r\x1b[K")
	}
}
