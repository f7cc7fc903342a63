package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// reportVersion is that of the JSON form.
const reportVersion = 1

// Report is what a benchmark prints.
type Report struct {
	Version   int      `json:"version"`
	Benchmark string   `json:"benchmark"`
	Figures   []Figure `json:"figures"`
	Claims    []Claim  `json:"claims"`
	// Notes say how it was measured, and what is missing.
	Notes []string `json:"notes,omitempty"`
}

// Figure is one measured thing: the median of its runs, with the interval where
// there were several.
type Figure struct {
	Name     string `json:"name"`
	Unit     string `json:"unit"`
	Interval        // of the runs
	Runs     int    `json:"runs"`
}

// Claim is a bound that a figure or ratio must keep.
type Claim struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"` // empty: a ratio
	Interval
	Target float64 `json:"target"`
	// AtMost: smaller is better, and the upper end of the interval must not be
	// above the target. Otherwise the lower end must not be below.
	AtMost bool `json:"at_most,omitempty"`
	// Missing says which peer there was none of; the claim is then not met.
	Missing string `json:"missing,omitempty"`
	Met     bool   `json:"met"`
}

// NewReport begins the report of a benchmark.
func NewReport(benchmark string) *Report {
	return &Report{Version: reportVersion, Benchmark: benchmark, Figures: []Figure{}, Claims: []Claim{}}
}

// Figure adds the median of runs. No runs add nothing.
func (r *Report) Figure(name, unit string, runs []float64) {
	if len(runs) > 0 {
		r.Figures = append(r.Figures, Figure{Name: name, Unit: unit, Interval: MedianInterval(runs), Runs: len(runs)})
	}
}

// AtLeast claims that a figure's lower bound is not below the target.
func (r *Report) AtLeast(name, unit string, v Interval, target float64) {
	r.Claims = append(r.Claims, Claim{Name: name, Unit: unit, Interval: v, Target: target, Met: v.Low >= target})
}

// AtMost claims that a figure's upper bound is not above the target.
func (r *Report) AtMost(name, unit string, v Interval, target float64) {
	r.Claims = append(r.Claims, Claim{Name: name, Unit: unit, Interval: v, Target: target, AtMost: true, Met: v.High <= target})
}

// PeerMissing adds a claim that fails for want of its peer.
func (r *Report) PeerMissing(name string, target float64, peer string) {
	r.Claims = append(r.Claims, Claim{Name: name, Target: target, Missing: "peer missing: " + peer})
}

// Note adds a line on how it was measured.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Met reports whether every claim is met.
func (r *Report) Met() bool {
	for _, c := range r.Claims {
		if !c.Met {
			return false
		}
	}
	return true
}

// WriteTable writes figures, claims and notes for a person.
func (r *Report) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "MEASURED\tMEDIAN\t95 %\tRUNS\tUNIT")
	for _, f := range r.Figures {
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\n", f.Name, digits(f.Median), between(f.Interval), f.Runs, f.Unit)
	}
	if len(r.Claims) > 0 {
		_, _ = fmt.Fprintln(tw, "\t\t\t\t\nCLAIM\tMEDIAN\t95 %\tVERDICT\tTARGET")
	}
	for _, c := range r.Claims {
		if c.Missing != "" {
			_, _ = fmt.Fprintf(tw, "%s\t-\t-\tnot met\t%s\n", c.Name, c.Missing)
			continue
		}
		verdict, rule := "not met", "at least"
		if c.Met {
			verdict = "met"
		}
		if c.AtMost {
			rule = "at most"
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s %s\n", c.Name, digits(c.Median), between(c.Interval), verdict, rule,
			strings.TrimSpace(digits(c.Target)+" "+c.Unit))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	for i, n := range r.Notes {
		if i == 0 {
			_, _ = fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintln(w, n); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

func between(v Interval) string { return digits(v.Low) + " to " + digits(v.High) }

// digits shows three significant digits, and whole numbers from 100 on.
func digits(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
