package hnsw

import (
	"math"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// AcceptLen is the number of words of an ord bitset: bit i%64 of word i/64
// stands for ord i.
func (f *Field) AcceptLen() int { return (f.n + 63) / 64 }

// AcceptDocs makes the ord bitset of a set of docs, in dst where it has room;
// docs without a vector are left out. Time grows with the set, or with Len where
// that is less.
func (f *Field) AcceptDocs(docs *roaring.Bitmap, dst []uint64) []uint64 {
	if docs.GetCardinality() > uint64(f.n)/acceptRow {
		return f.AcceptWords(docs.ToDense(), dst)
	}
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
	set := 0
	for _, word := range docs {
		set += bits.OnesCount64(word)
	}
	if set > f.n/acceptRow {
		return f.acceptScan(docs, dst)
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

// acceptRow is the number of ords whose docs are looked up in the time in which
// the ord of one doc is: those come in a row, and the words stay in cache.
const acceptRow = 4

// acceptScan is AcceptWords ord by ord. dst is clear.
func (f *Field) acceptScan(docs, dst []uint64) []uint64 {
	for i := range dst {
		word := uint64(0)
		for j, doc := range f.docs[i*64 : min(i*64+64, f.n)] {
			if at := int(doc / 64); at < len(docs) {
				word |= docs[at] >> (doc % 64) & 1 << j
			}
		}
		dst[i] = word
	}
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
// returns min(K, accepted) of them, always, by what is estimated to be cheapest:
// the exact scan over the accepted rows, a walk that passes rejected nodes but
// keeps accepted ones only, or a walk over accepted nodes that looks through
// the rejected ones between them. A walk that would cost as much as the scan
// is given up for it, so no search costs more than twice the scan. Bits past Len are
// ignored. Order and errors are those of Search.
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
	return f.filtered(p, accept, s, dst, f.choose(p, matches))
}

// A route is how a filtered search is to be done, and what the ways to do it
// are estimated to cost. It depends on counts and on what is written in the
// field alone: equal filters have equal plans, however they are written.
type route struct {
	plan    Plan // PlanFlat, PlanGraph or PlanTwoHop; of choose, PlanFlat or any other
	matches int
	share   float64 // of the field's vectors that are accepted
	wide    int     // candidates to rescore
	rule    beamRule
	reach   int     // beam of a walk that passes rejected nodes
	wider   float64 // than rule says, a walk over accepted nodes must be
	turn    float64 // by how much more a turn of it costs
	detour  bool    // the nearest accepted nodes lie behind rejected ones
	seeds   int     // accepted nodes from all over that such a walk begins with
	costs   Estimates
}

// choose says whether a walk among so many accepted vectors can be worth a look
// at the place where it would begin.
func (f *Field) choose(p Params, matches int) route {
	r := route{matches: matches, wide: min(f.rescoring(p), matches), share: float64(matches) / float64(f.n)}
	c := costsOf(f.codec.Stride())
	r.costs.Scan = min(f.scanCost(matches, c.gather), f.scanCost(f.n, c.scan))
	r.plan = PlanFlat
	if !f.graph {
		return r
	}
	r.rule = f.ruleOf(p, r.wide)
	// The calibration knows no filter: a walk with one gets some more to go on.
	r.rule.ef = min(max(r.rule.ef, r.wide), f.nodes)
	r.rule = r.rule.loosened()
	r.weigh(f, r.share)
	r.plan = PlanFlat
	if matches > r.wide && r.costs.Scan > max(worthLooking*c.around(), f.cal.cost(r.rule.ef)*c.walk) {
		r.plan = PlanGraph
	}
	return r
}

// scanCost is that of comparing so many rows at a cost each when they are in
// cache. What does not fit comes from memory, 16 bytes a nanosecond.
func (f *Field) scanCost(rows int, each float64) float64 {
	stride := float64(f.codec.Stride())
	out := min(max((float64(rows)*stride-cacheBytes)/(2*cacheBytes), 0), 1)
	return float64(rows) * (each + out*stride/16)
}

// lookCost is that of looking through a rejected node: half as much again and more
// where the links do not stay in cache.
func (f *Field) lookCost() float64 {
	out := (float64(f.nodes)*float64(f.m0)*4 - 4*cacheBytes) / (8 * cacheBytes)
	return costsOf(f.codec.Stride()).look + farLook*min(max(out, 0), 1)
}

// weigh chooses the plan when local is the accepted share of the vectors around
// the place where a walk begins. Where it is higher than among all, it is higher
// still around the query; where it is lower, the nearest accepted ones lie behind
// many rejected ones: a walk through these is not weighed, for it drowns in them,
// and one over accepted nodes gets there by detours, so its beam must be wider.
// Few links between accepted nodes, as in a small share, ask for the same.
func (r *route) weigh(f *Field, local float64) {
	c, m0, ef := costsOf(f.codec.Stride()), float64(f.m0), float64(r.rule.ef)
	local = min(max(local, 1e-4), 1)
	pull := local / r.share
	r.reach = min(max(int(ef/math.Sqrt(local*r.share)), r.rule.ef), f.nodes)
	r.costs.Graph = 0
	if pull >= graphPull {
		near := min(local*max(1, math.Pow(pull, closer)), 1)
		r.costs.Graph = f.cal.cost(min(int(ef/near), f.nodes)) * c.walk
	}
	around := max(local, r.share)
	scored := 1.25 * m0 * math.Pow(min(2*around, 1), 0.42) // measured, a turn
	away := min(max((awayFrom-pull)/awayOver, 0), 1)
	r.detour = away > 0
	sparse := max(sparseLinks*m0/scored, 1)
	spare := sparseEf * (1 - 1/sparse) * max(1-ef/shortEf, 0)
	r.wider = max(sparse+spare/ef, min(detourPull/pull, 2), detourEf*away/ef)
	repelled := min(max((detourPull-pull)/(detourPull-awayFrom), 0), 1)
	r.turn, r.seeds = 1+(detourCost-1)*repelled, twoHopSeeds
	if repelled > 0 { // far from the query nearly all may be accepted
		scored, r.seeds = 1.25*m0, detourSeeds
	}
	r.costs.TwoHop = (ef*r.wider + 4) * (scored*c.walk + (1-around)*m0*f.lookCost()) * r.turn
	if repelled == 0 && pull <= 1/graphPull {
		r.costs.TwoHop *= evenCost
	}
	r.costs.TwoHop += float64(r.seeds) * c.gather
	r.plan = PlanFlat
	best := r.costs.Scan
	if repelled == 0 && best > trialWorth*c.around() {
		best *= walkMost
	}
	if r.costs.Graph > 0 && r.costs.Graph < best {
		r.plan, best = PlanGraph, r.costs.Graph
	}
	if r.costs.TwoHop < best {
		r.plan = PlanTwoHop
	}
}

// filtered is SearchFiltered by a route. A plan that p forces is not given up.
func (f *Field) filtered(p Params, accept []uint64, s *Scratch, dst []Neighbor, r route) ([]Neighbor, Stats, error) {
	w := f.newWalk(p, r.rule)
	w.stats = Stats{Plan: PlanFlat, Matches: r.matches, Estimates: r.costs}
	if p.Plan == PlanFlat || !f.graph || p.Plan == PlanNone && r.plan == PlanFlat {
		return f.scanAccepted(p, accept, r.matches, r.wide, s, dst, w.stats)
	}
	var err error
	if w.accept, err = f.widen(accept, s); err != nil {
		return dst, w.stats, err
	}
	if err := f.descend(&w, s, 1); err != nil {
		return dst, w.stats, err
	}
	if err := f.survey(&w, s, &r); err != nil {
		return dst, w.stats, err
	}
	w.stats.Estimates, w.stats.Plan = r.costs, r.plan
	budget := r.costs.Scan
	if p.Plan != PlanNone {
		w.stats.Plan, budget = p.Plan, math.Inf(1)
	}
	if w.stats.Plan == PlanFlat {
		return f.scanAccepted(p, accept, r.matches, r.wide, s, dst, w.stats)
	}
	found, err := f.walkAccepted(&w, s, r, p.K, budget)
	if err != nil {
		return dst, w.stats, err
	}
	if !w.over {
		top, err := f.expandGroups(s, found, r.wide, accept)
		if err != nil {
			return dst, w.stats, err
		}
		if len(top) >= min(p.K, r.matches) {
			dst, err = f.rescore(s, top, p.K, &w.stats, dst)
			return dst, w.stats, err
		}
	}
	w.stats.Plan = PlanAbandoned
	return f.scanAccepted(p, accept, r.matches, r.wide, s, dst, w.stats)
}

// survey weighs the ways by what is accepted around the place where a walk begins.
// Where hardly anything is and all ways left are costly, it first looks for a
// better place: descending ends far from the query now and then, and what is said
// there of a filter that goes with the query is that the two repel each other.
func (f *Field) survey(w *walk, s *Scratch, r *route) error {
	local, err := f.localShare(w, keyID(s.beam.keys[0]), r.share)
	if err != nil {
		return err
	}
	r.weigh(f, local)
	look := f.cal.cost(surveyEf) * costsOf(f.codec.Stride()).walk
	if !r.detour || min(r.costs.Scan, r.costs.TwoHop) < surveyWorth*look {
		return nil
	}
	closer := walk{table: w.table, codes: w.codes, rowBytes: w.rowBytes, cancel: w.cancel, slack: noSlack}
	s.beam.resize(surveyEf)
	if err := closer.run(s); err != nil {
		return err
	}
	w.stats.Distances += closer.stats.Distances
	w.stats.Visited += closer.stats.Visited
	w.stats.Hops += closer.stats.Hops
	best := s.beam.keys[0] &^ expanded
	s.visited.reset(f.nodes)
	s.visited.marks[keyID(best)] = s.visited.version
	s.beam.reset(1)
	s.beam.insert(best)
	if local, err = f.localShare(w, keyID(best), r.share); err == nil {
		r.weigh(f, local)
	}
	return err
}

// localShare is the accepted share of a sample of the nodes within two links of
// one; the share among all where the sample does not tell them apart. It costs
// about as much as a turn of a walk.
func (f *Field) localShare(w *walk, node uint32, share float64) (float64, error) {
	seen, accepted := 0, 0
	count := func(id uint32) error {
		for _, to := range f.base.row(id) {
			if uint64(to) >= uint64(f.nodes) {
				if to == none {
					break
				}
				return w.badLink(id, to, f.nodes)
			}
			seen++
			accepted += int(w.accept[to/64] >> (to % 64) & 1)
		}
		return nil
	}
	row := f.base.row(node)
	for i := 0; i < len(row) && uint64(row[i]) < uint64(f.nodes); i += 2 {
		w.prefetch(row[i])
	}
	if err := count(node); err != nil { // the ids in row are good now
		return 0, err
	}
	for i := 0; i < len(row) && row[i] != none; i += 2 { // every other tells enough
		if err := count(row[i]); err != nil {
			return 0, err
		}
	}
	expected, got := float64(seen)*share, float64(accepted)
	if got > awayFrom*expected && math.Abs(got-expected) < localErrors*math.Sqrt(expected) {
		return share, nil
	}
	return (got + localPrior*share) / (float64(seen) + localPrior), nil
}

// walkAccepted walks from the entry point that s.beam holds and returns the
// nearest nodes it found, accepted or with an accepted duplicate but for the
// entry point.
func (f *Field) walkAccepted(w *walk, s *Scratch, r route, k int, budget float64) ([]key, error) {
	c := costsOf(f.codec.Stride())
	w.budget = int(min(budget/c.walk, math.MaxInt32))
	if w.stats.Plan == PlanGraph {
		w.wide = r.rule.capacity()
		s.beam.resize(2 * r.reach)
		err := w.runFiltered(s)
		return s.results.keys, err
	}
	w.budget = int(float64(w.budget) / r.turn)
	rule := r.rule
	if r.wider > 1 {
		// A rule for about as many turns: stopping by distance is safe only where
		// the way to the nearest goes straight.
		rule = f.cal.ruleOf(min(int(float64(rule.ef)*r.wider), f.nodes)).loosened()
		if r.detour {
			rule.slack = noSlack
		}
		w.stopBy(rule, k, f.cal.unit)
		w.stats.Ef = rule.ef
	}
	s.beam.resize(min(rule.capacity(), f.nodes))
	f.sow(w, s, r.seeds)
	err := w.runTwoHop(s, f.lookCost()/c.walk)
	return s.beam.keys, err
}

const (
	// worthLooking is how many times the cost of looking around a scan must cost
	// for a filtered search to look further, and as much as a walk without a filter;
	// lookDistances and lookRows are what looking around costs: distances on the way
	// down, and rows of links.
	worthLooking  = 5
	lookDistances = 110
	lookRows      = 64
	// surveyEf is the beam of the walk that looks for a better place to begin, and
	// surveyWorth how many times its cost the other ways must cost.
	surveyEf    = 24
	surveyWorth = 16
	// walkMost is how many times the cost of the scan a walk may be estimated to
	// cost and yet be begun, on trial, where the scan costs trialWorth times what
	// looking around does and filter and query do not repel each other: the cost of a
	// detour is told well by its beam.
	walkMost   = 2
	trialWorth = 15
	// cacheBytes of codes are taken to stay in cache, and three times as many not
	// to do so at all.
	cacheBytes = 4 << 20
	// farLook is what links cost more, in nanoseconds, that come from memory: in part
	// from four times cacheBytes of them on, in full from twelve.
	farLook = 20
	// graphPull is the part of the share among all that the local one must reach
	// for a walk that passes rejected nodes.
	graphPull = 0.75
	// closer says how much more than around the beginning of the walk is accepted
	// around the query, as a power of how much more it is there than among all.
	closer = 0.3
	// sparseLinks is the number of accepted nodes scored in a turn, as a part of
	// M0, below which a walk over accepted nodes must be wider.
	sparseLinks = 0.7
	// A beam shorter than shortEf, which has nothing to spare where links are few, is
	// wider by sparseEf more at most.
	sparseEf, shortEf = 25, 64
	// detourPull is the part of the share among all under which the local one
	// makes a walk over accepted nodes wider, up to twice.
	detourPull = 0.6
	// The beam of such a walk is at least detourEf where the local share is less
	// than awayFrom of that among all, in full awayOver below.
	detourEf, awayFrom, awayOver = 300, 0.35, 0.2
	// evenCost is what a walk over accepted nodes costs of what its beam says where
	// the filter has nothing to do with the query.
	evenCost = 0.75
	// detourCost is by how much more a turn of it costs, in part from detourPull down:
	// its beam is long, and the links it looks through are nowhere near.
	detourCost = 2.8
	// localErrors is by how many standard errors a sample must differ from the share
	// among all: its nodes lead to each other, so it is smaller than it looks.
	localErrors = 3
	// localPrior is the weight, in nodes, of the share among all in localShare.
	localPrior = 8
	// twoHopMost is the number of accepted nodes that one turn of a two-hop walk
	// scores at most.
	twoHopMost = 64
	// twoHopSeeds is the number of accepted nodes, spread over the field, that a
	// two-hop walk begins with beside the entry point: the accepted ones may lie
	// in several places, or far from the query.
	twoHopSeeds = 16
	// detourSeeds is the same where they repel each other, the local share less than
	// detourPull of that among all: what the beginning leads to is not where the
	// nearest accepted nodes are.
	detourSeeds = 1024
)

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
		if uint64(node) >= uint64(f.nodes) {
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

// sow adds accepted nodes from all over the field to the beam of a walk.
func (f *Field) sow(w *walk, s *Scratch, seeds int) {
	words := (f.nodes + 63) / 64
	s.grow(max(seeds, f.m0))
	m, from := 0, 0
	for i := range seeds {
		for from = max(from, i*words/seeds); from < words; from++ {
			if w.accept[from] == 0 {
				continue
			}
			id := uint32(from*64 + bits.TrailingZeros64(w.accept[from]))
			from++
			if uint64(id) < uint64(f.nodes) && s.visited.marks[id] != s.visited.version {
				s.visited.marks[id] = s.visited.version
				s.ids[m] = id
				m++
			}
			break
		}
	}
	s.query.Distances(f.codes, s.ids[:m], s.dists)
	w.stats.Distances += m
	w.admit(&s.beam, s.ids[:m], s.dists[:m])
}
