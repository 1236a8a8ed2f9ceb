package shape

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// number reads the literal of a number, as RFC 8259 has it.
func (p *parser) number() (string, bool) {
	start := p.i
	if p.s[p.i] == '-' {
		p.i++
	}
	lead := p.i
	n := p.digits()
	if n == 0 || n > 1 && p.s[lead] == '0' {
		return "", false
	}
	if p.i < len(p.s) && p.s[p.i] == '.' {
		p.i++
		if p.digits() == 0 {
			return "", false
		}
	}
	if p.i < len(p.s) && p.s[p.i]|0x20 == 'e' {
		p.i++
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if p.digits() == 0 {
			return "", false
		}
	}
	return p.s[start:p.i], true
}

// digits skips digits and tells how many.
func (p *parser) digits() int {
	start := p.i
	for p.i < len(p.s) && p.s[p.i]-'0' < 10 {
		p.i++
	}
	return p.i - start
}

// powers of ten that float64 holds exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// float32 reads a number, correctly rounded. The plain ones, of at most 15
// digits and without an exponent, are one exact division in float64; rounding
// that once more to float32 is right unless it lies in the middle of two.
func (p *parser) float32() (float32, *Error) {
	start := p.i
	i, s := p.i, p.s
	neg := s[i] == '-'
	if neg {
		i++
	}
	mantissa, digits, point := uint64(0), 0, -1
	lead := i
	for ; i < len(s); i++ {
		c := s[i]
		if d := c - '0'; d < 10 {
			mantissa = mantissa*10 + uint64(d)
			if digits++; digits > 15 {
				break
			}
			continue
		}
		if c != '.' || point >= 0 {
			break
		}
		point = i
	}
	plain := digits > 0 && digits <= 15 && point != lead && point != i-1 && (i >= len(s) || s[i]|0x20 != 'e' && s[i] != '.') &&
		(s[lead] != '0' || i == lead+1 || point == lead+1)
	if plain {
		f := float64(mantissa)
		if point >= 0 {
			f /= powers[i-point-1]
		}
		const middle = 1 << 28 // of the 29 bits that float32 lacks
		if bits := math.Float64bits(f); bits&(1<<29-1) != middle && (f == 0 || f > 1e-30) {
			p.i = i
			if neg {
				f = -f
			}
			return float32(f), nil
		}
	}
	lit, ok := p.number()
	if !ok {
		return 0, p.syntax("a number")
	}
	f, err := strconv.ParseFloat(lit, 32)
	if err != nil {
		return 0, reasonf("%.40s is beyond float32", p.s[start:p.i])
	}
	return float32(f), nil
}

// text reads a string; without escapes it shares the memory of the text.
func (p *parser) text() (string, *Error) {
	p.i++ // "
	start := p.i
	for ; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return p.s[start : p.i-1], nil
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", reasonf("a control character stands in a string at byte %d", p.i)
		}
	}
	return "", p.syntax("the end of a string")
}

// escaped reads on at the first escape of a string that starts at start.
func (p *parser) escaped(start int) (string, *Error) {
	var b strings.Builder
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			b.WriteString(p.s[start:p.i])
			p.i++
			return b.String(), nil
		case c == '\\':
			b.WriteString(p.s[start:p.i])
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			start = p.i
		case c < ' ':
			return "", reasonf("a control character stands in a string at byte %d", p.i)
		default:
			p.i++
		}
	}
	return "", p.syntax("the end of a string")
}

// escape reads the escape at hand.
func (p *parser) escape() (rune, *Error) {
	at := p.i
	if p.i+1 >= len(p.s) {
		p.i = len(p.s)
		return 0, p.syntax("an escape")
	}
	c := p.s[p.i+1]
	if c != 'u' {
		i := strings.IndexByte(`"\/bfnrt`, c)
		if i < 0 {
			return 0, reasonf("bad JSON at byte %d: \\%c is no escape", at, c)
		}
		p.i += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := p.hex()
	if !ok {
		return 0, reasonf("bad JSON at byte %d: \\u wants four hexadecimal digits", at)
	}
	if utf16.IsSurrogate(r) {
		low, ok := p.hex()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return 0, reasonf("half a surrogate pair stands in a string at byte %d", at)
		}
	}
	return r, nil
}

// hex reads \uXXXX.
func (p *parser) hex() (r rune, ok bool) {
	if p.i+6 > len(p.s) || p.s[p.i] != '\\' || p.s[p.i+1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(p.s[p.i+2 : p.i+6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	p.i += 6
	return r, true
}
