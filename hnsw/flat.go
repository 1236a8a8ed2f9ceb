package hnsw

import (
	"math"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// scanBlock is the number of rows scored by one kernel call of a scan, and
// cancelBlocks how many calls pass between two of Params.Cancel.
const (
	scanBlock    = 64
	cancelBlocks = 64
)

// SearchFlat scores every vector's code and rescores the nearest candidates.
// It is what Search does in a field without a graph. Order and errors are
// those of Search.
func (f *Field) SearchFlat(q []float32, p Params, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return dst, Stats{}, err
	}
	return f.flat(p, f.rescoring(p), s, dst)
}

func (f *Field) flat(p Params, wide int, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	return f.finishFlat(p, wide, s, dst, Stats{Plan: PlanFlat})
}

// finishFlat scans all rows, on top of the work that st tells.
func (f *Field) finishFlat(p Params, wide int, s *Scratch, dst []Neighbor, st Stats) ([]Neighbor, Stats, error) {
	c := collector{s: s, wide: wide}
	c.reset()
	s.grow(scanBlock)
	for lo, block := 0, 0; lo < f.n; lo, block = lo+scanBlock, block+1 {
		if err := poll(p.Cancel, block); err != nil {
			return dst, st, err
		}
		m := min(scanBlock, f.n-lo)
		s.query.Scan(f.codes, lo, m, s.dists)
		for i, d := range s.dists[:m] {
			if k := makeKey(d, uint32(lo+i)); k < c.bound {
				c.add(k)
			}
		}
	}
	st.Distances += f.n
	st.Visited += f.n
	dst, err := f.rescore(s, c.finish(), p.K, &st, dst)
	return dst, st, err
}

// SearchOrds scores the vectors of the given ords, which ascend strictly, and
// rescores the nearest candidates: the exact search over a small filter. Order
// and errors are those of Search.
func (f *Field) SearchOrds(q []float32, p Params, ords []uint32, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return dst, Stats{}, err
	}
	if len(ords) > 0 && uint64(ords[len(ords)-1]) >= uint64(f.n) {
		return dst, Stats{}, storage.Invalidf("ord %d of %d", ords[len(ords)-1], f.n)
	}
	st := Stats{Plan: PlanFlat}
	c := collector{s: s, wide: f.rescoring(p)}
	c.reset()
	s.grow(scanBlock)
	for block := 0; len(ords) > 0; block++ {
		if err := poll(p.Cancel, block); err != nil {
			return dst, st, err
		}
		ids := ords[:min(scanBlock, len(ords))]
		ords = ords[len(ids):]
		for i := 1; i < len(ids); i++ {
			if ids[i] <= ids[i-1] || uint64(ids[i]) >= uint64(f.n) {
				return dst, st, storage.Invalidf("ords do not ascend below %d: %d after %d", f.n, ids[i], ids[i-1])
			}
		}
		if len(ords) > 0 && ords[0] <= ids[len(ids)-1] {
			return dst, st, storage.Invalidf("ords do not ascend: %d after %d", ords[0], ids[len(ids)-1])
		}
		f.gather(&c, ids, &st)
	}
	dst, err := f.rescore(s, c.finish(), p.K, &st, dst)
	return dst, st, err
}

// SearchDocs is SearchOrds over a set of docs; docs without a vector do not
// count. Its only allocation is the set's iterator.
func (f *Field) SearchDocs(q []float32, p Params, docs *roaring.Bitmap, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return dst, Stats{}, err
	}
	st := Stats{Plan: PlanFlat}
	c := collector{s: s, wide: f.rescoring(p)}
	c.reset()
	s.grow(2 * scanBlock)
	it := docs.ManyIterator()
	for block := 0; ; block++ {
		if err := poll(p.Cancel, block); err != nil {
			return dst, st, err
		}
		m := it.NextMany(s.ids[:scanBlock])
		if m == 0 {
			break
		}
		kept := 0
		for _, doc := range s.ids[:m] {
			if ord, ok := f.Ord(doc); ok {
				s.ids[kept] = ord
				kept++
			}
		}
		f.gather(&c, s.ids[:kept], &st)
	}
	dst, err := f.rescore(s, c.finish(), p.K, &st, dst)
	return dst, st, err
}

// SearchExact compares the float32 vectors of every ord in accept (all when it
// is nil) and no code: the oracle of every other search, four times the bytes
// of a flat one. Order and errors are those of Search.
func (f *Field) SearchExact(q []float32, p Params, accept []uint64, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return dst, Stats{}, err
	}
	st := Stats{Plan: PlanFlat}
	s.grow(scanBlock)
	s.found = s.found[:0]
	for i := range f.AcceptLen() {
		if err := poll(p.Cancel, i); err != nil {
			return dst, st, err
		}
		word := ^uint64(0)
		if accept != nil {
			word = accept[i]
		}
		if left := f.n - i*64; left < 64 {
			word &= 1<<left - 1
		}
		m := 0
		for ; word != 0; word &= word - 1 {
			s.ids[m] = uint32(i*64 + bits.TrailingZeros64(word))
			m++
		}
		ids, dists := s.ids[:m], s.dists[:m]
		f.metric.Rescore(s.prepared, f.raw, ids, dists)
		st.Rescored += m
		if err := f.keepNearest(s, ids, dists, p.K); err != nil {
			return dst, st, err
		}
	}
	slices.SortFunc(s.found, compareNeighbors)
	return append(dst, s.found[:min(p.K, len(s.found))]...), st, nil
}

