package space

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// S3.1: the query is trimmed; blank or more than 16,000 code points is an error.
func TestS3_1_Query(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha one", "beta two"))
	for _, q := range []string{"", " \t\r\n\u3000", strings.Repeat("語", 16001)} {
		w.refused(draft(q, "a"), storage.ErrInvalid, "query")
	}
	want := contents(w.retrieve(draft("alpha", "a")))
	for _, q := range []string{"  alpha\n", "\u3000alpha\u2028", strings.Repeat(" ", 20000) + "alpha"} {
		wantContents(t, w.retrieve(draft(q, "a")), want...)
	}
	long := "alpha"
	for i := 0; len(long) < MaxQuery-6; i++ {
		long += fmt.Sprint(" w", i)
	}
	wantContents(t, w.retrieve(draft(long, "a")), want...)
}

// S3.2: 1 to 10 spaces, trimmed, repeated ones dropped in order; top N 1 to 100,
// by default 10; mode "auto" is refused.
func TestS3_2_Request(t *testing.T) {
	w := newWorld(t, nil, nil)
	var ids []string
	for i := range 11 {
		ids = append(ids, fmt.Sprintf("s%02d", i))
		w.add(ids[i], nil, source("a.txt", numbered("alpha", 12)...))
	}
	w.refused(draft("alpha"), storage.ErrInvalid, "spaces")
	w.refused(draft("alpha", ids...), storage.ErrInvalid, "11")
	w.refused(draft("alpha", "s00", "  "), storage.ErrInvalid, "spaces")
	w.refused(draft("alpha", strings.Repeat("x", 1001)), storage.ErrInvalid, "spaces")

	res := w.retrieve(draft("alpha", append(slices.Clone(ids[:10]), " s03 ", "s00")...))
	if n := len(res.ProcessData.KnowledgeFS.PerSpace); n != 10 || len(res.Evidence) != DefaultTopN {
		t.Errorf("%d spaces, %d pieces of evidence", n, len(res.Evidence))
	}
	res = w.retrieve(draft("alpha", "\ts01 ", "s00", "s01"))
	var order []string
	for _, sp := range res.ProcessData.KnowledgeFS.PerSpace {
		order = append(order, sp.Space)
	}
	if !slices.Equal(order, []string{"s01", "s00"}) {
		t.Errorf("spaces are %q", order)
	}
	for _, n := range []int{-1, 101} {
		r := draft("alpha", "s00")
		r.TopN = n
		w.refused(r, storage.ErrInvalid, "top_n")
	}
	for n, want := range map[int]int{1: 1, 100: 30} {
		r := draft("alpha", "s00", "s01", "s02")
		r.TopN = n
		if got := len(w.retrieve(r).Evidence); got != want {
			t.Errorf("top n %d: got %d, want %d", n, got, want)
		}
	}
	for _, m := range []catalog.Mode{"auto", "Fast", "hybrid"} {
		r := draft("alpha", "s00")
		r.Mode = m
		w.refused(r, storage.ErrInvalid, string(m))
	}
}

// S3.2: a request without a mode uses the default of each space's published
// profile, one with a mode that one.
func TestS3_2_Modes(t *testing.T) {
	w := newWorld(t, nil, nil)
	for _, m := range allModes {
		w.add(string(m), func(p *catalog.Profile) { p.DefaultMode = m }, source("a.txt", "alpha", "beta"))
	}
	modes := func(r Request) (out []catalog.Mode) {
		for _, sp := range w.retrieve(r).ProcessData.KnowledgeFS.PerSpace {
			out = append(out, sp.Mode)
		}
		return out
	}
	r := draft("alpha", "fast", "deep", "research")
	if got := modes(r); !slices.Equal(got, allModes) {
		t.Errorf("got %q", got)
	}
	for _, m := range allModes {
		r.Mode = m
		if got := modes(r); !slices.Equal(got, []catalog.Mode{m, m, m}) {
			t.Errorf("%s: got %q", m, got)
		}
	}
}

