package tokenize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// added finds added tokens in a text: leftmost, longest, not overlapping.
type added struct {
	tokens []AddedToken
	trie   trie // values are indices of tokens
	first  [256]bool
	only   int // the first byte, when all tokens share one; −1 = they differ
}

func newAdded(tokens []AddedToken, t trie) added {
	a := added{tokens: tokens, trie: t, only: -1}
	for i, t := range tokens {
		c := t.Text[0]
		a.first[c] = true
		if i == 0 {
			a.only = int(c)
		} else if a.only != int(c) {
			a.only = -1
		}
	}
	return a
}

// next returns the first added token in text[from:]: which, and the bytes it
// takes, white space of LStrip and RStrip included; −1 when there is none.
// White space before from is not taken. The time is linear, since a token is
// at most maxPiece bytes.
func (a *added) next(text string, from int) (which, start, end int) {
	if len(a.tokens) == 0 {
		return -1, 0, 0
	}
	for i := from; ; {
		i = a.seek(text, i)
		if i >= len(text) {
			return -1, 0, 0
		}
		which, end := a.match(text, i)
		if which < 0 {
			i++
			continue
		}
		t := &a.tokens[which]
		if t.SingleWord && (wordEnds(text[:i]) || wordStarts(text[end:])) {
			i = end
			continue
		}
		start := i
		if t.LStrip {
			start = from + len(strings.TrimRightFunc(text[from:i], isSpace))
		}
		if t.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], isSpace))
		}
		return which, start, end
	}
}

// seek returns the next place at or after i where a token may start.
func (a *added) seek(text string, i int) int {
	if a.only >= 0 {
		if j := strings.IndexByte(text[i:], byte(a.only)); j >= 0 {
			return i + j
		}
		return len(text)
	}
	for i < len(text) && !a.first[text[i]] {
		i++
	}
	return i
}

func (a *added) match(text string, i int) (which, end int) {
	which = -1
	n := uint32(0)
	for j := i; j < len(text); j++ {
		m, ok := a.trie.step(n, text[j])
		if !ok {
			break
		}
		n = m
		if v, ok := a.trie.value(n); ok {
			which, end = int(v), j+1
		}
	}
	return which, end
}

func wordEnds(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return len(s) > 0 && isWord(r)
}

func wordStarts(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return len(s) > 0 && isWord(r)
}

// isWord is \w of the reference's regular expressions.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.In(r, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// isSpace is Unicode's White_Space. unicode.IsSpace is the same set.
func isSpace(r rune) bool { return unicode.IsSpace(r) }
