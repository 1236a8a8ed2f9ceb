package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// Hyphenated words that hold a digit (AR-7, COVID-19, 2024-01-15) are indexed
// whole as well, up to this many words and bytes.
const (
	maxChain      = 8
	maxChainBytes = 64
)

// A segment is one word of a hyphenated chain.
type segment struct {
	start, end int
	sh         shape
}

// scan walks over the segments of text.
func (s *Scratch) scan(text string) {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			// White space and punctuation, most often one byte.
			if k := asciiClass[c]; k == asciiNone && (i+1 == len(text) || text[i+1] < utf8.RuneSelf) {
				i++
				continue
			}
		} else if c >= 0xe0 {
			r, _ := utf8.DecodeRuneInString(text[i:])
			if sc := scriptOf(r); sc != scriptNone {
				i = s.gramRun(text, i, sc)
				continue
			}
		}
		end, sh := s.segment(text, i)
		if sh&(hasLetter|hasDigit) == 0 {
			if sh&hasHigh != 0 {
				s.symbol(text, i, end)
			}
			i = end
			continue
		}
		if end < len(text) {
			switch text[end] {
			case '-', 0xe2:
				if hyphenAt(text, end) > 0 {
					i = s.chain(text, segment{i, end, sh})
					continue
				}
			case '+', '#':
				i = s.sharp(text, i, end, sh)
				continue
			}
		}
		s.word(text, i, end, sh)
		i = end
	}
}

// segment returns the end and the shape of the UAX #29 segment at i, which is
// cut before a script that is indexed as n-grams.
func (s *Scratch) segment(text string, i int) (int, shape) {
	if end, sh, ok := plainSegment(text, i); ok {
		return end, sh
	}
	if s.words == nil {
		s.words = words.FromString("")
	}
	if s.limit <= i {
		s.limit = nextScript(text, i)
	}
	s.words.SetText(text[i:s.limit])
	if !s.words.Next() {
		return s.limit, 0
	}
	seg := s.words.Value()
	var sh shape
	for j, r := range seg {
		if r < utf8.RuneSelf {
			if c := asciiClass[r]; c == asciiNone {
				continue
			} else if c > asciiUnder {
				sh |= hasJoint
			} else if j == 0 {
				sh |= classShape[c]
			} else {
				sh |= innerShape[c]
			}
			continue
		}
		sh |= hasHigh | hasOdd
		switch {
		case unicode.IsUpper(r):
			sh |= hasLetter
			if j > 0 {
				sh |= hasInnerUpper
			}
		case unicode.IsLetter(r):
			sh |= hasLetter | hasLower
		case unicode.IsNumber(r):
			sh |= hasDigit
		}
	}
	return i + len(seg), sh
}

// nextScript returns where the next run of n-grams after i starts. Segments
// end there: the full algorithm would take Hangul for letters and read on, and
// text that alternates would cost quadratic time.
func nextScript(text string, i int) int {
	_, w := utf8.DecodeRuneInString(text[i:])
	for i += w; i < len(text); {
		if text[i] < 0xe0 {
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(text[i:])
		if scriptOf(r) != scriptNone {
			return i
		}
		i += w
	}
	return len(text)
}

// squared emits a unit that is one character (㎏).
func (s *Scratch) squared(text string, start, end int) bool {
	s.buf = s.fold.foldCase(s.buf[:0], text[start:end], 0)
	for _, c := range s.buf {
		if k := asciiClass[c]; c >= utf8.RuneSelf || k != asciiLower && k != asciiDigit {
			return false
		}
	}
	s.put(s.buf, start, end, false)
	s.pos++
	return true
}

// symbol emits an emoji or a pictograph as a term of its own.
func (s *Scratch) symbol(text string, start, end int) {
	r, _ := utf8.DecodeRuneInString(text[start:])
	if s.a.version >= version2 && r >= 0x3371 && r <= 0x33df && s.squared(text, start, end) {
		return
	}
	if r < 0x2600 || r > 0x27bf && r < 0x1f000 || !unicode.Is(unicode.So, r) || end-start > maxTerm {
		return
	}
	s.buf = s.fold.foldCase(s.buf[:0], text[start:end], foldKeepMarks)
	s.put(s.buf, start, end, false)
	s.pos++
}

// sharp handles a one-letter word before + or #: C++, C#, F#.
func (s *Scratch) sharp(text string, start, end int, sh shape) int {
	tail := end
	switch {
	case text[end] == '#':
		tail++
	case strings.HasPrefix(text[end:], "++"):
		tail += 2
	}
	if tail > end && end-start == 1 && sh&hasLetter != 0 &&
		(tail == len(text) || text[tail] < utf8.RuneSelf && !wordByte(text[tail]) && text[tail] != text[end]) {
		s.buf = lowerASCII(s.buf[:0], text[start:tail])
		s.put(s.buf, start, tail, false)
		if s.mode == modePhrase {
			s.pos++
			return tail
		}
	}
	s.word(text, start, end, sh)
	return end
}

// wordByte tells whether an ASCII byte is a letter, a digit or _.
func wordByte(c byte) bool {
	k := asciiClass[c]
	return k != asciiNone && k <= asciiUnder
}

// hyphenAt returns the width of the hyphen at i when a word follows it: -, ‐
// (U+2010) or the non-breaking U+2011.
func hyphenAt(text string, i int) int {
	w := 0
	switch {
	case text[i] == '-':
		w = 1
	case strings.HasPrefix(text[i:], "\u2010"), strings.HasPrefix(text[i:], "\u2011"):
		w = 3
	}
	if w == 0 || i+w >= len(text) {
		return 0
	}
	if c := text[i+w]; c < utf8.RuneSelf {
		if k := asciiClass[c]; k == asciiNone || k >= asciiUnder {
			return 0
		}
		return w
	}
	r, _ := utf8.DecodeRuneInString(text[i+w:])
	if !unicode.IsLetter(r) || scriptOf(r) != scriptNone {
		return 0
	}
	return w
}

// chain emits hyphenated words: each by itself and, when there is a digit
// among them, first the whole without hyphens at the position of the first, so
// that IL-6 and IL6 meet and AR-7 is not AR-70.
func (s *Scratch) chain(text string, first segment) int {
	s.segments = append(s.segments[:0], first)
	sh := first.sh
	end := first.end
	for len(s.segments) < maxChain && end < len(text) {
		w := hyphenAt(text, end)
		if w == 0 {
			break
		}
		e, esh := s.segment(text, end+w)
		s.segments = append(s.segments, segment{end + w, e, esh})
		sh |= esh
		end = e
	}
	whole := sh&hasDigit != 0 || s.a.kind == kindCode
	if whole && len(s.segments) > 1 && end-first.start <= maxChainBytes && s.mode != modePhrase {
		s.joined = s.joined[:0]
		for _, g := range s.segments {
			for k := g.start; k < g.end; k++ {
				if c := text[k]; c != '_' && c != '\'' {
					s.joined = append(s.joined, c)
				}
			}
		}
		s.whole(first.start, end)
	}
	for k := range s.segments {
		g := s.segments[k]
		s.word(text, g.start, g.end, g.sh)
	}
	return end
}
