package analysis

import (
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// An identifier is split into at most this many parts; one with more (a line
// of base64) is a single term.
const maxParts = 16

// A piece is a part of a word, between separators or case changes.
type piece struct{ start, end int }

// Classes of the characters of a word.
type charClass uint8

const (
	charOther charClass = iota // letters without case, marks
	charLower
	charUpper
	charDigit
	charSeparator // _ . : and their kin: parts on both sides, and the whole
	charPoint     // . , ; ' between digits
)

// word emits the word text[start:end] and moves the position past it.
func (s *Scratch) word(text string, start, end int, sh shape) {
	if s.a.version >= version2 && sh&hasLetter != 0 && asciiClass[text[start]] == asciiDigit && s.quantity(text, start, end) {
		return
	}
	if sh&hasLetter == 0 && sh&hasHigh == 0 {
		if sh&hasJoint != 0 && end-start <= maxTerm {
			s.number(text, start, end)
			return
		}
	} else if sh&(hasJoint|hasOdd) != 0 || sh&(hasInnerUpper|hasLower) == hasInnerUpper|hasLower ||
		s.a.kind == kindCode && sh&hasDigit != 0 {
		if end-start <= maxTerm {
			s.sections(text, start, end)
			return
		}
	}
	s.single(text, start, end)
}

// single emits text[start:end] as one term.
func (s *Scratch) single(text string, start, end int) {
	term, stop := s.term(text[start:end])
	if s.a.couples {
		s.couple(text, term, start, end, stop)
	}
	s.put(term, start, end, stop)
	if len(term) > 0 {
		s.pos++
	}
}

// number emits digits with points. Separators of thousands are left out (1,000
// is 1000), other points stay (3.14, 1.2.3). Underscores part.
func (s *Scratch) number(text string, start, end int) {
	b := s.buf[:0]
	group := 0
	grouped := true
	for i := start; i < end; i++ {
		c := text[i]
		if c == '_' {
			s.split(text, start, end)
			return
		}
		if asciiClass[c] == asciiDigit {
			group++
			b = append(b, c)
			continue
		}
		if c == '.' || len(b) > group && group != 3 || group > 3 {
			grouped = false
		}
		group = 0
	}
	if !grouped || group != 3 {
		b = append(b[:0], text[start:end]...)
	}
	s.buf = b
	s.put(b, start, end, false)
	s.pos++
}

// A unit has this many letters.
const (
	minUnit = 2
	maxUnit = 6
)

// quantity emits a number with its unit (5kg, 3.5mm) whole and in parts. It
// reports false for another kind of word.
func (s *Scratch) quantity(text string, start, end int) bool {
	at := start
	for at < end && (asciiClass[text[at]] == asciiDigit || (text[at] == '.' || text[at] == ',') && pointAt(text, at, 1, end)) {
		at++
	}
	letters := 0
	for _, r := range text[at:end] {
		if letters++; letters > maxUnit || !unicode.IsLetter(r) {
			return false
		}
	}
	if letters < minUnit || end-start > maxTerm {
		return false
	}
	switch text[at:end] {
	case "st", "nd", "rd", "th": // ordinals
		return false
	}
	s.joined = append(s.joined[:0], text[start:end]...)
	s.whole(start, end)
	if s.mode == modePhrase {
		s.pos += 2
		return true
	}
	s.number(text, start, at)
	s.single(text, at, end)
	return true
}

// sections parts a word at its apostrophes. An elided article (French l', d')
// or the English possessive is dropped where the analyzer says so; with other
// letters than Latin the apostrophe is part of the word (м'який), and folding
// drops it.
func (s *Scratch) sections(text string, start, end int) {
	from := start
	var before rune
	for i := start; i < end; {
		r, w := utf8.DecodeRuneInString(text[i:end])
		if isApostrophe(r) && before < 0x0370 {
			if from < i && !s.elided(text[from:i]) {
				s.split(text, from, i)
			}
			from = i + w
		}
		before = r
		i += w
	}
	if from == end || from > start && s.a.possessive && (text[from:end] == "s" || text[from:end] == "S") {
		return
	}
	s.split(text, from, end)
}

func (s *Scratch) elided(word string) bool {
	if len(s.a.elisions) == 0 || len(word) > 12 || !isASCII(word) {
		return false
	}
	var b [12]byte
	_, ok := s.a.elisions[string(lowerASCII(b[:0], word))]
	return ok
}

func isApostrophe(r rune) bool {
	return r == '\'' || r == '’' || r == '‘' || r == '＇' || r == 'ʼ'
}

// split emits a word without apostrophes: as it is, or as whole and parts.
func (s *Scratch) split(text string, start, end int) {
	s.cut(text, start, end)
	if len(s.pieces) == 0 {
		return
	}
	if len(s.pieces) == 1 {
		s.single(text, s.pieces[0].start, s.pieces[0].end)
		return
	}
	s.joined = s.joined[:0]
	for _, p := range s.pieces {
		s.joined = append(s.joined, text[p.start:p.end]...)
	}
	s.whole(start, end)
	if len(s.pieces) > maxParts {
		s.pos++
		return
	}
	if s.mode == modePhrase {
		s.pos += uint32(len(s.pieces))
		return
	}
	for k := range s.pieces {
		p := s.pieces[k]
		term, stop := s.term(text[p.start:p.end])
		s.put(term, p.start, p.end, stop)
		s.pos++
	}
}

// whole emits s.joined at the current position.
func (s *Scratch) whole(start, end int) {
	s.last.end = -1
	if len(s.joined) == 0 {
		return
	}
	// joined is not written to while its string is in use.
	term, _ := s.term(unsafe.String(&s.joined[0], len(s.joined)))
	s.put(term, start, end, false)
}

// cut fills s.pieces with the parts of text[start:end].
//
// Parts end at separators and, when the word is an identifier, where lower
// case meets upper case and where capitals end (getUserName, HTTPServer). A
// word in which that would leave a single letter (iPhone, mRNA, NaCl has
// none) is no identifier, except for the code analyzer. In an identifier,
// digits are parts too (HTTPServer2).
func (s *Scratch) cut(text string, start, end int) {
	code := s.a.kind == kindCode
	joints, humps, lone := s.survey(text, start, end)
	camel := humps > 0 && (code || !lone)
	digits := code || camel || joints > 0
	s.pieces = s.pieces[:0]
	from := start
	prev := charSeparator
	class, w := charAt(text, start, end)
	for i := start; i < end; {
		next, nw := charAt(text, i+w, end)
		c := class
		if c == charSeparator && pointAt(text, i, w, end) {
			c = charPoint
		}
		boundary := false
		switch {
		case c == charSeparator || prev == charSeparator:
			boundary = true
		case isHump(prev, c, next):
			boundary = camel
		case (c == charDigit) != (prev == charDigit || prev == charPoint) && c != charPoint:
			boundary = digits
		}
		if boundary {
			if prev != charSeparator && from < i {
				s.pieces = append(s.pieces, piece{from, i})
			}
			from = i
		}
		i += w
		prev, class, w = c, next, nw
	}
	if prev != charSeparator && from < end {
		s.pieces = append(s.pieces, piece{from, end})
	}
}

// survey counts the separators inside a word and its case changes, and tells
// whether the changes would leave a part of one letter.
func (s *Scratch) survey(text string, start, end int) (joints, humps int, lone bool) {
	prev := charSeparator
	run := 0 // letters since the last boundary
	c, w := charAt(text, start, end)
	for i := start; i < end; {
		next, nw := charAt(text, i+w, end)
		hump := isHump(prev, c, next)
		if hump {
			humps++
			lone = lone || run == 1
		}
		switch {
		case c == charSeparator:
			if i > start && i+w < end && text[i] == '_' {
				joints++
			}
			run = 0
		case c == charDigit:
			run = 0
		case hump:
			run = 1
		default:
			run++
		}
		i += w
		prev, c, w = c, next, nw
	}
	return joints, humps, lone || humps > 0 && run == 1
}

// isHump tells whether a part begins at a character of class c.
func isHump(prev, c, next charClass) bool {
	return c == charUpper && (prev == charLower || prev == charUpper && next == charLower)
}

// pointAt tells whether the separator of w bytes at i stands between digits.
func pointAt(text string, i, w, end int) bool {
	return i > 0 && i+w < end && text[i] != '_' &&
		asciiClass[text[i-1]] == asciiDigit && asciiClass[text[i+w]] == asciiDigit
}

// charAt returns the class and width of the character at i, that of a
// separator at the end.
func charAt(text string, i, end int) (charClass, int) {
	if i >= end {
		return charSeparator, 0
	}
	r, w := rune(text[i]), 1
	if r >= utf8.RuneSelf {
		r, w = utf8.DecodeRuneInString(text[i:end])
	}
	if r < rune(len(lowClass)) {
		return lowClass[r], w
	}
	return classify(r), w
}

// lowClass holds classify of the characters up to Cyrillic.
var lowClass = func() (t [0x530]charClass) {
	for r := range t {
		t[r] = classify(rune(r))
	}
	return t
}()

func classify(r rune) charClass {
	if r < utf8.RuneSelf {
		switch asciiClass[r] {
		case asciiLower:
			return charLower
		case asciiUpper:
			return charUpper
		case asciiDigit:
			return charDigit
		}
		if r == '\'' { // of a script whose words keep it
			return charOther
		}
		return charSeparator
	}
	switch {
	case r >= 0x0590 && r < 0x10a0 && unicode.IsLetter(r):
		return charOther // from Hebrew to Myanmar no script has case
	case unicode.IsUpper(r):
		return charUpper
	case unicode.IsLower(r):
		return charLower
	case unicode.IsLetter(r), unicode.IsMark(r):
		return charOther
	case unicode.Is(unicode.Nd, r):
		return charDigit
	case unicode.Is(unicode.Pc, r), r == '\u2024', r == '\ufe52', r == '\uff0e', r == '\uff1a', r == '\ufe55':
		return charSeparator
	}
	return charOther
}
