package pdf

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// entry tells where an object lies: at off, or as the index-th of the object
// stream in.
type entry struct {
	off, in, index int
}

// file is a PDF being read. It is used by one goroutine.
type file struct {
	ctx     context.Context
	data    []byte
	limits  Limits
	xref    map[int]entry
	trailer dict
	cache   map[int]any
	loading map[int]bool
	members map[int]*members
	crypt   *crypt
	decoded int // bytes out of filters so far
	scanned int // bytes searched outside of the ordinary reading
	rebuilt bool
	stop    error // sticky: a budget of the whole file, or the context
	until   time.Time
}

// members is an object stream, opened.
type members struct {
	data []byte
	nums []int
	offs []int
}

// open finds the objects: by the cross-reference tables, or by looking through
// the file when those are damaged.
func open(ctx context.Context, data []byte, limits Limits) (*file, error) {
	f := &file{ctx: ctx, data: data, limits: limits, xref: map[int]entry{}, trailer: dict{}, cache: map[int]any{},
		loading: map[int]bool{}, members: map[int]*members{}}
	f.readXref()
	if f.catalog() == nil {
		f.rebuild()
	}
	if err := f.decrypt(); err != nil {
		return nil, err
	}
	if f.catalog() == nil && f.stop == nil {
		return nil, storage.Corruptf("PDF", 0, "no catalog: neither cross-reference table nor objects lead to one")
	}
	return f, f.stop
}

func (f *file) catalog() dict {
	c := f.dict(f.trailer["Root"])
	if c == nil || c["Pages"] == nil {
		return nil
	}
	return c
}

// readXref follows the chain of tables from the end of the file. Earlier tables
// do not replace what later ones said.
func (f *file) readXref() {
	tail := f.data[max(0, len(f.data)-2048):]
	i := bytes.LastIndex(tail, []byte("startxref"))
	if i < 0 {
		return
	}
	l := lexer{b: tail, pos: i + len("startxref")}
	o, _ := l.next()
	off, ok := o.(int)
	seen := map[int]bool{}
	for ok && off >= 0 && off < len(f.data) && !seen[off] && len(seen) < 1024 {
		seen[off] = true
		l := lexer{b: f.data, pos: off}
		var t dict
		if o, _ := l.next(); o == op("xref") {
			t = f.xrefTable(&l)
			if x, has := t["XRefStm"].(int); has && x >= 0 && x < len(f.data) && !seen[x] {
				seen[x] = true
				f.xrefStream(x)
			}
		} else {
			t = f.xrefStream(off)
		}
		for k, v := range t {
			if _, has := f.trailer[k]; !has {
				f.trailer[k] = v
			}
		}
		off, ok = t["Prev"].(int)
	}
}

// xrefTable reads the sections after the word xref, and the trailer.
func (f *file) xrefTable(l *lexer) dict {
	for {
		o, ok := l.next()
		if !ok {
			return nil
		}
		if o == op("trailer") {
			o, _ := l.next()
			d, _ := o.(dict)
			return d
		}
		first, ok1 := o.(int)
		o, _ = l.next()
		n, ok2 := o.(int)
		if !ok1 || !ok2 || first < 0 || n < 0 || n > len(f.data)/10 || first > maxObject {
			return nil
		}
		for i := range n {
			off, _ := l.next()
			_, _ = l.next()
			kind, _ := l.next()
			if at, isInt := off.(int); isInt && kind == op("n") && at > 0 {
				f.add(first+i, entry{off: at})
			}
		}
	}
}

// maxObject bounds object numbers: the format's own limit is 2^23.
const maxObject = 1 << 24

func (f *file) add(num int, e entry) {
	if _, has := f.xref[num]; !has && num >= 0 && num <= maxObject {
		f.xref[num] = e
	}
}

func (f *file) xrefStream(off int) dict {
	o, _ := f.objectAt(off, -1)
	s, ok := o.(*stream)
	if !ok {
		return nil
	}
	w, _ := s.dict["W"].(array)
	if len(w) < 3 {
		return nil
	}
	var width [3]int
	for i := range width {
		if width[i], ok = w[i].(int); !ok || width[i] < 0 || width[i] > 8 {
			return nil
		}
	}
	index, _ := s.dict["Index"].(array)
	if index == nil {
		index = array{0, s.dict["Size"]}
	}
	b, _ := f.decode(s)
	row := width[0] + width[1] + width[2]
	if row == 0 {
		return nil
	}
	field := func(n int) int {
		v := 0
		for _, c := range b[:n] {
			v = v<<8 | int(c)
		}
		b = b[n:]
		return v
	}
	for i := 0; i+1 < len(index); i += 2 {
		first, ok1 := index[i].(int)
		n, ok2 := index[i+1].(int)
		if !ok1 || !ok2 {
			break
		}
		for k := 0; k < n && len(b) >= row; k++ {
			kind := 1
			if t := field(width[0]); width[0] > 0 {
				kind = t
			}
			a, c := field(width[1]), field(width[2])
			switch kind {
			case 1:
				f.add(first+k, entry{off: a})
			case 2:
				f.add(first+k, entry{in: a, index: c})
			}
		}
	}
	return s.dict
}

