package filter

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// Dropped in a DocMap marks a doc that the merged segment does not hold.
const Dropped = ^uint32(0)

// A MergeInput is one segment of a merge. DocMap gives each of its docs its
// number in the merged segment, or Dropped; the numbers ascend.
type MergeInput struct {
	Segment *Segment
	DocMap  []uint32
}

// Merge writes one segment of docs docs from several. Two docs must not get
// the same number; a number that no doc gets is a doc without metadata. The
// bytes are those that a Builder writes for the surviving docs: values,
// fields and types that nobody holds any more are gone.
//
// A field with two types in two inputs is ErrSchema, a bad DocMap ErrInvalid,
// damage ErrCorrupt. Memory: 4 bytes a doc and value of one field at a time,
// twice over; dictionaries are streamed.
func Merge(create func(section string) (io.Writer, error), inputs []MergeInput, docs uint32) error {
	if err := checkMaps(inputs, docs); err != nil {
		return err
	}
	var names []string
	for _, in := range inputs {
		for _, f := range in.Segment.fields {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	var table []fieldInfo
	for _, name := range slices.Compact(names) {
		m, err := newFieldMerge(inputs, name, docs)
		if err != nil {
			return err
		}
		if m.survivors == 0 {
			continue
		}
		out, err := create(strconv.Itoa(len(table)))
		if err != nil {
			return err
		}
		if err := m.write(out); err != nil {
			return err
		}
		table = append(table, fieldInfo{name, m.typ})
	}
	return writeTable(create, table)
}

func checkMaps(inputs []MergeInput, docs uint32) error {
	taken := roaring.New()
	for i, in := range inputs {
		if in.Segment == nil || len(in.DocMap) != int(in.Segment.docs) {
			return storage.Invalidf("filter merge: input %d: map of %d docs does not suit its segment", i, len(in.DocMap))
		}
		last := int64(-1)
		kept := make([]uint32, 0, len(in.DocMap))
		for _, doc := range in.DocMap {
			if doc == Dropped {
				continue
			}
			if int64(doc) <= last || doc >= docs {
				return storage.Invalidf("filter merge: input %d: doc %d after %d of %d", i, doc, last, docs)
			}
			last = int64(doc)
			kept = append(kept, doc)
		}
		before := taken.GetCardinality()
		taken.AddMany(kept)
		if taken.GetCardinality() != before+uint64(len(kept)) {
			return storage.Invalidf("filter merge: input %d: a doc number is given twice", i)
		}
	}
	return nil
}

// A fieldMerge merges one field.
type fieldMerge struct {
	typ       Type
	docs      uint32
	survivors int // docs that hold the field in any form
	parts     []mergePart
}

// A mergePart is one input that has the field.
type mergePart struct {
	f      *field
	col    *column
	docMap []uint32
	remap  []uint32 // ord → new ord; before that, noOrd for the unused
	cur    dictCursor
	next   uint32 // ord to look at next
}

func newFieldMerge(inputs []MergeInput, name string, docs uint32) (*fieldMerge, error) {
	m := &fieldMerge{docs: docs}
	for _, in := range inputs {
		f := in.Segment.field(name)
		if f == nil {
			continue
		}
		col, err := f.column()
		if err != nil {
			return nil, err
		}
		p := mergePart{f: f, col: col, docMap: in.DocMap, cur: f.dict.cursor()}
		p.remap = make([]uint32, f.values)
		for i := range p.remap {
			p.remap[i] = noOrd
		}
		used := false
		for doc, to := range in.DocMap {
			if to == Dropped {
				continue
			}
			list := col.at(uint32(doc))
			for _, ord := range list {
				p.remap[ord] = 0
			}
			if len(list) > 0 {
				m.survivors++
				used = true
			}
		}
		if used {
			if m.typ != Undeclared && m.typ != f.typ {
				return nil, fmt.Errorf("%w: field %q: %s in one segment, %s in another", storage.ErrSchema, name, m.typ, f.typ)
			}
			m.typ = f.typ
		}
		m.survivors += len(p.kept(col.null)) + len(p.kept(col.empty))
		m.parts = append(m.parts, p)
	}
	return m, nil
}

// kept returns the new numbers of the surviving docs.
func (p *mergePart) kept(docs []uint32) []uint32 {
	out := make([]uint32, 0, len(docs))
	for _, doc := range docs {
		if to := p.docMap[doc]; to != Dropped {
			out = append(out, to)
		}
	}
	return out
}

// settle moves next to the next used ord, and tells whether there is one.
func (p *mergePart) settle(text bool) (bool, error) {
	for p.next < p.f.values && p.remap[p.next] == noOrd {
		p.next++
	}
	if p.next >= p.f.values {
		return false, nil
	}
	if text {
		return true, p.cur.seek(p.next)
	}
	return true, nil
}

func (m *fieldMerge) write(out io.Writer) error {
	w := newFieldWriter(out, m.typ, m.docs)
	defer w.release()
	text := m.typ.isText()
	// Merge the dictionaries: the inputs are few, so the least is found by
	// looking at all of them.
	heads := make([]*mergePart, 0, len(m.parts))
	for i := range m.parts {
		ok, err := m.parts[i].settle(text)
		if err != nil {
			return err
		}
		if ok {
			heads = append(heads, &m.parts[i])
		}
	}
	for len(heads) > 0 {
		least := heads[0]
		for _, p := range heads[1:] {
			if p.compare(least, text) < 0 {
				least = p
			}
		}
		ord := w.values
		if text {
			w.keyword(string(least.cur.key))
		} else {
			w.number(least.f.nums[least.next])
		}
		left := heads[:0]
		for _, p := range heads {
			ok := true
			if p == least || p.equalsLast(w, text) {
				p.remap[p.next] = ord
				p.next++
				var err error
				if ok, err = p.settle(text); err != nil {
					return err
				}
			}
			if ok {
				left = append(left, p)
			}
		}
		heads = left
	}
	col, err := m.column()
	if err != nil {
		return err
	}
	return w.finish(col)
}

func (p *mergePart) compare(q *mergePart, text bool) int {
	if text {
		return bytes.Compare(p.cur.key, q.cur.key)
	}
	return cmp.Compare(p.f.nums[p.next], q.f.nums[q.next])
}

// equalsLast tells whether the part's head is the value written last.
func (p *mergePart) equalsLast(w *fieldWriter, text bool) bool {
	if text {
		return bytes.Equal(p.cur.key, w.last)
	}
	return p.f.nums[p.next] == w.lastNum
}

// column puts the surviving docs in their new places. Ords keep their order
// through remap, so the lists stay ascending.
func (m *fieldMerge) column() (*column, error) {
	c := &column{}
	lists := false
	pairs := uint64(0)
	for i := range m.parts {
		p := &m.parts[i]
		c.null = append(c.null, p.kept(p.col.null)...)
		c.empty = append(c.empty, p.kept(p.col.empty)...)
		for doc, to := range p.docMap {
			if to != Dropped {
				n := len(p.col.at(uint32(doc)))
				pairs += uint64(n)
				lists = lists || n > 1
			}
		}
	}
	slices.Sort(c.null)
	slices.Sort(c.empty)
	if pairs > math.MaxUint32 {
		return nil, fmt.Errorf("%w: more than %d values of one field in one segment", storage.ErrTooLarge, uint32(math.MaxUint32))
	}
	if !lists {
		c.ords = make([]uint32, m.docs)
		for i := range c.ords {
			c.ords[i] = noOrd
		}
		m.each(func(to uint32, list, remap []uint32) {
			if len(list) > 0 {
				c.ords[to] = remap[list[0]]
			}
		})
		return c, nil
	}
	c.starts = make([]uint32, int(m.docs)+1)
	m.each(func(to uint32, list, _ []uint32) { c.starts[to+1] = uint32(len(list)) })
	for i := 1; i < len(c.starts); i++ {
		c.starts[i] += c.starts[i-1]
	}
	c.ords = make([]uint32, pairs)
	m.each(func(to uint32, list, remap []uint32) {
		for i, ord := range list {
			c.ords[c.starts[to]+uint32(i)] = remap[ord]
		}
	})
	return c, nil
}

func (m *fieldMerge) each(do func(to uint32, list, remap []uint32)) {
	for i := range m.parts {
		p := &m.parts[i]
		for doc, to := range p.docMap {
			if to != Dropped {
				do(to, p.col.at(uint32(doc)), p.remap)
			}
		}
	}
}

// column decodes a field's column, checking every code and the order of every
// list.
func (f *field) column() (*column, error) {
	c := &column{starts: f.starts, ords: make([]uint32, f.codes.n)}
	for i := range c.ords {
		code := f.codes.at(uint32(i))
		if code > f.values || code == 0 && f.starts != nil {
			return nil, f.corrupt(partCodes, "code %d of %d values", code, f.values)
		}
		c.ords[i] = code - 1
	}
	if f.starts != nil {
		if f.starts[0] != 0 || int(f.starts[f.docs]) != f.codes.n {
			return nil, f.corrupt(partStarts, "lists do not cover the codes")
		}
		for doc := range f.docs {
			lo, hi, err := f.span(doc)
			if err != nil {
				return nil, err
			}
			for i := lo + 1; i < hi; i++ {
				if c.ords[i] <= c.ords[i-1] {
					return nil, f.corrupt(partCodes, "list of doc %d out of order", doc)
				}
			}
		}
	}
	for _, s := range []struct {
		state int
		docs  *[]uint32
	}{{stateNull, &c.null}, {stateEmpty, &c.empty}} {
		bm, err := f.state(s.state)
		if err != nil {
			return nil, err
		}
		*s.docs = bm.ToArray()
		for _, doc := range *s.docs {
			if len(c.at(doc)) > 0 {
				return nil, f.corrupt(partBitmaps, "doc %d has a value and none", doc)
			}
		}
	}
	return c, nil
}

// Verify recomputes every byte of every field from its values and its column
// and compares. It finds every index that disagrees with the column, which no
// checksum can; a value that was changed into another sound one is left to the
// container's checksums. Memory as for a merge. ctx ends it.
func (s *Segment) Verify(ctx context.Context) error {
	for _, f := range s.fields {
		if err := f.verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) verify(ctx context.Context) error {
	col, err := f.column()
	if err != nil {
		return err
	}
	if err := f.verifyColumn(col); err != nil {
		return err
	}
	w := newFieldWriter(&comparer{ctx: ctx, f: f}, f.typ, f.docs)
	defer w.release()
	if err := f.verifyValues(ctx, w); err != nil {
		return err
	}
	if err := w.finish(col); err != nil {
		return err
	}
	if int(w.off) != len(f.data) {
		return storage.Corruptf(f.section, int64(w.off), "field %q has %d bytes, want %d", shorten(f.name), len(f.data), w.off)
	}
	return nil
}

// verifyColumn checks what the writer takes for granted: that each value is
// used, that lists are only where they must be, that states exclude another.
func (f *field) verifyColumn(col *column) error {
	used := make([]bool, f.values)
	for _, ord := range col.ords {
		if ord != noOrd {
			used[ord] = true
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return f.corrupt(partValues, "value %d is used by no doc", i)
	}
	longest := uint32(0)
	for i := 1; i < len(col.starts); i++ {
		longest = max(longest, col.starts[i]-col.starts[i-1])
	}
	if f.starts != nil && longest < 2 {
		return f.corrupt(partStarts, "lists of at most one value")
	}
	for _, doc := range col.empty {
		if _, both := slices.BinarySearch(col.null, doc); both {
			return f.corrupt(partBitmaps, "doc %d is null and an empty list", doc)
		}
	}
	return nil
}

// verifyValues gives the values to the writer, checking each and their order.
func (f *field) verifyValues(ctx context.Context, w *fieldWriter) error {
	cur := f.dict.cursor()
	last := ""
	for ord := range f.values {
		if ord%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !f.typ.isText() {
			key := f.nums[ord]
			if ord > 0 && key <= f.nums[ord-1] || !validKey(f.typ, key) {
				return f.corrupt(partValues, "value %d is out of order or no %s", ord, f.typ)
			}
			w.number(key)
			continue
		}
		if err := cur.seek(ord); err != nil {
			return err
		}
		key := string(cur.key)
		if checkKeyword(key) != nil || ord > 0 && last >= key {
			return f.corrupt(partValues, "keyword %d is out of order or not text", ord)
		}
		w.keyword(key)
		last = key
	}
	return nil
}

// validKey tells whether a key is one that Normalize can make.
func validKey(t Type, key int64) bool {
	switch t {
	case Bool:
		return key == 0 || key == 1
	case Float64:
		f := keyFloat(key)
		return !math.IsNaN(f) && !math.IsInf(f, 0) && floatKey(f) == key
	}
	return true
}

// A comparer is a writer that fails at the first byte that differs from the
// section.
type comparer struct {
	ctx context.Context
	f   *field
	off int
}

func (c *comparer) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	have := c.f.data[min(c.off, len(c.f.data)):]
	for i := range b {
		if i >= len(have) || have[i] != b[i] {
			return i, storage.Corruptf(c.f.section, int64(c.off+i), "field %q disagrees with its column", shorten(c.f.name))
		}
	}
	c.off += len(b)
	return len(b), nil
}
