package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// A Segment reads the metadata of one segment straight from its sections,
// which must stay readable and unchanged as long as it is in use. It is
// immutable and safe for any number of goroutines. Results never refer to the
// sections.
type Segment struct {
	docs   uint32
	fields []*field // ascending by name
}

// A field is one opened column with its indexes; the slices view the section.
type field struct {
	name    string
	typ     Type
	section string // for errors
	data    []byte // the whole section
	docs    uint32
	values  uint32
	parts   [parts]partRange

	nums   []int64
	dict   dict
	starts []uint32 // nil unless lists
	codes  codes
	bits   []byte
	dir    []dirEntry
	lists  []uint32
	listed []uint32
	// checked has a bit for each bitmap of dir that has been found sound, so
	// that the bytes are trusted only after one look and looked at only once.
	checked []atomic.Uint32
}

// codes is ord+1 for each doc or list element, in one of three widths.
type codes struct {
	w1 []uint8
	w2 []uint16
	w4 []uint32
	n  int
}

func (c *codes) at(i uint32) uint32 {
	switch {
	case c.w1 != nil:
		return uint32(c.w1[i])
	case c.w2 != nil:
		return uint32(c.w2[i])
	}
	return c.w4[i]
}

// Open opens the metadata of a segment of docs docs. It reads the table and
// one footer a field and scans nothing, so it takes microseconds whatever the
// size; damage elsewhere is found by Verify, or as ErrCorrupt by the call that
// meets it.
func Open(section func(name string) ([]byte, bool), docs uint32) (*Segment, error) {
	if err := storage.CheckMachine(); err != nil {
		return nil, err
	}
	b, ok := section(tableName)
	if !ok {
		return nil, storage.Corruptf(tableName, 0, "section is missing")
	}
	d := storage.NewDecoder(tableName, 0, b)
	if v := d.Uvarint(); d.Err() == nil && v != formatVersion {
		return nil, fmt.Errorf("%w: metadata version %d, this build reads %d", storage.ErrVersion, v, formatVersion)
	}
	s := &Segment{docs: docs}
	for i := range d.Count(2) {
		name, typ := d.String(), Type(d.Byte())
		if last := len(s.fields) - 1; last >= 0 && s.fields[last].name >= name || checkField(name) != nil {
			d.Fail("field %q out of order", shorten(name))
		}
		if d.Err() != nil {
			break
		}
		number := strconv.Itoa(i)
		data, ok := section(number)
		if !ok {
			return nil, storage.Corruptf(number, 0, "section of field %q is missing", shorten(name))
		}
		f, err := openField(number, data, docs)
		if err != nil {
			return nil, err
		}
		if f.typ != typ {
			return nil, storage.Corruptf(number, int64(len(data)), "field %q is %s in the table, %s here", shorten(name), typ, f.typ)
		}
		f.name = name
		s.fields = append(s.fields, f)
	}
	d.End()
	if err := d.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// openField reads the footer and checks that every part is where and as long
// as the counts say.
func openField(section string, data []byte, docs uint32) (*field, error) {
	if len(data) < footerSize {
		return nil, storage.Corruptf(section, 0, "%d bytes are no field", len(data))
	}
	foot := len(data) - footerSize
	d := storage.NewDecoder(section, int64(foot), data[foot:])
	f := &field{section: section, data: data, docs: docs}
	for i := range f.parts {
		f.parts[i] = partRange{d.U64(), d.U64()}
	}
	if got := d.U32(); got != docs {
		d.Fail("field of %d docs in a segment of %d", got, docs)
	}
	f.values = d.U32()
	bitmaps, ords := d.U32(), d.U32()
	typ, width, flags, version := Type(d.Byte()), d.Byte(), d.Byte(), d.Byte()
	if d.U32() != fieldMagic {
		d.Fail("bad magic")
	}
	if d.Err() == nil && version != formatVersion {
		return nil, fmt.Errorf("%w: field version %d, this build reads %d", storage.ErrVersion, version, formatVersion)
	}
	if typ >= typeEnd || typ == Undeclared && f.values > 0 || int(width) != codeWidth(f.values) || flags > 1 {
		d.Fail("bad type, width or flags")
	}
	if flags == 0 && ords != docs {
		d.Fail("%d ords for %d docs", ords, docs)
	}
	f.typ = typ
	p := partReader{d: d, data: data[:foot], parts: &f.parts}
	f.view(&p, bitmaps, ords, int(width), flags == 1)
	return f, d.Err()
}

// view casts the parts to arrays.
func (f *field) view(p *partReader, bitmaps, ords uint32, width int, lists bool) {
	n := uint64(f.values)
	if f.typ.isText() {
		blocks := (n + blockKeywords - 1) / blockKeywords
		f.dict = dict{name: f.section, data: p.bytes(partValues), n: f.values}
		f.dict.blocks = array[uint64](p, partBlocks, blocks)
	} else {
		f.nums = array[int64](p, partValues, n)
		p.exact(partBlocks, 0)
	}
	if lists {
		f.starts = array[uint32](p, partStarts, uint64(f.docs)+1)
	} else {
		p.exact(partStarts, 0)
	}
	f.codes.n = int(ords)
	switch width {
	case 1:
		f.codes.w1 = array[uint8](p, partCodes, uint64(ords))
	case 2:
		f.codes.w2 = array[uint16](p, partCodes, uint64(ords))
	default:
		f.codes.w4 = array[uint32](p, partCodes, uint64(ords))
	}
	f.bits = p.bytes(partBitmaps)
	f.dir = array[dirEntry](p, partDir, uint64(bitmaps))
	f.lists = array[uint32](p, partDocLists, n+1)
	f.listed = array[uint32](p, partDocs, f.parts[partDocs].size/4)
	if len(f.dir) < states {
		p.d.Fail("directory of %d bitmaps", len(f.dir))
		return
	}
	if p.d.Err() == nil && (f.lists[0] != 0 || int(f.lists[n]) != len(f.listed)) {
		p.d.Fail("doc lists do not cover their part")
	}
	f.checked = make([]atomic.Uint32, (len(f.dir)+31)/32)
}

// A partReader cuts parts out of a section, failing its decoder on damage.
type partReader struct {
	d     *storage.Decoder
	data  []byte
	parts *[parts]partRange
}

func (p *partReader) bytes(i int) []byte {
	r := p.parts[i]
	n := uint64(len(p.data))
	if r.off > n || r.size > n-r.off || r.off%partAlign != 0 {
		p.d.Fail("part %d at %d of %d bytes lies outside", i, r.off, r.size)
	}
	if p.d.Err() != nil {
		return nil
	}
	return p.data[r.off : r.off+r.size : r.off+r.size]
}

// exact returns a part that must have size bytes.
func (p *partReader) exact(i int, size uint64) []byte {
	b := p.bytes(i)
	if uint64(len(b)) != size {
		p.d.Fail("part %d has %d bytes, want %d", i, len(b), size)
		return nil
	}
	return b
}

// array views a part of n elements, or copies it where the bytes are not
// aligned, which a mapped file's are. It is never nil without an error, so
// that codes can tell its width by it.
func array[T uint8 | uint16 | uint32 | uint64 | int64 | dirEntry](p *partReader, i int, n uint64) []T {
	var zero T
	b := p.exact(i, n*uint64(unsafe.Sizeof(zero)))
	if len(b) == 0 {
		return []T{}
	}
	if uintptr(unsafe.Pointer(&b[0]))%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
	}
	out := make([]T, n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), len(b)), b)
	return out
}