// rebuild looks through the whole file for "n g obj" and for trailers. Later
// objects win, as they do with updates.
func (f *file) rebuild() {
	if f.rebuilt {
		return
	}
	f.rebuilt = true
	f.xref, f.cache, f.members = map[int]entry{}, map[int]any{}, map[int]*members{}
	var streams []int
	for pos := 0; ; {
		i := bytes.Index(f.data[pos:], []byte("obj"))
		if i < 0 {
			break
		}
		at := pos + i
		pos = at + 3
		num, off, ok := f.header(at)
		if !ok {
			continue
		}
		f.xref[num] = entry{off: off}
		head := f.data[pos:min(len(f.data), pos+512)]
		if bytes.Contains(head, []byte("/ObjStm")) {
			streams = append(streams, num)
		}
		if bytes.Contains(head, []byte("/XRef")) || bytes.Contains(head, []byte("/Catalog")) {
			f.adopt(num, pos)
		}
	}
	for pos := 0; ; {
		i := bytes.Index(f.data[pos:], []byte("trailer"))
		if i < 0 {
			break
		}
		pos += i + len("trailer")
		l := lexer{b: f.data[:min(len(f.data), pos+64<<10)], pos: pos}
		if o, _ := l.next(); o != nil {
			if d, ok := o.(dict); ok {
				for k, v := range d {
					f.trailer[k] = v
				}
			}
		}
		if f.scanned += 1024; f.over() {
			return
		}
	}
	for _, num := range streams {
		if m := f.objectStream(num); m != nil {
			for i, n := range m.nums {
				if e, has := f.xref[n]; !has || e.off == 0 {
					f.xref[n] = entry{in: num, index: i}
				}
			}
		}
	}
}

// adopt takes what a cross-reference stream or a catalog says of the root.
func (f *file) adopt(num, pos int) {
	l := lexer{b: f.data[:min(len(f.data), pos+64<<10)], pos: pos}
	o, _ := l.next()
	d, ok := o.(dict)
	switch {
	case !ok:
	case d["Type"] == name("Catalog"):
		if f.trailer["Root"] == nil {
			f.trailer["Root"] = ref{num, 0}
		}
	case d["Root"] != nil:
		for _, k := range []name{"Root", "Info", "Encrypt", "ID"} {
			if d[k] != nil {
				f.trailer[k] = d[k]
			}
		}
	}
}

// header reads the two numbers before the word obj at at, backwards.
func (f *file) header(at int) (num, off int, ok bool) {
	i := at
	number := func() (int, bool) {
		for i > 0 && delimiters[f.data[i-1]] == 1 && at-i < 32 {
			i--
		}
		end := i
		for i > 0 && f.data[i-1] >= '0' && f.data[i-1] <= '9' && end-i < 10 {
			i--
		}
		if i == end {
			return 0, false
		}
		return integer(f.data[i:end])
	}
	if _, ok = number(); !ok {
		return 0, 0, false
	}
	if num, ok = number(); !ok || num > maxObject {
		return 0, 0, false
	}
	return num, i, true
}

// over reports whether the work outside of the ordinary reading got out of hand,
// or the context ended.
func (f *file) over() bool {
	if f.stop == nil {
		f.stop = f.ctx.Err()
	}
	if f.stop == nil && f.scanned > 32*len(f.data)+1<<20 {
		f.stop = storage.Corruptf("PDF", 0, "objects overlap so much that reading them would not end")
	}
	return f.stop != nil
}

// resolve follows references.
func (f *file) resolve(o any) any {
	for range 32 {
		r, ok := o.(ref)
		if !ok {
			return o
		}
		o = f.load(r.num)
	}
	return nil
}

func (f *file) dict(o any) dict {
	switch o := f.resolve(o).(type) {
	case dict:
		return o
	case *stream:
		return o.dict
	}
	return nil
}

func (f *file) array(o any) array { a, _ := f.resolve(o).(array); return a }
func (f *file) name(o any) name   { n, _ := f.resolve(o).(name); return n }

