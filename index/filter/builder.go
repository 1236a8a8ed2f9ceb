package filter

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/quarrysearch/quarry/storage"
)

// noOrd stands for "no value" where ords are held one a doc.
const noOrd = ^uint32(0)

// A Builder collects the metadata of the docs of one new segment. It is not
// safe for concurrent use.
type Builder struct {
	fields map[string]*fieldBuilder
}

// fieldBuilder holds one field's values as temporary ords in order of first
// sight; Write sorts them once.
type fieldBuilder struct {
	typ     Type
	lastDoc int64
	texts   map[string]uint32
	nums    map[int64]uint32
	keys    []string // temporary ord → keyword
	numKeys []int64  // temporary ord → number
	docs    []uint32 // docs that have values
	ends    []uint32 // docs[i]'s ords end at ords[ends[i]]
	ords    []uint32
	null    []uint32
	empty   []uint32
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder { return &Builder{fields: map[string]*fieldBuilder{}} }

// Add records the value of one field of doc. For each field, docs must come
// in ascending order, each once; a missing value is no value and is ignored.
// A value of another type than the field's values before it is ErrSchema and
// names the field and both types.
func (b *Builder) Add(doc uint32, field string, v Value) error {
	if err := checkField(field); err != nil {
		return err
	}
	if v.form == formMissing {
		return nil
	}
	f := b.fields[field]
	if f == nil {
		f = &fieldBuilder{lastDoc: -1}
		b.fields[field] = f
	}
	if int64(doc) <= f.lastDoc {
		return storage.Invalidf("field %q: doc %d added after doc %d", field, doc, f.lastDoc)
	}
	if f.typ == Undeclared {
		f.typ = v.typ
	} else if v.typ != f.typ && v.typ != Undeclared {
		return fmt.Errorf("%w: field %q: want %s, got %s %s", storage.ErrSchema, field, f.typ, v.typ, v)
	}
	if uint64(len(f.ords))+uint64(v.Len()) > math.MaxUint32 {
		return fmt.Errorf("%w: field %q: more than %d values in one segment", storage.ErrTooLarge, field, uint32(math.MaxUint32))
	}
	f.lastDoc = int64(doc)
	f.add(doc, v)
	return nil
}

func (f *fieldBuilder) add(doc uint32, v Value) {
	switch {
	case v.form == formNull:
		f.null = append(f.null, doc)
		return
	case v.Len() == 0:
		f.empty = append(f.empty, doc)
		return
	}
	start := len(f.ords)
	if f.typ.isText() {
		if f.texts == nil {
			f.texts = map[string]uint32{}
		}
		for s := range v.keywords() {
			f.ords = append(f.ords, intern(f.texts, &f.keys, s))
		}
	} else {
		if f.nums == nil {
			f.nums = map[int64]uint32{}
		}
		for k := range v.numbers() {
			f.ords = append(f.ords, intern(f.nums, &f.numKeys, k))
		}
	}
	// A value said twice in a list is held once.
	list := f.ords[start:]
	slices.Sort(list)
	f.ords = f.ords[:start+len(slices.Compact(list))]
	f.docs = append(f.docs, doc)
	f.ends = append(f.ends, uint32(len(f.ords)))
}

func intern[K comparable](m map[K]uint32, keys *[]K, k K) uint32 {
	ord, ok := m[k]
	if !ok {
		ord = uint32(len(*keys))
		m[k] = ord
		*keys = append(*keys, k)
	}
	return ord
}

// Write writes the sections of a segment of docs docs. Sections are named "0",
// "1", … in the order of the fields' names, then "fields" (format.md).
// The bytes depend on the values alone, not on the order of Add between
// fields. The builder must not be used after it.
func (b *Builder) Write(create func(section string) (io.Writer, error), docs uint32) error {
	names := make([]string, 0, len(b.fields))
	for name := range b.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	var table []fieldInfo
	for _, name := range names {
		f := b.fields[name]
		if f.lastDoc >= int64(docs) {
			return storage.Invalidf("field %q: doc %d of %d docs", name, f.lastDoc, docs)
		}
		info, err := f.write(create, len(table), name, docs)
		if err != nil {
			return err
		}
		table = append(table, info)
	}
	return writeTable(create, table)
}

func (f *fieldBuilder) write(create func(string) (io.Writer, error), number int, name string, docs uint32) (fieldInfo, error) {
	out, err := create(strconv.Itoa(number))
	if err != nil {
		return fieldInfo{}, err
	}
	typ := f.typ
	if len(f.docs) == 0 {
		typ = Undeclared // so that a merge that drops all values agrees
	}
	w := newFieldWriter(out, typ, docs)
	defer w.release()
	var remap []uint32
	if typ.isText() {
		remap = sortedOrds(f.keys, w.keyword)
	} else {
		remap = sortedOrds(f.numKeys, w.number)
	}
	return fieldInfo{name, typ}, w.finish(f.column(docs, remap))
}

// sortedOrds hands the keys to add in ascending order and returns the ord of
// each temporary ord.
func sortedOrds[K cmp.Ordered](keys []K, add func(K)) []uint32 {
	order := make([]uint32, len(keys))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(keys[a], keys[b]) })
	remap := make([]uint32, len(keys))
	for ord, old := range order {
		remap[old] = uint32(ord)
		add(keys[old])
	}
	return remap
}

// column spreads the collected values over the docs.
func (f *fieldBuilder) column(docs uint32, remap []uint32) *column {
	c := &column{null: f.null, empty: f.empty}
	if len(f.ords) == len(f.docs) {
		c.ords = make([]uint32, docs)
		for i := range c.ords {
			c.ords[i] = noOrd
		}
		for i, doc := range f.docs {
			c.ords[doc] = remap[f.ords[i]]
		}
		return c
	}
	c.starts = make([]uint32, int(docs)+1)
	c.ords = make([]uint32, len(f.ords))
	start, next := uint32(0), uint32(0)
	for i, doc := range f.docs {
		for ; next <= doc; next++ {
			c.starts[next] = start
		}
		list := c.ords[start:f.ends[i]]
		for j := range list {
			list[j] = remap[f.ords[int(start)+j]]
		}
		slices.Sort(list)
		start = f.ends[i]
	}
	for i := int(next); i <= int(docs); i++ {
		c.starts[i] = start
	}
	return c
}

// A column is what a field holds, by doc: the plain form that everything else
// in a field's section is computed from.
type column struct {
	starts []uint32 // nil: one ord a doc; else doc's ords lie from starts[doc] to starts[doc+1]
	ords   []uint32 // one a doc, noOrd for none; or all lists, each ascending
	null   []uint32 // docs, ascending
	empty  []uint32 // docs, ascending
}
