package chunk

import "strings"

// A mark is a stretch that an outline found: a heading, or a code block or
// table to keep. Marks do not overlap.
type mark struct {
	start, end int
	heading    bool
}

// A border is where a section starts.
type border struct{ at, depth int }

// marker tells atoms what they begin, and joins those of a stretch to keep.
// It reads sentences and marks beside the atoms, each once.
type marker struct {
	s        *settings
	text     string
	out      sink
	sentence int // where the next sentence starts
	end      int // of the atom before
	any      bool

	borders  []border // those ahead
	marks    []mark
	i        int // the mark atoms are in or before
	held     []atom
	heldSize int
	spilled  bool // the stretch of mark i is too long to keep
	stopped  bool
}

func newMarker(s *settings, text string, borders []border, marks []mark, out sink) *marker {
	return &marker{s: s, text: text, borders: borders, marks: marks, out: out}
}

// from sets where the text begins.
func (m *marker) from(at int) { m.sentence, m.end = at, at }

func (m *marker) add(a atom) bool {
	if m.stopped {
		return false
	}
	if a.start == a.end {
		if len(m.held) > 0 {
			// A blank token of a kept block counts where it is.
			m.held[len(m.held)-1].weight += a.weight
			m.heldSize += a.weight
			return true
		}
		return m.send(a)
	}
	for m.i < len(m.marks) && a.start >= m.marks[m.i].end {
		if !m.release(true) {
			return false
		}
		m.i++
		m.spilled = false
	}
	a.level = m.levelOf(a.start)
	for len(m.borders) > 0 && m.borders[0].at <= a.start {
		a.level, a.depth = startsSection, m.borders[0].depth
		m.borders = m.borders[1:]
	}
	if a.level == startsSection && !m.release(true) {
		return false
	}
	m.end, m.any = a.end, true
	if m.i == len(m.marks) || a.start < m.marks[m.i].start {
		return m.send(a)
	}
	k := &m.marks[m.i]
	if a.heading = k.heading; a.heading || m.spilled {
		return m.send(a)
	}
	if len(m.held) == 0 {
		a.level = max(a.level, startsBlock)
	}
	m.held = append(m.held, a)
	m.heldSize += a.weight
	if m.heldSize > m.s.keepWhole {
		m.spilled = true
		return m.release(false)
	}
	return true
}

// levelOf tells what an atom at start begins, by the blank before it and the
// sentences of the text.
func (m *marker) levelOf(start int) level {
	l := inner
	if m.sentence <= start {
		l = startsPiece
		for m.sentence <= start && m.sentence < len(m.text) {
			m.sentence = nextSentence(m.text, m.sentence)
		}
	}
	gap := m.text[m.end:start]
	if k := strings.IndexByte(gap, '\n'); k >= 0 {
		if strings.IndexByte(gap[k+1:], '\n') >= 0 {
			return startsBlock
		}
		if m.i < len(m.marks) && start >= m.marks[m.i].start {
			return startsPiece // a line of code, a row
		}
	}
	if !m.any {
		return startsBlock
	}
	return l
}

// release sends the held atoms on, as one if whole.
func (m *marker) release(whole bool) bool {
	if len(m.held) == 0 {
		return true
	}
	held := m.held
	m.held, m.heldSize = m.held[:0], 0
	if whole {
		a := held[0]
		for _, b := range held[1:] {
			a.end = b.end
			a.weight += b.weight
			if a.tokens >= 0 && b.tokens >= 0 {
				a.tokens += b.tokens
			} else {
				a.tokens = -1
			}
		}
		return m.send(a)
	}
	for _, a := range held {
		if !m.send(a) {
			return false
		}
	}
	return true
}

func (m *marker) send(a atom) bool {
	if !m.stopped && !m.out(a) {
		m.stopped = true
	}
	return !m.stopped
}

func (m *marker) finish() { m.release(true) }
