package sparse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// sections holds the bytes of a field.
type sections map[string]*bytes.Buffer

func (s sections) create(name string) (io.Writer, error) {
	s[name] = new(bytes.Buffer)
	return s[name], nil
}

func (s sections) open(docs uint32) (*Field, error) {
	return Open(func(name string) ([]byte, bool) {
		b, ok := s[name]
		if !ok {
			return nil, false
		}
		return b.Bytes(), true
	}, docs)
}

// write makes a field of vectors by doc; empty ones are left out.
func write(t testing.TB, vectors []Vector) (*Field, sections) {
	t.Helper()
	s := sections{}
	var docs []uint32
	var vs []Vector
	for d, v := range vectors {
		if len(v) > 0 {
			docs, vs = append(docs, uint32(d)), append(vs, v)
		}
	}
	if err := Write(s.create, docs, vs); err != nil {
		t.Fatal(err)
	}
	f, err := s.open(uint32(len(vectors)))
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

// corpus draws vectors whose terms follow Zipf's law and whose weights vary.
func corpus(r *rand.Rand, docs, terms, entries int) []Vector {
	z := rand.NewZipf(r, 1.2, 3, uint64(terms-1))
	out := make([]Vector, docs)
	for d := range out {
		if r.IntN(10) == 0 {
			continue
		}
		weights := map[uint32]float32{}
		for range 1 + r.IntN(entries) {
			weights[uint32(z.Uint64())*7919] = float32(math.Exp(r.NormFloat64()))
		}
		out[d] = fromMap(weights)
	}
	return out
}

func fromMap(m map[uint32]float32) Vector {
	var v Vector
	for t, w := range m {
		v = append(v, Entry{t, w})
	}
	slices.SortFunc(v, func(a, b Entry) int { return int(int64(a.Term) - int64(b.Term)) })
	return v
}

// TestPrunedIsExhaustive compares both searches bit for bit, and with a sum in
// another order of arithmetic.
func TestPrunedIsExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Scratch
	for round := range 12 {
		docs := []int{1, 40, 300, 9000}[round%4]
		vectors := corpus(r, docs, 5+r.IntN(300), 30)
		f, _ := write(t, vectors)
		if err := f.Verify(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			q := corpus(r, 20, 300, 20)[r.IntN(20)]
			b, err := Bind(q, []*Field{nil, f})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range []int{1, 3, 10, 200, 20000} {
				for _, accept := range accepts(r, docs) {
					compare(t, b, k, accept, 0, &s)
					if all, _ := b.Exhaustive(1, k, accept, 0); len(all) > 0 {
						compare(t, b, k, accept, all[len(all)/2].Score, &s)
					}
				}
			}
			checkSums(t, b, q, vectors)
		}
	}
}

func accepts(r *rand.Rand, docs int) []Accept {
	half := make([]uint64, (docs+63)/64)
	for i := range half {
		half[i] = r.Uint64()
	}
	var few []uint32
	for d := range docs {
		if r.IntN(20) == 0 {
			few = append(few, uint32(d))
		}
	}
	return []Accept{{}, {Bits: half}, {Bits: half[:len(half)/2]}, {Docs: append([]uint32{}, few...)}, {Docs: append(few, uint32(docs)+5)}}
}

func compare(t *testing.T, b *Bound, k int, accept Accept, floor float32, s *Scratch) {
	t.Helper()
	want, err := b.Exhaustive(1, k, accept, floor)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.TopK(1, k, accept, floor, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("k %d floor %v: got %v, want %v", k, floor, got, want)
	}
}

