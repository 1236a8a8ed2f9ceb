package parse

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"
)

// pieceBytes bounds the source of one Encoded span, and so the walk inside it.
const pieceBytes = 4096

// codec is an encoding that Map can walk character by character.
type codec uint8

const (
	utf8Codec codec = iota
	utf16LE
	utf16BE
	windows1252
)

func (c codec) String() string {
	return [...]string{"utf-8", "utf-16le", "utf-16be", "windows-1252"}[c&3]
}

// cp1252 holds the characters of bytes 0x80 to 0x9f; the WHATWG table, which
// leaves the five unassigned bytes as C1 controls.
var cp1252 = [32]rune{
	0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D, 0x8F,
	0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
}

// next decodes the character at the start of b, which is not empty. bad tells
// that the bytes were invalid and stand for U+FFFD.
func (c codec) next(b []byte) (r rune, size int, bad bool) {
	switch c {
	case utf8Codec:
		r, size = utf8.DecodeRune(b)
		return r, size, r == utf8.RuneError && size == 1
	case windows1252:
		r = rune(b[0])
		if r >= 0x80 && r < 0xa0 {
			r = cp1252[r-0x80]
		}
		return r, 1, false
	}
	if len(b) < 2 {
		return utf8.RuneError, 1, true
	}
	r = c.unit(b)
	if !utf16.IsSurrogate(r) {
		return r, 2, false
	}
	if len(b) >= 4 {
		if p := utf16.DecodeRune(r, c.unit(b[2:])); p != utf8.RuneError {
			return p, 4, false
		}
	}
	return utf8.RuneError, 2, true
}

func (c codec) unit(b []byte) rune {
	if c == utf16LE {
		return rune(b[0]) | rune(b[1])<<8
	}
	return rune(b[0])<<8 | rune(b[1])
}

// walk returns the source offset of the character that holds byte n of the
// text decoded from src[from:to], or with up the end of the characters that
// hold the n bytes before it.
func (c codec) walk(src []byte, from, to, n int, up bool) int {
	text := 0
	for from < to && text < n {
		r, size, _ := c.next(src[from:to])
		text += utf8.RuneLen(r)
		if text > n && !up {
			return from
		}
		from += size
	}
	return from
}

// decoded is the source as UTF-8 with its map. A nil spans is the identity
// shifted by bom.
type decoded struct {
	text  []byte
	enc   codec
	label string
	spans []Span
	bom   int
}

// decode finds the encoding of a text file and decodes it. label forces one.
func decode(src []byte, label string, maxText int, warn func(off int, format string, args ...any)) (decoded, error) {
	enc, bom, other, err := sniff(src, label)
	if err != nil {
		return decoded{}, err
	}
	if other != nil {
		return decodeOther(src, other, label, maxText, warn)
	}
	body := src[bom:]
	if enc == utf8Codec && utf8.Valid(body) {
		return decoded{text: body, enc: enc, label: enc.String(), bom: bom}, nil
	}
	d := decoded{enc: enc, label: enc.String(), text: make([]byte, 0, len(body)+len(body)/8)}
	badCount, badFirst := 0, 0
	for off := bom; off < len(src); {
		start, from, kind := len(d.text), off, Encoded
		if enc == utf8Codec {
			kind = Plain
		}
		for off < len(src) && off-from < pieceBytes {
			r, size, bad := enc.next(src[off:])
			if bad {
				if badCount == 0 {
					badFirst = off
				}
				badCount++
				kind = Encoded
			}
			d.text = utf8.AppendRune(d.text, r)
			off += size
		}
		if len(d.text) > maxText {
			return decoded{}, tooLarge("more than %d bytes of text", maxText)
		}
		d.spans = addSpan(d.spans, Span{Start: start, End: len(d.text), From: from, To: off, Kind: kind})
	}
	if badCount > 0 {
		warn(badFirst, "%d invalid %s sequences, first at byte %d, replaced with U+FFFD", badCount, enc, badFirst)
	}
	return d, nil
}

