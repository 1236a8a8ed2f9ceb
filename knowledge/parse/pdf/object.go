package pdf

import (
	"bytes"
	"strconv"
)

// Objects are nil, bool, int, float64, String, Name, Array, Dict, Ref and *Stream;
// in content streams and CMaps also Op.
type (
	name   string
	str    string // bytes of a string, undone of its escapes
	array  []any
	dict   map[name]any
	op     string
	ref    struct{ num, gen int }
	stream struct {
		dict dict
		raw  []byte // as stored, a view of the file
		id   ref
	}
)

// maxNesting bounds arrays and dictionaries inside each other.
const maxNesting = 64

// lexer reads objects from bytes. It never fails: what makes no sense is skipped.
type lexer struct {
	b     []byte
	pos   int
	depth int
}

var delimiters = [256]byte{ // 1 white space, 2 delimiter
	0: 1, '\t': 1, '\n': 1, '\f': 1, '\r': 1, ' ': 1,
	'(': 2, ')': 2, '<': 2, '>': 2, '[': 2, ']': 2, '{': 2, '}': 2, '/': 2, '%': 2,
}

func (l *lexer) space() {
	for l.pos < len(l.b) {
		c := l.b[l.pos]
		if c == '%' {
			for l.pos < len(l.b) && l.b[l.pos] != '\n' && l.b[l.pos] != '\r' {
				l.pos++
			}
			continue
		}
		if delimiters[c] != 1 {
			return
		}
		l.pos++
	}
}

type closing byte // ] or > on its own

// next returns the next object or operator, and false at the end. References are
// not recognized here, object does that.
func (l *lexer) next() (any, bool) {
	l.space()
	if l.pos >= len(l.b) {
		return nil, false
	}
	c := l.b[l.pos]
	switch c {
	case '/':
		return l.name(), true
	case '(':
		return l.literal(), true
	case '[':
		l.pos++
		return l.array(), true
	case '<':
		if l.pos+1 < len(l.b) && l.b[l.pos+1] == '<' {
			l.pos += 2
			return l.dict(), true
		}
		return l.hex(), true
	case '>':
		if l.pos++; l.pos < len(l.b) && l.b[l.pos] == '>' {
			l.pos++
		}
		return closing('>'), true
	case ']':
		l.pos++
		return closing(']'), true
	case ')', '{', '}':
		l.pos++
		return op(string(c)), true
	}
	start := l.pos
	for l.pos < len(l.b) && delimiters[l.b[l.pos]] == 0 {
		l.pos++
	}
	return word(l.b[start:l.pos]), true
}

// word reads a number or an operator.
func word(w []byte) any {
	if c := w[0]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' {
		if n, ok := integer(w); ok {
			return n
		}
		if f, ok := real(w); ok {
			return f
		}
	}
	switch string(w) {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	return op(w)
}

func integer(w []byte) (int, bool) {
	i, neg := 0, false
	if w[0] == '-' || w[0] == '+' {
		neg = w[0] == '-'
		i++
	}
	if i == len(w) || len(w) > 12 {
		return 0, false
	}
	n := 0
	for ; i < len(w); i++ {
		if w[i] < '0' || w[i] > '9' {
			return 0, false
		}
		n = n*10 + int(w[i]-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

func real(w []byte) (float64, bool) {
	if len(w) > 40 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(w), 64)
	if err != nil || f > 1e12 || f < -1e12 || f != f {
		// "--5" and "1.2.3" occur; readers take what they can of them.
		w = bytes.TrimLeft(w, "+-")
		if i := bytes.IndexByte(w, '.'); i >= 0 {
			if j := bytes.IndexAny(w[i+1:], ".-"); j >= 0 {
				w = w[:i+1+j]
			}
		}
		if f, err = strconv.ParseFloat(string(w), 64); err != nil || f > 1e12 || f != f {
			return 0, false
		}
	}
	return f, true
}

func (l *lexer) name() name {
	l.pos++
	start, escaped := l.pos, false
	for l.pos < len(l.b) && delimiters[l.b[l.pos]] == 0 {
		escaped = escaped || l.b[l.pos] == '#'
		l.pos++
	}
	raw := l.b[start:l.pos]
	if !escaped {
		return name(raw)
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] == '#' && i+2 < len(raw) && unhex(raw[i+1]) >= 0 && unhex(raw[i+2]) >= 0 {
			out = append(out, byte(unhex(raw[i+1])<<4|unhex(raw[i+2])))
			i += 2
			continue
		}
		out = append(out, raw[i])
	}
	return name(out)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

func (l *lexer) literal() str {
	l.pos++
	var out []byte
	for depth := 1; l.pos < len(l.b); l.pos++ {
		c := l.b[l.pos]
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				l.pos++
				return str(out)
			}
		case '\\':
			if l.pos++; l.pos >= len(l.b) {
				return str(out)
			}
			out = l.escape(out)
			continue
		case '\r':
			if l.pos+1 < len(l.b) && l.b[l.pos+1] == '\n' {
				l.pos++
			}
			c = '\n'
		}
		out = append(out, c)
	}
	return str(out)
}

