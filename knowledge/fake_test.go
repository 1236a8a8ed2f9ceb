package knowledge

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"

	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wordsEmbedder hashes the words of a text into a vector of unit length: texts
// that share words are near, and the same text always has the same vector.
type wordsEmbedder struct {
	id    embed.Identity
	calls atomic.Int64
	texts atomic.Int64
	// hook may fail a call or change its answer.
	hook func(kind embed.Kind, texts []string, r *embed.Result) error
}

func newWords(name string, dim int) *wordsEmbedder {
	return &wordsEmbedder{id: embed.Identity{Name: name, Revision: "1", Dim: dim, Metric: "cosine"}}
}

func (e *wordsEmbedder) Identity() embed.Identity { return e.id }

func (e *wordsEmbedder) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	if err := ctx.Err(); err != nil {
		return embed.Result{}, err
	}
	e.calls.Add(1)
	e.texts.Add(int64(len(texts)))
	r := embed.Result{Vectors: make([]float32, 0, len(texts)*e.id.Dim)}
	for _, t := range texts {
		r.Vectors = append(r.Vectors, hashWords(t, e.id.Dim)...)
	}
	if e.hook != nil {
		if err := e.hook(kind, texts, &r); err != nil {
			return embed.Result{}, err
		}
	}
	return r, nil
}

func hashWords(text string, dim int) []float32 {
	v := make([]float32, dim)
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		h := fnv.New64a()
		h.Write([]byte(w))
		x := h.Sum64()
		for range 4 {
			v[x%uint64(dim)] += float32(int(x>>32&1)*2 - 1)
			x = x*0x9E3779B97F4A7C15 + 1
		}
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
	return v
}

// nullEmbedder gives every text one vector, at no cost.
type nullEmbedder struct{ dim int }

func (e nullEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: "null", Dim: e.dim, Metric: "cosine"}
}

func (e nullEmbedder) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	v := make([]float32, len(texts)*e.dim)
	for i := range texts {
		v[i*e.dim+len(texts[i])%e.dim] = 1
	}
	return embed.Result{Vectors: v}, nil
}

// funcReranker is a reranker made of a function.
type funcReranker func(ctx context.Context, query string, passages []string) ([]rerank.Scored, error)

func (funcReranker) Name() string { return "func" }

func (f funcReranker) Rerank(ctx context.Context, query string, passages []string, topN int) ([]rerank.Scored, error) {
	return f(ctx, query, passages)
}

// byLength scores short passages best.
func byLength(_ context.Context, _ string, passages []string) ([]rerank.Scored, error) {
	var out []rerank.Scored
	for i, p := range passages {
		out = append(out, rerank.Scored{Index: i, Score: 1 / float64(1+len(p)), Raw: -float64(len(p))})
	}
	return out, nil
}

var errFake = errors.New("fake failure")

// testClock stands still but for a second a call.
func testClock() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return time.Date(2030, 1, 1, 0, 0, int(n.Add(1)), 0, time.UTC) }
}

func openMem(t testing.TB, fs storage.FS, o Options) *Store {
	t.Helper()
	o.FS = fs
	if o.Now == nil {
		o.Now = testClock()
	}
	s, err := Open("kb", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, storage.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func mustCreate(t testing.TB, s *Store, id string, o *BaseOptions) {
	t.Helper()
	if _, err := s.Create(t.Context(), id, o); err != nil {
		t.Fatal(err)
	}
}

func mustIngest(t testing.TB, s *Store, r IngestRequest) *Report {
	t.Helper()
	rep, err := s.Ingest(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func mustSearch(t testing.TB, s *Store, r Request) *Response {
	t.Helper()
	res, err := s.Search(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// text makes a source.
func text(name, data string) Source { return Source{Name: name, Data: []byte(data)} }

// lines makes chunk options that cut at every separator.
func lines() *chunk.Options {
	size, overlap, sep := 1, 0, "\n"
	return &chunk.Options{Strategy: chunk.Count, Unit: chunk.Custom, Size: &size, Overlap: &overlap, Separator: &sep}
}

func contents(items []Item) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = items[i].Content
	}
	return out
}

func mustCheck(t testing.TB, s *Store, base string) *CheckReport {
	t.Helper()
	rep, err := s.Check(t.Context(), base)
	if err != nil {
		t.Fatal(err, rep.Problems)
	}
	return rep
}

func wordChunks(size, overlap int) *chunk.Options {
	return &chunk.Options{Strategy: chunk.Count, Unit: chunk.Word, Size: &size, Overlap: &overlap}
}
