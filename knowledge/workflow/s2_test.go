package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/quarrysearch/quarry/knowledge/aisearch"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// aiRun runs a node once and checks that Done fires once, with the result.
func aiRun(t *testing.T, a *AISearch, in AISearchInputs) *AISearchResult {
	t.Helper()
	var fired []*AISearchResult
	res := a.Run(bg, in, func(r *AISearchResult) { fired = append(fired, r) })
	if len(fired) != 1 || fired[0] != res {
		t.Errorf("Done fired %d times", len(fired))
	}
	if res.Err != nil && res.Passages != nil {
		t.Error("an error and passages")
	}
	return res
}

func texts(r *AISearchResult) (out []string) {
	for _, p := range r.Passages {
		out = append(out, p.Text)
	}
	return out
}

func TestS2_1_OrderOfChecks(t *testing.T) {
	e := newWords()
	a := NewAISearch(e, wordReranker{})
	// Each input is wrong; mending them one by one shows the order.
	in := AISearchInputs{Query: 1, Input: 2, Rerank: "yes", ResultCount: "3", SearchType: "lexical", ChunkOptions: map[string]any{"size": "x"}}
	for _, step := range []struct {
		want string
		mend func()
	}{
		{"query", func() { in.Query = " " }},
		{"query", func() { in.Query = "q" }},
		{"input", func() { in.Input = []any{"a", "b", 3} }},
		{"input[2]", func() { in.Input = []any{"a", "b"} }},
		{"rerank", func() { in.Rerank = true }},
		{"resultCount", func() { in.ResultCount = 2.0 }},
		{"searchType", func() { in.SearchType = "semantic" }},
		{"chunk options: size", func() { in.ChunkOptions = map[string]any{"size": 5.0, "colour": 1} }},
		{"chunk options: unknown key", func() { in.ChunkOptions = map[string]any{"size": 5.0, "unit": "word"} }},
	} {
		res := aiRun(t, a, in)
		if res.Err == nil || !strings.Contains(res.Err.Error(), step.want) || !errors.Is(res.Err, storage.ErrInvalid) {
			t.Fatalf("want an error of %s, got %v", step.want, res.Err)
		}
		var object map[string]string
		if err := json.Unmarshal([]byte(mustJSON(t, res)), &object); err != nil || len(object) != 1 || object["error"] == "" {
			t.Errorf("JSON %s", mustJSON(t, res))
		}
		step.mend()
	}
	if e.calls.Load() != 0 {
		t.Error("something was embedded")
	}
	if res := aiRun(t, a, in); res.Err != nil || len(res.Passages) != 2 {
		t.Error(res.Err)
	}
}

func TestS2_1_Values(t *testing.T) {
	a := NewAISearch(newWords(), wordReranker{})
	for _, n := range []any{0, -1, 1.5, 0.0, math.NaN(), math.Inf(1), math.Inf(-1), "10", true, json.Number("1e999"), json.Number("x"), []any{1}, int64(-5)} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: "x", ResultCount: n}); res.Err == nil || !strings.Contains(res.Err.Error(), "resultCount") {
			t.Errorf("resultCount %v: %v", n, res.Err)
		}
	}
	for _, n := range []any{nil, 1, int64(3), 2.0, json.Number("7"), 1e300} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: "x", ResultCount: n}); res.Err != nil || len(res.Passages) != 1 {
			t.Errorf("resultCount %v: %v", n, res.Err)
		}
	}
	for _, r := range []any{"true", 1, []any{}, map[string]any{}} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: "x", Rerank: r}); res.Err == nil || !strings.Contains(res.Err.Error(), "rerank") {
			t.Errorf("rerank %v: %v", r, res.Err)
		}
	}
	for _, s := range []any{"Semantic", "", 1, map[string]any{}} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: "x", SearchType: s}); res.Err == nil || !strings.Contains(res.Err.Error(), "searchType") {
			t.Errorf("searchType %v: %v", s, res.Err)
		}
	}
	for _, in := range []any{nil, 1, map[string]any{}, []any{nil}, []any{"x", []any{}}} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: in}); res.Err == nil || !strings.Contains(res.Err.Error(), "input") {
			t.Errorf("input %v: %v", in, res.Err)
		}
	}
	one, list := aiRun(t, a, AISearchInputs{Query: "q", Input: "text"}), aiRun(t, a, AISearchInputs{Query: "q", Input: []string{"text"}})
	if one.Err != nil || mustJSON(t, one) != mustJSON(t, list) {
		t.Errorf("a string is a one-item array: %s, %s", mustJSON(t, one), mustJSON(t, list))
	}
	for _, in := range []any{[]any{}, []string{}, []any{"", " \n"}} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: in}); mustJSON(t, res) != "[]" {
			t.Errorf("input %v: %s", in, mustJSON(t, res))
		}
	}
	if _, err := (AISearchInputs{Query: "q", Input: "x", Rerank: true}).Request(); err != nil {
		t.Error(err)
	}
	if res := aiRun(t, NewAISearch(newWords(), nil), AISearchInputs{Query: "q", Input: "x", Rerank: true, ResultCount: 0}); !errors.Is(res.Err, ErrNotConfigured) {
		t.Errorf("no reranker: %v", res.Err)
	}
	if res := aiRun(t, NewAISearch(nil, nil), AISearchInputs{Query: "q", Input: "x"}); !errors.Is(res.Err, ErrNotConfigured) {
		t.Errorf("no embedder: %v", res.Err)
	}
}

