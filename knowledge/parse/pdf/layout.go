package pdf

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// layout gathers glyphs into lines in the order they are shown, which is the
// reading order in all but broken files: sorting by place would tear columns.
type layout struct {
	lines []line
	cur   line
	open  bool
	bytes int
	limit int
	full  bool
}

// line is glyphs along one baseline.
type line struct {
	text       []byte
	start, end float64 // along the baseline
	perp       float64 // across it; grows upward
	size       float64
	ux, uy     float64
	last       float64 // start of the last glyph, for letters printed twice
	lastText   string
	spaced     bool // white space was shown since the last letter
}

// add appends a glyph at along, perp, width wide, size high.
func (o *layout) add(text string, along, perp, width, size, ux, uy float64) {
	if math.IsNaN(along) || math.IsNaN(perp) || math.Abs(along) > 1e9 || math.Abs(perp) > 1e9 {
		return
	}
	text = clean(text)
	c := &o.cur
	blank := strings.TrimSpace(text) == ""
	if blank {
		c.spaced = c.spaced || o.open && text != ""
		return
	}
	if o.bytes += len(text); o.bytes > o.limit {
		o.full = true
		return
	}
	em := max(size, c.size)
	same := o.open && ux*c.ux+uy*c.uy > 0.99 && math.Abs(perp-c.perp) < 0.45*em
	gap := along - c.end
	if same && text == c.lastText && math.Abs(along-c.last) < 0.12*size {
		return // bold by printing twice
	}
	if same && gap < -1.2*em && along < c.last-0.8*em {
		same = false // back to the left at the same height: another cell or column
	}
	if !same {
		o.flush()
		o.cur = line{text: o.cur.text[:0:0], start: along, end: along, perp: perp, size: size, ux: ux, uy: uy}
		o.open = true
		c, gap = &o.cur, 0
	}
	if len(c.text) > 0 && (c.spaced || gap > 0.16*min(size, c.size)) {
		c.text = append(c.text, ' ')
	}
	c.text = append(c.text, text...)
	c.end = max(c.end, along+width)
	if gap < -0.5*em {
		c.end = along + width
	}
	c.last, c.lastText, c.spaced = along, text, false
	if size > c.size {
		c.size, c.perp = size, perp
	}
}

// reach extends the open line by a glyph whose text was given before it.
func (o *layout) reach(end, perp float64) {
	if o.open && math.Abs(perp-o.cur.perp) < 0.45*o.cur.size && end < o.cur.end+4*o.cur.size {
		o.cur.end = max(o.cur.end, end)
	}
}

func (o *layout) flush() {
	if o.open && len(o.cur.text) > 0 {
		o.lines = append(o.lines, o.cur)
	}
	o.open = false
}

// clean drops controls and private characters, and undoes ligatures.
func clean(s string) string {
	if len(s) == 1 && s[0] >= ' ' && s[0] < 0x7f {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case r >= 0xfb00 && r <= 0xfb06:
			out.WriteString([...]string{"ff", "fi", "fl", "ffi", "ffl", "st", "st"}[r-0xfb00])
		case r == 0xf0b7 || r == 0xf0a7:
			out.WriteRune('•')
		case r == 0xa0 || r == '\t' || r == '\n' || r == '\r':
			out.WriteByte(' ')
		case r == utf8.RuneError || unicode.Is(unicode.Co, r) || unicode.IsControl(r) || r == 0xfeff || r == 0x200b:
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// text joins the lines: a blank line where the gap is larger than that of lines,
// hyphens at line ends undone, Chinese and Japanese lines that fill their width
// joined without a break.
func (o *layout) text() string {
	o.flush()
	right := math.Inf(-1)
	for i := range o.lines {
		right = max(right, o.lines[i].end)
	}
	var out []byte
	for i := range o.lines {
		l := &o.lines[i]
		if i == 0 {
			out = append(out, l.text...)
			continue
		}
		p := &o.lines[i-1]
		em := max(l.size, p.size)
		drop := p.perp - l.perp
		turned := l.ux*p.ux+l.uy*p.uy < 0.99
		switch {
		case turned || drop > 2*em || drop < -em:
			out = append(out, "\n\n"...)
		case drop > 0.5*em && hyphenated(out, l.text):
			out = out[:len(out)-hyphenLen(out)]
		case drop > 0.5*em && p.end > right-1.5*em && ideographs(out, l.text):
		default:
			out = append(out, '\n')
		}
		out = append(out, l.text...)
	}
	return string(out)
}

func hyphenLen(b []byte) int {
	switch {
	case len(b) > 0 && b[len(b)-1] == '-':
		return 1
	case strings.HasSuffix(string(b[max(0, len(b)-3):]), "\u2010"):
		return 3
	case strings.HasSuffix(string(b[max(0, len(b)-2):]), "\u00ad"):
		return 2
	}
	return 0
}

// hyphenated holds when a word goes on: letter, hyphen, line end, small letter.
func hyphenated(a, b []byte) bool {
	n := hyphenLen(a)
	if n == 0 {
		return false
	}
	before, _ := utf8.DecodeLastRune(a[:len(a)-n])
	after, _ := utf8.DecodeRune(b)
	return unicode.IsLetter(before) && unicode.IsLower(after)
}

func ideographs(a, b []byte) bool {
	x, _ := utf8.DecodeLastRune(a)
	y, _ := utf8.DecodeRune(b)
	return wide(x) && wide(y)
}

// wide tells characters of scripts written without spaces, and their marks.
func wide(r rune) bool {
	return r >= 0x3001 && r <= 0x30ff || r >= 0x3400 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0xff00 && r <= 0xff60 || r >= 0x20000 && r <= 0x3ffff
}
