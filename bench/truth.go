package bench

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// A Metric says what near means.
type Metric uint8

// The metrics of vector files; their names are the ones on the command line.
const (
	Cosine Metric = iota // "cos": the angle; a zero vector is as far as an orthogonal one
	Dot                  // "ip": the inner product, larger is nearer
	L2                   // "l2": Euclidean distance
)

// String is the metric's name on the command line.
func (m Metric) String() string { return [...]string{"cos", "ip", "l2"}[min(m, L2)] }

// ParseMetric reads cos, ip or l2.
func ParseMetric(name string) (Metric, error) {
	for m := Cosine; m <= L2; m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, inputf("metric", "%q is none of cos, ip, l2", name)
}

// Truth finds the k nearest base rows of every query by comparing all of them in
// float64, nearest first, ties by lower row. It runs on every CPU; the answer
// does not depend on how many. Cost: queries × rows × dimension.
func Truth(ctx context.Context, base, queries Matrix[float32], metric Metric, k int) (Matrix[int32], error) {
	if base.Dim != queries.Dim {
		return Matrix[int32]{}, inputf("truth", "base has dimension %d, queries have %d", base.Dim, queries.Dim)
	}
	if k < 1 || k > base.Rows() {
		return Matrix[int32]{}, inputf("truth", "k is %d, want 1 to the base's %d rows", k, base.Rows())
	}
	scale := scales(base, metric)
	out := Matrix[int32]{Dim: k, Data: make([]int32, queries.Rows()*k)}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), queries.Rows()) {
		workers.Go(func() {
			best := nearest{}
			for {
				q := int(next.Add(1)) - 1
				if q >= queries.Rows() || ctx.Err() != nil {
					return
				}
				best.scan(base, queries.Row(q), metric, scale, k)
				copy(out.Row(q), best.rows)
			}
		})
	}
	workers.Wait()
	return out, ctx.Err()
}

// scales are the factors that turn an inner product with a row into the cosine
// (but for the query's length, which is the same for all rows).
func scales(base Matrix[float32], metric Metric) []float64 {
	if metric != Cosine {
		return nil
	}
	out := make([]float64, base.Rows())
	for i := range out {
		if n := dot64(base.Row(i), base.Row(i)); n > 0 {
			out[i] = 1 / math.Sqrt(n)
		}
	}
	return out
}

// nearest keeps the k best rows seen, best first.
type nearest struct {
	rows      []int32
	distances []float64
}

func (b *nearest) scan(base Matrix[float32], query []float32, metric Metric, scale []float64, k int) {
	b.rows, b.distances = b.rows[:0], b.distances[:0]
	for i := range base.Rows() {
		d := metric.distance(base, i, query, scale)
		if len(b.rows) == k && d >= b.distances[k-1] {
			continue // rows ascend: an equal one later loses the tie
		}
		at := sort.Search(len(b.distances), func(j int) bool { return b.distances[j] > d })
		if len(b.rows) < k {
			b.rows, b.distances = append(b.rows, 0), append(b.distances, 0)
		}
		copy(b.rows[at+1:], b.rows[at:])
		copy(b.distances[at+1:], b.distances[at:])
		b.rows[at], b.distances[at] = int32(i), d
	}
}

// distance is that of a base row from a query, lower is nearer.
func (m Metric) distance(base Matrix[float32], row int, query []float32, scale []float64) float64 {
	switch m {
	case L2:
		return l2squared64(base.Row(row), query)
	case Cosine:
		return -dot64(base.Row(row), query) * scale[row]
	}
	return -dot64(base.Row(row), query)
}

// rankAll sorts all rows by their distance from a query, nearest first, ties by
// lower row.
func rankAll(base Matrix[float32], query []float32, metric Metric) []int32 {
	scale := scales(base, metric)
	distances := make([]float64, base.Rows())
	out := make([]int32, base.Rows())
	for i := range out {
		out[i], distances[i] = int32(i), metric.distance(base, i, query, scale)
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b)) })
	return out
}

// dot64 sums in four lanes, which lets the CPU overlap the additions.
func dot64(a, b []float32) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(float64(a[i]) * float64(b[i]))
		s1 += float64(float64(a[i+1]) * float64(b[i+1]))
		s2 += float64(float64(a[i+2]) * float64(b[i+2]))
		s3 += float64(float64(a[i+3]) * float64(b[i+3]))
	}
	for ; i < len(a); i++ {
		s0 += float64(float64(a[i]) * float64(b[i]))
	}
	return (s0 + s1) + (s2 + s3)
}

func l2squared64(a, b []float32) float64 {
	var s0, s1 float64
	b = b[:len(a)]
	i := 0
	for ; i+2 <= len(a); i += 2 {
		x, y := float64(a[i])-float64(b[i]), float64(a[i+1])-float64(b[i+1])
		s0 += float64(x * x)
		s1 += float64(y * y)
	}
	for ; i < len(a); i++ {
		x := float64(a[i]) - float64(b[i])
		s0 += float64(x * x)
	}
	return s0 + s1
}