func TestS2_2_ChunkOptions(t *testing.T) {
	a := NewAISearch(newWords(), nil)
	long := strings.Repeat("word ", 600)
	if res := aiRun(t, a, AISearchInputs{Query: "q", Input: long}); res.Err != nil || len(res.Passages) != 2 {
		t.Errorf("defaults: %d, %v", len(res.Passages), res.Err)
	}
	for _, o := range []map[string]any{
		{"tokenModel": 7, "tokenLimit": "none"}, {"tokenModel": "gpt", "tokenLimit": -1}, {"tokenModel": nil, "tokenLimit": []any{}},
		{"strategy": "count", "unit": "token", "size": 500, "overlap": 50, "separator": "\n\n"},
	} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: long, ChunkOptions: o}); res.Err != nil || len(res.Passages) != 2 {
			t.Errorf("%v: %d, %v", o, len(res.Passages), res.Err)
		}
	}
	for _, o := range []any{
		map[string]any{"strategy": "structure"}, map[string]any{"strategy": "semantic"}, map[string]any{"unit": "line"}, map[string]any{"size": 0},
		map[string]any{"size": math.NaN()}, map[string]any{"size": 1.5}, map[string]any{"size": -3}, map[string]any{"overlap": -1}, map[string]any{"overlap": math.Inf(1)},
		map[string]any{"separator": 5}, map[string]any{"unit": "custom", "separator": ""}, map[string]any{"size": true}, "500", 500, []any{},
	} {
		if res := aiRun(t, a, AISearchInputs{Query: "q", Input: long, ChunkOptions: o}); !errors.Is(res.Err, storage.ErrInvalid) || !strings.Contains(res.Err.Error(), "chunk options") {
			t.Errorf("%v: %v", o, res.Err)
		}
	}
	size := 100
	if res := aiRun(t, a, AISearchInputs{Query: "q", Input: long, ChunkOptions: &chunk.Options{Unit: chunk.Word, Size: &size}}); res.Err != nil || len(res.Passages) < 6 {
		t.Errorf("typed: %d, %v", len(res.Passages), res.Err)
	}
}

func TestS2_3_Units(t *testing.T) {
	a := NewAISearch(newWords(), nil)
	doc := "One two. Three four?\n\nFive|six.\fSeven"
	for unit, want := range map[string][]string{
		"word":      {"One", "two.", "Three", "four?", "Five", "|six.", "Seven"},
		"sentence":  {"One two.", "Three four?", "Five|six.", "Seven"},
		"paragraph": {"One two. Three four?", "Five|six.\fSeven"},
		"custom":    {"One two. Three four?\n\nFive", "six.\fSeven"},
		"page":      {"One two. Three four?\n\nFive|six.", "Seven"},
	} {
		res := aiRun(t, a, AISearchInputs{Query: "zzz", Input: doc, ChunkOptions: map[string]any{"unit": unit, "size": 1, "separator": "|"}})
		if got := texts(res); res.Err != nil || len(got) != len(want) || unit != "word" && !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", unit, got, res.Err)
		}
	}
	// No chunk has more than 32,768 tokens.
	res := aiRun(t, a, AISearchInputs{Query: "q", Input: strings.Repeat("a ", 70_000), ChunkOptions: map[string]any{"unit": "page", "size": 1}})
	if res.Err != nil || len(res.Passages) != 3 {
		t.Errorf("%d chunks of 70,000 tokens, %v", len(res.Passages), res.Err)
	}
}

