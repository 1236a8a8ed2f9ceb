package bm25

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bm25/pattern"
)

// world is a collection cut into segments, in two fields.
type world struct {
	docs   [2]map[uint32]text
	n      uint32
	starts []uint32 // first doc of each segment, and n
	segs   []SegmentFields
}

func newWorld(t testing.TB, rng *rand.Rand, n uint32, vocabulary, length int, starts ...uint32) *world {
	w := &world{n: n, starts: append(append([]uint32{0}, starts...), n)}
	w.docs[0] = randomDocs(rng, n, vocabulary, length)
	w.docs[1] = randomDocs(rng, n, vocabulary, 4)
	w.cut(t)
	return w
}

func (w *world) cut(t testing.TB) {
	w.segs = nil
	for i, from := range w.starts[:len(w.starts)-1] {
		to := w.starts[i+1]
		s := SegmentFields{}
		for k, name := range []string{"body", "title"} {
			part := map[uint32]text{}
			for d := from; d < to; d++ {
				if words, ok := w.docs[k][d]; ok {
					part[d-from] = words
				}
			}
			if len(part) > 0 {
				_, s[name] = buildField(t, part, to-from)
			}
		}
		w.segs = append(w.segs, s)
	}
}

func randomWords(rng *rand.Rand, vocabulary, n int) []string {
	z := zipf{rng, float64(vocabulary + 3), 2}
	words := make([]string, n)
	for i := range words {
		words[i] = word(z.next())
	}
	return words
}

var bothFields = []FieldBoost{{"body", 1}, {"title", 2.5}}

// randomQuery makes one of every kind of query.
func randomQuery(rng *rand.Rand, docs map[uint32]text, n uint32, vocabulary, depth int) Query {
	fields := bothFields
	if rng.IntN(2) == 0 {
		fields = fields[:1]
	}
	switch kind := rng.IntN(18); {
	case kind == 9:
		return Terms{Fields: fields, Words: Words(randomWords(rng, vocabulary, 1+rng.IntN(4))...), Combined: true, Operator: Operator(rng.IntN(2))}
	case kind == 10:
		return randomPattern(rng, fields, vocabulary)
	case kind > 10 && kind < 15 && depth > 0:
		return randomWrap(rng, docs, n, vocabulary, depth-1, kind)
	case kind < 3:
		return Terms{Fields: fields, Words: Words(randomWords(rng, vocabulary, 1+rng.IntN(7))...)}
	case kind == 3:
		return Terms{Fields: fields, Words: Words(randomWords(rng, vocabulary, 1+rng.IntN(3))...), Operator: And}
	case kind == 4:
		words := Words(randomWords(rng, vocabulary, 2+rng.IntN(4))...)
		return Terms{Fields: fields, Words: words, MinimumShouldMatch: rng.IntN(4)}
	case kind < 7:
		words := randomWords(rng, vocabulary, 2+rng.IntN(2))
		if d := docs[rng.Uint32N(n)]; len(d) > 3 {
			at := rng.IntN(len(d) - 2)
			words = slices.Clone(d[at : at+2+rng.IntN(2)])
		}
		p := Phrase{Fields: fields, Words: PhraseOf(words...), Slop: uint32(rng.IntN(3) * rng.IntN(4))}
		if p.LastPrefix = rng.IntN(3) == 0; p.LastPrefix {
			last := &p.Words[len(words)-1].Terms[0]
			*last = (*last)[:1+rng.IntN(len(*last))]
			p.MaxTerms = rng.IntN(12)
		}
		return p
	case kind == 7:
		return Prefix{Fields: fields, Prefix: [][]byte{[]byte(randomWords(rng, vocabulary, 1)[0][:1+rng.IntN(3)])}, MaxTerms: rng.IntN(12)}
	}
	q := Boolean{MinimumShouldMatch: rng.IntN(3)}
	if depth == 0 {
		return q
	}
	for _, part := range []*[]Query{&q.Must, &q.Filter, &q.Should, &q.MustNot} {
		for range rng.IntN(3) {
			*part = append(*part, randomQuery(rng, docs, n, vocabulary, depth-1))
		}
	}
	return q
}

// randomPattern makes a word with errors, a wildcard or a regular expression.
func randomPattern(rng *rand.Rand, fields []FieldBoost, vocabulary int) Query {
	word := []rune(randomWords(rng, vocabulary, 1)[0])
	var d *pattern.DFA
	var err error
	switch rng.IntN(3) {
	case 0:
		i := rng.IntN(len(word))
		word[i] = '0'
		d, err = pattern.Fuzzy(string(word), 1+rng.IntN(2), rng.IntN(3))
	case 1:
		d, err = pattern.Wildcard(string(word[:2])+"*"+string(word[len(word)-1:])+"?", nil)
	default:
		d, err = pattern.Regexp("w0.*("+string(word[4:])+"|[ab]1.)", nil)
	}
	if err != nil {
		panic(err)
	}
	return Pattern{Fields: fields, Match: []*pattern.DFA{d}, MaxTerms: rng.IntN(12)}
}

