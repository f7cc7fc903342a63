package run

import (
	"fmt"
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows how far a run is. The zero value shows nothing.
type progress struct {
	box *mpb.Progress
	bar *mpb.Bar
}

// barWidth is that of the bar itself, in columns.
const barWidth = 40

// newProgress draws a bar on stderr if that is a terminal, and returns the
// writers that the output of tasks must take beside it.
func newProgress(d *Deps) (p *progress, stdout, stderr io.Writer) {
	p = &progress{}
	if !d.IsTerminal {
		return p, d.Stdout, d.Stderr
	}
	p.box = mpb.New(mpb.WithOutput(d.Stderr), mpb.WithWidth(barWidth), mpb.WithAutoRefresh())
	p.bar = p.box.AddBar(0,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersNoUnit("%d/%d")),
		mpb.AppendDecorators(
			decor.Percentage(),
			decor.Name(" "),
			decor.AverageETA(decor.ET_STYLE_GO),
		),
	)
	stderr = &lineWriter{w: p.box}
	if sameTerminal(d.Stdout, d.Stderr) {
		return p, stderr, stderr
	}
	return p, d.Stdout, stderr
}

// sameTerminal reports whether both are one file: what is written beside the
// bar would be overwritten by it.
func sameTerminal(a, b io.Writer) bool {
	f, ok := a.(*os.File)
	g, ok2 := b.(*os.File)
	if !ok || !ok2 {
		return false
	}
	s, err := f.Stat()
	t, err2 := g.Stat()
	return err == nil && err2 == nil && os.SameFile(s, t)
}

// total says how many tasks there are, as far as is known.
func (p *progress) total(n int) {
	if p.bar != nil {
		p.bar.SetTotal(int64(n), false)
	}
}

// ended counts one task.
func (p *progress) ended() {
	if p.bar != nil {
		p.bar.Increment()
	}
}

// close removes the bar.
func (p *progress) close() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(true)
	p.box.Wait()
}

// note writes a line of our own.
func note(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "hearth: "+format+"\n", args...)
}
