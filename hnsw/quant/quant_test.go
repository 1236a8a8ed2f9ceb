package quant

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/storage"
)

const seed = 20261130

var update = flag.Bool("update", false, "rewrite the golden files")

var metrics = []Metric{Cosine, Dot, L2}

func random(r *rand.Rand, dim int) []float32 {
	v := make([]float32, dim)
	size := math.Exp2(float64(r.IntN(20) - 10))
	for i := range v {
		v[i] = float32(r.NormFloat64() * size)
	}
	return v
}

func encode(c *SQ8, v []float32) []byte {
	row := make([]byte, c.Stride())
	for i := range row {
		row[i] = 0xa5 // Encode must write every byte
	}
	c.Encode(row, v)
	return row
}

// decode is what a row stands for, in float64.
func decode(c *SQ8, row []byte) []float64 {
	scale, _ := rowMeta(row)
	v := make([]float64, c.Dim())
	for i := range v {
		v[i] = float64(scale) * float64(int(row[i])-zeroCode)
	}
	return v
}

// plain is the distance in float64.
func plain(m Metric, a, b []float64) float64 {
	var dot, aa, bb, l2 float64
	for i := range a {
		dot += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
		l2 += (a[i] - b[i]) * (a[i] - b[i])
	}
	switch {
	case m == Dot:
		return -dot
	case m == L2:
		return l2
	case aa == 0 || bb == 0:
		return 1
	}
	return 1 - dot/math.Sqrt(aa)/math.Sqrt(bb)
}

func wide(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}

func TestStride(t *testing.T) {
	for dim := 1; dim <= MaxDim; dim++ {
		c := NewSQ8(dim, L2)
		if s := c.Stride(); s%64 != 0 || s < dim+metaSize || s >= dim+metaSize+64 {
			t.Fatalf("dimension %d: stride %d", dim, s)
		}
	}
}

// A component is off by half a step at most: exact half steps are of the
// largest component's 1/127, before the scale is set so that the lengths agree.
func TestEncodeError(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 1))
	for dim := 1; dim <= 600; dim++ {
		v := random(r, dim)
		for _, m := range metrics {
			c := NewSQ8(dim, m)
			row := encode(&c, v)
			norm, length := Norm(v), 1.0
			if m != Cosine {
				length = norm
			}
			largest := float64(simd.MaxMagnitude(v)) / norm * length
			var sum float64
			for i, x := range decode(&c, row) {
				sum += x * x
				exact := float64(v[i]) / norm * length
				// The scale differs from largest/127 by the error of the
				// codes' length, at most √dim/2 of at least 127.
				bound := largest / 127 * (0.5 + 127*math.Min(1, math.Sqrt(float64(dim))/254))
				if math.Abs(x-exact) > bound*1.0001 {
					t.Fatalf("%v, dimension %d, component %d: %v stands for %v, off by more than %v", m, dim, i, x, exact, bound)
				}
			}
			if math.Abs(math.Sqrt(sum)/length-1) > 1e-6 {
				t.Fatalf("%v, dimension %d: length %v, want %v", m, dim, math.Sqrt(sum), length)
			}
			for i, b := range row[dim : len(row)-metaSize] {
				if b != zeroCode {
					t.Fatalf("pad byte %d is %d", i, b)
				}
			}
		}
	}
}

// Distances are exactly those of the decoded vectors, but for float32 rounding.
func TestDistancesOfDecoded(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 2))
	for _, dim := range []int{1, 2, 3, 31, 56, 57, 64, 100, 120, 121, 384, 768, 1536, 4096} {
		for _, m := range metrics {
			c := NewSQ8(dim, m)
			const rows = 21
			codes := make([]byte, rows*c.Stride())
			vectors := make([][]float32, rows)
			for i := range vectors {
				vectors[i] = random(r, dim)
				c.Encode(codes[i*c.Stride():(i+1)*c.Stride()], vectors[i])
			}
			var q Query
			v := random(r, dim)
			c.Bind(&q, v)
			dv := decode(&c, encode(&c, v))
			checkDistances(t, &c, &q, dv, codes, rows)
		}
	}
}

