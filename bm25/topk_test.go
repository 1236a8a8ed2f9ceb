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

// Count reads the longest list as bits where the others are dense, and seeks
// in it where they are sparse, in blocks that lie in several windows.
func TestCountOfUnion(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	const n = 120_000
	docs := map[uint32]text{}
	want := 0
	for d := range uint32(n) {
		var words text
		if d%37 == 0 {
			words = append(words, "long")
		}
		if d/20_000%2 == 0 && rng.IntN(60) == 0 || d%37 == 0 && rng.IntN(9) == 0 {
			words = append(words, "other")
		}
		if d > 50_000 && d < 52_000 || d%10_007 == 1 {
			words = append(words, "run")
		}
		if len(words) > 0 {
			docs[d] = words
			want++
		}
	}
	_, f := buildField(t, docs, n)
	b, err := Bind(oneField("long", "other", "run"), []SegmentFields{{"f": f}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var s Scratch
	if got, err := b.Count(0, Accept{}, &s); got != want || err != nil {
		t.Fatalf("%d, %v; want %d", got, err, want)
	}
	all := make([]uint64, n/64)
	for i := range all {
		all[i] = ^uint64(0)
	}
	if got, err := b.Count(0, AcceptBits(all), &s); got != want || err != nil {
		t.Fatalf("%d with a filter, %v; want %d", got, err, want)
	}
}
