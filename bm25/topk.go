package bm25

import (
	"math/bits"
	"slices"
)

// A Scored is a doc of a segment with its raw score in units of 2^-20.
type Scored struct {
	Doc uint32
	Raw int64
}

// Floor is the least raw score that can still reach the result: the k-th best
// over the segments searched so far, or 0. Docs that equal it are returned,
// because ids decide ties across segments.
type Floor int64

type acceptKind uint8

const (
	acceptAll acceptKind = iota
	acceptBits
	acceptDocs
)

// Accept says which docs may be returned. The zero value accepts all.
type Accept struct {
	kind acceptKind
	bits []uint64
	docs []uint32
}

// AcceptBits accepts doc d when bit d%64 of word d/64 is set; docs beyond the
// last word are refused. The slice is kept, not copied.
func AcceptBits(words []uint64) Accept { return Accept{kind: acceptBits, bits: words} }

// AcceptDocs accepts the docs given, strictly ascending. The slice is kept,
// not copied. Meant for few docs: they then lead the search and no block
// without one of them is read.
func AcceptDocs(docs []uint32) Accept { return Accept{kind: acceptDocs, docs: docs} }

// Has tells whether doc is accepted.
func (a *Accept) Has(doc uint32) bool {
	switch a.kind {
	case acceptBits:
		w := int(doc >> 6)
		return w < len(a.bits) && a.bits[w]>>(doc&63)&1 != 0
	case acceptDocs:
		_, ok := slices.BinarySearch(a.docs, doc)
		return ok
	}
	return true
}

// mask clears the bits of a window of docs starting at s, a multiple of 64,
// that are not accepted. pos is a cursor into docs that only moves on.
func (a *Accept) mask(window []uint64, s uint32, pos int) int {
	switch a.kind {
	case acceptBits:
		w := int(s >> 6)
		for i := range window {
			if w+i >= len(a.bits) {
				clear(window[i:])
				break
			}
			window[i] &= a.bits[w+i]
		}
	case acceptDocs:
		var keep [windowWords]uint64
		pos = lowerBound(a.docs, pos, s)
		end := uint64(s) + uint64(len(window))*64
		for pos < len(a.docs) && uint64(a.docs[pos]) < end {
			d := a.docs[pos] - s
			keep[d>>6&(windowWords-1)] |= 1 << (d & 63)
			pos++
		}
		for i := range window {
			window[i] &= keep[i&(windowWords-1)]
		}
	}
	return pos
}

