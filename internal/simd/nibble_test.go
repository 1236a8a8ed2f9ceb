package simd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// nibblePlain is the definition of the kernels of 4-bit rows.
func nibblePlain(f *Affine, row []byte, q []int8) float32 {
	var sum int64
	for i, b := range row {
		chunk, j := i/64, i%64
		sum += int64(b%16)*int64(q[128*chunk+j]) + int64(b/16)*int64(q[128*chunk+64+j])
	}
	at := func(back int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-back:]))
	}
	step, low, norm := at(12), at(8), at(4)
	scaled := float32(step * float32(sum))
	shift := float32(low * f.Sum)
	dot := float32(f.Scale * (scaled + shift))
	return max(float32(f.Base+norm)-dot, f.Floor)
}

// nibbleRows are rows of n bytes; some have a meta of any bits.
func nibbleRows(r *rand.Rand, rows, n int) []byte {
	codes, _ := randomCodes(r, rows*n)
	for i := range rows {
		if r.IntN(8) == 0 {
			continue
		}
		meta := codes[(i+1)*n-12:]
		for j, x := range []float64{r.Float64(), r.NormFloat64(), r.ExpFloat64()} {
			binary.LittleEndian.PutUint32(meta[4*j:], math.Float32bits(float32(x)))
		}
	}
	return codes
}

func TestNibbleIsReference(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 12))
		for n := 64; n <= 2112; n += 64 {
			for count := 0; count <= 21; count++ {
				codes := nibbleRows(r, 30, n)
				_, q := randomCodes(r, 2*n)
				if count == 20 { // where 16 bits would saturate
					for i := range codes[:len(codes)-12] {
						codes[i] = 255
					}
					for i := range q {
						q[i] = -128
					}
				}
				f := &Affine{Sum: float32(r.NormFloat64()), Base: float32(r.IntN(3)), Scale: r.Float32(), Floor: -math.MaxFloat32}
				if r.IntN(2) == 0 {
					f.Floor = 0
				}
				ids := make([]uint32, count)
				for i := range ids {
					ids[i] = r.Uint32N(30)
				}
				got, scan := append(make([]float32, count), -77), append(make([]float32, count), -77)
				first := r.IntN(30 - count)
				NibbleGather(q, f, codes, ids, got)
				NibbleScan(q, f, codes, first, count, scan)
				for i, id := range ids {
					if want := nibblePlain(f, codes[int(id)*n:int(id+1)*n], q); !sameFloat(got[i], want) {
						t.Fatalf("length %d, row %d of %d: got %v, want %v", n, i, count, got[i], want)
					}
					if want := nibblePlain(f, codes[(first+i)*n:(first+i+1)*n], q); !sameFloat(scan[i], want) {
						t.Fatalf("scan of length %d, row %d of %d: got %v, want %v", n, i, count, scan[i], want)
					}
				}
				if got[count] != -77 || scan[count] != -77 {
					t.Fatalf("%d rows: wrote past the last result", count)
				}
			}
		}
		codes := nibbleRows(r, 997, 64)
		_, q := randomCodes(r, 128)
		f, out := &Affine{Base: 1, Scale: 1}, make([]float32, 997)
		NibbleScan(q, f, codes, 0, 997, out)
		for i, d := range out {
			if want := nibblePlain(f, codes[64*i:64*i+64], q); !sameFloat(d, want) {
				t.Fatalf("row %d: got %v, want %v", i, d, want)
			}
		}
	})
}

func TestNibbleNoAllocation(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		n := testing.AllocsPerRun(20, func() {
			var c [640]byte
			var q [256]int8
			var out [5]float32
			var f Affine
			ids := [5]uint32{0, 1, 2, 3, 4}
			NibbleGather(q[:], &f, c[:], ids[:], out[:])
			NibbleScan(q[:], &f, c[:], 0, 5, out[:])
		})
		if n != 0 {
			t.Fatalf("%v allocations a run, want 0: arguments escape", n)
		}
	})
}

func TestUnseen(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 13))
	for n := 0; n <= 70; n++ {
		for range 20 {
			marks := make([]uint8, 100)
			for i := range marks {
				marks[i] = uint8(r.IntN(3))
			}
			links := make([]uint32, n)
			for i := range links {
				links[i] = r.Uint32N(100)
				if r.IntN(100) == 0 {
					links[i] = []uint32{100, 1 << 31, ^uint32(0)}[r.IntN(3)]
				}
			}
			var want []uint32
			left, stop := append([]uint8(nil), marks...), n
			for i, id := range links {
				if id >= 100 {
					stop = i
					break
				}
				if left[id] != 2 {
					want = append(want, id)
				}
				left[id] = 2
			}
			out := append(make([]uint32, n), 77)
			again := append([]uint8(nil), marks...)
			if count, stopped := unseenRef(links, again, 2, make([]uint32, n)); count != len(want) || stopped != stop {
				t.Fatalf("reference, %d links: %d unseen up to %d, want %d up to %d", n, count, stopped, len(want), stop)
			}
			count, stopped := Unseen(links, marks, 2, make([]byte, 6400), 64, out)
			if count != len(want) || stopped != stop || out[n] != 77 {
				t.Fatalf("%d links: %d unseen up to %d, want %d up to %d", n, count, stopped, len(want), stop)
			}
			for i, id := range want {
				if out[i] != id {
					t.Fatalf("%d links: got %v, want %v", n, out[:count], want)
				}
			}
			for i, m := range left {
				if marks[i] != m {
					t.Fatalf("mark %d is %d, want %d", i, marks[i], m)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		var links, out [33]uint32
		var marks [8]uint8
		var codes [512]byte
		Unseen(links[:32], marks[:], 1, codes[:], 64, out[:])
	}); n != 0 {
		t.Fatalf("%v allocations a run", n)
	}
}
