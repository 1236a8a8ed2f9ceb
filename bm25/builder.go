package bm25

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"sync"

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
	return WriteAll(create, []*Builder{b}, 1)
}

// WriteAll is Write for builders that each hold docs after those of the one
// before, as if one held them all; threads goroutines work at it.
func WriteAll(create func(section string) (io.Writer, error), builders []*Builder, threads int) error {
	var norms []byte
	for i, b := range builders {
		if b.inDoc {
			b.fail(storage.Invalidf("bm25: Write inside a doc"))
		}
		if b.err == nil {
			b.err = b.arena.err
		}
		if b.err != nil {
			return b.err
		}
		switch {
		case i == 0:
			norms = b.norms
		case len(b.norms) == 0:
		case slices.ContainsFunc(b.norms[:min(len(norms), len(b.norms))], func(n byte) bool { return n != 0 }):
			return storage.Invalidf("bm25: builder %d holds docs before those of the one before", i)
		default:
			norms = slices.Concat(norms, b.norms[len(norms):])
		}
	}
	return writeField(create, newBuilderSource(builders, rangeSize), norms, threads)
}

// A builderSource reads builders' terms in order.
type builderSource struct {
	parts  []builderPart
	cuts   int
	active []int // parts that have it
	at     int   // of active, the one that is read
	met    uint64
}

// A builderPart reads one builder's terms of a range.
type builderPart struct {
	b     *Builder
	order []termRef
	cuts  []int // where ranges end in order
	at    int
	end   int
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

func newBuilderSource(builders []*Builder, size int64) *builderSource {
	r := &builderSource{parts: make([]builderPart, len(builders))}
	var wg sync.WaitGroup
	for i, b := range builders {
		if p := &r.parts[i]; i < len(builders)-1 {
			wg.Go(func() { *p = builderPart{b: b, order: b.sorted()} })
		} else {
			*p = builderPart{b: b, order: b.sorted()}
		}
	}
	wg.Wait()
	r.cut(size)
	return r
}

// sorted returns the terms in order.
func (b *Builder) sorted() []termRef {
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
	return refs
}

// cut makes ranges of about size bytes, by the postings of the largest builder.
func (r *builderSource) cut(size int64) {
	lead := &r.parts[0]
	for i := range r.parts {
		if p := &r.parts[i]; p.b.arena.used > lead.b.arena.used {
			lead = p
		}
	}
	if n := r.docBytes() / size; n > 1 {
		postings := uint64(0)
		for i := range lead.b.states {
			postings += uint64(lead.b.states[i].df) + 8
		}
		sum, part := uint64(0), postings/uint64(n)
		for _, ref := range lead.order {
			if sum >= part {
				r.cutBefore(lead.b.term(&lead.b.states[ref.n]))
				sum = 0
			}
			sum += uint64(lead.b.states[ref.n].df) + 8
		}
	}
	for i := range r.parts {
		p := &r.parts[i]
		p.cuts = append(p.cuts, len(p.order))
	}
	r.cuts = len(lead.cuts)
}

// cutBefore ends a range of each part before a term.
func (r *builderSource) cutBefore(term []byte) {
	for i := range r.parts {
		p := &r.parts[i]
		at, _ := slices.BinarySearchFunc(p.order, term, func(x termRef, t []byte) int {
			return bytes.Compare(p.b.term(&p.b.states[x.n]), t)
		})
		p.cuts = append(p.cuts, at)
	}
}

func (r *builderSource) ranges() int    { return r.cuts }
func (r *builderSource) passed() uint64 { return r.met }
func (r *builderSource) release()       {}

func (r *builderSource) fork() source {
	return &builderSource{parts: slices.Clone(r.parts), cuts: r.cuts}
}

func (r *builderSource) terms() (n uint64) {
	for i := range r.parts {
		n += uint64(len(r.parts[i].order))
	}
	return n
}

func (r *builderSource) docBytes() (n int64) {
	for i := range r.parts {
		n += r.parts[i].b.arena.used
	}
	return n
}

func (r *builderSource) start(i int) error {
	r.met = 0
	for j := range r.parts {
		p := &r.parts[j]
		p.at, p.end = 0, p.cuts[i]
		if i > 0 {
			p.at = p.cuts[i-1]
		}
	}
	return nil
}

func (r *builderSource) next() ([]byte, uint64, error) {
	r.active, r.at = r.active[:0], 0
	var term []byte
	least := uint64(0)
	for i := range r.parts {
		p := &r.parts[i]
		if p.at == p.end {
			continue
		}
		ref := p.order[p.at]
		c := -1
		if len(r.active) > 0 {
			if c = cmp.Compare(ref.key, least); c == 0 {
				c = bytes.Compare(p.b.term(&p.b.states[ref.n]), term)
			}
		}
		if c < 0 {
			least, term, r.active = ref.key, p.b.term(&p.b.states[ref.n]), r.active[:0]
		}
		if c <= 0 {
			r.active = append(r.active, i)
		}
	}
	if len(r.active) == 0 {
		return nil, 0, io.EOF
	}
	df := uint64(0)
	for _, i := range r.active {
		df += uint64(r.parts[i].open())
	}
	r.met += uint64(len(r.active))
	return term, df, nil
}

// open moves past the next term, to read it, and returns its df.
func (p *builderPart) open() uint32 {
	s := &p.b.states[p.order[p.at].n]
	p.at++
	p.s, p.left, p.prev = s, s.df, 0
	p.docs, p.pos = p.b.arena.read(s.docs), p.b.arena.read(s.pos)
	return s.df
}

func (r *builderSource) fill(b *batch, positions bool) error {
	b.n, b.pos = 0, b.pos[:0]
	for b.n < blockDocs && r.at < len(r.active) {
		p := &r.parts[r.active[r.at]]
		if p.fill(b, positions); p.left == 0 {
			r.at++
		}
	}
	return nil
}

func (p *builderPart) fill(b *batch, positions bool) {
	for b.n < blockDocs && p.left > 0 {
		doc, freq := p.s.doc, p.s.freq
		if p.left > 1 {
			v := p.docs.uvarint()
			doc, freq = p.prev+uint32(v>>1), 1
			if v&1 == 0 {
				freq = uint32(p.docs.uvarint())
			}
			p.prev = doc + 1
		}
		p.left--
		b.docs[b.n], b.freqs[b.n] = doc, freq
		b.n++
		if !positions {
			continue
		}
		at := uint32(p.pos.uvarint())
		b.pos = append(b.pos, at)
		for range freq - 1 {
			at += uint32(p.pos.uvarint()) + 1
			b.pos = append(b.pos, at)
		}
	}
}
