package bm25

import (
	"math"
	"math/bits"
	"slices"

	"github.com/quarrysearch/quarry/bm25/score"
	"github.com/quarrysearch/quarry/storage"
)

const (
	windowDocs  = 8192
	windowWords = windowDocs / 64
	// firstWindow is the size of a disjunction's first window, which has no floor
	// yet: every posting in it is scored. The next ones double.
	firstWindow = 1024

	// cancelWindows is how many windows or blocks pass between two calls of
	// Scratch.Cancel: at most 65,536 docs of every word.
	cancelWindows = 8
)

// Work counts what a search did, for benchmarks and plans.
type Work struct {
	Windows    int // windows and blocks looked into
	Skipped    int // and passed over by their bounds
	Scored     int // postings of essential clauses scored
	Candidates int // docs that met the bounds, before the other clauses
	Positions  int // docs whose positions were read
}

// A Scratch is the memory of one search at a time. It grows to what the
// largest query needs, 3.2 KB a term, and then a search allocates nothing.
// The zero value is ready. Work adds up over searches until the caller clears
// it.
type Scratch struct {
	Work Work
	// Cancel, if not nil, is asked every cancelWindows windows or blocks; an error
	// ends the search with it.
	Cancel func() error

	asked     int   // calls of canceled in this search
	ended     error // what Cancel said
	cursors   []cursor
	leaves    []leafRun
	order     []int // leaves by bound
	keys      []uint64
	heap      heap
	acc       [windowDocs]uint32
	set       [windowWords]uint64
	docs      [windowDocs]uint32
	scores    [windowDocs]uint32
	invs      [blockDocs]float32 // of a batch to be scored
	part      [blockDocs]uint32  // and its contributions
	leafDocs  [windowDocs]uint32
	leafFreqs [windowDocs]uint32
	sums      [windowDocs]uint32 // all zero between uses, as acc and sumSet
	sumSet    [windowWords]uint64
	frames    []frame
	positions [][]uint32
	places    []int
	ranks     [blockDocs]uint16 // of candidates in a block
	hits      [blockDocs]uint16 // those it holds
	freqs     [blockDocs]uint32 // and their freqs
	leafOf    []int
	need      [256]uint8 // by norm: no freq up to it reaches the floor
}

// A search is one query at work in one segment.
type search struct {
	b      *Bound
	s      *Scratch
	accept *Accept
	at     int  // cursor into accept.docs
	few    bool // few docs are accepted where the search is
	docs   uint32
	leafOf []int // leaf → index in s.leaves + 1, for trees
}

// canceled tells whether the caller wants no more, asking now and then.
func (s *Scratch) canceled() bool {
	if s.Cancel != nil && s.ended == nil {
		if s.asked++; s.asked%cancelWindows == 1 {
			s.ended = s.Cancel()
		}
	}
	return s.ended != nil
}

// err is what ended the search before its end.
func (s *Scratch) err() error {
	for i := range s.leaves {
		if err := s.leaves[i].err(); err != nil {
			return err
		}
	}
	return s.ended
}

// TopK appends to dst the k best docs of a segment that accept lets through
// and whose raw score is at least floor: by score descending, then doc
// ascending. The result is that of Exhaustive, bit for bit.
//
// Or over words runs as windowed block-max MAXSCORE (Turtle and Flood 1995;
// Ding and Suel 2011; windows as in Lucene's MaxScoreBulkScorer), And of one
// field block by block of the rarest word, a phrase likewise; other trees in
// windows that are skipped when their bounds sum up to too little.
// Errors: ErrInvalid for a segment out of range, ErrCorrupt, that of
// Scratch.Cancel.
func (b *Bound) TopK(seg, k int, accept Accept, floor Floor, s *Scratch, dst []Scored) ([]Scored, error) {
	if seg < 0 || seg >= b.segs {
		return dst, storage.Invalidf("bm25: segment %d of %d", seg, b.segs)
	}
	k = int(min(int64(k), int64(b.docs[seg])))
	least := (max(int64(floor), 1) + 1<<b.shift - 1) >> b.shift
	if k <= 0 || b.shift == 0 && least > b.idfSum || least > math.MaxUint32 {
		return dst, nil
	}
	x := search{b: b, s: s, accept: &accept, docs: b.docs[seg]}
	s.heap.reset(k, uint32(least), b.idfSum>>b.shift)
	x.open(seg)
	root := b.root
	switch {
	case len(s.leaves) == 0:
	case root.op == opLeaf && s.leaves[0].kind == leafPhrase,
		root.op == opAny && root.min == 1 && len(s.leaves) == 1 && s.leaves[0].kind == leafPhrase && root.flat():
		x.phrase(&s.leaves[0])
	case root.op == opLeaf, root.op == opAny && root.min == 1 && root.flat():
		x.or()
	case root.op == opAll && root.flat():
		if len(s.leaves) == len(root.kids) {
			x.and()
		}
	default:
		x.tree(root)
	}
	if err := s.err(); err != nil {
		return dst, err
	}
	before := len(dst)
	dst = s.heap.drain(dst)
	for i := before; b.shift > 0 && i < len(dst); i++ {
		dst[i].Raw <<= b.shift
	}
	return dst, nil
}

