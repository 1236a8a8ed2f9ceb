package hnsw

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

// An effort below k still gives k neighbors, for fewer distances, and a lower
// target costs less than a higher one.
func TestEffortBelowK(t *testing.T) {
	rng := rand.New(rand.NewPCG(81, 82))
	const n, dim = 5000, 32
	all := clustered(rng, n+40, dim)
	v, queries := all[:n*dim], all[n*dim:]
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 60}, v)
	curve := f.Info().Curve
	if len(curve) < 3 || curve[0].Slack >= 0 || curve[0].Recall >= curve[len(curve)-1].Recall {
		t.Fatalf("curve %+v: want it to begin below slack 0", curve)
	}
	var s Scratch
	cost := func(p Params) (sum int) {
		for i := range len(queries) / dim {
			got, st, err := f.walkGraphOf(queries[i*dim:(i+1)*dim], p, &s)
			if err != nil || len(got) != p.K || st.Plan != PlanGraph {
				t.Fatalf("%+v: %d neighbors by %v, %v", p, len(got), st.Plan, err)
			}
			if !slices.IsSortedFunc(got, compareNeighbors) {
				t.Fatalf("%+v: not in order: %v", p, got)
			}
			sum += st.Distances
		}
		return sum
	}
	for _, k := range []int{1, 10, 50} {
		last := 0
		for _, ef := range []int{int(curve[0].Ef), 10, 30} {
			if c := cost(Params{K: k, Ef: ef}); c < last {
				t.Errorf("k %d, ef %d: %d distances after %d of less effort", k, ef, c, last)
			} else {
				last = c
			}
		}
	}
	least, low, high := cost(Params{K: 10, Ef: int(curve[0].Ef)}), cost(Params{K: 10, TargetRecall: 0.5}), cost(Params{K: 10, TargetRecall: 0.99})
	if low > high || low <= least {
		t.Errorf("%d distances for a target of 0.5, %d for 0.99: want more than the %d of a slack below 0", low, high, least)
	}
}

// nearest gives what sorting gives, ties by doc included.
func TestNearest(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 84))
	for range 300 {
		found := make([]Neighbor, rng.IntN(200))
		for i := range found {
			found[i] = Neighbor{Doc: uint32(rng.IntN(1 << 20)), Ord: uint32(i), Distance: float32(rng.IntN(30) + i/3)}
		}
		k := 1 + rng.IntN(40)
		want := slices.Clone(found)
		slices.SortFunc(want, compareNeighbors)
		want = want[:min(k, len(want))]
		if got := nearest(found, k); !slices.Equal(got, want) {
			t.Fatalf("%d of %d: got %v, want %v", k, len(found), got, want)
		}
	}
}

// What lonely vectors take from the recall counts less the more of the misses
// are theirs, and recall never goes down when more is found.
func TestWeighed(t *testing.T) {
	if got := weighed(0.9, 0.9); got != 0.9 {
		t.Errorf("nobody is lonely: %v", got)
	}
	if got := weighed(0.99, 1); got != 1 {
		t.Errorf("only the lonely are missed: %v", got)
	}
	if got := weighed(0.9, 0.908); got < 0.9 || got > 0.901 {
		t.Errorf("many are missed: %v", got)
	}
	last := 0.0
	for r := 0.0; r <= 0.992; r += 0.001 {
		got := weighed(r, r+0.008)
		if got < last || got < r || got > r+0.008+1e-12 {
			t.Fatalf("recall %v: %v after %v", r, got, last)
		}
		last = got
	}
}

// A slack below 0 is of version 3: in an older field it is damage.
func TestSlackBelowZeroIsNew(t *testing.T) {
	m := &meta{dim: 3, n: 1, nodes: 1, metric: quant.L2, m: 16, m0: 32, efc: 200, bits: 8, cal: calibration{
		oversample: 1, curve: []curvePoint{{ef: 4, slack: -0.5, recall: 0.9, distances: 20}},
	}}
	data := m.append(nil)
	got, err := decodeMeta(data)
	if err != nil || got.cal.curve[0].slack != -0.5 {
		t.Fatalf("%+v, %v", got, err)
	}
	old := bytes.Clone(data)
	old[0] = version2
	if _, err := decodeMeta(old); !errors.Is(err, storage.ErrCorrupt) {
		t.Fatalf("version 2: %v", err)
	}
	m.cal.curve[0].slack = -1
	if _, err := decodeMeta(m.append(nil)); !errors.Is(err, storage.ErrCorrupt) {
		t.Fatalf("slack -1: %v", err)
	}
}

