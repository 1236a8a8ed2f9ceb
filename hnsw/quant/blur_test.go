package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Distances by code are off by what Blur says: the variance of the errors, in
// units of it, is about 1 with 4 bits, and 2 with 8, where the query is rounded
// as much as the row. (They are also too large on average, all alike.)
func TestBlur(t *testing.T) {
	const dim, rows = 96, 400
	r := rand.New(rand.NewPCG(seed, 41))
	for _, m := range []Metric{Cosine, L2} {
		narrow, wide := NewSQ4(dim, m), NewSQ8(dim, m)
		for _, c := range []struct {
			name   string
			stride int
			encode func(dst []byte, v []float32)
			bind   func(q *Query, v []float32)
			blur   func(row []byte, d float32) float32
			want   float64
		}{
			{"4 bits", narrow.Stride(), narrow.Encode, narrow.Bind, narrow.Blur, 1},
			{"8 bits", wide.Stride(), wide.Encode, wide.Bind, wide.Blur, 2},
		} {
			sum, squares := 0.0, 0.0
			for range rows {
				q, v := make([]float32, dim), make([]float32, dim)
				for i := range q {
					q[i] = float32(r.NormFloat64())
					v[i] = q[i] + 0.5*float32(r.NormFloat64())
				}
				m.Prepare(q, q)
				m.Prepare(v, v)
				row := make([]byte, c.stride)
				c.encode(row, v)
				var query Query
				c.bind(&query, q)
				var d [1]float32
				query.Distances(row, []uint32{0}, d[:])
				off := float64(d[0]-m.Distance(q, v)) / float64(c.blur(row, d[0]))
				sum, squares = sum+off, squares+off*off
			}
			if got := (squares/rows - sum/rows*sum/rows) / c.want; got < 0.6 || got > 1.6 {
				t.Errorf("%v, %s: variance of the errors is %.2f of what Blur says", m, c.name, got)
			}
		}
	}
	dot := NewSQ8(dim, Dot)
	if b := dot.Blur(make([]byte, dot.Stride()), 1); !math.IsInf(float64(b), 1) {
		t.Errorf("dot: %v", b)
	}
}
