package service

import (
	"unicode"
	"unicode/utf8"
)

// IsBlank reports whether a text has nothing that a reader would see: it is
// empty, or holds only white space, control and format characters (the
// zero-width ones among them), fillers and variation selectors. Services
// refuse such texts, or answer with a vector that means nothing.
func IsBlank(text string) bool {
	for _, r := range text {
		if !unseen(r) {
			return false
		}
	}
	return true
}

func unseen(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return unicode.IsSpace(r) ||
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// cut shortens a text to at most n bytes at a rune boundary.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