func TestS2_4_Overlap(t *testing.T) {
	a := NewAISearch(newWords(), nil)
	run := func(o map[string]any) ([]string, error) {
		o["unit"] = "word"
		res := aiRun(t, a, AISearchInputs{Query: "zzz", Input: "a b c d e", ChunkOptions: o, ResultCount: 100})
		return texts(res), res.Err
	}
	if got, err := run(map[string]any{"size": 3, "overlap": 1}); err != nil || !slices.Equal(got, []string{"a b c", "c d e"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := run(map[string]any{"size": 3}); err != nil || !slices.Equal(got, []string{"a b c", "b c d", "c d e"}) {
		t.Errorf("unset: %q, %v", got, err)
	}
	if got, err := run(map[string]any{"size": 3, "overlap": 0}); err != nil || !slices.Equal(got, []string{"a b c", "d e"}) {
		t.Errorf("none: %q, %v", got, err)
	}
	for _, overlap := range []int{3, 4, 500} {
		if _, err := run(map[string]any{"size": 3, "overlap": overlap}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("overlap %d: %v", overlap, err)
		}
	}
}

func TestS2_5_Divide(t *testing.T) {
	a := NewAISearch(newWords(), nil)
	for n, want := range map[int][]string{
		1: {"a b c d e"}, 2: {"a b c", "d e"}, 3: {"a b", "c d", "e"}, 5: {"a", "b", "c", "d", "e"}, 9: {"a", "b", "c", "d", "e"},
	} {
		res := aiRun(t, a, AISearchInputs{Query: "zzz", Input: "a b c d e", ChunkOptions: map[string]any{"strategy": "divide", "unit": "word", "size": n}})
		if got := texts(res); res.Err != nil || !slices.Equal(got, want) {
			t.Errorf("%d parts: %q, %v", n, got, res.Err)
		}
	}
}

func TestS2_6_Limits(t *testing.T) {
	e := newWords()
	e.dim = 1
	a := NewAISearch(e, nil)
	one := map[string]any{"unit": "paragraph", "size": 1}
	run := func(n int) *AISearchResult {
		return aiRun(t, a, AISearchInputs{Query: "q", Input: []string{strings.Repeat("x\n\n \n\n", n-7), strings.Repeat("y\n\n", 7)}, ChunkOptions: one})
	}
	if res := run(50_000); res.Err != nil || len(res.Passages) != 10 {
		t.Errorf("50,000: %v", res.Err)
	}
	before := e.calls.Load()
	if res := run(50_001); !errors.Is(res.Err, chunk.ErrTooManyChunks) || CodeOf(res.Err) != CodeTooLarge || e.calls.Load() != before {
		t.Errorf("50,001: %v", res.Err)
	}
	if res := aiRun(t, a, AISearchInputs{Query: "q", Input: " \n\n \u200b \n\n x", ChunkOptions: one}); len(res.Passages) != 1 || res.Passages[0].Text != "x" {
		t.Errorf("white space: %q", texts(res))
	}
}

func TestS2_7_Scores(t *testing.T) {
	e := newWords()
	a := NewAISearch(e, nil)
	in := AISearchInputs{Query: "granite", Input: []string{"slate\n\ngranite", "!!!", "granite\n\ngranite slate"}, ChunkOptions: map[string]any{"unit": "paragraph", "size": 1}, WithScore: true}
	res := aiRun(t, a, in)
	var got []string
	for _, p := range res.Passages {
		got = append(got, fmt.Sprintf("%d %s %.3f", p.DocumentIndex, p.Text, *p.Score))
	}
	want := []string{"0 granite 1.000", "2 granite 1.000", "2 granite slate 0.707", "0 slate 0.000", "1 !!! 0.000"}
	if res.Err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, res.Err)
	}
	for name, hook := range map[string]func(kind embed.Kind, r *embed.Result) error{
		"NaN":               func(_ embed.Kind, r *embed.Result) error { r.Vectors[0] = float32(math.NaN()); return nil },
		"infinite":          func(_ embed.Kind, r *embed.Result) error { r.Vectors[3] = float32(math.Inf(-1)); return nil },
		"one too few":       func(_ embed.Kind, r *embed.Result) error { r.Vectors = r.Vectors[e.dim:]; return nil },
		"another dimension": func(k embed.Kind, r *embed.Result) error { r.Vectors = r.Vectors[:len(r.Vectors)-int(1-k)]; return nil },
		"fails":             func(embed.Kind, *embed.Result) error { return errors.New("down") },
	} {
		bad := newWords()
		bad.hook = func(_ context.Context, k embed.Kind, _ []string, r *embed.Result) error { return hook(k, r) }
		if res := aiRun(t, NewAISearch(bad, nil), in); res.Err == nil {
			t.Errorf("%s: %v", name, texts(res))
		}
	}
}

