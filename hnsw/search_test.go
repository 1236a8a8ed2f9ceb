package hnsw

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

func acceptOf(t testing.TB, f *Field, docs ...uint32) []uint64 {
	t.Helper()
	return f.AcceptDocs(roaring.BitmapOf(docs...), nil)
}

// A01: k above what there is gives all there is, whatever ef says.
func TestA01KAboveCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	var s Scratch
	for _, graphMin := range []int{-1, 1} {
		v := gaussian(rng, 10, 8)
		f := buildField(t, Options{Dim: 8, GraphMin: graphMin}, v)
		for _, docs := range [][]uint32{{3, 7}, {7}, {}} {
			got, _, err := f.SearchFiltered(v[:8], Params{K: 5}, acceptOf(t, f, docs...), &s, nil)
			if err != nil || len(got) != len(docs) {
				t.Fatalf("docs %v: %v, %v", docs, got, err)
			}
			for _, nb := range got {
				if !slices.Contains(docs, nb.Doc) {
					t.Fatalf("docs %v: %v", docs, got)
				}
			}
		}
		v = gaussian(rng, 65, 768)
		f = buildField(t, Options{Dim: 768, GraphMin: graphMin}, v)
		for i := range 65 {
			got, _, err := f.Search(v[i*768:(i+1)*768], Params{K: 100, Ef: 10}, &s, nil)
			if err != nil || len(got) != 65 || got[0].Doc != uint32(i) {
				t.Fatalf("row %d: %d results, %v", i, len(got), err)
			}
			seen := map[uint32]bool{}
			for _, nb := range got {
				seen[nb.Doc] = true
			}
			if len(seen) != 65 {
				t.Fatalf("row %d: %d distinct", i, len(seen))
			}
		}
	}
}

// A10: every vector of a parallel build is found, by searches that run at once
// and share nothing but the field.
func TestA10Concurrent(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	const n, dim = 1000, 128
	v := gaussian(rng, n, dim)
	f := buildField(t, Options{Dim: dim, GraphMin: 1, Threads: 10}, v)
	var wg sync.WaitGroup
	missed := make([]int, 4)
	for g := range missed {
		wg.Go(func() {
			var s Scratch
			for i := g; i < n; i += len(missed) {
				if got, _ := graphSearch(t, f, v[i*dim:(i+1)*dim], 1, 200, &s); got[0].Doc != uint32(i) {
					missed[g]++
				}
			}
		})
	}
	wg.Wait()
	if m := missed[0] + missed[1] + missed[2] + missed[3]; m > 0 {
		t.Errorf("%d of %d vectors do not find themselves", m, n)
	}
}

// A12: a filter gets min(k, matches) results, far or near, rare or common.
func TestA12Filtered(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	const n, dim, k = 20_000, 16, 10
	v := clustered(rng, n+20, dim)
	queries := v[n*dim:]
	v = v[:n*dim]
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, EfConstruction: 60}, v)
	far := func() []uint32 { // the 200 farthest from the first query
		all := exactNearest(quant.L2, v, dim, queries[:dim], n, nil)
		docs := make([]uint32, 200)
		for i := range docs {
			docs[i] = all[n-1-i].Doc
		}
		return docs
	}()
	every := func(step int) (docs []uint32) {
		for i := 0; i < n; i += step {
			docs = append(docs, uint32(i))
		}
		return docs
	}
	var s Scratch
	plans := map[Plan]int{}
	for name, docs := range map[string][]uint32{
		"far": far, "two": {5, 17_000}, "half": every(2), "fifth": every(5), "all": every(1), "none": nil,
	} {
		accept := acceptOf(t, f, docs...)
		in := roaring.BitmapOf(docs...)
		r := recallOf(t, quant.L2, v, queries, dim, k, func(d int) bool { return in.Contains(uint32(d)) },
			func(q []float32) ([]Neighbor, Stats, error) {
				got, st, err := f.SearchFiltered(q, Params{K: k, Ef: 40}, accept, &s, nil)
				plans[st.Plan]++
				for _, nb := range got {
					if !in.Contains(nb.Doc) {
						t.Fatalf("%s: doc %d is not accepted", name, nb.Doc)
					}
				}
				return got, st, err
			})
		if len(docs) > 0 && r < 0.95 {
			t.Errorf("%s: recall %.3f", name, r)
		}
	}
	t.Log(plans)
	if plans[PlanGraph] == 0 || plans[PlanFlat] == 0 {
		t.Errorf("plans %v", plans)
	}
}

