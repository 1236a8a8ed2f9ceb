package pdf

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// font turns the bytes of a string into text and advances.
type font struct {
	composite  bool
	unicode    *cmap // ToUnicode
	cids       *cmap // embedded Encoding of a composite font
	legacy     encoding.Encoding
	utf16      bool // codes are UTF-16
	mixed      bool // codes are one or two bytes
	simple     [256]string
	widths     map[int]float64 // by code, or by CID; thousandths of the size
	missing    float64
	scale      float64 // of widths: 1/1000 but for Type 3
	unknown    int     // codes without text so far
	guessWidth bool
}

// glyph is one shown code.
type glyph struct {
	text  string
	width float64 // of the font size
	space bool    // single-byte code 32, which word spacing widens
}

func (f *file) font(o any) *font {
	d := f.dict(o)
	t := &font{scale: 0.001, widths: map[int]float64{}}
	if s, ok := f.resolve(d["ToUnicode"]).(*stream); ok {
		if b, ok := f.decode(s); ok {
			t.unicode = parseCMap(b)
		}
	}
	switch f.name(d["Subtype"]) {
	case "Type0":
		f.compositeFont(t, d)
	case "Type3":
		if m := f.array(d["FontMatrix"]); len(m) == 6 {
			t.scale = f.number(m[0])
		}
		fallthrough
	default:
		f.simpleFont(t, d)
	}
	return t
}

func (f *file) compositeFont(t *font, d dict) {
	t.composite, t.missing = true, 1000
	switch e := f.resolve(d["Encoding"]).(type) {
	case name:
		t.legacy, t.utf16, t.mixed = legacy(e)
	case *stream:
		if b, ok := f.decode(e); ok {
			t.cids = parseCMap(b)
		}
	}
	list := f.array(d["DescendantFonts"])
	if len(list) == 0 {
		return
	}
	sub := f.dict(list[0])
	if w, ok := f.resolve(sub["DW"]).(int); ok {
		t.missing = float64(w)
	}
	w := f.array(sub["W"])
	for i := 0; i+1 < len(w) && len(t.widths) < maxMappings; {
		first := f.int(w[i])
		switch next := f.resolve(w[i+1]).(type) {
		case array:
			for k, v := range next {
				t.widths[first+k] = f.number(v)
			}
			i += 2
		default:
			if i+2 >= len(w) {
				return
			}
			last, width := f.int(next), f.number(w[i+2])
			for c := first; c <= last && c-first < 1<<16 && len(t.widths) < maxMappings; c++ {
				t.widths[c] = width
			}
			i += 3
		}
	}
}

func (f *file) simpleFont(t *font, d dict) {
	base := f.name(d["BaseFont"])
	desc := f.dict(d["FontDescriptor"])
	if t.missing = f.number(desc["MissingWidth"]); t.missing == 0 {
		t.missing = 500 // zero would print letters upon each other
	}
	first := f.int(d["FirstChar"])
	for i, w := range f.array(d["Widths"]) {
		if i < 256 {
			t.widths[first+i] = f.number(w)
		}
	}
	if len(t.widths) == 0 {
		// One of the fourteen fonts every reader has; its metrics are guessed.
		if t.missing = 550; strings.Contains(string(base), "Courier") {
			t.missing = 600
		} else {
			t.guessWidth = true
		}
	}
	enc := f.resolve(d["Encoding"])
	baseName := name("")
	var diff array
	switch e := enc.(type) {
	case name:
		baseName = e
	case dict:
		baseName, diff = f.name(e["BaseEncoding"]), f.array(e["Differences"])
	}
	symbolic := f.int(desc["Flags"])&4 != 0
	for c := range 256 {
		t.simple[c] = baseText(baseName, byte(c), symbolic)
	}
	if baseName == "" && t.unicode == nil {
		for c, n := range f.builtin(desc) {
			if text := glyphText(n); text != "" {
				t.simple[c] = text
			}
		}
	}
	at := 0
	for _, o := range diff {
		switch o := f.resolve(o).(type) {
		case int:
			at = o
		case name:
			if at >= 0 && at < 256 {
				t.simple[at] = glyphText(string(o))
			}
			at++
		}
	}
}

