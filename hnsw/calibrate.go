package hnsw

import (
	"math"
	"slices"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// A curvePoint says what a walk that stops by distance finds and costs.
type curvePoint struct {
	// ef is the width of the beam that expands as many nodes on average without
	// the rule of slack; see beamRule.capacity.
	ef uint32
	// slack, above −1, ends a walk when the next candidate is farther than limit
	// says; noSlack in files of version 1, whose curve is one of plain beams.
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
var calibrationSlacks = [...]float32{-0.1, -0.07, -0.05, -0.03, -0.015, 0, 0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.14, 0.16, 0.18, 0.20, 0.23, 0.26, 0.30, 0.35, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2}

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
	if err := b.encodeNarrow(); err != nil {
		return err
	}
	truths, err := b.truths(count)
	if err != nil {
		return err
	}
	if err := b.bury(count, truths); err != nil {
		return err
	}
	if b.narrow != nil && b.o.Bits == 0 && b.cal.oversample > narrowOversample {
		b.narrow, b.stored = nil, nil
		if err := b.bury(count, truths); err != nil {
			return err
		}
	}
	units := make([]key, 0, len(truths))
	for _, t := range truths {
		units = append(units, t[len(t)-1])
	}
	slices.Sort(units)
	b.cal.unit = max(keyDistance(units[len(units)/2]), 0)
	plain, err := b.probeAll(count, truths, nil, calibrationSample, beamRule{ef: calibrationK, slack: noSlack})
	if err != nil {
		return err
	}
	if err := b.measure(count, truths); err != nil {
		return err
	}
	lonely, err := b.lonely(count, truths)
	if err != nil {
		return err
	}
	for _, slack := range calibrationSlacks {
		p := curvePoint{slack: slack}
		sample, err := b.probeAll(count, truths, nil, calibrationSample, beamRule{ef: calibrationMaxEf, slack: slack})
		if err != nil {
			return err
		}
		// A beam of ef expands some nodes more, those that leave it again.
		p.ef = uint32(max(math.Round(sample.hops-plain.hops)+calibrationK, 1))
		if n := len(b.cal.curve); n > 0 && p.ef <= b.cal.curve[n-1].ef {
			continue
		}
		all, err := b.probeAll(count, truths, lonely, 1, beamRule{ef: int(p.ef), slack: slack})
		if err != nil {
			return err
		}
		p.recall, p.distances = float32(weighed(all.recall, all.without)), float32(all.distances)
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
	without           float64 // recall of all but the lonely
	hops              float64 // on level 0
}

// lonely tells which held-out ranks even a walk of lonelyRule leaves without
// lonelyHits of their neighbors, a hundredth of them at most: they lie in clusters
// that the graph does not lead to from where they are, and say little about the
// effort that others need. See weighed.
func (b *builder) lonely(count int, truths [][]key) ([]bool, error) {
	hits := make([]int, len(truths))
	err := b.parallel(len(truths), 4, func(w *worker, i int) error {
		var err error
		hits[i], _, err = b.probe(w, count+i, lonelyRule, truths[i])
		return err
	})
	sorted := slices.Sorted(slices.Values(hits))
	bound := min(sorted[len(sorted)/100], lonelyHits)
	out := make([]bool, len(hits))
	for i, h := range hits {
		out[i] = h < bound
	}
	return out, err
}

const lonelyHits = 7

var lonelyRule = beamRule{ef: calibrationMaxEf, slack: 0.3}

// weighed is recall, with what the lonely take from it given back in the part
// that they have in what is missed: nearly nothing at 0.9, most where hardly
// anything else is missed. On 88,945 × 384 two lonely ranks of 256 made a target
// of 0.99 cost three times the distances that queries need for it.
func weighed(recall, without float64) float64 {
	lost := max(without-recall, 0)
	if lost == 0 || recall >= 1 {
		return recall
	}
	return min(recall+lost*lost/(1-recall), without)
}

// probeAll searches for every step-th of the held-out ranks. lonely may be nil.
func (b *builder) probeAll(count int, truths [][]key, lonely []bool, step int, rule beamRule) (probed, error) {
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
	var h, others, kept int
	var st Stats
	for i := range n {
		h += hits[i]
		if lonely == nil || !lonely[i*step] {
			others, kept = others+hits[i], kept+1
		}
		st.Distances += stats[i].Distances
		st.Hops += stats[i].Hops
	}
	return probed{
		recall:    float64(h) / float64(calibrationK*n),
		without:   float64(others) / float64(calibrationK*kept),
		distances: float64(st.Distances) / float64(n),
		hops:      float64(st.Hops) / float64(n),
	}, nil
}

// bindStored makes the vector of rank r the query q, for the rows searched,
// and returns these. vec is room for a vector.
func (b *builder) bindStored(q *quant.Query, vec []float32, r int) []byte {
	if b.narrow == nil {
		b.codec.BindRow(q, b.code(r))
		return b.codes
	}
	b.narrow.Bind(q, b.rows(int(b.row[r]), vec))
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

const (
	// heldTogether held-out vectors are compared with heldBlock rows while these
	// are near: the rows come from memory once for all of them.
	heldTogether = 16
	heldBlock    = 128
)

// A held is a held-out vector that is compared with all others.
type held struct {
	query quant.Query
	beam  beam
	last  key // of its true neighbors by code
	depth int // of it
}

// eachHeld calls start for every held-out rank, scans the rows that it returns
// below count, passing to each distances first, first+1, …, and calls done.
func (b *builder) eachHeld(count int, start func(w *worker, i int, h *held) []byte, score func(h *held, first int, dists []float32), done func(w *worker, i int, h *held)) error {
	n := b.nodes - count
	return b.parallel((n+heldTogether-1)/heldTogether, 1, func(w *worker, g int) error {
		w.grow(max(heldBlock, cap(w.ids)))
		first := g * heldTogether
		group := make([]held, min(heldTogether, n-first))
		var rows []byte
		for i := range group {
			rows = start(w, first+i, &group[i])
		}
		for lo := 0; lo < count; lo += heldBlock {
			m := min(heldBlock, count-lo)
			for i := range group {
				group[i].query.Scan(rows, lo, m, w.dists)
				score(&group[i], lo, w.dists[:m])
			}
		}
		for i := range group {
			done(w, first+i, &group[i])
		}
		return nil
	})
}

// truths finds, for every rank from count on, the nearest calibrationK of the
// ranks below by exact distance, among the nearest calibrationDepth by code.
func (b *builder) truths(count int) ([][]key, error) {
	truths := make([][]key, b.nodes-count)
	err := b.eachHeld(count, func(w *worker, i int, h *held) []byte {
		b.codec.BindRow(&h.query, b.code(count+i))
		h.beam.reset(calibrationDepth)
		return b.codes
	}, func(h *held, first int, dists []float32) {
		bound := h.beam.bound()
		for i, d := range dists {
			if k := makeKey(d, uint32(first+i)); k < bound {
				h.beam.insert(k)
				bound = h.beam.bound()
			}
		}
	}, func(w *worker, i int, h *held) {
		q := append([]float32(nil), b.rows(int(b.row[count+i]), w.vec)...)
		exact := make([]key, len(h.beam.keys))
		for j, k := range h.beam.keys {
			v := b.rows(int(b.row[keyID(k)]), w.vec)
			exact[j] = makeKey(b.o.Metric.Distance(q, v), keyID(k))
		}
		slices.Sort(exact)
		truths[i] = exact[:min(len(exact), calibrationK)]
	})
	return truths, err
}

// bury measures how deep the rows searched bury true neighbors, and with it
// cal.oversample: so that all of the top ten lie within the candidates for 99 %
// of the vectors held out. What the others lose is a tenth of a percent of
// recall.
func (b *builder) bury(count int, truths [][]key) error {
	depths := make([]int, len(truths))
	err := b.eachHeld(count, func(w *worker, i int, h *held) []byte {
		rows := b.bindStored(&h.query, w.vec, count+i)
		ids, dists := w.ids[:len(truths[i])], w.dists[:len(truths[i])]
		for j, k := range truths[i] {
			ids[j] = keyID(k)
		}
		h.query.Distances(rows, ids, dists)
		for j, id := range ids {
			h.last = max(h.last, makeKey(dists[j], id))
		}
		return rows
	}, func(h *held, first int, dists []float32) {
		for i, d := range dists {
			if makeKey(d, uint32(first+i)) <= h.last {
				h.depth++
			}
		}
	}, func(w *worker, i int, h *held) { depths[i] = h.depth })
	if err != nil {
		return err
	}
	slices.Sort(depths)
	deep := depths[len(depths)*99/100]
	b.cal.oversample = float32(math.Ceil(float64(deep)*10/calibrationK)) / 10
	return nil
}

// probe searches for rank r and counts the true neighbors found. The hops told
// are those of level 0.
func (b *builder) probe(w *worker, r int, rule beamRule, truth []key) (hits int, st Stats, err error) {
	rows := b.bindStored(&w.query, w.vec, r)
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
		p, err := b.probeAll(count, truths, nil, 1, beamRule{ef: ef, slack: noSlack})
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
// may cost, as a multiple of a mean one: see the package comment.
func (r beamRule) capacity() int {
	if r.plain() {
		return r.ef
	}
	return r.ef + r.ef/4
}

// plain says that the beam alone ends the walk.
func (r beamRule) plain() bool { return r.slack <= noSlack }

// loosened is the rule for a walk with a filter, which has no slack below 0: such
// a walk must not end before the first accepted nodes have led it on.
func (r beamRule) loosened() beamRule {
	if !r.plain() {
		r.slack = max(r.slack, 0)
	}
	return r
}

// ruleFor gives the cheapest rule whose calibrated recall@10 reaches the
// target, for k neighbors: the curve is measured at 10, and every neighbor more
// widens the beam by one. It takes no slack below 0, which tells little of queries
// that are unlike the vectors: between tight clusters all neighbors are about
// equally far, and the walk would end where it began.
func (c *calibration) ruleFor(target float32, k int) beamRule {
	if target == 0 {
		target = defaultRecall
	}
	extra := max(k-calibrationK, 0)
	if len(c.curve) == 0 {
		return beamRule{ef: 96 + extra, slack: noSlack}
	}
	curve := c.curve
	for len(curve) > 1 && curve[0].slack < 0 && curve[0].slack > noSlack {
		curve = curve[1:]
	}
	at := len(curve) - 1
	for i, p := range curve {
		if p.recall >= target {
			at = i
			break
		}
	}
	p := curve[at]
	if at == 0 || p.recall < target || p.recall <= curve[at-1].recall {
		return beamRule{ef: int(p.ef) + extra, slack: p.slack}
	}
	prev := curve[at-1]
	return between(prev, p, (target-prev.recall)/(p.recall-prev.recall), extra)
}

// between interpolates two points, share of the way from a to b, and adds extra
// to ef.
func between(a, b curvePoint, share float32, extra int) beamRule {
	r := beamRule{ef: int(a.ef) + int(math.Ceil(float64(share*float32(b.ef-a.ef)))) + extra, slack: noSlack}
	if a.slack > noSlack && b.slack > noSlack {
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
