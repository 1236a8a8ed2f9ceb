package simd

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func normalFloats(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

func randomWeights(r *rand.Rand, n, k int) (*Weights, []int8) {
	plain := make([]int8, n*k)
	for i := range plain {
		plain[i] = int8(r.Uint32())
	}
	w := &Weights{K: k, N: n, Packed: make([]int8, n*k), Sums: make([]int32, n),
		Scale: normalFloats(r, n, 0.01), Bias: normalFloats(r, n, 1)}
	PackWeights(w.Packed, w.Sums, plain, n, k)
	return w, plain
}

func randomActivations(r *rand.Rand, m, k int) *Rows {
	a := &Rows{K: k, Codes: make([]byte, m*k), Scale: normalFloats(r, m, 0.1), Zero: make([]int32, m)}
	for i := range a.Codes {
		a.Codes[i] = byte(r.Uint32())
	}
	for i := range a.Zero {
		a.Zero[i] = int32(r.Uint32() & 255)
	}
	return a
}

// Every height of the kernels, and the definition in 64 bits.
func TestMulU8S8(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 20))
		for _, k := range []int{16, 48, 64, 384, 1536} {
			w, plain := randomWeights(r, 96, k)
			for m := GemmRows; m <= 40; m += GemmRows {
				a := randomActivations(r, m, k)
				stride := w.N + r.IntN(3)
				out := make([]float32, m*stride)
				MulU8S8(a, 0, m, w, out, stride)
				for i := range m {
					for j := range w.N {
						var sum int64
						for x, v := range plain[j*k : (j+1)*k] {
							sum += int64(v) * (int64(a.Codes[i*k+x]) - int64(a.Zero[i]))
						}
						want := float32(float32(float32(sum)*a.Scale[i])*w.Scale[j]) + w.Bias[j]
						if got := out[i*stride+j]; math.Float32bits(got) != math.Float32bits(want) {
							t.Fatalf("k %d, m %d, row %d, column %d: got %v, want %v", k, m, i, j, got, want)
						}
					}
				}
			}
		}
	})
}

// The extremes are where 16-bit intermediates saturate.
func TestMulU8S8Extremes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		const k = 1536
		for _, u := range []byte{0, 127, 128, 255} {
			for _, v := range []int8{-128, -127, 127} {
				w := &Weights{K: k, N: 32, Packed: slices.Repeat([]int8{v}, 32*k), Sums: slices.Repeat([]int32{k * int32(v)}, 32),
					Scale: slices.Repeat([]float32{1}, 32), Bias: make([]float32, 32)}
				a := &Rows{K: k, Codes: bytes.Repeat([]byte{u}, 4*k), Scale: []float32{1, 1, 1, 1}, Zero: make([]int32, 4)}
				out := make([]float32, 4*32)
				MulU8S8(a, 0, 4, w, out, 32)
				for _, got := range out {
					if want := float32(k * int(u) * int(v)); got != want {
						t.Fatalf("%d × %d: got %v, want %v", u, v, got, want)
					}
				}
			}
		}
	})
}

func TestMulU8S8Rows(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 21))
	w, _ := randomWeights(r, 32, 64)
	a := randomActivations(r, 24, 64)
	all, part := make([]float32, 24*32), make([]float32, 24*32)
	MulU8S8(a, 0, 24, w, all, 32)
	MulU8S8(a, 0, 8, w, part, 32)
	MulU8S8(a, 8, 16, w, part, 32)
	if !slices.Equal(all, part) {
		t.Error("a matrix computed in two parts differs")
	}
}

func TestMulF32(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 22))
		for _, n := range []int{16, 32, 48, 64, 80, 128} {
			for m := 1; m <= 17; m++ {
				k := 1 + r.IntN(70)
				lda, ldb, ldc := k+r.IntN(5), n+r.IntN(5), n+r.IntN(5)
				a, b := normalFloats(r, m*lda, 1), normalFloats(r, k*ldb, 1)
				got, want := make([]float32, m*ldc), make([]float32, m*ldc)
				MulF32(a, lda, b, ldb, got, ldc, m, k, n)
				mulF32Ref(a, lda, b, ldb, want, ldc, m, k, n)
				if !sameBits(got, want) {
					t.Fatalf("m %d, k %d, n %d differ", m, k, n)
				}
			}
		}
	})
}

