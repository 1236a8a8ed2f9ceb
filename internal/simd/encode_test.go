package simd

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// encodeInput makes n components of the given magnitude, with zeros, denormals
// and halves among them.
func encodeInput(r *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		switch r.IntN(8) {
		case 0:
			v[i] = float32(math.Copysign(0, r.NormFloat64()))
		case 1:
			v[i] = math.SmallestNonzeroFloat32 * float32(r.IntN(100))
		case 2:
			v[i] = float32(scale * (float64(r.IntN(9)) - 4.5) / 5)
		default:
			v[i] = float32(scale * r.NormFloat64())
		}
	}
	return v
}

// The functions of encoding follow their definitions to the bit at every level,
// and write nothing else.
func TestEncode(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 31))
		for n := range 130 {
			for _, scale := range []float64{1, 1e-30, 1e30, 127} {
				v := encodeInput(r, n, scale)
				var lanes [4]float64
				largest := float32(0)
				for i, x := range v {
					l := i % 4
					if i >= n&^3 {
						l = 0
					}
					lanes[l] += float64(float64(x) * float64(x))
					largest = max(largest, float32(math.Abs(float64(x))))
				}
				if got, want := SumSquares(v), (lanes[0]+lanes[1])+(lanes[2]+lanes[3]); got != want {
					t.Fatalf("%d components: squares %v, want %v", n, got, want)
				}
				if got := MaxMagnitude(v); got != largest {
					t.Fatalf("%d components: magnitude %v, want %v", n, got, largest)
				}
				dst := append(make([]byte, n), 7)
				inv := 127 / float64(max(largest, 1e-40))
				squares := int32(0)
				codes := make([]byte, n)
				for i, x := range v {
					c := int32(math.RoundToEven(float64(float32(float64(x) * inv))))
					codes[i], squares = byte(c+128), squares+c*c
				}
				if got := Codes(dst, v, inv); got != squares || !slices.Equal(dst[:n], codes) || dst[n] != 7 {
					t.Fatalf("%d components: codes %v, squares %d, want %v, %d", n, dst, got, codes, squares)
				}
				by := math.Abs(scale*r.NormFloat64()) + 1e-30
				parts := append(make([]float32, n), 7)
				Divide(parts, v, by)
				for i, x := range v {
					if want := float32(float64(x) / by); math.Float32bits(parts[i]) != math.Float32bits(want) {
						t.Fatalf("component %d of %d: %v, want %v", i, n, parts[i], want)
					}
				}
				if parts[n] != 7 {
					t.Fatalf("%d components: wrote past the last", n)
				}
				Divide(v, v, by)
				if !slices.Equal(v, parts[:n]) {
					t.Fatalf("%d components: in place %v, want %v", n, v, parts[:n])
				}
			}
		}
		for at := range 40 {
			v := make([]float32, 40)
			v[at] = float32(math.Inf(-1))
			if m := MaxMagnitude(v); !math.IsInf(float64(m), 1) || !math.IsInf(SumSquares(v), 1) {
				t.Fatalf("magnitude %v, squares %v of an infinity at %d", m, SumSquares(v), at)
			}
			v[at] = float32(math.NaN())
			if m := MaxMagnitude(v); m == m || !math.IsNaN(SumSquares(v)) {
				t.Fatalf("magnitude %v, squares %v of a NaN at %d", m, SumSquares(v), at)
			}
		}
		if n := testing.AllocsPerRun(10, func() {
			var v [64]float32
			var dst [64]byte
			SumSquares(v[:])
			MaxMagnitude(v[:])
			Codes(dst[:], v[:], 1)
			Divide(v[:], v[:], 2)
		}); n != 0 {
			t.Fatalf("%v allocations a run", n)
		}
	})
}

// Squares of the largest vectors of the largest numbers are finite.
func TestSumSquaresLargest(t *testing.T) {
	v := slices.Repeat([]float32{math.MaxFloat32}, 4096)
	want, _ := new(big.Float).Mul(big.NewFloat(4096*math.MaxFloat32), big.NewFloat(math.MaxFloat32)).Float64()
	if got := SumSquares(v); math.Abs(got/want-1) > 1e-12 {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(seed, 32))
	v := normalFloats(r, 784, 1)
	dst, parts := make([]byte, len(v)), make([]float32, len(v))
	for _, level := range Levels() {
		for name, f := range map[string]func(){
			"squares":   func() { SumSquares(v) },
			"magnitude": func() { MaxMagnitude(v) },
			"codes":     func() { Codes(dst, v, 20) },
			"divide":    func() { Divide(parts, v, 3) },
		} {
			b.Run(level+"/"+name, func(b *testing.B) {
				defer SetLevel(level)()
				for b.Loop() {
					f()
				}
			})
		}
	}
}
