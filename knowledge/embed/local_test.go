package embed

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

func newLocal(t testing.TB, m *Model, o *Options) *Local {
	t.Helper()
	e, err := NewLocal(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func embedAll(t testing.TB, e Embedder, kind Kind, texts []string) Result {
	t.Helper()
	r, err := e.Embed(context.Background(), kind, texts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVectorsAreTheReferences(t *testing.T) {
	for _, pooling := range []Pooling{MeanPooling, CLSPooling} {
		for _, offset := range []int{0, 2} {
			c := tiny()
			c.Pooling, c.PositionOffset = pooling, offset
			m, f := tinyModel(t, c)
			ref, err := newReference(c, f)
			if err != nil {
				t.Fatal(err)
			}
			texts := tinyTexts()
			r := embedAll(t, newLocal(t, m, nil), Query, texts)
			for i, text := range texts {
				got := r.Vectors[i*c.Dim : (i+1)*c.Dim]
				want := ref.embed(withSpecials(m, c.QueryPrefix+text))
				if cos := cosine(got, want); cos < 0.998 {
					t.Errorf("pooling %d, offset %d, text %d: cosine %.5f", pooling, offset, i, cos)
				}
				if n := cosine(got, got) * float64(len(got)); math.Abs(n-float64(len(got))) > 1e-3 {
					t.Errorf("text %d is no unit vector", i)
				}
			}
		}
	}
}

// Any batch, order and number of workers: the same bits.
func TestVectorsDoNotDependOnTheBatch(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	texts := tinyTexts()
	dim := m.config.Dim
	want := make([]float32, 0, len(texts)*dim)
	one := newLocal(t, m, &Options{Workers: 1})
	for _, text := range texts {
		want = append(want, embedAll(t, one, Passage, []string{text}).Vectors...)
	}
	for _, o := range []Options{{Workers: 1, BatchTokens: 1}, {Workers: 1}, {Workers: 2, BatchTokens: 40}, {Workers: 7, BatchTokens: 9}} {
		if got := embedAll(t, newLocal(t, m, &o), Passage, texts).Vectors; !slices.Equal(got, want) {
			t.Errorf("%+v: other vectors", o)
		}
	}
	backward := slices.Clone(texts)
	slices.Reverse(backward)
	got := embedAll(t, newLocal(t, m, nil), Passage, backward).Vectors
	for i := range texts {
		if !slices.Equal(got[(len(texts)-1-i)*dim:(len(texts)-i)*dim], want[i*dim:(i+1)*dim]) {
			t.Errorf("text %d: another vector in another order", i)
		}
	}
}

// A model that pools by the first token skips the other tokens' part of the last
// layer, and gives the same bits.
func TestFirstTokensOnly(t *testing.T) {
	c := tiny()
	c.Pooling = CLSPooling
	m, _ := tinyModel(t, c)
	texts := tinyTexts()
	for _, o := range []Options{{Workers: 1}, {Workers: 1, BatchTokens: 1}, {Workers: 3, BatchTokens: 30}} {
		e := newLocal(t, m, &o)
		want := make([]float32, len(texts)*c.Dim)
		_, err := e.texts(context.Background(), Passage, texts, false, func(s *scratch, t int, in *input) {
			row := want[in.text*c.Dim : (in.text+1)*c.Dim]
			copy(row, s.x[s.starts[t]*c.Dim:])
			normalize(row)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := embedAll(t, e, Passage, texts).Vectors; !slices.Equal(got, want) {
			t.Errorf("%+v: other vectors", o)
		}
	}
}

func TestTruncation(t *testing.T) {
	c := tiny()
	m, _ := tinyModel(t, c)
	long := strings.Repeat("stone ", c.Limit)
	exact := strings.Repeat("stone ", c.Limit-4) // passage, colon, two specials
	r := embedAll(t, newLocal(t, m, nil), Passage, []string{"stone", long, exact, long})
	if !slices.Equal(r.Truncated, []int{1, 3}) {
		t.Errorf("Truncated = %v, want [1 3]", r.Truncated)
	}
	if !slices.Equal(r.Vectors[c.Dim:2*c.Dim], r.Vectors[2*c.Dim:3*c.Dim]) {
		t.Error("a text cut at the limit differs from one that ends there")
	}
}

func TestKindsDiffer(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	e := newLocal(t, m, nil)
	q, p := embedAll(t, e, Query, []string{"stone"}), embedAll(t, e, Passage, []string{"stone"})
	if slices.Equal(q.Vectors, p.Vectors) {
		t.Error("a query and a passage have one vector")
	}
	if _, err := e.Embed(context.Background(), 7, []string{"x"}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("kind 7: %v", err)
	}
}

func TestEmptyAndCancelled(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	e := newLocal(t, m, &Options{Workers: 2})
	if r := embedAll(t, e, Query, nil); len(r.Vectors) != 0 {
		t.Errorf("no texts: %d floats", len(r.Vectors))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := e.Embed(ctx, Query, []string{"x"}); !errors.Is(err, context.Canceled) || r.Vectors != nil {
		t.Errorf("cancelled: %v, %v", r, err)
	}
	embedAll(t, e, Query, []string{"x"}) // the workers are back
	if len(e.run.workers) != 2 {
		t.Errorf("%d workers free, want 2", len(e.run.workers))
	}
}

func TestIdentity(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	id := newLocal(t, m, nil).Identity()
	want := Identity{Name: "made/up", Revision: "1", Dim: 64, Metric: "cosine", QueryPrefix: "query: ",
		PassagePrefix: "passage: ", Tokenizer: m.tokenizer.Name(), Floor: 0.25}
	if id != want {
		t.Errorf("%+v, want %+v", id, want)
	}
}

func TestTokens(t *testing.T) {
	c := tiny()
	m, f := tinyModel(t, c)
	ref, err := newReference(c, f)
	if err != nil {
		t.Fatal(err)
	}
	e := newLocal(t, m, nil)
	texts := []string{"stone zebra.", "", strings.Repeat("quarry ", 40)}
	got, err := e.Tokens(context.Background(), Query, texts)
	if err != nil {
		t.Fatal(err)
	}
	rows := ref.tokens(withSpecials(m, c.QueryPrefix+texts[0]), math.MaxInt)
	v := got[0]
	if len(v.Spans) != 7 || len(v.Vectors) != 7*c.Dim || v.Truncated {
		t.Fatalf("%d spans, %d floats", len(v.Spans), len(v.Vectors))
	}
	for i, s := range v.Spans {
		if i == 0 && texts[0][s.Start:s.End] != "stone" {
			t.Errorf("first token is %q", texts[0][s.Start:s.End])
		}
		if cos := cosine(v.Vectors[i*c.Dim:(i+1)*c.Dim], rows[3+i]); cos < 0.995 {
			t.Errorf("token %d: cosine %.5f", i, cos)
		}
	}
	if len(got[1].Spans) != 0 || !got[2].Truncated {
		t.Errorf("empty text: %d spans; long text truncated: %v", len(got[1].Spans), got[2].Truncated)
	}
}

func TestMaxSim(t *testing.T) {
	a := TokenVectors{Dim: 2, Vectors: []float32{1, 0, 0, 1}}
	b := TokenVectors{Dim: 2, Vectors: []float32{0, 1, -1, 0, 0.6, 0.8}}
	if got := MaxSim(a, b); math.Abs(got-(0.6+1)/2) > 1e-6 {
		t.Errorf("MaxSim = %v", got)
	}
	if MaxSim(a, TokenVectors{Dim: 2}) != 0 || MaxSim(TokenVectors{}, a) != 0 || MaxSim(a, TokenVectors{Dim: 4, Vectors: make([]float32, 4)}) != 0 {
		t.Error("MaxSim without tokens is not 0")
	}
}

func BenchmarkMaxSim(b *testing.B) {
	const dim, q, p = 384, 12, 200
	r := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) TokenVectors {
		v := TokenVectors{Dim: dim, Vectors: make([]float32, n*dim)}
		for i := range v.Vectors {
			v.Vectors[i] = r.Float32() - .5
		}
		return v
	}
	query, passage := random(q), random(p)
	for b.Loop() {
		MaxSim(query, passage)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*q*p), "ns/dot")
}

func TestMeasureFloor(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	e := newLocal(t, m, nil)
	r, err := MeasureFloor(context.Background(), e, []string{"stone", "zebra", "a"}, []string{"quarry", "x", "b"})
	if err != nil || r.Pairs != 6 || r.Mean < -1 || r.Mean > 1 || r.Floor < 0 || r.Floor > r.Mean && r.Floor != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := MeasureFloor(context.Background(), e, []string{"x"}, []string{"y"}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("one of each: %v", err)
	}
}

func TestOptions(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	for _, o := range []Options{{Workers: -1}, {Workers: 5000}, {BatchTokens: -1}, {BatchTokens: 1 << 21}} {
		if _, err := NewLocal(m, &o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func BenchmarkForward(b *testing.B) {
	c := Config{Name: "small", Dim: 384, Heads: 12, Layers: 2, Inner: 1536, Vocab: 64, Positions: 512, Limit: 512, Epsilon: 1e-12}
	m, _ := tinyModel(b, c)
	for _, n := range []struct {
		name  string
		words int
	}{{"10", 8}, {"128", 126}, {"512", 510}} {
		b.Run(n.name, func(b *testing.B) {
			e := newLocal(b, m, &Options{Workers: 1})
			texts := []string{strings.Repeat("stone ", n.words)}
			for b.Loop() {
				embedAll(b, e, Passage, texts)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n.words+2)/float64(c.Layers), "µs/token/layer")
		})
	}
}