func TestS2_8_Rerank(t *testing.T) {
	var pool int
	backwards := rerankFunc(func(_ context.Context, n int) ([]rerank.Scored, error) {
		pool = n
		out := make([]rerank.Scored, n)
		for i := range out {
			out[i] = rerank.Scored{Index: i, Score: float64(i/2) / float64(n)} // in pairs of equals
		}
		return out, nil
	})
	doc := strings.Repeat("granite\n\n", 120)
	for _, c := range []struct{ count, pool int }{{3, 50}, {50, 50}, {70, 70}} {
		res := aiRun(t, NewAISearch(newWords(), backwards), AISearchInputs{Query: "granite", Input: doc, Rerank: true, ResultCount: c.count,
			ChunkOptions: map[string]any{"unit": "paragraph", "size": 1}})
		if res.Err != nil || pool != c.pool || len(res.Passages) != c.count {
			t.Errorf("%d: pool %d, %d results, %v", c.count, pool, len(res.Passages), res.Err)
			continue
		}
		// The best pair is the last of the pool, in its own order.
		if first := res.Passages[0].Start / 9; first != c.pool-2 || res.Passages[1].Start/9 != c.pool-1 {
			t.Errorf("%d: first is chunk %d", c.count, first)
		}
	}
	for name, r := range map[string]rerankFunc{
		"fails": func(context.Context, int) ([]rerank.Scored, error) { return nil, errors.New("down") },
		"twice": func(context.Context, int) ([]rerank.Scored, error) {
			return []rerank.Scored{{Index: 0}, {Index: 0}}, nil
		},
		"out of range": func(context.Context, int) ([]rerank.Scored, error) { return []rerank.Scored{{Index: 1000}}, nil },
		"NaN":          func(context.Context, int) ([]rerank.Scored, error) { return []rerank.Scored{{Score: math.NaN()}}, nil },
		"nothing":      func(context.Context, int) ([]rerank.Scored, error) { return nil, nil },
	} {
		if res := aiRun(t, NewAISearch(newWords(), r), AISearchInputs{Query: "q", Input: doc, Rerank: true}); res.Err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, h := range misbehave() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := NewAISearch(newWords(), httpReranker(t, h))
			ctx, cancel := context.WithTimeout(bg, 300*time.Millisecond)
			defer cancel()
			done := 0
			if res := a.Run(ctx, AISearchInputs{Query: "q", Input: doc, Rerank: true}, func(*AISearchResult) { done++ }); res.Err == nil || done != 1 {
				t.Errorf("%v, done %d", res.Err, done)
			}
		})
	}
}

