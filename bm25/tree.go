package bm25

import (
	"math"
	"math/bits"

	"github.com/quarrysearch/quarry/storage"
)

// A frame is the result of one node in one window: the docs that match, and
// their scores where they do.
type frame struct {
	set    [windowWords]uint64
	scores [windowDocs]uint32
	counts [windowDocs]uint16
	sums   [windowDocs]uint64
}

// tree searches any query in windows of aligned docs. It skips windows that
// the bounds rule out; inside a window every leaf that can matter is read.
func (x *search) tree(root *node) {
	s := x.s
	x.place()
	from := uint32(0)
	for {
		var ok bool
		if from, ok = x.nextAccepted(from); !ok {
			return
		}
		from &^= 63
		to := uint32(min(uint64(from)+windowDocs, uint64(x.docs)))
		s.Work.Windows++
		bound, until := x.nodeBound(root, from, to)
		if bound < uint64(s.heap.floor) {
			s.Work.Skipped++
			if until >= x.docs {
				return
			}
			from = max(until, to)
			continue
		}
		f := x.eval(root, 0, from, to, true)
		x.at = x.accept.mask(f.set[:], from, x.at)
		n := listBits(s.docs[:], &f.set, from)
		s.Work.Candidates += n
		for _, d := range s.docs[:n] {
			s.heap.push(d, f.scores[(d-from)&(windowDocs-1)])
		}
		from = to
	}
}

// place makes room for the frames and finds each leaf's run.
func (x *search) place() {
	s := x.s
	if need := x.b.root.depth + 1; len(s.frames) < need {
		s.frames = make([]frame, need)
	}
	if cap(s.leafOf) < len(x.b.leaves) {
		s.leafOf = make([]int, len(x.b.leaves))
	}
	x.leafOf = s.leafOf[:len(x.b.leaves)]
	clear(x.leafOf)
	n := 0
	for i := range x.b.leaves {
		if n < len(s.leaves) && s.leaves[n].l == &x.b.leaves[i] {
			n++
			x.leafOf[i] = n
		}
	}
}

// run returns the run of a leaf, or nil when it has none in the segment.
func (x *search) run(n *node) *leafRun {
	if i := x.leafOf[n.leaf]; i > 0 {
		return &x.s.leaves[i-1]
	}
	return nil
}

// nodeBound bounds the scores of a node in [from, to), 0 when nothing there
// can match, and tells up to which doc that holds.
func (x *search) nodeBound(n *node, from, to uint32) (bound uint64, until uint32) {
	switch n.op {
	case opLeaf:
		r := x.run(n)
		if r == nil {
			return 0, noDoc
		}
		b, u := r.boundIn(from, to)
		return uint64(b), u
	case opAny:
		return x.anyBound(n.kids, n.min, from, to)
	case opAll:
		return x.allBound(n.kids, from, to)
	case opMax:
		return x.bestBound(n, from, to)
	case opConst:
		if bound, until = x.nodeBound(n.kids[0], from, to); bound > 0 {
			bound = uint64(n.raw)
		}
		return bound, until
	}
	for _, k := range n.filter {
		if b, u := x.nodeBound(k, from, to); b == 0 {
			return 0, u
		}
	}
	must, until := uint64(0), uint32(noDoc)
	if len(n.kids) > 0 {
		if must, until = x.allBound(n.kids, from, to); must == 0 {
			return 0, until
		}
	}
	should, u := x.anyBound(n.should, n.min, from, to)
	if should == 0 && n.min > 0 {
		return 0, u
	}
	return must + should + uint64(n.raw), min(until, u)
}

// bestBound bounds a maximum, which is monotone in its parts.
func (x *search) bestBound(n *node, from, to uint32) (bound uint64, until uint32) {
	high, sum := uint64(0), uint64(0)
	until = noDoc
	for _, k := range n.kids {
		b, u := x.nodeBound(k, from, to)
		high = max(high, b)
		sum += b
		until = min(until, u)
	}
	return high + (sum-high)*n.tie/tieUnit, until
}

func (x *search) allBound(kids []*node, from, to uint32) (bound uint64, until uint32) {
	until = noDoc
	for _, k := range kids {
		b, u := x.nodeBound(k, from, to)
		if b == 0 {
			return 0, u
		}
		bound += b
		until = min(until, u)
	}
	return bound, until
}

