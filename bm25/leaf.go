package bm25

import "github.com/quarrysearch/quarry/bm25/score"

// A leafRun is a leaf of a query at work in one segment: its cursors and what
// scores them. The kind is switched on once a batch, never a posting.
type leafRun struct {
	kind  leafKind
	l     *leaf
	cur   []cursor // of l.terms; a prefix only has those in the segment
	lead  int      // phrase: the cursor with the fewest postings
	norms []byte
	inv   *[256]float32
	w     float32
	df    uint64 // postings to expect
	bound uint32 // in the window at hand
}

// start opens the cursors of a leaf, taken from the front of pool. ok is false
// when nothing can match.
func (r *leafRun) start(b *Bound, seg int, l *leaf, pool []cursor) (rest []cursor, ok bool) {
	if l.kind == leafCombined {
		return r.startCombined(b, seg, l, pool)
	}
	f := b.fields[l.field].perSeg[seg]
	if f == nil {
		return pool, false
	}
	*r = leafRun{kind: l.kind, l: l, norms: f.norms, inv: b.fields[l.field].inv, w: l.w}
	n := 0
	for _, t := range l.terms {
		e := &b.entries[seg*len(b.terms)+t]
		if e.df == 0 {
			if l.kind == leafPrefix {
				continue
			}
			return pool, false
		}
		pool[n].open(f, e, l.w, r.inv)
		if l.kind == leafPhrase {
			if n == 0 || e.df < r.df {
				r.df, r.lead = e.df, n
			}
		} else {
			r.df += e.df
		}
		n++
	}
	r.cur = pool[:n:n]
	return pool[n:], n > 0
}

func (r *leafRun) err() error {
	for i := range r.cur {
		if err := r.cur[i].err(); err != nil {
			return err
		}
	}
	return nil
}

// boundIn bounds the leaf's contributions in [from, to), as cursor.boundIn.
func (r *leafRun) boundIn(from, to uint32) (bound, until uint32) {
	switch r.kind {
	case leafTerm:
		return r.cur[0].boundIn(from, to)
	case leafPrefix, leafCombined:
		// The tf of the pseudo term is a sum, and the contribution is concave:
		// the sum of the bounds holds, save for rounding.
		sum, until := uint64(0), uint32(noDoc)
		for i := range r.cur {
			b, u := r.cur[i].boundIn(from, to)
			until = min(until, u)
			if b > 0 {
				sum += uint64(b) + 2 + uint64(r.l.full>>20)
				if r.kind == leafCombined {
					sum += uint64(r.l.full>>(combinedBits-1)) + 1
				}
			}
		}
		return uint32(min(sum, uint64(r.l.full))), until
	}
	// A phrase occurs at most as often as each of its terms.
	bound, until = r.l.full, noDoc
	for i := range r.cur {
		b, u := r.cur[i].boundIn(from, to)
		if b == 0 {
			return 0, u
		}
		bound, until = min(bound, b), min(until, u)
	}
	return bound, until
}

// drain writes the docs of the leaf in [from, to) and their freqs to the
// scratch, at most a window of them, and returns both.
func (r *leafRun) drain(s *Scratch, from, to uint32) (docs, freqs []uint32) {
	switch r.kind {
	case leafTerm:
		return r.drainTerm(s, from, to)
	case leafPrefix, leafCombined:
		return r.drainPrefix(s, from, to)
	}
	return r.drainPhrase(s, from, to)
}

// piece returns the rest of the cursor's block below to, and moves behind it;
// nothing when the list has none.
func (c *cursor) piece(from, to uint32) (docs, freqs []uint32) {
	if d := c.seek(from); d >= to {
		return nil, nil
	}
	if !c.load() || !c.loadFreqs() {
		return nil, nil
	}
	end := c.n
	if c.skip.last >= to {
		end = seekInBlock(&c.docs, c.n, c.i, to)
	}
	docs, freqs = c.docs[c.i:end], c.freqs[c.i:end]
	return docs, freqs
}