func TestS2_9_Shape(t *testing.T) {
	doc := "😀 naïve\r\n\r\n漢字 text e\u0301\r\n\r\n\ufeffend"
	units := map[aisearch.OffsetUnit]func(start, end int) string{
		"":             func(s, e int) string { return string(utf16.Decode(utf16.Encode([]rune(doc))[s:e])) },
		aisearch.UTF16: func(s, e int) string { return string(utf16.Decode(utf16.Encode([]rune(doc))[s:e])) },
		aisearch.Rune:  func(s, e int) string { return string([]rune(doc)[s:e]) },
		aisearch.Byte:  func(s, e int) string { return doc[s:e] },
	}
	for unit, cut := range units {
		res := aiRun(t, NewAISearch(newWords(), nil), AISearchInputs{Query: "text", Input: []string{doc}, OffsetUnit: unit, ChunkOptions: map[string]any{"unit": "paragraph", "size": 1}})
		if res.Err != nil || len(res.Passages) != 3 {
			t.Fatal(unit, res.Err)
		}
		for _, p := range res.Passages {
			if got := cut(p.Start, p.End); got != p.Text {
				t.Errorf("%s: %q at %d to %d, not %q", unit, got, p.Start, p.End, p.Text)
			}
		}
	}
	res := aiRun(t, NewAISearch(newWords(), nil), AISearchInputs{Query: "hard", Input: "a hard stone"})
	if got, want := mustJSON(t, res), `[{"text":"a hard stone","documentIndex":0,"start":0,"end":12}]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestS2_10_RunAndDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newWords()
		var mu sync.Mutex
		open, most := 0, 0
		e.hook = func(ctx context.Context, kind embed.Kind, _ []string, _ *embed.Result) error {
			mu.Lock()
			if kind == embed.Query {
				open++
			}
			most = max(most, open)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if kind == embed.Passage {
				open--
			}
			return ctx.Err()
		}
		a := NewAISearch(e, nil)
		var wg sync.WaitGroup
		var order []int
		for i := range 3 {
			wg.Go(func() {
				a.Run(bg, AISearchInputs{Query: "q", Input: "x"}, func(r *AISearchResult) {
					mu.Lock()
					defer mu.Unlock()
					if r.Err != nil {
						t.Error(r.Err)
					}
					order = append(order, i)
				})
			})
			synctest.Wait()
		}
		wg.Wait()
		if most != 1 || !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("%d at once, order %v", most, order)
		}
		// Done may start the next Run.
		again := false
		a.Run(bg, AISearchInputs{Query: "q", Input: "x"}, func(*AISearchResult) {
			a.Run(bg, AISearchInputs{Query: " "}, func(r *AISearchResult) { again = r.Err != nil })
		})
		if !again {
			t.Error("Done could not run the node again")
		}
	})
}

func TestS2_10_Cancel(t *testing.T) {
	e := newWords()
	started := make(chan struct{})
	e.hook = func(ctx context.Context, _ embed.Kind, _ []string, _ *embed.Result) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}
	a := NewAISearch(e, nil)
	ctx, cancel := context.WithCancel(bg)
	results := make(chan *AISearchResult, 2)
	var wg sync.WaitGroup
	wg.Go(func() { a.Run(ctx, AISearchInputs{Query: "q", Input: "x"}, func(r *AISearchResult) { results <- r }) })
	<-started
	// One that waits for its turn is canceled likewise.
	waiting, stop := context.WithCancel(bg)
	stop()
	wg.Go(func() {
		a.Run(waiting, AISearchInputs{Query: "q", Input: "x"}, func(r *AISearchResult) { results <- r })
	})
	if r := <-results; !errors.Is(r.Err, context.Canceled) || !strings.Contains(r.Err.Error(), "waiting") {
		t.Errorf("waiting: %v", r.Err)
	}
	cancel()
	if r := <-results; !errors.Is(r.Err, context.Canceled) || !strings.Contains(mustJSON(t, r), `{"error":`) {
		t.Errorf("running: %v", r.Err)
	}
	wg.Wait()
	// A model that panics: Done fires, and the panic goes on.
	e.hook = func(context.Context, embed.Kind, []string, *embed.Result) error { panic("model") }
	done := 0
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		a.Run(bg, AISearchInputs{Query: "q", Input: "x"}, func(r *AISearchResult) {
			if done++; r.Err == nil {
				t.Error("no error")
			}
		})
	}()
	e.hook = nil
	if res := aiRun(t, a, AISearchInputs{Query: "q", Input: "x"}); done != 1 || res.Err != nil {
		t.Errorf("done %d, then %v", done, res.Err)
	}
}