// randomWrap makes a query of other queries.
func randomWrap(rng *rand.Rand, docs map[uint32]text, n uint32, vocabulary, depth, kind int) Query {
	q := randomQuery(rng, docs, n, vocabulary, depth)
	switch kind {
	case 11:
		return Constant{Query: q, Score: float64(rng.IntN(3)) / 2}
	case 12:
		return Boost{Query: q, Factor: 0.1 + 3*rng.Float64()}
	}
	best := Best{Queries: []Query{q}, TieBreaker: []float64{0, 0.3, 1}[rng.IntN(3)]}
	for range rng.IntN(3) {
		best.Queries = append(best.Queries, randomQuery(rng, docs, n, vocabulary, depth))
	}
	return best
}

func randomAccept(rng *rand.Rand, n uint32) (Accept, string) {
	share := []float64{0.001, 0.02, 0.3, 0.9}[rng.IntN(4)]
	var docs []uint32
	words := make([]uint64, (n+63)/64)
	for d := range n {
		if rng.Float64() < share {
			docs = append(docs, d)
			words[d/64] |= 1 << (d % 64)
		}
	}
	switch rng.IntN(3) {
	case 0:
		return AcceptBits(words), fmt.Sprint("bits ", share)
	case 1:
		return AcceptDocs(docs), fmt.Sprint("docs ", share)
	}
	return Accept{}, "all"
}

func TestPrunedEqualsExhaustive(t *testing.T) {
	shapes := []struct {
		n          uint32
		vocabulary int
		length     int
		queries    int
	}{{1, 3, 3, 20}, {200, 20, 10, 300}, {3000, 400, 12, 240}, {30000, 3000, 8, 90}}
	var s Scratch
	kinds := map[string]int{}
	for seed, shape := range shapes {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		cuts := []uint32{}
		for range rng.IntN(3) {
			cuts = append(cuts, rng.Uint32N(shape.n))
		}
		slices.Sort(cuts)
		w := newWorld(t, rng, shape.n, shape.vocabulary, shape.length, slices.Compact(cuts)...)
		for i := range shape.queries {
			q := randomQuery(rng, w.docs[0], w.n, shape.vocabulary, 2)
			b, err := Bind(q, w.segs, nil)
			if err != nil {
				t.Fatal(err)
			}
			k := []int{1, 3, 10, 100, 1000}[rng.IntN(5)]
			floor := Floor(0)
			for seg := range w.segs {
				accept, name := randomAccept(rng, max(b.docs[seg], 1))
				got, err := b.TopK(seg, k, accept, floor, &s, nil)
				if err != nil {
					t.Fatal(err)
				}
				want, err := b.Exhaustive(seg, k, accept, floor)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("shape %d query %d %#v\nk %d floor %d seg %d accept %s\n%s", seed, i, q, k, floor, seg, name, d)
				}
				if len(got) > 0 {
					kinds[q.kind()]++
				}
				checkMatches(t, b, seg, accept, &s)
				checkExplain(t, b, seg, got)
				if len(got) == k {
					floor = Floor(got[k-1].Raw)
				}
			}
		}
	}
	for _, kind := range []string{"terms", "phrase", "prefix", "boolean", "pattern", "best", "constant", "boost"} {
		if kinds[kind] < 10 {
			t.Errorf("only %d queries of kind %s had hits", kinds[kind], kind)
		}
	}
}

