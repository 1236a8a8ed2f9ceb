package bm25

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/bm25/pattern"
	"github.com/quarrysearch/quarry/storage"
)

// kinds is a small collection in two segments.
func kinds(t *testing.T) *world {
	t.Helper()
	w := &world{n: 8, starts: []uint32{0, 5, 8}}
	w.docs[0] = map[uint32]text{
		0: strings.Fields("river bank river"), 1: strings.Fields("rivers"), 2: strings.Fields("rover dog"),
		3: strings.Fields("stone"), 4: strings.Fields("stone stone stone stone"), 5: strings.Fields("drive"),
		6: strings.Fields("river"), 7: strings.Fields("irver"),
	}
	w.docs[1] = map[uint32]text{0: {"bank"}, 3: strings.Fields("stone bridge"), 6: {"old", "stone"}}
	w.cut(t)
	return w
}

// scores returns the score of each doc of the collection that matches.
func (w *world) scores(t *testing.T, q Query) map[uint32]float64 {
	t.Helper()
	b, err := Bind(q, w.segs, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint32]float64{}
	for seg := range w.segs {
		var s Scratch
		hits, err := b.TopK(seg, 100, Accept{}, 0, &s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			out[w.starts[seg]+h.Doc] = float64(h.Raw) / Scale
			if y := b.LegScore(h.Raw); y > 1 {
				t.Errorf("leg score %v", y)
			}
		}
	}
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-4*max(1, math.Abs(a)) }

var body = []FieldBoost{{"body", 1}}

func fuzzyWord(t *testing.T, word string, errs int) []*pattern.DFA {
	t.Helper()
	d, err := pattern.Fuzzy(word, errs, 0)
	if err != nil {
		t.Fatal(err)
	}
	return []*pattern.DFA{d}
}

// TestFuzzyScores: the word before its misspellings, by errors and idf.
func TestFuzzyScores(t *testing.T) {
	w := kinds(t)
	got := w.scores(t, Pattern{Fields: body, Match: fuzzyWord(t, "river", 1)})
	average := 14.0 / 8
	saturated := func(tf, length float64) float64 { return tf / (tf + 1.2*(0.25+0.75*length/average)) }
	idf := IDF(8, 2) // df of river; its misspellings are rarer and take it over
	want := map[uint32]float64{
		0: idf * saturated(2, 3), 6: idf * saturated(1, 1),
		1: idf * .8 * saturated(1, 1), 2: idf * .8 * saturated(1, 2), 7: idf * .8 * saturated(1, 1),
	}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for d, s := range want {
		if !near(got[d], s) {
			t.Errorf("doc %d: %v, want %v", d, got[d], s)
		}
	}
	if got := w.scores(t, Pattern{Fields: body, Match: fuzzyWord(t, "river", 1), MaxTerms: 1}); len(got) != 2 {
		t.Errorf("one expansion: %v", got)
	}
	if got := w.scores(t, Pattern{Fields: body, Match: fuzzyWord(t, "zzzzz", 2)}); len(got) != 0 {
		t.Errorf("nothing near: %v", got)
	}
}

// TestCombinedScores holds BM25F against its formula.
func TestCombinedScores(t *testing.T) {
	w := kinds(t)
	fields := []FieldBoost{{"body", 1}, {"title", 3}}
	got := w.scores(t, Terms{Fields: fields, Words: Words("stone"), Combined: true})
	idf := IDF(8, 2) // most docs with a field, greatest df
	x := func(weight, tf, length, average float64) float64 {
		return weight * tf / (1.2 * (0.25 + 0.75*length/average))
	}
	body, title := 14.0/8, 5.0/3
	for d, sum := range map[uint32]float64{
		3: x(.5, 1, 1, body) + x(1.5, 1, 2, title), 4: x(.5, 4, 4, body), 6: x(1.5, 1, 2, title),
	} {
		if want := idf * sum / (1 + sum); !near(got[d], want) {
			t.Errorf("doc %d: %v, want %v", d, got[d], want)
		}
		delete(got, d)
	}
	if len(got) > 0 {
		t.Errorf("also got %v", got)
	}
	one := w.scores(t, Terms{Fields: fields[:1], Words: Words("river", "bank"), Combined: true, Operator: And})
	same := w.scores(t, Terms{Fields: fields[:1], Words: Words("river", "bank"), Operator: And})
	if len(one) != 1 || !near(one[0], same[0]) {
		t.Errorf("one field: %v, want %v", one, same)
	}
}

