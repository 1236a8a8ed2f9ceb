package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

var bg = context.Background()

func TestS1_1_Config(t *testing.T) {
	seed := `{"knowledge_base_ids": ["kb_01HX7A9B2C3D4E5F6G7H8J9K", "kb_01HX7B8C3D4E5F6G7H8J9K0L"], "query": "{{user_message}}",
		"top_k": 5, "score_threshold": 0.7, "search_mode": "hybrid", "output_variable": "search_results"}`
	o, err := ParseSearch([]byte(seed))
	if err != nil || len(o.KnowledgeBaseIDs) != 2 || o.Query != "{{user_message}}" || o.TopK != 5 || o.ScoreThreshold != .7 ||
		o.Mode != knowledge.Hybrid || o.OutputVariable != "search_results" {
		t.Fatalf("%+v, %v", o, err)
	}
	o, err = ParseSearch([]byte(`{"knowledge_base_ids": ["a"], "query": "x"}`))
	if err != nil || o.TopK != 5 || o.ScoreThreshold != 0 || o.Mode != knowledge.Vector || o.OutputVariable != "search_results" || o.OnError != knowledge.Fail {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	for _, c := range []struct{ config, path, reason string }{
		{`{"query": "x"}`, "knowledge_base_ids", "required"},
		{`{"knowledge_base_ids": [], "query": "x"}`, "knowledge_base_ids", "0 ids"},
		{`{"knowledge_base_ids": "a", "query": "x"}`, "knowledge_base_ids", "want an array, got text"},
		{`{"knowledge_base_ids": ["a", 1], "query": "x"}`, "knowledge_base_ids[1]", "want text, got a number"},
		{`{"knowledge_base_ids": ["a", " "], "query": "x"}`, "knowledge_base_ids[1]", "is blank"},
		{`{"knowledge_base_ids": ["a"]}`, "query", "required"},
		{`{"knowledge_base_ids": ["a"], "query": null}`, "query", "want text, got null"},
		{`{"knowledge_base_ids": ["a"], "query": "\u3000"}`, "query", "is blank"},
		{`{"knowledge_base_ids": ["a"], "query": "{{a"}`, "query", "want }}"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": "5"}`, "top_k", "want a number, got text"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": 0}`, "top_k", "from 1 to 1000"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": -1}`, "top_k", "from 1 to 1000"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": 1.5}`, "top_k", "a whole number"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": 9223372036854775807}`, "top_k", "from 1 to 1000"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": 1e999}`, "top_k", "from 1 to 1000"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": true}`, "top_k", "got a boolean"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "score_threshold": 1.01}`, "score_threshold", "from 0 to 1"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "score_threshold": -0.1}`, "score_threshold", "from 0 to 1"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "search_mode": "Hybrid"}`, "search_mode", "want one of vector, keyword, hybrid"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "output_variable": "a.b"}`, "output_variable", "variable name"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "top_k": 20, "retrieval_depth": 10}`, "retrieval_depth", "from 20 to"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "topK": 3}`, "topK", "unknown key"},
		{`{"knowledge_base_ids": ["a"], "qurey": "x"}`, "qurey", "unknown key"},
		{`{"knowledge_base_ids": ["a"], "query": "x", "query": "y"}`, "query", "comes twice"},
		{`["a"]`, "", "want an object, got an array"},
		{`{"knowledge_base_ids": ["a"], "query": "x"} {}`, "", "something follows"},
		{`{"knowledge_base_ids": ["a"], "query": "x"`, "", "ends too early"},
		{`{"knowledge_base_ids": ["a" "b"]}`, "knowledge_base_ids[1]", "no JSON"},
		{``, "", "ends too early"},
		{"\"\xff\"", "", "no UTF-8"},
		{strings.Repeat("[", 100), "", "nested more than 32"},
	} {
		_, err := ParseSearch([]byte(c.config))
		var ce *ConfigError
		if !errors.As(err, &ce) || !errors.Is(err, storage.ErrInvalid) || !strings.Contains(ce.Reason, c.reason) || !strings.HasPrefix(ce.Path, c.path) ||
			c.path != "" && ce.Path != c.path {
			t.Errorf("%s: %v, want %s: … %s", c.config, err, c.path, c.reason)
		}
	}
	_, err = ParseSearch([]byte("{\n  \"knowledge_base_ids\": [\"ü\"], \"top_k\": \"x\"\n}"))
	var ce *ConfigError
	if !errors.As(err, &ce) || ce.Line != 2 || ce.Column != 41 {
		t.Errorf("place: %+v", ce)
	}
	// The same rules hold for a Go call, before anything is searched.
	good := SearchOptions{KnowledgeBaseIDs: []string{"a"}, Query: "x"}
	for name, change := range map[string]func(*SearchOptions){
		"knowledge_base_ids": func(o *SearchOptions) { o.KnowledgeBaseIDs = nil },
		"is blank":           func(o *SearchOptions) { o.KnowledgeBaseIDs = []string{"a", " "} },
		"top_k":              func(o *SearchOptions) { o.TopK = 1001 },
		"score_threshold":    func(o *SearchOptions) { o.ScoreThreshold = math.NaN() },
		"search_mode":        func(o *SearchOptions) { o.Mode = "fuzzy" },
		"on_error":           func(o *SearchOptions) { o.OnError = "x" },
		"retrieval_depth":    func(o *SearchOptions) { o.Depth = 2 },
	} {
		o, s := good, &fakeStore{}
		change(&o)
		if _, err := Search(bg, s, &o, nil); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), name) || s.calls > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Options that are not there are wrong ones, not a crash.