// S3.2: at most 4 spaces are searched at the same time, in each mode, and 4 are
// where there is more to do; counted in a reranker, which is asked while a space
// is being searched.
func TestS3_2_Concurrency(t *testing.T) {
	var now, most, calls atomic.Int64
	counting := funcReranker(func(ctx context.Context, passages []string) ([]rerank.Scored, error) {
		calls.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(2 * time.Millisecond)
		return byLength(ctx, passages)
	})
	for limit, o := range map[int64]*Options{4: {}, 2: {MaxConcurrent: 2}} {
		o.Rerankers = map[string]rerank.Reranker{"count": counting}
		w := newWorld(t, o, nil)
		var ids []string
		for i := range 10 {
			ids = append(ids, fmt.Sprintf("s%d", i))
			w.add(ids[i], func(p *catalog.Profile) {
				p.Rerank = catalog.RerankSetting{Enabled: true, Model: "count"}
				p.ScoreThreshold = catalog.Threshold{Enabled: true, Stage: catalog.StageFinal, Value: 0.1}
			}, source("a.txt", "alpha", "beta"))
		}
		for _, m := range allModes {
			most.Store(0)
			calls.Store(0)
			for range 3 {
				r := draft("alpha and beta; what is beta?", ids...)
				r.Mode = m
				w.retrieve(r)
			}
			if most.Load() != limit || calls.Load() < 30 {
				t.Errorf("%s: %d at a time in %d calls, want %d", m, most.Load(), calls.Load(), limit)
			}
		}
	}
	for _, o := range []*Options{{MaxConcurrent: -1}, {MaxConcurrent: 11}, {Rerankers: map[string]rerank.Reranker{"": counting}}, {Rerankers: map[string]rerank.Reranker{"x": nil}}} {
		if _, err := New(&catalog.Catalog{}, nil, o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The query is embedded once a model, not once a space, and the queries of
// research go as one batch.
func TestQueryEmbeddedOnce(t *testing.T) {
	one, two := newBag("one", 64), newBag("two", 32)
	w := newWorld(t, nil, map[string]embed.Embedder{"one": one, "two": two})
	for id, e := range map[string]string{"a": "one", "b": "one", "c": "two", "d": "two", "e": "one"} {
		o := baseOptions()
		o.Embedder = e
		w.addBase(id, o, nil, source("a.txt", "alpha one", "beta two", "gamma three"))
	}
	question := "What is alpha, and how does gamma work?"
	for _, m := range allModes {
		r := draft(question, "a", "b", "c", "d", "e")
		r.Mode = m
		res := w.retrieve(r)
		for _, e := range []*bagEmbedder{one, two} {
			asked, calls := e.asked()
			want := []string{question}
			if m == catalog.Research {
				want = res.ProcessData.KnowledgeFS.Research.Queries
				if len(want) < 3 {
					t.Errorf("research asked for %q only", want)
				}
			}
			if rounds := roundsOf(res); !slices.Equal(asked, want) || calls != rounds {
				t.Errorf("%s, %s: asked for %q in %d calls, want %q in %d", m, e.name, asked, calls, want, rounds)
			}
		}
	}
	// With both fast and research spaces, too.
	w.edit("a", func(p *catalog.Profile) { p.DefaultMode = catalog.Research })
	w.edit("c", func(p *catalog.Profile) { p.DefaultMode = catalog.Research })
	res := w.retrieve(draft(question, "a", "b", "c", "d"))
	for _, e := range []*bagEmbedder{one, two} {
		if asked, _ := e.asked(); !slices.Equal(asked, res.ProcessData.KnowledgeFS.Research.Queries) {
			t.Errorf("%s: asked for %q", e.name, asked)
		}
	}
}

func roundsOf(r *Result) int {
	if tr := r.ProcessData.KnowledgeFS.Research; tr != nil {
		return tr.Rounds
	}
	return 1
}
