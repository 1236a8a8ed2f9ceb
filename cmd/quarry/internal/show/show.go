package show

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index"
)

// The escapes of a terminal that this package writes.
const (
	boldOn = "\x1b[1m"
	faint  = "\x1b[2m"
	reset  = "\x1b[0m"
)

// Bold marks s when color is on.
func Bold(s string, color bool) string { return wrap(s, boldOn, color) }

// Faint dims s when color is on.
func Faint(s string, color bool) string { return wrap(s, faint, color) }

func wrap(s, escape string, color bool) string {
	if !color || s == "" {
		return s
	}
	return escape + s + reset
}

// Line is s on one line: runs of white space and control characters are one
// space each; at most limit runes, the last an ellipsis when s is cut. A limit
// of 0 is none.
func Line(s string, limit int) string {
	var b strings.Builder
	clean(&b, s, false)
	out := strings.TrimSpace(b.String())
	if limit <= 0 || utf8.RuneCountInString(out) <= limit {
		return out
	}
	n := 0
	for i := range out {
		if n++; n == limit {
			return strings.TrimRight(out[:i], " ") + "…"
		}
	}
	return out
}

// clean appends s with runs of space and control characters as one space;
// spaced tells that b ends in a space already. It returns that for the next part.
func clean(b *strings.Builder, s string, spaced bool) bool {
	for _, r := range s {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) && !joins(r) {
			if !spaced {
				b.WriteByte(' ')
			}
			spaced = true
			continue
		}
		spaced = false
		b.WriteRune(r)
	}
	return spaced
}

// joins tells characters that are not printed but shape their neighbors: the
// zero width joiners.
func joins(r rune) bool { return r == '\u200c' || r == '\u200d' }

// Passage is a passage on one line with its marks in bold, and with ellipses
// where it starts within the text and where it ends within a sentence.
func Passage(p index.Passage, color bool) string {
	var b strings.Builder
	if p.Start > 0 {
		b.WriteString("…")
	}
	spaced, at := true, 0
	for _, m := range p.Marks {
		if m.Start < at || m.End > len(p.Text) || m.End <= m.Start {
			continue // overlaps the mark before
		}
		spaced = clean(&b, p.Text[at:m.Start], spaced)
		if color {
			b.WriteString(boldOn)
		}
		spaced = clean(&b, p.Text[m.Start:m.End], spaced)
		if color {
			b.WriteString(reset)
		}
		at = m.End
	}
	clean(&b, p.Text[at:], spaced)
	out := strings.TrimRight(b.String(), " ")
	if last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(p.Text, " \n")); !strings.ContainsRune(".!?…。！？।", last) {
		out += "…"
	}
	return out
}

// Value is a field's value on one line.
func Value(v any, limit int) string {
	if s, ok := v.(string); ok {
		return Line(s, limit)
	}
	return Line(fmt.Sprint(v), limit)
}

// Elapsed is a duration for reading.
func Elapsed(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// Round keeps the given number of decimal places.
func Round(x float64, places int) float64 {
	p := math.Pow10(places)
	return math.Round(x*p) / p
}

// Bytes is a size for reading.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	x, i := float64(n)/unit, 0
	for x >= unit && i < 3 {
		x, i = x/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGT"[i])
}

// Tree writes an explanation, a part a line, the parts of a part indented.
func Tree(b *strings.Builder, e *index.Explanation, indent string) {
	fmt.Fprintf(b, "%s%.6g  %s\n", indent, e.Value, Line(e.What, 0))
	for i := range e.Details {
		Tree(b, &e.Details[i], indent+"  ")
	}
}

// Table lays out rows in columns; a column whose cells are numbers is better
// given already formed. The first row may be a head. Cells are separated by two
// spaces and padded on the right, numbers (right true) on the left.
func Table(rows [][]string, right []bool) string {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line += "  "
			}
			if i < len(right) && right[i] {
				line += pad + cell
			} else {
				line += cell + pad
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
