package analysis

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Scripts written without spaces are indexed as overlapping n-grams of their
// characters. A unit is what a reader calls a character: a base with the marks
// that follow it.
type script uint8

const (
	scriptNone    script = iota
	scriptCJK            // Han, Kana, Bopomofo, Hangul: n = 1 and 2
	scriptCluster        // Thai, Lao, Khmer, Myanmar: n = 1, 2 and 3
)

// clusterGram is the longest n-gram of the scripts of South-East Asia.
const clusterGram = 3

// scriptOf tells whether a rune belongs to a script indexed as n-grams. Runes
// below U+0E00 never do, nor do the punctuation marks of those scripts.
func scriptOf(r rune) script {
	switch {
	case r < 0x0e01:
		return scriptNone
	case r < 0x3000:
		return clusterScript(r)
	case r <= 0x318e:
		switch {
		case r >= 0x3041 && r <= 0x30ff:
			if r == 0x30fb || r == 0x30a0 || r >= 0x309b && r <= 0x309c {
				return scriptNone
			}
			return scriptCJK
		case r >= 0x3105, r >= 0x3005 && r <= 0x3007, r >= 0x3021 && r <= 0x3029,
			r >= 0x3031 && r <= 0x3035, r >= 0x3038 && r <= 0x303c:
			return scriptCJK
		}
		return scriptNone
	case r >= 0x3400 && r <= 0x4dbf, r >= 0x4e00 && r <= 0x9fff, r >= 0xac00 && r <= 0xd7fb,
		r >= 0x31a0 && r <= 0x31bf, r >= 0x31f0 && r <= 0x31ff, r >= 0xa960 && r <= 0xa97c,
		r >= 0xf900 && r <= 0xfaff, r >= 0xff66 && r <= 0xff9f, r >= 0xffa1 && r <= 0xffdc,
		r >= 0x1aff0 && r <= 0x1b16f, r >= 0x20000 && r <= 0x3fffd:
		return scriptCJK
	}
	return scriptNone
}

func clusterScript(r rune) script {
	switch {
	case r < 0x0e5c:
		if r == 0x0e3f || r == 0x0e4f || r >= 0x0e5a {
			return scriptNone
		}
		return scriptCluster
	case r < 0x0e81:
		return scriptNone
	case r <= 0x0edf, r >= 0x1000 && r <= 0x1049, r >= 0x1050 && r <= 0x109d:
		return scriptCluster
	case r >= 0x1100 && r <= 0x11ff:
		return scriptCJK // conjoining jamo
	case r >= 0x1780 && r <= 0x17d3, r >= 0x17dc && r <= 0x17e9:
		return scriptCluster
	case r >= 0x2e80 && r <= 0x2fd5:
		return scriptCJK // radicals
	}
	return scriptNone
}

// extendsUnit tells whether r belongs to the character before it.
func extendsUnit(r rune) bool {
	switch {
	case r < 0x0300:
		return false
	case r >= 0x1160 && r <= 0x11ff, r >= 0xd7b0 && r <= 0xd7fb: // vowel and final jamo
		return true
	case r == 0xff9e || r == 0xff9f: // half-width voicing marks
		return true
	case r >= 0x3041 && r <= 0x3098, r >= 0x309d && r <= 0x9fff, r >= 0xac00 && r <= 0xd7a3:
		return false
	}
	return unicode.Is(unicode.M, r) || r == 0x200c || r == 0x200d || dropped(r)
}

// plainUnit tells whether a unit of the single rune r is its own folded form.
func plainUnit(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fff || r >= 0x3041 && r <= 0x3096 ||
		r >= 0x30a1 && r <= 0x30fe || r >= 0xac00 && r <= 0xd7a3 || r >= 0x3400 && r <= 0x4dbf ||
		r >= 0x0e01 && r <= 0x0e30 || r == 0x0e32 || r >= 0x0e40 && r <= 0x0e46
}

// plainMark tells the same of a Thai mark, nth of its unit: a vowel, then a
// tone, is the order of the normal form.
func plainMark(r rune, nth int) bool {
	if r >= 0x0e48 && r <= 0x0e4b {
		return nth <= 1
	}
	return nth == 0 && (r == 0x0e31 || r >= 0x0e34 && r <= 0x0e39 || r == 0x0e47 || r == 0x0e4c)
}

