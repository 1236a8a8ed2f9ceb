package filter

import (
	"io"
	"slices"
	"sync"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// formatVersion is the version of a field's section and of the table. Newest
// last, never reused.
//
//	1  first version
const formatVersion = 1

const (
	fieldMagic = 0x646c6651 // "Qfld", the last four bytes of a field's section
	tableName  = "fields"

	// blockKeywords is the number of keywords in one prefix-coded block: a
	// look-up decodes half a block on average, a block head costs a whole
	// keyword and eight bytes.
	blockKeywords = 16

	// bitmapDocs is the number of docs from which a value may have a bitmap.
	// Below it the list is as fast to turn into a result as a bitmap is to
	// read, and the 24 bytes of the directory would not pay.
	bitmapDocs = 128
)

// The parts of a field's section, in file order.
const (
	partValues   = iota // numbers: int64 keys; keywords: blocks
	partBlocks          // keywords: uint64 offsets of the blocks in partValues
	partStarts          // lists: uint32 a doc and one more, into the codes
	partCodes           // ord+1 in 1, 2 or 4 bytes, a doc or a list element
	partBitmaps         // roaring bitmaps, 8-byte aligned
	partDir             // dirEntry a bitmap, ascending by ord
	partDocLists        // uint32 a value and one more, into partDocs
	partDocs            // docs of the values without bitmap, by (ord, doc)
	parts
)

// The state bitmaps end the directory; their pseudo ords count on from the
// number of values.
const (
	statePresent = iota // docs with at least one value
	stateNull
	stateEmpty
	states
)

// dirEntry is one bitmap of the directory, 24 bytes as laid out here.
type dirEntry struct {
	ord   uint32
	count uint32 // docs in the bitmap
	off   uint64 // in partBitmaps
	size  uint64 // bytes of the bitmap
}

const (
	dirEntrySize = 24
	footerSize   = parts*16 + 24
	partAlign    = 8
)

type partRange struct{ off, size uint64 }

// fieldInfo is a row of the table of fields.
type fieldInfo struct {
	name string
	typ  Type
}

// writeTable writes the section "fields".
func writeTable(create func(string) (io.Writer, error), table []fieldInfo) error {
	w, err := create(tableName)
	if err != nil {
		return err
	}
	b := storage.AppendUvarint(nil, formatVersion)
	b = storage.AppendUvarint(b, uint64(len(table)))
	for _, f := range table {
		b = append(storage.AppendBytes(b, f.name), byte(f.typ))
	}
	_, err = w.Write(b)
	return err
}

// A fieldWriter writes one field's section from left to right: the distinct
// values in ascending order through number or keyword, then finish. It is the
// only writer, of new, merged and verified segments alike, and a function of
// values and column alone; that is why all three agree byte for byte.
type fieldWriter struct {
	w    io.Writer
	err  error // the first one, kept
	off  uint64
	typ  Type
	docs uint32

	part    [parts]partRange
	values  uint32
	lastNum int64 // the number before
	fieldBuffers
}

// fieldBuffers is the working space of a fieldWriter, kept from one to the
// next.
type fieldBuffers struct {
	pending []byte // values not written yet
	last    []byte // the keyword before
	blocks  []uint64
	dir     []dirEntry
	present []uint32
	ends    []uint32
	inverse []uint32
	starts  []uint32
}

// fieldWriters keeps writers that have been released.
var fieldWriters = sync.Pool{New: func() any { return new(fieldWriter) }}

// maxPooledField is the number of docs and values up to which a writer is kept.
const maxPooledField = 64 << 10

func newFieldWriter(w io.Writer, typ Type, docs uint32) *fieldWriter {
	f := fieldWriters.Get().(*fieldWriter)
	b := f.fieldBuffers
	b.pending, b.last, b.blocks, b.dir = b.pending[:0], b.last[:0], b.blocks[:0], b.dir[:0]
	*f = fieldWriter{w: w, typ: typ, docs: docs, fieldBuffers: b}
	return f
}

// release gives the writer back; it must not be used after it.
func (w *fieldWriter) release() {
	w.w = nil
	if cap(w.present)+cap(w.ends)+cap(w.inverse)+cap(w.pending)/4 <= maxPooledField {
		fieldWriters.Put(w)
	}
}

// sized returns b with n elements, whatever they are.
func sized(b *[]uint32, n int) []uint32 {
	*b = slices.Grow((*b)[:0], n)[:n]
	return *b
}

func (w *fieldWriter) write(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	_, w.err = w.w.Write(b)
	w.off += uint64(len(b))
}

var zeros [partAlign]byte

func (w *fieldWriter) align(n uint64) { w.write(zeros[:-w.off&(n-1)]) }

// begin starts a part, end ends it.
func (w *fieldWriter) begin(p int) {
	w.align(partAlign)
	w.part[p].off = w.off
}

func (w *fieldWriter) end(p int) { w.part[p].size = w.off - w.part[p].off }

// array writes a whole part.
func (w *fieldWriter) array(p int, b []byte) {
	w.begin(p)
	w.write(b)
	w.end(p)
}

// number adds the next distinct value, in ascending order.
func (w *fieldWriter) number(key int64) {
	w.values++
	w.lastNum = key
	w.pending = storage.AppendU64(w.pending, uint64(key))
	w.spill()
}

// keyword adds the next distinct value, in ascending order.
func (w *fieldWriter) keyword(s string) {
	if w.values%blockKeywords == 0 {
		w.blocks = append(w.blocks, w.off+uint64(len(w.pending)))
		w.pending = storage.AppendBytes(w.pending, s)
	} else {
		n := sharedPrefix(w.last, s)
		w.pending = storage.AppendUvarint(w.pending, uint64(n))
		w.pending = storage.AppendBytes(w.pending, s[n:])
	}
	w.values++
	w.last = append(w.last[:0], s...)
	w.spill()
}

func sharedPrefix(a []byte, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func (w *fieldWriter) spill() {
	if len(w.pending) >= 64<<10 {
		w.write(w.pending)
		w.pending = w.pending[:0]
	}
}

// finish writes the column and everything computed from it.
func (w *fieldWriter) finish(c *column) error {
	w.write(w.pending)
	w.part[partValues].size = w.off
	w.array(partBlocks, bytesOf(w.blocks))
	w.array(partStarts, bytesOf(c.starts))
	w.begin(partCodes)
	width := codeWidth(w.values)
	w.codes(c.ords, width)
	w.end(partCodes)
	w.lists(c)
	flags := byte(0)
	if c.starts != nil {
		flags = 1
	}
	w.align(8)
	b := make([]byte, 0, footerSize)
	for _, p := range w.part {
		b = storage.AppendU64(storage.AppendU64(b, p.off), p.size)
	}
	b = storage.AppendU32(b, w.docs)
	b = storage.AppendU32(b, w.values)
	b = storage.AppendU32(b, uint32(len(w.dir)))
	b = storage.AppendU32(b, uint32(len(c.ords)))
	b = append(b, byte(w.typ), byte(width), flags, formatVersion)
	w.write(storage.AppendU32(b, fieldMagic))
	return w.err
}

// codeWidth returns the bytes of a code that counts from 0 to values.
func codeWidth(values uint32) int {
	switch {
	case values <= 0xff:
		return 1
	case values <= 0xffff:
		return 2
	}
	return 4
}

// codes writes ord+1 for every ord, so that 0 is none (noOrd + 1 wraps to it).
func (w *fieldWriter) codes(ords []uint32, width int) {
	w.pending = slices.Grow(w.pending[:0], min(width*len(ords), 64<<10))
	for chunk := range slices.Chunk(ords, 16<<10) {
		buf := w.pending[:0]
		for _, ord := range chunk {
			code := ord + 1
			switch width {
			case 1:
				buf = append(buf, byte(code))
			case 2:
				buf = append(buf, byte(code), byte(code>>8))
			default:
				buf = storage.AppendU32(buf, code)
			}
		}
		w.write(buf)
	}
}

// lists inverts the column: docs by value, as bitmaps or as lists.
func (w *fieldWriter) lists(c *column) {
	present := sized(&w.present, int(w.docs))[:0]
	ends := sized(&w.ends, int(w.values)+1) // after the fill: end of each ord's docs
	clear(ends)
	for _, ord := range c.ords {
		if ord != noOrd {
			ends[ord+1]++
		}
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	pairs := ends[w.values]
	docs := sized(&w.inverse, int(pairs))
	next := ends[:w.values]
	for doc := range w.docs {
		list := c.at(doc)
		if len(list) > 0 {
			present = append(present, doc)
		}
		for _, ord := range list {
			docs[next[ord]] = doc
			next[ord]++
		}
	}
	w.begin(partBitmaps)
	starts := sized(&w.starts, int(w.values)+1)
	starts[0] = 0
	kept, lo := uint32(0), uint32(0)
	for ord := range w.values {
		list := docs[lo:next[ord]]
		lo = next[ord]
		if !w.bitmap(ord, list, false) {
			kept += uint32(copy(docs[kept:], list))
		}
		starts[ord+1] = kept
	}
	for i, state := range [states][]uint32{present, c.null, c.empty} {
		w.bitmap(w.values+uint32(i), state, true)
	}
	w.end(partBitmaps)
	w.array(partDir, bytesOf(w.dir))
	w.array(partDocLists, bytesOf(starts))
	w.array(partDocs, bytesOf(docs[:kept]))
}

// at returns the ords of a doc.
func (c *column) at(doc uint32) []uint32 {
	if c.starts != nil {
		return c.ords[c.starts[doc]:c.starts[doc+1]]
	}
	if c.ords[doc] == noOrd {
		return nil
	}
	return c.ords[doc : doc+1]
}

// emptyBitmap is what a bitmap without docs writes: its cookie and no container.
var emptyBitmap = storage.AppendU64(nil, 12346)

// bitmap writes the docs as a bitmap, unless a list is as good.
func (w *fieldWriter) bitmap(ord uint32, docs []uint32, always bool) bool {
	if len(docs) < bitmapDocs && !always {
		return false
	}
	if len(docs) == 0 {
		w.align(8)
		w.dir = append(w.dir, dirEntry{ord, 0, w.off - w.part[partBitmaps].off, uint64(len(emptyBitmap))})
		w.write(emptyBitmap)
		return true
	}
	bm := roaring.New()
	bm.AddMany(docs)
	bm.RunOptimize()
	size := bm.GetSerializedSizeInBytes()
	if size >= 4*uint64(len(docs)) && !always {
		return false
	}
	w.align(8)
	w.dir = append(w.dir, dirEntry{ord, uint32(len(docs)), w.off - w.part[partBitmaps].off, size})
	if _, err := bm.WriteTo(rawWriter{w}); err != nil && w.err == nil {
		w.err = err
	}
	return true
}

// rawWriter lets a bitmap write itself into the current part.
type rawWriter struct{ w *fieldWriter }

func (r rawWriter) Write(b []byte) (int, error) {
	r.w.write(b)
	return len(b), r.w.err
}

// bytesOf views an array as its little-endian bytes.
func bytesOf[T uint32 | uint64 | dirEntry](a []T) []byte {
	if len(a) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&a[0])), len(a)*int(unsafe.Sizeof(a[0])))
}
