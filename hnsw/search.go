package hnsw

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quarrysearch/quarry/storage"
)

// A costs is the time of one distance in nanoseconds, for the choice between a
// walk and a scan. Only their ratios matter. They are constants of the code,
// so that the same query has the same plan, and the same answer, everywhere.
type costs struct {
	scan   float64 // the next row
	gather float64 // a row somewhere else
	walk   float64 // a row somewhere else, its link read, marked and sorted in
	look   float64 // the links of a rejected node, tested and not scored
}

// costsOf models rows that are not in cache: BenchmarkCosts measures them.
func costsOf(stride int) costs {
	scan := 2 + float64(stride)/40
	return costs{scan: scan, gather: scan + 8, walk: scan + 12, look: 23}
}

// Search finds the K vectors nearest to q, appended to dst: by the graph when
// the field has one and the beam is expected to cost less than a scan, else by
// the scan. Results are ordered by (Distance, Doc); distances are exact. s must
// not be nil; dst may. A warm search allocates nothing when dst has room.
//
// An error that matches storage.ErrInvalid is about q or p, one that matches
// storage.ErrCorrupt about the bytes; any other came from p.Cancel.
func (f *Field) Search(q []float32, p Params, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return dst, Stats{}, err
	}
	wide := f.rescoring(p)
	if !f.graph {
		return f.flat(p, wide, s, dst)
	}
	rule := f.ruleOf(p, wide)
	c := costsOf(f.codec.Stride())
	est := Estimates{Scan: float64(f.n) * c.scan, Graph: f.cal.cost(rule.ef) * c.walk}
	var st Stats
	var err error
	if est.Graph >= est.Scan {
		dst, st, err = f.flat(p, wide, s, dst)
	} else {
		dst, st, err = f.walkGraph(p, wide, rule, s, dst)
	}
	st.Estimates = est
	return dst, st, err
}

// walkGraph is Search by the graph, for a query bound to s.
func (f *Field) walkGraph(p Params, wide int, rule beamRule, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	w := f.newWalk(p, rule)
	width := rule.capacity()
	if rule.slack >= 0 {
		w.spare, width = wide, max(width, wide)
	}
	if err := f.descend(&w, s, width); err != nil {
		return dst, w.stats, err
	}
	if err := w.run(s); err != nil {
		return dst, w.stats, err
	}
	top, err := f.expandGroups(s, s.beam.keys, wide, nil)
	if err != nil {
		return dst, w.stats, err
	}
	if len(top) < min(p.K, f.n) {
		w.stats.Plan = PlanAbandoned
		return f.finishFlat(p, wide, s, dst, w.stats)
	}
	dst, err = f.rescore(s, top, p.K, &w.stats, dst)
	return dst, w.stats, err
}

// bind checks the arguments and makes q the query of s.
func (f *Field) bind(q []float32, p Params, s *Scratch) error {
	if err := p.check(); err != nil {
		return err
	}
	if err := f.metric.Validate(q, f.dim); err != nil {
		return err
	}
	s.prepared = slices.Grow(s.prepared[:0], f.dim)[:f.dim]
	f.metric.Prepare(s.prepared, q)
	f.codec.Bind(&s.query, s.prepared)
	return nil
}

// rescoring is the number of candidates that get their exact distance. The
// calibrated multiple is measured at k = 10; minSpare keeps it safe for few.
func (f *Field) rescoring(p Params) int {
	k := min(p.K, f.n)
	wide := float64(k) * float64(max(p.Oversample, 1))
	if p.Oversample == 0 {
		wide = max(float64(k)*float64(f.cal.oversample), float64(k+minSpare))
	}
	return min(int(math.Ceil(wide)), f.n)
}

// minSpare is the least number of candidates rescored beyond k.
const minSpare = 6

// ruleOf is the rule of the walk for p.
func (f *Field) ruleOf(p Params, wide int) beamRule {
	var rule beamRule
	if p.Ef == 0 {
		rule = f.cal.ruleFor(p.TargetRecall, p.K)
		if rule.slack < 0 {
			rule.ef = max(rule.ef, wide)
		}
	} else {
		rule = f.cal.ruleOf(max(p.Ef, p.K))
	}
	rule.ef = min(max(rule.ef, p.K), f.nodes)
	return rule
}

func (f *Field) newWalk(p Params, rule beamRule) walk {
	w := walk{table: f.base, codes: f.codes, rowBytes: f.codec.Stride(), cancel: p.Cancel, budget: math.MaxInt}
	w.stopBy(rule, p.K, f.cal.unit)
	w.stats.Ef, w.stats.Plan = rule.ef, PlanGraph
	return w
}

