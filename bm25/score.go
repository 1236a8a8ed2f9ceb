package bm25

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/quarrysearch/quarry/bm25/score"
)

// Scale is the number of raw units in a BM25 score of 1.
const Scale = score.Scale

// maxWeight bounds the weight of one clause.
const maxWeight = score.MaxWeight

// normFree is the count of lengths coded as themselves before the coding of
// encodeNorm turns into a float of 4 bits of mantissa.
const normFree = 24

// encodeNorm codes a length in one byte: exact to 39, then rounded down to
// four significant bits (Lucene's SmallFloat.intToByte4). It is monotone.
func encodeNorm(length uint32) byte {
	length = min(length, math.MaxInt32)
	if length < normFree {
		return byte(length)
	}
	v := length - normFree
	n := bits.Len32(v)
	if n < 4 {
		return byte(normFree + v)
	}
	shift := n - 4
	return byte(normFree + (v>>shift&7 | uint32(shift+1)<<3))
}

// decodeNorm returns the least length with the given code.
func decodeNorm(norm byte) uint32 {
	if norm < normFree {
		return uint32(norm)
	}
	v := uint32(norm) - normFree
	if v < 8 {
		return normFree + v
	}
	return normFree + (v&7|8)<<(v>>3-1)
}

// IDF is the inverse document frequency of a term in n of docs docs:
// ln(1 + (docs − n + ½) / (n + ½)). It is positive for every n ≤ docs, also
// for a term in all of them (case C01) and in an empty field (C02); an n above
// docs counts as docs.
func IDF(docs, n uint64) float64 {
	n = min(n, docs)
	return naturalLog(1 + (float64(docs-n)+0.5)/(float64(n)+0.5))
}

// naturalLog is ln x for x ≥ 1 by the algorithm of FreeBSD's e_log.c, written
// so that no step can be fused with the next: math.Log is assembly on one CPU
// and Go on another, and may differ in the last bit.
func naturalLog(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
		l1    = 6.666666666666735130e-01
		l2    = 3.999999999940941908e-01
		l3    = 2.857142874366239149e-01
		l4    = 2.222219843214978396e-01
		l5    = 1.818357216161805012e-01
		l6    = 1.531383769920937332e-01
		l7    = 1.479819860511658591e-01
	)
	f1, ki := math.Frexp(x)
	if f1 < math.Sqrt2/2 {
		f1 *= 2
		ki--
	}
	f := f1 - 1
	k := float64(ki)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := float64(s2 * (l1 + float64(s4*(l3+float64(s4*(l5+float64(s4*l7)))))))
	t2 := float64(s4 * (l2 + float64(s4*(l4+float64(s4*l6)))))
	r := t1 + t2
	h := float64(0.5 * float64(f*f))
	return float64(k*ln2Hi) - ((h - (float64(s*(h+r)) + float64(k*ln2Lo))) - f)
}

// inverseNorms returns 1 / (k1·(1 − b + b·length/average)) for every norm. An
// average of 0 (no doc with the field, case C02) counts as 1.
func inverseNorms(p Params, average float64) *[256]float32 {
	if !(average > 0) {
		average = 1
	}
	var inv [256]float32
	for i := range inv {
		ratio := float64(p.B*float64(decodeNorm(byte(i)))) / average
		inv[i] = float32(1 / float64(p.K1*((1-p.B)+ratio)))
	}
	return &inv
}

// contribution is the raw score of one clause in one doc; see package score.
func contribution(w float32, freq uint32, inv float32) uint32 { return score.Of(w, freq, inv) }

// fullContribution bounds the contribution of every freq and norm.
func fullContribution(w float32) uint32 { return score.Full(w) }

// scoreBatch writes the contributions of a batch of docs, a block at most, to
// out.
func (s *Scratch) scoreBatch(out, docs, freqs []uint32, norms []byte, inv *[256]float32, w float32) {
	of := s.invs[:len(docs)]
	for i, d := range docs {
		of[i] = inv[norms[d]]
	}
	score.Batch(out[:len(docs)], freqs, of, w)
}

// scoreWindow adds the contributions of docs, all in the window that starts at
// from, to the accumulator and marks them in the bits.
func (s *Scratch) scoreWindow(from uint32, docs, freqs []uint32, norms []byte, inv *[256]float32, w float32) {
	acc, set := &s.acc, &s.set
	for len(docs) > 0 {
		n := min(len(docs), blockDocs)
		scores := s.part[:n]
		s.scoreBatch(scores, docs[:n], freqs[:n], norms, inv, w)
		for i, d := range docs[:n] {
			o := (d - from) & (windowDocs - 1)
			acc[o] += scores[i]
			set[o>>6] |= 1 << (o & 63)
		}
		docs, freqs = docs[n:], freqs[n:]
	}
}

