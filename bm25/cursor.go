package bm25

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/quarrysearch/quarry/internal/bitpack"
	"github.com/quarrysearch/quarry/storage"
)

// A skipper walks the block headers of one postings list without decoding
// blocks. It is a value: a copy is a second, independent position. Before the
// first block block is −1, after the last one blocks.
type skipper struct {
	list   []byte
	off    int64  // of list in section docs, for errors
	df     uint64 // postings
	bound  uint32 // every doc is below
	small  bool   // a list without headers: a block from first to final
	first  uint32
	final  uint32
	blocks int

	block        int    // current
	n            int    // its docs
	lo, last     uint32 // docs it may hold: lo … last; last is a posting
	impAt, impTo int    // its impacts in list
	body, bodyTo int    // its docs and freqs in list
	posAt, posTo int    // its positions in the term's positions
	next         int    // where the next header starts

	groupLast    uint32
	groupEnd     int
	groupPosTo   int
	groupImpAt   int
	groupImpTo   int
	listAt       int // impacts of the whole list
	listTo       int
	positionsLen int
	bad          bool
}

// open starts before the first block of a term.
func (s *skipper) open(f *Field, e *entry) {
	*s = skipper{df: e.df, bound: uint32(len(f.norms)), small: f.small(e), block: -1, positionsLen: int(e.posLen)}
	s.blocks = int((e.df + blockDocs - 1) / blockDocs)
	s.list = f.docs[e.docsOff : e.docsOff+e.docsLen]
	s.off = int64(e.docsOff)
	if s.blocks > 1 {
		n, ok := s.length()
		s.listAt, s.listTo = s.next, s.next+n
		s.next = s.listTo
		s.bad = !ok
	}
}

// uvarint reads a varint of the list; a bad one fails the skipper.
func (s *skipper) uvarint() uint64 {
	if b, i := s.list, s.next; uint(i)+1 < uint(len(b)) {
		lo, hi := b[i], b[i+1]
		if lo < 0x80 {
			s.next = i + 1
			return uint64(lo)
		}
		if hi < 0x80 && hi > 0 {
			s.next = i + 2
			return uint64(lo&0x7f) | uint64(hi)<<7
		}
	}
	rest := s.list[min(s.next, len(s.list)):]
	var v uint64
	if !takeUvarint(&rest, &v) {
		s.bad = true
	}
	s.next = len(s.list) - len(rest)
	return v
}

// length reads a varint that counts bytes of the list that follow.
func (s *skipper) length() (int, bool) {
	v := s.uvarint()
	if s.bad || v > uint64(len(s.list)-s.next) {
		s.bad = true
		return 0, false
	}
	return int(v), true
}

// advance moves to the next block. It reports false after the last one and on
// corrupt bytes, which bad tells apart.
func (s *skipper) advance() bool {
	if s.bad || s.block+1 >= s.blocks {
		s.block = s.blocks
		return false
	}
	lo := uint64(0)
	if s.block >= 0 {
		lo = uint64(s.last) + 1
	}
	s.block++
	s.n = int(min(s.df-uint64(s.block)*blockDocs, blockDocs))
	if s.small {
		s.lo, s.last, s.posTo = s.first, s.final, s.positionsLen
		return true
	}
	if s.blocks > groupBlocks && s.block%groupBlocks == 0 {
		s.openGroup(lo)
	}
	gap := s.uvarint()
	size, posLen := 0, s.positionsLen
	if s.blocks > 1 {
		size, _ = s.length()
		posLen = int(min(s.uvarint(), uint64(s.positionsLen)))
	}
	imp, _ := s.length()
	s.impAt, s.impTo = s.next, s.next+imp
	s.body = s.impTo
	s.bodyTo = len(s.list)
	if s.blocks > 1 {
		s.bodyTo = s.body + size
	}
	s.next = s.bodyTo
	s.posAt, s.posTo = s.posTo, s.posTo+posLen
	if gap+1 < uint64(s.n) || gap >= uint64(s.bound) || lo+gap >= uint64(s.bound) || s.bodyTo > len(s.list) || s.posTo > s.positionsLen {
		s.bad = true
	}
	s.lo, s.last = uint32(lo), uint32(lo+gap)
	if s.bad {
		s.block = s.blocks
	}
	return !s.bad
}