// acceptedPiece is piece for those postings alone that are accepted; there may
// be none. next is where to go on: none of the list lies between.
func (c *cursor) acceptedPiece(s *Scratch, accept *Accept, from, to uint32) (docs, freqs []uint32, next uint32) {
	k := &c.skip
	if (k.block < 0 || k.last < from) && !c.reach(from) || k.block >= k.blocks {
		return nil, nil, noDoc
	}
	if k.lo >= to {
		return nil, nil, k.lo
	}
	if c.keptBlock != k.block && !c.keep(accept) {
		return nil, nil, noDoc
	}
	i, end := seekInBlock(&c.docs, c.keptN, c.keptAt, from), c.keptN
	if k.last >= to {
		end = seekInBlock(&c.docs, c.keptN, i, to)
	}
	c.keptAt = end
	freqs = s.freqs[:end-i]
	if len(freqs) > maxReads && !c.loadFreqs() {
		return nil, nil, noDoc
	}
	for j, at := range c.kept[i:end] {
		if c.freqsBlock == k.block {
			freqs[j] = c.freqs[at]
		} else {
			c.i = int(at)
			freqs[j] = c.freq()
		}
	}
	return c.docs[i:end], freqs, k.last + 1
}

// keep leaves only the accepted docs of the current block in docs. Those of a
// bitset are found without decoding it.
func (c *cursor) keep(accept *Accept) bool {
	block := c.skip.block
	if c.docsBlock != block && (c.setBlock == block || c.openSet()) {
		c.keptN = accept.keepSet(&c.set, &c.docs, &c.kept)
	} else if c.load() {
		c.keptN = accept.keep(&c.docs, c.n, &c.kept)
	} else {
		return false
	}
	c.docsBlock, c.keptBlock, c.keptAt = -1, block, 0
	return true
}

func (r *leafRun) drainTerm(s *Scratch, from, to uint32) (docs, freqs []uint32) {
	n := 0
	for {
		d, f := r.cur[0].piece(from, to)
		if len(d) == 0 {
			return s.leafDocs[:n], s.leafFreqs[:n]
		}
		copy(s.leafDocs[n:], d)
		copy(s.leafFreqs[n:], f)
		n += len(d)
		from = d[len(d)-1] + 1
	}
}

// drainPrefix sums the tf of all expansions, or of all fields, in a window.
func (r *leafRun) drainPrefix(s *Scratch, from, to uint32) (docs, freqs []uint32) {
	sums, set := &s.sums, &s.sumSet
	for i := range r.cur {
		c := &r.cur[i]
		at := from
		for {
			d, f := c.piece(at, to)
			if len(d) == 0 {
				break
			}
			if r.kind == leafCombined {
				f = combinedFreqs(s, d, f, c, len(r.cur))
			}
			for j, doc := range d {
				o := (doc - from) & (windowDocs - 1)
				sums[o] += f[j]
				set[o>>6] |= 1 << (o & 63)
			}
			at = d[len(d)-1] + 1
		}
	}
	n := listBits(s.leafDocs[:], set, from)
	for i, d := range s.leafDocs[:n] {
		o := (d - from) & (windowDocs - 1)
		s.leafFreqs[i] = sums[o]
		sums[o] = 0
	}
	*set = [windowWords]uint64{}
	return s.leafDocs[:n], s.leafFreqs[:n]
}

func (r *leafRun) drainPhrase(s *Scratch, from, to uint32) (docs, freqs []uint32) {
	n := 0
	for d := r.align(from); d < to; d = r.align(d + 1) {
		if f := r.phraseFreq(s); f > 0 {
			s.leafDocs[n], s.leafFreqs[n] = d, f
			n++
		}
	}
	return s.leafDocs[:n], s.leafFreqs[:n]
}

// addTo adds the leaf's contributions to ascending candidates in [from, to).
func (r *leafRun) addTo(s *Scratch, docs, scores []uint32, from, to uint32) {
	if r.kind == leafTerm {
		addSought(s, &r.cur[0], docs, scores)
		return
	}
	if len(docs) == 0 {
		return
	}
	for lo := docs[0]; lo < to; {
		hi := uint32(min(uint64(lo)+windowDocs, uint64(to)))
		d, f := r.drain(s, lo, hi)
		i := 0
		for j, doc := range docs {
			for i < len(d) && d[i] < doc {
				i++
			}
			if i == len(d) {
				break
			}
			if d[i] == doc {
				scores[j] += contribution(r.w, f[i], r.inv[r.norms[doc]])
			}
		}
		at := lowerBound(docs, 0, hi)
		if at == len(docs) {
			return
		}
		lo = docs[at]
	}
}

// addSought adds the contributions of one term to ascending candidates.
func addSought(s *Scratch, c *cursor, docs, scores []uint32) {
	for i := 0; i < len(docs); {
		n := 0
		if i, n = c.within(docs, i); n == 0 {
			return
		}
		for j, k := range s.found(c, docs[i:i+n]) {
			scores[i+int(k)] += s.part[j]
		}
		i += n
	}
}

