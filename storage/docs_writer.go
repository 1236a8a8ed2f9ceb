package storage

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// Stored documents format versions, newest last.
const (
	docsVersion1 = 1 // the first
	docsVersion  = docsVersion1
)

// Names of the two sections of the stored documents.
const (
	docsDataSection  = "data"
	docsIndexSection = "index"
)

const (
	// MaxStoredDoc is the size limit of a stored document in bytes.
	MaxStoredDoc = 64 << 20

	docBlockSize = 8 << 10 // a block is closed once it holds as many bytes
	docBlockDocs = 1 << 10 // or as many docs

	// docMaxRatio bounds what a compressed block may claim to expand to, so
	// that a damaged index cannot make a reader allocate much. The writer
	// leaves a block that compresses better uncompressed.
	docMaxRatio = 1 << 10

	docsHeaderSize = 32
	docIndexEntry  = 20 // bytes a block in the index section
	docBlockZstd   = 1 << 31
)

// DocMode tells how a DocWriter stores blocks.
type DocMode uint8

// The modes. Readers need not know which was used.
const (
	// DocZstd compresses blocks with zstd and checks their sums when read.
	// For files.
	DocZstd DocMode = iota
	// DocRaw stores blocks as they are, without sums: reading is a copy. For
	// memory segments.
	DocRaw
)

// A DocWriter writes the stored documents of one segment in doc order. The
// first error sticks. It is used by one goroutine.
type DocWriter struct {
	create func(section string) (io.Writer, error)
	w      io.Writer
	mode   DocMode
	err    error

	n     int    // docs in the open block
	first uint32 // its first doc
	docs  uint32 // docs added
	off   uint64 // bytes of data written
	*docBuffers
}

// docBuffers is the working space of a DocWriter, kept from one to the next.
type docBuffers struct {
	lens   []byte // varint lengths of the docs in the open block
	body   []byte // their bytes
	block  []byte // lens and body together
	packed []byte // the block compressed; the index section at the end
	index  []docBlockEntry
}

var docBufferPool = sync.Pool{New: func() any { return new(docBuffers) }}

// release gives the buffers back unless a large document has blown them up.
func (w *DocWriter) release() {
	b := w.docBuffers
	w.docBuffers = &docBuffers{} // of a writer that is used after its end
	if cap(b.body)+cap(b.block)+cap(b.packed) <= 1<<20 {
		b.lens, b.body, b.index = b.lens[:0], b.body[:0], b.index[:0]
		docBufferPool.Put(b)
	}
}

// docBlockEntry is what the index section says about a block.
type docBlockEntry struct {
	off   uint64 // of its first byte in the data section
	first uint32 // its first doc
	size  uint32 // uncompressed, with docBlockZstd when compressed
	sum   uint32 // low half of the xxhash64 of the stored bytes; 0 in DocRaw
}

// NewDocWriter returns a writer that makes the sections "data" and "index"
// with create, one after the other.
func NewDocWriter(create func(section string) (io.Writer, error), mode DocMode) (*DocWriter, error) {
	if mode > DocRaw {
		return nil, Invalidf("doc mode %d", mode)
	}
	w, err := create(docsDataSection)
	if err != nil {
		return nil, err
	}
	return &DocWriter{create: create, w: w, mode: mode, docBuffers: docBufferPool.Get().(*docBuffers)}, nil
}

// Add stores the next doc: the first call is doc 0. It keeps no reference to
// doc. ErrTooLarge above MaxStoredDoc bytes.
func (w *DocWriter) Add(doc []byte) error {
	switch { // the writer stays usable after the last two
	case w.err != nil:
		return w.err
	case len(doc) > MaxStoredDoc:
		return fmt.Errorf("%w: stored document of %d bytes, limit %d", ErrTooLarge, len(doc), MaxStoredDoc)
	case w.docs == math.MaxUint32:
		return fmt.Errorf("%w: more than 2^32-1 documents in a segment", ErrTooLarge)
	}
	// A doc that would overfill a block starts a new one, so that a block is
	// read for the docs it was made for.
	if w.n > 0 && len(w.body)+len(doc) > docBlockSize || w.n == docBlockDocs {
		w.endBlock()
	}
	w.lens = AppendUvarint(w.lens, uint64(len(doc)))
	w.body = append(w.body, doc...)
	w.n++
	w.docs++
	return w.err
}

// Finish writes the last block and the index section. The writer is done.
func (w *DocWriter) Finish() error {
	w.endBlock()
	if w.err != nil {
		return w.err
	}
	out, err := w.create(docsIndexSection)
	if err != nil {
		w.err = err
		return err
	}
	b := slices.Grow(w.packed[:0], docsHeaderSize+docIndexEntry*(len(w.index)+1))
	b = AppendU32(b, docsVersion)
	b = AppendU32(b, uint32(w.mode))
	b = AppendU32(b, w.docs)
	b = AppendU32(b, uint32(len(w.index)))
	b = AppendU64(b, w.off)
	b = AppendU64(b, 0)
	// The entry after the last block holds the end of the data and the count
	// of docs, so that a block's extent is two neighboring entries.
	for _, e := range append(w.index, docBlockEntry{off: w.off, first: w.docs}) {
		b = AppendU64(b, e.off)
		b = AppendU32(b, e.first)
		b = AppendU32(b, e.size)
		b = AppendU32(b, e.sum)
	}
	_, w.err = out.Write(b)
	w.packed = b
	w.release()
	return w.err
}

func (w *DocWriter) endBlock() {
	if w.n == 0 || w.err != nil {
		return
	}
	e := docBlockEntry{off: w.off, first: w.first, size: uint32(len(w.lens) + len(w.body))}
	if w.mode == DocRaw {
		if _, w.err = w.w.Write(w.lens); w.err == nil {
			_, w.err = w.w.Write(w.body)
		}
		w.off += uint64(e.size)
	} else {
		w.writePacked(&e)
	}
	if w.err != nil {
		return
	}
	w.index = append(w.index, e)
	w.lens, w.body = w.lens[:0], w.body[:0]
	w.n, w.first = 0, w.docs
}

// writePacked writes the open block with its sum, compressed where that pays.
func (w *DocWriter) writePacked(e *docBlockEntry) {
	w.block = append(append(w.block[:0], w.lens...), w.body...)
	stored := w.block
	enc := docEncoders.Get().(*zstd.Encoder)
	w.packed = enc.EncodeAll(w.block, w.packed[:0])
	docEncoders.Put(enc)
	if len(w.packed) < len(w.block) && int64(len(w.block)) <= docMaxRatio*int64(len(w.packed)) {
		stored = w.packed
		e.size |= docBlockZstd
	}
	e.sum = uint32(xxhash.Sum64(stored))
	_, w.err = w.w.Write(stored)
	w.off += uint64(len(stored))
}

// Encoders and decoders carry tables of some 100 KiB and are worth keeping.
// Both work on whole blocks only and start no goroutines.
var (
	docEncoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), // the index has a sum of the stored bytes
			zstd.WithSingleSegment(true),
			zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("storage: zstd options: " + err.Error()) // constants of this package
		}
		return e
	}}
	docDecoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(docMaxBlock),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic("storage: zstd options: " + err.Error())
		}
		return d
	}}
)

// docMaxBlock is the largest block: one document of the largest size, or a
// full one, and the lengths.
const docMaxBlock = MaxStoredDoc + docBlockSize + 10*docBlockDocs
