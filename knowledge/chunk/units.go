package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// An atom is what the packer does not cut: one unit, or, for tokens, those
// that start in one grapheme cluster; a code block or table kept whole.
type atom struct {
	start, end int // without blank ends; equal for a blank atom
	cum        int // units before it; set by the packer
	weight     int // its units
	tokens     int // its tokens, −1 when not counted
	level      level
	heading    bool
	depth      int // of the section it starts
}

// A level says what an atom begins.
type level uint8

const (
	inner         level = iota
	startsPiece         // a sentence, or a line of code
	startsBlock         // a paragraph, a code block, a table
	startsSection       // a section with a heading
)

// A sink takes the atoms of one text, in order, and returns false when it
// wants no more.
type sink func(atom) bool

// cutter makes atoms from positions where text may be cut.
type cutter struct {
	text   string
	border clusters
	from   int
	sink   sink
}

// cut ends the atom that lies before at. It reports false when nobody listens
// any more.
func (c *cutter) cut(at, weight, tokens int) bool {
	start, end := trim(c.text, c.from, at)
	c.from = at
	return c.sink(atom{start: start, end: end, weight: weight, tokens: tokens})
}

// unit is cut for a stretch that is one unit, or none when it is blank.
func (c *cutter) unit(at int) bool { return c.units(at, 1) }

// units is cut for a stretch of some units, or none when it is blank.
func (c *cutter) units(at, weight int) bool {
	start, end := trim(c.text, c.from, at)
	c.from = at
	return start == end || c.sink(atom{start: start, end: end, weight: weight, tokens: -1})
}

// feedWords gives the words of text. What is between two words, white space
// aside, goes with the word it touches; with the next one if it touches both
// or leads a line, else with the one before. A line without a word is an atom
// of no units.
func feedWords(text string, out sink) {
	c := cutter{text: text, border: newClusters(text, 0), sink: out}
	w := wordScanner{text: text}
	weight := 0 // of the atom from c.from on
	start := func(at, n int) bool {
		if at <= c.from || !c.border.border(at) {
			weight = max(weight, n)
			return true
		}
		old := weight
		weight = n
		return c.units(at, old)
	}
	gap, leads := -1, false   // signs behind white space; whether they lead a line
	blank, line := true, true // white space, a line end, since the last sign or word
	for i := 0; i < len(text); {
		end, kind := w.next(i)
		switch kind {
		case isWord:
			if gap < 0 {
				gap = i
			}
			if !start(gap, 1) {
				return
			}
			gap, blank, line = -1, false, false
		case isSpace:
			newLine := text[i] == '\n' || text[i] == '\r'
			if newLine && gap >= 0 && leads && !start(gap, 0) {
				return
			}
			if newLine || !leads {
				gap = -1
			}
			blank, line = true, line || newLine
		case isPunct:
			if blank && gap < 0 {
				gap, leads = i, line
			}
			blank, line = false, false
		}
		i = end
	}
	if gap >= 0 && leads && !start(gap, 0) {
		return
	}
	c.units(len(text), weight)
}

// Kinds of UAX #29 segments.
type wordKind uint8

const (
	isSpace wordKind = iota
	isPunct
	isWord
)

// wordScanner finds UAX #29 word borders.
type wordScanner struct {
	text string
	it   *words.Iterator[string]
}

// next returns the end and the kind of the segment that starts at i. ASCII is
// handled here, as the rules have it when the next rune is ASCII too; the
// rest is the library's.
func (w *wordScanner) next(i int) (end int, kind wordKind) {
	text := w.text
	if isHan(text, i) && (i+3 == len(text) || text[i+3] < utf8.RuneSelf || isHan(text, i+3)) {
		return i + 3, isWord
	}
	switch asciiClass[text[i]] {
	case clsWord:
		for j := i + 1; ; j++ {
			if j == len(text) {
				return j, isWord
			}
			k := asciiClass[text[j]]
			if k == clsWord {
				continue
			}
			if k == clsBreak || k == clsMid && j+1 < len(text) && (asciiClass[text[j+1]] == clsBreak || asciiClass[text[j+1]] == clsMid) {
				return j, isWord
			}
			break
		}
	case clsBreak, clsMid:
		if text[i] == ' ' { // WB3d
			j := i + 1
			for j < len(text) && text[j] == ' ' {
				j++
			}
			if j == len(text) || text[j] < utf8.RuneSelf {
				return j, isSpace
			}
			break
		}
		if i+1 == len(text) || text[i+1] < utf8.RuneSelf {
			if isBlankByte(text[i]) {
				return i + 1, isSpace
			}
			return i + 1, isPunct
		}
	}
	if r, n := utf8.DecodeRuneInString(text[i:]); n == 3 && isSimpleCJK(r) && !isKatakana(r) {
		if i+n == len(text) || text[i+n] < utf8.RuneSelf || isSimpleCJK(runeAt(text, i+n)) {
			if r > 0x3029 && r < 0xff00 || r >= 0x3005 && r <= 0x3007 || r >= 0x3021 && r <= 0x3029 {
				return i + n, isWord
			}
			return i + n, kindOf(text[i : i+n])
		}
	}
	if w.it == nil {
		w.it = words.FromString("")
	}
	w.it.SetText(text[i:])
	w.it.Next()
	end = i + w.it.End()
	return end, kindOf(text[i:end])
}

