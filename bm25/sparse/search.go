package sparse

import (
	"math"
	"math/bits"
	"slices"
)

const (
	windowDocs  = 4096
	windowWords = windowDocs / 64

	// cancelWindows is how many windows pass between two calls of Scratch.Cancel.
	cancelWindows = 8
)

// A Scratch is the memory of one search at a time. It grows to what the largest
// query needs, 1.2 KB a term, and then a search allocates nothing. The zero
// value is ready.
type Scratch struct {
	// Postings counts those that were scored, for benchmarks.
	Postings int
	// Cancel, if not nil, is asked every cancelWindows windows; an error ends the
	// search with it.
	Cancel func() error

	cursors []cursor
	order   []int
	keys    []uint64            // the heap: Float32bits(score)<<32 | ^doc, the worst first
	sums    [windowDocs]uint64  // of the docs of a window; all zero between windows
	set     [windowWords]uint64 // those that have one
	docs    [windowDocs]uint32  // candidates
}

// A search is one query at work in one segment.
type search struct {
	b      *Bound
	s      *Scratch
	accept *Accept
	at     int // cursor into accept.Docs
	docs   uint32
	k      int
	floor  uint64 // the least key that may enter
	least  uint64 // no sum below can
}

// TopK appends to dst the k best docs of a segment that accept lets through and
// whose score is at least floor: by score descending, then doc ascending. The
// result is that of Exhaustive, bit for bit. Errors: ErrInvalid for a segment
// out of range, ErrCorrupt, that of Scratch.Cancel.
func (b *Bound) TopK(seg, k int, accept Accept, floor float32, s *Scratch, dst []Scored) ([]Scored, error) {
	if err := b.checkSegment(seg); err != nil {
		return dst, err
	}
	if k = min(k, int(min(b.docs[seg], math.MaxInt32))); k <= 0 {
		return dst, nil
	}
	x := search{b: b, s: s, accept: &accept, docs: b.docs[seg], k: k}
	s.open(b, seg)
	s.keys = s.keys[:0]
	x.raise(uint64(math.Float32bits(max(floor, 0))) << 32)
	if err := x.run(); err != nil {
		return dst, err
	}
	for i := range s.cursors {
		if err := s.cursors[i].err(); err != nil {
			return dst, err
		}
	}
	slices.Sort(s.keys)
	for i := len(s.keys) - 1; i >= 0; i-- {
		dst = append(dst, Scored{^uint32(s.keys[i]), math.Float32frombits(uint32(s.keys[i] >> 32))})
	}
	return dst, nil
}

// open starts a cursor for every term that the segment has.
func (s *Scratch) open(b *Bound, seg int) {
	if cap(s.cursors) < len(b.query) {
		s.cursors = make([]cursor, len(b.query))
	}
	s.cursors, s.order = s.cursors[:0], s.order[:0]
	for t, l := range b.listsOf(seg) {
		if l.blocks > 0 {
			n := len(s.cursors)
			s.cursors, s.order = s.cursors[:n+1], append(s.order, n)
			s.cursors[n].open(l, b.q[t])
		}
	}
}

// raise lifts the floor to a key.
func (x *search) raise(key uint64) {
	x.floor = key
	x.least = x.b.least(math.Float32frombits(uint32(key >> 32)))
}

// push offers a doc to the heap. Docs come in ascending order.
func (x *search) push(doc uint32, sum uint64) {
	key := uint64(math.Float32bits(x.b.score(sum)))<<32 | uint64(^doc)
	if key < x.floor {
		return
	}
	v := x.s.keys
	if len(v) < x.k {
		v = append(v, key)
		for i := len(v) - 1; i > 0 && v[i] < v[(i-1)/2]; i = (i - 1) / 2 {
			v[i], v[(i-1)/2] = v[(i-1)/2], v[i]
		}
		x.s.keys = v
	} else {
		i := 0
		for {
			c := 2*i + 1
			if c >= len(v) {
				break
			}
			if c+1 < len(v) && v[c+1] < v[c] {
				c++
			}
			if v[c] >= key {
				break
			}
			v[i] = v[c]
			i = c
		}
		v[i] = key
	}
	if len(v) == x.k {
		// A later doc of the same score has lost.
		if worst := (v[0]>>32 + 1) << 32; worst > x.floor {
			x.raise(worst)
		}
	}
}

// run goes through the docs in windows. Those of which no doc can enter are
// passed over.
func (x *search) run() error {
	s := x.s
	from := uint32(0)
	for window := 0; ; window++ {
		if s.Cancel != nil && window%cancelWindows == 0 {
			if err := s.Cancel(); err != nil {
				return err
			}
		}
		var ok bool
		if from, ok = x.nextAccepted(from); !ok {
			return nil
		}
		from &^= 63
		to := uint32(min(uint64(from)+windowDocs, uint64(x.docs)))
		sum := uint64(0)
		for i := range s.cursors {
			c := &s.cursors[i]
			c.bound = c.boundIn(from, to)
			sum += c.bound
		}
		if sum >= x.least {
			rest, restSum := x.partition()
			var n int
			if x.accept.Docs != nil {
				rest, restSum, n = len(s.order), sum, x.takeAccepted(to)
			} else {
				for _, i := range s.order[rest:] {
					s.add(&s.cursors[i], from, to)
				}
				n = x.collect(from, restSum)
			}
			x.finish(n, from, to, s.order[:rest], restSum)
		}
		if from = to; from >= x.docs {
			return nil
		}
	}
}

