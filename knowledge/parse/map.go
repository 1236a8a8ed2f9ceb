package parse

import "sort"

// A Unit says what the numbers on the source side of a Map count.
type Unit uint8

// Units of a Map.
const (
	Bytes      Unit = iota // bytes of Document.Source
	PageNumber             // pages of a PDF, from 1
	ParaNumber             // paragraphs of a DOCX, tables' included, from 1
	RowNumber              // rows of an XLSX over all its sheets, from 1
)

// String returns the unit as a plural noun.
func (u Unit) String() string {
	return [...]string{"bytes", "pages", "paragraphs", "rows"}[u&3]
}

// A SpanKind says how exactly a Span maps.
type SpanKind uint8

// Kinds of spans.
const (
	// Plain text is the source itself: Source[s:e] == Text[a:b].
	Plain SpanKind = iota
	// Encoded text is the source in another encoding, character by character;
	// positions inside map exactly. Invalid bytes are U+FFFD in Text.
	Encoded
	// Whole text stands for the whole of its source range: an entity, a quoted
	// field, a page. Positions inside map to the whole range.
	Whole
)

// A Span maps Text[Start:End] to the source range [From, To).
type Span struct {
	Start, End int
	From, To   int
	Kind       SpanKind
}

// A Map leads from ranges of Text to places of the source. Text that no span
// covers was inserted: separators, header names beside a cell. Spans are ordered
// on both sides, and on the text side they do not overlap.
type Map struct {
	Unit  Unit
	Spans []Span
	enc   codec  // of Encoded spans
	src   []byte // Document.Source, to walk Encoded spans
}

// Source returns the smallest range of the source that holds everything that
// Text[start:end] came from, and whether there is anything. It takes O(log n),
// and a walk over at most 4 KiB for an Encoded span.
func (m *Map) Source(start, end int) (from, to int, ok bool) {
	if start >= end {
		return 0, 0, false
	}
	i := m.after(start)
	j := sort.Search(len(m.Spans), func(k int) bool { return m.Spans[k].Start >= end }) - 1
	if i > j {
		return 0, 0, false
	}
	first, last := m.Spans[i], m.Spans[j]
	from, to = first.From, last.To
	if start > first.Start {
		switch first.Kind {
		case Plain:
			from += start - first.Start
		case Encoded:
			from = m.enc.walk(m.src, first.From, first.To, start-first.Start, false)
		}
	}
	if end < last.End {
		switch last.Kind {
		case Plain:
			to = last.From + end - last.Start
		case Encoded:
			to = m.enc.walk(m.src, last.From, last.To, end-last.Start, true)
		}
	}
	return from, to, true
}

// Plain reports whether Text[start:end] is a copy of one source range, so that
// Source[from:to] == Text[start:end] for the range that Source gives.
func (m *Map) Plain(start, end int) bool {
	if m.Unit != Bytes || start >= end {
		return false
	}
	for i := m.after(start); i < len(m.Spans); i++ {
		s := m.Spans[i]
		if s.Kind != Plain || start < s.Start {
			return false
		}
		if end <= s.End {
			return true
		}
		if i+1 == len(m.Spans) || m.Spans[i+1].From != s.To {
			return false
		}
		start = s.End
	}
	return false
}

// after is the index of the first span that ends after off.
func (m *Map) after(off int) int {
	return sort.Search(len(m.Spans), func(k int) bool { return m.Spans[k].End > off })
}

// addSpan appends a span, joined to the last one where nothing is lost. Once
// spans get dense, short runs are joined into Whole ones too, up to maxJoin bytes
// of text: else a file of escapes alone would need a span a byte.
func addSpan(spans []Span, s Span) []Span {
	const shortRun, maxJoin, manySpans, dense = 8, 64, 4096, 16
	if s.Start >= s.End {
		return spans
	}
	n := len(spans)
	if n == 0 {
		return append(spans, s)
	}
	l := &spans[n-1]
	touch := l.End == s.Start && l.To == s.From
	switch {
	case !touch:
	case l.Kind == Plain && s.Kind == Plain && l.To-l.From == l.End-l.Start:
		l.End, l.To = s.End, s.To
		return spans
	case n > manySpans && n*dense > s.End && l.Kind != Encoded && s.Kind != Encoded && s.End-l.Start <= maxJoin &&
		(l.Kind == Whole || l.End-l.Start < shortRun) && (s.Kind == Whole || s.End-s.Start < shortRun):
		l.End, l.To, l.Kind = s.End, s.To, Whole
		return spans
	}
	return append(spans, s)
}
