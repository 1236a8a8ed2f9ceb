package simd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

const seed = 20261130

// eachLevel runs f once for every instruction set this processor has.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	for _, level := range Levels() {
		t.Run(level, func(t *testing.T) {
			defer SetLevel(level)()
			if Level() != level {
				t.Fatalf("Level() = %q, want %q", Level(), level)
			}
			f(t)
		})
	}
}

// dotPlain is the definition of the integer kernels, in 64 bits.
func dotPlain(code []byte, q []int8) int64 {
	var s int64
	for i, v := range q {
		s += int64(code[i]) * int64(v)
	}
	return s
}

func randomCodes(r *rand.Rand, n int) ([]byte, []int8) {
	c, q := make([]byte, n), make([]int8, n)
	for i := range c {
		c[i], q[i] = byte(r.Uint32()), int8(r.Uint32())
	}
	return c, q
}

func TestDotU8S8EveryLength(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, q := randomCodes(r, 1200)
		for n := 0; n <= 1100; n++ {
			for range 3 {
				a, b := r.IntN(65), r.IntN(65)
				got := DotU8S8(c[a:a+n+r.IntN(3)], q[b:b+n])
				if want := dotPlain(c[a:], q[b:b+n]); int64(got) != want {
					t.Fatalf("length %d at offsets %d, %d: got %d, want %d", n, a, b, got, want)
				}
			}
		}
	})
}

// The extremes are where 16-bit intermediates saturate.
func TestDotU8S8Extremes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, v := range []int8{-128, -127, 127} {
			for _, u := range []byte{0, 1, 127, 128, 255} {
				c, q := make([]byte, 4160), make([]int8, 4160)
				for i := range c {
					c[i], q[i] = u, v
				}
				if got, want := DotU8S8(c, q), int64(len(c))*int64(u)*int64(v); int64(got) != want {
					t.Fatalf("%d × %d: got %d, want %d", u, v, got, want)
				}
			}
		}
	})
}

func TestDotU8S8Rows(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 2))
		for n := 64; n <= 1024; n += 64 {
			stride := n + 64*r.IntN(3)
			const rows = 40
			off := r.IntN(64)
			codes, _ := randomCodes(r, off+rows*stride)
			codes = codes[off:]
			_, q := randomCodes(r, n)
			for count := 0; count <= 13; count++ {
				testGather(t, r, q, codes, stride, count)
				testScan(t, q, codes, stride, r.IntN(rows-count), count)
			}
		}
	})
}

func testGather(t *testing.T, r *rand.Rand, q []int8, codes []byte, stride, count int) {
	t.Helper()
	ids := make([]uint32, count)
	for i := range ids {
		ids[i] = r.Uint32N(uint32(len(codes) / stride))
	}
	out := append(make([]int32, count), -77)
	DotU8S8Gather(q, codes, stride, ids, out)
	for i, id := range ids {
		if want := dotPlain(codes[int(id)*stride:], q); int64(out[i]) != want {
			t.Fatalf("length %d, stride %d, row %d of %d: got %d, want %d", len(q), stride, i, count, out[i], want)
		}
	}
	if out[count] != -77 {
		t.Fatalf("%d rows: wrote past the last result", count)
	}
}

func testScan(t *testing.T, q []int8, codes []byte, stride, first, count int) {
	t.Helper()
	out := append(make([]int32, count), -77)
	DotU8S8Scan(q, codes, stride, first, count, out)
	for i := range count {
		if want := dotPlain(codes[(first+i)*stride:], q); int64(out[i]) != want {
			t.Fatalf("length %d, stride %d, row %d of %d: got %d, want %d", len(q), stride, i, count, out[i], want)
		}
	}
	if out[count] != -77 {
		t.Fatalf("%d rows: wrote past the last result", count)
	}
}

// randomRows are rows of n bytes whose meta is any float32 now and then.
func randomRows(r *rand.Rand, rows, n int) []byte {
	codes, _ := randomCodes(r, rows*n)
	for i := range rows {
		meta := codes[(i+1)*n-8:]
		if r.IntN(4) > 0 {
			binary.LittleEndian.PutUint32(meta, math.Float32bits(float32(r.NormFloat64())/1000))
			binary.LittleEndian.PutUint32(meta[4:], math.Float32bits(float32(r.ExpFloat64())))
		}
	}
	return codes
}

