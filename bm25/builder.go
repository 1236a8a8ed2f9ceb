package bm25

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// A Builder collects the tokens of one field of one segment in memory and
// writes them as sections. Use it as
//
//	b.StartDoc(doc); b.Token(term, pos); …; b.EndDoc()
//
// with ascending docs. Docs without the field are left out. The first mistake
// sticks and is returned by Err and Write. Not safe for concurrent use.
//
// Tokens are counted a few at a time, so that their cache misses overlap. A term
// costs 64 bytes (one cache line), its own and those of its hash slot; a
// token one to two bytes more, in pieces of growing size from one arena, so
// that memory holds few pointers however large the segment.
type Builder struct {
	seed   maphash.Seed
	table  []uint64 // hash<<32 | term number + 1, 0 = free; length a power of 2
	states []termState
	terms  []byte
	arena  arena
	norms  []byte
	refs   []termRef // working space of Write

	tokens []token // not counted yet, and their bytes
	text   []byte
	warm   uint32 // keeps the loads of touch

	doc    uint32
	length uint32
	inDoc  bool
	any    bool // a doc was started
	err    error
}

// termState is a term in the making. The doc being counted (doc, freq) is not
// in the stream of docs yet: terms of one doc need no stream.
type termState struct {
	key     uint64 // shortKey of the term
	off     uint32 // of the term in terms
	size    uint16
	df      uint32
	doc     uint32
	freq    uint32
	lastPos uint32
	prev    uint32 // last doc in the stream + 1
	docs    stream
	pos     stream
}

// A token waits for a few more: what a term's count needs lies in three places
// far apart in memory, and those of several tokens are fetched side by side.
type token struct {
	hash uint64
	pos  uint32
	end  uint32 // of its bytes in text
}

const (
	minTable   = 256
	tokenBatch = 32
)

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{seed: maphash.MakeSeed(), table: make([]uint64, minTable)}
}

// Reset empties the builder and keeps its memory, but for a table far larger
// than the last terms needed: to clear it would cost more than those.
func (b *Builder) Reset() {
	if n := len(b.table); n > minTable && n > 16*len(b.states) {
		b.table = b.table[:max(minTable, n/4)]
	}
	clear(b.table)
	b.states, b.terms, b.norms = b.states[:0], b.terms[:0], b.norms[:0]
	b.arena.used = 0
	b.tokens, b.text = b.tokens[:0], b.text[:0]
	b.inDoc, b.any, b.err = false, false, nil
}

// Err returns the first mistake, or nil.
func (b *Builder) Err() error { return b.err }

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// StartDoc starts a doc, greater than the ones before.
func (b *Builder) StartDoc(doc uint32) {
	if b.inDoc || b.any && doc <= b.doc || doc == noDoc {
		b.fail(storage.Invalidf("bm25: doc %d does not ascend, or EndDoc is missing", doc))
		return
	}
	b.doc, b.length, b.inDoc, b.any = doc, 0, true, true
}

// EndDoc ends a doc. A doc without tokens counts as one without the field.
func (b *Builder) EndDoc() {
	if !b.inDoc {
		b.fail(storage.Invalidf("bm25: EndDoc without StartDoc"))
		return
	}
	b.count()
	b.inDoc = false
	if b.length == 0 {
		return
	}
	if n := int(b.doc); n > len(b.norms) {
		b.norms = append(b.norms, make([]byte, n-len(b.norms))...)
	}
	b.norms = append(b.norms, encodeNorm(b.length))
}

// Token adds a token of 1 to MaxTermSize bytes. The positions of one term in a
// doc must not descend; the same term at the same position again is ignored.
// Every other token counts for the length, also several at one position.
func (b *Builder) Token(term []byte, pos uint32) {
	if !b.inDoc || len(term) == 0 || len(term) > MaxTermSize || pos == math.MaxUint32 {
		b.fail(storage.Invalidf("bm25: token of %d bytes at %d outside a doc or its limits", len(term), pos))
		return
	}
	b.text = append(b.text, term...)
	b.tokens = append(b.tokens, token{maphash.Bytes(b.seed, term), pos, uint32(len(b.text))})
	if len(b.tokens) == tokenBatch {
		b.count()
	}
}

// count counts the waiting tokens.
func (b *Builder) count() {
	b.touch()
	from := uint32(0)
	for i := range b.tokens {
		t := &b.tokens[i]
		b.add(b.text[from:t.end], t.hash, t.pos)
		from = t.end
	}
	b.tokens, b.text = b.tokens[:0], b.text[:0]
}

// touch reads a byte of each place that counting the tokens will need.
func (b *Builder) touch() {
	mask, sum := uint64(len(b.table)-1), b.warm
	for i := range b.tokens {
		h := b.tokens[i].hash
		slot := b.table[h&mask]
		if slot == 0 || slot>>32 != h>>32 {
			continue
		}
		at := b.states[uint32(slot)-1].pos.at
		if slab := int(at >> slabBits); slab < len(b.arena.slabs) {
			sum += uint32(b.arena.slabs[slab][at&(slabSize-1)])
		}
	}
	b.warm = sum
}

