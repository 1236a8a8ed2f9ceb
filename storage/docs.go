package storage

import (
	"encoding/binary"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// Docs reads the stored documents of one segment. Its methods may be called
// from several goroutines.
type Docs struct {
	data   []byte
	index  []byte // entries, docIndexEntry bytes each, one more than blocks
	docs   uint32
	blocks int
	mode   DocMode
	pool   sync.Pool // *docBlock: each P keeps the block it decoded last
}

// A docBlock is a decoded block.
type docBlock struct {
	block int    // its number, -1 for none
	first uint32 // its first doc
	start int    // offset in raw of the first doc's bytes
	buf   []byte // owned, reused
	raw   []byte // the block: buf, or bytes of the data section
	// Where the last doc read lies: the doc after it is found in one step.
	doc  uint32
	lens int // offset in raw of the length of doc
	body int // offset in raw of the bytes of doc
}

// docKeep is the largest buffer kept for the next block; a larger one, for a
// single large document, is left to the collector.
const docKeep = 256 << 10

// OpenDocs opens the stored documents of a segment of docs documents, in
// constant time. Blocks are checked as they are read.
func OpenDocs(section func(name string) ([]byte, bool), docs int) (*Docs, error) {
	index, ok := section(docsIndexSection)
	if !ok {
		return nil, Corruptf(docsIndexSection, 0, "section of the stored documents is missing")
	}
	data, ok := section(docsDataSection)
	if !ok {
		return nil, Corruptf(docsDataSection, 0, "section of the stored documents is missing")
	}
	h := NewDecoder(docsIndexSection, 0, index)
	version, mode, n, blocks, size, zero := h.U32(), h.U32(), h.U32(), h.U32(), h.U64(), h.U64()
	if h.Err() != nil {
		return nil, h.Err()
	}
	if version != docsVersion {
		return nil, &VersionError{File: "stored documents, section " + docsIndexSection, Have: version, Min: docsVersion1, Max: docsVersion}
	}
	switch {
	case mode > uint32(DocRaw) || zero != 0:
		h.Fail("unknown mode %d or reserved bytes %d", mode, zero)
	case docs < 0 || uint64(n) != uint64(docs):
		h.Fail("want %d docs, have %d", docs, n)
	case size != uint64(len(data)):
		h.Fail("want %d bytes of data, have %d", size, len(data))
	case uint64(h.Len()) != docIndexEntry*(uint64(blocks)+1):
		h.Fail("want %d block entries, have %d bytes", uint64(blocks)+1, h.Len())
	}
	if h.Err() != nil {
		return nil, h.Err()
	}
	d := &Docs{data: data, index: h.Raw(h.Len()), docs: n, blocks: int(blocks), mode: DocMode(mode)}
	if first, last := d.entry(0), d.entry(d.blocks); first.off != 0 || first.first != 0 || last.off != size || last.first != n {
		return nil, Corruptf(docsIndexSection, docsHeaderSize, "first and last block entry do not span the docs")
	}
	return d, nil
}

// Len returns the number of docs.
func (d *Docs) Len() int { return int(d.docs) }

// Blocks returns the number of blocks, for inspection.
func (d *Docs) Blocks() int { return d.blocks }

func (d *Docs) entry(i int) docBlockEntry {
	b := d.index[i*docIndexEntry:][:docIndexEntry]
	le := binary.LittleEndian
	return docBlockEntry{off: le.Uint64(b), first: le.Uint32(b[8:]), size: le.Uint32(b[12:]), sum: le.Uint32(b[16:])}
}

// Get appends the stored document doc to dst and returns the result. It
// decodes one block of about 8 KiB, or none when the block is the one this P
// decoded last. ErrNotFound when doc is out of range; ErrCorrupt.
func (d *Docs) Get(doc uint32, dst []byte) ([]byte, error) {
	b, _ := d.pool.Get().(*docBlock)
	if b == nil {
		b = &docBlock{block: -1}
	}
	p, err := d.get(doc, b)
	if err == nil {
		dst = append(dst, p...)
	}
	if cap(b.buf) > docKeep {
		b.buf, b.raw, b.block = nil, nil, -1
	}
	d.pool.Put(b)
	return dst, err
}

// A DocCursor reads documents in ascending order, as merges and scrolls do,
// decoding each block once. It is used by one goroutine.
type DocCursor struct {
	d *Docs
	b docBlock
}

// Cursor returns a cursor over the documents.
func (d *Docs) Cursor() *DocCursor { return &DocCursor{d: d, b: docBlock{block: -1}} }

// Get returns a document, valid until the next call and not to be written to.
// Any order works; ascending order is fast.
func (c *DocCursor) Get(doc uint32) ([]byte, error) { return c.d.get(doc, &c.b) }

// get returns the bytes of doc, which lie in b or in the data section.
func (d *Docs) get(doc uint32, b *docBlock) ([]byte, error) {
	if doc >= d.docs {
		return nil, ErrNotFound
	}
	if b.block < 0 || doc < b.first || doc >= d.entry(b.block+1).first {
		if err := d.load(doc, b); err != nil {
			b.block = -1
			return nil, err
		}
	}
	if doc < b.doc {
		b.rewind()
	}
	for {
		n, w := binary.Uvarint(b.raw[b.lens:])
		if w <= 0 || n > uint64(len(b.raw)-b.body) {
			off := int64(d.entry(b.block).off)
			b.block = -1
			return nil, Corruptf(docsDataSection, off, "doc %d does not fit its block", b.doc)
		}
		if b.doc == doc {
			return b.raw[b.body : b.body+int(n) : b.body+int(n)], nil
		}
		b.doc++
		b.lens += w
		b.body += int(n)
	}
}

// load decodes the block that holds doc into b.
func (d *Docs) load(doc uint32, b *docBlock) error {
	lo, hi := 0, d.blocks // the last block whose first doc is ≤ doc
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if binary.LittleEndian.Uint32(d.index[mid*docIndexEntry+8:]) <= doc {
			lo = mid
		} else {
			hi = mid
		}
	}
	e, next := d.entry(lo), d.entry(lo+1)
	at := int64(docsHeaderSize + lo*docIndexEntry)
	size := int(e.size &^ docBlockZstd)
	// Only these two entries are trusted, after this check: binary search in
	// a damaged index ends at some block, perhaps the wrong one.
	switch {
	case e.off > next.off || next.off > uint64(len(d.data)):
		return Corruptf(docsIndexSection, at, "block %d at [%d,%d) of %d bytes of data", lo, e.off, next.off, len(d.data))
	case doc < e.first || doc >= next.first || next.first-e.first > docBlockDocs:
		return Corruptf(docsIndexSection, at, "block %d holds docs [%d,%d), want doc %d", lo, e.first, next.first, doc)
	}
	stored := d.data[e.off:next.off]
	if d.mode == DocZstd && uint32(xxhash.Sum64(stored)) != e.sum {
		return Corruptf(docsDataSection, int64(e.off), "checksum mismatch in block %d of the stored documents", lo)
	}
	if e.size&docBlockZstd == 0 {
		b.raw = stored
	} else {
		if size > docMaxBlock || int64(size) > docMaxRatio*int64(len(stored)) {
			return Corruptf(docsIndexSection, at, "block %d expands from %d to %d bytes", lo, len(stored), size)
		}
		if err := b.decode(stored, size); err != nil {
			return Corruptf(docsDataSection, int64(e.off), "block %d: %v", lo, err)
		}
	}
	if len(b.raw) != size {
		return Corruptf(docsIndexSection, at, "block %d: want %d bytes, have %d", lo, size, len(b.raw))
	}
	b.block, b.first = lo, e.first
	if !b.findBody(int(next.first - e.first)) {
		return Corruptf(docsDataSection, int64(e.off), "block %d: bad document lengths", lo)
	}
	b.rewind()
	return nil
}

func (b *docBlock) decode(stored []byte, size int) error {
	if cap(b.buf) < size {
		b.buf = make([]byte, 0, max(size, docBlockSize+docBlockSize/8))
	}
	dec := docDecoders.Get().(*zstd.Decoder)
	raw, err := dec.DecodeAll(stored, b.buf[:0:size])
	docDecoders.Put(dec)
	b.raw = raw
	return err
}

// findBody walks the lengths of n docs, checks that they and the bodies fill
// the block, and stores where the bodies start.
func (b *docBlock) findBody(n int) bool {
	lens, sum := 0, uint64(0)
	for range n {
		v, w := binary.Uvarint(b.raw[lens:])
		if w <= 0 || v > uint64(len(b.raw)) {
			return false
		}
		lens += w
		sum += v
	}
	b.start = lens
	return uint64(lens)+sum == uint64(len(b.raw))
}

func (b *docBlock) rewind() { b.doc, b.lens, b.body = b.first, 0, b.start }