// lowerBound returns the first index i ≥ from with v[i] ≥ x, by galloping.
func lowerBound(v []uint32, from int, x uint32) int {
	step := 1
	lo := from
	for lo+step <= len(v) && v[lo+step-1] < x {
		lo += step
		step *= 2
	}
	hi := min(lo+step, len(v))
	for lo < hi {
		m := int(uint(lo+hi) / 2)
		if v[m] < x {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// A heap keeps the k best keys; the worst is at the root. A key is score<<32 |
// ^doc: of two keys the greater has the higher score or, at equal scores, the
// lower doc, so that one comparison of integers is the whole order.
//
// From k = minTally on the keys are a plain list instead, and a tally of their
// scores tells the floor: see tally.
type heap struct {
	keys  []uint64
	k     int
	floor uint32 // least score that may enter
	tally tally
}

// reset empties the heap. No score will exceed top.
func (h *heap) reset(k int, floor uint32, top int64) {
	h.keys, h.k, h.floor = h.keys[:0], k, floor
	if k >= minTally {
		h.tally.reset(top)
	}
}

// push offers a doc. Docs must come in ascending order: then a doc that ties
// with the root of a full heap has lost, and the floor is one above the root.
func (h *heap) push(doc, score uint32) {
	if score < h.floor {
		return
	}
	key := uint64(score)<<32 | uint64(^doc)
	if h.k >= minTally {
		h.add(key, score)
		return
	}
	if len(h.keys) < h.k {
		h.keys = append(h.keys, key)
		siftUp(h.keys)
	} else {
		if key <= h.keys[0] {
			return
		}
		h.keys[0] = key
		siftDown(h.keys)
	}
	if len(h.keys) == h.k {
		h.floor = max(h.floor, saturate(h.keys[0]>>32+1))
	}
}

func saturate(x uint64) uint32 { return uint32(min(x, 1<<32-1)) }

func siftUp(v []uint64) {
	i := len(v) - 1
	x := v[i]
	for i > 0 {
		p := (i - 1) / 2
		if v[p] <= x {
			break
		}
		v[i] = v[p]
		i = p
	}
	v[i] = x
}

func siftDown(v []uint64) {
	x := v[0]
	i := 0
	for {
		c := 2*i + 1
		if c >= len(v) {
			break
		}
		if c+1 < len(v) && v[c+1] < v[c] {
			c++
		}
		if v[c] >= x {
			break
		}
		v[i] = v[c]
		i = c
	}
	v[i] = x
}

// drain appends the kept docs to dst, best first.
func (h *heap) drain(dst []Scored) []Scored {
	if h.k >= minTally {
		h.dropBelow()
	}
	slices.Sort(h.keys)
	for i := len(h.keys) - 1; i >= max(len(h.keys)-h.k, 0); i-- {
		dst = append(dst, Scored{Doc: ^uint32(h.keys[i]), Raw: int64(h.keys[i] >> 32)})
	}
	return dst
}

const (
	// minTally is the k from which on a tally beats a heap.
	minTally = 64

	tallyBits = 11
)

// A tally counts the keys by the leading bits of their scores. The least score
// of the bucket that holds the k-th best key is the floor: it trails the true
// one by a 2^11th of the greatest score, and keeping it takes no walk through
// a heap. Keys below the floor wait in the list until it is full.
type tally struct {
	counts [1 << tallyBits]uint32
	shift  int
	at     int    // bucket of the floor
	above  int    // keys in bucket at and above
	least  uint32 // no key of the k best has a lower score
}

func (t *tally) reset(top int64) {
	t.counts = [1 << tallyBits]uint32{}
	t.shift = max(bits.Len64(uint64(max(top, 0)))-tallyBits, 0)
	t.at, t.above, t.least = 0, 0, 0
}

// add takes a key whose score has reached the floor.
func (h *heap) add(key uint64, score uint32) {
	if len(h.keys) >= 2*h.k {
		h.dropBelow()
		if len(h.keys) > h.k+h.k/2 {
			h.dropAll()
		}
		if score < h.floor {
			return
		}
	}
	h.keys = append(h.keys, key)
	t := &h.tally
	i := max(min(int(score>>t.shift), len(t.counts)-1), t.at)
	t.counts[i]++
	t.above++
	for t.above-int(t.counts[t.at]) >= h.k {
		t.above -= int(t.counts[t.at])
		t.at++
		t.least = uint32(t.at << t.shift)
		h.floor = max(h.floor, t.least)
	}
}

// dropBelow drops the keys that are not among the k best for sure.
func (h *heap) dropBelow() {
	n := 0
	for _, key := range h.keys {
		h.keys[n] = key
		if uint32(key>>32) >= h.tally.least {
			n++
		}
	}
	h.keys = h.keys[:n]
}

// dropAll drops all but the k best keys, where too many share the bucket of
// the k-th. As docs ascend, a later one must beat it.
func (h *heap) dropAll() {
	slices.Sort(h.keys)
	h.keys = append(h.keys[:0], h.keys[len(h.keys)-h.k:]...)
	h.floor = max(h.floor, saturate(h.keys[0]>>32+1))
	t := &h.tally
	t.least = uint32(h.keys[0] >> 32)
	t.counts[t.at] = 0
	t.above = h.k
	for _, key := range h.keys {
		if i := min(int(key>>32>>t.shift), len(t.counts)-1); i <= t.at {
			t.counts[t.at]++
		}
	}
}

func popcount(words []uint64) int {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}