// fma32 against big.Float, which rounds once.
func TestFMA32(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 30))
	for range 100_000 {
		a := math.Float32frombits(r.Uint32()&0x81ffffff | 0x3e000000)
		b := math.Float32frombits(r.Uint32()&0x81ffffff | 0x3e000000)
		c := math.Float32frombits(r.Uint32()&0x8fffffff | 0x30000000)
		if r.IntN(4) == 0 { // near cancellation
			c = -a * b * (1 + float32(r.IntN(3)-1)*0x1p-23)
		}
		exact := new(big.Float).SetPrec(200).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		exact.Add(exact, big.NewFloat(float64(c)))
		want, _ := exact.Float32()
		if got := fma32(a, b, c); got != want {
			t.Fatalf("%v·%v + %v = %v, want %v", a, b, c, got, want)
		}
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// Each row function against its definition, over lengths and scales.
func TestRowFunctions(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 23))
		for n := 16; n <= 400; n += 8 { // every other one is no multiple of 16
			for _, scale := range []float64{1e-20, 1e-3, 1, 30, 1e4} {
				x, y := normalFloats(r, n, scale), normalFloats(r, n, scale)
				lo, hi := rowMinMax(x)
				if wantLo, wantHi := rowMinMaxRef(x); lo != wantLo || hi != wantHi {
					t.Fatalf("rowMinMax: %v, %v", lo, hi)
				}
				if got, want := rowMax(x), rowMaxRef(x); got != want {
					t.Fatalf("rowMax: %v, want %v", got, want)
				}
				got, want := make([]byte, n), make([]byte, n)
				zero := int32(r.IntN(256))
				rowQuantize(x, 255/(hi-lo), zero, got)
				rowQuantizeRef(x, 255/(hi-lo), zero, want)
				if !bytes.Equal(got, want) {
					t.Fatalf("rowQuantize, n %d", n)
				}
				rest, wantRest := make([]float32, n), make([]float32, n)
				rowResidual(x, 0.3, zero, got, rest)
				rowResidualRef(x, 0.3, zero, got, wantRest)
				if !sameBits(rest, wantRest) {
					t.Fatalf("rowResidual, n %d", n)
				}
				if got, want := rowVarSum(x, 0.25), rowVarSumRef(x, 0.25); got != want {
					t.Fatalf("rowVarSum: %v, want %v", got, want)
				}
				checkInPlace(t, "rowAddSum", x, func(x []float32) float32 { return rowAddSum(x, y) },
					func(x []float32) float32 { return rowAddSumRef(x, y) })
				checkInPlace(t, "rowNormalize", x, func(x []float32) float32 { rowNormalize(x, 0.1, 0.7, y, y); return 0 },
					func(x []float32) float32 { rowNormalizeRef(x, 0.1, 0.7, y, y); return 0 })
				checkInPlace(t, "rowGELU", x, func(x []float32) float32 { rowGELU(x); return 0 },
					func(x []float32) float32 { rowGELURef(x); return 0 })
				top := rowMaxRef(x)
				checkInPlace(t, "rowExp", x, func(x []float32) float32 { return rowExp(x, 0.5, top*0.5) },
					func(x []float32) float32 { return rowExpRef(x, 0.5, top*0.5) })
			}
		}
	})
}

func checkInPlace(t *testing.T, name string, x []float32, f, ref func([]float32) float32) {
	t.Helper()
	got, want := slices.Clone(x), slices.Clone(x)
	a, b := f(got), ref(want)
	if math.Float32bits(a) != math.Float32bits(b) || !sameBits(got, want) {
		t.Fatalf("%s, n %d: differs from the reference (%v, %v)", name, len(x), a, b)
	}
}

func TestErfAndExpAreClose(t *testing.T) {
	var worst float64
	for i := -60000; i <= 60000; i++ {
		x := float32(i) / 10000
		worst = max(worst, math.Abs(float64(erfRef(x))-math.Erf(float64(x))))
	}
	if worst > 5e-7 {
		t.Errorf("erf is off by %.3g", worst)
	}
	worst = 0
	for i := 0; i <= 87000; i++ {
		x := -float32(i) / 1000
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(expRef(x))-want)/want)
	}
	if worst > 3e-7 {
		t.Errorf("exp is off by %.3g of it", worst)
	}
}

