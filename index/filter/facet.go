package filter

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// A Count is one value of a field and the number of docs that hold it.
type Count struct {
	Value Value
	Docs  uint64
}

// A Facet counts the values of one field over the docs that matched, exactly,
// across any number of segments. A list counts once for each of its distinct
// values. It is not safe for concurrent use; to count segments in parallel,
// give each its own Facet and Merge them.
type Facet struct {
	field string
	typ   Type
	texts map[string]uint64
	nums  map[int64]uint64
	stats FacetStats
	take  func(n int) error
}

// FacetStats sums a facet up. The four counts of docs add up to all docs that
// were counted.
type FacetStats struct {
	Values  uint64 // docs with at least one value
	Empty   uint64 // docs with an empty list
	Null    uint64 // docs with null
	Missing uint64 // docs without the field
	// Distinct is the number of distinct values.
	Distinct int
	// Min and Max are the least and the greatest value (keywords by bytes),
	// missing when there is none.
	Min, Max Value
}

// NewFacet returns an empty facet on a field.
func NewFacet(field string) *Facet {
	return &Facet{field: field, texts: map[string]uint64{}, nums: map[int64]uint64{}}
}

// Limit makes Add call take for each new distinct value, with the bytes of its
// key, and end with the error it returns.
func (c *Facet) Limit(take func(n int) error) { c.take = take }

// Add counts the docs of one segment that are in matches; nil counts all of
// them, tombstones included. In a segment without the field all are missing.
//
// Time: one look at the column a doc, or one intersection a value where that
// is cheaper, and one map update a distinct value of the segment. ctx ends it
// within some milliseconds; what was counted then is worth nothing.
func (c *Facet) Add(ctx context.Context, seg *Segment, matches *roaring.Bitmap) error {
	if seg == nil {
		return storage.Invalidf("facet %q: no segment", c.field)
	}
	f := seg.field(c.field)
	total := uint64(seg.docs)
	if matches != nil {
		if !matches.IsEmpty() && matches.Maximum() >= seg.docs {
			return storage.Invalidf("facet %q: match %d in a segment of %d docs", c.field, matches.Maximum(), seg.docs)
		}
		total = matches.GetCardinality()
	}
	if f == nil || total == 0 {
		c.stats.Missing += total
		return nil
	}
	if err := c.setType(f.typ); err != nil {
		return err
	}
	counts := [states]uint64{}
	for i := range counts {
		bm, err := f.state(i)
		if err != nil {
			return err
		}
		counts[i] = bm.GetCardinality()
		if matches != nil {
			counts[i] = matches.AndCardinality(bm)
		}
	}
	if sum := counts[statePresent] + counts[stateNull] + counts[stateEmpty]; sum > total {
		return f.corrupt(partBitmaps, "states of docs overlap")
	} else if c.stats.Missing += total - sum; sum > 0 {
		c.stats.Values += counts[statePresent]
		c.stats.Null += counts[stateNull]
		c.stats.Empty += counts[stateEmpty]
	}
	switch {
	case counts[statePresent] == 0:
		return nil
	case matches == nil || f.cheapByValue(total):
		return c.byValue(ctx, f, matches)
	}
	return c.byDoc(ctx, f, matches, total)
}

// setType notes the type of the values seen.
func (c *Facet) setType(t Type) error {
	if t != Undeclared && c.typ != Undeclared && t != c.typ {
		return fmt.Errorf("%w: field %q: %s in one segment, %s in another", storage.ErrSchema, c.field, c.typ, t)
	}
	if c.typ == Undeclared {
		c.typ = t
	}
	return nil
}

// cheapByValue compares the cost of looking matches docs up, some 3 ns each,
// with that of intersecting all values: some 8 ns a listed doc and 1 µs a
// stored bitmap and 65,536 docs.
func (f *field) cheapByValue(matches uint64) bool {
	chunks := uint64(f.docs)>>16 + 1
	byValue := 8*uint64(len(f.listed)) + 2*uint64(f.values) + 1000*chunks*uint64(len(f.dir))
	return byValue < 3*matches
}

