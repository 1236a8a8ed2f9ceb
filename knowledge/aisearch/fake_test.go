package aisearch

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFake = errors.New("fake failure")

func ptr[T any](v T) *T { return &v }

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fakeEmbedder makes vectors by a function of the text.
type fakeEmbedder struct {
	dim    int
	vector func(text string) []float32
	calls  atomic.Int64
	// hook may fail a call or change its answer.
	hook func(kind embed.Kind, texts []string, r *embed.Result) error
}

func embedFunc(dim int, vector func(string) []float32) *fakeEmbedder {
	return &fakeEmbedder{dim: dim, vector: vector}
}

// newWords hashes words: texts that share some are near.
func newWords(_ string, dim int) *fakeEmbedder {
	return embedFunc(dim, func(text string) []float32 {
		v := make([]float32, dim)
		for w := range strings.FieldsSeq(strings.ToLower(text)) {
			h := fnv.New32a()
			h.Write([]byte(w))
			v[h.Sum32()%uint32(dim)]++
		}
		return v
	})
}

func (e *fakeEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: "fake", Dim: e.dim, Metric: "cosine"}
}

func (e *fakeEmbedder) Embed(_ context.Context, kind embed.Kind, texts []string) (r embed.Result, err error) {
	e.calls.Add(1)
	for _, t := range texts {
		r.Vectors = append(r.Vectors, e.vector(t)...)
	}
	if e.hook != nil {
		if err := e.hook(kind, texts, &r); err != nil {
			return embed.Result{}, err
		}
	}
	return r, nil
}

// funcReranker is a reranker made of a function.
type funcReranker func(ctx context.Context, query string, passages []string) ([]rerank.Scored, error)

func (funcReranker) Name() string { return "func" }

func (f funcReranker) Rerank(ctx context.Context, query string, passages []string, topN int) ([]rerank.Scored, error) {
	return f(ctx, query, passages)
}
