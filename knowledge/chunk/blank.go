package chunk

import (
	"unicode"
	"unicode/utf8"
)

// asciiBlank marks the ASCII white space: tab to carriage return, and space.
const asciiBlank uint64 = 1<<'\t' | 1<<'\n' | 1<<'\v' | 1<<'\f' | 1<<'\r' | 1<<' '

func isBlankByte(c byte) bool { return c <= ' ' && asciiBlank>>c&1 != 0 }

// isBlank tells white space, and the runes that show nothing and end no
// grapheme cluster: zero width space, word joiner, byte order mark.
func isBlank(r rune) bool {
	if r < utf8.RuneSelf {
		return isBlankByte(byte(r))
	}
	switch r {
	case 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x2060, 0x3000, 0xfeff:
		return true
	}
	return r >= 0x2000 && r <= 0x200b
}

// skipBlank returns the first byte at or after i that is not blank.
func skipBlank(text string, i, end int) int {
	for i < end {
		c := text[i]
		if c < utf8.RuneSelf {
			if !isBlankByte(c) {
				return i
			}
			i++
			continue
		}
		if isHan(text[:end], i) {
			return i
		}
		r, w := utf8.DecodeRuneInString(text[i:end])
		if !isBlank(r) {
			return i
		}
		i += w
	}
	return end
}

// trim returns the part of text[start:end] between its blank ends; start ==
// end when all is blank. A blank that carries a combining mark stays.
func trim(text string, start, end int) (int, int) {
	for end > start {
		c := text[end-1]
		if c < utf8.RuneSelf {
			if !isBlankByte(c) {
				break
			}
			end--
			continue
		}
		if isHan(text[start:end], end-start-3) {
			break
		}
		r, w := utf8.DecodeLastRuneInString(text[start:end])
		if !isBlank(r) {
			break
		}
		end -= w
	}
	from := start
	start = skipBlank(text, start, end)
	if start > from && start < end && text[start] >= utf8.RuneSelf {
		r, _ := utf8.DecodeRuneInString(text[start:end])
		if unicode.Is(unicode.M, r) || r == 0x200c || r == 0x200d {
			_, w := utf8.DecodeLastRuneInString(text[from:start])
			start -= w
		}
	}
	return start, end
}
