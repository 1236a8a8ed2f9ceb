package hnsw

import (
	"fmt"
	"math/rand/v2"
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

func newGridSet(t testing.TB, f *Field, pivots int) *gridSet {
	rng := rand.New(rand.NewPCG(71, 72))
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
		rng := rand.New(rand.NewPCG(73, 74))
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

// forced is SearchFiltered by a given plan, without a budget.
func (f *Field) forced(plan Plan, q []float32, p Params, accept []uint64, matches int, s *Scratch, dst []Neighbor) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return nil, Stats{}, err
	}
	return f.filtered(p, accept, s, dst, f.choose(p, matches), plan)
}

// BenchmarkGrid prints what each way to search costs and finds, over shares of
// accepted vectors and how they hang together with the query, and the planner's
// choice: time a query in µs and recall@10 at the default target. QUARRY_FVECS
// names a set as for BenchmarkSearch.
func BenchmarkGrid(b *testing.B) {
	base, queries, dim, _ := benchSet(b)
	f := buildField(b, Options{Dim: dim}, base)
	for b.Loop() {
		grid(b, f, queries[:min(len(queries), 100*dim)])
	}
}

// gridNow is the clock of grid.
var gridNow = func() time.Duration { return time.Duration(time.Now().UnixNano()) }

func grid(b testing.TB, f *Field, queries []float32) {
	g := newGridSet(b, f, 256)
	var s Scratch
	fmt.Printf("%6s %2s | %9s %9s %6s | %9s %9s %6s | %9s %9s %6s | %-9s %9s %6s  %5s\n", "share", "", "scan", "est", "recall",
		"graph", "est", "recall", "two-hop", "est", "recall", "chosen", "µs", "recall", "/best")
	for _, share := range []float64{0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001} {
		for _, corr := range []int{1, 0, -1} {
			gridCell(b, g, &s, queries, share, corr)
		}
	}
}

func gridCell(b testing.TB, g *gridSet, s *Scratch, queries []float32, share float64, corr int) {
	f, p := g.f, Params{K: 10}
	n := len(queries) / f.dim
	var took [len(gridPlans) + 1]time.Duration
	var hits [len(gridPlans) + 1]int
	chosen := map[Plan]int{}
	var est Estimates
	total := 0
	for i := range n {
		q := queries[i*f.dim : (i+1)*f.dim]
		accept := g.accept(q, share, corr)
		matches := int(share * float64(f.n))
		want, _, err := f.SearchExact(q, p, accept, s, nil)
		if err != nil {
			b.Fatal(err)
		}
		total += len(want)
		for way := range took {
			best := time.Hour
			for range 3 {
				start := gridNow()
				var got []Neighbor
				var st Stats
				if way < len(gridPlans) {
					got, st, err = f.forced(gridPlans[way], q, p, accept, matches, s, nil)
				} else {
					got, st, err = f.SearchFiltered(q, p, accept, s, nil)
				}
				best = min(best, gridNow()-start)
				if err != nil || len(got) != len(want) {
					b.Fatalf("%d of %d: %v", len(got), len(want), err)
				}
				if way == len(gridPlans) {
					chosen[st.Plan]++
					est = st.Estimates
				}
				hits[way] += overlap(got, want)
			}
			took[way] += best
		}
	}
	us := func(way int) float64 { return took[way].Seconds() * 1e6 / float64(n) }
	recall := func(way int) float64 { return float64(hits[way]) / float64(3*total) }
	plans := ""
	for _, pl := range []Plan{PlanFlat, PlanGraph, PlanTwoHop, PlanAbandoned} {
		if chosen[pl] > 0 {
			plans += fmt.Sprintf("%s%.2s", map[bool]string{true: "", false: "/"}[plans == ""], pl)
		}
	}
	best := us(0)
	for way := 1; way < len(gridPlans); way++ {
		if recall(way) >= 0.95 {
			best = min(best, us(way))
		}
	}
	last := len(gridPlans)
	fmt.Printf("%5.1f%% %2d | %9.1f %9.1f %6.3f | %9.1f %9.1f %6.3f | %9.1f %9.1f %6.3f | %-9s %9.1f %6.3f  %5.2f\n", share*100, corr,
		us(0), est.Scan/1000, recall(0), us(1), est.Graph/1000, recall(1), us(2), est.TwoHop/1000, recall(2), plans, us(last), recall(last), us(last)/best)
}
