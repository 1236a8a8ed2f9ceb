package hnsw

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// A field of 4-bit rows answers as one of 8-bit rows does, whatever the search,
// and its bytes do not depend on threads.
func TestNarrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	const n, dim, k = 4500, 64, 10
	all := clustered(rng, n+50, dim)
	v, queries := all[:n*dim], all[n*dim:]
	copy(v[5*dim:6*dim], v[77*dim:78*dim]) // duplicates
	copy(v[4000*dim:4001*dim], v[77*dim:78*dim])
	for _, m := range []quant.Metric{quant.Cosine, quant.Dot, quant.L2} {
		o := Options{Dim: dim, Metric: m, GraphMin: 1, EfConstruction: 60, Threads: 3}
		s := buildSections(t, o, v, sequence(n))
		f := openSections(t, s, n)
		if in := f.Info(); in.Bits != 4 || in.CodeBytes != 64 {
			t.Fatalf("%v: %d bits, %d bytes a row, want 4 and 64", m, in.Bits, in.CodeBytes)
		}
		if err := f.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
		var sc Scratch
		even := make([]uint64, f.AcceptLen())
		for ord := range uint32(n) {
			if f.Doc(ord)%2 == 0 {
				even[ord/64] |= 1 << (ord % 64)
			}
		}
		for name, c := range map[string]struct {
			least  float64
			accept func(doc int) bool
			search func(q []float32) ([]Neighbor, Stats, error)
		}{
			"graph": {0.93, nil, func(q []float32) ([]Neighbor, Stats, error) {
				return f.walkGraphOf(q, Params{K: k, TargetRecall: 0.97}, &sc)
			}},
			"flat": {0.99, nil, func(q []float32) ([]Neighbor, Stats, error) { return f.SearchFlat(q, Params{K: k}, &sc, nil) }},
			"filtered": {0.93, func(doc int) bool { return doc%2 == 0 }, func(q []float32) ([]Neighbor, Stats, error) {
				return f.SearchFiltered(q, Params{K: k, TargetRecall: 0.97}, even, &sc, nil)
			}},
		} {
			if r := recallOf(t, m, v, queries, dim, k, c.accept, c.search); r < c.least {
				t.Errorf("%v, %s: recall %.3f, want %v", m, name, r, c.least)
			}
		}
		dst := make([]Neighbor, 0, k)
		if a := testing.AllocsPerRun(20, func() {
			if _, _, err := f.walkGraphOf(queries[:dim], Params{K: k}, &sc); err != nil {
				t.Fatal(err)
			}
		}); a > 1 { // walkGraphOf has no dst
			t.Errorf("%v: %v allocations a warm walk", m, a)
		}
		if a := testing.AllocsPerRun(20, func() { dst, _, _ = f.Search(queries[:dim], Params{K: k}, &sc, dst[:0]) }); a != 0 {
			t.Errorf("%v: %v allocations a warm search", m, a)
		}
		if m != quant.L2 {
			continue
		}
		o.Threads = 1
		for name, b := range buildSections(t, o, v, sequence(n)) {
			if !bytes.Equal(b.Bytes(), s[name].Bytes()) {
				t.Errorf("%v: section %s depends on threads", m, name)
			}
		}
	}
}

// Bits are those asked for; by default 8 where 4 save no line, have no
// calibration, or cannot tell the vectors apart.
func TestBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 74))
	for _, c := range []struct {
		name             string
		n, dim, ask, got int
		spoil            func(v []float32)
	}{
		{"narrow rows", 4500, 56, 0, 8, nil},
		{"few vectors", 300, 64, 0, 8, nil},
		{"few vectors, asked", 300, 64, 4, 4, nil},
		{"asked", 4500, 64, 8, 8, nil},
		{"one component drowns the others", 4500, 64, 0, 8, func(v []float32) { v[0] = 400 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := gaussian(rng, c.n, c.dim)
			for i := 0; c.spoil != nil && i < c.n; i++ {
				c.spoil(v[i*c.dim : (i+1)*c.dim])
			}
			f := buildField(t, Options{Dim: c.dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 30, M: 8, Bits: c.ask}, v)
			if f.Info().Bits != c.got {
				t.Errorf("%d bits, want %d", f.Info().Bits, c.got)
			}
		})
	}
	flat := buildField(t, Options{Dim: 64, Bits: 4, GraphMin: -1}, gaussian(rng, 100, 64))
	if in := flat.Info(); in.Bits != 4 || in.Graph {
		t.Errorf("flat field: %+v", in)
	}
	if err := Build(context.Background(), Options{Dim: 3, Bits: 5}, nil, nil, sections{}.create); err == nil {
		t.Error("5 bits are accepted")
	}
}

// More effort or a higher target never gives a tighter rule.
func TestRules(t *testing.T) {
	c := calibration{oversample: 2, unit: 1, curve: []curvePoint{
		{ef: 14, slack: 0, recall: 0.8, distances: 300},
		{ef: 20, slack: 0.1, recall: 0.9, distances: 400},
		{ef: 50, slack: 0.2, recall: 0.9, distances: 800},
		{ef: 90, slack: 0.3, recall: 0.99, distances: 1500},
	}}
	last := beamRule{slack: 0}
	for ef := 1; ef <= 90; ef++ {
		r := c.ruleOf(ef)
		if r.ef != ef || r.slack < last.slack || r.slack > 0.3 || r.capacity() < last.capacity() {
			t.Fatalf("ef %d: %+v after %+v", ef, r, last)
		}
		last = r
	}
	if r := c.ruleOf(91); r.slack != noSlack || r.capacity() != 91 {
		t.Errorf("ef 91: %+v, want a plain beam", r)
	}
	last = beamRule{}
	for target := float32(0.01); target <= 1; target += 0.01 {
		r := c.ruleFor(target, 10)
		if r.ef < last.ef || r.slack < last.slack || r.ef > 90 {
			t.Fatalf("target %v: %+v after %+v", target, r, last)
		}
		if wide := c.ruleFor(target, 25); wide.ef != r.ef+15 || wide.slack != r.slack {
			t.Fatalf("target %v: %+v for 25 neighbors, %+v for 10", target, wide, r)
		}
		last = r
	}
	if r := c.ruleFor(0.9, 10); r.ef != 20 || r.slack != 0.1 {
		t.Errorf("target .9: %+v, want the second point", r)
	}
	var none calibration
	if r := none.ruleFor(0.9, 10); r.slack != noSlack || r.ef < 10 {
		t.Errorf("without a curve: %+v", r)
	}
	if r := none.ruleOf(7); r != (beamRule{ef: 7, slack: noSlack}) {
		t.Errorf("without a curve: %+v", r)
	}
}