// isKatakana tells the runes that make words of several; 0x3021 is no letter.
func isKatakana(r rune) bool { return r >= 0x30a1 && r <= 0x30fa }

// kindOf tells a word by its first rune that is a letter, a mark, a number or
// a symbol beyond ASCII.
func kindOf(segment string) wordKind {
	kind := isSpace
	for _, r := range segment {
		switch {
		case isBlank(r):
		case r < utf8.RuneSelf:
			if asciiClass[r] == clsWord {
				return isWord
			}
			kind = isPunct
		case unicode.IsPunct(r) || unicode.Is(unicode.C, r) || r == utf8.RuneError || unicode.Is(unicode.M, r):
			kind = isPunct
		default:
			return isWord
		}
	}
	return kind
}

// Classes of bytes for wordScanner.
const (
	clsOther = iota // beyond ASCII, and underscore
	clsWord         // letters and digits
	clsMid          // joins letters or digits when between them
	clsBreak        // never joins the rune before it
)

var asciiClass = func() (t [256]uint8) {
	for c := range utf8.RuneSelf {
		switch {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
			t[c] = clsWord
		case c == '_':
		case strings.IndexByte("':.,;\"", byte(c)) >= 0:
			t[c] = clsMid
		default:
			t[c] = clsBreak
		}
	}
	return t
}()

// feedSentences gives the sentences of text, none of which crosses an edge.
func feedSentences(text string, edges []int, out sink) {
	c := cutter{text: text, border: newClusters(text, 0), sink: out}
	for i := 0; i < len(text); {
		for len(edges) > 0 && edges[0] <= i {
			edges = edges[1:]
		}
		within := text
		if len(edges) > 0 {
			within = text[:edges[0]]
		}
		i = nextSentence(within, i)
		if c.border.border(i) && !c.unit(i) {
			return
		}
	}
	c.unit(len(text))
}

// feedParagraphs gives the stretches between blank lines. A line ends with
// \n or \r\n.
func feedParagraphs(text string, out sink) {
	c := cutter{text: text, sink: out}
	for i := 0; i < len(text); {
		k := strings.IndexByte(text[i:], '\n')
		if k < 0 {
			break
		}
		i += k + 1
		next := skipBlank(text, i, len(text))
		if strings.IndexByte(text[i:next], '\n') >= 0 && !c.unit(next) {
			return
		}
		i = next
	}
	c.unit(len(text))
}

// open reports whether text may be divided at pos: between clusters, or inside
// a line end, which is trimmed away.
func (c *cutter) open(pos int) bool {
	return c.border.border(pos) || c.text[pos-1] == '\r' && c.text[pos] == '\n'
}

// feedCustom gives the stretches between separators. A separator that starts
// or ends inside a grapheme cluster is none.
func feedCustom(text, separator string, out sink) {
	c := cutter{text: text, border: newClusters(text, 0), sink: out}
	for i := 0; i < len(text); {
		k := strings.Index(text[i:], separator)
		if k < 0 {
			break
		}
		at, next := i+k, i+k+len(separator)
		if !c.open(at) || !c.open(next) {
			_, w := utf8.DecodeRuneInString(text[at:])
			i = at + w
			continue
		}
		if !c.unit(at) {
			return
		}
		c.from, i = next, next
	}
	c.unit(len(text))
}

// feedPages gives pages; blank ones count.
func feedPages(text string, pages []PageSpan, out sink) {
	c := cutter{text: text, sink: out}
	for _, p := range pages {
		c.from = p.Start
		if !c.cut(p.End, 1, -1) {
			return
		}
	}
}

// FormFeedPages returns the pages of a text that has one form feed between
// two pages, numbered from 1. The form feeds belong to none.
func FormFeedPages(text string) []PageSpan {
	var pages []PageSpan
	for from := 0; ; {
		k := strings.IndexByte(text[from:], '\f')
		if k < 0 {
			return append(pages, PageSpan{Start: from, End: len(text), Number: len(pages) + 1})
		}
		pages = append(pages, PageSpan{Start: from, End: from + k, Number: len(pages) + 1})
		from += k + 1
	}
}