func checkMatches(t *testing.T, b *Bound, seg int, accept Accept, s *Scratch) {
	t.Helper()
	all, err := b.Exhaustive(seg, math.MaxInt, accept, 0)
	if err != nil {
		t.Fatal(err)
	}
	set, err := b.Matches(seg, accept, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.Count(seg, accept, s)
	if err != nil || n != len(all) || popcount(set) != n {
		t.Fatalf("count %d, bits %d, want %d: %v", n, popcount(set), len(all), err)
	}
	for _, h := range all {
		if set[h.Doc/64]>>(h.Doc%64)&1 == 0 {
			t.Fatalf("doc %d is not among the matches", h.Doc)
		}
	}
}

func checkExplain(t *testing.T, b *Bound, seg int, hits []Scored) {
	t.Helper()
	for _, h := range hits[:min(len(hits), 3)] {
		raw, ok, err := b.ScoreDoc(seg, h.Doc)
		if err != nil || !ok || raw != h.Raw {
			t.Fatalf("ScoreDoc(%d) = %d, %v, %v; want %d", h.Doc, raw, ok, err, h.Raw)
		}
		e, err := b.Explain(seg, h.Doc)
		if err != nil {
			t.Fatal(err)
		}
		checkSum(t, e)
		if y := b.LegScore(h.Raw); !(y > 0 && y <= 1) {
			t.Fatalf("leg score %v", y)
		}
		if float64(h.Raw) > b.IDFSum()*Scale {
			t.Fatalf("raw %d above the sum of idf %v", h.Raw, b.IDFSum())
		}
	}
}

func checkSum(t *testing.T, e *Explanation) {
	t.Helper()
	if len(e.Details) == 0 {
		return
	}
	var sum int64
	for i := range e.Details {
		sum += e.Details[i].Raw
		checkSum(t, &e.Details[i])
	}
	if sum != e.Raw {
		t.Fatalf("%s: %d, details sum up to %d", e.Description, e.Raw, sum)
	}
}

// TestExhaustiveEqualsTheFormula scores from the texts alone.
func TestExhaustiveEqualsTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	w := newWorld(t, rng, 500, 50, 12, 100, 350)
	params := map[string]Params{"body": {K1: 0.9, B: 0.4}}
	for range 50 {
		words := randomWords(rng, 50, 1+rng.IntN(4))
		b, err := Bind(Terms{Fields: bothFields, Words: Words(words...)}, w.segs, params)
		if err != nil {
			t.Fatal(err)
		}
		want := map[uint32]float64{}
		sum := 0.0
		for k, weight := range []float64{1 / 3.5, 2.5 / 3.5} {
			p := []Params{{0.9, 0.4}, DefaultParams()}[k]
			with, total := 0.0, 0.0
			for _, d := range w.docs[k] {
				if len(d) > 0 {
					with++
					total += float64(len(d))
				}
			}
			for _, q := range words {
				df := 0.0
				for _, d := range w.docs[k] {
					if slices.Contains(d, q) {
						df++
					}
				}
				idf := math.Log(1 + (with-df+0.5)/(df+0.5))
				sum += weight * idf
				for doc, d := range w.docs[k] {
					tf := 0.0
					for _, x := range d {
						if x == q {
							tf++
						}
					}
					if tf > 0 {
						length := float64(decodeNorm(encodeNorm(uint32(len(d)))))
						want[doc] += weight * idf * tf / (tf + p.K1*(1-p.B+p.B*length/(total/with)))
					}
				}
			}
		}
		if math.Abs(b.IDFSum()-sum) > 1e-4 {
			t.Fatalf("sum of idf %v, want %v", b.IDFSum(), sum)
		}
		n := 0
		for seg := range w.segs {
			hits, err := b.Exhaustive(seg, 1000, Accept{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hits {
				n++
				if got := float64(h.Raw) / Scale; math.Abs(got-want[h.Doc+w.starts[seg]]) > 1e-5 {
					t.Fatalf("%v doc %d: %v, want %v", words, h.Doc+w.starts[seg], got, want[h.Doc+w.starts[seg]])
				}
			}
		}
		if n != len(want) {
			t.Fatalf("%d hits of %d", n, len(want))
		}
	}
}

// global searches all segments as a caller would, and numbers docs globally.
func (w *world) global(t *testing.T, q Query, k int) []Scored {
	t.Helper()
	b, err := Bind(q, w.segs, nil)
	if err != nil {
		t.Fatal(err)
	}
	var s Scratch
	var all []Scored
	floor := Floor(0)
	for seg := range w.segs {
		hits, err := b.TopK(seg, k, Accept{}, floor, &s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			all = append(all, Scored{h.Doc + w.starts[seg], h.Raw})
		}
		slices.SortFunc(all, func(x, y Scored) int {
			if x.Raw != y.Raw {
				return int(y.Raw - x.Raw)
			}
			return int(x.Doc) - int(y.Doc)
		})
		all = all[:min(len(all), k)]
		if len(all) == k {
			floor = Floor(all[k-1].Raw)
		}
	}
	return all
}

func TestSegmentingDoesNotChangeTheResult(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	const n = 6000
	w := newWorld(t, rng, n, 300, 10)
	var queries []Query
	for range 60 {
		queries = append(queries, randomQuery(rng, w.docs[0], n, 300, 2))
	}
	var want [][]Scored
	for _, q := range queries {
		want = append(want, w.global(t, q, 20))
	}
	for _, starts := range [][]uint32{{0, 3000, n}, {0, 1, 2, 500, 501, 2047, 5999, n}, {0, 0, 4096, n, n}} {
		w.starts = starts
		w.cut(t)
		for i, q := range queries {
			if d := cmp.Diff(want[i], w.global(t, q, 20)); d != "" {
				t.Fatalf("cut at %v, %#v:\n%s", starts, q, d)
			}
		}
	}
}

// TestPhrasePrefix: the last word of a phrase may go on, in the most frequent
// terms; no doc scores above one with the phrase as it stands in full.
func TestPhrasePrefix(t *testing.T) {
	docs := []text{
		{"new", "york", "is", "large"}, {"new", "yorkshire", "pudding"}, {"york", "new"}, {"new", "york", "new", "york"},
		{"new", "old", "york"}, {"new"}, {"yorkshire"}, {"new", "yeast"},
	}
	of := map[uint32]text{}
	for i, d := range docs {
		of[uint32(i)] = d
	}
	_, f := buildField(t, of, uint32(len(docs)))
	for _, c := range []struct {
		words []string
		slop  uint32
		max   int
		want  []uint32
	}{
		{[]string{"new", "yor"}, 0, 0, []uint32{3, 1, 0}},
		{[]string{"new", "yor"}, 0, 1, []uint32{3, 0}},
		{[]string{"new", "y"}, 0, 0, []uint32{3, 7, 1, 0}},
		{[]string{"new", "yor"}, 1, 0, []uint32{3, 1, 4, 0}},
		{[]string{"new", "york"}, 0, 0, []uint32{3, 1, 0}},
		{[]string{"new", "x"}, 0, 0, nil},
		{[]string{"gone", "yor"}, 0, 0, nil},
		{[]string{"yorks"}, 0, 0, []uint32{6, 1}},
	} {
		q := Phrase{Fields: []FieldBoost{{"f", 1}}, Words: PhraseOf(c.words...), Slop: c.slop, LastPrefix: true, MaxTerms: c.max}
		b, err := Bind(q, []SegmentFields{{"f": f}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.TopK(0, 10, Accept{}, 0, &Scratch{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var ids []uint32
		for _, h := range got {
			ids = append(ids, h.Doc)
			if h.Raw > b.idfSum {
				t.Errorf("%v: score %d above the sum %d", c.words, h.Raw, b.idfSum)
			}
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%v~%d, %d terms: %v, want %v", c.words, c.slop, c.max, ids, c.want)
		}
	}
	if _, err := Bind(Phrase{Fields: []FieldBoost{{"f", 1}}, LastPrefix: true, MaxTerms: MaxPrefixTerms + 1}, nil, nil); err == nil {
		t.Error("too many terms pass")
	}
}

func TestPhraseCounts(t *testing.T) {
	for _, c := range []struct {
		doc   text
		query []string
		slop  uint32
		want  uint32
	}{
		{text{"a", "b"}, []string{"a", "b"}, 0, 1},
		{text{"b", "a"}, []string{"a", "b"}, 0, 0},
		{text{"b", "a"}, []string{"a", "b"}, 1, 0},
		{text{"b", "a"}, []string{"a", "b"}, 2, 1},
		{text{"a", "x", "b"}, []string{"a", "b"}, 0, 0},
		{text{"a", "x", "b"}, []string{"a", "b"}, 1, 1},
		{text{"a", "b", "a", "b", "a"}, []string{"a", "b"}, 0, 2},
		{text{"a", "a", "a"}, []string{"a", "a"}, 0, 2},
		{text{"a", "a"}, []string{"a", "a", "a"}, 0, 0},
		{text{"a", "x"}, []string{"a", "a"}, 1, 0},
		{text{"to", "be", "or", "not", "to", "be"}, []string{"to", "be"}, 0, 2},
		{text{"a", "b", "c"}, []string{"c", "b", "a"}, 4, 1},
		{text{"a", "b", "c"}, []string{"c", "b", "a"}, 3, 0},
	} {
		_, f := buildField(t, map[uint32]text{0: c.doc}, 1)
		b, err := Bind(Phrase{Fields: []FieldBoost{{"f", 1}}, Words: PhraseOf(c.query...), Slop: c.slop}, []SegmentFields{{"f": f}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := uint32(0)
		var r leafRun
		if _, ok := r.start(b, 0, &b.leaves[0], make([]cursor, 8)); ok && r.align(0) == 0 {
			got = r.phraseFreq(&Scratch{})
		}
		if got != c.want {
			t.Errorf("%v in %v with slop %d: %d, want %d", c.query, c.doc, c.slop, got, c.want)
		}
	}
}