func (s *skipper) openGroup(lo uint64) {
	gap := s.uvarint()
	size := s.uvarint()
	posLen := s.uvarint()
	imp, _ := s.length()
	s.groupImpAt, s.groupImpTo = s.next, s.next+imp
	s.next = s.groupImpTo
	if s.bad || gap >= uint64(s.bound) || lo+gap >= uint64(s.bound) || size > uint64(len(s.list)-s.next) || posLen > uint64(s.positionsLen-s.posTo) {
		s.bad = true
		return
	}
	s.groupLast = uint32(lo + gap)
	s.groupEnd = s.next + int(size)
	s.groupPosTo = s.posTo + int(posLen)
}

// seek moves on to the block that holds the first posting ≥ doc. It reports
// false when there is none.
func (s *skipper) seek(doc uint32) bool {
	for s.block < 0 || s.last < doc {
		if s.block >= s.blocks {
			return false
		}
		if s.block >= 0 && s.blocks > groupBlocks && s.groupLast < doc {
			// Stand on the last block of the group, as if it had been read.
			s.block = min(s.block|(groupBlocks-1), s.blocks-1)
			s.last, s.next, s.posTo = s.groupLast, s.groupEnd, s.groupPosTo
		}
		if !s.advance() {
			return false
		}
	}
	return s.block < s.blocks
}

// done tells whether the list is at its end.
func (s *skipper) done() bool { return s.block >= s.blocks }

// A cursor is a term of a query in one segment: a position in its postings
// list for reading (skip and the decoded block), and one for bounds (ahead),
// which runs before it. Both only move forward. What kernels read and write lies
// on bounds of 64 bytes.
type cursor struct {
	docs  [blockDocs]uint32
	freqs [blockDocs]uint32
	kept  [blockDocs]uint8 // number in the block of each of the docs kept

	f   *Field
	e   entry
	w   float32
	inv *[256]float32

	skip  skipper
	ahead skipper

	n, i       int // docs of the block, the current one
	aheadAt    int // small list: no doc before it is of use to bounds
	docsBlock  int // block in docs, −1 for none
	freqsBlock int // block in freqs
	set        bitset
	setBlock   int // block in set
	keptBlock  int // block of which docs holds only those accepted, docsBlock being −1
	keptN      int // their number
	keptAt     int // of them, those that pieces are done with
	readBlock  int // block whose freqs are read one by one
	reads      int // and how many were
	freqsFrom  int // where they start in the list
	cumBlock   int // block of cum
	cumAt      int
	cum        uint64 // positions of docs[:cumAt] of the block
	total      uint64 // positions of the block

	boundBlock int // block of blockBound, −1 for none
	blockBound uint32
	groupAt    int // group of groupBound, −1 for none
	groupBound uint32
	listBound  uint32
	bad        bool
	_          [8]byte // to a multiple of 64
}

// open starts before the first posting. The zero entry is an empty list.
func (c *cursor) open(f *Field, e *entry, w float32, inv *[256]float32) {
	c.f, c.e, c.w, c.inv = f, *e, w, inv
	c.skip.open(f, e)
	c.n, c.i, c.aheadAt = 0, 0, 0
	c.docsBlock, c.freqsBlock, c.cumBlock, c.boundBlock, c.groupAt = -1, -1, -1, -1, -1
	c.setBlock, c.readBlock, c.keptBlock = -1, -1, -1
	c.bad = false
	c.listBound = 0
	if c.skip.small {
		c.openSmall()
	}
	c.ahead = c.skip
	switch s := &c.skip; {
	case s.small || s.bad:
	case s.blocks > 1:
		c.listBound = impactBound(s.list[s.listAt:s.listTo], w, inv)
	default:
		// The only block's header: no list header exists.
		c.ahead.advance()
		c.listBound = c.boundOfBlock()
	}
}

