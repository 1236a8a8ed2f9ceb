package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// runeKind is what sentence rules ask of a rune: the Sentence_Break property
// of UAX #29, from the standard library's tables.
type runeKind uint8

const (
	kElse runeKind = iota
	kLower
	kUpper
	kLetter // without case
	kNumber
	kTerm      // ATerm or STerm
	kContinue  // comma, colon, dash …
	kOpen      // opening bracket
	kClose     // closing bracket, quote
	kEmphasis  // Markdown's marks, which close like quotes
	kBlank     // white space inside a line
	kParagraph // end of a line or paragraph
)

var asciiKind = func() (t [utf8.RuneSelf]runeKind) {
	for c := range utf8.RuneSelf {
		switch {
		case c >= 'a' && c <= 'z':
			t[c] = kLower
		case c >= 'A' && c <= 'Z':
			t[c] = kUpper
		case c >= '0' && c <= '9':
			t[c] = kNumber
		case c == '\n' || c == '\r':
			t[c] = kParagraph
		case isBlankByte(byte(c)):
			t[c] = kBlank
		case strings.IndexByte(".!?", byte(c)) >= 0:
			t[c] = kTerm
		case strings.IndexByte(",;:-", byte(c)) >= 0:
			t[c] = kContinue
		case strings.IndexByte("([{", byte(c)) >= 0:
			t[c] = kOpen
		case strings.IndexByte(")]}'\"", byte(c)) >= 0:
			t[c] = kClose
		case strings.IndexByte("*_`~", byte(c)) >= 0:
			t[c] = kEmphasis
		}
	}
	return t
}()

func kindAt(text string, i int) (k runeKind, r rune, w int) {
	if c := text[i]; c < utf8.RuneSelf {
		return asciiKind[c], rune(c), 1
	}
	r, w = utf8.DecodeRuneInString(text[i:])
	return kindOfRune(r), r, w
}

func kindOfRune(r rune) runeKind {
	switch r {
	case 0x85, 0x2028, 0x2029:
		return kParagraph
	case 0x37e, 0x55d, 0x60c, 0x60d, 0x7f8, 0x1802, 0x1808, 0x2013, 0x2014, 0x3001, 0xff0c, 0xff1a, 0xff64:
		return kContinue
	case 0x3002, 0xff01, 0xff1f, 0xff61, 0x2024, 0xfe52, 0xff0e, 0x17d4, 0x17d5: // Khmer is not in older tables
		return kTerm
	}
	switch {
	case r >= 0x3400 && r <= 0x9fff:
		return kLetter
	case unicode.IsLower(r):
		return kLower
	case unicode.IsUpper(r) || unicode.IsTitle(r):
		return kUpper
	case unicode.IsLetter(r):
		return kLetter
	case unicode.IsDigit(r):
		return kNumber
	case isBlank(r):
		return kBlank
	case unicode.Is(unicode.STerm, r):
		return kTerm
	case unicode.Is(unicode.Ps, r), unicode.Is(unicode.Pi, r):
		return kOpen
	case unicode.Is(unicode.Pe, r), unicode.Is(unicode.Pf, r):
		return kClose
	}
	return kElse
}

// isFullStop tells the terminators that also do other work: ATerm.
func isFullStop(r rune) bool { return r == '.' || r == 0x2024 || r == 0xfe52 || r == 0xff0e }

// nextSentence returns the end of the sentence of text that starts at from,
// the white space and the line end behind it included: at most len(text),
// and above from if from is below that. All calls for one text together cost
// time linear in it.
func nextSentence(text string, from int) int {
	for i := from; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			switch asciiKind[c] {
			case kTerm:
				end, brk := sentenceEnd(text, from, i)
				if brk {
					return end
				}
				i = end
			case kParagraph:
				i = lineBreak(text, i)
				if !wrapped(text, from, i) {
					return i
				}
			default:
				i++
			}
			continue
		}
		r, w := utf8.DecodeRuneInString(text[i:])
		switch {
		case r < 0x589 && r != 0x85, r > 0x3002 && r < 0xa4ff, r >= 0xac00 && r <= 0xd7a3: // no terminators there
			i += w
		case r >= 0xe01 && r <= 0xedf:
			i += w
			if end := clauseEnd(text, from, i); end > 0 {
				return end
			}
		case kindOfRune(r) == kTerm:
			end, brk := sentenceEnd(text, from, i)
			if brk {
				return end
			}
			i = end
		case kindOfRune(r) == kParagraph:
			return i + w
		default:
			i += w
		}
	}
	return len(text)
}

// lineBreak returns the end of the line end at i.
func lineBreak(text string, i int) int {
	if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
		return i + 2
	}
	if text[i] < utf8.RuneSelf {
		return i + 1
	}
	_, w := utf8.DecodeRuneInString(text[i:])
	return i + w
}