// flat tells whether all kids are leaves.
func (n *node) flat() bool {
	for _, k := range n.kids {
		if k.op != opLeaf {
			return false
		}
	}
	return true
}

// open starts the leaves that can match in the segment.
func (x *search) open(seg int) {
	s, b := x.s, x.b
	s.asked, s.ended = 0, nil
	if n := b.cursors(); cap(s.cursors) < n {
		s.cursors = make([]cursor, n)
	}
	if cap(s.leaves) < len(b.leaves) {
		s.leaves = make([]leafRun, 0, len(b.leaves))
		s.order = make([]int, 0, len(b.leaves))
		s.keys = make([]uint64, 0, len(b.leaves))
	}
	pool := s.cursors[:cap(s.cursors)]
	s.leaves = s.leaves[:0]
	for i := range b.leaves {
		n := len(s.leaves)
		s.leaves = s.leaves[:n+1]
		var ok bool
		if pool, ok = s.leaves[n].start(b, seg, &b.leaves[i], pool); !ok {
			s.leaves = s.leaves[:n]
		}
	}
}

// cursors returns the number of cursors a search needs.
func (b *Bound) cursors() int {
	n := 0
	for i := range b.leaves {
		n += len(b.leaves[i].terms)
	}
	return n
}

// nextAccepted returns the first doc ≥ from that is accepted; none when the
// search is canceled.
func (x *search) nextAccepted(from uint32) (uint32, bool) {
	if from >= x.docs || x.s.canceled() {
		return from, false
	}
	a := x.accept
	switch a.kind {
	case acceptDocs:
		x.at = lowerBound(a.docs, x.at, from)
		if x.at == len(a.docs) || a.docs[x.at] >= x.docs {
			return from, false
		}
		return a.docs[x.at], true
	case acceptBits:
		i := int(from >> 6)
		if i >= len(a.bits) {
			return from, false
		}
		w := a.bits[i] >> (from & 63) << (from & 63)
		for w == 0 {
			if i++; i >= len(a.bits) {
				return from, false
			}
			w = a.bits[i]
		}
		d := uint32(i)<<6 + uint32(bits.TrailingZeros64(w))
		return d, d < x.docs
	}
	return from, true
}

// or is the disjunction over all leaves of the scratch.
func (x *search) or() {
	s := x.s
	from := uint32(0)
	for size := uint64(firstWindow); ; size = min(2*size, windowDocs) {
		var ok bool
		if from, ok = x.nextAccepted(from); !ok {
			return
		}
		from &^= 63
		to := uint32(min(uint64(from)+size, uint64(x.docs)))
		s.Work.Windows++
		x.few = x.accept.few(from, to)
		sum, until := x.bounds(from, to)
		floor := s.heap.floor
		if sum < uint64(floor) {
			s.Work.Skipped++
			if until >= x.docs {
				return
			}
			from = max(until, to)
			continue
		}
		rest, restSum := x.partition(floor)
		essential := s.order[rest:]
		switch {
		case x.accept.kind == acceptDocs:
			to = x.ledByFilter(from, to, uint32(min(sum, math.MaxUint32)))
		case len(essential) == 1 && s.leaves[essential[0]].kind == leafTerm:
			// Windows end at multiples of 64, or the next would overlap.
			to = max(min(until, x.docs)&^63, to)
			x.single(&s.leaves[essential[0]], from, to, s.order[:rest], restSum)
		default:
			for _, i := range essential {
				x.scoreEssential(&s.leaves[i], from, to)
			}
			n := x.collect(from, restSum, to)
			x.finish(n, from, to, s.order[:rest], restSum)
		}
		from = to
	}
}

// bounds sets the bound of every leaf in [from, to) and returns their sum, and
// up to which doc they all hold.
func (x *search) bounds(from, to uint32) (sum uint64, until uint32) {
	until = noDoc
	for i := range x.s.leaves {
		r := &x.s.leaves[i]
		b, u := r.boundIn(from, to)
		r.bound = b
		sum += uint64(b)
		until = min(until, u)
	}
	return sum, until
}