// openSmall decodes a list without headers, the only block, and bounds it.
func (c *cursor) openSmall() {
	s := &c.skip
	if c.e.df == 0 {
		return
	}
	if !c.f.readSmall(&c.e, &c.docs, &c.freqs) {
		c.fail()
		return
	}
	c.n, c.docsBlock, c.freqsBlock = int(s.df), 0, 0
	s.first, s.final = c.docs[0], c.docs[c.n-1]
	for i, d := range c.docs[:c.n] {
		c.listBound = max(c.listBound, contribution(c.w, c.freqs[i], c.inv[c.f.norms[d]]))
	}
}

// err tells whether corrupt bytes ended the list early.
func (c *cursor) err() error {
	if c.bad || c.skip.bad || c.ahead.bad {
		return storage.Corruptf("docs", c.skip.off, "bad postings list")
	}
	return nil
}

func (c *cursor) fail() {
	c.bad = true
	c.skip.block = c.skip.blocks
	c.n, c.i = 0, 0
}

// load decodes the docs of the current block. The place in it stays: seek may
// have found one in the bitset.
func (c *cursor) load() bool {
	s := &c.skip
	if c.docsBlock == s.block {
		return true
	}
	c.docsBlock, c.n, c.keptBlock = s.block, s.n, -1
	if readDocs(&c.docs, s.n, s.list[s.body:s.bodyTo], s.lo, s.last) < 0 {
		c.fail()
		return false
	}
	return true
}

// loadFreqs decodes the freqs of the block in docs.
func (c *cursor) loadFreqs() bool {
	s := &c.skip
	if c.freqsBlock == s.block {
		return true
	}
	c.freqsBlock = s.block
	body := s.list[s.body:s.bodyTo]
	at := docsSize(body, s.n, s.lo, s.last)
	if at < 0 || readFreqs(&c.freqs, s.n, body[at:]) < 0 {
		c.fail()
		return false
	}
	return true
}

// seek moves to the first posting ≥ doc and returns it, or noDoc. A block
// stored as a bitset is asked as it is, unless its docs are decoded already.
func (c *cursor) seek(doc uint32) uint32 {
	s := &c.skip
	if (s.block < 0 || s.last < doc) && !c.reach(doc) || s.block >= s.blocks {
		return noDoc
	}
	if c.docsBlock != s.block {
		if c.setBlock == s.block || c.openSet() {
			doc, c.i = c.set.seek(max(doc, s.lo))
			return doc
		}
		if !c.load() {
			return noDoc
		}
		c.i = 0
	}
	c.i = seekInBlock(&c.docs, c.n, c.i, doc)
	if c.i >= c.n {
		return noDoc
	}
	return c.docs[c.i]
}

// reach moves on to the block of the first posting ≥ doc. It reports false when
// there is none.
func (c *cursor) reach(doc uint32) bool {
	// Bounds may have walked ahead already.
	if s, a := &c.skip, &c.ahead; a.block > s.block && a.block < a.blocks && a.lo <= doc {
		*s = *a
	}
	return c.skip.seek(doc)
}

// openSet takes the current block as a bitset, if it is a sound one.
func (c *cursor) openSet() bool {
	s := &c.skip
	if !c.set.open(s.list[s.body:s.bodyTo], s.n, s.lo, s.last) {
		return false
	}
	c.setBlock, c.n = s.block, s.n
	return true
}

// minRanked is the number of docs from which on they are sought together.
const minRanked = 3

