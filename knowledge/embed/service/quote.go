package service

import (
	"bytes"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// writeString writes the parts as one JSON string. Bytes that are no UTF-8
// become U+FFFD; nothing else is changed, and nothing escaped that need not be,
// so that encodedLen can tell the length before.
func writeString(out *bytes.Buffer, parts ...string) {
	out.WriteByte('"')
	for _, s := range parts {
		for i := 0; i < len(s); {
			if c := s[i]; c < utf8.RuneSelf {
				switch {
				case c == '"' || c == '\\':
					out.WriteByte('\\')
					out.WriteByte(c)
				case c < ' ':
					out.WriteString(`\u00`)
					out.WriteByte(hexDigits[c>>4])
					out.WriteByte(hexDigits[c&15])
				default:
					out.WriteByte(c)
				}
				i++
				continue
			}
			r, n := utf8.DecodeRuneInString(s[i:])
			out.WriteRune(r) // utf8.RuneError for a bad byte
			i += n
		}
	}
	out.WriteByte('"')
}

// encodedLen is how many bytes writeString writes for s, quotes aside.
func encodedLen(s string) int {
	n := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			n += 2
		case c < ' ':
			n += 6
		case c < utf8.RuneSelf:
			n++
		default:
			_, size := utf8.DecodeRuneInString(s[i:])
			if size == 1 {
				n += 3
			} else {
				n += size
			}
			i += size
			continue
		}
		i++
	}
	return n
}