// gramRun emits the n-grams of the run of one script that starts at i, and
// returns where it ends. The last few units are kept in a ring inside s, so a
// run of any length needs constant space.
//
// At index time a unit at position p gives its 1-gram, the 2-gram that starts
// there and, for clusters, the 3-gram, all at p. A query gives only the
// longest n-grams the run has room for: one character alone finds the
// character, two or more find pairs.
func (s *Scratch) gramRun(text string, i int, sc script) int {
	if sc == scriptCJK && s.a.segment != nil {
		return s.wordRun(text, i)
	}
	maxN := 2
	if sc == scriptCluster {
		maxN = clusterGram
	}
	sentence := sc == scriptCJK && (s.mode == modeQuery || s.mode == modeQueryAll) && isSentence(text[i:])
	s.ring = s.ring[:0]
	s.ends = s.ends[:0]
	s.starts = s.starts[:0]
	long := false // the run has maxN units
	for i < len(text) {
		r, w := utf8.DecodeRuneInString(text[i:])
		if scriptOf(r) != sc {
			break
		}
		start := i
		i += w
		plain := plainUnit(r)
		for nth := 0; i < len(text) && text[i] >= utf8.RuneSelf; nth++ {
			e, ew := utf8.DecodeRuneInString(text[i:])
			if !extendsUnit(e) || i+ew-start > maxTerm/4 {
				break
			}
			i += ew
			plain = plain && plainMark(e, nth)
		}
		s.pushUnit(text, start, i, plain)
		if len(s.ends) == maxN {
			s.emitGrams(true, sentence)
			s.popUnit()
			long = true
		}
	}
	for short := !long; len(s.ends) > 0; short = false {
		s.emitGrams(short, sentence)
		s.popUnit()
	}
	return i
}

// pushUnit appends the folded form of text[start:end] to the ring, or nothing
// when it folds to nothing.
func (s *Scratch) pushUnit(text string, start, end int, plain bool) {
	before := len(s.ring)
	if plain {
		s.ring = append(s.ring, text[start:end]...)
	} else {
		s.unit = s.fold.normal(s.unit[:0], norm.NFKC, text[start:end])
		for j := 0; j < len(s.unit); {
			r, w := utf8.DecodeRune(s.unit[j:])
			j += w
			if r == utf8.RuneError && w == 1 || dropped(r) {
				continue
			}
			s.ring = appendFolded(s.ring, r)
		}
		if len(s.ring) == before {
			return
		}
	}
	s.starts = append(s.starts, [2]int{start, end})
	s.ends = append(s.ends, len(s.ring))
}

// popUnit drops the oldest unit of the ring.
func (s *Scratch) popUnit() {
	cut := s.ends[0]
	s.ring = append(s.ring[:0], s.ring[cut:]...)
	copy(s.starts, s.starts[1:])
	s.starts = s.starts[:len(s.starts)-1]
	copy(s.ends, s.ends[1:])
	s.ends = s.ends[:len(s.ends)-1]
	for k := range s.ends {
		s.ends[k] -= cut
	}
}

// emitGrams emits what starts at the oldest unit of the ring and moves to the
// next position. A query takes nothing but the n-gram of the whole ring, and
// that only when asked, and in a sentence the 1-gram of what is not Hiragana.
func (s *Scratch) emitGrams(query, sentence bool) {
	n := len(s.ends)
	if sentence && !hiragana(s.ring) {
		s.emitGram(1)
	}
	if s.mode == modeIndex {
		for k := 1; k <= n; k++ {
			s.emitGram(k)
		}
	} else if query {
		s.emitGram(n)
	}
	s.pos++
}

func (s *Scratch) emitGram(n int) {
	term := s.ring[:s.ends[n-1]]
	stop := false
	if s.a.stops != nil {
		_, stop = s.a.stops[string(term)]
	}
	s.put(term, s.starts[0][0], s.starts[n-1][1], stop)
}

// sentenceUnits is the length from which a run in a query is read as a
// sentence and not as a word or a name.
const sentenceUnits = 5