// escape reads what follows a backslash, leaving pos on its last byte.
func (l *lexer) escape(out []byte) []byte {
	switch c := l.b[l.pos]; c {
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case '\n':
		return out
	case '\r':
		if l.pos+1 < len(l.b) && l.b[l.pos+1] == '\n' {
			l.pos++
		}
		return out
	default:
		if c < '0' || c > '7' {
			return append(out, c)
		}
		n := int(c - '0')
		for k := 0; k < 2 && l.pos+1 < len(l.b) && l.b[l.pos+1] >= '0' && l.b[l.pos+1] <= '7'; k++ {
			l.pos++
			n = n*8 + int(l.b[l.pos]-'0')
		}
		return append(out, byte(n))
	}
}

func (l *lexer) hex() str {
	l.pos++
	var out []byte
	half := -1
	for l.pos < len(l.b) {
		c := l.b[l.pos]
		l.pos++
		if c == '>' {
			break
		}
		v := unhex(c)
		if v < 0 {
			continue
		}
		if half < 0 {
			half = v
		} else {
			out = append(out, byte(half<<4|v))
			half = -1
		}
	}
	if half >= 0 {
		out = append(out, byte(half<<4))
	}
	return str(out)
}

// object reads one object, references included.
func (l *lexer) object() (any, bool) {
	o, ok := l.next()
	if n, isInt := o.(int); isInt && n >= 0 {
		save := l.pos
		if g, ok := l.next(); ok {
			if gen, isInt := g.(int); isInt {
				if r, _ := l.next(); r == op("R") {
					return ref{n, gen}, true
				}
			}
		}
		l.pos = save
	}
	return o, ok
}

// fold turns "n g R" at the end of a into a reference.
func fold(a array) array {
	n := len(a)
	if n >= 2 {
		num, ok1 := a[n-2].(int)
		gen, ok2 := a[n-1].(int)
		if ok1 && ok2 && num >= 0 {
			a[n-2] = ref{num, gen}
			return a[:n-1]
		}
	}
	return a
}

func (l *lexer) items(end byte) array {
	var a array
	if l.depth++; l.depth > maxNesting {
		l.pos = len(l.b) // nothing sane nests so deep
	}
	for {
		o, ok := l.next()
		if !ok {
			break
		}
		if c, is := o.(closing); is {
			if byte(c) == end {
				break
			}
			continue
		}
		if w, is := o.(op); is {
			if w == "R" {
				a = fold(a)
			} else if w == "endobj" || w == "stream" || w == "endstream" {
				l.pos -= len(w) // the closing bracket is missing
				break
			}
			continue
		}
		a = append(a, o)
	}
	l.depth--
	return a
}

func (l *lexer) array() array { return l.items(']') }

func (l *lexer) dict() dict {
	a := l.items('>')
	d := make(dict, len(a)/2)
	for i := 0; i+1 < len(a); i += 2 {
		k, ok := a[i].(name)
		if !ok {
			i-- // resynchronize at the next name
			continue
		}
		d[k] = a[i+1]
	}
	return d
}