// Where the accepted nodes are all elsewhere there is no walk; one that was begun
// is given up in time for the scan, which brings every one of them.
func TestFilteredAbandons(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	const n, dim = 12_000, 16
	v := clustered(rng, n, dim)
	var docs []uint32
	for i := range n {
		if i%5 < 2 { // moved out of reach of the first half's queries
			v[i*dim] += 200
			docs = append(docs, uint32(i))
		}
	}
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, EfConstruction: 40, M: 8}, v)
	q := v[2*dim : 3*dim]
	want := exactNearest(quant.L2, v, dim, q, 10, func(d int) bool { return d%5 < 2 })
	var s Scratch
	got, st, err := f.SearchFiltered(q, Params{K: 10, Ef: 20}, acceptOf(t, f, docs...), &s, nil)
	if err != nil || overlap(got, want) != 10 {
		t.Fatalf("%v, want %v, %v", got, want, err)
	}
	// A look around the query tells that none is near.
	if limit := len(docs) * 5 / 4; st.Distances > limit || st.Plan != PlanFlat {
		t.Errorf("%d docs: %+v", len(docs), st)
	}
	// A walk that is begun all the same ends at its budget, or brings the others
	// by a scan.
	accept := acceptOf(t, f, docs...)
	for _, plan := range []Plan{PlanGraph, PlanTwoHop} {
		if err := f.bind(q, Params{K: 10, Ef: 20}, &s); err != nil {
			t.Fatal(err)
		}
		r := f.choose(Params{K: 10, Ef: 20}, len(docs))
		w := f.newWalk(Params{K: 10}, r.rule)
		w.accept, w.stats.Plan = accept, plan
		if err := f.descend(&w, &s, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := f.walkAccepted(&w, &s, r, 10, 5000); err != nil || !w.over || w.stats.Distances > 1500 {
			t.Errorf("%v: %+v, %v", plan, w.stats, err)
		}
		got, st, err := f.SearchFiltered(q, Params{K: 4800, Ef: 20, Plan: plan}, accept, &s, nil)
		if err != nil || len(got) != 4800 {
			t.Errorf("%v: %d of 4800 by %v, %v", plan, len(got), st.Plan, err)
		}
	}
}

func TestFilteredDuplicates(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 30))
	const n, dim = 12_000, 8
	v := clustered(rng, n, dim)
	for i := n / 2; i < n; i++ { // every vector twice
		copy(v[i*dim:(i+1)*dim], v[(i-n/2)*dim:])
	}
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 40}, v)
	var docs []uint32
	for i := n / 2; i < n; i++ {
		docs = append(docs, uint32(i))
	}
	accept := acceptOf(t, f, docs...) // the duplicates only, no node
	var s Scratch
	walked := 0
	r := recallOf(t, quant.L2, v, v[:20*dim], dim, 10, func(d int) bool { return d >= n/2 },
		func(q []float32) ([]Neighbor, Stats, error) {
			got, st, err := f.SearchFiltered(q, Params{K: 10, Ef: 32}, accept, &s, nil)
			if st.Plan == PlanGraph {
				walked++
			}
			return got, st, err
		})
	if r < 0.95 || walked == 0 {
		t.Errorf("recall %.3f, %d walks", r, walked)
	}
}

