package sparse

import (
	"encoding/binary"

	"github.com/quarrysearch/quarry/storage"
)

// A cursor is a term of a query in one segment: a position in its list for
// reading, and one for bounds (ahead), which runs before it. Both only move
// forward.
type cursor struct {
	l     list
	q     float64
	all   uint64 // bounds every contribution
	bound uint64 // and those in the window at hand
	ahead int    // block of bounds

	block int // block in docs, −1 before the first
	n, i  int // docs of the block, the current one
	codes []byte
	bad   bool
	docs  [blockDocs]uint32
}

func (c *cursor) open(l list, q float64) {
	c.l, c.q, c.block, c.ahead, c.n, c.i, c.bad = l, q, -1, 0, 0, 0, false
	c.all = contribution(q, l.most)
}

func (c *cursor) err() error {
	if c.bad {
		return storage.Corruptf("lists", c.l.off, "bad postings list")
	}
	return nil
}

// load decodes a block. It reports false behind the last one and for bad bytes.
func (c *cursor) load(block int) bool {
	c.block, c.n, c.i = block, 0, 0
	if block >= c.l.blocks {
		return false
	}
	if c.codes = c.l.read(&c.docs, block); c.codes == nil {
		c.bad, c.block = true, c.l.blocks
		return false
	}
	c.n = len(c.codes) / 2
	return true
}

func (c *cursor) nextBlock() bool { return c.block < c.l.blocks && c.load(c.block+1) }

func (c *cursor) code(i int) uint16 { return binary.LittleEndian.Uint16(c.codes[2*i:]) }

// seek moves to the first posting ≥ doc and tells whether there is one.
func (c *cursor) seek(doc uint32) bool {
	if c.block >= c.l.blocks {
		return false
	}
	if c.block < 0 || c.l.last(c.block) < doc {
		if !c.load(c.l.blockOf(max(c.block, 0), doc)) {
			return false
		}
	}
	i, n := c.i, c.n
	for step := 8; i+step <= n && c.docs[(i+step-1)&(blockDocs-1)] < doc; step *= 2 {
		i += step
	}
	for i < n && c.docs[i&(blockDocs-1)] < doc {
		i++
	}
	if c.i = i; i == n { // only for lasts that do not ascend
		c.bad, c.block = true, c.l.blocks
		return false
	}
	return true
}

// piece returns the docs of the rest of the block below to, from the first ≥ from
// on, and their codes; nothing when there are none.
func (c *cursor) piece(from, to uint32) (docs []uint32, codes []byte) {
	if !c.seek(from) {
		return nil, nil
	}
	end := c.n
	if c.l.last(c.block) >= to {
		for end = c.i; c.docs[end&(blockDocs-1)] < to; end++ {
		}
	}
	return c.docs[c.i:end], c.codes[2*c.i : 2*end]
}

// maxSpan is the number of blocks of a window whose maxima are looked at; where
// there are more, that of the list bounds them.
const maxSpan = 16

// boundIn bounds the contributions of docs in [from, to); 0 when there are none.
// from never descends between calls.
func (c *cursor) boundIn(from, to uint32) uint64 {
	l := &c.l
	c.ahead = l.blockOf(c.ahead, from)
	if c.ahead >= l.blocks || l.low(c.ahead) >= to {
		return 0
	}
	if end := c.ahead + maxSpan; end < l.blocks && l.low(end) < to {
		return c.all
	}
	high := l.max(c.ahead)
	for b := c.ahead + 1; b < l.blocks && l.low(b) < to; b++ {
		high = max(high, l.max(b))
	}
	return contribution(c.q, high)
}
