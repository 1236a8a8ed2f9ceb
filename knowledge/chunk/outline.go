package chunk

import (
	"cmp"
	"slices"
	"strings"
)

// outline finds the headings, fenced code blocks and tables of Markdown text,
// line by line, in linear time.
//
// Headings are those of CommonMark, # to ######, and text lines underlined
// with === or ---. A fence is ``` or ~~~ or longer, closed by a bare line of
// the same mark, at least as long. A fence that finds no such line before the
// next one that opens a block of its own is not closed: it is text, so that
// the headings behind it count. A table is a row with a pipe, a line of dashes
// and pipes, and the rows that follow. Front matter between --- lines at the
// top is a block to keep.
type outline struct {
	text     string
	marks    []mark
	headings []heading
}

type heading struct {
	start, end int // its line or lines
	level      int
	title      string
}

// A fence is a line that opens or closes a code block.
type fence struct {
	start, end int
	char       byte
	size       int
	bare       bool
	closer     int // start of the line that closes it, −1 when none does
	closerEnd  int
}

func outlineOf(text string) *outline {
	o := &outline{text: text}
	fences := findFences(text)
	at := 0
	i := o.frontMatter()
	prev := "" // the line before, when it may be a heading or a header row
	prevStart := 0
	inTable := -1 // mark of the table lines are in
	for i < len(text) {
		end := lineEnd(text, i)
		for at < len(fences) && fences[at].start < i {
			at++
		}
		if at < len(fences) && fences[at].start == i && fences[at].closer >= 0 {
			o.marks = append(o.marks, mark{start: i, end: fences[at].closerEnd})
			i, prev, inTable = fences[at].closerEnd, "", -1
			continue
		}
		line := strings.TrimRight(text[i:end], " \t\r\n")
		body := strings.TrimLeft(line, " ")
		indent := len(line) - len(body)
		switch {
		case inTable >= 0 && strings.IndexByte(body, '|') >= 0:
			o.marks[inTable].end = end
			i = end
			continue
		case indent > 3 || body == "":
			prev = ""
		case o.atx(body, i, end):
			prev = ""
		case prev != "" && underline(body) > 0 && strings.IndexByte(prev, '|') < 0:
			o.addHeading(heading{start: prevStart, end: end, level: underline(body), title: strings.TrimSpace(prev)})
			prev = ""
		case strings.IndexByte(prev, '|') >= 0 && isDelimiterRow(body):
			inTable = len(o.marks)
			o.marks = append(o.marks, mark{start: prevStart, end: end})
			i, prev = end, ""
			continue
		default:
			prev, prevStart = line, i
		}
		inTable = -1
		i = end
	}
	return o
}

func (o *outline) addHeading(h heading) {
	o.headings = append(o.headings, h)
	o.marks = append(o.marks, mark{start: h.start, end: h.end, heading: true})
}

// atx reads a heading like "## Title ##".
func (o *outline) atx(body string, start, end int) bool {
	n := 0
	for n < len(body) && body[n] == '#' {
		n++
	}
	if n == 0 || n > 6 || n < len(body) && body[n] != ' ' && body[n] != '\t' {
		return false
	}
	title := strings.TrimSpace(body[n:])
	if t := strings.TrimRight(title, "#"); t == "" || t != title && strings.HasSuffix(t, " ") {
		title = strings.TrimSpace(t)
	}
	o.addHeading(heading{start: start, end: end, level: n, title: title})
	return true
}

// frontMatter keeps the block between --- lines at the top and returns its
// end, 0 when there is none.
func (o *outline) frontMatter() int {
	if !strings.HasPrefix(o.text, "---\n") && !strings.HasPrefix(o.text, "---\r\n") {
		return 0
	}
	for i := lineEnd(o.text, 0); i < len(o.text); {
		end := lineEnd(o.text, i)
		switch line := strings.TrimRight(o.text[i:end], " \t\r\n"); line {
		case "---", "...":
			o.marks = append(o.marks, mark{start: 0, end: end})
			return end
		case "":
			return 0 // a rule, not front matter
		}
		i = end
	}
	return 0
}

// lineEnd returns the start of the next line.
func lineEnd(text string, i int) int {
	if k := strings.IndexByte(text[i:], '\n'); k >= 0 {
		return i + k + 1
	}
	return len(text)
}

