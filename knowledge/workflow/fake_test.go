package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// wordsEmbedder hashes words into vectors: texts that share words are near.
type wordsEmbedder struct {
	name  string
	dim   int
	calls atomic.Int64
	// hook may wait, fail, or change the answer.
	hook func(ctx context.Context, kind embed.Kind, texts []string, r *embed.Result) error
}

func (e *wordsEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: e.name, Revision: "1", Dim: e.dim, Metric: "cosine"}
}

func (e *wordsEmbedder) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	e.calls.Add(1)
	var r embed.Result
	for _, t := range texts {
		v := make([]float32, e.dim)
		for w := range strings.FieldsFuncSeq(strings.ToLower(t), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			h := fnv.New64a()
			h.Write([]byte(w))
			v[h.Sum64()%uint64(e.dim)]++
		}
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if sum > 0 {
			for i := range v {
				v[i] = float32(float64(v[i]) / math.Sqrt(sum))
			}
		}
		r.Vectors = append(r.Vectors, v...)
	}
	if e.hook != nil {
		if err := e.hook(ctx, kind, texts, &r); err != nil {
			return embed.Result{}, err
		}
	}
	return r, ctx.Err()
}

func newWords() *wordsEmbedder { return &wordsEmbedder{name: "words", dim: 256} }

// fakeStore answers with what it is told to, and counts.
type fakeStore struct {
	calls  int
	last   knowledge.Request
	answer func(r knowledge.Request) (*knowledge.Response, error)
}

func (s *fakeStore) Search(_ context.Context, r knowledge.Request) (*knowledge.Response, error) {
	s.calls++
	s.last = r
	if s.answer == nil {
		return &knowledge.Response{Items: items(min(r.TopK, 20))}, nil
	}
	return s.answer(r)
}

// items makes n items of falling scores.
func items(n int) []knowledge.Item {
	out := make([]knowledge.Item, n)
	for i := range out {
		out[i] = knowledge.Item{Content: fmt.Sprintf("passage %d", i), Score: 1 - float64(i)/100, Kind: index.ScoreRRF,
			Metadata: knowledge.Metadata{Source: fmt.Sprintf("%d.md", i), DocumentID: fmt.Sprintf("%d.md", i), KnowledgeBaseID: "kb", ChunkIndex: i}}
	}
	return out
}

// openStore makes a real store of bases, each with documents by name.
func openStore(t testing.TB, o *knowledge.Options, bases map[string]map[string]string, options map[string]*knowledge.BaseOptions) *knowledge.Store {
	t.Helper()
	if o == nil {
		o = &knowledge.Options{Embedder: newWords()}
	}
	o.FS, o.Elsewhere = storage.NewMemFS(), elsewhere
	s, err := knowledge.Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := context.Background()
	for id, docs := range bases {
		if _, err := s.Create(ctx, id, options[id]); err != nil {
			t.Fatal(err)
		}
		r := knowledge.IngestRequest{Base: id}
		for name, text := range docs {
			r.Sources = append(r.Sources, knowledge.Source{Name: name, Data: []byte(text)})
		}
		if report, err := s.Ingest(ctx, r); err != nil || len(report.Failed) > 0 {
			t.Fatal(report, err)
		}
	}
	return s
}

// wordReranker scores a passage by the share of the query's words in it.
type wordReranker struct{}

func (wordReranker) Name() string { return "words" }

func (wordReranker) Rerank(_ context.Context, query string, passages []string, _ int) ([]rerank.Scored, error) {
	words := strings.Fields(strings.ToLower(query))
	var out []rerank.Scored
	for i, p := range passages {
		n := 0
		for _, w := range words {
			if strings.Contains(strings.ToLower(p), w) {
				n++
			}
		}
		x := float64(n) / float64(len(words))
		out = append(out, rerank.Scored{Index: i, Score: x, Raw: x})
	}
	return out, nil
}

// rerankFunc is a reranker of any behavior.
type rerankFunc func(ctx context.Context, n int) ([]rerank.Scored, error)

func (rerankFunc) Name() string { return "fake" }

func (f rerankFunc) Rerank(ctx context.Context, _ string, passages []string, _ int) ([]rerank.Scored, error) {
	return f(ctx, len(passages))
}

// httpReranker speaks to a fake service.
func httpReranker(t *testing.T, h http.HandlerFunc) *rerank.HTTP {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	r, err := rerank.NewHTTP(rerank.Cohere, rerank.Options{Model: "m", Call: call.Options{BaseURL: srv.URL, Backoff: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// chatBody is a request as a chat endpoint gets it.
type chatBody struct {
	Model    string         `json:"model"`
	Messages []chat.Message `json:"messages"`
	Stream   bool           `json:"stream"`
}

// chatServer is a fake chat endpoint; seen gets each request's body.
func chatServer(t testing.TB, o chat.Options, h http.HandlerFunc) *chat.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	o.Call.BaseURL, o.Call.Backoff = srv.URL+"/v1", time.Millisecond
	c, err := chat.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func answer(text string) string {
	b, _ := json.Marshal(map[string]any{"model": "m-1", "usage": map[string]int{"prompt_tokens": 7, "completion_tokens": 3},
		"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}}})
	return string(b)
}

// misbehave are the ways of a service that fails, by name.
func misbehave() map[string]http.HandlerFunc {
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
	}
	return map[string]http.HandlerFunc{
		"late": func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // else the server does not notice that the client left
			select {
			case <-r.Context().Done():
			case <-time.After(30 * time.Second):
			}
		},
		"500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) },
		"401": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"results":[{"index":0,`)
		},
		"bad JSON":      text(`{"results":[{"index":0,`),
		"{}":            text(`{}`),
		"twice":         text(`{"results":[]}{"results":[]}`),
		"error, no 500": text(`{"error":"overloaded"}`),
		"another shape": text(`{"results":"x","choices":"x"}`),
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pairs is a cross-encoder of any logits.
type pairs func(query string, n int) []float64

func (pairs) Name() string { return "pairs" }

func (f pairs) Pairs(_ context.Context, query string, passages []string) ([]float64, error) {
	return f(query, len(passages)), nil
}