// isSentence tells whether text starts with so many characters of scriptCJK.
func isSentence(text string) bool {
	n := 0
	for _, r := range text {
		if scriptOf(r) != scriptCJK || n == sentenceUnits {
			break
		}
		if !extendsUnit(r) {
			n++
		}
	}
	return n == sentenceUnits
}

// hiragana tells whether a term begins with a Hiragana character.
func hiragana(term []byte) bool {
	r, _ := utf8.DecodeRune(term)
	return r >= 0x3041 && r <= 0x309f
}

// wordPiece is the number of characters of a run that are cut into words at
// once.
const wordPiece = 512

// wordRun emits a run of Han, Kana and Hangul with the words of a dictionary: the
// n-grams of gramRun and, besides, the words of three characters and more, each
// at its first character. Words of one and two are n-grams. (Asked for words
// alone, without the pairs that cross them, XQuAD zh falls from .960 to .952 and
// JaQuAD from .868 to .836.)
func (s *Scratch) wordRun(text string, i int) int {
	for more := true; more; {
		s.ring, s.ends, s.starts = s.ring[:0], s.ends[:0], s.starts[:0]
		i, more = s.takeUnits(text, i)
		if len(s.ends) == 0 {
			return i
		}
		from, to := s.starts[0][0], s.starts[len(s.starts)-1][1]
		s.found = s.found[:0]
		s.a.segment(text[from:to], func(start, end int) {
			if start >= 0 && start < end && end <= to-from {
				s.found = append(s.found, piece{from + start, from + end})
			}
		})
		s.emitWords()
	}
	s.ring, s.ends, s.starts = s.ring[:0], s.ends[:0], s.starts[:0]
	return i
}

// takeUnits pushes up to wordPiece units of the run at i, and tells where the
// rest begins and whether there is any.
func (s *Scratch) takeUnits(text string, i int) (next int, more bool) {
	for i < len(text) {
		r, w := utf8.DecodeRuneInString(text[i:])
		if scriptOf(r) != scriptCJK {
			return i, false
		}
		if len(s.ends) == wordPiece {
			return i, true
		}
		start := i
		i += w
		plain := plainUnit(r)
		for i < len(text) && text[i] >= utf8.RuneSelf {
			e, ew := utf8.DecodeRuneInString(text[i:])
			if !extendsUnit(e) || i+ew-start > maxTerm/4 {
				break
			}
			i += ew
			plain = false
		}
		s.pushUnit(text, start, i, plain)
	}
	return i, false
}

// emitWords emits the units in s, cut into the words of s.found.
func (s *Scratch) emitWords() {
	next := 0 // of s.found
	for u := 0; u < len(s.ends); {
		for next < len(s.found) && s.found[next].start < s.starts[u][0] {
			next++
		}
		n := 1 // units of the word that begins here
		if next < len(s.found) && s.found[next].start == s.starts[u][0] {
			for u+n < len(s.ends) && s.starts[u+n-1][1] < s.found[next].end {
				n++
			}
		}
		s.putWord(u, n)
		u += n
	}
}

// putWord emits what begins in a word of n units.
func (s *Scratch) putWord(u, n int) {
	query := s.mode != modeIndex
	sentence := query && s.mode != modePhrase && len(s.ends) >= sentenceUnits
	for k := u; k < u+n; k++ {
		if !query || len(s.ends) == 1 || sentence && !hiragana(s.units(k, 1)) {
			s.putUnits(k, 1)
		}
		if k == u && n > 2 && s.mode != modePhrase {
			s.putUnits(k, n)
		}
		if k+1 < len(s.ends) {
			s.putUnits(k, 2)
		}
		s.pos++
	}
}

// units is the folded form of n units.
func (s *Scratch) units(u, n int) []byte {
	from := 0
	if u > 0 {
		from = s.ends[u-1]
	}
	return s.ring[from:s.ends[u+n-1]]
}

func (s *Scratch) putUnits(u, n int) {
	term := s.units(u, n)
	stop := false
	if s.a.stops != nil {
		_, stop = s.a.stops[string(term)]
	}
	s.put(term, s.starts[u][0], s.starts[u+n-1][1], stop)
}
