package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An objectParser turns lines into objects. It is used by one goroutine.
//
// It reads what is plain by itself, three times as fast as encoding/json, and
// leaves every line with anything odd in it (bad UTF-8, lone surrogates, deep
// nesting, mistakes) to parseObject, which also words the errors.
type objectParser struct {
	s     string // the line; strings without escapes point into it
	i     int
	depth int
	buf   []byte
	// keys holds the keys met, so that objects share them and a key that an
	// index keeps does not keep its line.
	keys map[string]string
}

const (
	maxFastDepth = 64
	maxFastKeys  = 4096
)

// object parses one line. It keeps no reference to line.
func (p *objectParser) object(line []byte) (map[string]any, error) {
	p.s, p.i, p.depth = string(line), 0, 0
	defer func() { p.s = "" }()
	if utf8.ValidString(p.s) && p.next() == '{' {
		if m, ok := p.members(); ok && p.next() == 0 && p.i == len(p.s) {
			return m, nil
		}
	}
	return parseObject(line)
}

// parseObject is the reference, and decides what the fast way does not.
func parseObject(line []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var object map[string]any
	switch err := dec.Decode(&object); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("JSON is cut short")
	case err != nil:
		return nil, fmt.Errorf("not a JSON object: %w", err)
	case object == nil:
		return nil, errors.New("not a JSON object: null")
	}
	if rest := bytes.TrimSpace(line[dec.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("more after the JSON object: %.20q", rest)
	}
	return object, nil
}

// next skips white space and returns the byte there, 0 at the end.
func (p *objectParser) next() byte {
	for ; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take skips white space and the byte c.
func (p *objectParser) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.i++
	return true
}

func (p *objectParser) members() (map[string]any, bool) {
	p.depth++
	p.i++ // {
	m := make(map[string]any)
	if p.take('}') {
		p.depth--
		return m, true
	}
	for {
		if p.next() != '"' {
			return nil, false
		}
		key, ok := p.text()
		if !ok || !p.take(':') {
			return nil, false
		}
		if m[p.key(key)], ok = p.value(); !ok {
			return nil, false
		}
		if p.take(',') {
			continue
		}
		p.depth--
		return m, p.take('}')
	}
}

func (p *objectParser) key(k string) string {
	if shared, ok := p.keys[k]; ok {
		return shared
	}
	k = strings.Clone(k)
	if p.keys == nil {
		p.keys = make(map[string]string)
	}
	if len(p.keys) < maxFastKeys {
		p.keys[k] = k
	}
	return k
}

func (p *objectParser) value() (any, bool) {
	switch c := p.next(); {
	case c == '"':
		return p.text()
	case c == '{' && p.depth < maxFastDepth:
		return p.members()
	case c == '[' && p.depth < maxFastDepth:
		return p.list()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case p.literal("true"):
		return true, true
	case p.literal("false"):
		return false, true
	}
	return nil, p.literal("null")
}

func (p *objectParser) literal(word string) bool {
	if !strings.HasPrefix(p.s[p.i:], word) {
		return false
	}
	p.i += len(word)
	return true
}

func (p *objectParser) list() (any, bool) {
	p.depth++
	p.i++ // [
	list := []any{}
	if p.take(']') {
		p.depth--
		return list, true
	}
	for {
		v, ok := p.value()
		if !ok {
			return nil, false
		}
		list = append(list, v)
		if p.take(',') {
			continue
		}
		p.depth--
		return list, p.take(']')
	}
}

func (p *objectParser) number() (any, bool) {
	start := p.i
	if p.s[p.i] == '-' {
		p.i++
	}
	lead := p.i
	n := p.digits()
	if n == 0 || n > 1 && p.s[lead] == '0' {
		return nil, false
	}
	if p.i < len(p.s) && p.s[p.i] == '.' {
		p.i++
		if p.digits() == 0 {
			return nil, false
		}
	}
	if p.i < len(p.s) && p.s[p.i]|0x20 == 'e' {
		p.i++
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if p.digits() == 0 {
			return nil, false
		}
	}
	return json.Number(p.s[start:p.i]), true
}

// digits skips digits and tells how many.
func (p *objectParser) digits() int {
	start := p.i
	for p.i < len(p.s) && p.s[p.i]-'0' < 10 {
		p.i++
	}
	return p.i - start
}

// text reads a string.
func (p *objectParser) text() (string, bool) {
	p.i++ // "
	start := p.i
	for ; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return p.s[start : p.i-1], true
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// escaped reads on at the first escape of a string that starts at start.
func (p *objectParser) escaped(start int) (string, bool) {
	b := p.buf[:0]
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			b = append(b, p.s[start:p.i]...)
			p.buf = b
			p.i++
			return string(b), true
		case c == '\\':
			b = append(b, p.s[start:p.i]...)
			var ok bool
			if b, ok = p.escape(b); !ok {
				return "", false
			}
			start = p.i
		case c < ' ':
			return "", false
		default:
			p.i++
		}
	}
	return "", false
}

// escape appends the character of the escape at hand.
func (p *objectParser) escape(b []byte) ([]byte, bool) {
	if p.i+1 >= len(p.s) {
		return b, false
	}
	c := p.s[p.i+1]
	if c == 'u' {
		r, ok := p.unicode()
		return utf8.AppendRune(b, r), ok
	}
	at := strings.IndexByte(`"\/bfnrt`, c)
	if at < 0 {
		return b, false
	}
	p.i += 2
	return append(b, "\"\\/\b\f\n\r\t"[at]), true
}

// unicode reads \uXXXX, or two of them that are a surrogate pair.
func (p *objectParser) unicode() (rune, bool) {
	r, ok := hex4(p.s, p.i)
	p.i += 6
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	low, ok := hex4(p.s, p.i)
	p.i += 6
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

// hex4 reads \uXXXX at i.
func hex4(s string, i int) (r rune, ok bool) {
	if i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(s[i+2 : i+6]) {
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
	return r, true
}
