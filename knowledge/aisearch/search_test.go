package aisearch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

func mustAI(t testing.TB, r Request, rr rerank.Reranker) []Passage {
	t.Helper()
	out, err := Search(t.Context(), r, newWords("w", 64), rr)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestS2_1_OrderOfChecks(t *testing.T) {
	e := newWords("w", 16)
	// Everything wrong at once; mended from the front, each error names the next.
	r := Request{Query: " \u200b", Input: []string{"fine", "\xff"}, Rerank: true, ResultCount: -1, SearchType: "lexical",
		Chunk: chunk.Options{Strategy: "x"}, OffsetUnit: "furlong"}
	for _, c := range []struct {
		want string
		mend func()
	}{
		{"query", func() { r.Query = "q" }}, {"input 1", func() { r.Input = nil }}, {"rerank", func() { r.Rerank = false }},
		{"resultCount", func() { r.ResultCount = 1 }}, {"searchType", func() { r.SearchType = "semantic" }},
		{"strategy", func() { r.Chunk = chunk.Options{} }}, {"offset_unit", func() { r.OffsetUnit = Rune }},
	} {
		if _, err := Search(t.Context(), r, e, nil); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error on %s, got %v", c.want, err)
		}
		c.mend()
	}
	if out, err := Search(t.Context(), r, e, nil); err != nil || out == nil || len(out) != 0 || mustJSON(t, out) != "[]" {
		t.Errorf("no input: %v %v", out, err)
	}
	if e.calls.Load() != 0 {
		t.Error("the provider was called")
	}
	if _, err := Search(t.Context(), r, nil, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no embedder: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Search(ctx, r, e, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestS2_2_ForcedOptions(t *testing.T) {
	r := Request{Query: "q", Input: []string{strings.Repeat("word ", 40_000)}, ResultCount: 100}
	r.Chunk = chunk.Options{Unit: chunk.Paragraph, TokenLimit: -5, MaxChunks: -7, Overlap: ptr(0)}
	out := mustAI(t, r, nil)
	if len(out) != 2 { // S2.3: no chunk is longer than 32,768 tokens
		t.Errorf("%d chunks", len(out))
	}
	// The default: 500 tokens, 50 shared.
	out = mustAI(t, Request{Query: "q", Input: []string{strings.Repeat("word ", 1000)}, ResultCount: 100, OffsetUnit: Byte}, nil)
	if len(out) != 3 || out[0].Start != 0 || out[1].Start != 450*5 || out[2].Start != 900*5 {
		t.Errorf("%d chunks: %+v", len(out), out)
	}
}

func TestS2_4_OverlapAndF01(t *testing.T) {
	for _, c := range []struct{ size, overlap int }{{50, 50}, {50, 60}, {50, -1}, {0, 0}} {
		r := Request{Query: "q", Input: []string{"a b"}, Chunk: chunk.Options{Unit: chunk.Word, Size: &c.size, Overlap: &c.overlap}}
		if _, err := Search(t.Context(), r, newWords("w", 8), nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("size %d, overlap %d: %v", c.size, c.overlap, err)
		}
	}
	r := Request{Query: "q", Input: []string{strings.Repeat("w ", 101)}, ResultCount: 100, OffsetUnit: Byte,
		Chunk: chunk.Options{Unit: chunk.Word, Size: ptr(40), Overlap: ptr(8)}}
	out := mustAI(t, r, nil)
	slices.SortFunc(out, func(a, b Passage) int { return a.Start - b.Start })
	if len(out) != 3 || out[2].End != 2*101-1 || out[1].Start != 64 {
		t.Errorf("%+v", out)
	}
	// An overlap left unset is below the size.
	mustAI(t, Request{Query: "q", Input: []string{"a\n\nb\n\nc"}, Chunk: chunk.Options{Unit: chunk.Paragraph, Size: ptr(2)}}, nil)
}

func TestS2_6_BlankAndTooMany(t *testing.T) {
	one := chunk.Options{Unit: chunk.Custom, Separator: ptr("\n"), Size: ptr(1), Overlap: ptr(0)}
	e := embedFunc(4, func(string) []float32 { return []float32{1, 0, 0, 0} })
	text := strings.Repeat("x\n \n\u200b\n", MaxChunks)
	out, err := Search(t.Context(), Request{Query: "q", Input: []string{text}, Chunk: one, ResultCount: 3}, e, nil)
	if err != nil || len(out) != 3 {
		t.Errorf("50,000 searchable chunks: %d %v", len(out), err)
	}
	_, err = Search(t.Context(), Request{Query: "q", Input: []string{text, " ", "x"}, Chunk: one}, e, nil)
	if !errors.Is(err, chunk.ErrTooManyChunks) {
		t.Errorf("50,001: %v", err)
	}
	for _, in := range [][]string{{""}, {" \n\t", "\u3000"}, {}} {
		if out, err := Search(t.Context(), Request{Query: "q", Input: in}, e, nil); err != nil || mustJSON(t, out) != "[]" {
			t.Errorf("%q: %v %v", in, out, err)
		}
	}
}

func TestS2_7_CosineTiesAndFaults(t *testing.T) {
	one := chunk.Options{Unit: chunk.Custom, Separator: ptr("\n"), Size: ptr(1), Overlap: ptr(0)}
	r := Request{Query: "red apple", Input: []string{"blue sky\nred apple", "red apple\nred apple\ngreen red"}, Chunk: one, OffsetUnit: Byte, WithScore: true}
	out := mustAI(t, r, nil)
	var got []string
	for _, p := range out {
		got = append(got, fmt.Sprintf("%d:%d", p.DocumentIndex, p.Start))
	}
	if !slices.Equal(got[:3], []string{"0:9", "1:0", "1:10"}) || *out[0].Score < 0.999 || *out[0].Score > 1 {
		t.Errorf("%v", got)
	}
	e := newWords("w", 16)
	e.hook = func(k embed.Kind, texts []string, r *embed.Result) error {
		if k == embed.Passage {
			clear(r.Vectors[:16])
		}
		return nil
	}
	out, err := Search(t.Context(), r, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(out, func(p Passage) bool { return p.DocumentIndex == 0 && p.Start == 0 }); *out[i].Score != 0 {
		t.Errorf("zero vector: %v", *out[i].Score)
	}
	for name, hook := range map[string]func(embed.Kind, []string, *embed.Result) error{
		"NaN": func(k embed.Kind, _ []string, r *embed.Result) error { r.Vectors[3] = float32(math.NaN()); return nil },
		"infinite": func(k embed.Kind, _ []string, r *embed.Result) error {
			r.Vectors[3] = float32(math.Inf(-1))
			return nil
		},
		"short": func(k embed.Kind, _ []string, r *embed.Result) error {
			r.Vectors = r.Vectors[:len(r.Vectors)-1]
			return nil
		},
		"none": func(k embed.Kind, _ []string, r *embed.Result) error { r.Vectors = nil; return nil },
		"passages": func(k embed.Kind, _ []string, r *embed.Result) error {
			if k == embed.Passage {
				r.Vectors[len(r.Vectors)-1] = float32(math.NaN())
			}
			return nil
		},
	} {
		e := newWords("w", 16)
		e.hook = hook
		if _, err := Search(t.Context(), r, e, nil); !errors.Is(err, embed.ErrContract) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.hook = func(embed.Kind, []string, *embed.Result) error { return errFake }
	if _, err := Search(t.Context(), r, e, nil); !errors.Is(err, errFake) {
		t.Errorf("%v", err)
	}
}

// The best k by heap are the first k of all, sorted.
func TestBestOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		all := make([]semantic, rng.IntN(60))
		for i := range all {
			all[i] = semantic{i, float64(rng.IntN(8)) / 8}
		}
		want := slices.Clone(all)
		slices.SortFunc(want, compareSemantic)
		k := 1 + rng.IntN(20)
		if got := bestOf(slices.Clone(all), k); !slices.Equal(got[:min(k, len(got))], want[:min(k, len(want))]) {
			t.Fatalf("k %d: %v, want %v", k, got, want)
		}
	}
}

// The kernel gives what a plain loop in float64 gives, as near as float32 sums
// can, and bit for bit what the Go reference of package simd gives (its tests).
func TestCosines(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for dim := 1; dim < 70; dim++ {
		query, rows := make([]float32, dim), make([]float32, 7*dim)
		for i := range query {
			query[i] = rng.Float32() - 0.5
		}
		for i := range rows[:6*dim] { // the last row stays zero
			rows[i] = rng.Float32() - 0.5
		}
		got, err := cosines(embed.Identity{Dim: dim}, query, rows)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if want := plainCosine(query, rows[i*dim:(i+1)*dim]); got[i].chunk != i || math.Abs(got[i].score-want) > 1e-5 {
				t.Errorf("dim %d, row %d: %v, want %v", dim, i, got[i], want)
			}
		}
	}
}

func plainCosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	if aa*bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa*bb)
}