func TestQuantizeRow(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 24))
	codes := make([]byte, 64)
	for range 200 {
		x := normalFloats(r, 64, math.Exp(4*r.NormFloat64()))
		for i := range x {
			x[i] += x[0] / 2
		}
		scale, zero := QuantizeRow(x, codes)
		for i, v := range x {
			if d := math.Abs(float64(v) - float64(scale)*float64(int32(codes[i])-zero)); d > 1.01*float64(scale) {
				t.Fatalf("component %d: %v is %v off, scale %v", i, v, d, scale)
			}
		}
	}
	if scale, zero := QuantizeRow(make([]float32, 64), codes); scale != 0 || zero != 0 {
		t.Errorf("a row of zeros: scale %v, zero %d", scale, zero)
	}
	if scale, _ := QuantizeRow(nil, nil); scale != 0 {
		t.Errorf("an empty row: scale %v", scale)
	}
}

func TestSoftmaxRow(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		x := make([]float32, 32)
		for i := range x {
			x[i] = float32(i % 5)
			if i >= 20 {
				x[i] = float32(math.Inf(-1))
			}
		}
		sum := SoftmaxRow(x, 0.5)
		var want float64
		for i := range 20 {
			want += math.Exp(0.5 * (float64(i%5) - 4))
		}
		if math.Abs(float64(sum)-want) > 1e-5 || x[25] > 1e-37 || x[4] != 1 {
			t.Errorf("sum %v, want %v; padding %v", sum, want, x[25])
		}
	})
}

func TestLayerNorm(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 25))
		x, y := normalFloats(r, 384, 3), normalFloats(r, 384, 1)
		gamma, beta := slices.Repeat([]float32{1}, 384), make([]float32, 384)
		AddLayerNorm(x, y, gamma, beta, 1e-12)
		var mean, variance float64
		for _, v := range x {
			mean += float64(v) / 384
			variance += float64(v) * float64(v) / 384
		}
		if math.Abs(mean) > 1e-5 || math.Abs(variance-1) > 1e-4 {
			t.Errorf("mean %v, variance %v", mean, variance)
		}
	})
}

func TestEncoderKernelsDoNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 26))
	w, _ := randomWeights(r, 32, 64)
	a := randomActivations(r, 16, 64)
	out := make([]float32, 16*32)
	n := testing.AllocsPerRun(20, func() {
		MulU8S8(a, 0, 16, w, out, 32)
		MulF32(out, 32, out, 32, out, 32, 1, 4, 16)
		GELU(out)
		SoftmaxRow(out, 1)
		QuantizeRow(out[:64], a.Codes)
		AddLayerNorm(out[:32], out[:32], w.Scale, w.Bias, 1)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMulU8S8(b *testing.B) {
	for _, level := range Levels() {
		if level == "go" {
			continue
		}
		for _, s := range []struct {
			name    string
			m, n, k int
		}{{"12x1536x384", 12, 1536, 384}, {"48x384x1536", 48, 384, 1536}, {"96x1152x384", 96, 1152, 384}} {
			b.Run(level+"/"+s.name, func(b *testing.B) {
				defer SetLevel(level)()
				r := rand.New(rand.NewPCG(seed, 27))
				w, _ := randomWeights(r, s.n, s.k)
				a := randomActivations(r, s.m, s.k)
				out := make([]float32, s.m*s.n)
				for b.Loop() {
					MulU8S8(a, 0, s.m, w, out, s.n)
				}
				b.ReportMetric(float64(s.m*s.n*s.k)/float64(b.Elapsed().Nanoseconds())*float64(b.N), "GMAC/s")
			})
		}
	}
}

func BenchmarkMulF32(b *testing.B) {
	for _, s := range []struct {
		name    string
		m, k, n int
	}{{"scores", 32, 32, 256}, {"values", 32, 256, 32}} {
		b.Run(s.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(seed, 29))
			x, y, z := normalFloats(r, s.m*s.k, 1), normalFloats(r, s.k*s.n, 1), make([]float32, s.m*s.n)
			for b.Loop() {
				MulF32(x, s.k, y, s.n, z, s.n, s.m, s.k, s.n)
			}
			b.ReportMetric(float64(s.m*s.n*s.k)/float64(b.Elapsed().Nanoseconds())*float64(b.N), "GMAC/s")
		})
	}
}

func BenchmarkRows(b *testing.B) {
	r := rand.New(rand.NewPCG(seed, 28))
	x := normalFloats(r, 1536, 1)
	y := slices.Clone(x)
	codes := make([]byte, len(x))
	for name, f := range map[string]func(){
		"gelu":     func() { copy(y, x); GELU(y) },
		"softmax":  func() { copy(y, x); SoftmaxRow(y, 1) },
		"quantize": func() { QuantizeRow(x, codes) },
		"norm":     func() { AddLayerNorm(y, x, x, x, 1) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/float")
		})
	}
}