// partition orders the leaves so that the first rest of them, whose bounds
// sum up to restSum < floor, cannot lift a doc over the floor without one of
// the others, the essential ones. Leaves with much work for their bound come
// first. Leaves without postings in the window are left out.
func (x *search) partition(floor uint32) (rest int, restSum uint32) {
	s := x.s
	keys := s.keys[:0]
	for i := range s.leaves {
		if r := &s.leaves[i]; r.bound > 0 {
			key := float32(r.bound) / float32(r.df)
			keys = append(keys, uint64(math.Float32bits(key))<<32|uint64(i))
		}
	}
	slices.Sort(keys)
	order := s.order[:0]
	for _, k := range keys {
		order = append(order, int(uint32(k)))
	}
	sum := uint64(0)
	for j, i := range order {
		if b := uint64(s.leaves[i].bound); sum+b < uint64(floor) {
			sum += b
			// Keep the order of the others.
			copy(order[rest+1:j+1], order[rest:j])
			order[rest] = i
			rest++
		}
	}
	// Of the rest, the best is applied first.
	keys = keys[:0]
	for _, i := range order[:rest] {
		keys = append(keys, uint64(^s.leaves[i].bound)<<32|uint64(i))
	}
	slices.Sort(keys)
	for j, k := range keys {
		order[j] = int(uint32(k))
	}
	s.keys = keys
	s.order = order
	return rest, uint32(sum)
}

// scoreEssential adds a leaf to the window's accumulator.
func (x *search) scoreEssential(r *leafRun, from, to uint32) {
	s := x.s
	if r.kind != leafTerm {
		docs, freqs := r.drain(s, from, to)
		s.scoreWindow(from, docs, freqs, r.norms, r.inv, r.w)
		s.Work.Scored += len(docs)
		return
	}
	for at := from; at < to; {
		docs, freqs, next := x.piece(&r.cur[0], at, to)
		s.scoreWindow(from, docs, freqs, r.norms, r.inv, r.w)
		s.Work.Scored += len(docs)
		at = next
	}
}

// piece is that of a cursor, without the docs that are not accepted where it
// pays to look beforehand. next is where to go on, at least to at the end.
func (x *search) piece(c *cursor, from, to uint32) (docs, freqs []uint32, next uint32) {
	if x.few && !c.skip.small {
		return c.acceptedPiece(x.s, x.accept, from, to)
	}
	docs, freqs = c.piece(from, to)
	if len(docs) == 0 {
		return nil, nil, noDoc
	}
	return docs, freqs, docs[len(docs)-1] + 1
}

// collect turns the accumulator into candidates: accepted, and not hopeless.
// It leaves the accumulator empty.
func (x *search) collect(from, restSum, to uint32) int {
	s := x.s
	words := (to - from + 63) / 64
	keep := s.set
	x.at = x.accept.mask(keep[:words], from, x.at)
	least := s.heap.floor - min(s.heap.floor, restSum)
	return score.Collect(s.docs[:], s.scores[:], s.acc[:], s.set[:words], keep[:words], least, from)
}

// finish applies the other clauses to n candidates, dropping those that their
// bounds can no longer lift, and offers what is left to the heap.
func (x *search) finish(n int, from, to uint32, rest []int, restSum uint32) {
	s := x.s
	h := &s.heap
	s.Work.Candidates += n
	for _, i := range rest {
		r := &s.leaves[i]
		n = keepAbove(s.docs[:n], s.scores[:n], h.floor-min(h.floor, restSum))
		if n == 0 {
			return
		}
		r.addTo(s, s.docs[:n], s.scores[:n], from, to)
		restSum -= r.bound
	}
	for i, score := range s.scores[:n] {
		if score >= h.floor {
			h.push(s.docs[i], score)
		}
	}
}

// single searches [from, to) when one clause alone is essential: its blocks
// give the candidates and no accumulator is needed.
func (x *search) single(r *leafRun, from, to uint32, rest []int, restSum uint32) {
	s := x.s
	c := &r.cur[0]
	for from < to {
		// With a floor that has risen, a block alone may be hopeless.
		if !c.ahead.seek(from) || c.ahead.lo >= to {
			return
		}
		if uint64(c.boundOfBlock())+uint64(restSum) < uint64(s.heap.floor) {
			s.Work.Skipped++
			from = c.ahead.last + 1
			continue
		}
		docs, freqs, next := x.piece(c, max(from, c.ahead.lo), to)
		n := copy(s.docs[:], docs)
		s.scoreBatch(s.scores[:n], docs, freqs, r.norms, r.inv, r.w)
		s.Work.Scored += n
		n = keepAbove(s.docs[:n], s.scores[:n], s.heap.floor-min(s.heap.floor, restSum))
		n = x.keepAccepted(n)
		x.finish(n, from, to, rest, restSum)
		from = next
	}
}