func checkDistances(t *testing.T, c *SQ8, q *Query, dv []float64, codes []byte, rows int) {
	t.Helper()
	ids := []uint32{7, 7, 0, uint32(rows - 1), 3}
	out, scan := make([]float32, len(ids)), make([]float32, rows)
	q.Distances(codes, ids, out)
	q.Scan(codes, 0, rows, scan)
	for i, id := range ids {
		row := codes[int(id)*c.Stride():][:c.Stride()]
		dr := decode(c, row)
		want := plain(c.Metric(), dv, dr)
		slack := 1e-6 * (1 + math.Abs(want) + math.Sqrt(plain(L2, dv, make([]float64, len(dv)))*plain(L2, dr, make([]float64, len(dr)))))
		if c.Metric() == L2 {
			slack = 1e-6 * (plain(L2, dv, make([]float64, len(dv))) + plain(L2, dr, make([]float64, len(dr))))
		}
		if math.Abs(float64(out[i])-want) > slack {
			t.Fatalf("%v, dimension %d, row %d: distance %v, want %v", c.Metric(), c.Dim(), id, out[i], want)
		}
		if scan[id] != out[i] {
			t.Fatalf("row %d: Scan %v, Distances %v", id, scan[id], out[i])
		}
	}
}

// The distance of a and b is that of b and a, to the bit, and binding the row
// is binding the vector.
func TestBindRowIsBind(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 3))
	for range 300 {
		dim := 1 + r.IntN(300)
		c := NewSQ8(dim, metrics[r.IntN(3)])
		a, b := random(r, dim), random(r, dim)
		rows := append(encode(&c, a), encode(&c, b)...)
		var byVector, byRow Query
		c.Bind(&byVector, a)
		c.BindRow(&byRow, rows[:c.Stride()])
		var d1, d2, d3 [2]float32
		byVector.Distances(rows, []uint32{0, 1}, d1[:])
		byRow.Distances(rows, []uint32{0, 1}, d2[:])
		c.BindRow(&byRow, rows[c.Stride():])
		byRow.Distances(rows, []uint32{0, 1}, d3[:])
		if d1 != d2 || d1[1] != d3[0] {
			t.Fatalf("%v, dimension %d: %v, %v, %v", c.Metric(), dim, d1, d2, d3)
		}
		if c.Metric() != Dot && !(d1[0] >= 0 && d1[0] <= 1e-6*(1+d1[1])) {
			t.Fatalf("%v, dimension %d: distance to itself is %v", c.Metric(), dim, d1[0])
		}
	}
}

// A query is reused for codecs of other sizes.
func TestRebind(t *testing.T) {
	var q Query
	for _, dim := range []int{300, 10, 500, 120} {
		c := NewSQ8(dim, L2)
		v := random(rand.New(rand.NewPCG(seed, uint64(dim))), dim)
		row := encode(&c, v)
		c.Bind(&q, v)
		var out [1]float32
		q.Distances(row, []uint32{0}, out[:])
		if float64(out[0]) > 1e-6*Norm(v)*Norm(v) {
			t.Fatalf("dimension %d: distance to itself is %v", dim, out[0])
		}
	}
}

func TestZeroVector(t *testing.T) {
	for _, m := range metrics {
		c := NewSQ8(100, m)
		v := random(rand.New(rand.NewPCG(seed, 4)), 100)
		zero := make([]float32, 100)
		rows := append(encode(&c, zero), encode(&c, v)...)
		want := [2]float32{1, 1}
		switch m {
		case Dot:
			want = [2]float32{0, 0}
		case L2:
			n := Norm(v)
			want = [2]float32{0, float32(n * n)}
		}
		var q Query
		var out [2]float32
		c.Bind(&q, zero)
		q.Distances(rows, []uint32{0, 1}, out[:])
		if out != want || math.Signbit(float64(out[0])) {
			t.Errorf("%v: distances of the zero vector %v, want %v", m, out, want)
		}
	}
}

