package pdf

import (
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// maxMappings bounds the entries of one CMap; 16-bit codes need no more.
const maxMappings = 1 << 17

// cmap maps codes to Unicode (ToUnicode) or to CIDs (Encoding).
type cmap struct {
	spaces []span          // code space, n bytes each
	chars  map[code]string // single codes
	ranges []span          // sorted by n and lo after finish
}

// code is a character code with its length: <20> and <0020> are different.
type code struct {
	n int
	v uint32
}

type span struct {
	n      int
	lo, hi uint32
	text   string // of lo; the last character counts up
	cid    int    // of lo
}

func parseCMap(b []byte) *cmap {
	m := &cmap{chars: map[code]string{}}
	l := lexer{b: b}
	var args []any
	for {
		o, ok := l.next()
		if !ok || len(m.chars)+len(m.ranges) > maxMappings {
			break
		}
		word, isOp := o.(op)
		if !isOp {
			if args = append(args, o); len(args) > 3*maxMappings {
				break
			}
			continue
		}
		switch word {
		case "endcodespacerange":
			for i := 0; i+1 < len(args); i += 2 {
				if c, hi, ok := pair(args[i], args[i+1]); ok && len(m.spaces) < 256 {
					m.spaces = append(m.spaces, span{n: c.n, lo: c.v, hi: hi})
				}
			}
		case "endbfchar":
			for i := 0; i+1 < len(args); i += 2 {
				if c, ok := codeOf(args[i]); ok {
					m.chars[c] = utf16Text(args[i+1])
				}
			}
		case "endbfrange":
			m.bfRange(args)
		case "endcidrange":
			for i := 0; i+2 < len(args); i += 3 {
				if c, hi, ok := pair(args[i], args[i+1]); ok {
					cid, _ := args[i+2].(int)
					m.ranges = append(m.ranges, span{n: c.n, lo: c.v, hi: hi, cid: cid})
				}
			}
		case "endcidchar":
			for i := 0; i+1 < len(args); i += 2 {
				if c, ok := codeOf(args[i]); ok {
					cid, _ := args[i+1].(int)
					m.ranges = append(m.ranges, span{n: c.n, lo: c.v, hi: c.v, cid: cid})
				}
			}
		}
		args = args[:0]
	}
	sort.SliceStable(m.ranges, func(i, j int) bool {
		a, b := m.ranges[i], m.ranges[j]
		return a.n < b.n || a.n == b.n && a.lo < b.lo
	})
	return m
}

func (m *cmap) bfRange(args []any) {
	for i := 0; i+2 < len(args); i += 3 {
		c, hi, ok := pair(args[i], args[i+1])
		if !ok {
			continue
		}
		if list, ok := args[i+2].(array); ok {
			for k, o := range list {
				if v := c.v + uint32(k); v <= hi && len(m.chars) < maxMappings {
					m.chars[code{c.n, v}] = utf16Text(o)
				}
			}
			continue
		}
		m.ranges = append(m.ranges, span{n: c.n, lo: c.v, hi: hi, text: utf16Text(args[i+2])})
	}
}

func pair(a, b any) (code, uint32, bool) {
	lo, ok1 := codeOf(a)
	hi, ok2 := codeOf(b)
	return lo, hi.v, ok1 && ok2 && lo.n == hi.n && lo.v <= hi.v
}

func codeOf(o any) (code, bool) {
	s, ok := o.(str)
	if !ok || len(s) == 0 || len(s) > 4 {
		return code{}, false
	}
	c := code{n: len(s)}
	for i := range len(s) {
		c.v = c.v<<8 | uint32(s[i])
	}
	return c, true
}

// utf16Text decodes the right side of a mapping; at most 32 characters.
func utf16Text(o any) string {
	s, _ := o.(str)
	if len(s) == 1 {
		return string(rune(s[0]))
	}
	var units []uint16
	for i := 0; i+1 < len(s) && i < 64; i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

func (m *cmap) find(c code) (span, bool) {
	i := sort.Search(len(m.ranges), func(k int) bool {
		r := m.ranges[k]
		return r.n > c.n || r.n == c.n && r.lo > c.v
	})
	for k := i - 1; k >= 0 && k >= i-4; k-- { // overlapping ranges occur
		if r := m.ranges[k]; r.n == c.n && c.v <= r.hi {
			return r, true
		}
	}
	return span{}, false
}

// text is the Unicode text of a code.
func (m *cmap) text(c code) (string, bool) {
	if s, ok := m.chars[c]; ok {
		return s, true
	}
	r, ok := m.find(c)
	if !ok || r.text == "" {
		return "", false
	}
	last, size := utf8.DecodeLastRuneInString(r.text)
	next := last + rune(c.v-r.lo)
	if !utf8.ValidRune(next) {
		return "", false
	}
	return r.text[:len(r.text)-size] + string(next), true
}

// next cuts the code at the start of s by the code space; two bytes when it
// covers nothing.
func (m *cmap) next(s str) code {
	c := code{}
	for c.n < min(4, len(s)) {
		c.v = c.v<<8 | uint32(s[c.n])
		c.n++
		for _, r := range m.spaces {
			if r.n == c.n && inSpace(c.v, r) {
				return c
			}
		}
	}
	c, _ = codeOf(s[:min(2, len(s))])
	if len(m.spaces) > 0 && m.spaces[0].n == 1 {
		c = code{1, uint32(s[0])}
	}
	return c
}

// inSpace checks byte by byte, as code spaces are boxes.
func inSpace(v uint32, r span) bool {
	for k := 0; k < r.n; k++ {
		b, lo, hi := byte(v>>(8*k)), byte(r.lo>>(8*k)), byte(r.hi>>(8*k))
		if b < lo || b > hi {
			return false
		}
	}
	return true
}

// legacy names the predefined CMaps by what their codes are in.
func legacy(n name) (enc encoding.Encoding, unicode, mixed bool) {
	s := string(n)
	has := func(subs ...string) bool {
		for _, sub := range subs {
			if strings.Contains(s, sub) {
				return true
			}
		}
		return false
	}
	switch {
	case has("UCS2", "UTF16"):
		return nil, true, false
	case has("GBK2K"):
		return simplifiedchinese.GB18030, false, true
	case has("GBK", "GB-EUC", "GBpc"):
		return simplifiedchinese.GBK, false, true
	case has("RKSJ"):
		return japanese.ShiftJIS, false, true
	case s == "EUC-H" || s == "EUC-V":
		return japanese.EUCJP, false, true
	case has("B5", "ETen", "HKscs"):
		return traditionalchinese.Big5, false, true
	case has("KSC"):
		return korean.EUCKR, false, true
	}
	return nil, false, false
}
