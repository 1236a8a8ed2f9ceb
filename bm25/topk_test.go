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

// A filter of few docs reads blocks that lie in several windows, in some of
// which their word is essential and in others sought, and all that pass are not
// spread evenly.
func TestFewOfABlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	const n = 60_000
	words := []string{"half", "ninth", "some", "few", "rare"}
	const kinds = 5
	docs := map[uint32]text{}
	var often [kinds + 1]int
	for d := range uint32(n) {
		if d%2500 == 0 { // bounds differ by the place
			for i := range often {
				often[i] = 1 + rng.IntN(6)*rng.IntN(2)
			}
		}
		for i, one := range []int{2, 9, 30, 100, 400} {
			if rng.IntN(one) == 0 {
				docs[d] = append(docs[d], slices.Repeat([]string{words[i]}, 1+rng.IntN(often[i]))...)
			}
		}
		docs[d] = append(docs[d], slices.Repeat([]string{"filler"}, rng.IntN(20*often[kinds]))...)
	}
	_, f := buildField(t, docs, n)
	var s Scratch
	for round := range 80 {
		run := uint32(1 + rng.IntN(1+round%3*3000))
		share := []int{1, 5, 20, 60, 90}[rng.IntN(5)]
		bits := make([]uint64, n/64+1-rng.IntN(100))
		for d, pass := uint32(0), false; d < uint32(64*len(bits)) && d < n; d++ {
			if d%run == 0 {
				pass = rng.IntN(100) < share
			}
			if pass || rng.IntN(5000) == 0 {
				bits[d/64] |= 1 << (d % 64)
			}
		}
		rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		q := oneField(words[:2+rng.IntN(4)]...)
		q.Operator = Operator(rng.IntN(4) / 3)
		b, err := Bind(q, []SegmentFields{{"f": f}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := 1 + rng.IntN(20)
		want, err := b.Exhaustive(0, k, AcceptBits(bits), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.TopK(0, k, AcceptBits(bits), 0, &s, nil); err != nil || !slices.Equal(got, want) {
			t.Fatalf("round %d: %v with runs of %d, %d %%, k %d: %v, want %v: %v", round, q.Words, run, share, k, got, want, err)
		}
	}
}