// A08: huge and tiny components keep their cosine, non-finite ones and zero
// are refused with a message that names the component.
func TestExtremeComponents(t *testing.T) {
	c := NewSQ8(3, Cosine)
	for _, x := range []float32{1, 1e30, math.MaxFloat32, 1e-30, 1e-45} {
		v := []float32{x, x, x}
		if err := Cosine.Validate(v, 3); err != nil {
			t.Fatal(err)
		}
		var q Query
		c.Bind(&q, []float32{1, 1, 0})
		var out [1]float32
		q.Distances(encode(&c, v), []uint32{0}, out[:])
		p, e := make([]float32, 3), make([]float32, 3)
		Cosine.Prepare(p, v)
		Cosine.Prepare(e, []float32{1, 1, 0})
		want := 1 - 2/math.Sqrt(6)
		for what, got := range map[string]float32{"code": out[0], "exact": Cosine.Distance(p, e)} {
			if math.Abs(float64(got)-want) > 1e-6 {
				t.Errorf("%v: %s distance %v, want %v", x, what, got, want)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tt := range []struct {
		m    Metric
		v    []float32
		dim  int
		want string // "" for valid
	}{
		{Cosine, []float32{nan, 0, 1}, 3, "component 0 is NaN"},
		{Dot, []float32{0, inf, 0}, 3, "component 1 is +Inf"},
		{L2, []float32{0, 0, -inf}, 3, "component 2 is -Inf"},
		{Cosine, []float32{0, 0, 0}, 3, "zero vector"},
		{Cosine, []float32{1e30, 1e30, 1e30}, 3, ""},
		{L2, []float32{1e30, 1e30, 1e30}, 3, "length 1.73e+30"},
		{Dot, []float32{1e17, 1e17, 1e17}, 3, ""},
		{Dot, []float32{0, 0, 0}, 3, ""},
		{L2, nil, 0, "0 components"},
		{L2, make([]float32, MaxDim+1), 0, "4097 components"},
		{L2, make([]float32, MaxDim), 0, ""},
		{L2, make([]float32, 4), 3, "4 components: want 3"},
	} {
		err := tt.m.Validate(tt.v, tt.dim)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v.Validate(%d components): %v, want %q", tt.m, len(tt.v), err, tt.want)
		}
	}
}

func TestMetricNames(t *testing.T) {
	for _, m := range metrics {
		if got, err := ParseMetric(m.String()); err != nil || got != m || !m.Valid() {
			t.Errorf("ParseMetric(%q) = %v, %v", m, got, err)
		}
	}
	if _, err := ParseMetric("euclid"); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("ParseMetric of an unknown name: %v", err)
	}
	if Metric(9).Valid() || Metric(9).String() != "metric(9)" {
		t.Errorf("Metric(9) = %q, valid %v", Metric(9), Metric(9).Valid())
	}
}

func TestRescoreIsDistance(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 5))
	for _, m := range metrics {
		for _, dim := range []int{1, 15, 16, 17, 100, 384} {
			base := make([]float32, 0, 50*dim)
			for range 50 {
				v := random(r, dim)
				m.Prepare(v, v)
				base = append(base, v...)
			}
			q := random(r, dim)
			m.Prepare(q, q)
			ids := []uint32{49, 0, 3, 3, 17, 20, 1}
			out := make([]float32, len(ids))
			m.Rescore(q, base, ids, out)
			for i, id := range ids {
				b := base[int(id)*dim:][:dim]
				if want := m.Distance(q, b); out[i] != want {
					t.Fatalf("%v, dimension %d: Rescore %v, Distance %v", m, dim, out[i], want)
				}
				if want := plain(m, wide(q), wide(b)); math.Abs(float64(out[i])-want) > 1e-5*(1+Norm(q)*Norm(b)+Norm(b)*Norm(b)+Norm(q)*Norm(q)) {
					t.Fatalf("%v, dimension %d: %v, want %v", m, dim, out[i], want)
				}
			}
		}
	}
}

// The bytes of rows and the bits of distances are part of the file format.
func TestGolden(t *testing.T) {
	var b strings.Builder
	v := []float32{0.5, -0.25, 0.125, 1, -1, 0, 3e-3, 0.7}
	w := []float32{1, 2, -3, 4, -5, 6, -7, 8}
	for _, m := range metrics {
		c := NewSQ8(len(v), m)
		rows := append(encode(&c, v), encode(&c, w)...)
		fmt.Fprintf(&b, "metric %v, dimension %d, stride %d\n%s", m, c.Dim(), c.Stride(), hex.Dump(rows))
		var q Query
		var out [2]float32
		c.Bind(&q, w)
		q.Distances(rows, []uint32{0, 1}, out[:])
		fmt.Fprintf(&b, "distances to row 1: %08x %08x = %v\n\n", math.Float32bits(out[0]), math.Float32bits(out[1]), out)
	}
	const name = "testdata/rows.golden"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("rows changed (a new format version?); got\n%s", b.String())
	}
}

func TestNoAllocation(t *testing.T) {
	c := NewSQ8(384, Cosine)
	r := rand.New(rand.NewPCG(seed, 6))
	v := random(r, 384)
	rows := slices.Repeat(encode(&c, v), 40)
	ids := []uint32{1, 2, 3, 4, 5, 39}
	out := make([]float32, 40)
	var q Query
	if n := testing.AllocsPerRun(50, func() {
		c.Encode(rows[:c.Stride()], v)
		c.Bind(&q, v)
		c.BindRow(&q, rows)
		q.Distances(rows, ids, out)
		q.Scan(rows, 0, 40, out)
	}); n != 0 {
		t.Errorf("%v allocations a run, want 0", n)
	}
}

