package hnsw

import (
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// AcceptLen is the number of words of an ord bitset: bit i%64 of word i/64
// stands for ord i.
func (f *Field) AcceptLen() int { return (f.n + 63) / 64 }

// AcceptDocs makes the ord bitset of a set of docs, appended to dst[:0]; docs
// without a vector are left out. Time grows with the set.
func (f *Field) AcceptDocs(docs *roaring.Bitmap, dst []uint64) []uint64 {
	dst = f.clearWords(dst)
	var buf [256]uint32
	it := docs.ManyIterator()
	for {
		m := it.NextMany(buf[:])
		if m == 0 {
			return dst
		}
		f.acceptAll(buf[:m], dst)
	}
}

// AcceptWords is AcceptDocs for a bitset over docs.
func (f *Field) AcceptWords(docs []uint64, dst []uint64) []uint64 {
	dst = f.clearWords(dst)
	if f.n == int(f.docCount) && f.ordsKind == ordsAscending {
		copy(dst, docs)
		return maskTail(dst, f.n)
	}
	var buf [64]uint32
	for i, word := range docs {
		m := 0
		for ; word != 0; word &= word - 1 {
			buf[m] = uint32(i*64 + bits.TrailingZeros64(word))
			m++
		}
		f.acceptAll(buf[:m], dst)
	}
	return dst
}

func (f *Field) clearWords(dst []uint64) []uint64 {
	n := f.AcceptLen()
	if cap(dst) < n {
		return make([]uint64, n)
	}
	dst = dst[:n]
	clear(dst)
	return dst
}

// acceptAll sets the bits of the docs that have a vector.
func (f *Field) acceptAll(docs []uint32, dst []uint64) {
	for _, doc := range docs {
		if ord, ok := f.Ord(doc); ok {
			dst[ord/64] |= 1 << (ord % 64)
		}
	}
}

// maskTail clears the bits past n.
func maskTail(words []uint64, n int) []uint64 {
	if n%64 != 0 {
		words[n/64] &= 1<<(n%64) - 1
	}
	return words
}

// SearchFiltered finds the K nearest vectors among those whose ord is in
// accept (AcceptDocs makes it; tombstoned docs are simply not in it). It
// returns min(K, accepted) of them, always: by the exact scan over the accepted
// rows when that is estimated to be cheaper than a walk, else by a walk that
// passes rejected nodes but returns accepted ones only, and that is abandoned
// for the scan once it has cost as much, so it never costs twice the scan.
// Bits past Len are ignored. Order and errors are those of Search.
func (f *Field) SearchFiltered(q []float32, p Params, accept []uint64, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return dst, Stats{}, err
	}
	if len(accept) != f.AcceptLen() {
		return dst, Stats{}, storage.Invalidf("accept has %d words, want %d", len(accept), f.AcceptLen())
	}
	if f.n%64 != 0 && accept[len(accept)-1]>>(f.n%64) != 0 {
		s.words = append(s.words[:0], accept...)
		accept = maskTail(s.words, f.n)
	}
	matches := 0
	for _, w := range accept {
		matches += bits.OnesCount64(w)
	}
	if matches == 0 {
		return dst, Stats{}, nil
	}
	wide := min(f.rescoring(p), matches)
	exact, walk := f.exactCost(matches)
	if !f.graph || matches <= wide {
		return f.scanAccepted(p, accept, matches, wide, s, dst, Stats{Plan: PlanFlat})
	}
	share := float64(matches) / float64(f.n)
	ef := f.efOf(p, wide)
	reach := min(max(int(float64(ef)/share), ef), f.nodes)
	if f.cal.cost(reach)*walk >= exact {
		return f.scanAccepted(p, accept, matches, wide, s, dst, Stats{Plan: PlanFlat})
	}
	return f.walkAccepted(p, accept, matches, wide, ef, reach, s, dst)
}