// Docs returns the number of docs, tombstones included.
func (s *Segment) Docs() uint32 { return s.docs }

// Fields yields the names and types of the fields that some doc holds.
func (s *Segment) Fields(yield func(name string, typ Type) bool) {
	for _, f := range s.fields {
		if !yield(f.name, f.typ) {
			return
		}
	}
}

// field returns nil when no doc holds the field.
func (s *Segment) field(name string) *field {
	if s == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(s.fields, name, func(f *field, name string) int { return strings.Compare(f.name, name) })
	if !ok {
		return nil
	}
	return s.fields[i]
}

// Value returns what doc holds in a field. A list comes back as the set of its
// values in ascending order (a list of one as the single value); the list as
// written is in the stored document.
func (s *Segment) Value(field string, doc uint32) (Value, error) {
	if doc >= s.docs {
		return Value{}, storage.Invalidf("doc %d of %d", doc, s.docs)
	}
	f := s.field(field)
	if f == nil {
		return Value{}, nil
	}
	lo, hi, err := f.span(doc)
	if err != nil {
		return Value{}, err
	}
	var l listBuilder
	cur := f.dict.cursor()
	for i := lo; i < hi; i++ {
		code := f.codes.at(i)
		if code == 0 && f.starts == nil {
			return f.stateOf(doc)
		}
		v, err := f.value(&cur, code-1)
		if err != nil {
			return Value{}, err
		}
		if hi-lo == 1 {
			return v, nil
		}
		if err := l.add(v, f.typ); err != nil {
			return Value{}, err
		}
	}
	if l.n == 0 {
		return f.stateOf(doc)
	}
	return l.finish(f.typ), nil
}

