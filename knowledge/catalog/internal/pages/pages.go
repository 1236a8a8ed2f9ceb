package pages

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"

	"github.com/quarrysearch/quarry/storage"
)

// What a bbolt file is made of. Integers are in the byte order of the machine
// that wrote it, as bbolt has it.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader  = 16 // id u64, flags u16, count u16, overflow u32
	elementSize = 16 // branch: pos u32, key u32, page u64; leaf: flags, pos, key, value u32
	metaSize    = 64 // magic, version, page size, flags u32; root, sequence, free list, high, txid, checksum u64
	bucketSize  = 16 // root u64, sequence u64

	flagBranch = 0x01
	flagLeaf   = 0x02
	flagFree   = 0x10

	minPage  = 1 << 10
	maxPage  = 1 << 16
	maxDepth = 32    // of a tree; with two keys a branch already 2^32 leaves
	maxKey   = 32768 // bbolt's limit
)

// A walker is one walk.
type walker struct {
	r    io.ReaderAt
	name string
	size int64 // of the file

	page int64  // size of a page
	meta meta   // the one bbolt will choose
	used []bool // by page number
	emit func(bucket string, key, value []byte, off int64) error
}

type meta struct {
	page             uint32
	root, free, high uint64 // high: the first page number not in use
	txid             uint64
}

// Walk checks a file of size bytes and calls emit for each bucket (with a nil
// key) and each pair in it, in order; off is where the key lies. Slices are dead
// after the call. txid numbers the transaction that wrote the state there is.
// An error is emit's, or storage.ErrCorrupt with name and offset.
func Walk(r io.ReaderAt, size int64, name string, emit func(bucket string, key, value []byte, off int64) error) (txid uint64, err error) {
	w := &walker{r: r, name: name, size: size, emit: emit}
	if err := w.findMeta(); err != nil {
		return 0, err
	}
	w.used = make([]bool, w.meta.high)
	if err := w.tree(w.meta.root, "", nil, nil, 0); err != nil {
		return 0, err
	}
	return w.meta.txid, w.freeList()
}

func (w *walker) corrupt(off int64, format string, args ...any) error {
	return storage.Corruptf(w.name, off, format, args...)
}

// readMeta returns the meta page at off, if it is whole.
func (w *walker) readMeta(off int64) (m meta, ok bool) {
	var b [pageHeader + metaSize]byte
	if _, err := w.r.ReadAt(b[:], off); err != nil {
		return meta{}, false
	}
	f := b[pageHeader:]
	u32 := func(i int) uint32 { return binary.NativeEndian.Uint32(f[i:]) }
	u64 := func(i int) uint64 { return binary.NativeEndian.Uint64(f[i:]) }
	h := fnv.New64a()
	h.Write(f[:metaSize-8])
	ok = u32(0) == boltMagic && u32(4) == boltVersion && u64(56) == h.Sum64()
	return meta{page: u32(8), root: u64(16), free: u64(32), high: u64(40), txid: u64(48)}, ok
}

// findMeta chooses the meta page as bbolt does: the size of a page comes from
// the first one that is whole, then of two whole ones the newer counts. One
// that is not whole is what a torn write leaves.
func (w *walker) findMeta() error {
	m, ok := w.readMeta(0)
	for off := int64(minPage); !ok && off <= maxPage; off *= 2 {
		m, ok = w.readMeta(off)
	}
	if !ok {
		return w.corrupt(0, "no whole meta page")
	}
	w.page = int64(m.page)
	if w.page < minPage || w.page > maxPage || w.page&(w.page-1) != 0 {
		return w.corrupt(0, "page size %d", m.page)
	}
	m0, ok0 := w.readMeta(0)
	m1, ok1 := w.readMeta(w.page)
	w.meta = m0
	off := int64(0)
	if ok1 && (!ok0 || m1.txid > m0.txid) {
		w.meta, off = m1, w.page
	} else if !ok0 {
		return w.corrupt(w.page, "no whole meta page of %d bytes", w.page)
	}
	switch {
	case int64(w.meta.page) != w.page:
		return w.corrupt(off, "two page sizes, %d and %d", w.page, w.meta.page)
	case w.meta.high < 4 || w.meta.high > uint64(w.size/w.page):
		return w.corrupt(off, "%d pages in a file of %d", w.meta.high, w.size/w.page)
	case w.meta.txid > 1<<62:
		return w.corrupt(off, "transaction number %d", w.meta.txid)
	}
	return nil
}

// read returns a page with its overflow, marked as used.
func (w *walker) read(id uint64) (flags uint16, count int, b []byte, err error) {
	if id < 2 || id >= w.meta.high {
		return 0, 0, nil, w.corrupt(0, "page %d of %d", id, w.meta.high)
	}
	off := int64(id) * w.page
	b = make([]byte, w.page)
	if _, err := w.r.ReadAt(b, off); err != nil {
		return 0, 0, nil, w.corrupt(off, "page %d cannot be read: %v", id, err)
	}
	have, overflow := binary.NativeEndian.Uint64(b), uint64(binary.NativeEndian.Uint32(b[12:]))
	if have != id {
		return 0, 0, nil, w.corrupt(off, "page %d says it is %d", id, have)
	}
	if overflow >= w.meta.high-id {
		return 0, 0, nil, w.corrupt(off, "page %d has %d more, beyond the last, %d", id, overflow, w.meta.high-1)
	}
	for i := id; i <= id+overflow; i++ {
		if w.used[i] {
			return 0, 0, nil, w.corrupt(off, "page %d is used twice", i)
		}
		w.used[i] = true
	}
	if overflow > 0 {
		b = append(b, make([]byte, int64(overflow)*w.page)...)
		if _, err := w.r.ReadAt(b[w.page:], off+w.page); err != nil {
			return 0, 0, nil, w.corrupt(off+w.page, "page %d cannot be read: %v", id+1, err)
		}
	}
	return binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:])), b, nil
}