func (f *file) int(o any) int {
	switch n := f.resolve(o).(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 0
}

func number(o any) float64 {
	switch n := o.(type) {
	case int:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

func (f *file) number(o any) float64 { return number(f.resolve(o)) }

// load returns an object by number, nil when there is none.
func (f *file) load(num int) any {
	if o, has := f.cache[num]; has {
		return o
	}
	e, has := f.xref[num]
	if !has || f.loading[num] || len(f.loading) > maxNesting || f.over() {
		return nil
	}
	f.loading[num] = true
	defer delete(f.loading, num)
	var o any
	if e.off > 0 {
		var ok bool
		if o, ok = f.objectAt(e.off, num); !ok && !f.rebuilt {
			f.rebuild()
			if e, has = f.xref[num]; has && e.off > 0 {
				o, _ = f.objectAt(e.off, num)
			}
		}
	} else if m := f.objectStream(e.in); m != nil {
		i := e.index
		if i >= len(m.nums) || m.nums[i] != num {
			i = -1
			for k, n := range m.nums {
				if n == num {
					i = k
				}
			}
			f.scanned += len(m.nums)
		}
		if i >= 0 && m.offs[i] < len(m.data) {
			l := lexer{b: m.data, pos: m.offs[i]}
			o, _ = l.object()
			f.scanned += (l.pos - m.offs[i]) / 8
		}
	}
	f.cache[num] = o
	return o
}

// objectAt reads "n g obj …" at off; num is checked unless negative.
func (f *file) objectAt(off, num int) (any, bool) {
	if off < 0 || off >= len(f.data) {
		return nil, false
	}
	l := lexer{b: f.data, pos: off}
	n, _ := l.next()
	g, _ := l.next()
	kw, _ := l.next()
	id, ok := n.(int)
	if gen, isInt := g.(int); !ok || !isInt || kw != op("obj") || num >= 0 && id != num {
		return nil, false
	} else if num < 0 {
		num = id
	} else {
		_ = gen
	}
	gen, _ := g.(int)
	o, _ := l.object()
	f.scanned += (l.pos - off) / 8
	if d, isDict := o.(dict); isDict {
		if s := f.streamAt(&l, d, ref{num, gen}); s != nil {
			return s, true
		}
	}
	if f.crypt != nil {
		o = f.crypt.strings(o, ref{num, gen}, 0)
	}
	return o, true
}

// streamAt reads the bytes after the word stream, or returns nil when there is
// none. A wrong Length is corrected by looking for endstream.
func (f *file) streamAt(l *lexer, d dict, id ref) *stream {
	if kw, _ := l.next(); kw != op("stream") {
		return nil
	}
	start := l.pos
	if start < len(f.data) && f.data[start] == '\r' {
		start++
	}
	if start < len(f.data) && f.data[start] == '\n' {
		start++
	}
	if f.crypt != nil {
		d, _ = f.crypt.strings(d, id, 0).(dict)
	}
	s := &stream{dict: d, id: id}
	if n := f.int(d["Length"]); n >= 0 && n <= len(f.data)-start {
		after := bytes.TrimLeft(f.data[start+n:min(len(f.data), start+n+32)], "\r\n\t \x00")
		if bytes.HasPrefix(after, []byte("endstream")) || bytes.HasPrefix(after, []byte("endobj")) {
			s.raw = f.data[start : start+n]
			return s
		}
	}
	i := bytes.Index(f.data[start:], []byte("endstream"))
	if i < 0 {
		i = len(f.data) - start
	}
	f.scanned += i
	s.raw = bytes.TrimRight(f.data[start:start+i], "\r\n")
	return s
}

func (f *file) objectStream(num int) *members {
	if m, has := f.members[num]; has {
		return m
	}
	f.members[num] = nil // a stream inside itself
	e := f.xref[num]
	if e.off <= 0 {
		return nil
	}
	o, _ := f.objectAt(e.off, num)
	s, ok := o.(*stream)
	if !ok {
		return nil
	}
	b, _ := f.decode(s)
	n, first := f.int(s.dict["N"]), f.int(s.dict["First"])
	if n < 0 || n > len(b) || first < 0 || first > len(b) {
		return nil
	}
	m := &members{data: b}
	l := lexer{b: b[:first]}
	for range n {
		a, ok1 := l.next()
		c, ok2 := l.next()
		num, isInt1 := a.(int)
		off, isInt2 := c.(int)
		if !ok1 || !ok2 || !isInt1 || !isInt2 || off < 0 {
			break
		}
		m.nums, m.offs = append(m.nums, num), append(m.offs, first+off)
	}
	f.members[num] = m
	return m
}

func (f *file) tooMuch() error {
	return fmt.Errorf("%w: streams decode to more than %d bytes", storage.ErrTooLarge, f.limits.Decoded)
}
