package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func le32(xs ...uint32) string {
	var b []byte
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return string(b)
}

func TestVectorFiles(t *testing.T) {
	dir := t.TempDir()
	one, half := math.Float32bits(1), math.Float32bits(-.5)
	want := Matrix[float32]{Dim: 2, Data: []float32{1, -.5, -.5, 1}}
	for name, content := range map[string]string{
		"a.fvecs":    le32(2, one, half, 2, half, one),
		"a.fvecs.gz": le32(2, one, half, 2, half, one),
		"a.f32":      le32(one, half, half, one),
		"a.f32.gz":   le32(one, half, half, one),
		"a.f16":      "\x00\x3c\x00\xb8\x00\xb8\x00\x3c",
	} {
		got, err := ReadVectors(write(t, dir, name, content), 2)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	path := filepath.Join(dir, "w.fvecs")
	if err := WriteFvecs(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadVectors(path, 0); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("written and read: %v, %v", got, err)
	}
	ints := Matrix[int32]{Dim: 3, Data: []int32{1, -2, 3, math.MaxInt32, 0, math.MinInt32}}
	path = filepath.Join(dir, "w.ivecs")
	if err := WriteIvecs(path, ints); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadIvecs(path); err != nil || cmp.Diff(ints, got) != "" {
		t.Errorf("written and read: %v, %v", got, err)
	}
	if h := ints.Head(9); h.Rows() != 2 || ints.Head(1).Rows() != 1 || ints.Head(-1).Rows() != 0 || (Matrix[int32]{}).Rows() != 0 {
		t.Error("head or rows")
	}
}

func TestVectorFilesBadInput(t *testing.T) {
	dir := t.TempDir()
	one, nan := math.Float32bits(1), math.Float32bits(float32(math.NaN()))
	for _, c := range []struct {
		name, content string
		dim           int
		want          string
	}{
		{"a.fvecs", "", 0, "no rows"},
		{"a.fvecs", "\x02\x00", 0, "row 0: cut in its header"},
		{"a.fvecs", le32(0), 0, "row 0: dimension 0, want 1 to"},
		{"a.fvecs", le32(0xFFFFFFFF, one), 0, "row 0: dimension -1, want 1 to"},
		{"a.fvecs", le32(0x7FFFFFFF, one), 0, "row 0: dimension 2147483647, want 1 to"},
		{"a.fvecs", le32(2, one), 0, "8 bytes are not whole rows of 12"},
		{"a.fvecs", le32(1, one, 2, one), 0, "row 1: dimension 2, want 1"},
		{"a.fvecs", le32(2, one, one), 3, "row 0: dimension 2, want 3"},
		{"a.fvecs", le32(2, one, nan), 0, "row 0, column 1: value NaN"},
		{"a.fvecs.gz", le32(2, one, one, 2, one), 0, "row 1: cut short"},
		{"a.fvecs.gz", le32(2, one, one) + "\x01", 0, "row 1: cut in its header"},
		{"a.f32", le32(one), 0, "dimension 0: a file without one"},
		{"a.f32", le32(one), MaxDim + 1, "want 1 to"},
		{"a.f32", le32(one, one, one), 2, "12 bytes are not whole rows of 8"},
		{"a.f16", "\x00\x3c\x00", 1, "3 bytes are not whole rows of 2"},
		{"a.f16", "\x00\x7c", 1, "value +Inf"},
		{"a.npy", "x", 1, "name ends in none of"},
	} {
		path := write(t, dir, c.name, c.content)
		m, err := ReadVectors(path, c.dim)
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s %q: got %v, want ErrInput with %q", c.name, c.content, err, c.want)
		}
		if strings.Contains(c.want, "value") && m.Data != nil {
			t.Errorf("%s: values beside an error", c.name)
		}
	}
}

func FuzzReadVectors(f *testing.F) {
	f.Add(le32(2, 0, 0, 2, 0, 0))
	f.Add(le32(0x7FFFFFFF))
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		for name, dim := range map[string]int{"a.fvecs": 0, "a.f32": 3, "a.f16": 5, "b.fvecs.gz": 0} {
			m, err := ReadVectors(write(t, dir, name, content), dim)
			if err != nil && !errors.Is(err, ErrInput) {
				t.Fatalf("%s: got %v, want ErrInput", name, err)
			}
			if err == nil && 2*len(m.Data) > len(content) {
				t.Fatalf("%s: %d values from %d bytes", name, len(m.Data), len(content))
			}
		}
	})
}

