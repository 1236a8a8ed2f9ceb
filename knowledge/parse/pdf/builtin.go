package pdf

import (
	"bytes"
	"strings"
)

// builtin returns the encoding inside an embedded Type 1 or CFF font program, as
// glyph names by code; nil when there is none.
func (f *file) builtin(desc dict) map[byte]string {
	if s, ok := f.resolve(desc["FontFile"]).(*stream); ok {
		if b, ok := f.decode(s); ok {
			return type1Encoding(b)
		}
	}
	if s, ok := f.resolve(desc["FontFile3"]).(*stream); ok && f.name(s.dict["Subtype"]) == "Type1C" {
		if b, ok := f.decode(s); ok {
			return cffEncoding(b)
		}
	}
	return nil
}

// type1Encoding reads "dup 65 /A put" after /Encoding, which is before the
// encrypted part.
func type1Encoding(b []byte) map[byte]string {
	if i := bytes.Index(b, []byte("eexec")); i >= 0 {
		b = b[:i]
	}
	i := bytes.Index(b, []byte("/Encoding"))
	if i < 0 {
		return nil
	}
	l := lexer{b: b, pos: i + len("/Encoding")}
	out := map[byte]string{}
	var last, before any
	for range 4096 {
		o, ok := l.next()
		if !ok || o == op("def") {
			break
		}
		if o == op("put") {
			if c, ok := before.(int); ok && c >= 0 && c < 256 {
				if n, ok := last.(name); ok {
					out[byte(c)] = string(n)
				}
			}
		}
		before, last = last, o
	}
	if len(out) == 0 {
		return nil // StandardEncoding def
	}
	return out
}

// cff reads a Compact Font Format program; a read past the end gives zeros and
// sets bad.
type cff struct {
	b   []byte
	pos int
	bad bool
}

func (c *cff) u(n int) int {
	v := 0
	for range n {
		if c.pos < 0 || c.pos >= len(c.b) {
			c.bad = true
			return 0
		}
		v = v<<8 | int(c.b[c.pos])
		c.pos++
	}
	return v
}

// index reads an INDEX and returns its items, moving behind it.
func (c *cff) index() [][]byte {
	n := c.u(2)
	if n == 0 || c.bad {
		return nil
	}
	size := c.u(1)
	if size < 1 || size > 4 || c.pos+(n+1)*size > len(c.b) {
		c.bad = true
		return nil
	}
	base := c.pos + (n+1)*size - 1
	items := make([][]byte, 0, n)
	prev := c.u(size)
	for range n {
		next := c.u(size)
		if prev < 1 || next < prev || base+next > len(c.b) {
			c.bad = true
			return items
		}
		items = append(items, c.b[base+prev:base+next])
		prev = next
	}
	c.pos = base + prev
	return items
}

// topDict returns the offsets that the dictionary gives, by operator.
func topDict(b []byte) map[int]int {
	out := map[int]int{}
	arg := 0
	for i := 0; i < len(b); {
		v := int(b[i])
		i++
		next := func() int {
			if i < len(b) {
				i++
				return int(b[i-1])
			}
			return 0
		}
		switch {
		case v == 12:
			out[1200+next()] = arg
		case v < 22:
			out[v] = arg
		case v == 28:
			arg = next()<<8 | next()
		case v == 29:
			arg = next()<<24 | next()<<16 | next()<<8 | next()
		case v == 30: // a real number, in half bytes
			for i < len(b) && next()&0xf != 0xf {
			}
		case v >= 32 && v <= 246:
			arg = v - 139
		case v >= 247 && v <= 250:
			arg = (v-247)*256 + next() + 108
		case v >= 251 && v <= 254:
			arg = -(v-251)*256 - next() - 108
		}
	}
	return out
}

func cffEncoding(b []byte) map[byte]string {
	c := &cff{b: b}
	c.u(2)
	c.pos = c.u(1)
	c.index()
	tops := c.index()
	extra := c.index()
	if len(tops) == 0 || c.bad {
		return nil
	}
	top := topDict(tops[0])
	if _, cid := top[1230]; cid || top[16] <= 1 {
		return nil // codes are CIDs, or the encoding is a standard one
	}
	c.pos = top[17]
	glyphs := c.u(2)
	sids := c.charset(top[15], glyphs)
	names := strings.Fields(cffNames)
	out := map[byte]string{}
	put := func(code, sid int) {
		switch {
		case sid > 0 && sid <= len(names):
			out[byte(code)] = names[sid-1]
		case sid >= 391 && sid-391 < len(extra):
			out[byte(code)] = string(extra[sid-391])
		}
	}
	c.pos = top[16]
	format := c.u(1)
	n, gid := c.u(1), 1
	for range n {
		first, more := c.u(1), 0
		if format&0x7f == 1 {
			more = c.u(1)
		}
		for k := 0; k <= more && gid < len(sids) && !c.bad; k++ {
			put(first+k, sids[gid])
			gid++
		}
	}
	if format&0x80 != 0 {
		for range c.u(1) {
			code := c.u(1)
			put(code, c.u(2))
		}
	}
	return out
}

// charset returns the string number of every glyph.
func (c *cff) charset(off, glyphs int) []int {
	sids := []int{0}
	if off <= 2 {
		for g := 1; g < glyphs && g < 229; g++ {
			sids = append(sids, g)
		}
		return sids
	}
	c.pos = off
	format := c.u(1)
	for len(sids) < glyphs && !c.bad {
		first, more := c.u(2), 0
		if format > 0 {
			more = c.u(min(format, 2))
		}
		for k := 0; k <= more && len(sids) < glyphs; k++ {
			sids = append(sids, first+k)
		}
	}
	return sids
}

// cffNames are the standard strings 1 to 228 of the format.
const cffNames = `space exclam quotedbl numbersign dollar percent ampersand quoteright parenleft parenright asterisk plus comma
hyphen period slash zero one two three four five six seven eight nine colon semicolon less equal greater question at
A B C D E F G H I J K L M N O P Q R S T U V W X Y Z bracketleft backslash bracketright asciicircum underscore quoteleft
a b c d e f g h i j k l m n o p q r s t u v w x y z braceleft bar braceright asciitilde
exclamdown cent sterling fraction yen florin section currency quotesingle quotedblleft guillemotleft guilsinglleft guilsinglright fi fl
endash dagger daggerdbl periodcentered paragraph bullet quotesinglbase quotedblbase quotedblright guillemotright ellipsis perthousand questiondown
grave acute circumflex tilde macron breve dotaccent dieresis ring cedilla hungarumlaut ogonek caron emdash
AE ordfeminine Lslash Oslash OE ordmasculine ae dotlessi lslash oslash oe germandbls
onesuperior logicalnot mu trademark Eth onehalf plusminus Thorn onequarter divide brokenbar degree thorn threequarters twosuperior registered
minus eth multiply threesuperior copyright Aacute Acircumflex Adieresis Agrave Aring Atilde Ccedilla Eacute Ecircumflex Edieresis Egrave
Iacute Icircumflex Idieresis Igrave Ntilde Oacute Ocircumflex Odieresis Ograve Otilde Scaron Uacute Ucircumflex Udieresis Ugrave Yacute Ydieresis Zcaron
aacute acircumflex adieresis agrave aring atilde ccedilla eacute ecircumflex edieresis egrave iacute icircumflex idieresis igrave ntilde
oacute ocircumflex odieresis ograve otilde scaron uacute ucircumflex udieresis ugrave yacute ydieresis zcaron`
