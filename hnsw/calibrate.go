package hnsw

import (
	"math"
	"slices"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// A curvePoint says what a walk that stops by distance finds and costs.
type curvePoint struct {
	// ef is the width of the beam that expands as many nodes on average without
	// the rule of slack; the beam has the capacity beamCap(ef).
	ef uint32
	// slack ends a walk when the next candidate is farther than limit says;
	// noSlack in files of version 1, whose curve is one of plain beams.
	slack     float32
	recall    float32 // recall@10
	distances float32 // mean distances a search
}

const noSlack = -1

// A calibration is what the builder measured on its own graph, with vectors of
// the field that the graph did not hold yet: the last ones in the order of
// insertion. Only counts, no times: the bytes must not depend on the machine.
type calibration struct {
	oversample float32 // candidates to rescore, as a multiple of k
	unit       float32 // median distance by code of the tenth neighbor, ≥ 0
	curve      []curvePoint
}

const (
	calibrationK       = 10
	calibrationQueries = 256
	calibrationLeast   = 16 * calibrationQueries // nodes; smaller graphs have no curve
	calibrationDepth   = 80                      // candidates by code among which the true ones are sought
	defaultOversample  = 3
	defaultRecall      = 0.95
	// narrowOversample is the most candidates, as a multiple of k, that 4-bit
	// codes may need to be chosen by default.
	narrowOversample = 8
)

// calibrationSlacks are the slacks measured, until nearly nothing is missed
// (fullRecall) or a walk expands calibrationMaxEf nodes.
var calibrationSlacks = [...]float32{0, 0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.14, 0.16, 0.18, 0.20, 0.23, 0.26, 0.30, 0.35, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2}

const (
	fullRecall       = 0.9995
	calibrationMaxEf = 768
	// calibrationSample is the part of the queries, one of so many, that tells
	// how many nodes a slack expands.
	calibrationSample = 4
)

func defaultCalibration() calibration { return calibration{oversample: defaultOversample} }

// heldOut is the number of nodes that wait for the calibration.
func (b *builder) heldOut() int {
	if b.nodes < calibrationLeast {
		return 0
	}
	return calibrationQueries
}

// calibrate searches the graph of the ranks below count for the ranks above.
func (b *builder) calibrate(count int) error {
	if err := b.trim(count); err != nil {
		return err
	}
	queries := b.nodes - count
	truths := make([][]key, queries) // true neighbors by exact distance
	ranks := make([]int, queries)    // how deep the codes bury the last of them
	if err := b.encodeNarrow(); err != nil {
		return err
	}
	deepest := func() error {
		err := b.parallel(queries, 1, func(w *worker, i int) error {
			truths[i], ranks[i] = b.truth(w, count+i, count)
			return nil
		})
		// All of the top ten lie within the oversampled candidates for 99 % of
		// the queries: what the others lose is a tenth of a percent of recall.
		slices.Sort(ranks)
		deep := ranks[len(ranks)*99/100]
		b.cal.oversample = float32(math.Ceil(float64(deep)*10/calibrationK)) / 10
		return err
	}
	if err := deepest(); err != nil {
		return err
	}
	if b.narrow != nil && b.o.Bits == 0 && b.cal.oversample > narrowOversample {
		b.narrow, b.stored = nil, nil
		if err := deepest(); err != nil {
			return err
		}
	}
	units := make([]key, 0, queries)
	for _, t := range truths {
		units = append(units, t[len(t)-1])
	}
	slices.Sort(units)
	b.cal.unit = max(keyDistance(units[len(units)/2]), 0)
	plain, err := b.probeAll(count, truths, calibrationSample, beamRule{ef: calibrationK, slack: noSlack})
	if err != nil {
		return err
	}
	if err := b.measure(count, truths); err != nil {
		return err
	}
	for _, slack := range calibrationSlacks {
		p := curvePoint{slack: slack}
		sample, err := b.probeAll(count, truths, calibrationSample, beamRule{ef: calibrationMaxEf, slack: slack})
		if err != nil {
			return err
		}
		// A beam of ef expands some nodes more, those that leave it again.
		p.ef = uint32(max(math.Round(sample.hops-plain.hops)+calibrationK, 1))
		if n := len(b.cal.curve); n > 0 && p.ef <= b.cal.curve[n-1].ef {
			continue
		}
		all, err := b.probeAll(count, truths, 1, beamRule{ef: int(p.ef), slack: slack})
		if err != nil {
			return err
		}
		p.recall, p.distances = float32(all.recall), float32(all.distances)
		b.cal.curve = append(b.cal.curve, p)
		if p.recall >= fullRecall || p.ef >= calibrationMaxEf {
			return nil
		}
	}
	return nil
}

// probed is the mean outcome of some searches.
type probed struct {
	recall, distances float64
	hops              float64 // on level 0
}

// probeAll searches for every step-th of the held-out ranks.
func (b *builder) probeAll(count int, truths [][]key, step int, rule beamRule) (probed, error) {
	n := len(truths) / step
	hits, stats := make([]int, n), make([]Stats, n)
	err := b.parallel(n, 4, func(w *worker, i int) error {
		var err error
		hits[i], stats[i], err = b.probe(w, count+i*step, rule, truths[i*step])
		return err
	})
	if err != nil {
		return probed{}, err
	}
	var h int
	var st Stats
	for i := range n {
		h += hits[i]
		st.Distances += stats[i].Distances
		st.Hops += stats[i].Hops
	}
	return probed{
		recall:    float64(h) / float64(calibrationK*n),
		distances: float64(st.Distances) / float64(n),
		hops:      float64(st.Hops) / float64(n),
	}, nil
}

// bindStored makes the vector of rank r the query of w, for the rows searched,
// and returns these.
func (b *builder) bindStored(w *worker, r int) []byte {
	if b.narrow == nil {
		b.codec.BindRow(&w.query, b.code(r))
		return b.codes
	}
	b.narrow.Bind(&w.query, b.rows(int(b.row[r]), w.vec))
	return b.stored
}

// encodeNarrow makes the 4-bit rows, if the field is to have them; by default a
// calibrated one is, when that makes its rows shorter.
func (b *builder) encodeNarrow() error {
	c := quant.NewSQ4(b.o.Dim, b.o.Metric)
	if b.o.Bits == 8 || b.o.Bits == 0 && c.Stride() >= b.codec.Stride() {
		return nil
	}
	stride := c.Stride()
	b.narrow, b.stored = &c, make([]byte, len(b.docs)*stride)
	return b.parallel(len(b.docs), 64, func(w *worker, r int) error {
		c.Encode(b.stored[r*stride:(r+1)*stride], b.rows(int(b.row[r]), w.vec))
		return nil
	})
}

// storedRow is the row of a rank as it is searched.
func (b *builder) storedRow(rank int) []byte {
	if b.narrow == nil {
		return b.code(rank)
	}
	stride := b.narrow.Stride()
	return b.stored[rank*stride : (rank+1)*stride]
}

// truth finds the nearest calibrationK of the ranks below count to rank r by
// exact distance, and the place of the last of them in the order of the rows
// searched.
func (b *builder) truth(w *worker, r, count int) ([]key, int) {
	b.codec.BindRow(&w.query, b.code(r))
	const block = 256
	w.grow(max(block, cap(w.ids)))
	w.beam.reset(calibrationDepth)
	for lo := 0; lo < count; lo += block {
		m := min(block, count-lo)
		w.query.Scan(b.codes, lo, m, w.dists)
		bound := w.beam.bound()
		for i, d := range w.dists[:m] {
			if k := makeKey(d, uint32(lo+i)); k < bound {
				w.beam.insert(k)
				bound = w.beam.bound()
			}
		}
	}
	q := append([]float32(nil), b.rows(int(b.row[r]), w.vec)...)
	exact := make([]key, len(w.beam.keys))
	for i, k := range w.beam.keys {
		v := b.rows(int(b.row[keyID(k)]), w.vec)
		exact[i] = makeKey(b.o.Metric.Distance(q, v), keyID(k))
	}
	slices.Sort(exact)
	exact = exact[:min(len(exact), calibrationK)]
	return exact, b.depth(w, r, count, exact)
}

// depth is the number of ranks below count that the rows searched put before
// the last of the given neighbors of rank r, that one included.
func (b *builder) depth(w *worker, r, count int, neighbors []key) int {
	rows := b.bindStored(w, r)
	ids, dists := w.ids[:len(neighbors)], w.dists[:len(neighbors)]
	for i, k := range neighbors {
		ids[i] = keyID(k)
	}
	w.query.Distances(rows, ids, dists)
	last := key(0)
	for i, id := range ids {
		last = max(last, makeKey(dists[i], id))
	}
	n := 0
	for lo := 0; lo < count; lo += scanBlock {
		m := min(scanBlock, count-lo)
		w.query.Scan(rows, lo, m, w.dists)
		for i, d := range w.dists[:m] {
			if makeKey(d, uint32(lo+i)) <= last {
				n++
			}
		}
	}
	return n
}

// probe searches for rank r and counts the true neighbors found. The hops told
// are those of level 0.
func (b *builder) probe(w *worker, r int, rule beamRule, truth []key) (hits int, st Stats, err error) {
	rows := b.bindStored(w, r)
	w.beam.reset(1)
	for l := len(b.levels) - 1; l >= 0; l-- {
		level := beamRule{ef: 1, slack: noSlack}
		if l == 0 {
			level = rule
		}
		one, err := b.descendRule(w, l, rows, level)
		if err != nil {
			return 0, st, err
		}
		st.Distances += one.Distances
		st.Hops = one.Hops
	}
	for _, k := range w.beam.keys[:min(len(w.beam.keys), b.spare())] {
		for _, t := range truth {
			if keyID(t) == keyID(k) {
				hits++
			}
		}
	}
	return hits, st, nil
}

// A reference is what the graph of a merge is held against: the recall that a
// build over so many nodes would have, averaged over plain beams of
// referenceEfs.
type reference struct {
	nodes  int
	recall float32 // 0: unknown
}

var referenceEfs = [...]int{16, 32, 64, 128}

// measure fills b.measured.
func (b *builder) measure(count int, truths [][]key) error {
	b.measured = reference{nodes: b.nodes}
	for _, ef := range referenceEfs {
		p, err := b.probeAll(count, truths, 1, beamRule{ef: ef, slack: noSlack})
		if err != nil {
			return err
		}
		b.measured.recall += float32(p.recall) / float32(len(referenceEfs))
	}
	return nil
}

// reference is that of a file of version 1, in which it was not written: its
// curve is one of plain beams.
func (c *calibration) reference(n int) reference {
	r := reference{nodes: n}
	for _, ef := range referenceEfs {
		for i, p := range c.curve {
			if int(p.ef) >= ef || i == len(c.curve)-1 {
				r.recall += p.recall / float32(len(referenceEfs))
				break
			}
		}
	}
	return r
}

// spare is the number of candidates that a search for calibrationK neighbors
// rescores.
func (b *builder) spare() int {
	return max(int(math.Ceil(float64(b.cal.oversample)*calibrationK)), calibrationK+minSpare)
}

// A beamRule says how far a walk goes.
type beamRule struct {
	ef    int     // see curvePoint.ef
	slack float32 // noSlack: until every candidate of a beam of ef is expanded
}

// capacity is the width of the beam. With a slack it bounds what a hard query
// may cost, as a multiple of a mean one: without it the slowest of a hundred
// took four times the median on 340,000 × 100 at recall 0.95.
func (r beamRule) capacity() int {
	if r.slack < 0 {
		return r.ef
	}
	return 2 * r.ef
}

// ruleFor gives the cheapest rule whose calibrated recall@10 reaches the
// target, for k neighbors: the curve is measured at 10, and every neighbor more
// widens the beam by one.
func (c *calibration) ruleFor(target float32, k int) beamRule {
	if target == 0 {
		target = defaultRecall
	}
	extra := max(k-calibrationK, 0)
	if len(c.curve) == 0 {
		return beamRule{ef: 96 + extra, slack: noSlack}
	}
	at := len(c.curve) - 1
	for i, p := range c.curve {
		if p.recall >= target {
			at = i
			break
		}
	}
	p := c.curve[at]
	if at == 0 || p.recall < target || p.recall <= c.curve[at-1].recall {
		return beamRule{ef: int(p.ef) + extra, slack: p.slack}
	}
	prev := c.curve[at-1]
	return between(prev, p, (target-prev.recall)/(p.recall-prev.recall), extra)
}

// between interpolates two points, share of the way from a to b, and adds extra
// to ef.
func between(a, b curvePoint, share float32, extra int) beamRule {
	r := beamRule{ef: int(a.ef) + int(math.Ceil(float64(share*float32(b.ef-a.ef)))) + extra, slack: noSlack}
	if a.slack >= 0 && b.slack >= 0 {
		r.slack = a.slack + float32(share*(b.slack-a.slack))
	}
	return r
}

// ruleOf gives the rule that costs what a plain beam of ef costs. Above the
// curve it is the plain beam, below it the lowest slack.
func (c *calibration) ruleOf(ef int) beamRule {
	if len(c.curve) > 0 && ef <= int(c.curve[0].ef) {
		return beamRule{ef: ef, slack: c.curve[0].slack}
	}
	for i, p := range c.curve {
		if i > 0 && int(p.ef) >= ef {
			prev := c.curve[i-1]
			if int(prev.ef) > ef {
				break
			}
			r := between(prev, p, float32(ef-int(prev.ef))/float32(p.ef-prev.ef), 0)
			r.ef = ef
			return r
		}
	}
	return beamRule{ef: ef, slack: noSlack}
}

// cost estimates the distances of a walk with a beam of ef.
func (c *calibration) cost(ef int) float64 {
	if len(c.curve) == 0 {
		return float64(ef) * 24
	}
	prev := curvePoint{}
	for _, p := range c.curve {
		if int(p.ef) >= ef {
			share := float64(ef-int(prev.ef)) / float64(p.ef-prev.ef)
			return float64(prev.distances) + share*float64(p.distances-prev.distances)
		}
		prev = p
	}
	return float64(prev.distances) * float64(ef) / float64(prev.ef)
}
