package bm25

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// A heap and a tally keep the k best of any stream, ties by doc, and the floor
// never passes a doc that belongs to them.
func TestBestOfAStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	var h heap
	for round := range 400 {
		k := 1 + rng.IntN(300)
		n := rng.IntN(5000)
		top := 1 + rng.Uint32N(1<<(1+rng.IntN(31)))
		scores := []uint32{top}
		for range rng.IntN(1 + n) { // few scores: many ties
			scores = append(scores, 1+rng.Uint32N(top))
		}
		floor := rng.Uint32N(1 + top/4)
		h.reset(k, floor, int64(top))
		var want []Scored
		doc := uint32(0)
		for range n {
			doc += 1 + rng.Uint32N(3)
			s := scores[rng.IntN(len(scores))]
			if round%3 == 0 {
				s = min(1+uint32(len(want)), top) // rising
			}
			if s >= floor {
				want = append(want, Scored{doc, int64(s)})
			}
			h.push(doc, s)
		}
		slices.SortFunc(want, func(a, b Scored) int { return cmp.Or(cmp.Compare(b.Raw, a.Raw), cmp.Compare(a.Doc, b.Doc)) })
		want = want[:min(k, len(want))]
		if got := h.drain(nil); !slices.Equal(got, want) {
			t.Fatalf("round %d: k %d of %d, %d scores up to %d: %d docs, want %d", round, k, n, len(scores), top, len(got), len(want))
		}
	}
}
