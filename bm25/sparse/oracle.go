package sparse

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// Exhaustive is TopK without pruning: it reads every posting of every term.
func (b *Bound) Exhaustive(seg, k int, accept Accept, floor float32) ([]Scored, error) {
	sums, err := b.sums(seg)
	if err != nil {
		return nil, err
	}
	var out []Scored
	for d, sum := range sums {
		if sum > 0 && accept.has(uint32(d)) && b.score(sum) >= floor {
			out = append(out, Scored{uint32(d), b.score(sum)})
		}
	}
	slices.SortFunc(out, func(x, y Scored) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.Doc, y.Doc))
	})
	return out[:min(len(out), max(k, 0))], nil
}

// sums adds everything up.
func (b *Bound) sums(seg int) ([]uint64, error) {
	if err := b.checkSegment(seg); err != nil {
		return nil, err
	}
	sums := make([]uint64, b.docs[seg])
	var c cursor
	for t, l := range b.listsOf(seg) {
		if l.blocks == 0 {
			continue
		}
		c.open(l, b.q[t])
		for c.nextBlock() {
			for i, d := range c.docs[:c.n] {
				sums[d] += contribution(c.q, c.code(i))
			}
		}
		if err := c.err(); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

func (a *Accept) has(doc uint32) bool {
	switch {
	case a.Docs != nil:
		_, ok := slices.BinarySearch(a.Docs, doc)
		return ok
	case a.Bits != nil:
		return int(doc/64) < len(a.Bits) && a.Bits[doc/64]>>(doc%64)&1 != 0
	}
	return true
}

// Matches returns the accepted docs that have a term of the query, as a bitset
// in dst, grown when too small.
func (b *Bound) Matches(seg int, accept Accept, dst []uint64) ([]uint64, error) {
	sums, err := b.sums(seg)
	if err != nil {
		return nil, err
	}
	dst = append(dst[:0], make([]uint64, (len(sums)+63)/64)...)
	for d, sum := range sums {
		if sum > 0 && accept.has(uint32(d)) {
			dst[d/64] |= 1 << (d % 64)
		}
	}
	return dst, nil
}

// A Part is what one term adds to the score of a doc.
type Part struct {
	Term          uint32
	Query, Stored float32 // weights
	Score         float64 // their product, as it is added
}

// Explain returns the score of a doc and its parts, which add up to it but for
// its rounding to float32; ok is false when the doc has none of the terms.
func (b *Bound) Explain(seg int, doc uint32) (score float32, parts []Part, ok bool, err error) {
	if err := b.checkSegment(seg); err != nil {
		return 0, nil, false, err
	}
	var c cursor
	var sum uint64
	for t, l := range b.listsOf(seg) {
		if l.blocks == 0 {
			continue
		}
		c.open(l, b.q[t])
		if c.seek(doc) && c.docs[c.i] == doc {
			code := c.code(c.i)
			units := contribution(c.q, code)
			sum += units
			parts = append(parts, Part{b.query[t].Term, b.query[t].Weight, decode(code), float64(units) * b.unit})
		}
		if err := c.err(); err != nil {
			return 0, nil, false, err
		}
	}
	if sum == 0 {
		return 0, nil, false, nil
	}
	return b.score(sum), parts, true, nil
}

func tooMany(n, limit int) error {
	return fmt.Errorf("%w: sparse vector of %d entries, the limit is %d", storage.ErrTooLarge, n, limit)
}

// CheckSize reports more entries than a document may have. Errors: ErrTooLarge.
func (v Vector) CheckSize() error {
	if len(v) > MaxEntries {
		return tooMany(len(v), MaxEntries)
	}
	return nil
}