// span returns the range of doc's codes.
func (f *field) span(doc uint32) (lo, hi uint32, err error) {
	if f.starts == nil {
		return doc, doc + 1, nil
	}
	lo, hi = f.starts[doc], f.starts[doc+1]
	if lo > hi || uint64(hi) > uint64(f.codes.n) {
		return 0, 0, f.corrupt(partStarts, "list of doc %d out of order", doc)
	}
	return lo, hi, nil
}

// stateOf tells missing, null and the empty list apart.
func (f *field) stateOf(doc uint32) (Value, error) {
	for _, state := range []int{stateNull, stateEmpty} {
		bm, err := f.state(state)
		if err != nil {
			return Value{}, err
		}
		if bm.Contains(doc) {
			if state == stateNull {
				return Null(f.typ), nil
			}
			return Value{typ: f.typ, form: formList}, nil
		}
	}
	return Value{}, nil
}

// value returns the value of an ord; cur is reused between calls.
func (f *field) value(cur *dictCursor, ord uint32) (Value, error) {
	if ord >= f.values {
		return Value{}, f.corrupt(partCodes, "ord %d of %d values", ord, f.values)
	}
	if !f.typ.isText() {
		return numberValue(f.typ, f.nums[ord]), nil
	}
	if err := cur.seek(ord); err != nil {
		return Value{}, err
	}
	return keywordValue(string(cur.key)), nil
}

func (f *field) corrupt(part int, format string, args ...any) error {
	return storage.Corruptf(f.section, int64(f.parts[part].off), "field %q: "+format, append([]any{shorten(f.name)}, args...)...)
}

// stored returns the bytes of bitmap i of the directory, looked through on
// their first use.
func (f *field) stored(i int) ([]byte, error) {
	e := &f.dir[i]
	n := uint64(len(f.bits))
	if e.off > n || e.size > n-e.off || e.off%8 != 0 {
		return nil, f.corrupt(partDir, "bitmap %d lies outside", i)
	}
	b := f.bits[e.off : e.off+e.size : e.off+e.size]
	word, bit := &f.checked[i/32], uint32(1)<<(i%32)
	if word.Load()&bit == 0 {
		if err := checkBitmap(b, f.docs, e.count); err != nil {
			return nil, f.corrupt(partBitmaps, "bitmap %d: %v", i, err)
		}
		word.Or(bit)
	}
	return b, nil
}

// bitmap returns a view of bitmap i. The view lies on the section, which may
// be a read-only map: it must never be changed, nor outlive the call that
// asked for it (case B16).
func (f *field) bitmap(i int) (*roaring.Bitmap, error) {
	b, err := f.stored(i)
	if err != nil {
		return nil, err
	}
	bm := roaring.New()
	if _, err := bm.FromBuffer(b); err != nil {
		return nil, f.corrupt(partBitmaps, "bitmap %d: %v", i, err)
	}
	return bm, nil
}

// stateIndex is where the bitmap of a state lies in the directory.
func (f *field) stateIndex(state int) int { return len(f.dir) - states + state }

func (f *field) state(state int) (*roaring.Bitmap, error) { return f.bitmap(f.stateIndex(state)) }

// bitmapFrom returns the first directory index of an ord ≥ ord.
func (f *field) bitmapFrom(ord uint32) int {
	i, _ := slices.BinarySearchFunc(f.dir[:len(f.dir)-states], ord, func(e dirEntry, ord uint32) int {
		switch {
		case e.ord < ord:
			return -1
		case e.ord > ord:
			return 1
		}
		return 0
	})
	return i
}

// The portable form of a roaring bitmap (RoaringFormatSpec): a cookie, with
// the number of containers and a bit for each that holds runs, or the cookie
// without runs and the number; key and count-1 (uint16) of each container; the
// offsets of all (uint32) unless there are runs and less than four containers;
// then the containers: runs as their number and (start, length-1), up to 4,096
// docs as an array, more as 1,024 words.
const (
	cookieRuns = 12347
	cookiePure = 12346
	offsetsMin = 4
	wordsPer   = 1024
	arrayMax   = 4096
)

var errBitmap = errors.New("not a sound bitmap")