// keepNearest adds scored ords to s.found and cuts it back to the nearest k
// when it has grown to twice that.
func (f *Field) keepNearest(s *Scratch, ids []uint32, dists []float32, k int) error {
	for i, id := range ids {
		doc := f.docs[id]
		if doc >= f.docCount {
			return storage.Corruptf(sectionDocs, 4*int64(id), "doc %d of %d", doc, f.docCount)
		}
		s.found = append(s.found, Neighbor{Doc: doc, Ord: id, Distance: dists[i]})
	}
	if len(s.found) >= 2*min(k, f.n)+scanBlock {
		slices.SortFunc(s.found, compareNeighbors)
		s.found = s.found[:min(k, len(s.found))]
	}
	return nil
}

// gather scores some rows, at most 2·scanBlock.
func (f *Field) gather(c *collector, ids []uint32, st *Stats) {
	dists := c.s.dists[:len(ids)]
	c.s.query.Distances(f.codes, ids, dists)
	st.Distances += len(ids)
	st.Visited += len(ids)
	for i, d := range dists {
		if k := makeKey(d, ids[i]); k < c.bound {
			c.add(k)
		}
	}
}

// scanAccepted scores the rows in accept, on top of the work that st tells.
func (f *Field) scanAccepted(p Params, accept []uint64, matches, wide int, s *Scratch, dst []Neighbor, st Stats) ([]Neighbor, Stats, error) {
	c := collector{s: s, wide: wide}
	c.reset()
	s.grow(2 * scanBlock)
	if cost := costsOf(f.codec.Stride()); f.scanCost(matches, cost.gather) >= f.scanCost(f.n, cost.scan) {
		return f.scanMost(p, accept, &c, dst, st)
	}
	m, block := 0, 0
	for i, word := range accept {
		for ; word != 0; word &= word - 1 {
			s.ids[m] = uint32(i*64 + bits.TrailingZeros64(word))
			m++
		}
		if m >= scanBlock || i == len(accept)-1 && m > 0 {
			if err := poll(p.Cancel, block); err != nil {
				return dst, st, err
			}
			f.gather(&c, s.ids[:m], &st)
			m = 0
			block++
		}
	}
	dst, err := f.rescore(s, c.finish(), p.K, &st, dst)
	return dst, st, err
}

// scanMost scores every row and drops those not in accept: cheaper than
// jumping from row to row when most are.
func (f *Field) scanMost(p Params, accept []uint64, c *collector, dst []Neighbor, st Stats) ([]Neighbor, Stats, error) {
	s := c.s
	for i, word := range accept {
		if err := poll(p.Cancel, i); err != nil {
			return dst, st, err
		}
		if word == 0 {
			continue
		}
		m := min(64, f.n-i*64)
		s.query.Scan(f.codes, i*64, m, s.dists)
		st.Distances += m
		st.Visited += m
		for j, d := range s.dists[:m] {
			if k := makeKey(d, uint32(i*64+j)); k < c.bound && word>>j&1 == 1 {
				c.add(k)
			}
		}
	}
	dst, err := f.rescore(s, c.finish(), p.K, &st, dst)
	return dst, st, err
}

func poll(cancel func() error, block int) error {
	if cancel != nil && block%cancelBlocks == 0 {
		return cancel()
	}
	return nil
}

// A collector keeps the wide smallest keys of a stream in a buffer of twice
// that: when it is full, it is sorted, cut, and the bound falls. Each key costs
// a comparison, each admitted one O(log wide), whatever wide is.
type collector struct {
	s     *Scratch
	wide  int
	bound key
}

func (c *collector) reset() {
	size := max(2*c.wide, 128)
	if cap(c.s.top) < size {
		c.s.top = make([]key, 0, size)
	}
	c.s.top = c.s.top[:0]
	c.bound = math.MaxUint64
}

func (c *collector) add(k key) {
	c.s.top = append(c.s.top, k)
	if len(c.s.top) >= max(2*c.wide, 128) {
		c.finish()
		c.bound = c.s.top[len(c.s.top)-1]
	}
}

// finish returns the smallest keys seen, ascending.
func (c *collector) finish() []key {
	slices.Sort(c.s.top)
	c.s.top = c.s.top[:min(len(c.s.top), c.wide)]
	return c.s.top
}