// keepAccepted drops candidates that are not accepted.
func (x *search) keepAccepted(n int) int {
	s := x.s
	if x.accept.kind == acceptAll {
		return n
	}
	k := 0
	for i, d := range s.docs[:n] {
		if x.accepted(d) {
			s.docs[k], s.scores[k] = d, s.scores[i]
			k++
		}
	}
	return k
}

// accepted is Accept.Has of docs asked for in ascending order.
func (x *search) accepted(d uint32) bool {
	a := x.accept
	switch a.kind {
	case acceptBits:
		return a.hasBit(d)
	case acceptDocs:
		x.at = lowerBound(a.docs, x.at, d)
		return x.at < len(a.docs) && a.docs[x.at] == d
	}
	return true
}

// ledByFilter makes the accepted docs of the window candidates and every
// clause one of the rest. It returns where it stopped.
func (x *search) ledByFilter(from, to uint32, sum uint32) uint32 {
	n, to := x.takeAccepted(from, to)
	// The order of partition: the rest's best first, then the essentials.
	x.finish(n, from, to, x.s.order, sum)
	return to
}

// takeAccepted makes the accepted docs in [from, to) candidates of score 0. It
// returns their number and where it stopped, before to only when they are more
// than a window.
func (x *search) takeAccepted(from, to uint32) (int, uint32) {
	s, a := x.s, x.accept
	n := 0
	x.at = lowerBound(a.docs, x.at, from)
	for ; x.at < len(a.docs) && a.docs[x.at] < to; x.at++ {
		if n == windowDocs {
			return n, a.docs[x.at]
		}
		s.docs[n], s.scores[n] = a.docs[x.at], 0
		n++
	}
	return n, to
}

// and is the conjunction of all leaves of the scratch, all of them terms.
func (x *search) and() {
	s := x.s
	h := &s.heap
	order := s.order[:0]
	for i := range s.leaves {
		j := len(order)
		order = append(order, i)
		for ; j > 0 && s.leaves[order[j-1]].df > s.leaves[i].df; j-- {
			order[j] = order[j-1]
		}
		order[j] = i
	}
	s.order = order
	lead := &s.leaves[order[0]].cur[0]
	from := uint32(0)
	for {
		var ok bool
		if from, ok = x.nextAccepted(from); !ok || !lead.ahead.seek(from) {
			return
		}
		from = max(from, lead.ahead.lo)
		to := lead.ahead.last + 1
		s.Work.Windows++
		sum, skip := x.boundsAll(from, to)
		if skip > from {
			s.Work.Skipped++
			if skip == noDoc {
				return
			}
			from = skip
			continue
		}
		var n int
		others, left := order, uint32(sum)
		if x.accept.kind == acceptDocs {
			n, to = x.takeAccepted(from, to)
		} else {
			x.few = x.accept.few(from, to)
			docs, freqs, _ := x.piece(lead, from, to)
			n = copy(s.docs[:], docs)
			r := &s.leaves[order[0]]
			s.scoreBatch(s.scores[:n], docs, freqs, r.norms, r.inv, r.w)
			s.Work.Scored += n
			n = x.keepAccepted(n)
			others, left = order[1:], left-r.bound
		}
		for _, i := range others {
			n = keepAbove(s.docs[:n], s.scores[:n], h.floor-min(h.floor, left))
			if n == 0 {
				break
			}
			s.Work.Candidates += n
			r := &s.leaves[i]
			n = keepSought(s, &r.cur[0], s.docs[:n], s.scores[:n])
			left -= r.bound
		}
		for i, score := range s.scores[:n] {
			h.push(s.docs[i], score)
		}
		from = to
	}
}

// boundsAll is bounds for a conjunction. skip > from tells the doc to go on
// at when nothing in the range can reach the floor.
func (x *search) boundsAll(from, to uint32) (sum uint64, skip uint32) {
	until := uint32(noDoc)
	for i := range x.s.leaves {
		r := &x.s.leaves[i]
		b, u := r.boundIn(from, to)
		if b == 0 {
			return 0, u
		}
		r.bound = b
		sum += uint64(b)
		until = min(until, u)
	}
	if sum < uint64(x.s.heap.floor) {
		return sum, max(until, to)
	}
	return sum, from
}

// listBits lists the set bits of a window as docs.
func listBits(dst []uint32, set *[windowWords]uint64, from uint32) int {
	n := 0
	for i, w := range set {
		for w != 0 {
			dst[n&(windowDocs-1)] = from + uint32(i*64+bits.TrailingZeros64(w))
			w &= w - 1
			n++
		}
	}
	return n
}