// foundIn writes which of the docs the decoded block holds to s.hits, their
// places in the block to s.ranks, and returns their number.
func (c *cursor) foundIn(s *Scratch, docs []uint32) int {
	n := 0
	if c.n == blockDocs && len(docs) >= minRanked {
		ranks := s.ranks[:len(docs)]
		bitpack.Ranks(ranks, &c.docs, docs)
		// Written first and kept by the count: no branch to mispredict.
		for k, at := range ranks {
			s.hits[n&(blockDocs-1)], s.ranks[n&(blockDocs-1)] = uint16(k), at
			if c.docs[at&(blockDocs-1)] == docs[k] {
				n++
			}
		}
		return n
	}
	for k, d := range docs {
		c.i = seekInBlock(&c.docs, c.n, c.i, d)
		if c.docs[c.i&(blockDocs-1)] == d {
			s.hits[n&(blockDocs-1)], s.ranks[n&(blockDocs-1)] = uint16(k), uint16(c.i)
			n++
		}
	}
	return n
}

// found writes which of the docs, all from the first bit up to the last doc,
// are in the set to s.hits, their numbers in the block to s.ranks, and returns
// how many there are.
func (b *bitset) found(s *Scratch, docs []uint32) int {
	n := 0
	// Written first and kept by the count: no branch to mispredict.
	for k, d := range docs {
		at := d - b.base
		w := binary.LittleEndian.Uint64(b.words[at/64*8:])
		below := w & (1<<(at%64) - 1)
		s.hits[n&(blockDocs-1)] = uint16(k)
		s.ranks[n&(blockDocs-1)] = uint16(b.ranks[at/64]) + uint16(bits.OnesCount64(below))
		n += int(w >> (at % 64) & 1)
	}
	return n
}

// noDoc stands for the end of a list. No doc has this number.
const noDoc = math.MaxUint32

// seekInBlock returns the first index from i on with docs[index] ≥ doc: a look
// at the next few, then a binary search of eight steps without branches.
func seekInBlock(docs *[blockDocs]uint32, n, i int, doc uint32) int {
	for range 4 {
		if i >= n || docs[i&(blockDocs-1)] >= doc {
			return i
		}
		i++
	}
	size := n - i
	for size > 0 {
		half := (size + 1) / 2
		if docs[(i+half-1)&(blockDocs-1)] < doc {
			i += half
		}
		size -= half
	}
	return i
}

// maxReads is the number of freqs of a block read one by one before all are
// decoded.
const maxReads = 12

// freq returns the tf of the current posting.
func (c *cursor) freq() uint32 {
	s := &c.skip
	if c.freqsBlock == s.block {
		return c.freqs[c.i&(blockDocs-1)]
	}
	if c.readBlock != s.block {
		c.readBlock, c.reads = s.block, 0
		c.freqsFrom = s.body + max(docsSize(s.list[s.body:s.bodyTo], s.n, s.lo, s.last), 0)
	}
	if c.reads++; c.reads <= maxReads {
		if f := readFreq(s.list[c.freqsFrom:s.bodyTo], s.n, c.i); f > 0 {
			return f
		}
	}
	if !c.loadFreqs() {
		return 1
	}
	return c.freqs[c.i&(blockDocs-1)]
}

// freqsAt writes the freqs of the first n places of s.ranks, ascending, to
// s.freqs and moves to the last of them.
func (c *cursor) freqsAt(s *Scratch, n int) {
	at, out := s.ranks[:n], s.freqs[:n]
	c.i = int(at[n-1])
	if c.freqsBlock == c.skip.block || n > maxReads && c.loadFreqs() {
		for i, k := range at {
			out[i] = c.freqs[k&(blockDocs-1)]
		}
		return
	}
	for i, k := range at {
		c.i = int(k)
		out[i] = c.freq()
	}
}

// boundOfBlock bounds the contributions of ahead's block.
func (c *cursor) boundOfBlock() uint32 {
	s := &c.ahead
	if c.boundBlock != s.block {
		c.boundBlock = s.block
		switch {
		case s.done():
			c.blockBound = 0
		case s.small:
			c.blockBound = c.listBound
		default:
			c.blockBound = impactBound(s.list[s.impAt:s.impTo], c.w, c.inv)
		}
	}
	return c.blockBound
}

