package hnsw

import (
	"math"
	"slices"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// none ends a row of links that is shorter than its stride.
const none = ^uint32(0)

// A key packs a candidate into one integer whose order is (distance, id):
// the distance's bits, made monotone, in the upper half; id<<1 in the lower;
// bit 0 is the expanded flag, too low to change the order of two ids.
type key = uint64

const expanded = 1

func makeKey(d float32, id uint32) key {
	return uint64(orderedBits(d))<<32 | uint64(id)<<1
}

// keyDistance is the distance in a key.
func keyDistance(k key) float32 {
	b := uint32(k >> 32)
	return math.Float32frombits(b ^ (uint32(int32(^b)>>31) | 1<<31))
}

func keyID(k key) uint32 { return uint32(k) >> 1 }

// orderedBits maps float32 to uint32 so that a < b iff orderedBits(a) <
// orderedBits(b): negative numbers are flipped whole, others get the top bit.
func orderedBits(d float32) uint32 {
	b := math.Float32bits(d)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// A beam is the best candidates of a walk, ascending by key, at most its
// capacity of them.
type beam struct {
	keys  []key // the candidates; len is the count
	max   int   // capacity
	fresh []key // buffer of those to be inserted
}

func (b *beam) reset(capacity int) {
	if cap(b.keys) < capacity {
		b.keys = make([]key, 0, capacity)
	}
	b.keys = b.keys[:0]
	b.max = capacity
}

// resize changes the capacity and keeps the candidates, which are no more.
func (b *beam) resize(capacity int) {
	b.keys = slices.Grow(b.keys, max(capacity-len(b.keys), 0))
	b.max = capacity
}

// bound is the key that a candidate must stay under to be admitted.
func (b *beam) bound() key {
	if len(b.keys) < b.max {
		return math.MaxUint64
	}
	return b.keys[len(b.keys)-1]
}

// insert puts k, which is under the bound, in its place, drops the last one
// when the beam is full, and returns the place.
func (b *beam) insert(k key) int {
	// The search halves without a branch on the comparison, which would be
	// mispredicted every other time: the compiler makes it a conditional move.
	keys := b.keys
	lo, n := 0, len(keys)
	for n > 1 {
		half := n >> 1
		if keys[lo+half-1] < k {
			lo += half
		}
		n -= half
	}
	if n == 1 && keys[lo] < k {
		lo++
	}
	if len(keys) < b.max {
		keys = keys[:len(keys)+1]
		b.keys = keys
	}
	copy(keys[lo+1:], keys[lo:])
	keys[lo] = k
	return lo
}

// visitedSet marks the nodes a walk has seen: one byte a node, equal to the
// walk's version when seen, so that a new walk clears nothing 254 times of 255.
type visitedSet struct {
	marks   []uint8
	version uint8
}

func (v *visitedSet) reset(n int) {
	if cap(v.marks) < n {
		v.marks = make([]uint8, n, n+n/8) // a build's graph grows batch by batch
		v.version = 1
		return
	}
	v.marks = v.marks[:cap(v.marks)][:n]
	v.version++
	if v.version == 0 {
		clear(v.marks[:cap(v.marks)])
		v.version = 1
	}
}

// A Scratch holds what a search needs to remember, reused from search to
// search so that a warm one allocates nothing: one byte a vector and some
// kilobytes. The zero value is ready. It belongs to one search at a time and
// serves any field; keep a pool of them.
type Scratch struct {
	query    quant.Query
	prepared []float32 // the query as the metric compares it
	beam     beam      // candidates of the walk
	results  beam      // accepted candidates of a filtered walk
	visited  visitedSet
	ids      []uint32  // nodes to be scored next
	nodes    []uint32  // level-1 positions of ids, above level 0
	dists    []float32 // their distances
	top      []key     // buffer of a scan; candidates for rescoring
	accept   []uint64  // ord bitset that groups of duplicates made wider
	words    []uint64  // ord bitset made from docs
	found    []Neighbor
}

// grow makes the buffers of one scoring call hold n ids.
func (s *Scratch) grow(n int) {
	if cap(s.ids) < n {
		s.ids = make([]uint32, n)
		s.nodes = make([]uint32, n)
		s.dists = make([]float32, n)
	}
	s.ids, s.nodes, s.dists = s.ids[:n], s.nodes[:n], s.dists[:n]
}