// sentenceEnd decides about the terminator at i in the sentence that starts
// at from. It returns the end of the sentence, or where to go on reading.
// Numbers name the rules of UAX #29.
func sentenceEnd(text string, from, i int) (end int, brk bool) {
	// SB8a: a run of terminators counts as its last.
	stop, full, run := i, false, 0
	ascii := false
	for i < len(text) {
		k, r, w := kindAt(text, i)
		if k != kTerm {
			break
		}
		stop, full, ascii = i, isFullStop(r), r < utf8.RuneSelf
		i += w
		run++
	}
	closed := skipClosers(text, i)
	next := closed
	var k runeKind
	var r rune
	w := 0
	for next < len(text) { // SB9, SB10
		if k, r, w = kindAt(text, next); k != kBlank {
			break
		}
		next += w
	}
	if next == len(text) {
		return next, true
	}
	switch k {
	case kParagraph: // SB4
		return lineBreak(text, next), true
	case kContinue: // SB8a
		return next + w, false
	case kTerm:
		return next, false
	}
	cased := k == kLower || k == kUpper || k == kNumber
	if next == closed {
		// Nothing between: example.com, 3.14, v1.A, ?x=1, Yes!No.
		if (ascii || full) && (cased || closed == i && r < utf8.RuneSelf) {
			return next, false
		}
		if closed > i && r == 'と' {
			return next, false // 「行くか？」と聞いた
		}
	}
	if k == kLower && (full || ascii) { // SB8, and the same for ! and ?
		return next, false
	}
	if full {
		// SB8: numbers and signs may stand before the lower-case letter.
		if k != kUpper && k != kLetter && lowerFollows(text, next) {
			return next, false
		}
		if run == 1 && closed == i && !endsSentence(text, from, stop, next) {
			return next, false
		}
	}
	return next, true
}

// skipClosers skips closing brackets, quotes, emphasis and footnote marks.
// An opening quote counts as a closing one when white space is behind it, as
// in German „Hallo.“ and »Hallo.«.
func skipClosers(text string, i int) int {
	for i < len(text) {
		k, r, w := kindAt(text, i)
		switch {
		case k == kClose || k == kEmphasis:
			i += w
		case r == '[':
			e := i + 1
			for e < len(text) && e < i+6 && text[e] >= '0' && text[e] <= '9' {
				e++
			}
			if e == i+1 || e == len(text) || text[e] != ']' {
				return i
			}
			i = e + 1
		case (r == ' ' || r == 0xa0 || r == 0x202f) && closesFrench(text, i+w):
			i += w + len("»")
		case k == kOpen && unicode.Is(unicode.Pi, r) && (i+w == len(text) || isBlank(runeAt(text, i+w))):
			i += w
		default:
			return i
		}
	}
	return i
}

// closesFrench reports whether there is a » at i that ends a quotation: « Oui ! »
func closesFrench(text string, i int) bool {
	after, ok := strings.CutPrefix(text[i:], "»")
	if !ok || after == "" {
		return ok
	}
	k, _, _ := kindAt(after, 0)
	return k == kBlank || k == kParagraph || k == kContinue || k == kTerm
}

func runeAt(text string, i int) rune {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return r
}

// lowerFollows reports whether the first letter, line end or terminator at or
// after i is a lower-case letter. It looks no further than the next
// terminator, so that no byte is looked at twice.
func lowerFollows(text string, i int) bool {
	for i < len(text) {
		k, _, w := kindAt(text, i)
		switch k {
		case kLower:
			return true
		case kUpper, kLetter, kParagraph, kTerm:
			return false
		}
		i += w
	}
	return false
}

const (
	wrapBytes   = 40   // a line at least as long may go on in the next one
	lineBack    = 1024 // how far back the start of a line is sought
	clauseBytes = 120  // of Thai or Lao before a space ends a unit: 40 letters
)

// wrapped reports whether the line that ends before next, without a
// terminator, goes on in the next line: both look like prose, and the line is
// long.
func wrapped(text string, from, next int) bool {
	end := next
	for end > from && (text[end-1] == '\n' || text[end-1] == '\r') {
		end--
	}
	if end-from < wrapBytes || strings.LastIndexByte(text[end-wrapBytes:end], '\n') >= 0 || next == len(text) {
		return false
	}
	// The line that ends.
	line := text[max(0, end-lineBack):end]
	line = line[strings.LastIndexByte(line, '\n')+1:]
	if first := skipBlank(line, 0, len(line)); first < len(line) && strings.IndexByte("#|`~", line[first]) >= 0 {
		return false
	}
	if r, _ := utf8.DecodeLastRuneInString(line); r < utf8.RuneSelf {
		switch k := asciiKind[byte(r)]; {
		case k == kLower || k == kUpper || k == kNumber || k == kClose || k == kEmphasis:
		case r == ',' || r == '-' || r == ' ':
		default:
			return false
		}
	}
	// The line that follows.
	i := next
	for i < len(text) && i < next+8 && text[i] == ' ' {
		i++
	}
	if i == len(text) {
		return false
	}
	switch k, r, _ := kindAt(text, i); k {
	case kNumber:
		e := i
		for e < len(text) && e < i+9 && text[e] >= '0' && text[e] <= '9' {
			e++
		}
		return e == len(text) || text[e] != '.' && text[e] != ')' // a list
	case kLower, kUpper, kLetter, kClose:
		return true
	case kOpen:
		return r != '[' && r != '{'
	}
	return false
}

// clauseEnd returns the end of the spaces at i if they end a unit of Thai or
// Lao, which mark the end of a sentence by a space alone, though not every
// space does: a long clause lies before them and a letter of these scripts
// behind. Otherwise it returns 0.
func clauseEnd(text string, from, i int) int {
	if i-from < clauseBytes || i == len(text) || text[i] != ' ' {
		return 0
	}
	for i < len(text) && text[i] == ' ' {
		i++
	}
	if i == len(text) {
		return 0
	}
	if r := runeAt(text, i); r < 0xe01 || r > 0xedf || unicode.Is(unicode.M, r) {
		return 0
	}
	return i
}