func sameFloat(got, want float32) bool {
	return math.Float32bits(got) == math.Float32bits(want) || got != got && want != want
}

func TestDistanceIsReference(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 6))
		for n := 64; n <= 1024; n += 64 {
			for count := 0; count <= 21; count++ {
				codes := randomRows(r, 30, n)
				_, q := randomCodes(r, n)
				f := &Form{Bias: int32(r.Uint32()) >> 8, Base: float32(r.IntN(3)), Scale: r.Float32(), Floor: -math.MaxFloat32}
				if r.IntN(2) == 0 {
					f.Floor = 0
				}
				ids := make([]uint32, count)
				for i := range ids {
					ids[i] = r.Uint32N(30)
				}
				got, scan := append(make([]float32, count), -77), append(make([]float32, count), -77)
				first := r.IntN(30 - count)
				DistanceGather(q, f, codes, ids, got)
				DistanceScan(q, f, codes, first, count, scan)
				for i, id := range ids {
					if want := f.distanceRef(codes[int(id)*n:], q); !sameFloat(got[i], want) {
						t.Fatalf("length %d, row %d of %d: got %v, want %v", n, i, count, got[i], want)
					}
					if want := f.distanceRef(codes[(first+i)*n:], q); !sameFloat(scan[i], want) {
						t.Fatalf("scan of length %d, row %d of %d: got %v, want %v", n, i, count, scan[i], want)
					}
				}
				if got[count] != -77 || scan[count] != -77 {
					t.Fatalf("%d rows: wrote past the last result", count)
				}
			}
		}
		codes := randomRows(r, 997, 64)
		q, f, out := make([]int8, 64), &Form{Base: 1}, make([]float32, 997)
		DistanceScan(q, f, codes, 0, 997, out)
		for i, d := range out {
			if want := f.distanceRef(codes[64*i:], q); !sameFloat(d, want) {
				t.Fatalf("row %d: got %v, want %v", i, d, want)
			}
		}
	})
}

func TestMoreRowsThanOneCall(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 3))
		codes, _ := randomCodes(r, 1000*64)
		_, q := randomCodes(r, 64)
		testScan(t, q, codes, 64, 3, 997)
		testScan(t, q, codes, 64, 0, 256)
		testScan(t, q, codes, 64, 1, 512)
		testGather(t, r, q, codes, 64, 997)
		testGather(t, r, q, codes, 64, 512)
		f, ids, out := randomFloats(r, 997*3), make([]uint32, 997), make([]float32, 997)
		for i := range ids {
			ids[i] = r.Uint32N(997)
		}
		DotF32Gather(f, f, 3, ids, out)
		for i, id := range ids {
			if want := dotF32Ref(f[:3], f[3*id:]); out[i] != want {
				t.Fatalf("row %d: got %v, want %v", i, out[i], want)
			}
		}
	})
}

func randomFloats(r *rand.Rand, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64()) * float32(math.Exp2(float64(r.IntN(12)-6)))
	}
	return f
}