// add counts a token.
func (b *Builder) add(term []byte, hash uint64, pos uint32) {
	s := b.state(term, hash)
	gap := pos
	switch {
	case s.freq == 0 || s.doc != b.doc:
		if s.freq != 0 {
			b.flushDoc(s)
		}
		s.df++
		s.doc, s.freq = b.doc, 0
	case pos == s.lastPos:
		return
	case pos < s.lastPos:
		b.fail(storage.Invalidf("bm25: position %d of a term after %d", pos, s.lastPos))
		return
	default:
		gap = pos - s.lastPos - 1
	}
	s.freq++
	s.lastPos = pos
	b.length++
	b.arena.appendUvarint(&s.pos, uint64(gap))
}

// flushDoc moves the doc being counted to the stream: the gap shifted left for
// a bit that says that tf is 1, else tf follows.
func (b *Builder) flushDoc(s *termState) {
	gap := uint64(s.doc-s.prev) << 1
	s.prev = s.doc + 1
	if s.freq == 1 {
		b.arena.appendUvarint(&s.docs, gap|1)
		return
	}
	b.arena.appendUvarint(&s.docs, gap)
	b.arena.appendUvarint(&s.docs, uint64(s.freq))
}

// state finds a term's state or makes one.
func (b *Builder) state(term []byte, h uint64) *termState {
	key := shortKey(term)
	mask := uint64(len(b.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		slot := b.table[i]
		if slot == 0 {
			return b.insert(term, h, i)
		}
		if slot>>32 == h>>32 {
			s := &b.states[uint32(slot)-1]
			if s.key == key && int(s.size) == len(term) && (len(term) <= 8 || bytes.Equal(b.term(s), term)) {
				return s
			}
		}
	}
}

// shortKey folds up to eight bytes of a term into a number that, with the
// length, tells terms of up to eight bytes apart: their bytes need not be
// fetched to compare them.
func shortKey(term []byte) uint64 {
	switch n := len(term); {
	case n >= 8:
		return binary.LittleEndian.Uint64(term)
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(term)) | uint64(binary.LittleEndian.Uint32(term[n-4:]))<<32
	case n > 0:
		return uint64(term[0]) | uint64(term[n/2])<<8 | uint64(term[n-1])<<16
	}
	return 0
}

func (b *Builder) term(s *termState) []byte { return b.terms[s.off : s.off+uint32(s.size)] }

func (b *Builder) insert(term []byte, h, slot uint64) *termState {
	if uint64(len(b.terms))+uint64(len(term)) > math.MaxUint32 {
		b.fail(fmt.Errorf("%w: more than 4 GiB of terms in a segment", storage.ErrTooLarge))
		term = nil
	}
	b.states = append(b.states, termState{key: shortKey(term), off: uint32(len(b.terms)), size: uint16(len(term))})
	b.terms = append(b.terms, term...)
	b.table[slot] = h>>32<<32 | uint64(len(b.states))
	if len(b.states)*3 > len(b.table)*2 {
		b.rehash()
	}
	return &b.states[len(b.states)-1]
}

func (b *Builder) rehash() {
	if n := 2 * len(b.table); n <= cap(b.table) {
		b.table = b.table[:n]
		clear(b.table)
	} else {
		b.table = make([]uint64, n)
	}
	mask := uint64(len(b.table) - 1)
	for n := range b.states {
		h := maphash.Bytes(b.seed, b.term(&b.states[n]))
		i := h & mask
		for b.table[i] != 0 {
			i = (i + 1) & mask
		}
		b.table[i] = h>>32<<32 | uint64(n+1)
	}
}

// SizeBytes returns about the memory in use.
func (b *Builder) SizeBytes() int64 {
	return int64(len(b.table)*8+len(b.states)*64+len(b.terms)+len(b.norms)) + b.arena.used
}

// Write writes the sections pos, docs, dict, norms and meta. The same tokens
// give the same bytes. The builder is left as it was.
func (b *Builder) Write(create func(section string) (io.Writer, error)) error {
	if b.inDoc {
		b.fail(storage.Invalidf("bm25: Write inside a doc"))
	}
	if b.err == nil {
		b.err = b.arena.err
	}
	if b.err != nil {
		return b.err
	}
	return writeField(create, newBuilderSource(b), b.norms)
}

// A builderSource reads a builder's terms in order.
type builderSource struct {
	b     *Builder
	order []termRef
	at    int
	s     *termState
	left  uint32 // postings of s to come
	prev  uint32
	docs  streamReader
	pos   streamReader
}

// A termRef is the number of a term, and its first bytes to sort it by.
type termRef struct {
	key uint64
	n   uint32
}

func newBuilderSource(b *Builder) *builderSource {
	refs := slices.Grow(b.refs[:0], len(b.states))[:len(b.states)]
	b.refs = refs
	for n := range refs {
		refs[n] = termRef{termKey(b.term(&b.states[n])), uint32(n)}
	}
	slices.SortFunc(refs, func(x, y termRef) int {
		if x.key != y.key {
			if x.key < y.key {
				return -1
			}
			return 1
		}
		return bytes.Compare(b.term(&b.states[x.n]), b.term(&b.states[y.n]))
	})
	return &builderSource{b: b, order: refs}
}