// underline returns the level of the heading that a line of = or - makes of
// the line before it, or 0.
func underline(body string) int {
	switch {
	case strings.Trim(body, "=") == "":
		return 1
	case strings.Trim(body, "-") == "" && len(body) > 1:
		return 2
	}
	return 0
}

func isDelimiterRow(body string) bool {
	return strings.IndexByte(body, '-') >= 0 && strings.Trim(body, "|:- \t") == ""
}

// findFences finds the fence lines and which one closes which.
func findFences(text string) []fence {
	var fences []fence
	for i := 0; i < len(text); {
		end := lineEnd(text, i)
		if f, ok := fenceLine(text[i:end]); ok {
			f.start, f.end = i, end
			fences = append(fences, f)
		}
		i = end
	}
	// For each fence the next one of its mark that is at least as long, found
	// from behind with a stack of ever longer ones: it closes, if it is bare.
	var stack [2][]int
	for i := len(fences) - 1; i >= 0; i-- {
		f := &fences[i]
		s := &stack[0]
		if f.char == '~' {
			s = &stack[1]
		}
		for len(*s) > 0 && fences[(*s)[len(*s)-1]].size < f.size {
			*s = (*s)[:len(*s)-1]
		}
		if len(*s) > 0 {
			if c := &fences[(*s)[len(*s)-1]]; c.bare {
				f.closer, f.closerEnd = c.start, c.end
			}
		}
		*s = append(*s, i)
	}
	return fences
}

// fenceLine reads a line like "```go" or "~~~". It may be indented, as in
// lists.
func fenceLine(line string) (fence, bool) {
	body := strings.TrimLeft(line, " \t")
	if len(body) < 3 || body[0] != '`' && body[0] != '~' {
		return fence{}, false
	}
	n := 1
	for n < len(body) && body[n] == body[0] {
		n++
	}
	info := strings.TrimSpace(body[n:])
	if n < 3 || body[0] == '`' && strings.IndexByte(info, '`') >= 0 {
		return fence{}, false
	}
	return fence{char: body[0], size: n, bare: info == "", closer: -1}, true
}

// Sections returns the sections of Markdown text, by its headings: each goes
// to the next heading of its level or above.
func Sections(text string) []Section { return outlineOf(text).sections() }

func (o *outline) sections() []Section {
	var out []Section
	var open []int
	for _, h := range o.headings {
		for len(open) > 0 && out[open[len(open)-1]].Level >= h.level {
			out[open[len(open)-1]].End = h.start
			open = open[:len(open)-1]
		}
		open = append(open, len(out))
		out = append(out, Section{Start: h.start, End: len(o.text), Level: h.level, Title: h.title})
	}
	return out
}

// borders returns where sections start.
func borders(sections []Section) []border {
	out := make([]border, len(sections))
	for i, s := range sections {
		out[i] = border{s.Start, s.Level}
	}
	return out
}

// merge returns the marks of the outline with what the caller knows: its
// stretches to keep, and its sections, whose first line is a heading when it
// holds little but the title.
func (o *outline) merge(doc *Document) []mark {
	all := o.marks
	if doc.Sections != nil {
		all = slices.DeleteFunc(all, func(m mark) bool { return m.heading })
		for _, s := range doc.Sections {
			end := min(lineEnd(o.text, s.Start), s.End)
			line := strings.Trim(o.text[s.Start:end], "# \t\r\n")
			if s.Title != "" && len(line) <= len(s.Title)+16 && strings.Contains(line, s.Title) {
				all = append(all, mark{start: s.Start, end: end, heading: true})
			}
		}
	}
	for _, k := range doc.Keep {
		all = append(all, mark{start: k.Start, end: k.End})
	}
	slices.SortStableFunc(all, func(a, b mark) int { return cmp.Compare(a.start, b.start) })
	out, end := all[:0], 0
	for _, m := range all {
		if m.start >= end && m.end > m.start {
			out, end = append(out, m), m.end
		}
	}
	return out
}

// edgesOf returns where sections start, and marks start and end, in order.
func edgesOf(sections []border, marks []mark) []int {
	out := make([]int, 0, len(sections)+2*len(marks))
	for _, b := range sections {
		out = append(out, b.at)
	}
	for _, m := range marks {
		out = append(out, m.start, m.end)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