func (x *search) anyBound(kids []*node, least int, from, to uint32) (bound uint64, until uint32) {
	until = noDoc
	matching := 0
	for _, k := range kids {
		b, u := x.nodeBound(k, from, to)
		if b > 0 {
			matching++
		}
		bound += b
		until = min(until, u)
	}
	if matching < least {
		return 0, until
	}
	return bound, until
}

// eval computes a node in a window into the frame of its depth.
func (x *search) eval(n *node, depth int, from, to uint32, scored bool) *frame {
	f := &x.s.frames[depth]
	f.set = [windowWords]uint64{}
	if n.op == opLeaf {
		r := x.run(n)
		if r == nil {
			return f
		}
		if !scored && r.kind == leafTerm {
			r.cur[0].mark(&f.set, from, to)
			return f
		}
		docs, freqs := r.drain(x.s, from, to)
		x.s.Work.Scored += len(docs)
		for i, d := range docs {
			o := (d - from) & (windowDocs - 1)
			f.set[o>>6] |= 1 << (o & 63)
			if scored {
				f.scores[o] = contribution(r.w, freqs[i], r.inv[r.norms[d]])
			}
		}
		return f
	}
	if scored {
		f.scores = [windowDocs]uint32{}
	}
	switch n.op {
	case opAny:
		x.evalAny(n.kids, n.min, f, depth, from, to, scored, false)
	case opAll:
		x.evalAll(n.kids, f, depth, from, to, scored)
	case opMax:
		x.evalBest(n, f, depth, from, to, scored)
	case opConst:
		f.set = x.eval(n.kids[0], depth+1, from, to, false).set
		if scored {
			f.addConstant(n.raw)
		}
	case opBool:
		x.evalBool(n, f, depth, from, to, scored)
	}
	return f
}

func (x *search) evalBool(n *node, f *frame, depth int, from, to uint32, scored bool) {
	within := len(n.kids) > 0
	if within && !x.evalAll(n.kids, f, depth, from, to, scored) {
		return
	}
	for _, k := range n.filter {
		kid := x.eval(k, depth+1, from, to, false)
		for i := range f.set {
			if within {
				f.set[i] &= kid.set[i]
			} else {
				f.set[i] = kid.set[i]
			}
		}
		within = true
	}
	x.evalAny(n.should, n.min, f, depth, from, to, scored, within)
	for _, k := range n.not {
		kid := x.eval(k, depth+1, from, to, false)
		for i := range f.set {
			f.set[i] &^= kid.set[i]
		}
	}
	if scored && n.raw > 0 {
		f.addConstant(n.raw)
	}
}

// evalBest joins kids into f, each doc with the best score and its share of the
// others'.
func (x *search) evalBest(n *node, f *frame, depth int, from, to uint32, scored bool) {
	if n.tie > 0 {
		f.sums = [windowDocs]uint64{}
	}
	for _, k := range n.kids {
		kid := x.eval(k, depth+1, from, to, scored)
		for i, w := range kid.set {
			f.set[i] |= w
			for ; scored && w != 0; w &= w - 1 {
				o := (i*64 + bits.TrailingZeros64(w)) & (windowDocs - 1)
				f.scores[o] = max(f.scores[o], kid.scores[o])
				f.sums[o] += uint64(kid.scores[o])
			}
		}
	}
	if !scored || n.tie == 0 {
		return
	}
	count := listBits(x.s.docs[:], &f.set, 0)
	for _, o := range x.s.docs[:count] {
		high := uint64(f.scores[o&(windowDocs-1)])
		f.scores[o&(windowDocs-1)] = uint32(high + (f.sums[o&(windowDocs-1)]-high)*n.tie/tieUnit)
	}
}

// addConstant adds a score to every doc of f.
func (f *frame) addConstant(raw uint32) {
	for i, w := range f.set {
		for ; w != 0; w &= w - 1 {
			f.scores[(i*64+bits.TrailingZeros64(w))&(windowDocs-1)] += raw
		}
	}
}

// evalAll intersects kids into f. It reports false when nothing is left.
func (x *search) evalAll(kids []*node, f *frame, depth int, from, to uint32, scored bool) bool {
	for i, k := range kids {
		kid := x.eval(k, depth+1, from, to, scored)
		some := uint64(0)
		for w := range f.set {
			if i == 0 {
				f.set[w] = kid.set[w]
			} else {
				f.set[w] &= kid.set[w]
			}
			some |= f.set[w]
		}
		if some == 0 {
			return false
		}
		if scored {
			f.add(kid, &f.set)
		}
	}
	return len(kids) > 0
}