// descend goes greedily from the top of the upper levels to the node of level
// 1 nearest to the query, and starts the beam with it.
func (f *Field) descend(w *walk, s *Scratch, ef int) error {
	s.visited.reset(f.nodes)
	s.beam.reset(ef)
	s.grow(max(f.m0, f.m))
	entry := uint32(0)
	if len(f.upper) > 0 {
		entry = f.ordsOf[0]
		if uint64(entry) >= uint64(f.nodes) {
			return f.badUpper(0, entry)
		}
	}
	s.ids[0] = entry
	s.query.Distances(f.codes, s.ids[:1], s.dists)
	w.stats.Distances++
	best, at := makeKey(s.dists[0], entry), uint32(0)
	for l := len(f.upper) - 1; l >= 0; l-- {
		for improved := true; improved; {
			m, err := f.upperHop(s, l, at)
			if err != nil {
				return err
			}
			s.query.Distances(f.codes, s.ids[:m], s.dists)
			w.stats.Distances += m
			w.stats.Hops++
			improved = false
			for i, d := range s.dists[:m] {
				if k := makeKey(d, s.ids[i]); k < best {
					best, at, improved = k, s.nodes[i], true
				}
			}
		}
	}
	s.visited.marks[keyID(best)] = s.visited.version
	s.beam.insert(best)
	return nil
}

// upperHop puts the neighbors of an upper position into s.ids, as ords, and
// s.nodes, as positions. Distances repeat rather than be remembered: the upper
// levels are a few hops long.
func (f *Field) upperHop(s *Scratch, l int, at uint32) (int, error) {
	t := &f.upper[l]
	m := 0
	for _, to := range t.row(at) {
		if to == none {
			break
		}
		if uint64(to) >= uint64(t.n) {
			return 0, f.badUpper(l+1, to)
		}
		ord := f.ordsOf[to]
		if uint64(ord) >= uint64(f.nodes) {
			return 0, f.badUpper(l+1, ord)
		}
		s.ids[m], s.nodes[m] = ord, to
		m++
	}
	return m, nil
}

func (f *Field) badUpper(l int, id uint32) error {
	return storage.Corruptf(sectionUpper, 0, "level %d holds %d of %d nodes", l, id, f.nodes)
}

// expandGroups takes the nearest keys of a walk and adds to each node its
// duplicates, which have the same code and so the same place, until wide of
// them are in s.top. Only ords in accept are taken, all when it is nil.
func (f *Field) expandGroups(s *Scratch, keys []key, wide int, accept []uint64) ([]key, error) {
	s.top = s.top[:0]
	for _, k := range keys {
		if len(s.top) >= wide {
			break
		}
		if id := keyID(k); accept == nil || accept[id/64]>>(id%64)&1 == 1 {
			s.top = append(s.top, k&^expanded)
		}
		if len(f.groups) == 0 {
			continue
		}
		first, end, err := f.duplicates(keyID(k))
		if err != nil {
			return nil, err
		}
		for d := first; d < end && len(s.top) < wide; d++ {
			if accept == nil || accept[d/64]>>(d%64)&1 == 1 {
				s.top = append(s.top, k&^(1<<32-1)|uint64(d)<<1)
			}
		}
	}
	return s.top, nil
}