func FuzzSQ8(f *testing.F) {
	f.Add(uint8(0), []byte{0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 192, 127})
	f.Add(uint8(2), []byte{255, 255, 127, 127, 1, 0, 0, 0, 0, 0, 128, 255, 202, 242, 73, 113})
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		dim := len(data) / 8
		if dim == 0 || dim > MaxDim {
			return
		}
		c := NewSQ8(dim, metrics[kind%3])
		v, w := make([]float32, dim), make([]float32, dim)
		for i := range v {
			v[i] = math.Float32frombits(uint32(data[8*i]) | uint32(data[8*i+1])<<8 | uint32(data[8*i+2])<<16 | uint32(data[8*i+3])<<24)
			w[i] = math.Float32frombits(uint32(data[8*i+4]) | uint32(data[8*i+5])<<8 | uint32(data[8*i+6])<<16 | uint32(data[8*i+7])<<24)
		}
		rows := append(encode(&c, v), encode(&c, w)...)
		var q Query
		var a, b [2]float32
		c.Bind(&q, v)
		q.Distances(rows, []uint32{0, 1}, a[:])
		c.BindRow(&q, rows[c.Stride():])
		q.Distances(rows, []uint32{0, 1}, b[:])
		for _, d := range []float32{a[0], a[1], b[0], b[1]} {
			if d != d || d > math.MaxFloat32 || d < -math.MaxFloat32 {
				t.Fatalf("distances %v and %v of rows\n%s", a, b, hex.Dump(rows))
			}
		}
		if a[1] != b[0] {
			t.Fatalf("distance %v one way, %v the other", a[1], b[0])
		}
		_ = c.Metric().Validate(v, dim)
	})
}

func ExampleSQ8() {
	c := NewSQ8(4, Cosine)
	codes := make([]byte, 2*c.Stride())
	c.Encode(codes[:c.Stride()], []float32{1, 0, 0, 0})
	c.Encode(codes[c.Stride():], []float32{0, 3, 3, 0})
	var q Query
	c.Bind(&q, []float32{0, 0, 2, 0})
	out := make([]float32, 2)
	q.Distances(codes, []uint32{0, 1}, out)
	fmt.Printf("%.4f\n", out)
	// Output: [1.0000 0.2929]
}

func benchCodes(c *SQ8, rows int) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	codes := make([]byte, rows*c.Stride())
	v := random(r, c.Dim())
	for i := range rows {
		v[i%c.Dim()] = r.Float32()
		c.Encode(codes[i*c.Stride():(i+1)*c.Stride()], v)
	}
	return codes
}

func BenchmarkEncode(b *testing.B) {
	for _, dim := range []int{100, 384, 1536} {
		for _, m := range []Metric{Cosine, L2} {
			b.Run(fmt.Sprintf("dim=%d/%v", dim, m), func(b *testing.B) {
				c := NewSQ8(dim, m)
				v, row := random(rand.New(rand.NewPCG(seed, 8)), dim), make([]byte, c.Stride())
				for b.Loop() {
					c.Encode(row, v)
				}
			})
		}
	}
}

func BenchmarkBindRow(b *testing.B) {
	for _, dim := range []int{100, 384, 1536} {
		b.Run(fmt.Sprintf("dim=%d", dim), func(b *testing.B) {
			c := NewSQ8(dim, Cosine)
			row := encode(&c, random(rand.New(rand.NewPCG(seed, 9)), dim))
			var q Query
			for b.Loop() {
				c.BindRow(&q, row)
			}
		})
	}
}

// BenchmarkDistances: 32 random rows a call, of 64 MiB and of 64 KiB; a scan.
func BenchmarkDistances(b *testing.B) {
	for _, dim := range []int{100, 384, 768} {
		c := NewSQ8(dim, Cosine)
		for _, size := range []int{64 << 10, 64 << 20} {
			rows := size / c.Stride()
			codes := benchCodes(&c, rows)
			r := rand.New(rand.NewPCG(seed, 10))
			lists := make([][]uint32, 4096)
			for i := range lists {
				for range 32 {
					lists[i] = append(lists[i], r.Uint32N(uint32(rows)))
				}
			}
			var q Query
			c.BindRow(&q, codes)
			b.Run(fmt.Sprintf("dim=%d/KiB=%d", dim, size>>10), func(b *testing.B) {
				out := make([]float32, 32)
				for i := 0; i < b.N; i++ {
					q.Distances(codes, lists[i%len(lists)], out)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*32), "ns/row")
			})
			b.Run(fmt.Sprintf("dim=%d/KiB=%d/scan", dim, size>>10), func(b *testing.B) {
				out := make([]float32, rows)
				for b.Loop() {
					q.Scan(codes, 0, rows, out)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
			})
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	v := random(rand.New(rand.NewPCG(seed, 31)), 784)
	for b.Loop() {
		if err := L2.Validate(v, 784); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMaxAbs(b *testing.B) {
	v := random(rand.New(rand.NewPCG(seed, 31)), 784)
	for b.Loop() {
		simd.MaxMagnitude(v)
	}
}
