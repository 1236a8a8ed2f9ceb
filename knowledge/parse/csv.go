package parse

import (
	"strconv"
	"strings"
)

const maxHeader = 256 // bytes of a header name repeated beside its cells

// csv reads separated values. The first row names the columns; every other row
// is a record of lines "name: value", empty cells left out, with a blank line
// after it.
func (b *builder) csv() error {
	r := csvReader{b: b, sep: sniffSeparator(b.src), line: 1}
	var header []string
	cells, ragged := 0, 0
	for off := 0; off < len(b.src) && b.alive(); {
		line := r.line
		fields, next := r.row(off)
		if r.unclosed >= 0 {
			return b.corrupt(r.unclosed, "quote opened in line %d is never closed", line)
		}
		if cells += len(fields); cells > b.opt.MaxCells {
			return tooLarge("more than %d cells", b.opt.MaxCells)
		}
		off = next
		if len(fields) == 1 && fields[0].from == fields[0].to {
			continue // blank line
		}
		if header == nil {
			for i, f := range fields {
				header = append(header, headerName(r.value(f), i))
			}
			continue
		}
		if len(fields) != len(header) {
			ragged++
		}
		b.record(line, header, len(fields), func(i int) bool { return fields[i].from == fields[i].to }, func(i int) { r.emit(fields[i]) })
	}
	if ragged > 0 {
		b.warn(-1, "%d rows have another number of cells than the header's %d", ragged, len(header))
	}
	if header != nil && len(b.blocks) == 0 && b.err == nil {
		b.warn(-1, "a header and no rows")
	}
	b.trim(0)
	return b.err
}

// record writes one row as a block; emit appends the value of a column.
func (b *builder) record(number int, header []string, n int, empty func(int) bool, emit func(int)) {
	start := len(b.buf)
	for i := range n {
		if empty(i) {
			continue
		}
		if len(b.buf) > start {
			b.insert("\n")
		}
		if i < len(header) {
			b.insert(header[i])
		} else {
			b.insert("column " + strconv.Itoa(i+1))
		}
		b.insert(": ")
		emit(i)
	}
	b.block(Record, start, len(b.buf), number, "")
	if len(b.buf) > start {
		b.insert("\n\n")
	}
}

func headerName(s string, i int) string {
	if s = cutString(strings.Join(strings.Fields(s), " "), maxHeader); s == "" {
		return "column " + strconv.Itoa(i+1)
	}
	return s
}

// sniffSeparator takes the candidate that is most frequent outside quotes in the
// first line, the comma when none is.
func sniffSeparator(src string) byte {
	var count [256]int
	quoted := false
	for i := 0; i < len(src) && i < 64<<10; i++ {
		c := src[i]
		if c == '"' {
			quoted = !quoted
		}
		if c == '\n' && !quoted {
			break
		}
		if !quoted {
			count[c]++
		}
	}
	best := byte(',')
	for _, c := range []byte(";\t|") {
		if count[c] > count[best] {
			best = c
		}
	}
	return best
}

// csvField is a cell: src[from:to] without its quotes.
type csvField struct {
	from, to int
	doubled  bool // holds "" for "
}

type csvReader struct {
	b        *builder
	sep      byte
	line     int
	fields   []csvField
	unclosed int
}

// row reads one row from off, as RFC 4180 has it; a quote inside an unquoted
// cell is kept as it is.
func (r *csvReader) row(off int) ([]csvField, int) {
	src := r.b.src
	r.fields, r.unclosed = r.fields[:0], -1
	for {
		if off < len(src) && src[off] == '"' {
			var f csvField
			if f, off = r.quoted(off); r.unclosed >= 0 {
				return nil, len(src)
			}
			r.fields = append(r.fields, f)
		} else {
			from := off
			for off < len(src) && src[off] != r.sep && src[off] != '\n' {
				off++
			}
			to := off
			if to > from && src[to-1] == '\r' && (to == len(src) || src[to] == '\n') {
				to--
			}
			for from < to && src[from] == ' ' {
				from++
			}
			for to > from && src[to-1] == ' ' {
				to--
			}
			r.fields = append(r.fields, csvField{from: from, to: to})
		}
		if off >= len(src) || src[off] == '\n' {
			r.line++
			return r.fields, min(off+1, len(src))
		}
		off++ // separator
	}
}

func (r *csvReader) quoted(off int) (csvField, int) {
	src := r.b.src
	f := csvField{from: off + 1}
	for i := off + 1; ; i++ {
		if i >= len(src) {
			r.unclosed = off
			return f, i
		}
		if src[i] == '\n' {
			r.line++
		}
		if src[i] != '"' {
			continue
		}
		if i+1 < len(src) && src[i+1] == '"' {
			f.doubled = true
			i++
			continue
		}
		f.to = i
		// What follows the closing quote up to the separator is dropped.
		for i++; i < len(src) && src[i] != r.sep && src[i] != '\n'; {
			i++
		}
		return f, i
	}
}

func (r *csvReader) value(f csvField) string {
	s := r.b.src[f.from:f.to]
	if f.doubled {
		s = strings.ReplaceAll(s, `""`, `"`)
	}
	return s
}

func (r *csvReader) emit(f csvField) {
	if !f.doubled {
		r.b.plain(f.from, f.to)
		return
	}
	for from := f.from; from < f.to; {
		i := strings.Index(r.b.src[from:f.to], `""`)
		if i < 0 {
			r.b.plain(from, f.to)
			return
		}
		r.b.plain(from, from+i)
		r.b.whole(`"`, from+i, from+i+2)
		from += i + 2
	}
}