// sniff chooses the encoding: a byte order mark, then the label, then what the
// bytes look like.
func sniff(src []byte, label string) (codec, int, encoding.Encoding, error) {
	switch {
	case bytes.HasPrefix(src, []byte("\xef\xbb\xbf")):
		return utf8Codec, 3, nil, nil
	case bytes.HasPrefix(src, []byte("\xff\xfe")):
		return utf16LE, 2, nil, nil
	case bytes.HasPrefix(src, []byte("\xfe\xff")):
		return utf16BE, 2, nil, nil
	}
	if label != "" {
		e, err := htmlindex.Get(label)
		if err != nil {
			return 0, 0, nil, fmt.Errorf("%w: charset %q", ErrUnsupported, label)
		}
		switch name, _ := htmlindex.Name(e); name {
		case "utf-8":
			return utf8Codec, 0, nil, nil
		case "utf-16le":
			return utf16LE, 0, nil, nil
		case "utf-16be":
			return utf16BE, 0, nil, nil
		case "windows-1252":
			return windows1252, 0, nil, nil
		}
		return 0, 0, e, nil
	}
	if c, ok := looksUTF16(src); ok {
		return c, 0, nil, nil
	}
	if looks1252(src) {
		return windows1252, 0, nil, nil
	}
	return utf8Codec, 0, nil, nil
}

// looksUTF16 recognizes UTF-16 without a mark by the zero halves of its Latin
// letters.
func looksUTF16(src []byte) (codec, bool) {
	head := src[:min(len(src), 4096)&^1]
	if len(head) < 8 {
		return 0, false
	}
	var zero [2]int
	for i, b := range head {
		if b == 0 {
			zero[i&1]++
		}
	}
	half := len(head) / 2
	switch {
	case zero[1]*10 > half*4 && zero[0]*20 < half:
		return utf16LE, true
	case zero[0]*10 > half*4 && zero[1]*20 < half:
		return utf16BE, true
	}
	return 0, false
}

// looks1252 holds when bytes above 0x7f are seldom valid UTF-8. A UTF-8 file
// with some damage keeps most of its sequences valid.
func looks1252(src []byte) bool {
	good, bad := 0, 0
	for i := 0; i < len(src); {
		if src[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			bad++
		} else {
			good++
		}
		i += size
	}
	return bad > good
}

// decodeOther decodes the encodings that x/text knows, in pieces of some 256
// bytes; inside a piece the map is not exact.
func decodeOther(src []byte, e encoding.Encoding, label string, maxText int, warn func(int, string, ...any)) (decoded, error) {
	d := decoded{label: label}
	t := e.NewDecoder().Transformer
	var buf [256]byte
	broken, first := 0, -1
	for off := 0; off < len(src); {
		// A bounded window keeps a decoder that reads ahead from making this quadratic.
		window := src[off:min(len(src), off+pieceBytes)]
		nDst, nSrc, err := t.Transform(buf[:], window, off+len(window) == len(src))
		out := bytes.ToValidUTF8(buf[:nDst], []byte("\ufffd"))
		if bytes.ContainsRune(out, utf8.RuneError) {
			if broken++; first < 0 {
				first = off
			}
		}
		if nSrc == 0 || err != nil && err != transform.ErrShortDst && err != transform.ErrShortSrc {
			nSrc, out = max(nSrc, 1), append(out, "\ufffd"...)
		}
		start := len(d.text)
		d.text = append(d.text, out...)
		d.spans = addSpan(d.spans, Span{Start: start, End: len(d.text), From: off, To: off + nSrc, Kind: Whole})
		off += nSrc
		if len(d.text) > maxText {
			return decoded{}, tooLarge("more than %d bytes of text", maxText)
		}
	}
	if first >= 0 {
		warn(first, "invalid %s bytes from byte %d, replaced with U+FFFD", label, first)
	}
	return d, nil
}
