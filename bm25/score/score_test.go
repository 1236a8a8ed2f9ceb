package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Batch equals Of at every length, for every kind of weight, freq and inv.
func TestBatchEqualsOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	weights := []float32{0, 1e-7, 0.5, 1, 17.25, 1023.999, 1024, MaxWeight}
	for n := range 300 {
		w := weights[n%len(weights)]
		if n%3 == 0 {
			w = rng.Float32() * float32(uint(1)<<rng.IntN(11))
		}
		out, freqs, inv := make([]uint32, n), make([]uint32, n), make([]float32, n)
		for i := range n {
			freqs[i] = 1 + rng.Uint32()>>(1+rng.IntN(31))
			inv[i] = float32(math.Exp(rng.Float64()*60 - 30))
			switch rng.IntN(20) {
			case 0:
				freqs[i] = 1 << 31
			case 1:
				inv[i] = 0
			case 2:
				inv[i] = math.MaxFloat32
			}
		}
		Batch(out, freqs, inv, w)
		for i := range n {
			if want := Of(w, freqs[i], inv[i]); out[i] != want {
				t.Fatalf("%d of %d: w %v, freq %d, inv %v: %d, want %d", i, n, w, freqs[i], inv[i], out[i], want)
			}
		}
	}
}

// Collect gives what a plain loop over the docs gives, and clears the window.
func TestCollect(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for round := range 600 {
		words := rng.IntN(40)
		n := 64 * words
		acc, set, keep := make([]uint32, n), make([]uint64, words), make([]uint64, words)
		density, top := rng.Float64(), uint32(1)<<rng.IntN(32)
		if round%2 == 0 {
			density /= 30
		}
		least, from := rng.Uint32N(top), rng.Uint32N(1<<31)
		var docs, scores []uint32
		for d := range n {
			if keep[d/64] |= 1 << (d % 64); rng.IntN(4) == 0 && round%3 > 0 {
				keep[d/64] &^= 1 << (d % 64)
			}
			if rng.Float64() > density {
				continue
			}
			set[d/64] |= 1 << (d % 64)
			if acc[d] = 1 + rng.Uint32N(top); rng.IntN(9) == 0 {
				acc[d] = max(least, 1)
			}
			if acc[d] >= least && keep[d/64]>>(d%64)&1 != 0 {
				docs, scores = append(docs, from+uint32(d)), append(scores, acc[d])
			}
		}
		gotDocs, gotScores := make([]uint32, n), make([]uint32, n)
		k := Collect(gotDocs, gotScores, acc, set, keep, least, from)
		if !slices.Equal(gotDocs[:k], docs) || !slices.Equal(gotScores[:k], scores) {
			t.Fatalf("round %d: %d docs of %d words, want %d", round, k, words, len(docs))
		}
		if slices.Max(append(acc, 0)) > 0 || slices.Max(append(set, 0)) > 0 {
			t.Fatalf("round %d: the window is not empty", round)
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	var out, freqs [256]uint32
	var inv [256]float32
	for i := range freqs {
		freqs[i], inv[i] = uint32(1+i%7), 1/float32(1+i)
	}
	for b.Loop() {
		Batch(out[:], freqs[:], inv[:], 7.5)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/doc")
}