func TestNilOptions(t *testing.T) {
	if _, err := Search(bg, &fakeStore{}, nil, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	if _, err := Rerank(bg, wordReranker{}, nil, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	if _, err := Agent(bg, nil, nil, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	var zero Vars
	if err := zero.Set("x", "y"); err != nil {
		t.Error(err)
	}
}

func TestS1_2_Query(t *testing.T) {
	s := &fakeStore{}
	vars := newVars(t, map[string]any{"user_message": "what is {{x}}?", "n": 1, "blank": " "})
	out, err := Search(bg, s, &SearchOptions{KnowledgeBaseIDs: []string{"a"}, Query: "{{user_message}}"}, vars)
	if err != nil || s.last.Query != "what is {{x}}?" || out.Query != s.last.Query {
		t.Fatal(s.last.Query, err)
	}
	s.calls = 0
	for _, q := range []string{"{{missing}}", "{{n}}", "{{blank}}", "", " ", "{{"} {
		if _, err := Search(bg, s, &SearchOptions{KnowledgeBaseIDs: []string{"a"}, Query: q}, vars); !errors.Is(err, storage.ErrInvalid) || s.calls > 0 {
			t.Errorf("%q: %v", q, err)
		}
	}
}

// G08: a blank query is one clear error in each mode, and reaches no provider.
func TestG08(t *testing.T) {
	e := newWords()
	s := openStore(t, &knowledge.Options{Embedder: e}, map[string]map[string]string{"kb": {"a.md": "slate"}}, nil)
	before := e.calls.Load()
	for _, q := range []string{"", " ", "\u3000\n", "\u200b\ufeff"} {
		vars := newVars(t, map[string]any{"q": q})
		for _, mode := range []knowledge.Mode{knowledge.Vector, knowledge.Keyword, knowledge.Hybrid} {
			_, err := Search(bg, s, &SearchOptions{KnowledgeBaseIDs: []string{"kb"}, Query: "{{q}}", Mode: mode}, vars)
			var te *TemplateError
			if !errors.As(err, &te) || te.Expression != "q" {
				t.Errorf("%q, %s: %v", q, mode, err)
			}
		}
		if res := NewAISearch(e, nil).Run(bg, AISearchInputs{Query: q, Input: "slate"}, nil); res.Err == nil {
			t.Errorf("AI search of %q: no error", q)
		}
	}
	if res := NewAISearch(e, nil).Run(bg, AISearchInputs{Query: "q", Input: []string{" ", "\u200b", "\n\n"}}, nil); res.Err != nil || mustJSON(t, res) != "[]" {
		t.Error(mustJSON(t, res))
	}
	if n := e.calls.Load() - before; n != 0 {
		t.Errorf("%d calls of the embedder", n)
	}
}

// twoBases is a store of two bases about stones.
func twoBases(t *testing.T) *knowledge.Store {
	return openStore(t, nil, map[string]map[string]string{
		"one": {"a.md": "granite is a hard stone", "b.md": "marble is soft"},
		"two": {"c.md": "granite and slate are hard", "d.md": "bread is food", "e.md": "a stone"},
	}, nil)
}

func TestS1_3_Merge(t *testing.T) {
	s := twoBases(t)
	for _, mode := range []knowledge.Mode{knowledge.Vector, knowledge.Keyword, knowledge.Hybrid} {
		o := SearchOptions{KnowledgeBaseIDs: []string{"one", "two"}, Query: "hard granite stone", TopK: 3, Mode: mode}
		out, err := Search(bg, s, &o, nil)
		if err != nil || len(out.Items) != 3 {
			t.Fatal(mode, out, err)
		}
		bases := map[string]bool{}
		for i, it := range out.Items {
			bases[it.Metadata.KnowledgeBaseID] = true
			if i > 0 && it.Score > out.Items[i-1].Score {
				t.Errorf("%s: out of order", mode)
			}
		}
		if len(bases) != 2 || out.Items[0].Metadata.Source != "a.md" {
			t.Errorf("%s: %s", mode, mustJSON(t, out))
		}
		// One global cut: a longer list begins with the shorter one.
		o.TopK = 5
		long, err := Search(bg, s, &o, nil)
		if err != nil || mustJSON(t, long.Items[:3]) != mustJSON(t, out.Items) {
			t.Errorf("%s: another start", mode)
		}
	}
}

func TestS1_4_MergeByRank(t *testing.T) {
	e := map[string]*wordsEmbedder{"x": newWords(), "y": {name: "other", dim: 64}}
	o := &knowledge.Options{Embedder: e["x"]}
	o.Embedders = map[string]embed.Embedder{"y": e["y"]}
	s := openStore(t, o, map[string]map[string]string{"one": {"a.md": "granite", "b.md": "slate"}, "two": {"c.md": "granite\n", "d.md": "chalk"}},
		map[string]*knowledge.BaseOptions{"two": {Embedder: "y"}})
	out, err := Search(bg, s, &SearchOptions{KnowledgeBaseIDs: []string{"two", "one"}, Query: "granite"}, nil)
	if err != nil || len(out.Items) < 2 || out.Items[0].Metadata.KnowledgeBaseID != "two" || out.Items[1].Metadata.KnowledgeBaseID != "one" ||
		out.Items[0].Score != out.Items[1].Score {
		t.Fatal(mustJSON(t, out), err)
	}
	if len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "merged by rank") {
		t.Errorf("notes %q", out.Notes)
	}
}

func TestS1_5_FailingBase(t *testing.T) {
	s := twoBases(t)
	o := SearchOptions{KnowledgeBaseIDs: []string{"one", "missing"}, Query: "granite"}
	_, err := Search(bg, s, &o, nil)
	if !errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), `"missing"`) || CodeOf(err) != CodeNotFound {
		t.Errorf("strict: %v", err)
	}
	o.OnError = knowledge.Partial
	out, err := Search(bg, s, &o, nil)
	if err != nil || len(out.Items) == 0 || !slices.Equal(out.Flags, []string{"base-missing:missing"}) || len(out.Errors) != 1 {
		t.Errorf("partial: %+v, %v", out, err)
	}
	// Repeated ids count once, in order, and are trimmed.
	f := &fakeStore{}
	o = SearchOptions{KnowledgeBaseIDs: []string{"b", "a", " b ", "a"}, Query: "x"}
	if _, err := Search(bg, f, &o, nil); err != nil || !slices.Equal(f.last.Bases, []string{"b", "a"}) {
		t.Error(f.last.Bases, err)
	}
}