// byValue counts through the inverted side.
func (c *Facet) byValue(ctx context.Context, f *field, matches *roaring.Bitmap) error {
	cur := f.dict.cursor()
	dir := 0
	for ord := range f.values {
		if err := poll(ctx, int(ord)); err != nil {
			return err
		}
		n := uint64(0)
		if dir < len(f.dir)-states && f.dir[dir].ord == ord {
			n = uint64(f.dir[dir].count)
			if matches != nil {
				bm, err := f.bitmap(dir)
				if err != nil {
					return err
				}
				n = matches.AndCardinality(bm)
			}
			dir++
		} else {
			docs, err := f.docLists(ord, ord+1)
			if err != nil {
				return err
			}
			n = uint64(len(docs))
			for _, doc := range docs {
				if matches != nil && !matches.Contains(doc) {
					n--
				}
			}
		}
		if n > 0 {
			if err := c.count(f, &cur, ord, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// byDoc counts through the column: densely, or by sorting the ords met where
// they are few beside the values.
func (c *Facet) byDoc(ctx context.Context, f *field, matches *roaring.Bitmap, total uint64) error {
	dense := uint64(f.values) <= 4*total+1024
	var counts, met []uint32
	if dense {
		counts = make([]uint32, f.values)
	}
	var buf [256]uint32
	it := matches.ManyIterator()
	for got := it.NextMany(buf[:]); got > 0; got = it.NextMany(buf[:]) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, doc := range buf[:got] {
			lo, hi, err := f.span(doc)
			if err != nil {
				return err
			}
			for ; lo < hi; lo++ {
				ord := f.codes.at(lo) - 1
				switch {
				case ord < f.values && dense:
					counts[ord]++
				case ord < f.values:
					met = append(met, ord)
				case ord != noOrd:
					return f.corrupt(partCodes, "ord %d of %d values", ord, f.values)
				}
			}
		}
	}
	cur := f.dict.cursor()
	for ord, n := range counts {
		if err := poll(ctx, ord); err != nil {
			return err
		}
		if n > 0 {
			if err := c.count(f, &cur, uint32(ord), uint64(n)); err != nil {
				return err
			}
		}
	}
	slices.Sort(met)
	for len(met) > 0 {
		if err := poll(ctx, len(met)); err != nil {
			return err
		}
		n := 1
		for n < len(met) && met[n] == met[0] {
			n++
		}
		if err := c.count(f, &cur, met[0], uint64(n)); err != nil {
			return err
		}
		met = met[n:]
	}
	return nil
}

// poll looks at ctx at every pollValues-th value.
func poll(ctx context.Context, i int) error {
	if i%pollValues != 0 {
		return nil
	}
	return ctx.Err()
}

const pollValues = 256

// count adds n docs to the value of an ord.
func (c *Facet) count(f *field, cur *dictCursor, ord uint32, n uint64) error {
	had, size := len(c.nums)+len(c.texts), 8
	if f.typ.isText() {
		if err := cur.seek(ord); err != nil {
			return err
		}
		c.texts[string(cur.key)] += n
		size = len(cur.key)
	} else {
		c.nums[f.nums[ord]] += n
	}
	if c.take != nil && len(c.nums)+len(c.texts) > had {
		return c.take(size)
	}
	return nil
}

// Merge adds what another facet on the same field has counted.
func (c *Facet) Merge(o *Facet) error {
	if err := c.setType(o.typ); err != nil {
		return err
	}
	for s, n := range o.texts {
		c.texts[s] += n
	}
	for k, n := range o.nums {
		c.nums[k] += n
	}
	c.stats.Values += o.stats.Values
	c.stats.Empty += o.stats.Empty
	c.stats.Null += o.stats.Null
	c.stats.Missing += o.stats.Missing
	return nil
}

// Top returns the n values that most docs hold, the count descending and then
// the value ascending; n < 0 returns all.
func (c *Facet) Top(n int) []Count {
	if c.typ.isText() {
		return rank(c.texts, n, keywordValue)
	}
	return rank(c.nums, n, func(k int64) Value { return numberValue(c.typ, k) })
}

// rank keeps the best n of the counts in order; Go's maps are walked in random
// order, and the order here is total, so the result does not depend on it.
func rank[K cmp.Ordered](counts map[K]uint64, n int, value func(K) Value) []Count {
	type entry struct {
		key  K
		docs uint64
	}
	order := func(a, b entry) int {
		if c := cmp.Compare(b.docs, a.docs); c != 0 {
			return c
		}
		return cmp.Compare(a.key, b.key)
	}
	if n < 0 || n > len(counts) {
		n = len(counts)
	}
	// Collect up to 2n+64 entries, then sort and cut to n: amortized log n an
	// entry and no memory by the number of values.
	best := make([]entry, 0, min(len(counts), 2*n+64))
	for k, docs := range counts {
		if len(best) == cap(best) && len(best) > n {
			slices.SortFunc(best, order)
			best = best[:n]
		}
		e := entry{k, docs}
		best = append(best, e)
	}
	slices.SortFunc(best, order)
	out := make([]Count, min(n, len(best)))
	for i := range out {
		out[i] = Count{value(best[i].key), best[i].docs}
	}
	return out
}

// Stats sums up what has been counted.
func (c *Facet) Stats() FacetStats {
	s := c.stats
	s.Distinct = len(c.texts) + len(c.nums)
	if c.typ.isText() {
		for k := range c.texts {
			if s.Min.IsMissing() || k < s.Min.str {
				s.Min = keywordValue(k)
			}
			if s.Max.IsMissing() || k > s.Max.str {
				s.Max = keywordValue(k)
			}
		}
		return s
	}
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for k := range c.nums {
		lo, hi = min(lo, k), max(hi, k)
	}
	if lo <= hi {
		s.Min, s.Max = numberValue(c.typ, lo), numberValue(c.typ, hi)
	}
	return s
}