// A14: equal distances come in doc order, the same every time and after any
// segmenting of the same docs.
func TestA14Ties(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	const n, dim, k = 100, 8, 10
	v := gaussian(rng, n, dim)
	order := rng.Perm(n)
	for _, i := range order[:30] {
		copy(v[i*dim:(i+1)*dim], v[order[0]*dim:])
	}
	q := slices.Clone(v[order[0]*dim : (order[0]+1)*dim])
	same := slices.Sorted(slices.Values(order[:30]))
	var s Scratch
	for _, graphMin := range []int{-1, 1} {
		f := buildField(t, Options{Dim: dim, GraphMin: graphMin}, v)
		for range 100 {
			got, _, err := f.Search(q, Params{K: k}, &s, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, nb := range got {
				if int(nb.Doc) != same[i] {
					t.Fatalf("got %v, want docs %v", got, same[:k])
				}
			}
		}
		if graphMin == 1 {
			got, _ := graphSearch(t, f, q, k, 10, &s)
			for i, nb := range got {
				if int(nb.Doc) != same[i] {
					t.Fatalf("graph: got %v, want docs %v", got, same[:k])
				}
			}
		}
	}
}

// TargetRecall picks a beam from the calibration: wider for more, and what it
// promises holds for queries the calibration has not seen.
func TestTargetRecall(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	const n, dim, k = 6000, 32, 10
	all := gaussian(rng, n+60, dim)
	v, queries := all[:n*dim], all[n*dim:]
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 40, M: 8}, v)
	if in := f.Info(); len(in.Curve) < 5 || in.Oversample < 1 {
		t.Fatalf("info %+v", in)
	}
	var s Scratch
	last := 0
	for _, target := range []float32{0.8, 0.9, 0.97} {
		ef := 0
		r := recallOf(t, quant.L2, v, queries, dim, k, nil, func(q []float32) ([]Neighbor, Stats, error) {
			got, st, err := f.walkGraphOf(q, Params{K: k, TargetRecall: target}, &s)
			ef = st.Ef
			return got, st, err
		})
		t.Logf("target %v: ef %d, recall %.3f", target, ef, r)
		if r < float64(target)-0.04 || ef <= last {
			t.Errorf("target %v: ef %d after %d, recall %.3f", target, ef, last, r)
		}
		last = ef
	}
}

func TestSearchArguments(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	v := gaussian(rng, 50, 4)
	f := buildField(t, Options{Dim: 4}, v)
	var s Scratch
	for name, p := range map[string]Params{
		"k": {K: 0}, "ef": {K: 1, Ef: -1}, "recall": {K: 1, TargetRecall: 2}, "oversample": {K: 1, Oversample: -1},
	} {
		if _, _, err := f.Search(v[:4], p, &s, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := f.Search(v[:3], Params{K: 1}, &s, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("dimension: %v", err)
	}
	if _, _, err := f.SearchFiltered(v[:4], Params{K: 1}, nil, &s, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("short accept: %v", err)
	}
	for _, ords := range [][]uint32{{50}, {3, 3}, {4, 2}} {
		if _, _, err := f.SearchOrds(v[:4], Params{K: 1}, ords, &s, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("ords %v: %v", ords, err)
		}
	}
	// Bits past the end are no vectors.
	got, _, err := f.SearchFiltered(v[:4], Params{K: 99}, []uint64{^uint64(0)}, &s, nil)
	if err != nil || len(got) != 50 {
		t.Errorf("%d results, %v", len(got), err)
	}
}

func TestCancel(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	v := gaussian(rng, 3000, 8)
	f := buildField(t, Options{Dim: 8, GraphMin: 1, EfConstruction: 30}, v)
	stop := errors.New("stop")
	p := Params{K: 10, Ef: 500, Cancel: func() error { return stop }}
	var s Scratch
	accept := acceptOf(t, f, sequence(3000)...)
	for name, search := range map[string]func() error{
		"graph":    func() error { _, _, err := f.walkGraphOf(v[:8], p, &s); return err },
		"flat":     func() error { _, _, err := f.SearchFlat(v[:8], p, &s, nil); return err },
		"ords":     func() error { _, _, err := f.SearchOrds(v[:8], p, sequence(9), &s, nil); return err },
		"filtered": func() error { _, _, err := f.SearchFiltered(v[:8], p, accept, &s, nil); return err },
	} {
		if err := search(); !errors.Is(err, stop) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// walkGraphOf walks the graph even where the planner would scan.
func (f *Field) walkGraphOf(q []float32, p Params, s *Scratch) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return nil, Stats{}, err
	}
	return f.walkGraph(p, f.rescoring(p), f.ruleOf(p, f.rescoring(p)), s, nil)
}

func TestWarmSearchAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 38))
	const n, dim = 12_000, 24
	v := clustered(rng, n, dim)
	f := buildField(t, Options{Dim: dim, EfConstruction: 40, M: 8}, v)
	var half []uint32
	for i := 0; i < n; i += 2 {
		half = append(half, uint32(i))
	}
	accept := acceptOf(t, f, half...)
	var s Scratch
	dst := make([]Neighbor, 0, 16)
	p := Params{K: 10, Ef: 40}
	for name, search := range map[string]func() Stats{
		"search":   func() Stats { _, st, _ := f.Search(v[:dim], p, &s, dst[:0]); return st },
		"flat":     func() Stats { _, st, _ := f.SearchFlat(v[:dim], p, &s, dst[:0]); return st },
		"ords":     func() Stats { _, st, _ := f.SearchOrds(v[:dim], p, half, &s, dst[:0]); return st },
		"filtered": func() Stats { _, st, _ := f.SearchFiltered(v[:dim], p, accept, &s, dst[:0]); return st },
		"by graph": func() Stats {
			_, st, _ := f.SearchFiltered(v[:dim], Params{K: 10, Plan: PlanGraph}, accept, &s, dst[:0])
			return st
		},
		"by two hops": func() Stats {
			_, st, _ := f.SearchFiltered(v[:dim], Params{K: 10, Plan: PlanTwoHop}, accept, &s, dst[:0])
			return st
		},
	} {
		t.Log(name, search())
		if a := testing.AllocsPerRun(20, func() { search() }); a != 0 {
			t.Errorf("%s: %v allocations", name, a)
		}
	}
}

