package embed

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Batches hold every input once, fine ones apart from others, and at most twice
// what a batch takes (long texts cannot be divided).
func TestBatchesShareTheWork(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		workers := 1 + rng.IntN(4)
		r := &runner{batch: 512, workers: make(chan *scratch, workers)}
		inputs := make([]input, 1+rng.IntN(120))
		for i := range inputs {
			inputs[i] = input{text: i, ids: make([]int32, max(3, 500-rng.IntN(500)*i/len(inputs)-i))}
		}
		slices.SortFunc(inputs, func(a, b input) int { return len(b.ids) - len(a.ids) })
		seen := make([]bool, len(inputs))
		for _, b := range r.batches(inputs) {
			tokens := 0
			for _, in := range b {
				if seen[in.text] {
					t.Fatalf("text %d twice", in.text)
				}
				seen[in.text] = true
				tokens += len(in.ids)
				if in.fine() != b[0].fine() {
					t.Fatal("a batch of fine and other texts")
				}
			}
			if len(b) == 0 || len(b) > 1 && tokens > 2*512 {
				t.Fatalf("a batch of %d texts and %d tokens", len(b), tokens)
			}
		}
		for i, ok := range seen {
			if !ok {
				t.Fatalf("text %d of %d in no batch", i, len(seen))
			}
		}
	}
}
