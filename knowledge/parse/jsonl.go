package parse

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonl reads one JSON value a line, or one JSON array, its elements being the
// records. A record is the strings, numbers and booleans of its value as lines
// "path: value"; a field named text, content, body or page_content stands
// without its name. Lines that are no JSON are left out with a warning.
func (b *builder) jsonl() error {
	if first := strings.TrimLeft(b.src, " \t\r\n"); strings.HasPrefix(first, "[") {
		if done, err := b.jsonArray(len(b.src) - len(first)); done {
			return err
		}
	} else if strings.HasPrefix(first, "{") && json.Valid([]byte(first)) {
		// One value over several lines.
		b.jsonRecord(1, len(b.src)-len(first), len(b.src))
		b.trim(0)
		return b.err
	}
	good, bad, firstBad := 0, 0, 0
	for off, line := 0, 1; off < len(b.src) && b.alive(); line++ {
		n := strings.IndexByte(b.src[off:], '\n')
		if n < 0 {
			n = len(b.src) - off
		}
		if strings.TrimSpace(b.src[off:off+n]) != "" {
			if b.jsonRecord(line, off, off+n) {
				good++
			} else if bad++; bad == 1 {
				firstBad = off
			}
		}
		off += n + 1
	}
	b.trim(0)
	switch {
	case b.err != nil:
		return b.err
	case bad > 0 && good == 0:
		return b.corrupt(firstBad, "no line is valid JSON")
	case bad > 0:
		b.warn(firstBad, "%d lines are no valid JSON, first at byte %d of the text, and left out", bad, firstBad)
	}
	return nil
}

// jsonArray reads the elements of one array; done is false when src is no array
// as a whole, as in a JSONL file of arrays.
func (b *builder) jsonArray(off int) (done bool, err error) {
	if !json.Valid([]byte(b.src[off:])) {
		return false, nil
	}
	p := jsonReader{b: b, pos: off + 1, end: len(b.src)}
	line := 1 + strings.Count(b.src[:p.pos], "\n")
	for b.alive() {
		from := p.pos
		p.blank()
		line += strings.Count(b.src[from:p.pos], "\n")
		if p.peek() == ']' || p.peek() == 0 {
			break
		}
		if p.peek() == ',' {
			p.pos++
			continue
		}
		from = p.pos
		if p.skipValue(0); p.bad {
			return true, tooLarge("values nested deeper than %d, at byte %d", b.opt.MaxDepth, p.pos)
		}
		b.jsonRecord(line, from, p.pos)
		line += strings.Count(b.src[from:p.pos], "\n")
	}
	b.trim(0)
	return true, b.err
}

// jsonRecord writes src[from:to] as a record, or nothing when it is no JSON.
func (b *builder) jsonRecord(line, from, to int) bool {
	check := jsonReader{b: b, pos: from, end: to}
	check.skipValue(0)
	check.blank()
	if check.bad || check.pos != to {
		return false
	}
	start := len(b.buf)
	p := jsonReader{b: b, pos: from, end: to, start: start}
	p.value(0)
	b.block(Record, start, len(b.buf), line, "")
	if len(b.buf) > start {
		b.insert("\n\n")
	}
	return true
}

// jsonReader is a JSON scanner that knows where it is; encoding/json tells no
// offsets inside strings. It accepts what RFC 8259 does, and numbers more loosely.
type jsonReader struct {
	b        *builder
	pos, end int
	bad      bool
	start    int      // of the record in buf
	path     []string // of the value, each name cut at maxHeader bytes
}

func (p *jsonReader) blank() {
	for p.pos < p.end && isSpace(p.b.src[p.pos]) && p.b.src[p.pos] != '\f' {
		p.pos++
	}
}

func (p *jsonReader) peek() byte {
	if p.pos < p.end {
		return p.b.src[p.pos]
	}
	return 0
}

// skipValue moves past one value and sets bad when there is none.
func (p *jsonReader) skipValue(depth int) {
	p.each(depth, func(int, int) {}, func() { p.skipValue(depth + 1) }, p.scalarEnd)
}

// value writes one value that skipValue accepted.
func (p *jsonReader) value(depth int) {
	p.each(depth,
		func(from, to int) { p.path = append(p.path, headerName(unquote(p.b.src[from:to]), 0)) },
		func() {
			p.value(depth + 1)
		},
		p.emit)
}