// evalAny adds kids to f and keeps the docs that at least least of them have;
// with within, only docs already in f count.
func (x *search) evalAny(kids []*node, least int, f *frame, depth int, from, to uint32, scored, within bool) {
	if least > 1 {
		f.counts = [windowDocs]uint16{}
	}
	var union [windowWords]uint64
	for _, k := range kids {
		if !scored && least <= 1 && k.op == opLeaf {
			if r := x.run(k); r == nil || r.kind == leafTerm {
				if r != nil {
					r.cur[0].mark(&union, from, to)
				}
				continue
			}
		}
		kid := x.eval(k, depth+1, from, to, scored)
		for w := range union {
			union[w] |= kid.set[w]
		}
		if scored {
			f.add(kid, &kid.set)
		}
		if least > 1 {
			n := listBits(x.s.docs[:], &kid.set, 0)
			for _, o := range x.s.docs[:n] {
				f.counts[o&(windowDocs-1)]++
			}
		}
	}
	if least > 1 {
		n := listBits(x.s.docs[:], &union, 0)
		for _, o := range x.s.docs[:n] {
			if int(f.counts[o&(windowDocs-1)]) < least {
				union[o>>6&(windowWords-1)] &^= 1 << (o & 63)
			}
		}
	}
	switch {
	case !within:
		f.set = union
	case least > 0:
		for w := range f.set {
			f.set[w] &= union[w]
		}
	}
}

// add adds the scores of a kid where set says.
func (f *frame) add(kid *frame, set *[windowWords]uint64) {
	for i, w := range set {
		if w == 0 {
			continue
		}
		to, from := f.scores[i*64:i*64+64], kid.scores[i*64:i*64+64]
		for ; w != 0; w &= w - 1 {
			b := bits.TrailingZeros64(w) & 63
			to[b] += from[b]
		}
	}
}

// Matches sets the bits of the docs of a segment that match and are accepted,
// without scores. dst is reused when large enough; the result has one bit a
// doc, ⌈docs/64⌉ words; none when the segment lacks every field of the query.
func (b *Bound) Matches(seg int, accept Accept, s *Scratch, dst []uint64) ([]uint64, error) {
	if seg < 0 || seg >= b.segs {
		return nil, storage.Invalidf("bm25: segment %d of %d", seg, b.segs)
	}
	words := int((uint64(b.docs[seg]) + 63) / 64)
	if cap(dst) < words {
		dst = make([]uint64, words)
	}
	dst = dst[:words]
	clear(dst)
	err := b.eachWindow(seg, accept, s, func(word int, set []uint64) { copy(dst[word:], set) })
	return dst, err
}

// Count returns the number of docs of a segment that match and are accepted.
func (b *Bound) Count(seg int, accept Accept, s *Scratch) (int, error) {
	if seg < 0 || seg >= b.segs {
		return 0, storage.Invalidf("bm25: segment %d of %d", seg, b.segs)
	}
	if accept.kind == acceptAll && b.root.op == opAny && b.root.min == 1 && b.root.flat() {
		if n, ok, err := b.countUnion(seg, s); ok {
			return n, err
		}
	}
	n := 0
	err := b.eachWindow(seg, accept, s, func(_ int, set []uint64) { n += popcount(set) })
	return n, err
}

// fewSought is the number of docs in a window up to which they are sought in
// the longest list rather than both be joined as bits.
const fewSought = 64

// countUnion counts the docs of any of several terms: all of the most frequent
// one, and those of the others that it lacks, so that its list is read only
// where the others have docs. ok is false when the leaves are not all terms.
func (b *Bound) countUnion(seg int, s *Scratch) (n int, ok bool, err error) {
	x := search{b: b, s: s, accept: &Accept{}, docs: b.docs[seg]}
	x.open(seg)
	most := 0
	for i := range s.leaves {
		if s.leaves[i].kind != leafTerm {
			return 0, false, nil
		}
		if s.leaves[i].df > s.leaves[most].df {
			most = i
		}
	}
	if len(s.leaves) == 0 {
		return 0, true, nil
	}
	longest := &s.leaves[most].cur[0]
	n = int(longest.e.df)
	for from := uint32(0); from < x.docs && !s.canceled(); {
		to, next := uint32(min(uint64(from)+windowDocs, uint64(x.docs))), uint32(noDoc)
		var set [windowWords]uint64
		for i := range s.leaves {
			if c := &s.leaves[i].cur[0]; i != most {
				next = min(next, c.mark(&set, from, to))
			}
		}
		if count := popcount(set[:]); count > fewSought {
			var held [windowWords]uint64
			longest.mark(&held, from, to)
			for i, w := range set {
				n += bits.OnesCount64(w &^ held[i])
			}
		} else if count > 0 {
			for _, d := range s.docs[:listBits(s.docs[:], &set, from)] {
				if longest.seek(d) != d {
					n++
				}
			}
		}
		from = max(to, next&^63)
	}
	return n, true, s.err()
}

