package bm25

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

func search1(t *testing.T, segs []SegmentFields, q Query) (*Bound, []Scored) {
	t.Helper()
	b, err := Bind(q, segs, nil)
	if err != nil {
		t.Fatal(err)
	}
	var hits []Scored
	for seg := range segs {
		if hits, err = b.TopK(seg, 10, Accept{}, 0, &Scratch{}, hits); err != nil {
			t.Fatal(err)
		}
	}
	return b, hits
}

func oneField(words ...string) Terms {
	return Terms{Fields: []FieldBoost{{"f", 1}}, Words: Words(words...)}
}

// C01: idf is positive however common the word.
func TestC01CommonWordsScoreAboveZero(t *testing.T) {
	_, f := buildField(t, map[uint32]text{0: {"alpha"}, 1: {"alpha", "beta"}, 2: {"alpha"}}, 3)
	_, hits := search1(t, []SegmentFields{{"f": f}}, oneField("alpha", "beta"))
	if len(hits) != 3 || hits[0].Doc != 1 || hits[2].Raw <= 0 {
		t.Fatalf("%v", hits)
	}
	for _, c := range []struct {
		docs, n uint64
		want    float64
	}{{3, 3, 0.1335}, {4, 2, 0.6931}} {
		if got := IDF(c.docs, c.n); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("IDF(%d, %d) = %v", c.docs, c.n, got)
		}
	}
	// So common that the contribution rounds to nothing.
	if c := contribution(float32(IDF(1<<32, 1<<32)), 1, 1); c != 1 {
		t.Errorf("contribution %d", c)
	}
}

// C02: empty documents, empty collections, missing fields.
func TestC02EmptyDocsGiveNoNaN(t *testing.T) {
	b := NewBuilder()
	for d := range uint32(3) {
		b.StartDoc(d)
		b.EndDoc()
	}
	s := sections{}
	if err := b.Write(s.create); err != nil {
		t.Fatal(err)
	}
	empty := openField(t, s, 3)
	if err := empty.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, segs := range [][]SegmentFields{nil, {{}}, {{"f": empty}}, {{"f": empty}, {}}} {
		for _, q := range []Query{oneField("x"), oneField(), Boolean{}, Boolean{MustNot: []Query{oneField("x")}},
			Phrase{Fields: []FieldBoost{{"f", 1}}, Words: PhraseOf("x", "y")}, Prefix{Fields: []FieldBoost{{"f", 1}}, Prefix: [][]byte{{}}}} {
			bound, hits := search1(t, segs, q)
			if len(hits) > 0 || math.IsNaN(bound.IDFSum()) || math.IsNaN(bound.LegScore(0)) {
				t.Fatalf("%v, %v", hits, bound.IDFSum())
			}
		}
	}
	_, f := buildField(t, map[uint32]text{0: {"x"}}, 1)
	bound, hits := search1(t, []SegmentFields{{"f": empty}, {"f": f}}, oneField("x"))
	if y := bound.LegScore(hits[0].Raw); len(hits) != 1 || !(y > 0 && y <= 1) {
		t.Fatalf("%v %v", hits, y)
	}
}

// C03: scores are those without the deleted docs once a merge dropped them.
func TestC03MergeForgetsDeletedDocs(t *testing.T) {
	docs := map[uint32]text{0: {"a", "b"}, 1: {"b", "c"}}
	_, clean := buildField(t, docs, 2)
	_, dirty := buildField(t, map[uint32]text{0: docs[0], 1: {"a", "a", "z"}, 2: docs[1], 3: docs[0]}, 4)
	s := sections{}
	if err := Merge(s.create, []MergeInput{{dirty, []uint32{0, Dropped, 1, Dropped}}}, 2, 2); err != nil {
		t.Fatal(err)
	}
	_, want := search1(t, []SegmentFields{{"f": clean}}, oneField("a", "b"))
	_, got := search1(t, []SegmentFields{{"f": openField(t, s, 2)}}, oneField("a", "b"))
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("%v, want %v", got, want)
	}
}

