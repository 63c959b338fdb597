package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Measures of the plot, in pixels. The text is that of the system, about 0.55 of
// its size wide.
const (
	plotWidth  = 960
	plotMargin = 24
	labelWidth = 300                                                // at the left of the bars
	valueWidth = 90                                                 // at their right
	barsWidth  = plotWidth - 2*plotMargin - labelWidth - valueWidth // what the axis spans
	barsLeft   = plotMargin + labelWidth
	rowHeight  = 26
	lineChars  = (plotWidth - 2*plotMargin) / 7 // of a wrapped line
	labelChars = labelWidth / 7
)

// colors of the bars: what is measured, then what it is measured against.
var colors = []string{"#2f6fb3", "#b9c2cc", "#d9a441", "#7a9e5b"}

const plotStyle = `text{font-family:system-ui,-apple-system,"DejaVu Sans",sans-serif;font-size:13px;fill:#1f2933}
.title{font-size:19px;font-weight:600}.sub{fill:#52606d}.name{font-size:14px;font-weight:600}.tick{font-size:11px;fill:#52606d}
.grid{stroke:#e4e7eb}.axis{stroke:#52606d}.round{fill:#1f2933;fill-opacity:.45}.goal{stroke:#c0392b;stroke-width:2;stroke-dasharray:6 3}.goaltext{font-size:11px;fill:#c0392b}`

// plot is an SVG that grows downwards.
type plot struct {
	b bytes.Buffer
	y float64
}

// writeSVG writes a panel for each figure that has a unit: bars to the medians, a dot for each
// round, the goal as a line.
func (r results) writeSVG(w io.Writer) error {
	var p plot
	p.y = plotMargin
	for i, report := range r.Reports {
		if i > 0 {
			p.y += 28
		}
		p.y += 20
		p.text("title", plotMargin, "", report.Name)
		p.y += 20
		p.wrapped("sub", report.About)
		for _, part := range report.Parts {
			for _, f := range part.Figures {
				if f.Unit != "" { // a number of things says how much was measured
					p.panel(f)
				}
			}
		}
		p.y += 28
		for _, line := range append([]string{report.Result}, report.verdicts()...) {
			p.wrapped("", line)
		}
	}
	p.y += 12
	p.wrapped("tick", "Bars: medians. Dots: the rounds. "+r.Machine+"; "+r.At.Format(time.RFC3339))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<style>%[3]s</style>
<rect width="100%%" height="100%%" fill="#ffffff"/>
%[4]s</svg>
`, plotWidth, int(p.y)+plotMargin/2, plotStyle, p.b.String())
	return err
}

// panel draws one figure.
func (p *plot) panel(f figure) {
	top := 0.0
	for _, s := range f.Series {
		for _, v := range s.Values {
			top = max(top, v)
		}
	}
	if f.Goal != nil {
		top = max(top, f.Goal.Value)
	}
	step := tickStep(top)
	end := step * math.Max(1, math.Ceil(top/step))
	x := func(v float64) float64 { return barsLeft + v/end*barsWidth }

	p.y += 34
	p.text("name", plotMargin, "", f.heading())
	p.y += 10
	if f.Goal != nil {
		p.y += 8
	}
	above, below := p.y, p.y+rowHeight*float64(len(f.Series))
	for v := 0.0; v <= end+step/2; v += step {
		fmt.Fprintf(&p.b, `<line class="grid" x1="%[1]s" x2="%[1]s" y1="%[2]s" y2="%[3]s"/>`, at(x(v)), at(above), at(below))
		fmt.Fprintf(&p.b, `<text class="tick" text-anchor="middle" x="%s" y="%s">%s</text>`+"\n", at(x(v)), at(below+14), number(v))
	}
	for i, s := range f.Series {
		middle := p.y + rowHeight/2
		p.y = middle + 4
		p.text("", barsLeft-8, "end", shortened(s.Name, labelChars))
		fmt.Fprintf(&p.b, `<rect x="%d" y="%s" width="%s" height="14" fill="%s"/>`, barsLeft, at(middle-7), at(x(s.median())-barsLeft), colors[i%len(colors)])
		last := s.median()
		if len(s.Values) > 1 {
			for _, v := range s.Values {
				fmt.Fprintf(&p.b, `<circle class="round" cx="%s" cy="%s" r="2.5"/>`, at(x(v)), at(middle))
				last = max(last, v)
			}
		}
		p.text("", int(x(last))+8, "", number(s.median()))
		p.y = middle + rowHeight/2
	}
	fmt.Fprintf(&p.b, `<line class="axis" x1="%d" x2="%s" y1="%[3]s" y2="%[3]s"/>`+"\n", barsLeft, at(x(end)), at(below))
	if f.Goal != nil {
		fmt.Fprintf(&p.b, `<line class="goal" x1="%[1]s" x2="%[1]s" y1="%[2]s" y2="%[3]s"/>`, at(x(f.Goal.Value)), at(above-4), at(below))
		fmt.Fprintf(&p.b, `<text class="goaltext" text-anchor="middle" x="%s" y="%s">goal %s</text>`+"\n", at(x(f.Goal.Value)), at(above-8), html.EscapeString(f.Goal.text(f.Unit)))
	}
	p.y = below + 16
}

// tickStep returns the distance of some four to eight ticks up to top: 1, 2 or 5
// times a power of ten.
func tickStep(top float64) float64 {
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top/4)))
	for _, times := range []float64{1, 2, 5} {
		if top/(times*power) <= 8 {
			return times * power
		}
	}
	return 10 * power
}

func at(v float64) string { return fmt.Sprintf("%.1f", v) }

func (p *plot) text(class string, x int, anchor, text string) {
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	fmt.Fprintf(&p.b, `<text class="%s" x="%d" y="%s"%s>%s</text>`+"\n", class, x, at(p.y), anchor, html.EscapeString(text))
}

// wrapped writes lines below each other.
func (p *plot) wrapped(class, text string) {
	line := ""
	flush := func() {
		p.text(class, plotMargin, "", line)
		p.y += 18
	}
	for word := range strings.FieldsSeq(text) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > lineChars {
			flush()
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	flush()
}

func shortened(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}
