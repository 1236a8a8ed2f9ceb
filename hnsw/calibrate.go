package hnsw

import (
	"math"
	"slices"
)

// A curvePoint says what a beam of width Ef finds and costs in this field.
type curvePoint struct {
	ef        uint32
	recall    float32 // recall@10
	distances float32 // mean distances a search
}

// A calibration is what the builder measured on its own graph, with vectors of
// the field that the graph did not hold yet: the last ones in the order of
// insertion. Only counts, no times: the bytes must not depend on the machine.
type calibration struct {
	oversample float32 // candidates to rescore, as a multiple of k
	curve      []curvePoint
}

const (
	calibrationK       = 10
	calibrationQueries = 256
	calibrationDepth   = 80 // candidates by code among which the true ones are sought
	defaultOversample  = 3
	defaultRecall      = 0.95
)

var calibrationEfs = [...]int{12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768}

func defaultCalibration() calibration { return calibration{oversample: defaultOversample} }

// heldOut is the number of nodes that wait for the calibration.
func (b *builder) heldOut() int {
	if b.nodes < 16*calibrationQueries {
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
	err := b.parallel(queries, 1, func(w *worker, i int) error {
		truths[i], ranks[i] = b.truth(w, count+i, count)
		return nil
	})
	if err != nil {
		return err
	}
	// All of the top ten lie within the oversampled candidates for 98 % of the
	// queries: what the others lose is a few tenths of a percent of recall.
	slices.Sort(ranks)
	deep := ranks[len(ranks)*98/100]
	b.cal.oversample = float32(math.Ceil(float64(deep)*10/calibrationK)) / 10
	hits, dist := make([]int, queries), make([]int, queries)
	for _, ef := range calibrationEfs {
		err := b.parallel(queries, 4, func(w *worker, i int) error {
			var err error
			hits[i], dist[i], err = b.probe(w, count+i, count, ef, truths[i])
			return err
		})
		if err != nil {
			return err
		}
		p := curvePoint{ef: uint32(ef)}
		var h, d int
		for i := range hits {
			h += hits[i]
			d += dist[i]
		}
		p.recall = float32(h) / float32(calibrationK*queries)
		p.distances = float32(d) / float32(queries)
		b.cal.curve = append(b.cal.curve, p)
	}
	return nil
}

// truth finds the nearest calibrationK of the ranks below count to rank r by
// exact distance, and the place of the last of them in the order of codes.
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
	deepest := 0
	for i, k := range w.beam.keys {
		for _, e := range exact {
			if keyID(e) == keyID(k) {
				deepest = i + 1
			}
		}
	}
	return exact, deepest
}

// probe searches for rank r and counts the true neighbors found.
func (b *builder) probe(w *worker, r, count, ef int, truth []key) (hits, distances int, err error) {
	b.codec.BindRow(&w.query, b.code(r))
	w.beam.reset(1)
	for l := len(b.levels) - 1; l >= 0; l-- {
		width := 1
		if l == 0 {
			width = ef
		}
		d, err := b.descendWidth(w, l, width, count)
		if err != nil {
			return 0, 0, err
		}
		distances += d
	}
	depth := max(int(b.cal.oversample*calibrationK), calibrationK)
	for _, k := range w.beam.keys[:min(len(w.beam.keys), depth)] {
		for _, t := range truth {
			if keyID(t) == keyID(k) {
				hits++
			}
		}
	}
	return hits, distances, nil
}

// efFor gives the least ef whose calibrated recall@10 reaches the target, for
// k neighbors: the curve is measured at 10, and every neighbor more widens the
// beam by one.
func (c *calibration) efFor(target float32, k int) int {
	if target == 0 {
		target = defaultRecall
	}
	extra := max(k-calibrationK, 0)
	if len(c.curve) == 0 {
		return 96 + extra
	}
	prev := c.curve[0]
	for i, p := range c.curve {
		if p.recall < target {
			prev = p
			continue
		}
		if i == 0 || p.recall <= prev.recall {
			return int(p.ef) + extra
		}
		share := (target - prev.recall) / (p.recall - prev.recall)
		return int(prev.ef) + int(math.Ceil(float64(share*float32(p.ef-prev.ef)))) + extra
	}
	return int(c.curve[len(c.curve)-1].ef) + extra
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