// each walks one value: key sees a member's quoted name before child reads its
// value; leaf reads a scalar. Arrays call child alone.
func (p *jsonReader) each(depth int, key func(from, to int), child, leaf func()) {
	p.blank()
	c := p.peek()
	if c != '{' && c != '[' {
		leaf()
		return
	}
	if depth >= p.b.opt.MaxDepth || !p.b.alive() {
		p.bad = true
		return
	}
	p.pos++
	for first := true; ; first = false {
		p.blank()
		if p.peek() == c+2 { // ] or }
			p.pos++
			return
		}
		if !first {
			if p.peek() != ',' {
				p.bad = true
				return
			}
			p.pos++
			p.blank()
		}
		n := len(p.path)
		if c == '{' {
			from := p.pos
			if p.peek() != '"' || !p.stringEnd() {
				p.bad = true
				return
			}
			key(from, p.pos)
			if p.blank(); p.peek() != ':' {
				p.bad = true
				return
			}
			p.pos++
		}
		child()
		if p.path = p.path[:n]; p.bad {
			return
		}
	}
}

// stringEnd moves past the string at pos.
func (p *jsonReader) stringEnd() bool {
	for i := p.pos + 1; i < p.end; i++ {
		switch c := p.b.src[i]; {
		case c == '\\':
			n := escape(p.b.src[i:p.end])
			if n == 0 {
				return false
			}
			i += n - 1
		case c == '"':
			p.pos = i + 1
			return true
		case c < 0x20:
			return false
		}
	}
	return false
}

// escape returns the length of the escape that s begins with, 0 when RFC 8259
// knows none such: then the value is no JSON, and what stands behind the
// backslash may be the first byte of a longer rune.
func escape(s string) int {
	switch {
	case len(s) < 2:
		return 0
	case strings.IndexByte(`"\/bfnrt`, s[1]) >= 0:
		return 2
	case s[1] != 'u' || len(s) < 6:
		return 0
	}
	for _, c := range []byte(s[2:6]) {
		if hex := c|0x20 >= 'a' && c|0x20 <= 'f'; !hex && (c < '0' || c > '9') {
			return 0
		}
	}
	return 6
}

func (p *jsonReader) scalarEnd() {
	if p.peek() == '"' {
		p.bad = !p.stringEnd()
		return
	}
	from := p.pos
	for p.pos < p.end && strings.IndexByte(",]} \t\r\n", p.b.src[p.pos]) < 0 {
		p.pos++
	}
	switch s := p.b.src[from:p.pos]; s {
	case "true", "false", "null":
	default:
		_, err := strconv.ParseFloat(s, 64)
		p.bad = err != nil && !strings.Contains(err.Error(), "range") || s == "" || s[0]|0x20 == 'n' || s[0]|0x20 == 'i'
	}
}

// emit writes the scalar at pos as a line of the record.
func (p *jsonReader) emit() {
	from := p.pos
	if p.scalarEnd(); p.bad {
		return
	}
	raw := p.b.src[from:p.pos]
	if raw == "null" || raw == `""` {
		return
	}
	if len(p.b.buf) > p.start {
		p.b.insert("\n")
	}
	if n := len(p.path); n > 0 && !(n == 1 && isBody(p.path[0])) {
		p.b.insert(strings.Join(p.path[max(0, n-8):], "."))
		p.b.insert(": ")
	}
	if raw[0] != '"' {
		p.b.plain(from, p.pos)
		return
	}
	p.chars(from+1, p.pos-1)
}

func isBody(name string) bool {
	return name == "text" || name == "content" || name == "body" || name == "page_content"
}

// chars writes the inside of a string: plain runs, and escapes decoded.
func (p *jsonReader) chars(from, to int) {
	src := p.b.src
	for from < to {
		i := strings.IndexByte(src[from:to], '\\')
		if i < 0 {
			p.b.plain(from, to)
			return
		}
		p.b.plain(from, from+i)
		from += i
		n := min(2, to-from)
		if n == 2 && src[from+1] == 'u' {
			n = min(6, to-from)
			if to-from >= 12 && src[from+6] == '\\' && src[from+7] == 'u' {
				if s := unquote(`"` + src[from:from+12] + `"`); utf8.RuneCountInString(s) == 1 {
					n = 12
				}
			}
		}
		text := unquote(`"` + src[from:from+n] + `"`)
		if text == "" {
			text = "\ufffd"
		}
		p.b.whole(text, from, from+n)
		from += n
	}
}

// unquote decodes a JSON string, "" when it is none.
func unquote(s string) string {
	var v string
	if json.Unmarshal([]byte(s), &v) != nil {
		return ""
	}
	return v
}