// mark sets the bits of the postings in the window [from, to) and returns a doc
// at or after to before which none lies. Blocks stored as bitsets are taken as
// they are.
func (c *cursor) mark(set *[windowWords]uint64, from, to uint32) uint32 {
	s := &c.skip
	for at := from; at < to; at = s.last + 1 {
		if s.block < 0 || s.last < at {
			if !s.seek(at) {
				return noDoc
			}
		}
		if s.done() {
			return noDoc
		}
		if s.lo >= to {
			return s.lo
		}
		if c.docsBlock != s.block && (c.setBlock == s.block || c.openSet()) {
			c.set.orInto(set, from)
		} else if c.docsBlock == s.block || c.load() {
			c.i = seekInBlock(&c.docs, c.n, 0, at)
			for _, d := range c.docs[c.i:c.n] {
				if d >= to {
					return d
				}
				o := (d - from) & (windowDocs - 1)
				set[o>>6] |= 1 << (o & 63)
			}
		} else {
			return noDoc
		}
		if s.last >= to-1 {
			return to
		}
	}
	return to
}

// eachWindow calls fn with the matching docs of each window that has any: the
// number of its first word, and its words.
func (b *Bound) eachWindow(seg int, accept Accept, s *Scratch, fn func(word int, set []uint64)) error {
	x := search{b: b, s: s, accept: &accept, docs: b.docs[seg]}
	x.open(seg)
	x.place()
	from := uint32(0)
	for {
		var ok bool
		if from, ok = x.nextAccepted(from); !ok {
			break
		}
		from &^= 63
		to := uint32(min(uint64(from)+windowDocs, uint64(x.docs)))
		if bound, until := x.nodeBound(b.root, from, to); bound == 0 {
			if until >= x.docs {
				break
			}
			from = max(until, to)
			continue
		}
		f := x.eval(b.root, 0, from, to, false)
		words := f.set[:(to-from+63)/64]
		x.at = accept.mask(words, from, x.at)
		fn(int(from/64), words)
		from = to
	}
	return s.err()
}

// A combined leaf is a word in several fields as one, after Robertson, Zaragoza
// and Taylor, "Simple BM25 extension to multiple weighted fields" (2004). What
// saturates is Σ weight·tf·inverse norm; it takes the place of tf in units of
// 1/combinedUnit, each field's part cut to whole units, so that sums are exact,
// and the inverse norm is that unit.
const (
	combinedBits = 16
	combinedUnit = 1 << combinedBits
)

// startCombined is start for a word in several fields. Norms are not looked at,
// but every doc must have one: they are those of the field with most docs.
func (r *leafRun) startCombined(b *Bound, seg int, l *leaf, pool []cursor) (rest []cursor, ok bool) {
	*r = leafRun{kind: l.kind, l: l, inv: b.unit, w: l.w}
	n := 0
	for i, t := range l.terms {
		e := &b.entries[seg*len(b.terms)+t]
		if e.df == 0 {
			continue
		}
		f := b.fields[b.terms[t].field].perSeg[seg]
		if len(f.norms) > len(r.norms) {
			r.norms = f.norms
		}
		pool[n].open(f, e, l.w, l.inverses[i])
		r.df += e.df
		n++
	}
	r.cur = pool[:n:n]
	return pool[n:], n > 0
}

// combinedFreqs turns the tf of one field into its part of the sum.
func combinedFreqs(s *Scratch, docs, freqs []uint32, c *cursor, fields int) []uint32 {
	out := s.leafFreqs[:len(docs)]
	for i, d := range docs {
		out[i] = combinedFreq(freqs[i], c.inv[c.f.norms[d]], fields)
	}
	return out
}

// combinedFreq is at least 1, and so small that the fields' sum fits.
func combinedFreq(freq uint32, inv float32, fields int) uint32 {
	limit := uint32(math.MaxUint32 / uint64(fields))
	x := float32(float32(freq)*inv) * combinedUnit
	if !(x < float32(limit)/2) {
		return limit / 2
	}
	return max(uint32(x), 1)
}