// boundOfGroup bounds the contributions of ahead's group.
func (c *cursor) boundOfGroup() uint32 {
	s := &c.ahead
	if s.blocks <= groupBlocks {
		return c.listBound
	}
	if g := s.block / groupBlocks; c.groupAt != g {
		c.groupAt = g
		c.groupBound = impactBound(s.list[s.groupImpAt:s.groupImpTo], c.w, c.inv)
	}
	return c.groupBound
}

// boundIn bounds the contributions of docs in [from, to) and tells up to which
// doc (exclusive) the bound holds, at least to. from never descends between
// calls. A bound of 0 means that there is no posting.
func (c *cursor) boundIn(from, to uint32) (bound uint32, until uint32) {
	s := &c.ahead
	if !s.seek(from) {
		return 0, noDoc
	}
	if s.small {
		c.aheadAt = seekInBlock(&c.docs, c.n, c.aheadAt, from)
		if d := c.docs[c.aheadAt&(blockDocs-1)]; d >= to {
			return 0, d
		}
	}
	if s.lo >= to {
		return 0, s.lo
	}
	if s.last >= to-1 {
		return c.boundOfBlock(), s.last + 1
	}
	if s.blocks == 1 {
		return c.listBound, noDoc
	}
	// The window spans blocks: to walk their headers costs more than their
	// closer bound saves (measured on 1.2 M passages, +3 %).
	if s.blocks > groupBlocks && s.groupLast >= to-1 {
		return c.boundOfGroup(), s.groupLast + 1
	}
	return c.listBound, noDoc
}

// positions returns the positions of the current posting in buf, grown when
// too small.
func (c *cursor) positions(buf []uint32) []uint32 {
	tf := int(c.freq())
	s := &c.skip
	if s.df == 1 && tf <= inlinePositions {
		buf = grow(buf, tf)
		if !c.e.inlined(buf) {
			c.fail()
		}
		return buf
	}
	if !c.loadFreqs() {
		return buf[:0]
	}
	if c.cumBlock != s.block || c.cumAt > c.i {
		c.cumBlock, c.cumAt, c.cum, c.total = s.block, 0, 0, 0
		for _, f := range c.freqs[:s.n] {
			c.total += uint64(f)
		}
	}
	for ; c.cumAt < c.i; c.cumAt++ {
		c.cum += uint64(c.freqs[c.cumAt])
	}
	src := c.f.pos[c.e.posOff:][s.posAt:s.posTo]
	if c.total > uint64(len(src))*posRun {
		c.fail()
		return buf[:0]
	}
	buf = grow(buf, tf)
	if !readPositions(buf, src, c.cum, c.total) {
		c.fail()
		return buf[:0]
	}
	return buf
}

func grow(buf []uint32, n int) []uint32 {
	if cap(buf) < n {
		return make([]uint32, n, n+n/2)
	}
	return buf[:n]
}

var zeroInverse = new([256]float32)

// nextBatch reads the next block of a list as a whole.
func (c *cursor) nextBatch(b *batch, positions bool) (bool, error) {
	b.n, b.pos = 0, b.pos[:0]
	if !c.skip.advance() {
		return false, c.err()
	}
	if !c.load() || !c.loadFreqs() {
		return false, c.err()
	}
	b.n = c.n
	copy(b.docs[:], c.docs[:c.n])
	copy(b.freqs[:], c.freqs[:c.n])
	for _, f := range b.freqs[:b.n] {
		if f == 0 || f > 1<<31 {
			c.fail()
			return false, c.err()
		}
	}
	if !positions {
		return true, nil
	}
	if c.skip.df == 1 {
		b.pos = c.positions(b.pos)
		return !c.bad, c.err()
	}
	src := c.f.pos[c.e.posOff:][c.skip.posAt:c.skip.posTo]
	var ok bool
	if b.pos, ok = readAllPositions(b.pos, src, b.freqs[:b.n]); !ok {
		c.fail()
	}
	return ok, c.err()
}
