package score

import (
	"math"
	"math/rand/v2"
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