func TestS1_6_Output(t *testing.T) {
	s := openStore(t, nil, map[string]map[string]string{"kb": {"p.txt": "granite one\fgranite two granite", "plain.md": "granite"}},
		map[string]*knowledge.BaseOptions{"kb": {}})
	vars := newVars(t, nil)
	if _, err := Search(bg, s, &SearchOptions{KnowledgeBaseIDs: []string{"kb"}, Query: "granite"}, vars); err != nil {
		t.Fatal(err)
	}
	v, _ := vars.Get("search_results")
	var list []map[string]any
	if err := json.Unmarshal([]byte(mustJSON(t, v)), &list); err != nil || len(list) < 2 {
		t.Fatal(err, mustJSON(t, v))
	}
	for _, it := range list {
		m := it["metadata"].(map[string]any)
		if _, ok := it["content"].(string); !ok || m["knowledge_base_id"] != "kb" || m["source"] == "" {
			t.Errorf("%v", it)
		}
		if x := it["score"].(float64); !(x >= 0 && x <= 1) {
			t.Errorf("score %v", x)
		}
		if _, ok := m["chunk_index"].(float64); !ok {
			t.Errorf("chunk_index is missing: %v", m)
		}
		if page, ok := m["page"]; ok && page.(float64) < 1 {
			t.Errorf("page %v", page)
		}
		if _, ok := m["page"]; ok && m["source"] == "plain.md" {
			t.Errorf("%v has a page", m)
		}
	}
	// Nothing found is [], in another variable too.
	o := SearchOptions{KnowledgeBaseIDs: []string{"kb"}, Query: "quux", Mode: knowledge.Keyword, OutputVariable: "other"}
	out, err := Search(bg, s, &o, vars)
	if v, _ := vars.Get("other"); err != nil || mustJSON(t, v) != "[]" || mustJSON(t, out) != "[]" {
		t.Error(mustJSON(t, v), err)
	}
	// A searcher that breaks the contract is an error, not an output.
	for name, answer := range map[string]*knowledge.Response{
		"none":         nil,
		"too many":     {Items: items(6)},
		"NaN":          {Items: []knowledge.Item{{Score: math.NaN()}}},
		"above 1":      {Items: []knowledge.Item{{Score: 1.5}}},
		"out of order": {Items: []knowledge.Item{{Score: .1}, {Score: .2}}},
	} {
		f := &fakeStore{answer: func(knowledge.Request) (*knowledge.Response, error) { return answer, nil }}
		if _, err := Search(bg, f, &SearchOptions{KnowledgeBaseIDs: []string{"a"}, Query: "x"}, nil); !errors.Is(err, call.ErrReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// G09: pages lie within the document, and the marker [n] is the n-th source.
func TestG09(t *testing.T) {
	size := 3
	s := openStore(t, nil, map[string]map[string]string{"kb": {"one.txt": "granite alpha", "two.txt": "granite beta\fslate gamma", "three.txt": "chalk\fgranite delta\fmarble"}},
		map[string]*knowledge.BaseOptions{"kb": {Chunk: &chunk.Options{Unit: "word", Size: &size}}})
	vars := newVars(t, map[string]any{"user_message": "granite"})
	out, err := Search(bg, s, &SearchOptions{KnowledgeBaseIDs: []string{"kb"}, Query: "{{user_message}}", TopK: 10}, vars)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]int{"one.txt": 1, "two.txt": 2, "three.txt": 3}
	crossing := false
	for _, it := range out.Items {
		m := it.Metadata
		if last := max(m.Page, m.PageEnd); last > pages[m.Source] || m.PageEnd > 0 && m.PageEnd <= m.Page {
			t.Errorf("%s: pages %d to %d of %d", m.Source, m.Page, m.PageEnd, pages[m.Source])
		}
		crossing = crossing || m.PageEnd > m.Page
	}
	if !crossing {
		t.Errorf("no chunk crosses a page: %s", mustJSON(t, out))
	}
	var prompt string
	c := chatServer(t, chat.Options{Model: "m"}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var body chatBody
		json.Unmarshal(b, &body)
		prompt = body.Messages[0].Content
		io.WriteString(w, answer("as [2], [1] and [9] say"))
	})
	a, err := Agent(bg, c, &AgentOptions{}, vars)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vars.Lookup("agent_sources.1.source")
	if err != nil || v != a.Sources[1].Source {
		t.Error(v, err)
	}
	for i, src := range a.Sources {
		if src.Number != i+1 || !strings.Contains(prompt, fmt.Sprintf("[%d] %s", i+1, src.Source)) {
			t.Errorf("source %d: %+v in %q", i, src, prompt)
		}
	}
	if len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "[9]") {
		t.Errorf("notes %q", a.Notes)
	}
}