// tree walks the tree at a page, whose keys k must have low ≤ k < high (nil:
// no bound). bucket is "" for the tree of all buckets.
func (w *walker) tree(id uint64, bucket string, low, high []byte, depth int) error {
	if depth > maxDepth {
		return w.corrupt(int64(id)*w.page, "a tree of more than %d levels", maxDepth)
	}
	flags, count, b, err := w.read(id)
	if err != nil {
		return err
	}
	off := int64(id) * w.page
	switch {
	case flags == flagLeaf:
		return w.leaf(b, off, count, bucket, low, high)
	case flags != flagBranch:
		return w.corrupt(off, "page %d of a tree has type %#x", id, flags)
	case count == 0:
		return w.corrupt(off, "page %d branches nowhere", id)
	case pageHeader+count*elementSize > len(b):
		return w.corrupt(off, "%d branches in %d bytes", count, len(b))
	}
	keys := make([][]byte, count+1)
	keys[count] = high
	for i := range count {
		e := b[pageHeader+i*elementSize:]
		key, _, err := w.span(b, off, count, i, binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:]), 0)
		if err != nil {
			return err
		}
		if err := w.order(off, i, key, low, high); err != nil {
			return err
		}
		keys[i], low = key, key
	}
	for i := range count {
		child := binary.NativeEndian.Uint64(b[pageHeader+i*elementSize+8:])
		if err := w.tree(child, bucket, keys[i], keys[i+1], depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf walks the pairs of a page, or of a bucket kept in its parent's page.
func (w *walker) leaf(b []byte, off int64, count int, bucket string, low, high []byte) error {
	if pageHeader+count*elementSize > len(b) {
		return w.corrupt(off, "%d pairs in %d bytes", count, len(b))
	}
	for i := range count {
		e := b[pageHeader+i*elementSize:]
		u32 := func(j int) uint32 { return binary.NativeEndian.Uint32(e[j:]) }
		key, value, err := w.span(b, off, count, i, u32(4), u32(8), u32(12))
		if err != nil {
			return err
		}
		if err := w.order(off, i, key, low, high); err != nil {
			return err
		}
		low = key
		at := off + pageHeader + int64(i)*elementSize + int64(u32(4))
		isBucket := u32(0) == 1
		if !isBucket && u32(0) != 0 || isBucket != (bucket == "") {
			return w.corrupt(at, "key %q has type %#x", key, u32(0))
		}
		if !isBucket {
			err = w.emit(bucket, key, value, at)
		} else {
			err = w.bucket(string(key), value, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) bucket(name string, value []byte, off int64) error {
	if err := w.emit(name, nil, nil, off); err != nil {
		return err
	}
	if len(value) < bucketSize {
		return w.corrupt(off, "bucket %q has a head of %d bytes", name, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return w.tree(root, name, nil, nil, 0)
	}
	// A page without a number: bbolt would free the one it names.
	inline := value[bucketSize:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint64(inline) != 0 || binary.NativeEndian.Uint16(inline[8:]) != flagLeaf {
		return w.corrupt(off, "bucket %q has no page", name)
	}
	return w.leaf(inline, off, int(binary.NativeEndian.Uint16(inline[10:])), name, nil, nil)
}

// span returns key and value of element i, which say where they lie from the
// element on.
func (w *walker) span(b []byte, off int64, count, i int, pos, key, value uint32) (k, v []byte, err error) {
	start := pageHeader + int64(i)*elementSize + int64(pos)
	end := start + int64(key) + int64(value)
	if start < pageHeader+int64(count)*elementSize || end > int64(len(b)) || key == 0 || key > maxKey {
		return nil, nil, w.corrupt(off, "pair %d lies at bytes %d to %d of %d", i, start, end, len(b))
	}
	return b[start : start+int64(key)], b[start+int64(key) : end], nil
}

// order checks that the keys of a page ascend and stay within those of the
// page above. The first may equal the bound below.
func (w *walker) order(off int64, i int, key, low, high []byte) error {
	if c := bytes.Compare(key, low); low != nil && (c < 0 || c == 0 && i > 0) || high != nil && bytes.Compare(key, high) >= 0 {
		return w.corrupt(off, "key %d is out of order", i)
	}
	return nil
}

// freeList checks that every page is in use or free, and none both.
func (w *walker) freeList() error {
	flags, count, b, err := w.read(w.meta.free)
	if err != nil {
		return err
	}
	off := int64(w.meta.free) * w.page
	if flags != flagFree {
		return w.corrupt(off, "the free list has type %#x", flags)
	}
	ids, n := b[pageHeader:], uint64(count)
	if n == 0xFFFF { // the count did not fit
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return w.corrupt(off, "%d free pages in %d bytes", n, len(ids))
	}
	for i := range n {
		id := binary.NativeEndian.Uint64(ids[8*i:])
		if id < 2 || id >= w.meta.high {
			return w.corrupt(off, "free page %d of %d", id, w.meta.high)
		}
		if w.used[id] {
			return w.corrupt(off, "page %d is free and in use", id)
		}
		w.used[id] = true
	}
	for id := uint64(2); id < w.meta.high; id++ {
		if !w.used[id] {
			return w.corrupt(int64(id)*w.page, "page %d is neither in use nor free", id)
		}
	}
	return nil
}