func TestNormalize(t *testing.T) {
	const sum = 9 * Scale
	last := -1.0
	for raw := int64(0); raw <= sum; raw++ {
		y := Normalize(raw, sum, 1.2)
		if y <= last {
			t.Fatalf("not strictly monotone at %d", raw)
		}
		last = y
	}
	if last != 1 {
		t.Fatalf("y at the sum is %v", last)
	}
	// Every term once in a doc of average length: tf part 1/(1+k1).
	if y := Normalize(int64(math.Round(sum/2.2)), sum, 1.2); math.Abs(y-0.647) > 0.001 {
		t.Fatalf("%v", y)
	}
}

func TestLogIsTheLogarithm(t *testing.T) {
	for x := 1.0; x < 1e12; x *= 1.0137 {
		if got, want := naturalLog(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Max(want, 1) {
			t.Fatalf("ln %v = %v, want %v", x, got, want)
		}
	}
}

func TestContributionIsMonotone(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		w := float32(rng.Float64() * 20)
		if w == 0 {
			continue
		}
		inv := inverseNorms(Params{rng.Float64() * 3, rng.Float64()}, rng.Float64()*200)
		f, n := 1+rng.Uint32N(1000), rng.IntN(255)
		c := contribution(w, f, inv[n])
		if contribution(w, f+1, inv[n]) < c || contribution(w, f, inv[n+1]) > c || c > fullContribution(w) || c == 0 {
			t.Fatalf("w %v f %d norm %d", w, f, n)
		}
	}
}