// walkAccepted is SearchFiltered by the graph: a beam of 2·reach steers, ef
// accepted nodes are kept.
func (f *Field) walkAccepted(p Params, accept []uint64, matches, wide, ef, reach int, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	w := f.newWalk(p, ef)
	exact, cost := f.exactCost(matches)
	w.budget = int(exact / cost)
	w.wide = ef
	var err error
	if w.accept, err = f.widen(accept, s); err != nil {
		return dst, w.stats, err
	}
	if err := f.descend(&w, s, 2*reach); err != nil {
		return dst, w.stats, err
	}
	if err := w.run(s); err != nil {
		return dst, w.stats, err
	}
	if !w.over {
		top, err := f.expandGroups(s, s.results.keys, wide, accept)
		if err != nil {
			return dst, w.stats, err
		}
		if len(top) >= min(p.K, matches) {
			dst, err = f.rescore(s, top, p.K, &w.stats, dst)
			return dst, w.stats, err
		}
	}
	w.stats.Plan = PlanAbandoned
	return f.scanAccepted(p, accept, matches, wide, s, dst, w.stats)
}

// exactCost is the cost of the scan over so many accepted rows, and that of
// one distance of a walk.
func (f *Field) exactCost(matches int) (exact, walk float64) {
	c := costsOf(f.codec.Stride())
	return min(float64(matches)*c.gather, float64(f.n)*c.scan), c.walk
}

// widen adds to accept the nodes that have an accepted duplicate: the walk
// must take them as results, expandGroups then drops the node itself.
func (f *Field) widen(accept []uint64, s *Scratch) ([]uint64, error) {
	if len(f.groups) == 0 {
		return accept, nil
	}
	s.accept = append(s.accept[:0], accept...)
	for i := range f.groupCount {
		node := f.groups[2*i]
		first, end, err := f.groupRange(i)
		if err != nil {
			return nil, err
		}
		if int(node) >= f.nodes {
			return nil, storage.Corruptf(sectionGroups, int64(8*i), "node %d of %d", node, f.nodes)
		}
		if anyBit(accept, int(first), int(end)) {
			s.accept[node/64] |= 1 << (node % 64)
		}
	}
	return s.accept, nil
}

// anyBit says whether a bit of lo..hi-1 is set, lo < hi.
func anyBit(words []uint64, lo, hi int) bool {
	first, last := lo/64, (hi-1)/64
	head, tail := ^uint64(0)<<(lo%64), ^uint64(0)>>(63-(hi-1)%64)
	if first == last {
		return words[first]&head&tail != 0
	}
	if words[first]&head != 0 || words[last]&tail != 0 {
		return true
	}
	for _, w := range words[first+1 : last] {
		if w != 0 {
			return true
		}
	}
	return false
}

// runFiltered is run with two beams: s.beam steers, over accepted and rejected
// nodes alike, s.results keeps the nearest accepted ones. It ends when the
// next node to expand is farther than all of a full s.results.
func (w *walk) runFiltered(s *Scratch) error {
	b, res := &s.beam, &s.results
	res.reset(w.wide)
	s.grow(walkWidth * w.table.stride)
	for _, k := range b.keys {
		w.take(res, k&^expanded)
	}
	next := 0
	for {
		if next < len(b.keys) && b.keys[next] > res.bound() {
			return nil
		}
		if w.stats.Distances > w.budget {
			w.over = true
			return nil
		}
		m, err := w.turn(s, &next)
		if err != nil {
			return err
		}
		if next < 0 {
			return nil
		}
		ids, dists := s.ids[:m], s.dists[:m]
		s.query.Distances(w.codes, ids, dists)
		for i, d := range dists {
			k := makeKey(d, ids[i])
			if k >= res.bound() {
				continue
			}
			w.take(res, k)
			if k < b.bound() {
				next = min(next, b.insert(k))
			}
		}
	}
}

func (w *walk) take(res *beam, k key) {
	if id := keyID(k); w.accept[id/64]>>(id%64)&1 == 1 && k < res.bound() {
		res.insert(k)
	}
}