// TestFloatEveryLength checks the bits against the reference, the reference
// against float64, and that single and gather calls agree.
func TestFloatEveryLength(t *testing.T) {
	kernels := []struct {
		name      string
		one, ref  func(a, b []float32) float32
		gather    func(q, base []float32, dim int, ids []uint32, out []float32)
		component func(a, b float64) float64
	}{
		{"dot", DotF32, dotF32Ref, DotF32Gather, func(a, b float64) float64 { return a * b }},
		{"l2", L2F32, l2F32Ref, L2F32Gather, func(a, b float64) float64 { return (a - b) * (a - b) }},
	}
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) {
			eachLevel(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 4))
				a, b := randomFloats(r, 1200), randomFloats(r, 1200)
				for n := 0; n <= 1100; n++ {
					i, j := r.IntN(17), r.IntN(17)
					x, y := a[i:i+n], b[j:j+n]
					got, want := k.one(x, y), k.ref(x, y)
					if math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("length %d: got %v, want %v", n, got, want)
					}
					var exact, size float64
					for l := range x {
						c := k.component(float64(x[l]), float64(y[l]))
						exact, size = exact+c, size+math.Abs(c)
					}
					if math.Abs(float64(want)-exact) > size*1e-5 {
						t.Fatalf("length %d: %v is far from %v", n, want, exact)
					}
					if n > 0 {
						ids := make([]uint32, n%11+1)
						for l := range ids {
							ids[l] = r.Uint32N(uint32(len(b) / n))
						}
						out := append(make([]float32, len(ids)), -77)
						k.gather(x, b, n, ids, out)
						for l, id := range ids {
							if want := k.ref(x, b[int(id)*n:][:n]); out[l] != want {
								t.Fatalf("gather, length %d, row %d of %d: got %v, want %v", n, l, len(ids), out[l], want)
							}
						}
						if out[len(ids)] != -77 {
							t.Fatalf("gather of %d rows wrote past the last result", len(ids))
						}
					}
				}
			})
		})
	}
}

// Negative zeros, infinities and overflow must come out alike: lanes past the
// end of a vector must not show.
func TestFloatSpecialValues(t *testing.T) {
	values := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1e30, -1e30, 1e-30, 1e-45,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 5))
		for range 5000 {
			n := r.IntN(40)
			kinds := 1 + r.IntN(len(values))
			a, b := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i], b[i] = values[r.IntN(kinds)], values[r.IntN(kinds)]
			}
			if got, want := DotF32(a, b), dotF32Ref(a, b); !sameFloat(got, want) {
				t.Fatalf("dot of %v and %v: got %v, want %v", a, b, got, want)
			}
			if got, want := L2F32(a, b), l2F32Ref(a, b); !sameFloat(got, want) {
				t.Fatalf("l2 of %v and %v: got %v, want %v", a, b, got, want)
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		n := testing.AllocsPerRun(20, func() {
			var c [640]byte
			var q [128]int8
			var f [128]float32
			var out [5]int32
			var fo [5]float32
			ids := [5]uint32{0, 1, 2, 3, 4}
			DotU8S8Gather(q[:], c[:], 128, ids[:], out[:])
			DotU8S8Scan(q[:], c[:], 128, 0, 5, out[:])
			var f1 Form
			DistanceGather(q[:], &f1, c[:], ids[:], fo[:])
			DistanceScan(q[:], &f1, c[:], 0, 5, fo[:])
			DotF32Gather(f[:16], f[:], 16, ids[:], fo[:])
			_ = DotF32(f[:], f[:]) + L2F32(f[:], f[:]) + float32(DotU8S8(c[:], q[:]))
		})
		if n != 0 {
			t.Fatalf("%v allocations a run, want 0: arguments escape", n)
		}
	})
}

func FuzzDotU8S8(f *testing.F) {
	f.Add([]byte("0123456789"), uint16(3))
	f.Fuzz(func(t *testing.T, data []byte, n uint16) {
		half := len(data) / 2
		q := make([]int8, half)
		for i := range q {
			q[i] = int8(data[half+i])
		}
		for _, level := range Levels() {
			restore := SetLevel(level)
			got, want := DotU8S8(data[:half], q), dotPlain(data, q)
			restore()
			if int64(got) != want {
				t.Fatalf("%s: got %d, want %d", level, got, want)
			}
		}
	})
}

func FuzzFloat(f *testing.F) {
	f.Add([]byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v := make([]float32, len(data)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		a, b := v[:len(v)/2], v[len(v)/2:]
		dot, l2 := dotF32Ref(a, b), l2F32Ref(a, b)
		for _, level := range Levels() {
			restore := SetLevel(level)
			d, l := DotF32(a, b), L2F32(a, b)
			restore()
			if (d != dot && d == d) || (l != l2 && l == l) {
				t.Fatalf("%s: got %v and %v, want %v and %v", level, d, l, dot, l2)
			}
		}
	})
}