func (r *builderSource) rewind() error {
	r.at = 0
	return nil
}

func (r *builderSource) docBytes() int64 { return r.b.arena.used }

func (r *builderSource) next() ([]byte, uint64, error) {
	if r.at == len(r.order) {
		return nil, 0, io.EOF
	}
	s := &r.b.states[r.order[r.at].n]
	r.at++
	r.s, r.left, r.prev = s, s.df, 0
	r.docs = r.b.arena.read(s.docs)
	r.pos = r.b.arena.read(s.pos)
	return r.b.term(s), uint64(s.df), nil
}

func (r *builderSource) fill(b *batch, positions bool) error {
	b.n, b.pos = 0, b.pos[:0]
	for b.n < blockDocs && r.left > 0 {
		doc, freq := r.s.doc, r.s.freq
		if r.left > 1 {
			v := r.docs.uvarint()
			doc, freq = r.prev+uint32(v>>1), 1
			if v&1 == 0 {
				freq = uint32(r.docs.uvarint())
			}
			r.prev = doc + 1
		}
		r.left--
		b.docs[b.n], b.freqs[b.n] = doc, freq
		b.n++
		if !positions {
			continue
		}
		p := uint32(r.pos.uvarint())
		b.pos = append(b.pos, p)
		for range freq - 1 {
			p += uint32(r.pos.uvarint()) + 1
			b.pos = append(b.pos, p)
		}
	}
	return nil
}

const (
	slabBits = 20
	slabSize = 1 << slabBits
	linkSize = 4 // at the end of a piece: the address of the next
)

// pieceSizes are the sizes of a stream's pieces in turn, link included; the
// last one repeats.
var pieceSizes = [...]uint16{12, 16, 24, 40, 72, 136, 264, 520, 1032, 2056, 4104}

// A stream is an append-only run of bytes in pieces. head and at are addresses
// in the arena.
type stream struct {
	head, at uint32
	left     uint16 // bytes free in the piece
	level    uint8  // 0 = no piece yet, else index in pieceSizes + 1
}

// An arena hands out pieces of large slabs, up to 4 GiB.
type arena struct {
	slabs [][]byte
	used  int64
	err   error
}

func (a *arena) alloc(size uint16) uint32 {
	if a.used&(slabSize-1)+int64(size) > slabSize {
		a.used = (a.used | (slabSize - 1)) + 1 // pieces do not span slabs
	}
	if a.used+int64(size) > math.MaxUint32 {
		if a.err == nil {
			a.err = fmt.Errorf("%w: more than 4 GiB of postings in memory", storage.ErrTooLarge)
		}
		a.used = 0
	}
	if int(a.used>>slabBits) == len(a.slabs) {
		a.slabs = append(a.slabs, make([]byte, slabSize))
	}
	at := uint32(a.used)
	a.used += int64(size)
	return at
}

func (a *arena) appendUvarint(s *stream, v uint64) {
	if v < 0x80 && s.left > 0 {
		a.slabs[s.at>>slabBits][s.at&(slabSize-1)] = byte(v)
		s.at++
		s.left--
		return
	}
	for v >= 0x80 {
		a.appendByte(s, byte(v)|0x80)
		v >>= 7
	}
	a.appendByte(s, byte(v))
}

func (a *arena) appendByte(s *stream, v byte) {
	if s.left == 0 {
		a.extend(s)
	}
	a.slabs[s.at>>slabBits][s.at&(slabSize-1)] = v
	s.at++
	s.left--
}

func (a *arena) extend(s *stream) {
	size := pieceSizes[min(int(s.level), len(pieceSizes)-1)]
	at := a.alloc(size)
	if s.level == 0 {
		s.head = at
	} else {
		link := a.slabs[s.at>>slabBits][s.at&(slabSize-1):]
		link[0], link[1], link[2], link[3] = byte(at), byte(at>>8), byte(at>>16), byte(at>>24)
	}
	s.at, s.left = at, size-linkSize
	s.level = min(s.level+1, uint8(len(pieceSizes)))
}

// A streamReader reads a stream from its head.
type streamReader struct {
	a     *arena
	at    uint32
	left  uint16
	level uint8
}

func (a *arena) read(s stream) streamReader {
	return streamReader{a: a, at: s.head, left: pieceSizes[0] - linkSize, level: 1}
}

func (r *streamReader) uvarint() (v uint64) {
	for shift := 0; ; shift += 7 {
		if r.left == 0 {
			link := r.a.slabs[r.at>>slabBits][r.at&(slabSize-1):]
			r.at = uint32(link[0]) | uint32(link[1])<<8 | uint32(link[2])<<16 | uint32(link[3])<<24
			r.left = pieceSizes[min(int(r.level), len(pieceSizes)-1)] - linkSize
			r.level = min(r.level+1, uint8(len(pieceSizes)))
		}
		c := r.a.slabs[r.at>>slabBits][r.at&(slabSize-1)]
		r.at++
		r.left--
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
}
