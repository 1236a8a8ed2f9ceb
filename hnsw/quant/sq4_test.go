package quant

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func encode4(c *SQ4, v []float32) []byte {
	row := make([]byte, c.Stride())
	for i := range row {
		row[i] = 0xa5 // Encode must write every byte
	}
	c.Encode(row, v)
	return row
}

// decode4 is what a row stands for, in float64.
func decode4(c *SQ4, row []byte) []float64 {
	at := func(back int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-back:])))
	}
	step, low := at(12), at(8)
	v := make([]float64, c.query.dim)
	half := (len(v) + 1) / 2
	for i := range v {
		u := row[i%half] & 15
		if i >= half {
			u = row[i-half] >> 4
		}
		v[i] = low + step*float64(u)
	}
	return v
}

var dims4 = []int{1, 2, 3, 31, 56, 57, 64, 100, 104, 105, 127, 128, 129, 384, 768, 1536, 4095, 4096}

// A component is off by half a step, and the length is that of the vector.
func TestEncode4Error(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 21))
	for _, dim := range dims4 {
		for _, m := range metrics {
			c := NewSQ4(dim, m)
			if s := c.Stride(); s%64 != 0 || s < (dim+1)/2+affineMeta || s >= (dim+1)/2+affineMeta+64 {
				t.Fatalf("dimension %d: stride %d", dim, s)
			}
			v := random(r, dim)
			row := encode4(&c, v)
			length := 1.0
			if m != Cosine {
				length = Norm(v)
			}
			low, high := v[0], v[0]
			for _, x := range v {
				low, high = min(low, x), max(high, x)
			}
			decoded := decode4(&c, row)
			var sum, dot float64
			for i, x := range decoded {
				sum += x * x
				dot += x * float64(v[i])
			}
			if math.Abs(math.Sqrt(sum)/length-1) > 1e-5 {
				t.Fatalf("%v, dimension %d: length %v, want %v", m, dim, math.Sqrt(sum), length)
			}
			// The angle to v is at most that of an error of half a step in all
			// components.
			off := float64(high-low) / 30 * math.Sqrt(float64(dim))
			if least := 1 - off*off/Norm(v)/Norm(v); dot/length/Norm(v) < least-1e-6 {
				t.Fatalf("%v, dimension %d: cosine to what is encoded %v, want %v", m, dim, dot/length/Norm(v), least)
			}
			for i, b := range row[(dim+1)/2 : len(row)-affineMeta] {
				if b != 0 {
					t.Fatalf("pad byte %d is %d", i, b)
				}
			}
		}
	}
}

// Distances are those of the decoded query and row, but for float32 rounding;
// a scan gives the bits of a gather.
func TestDistances4OfDecoded(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 22))
	for _, dim := range dims4 {
		for _, m := range metrics {
			c, wideCodec := NewSQ4(dim, m), NewSQ8(dim, m)
			const rows = 21
			var codes []byte
			ids := make([]uint32, rows)
			for i := range ids {
				ids[i] = uint32(i)
				codes = append(codes, encode4(&c, random(r, dim))...)
			}
			v := random(r, dim)
			var q Query
			c.Bind(&q, v)
			query := decode(&wideCodec, encode(&wideCodec, v))
			out, scan := make([]float32, rows), make([]float32, rows)
			q.Distances(codes, ids, out)
			q.Scan(codes, 0, rows, scan)
			for i, got := range out {
				row := decode4(&c, codes[i*c.Stride():(i+1)*c.Stride()])
				want := plain(m, query, row)
				size := 1.0
				if m != Cosine {
					size = plain(L2, query, make([]float64, dim)) + plain(L2, row, make([]float64, dim))
				}
				if math.Abs(float64(got)-want) > size*1e-5 {
					t.Fatalf("%v, dimension %d, row %d: %v, want %v", m, dim, i, got, want)
				}
				if math.Float32bits(got) != math.Float32bits(scan[i]) {
					t.Fatalf("%v, dimension %d, row %d: %v, scanned %v", m, dim, i, got, scan[i])
				}
			}
		}
	}
}

// Vectors that have no codes are rows of zeros, and no distance is NaN.
func TestEncode4Extremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, m := range metrics {
		c := NewSQ4(3, m)
		for _, v := range [][]float32{{0, 0, 0}, {nan, 1, 1}, {1, inf, 1}, {1, -inf, inf}} {
			if row := encode4(&c, v); strings.Trim(string(row), "\x00") != "" {
				t.Errorf("%v: %v encodes to %x", m, v, row)
			}
		}
		for _, v := range [][]float32{
			{0, 0, 0}, {1, 1, 1}, {-2, -2, -2}, {1e-45, 0, 0}, {-1e-45, 1e-45, 0}, {1e-38, 2e-38, 0},
			{1e18, 0, 0}, {math.MaxFloat32, -math.MaxFloat32, 1}, {nan, 0, 1},
		} {
			row := encode4(&c, v)
			for _, w := range [][]float32{{1, 2, 3}, {0, 0, 0}, {1e18, -1e18, 0}, {1e-45, 0, 0}} {
				var q Query
				var out [1]float32
				c.Bind(&q, w)
				q.Distances(row, []uint32{0}, out[:])
				if d := out[0]; !(math.Abs(float64(d)) <= math.MaxFloat32) {
					t.Errorf("%v: distance of %v and %v is %v", m, w, v, d)
				}
			}
		}
	}
}

// A Query serves both codecs, one after the other.
func TestQueryChangesCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 23))
	narrow, wideCodec := NewSQ4(100, L2), NewSQ8(100, L2)
	v, w := random(r, 100), random(r, 100)
	var q, fresh Query
	var got, want [1]float32
	for range 2 {
		narrow.Bind(&q, v)
		q.Distances(encode4(&narrow, w), []uint32{0}, got[:])
		wideCodec.Bind(&q, v)
		q.Distances(encode(&wideCodec, w), []uint32{0}, got[:])
		wideCodec.Bind(&fresh, v)
		fresh.Distances(encode(&wideCodec, w), []uint32{0}, want[:])
		if got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { narrow.Bind(&q, v) }); n != 0 {
		t.Fatalf("%v allocations a warm Bind", n)
	}
}

func TestRows4Golden(t *testing.T) {
	var out strings.Builder
	for _, m := range metrics {
		for _, v := range [][]float32{{1, 2, 3}, {-1, 0.5, 0.25, 7}, {0, 0}, {5}, {1e-3, -1e3, 12, 13, 14}} {
			c := NewSQ4(len(v), m)
			row := encode4(&c, v)
			var q Query
			var d [1]float32
			c.Bind(&q, v)
			q.Distances(row, []uint32{0}, d[:])
			fmt.Fprintf(&out, "%v %v: to itself %v\n%s", m, v, d[0], hex.Dump(row))
		}
	}
	path := filepath.Join("testdata", "rows4.golden")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("rows changed; if meant, raise the version and run with -update. Got\n%s", out.String())
	}
}