func TestAccept(t *testing.T) {
	rng := rand.New(rand.NewPCG(39, 40))
	v := gaussian(rng, 300, 4)
	sparse := make([]uint32, 300)
	for i := range sparse {
		sparse[i] = uint32(7*i + 3)
	}
	for _, docs := range [][]uint32{sequence(300), sparse} {
		for _, graphMin := range []int{-1, 1} {
			count := docs[299] + 1
			f := openSections(t, buildSections(t, Options{Dim: 4, GraphMin: graphMin}, v, docs), count)
			bm := roaring.New()
			words := make([]uint64, (count+63)/64)
			for doc := range count {
				if rng.IntN(3) == 0 {
					bm.Add(doc)
					words[doc/64] |= 1 << (doc % 64)
				}
			}
			a := f.AcceptDocs(bm, nil)
			if b := f.AcceptWords(words, nil); !slices.Equal(a, b) {
				t.Fatal("the two forms differ")
			}
			few := make([]uint64, f.AcceptLen()) // the docs are gone through, not the ords
			f.acceptAll(bm.ToArray(), few)
			if !slices.Equal(a, few) {
				t.Fatal("ord by ord is not doc by doc")
			}
			// The three exact searches agree.
			var sc Scratch
			p := Params{K: 20, Oversample: 4}
			var ords []uint32
			for ord := range uint32(300) {
				if a[ord/64]>>(ord%64)&1 == 1 {
					ords = append(ords, ord)
				}
			}
			byDocs, _, err1 := f.SearchDocs(v[:4], p, bm, &sc, nil)
			byOrds, _, err2 := f.SearchOrds(v[:4], p, ords, &sc, nil)
			filtered, _, err3 := f.SearchFiltered(v[:4], p, a, &sc, nil)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			if len(byDocs) != 20 || !slices.Equal(byDocs, byOrds) || !slices.Equal(byDocs, filtered) {
				t.Fatalf("docs %v, ords %v, filtered %v", byDocs, byOrds, filtered)
			}
			for ord := range uint32(300) {
				if got := a[ord/64]>>(ord%64)&1 == 1; got != bm.Contains(f.Doc(ord)) {
					t.Fatalf("ord %d doc %d: %v", ord, f.Doc(ord), got)
				}
				if back, ok := f.Ord(f.Doc(ord)); !ok || back != ord {
					t.Fatalf("ord %d comes back as %d", ord, back)
				}
			}
			if _, ok := f.Ord(count + 5); ok {
				t.Error("a doc past the end has a vector")
			}
		}
	}
}

// tiny is the field of the golden dump and of the corruption tests.
func tiny(t testing.TB) sections {
	rng := rand.New(rand.NewPCG(41, 42))
	v := make([]float32, 40*3)
	for i := range v {
		v[i] = float32(rng.IntN(9) - 4)
	}
	copy(v[30*3:], v[:6*3]) // duplicates
	docs := make([]uint32, 40)
	for i := range docs {
		docs[i] = uint32(2*i + i/10)
	}
	o := Options{Dim: 3, Metric: quant.L2, GraphMin: 1, M: 4, EfConstruction: 16, Seed: 7}
	return buildSections(t, o, v, docs)
}

var sectionNames = []string{
	sectionMeta, sectionCodes, sectionRaw, sectionLinks0, sectionUpper, sectionGroups, sectionDocs, sectionOrds,
}