// duplicates returns the ords first..end-1 of the duplicates of a node.
func (f *Field) duplicates(node uint32) (first, end uint32, err error) {
	lo, hi := 0, len(f.groups)/2
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if f.groups[2*mid] < node {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if 2*lo >= len(f.groups) || f.groups[2*lo] != node {
		return 0, 0, nil
	}
	return f.groupRange(lo)
}

func (f *Field) groupRange(i int) (first, end uint32, err error) {
	first, end = f.groups[2*i+1], uint32(f.n)
	if 2*i+3 < len(f.groups) {
		end = f.groups[2*i+3]
	}
	if uint64(first) < uint64(f.nodes) || first >= end || uint64(end) > uint64(f.n) {
		return 0, 0, storage.Corruptf(sectionGroups, int64(8*i), "group of %d..%d in %d..%d", first, end, f.nodes, f.n)
	}
	return first, end, nil
}

// rescore computes the exact distances of the candidates and appends the K
// nearest to dst.
func (f *Field) rescore(s *Scratch, top []key, k int, st *Stats, dst []Neighbor) ([]Neighbor, error) {
	s.grow(max(len(top), f.m0))
	ids, dists := s.ids[:len(top)], s.dists[:len(top)]
	for i, c := range top {
		ids[i] = keyID(c)
	}
	const block = 64 // a kernel call is not preempted
	for lo := 0; lo < len(ids); lo += block {
		hi := min(lo+block, len(ids))
		f.metric.Rescore(s.prepared, f.raw, ids[lo:hi], dists[lo:hi])
	}
	st.Rescored += len(top)
	found := s.found[:0]
	for i, id := range ids {
		doc := f.docs[id]
		if doc >= f.docCount {
			return dst, storage.Corruptf(sectionDocs, 4*int64(id), "doc %d of %d", doc, f.docCount)
		}
		found = append(found, Neighbor{Doc: doc, Ord: id, Distance: dists[i]})
	}
	s.found = found
	slices.SortFunc(found, compareNeighbors)
	return append(dst, found[:min(k, len(found))]...), nil
}

// compareNeighbors orders by distance, then doc.
func compareNeighbors(x, y Neighbor) int {
	if x.Distance != y.Distance {
		if x.Distance < y.Distance {
			return -1
		}
		return 1
	}
	return cmp.Compare(x.Doc, y.Doc)
}

// SearchAll searches for many queries, threads of them side by side (0: as many
// as GOMAXPROCS). Result i is what Search gives for queries[i], whatever the
// threads; the Stats are sums. The first error in the order of the queries ends
// it and is returned. p.Cancel is called from several goroutines.
func (f *Field) SearchAll(queries [][]float32, p Params, threads int) ([][]Neighbor, Stats, error) {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	out, stats := make([][]Neighbor, len(queries)), make([]Stats, len(queries))
	errs := make([]error, len(queries))
	var next, failed atomic.Int64
	failed.Store(int64(len(queries)))
	work := func() {
		var s Scratch
		for i := next.Add(1) - 1; i < failed.Load(); i = next.Add(1) - 1 {
			errs[i] = storage.Guard(func() error { // a fault must not end the program
				var err error
				out[i], stats[i], err = f.Search(queries[i], p, &s, nil)
				return err
			})
			for at := failed.Load(); errs[i] != nil && i < at && !failed.CompareAndSwap(at, i); {
				at = failed.Load()
			}
		}
	}
	var wg sync.WaitGroup
	for range min(threads, len(queries)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	var total Stats
	for i, err := range errs {
		if err != nil {
			return nil, total, err
		}
		total.Add(stats[i])
	}
	return out, total, nil
}

// firstRange is the number of hits that a range search begins with.
const firstRange = 64

// SearchRange finds the vectors at most radius away from q, the nearest p.K of
// them if there are more, appended to dst. It is a Search for more and more
// neighbors, four times as many each time, until one is farther than radius: so
// it misses what such a Search misses, and a scan takes over where that is
// cheaper. Order and errors are those of Search; a radius that is NaN is an
// error.
func (f *Field) SearchRange(q []float32, radius float32, p Params, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if radius != radius {
		return dst, Stats{}, storage.Invalidf("radius is not a number")
	}
	var total Stats
	most, start := p.K, len(dst)
	for k := min(firstRange, most); ; k = min(4*k, most) {
		p.K = k
		var st Stats
		var err error
		dst, st, err = f.Search(q, p, s, dst[:start])
		total.Add(st)
		if err != nil {
			return dst[:start], total, err
		}
		hits := dst[start:]
		end, _ := slices.BinarySearchFunc(hits, radius, func(n Neighbor, r float32) int {
			if n.Distance <= r {
				return -1
			}
			return 1
		})
		if end < len(hits) || k == most || len(hits) < k {
			return dst[:start+end], total, nil
		}
	}
}

// Pages gives the neighbors of a query page by page, as far as the caller wants
// to go: each vector at most once, and all of them in the end. Searches for
// more neighbors may find nearer ones than a smaller search did; these come
// with the next page, so that nothing is lost, and pages are ordered in
// themselves.
type Pages struct {
	f     *Field
	q     []float32
	p     Params
	given map[uint32]struct{} // ords
	ready []Neighbor          // found and not given, in order
	depth int                 // of the last search
}

// Pages starts paging with pages of p.K.
func (f *Field) Pages(q []float32, p Params) *Pages {
	return &Pages{f: f, q: slices.Clone(q), p: p, given: map[uint32]struct{}{}}
}

// Next appends the next page to dst: p.K neighbors, fewer on the last page with
// any, then none. Errors are those of Search. A page that needs a search asks
// for twice as many neighbors as given so far and the page together, so that n
// neighbors cost at most about four times what one search for n does.
func (g *Pages) Next(s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	var st Stats
	if err := g.p.check(); err != nil {
		return dst, st, err
	}
	if len(g.ready) < g.p.K && (g.depth == 0 || g.depth < g.f.n) {
		p := g.p
		p.K = min(2*len(g.given)+g.p.K, max(g.f.n, 1))
		var err error
		var found []Neighbor
		if found, st, err = g.f.Search(g.q, p, s, nil); err != nil {
			return dst, st, err
		}
		// What an earlier search found and this one missed stays.
		for _, n := range g.ready {
			if !slices.ContainsFunc(found, func(m Neighbor) bool { return m.Ord == n.Ord }) {
				found = append(found, n)
			}
		}
		g.ready = slices.DeleteFunc(found, func(n Neighbor) bool { _, ok := g.given[n.Ord]; return ok })
		slices.SortFunc(g.ready, compareNeighbors)
		g.depth = p.K
	}
	page := g.ready[:min(g.p.K, len(g.ready))]
	for _, n := range page {
		g.given[n.Ord] = struct{}{}
	}
	g.ready = g.ready[len(page):]
	return append(dst, page...), st, nil
}