// checkSums compares scores with float64 sums, and the explanation with both.
func checkSums(t *testing.T, b *Bound, q Vector, vectors []Vector) {
	t.Helper()
	all, err := b.Exhaustive(1, len(vectors), Accept{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint32]float32{}
	for _, h := range all {
		got[h.Doc] = h.Score
	}
	for d, v := range vectors {
		want := 0.0
		for _, e := range v.Round() {
			for _, w := range q {
				if w.Term == e.Term {
					want += float64(w.Weight) * float64(e.Weight)
				}
			}
		}
		score := got[uint32(d)]
		if math.Abs(float64(score)-want) > want*1e-7 || (score > 0) != (want > 0) {
			t.Fatalf("doc %d: score %v, want %v", d, score, want)
		}
		again, parts, ok, err := b.Explain(1, uint32(d))
		sum := 0.0
		for _, p := range parts {
			sum += p.Score
		}
		if err != nil || ok != (score > 0) || again != score || float32(sum) != score && math.Abs(sum-want) > want*1e-12 {
			t.Fatalf("doc %d: explained as %v %v %v, score %v, %v", d, again, parts, ok, score, err)
		}
	}
}

// TestMergeIsWrite: any partition and any deletes give the bytes of one Write.
func TestMergeIsWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		parts := 1 + r.IntN(4)
		vectors := corpus(r, 1200, 100, 20)
		split := make([][]Vector, parts)
		maps := make([][]uint32, parts)
		var live []Vector
		for _, v := range vectors {
			p := r.IntN(parts)
			split[p] = append(split[p], v)
			if r.IntN(4) == 0 {
				maps[p] = append(maps[p], Dropped)
				continue
			}
			maps[p] = append(maps[p], uint32(len(live)))
			live = append(live, v)
		}
		var in []MergeInput
		for p := range split {
			f, _ := write(t, split[p])
			in = append(in, MergeInput{f, maps[p]})
		}
		got := sections{}
		if err := Merge(got.create, in, uint32(len(live))); err != nil {
			t.Fatal(err)
		}
		_, want := write(t, live)
		for name := range want {
			if !bytes.Equal(got[name].Bytes(), want[name].Bytes()) {
				t.Fatalf("section %s differs", name)
			}
		}
	}
}

// TestSegmentsDoNotMatter: a doc's score is that of one segment with all docs.
func TestSegmentsDoNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	vectors := corpus(r, 3000, 200, 20)
	one, _ := write(t, vectors)
	first, _ := write(t, vectors[:1000])
	second, _ := write(t, vectors[1000:])
	var s Scratch
	for range 20 {
		q := corpus(r, 20, 200, 20)[r.IntN(20)]
		whole, _ := Bind(q, []*Field{one})
		cut, _ := Bind(q, []*Field{first, second})
		want, _ := whole.Exhaustive(0, 25, Accept{}, 0)
		got, _ := cut.TopK(0, 25, Accept{}, 0, &s, nil)
		floor := float32(0)
		if len(got) == 25 {
			floor = got[24].Score
		}
		n := len(got)
		got, _ = cut.TopK(1, 25, Accept{}, floor, &s, got)
		for i := n; i < len(got); i++ {
			got[i].Doc += 1000
		}
		slices.SortStableFunc(got, func(a, b Scored) int {
			switch {
			case a.Score > b.Score:
				return -1
			case a.Score < b.Score:
				return 1
			}
			return 0
		})
		if got = got[:min(len(got), 25)]; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestRounding(t *testing.T) {
	for c := uint16(1); c <= maxCode; c++ {
		w := decode(c)
		if encode(w) != c {
			t.Fatalf("code %#x: weight %v has code %#x", c, w, encode(w))
		}
		if c == maxCode {
			break
		}
		next := decode(c + 1)
		mid := (w + next) / 2
		want := c + c&1
		if got := encode(mid); got != want {
			t.Fatalf("between %v and %v: code %#x, want the even one %#x", w, next, got, want)
		}
		if encode(math.Nextafter32(mid, 0)) != c || encode(math.Nextafter32(mid, 1e9)) != c+1 {
			t.Fatalf("around %v: not the nearest", mid)
		}
	}
	if decode(maxCode) != MaxWeight || encode(1e-30) != 1 || encode(math.SmallestNonzeroFloat32) != 1 {
		t.Fatal("ends of the range")
	}
}

func TestCheck(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, w := range []float32{0, -1, nan, inf, -inf, 65505} {
		if _, err := New([]uint32{1}, []float32{w}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("weight %v: %v", w, err)
		}
	}
	for _, v := range []Vector{{{2, 1}, {2, 1}}, {{3, 1}, {2, 1}}} {
		if !errors.Is(v.Check(), storage.ErrInvalid) {
			t.Errorf("%v passes", v)
		}
	}
	if _, err := New([]uint32{1, 2}, []float32{1}); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	v, err := New([]uint32{math.MaxUint32, 0}, []float32{MaxWeight, 1e-45})
	if err != nil || v[0].Term != 0 {
		t.Errorf("%v %v", v, err)
	}
	long := make(Vector, MaxQueryEntries)
	for i := range long {
		long[i] = Entry{uint32(i), 1}
	}
	if _, err := Bind(long, nil); err != nil {
		t.Error(err)
	}
	if _, err := Bind(append(long, Entry{1 << 20, 1}), nil); !errors.Is(err, storage.ErrTooLarge) {
		t.Error(err)
	}
	if b, err := Bind(nil, []*Field{nil}); err != nil {
		t.Error(err)
	} else if got, err := b.TopK(0, 5, Accept{}, 0, new(Scratch), nil); err != nil || len(got) != 0 {
		t.Errorf("empty query: %v %v", got, err)
	}
}

// TestExtremes searches with the least and greatest weights there are.
func TestExtremes(t *testing.T) {
	vectors := []Vector{{{0, 1e-45}}, {{0, MaxWeight}, {math.MaxUint32, MaxWeight}}, {{math.MaxUint32, 1}}}
	f, _ := write(t, vectors)
	for _, q := range []Vector{{{0, 1e-45}}, {{0, 1e-45}, {math.MaxUint32, MaxWeight}}, {{0, MaxWeight}, {math.MaxUint32, MaxWeight}}} {
		b, err := Bind(q, []*Field{nil, f})
		if err != nil {
			t.Fatal(err)
		}
		compare(t, b, 3, Accept{}, 0, new(Scratch))
		got, _ := b.Exhaustive(1, 3, Accept{}, 0)
		if len(got) != 1+len(q) || got[0].Doc != 1 {
			t.Errorf("%v: %v", q, got)
		}
		for _, h := range got {
			if y := b.LegScore(h.Score); !(y >= 0 && y < 1) {
				t.Errorf("leg score %v", y)
			}
		}
	}
}

func TestJSON(t *testing.T) {
	want := Vector{{5, 0.25}, {12, 0.5}}
	for _, in := range []string{`{"12":0.5,"5":0.25}`, `{"indices":[12,5],"values":[0.5,0.25]}`, ` { "values" : [0.5,0.25], "indices":[12,5]}`} {
		var v Vector
		if err := json.Unmarshal([]byte(in), &v); err != nil || !slices.Equal(v, want) {
			t.Errorf("%s: %v %v", in, v, err)
		}
	}
	b, err := json.Marshal(want)
	if err != nil || string(b) != `{"5":0.25,"12":0.5}` {
		t.Errorf("%s %v", b, err)
	}
	var empty Vector
	if err := json.Unmarshal([]byte(`{}`), &empty); err != nil || len(empty) != 0 {
		t.Errorf("%v %v", empty, err)
	}
	for _, in := range []string{
		`[]`, `7`, `"x"`, `{"a":1}`, `{"-1":1}`, `{"4294967296":1}`, `{"1":"x"}`, `{"1":null}`, `{"1":1,"1":2}`, `{"1":1,"01":2}`,
		`{"1":0}`, `{"1":-1}`, `{"1":1e39}`, `{"1":1e5}`, `{"indices":[1],"values":[]}`, `{"indices":[1,1],"values":[1,1]}`,
		`{"indices":[1.5],"values":[1]}`, `{"indices":[1]}`, `{"indices":[1],"values":[1],"x":1}`,
	} {
		var v Vector
		if err := json.Unmarshal([]byte(in), &v); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v %v", in, v, err)
		}
	}
}

func TestWarmSearchAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	f, _ := write(t, corpus(r, 3000, 100, 30))
	b, _ := Bind(corpus(r, 5, 100, 30)[0], []*Field{f})
	var s Scratch
	dst, _ := b.TopK(0, 10, Accept{}, 0, &s, nil)
	if n := testing.AllocsPerRun(20, func() { dst, _ = b.TopK(0, 10, Accept{}, 0, &s, dst[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDamage flips every byte of a small field: an error or an answer, and
// never a panic; Verify notices what it can see.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	vectors := corpus(r, 700, 6, 6)
	_, s := write(t, vectors)
	q := Vector{{0, 1}, {7919, 2}, {3 * 7919, 0.5}}
	for name, buf := range s {
		data := buf.Bytes()
		for i := range data {
			was := data[i]
			data[i] ^= byte(1 + r.IntN(255))
			tryField(s)
			if f, err := s.open(uint32(len(vectors))); err == nil {
				if f.Verify() == nil && name != "lists" && name != "terms" {
					t.Errorf("%s byte %d: damage passes", name, i)
				}
				tryQuery(f, q)
			}
			data[i] = was
		}
	}
}

func tryField(s sections) {
	if f, err := s.open(700); err == nil {
		m := make([]uint32, 700)
		for i := range m {
			m[i] = uint32(i)
		}
		_ = Merge(sections{}.create, []MergeInput{{f, m}}, 700)
	}
}

func tryQuery(f *Field, q Vector) {
	b, err := Bind(q, []*Field{f})
	if err != nil {
		return
	}
	_, _ = b.TopK(0, 10, Accept{}, 0, new(Scratch), nil)
	_, _ = b.TopK(0, 3, Accept{Docs: []uint32{1, 5, 600}}, 0, new(Scratch), nil)
	_, _ = b.Exhaustive(0, 10, Accept{}, 0)
	_, _, _, _ = b.Explain(0, 600)
}

func FuzzField(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 12))
	vectors := corpus(r, 600, 5, 5)
	s := sections{}
	var docs []uint32
	var vs []Vector
	for d, v := range vectors {
		docs, vs = append(docs, uint32(d)), append(vs, v)
	}
	if err := Write(s.create, docs, vs); err != nil {
		f.Fatal(err)
	}
	f.Add(s["meta"].Bytes(), s["terms"].Bytes(), s["lists"].Bytes())
	f.Fuzz(func(t *testing.T, meta, terms, lists []byte) {
		s := sections{"meta": bytes.NewBuffer(meta), "terms": bytes.NewBuffer(terms), "lists": bytes.NewBuffer(lists)}
		field, err := s.open(600)
		if err != nil {
			return
		}
		_ = field.Verify()
		tryQuery(field, Vector{{0, 1}, {7919, 2}})
	})
}

func FuzzVector(f *testing.F) {
	f.Add(Append(nil, Vector{{1, 2}, {70000, 0.1}}), `{"1":2}`)
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		d := storage.NewDecoder("vector", 0, b)
		if v := Read(d); d.Err() == nil {
			if v.Check() != nil || !bytes.Equal(Append(nil, v), Append(nil, v.Round())) {
				t.Errorf("%v", v)
			}
		}
		var v Vector
		if json.Unmarshal([]byte(text), &v) == nil && v.Check() != nil {
			t.Errorf("%q gives %v", text, v)
		}
	})
}

