package analysis

import (
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/clipperhouse/uax29/v2/words"
)

// mode tells which of the tokens of a text are wanted.
type mode uint8

const (
	modeIndex    mode = iota // all
	modeQuery                // without stop words
	modeQueryAll             // with them
	modePhrase               // as a phrase
	modeCount                // none: only count those that are not stop words
)

// A Scratch is the working space of one goroutine. The zero value is ready for
// use; it may serve any number of analyzers in turn, one call at a time, and
// is worth keeping (in a sync.Pool or beside the writer): its buffers and its
// cache of stemmed words, half a MiB, stay warm. It keeps no reference to
// the texts.
type Scratch struct {
	a       *Analyzer
	mode    mode
	emit    func(*Token)
	tok     Token
	pos     uint32
	last    lastWord
	limit   int // where the next run of n-grams starts, when past the scan
	content int // tokens that are not stop words, in modeCount

	words    *words.Iterator[string]
	env      *snowballstem.Env
	cache    *wordCache
	buf      []byte // the term being made
	buf2     []byte // and its stripped form
	joined   []byte // an identifier without its separators
	fold     folder
	unit     []byte  // the folded form of one character
	pieces   []piece // parts of an identifier
	found    []piece // words of a dictionary
	segments []segment
	ring     []byte // units of an n-gram run
	ends     []int
	starts   [][2]int
}

// run emits the tokens of text for one mode.
func (s *Scratch) run(a *Analyzer, m mode, text string, emit func(*Token)) {
	s.a, s.mode, s.emit, s.pos, s.limit, s.content = a, m, emit, 0, 0, 0
	s.last.end = -1
	if a.kind == kindKeyword {
		s.keyword(text)
	} else {
		s.scan(text)
	}
	s.a, s.emit = nil, nil
	if s.words != nil {
		s.words.SetText("")
	}
}

// put hands one term over. It does not move the position.
func (s *Scratch) put(term []byte, start, end int, stop bool) {
	if term = cutTerm(term); len(term) == 0 {
		return
	}
	switch s.mode {
	case modeCount:
		if !stop {
			s.content++
		}
		return
	case modeQuery:
		if stop {
			return
		}
	}
	s.tok = Token{Term: term, Position: s.pos, Start: start, End: end}
	s.emit(&s.tok)
}

// A lastWord is a word that the next one may make a couple with.
type lastWord struct {
	term       []byte
	start, end int // end is -1 for none
	pos        uint32
	stop       bool
}

// couple emits the word before and this one, where only a space is between them
// and not both are stop words, as one term at the place of the former.
func (s *Scratch) couple(text string, term []byte, start, end int, stop bool) {
	l := &s.last
	if l.end >= 0 && l.end+1 == start && text[l.end] == ' ' && l.pos+1 == s.pos && !(l.stop && stop) && (s.mode == modeIndex || s.mode == modeQuery) {
		l.term = append(append(l.term, ' '), term...)
		s.tok = Token{Term: cutTerm(l.term), Position: l.pos, Start: l.start, End: end, Couple: true}
		s.emit(&s.tok)
	}
	l.term = append(l.term[:0], term...)
	l.start, l.end, l.pos, l.stop = start, end, s.pos, stop
}

// cutTerm shortens a term to maxTerm bytes without cutting a character.
func cutTerm(term []byte) []byte {
	n := maxTerm
	if len(term) <= n {
		return term
	}
	for n > 0 && !utf8.RuneStart(term[n]) {
		n--
	}
	return term[:n]
}

// keyword emits the whole text, folded, without the space around it.
func (s *Scratch) keyword(text string) {
	start, end := trimSpace(text)
	if start == end {
		return
	}
	// A prefix is enough: no character folds to less than a sixteenth of it,
	// except those that fold to nothing, and both sides cut alike.
	src := text[start:end]
	if len(src) > 16*maxTerm {
		src = src[:16*maxTerm]
	}
	s.buf = s.fold.foldCase(s.buf[:0], src, foldKeepMarks)
	s.buf2 = s.fold.stripAccents(s.buf2[:0], s.buf)
	s.put(s.buf2, start, end, false)
	s.pos++
}