func TestS2_8_RerankPool(t *testing.T) {
	one := chunk.Options{Unit: chunk.Custom, Separator: ptr("\n"), Size: ptr(1), Overlap: ptr(0)}
	var b strings.Builder
	for i := range 120 {
		fmt.Fprintf(&b, "common word%d\n", i)
	}
	r := Request{Query: "common", Input: []string{b.String()}, Chunk: one, Rerank: true, OffsetUnit: Byte}
	var pool int
	same := funcReranker(func(_ context.Context, _ string, p []string) ([]rerank.Scored, error) {
		pool = len(p)
		out := make([]rerank.Scored, len(p))
		for i := range out {
			out[i] = rerank.Scored{Index: len(p) - 1 - i, Score: 0.5, Raw: 0.5}
		}
		return out, nil
	})
	plain := r
	plain.Rerank = false
	for _, c := range []struct{ count, pool int }{{0, 50}, {50, 50}, {80, 80}, {200, 120}} {
		r.ResultCount, plain.ResultCount = c.count, c.count
		got := mustAI(t, r, same)
		if pool != c.pool {
			t.Errorf("result count %d: a pool of %d", c.count, pool)
		}
		// All equal: the semantic order decides.
		if mustJSON(t, got) != mustJSON(t, mustAI(t, plain, nil)) {
			t.Errorf("result count %d: ties are not in the semantic order", c.count)
		}
	}
	for name, rr := range map[string]funcReranker{
		"fails": func(context.Context, string, []string) ([]rerank.Scored, error) { return nil, errFake },
		"none":  func(context.Context, string, []string) ([]rerank.Scored, error) { return nil, nil },
		"twice": func(context.Context, string, []string) ([]rerank.Scored, error) { return []rerank.Scored{{}, {}}, nil },
		"beyond": func(context.Context, string, []string) ([]rerank.Scored, error) {
			return []rerank.Scored{{Index: 50}}, nil
		},
	} {
		r.ResultCount = 10
		if _, err := Search(t.Context(), r, newWords("w", 16), rr); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestS2_9_OffsetsAndShape(t *testing.T) {
	docs := []string{"uno\r\ndés\r\n😀tres", "😀😀😀 e\u0301e\u0301 नमस्ते. Next sentence 😀.", "\ufeffmark first\n\n\tthen this", "plain ascii text only"}
	for _, unit := range []chunk.Unit{chunk.Word, chunk.Sentence, chunk.Token, chunk.Paragraph} {
		r := Request{Query: "tres", Input: docs, ResultCount: 1000, Chunk: chunk.Options{Unit: unit, Size: ptr(2), Overlap: ptr(1)}}
		for _, u := range []OffsetUnit{"", UTF16, Rune, Byte} {
			r.OffsetUnit = u
			out := mustAI(t, r, nil)
			if len(out) < len(docs) {
				t.Fatalf("%d passages", len(out))
			}
			for _, p := range out {
				doc := docs[p.DocumentIndex]
				var got string
				switch u {
				case Byte:
					got = doc[p.Start:p.End]
				case Rune:
					got = string([]rune(doc)[p.Start:p.End])
				default:
					got = string(utf16.Decode(utf16.Encode([]rune(doc))[p.Start:p.End]))
				}
				if got != p.Text {
					t.Errorf("%s %s: %q, text %q", unit, u, got, p.Text)
				}
			}
		}
	}
	out := mustAI(t, Request{Query: "x", Input: []string{"a x b"}}, nil)
	if got := mustJSON(t, out); got != `[{"text":"a x b","documentIndex":0,"start":0,"end":5}]` {
		t.Error(got)
	}
	// F05: the line feeds of CRLF and the four bytes of an emoji count.
	r := Request{Query: "x", Input: docs[:1], OffsetUnit: Byte, Chunk: chunk.Options{Unit: chunk.Custom, Separator: ptr("\r\n"), Size: ptr(1), Overlap: ptr(0)}}
	starts := func(u OffsetUnit) (s []int) {
		r.OffsetUnit = u
		for _, p := range mustAI(t, r, nil) {
			s = append(s, p.Start)
		}
		slices.Sort(s)
		return s
	}
	if b, n := starts(Byte), starts(Rune); !slices.Equal(b, []int{0, 5, 11}) || !slices.Equal(n, []int{0, 5, 10}) {
		t.Errorf("F05: bytes %v, runes %v", b, n)
	}
}

func TestS2_5_Divide(t *testing.T) {
	for _, c := range []struct{ words, parts, chunks int }{{10, 3, 3}, {10, 10, 10}, {3, 10, 3}, {1, 1, 1}} {
		r := Request{Query: "q", Input: []string{strings.TrimSpace(strings.Repeat("word ", c.words))}, ResultCount: 100,
			Chunk: chunk.Options{Strategy: chunk.Divide, Unit: chunk.Word, Size: &c.parts}}
		out := mustAI(t, r, nil)
		slices.SortFunc(out, func(a, b Passage) int { return a.Start - b.Start })
		total, last := 0, math.MaxInt
		for _, p := range out {
			n := len(strings.Fields(p.Text))
			if n > last || n < len(strings.Fields(out[0].Text))-1 {
				t.Errorf("%+v: part of %d words", c, n)
			}
			total, last = total+n, n
		}
		if len(out) != c.chunks || total != c.words {
			t.Errorf("%+v: %d chunks of %d words", c, len(out), total)
		}
	}
}

// F03: offsets of text that repeats. F06, F10: nothing is cut inside a rune, and
// Chinese without spaces is cut.
func TestF03_F06_F10(t *testing.T) {
	text := "tick tick tock tick"
	r := Request{Query: "tick", Input: []string{text}, OffsetUnit: Byte, Chunk: chunk.Options{Unit: chunk.Word, Size: ptr(1), Overlap: ptr(0)}}
	var starts []int
	for _, p := range mustAI(t, r, nil) {
		if p.Text == "tick" {
			starts = append(starts, p.Start)
		}
	}
	if !slices.Equal(starts, []int{0, 5, 15}) {
		t.Errorf("tick at %v", starts)
	}
	han := strings.Repeat("退款政策允许在购买后三十天内退货。运费由买家承担！", 125)
	r = Request{Query: "退款", Input: []string{han, strings.Repeat("退", 3000), strings.Repeat("😀", 50), strings.Repeat("e\u0301", 50)}, ResultCount: 1000,
		OffsetUnit: Byte, Chunk: chunk.Options{Unit: chunk.Token, Size: ptr(200), Overlap: ptr(0)}}
	for _, p := range mustAI(t, r, nil) {
		if p.Text != r.Input[p.DocumentIndex][p.Start:p.End] || !utf8.ValidString(p.Text) || utf8.RuneCountInString(p.Text) > 800 {
			t.Errorf("%d: %d-%d", p.DocumentIndex, p.Start, p.End)
		}
	}
}