func TestVectorBytes(t *testing.T) {
	v := Vector{{0, 1}, {1, 0.5}, {300, MaxWeight}, {math.MaxUint32, 1e-9}}
	b := Append(nil, v)
	if got := fmt.Sprintf("%x", b); got != "0400003c000038aa02ff7bd2fdffff0f0100" {
		t.Errorf("bytes %s", got)
	}
	d := storage.NewDecoder("vector", 0, b)
	got := Read(d)
	if d.End(); d.Err() != nil || !slices.Equal(got, v.Round()) {
		t.Errorf("%v %v", got, d.Err())
	}
}

// BenchmarkTopK searches 100,000 docs of about 100 entries of a vocabulary of
// 30,000, with about 25 terms a query, as SPLADE gives; exhaustive adds every
// posting up and orders nothing.
func BenchmarkTopK(b *testing.B) {
	f, queries := splade(b, rand.New(rand.NewPCG(13, 14)), 100_000, 50)
	for _, how := range []string{"k=10", "k=100", "filter 1 in 2", "filter 1 in 100", "exhaustive"} {
		b.Run(how, func(b *testing.B) {
			var accept Accept
			for d := range uint32(100_000) {
				switch {
				case how == "filter 1 in 2" && d%64 == 0:
					accept.Bits = append(accept.Bits, 0x5555555555555555)
				case how == "filter 1 in 100" && d%100 == 0:
					accept.Docs = append(accept.Docs, d)
				}
			}
			k := 10
			if how == "k=100" {
				k = 100
			}
			var s Scratch
			var dst []Scored
			n := 0
			for ; b.Loop(); n++ {
				x, err := Bind(queries[n%len(queries)], []*Field{f})
				if err == nil && how != "exhaustive" {
					dst, err = x.TopK(0, k, accept, 0, &s, dst[:0])
				} else if err == nil {
					_, err = x.sums(0)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "queries/s")
			b.ReportMetric(float64(s.Postings)/float64(n), "postings/op")
		})
	}
}

// splade draws documents about topics: a document takes most of its terms from
// few topics, a query from one, and frequent terms have low weights.
func splade(t testing.TB, r *rand.Rand, docs, queries int) (*Field, []Vector) {
	const vocabulary, topics = 30_000, 2_000
	z := rand.NewZipf(r, 1.1, 40, vocabulary-1)
	topic := make([][]uint32, topics)
	for i := range topic {
		for range 150 {
			topic[i] = append(topic[i], uint32(z.Uint64()))
		}
	}
	draw := func(n, kinds int) Vector {
		m := map[uint32]float32{}
		for range kinds {
			words := topic[r.IntN(topics)]
			for range n / kinds {
				term := words[r.IntN(len(words))]
				rare := math.Log1p(float64(term)) / math.Log(vocabulary)
				m[term] = float32(rare * math.Log1p(math.Exp(r.NormFloat64())))
			}
		}
		delete(m, 0)
		return fromMap(m)
	}
	vectors := make([]Vector, docs)
	for d := range vectors {
		vectors[d] = draw(130, 3)
	}
	out := make([]Vector, queries)
	for i := range out {
		out[i] = draw(30, 1)
	}
	f, _ := write(t, vectors)
	return f, out
}