// walkBitmap walks the containers. Exactly one of words (8,192 bytes), array
// (2 bytes a doc) and runs (4 bytes each) is given. It checks all lengths, and
// nothing inside the containers.
func walkBitmap(b []byte, each func(key, count int, words, array, runs []byte) error) error {
	take := func(n int) []byte {
		if n > len(b) {
			b = nil
			return nil
		}
		p := b[:n]
		b = b[n:]
		return p
	}
	if len(b) < 8 {
		return errBitmap
	}
	u16 := binary.LittleEndian.Uint16
	var runBits []byte
	n := 0
	if cookie := binary.LittleEndian.Uint32(b); cookie == cookiePure {
		n = int(min(binary.LittleEndian.Uint32(b[4:]), 1<<16+1))
		b = b[8:]
	} else if cookie&0xffff == cookieRuns {
		n = int(cookie>>16) + 1
		b = b[4:]
		runBits = take((n + 7) / 8)
	} else {
		return errBitmap
	}
	if n > 1<<16 || len(b) < 4*n {
		return errBitmap
	}
	head := take(4 * n)
	if runBits == nil || n >= offsetsMin {
		if take(4*n) == nil && n > 0 {
			return errBitmap
		}
	}
	for i := range n {
		key, count := int(u16(head[4*i:])), int(u16(head[4*i+2:]))+1
		var words, array, runs []byte
		ok := true
		switch {
		case runBits != nil && runBits[i/8]>>(i%8)&1 != 0:
			if len(b) < 2 {
				return errBitmap
			}
			runs = take(4 * int(u16(take(2))))
			ok = runs != nil
		case count > arrayMax:
			words = take(wordsPer * 8)
			ok = words != nil
		default:
			array = take(2 * count)
			ok = array != nil
		}
		if !ok {
			return errBitmap
		}
		if err := each(key, count, words, array, runs); err != nil {
			return err
		}
	}
	if len(b) != 0 {
		return errBitmap
	}
	return nil
}

// checkBitmap checks everything that the roaring library takes for granted:
// order, counts, and that no doc is docs or above. It is linear, where the
// library's own Validate is quadratic in the runs.
func checkBitmap(b []byte, docs, want uint32) error {
	last, total := -1, 0
	err := walkBitmap(b, func(key, count int, words, array, runs []byte) error {
		n, top := containerCount(words, array, runs)
		if n != count || key <= last || uint64(key)<<16+uint64(top) >= uint64(docs) {
			return errBitmap
		}
		last, total = key, total+n
		return nil
	})
	if err == nil && total != int(want) {
		err = fmt.Errorf("%d docs, the directory says %d", total, want)
	}
	return err
}

// containerCount returns the number of docs and the highest of a container,
// or 0 for one that is out of order.
func containerCount(words, array, runs []byte) (n, top int) {
	top = -1
	for i := 0; 8*i < len(words); i++ {
		if w := binary.LittleEndian.Uint64(words[8*i:]); w != 0 {
			n += bits.OnesCount64(w)
			top = 64*i + 63 - bits.LeadingZeros64(w)
		}
	}
	for ; len(array) >= 2; array = array[2:] {
		v := int(binary.LittleEndian.Uint16(array))
		if v <= top {
			return 0, 0
		}
		top = v
		n++
	}
	for ; len(runs) >= 4; runs = runs[4:] {
		start, more := int(binary.LittleEndian.Uint16(runs)), int(binary.LittleEndian.Uint16(runs[2:]))
		if n > 0 && start <= top+1 || start+more > 0xffff {
			return 0, 0
		}
		top = start + more
		n += more + 1
	}
	return n, top
}

// orBitmap adds a stored bitmap that has passed checkBitmap for these words.
func orBitmap(words []uint64, b []byte) error {
	return walkBitmap(b, func(key, _ int, bitset, array, runs []byte) error {
		if (key+1)*wordsPer > len(words) {
			return errBitmap
		}
		w := words[key*wordsPer : (key+1)*wordsPer]
		switch {
		case bitset != nil:
			for i := range w {
				w[i] |= binary.LittleEndian.Uint64(bitset[8*i:])
			}
		case array != nil:
			for ; len(array) >= 2; array = array[2:] {
				d := binary.LittleEndian.Uint16(array)
				w[d>>6] |= 1 << (d & 63)
			}
		default:
			for ; len(runs) >= 4; runs = runs[4:] {
				start := int(binary.LittleEndian.Uint16(runs))
				setRun(w, start, min(start+int(binary.LittleEndian.Uint16(runs[2:])), 0xffff))
			}
		}
		return nil
	})
}

// setRun sets the bits first to last.
func setRun(w []uint64, first, last int) {
	lo, hi := first>>6, last>>6
	head, tail := ^uint64(0)<<(first&63), ^uint64(0)>>(63-last&63)
	if lo == hi {
		w[lo] |= head & tail
		return
	}
	w[lo] |= head
	for i := lo + 1; i < hi; i++ {
		w[i] = ^uint64(0)
	}
	w[hi] |= tail
}
