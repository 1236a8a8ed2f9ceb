package pattern

import (
	"unicode"
	"unicode/utf8"
)

// A Walk matches terms, none of them empty, in ascending order of their bytes.
type Walk struct {
	d      *DFA
	term   []byte  // the last one, as far as it was read
	ends   []int   // after each character of term that led on
	states []int32 // and the state there; states[0] is the start
	next   []byte
}

// Result is what a Walk found.
type Result uint8

const (
	// Fails: neither the term nor any that starts with it matches.
	Fails Result = iota
	// Leads: a longer term that starts with it may match.
	Leads
	// Matches: the term matches; a longer one may as well.
	Matches
)

// NewWalk returns a Walk before the first term.
func NewWalk(d *DFA) *Walk {
	w := &Walk{d: d}
	if len(d.states) > 0 {
		w.ends, w.states = append(w.ends, 0), append(w.states, 0)
	}
	return w
}

// Match tests a term, which is greater than those before.
func (w *Walk) Match(term []byte) (result Result, errors int) {
	if len(w.states) == 0 {
		return Fails, 0
	}
	shared := 0
	for shared < len(term) && shared < len(w.term) && term[shared] == w.term[shared] {
		shared++
	}
	n := len(w.ends)
	for w.ends[n-1] > shared {
		n--
	}
	w.ends, w.states = w.ends[:n], w.states[:n]
	w.term = append(w.term[:shared], term[shared:]...)
	for i := w.ends[n-1]; i < len(term); {
		to, size := w.d.next(w.states[len(w.states)-1], term[i:])
		if to == dead {
			return Fails, 0
		}
		i += size
		w.ends, w.states = append(w.ends, i), append(w.states, to)
	}
	a := w.d.states[w.states[len(w.states)-1]].accept
	if a == dead {
		return Leads, 0
	}
	return Matches, int(a)
}

// Next returns, after a Match that failed, a string greater than the term such
// that no term between the two matches; before the first Match, one that no
// matching term lies before. It is nil when no term behind matches. It is valid
// until the next call.
func (w *Walk) Next() []byte {
	for n := len(w.ends); n > 0; n-- {
		at := w.ends[n-1]
		after := rune(-1)
		if at < len(w.term) {
			r, size := utf8.DecodeRune(w.term[at:])
			if r == utf8.RuneError && size < 2 {
				// Whole characters may start with these bytes and sort behind.
				w.next = append(append(w.next[:0], w.term...), 0)
				return w.next
			}
			after = r
		}
		s := w.d.states[w.states[n-1]]
		for _, t := range w.d.steps[s.from:s.to] {
			if t.hi > after {
				if r, ok := valid(max(t.lo, after+1)); ok && r <= t.hi {
					w.next = utf8.AppendRune(append(w.next[:0], w.term[:at]...), r)
					return w.extend(t.to)
				}
			}
		}
	}
	return nil
}

// valid returns the first character from r on that UTF-8 can hold.
func valid(r rune) (rune, bool) {
	if r >= 0xd800 && r < 0xe000 {
		r = 0xe000
	}
	return r, r <= unicode.MaxRune
}

// extend lengthens next by the least characters that can follow, a few of them.
func (w *Walk) extend(at int32) []byte {
	for range 8 {
		s := w.d.states[at]
		if s.accept != dead || s.from == s.to {
			break
		}
		t := w.d.steps[s.from]
		r, ok := valid(t.lo)
		if !ok || r > t.hi {
			break
		}
		w.next = utf8.AppendRune(w.next, r)
		at = t.to
	}
	return w.next
}