// A walk that would begin far from its query, where a filter that goes with the
// query accepts nothing, begins elsewhere: what it costs and finds is as if it had
// descended well. Where the filter does repel the query, that is found out too.
func TestSurvey(t *testing.T) {
	rng := rand.New(rand.NewPCG(111, 112))
	const n, dim = 30_000, 6
	v := gaussian(rng, n, dim)
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, M: 8, EfConstruction: 40}, v)
	q := v[:dim]
	var s Scratch
	order, _, err := f.SearchExact(q, Params{K: n}, nil, &s, nil)
	if err != nil {
		t.Fatal(err)
	}
	near := make([]uint64, f.AcceptLen())
	for _, nb := range order[:n/2] {
		near[nb.Ord/64] |= 1 << (nb.Ord % 64)
	}
	far := make([]uint64, len(near))
	for i := range far {
		far[i] = ^near[i]
	}
	far = maskTail(far, n)

	// As if the descent had ended at the farthest node.
	p := Params{K: 10}
	survey := func(accept []uint64) (route, uint32) {
		if err := f.bind(q, p, &s); err != nil {
			t.Fatal(err)
		}
		r := f.choose(p, n/2)
		w := f.newWalk(p, r.rule)
		w.accept = accept
		if err := f.descend(&w, &s, 1); err != nil {
			t.Fatal(err)
		}
		last := order[n-1].Ord
		s.query.Distances(f.codes, []uint32{last}, s.dists)
		s.visited.reset(f.nodes)
		s.visited.marks[last] = s.visited.version
		s.beam.reset(1)
		s.beam.insert(makeKey(s.dists[0], last))
		if err := f.survey(&w, &s, &r); err != nil {
			t.Fatal(err)
		}
		return r, keyID(s.beam.keys[0])
	}
	if r, at := survey(near); r.plan != PlanGraph || r.detour || !slices.ContainsFunc(order[:n/100], func(nb Neighbor) bool { return nb.Ord == at }) {
		t.Errorf("begins at %d: %+v", at, r)
	}

	p.Oversample = 20 // the nearest accepted lie in a shell, about equally far
	want, _, err := f.SearchExact(q, p, far, &s, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, st, err := f.SearchFiltered(q, p, far, &s, nil)
	if err != nil || overlap(got, want) < 9 {
		t.Errorf("repelled: %d of 10 by %v, %v", overlap(got, want), st.Plan, err)
	}
	if least := f.cal.cost(surveyEf) / 4; st.Plan == PlanFlat && float64(st.Distances) < n/2+least {
		t.Errorf("%d distances: nothing was looked at", st.Distances)
	}
}

// A walk that is going to cost twice its budget is given up long before it has
// spent it: the candidates left tell what they will cost.
func TestTrial(t *testing.T) {
	rng := rand.New(rand.NewPCG(97, 98))
	const n, dim = 12_000, 24
	v := gaussian(rng, n, dim)
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, EfConstruction: 40}, v)
	var docs []uint32
	for i := 0; i < n; i += 5 {
		docs = append(docs, uint32(i))
	}
	accept := acceptOf(t, f, docs...)
	var s Scratch
	p := Params{K: 10, Ef: 300}
	walk := func(plan Plan, budget float64) walk {
		if err := f.bind(v[:dim], p, &s); err != nil {
			t.Fatal(err)
		}
		r := f.choose(p, len(docs))
		w := f.newWalk(p, r.rule)
		w.accept, w.stats.Plan = accept, plan
		if err := f.descend(&w, &s, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := f.walkAccepted(&w, &s, r, p.K, budget); err != nil {
			t.Fatal(err)
		}
		return w
	}
	for _, plan := range []Plan{PlanGraph, PlanTwoHop} {
		whole := walk(plan, math.Inf(1))
		half := float64(whole.stats.Distances) / 2
		w := walk(plan, half*costsOf(f.codec.Stride()).walk)
		if whole.over || !w.over || float64(w.stats.Distances) > half*3/4 {
			t.Errorf("%v: %d distances of %d, given up: %v, %v", plan, w.stats.Distances, whole.stats.Distances, w.over, whole.over)
		}
	}
}
