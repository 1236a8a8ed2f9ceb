package hnsw

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// A gridSet makes filters of a given share that hang together with the query:
// the vectors are divided among pivots, and a filter takes whole parts, those
// nearest to the query (+1), any (0), or the farthest (−1).
type gridSet struct {
	f     *Field
	parts [][]uint32 // ords, by pivot
	pivot []uint32   // ords
}

func newGridSet(t testing.TB, f *Field, pivots int, seed uint64) *gridSet {
	rng := rand.New(rand.NewPCG(seed, 72))
	g := &gridSet{f: f, parts: make([][]uint32, pivots)}
	for range pivots {
		g.pivot = append(g.pivot, rng.Uint32N(uint32(f.n)))
	}
	nearest, best := make([]int, f.n), make([]float32, f.n)
	dists := make([]float32, f.n)
	var q quant.Query
	for i, p := range g.pivot {
		f.codec.Bind(&q, f.Vector(p))
		q.Scan(f.codes, 0, f.n, dists)
		for j, d := range dists {
			if i == 0 || d < best[j] {
				nearest[j], best[j] = i, d
			}
		}
	}
	for j, p := range nearest {
		g.parts[p] = append(g.parts[p], uint32(j))
	}
	return g
}

// accept makes the filter for a query.
func (g *gridSet) accept(q []float32, share float64, corr int) []uint64 {
	order := make([]int, len(g.parts))
	near := make([]float32, len(g.parts))
	pq := make([]float32, g.f.dim)
	g.f.metric.Prepare(pq, q)
	for i := range order {
		order[i] = i
		near[i] = float32(corr) * g.f.metric.Distance(pq, g.f.Vector(g.pivot[i]))
	}
	slices.SortStableFunc(order, func(x, y int) int {
		switch {
		case near[x] < near[y]:
			return -1
		case near[x] > near[y]:
			return 1
		}
		return 0
	})
	words := make([]uint64, g.f.AcceptLen())
	left := int(share * float64(g.f.n))
	if corr == 0 {
		rng := rand.New(rand.NewPCG(473, 74))
		for _, ord := range rng.Perm(g.f.n)[:left] {
			words[ord/64] |= 1 << (ord % 64)
		}
		return words
	}
	for _, p := range order {
		for _, ord := range g.parts[p][:min(left, len(g.parts[p]))] {
			words[ord/64] |= 1 << (ord % 64)
		}
		left -= min(left, len(g.parts[p]))
	}
	return words
}

var gridPlans = [...]Plan{PlanFlat, PlanGraph, PlanTwoHop}

// BenchmarkGrid prints, as lines of JSON, what each way to search costs and
// finds, over shares of accepted vectors and how they hang together with the
// query, and the planner's choice beside the best of them: time a query in µs and
// recall@10 at the default target. QUARRY_FVECS names a set as for
// BenchmarkSearch. The planner's constants were chosen with the pivots of seeds 71,
// 171 and 301; what is printed has others.
func BenchmarkGrid(b *testing.B) {
	base, queries, dim, _ := benchSet(b)
	f := buildField(b, Options{Dim: dim}, base)
	var held []float32
	for i := 1; i < min(len(queries)/dim, 200); i += 2 {
		held = append(held, queries[i*dim:(i+1)*dim]...)
	}
	for b.Loop() {
		grid(b, f, held)
	}
}

// gridNow is the clock of grid.
var gridNow = func() time.Duration { return time.Duration(time.Now().UnixNano()) }

func grid(b testing.TB, f *Field, queries []float32) {
	g := newGridSet(b, f, 256, 471)
	var s Scratch
	out := json.NewEncoder(os.Stdout)
	for _, share := range []float64{0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001} {
		for _, corr := range []int{1, 0, -1} {
			if err := out.Encode(gridCell(b, g, &s, queries, share, corr)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// A gridWay is what one way took and found in a cell.
type gridWay struct {
	Us     float64 `json:"avg_us"`
	Recall float64 `json:"recall"`
}

// A gridLine is a cell.
type gridLine struct {
	Kind   string             `json:"kind"` // "grid"
	Share  float64            `json:"share"`
	Corr   int                `json:"correlation"`
	Ways   map[string]gridWay `json:"ways"`
	Chosen map[string]int     `json:"chosen"` // queries by plan
	gridWay
	Best  string  `json:"best"`    // the fastest way with recall 0.95 or more
	Ratio float64 `json:"to_best"` // the chosen time to its
}

func gridCell(b testing.TB, g *gridSet, s *Scratch, queries []float32, share float64, corr int) gridLine {
	f := g.f
	n := len(queries) / f.dim
	ways := append(gridPlans[:], PlanNone)
	var took [len(gridPlans) + 1]time.Duration
	var hits [len(gridPlans) + 1]int
	l := gridLine{Kind: "grid", Share: share * 100, Corr: corr, Ways: map[string]gridWay{}, Chosen: map[string]int{}}
	total := 0
	for i := range n {
		q := queries[i*f.dim : (i+1)*f.dim]
		accept := g.accept(q, share, corr)
		want, _, err := f.SearchExact(q, Params{K: 10}, accept, s, nil)
		if err != nil {
			b.Fatal(err)
		}
		total += len(want)
		for way, plan := range ways {
			best := time.Hour
			var got []Neighbor
			var st Stats
			for range 3 {
				start := gridNow()
				got, st, err = f.SearchFiltered(q, Params{K: 10, Plan: plan}, accept, s, nil)
				best = min(best, gridNow()-start)
				if err != nil || len(got) != len(want) {
					b.Fatalf("%d of %d: %v", len(got), len(want), err)
				}
			}
			if plan == PlanNone {
				l.Chosen[st.Plan.String()]++
			}
			took[way] += best
			hits[way] += overlap(got, want)
		}
	}
	for way, plan := range ways {
		w := gridWay{math.Round(took[way].Seconds()*1e7/float64(n)) / 10, math.Round(float64(hits[way])/float64(total)*1e4) / 1e4}
		if plan == PlanNone {
			l.gridWay = w
			break
		}
		l.Ways[plan.String()] = w
		if l.Best == "" || w.Recall >= 0.95 && w.Us < l.Ways[l.Best].Us {
			l.Best = plan.String()
		}
	}
	l.Ratio = math.Round(l.Us/l.Ways[l.Best].Us*100) / 100
	return l
}
