package fusion

import (
	"cmp"
	"slices"
)

// A Source says what one leg gave to a hit.
type Source struct {
	Rank  int     // from 1; 0 when the leg does not have the item, and the rest is 0 too
	Raw   float64 // Item.Raw
	Score float64 // Item.Score, the leg score
	Part  float64 // share of the hit's score that came from this leg, in [0,1]
}

// A Hit is one fused item.
type Hit struct {
	Key   uint64
	Score float64  // in [0,1]
	From  []Source // one a leg, in leg order
}

// Fuser fuses legs and keeps its scratch between calls. The zero value is ready.
// It is not safe for concurrent use; pool Fusers to share them.
//
// The hits of a call, their From included, lie in the scratch: they are valid
// until the next call (Clone makes a copy that stays).
type Fuser struct {
	keys    []uint64  // of the rows, a row a distinct key in order of arrival
	sources []Source  // row r's Source from leg l is at r·legs+l
	slots   []int32   // open addressing, len a power of two: row + 1, 0 is free
	order   []entry   // what is sorted: small and without pointers
	hits    []Hit     // what is returned
	weights []float64 // of the legs, scaled
}

// An entry is a row with its fused score.
type entry struct {
	score float64
	row   int32
}

// RRF fuses by rank: score = Σ w/(c+rank) ÷ Σ w/(c+1), both summed in leg order,
// with c the rank constant. Leg scores play no part. Hits come ordered by score
// descending, then Options.Compare. Errors match ErrInvalid.
func (f *Fuser) RRF(legs []Leg, o Options) ([]Hit, error) {
	if err := f.join(legs, o); err != nil {
		return nil, err
	}
	c := o.rankConstant()
	norm := 0.0
	for _, w := range f.weights {
		norm += w / (c + 1)
	}
	f.order = scoreRRF(f.order[:0], f.sources, f.weights, c, norm)
	return f.finish(o), nil
}

// Weighted fuses by leg score: score = Σ w·legScore ÷ Σ w, summed in leg order.
// A leg score that is NaN or outside [0,1] is an error: nothing is rescaled by
// the other hits, so that a lone bad hit does not become a perfect one. Order
// and errors are as in RRF.
func (f *Fuser) Weighted(legs []Leg, o Options) ([]Hit, error) {
	for i := range legs {
		for j := range legs[i].Items {
			if s := legs[i].Items[j].Score; !(s >= 0 && s <= 1) {
				return nil, invalidf("score %v of item %d of %s: want 0 to 1", s, j, legName(legs, i))
			}
		}
	}
	if err := f.join(legs, o); err != nil {
		return nil, err
	}
	norm := 0.0
	for _, w := range f.weights {
		norm += w
	}
	f.order = scoreWeighted(f.order[:0], f.sources, f.weights, norm)
	return f.finish(o), nil
}

// scoreRRF fills in the parts of every row and appends to order those that a leg
// of positive weight has, with their scores.
func scoreRRF(order []entry, sources []Source, weights []float64, c, norm float64) []entry {
	for row := int32(0); len(sources) > 0; row++ {
		from := sources[:len(weights)]
		sources = sources[len(weights):]
		sum, found := 0.0, false
		for l, w := range weights {
			if s := &from[l]; s.Rank > 0 && w > 0 {
				part := w / (c + float64(s.Rank))
				sum += part
				s.Part = part / norm
				found = true
			}
		}
		if found {
			order = append(order, entry{sum / norm, row})
		}
	}
	return order
}

// scoreWeighted is scoreRRF with leg scores in place of reciprocal ranks.
func scoreWeighted(order []entry, sources []Source, weights []float64, norm float64) []entry {
	for row := int32(0); len(sources) > 0; row++ {
		from := sources[:len(weights)]
		sources = sources[len(weights):]
		sum, found := 0.0, false
		for l, w := range weights {
			if s := &from[l]; s.Rank > 0 && w > 0 {
				part := float64(w * s.Score) // rounded here: no fused multiply-add
				sum += part
				s.Part = part / norm
				found = true
			}
		}
		if found {
			order = append(order, entry{sum / norm, row})
		}
	}
	return order
}

// join checks the arguments and gathers one hit a distinct key, with every leg's
// rank and scores.
func (f *Fuser) join(legs []Leg, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := ValidateWeights(legs); err != nil {
		return err
	}
	total := 0
	for i := range legs {
		total += len(legs[i].Items)
	}
	if total > MaxItems || total*len(legs) > MaxItems {
		return invalidf("%d items in %d legs: too many", total, len(legs))
	}
	f.weights = scaleWeights(f.weights[:0], legs)
	f.reserve(total, len(legs))
	for l := range legs {
		rank := 0
		for _, it := range legs[l].Items {
			s := &f.sources[f.find(it.Key)*len(legs)+l]
			if s.Rank != 0 {
				continue // a repeat: the first occurrence is the best rank
			}
			rank++
			*s = Source{Rank: rank, Raw: it.Raw, Score: it.Score}
		}
	}
	f.sources = f.sources[:len(f.keys)*len(legs)]
	return nil
}

// reserve makes room for total rows and an empty table at most half full.
func (f *Fuser) reserve(total, legs int) {
	f.keys = slices.Grow(f.keys[:0], total)
	f.order = slices.Grow(f.order[:0], total)
	f.hits = slices.Grow(f.hits[:0], total)
	f.sources = slices.Grow(f.sources[:0], total*legs)[:total*legs]
	clear(f.sources)
	size := 16
	for size < 2*total {
		size *= 2
	}
	f.slots = slices.Grow(f.slots[:0], size)[:size]
	clear(f.slots)
}

// find returns key's row, adding it if it is new.
func (f *Fuser) find(key uint64) int {
	mask := len(f.slots) - 1
	// Fibonacci hashing; high bits are folded in because docs vary in the low
	// bits of a key and segments in the high ones.
	h := key * 0x9E3779B97F4A7C15
	for at := int(h>>32^h>>7) & mask; ; at = (at + 1) & mask {
		row := int(f.slots[at]) - 1
		if row < 0 {
			row = len(f.keys)
			f.slots[at] = int32(row + 1)
			f.keys = append(f.keys, key)
			return row
		}
		if f.keys[row] == key {
			return row
		}
	}
}

// finish sorts the order, cuts it at K and makes it hits.
func (f *Fuser) finish(o Options) []Hit {
	keys, compare := f.keys, o.Compare
	slices.SortFunc(f.order, func(a, b entry) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		if compare != nil {
			if c := compare(keys[a.row], keys[b.row]); c != 0 {
				return c
			}
		}
		return cmp.Compare(keys[a.row], keys[b.row])
	})
	n := len(f.order)
	if o.K > 0 {
		n = min(n, o.K)
	}
	legs := len(f.weights)
	for _, e := range f.order[:n] {
		at := int(e.row) * legs
		f.hits = append(f.hits, Hit{Key: keys[e.row], Score: e.score, From: f.sources[at : at+legs : at+legs]})
	}
	return f.hits
}

// Clone returns a copy of hits that outlives the Fuser's next call.
func Clone(hits []Hit) []Hit {
	n := 0
	for i := range hits {
		n += len(hits[i].From)
	}
	sources := make([]Source, 0, n)
	out := make([]Hit, len(hits))
	for i, h := range hits {
		at := len(sources)
		sources = append(sources, h.From...)
		h.From = sources[at:len(sources):len(sources)]
		out[i] = h
	}
	return out
}