func TestTreeScores(t *testing.T) {
	w := kinds(t)
	word := func(s string) Query { return Terms{Fields: body, Words: Words(s)} }
	river, stone := w.scores(t, word("river")), w.scores(t, word("stone"))
	dog := w.scores(t, word("dog"))
	expect := func(name string, q Query, want map[uint32]float64) {
		t.Helper()
		got := w.scores(t, q)
		for d, s := range want {
			if !near(got[d], s) {
				t.Errorf("%s: doc %d has %v, want %v", name, d, got[d], s)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	scaled := func(m map[uint32]float64, f float64) map[uint32]float64 {
		out := map[uint32]float64{}
		for d, s := range m {
			out[d] = s * f
		}
		return out
	}
	expect("boost", Boost{word("river"), 2.5}, scaled(river, 2.5))
	expect("boost in boost", Boost{Boost{word("river"), 2}, .25}, scaled(river, .5))
	expect("constant", Constant{word("river"), 3}, map[uint32]float64{0: 3, 6: 3})
	expect("constant of 0", Boost{Constant{word("stone"), 0}, 2}, map[uint32]float64{3: 2, 4: 2})
	least := 1.0 / Scale
	expect("filter alone", Boolean{Filter: []Query{word("stone")}}, map[uint32]float64{3: least, 4: least})
	expect("filter and should", Boolean{Filter: []Query{word("stone")}, Should: []Query{word("stone"), word("dog")}},
		map[uint32]float64{3: stone[3], 4: stone[4]})
	expect("filter narrows must", Boolean{Must: []Query{word("river")}, Filter: []Query{word("bank")}}, map[uint32]float64{0: river[0]})
	expect("only what is left out", Boolean{MustNot: []Query{word("dog")}}, nil)
	both := Boolean{Should: []Query{word("rover"), word("dog")}}
	sum := w.scores(t, word("rover"))[2] + dog[2]
	expect("should", both, map[uint32]float64{2: sum})
	expect("best", Best{Queries: []Query{both, word("dog"), word("nothing")}}, map[uint32]float64{2: sum})
	expect("best with the others", Best{Queries: []Query{both, word("dog")}, TieBreaker: .5}, map[uint32]float64{2: sum + dog[2]/2})
	expect("best of none", Best{}, nil)
}

func TestKindsRefuseNonsense(t *testing.T) {
	w := kinds(t)
	word := Terms{Fields: body, Words: Words("river")}
	deep := Query(word)
	for range MaxDepth + 1 {
		deep = Boost{deep, 1}
	}
	for name, q := range map[string]Query{
		"boost 0": Boost{word, 0}, "boost": Boost{word, -1}, "boost NaN": Boost{word, math.NaN()}, "boost high": Boost{word, 1e9},
		"boost of nothing": Boost{nil, 1}, "constant": Constant{word, math.Inf(1)}, "constant of nothing": Constant{},
		"tie": Best{Queries: []Query{word}, TieBreaker: 1.5}, "terms": Pattern{Fields: body, Match: fuzzyWord(t, "a", 1), MaxTerms: 5000},
		"fields": Pattern{Fields: body, Match: slices.Repeat(fuzzyWord(t, "a", 1), 3)}, "nil": Boolean{Must: []Query{nil}}, "deep": deep,
	} {
		if _, err := Bind(q, w.segs, nil); !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEachMatch finds what a look at every term finds, and reads few of them.
func TestEachMatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	_, f := buildField(t, randomDocs(rng, 4000, 5000, 6), 4000)
	terms := int(f.Stats().Terms)
	for i := range 200 {
		word := randomWords(rng, 5000, 1)[0]
		d, most := fuzzyWord(t, word, 1+i%2)[0], terms/10
		if i%4 > 1 {
			p, err := pattern.Wildcard([]string{"*" + word[len(word)-2:], word[:2] + "*" + word[len(word)-1:], "*" + word[2:4] + "*", "?" + word[1:3] + "*"}[i/4%4], nil)
			if err != nil {
				t.Fatal(err)
			}
			d = p
		}
		if i%4 > 0 {
			most = terms
		}
		want := map[string]int{}
		if err := f.EachTerm(nil, func(term []byte, df, ttf uint64) bool {
			if _, ok := d.Match(term); ok {
				want[string(term)] = int(df<<20 | ttf)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		scanned := 0
		if err := f.EachMatch(d, &scanned, func(term []byte, _ int, df, ttf uint64) bool {
			if want[string(term)] != int(df<<20|ttf) {
				t.Fatalf("%s: %q has df %d", word, term, df)
			}
			delete(want, string(term))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if len(want) > 0 || scanned > most {
			t.Fatalf("%s: not found %v; read %d of %d terms", word, want, scanned, terms)
		}
	}
	all, err := pattern.Wildcard("*", nil)
	if err != nil {
		t.Fatal(err)
	}
	scanned := MaxPatternScan - 10
	if err := f.EachMatch(all, &scanned, func([]byte, int, uint64, uint64) bool { return true }); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("a scan without end: %v", err)
	}
}

// TestHundredsOfWords: sums beyond 32 bits are counted in a coarser unit, pruned
// like others, and hardly differ.
func TestHundredsOfWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	w := newWorld(t, rng, 6000, 3000, 30, 2500)
	var s Scratch
	for round := range 6 {
		words := Words(randomWords(rng, 3000, 900)...)
		var q Query = Terms{Fields: bothFields, Words: words}
		switch round {
		case 1:
			q = Terms{Fields: bothFields, Words: words, Combined: true}
		case 2:
			q = Boolean{Should: []Query{q, Constant{Query: Terms{Fields: body, Words: words[:3]}, Score: 1000}}, Filter: []Query{Terms{Fields: body, Words: words[:40]}}}
		case 3:
			q = Best{Queries: []Query{q, Boost{q, 3}}, TieBreaker: .5}
		case 4:
			q = Terms{Fields: bothFields, Words: words, MinimumShouldMatch: 12}
		}
		b, err := Bind(Boost{q, 2}, w.segs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b.shift == 0 {
			t.Fatalf("round %d: a sum of %v fits", round, b.IDFSum())
		}
		floor := Floor(0)
		for seg := range w.segs {
			got, err := b.TopK(seg, 20, Accept{}, floor, &s, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := b.Exhaustive(seg, 20, Accept{}, floor)
			if err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 || !slices.Equal(got, want) {
				t.Fatalf("round %d: got %v, want %v", round, got, want)
			}
			checkExplain(t, b, seg, got)
			checkMatches(t, b, seg, Accept{}, &s)
			floor = Floor(got[len(got)-1].Raw)
			if round > 0 {
				continue
			}
			parts := 0.0 // the same in queries of few words
			for from := 0; from < len(words); from += 100 {
				part, err := Bind(Terms{Fields: bothFields, Words: words[from : from+100]}, w.segs, nil)
				if err != nil {
					t.Fatal(err)
				}
				raw, _, err := part.ScoreDoc(seg, got[0].Doc)
				if err != nil {
					t.Fatal(err)
				}
				parts += 2 * float64(raw)
			}
			if !near(float64(got[0].Raw)/Scale, parts/Scale) {
				t.Errorf("score %v, in parts %v", float64(got[0].Raw)/Scale, parts/Scale)
			}
		}
	}
}