func TestGolden(t *testing.T) {
	s := tiny(t)
	if err := openSections(t, s, 100).Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	var dump []byte
	for _, name := range sectionNames {
		dump = append(dump, "== "+name+"\n"...)
		dump = append(dump, hex.Dump(s[name].Bytes())...)
	}
	path := filepath.Join("testdata", "tiny.hex")
	if os.Getenv("QUARRY_REWRITE") != "" {
		if err := os.WriteFile(path, dump, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(dump) {
		t.Error("the bytes of a field have changed; if meant, raise the version and set QUARRY_REWRITE=1")
	}
}

// exercise opens s and does everything with it: errors are right, panics not.
func exercise(t testing.TB, s sections) {
	f, err := Open(s.section, 100)
	if err != nil {
		if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
			t.Fatalf("open: %v", err)
		}
		return
	}
	var sc Scratch
	q := make([]float32, f.Dim())
	q[0] = 1
	check := func(got []Neighbor, st Stats, err error) {
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("search: %v", err)
		}
		for _, nb := range got {
			if nb.Doc >= 100 || int(nb.Ord) >= f.Len() {
				t.Fatalf("neighbor %v", nb)
			}
		}
		if st.Hops > 1000 || st.Distances > 100_000 {
			t.Fatalf("stats %+v", st)
		}
	}
	p := Params{K: 5, Ef: 8}
	check(f.Search(q, p, &sc, nil))
	check(f.SearchFlat(q, p, &sc, nil))
	if f.HasGraph() {
		check(f.walkGraphOf(q, p, &sc))
	}
	for doc := range uint32(100) {
		if ord, ok := f.Ord(doc); ok && f.Len() > 0 {
			_ = f.Vector(ord)
		}
	}
	accept := f.AcceptWords([]uint64{0x5555_5555_5555_5555, 0xffff}, nil)
	check(f.SearchFiltered(q, p, accept, &sc, nil))
	if f.HasGraph() {
		check(f.walkAcceptedOf(q, p, accept, &sc))
	}
	if err := f.Verify(context.Background()); err != nil && !errors.Is(err, storage.ErrCorrupt) {
		t.Fatalf("verify: %v", err)
	}
}

func (f *Field) walkAcceptedOf(q []float32, p Params, accept []uint64, s *Scratch) ([]Neighbor, Stats, error) {
	if err := f.bind(q, p, s); err != nil {
		return nil, Stats{}, err
	}
	p.Plan = PlanGraph
	return f.filtered(p, accept, s, nil, route{matches: 5, share: 0.1, wide: 5, rule: beamRule{ef: 8, slack: noSlack}})
}

func TestCorruptBytes(t *testing.T) {
	s := tiny(t)
	for _, name := range sectionNames {
		b := s[name].Bytes()
		for i := range b {
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				b[i] ^= flip
				exercise(t, s)
				b[i] ^= flip
			}
		}
		whole := *s[name]
		for size := range len(b) {
			s[name].Truncate(size)
			if _, err := Open(s.section, 100); !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
				t.Fatalf("%s of %d bytes: %v", name, size, err)
			}
			*s[name] = whole
		}
		delete(s, name)
		if _, err := Open(s.section, 100); !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("without %s: %v", name, err)
		}
		s[name] = &whole
	}
	if _, err := Open(s.section, 10); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("too few docs: %v", err)
	}
}

// Every flipped bit that changes an invariant is found by Verify.
func TestVerifyFinds(t *testing.T) {
	s := tiny(t)
	for _, name := range []string{sectionCodes, sectionLinks0, sectionDocs, sectionOrds, sectionGroups} {
		b := s[name].Bytes()
		missed := 0
		for i := range b {
			b[i] ^= 0x40
			if f, err := Open(s.section, 100); err == nil && f.Verify(context.Background()) == nil {
				missed++
			}
			b[i] ^= 0x40
		}
		if missed > 0 {
			t.Errorf("%s: %d of %d flips go unseen", name, missed, len(b))
		}
	}
}

func FuzzOpen(f *testing.F) {
	s := tiny(f)
	f.Add(uint16(0), []byte{2}, s[sectionMeta].Bytes())
	f.Add(uint16(300), []byte{0xff, 0xff, 0xff, 0xff}, s[sectionMeta].Bytes())
	f.Fuzz(func(t *testing.T, at uint16, patch, meta []byte) {
		s := tiny(t)
		s[sectionMeta].Reset()
		s[sectionMeta].Write(meta)
		off := int(at)
		for _, name := range sectionNames[1:] {
			if b := s[name].Bytes(); off < len(b) {
				copy(b[off:], patch)
				break
			}
			off -= s[name].Len()
		}
		exercise(t, s)
	})
}
