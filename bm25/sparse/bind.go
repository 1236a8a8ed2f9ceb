package sparse

import (
	"math"

	"github.com/quarrysearch/quarry/storage"
)

// A Scored is a doc of a segment with its score.
type Scored struct {
	Doc   uint32
	Score float32
}

// Accept says which docs may be returned: those whose bit is set in Bits, or
// those in Docs, ascending; the zero value accepts all. Docs is meant for few
// (FewDocs): they then lead the search. The slices are kept, not copied.
type Accept struct {
	Bits []uint64
	Docs []uint32
}

// FewDocs is how many docs there should be for each one that passes where Docs is
// given and not Bits.
const FewDocs = 64

// A Bound is a query with its terms looked up in every segment. It is immutable
// and safe for concurrent use, each search with a Scratch of its own.
type Bound struct {
	query Vector
	sum   float64   // of the query's weights
	unit  float64   // a score of 1 is 1/unit units
	q     []float64 // of each term: units a weight of 1 adds, times 2^112
	docs  []uint32  // of each segment: the bound of its docs
	lists []list    // of term t in segment s: lists[s·terms+t]
}

// sumBits is the size of the sum of everything that a query could reach.
const sumBits = 62

// Bind prepares a query for a list of segments; nil stands for one without the
// field. Errors: ErrInvalid for a vector that breaks its rules, ErrTooLarge for
// one of more than MaxQueryEntries, ErrCorrupt.
func Bind(query Vector, segs []*Field) (*Bound, error) {
	if err := query.Check(); err != nil {
		return nil, err
	}
	if len(query) > MaxQueryEntries {
		return nil, tooMany(len(query), MaxQueryEntries)
	}
	b := &Bound{query: query, docs: make([]uint32, len(segs)), lists: make([]list, len(segs)*len(query))}
	for _, e := range query {
		b.sum += float64(e.Weight)
	}
	_, exp := math.Frexp(b.sum * MaxWeight)
	b.unit = math.Ldexp(1, exp-sumBits)
	b.q = make([]float64, len(query))
	for t, e := range query {
		b.q[t] = float64(e.Weight) / b.unit * 0x1p112 // powers of two: exact
	}
	for s, f := range segs {
		if f == nil {
			continue
		}
		b.docs[s] = f.stats.Bound
		for t, e := range query {
			n, ok := f.find(e.Term)
			if !ok {
				continue
			}
			var err error
			if b.lists[s*len(query)+t], err = f.list(n); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// contribution is what a weight adds to a sum, given the factor of its term. The
// product of 24 and 11 bits is exact, so that a fused multiply-add cannot differ.
func contribution(q float64, code uint16) uint64 {
	return max(uint64(int64(float64(math.Float32frombits(uint32(code)<<13))*q+0.5)), 1)
}

// score is the score of a positive sum.
func (b *Bound) score(sum uint64) float32 {
	return max(float32(float64(sum)*b.unit), math.SmallestNonzeroFloat32)
}

// least is a sum below which no doc has a score of at least floor. It is a
// little low: rounding is left to score.
func (b *Bound) least(floor float32) uint64 {
	if !(floor > math.SmallestNonzeroFloat32) {
		return 1
	}
	below := math.Float32frombits(math.Float32bits(floor) - 1)
	mid := (float64(below) + float64(floor)) / 2 / b.unit
	if mid >= 1<<(sumBits+1) {
		return 1 << (sumBits + 1)
	}
	sum := uint64(mid)
	return max(sum-sum>>50-min(sum, 1), 1)
}

// LegScore maps a score to [0, 1): m/(1+m) with m = score / Σ query weights.
func (b *Bound) LegScore(score float32) float64 {
	m := float64(score) / b.sum
	return m / (1 + m)
}

func (b *Bound) checkSegment(seg int) error {
	if seg < 0 || seg >= len(b.docs) {
		return storage.Invalidf("sparse: segment %d of %d", seg, len(b.docs))
	}
	return nil
}

// listsOf returns the list of each term in a segment.
func (b *Bound) listsOf(seg int) []list {
	return b.lists[seg*len(b.query):][:len(b.query)]
}
