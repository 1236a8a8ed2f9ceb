package hnsw

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

// A cluster far tighter than the rest and larger than any row of links must
// neither be cut off nor cut itself off: not by a build, not by a merge.
func TestTightCluster(t *testing.T) {
	rng := rand.New(rand.NewPCG(101, 102))
	const tight, n, dim = 300, 4400, 16
	v := gaussian(rng, n, dim)
	for i := 1; i < tight; i++ {
		for j := range dim {
			v[i*dim+j] = v[j] + 1e-2*float32(rng.NormFloat64())
		}
	}
	o := Options{Dim: dim, Metric: quant.L2, GraphMin: 1, M: 8, EfConstruction: 40}
	fields := map[string]*Field{"built": buildField(t, o, v)}
	s, rep := mergeSections(t, o, split(t, o, v, 2, func(doc int) int { return doc % 2 })(dropNone))
	if rep.Rebuilt != "" {
		t.Errorf("%+v", rep)
	}
	fields["merged"] = openSections(t, s, n)
	for name, f := range fields {
		if err := f.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
		var s Scratch
		missed := 0
		for i := 0; i < n; i += 3 {
			if got, _ := graphSearch(t, f, v[i*dim:(i+1)*dim], 1, 60, &s); got[0].Doc != uint32(i) {
				missed++
			}
		}
		if missed > n/3/100 {
			t.Errorf("%s: %d of %d vectors do not find themselves", name, missed, n/3)
		}
	}
}

// Zero vectors, and ones so short that their squares vanish, have right
// distances, never NaN, and are found.
func TestZeroAndDenormal(t *testing.T) {
	rng := rand.New(rand.NewPCG(103, 104))
	const n, dim = 400, 8
	v := gaussian(rng, n, dim)
	for i := range 20 {
		for j := range dim {
			v[i*dim+j] = 0
			v[(20+i)*dim+j] = math.SmallestNonzeroFloat32 * float32(1+rng.IntN(100))
			v[(40+i)*dim+j] = 1e-30 * float32(1+j%3)
		}
	}
	for _, m := range []quant.Metric{quant.L2, quant.Dot, quant.Cosine} {
		vectors := v
		if m == quant.Cosine {
			vectors = v[20*dim:] // a zero vector has no direction
		}
		f := buildField(t, Options{Dim: dim, Metric: m, GraphMin: 1}, vectors)
		if err := f.Verify(context.Background()); err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		var s Scratch
		for _, i := range []int{0, 25, 45, 100} {
			q := vectors[i*dim : (i+1)*dim]
			want := exactNearest(m, vectors, dim, q, 10, nil)
			got, _ := graphSearch(t, f, q, 10, 100, &s)
			for j := range want {
				// What differs by less than any normal number counts as equal.
				if len(got) != 10 || !(math.Abs(float64(got[j].Distance-want[j].Distance)) < 1e-38) {
					t.Fatalf("%v: query %d: %v, want %v", m, i, got, want)
				}
			}
		}
	}
}

// A filter that accepts nothing gives nothing, one that accepts everything what
// no filter gives, by each plan, with one accepted vector too.
func TestFilterNothingEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(105, 106))
	const n, dim = 3000, 8
	v := clustered(rng, n, dim)
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 60}, v)
	var s Scratch
	q, p := v[7*dim:8*dim], Params{K: 10, Ef: 50}
	want := exactNearest(quant.L2, v, dim, q, 10, nil)
	all := make([]uint64, f.AcceptLen())
	for i := range all {
		all[i] = math.MaxUint64
	}
	if got, st, err := f.SearchFiltered(q, p, make([]uint64, f.AcceptLen()), &s, nil); err != nil || len(got) != 0 || st.Distances != 0 {
		t.Errorf("nothing: %v %+v %v", got, st, err)
	}
	if got, st, err := f.SearchFiltered(q, p, all, &s, nil); err != nil || overlap(got, want) < 9 {
		t.Errorf("everything: %v %+v %v", got, st, err)
	}
	one := acceptOf(t, f, 2999)
	all = maskTail(all, n)
	for _, plan := range gridPlans {
		p.Plan = plan
		if got, _, err := f.SearchFiltered(q, p, all, &s, nil); err != nil || overlap(got, want) < 9 {
			t.Errorf("everything by %v: %v, want %v, %v", plan, got, want, err)
		}
		if got, _, err := f.SearchFiltered(q, p, one, &s, nil); err != nil || len(got) != 1 || got[0].Doc != 2999 {
			t.Errorf("one by %v: %v, %v", plan, got, err)
		}
	}
}

// A canceled context ends each plan between two turns, with its error.
func TestCancelFiltered(t *testing.T) {
	rng := rand.New(rand.NewPCG(107, 108))
	const n, dim = 6000, 8
	v := gaussian(rng, n, dim)
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 40, M: 8}, v)
	stop := errors.New("stop")
	for _, plan := range gridPlans {
		calls := 0
		p := Params{K: 10, Ef: 400, Plan: plan, Cancel: func() error {
			if calls++; calls > 1 {
				return stop
			}
			return nil
		}}
		accept := make([]uint64, f.AcceptLen())
		for i := range accept {
			accept[i] = 0x5555555555555555
		}
		accept = maskTail(accept, n)
		var s Scratch
		if _, st, err := f.SearchFiltered(v[:dim], p, accept, &s, nil); plan != PlanFlat && !errors.Is(err, stop) {
			t.Errorf("%v: %v, %+v", plan, err, st)
		}
		// The scratch serves the next search.
		if got, _, err := f.SearchFiltered(v[:dim], Params{K: 10, Ef: 50, Plan: plan}, accept, &s, nil); err != nil || len(got) != 10 {
			t.Errorf("%v: %d results, %v", plan, len(got), err)
		}
	}
}

// hugePages takes memory of any size, none and an odd end included.
func TestHugePages(t *testing.T) {
	for _, size := range []int{0, 1, 1 << 20, 5<<20 + 3} {
		b := make([]byte, size)
		hugePages(b)
		if size > 4 {
			hugePages(b[3:])
		}
		for i, x := range b {
			if x != 0 {
				t.Fatalf("byte %d of %d is %d", i, size, x)
			}
		}
	}
}

// A plan is gone by as asked, and only those that are ways.
func TestForcedPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(109, 110))
	const n, dim = 5000, 8
	v := gaussian(rng, n, dim)
	f := buildField(t, Options{Dim: dim, GraphMin: 1, EfConstruction: 40, M: 8}, v)
	accept := acceptOf(t, f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
	var s Scratch
	for _, plan := range gridPlans {
		got, st, err := f.SearchFiltered(v[:dim], Params{K: 10, Plan: plan}, accept, &s, nil)
		if err != nil || len(got) != 10 || st.Plan != plan && st.Plan != PlanAbandoned {
			t.Errorf("%v: %d hits by %v, %v", plan, len(got), st.Plan, err)
		}
	}
	if _, _, err := f.SearchFiltered(v[:dim], Params{K: 10, Plan: PlanAbandoned}, accept, &s, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
}
