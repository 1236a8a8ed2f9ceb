package hnsw

import (
	"cmp"
	"math"
	"slices"

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
	return costs{scan: scan, gather: scan + 6, walk: scan + 12, look: 23}
}

// around is the cost of descending and looking around there.
func (c costs) around() float64 { return lookDistances*c.walk + lookRows*c.look }

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
	est := Estimates{Scan: float64(f.n) * c.scan, Graph: f.cal.cost(max(rule.ef, p.K)) * c.walk}
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
	if !rule.plain() {
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
	if p.Oversample == 0 {
		top = f.likely(top, p.K)
	}
	dst, err = f.rescore(s, top, p.K, &w.stats, dst)
	return dst, w.stats, err
}

// likely cuts off the candidates that are farther by code than the k-th by more
// than codes err: of those that the calibration asks for, made for the hardest
// query of a hundred, most queries need fewer.
func (f *Field) likely(top []key, k int) []key {
	if len(top) <= k {
		return top
	}
	at, stride := int(keyID(top[k-1])), f.codec.Stride()
	d := keyDistance(top[k-1])
	far := d + float32(blurs*f.codec.Blur(f.codes[at*stride:(at+1)*stride], d))
	n := k
	for n < len(top) && keyDistance(top[n]) <= far {
		n++
	}
	return top[:n]
}

// blurs is how many standard deviations two distances by code may be in the
// wrong order. Rows rescored and recall@10, all that the calibration asks for and
// with 3.5 and 2.5 (4-bit codes but for the last):
//
//	60,000 × 784   16.0 .9958   12.9 .9958   12.1 .9955
//	88,945 × 384   17.0 .9902   14.4 .9902   13.4 .9893
//	340,000 × 100  38.0 .9887   29.4 .9886   24.2 .9874
//	399,000 × 50   16.0 .9929   10.9 .9928   10.6 .9913
const blurs = 3.5

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
	} else {
		rule = f.cal.ruleOf(p.Ef)
	}
	if rule.plain() {
		rule.ef = max(rule.ef, p.K)
		if p.Ef == 0 {
			rule.ef = max(rule.ef, wide)
		}
	}
	rule.ef = min(rule.ef, f.nodes)
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
	s.found = s.found[:0]
	for i, id := range ids {
		doc := f.docs[id]
		if doc >= f.docCount {
			return dst, storage.Corruptf(sectionDocs, 4*int64(id), "doc %d of %d", doc, f.docCount)
		}
		s.found = append(s.found, Neighbor{Doc: doc, Ord: id, Distance: dists[i]})
	}
	return append(dst, nearest(s.found, k)...), nil
}

// nearest puts the k first in order at the front and returns them.
func nearest(found []Neighbor, k int) []Neighbor {
	if len(found) > 128 {
		slices.SortFunc(found, compareNeighbors)
		return found[:min(k, len(found))]
	}
	// They come nearly in order: each has few places to move.
	n := 0
	for _, c := range found {
		if n == k {
			if compareNeighbors(c, found[n-1]) >= 0 {
				continue
			}
			n--
		}
		at := n
		for ; at > 0 && compareNeighbors(c, found[at-1]) < 0; at-- {
			found[at] = found[at-1]
		}
		found[at] = c
		n++
	}
	return found[:n]
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
