package chunk

import "unicode/utf8"

// Offsets turns byte offsets of one text into offsets in runes and in UTF-16
// units, for callers whose strings count in these (Go's []rune, Python;
// JavaScript, Java, C#). An invalid byte counts one of each, as it does in
// []rune(text). Ascending questions together cost one pass over the text; one
// that goes back starts at the text's beginning again. The zero value is of no
// use: see NewOffsets. An Offsets may not be shared between goroutines.
type Offsets struct {
	text               string
	pos, runes, utf16s int
}

// NewOffsets returns an Offsets of text.
func NewOffsets(text string) *Offsets { return &Offsets{text: text} }

// At returns the number of runes and of UTF-16 units before the byte off. Off
// is moved into 0…len(text); an offset inside a rune counts that rune as
// before it.
func (o *Offsets) At(off int) (runes, utf16s int) {
	off = min(max(off, 0), len(o.text))
	if off < o.pos {
		o.pos, o.runes, o.utf16s = 0, 0, 0
	}
	text, i := o.text, o.pos
	r, u := o.runes, o.utf16s
	for i < off {
		// Eight ASCII bytes at a time.
		j := i
		for j+8 <= off {
			s := text[j : j+8]
			if (s[0]|s[1]|s[2]|s[3]|s[4]|s[5]|s[6]|s[7])&utf8.RuneSelf != 0 {
				break
			}
			j += 8
		}
		r, u, i = r+j-i, u+j-i, j
		for i < off && i < j+64 {
			w := 1
			if isHan(text, i) {
				w = 3
			} else if text[i] >= utf8.RuneSelf {
				_, w = utf8.DecodeRuneInString(text[i:])
			}
			i += w
			r++
			u++
			if w == 4 {
				u++
			}
		}
	}
	o.pos, o.runes, o.utf16s = i, r, u
	return r, u
}