// baseText is the text of a code in a base encoding. WinAnsi stands in for the
// standard encoding where that has nothing.
func baseText(enc name, c byte, symbolic bool) string {
	if c < 0x20 {
		return ""
	}
	switch enc {
	case "MacRomanEncoding":
		return string(charmap.Macintosh.DecodeByte(c))
	case "WinAnsiEncoding", "PDFDocEncoding":
	default:
		if s, ok := standard[c]; ok && !symbolic {
			return s
		}
	}
	if c == 0xad {
		return "-"
	}
	r := charmap.Windows1252.DecodeByte(c)
	if r == utf8.RuneError {
		return ""
	}
	return string(r)
}

// each calls fn for the codes of a string.
func (t *font) each(s str, fn func(glyph)) {
	for len(s) > 0 {
		c := t.code(s)
		fn(t.glyph(s[:c.n], c))
		s = s[c.n:]
	}
}

func (t *font) code(s str) code {
	switch {
	case !t.composite:
		return code{1, uint32(s[0])}
	case t.cids != nil && len(t.cids.spaces) > 0:
		return t.cids.next(s)
	case t.mixed && (s[0] < 0x80 || len(s) == 1 || s[0] == 0x80 || s[0] == 0xff):
		return code{1, uint32(s[0])}
	}
	c, _ := codeOf(s[:min(2, len(s))])
	return c
}

func (t *font) glyph(s str, c code) glyph {
	id := int(c.v)
	if t.cids != nil {
		if r, ok := t.cids.find(c); ok {
			id = r.cid + int(c.v-r.lo)
		}
	}
	w, ok := t.widths[id]
	if !ok {
		w = t.missing
	}
	text := t.textOf(s, c)
	if t.guessWidth && len(text) == 1 {
		w = guess(text[0])
	}
	return glyph{text: text, width: w * t.scale, space: c.n == 1 && c.v == ' '}
}

func (t *font) textOf(s str, c code) string {
	if t.unicode != nil {
		if text, ok := t.unicode.text(c); ok {
			return text
		}
		// Some writers give one-byte codes to a two-byte map, and the reverse.
		for _, n := range []int{1, 2} {
			if text, ok := t.unicode.text(code{n, c.v}); ok && n != c.n {
				return text
			}
		}
	}
	switch {
	case !t.composite:
		text := t.simple[byte(c.v)]
		if text == "" && c.v != 0 && c.v != ' ' {
			t.unknown++
		}
		return text
	case t.utf16 && c.n == 2:
		return string(rune(c.v))
	case t.legacy != nil:
		if b, err := t.legacy.NewDecoder().Bytes([]byte(s)); err == nil {
			return string(b)
		}
	}
	if c.v != 0 {
		t.unknown++
	}
	return ""
}

// guess is the width of a Latin letter, in thousandths, near Helvetica's.
func guess(c byte) float64 {
	switch {
	case strings.IndexByte("iljtfrI.,;:'|!()[]/ ", c) >= 0:
		return 290
	case strings.IndexByte("mwMW@%", c) >= 0:
		return 850
	case c >= 'A' && c <= 'Z':
		return 680
	}
	return 540
}

// glyphText is the text that a glyph's name stands for: names of the Adobe glyph
// list as far as Latin text needs them, uniXXXX and uXXXXX, variants by suffix.
func glyphText(n string) string {
	if i := strings.IndexByte(n, '.'); i > 0 {
		n = n[:i]
	}
	if strings.Contains(n, "_") {
		var out strings.Builder
		for i, part := range strings.Split(n, "_") {
			if i < 8 {
				out.WriteString(glyphText(part))
			}
		}
		return out.String()
	}
	if len(n) == 1 {
		return n
	}
	if s, ok := glyphNames[n]; ok {
		return s
	}
	hex := ""
	if h, ok := strings.CutPrefix(n, "uni"); ok && len(h) >= 4 {
		hex = h[:4]
	} else if h, ok := strings.CutPrefix(n, "u"); ok && len(h) >= 4 && len(h) <= 6 {
		hex = h
	}
	if v, err := strconv.ParseUint(hex, 16, 32); err == nil && utf8.ValidRune(rune(v)) {
		return string(rune(v))
	}
	return accented(n)
}

// accented reads names such as eacute and Scaron: a letter and its mark.
func accented(n string) string {
	if len(n) < 4 {
		return ""
	}
	mark, ok := marks[n[1:]]
	if !ok || !(n[0]|0x20 >= 'a' && n[0]|0x20 <= 'z') {
		return ""
	}
	return compose(n[:1] + mark)
}