// keepSought is addSought for a conjunction: candidates that the term lacks
// are dropped. It returns the number kept.
func keepSought(s *Scratch, c *cursor, docs, scores []uint32) (kept int) {
	for i := 0; i < len(docs); {
		n := 0
		if i, n = c.within(docs, i); n == 0 {
			return kept
		}
		for j, k := range s.found(c, docs[i:i+n]) {
			docs[kept], scores[kept] = docs[i+int(k)], scores[i+int(k)]+s.part[j]
			kept++
		}
		i += n
	}
	return kept
}

// within moves to the block that may hold one of the ascending docs from the
// i-th on, and returns which of them are the first it may hold, a block of
// them at most.
func (c *cursor) within(docs []uint32, i int) (first, n int) {
	s := &c.skip
	for {
		if (s.block < 0 || s.last < docs[i]) && !c.reach(docs[i]) || s.done() {
			return i, 0
		}
		if s.lo <= docs[i] {
			break
		}
		if i = lowerBound(docs, i, s.lo); i == len(docs) {
			return i, 0
		}
	}
	docs = docs[i:min(len(docs), i+blockDocs)]
	for n = 1; n < len(docs) && docs[n] <= s.last; n++ {
	}
	return i, n
}

// found returns which of the ascending docs, at most a block of them and all in
// the range of the cursor's block, the block holds, and leaves their
// contributions in s.part.
func (s *Scratch) found(c *cursor, docs []uint32) []uint16 {
	n := 0
	switch fresh := c.docsBlock != c.skip.block; {
	case fresh && (c.setBlock == c.skip.block || c.openSet()):
		n = c.set.found(s, docs)
	case !c.load():
		return nil
	default:
		if fresh {
			c.i = 0
		}
		n = c.foundIn(s, docs)
	}
	if n == 0 {
		return nil
	}
	c.freqsAt(s, n)
	norms, inv := c.f.norms, c.inv
	for i, k := range s.hits[:n] {
		s.invs[i] = inv[norms[docs[k]]]
	}
	batch := min(n+7, blockDocs) &^ 7 // the kernel takes eight at a time
	score.Batch(s.part[:batch], s.freqs[:batch], s.invs[:batch], c.w)
	return s.hits[:n]
}

// keepAbove drops candidates below the least score and returns the number
// kept. Branches are left to the compiler's conditional moves.
func keepAbove(docs, scores []uint32, least uint32) int {
	n := 0
	scores = scores[:len(docs)]
	for i, sc := range scores {
		docs[n], scores[n] = docs[i], sc
		if sc >= least {
			n++
		}
	}
	return n
}

// align moves all cursors of a phrase to the first doc ≥ d that has every
// term, and returns it, or noDoc.
func (r *leafRun) align(d uint32) uint32 {
	lead := &r.cur[r.lead]
	d = lead.seek(d)
again:
	for d != noDoc {
		for i := range r.cur {
			if i == r.lead {
				continue
			}
			if at := r.cur[i].seek(d); at != d {
				if at == noDoc {
					return noDoc
				}
				d = lead.seek(at)
				continue again
			}
		}
		return d
	}
	return noDoc
}

// minFreq is the least tf of the terms in the doc the cursors stand on: the
// phrase occurs there no more often.
func (r *leafRun) minFreq() uint32 {
	least := r.cur[0].freq()
	for i := 1; i < len(r.cur); i++ {
		least = min(least, r.cur[i].freq())
	}
	return least
}

// phraseFreq reads the positions in the doc the cursors stand on and counts
// the phrase.
func (r *leafRun) phraseFreq(s *Scratch) uint32 {
	for len(s.positions) < len(r.cur) {
		s.positions = append(s.positions, nil)
	}
	for i := range r.cur {
		s.positions[i] = r.cur[i].positions(s.positions[i])
		if r.cur[i].bad {
			return 0
		}
	}
	return countPhrase(s.positions[:len(r.cur)], r.l, &s.places)
}

