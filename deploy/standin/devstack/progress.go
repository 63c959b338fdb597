package devstack

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A progress reports on long work. On a terminal, it rewrites one line each second. Elsewhere, it
// writes a line when a step begins and every 15 s.
type progress struct {
	out      io.Writer
	terminal bool
	stop     chan struct{}
	stopped  chan struct{}

	mu    sync.Mutex
	what  string
	began time.Time
}

// startProgress starts a progress. It shows nothing until the first step has lasted a moment. The
// caller must call end.
func startProgress(out io.Writer) *progress {
	p := &progress{out: out, stop: make(chan struct{}), stopped: make(chan struct{})}
	if file, ok := out.(*os.File); ok {
		if info, err := file.Stat(); err == nil {
			p.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	go p.run()
	return p
}

// Step sets the name of the step that begins now.
func (p *progress) Step(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.began = what, time.Now()
}

// Say sets how far the step is.
func (p *progress) Say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

func (p *progress) run() {
	defer close(p.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var told string // the last text shown; on a terminal, the content of the line
	var step, toldAt time.Time
	for {
		select {
		case <-p.stop:
			if p.terminal && told != "" {
				fmt.Fprint(p.out, "\r\x1b[K")
			}
			return
		case <-tick.C:
		}
		p.mu.Lock()
		what, began := p.what, p.began
		p.mu.Unlock()
		since := time.Since(began).Round(time.Second)
		switch {
		case what == "":
		case p.terminal:
			fmt.Fprintf(p.out, "\r\x1b[K%s … %v", what, since)
			told = what
		case began != step || time.Since(toldAt) >= 15*time.Second:
			fmt.Fprintf(p.out, "%s … %v\n", what, since)
			told, step, toldAt = what, began, time.Now()
		}
	}
}

// end stops the reports and clears the terminal's line.
func (p *progress) end() {
	close(p.stop)
	<-p.stopped
}