// Every half against its definition.
func TestFloat16(t *testing.T) {
	for h := range 1 << 16 {
		sign, exp, frac := 1.0, h>>10&31, float64(h&1023)
		if h>>15 == 1 {
			sign = -1
		}
		want := sign * math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			want = sign * math.Ldexp(frac/1024, -14)
		case exp == 31 && frac == 0:
			want = math.Inf(int(sign))
		case exp == 31:
			want = math.NaN()
		}
		got := float64(float16(uint16(h)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (sign < 0) && !math.IsNaN(got) {
			t.Fatalf("%04x: got %v, want %v", h, got, want)
		}
	}
}

func randomMatrix(seed uint64, rows, dim int) Matrix[float32] {
	rng := rand.New(rand.NewPCG(seed, 0))
	m := Matrix[float32]{Dim: dim}
	for range rows * dim {
		m.Data = append(m.Data, float32(rng.IntN(5)-2)) // few values: many exact ties
	}
	return m
}

// Truth against exact rational arithmetic; small integers make ties exact.
func TestTruthExact(t *testing.T) {
	for dim := 1; dim <= 9; dim++ {
		base, queries := randomMatrix(uint64(dim), 60, dim), randomMatrix(uint64(dim)+100, 7, dim)
		for metric := Cosine; metric <= L2; metric++ {
			got, err := Truth(context.Background(), base, queries, metric, 25)
			if err != nil {
				t.Fatal(err)
			}
			for q := range queries.Rows() {
				key := func(i int) *big.Rat { return exactDistance(base.Row(i), queries.Row(q), metric) }
				order := make([]int, base.Rows())
				for i := range order {
					order[i] = i
				}
				sort.SliceStable(order, func(a, b int) bool { return key(order[a]).Cmp(key(order[b])) < 0 })
				for r, row := range got.Row(q) {
					// Cosines pass through a square root, so exact ties may differ in
					// the last bit: the row may be another one equally near.
					if int(row) != order[r] && (metric != Cosine || key(int(row)).Cmp(key(order[r])) != 0) {
						t.Fatalf("dim %d %s query %d rank %d: row %d, want %d", dim, metric, q, r, row, order[r])
					}
				}
			}
		}
	}
}

// exactDistance orders as the metric does; for the cosine, by its signed square.
func exactDistance(a, q []float32, metric Metric) *big.Rat {
	var dot, norm, l2 int64
	for i := range a {
		x, y := int64(a[i]), int64(q[i])
		dot, norm, l2 = dot+x*y, norm+x*x, l2+(x-y)*(x-y)
	}
	switch {
	case metric == L2:
		return big.NewRat(l2, 1)
	case metric == Dot || norm == 0:
		return big.NewRat(-dot, 1)
	case dot < 0:
		return big.NewRat(dot*dot, norm)
	}
	return big.NewRat(-dot*dot, norm)
}

func TestTruthBadInput(t *testing.T) {
	base, queries := randomMatrix(1, 5, 3), randomMatrix(2, 2, 3)
	for _, k := range []int{0, -1, 6} {
		if _, err := Truth(context.Background(), base, queries, L2, k); !errors.Is(err, ErrInput) {
			t.Errorf("k %d: got %v, want ErrInput", k, err)
		}
	}
	if _, err := Truth(context.Background(), base, randomMatrix(2, 2, 4), L2, 1); !errors.Is(err, ErrInput) {
		t.Errorf("other dimension: got %v, want ErrInput", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Truth(ctx, base, queries, L2, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
	for _, name := range []string{"cos", "ip", "l2"} {
		if m, err := ParseMetric(name); err != nil || m.String() != name {
			t.Errorf("metric %s: got %v, %v", name, m, err)
		}
	}
	if _, err := ParseMetric("cosine"); !errors.Is(err, ErrInput) {
		t.Errorf("unknown metric: got %v, want ErrInput", err)
	}
}

// Our truth of real vectors is the staged one.
func TestStagedTruth(t *testing.T) {
	dir := filepath.Join(dataDir(t), "minilm-90k")
	truth, err := ReadIvecs(filepath.Join(dir, "gt.ivecs"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := ReadVectors(filepath.Join(dir, "base.f16"), 384)
	if err != nil {
		t.Fatal(err)
	}
	queries, err := ReadVectors(filepath.Join(dir, "query.f16"), 384)
	if err != nil {
		t.Fatal(err)
	}
	if base.Rows() != 88945 || queries.Rows() != 1000 || truth.Rows() != 1000 || truth.Dim != 100 {
		t.Fatalf("base %d, queries %d, truth %d x %d", base.Rows(), queries.Rows(), truth.Rows(), truth.Dim)
	}
	const n = 10
	got, err := Truth(context.Background(), base, queries.Head(n), Cosine, 100)
	if err != nil {
		t.Fatal(err)
	}
	for q := range n {
		if r := RecallAt(got.Row(q), truth.Row(q), 100); r < .99 {
			t.Errorf("query %d: %.2f of the staged neighbors", q, r)
		}
		if got.Row(q)[0] != truth.Row(q)[0] {
			t.Errorf("query %d: nearest %d, staged %d", q, got.Row(q)[0], truth.Row(q)[0])
		}
	}
}
