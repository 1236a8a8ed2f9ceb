package rerank

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// What each provider is sent, and what it answers.
func TestProviders(t *testing.T) {
	t.Setenv("QUARRY_TEST_KEY", "k")
	logit := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	results := `{"id":"x","results":[{"index":1,"relevance_score":0.75,"document":{"text":"b"}},{"index":0,"relevance_score":0.25}],"meta":{}}`
	unit := []Scored{{Index: 1, Score: .75, Raw: .75}, {Index: 0, Score: .25, Raw: .25}}
	for _, c := range []struct {
		p                       Provider
		o                       Options
		topN                    int
		name, path, body, reply string
		want                    []Scored
	}{
		{Cohere, Options{Model: "m"}, 0, "cohere/m", "/v2/rerank", `{"model":"m","query":"q","documents":["a","b"],"top_n":2}`, results, unit},
		{Cohere, Options{Model: "m"}, 1, "cohere/m", "/v2/rerank", `{"model":"m","query":"q","documents":["a","b"],"top_n":1}`, results, unit[:1]},
		{Jina, Options{Model: "m"}, 9, "jina/m", "/rerank", `{"model":"m","query":"q","documents":["a","b"],"top_n":2,"return_documents":false}`, results, unit},
		{Jina, Options{Model: "m", Scale: ScaleLogit}, 0, "jina/m", "/rerank", `{"model":"m","query":"q","documents":["a","b"],"top_n":2,"return_documents":false}`,
			`{"results":[{"index":0,"relevance_score":-4.5},{"index":1,"relevance_score":3}]}`, []Scored{{Index: 1, Score: logit(3), Raw: 3}, {Index: 0, Score: logit(-4.5), Raw: -4.5}}},
		{Jina, Options{Model: "m", Scale: ScaleCosine}, 0, "jina/m", "/rerank", `{"model":"m","query":"q","documents":["a","b"],"top_n":2,"return_documents":false}`,
			`{"results":[{"index":0,"relevance_score":-0.25},{"index":1,"relevance_score":-0.125}]}`, []Scored{{Index: 1, Score: 0, Raw: -.125}, {Index: 0, Score: 0, Raw: -.25}}},
		{Voyage, Options{Model: "m"}, 0, "voyage/m", "/rerank",
			`{"model":"m","query":"q","documents":["a","b"],"top_k":2,"return_documents":false,"truncation":false}`,
			`{"object":"list","data":[{"index":1,"relevance_score":0.75},{"index":0,"relevance_score":0.25}],"usage":{}}`, unit},
		{TEI, Options{}, 0, "tei", "/rerank", `{"query":"q","texts":["a","b"],"return_text":false,"truncate":false,"raw_scores":true}`,
			`[{"index":1,"score":2},{"index":0,"score":-800}]`, []Scored{{Index: 1, Score: logit(2), Raw: 2}, {Index: 0, Score: 0, Raw: -800}}},
		{TEI, Options{Model: "m", Truncate: true, Scale: ScaleUnit}, 0, "tei/m", "/rerank",
			`{"query":"q","texts":["a","b"],"return_text":false,"truncate":true,"raw_scores":false}`,
			`[{"index":1,"score":0.75},{"index":0,"score":0.25}]`, unit},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var got, want any
				body, _ := io.ReadAll(r.Body)
				if json.Unmarshal(body, &got) != nil || json.Unmarshal([]byte(c.body), &want) != nil {
					t.Errorf("no JSON: %s", body)
				}
				if d := cmp.Diff(want, got); d != "" || r.URL.Path != c.path || r.Header.Get("Authorization") != "Bearer k" {
					t.Errorf("%s: %s", r.URL.Path, d)
				}
				io.WriteString(w, c.reply)
			}))
			defer srv.Close()
			c.o.Call = call.Options{BaseURL: srv.URL, KeyEnv: "QUARRY_TEST_KEY"}
			r, err := NewHTTP(c.p, c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := r.Rerank(context.Background(), "q", []string{"a", "b"}, c.topN)
			if err != nil || !slices.Equal(got, c.want) || r.Name() != c.name {
				t.Errorf("%s: got %v, %v, want %v", r.Name(), got, err, c.want)
			}
		})
	}
}

