package chunk

import (
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// clusters tells which byte positions of a text lie between two grapheme
// clusters (UAX #29), asked in ascending order. All questions together cost
// time linear in the text.
type clusters struct {
	text       string
	start, end int // a cluster; start is a border
	it         *graphemes.Iterator[string]
}

// back is how far border looks back for a pair of ASCII bytes, between which
// there always is a border, rather than walk there from the last cluster.
const back = 64

// newClusters starts at from, a border.
func newClusters(text string, from int) clusters {
	return clusters{text: text, start: from, end: from}
}

// border reports whether text may be cut at pos.
func (c *clusters) border(pos int) bool {
	if pos <= 0 || pos >= len(c.text) {
		return true
	}
	a, b := c.text[pos-1], c.text[pos]
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return a != '\r' || b != '\n'
	}
	if a < ' ' || b < ' ' { // GB4, GB5: around a control character, one of them no ASCII
		return true
	}
	if isHan(c.text, pos) && isHan(c.text, pos-3) {
		return true
	}
	if pos <= c.start {
		return pos == c.start
	}
	if pos <= c.end {
		return pos == c.end
	}
	if next := runeAt(c.text, pos); isSimple(next) {
		if prev, _ := utf8.DecodeLastRuneInString(c.text[max(0, pos-4):pos]); isSimple(prev) && (a >= utf8.RuneSelf || a != '\r') {
			return true
		}
	}
	// Walk from the last known border, or from the nearest sure one.
	i := c.end
	for k := pos - 1; k > i && k > pos-back; k-- {
		if c.text[k] < utf8.RuneSelf && c.text[k-1] < utf8.RuneSelf && c.text[k-1] != '\r' {
			i = k
			break
		}
	}
	if c.it == nil {
		c.it = graphemes.FromString("")
	}
	c.it.SetText(c.text[i:])
	for c.it.Next() {
		c.start, c.end = i+c.it.Start(), i+c.it.End()
		if c.end >= pos {
			break
		}
	}
	if c.end == pos {
		c.start = pos
		return true
	}
	return false
}

// isHan tells a rune of U+5000 to U+9FFF, a word and a cluster of its own, by its
// bytes: the most common ones of Chinese and Japanese, at a fraction of what
// decoding costs. Any i will do.
func isHan(text string, i int) bool {
	return i >= 0 && i+3 <= len(text) && text[i] >= 0xe5 && text[i] <= 0xe9 && text[i+1]&0xc0 == 0x80 && text[i+2]&0xc0 == 0x80
}

// isSimple tells runes that are clusters of their own when others of the kind
// stand around them: ASCII but for line ends, letters of Latin, Greek and
// Cyrillic with their accents, Han, Kana, their punctuation, Hangul syllables.
func isSimple(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r != '\r' && r != '\n'
	case r < 0x3001:
		return r >= 0xc0 && r <= 0x2ff || r >= 0x370 && r <= 0x481 || r >= 0x48a && r <= 0x52f
	}
	return isSimpleCJK(r) || r >= 0xac00 && r <= 0xd7a3
}

// isSimpleCJK tells the Han, Kana and punctuation runes that are a word or no
// word alone, unless both neighbors are Katakana.
func isSimpleCJK(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fff || r >= 0x3001 && r <= 0x3029 || r >= 0x3041 && r <= 0x3096 ||
		r >= 0x30a1 && r <= 0x30fa || r >= 0x3400 && r <= 0x4dbf || r >= 0xff01 && r <= 0xff0b || r == 0xff1f || r == 0xff0c
}