// countPhrase counts the matches of a phrase given the positions of each term
// in one doc; see Phrase for the rule.
func countPhrase(pos [][]uint32, l *leaf, places *[]int) uint32 {
	if cap(*places) < len(pos) {
		*places = make([]int, len(pos))
	}
	at := (*places)[:len(pos)]
	clear(at)
	if l.slop > 0 {
		return countSloppy(pos, l, at)
	}
	count := uint32(0)
next:
	for _, p := range pos[0] {
		origin := int64(p) - int64(l.offsets[0])
		for i := 1; i < len(pos); i++ {
			want := origin + int64(l.offsets[i])
			list, k := pos[i], at[i]
			for k < len(list) && int64(list[k]) < want {
				k++
			}
			at[i] = k
			if k == len(list) {
				return count
			}
			if int64(list[k]) != want {
				continue next
			}
		}
		count++
	}
	return count
}

// countSloppy holds one occurrence of every term. While the places they imply
// for the phrase's start span too much, the earliest moves on.
func countSloppy(pos [][]uint32, l *leaf, at []int) uint32 {
	count := uint32(0)
	for {
		low, lowAt, high := int64(1)<<62, 0, -int64(1)<<62
		for i, list := range pos {
			if at[i] >= len(list) {
				return count
			}
			start := int64(list[at[i]]) - int64(l.offsets[i])
			if start < low {
				low, lowAt = start, i
			}
			high = max(high, start)
		}
		if high-low > int64(l.slop) {
			at[lowAt]++
			continue
		}
		if j := sharedOccurrence(pos, l, at); j >= 0 {
			at[j]++
			continue
		}
		count++
		for i := range at {
			at[i]++
		}
	}
}

// sharedOccurrence returns a word that stands on the same occurrence as an
// equal word before it, or -1.
func sharedOccurrence(pos [][]uint32, l *leaf, at []int) int {
	for j := 1; j < len(at); j++ {
		for i := range j {
			if l.terms[i] == l.terms[j] && pos[i][at[i]] == pos[j][at[j]] {
				return j
			}
		}
	}
	return -1
}

// phrase is the search of a single phrase: by blocks of the rarest term, those
// whose bound is too low skipped; positions are read only for docs that have
// every term often enough to reach the floor.
func (x *search) phrase(r *leafRun) {
	h := &x.s.heap
	x.s.need = [256]uint8{}
	lead := &r.cur[r.lead]
	from := uint32(0)
	for {
		var ok bool
		if from, ok = x.nextAccepted(from); !ok {
			return
		}
		if !lead.ahead.seek(from) {
			return
		}
		from = max(from, lead.ahead.lo)
		to := lead.ahead.last + 1
		x.s.Work.Windows++
		bound, until := r.boundIn(from, to)
		if bound == 0 || bound < h.floor {
			x.s.Work.Skipped++
			if until == noDoc {
				return
			}
			from = max(until, to)
			if bound == 0 {
				from = until
			}
			continue
		}
		docs, freqs := lead.piece(from, to)
		if len(docs) == 0 {
			return
		}
		x.phraseIn(r, docs, freqs)
		from = to
	}
}

// phraseIn offers the docs of a piece of the lead's block that have the phrase.
func (x *search) phraseIn(r *leafRun, docs, freqs []uint32) {
	s, lead := x.s, &r.cur[r.lead]
	first := lead.i // of docs in the block
	next := uint32(0)
	freqs = freqs[:len(docs)]
	for i, d := range docs {
		norm := r.norms[d]
		if freqs[i] <= uint32(s.need[norm]) || d < next || x.accept.kind != acceptAll && !x.accepted(d) {
			continue
		}
		s.Work.Candidates++
		lead.i = first + i
		if next = r.meet(d); next != d {
			continue
		}
		if r.minFreq() < r.raise(s, norm) {
			continue
		}
		s.Work.Positions++
		if f := r.phraseFreq(s); f > 0 {
			s.heap.push(d, contribution(r.w, f, r.inv[norm]))
		}
	}
}

// meet moves the cursors other than the lead's to doc d. It returns d when all
// of them stand on it, else a later doc before which the phrase does not occur.
func (r *leafRun) meet(d uint32) uint32 {
	for i := range r.cur {
		if i != r.lead {
			if at := r.cur[i].seek(d); at != d {
				return at
			}
		}
	}
	return d
}

// raise returns the least freq with which a doc of this norm reaches the floor,
// or one below it. What is known of it, less one, is in s.need: the floor only
// rises, so a search tries each freq of a norm once.
func (r *leafRun) raise(s *Scratch, norm byte) uint32 {
	f := uint32(s.need[norm]) + 1
	for f < 1<<8 && contribution(r.w, f, r.inv[norm]) < s.heap.floor {
		f++
	}
	s.need[norm] = uint8(f - 1)
	return f
}