func TestNewHTTPRefuses(t *testing.T) {
	t.Setenv("CO_API_KEY", "")
	for _, c := range []struct {
		p    Provider
		o    Options
		want string
	}{
		{Cohere, Options{}, "Model"}, {99, Options{}, "provider 99"}, {Cohere, Options{Model: "m", Scale: 9}, "Scale"},
		{TEI, Options{MaxPassages: -1}, "MaxPassages"}, {Cohere, Options{Model: "m"}, "CO_API_KEY holds no API key"},
	} {
		if _, err := NewHTTP(c.p, c.o); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.o, err, c.want)
		}
	}
	for p := range Provider(len(shapes)) {
		if got, err := ParseProvider(p.String()); got != p || err != nil {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := ParseProvider("x"); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
}

func TestSigmoid(t *testing.T) {
	last := -1.0
	for x := -50.0; x <= 30; x += .25 {
		y := sigmoid(x)
		if !(y > last && y >= 0 && y <= 1) || math.Abs(y+sigmoid(-x)-1) > 1e-15 {
			t.Fatalf("sigmoid(%v) = %v after %v", x, y, last)
		}
		last = y
	}
	if sigmoid(-1e308) != 0 || sigmoid(1e308) != 1 || sigmoid(0) != .5 {
		t.Error("ends")
	}
}

type fakePairs struct {
	logits []float64
	err    error
}

func (f fakePairs) Pairs(context.Context, string, []string) ([]float64, error) {
	return f.logits, f.err
}
func (f fakePairs) Name() string { return "fake" }

func TestPairs(t *testing.T) {
	r := Pairs(fakePairs{logits: []float64{-1, 2, 2, 0}})
	got, err := r.Rerank(context.Background(), "q", passages(4), 3)
	if err != nil || len(got) != 3 || got[0].Index != 1 || got[1].Index != 2 || got[2] != (Scored{Index: 3, Score: .5, Raw: 0}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range [][]float64{{1, 2, 3}, {1, 2, math.NaN(), 3}, {1, math.Inf(1), 2, 3}} {
		if _, err := Pairs(fakePairs{logits: bad}).Rerank(context.Background(), "q", passages(4), 0); !errors.Is(err, call.ErrReply) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := Pairs(fakePairs{err: io.EOF}).Rerank(context.Background(), "q", passages(4), 0); err != io.EOF {
		t.Error(err)
	}
}

// fakeTokens gives a token a word; equal words have equal vectors.
type fakeTokens struct {
	dim    int
	broken func([]embed.TokenVectors) []embed.TokenVectors
}

func (f fakeTokens) Identity() embed.Identity { return embed.Identity{Name: "fake", Dim: f.dim} }
func (f fakeTokens) Embed(context.Context, embed.Kind, []string) (embed.Result, error) {
	return embed.Result{}, errors.New("not called")
}

func (f fakeTokens) Tokens(ctx context.Context, _ embed.Kind, texts []string) ([]embed.TokenVectors, error) {
	out := make([]embed.TokenVectors, len(texts))
	for i, text := range texts {
		out[i].Dim = f.dim
		for _, word := range strings.Fields(text) {
			seed := uint64(0)
			for _, b := range []byte(word) {
				seed = seed*131 + uint64(b)
			}
			rng := rand.New(rand.NewPCG(seed, 1))
			v, sum := make([]float64, f.dim), 0.0
			for j := range v {
				v[j] = rng.NormFloat64()
				sum += v[j] * v[j]
			}
			for _, x := range v {
				out[i].Vectors = append(out[i].Vectors, float32(x/math.Sqrt(sum)))
			}
			out[i].Spans = append(out[i].Spans, embed.Span{})
		}
	}
	if f.broken != nil {
		out = f.broken(out)
	}
	return out, ctx.Err()
}

func randomPassages(n int) []string {
	rng := rand.New(rand.NewPCG(7, 7))
	words := strings.Fields("granite slate basalt marble quartz mica chalk flint clay sand silt loam gravel shale")
	out := make([]string, n)
	for i := range out {
		for range 1 + rng.IntN(12) {
			out[i] += words[rng.IntN(len(words))] + " "
		}
	}
	return out
}

// Late interaction against its definition in float64.
func TestLateInteraction(t *testing.T) {
	f := fakeTokens{dim: 48}
	in := append(randomPassages(70), "", "granite marble")
	const query = "marble granite dust"
	r, err := LateInteraction(f, LateOptions{Pure: true, Floor: .2, Depth: 100})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Rerank(context.Background(), query, in, 0)
	if err != nil || len(got) != 71 {
		t.Fatalf("%d scored, %v", len(got), err)
	}
	q, _ := f.Tokens(context.Background(), embed.Query, []string{query})
	all, _ := f.Tokens(context.Background(), embed.Passage, in)
	for i, s := range got {
		p := all[s.Index]
		want := 0.0
		for a := range q[0].Spans {
			best := math.Inf(-1)
			for b := range p.Spans {
				dot := 0.0
				for j := range f.dim {
					dot += float64(q[0].Vectors[a*f.dim+j]) * float64(p.Vectors[b*f.dim+j])
				}
				best = max(best, dot)
			}
			want += best / 3
		}
		if math.Abs(s.Raw-want) > 1e-6 || math.Abs(s.Score-max(0, (want-.2)/.8)) > 1e-6 {
			t.Errorf("passage %d: %+v, want raw %v", s.Index, s, want)
		}
		if i > 0 && (s.Raw > got[i-1].Raw || s.Raw == got[i-1].Raw && s.Index < got[i-1].Index) {
			t.Errorf("place %d: %+v after %+v", i, s, got[i-1])
		}
	}
	if top, _ := r.Rerank(context.Background(), query, in, 5); !slices.Equal(top, got[:5]) {
		t.Errorf("top 5 %v, want %v", top, got[:5])
	}
}

// Beyond Depth nothing is encoded, and the first order stands.
func TestLateInteractionDepth(t *testing.T) {
	f := fakeTokens{dim: 48}
	in := randomPassages(60)
	for _, c := range []struct{ depth, want int }{{0, 20}, {7, 7}, {60, 60}, {100, 60}} {
		pure, err := LateInteraction(f, LateOptions{Pure: true, Depth: c.depth})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pure.Rerank(context.Background(), "marble granite", in, 0)
		if err != nil || len(got) != c.want {
			t.Errorf("depth %d: %d scored, %v, want %d", c.depth, len(got), err, c.want)
		}
		fused, err := LateInteraction(f, LateOptions{Depth: c.depth})
		if err != nil {
			t.Fatal(err)
		}
		o, err := Apply(context.Background(), fused, "marble granite", in, 0, Fail)
		if err != nil || len(o.Ranked) != len(in) {
			t.Fatalf("depth %d: %d ranked, %v", c.depth, len(o.Ranked), err)
		}
		for i, r := range o.Ranked {
			if (r.Index >= c.want) != (i >= c.want) || i >= c.want && r.Index != i {
				t.Errorf("depth %d: passage %d in place %d", c.depth, r.Index, i)
			}
		}
	}
}

func TestLateInteractionBroken(t *testing.T) {
	for name, b := range map[string]func([]embed.TokenVectors) []embed.TokenVectors{
		"too few": func(v []embed.TokenVectors) []embed.TokenVectors { return v[1:] },
		"short":   func(v []embed.TokenVectors) []embed.TokenVectors { v[0].Vectors = v[0].Vectors[1:]; return v },
		"no dim":  func(v []embed.TokenVectors) []embed.TokenVectors { v[0].Dim = 0; return v },
		"NaN": func(v []embed.TokenVectors) []embed.TokenVectors {
			v[0].Vectors[0] = float32(math.NaN())
			return v
		},
		"other dim": func(v []embed.TokenVectors) []embed.TokenVectors {
			if len(v) > 1 {
				v[0].Dim, v[0].Spans = 4, make([]embed.Span, len(v[0].Vectors)/4)
			}
			return v
		},
	} {
		r, _ := LateInteraction(fakeTokens{dim: 8, broken: b}, LateOptions{})
		if _, err := r.Rerank(context.Background(), "granite slate", randomPassages(3), 0); !errors.Is(err, call.ErrReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, _ := LateInteraction(fakeTokens{dim: 8}, LateOptions{})
	if _, err := r.Rerank(context.Background(), " ", randomPassages(3), 0); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("blank: %v", err)
	}
	for _, o := range []LateOptions{{Floor: 1}, {Floor: -.1}, {Depth: -1}} {
		if _, err := LateInteraction(fakeTokens{}, o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

type fixed []Scored

func (f fixed) Name() string { return "fixed" }
func (f fixed) Rerank(context.Context, string, []string, int) ([]Scored, error) {
	return slices.Clone(f), nil
}

func TestFuse(t *testing.T) {
	fuse := func(f fixed, w float64, topN int) []Scored {
		r, err := Fuse(f, w)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Rerank(context.Background(), "q", passages(4), topN)
		if err != nil || Check(r.Name(), got, 4, topN) != nil {
			t.Fatal(got, err)
		}
		return got
	}
	three := fixed{{Index: 3, Score: .9, Raw: 9}, {Index: 0, Score: .88, Raw: 8}, {Index: 1, Score: .7, Raw: 7, Truncated: true}}
	score := func(s float64, rank float64) float64 { return (4*s + 61/(60+rank)) / 5 }
	want := []Scored{{Index: 3, Score: score(.9, 4), Raw: 9}, {Index: 0, Score: score(.88, 1), Raw: 8}, {Index: 1, Score: score(.7, 2), Raw: 7, Truncated: true}}
	got := fuse(three, 4, 0)
	if len(got) != 3 {
		t.Fatalf("got %v: passage 2 has no score, and none is made up", got)
	}
	for i, w := range want {
		if g := got[i]; g.Index != w.Index || math.Abs(g.Score-w.Score) > 1e-12 || g.Raw != w.Raw || g.Truncated != w.Truncated {
			t.Errorf("place %d: %+v, want %+v", i, g, w)
		}
	}
	if got := fuse(three, 1, 0); got[0].Index != 0 {
		t.Errorf("with a larger share of the first order: %v", got)
	}
	if top := fuse(fixed{{Index: 0, Score: 1, Raw: 1}}, 4, 1); top[0].Index != 0 || top[0].Score != 1 {
		t.Errorf("best in both: %+v", top)
	}
	if got := fuse(nil, 1, 0); len(got) != 0 {
		t.Errorf("none scored: %v", got)
	}
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := Fuse(fixed{}, w); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("weight %v: %v", w, err)
		}
	}
	bad, err := Fuse(fixed{{Index: 4}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Rerank(context.Background(), "q", passages(4), 0); !errors.Is(err, call.ErrReply) {
		t.Error(err)
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"results":[{"index":1,"relevance_score":0.5}]}`), 2)
	f.Add([]byte(`{"data":[{"index":0,"relevance_score":-1e308},{"index":1,"relevance_score":1}]}`), 2)
	f.Add([]byte(`[{"index":1,"score":2},{"index":0,"score":-800}]`), 3)
	f.Add([]byte(`{"results":null,"error":{"message":"x"}}`), 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if n < 0 || n > 100 {
			return
		}
		for p := range shapes {
			for scale := ScaleUnit; scale <= ScaleCosine; scale++ {
				scored, err := parseReply(&shapes[p], scale, data, n)
				if err != nil {
					if !errors.Is(err, call.ErrReply) {
						t.Fatal(err)
					}
					continue
				}
				if len(order(scored, n, 0)) != n {
					t.Fatal("a passage was lost")
				}
			}
		}
	})
}
