package fusion

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// S0.2 and S0.3.
func TestLegScores(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"cosine of equal", Cosine(1, 0), 1},
		{"cosine over 1", Cosine(1.0000001, 0), 1},
		{"cosine of orthogonal", Cosine(0, 0), 0},
		{"cosine of opposite", Cosine(-1, 0), 0},
		{"cosine at the floor", Cosine(.7, .7), 0},
		{"cosine midway above a floor", Cosine(.75, .5), .5},
		{"cosine under a floor", Cosine(.3, .5), 0},
		{"cosine with a floor of 1", Cosine(.25, 1), .25},
		{"cosine with a floor of NaN", Cosine(.25, nan), .25},
		{"cosine NaN", Cosine(nan, 0), 0},
		{"L2 of equal", L2(0), 1},
		{"L2 rounded below zero", L2(-1e-9), 1},
		{"L2 one apart", L2(1), .5},
		{"L2 infinitely apart", L2(inf), 0},
		{"L2 NaN", L2(nan), 0},
		{"dot of orthogonal", Dot(0), .5},
		{"dot 1", Dot(1), .75},
		{"dot -1", Dot(-1), .25},
		{"dot inf", Dot(inf), 1},
		{"dot -inf", Dot(-inf), 0},
		{"dot NaN", Dot(nan), 0},
		{"keyword nothing", Keyword(0, 1.2), 0},
		{"keyword all", Keyword(1, 1.2), 1},
		{"keyword over 1", Keyword(1.5, 1.2), 1},
		{"keyword below 0", Keyword(-1, 1.2), 0},
		{"keyword NaN", Keyword(nan, 1.2), 0},
		{"keyword with k1 0", Keyword(.3, 0), .3},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	// Every term once in a document of average length: x = 1/(1+k1).
	if got := Keyword(1/2.2, 1.2); math.Round(got*100)/100 != .65 {
		t.Errorf("keyword, typical: got %v, want 0.65", got)
	}
}

func TestLegScoresMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		check := func(name string, low, high float64) {
			if !(low >= 0 && high <= 1 && low <= high) {
				t.Fatalf("%s: %v then %v", name, low, high)
			}
		}
		a := rapid.Float64Range(-2, 2).Draw(t, "a")
		b := rapid.Float64Range(a, 2).Draw(t, "b")
		floor := rapid.Float64Range(0, .99).Draw(t, "floor")
		k1 := rapid.Float64Range(0, 5).Draw(t, "k1")
		scale := rapid.Float64Range(1e-3, 1e6).Draw(t, "scale")
		check("cosine", Cosine(a, floor), Cosine(b, floor))
		check("keyword", Keyword(a, k1), Keyword(b, k1))
		check("dot", Dot(a*scale), Dot(b*scale))
		check("l2", L2(b*scale), L2(a*scale))
	})
}

func TestAtLeastIsInclusive(t *testing.T) {
	hits := []Hit{{Score: .9}, {Score: .7}, {Score: .7}, {Score: .2}, {Score: 0}}
	for least, want := range map[float64]int{0: 5, -1: 5, .2: 4, .7: 3, .7000000000000001: 1, .9: 1, 1: 0, 1.1: 0} {
		if got := len(AtLeast(hits, least)); got != want {
			t.Errorf("at least %v: got %d hits, want %d", least, got, want)
		}
	}
	if got := AtLeast(hits, math.NaN()); len(got) != 0 {
		t.Errorf("at least NaN: got %d hits, want none", len(got))
	}
}

func TestExplain(t *testing.T) {
	legs := []Leg{
		{Name: "text", Weight: 2, Items: []Item{{Key: 1, Score: .6, Raw: 11.5}, {Key: 2, Score: .5, Raw: 9}}},
		{Name: "vector", Weight: 1, Items: []Item{{Key: 2, Score: .8, Raw: .8}}},
		{Weight: 0, Items: []Item{{Key: 1, Score: 1, Raw: 1}}},
	}
	var f Fuser
	hits, err := f.RRF(legs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		e := ExplainRRF(h, legs, Options{})
		sum := 0.0
		for _, p := range e.Parts {
			sum += p.Value
		}
		if e.Value != h.Score || math.Abs(sum-h.Score) > 1e-15 {
			t.Errorf("parts add up to %v, value %v, score %v", sum, e.Value, h.Score)
		}
	}
	got := ExplainRRF(hits[1], legs, Options{}).String()
	for _, want := range []string{"0.666667 rrf: sum of w/(60+rank), divided by the sum of w/61\n", "  0.666667 text: rank 1, weight 2; raw 11.5, leg score 0.6\n", "  0.000000 vector: not found, weight 1\n", "  0.000000 leg 2: switched off by weight 0; rank 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("explanation lacks %q:\n%s", want, got)
		}
	}
	hits, err = f.Weighted(legs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ExplainWeighted(hits[0], legs).String(); !strings.Contains(got, "  0.266667 vector: leg score 0.8, weight 1; rank 1, raw 0.8\n") {
		t.Errorf("explanation:\n%s", got)
	}
}
