package fusion

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchLegs makes legs of depth items each, about half of them shared.
func benchLegs(legs, depth int) []Leg {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]Leg, legs)
	for l := range out {
		out[l].Weight = 1
		for i := range depth {
			key := uint64(rng.IntN(4))<<32 | uint64(rng.IntN(2*depth))
			out[l].Items = append(out[l].Items, Item{Key: key, Score: 1 / float64(i+1), Raw: float64(depth - i)})
		}
	}
	return out
}

func BenchmarkRRF(b *testing.B) {
	for _, depth := range []int{10, 50, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("legs=2/depth=%d", depth), func(b *testing.B) {
			run(b, benchLegs(2, depth), (*Fuser).RRF)
		})
	}
}

func BenchmarkWeighted(b *testing.B) {
	for _, depth := range []int{50, 1000} {
		b.Run(fmt.Sprintf("legs=2/depth=%d", depth), func(b *testing.B) {
			run(b, benchLegs(2, depth), (*Fuser).Weighted)
		})
	}
}

func run(b *testing.B, legs []Leg, fuse func(*Fuser, []Leg, Options) ([]Hit, error)) {
	var f Fuser
	items := 0
	for _, l := range legs {
		items += len(l.Items)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fuse(&f, legs, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(items), "ns/item")
}