// coarsen makes the unit of scores 2^shift times as large. Weights keep all their
// bits, so that only the rounding of contributions is coarser.
func (b *Bound) coarsen(shift uint) {
	b.shift = shift
	for i := range b.leaves {
		l := &b.leaves[i]
		l.w /= float32(uint64(1) << shift)
		l.full = fullContribution(l.w)
	}
	b.root.coarsen(shift)
}

func (n *node) coarsen(shift uint) {
	if n.raw > 0 {
		n.raw = max(n.raw>>shift, 1)
	}
	for _, kids := range [][]*node{n.kids, n.should, n.filter, n.not} {
		for _, k := range kids {
			k.coarsen(shift)
		}
	}
}

// Normalize maps a raw score to [0, 1]: y = x(1+k1)/(1+k1·x) with x = raw /
// idfSum, both in units of 2^-20. It is strictly monotone in raw (the slope is
// at least 1/(1+k1), far above the rounding of float64) and 1 at idfSum; y is
// about 0.65 when every term of the query occurs once in a doc of average
// length. idfSum below 1 counts as 1.
func Normalize(raw, idfSum int64, k1 float64) float64 {
	if raw <= 0 {
		return 0
	}
	x := float64(raw) / float64(max(idfSum, raw, 1))
	return x * (1 + k1) / (1 + float64(k1*x))
}

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
// last word are refused. The slice is kept, not copied. Where few are accepted,
// the others of a block are dropped before their freqs are read.
func AcceptBits(words []uint64) Accept { return Accept{kind: acceptBits, bits: words} }

// FewDocs is how many docs there must be for each one that passes for AcceptDocs
// to be faster than AcceptBits.
const FewDocs = 512

// AcceptDocs accepts the docs given, strictly ascending. The slice is kept,
// not copied. Meant for few docs (FewDocs): they then lead the search and no
// block without one of them is read.
func AcceptDocs(docs []uint32) Accept { return Accept{kind: acceptDocs, docs: docs} }

// Has tells whether doc is accepted.
func (a *Accept) Has(doc uint32) bool {
	switch a.kind {
	case acceptBits:
		return a.hasBit(doc)
	case acceptDocs:
		_, ok := slices.BinarySearch(a.docs, doc)
		return ok
	}
	return true
}

func (a *Accept) hasBit(doc uint32) bool {
	w := int(doc >> 6)
	return w < len(a.bits) && a.bits[w]>>(doc&63)&1 != 0
}

// few tells whether no more than three fifths of the docs in [from, to) are
// accepted, by a sample of them: then it pays to drop the others of a block before
// their freqs are read.
func (a *Accept) few(from, to uint32) bool {
	if a.kind != acceptBits {
		return false
	}
	words := a.bits[min(int(from>>6), len(a.bits)):min(int(to>>6)+1, len(a.bits))]
	passed, all := 0, 0
	for i := 0; i < len(words); i += len(words)/8 + 1 {
		passed += bits.OnesCount64(words[i])
		all += 64
	}
	return 5*passed <= 3*all
}

// keep drops those of a block's n docs that are not accepted, and writes to at
// which of the n are left. It returns how many are.
func (a *Accept) keep(docs *[blockDocs]uint32, n int, at *[blockDocs]uint8) int {
	kept, words := 0, a.bits
	for i, d := range docs[:n] {
		w := int(d >> 6)
		if w >= len(words) {
			break
		}
		// Written first and kept by the count: no branch to mispredict.
		docs[kept&(blockDocs-1)], at[kept&(blockDocs-1)] = d, uint8(i)
		kept += int(words[w] >> (d & 63) & 1)
	}
	return kept
}

// keepSet is keep for a block that is a bitset: it writes the accepted docs.
func (a *Accept) keepSet(b *bitset, docs *[blockDocs]uint32, at *[blockDocs]uint8) int {
	n, i, shift := 0, int(b.base>>6), b.base&63
	for k := 0; 8*k+8 <= len(b.words) && i < len(a.bits); k++ {
		held := binary.LittleEndian.Uint64(b.words[8*k:])
		w := a.bits[i] >> shift
		if i++; i < len(a.bits) {
			w |= a.bits[i] << (64 - shift)
		}
		for w &= held; w != 0; w &= w - 1 {
			bit := bits.TrailingZeros64(w)
			docs[n&(blockDocs-1)] = b.base + uint32(64*k+bit)
			at[n&(blockDocs-1)] = b.ranks[k] + uint8(bits.OnesCount64(held&(1<<bit-1)))
			n++
		}
	}
	return n
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