// nextAccepted returns the first doc ≥ from that is accepted.
func (x *search) nextAccepted(from uint32) (uint32, bool) {
	if a := x.accept; a.Docs != nil {
		n, _ := slices.BinarySearch(a.Docs[x.at:], from)
		if x.at += n; x.at == len(a.Docs) {
			return from, false
		}
		from = a.Docs[x.at]
	} else if a.Bits != nil {
		i := int(from / 64)
		if i >= len(a.Bits) {
			return from, false
		}
		w := a.Bits[i] >> (from % 64) << (from % 64)
		for w == 0 {
			if i++; i >= len(a.Bits) {
				return from, false
			}
			w = a.Bits[i]
		}
		from = uint32(i*64 + bits.TrailingZeros64(w))
	}
	return from, from < x.docs
}

// partition orders the cursors so that the first rest of them, whose bounds sum
// up to restSum, cannot lift a doc to the least sum without one of the others.
// Those with much work for their bound come first; of the rest, the best is
// applied first. The order of the last window is a good start for the sort.
func (x *search) partition() (rest int, restSum uint64) {
	s := x.s
	value := func(i int) float64 { c := &s.cursors[i]; return float64(c.bound) / float64(c.l.df) }
	insertionSort(s.order, func(a, b int) bool { return value(a) < value(b) })
	for j, i := range s.order {
		if b := s.cursors[i].bound; restSum+b < x.least {
			restSum += b
			copy(s.order[rest+1:j+1], s.order[rest:j])
			s.order[rest] = i
			rest++
		}
	}
	insertionSort(s.order[:rest], func(a, b int) bool { return s.cursors[a].bound > s.cursors[b].bound })
	return rest, restSum
}

func insertionSort(v []int, less func(a, b int) bool) {
	for i := 1; i < len(v); i++ {
		e, j := v[i], i
		for ; j > 0 && less(e, v[j-1]); j-- {
			v[j] = v[j-1]
		}
		v[j] = e
	}
}

// add adds the contributions of a term to the window.
func (s *Scratch) add(c *cursor, from, to uint32) {
	sums, set, q := &s.sums, &s.set, c.q
	for at := from; ; {
		docs, codes := c.piece(at, to)
		if len(docs) == 0 {
			return
		}
		s.Postings += len(docs)
		codes = codes[:2*len(docs)]
		for i, d := range docs {
			o := (d - from) & (windowDocs - 1)
			sums[o] += contribution(q, uint16(codes[2*i])|uint16(codes[2*i+1])<<8)
			set[o/64] |= 1 << (o % 64)
		}
		at = docs[len(docs)-1] + 1
	}
}

// collect makes docs of the window candidates: those accepted, and not hopeless.
func (x *search) collect(from uint32, restSum uint64) int {
	s := x.s
	least := x.least - min(x.least, restSum)
	n := 0
	for i, w := range s.set {
		if w == 0 {
			continue
		}
		keep := ^uint64(0)
		if x.accept.Bits != nil {
			keep = 0
			if j := int(from/64) + i; j < len(x.accept.Bits) {
				keep = x.accept.Bits[j]
			}
		}
		sums := s.sums[64*i : 64*i+64 : 64*i+64]
		for ; w != 0; w &= w - 1 {
			b := bits.TrailingZeros64(w) & 63
			s.docs[n&(windowDocs-1)] = from + uint32(64*i+b)
			if sums[b] >= least && keep>>b&1 != 0 {
				n++
			}
		}
	}
	return n
}

// takeAccepted makes the accepted docs below to candidates of sum 0.
func (x *search) takeAccepted(to uint32) (n int) {
	for d := x.accept.Docs; x.at < len(d) && d[x.at] < to && n < windowDocs; x.at++ {
		x.s.docs[n] = d[x.at]
		n++
	}
	return n
}

// seekCost is what it costs to seek a candidate, in postings that are added in a
// row.
const seekCost = 4

// finish applies the other terms to n candidates, dropping those that their
// bounds can no longer lift, and offers what is left to the heap. Where
// candidates are many, a term is added to the whole window: that is cheaper.
func (x *search) finish(n int, from, to uint32, rest []int, restSum uint64) {
	s := x.s
	for _, i := range rest {
		c := &s.cursors[i]
		if c.bound == 0 {
			continue
		}
		least := x.least - min(x.least, restSum)
		kept := 0
		for _, d := range s.docs[:n] {
			s.docs[kept] = d
			if s.sums[(d-from)&(windowDocs-1)] >= least {
				kept++
			}
		}
		if n = kept; n == 0 {
			break
		}
		if postings := float64(c.l.df) / float64(x.docs) * float64(to-from); float64(n)*seekCost > postings {
			s.add(c, from, to)
		} else {
			s.addTo(c, s.docs[:n], from)
		}
		restSum -= c.bound
	}
	for _, d := range s.docs[:n] {
		if sum := s.sums[(d-from)&(windowDocs-1)]; sum >= x.least {
			x.push(d, sum)
		}
	}
	clear(s.sums[:to-from])
	clear(s.set[:])
}

// addTo adds the contributions of a term to ascending candidates.
func (s *Scratch) addTo(c *cursor, docs []uint32, from uint32) {
	next := uint32(0) // no posting lies below, from the last seek on
	for _, d := range docs {
		if d < next {
			continue
		}
		if !c.seek(d) {
			return
		}
		s.Postings++
		if next = c.docs[c.i]; next == d {
			s.sums[(d-from)&(windowDocs-1)] += contribution(c.q, c.code(c.i))
		}
	}
}
