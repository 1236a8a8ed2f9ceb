package pattern

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

const (
	// MaxStates is the greatest number of states of a DFA.
	MaxStates = 4096
	// MaxExpression is the greatest length of an expression in bytes.
	MaxExpression  = 1000
	maxTransitions = 1 << 17
	// maxWork bounds the steps of building: members of sets times ranges.
	maxWork = 1 << 21
)

const dead = -1

// A DFA accepts terms. The zero value accepts none.
type DFA struct {
	name   string // for errors and explanations
	length int    // of a fuzzy word, in characters
	states []state
	steps  []step
	ascii  []int16 // the state after each of 128 characters, a state
	tail   []byte  // of a wildcard that starts with a star: letters and digits that end all terms
}

type state struct {
	from, to int32 // in steps
	accept   int8  // errors, or dead
}

// A step leads to a state for the characters lo to hi.
type step struct {
	lo, hi rune
	to     int32
}

// String is the pattern as it was given.
func (d *DFA) String() string { return d.name }

// Similarity is the weight of a match with some errors: 1 − errors/length of a
// fuzzy word, at least 0; 1 for everything else.
func (d *DFA) Similarity(errors int) float64 {
	if d.length == 0 {
		return 1
	}
	return max(1-float64(errors)/float64(d.length), 0)
}

// Match tells whether a term is accepted, and with how many errors (0 for
// anything but a fuzzy word).
func (d *DFA) Match(term []byte) (errors int, ok bool) {
	if len(d.states) == 0 {
		return 0, false
	}
	at := int32(0)
	for i := 0; i < len(term); {
		n := 0
		if at, n = d.next(at, term[i:]); at == dead {
			return 0, false
		}
		i += n
	}
	a := d.states[at].accept
	return int(max(a, 0)), a != dead
}

// MayEnd is false only for a term that does not match because of its last bytes,
// though a longer one may: a glance that spares a dictionary of such terms the
// walk. Where a character of several bytes stands at the end, it is true.
func (d *DFA) MayEnd(term []byte) bool {
	n := len(term) - len(d.tail)
	if n < 0 {
		return len(d.tail) == 0
	}
	for i := len(d.tail) - 1; i >= 0 && term[n+i] < utf8.RuneSelf; i-- {
		if term[n+i]|0x20 != d.tail[i]|0x20 {
			return false
		}
	}
	return true
}

// next is the state after the first character of text and the bytes of that;
// broken UTF-8 leads nowhere.
func (d *DFA) next(at int32, text []byte) (to int32, n int) {
	if c := text[0]; c < utf8.RuneSelf {
		return int32(d.ascii[int(at)<<7|int(c)]), 1
	}
	r, n := utf8.DecodeRune(text)
	if r == utf8.RuneError && n < 2 {
		return dead, n
	}
	s := d.states[at]
	steps := d.steps[s.from:s.to]
	i, found := slices.BinarySearchFunc(steps, r, func(s step, r rune) int {
		switch {
		case s.hi < r:
			return -1
		case s.lo > r:
			return 1
		}
		return 0
	})
	if !found {
		return dead, n
	}
	return steps[i].to, n
}

// A nfa is what a DFA is made from. A set of its states is a sorted list.
type nfa interface {
	// start is the first set.
	start() []uint32
	// ranges appends the bounds of ranges of characters that may lead from a
	// set to different sets: the first character of each.
	ranges(set []uint32, cuts []rune) []rune
	// next returns the set that a character leads to; it may use dst.
	next(set []uint32, r rune, dst []uint32) []uint32
	// accept is the number of errors with which a set accepts, or dead.
	accept(set []uint32) int8
}

// build makes the DFA of all sets that are reached.
func build(name string, n nfa) (*DFA, error) {
	d := &DFA{name: name}
	numbers := map[string]int32{}
	var sets [][]uint32
	var key []byte
	number := func(set []uint32) int32 {
		key = key[:0]
		for _, x := range set {
			key = append(key, byte(x), byte(x>>8), byte(x>>16), byte(x>>24))
		}
		if i, ok := numbers[string(key)]; ok {
			return i
		}
		i := int32(len(sets))
		numbers[string(key)] = i
		sets = append(sets, slices.Clone(set))
		return i
	}
	number(n.start())
	work := 0
	var cuts []rune
	var set []uint32
	for i := 0; i < len(sets); i++ {
		s := state{from: int32(len(d.steps)), accept: n.accept(sets[i])}
		cuts = n.ranges(sets[i], cuts[:0])
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		work += (len(cuts) + 1) * (len(sets[i]) + 1)
		if work > maxWork || len(sets) > MaxStates || len(d.steps) > maxTransitions {
			return nil, fmt.Errorf("%w: pattern %q takes more than %d states or %d steps to build", storage.ErrTooLarge, name, MaxStates, maxWork)
		}
		for j, lo := range cuts {
			hi := rune(unicode.MaxRune)
			if j+1 < len(cuts) {
				hi = cuts[j+1] - 1
			}
			if lo > unicode.MaxRune {
				break
			}
			if set = n.next(sets[i], lo, set[:0]); len(set) > 0 {
				d.add(s.from, lo, hi, number(set))
			}
		}
		s.to = int32(len(d.steps))
		d.states = append(d.states, s)
	}
	d.trim()
	return d, nil
}

// add appends a step of the state whose steps begin at from.
func (d *DFA) add(from int32, lo, hi rune, to int32) {
	if n := len(d.steps); n > int(from) && d.steps[n-1].to == to && d.steps[n-1].hi+1 == lo {
		d.steps[n-1].hi = hi
		return
	}
	d.steps = append(d.steps, step{lo, hi, to})
}

// trim drops the steps to states from which nothing is accepted.
func (d *DFA) trim() {
	from := make([][]int32, len(d.states))
	var queue []int32
	live := make([]bool, len(d.states))
	for i, s := range d.states {
		for _, t := range d.steps[s.from:s.to] {
			from[t.to] = append(from[t.to], int32(i))
		}
		if s.accept != dead {
			live[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, f := range from[at] {
			if !live[f] {
				live[f] = true
				queue = append(queue, f)
			}
		}
	}
	kept := d.steps[:0]
	for i := range d.states {
		s := &d.states[i]
		steps := d.steps[s.from:s.to]
		s.from = int32(len(kept))
		for _, t := range steps {
			if live[t.to] {
				kept = append(kept, t)
			}
		}
		s.to = int32(len(kept))
	}
	d.steps = kept
	d.ascii = make([]int16, len(d.states)<<7)
	for i, s := range d.states {
		row := d.ascii[i<<7:][:utf8.RuneSelf]
		for c := range row {
			row[c] = dead
		}
		for _, t := range d.steps[s.from:s.to] {
			for c := t.lo; c <= min(t.hi, utf8.RuneSelf-1); c++ {
				row[c] = int16(t.to)
			}
		}
	}
}