func TestBindErrors(t *testing.T) {
	deep := Query(Boolean{})
	for range MaxDepth + 1 {
		deep = Boolean{Must: []Query{deep}}
	}
	f := []FieldBoost{{"f", 1}}
	for name, c := range map[string]struct {
		q    Query
		p    map[string]Params
		want error
	}{
		"nil":             {nil, nil, storage.ErrInvalid},
		"no fields":       {Terms{}, nil, storage.ErrInvalid},
		"field twice":     {Terms{Fields: []FieldBoost{{"f", 1}, {"f", 2}}}, nil, storage.ErrInvalid},
		"negative boost":  {Terms{Fields: []FieldBoost{{"f", -1}}}, nil, storage.ErrInvalid},
		"infinite boost":  {Terms{Fields: f, Words: []Word{{Terms: [][]byte{{1}}, Boost: math.Inf(1)}}}, nil, storage.ErrInvalid},
		"huge boost":      {Terms{Fields: f, Words: []Word{{Terms: [][]byte{{1}}, Boost: 1e9}}}, nil, storage.ErrInvalid},
		"terms mismatch":  {Terms{Fields: f, Words: []Word{{Terms: make([][]byte, 2)}}}, nil, storage.ErrInvalid},
		"bad k1":          {oneField("x"), map[string]Params{"f": {K1: -1}}, storage.ErrInvalid},
		"bad b":           {oneField("x"), map[string]Params{"f": {B: math.NaN()}}, storage.ErrInvalid},
		"deep":            {deep, nil, storage.ErrTooLarge},
		"many expansions": {Prefix{Fields: f, Prefix: [][]byte{{1}}, MaxTerms: MaxPrefixTerms + 1}, nil, storage.ErrInvalid},
		"negative should": {Boolean{MinimumShouldMatch: -1}, nil, storage.ErrInvalid},
	} {
		if _, err := Bind(c.q, nil, c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Sums of hundreds of heavy words do not fit 32 bits; the plain scorer takes
// over.
func TestManyWordsDoNotOverflow(t *testing.T) {
	var words []string
	docs := map[uint32]text{}
	for i := range 700 {
		words = append(words, word(i))
	}
	docs[3] = words
	docs[4] = words[:350]
	_, f := buildField(t, docs, 100)
	q := Terms{Fields: []FieldBoost{{"f", 1}}}
	for _, w := range Words(words...) {
		w.Boost = 50
		q.Words = append(q.Words, w)
	}
	b, hits := search1(t, []SegmentFields{{"f": f}}, q)
	if b.IDFSum() < 1<<12 || len(hits) != 2 || hits[0].Doc != 3 || float64(hits[0].Raw) < 0.3*b.IDFSum()*Scale {
		t.Fatalf("%v %v", hits, b.IDFSum())
	}
}

// A query that says one word thousands of times is text that somebody pasted:
// the word's weight stops growing where a contribution is full.
func TestRepeatedWordsAreNoError(t *testing.T) {
	_, f := buildField(t, map[uint32]text{1: {"a", "b"}, 2: {"b"}}, 10)
	q := Terms{Fields: []FieldBoost{{"f", 1}}, Words: Words("a")}
	for range 16_000 {
		q.Words = append(q.Words, Words("b")...)
	}
	if _, hits := search1(t, []SegmentFields{{"f": f}}, q); len(hits) != 2 {
		t.Fatalf("%v", hits)
	}
	q.Words = Words("b")
	q.Words[0].Boost = 1e9 // asked for, not pasted
	if _, err := Bind(q, []SegmentFields{{"f": f}}, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
}

// ways are queries that a segment is searched for in all its ways.
func ways() map[string]Query {
	common := []string{word(0), word(1), word(2)}
	return map[string]Query{
		"or":     Terms{Fields: bothFields, Words: Words(common...)},
		"and":    Terms{Fields: bothFields[:1], Words: Words(common...), Operator: And},
		"tree":   Terms{Fields: bothFields, Words: Words(common...), Operator: And},
		"phrase": Phrase{Fields: bothFields[:1], Words: PhraseOf(common[:2]...)},
		"prefix": Prefix{Fields: bothFields, Prefix: [][]byte{[]byte("w")}},
	}
}

func TestWarmSearchAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	w := newWorld(t, rng, 20000, 500, 10)
	words := make([]uint64, 20000/64+1)
	for i := range words {
		words[i] = rng.Uint64()
	}
	for name, q := range ways() {
		b, err := Bind(q, w.segs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var s Scratch
		dst := make([]Scored, 0, 10)
		for what, accept := range map[string]Accept{"all": {}, "bits": AcceptBits(words), "docs": AcceptDocs([]uint32{5, 900, 901, 17000})} {
			run := func() {
				if dst, err = b.TopK(0, 10, accept, 0, &s, dst[:0]); err != nil {
					t.Fatal(err)
				}
			}
			count := func() {
				if _, err := b.Count(0, accept, &s); err != nil {
					t.Fatal(err)
				}
			}
			run()
			if what == "all" && len(dst) != 10 {
				t.Fatalf("%s: %d hits", name, len(dst))
			}
			if n := testing.AllocsPerRun(20, run); n != 0 {
				t.Errorf("%s with %s: %v allocations", name, what, n)
			}
			if n := testing.AllocsPerRun(20, count); n != 0 {
				t.Errorf("count of %s with %s: %v allocations", name, what, n)
			}
		}
	}
}

// A search that is told to stop at one of its questions ends with what it was
// told, and its Scratch serves the next one.
func TestCanceled(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	w := newWorld(t, rng, 20000, 500, 10)
	stop := errors.New("stop")
	for name, q := range ways() {
		b, err := Bind(q, w.segs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var s Scratch
		want, err := b.TopK(0, 20_000, Accept{}, 0, &s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for at := 1; ; at++ {
			asked := 0
			s.Cancel = func() error {
				if asked++; asked == at {
					return stop
				}
				return nil
			}
			got, err := b.TopK(0, 20_000, Accept{}, 0, &s, nil)
			if asked < at {
				if at == 1 || err != nil || !slices.Equal(got, want) {
					t.Errorf("%s, asked %d times: %d hits, want %d: %v", name, asked, len(got), len(want), err)
				}
				break
			}
			if !errors.Is(err, stop) || asked != at {
				t.Fatalf("%s, stopped at question %d of %d: %v", name, at, asked, err)
			}
		}
		s.Cancel = func() error { return stop }
		if _, err := b.Count(0, Accept{}, &s); !errors.Is(err, stop) {
			t.Errorf("count of %s: %v", name, err)
		}
		if _, err := b.Matches(0, Accept{}, &s, nil); !errors.Is(err, stop) {
			t.Errorf("matches of %s: %v", name, err)
		}
	}
}
