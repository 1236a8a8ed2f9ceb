package parse

import "unicode/utf8"

// compose turns spans over the decoded text into spans over the source. Both
// sides are ordered, so one pass does.
func (d *decoded) compose(src []byte, spans []Span) []Span {
	if d.spans == nil {
		for i := range spans {
			spans[i].From += d.bom
			spans[i].To += d.bom
		}
		return spans
	}
	c := cursor{d: d, src: src}
	out := make([]Span, 0, len(spans)+len(d.spans))
	for _, s := range spans {
		if s.Kind != Plain {
			from := c.seek(s.From, false)
			out = addSpan(out, Span{Start: s.Start, End: s.End, From: from, To: c.seek(s.To, true), Kind: Whole})
			continue
		}
		for lo := s.From; lo < s.To; {
			from := c.seek(lo, false)
			p := d.spans[c.piece]
			hi := min(s.To, p.End)
			out = addSpan(out, Span{Start: s.Start + lo - s.From, End: s.Start + hi - s.From, From: from, To: c.seek(hi, true), Kind: p.Kind})
			lo = hi
		}
	}
	return out
}

// cursor walks decoded.spans forward only.
type cursor struct {
	d         *decoded
	src       []byte
	piece     int // index in d.spans
	text, off int // a character border inside an Encoded piece, on both sides
	started   bool
}

// seek returns the source offset of the character that holds decoded byte n, or
// with up the end of the characters that hold the bytes before n. Calls must not
// go back by more than the character under the cursor.
func (c *cursor) seek(n int, up bool) int {
	spans := c.d.spans
	for c.piece < len(spans)-1 && (n > spans[c.piece].End || n == spans[c.piece].End && !up) {
		c.piece++
	}
	p := spans[c.piece]
	switch p.Kind {
	case Plain:
		return p.From + min(n, p.End) - p.Start
	case Whole:
		if up {
			return p.To
		}
		return p.From
	}
	if !c.started || c.text < p.Start || c.text > n {
		c.text, c.off, c.started = p.Start, p.From, true
	}
	for c.text < n && c.off < p.To {
		r, size, _ := c.d.enc.next(c.src[c.off:p.To])
		next := c.text + utf8.RuneLen(r)
		if next > n {
			if up {
				return c.off + size
			}
			return c.off
		}
		c.text, c.off = next, c.off+size
	}
	return c.off
}

// sectionsFrom nests headings, given in order of Start with Level, Title, Start
// and Body, and returns them with End, Parent and Path. Linear: each heading is
// pushed and popped once, and its path is cut at maxPath titles.
func sectionsFrom(heads []Section, textLen int) []Section {
	const maxPath = 32
	var stack []int
	for i := range heads {
		h := &heads[i]
		for len(stack) > 0 && (heads[stack[len(stack)-1]].Level >= h.Level || len(stack) >= maxPath) {
			heads[stack[len(stack)-1]].End = h.Start
			stack = stack[:len(stack)-1]
		}
		h.Parent = -1
		var up []string
		if len(stack) > 0 {
			h.Parent = stack[len(stack)-1]
			up = heads[h.Parent].Path
		}
		h.Path = append(append(make([]string, 0, len(up)+1), up...), h.Title)
		stack = append(stack, i)
	}
	for _, i := range stack {
		heads[i].End = textLen
	}
	return heads
}

// pagesFrom makes pages of a text whose pages end with form feeds, or none when
// it has no form feed. One at the very end closes the last page only.
func pagesFrom(text string) []Page {
	var pages []Page
	start := 0
	for i := 0; i < len(text); i++ {
		if text[i] == '\f' {
			pages = append(pages, Page{Number: len(pages) + 1, Start: start, End: i + 1})
			start = i + 1
		}
	}
	if pages == nil {
		return nil
	}
	if start < len(text) {
		pages = append(pages, Page{Number: len(pages) + 1, Start: start, End: len(text)})
	}
	return pages
}