func TestS1_7_Config(t *testing.T) {
	o, err := ParseRerank([]byte(`{"input_variable": "search_results", "top_k": 3}`))
	if err != nil || o.TopK != 3 || o.Model != "cross-encoder" || o.OutputVariable != "reranked_results" || o.OnError != rerank.Fail {
		t.Fatalf("%+v, %v", o, err)
	}
	for config, want := range map[string]string{
		`{}`:                                                  "input_variable",
		`{"input_variable": "a b"}`:                           "input_variable",
		`{"input_variable": "a", "top_k": 0}`:                 "top_k",
		`{"input_variable": "a", "model": 7}`:                 "model",
		`{"input_variable": "a", "query": "{{"}`:              "query",
		`{"input_variable": "a", "on_error": "partial"}`:      "on_error",
		`{"input_variable": "a", "score_threshold": 0.5}`:     "score_threshold",
		`{"input_variable": "a", "output_variable": "{{x}}"}`: "output_variable",
	} {
		_, err := ParseRerank([]byte(config))
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Path != want {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// rerankVars hold n items under search_results.
func rerankVars(t *testing.T, n int) *Vars {
	vars := newVars(t, map[string]any{"mine": "another query"})
	if err := vars.Set("search_results", &Results{Query: "the query", Items: items(n), Flags: []string{"base-missing:x"}}); err != nil {
		t.Fatal(err)
	}
	return vars
}

func TestS1_7_Rerank(t *testing.T) {
	vars := rerankVars(t, 4)
	logits := rerank.Pairs(pairs(func(query string, n int) []float64 {
		if query != "the query" {
			t.Errorf("query %q", query)
		}
		return []float64{-2, 3, 0, 3}[:n]
	}))
	out, err := Rerank(bg, logits, &RerankOptions{InputVariable: "search_results", TopK: 3}, vars)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range out.Items {
		got = append(got, fmt.Sprintf("%s %.4f %.2f", it.Content, it.Score, *it.RetrievalScore))
		if it.Kind != knowledge.ScoreRerank || it.RetrievalKind != index.ScoreRRF {
			t.Errorf("kinds %s, %s", it.Kind, it.RetrievalKind)
		}
	}
	want := []string{"passage 1 0.9526 0.99", "passage 3 0.9526 0.97", "passage 2 0.5000 0.98"}
	if !slices.Equal(got, want) || out.Query != "the query" || !slices.Equal(out.Flags, []string{"base-missing:x"}) {
		t.Errorf("%q, %+v", got, out)
	}
	if v, _ := vars.Get("reranked_results"); v != out {
		t.Errorf("written: %v", v)
	}
	in, _ := vars.Get("search_results")
	if in.(*Results).Items[0].Score != 1 || in.(*Results).Items[0].RetrievalScore != nil {
		t.Error("the input was changed")
	}
}

func TestS1_7_Query(t *testing.T) {
	var seen string
	r := rerank.Pairs(pairs(func(q string, n int) []float64 { seen = q; return make([]float64, n) }))
	o := RerankOptions{InputVariable: "search_results", Query: "{{mine}}!"}
	if _, err := Rerank(bg, r, &o, rerankVars(t, 2)); err != nil || seen != "another query!" {
		t.Error(seen, err)
	}
	// JSON from elsewhere carries no query.
	vars := newVars(t, map[string]any{"hits": []any{map[string]any{"content": "a", "score": .5, "metadata": map[string]any{"source": "a.md", "lane": "x"}}, map[string]any{"content": "b"}}, "q": "why"})
	if _, err := Rerank(bg, r, &RerankOptions{InputVariable: "hits"}, vars); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "query") {
		t.Errorf("no query: %v", err)
	}
	out, err := Rerank(bg, r, &RerankOptions{InputVariable: "hits", Query: "{{q}}"}, vars)
	if err != nil || len(out.Items) != 2 || out.Items[0].Metadata.Source != "a.md" || out.Items[0].Metadata.Meta["lane"] != "x" || *out.Items[0].RetrievalScore != .5 {
		t.Errorf("%s, %v", mustJSON(t, out), err)
	}
	for name, v := range map[string]any{"text": "x", "object": map[string]any{}, "no content": []any{map[string]any{"score": .5}}, "score": []any{map[string]any{"content": "a", "score": 7.0}},
		"type": []any{map[string]any{"content": "a", "score": "1"}}, "null": nil, "item": []any{1.0}} {
		if _, err := Rerank(bg, r, &RerankOptions{InputVariable: "v", Query: "q"}, newVars(t, map[string]any{"v": v})); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Rerank(bg, r, &RerankOptions{InputVariable: "gone"}, vars); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "gone") {
		t.Error(err)
	}
	if _, err := Rerank(bg, nil, &RerankOptions{InputVariable: "hits", Query: "q"}, vars); !errors.Is(err, ErrNotConfigured) {
		t.Error(err)
	}
	for _, o := range []RerankOptions{{InputVariable: "hits", TopK: -1}, {InputVariable: "hits", OnError: 9}} {
		if _, err := Rerank(bg, r, &o, vars); !errors.Is(err, storage.ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestS1_7_Contract(t *testing.T) {
	half := func(list ...int) []rerank.Scored {
		var out []rerank.Scored
		for _, i := range list {
			out = append(out, rerank.Scored{Index: i, Score: .5})
		}
		return out
	}
	for name, bad := range map[string][]rerank.Scored{
		"repeated":     half(1, 0, 1),
		"out of range": half(0, 5),
		"negative":     half(-1),
		"NaN":          {{Index: 0, Score: math.NaN()}},
		"raw NaN":      {{Index: 0, Score: .5, Raw: math.NaN()}},
		"infinite":     {{Index: 0, Score: math.Inf(1)}},
		"a logit":      {{Index: 0, Score: -3}},
		"too many":     half(0, 1, 2, 3, 4, 0),
	} {
		r := rerankFunc(func(context.Context, int) ([]rerank.Scored, error) { return bad, nil })
		if _, err := Rerank(bg, r, &RerankOptions{InputVariable: "search_results"}, rerankVars(t, 5)); !errors.Is(err, call.ErrReply) || CodeOf(err) != CodeBadReply {
			t.Errorf("%s: %v", name, err)
		}
		out, err := Rerank(bg, r, &RerankOptions{InputVariable: "search_results", TopK: 2, OnError: rerank.Keep}, rerankVars(t, 5))
		if err != nil || len(out.Items) != 2 || out.Items[0].Score != 1 || !slices.Contains(out.Flags, "rerank-failed:skipped") || len(out.Errors) != 1 {
			t.Errorf("%s, kept: %+v, %v", name, out, err)
		}
	}
}

// G03: 14 of 20, none, or equal scores: the scored ones first, ties and the
// rest in the old order.
func TestG03(t *testing.T) {
	reply := func(n int, score func(i int) float64) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			list := []map[string]any{}
			for i := range n {
				list = append(list, map[string]any{"index": i, "relevance_score": score(i)})
			}
			json.NewEncoder(w).Encode(map[string]any{"results": list})
		}
	}
	for _, c := range []struct {
		name  string
		h     http.HandlerFunc
		first []int
		flag  bool
	}{
		{"14 of 20", reply(14, func(i int) float64 { return float64(i) / 20 }), []int{13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 14, 15, 16, 17, 18, 19}, false},
		{"none", reply(0, nil), []int{0, 1, 2, 3}, true},
		{"all equal", reply(20, func(int) float64 { return .5 }), []int{0, 1, 2, 3}, false},
	} {
		out, err := Rerank(bg, httpReranker(t, c.h), &RerankOptions{InputVariable: "search_results", TopK: 20}, rerankVars(t, 20))
		if err != nil || len(out.Items) != 20 || slices.Contains(out.Flags, rerank.FlagSkipped) != c.flag {
			t.Fatalf("%s: %+v, %v", c.name, out, err)
		}
		for i, want := range c.first {
			if out.Items[i].Metadata.ChunkIndex != want {
				t.Errorf("%s: place %d has %d, want %d", c.name, i, out.Items[i].Metadata.ChunkIndex, want)
			}
		}
	}
}

// G05: a reranker that is late or fails gives the old order in time, flagged;
// or, in strict mode, an error. Never an empty success.
func TestG05(t *testing.T) {
	for name, h := range misbehave() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httpReranker(t, h)
			for _, policy := range []rerank.Policy{rerank.Keep, rerank.Fail} {
				const deadline = 2 * time.Second
				ctx, cancel := context.WithTimeout(bg, deadline)
				start := time.Now()
				out, err := Rerank(ctx, r, &RerankOptions{InputVariable: "search_results", OnError: policy}, rerankVars(t, 20))
				if ctx.Err() != nil || time.Since(start) >= deadline {
					t.Errorf("no time left")
				}
				cancel()
				if policy == rerank.Fail {
					if err == nil || out != nil {
						t.Errorf("strict: %+v, %v", out, err)
					}
					continue
				}
				if err != nil || len(out.Items) != 5 || out.Items[4].Score != .96 || !slices.Contains(out.Flags, rerank.FlagSkipped) || len(out.Errors) != 1 {
					t.Errorf("kept: %+v, %v", out, err)
				}
			}
		})
	}
}

func TestS1_8_Depth(t *testing.T) {
	for _, c := range []struct{ topK, depth, want int }{{0, 0, 50}, {5, 0, 50}, {20, 0, 80}, {1000, 0, 4000}, {5, 7, 7}} {
		s := &fakeStore{}
		if _, err := Search(bg, s, &SearchOptions{KnowledgeBaseIDs: []string{"a"}, Query: "x", TopK: c.topK, Depth: c.depth}, nil); err != nil || s.last.Depth != c.want {
			t.Errorf("top_k %d, depth %d: %d, %v", c.topK, c.depth, s.last.Depth, err)
		}
	}
	o, err := ParseSearch([]byte(`{"knowledge_base_ids": ["a"], "query": "x", "top_k": 20, "retrieval_depth": 100}`))
	if err != nil || o.Depth != 100 {
		t.Error(o, err)
	}
}
