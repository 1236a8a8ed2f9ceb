package knowledge

import (
	"errors"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// Embeddings made ahead: one call a model for any number of queries and bases,
// and the answers are those of searches that embed for themselves.
func TestEmbedQueries(t *testing.T) {
	one, two := newWords("one", 16), newWords("two", 32)
	s := openMem(t, storage.NewMemFS(), Options{Embedder: one, Embedders: map[string]embed.Embedder{"two": two}})
	mustCreate(t, s, "a", nil)
	mustCreate(t, s, "b", nil)
	mustCreate(t, s, "c", &BaseOptions{Embedder: "two"})
	mustCreate(t, s, "empty", nil)
	for _, id := range []string{"a", "b", "c"} {
		mustIngest(t, s, IngestRequest{Base: id, Sources: []Source{text(id+"1.txt", "red apple of "+id), text(id+"2.txt", "blue sky of "+id)}})
	}
	mustFreeze(t, s, "a")
	bases, queries := []string{"a", "a@1", "b", "c", "empty", "nobody"}, []string{"red apple", "blue sky", "red apple", "bad \xff bytes"}
	one.calls.Store(0)
	two.calls.Store(0)
	one.texts.Store(0)
	v, err := s.EmbedQueries(t.Context(), bases, queries)
	if err != nil || one.calls.Load() != 1 || two.calls.Load() != 1 || one.texts.Load() != 3 {
		t.Fatalf("%d and %d calls for %d texts: %v", one.calls.Load(), two.calls.Load(), one.texts.Load(), err)
	}
	for _, q := range queries {
		for _, mode := range []Mode{Vector, Hybrid} {
			r := Request{Bases: bases[:5], Query: q, Mode: mode, Vectors: v}
			with := mustSearch(t, s, r)
			if one.calls.Load()+two.calls.Load() != 2 {
				t.Fatalf("%q: embedded again", q)
			}
			r.Vectors = nil
			plain := mustSearch(t, s, r)
			if mustJSON(t, with.Items) != mustJSON(t, plain.Items) || with.Merge != plain.Merge {
				t.Errorf("%q: another answer", q)
			}
			one.calls.Store(1)
			two.calls.Store(1)
		}
	}
	mustSearch(t, s, Request{Bases: []string{"a"}, Query: "another query", Vectors: v})
	if one.calls.Load() != 2 {
		t.Error("a query that was not embedded ahead was not embedded")
	}
	// A model that fails does so in the searches that want it.
	two.hook = func(embed.Kind, []string, *embed.Result) error { return errFake }
	v, err = s.EmbedQueries(t.Context(), bases, queries[:1])
	two.hook = nil
	if err != nil {
		t.Fatal(err)
	}
	if res := mustSearch(t, s, Request{Bases: []string{"a"}, Query: "red apple", Vectors: v}); len(res.Items) != 2 {
		t.Errorf("%+v", res.Items)
	}
	r := Request{Bases: []string{"a", "c"}, Query: "red apple", Mode: Hybrid, Vectors: v}
	if _, err := s.Search(t.Context(), r); !errors.Is(err, errFake) {
		t.Errorf("%v", err)
	}
	r.OnError = Partial
	if res := mustSearch(t, s, r); !slices.Equal(res.Flags, []string{FlagDense}) {
		t.Errorf("%v", res.Flags)
	}
	if _, err := s.EmbedQueries(t.Context(), bases, []string{"x", " \n"}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("blank: %v", err)
	}
}

func TestNeighbors(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", "zero\none\ntwo\nthree\nfour"), text("a.txt#", "other")}})
	mustFreeze(t, s, "kb")
	for _, c := range []struct {
		n, before, after int
		want             []string
	}{
		{2, 1, 1, []string{"one", "three"}}, {0, 2, 1, []string{"one"}}, {4, 1, 5, []string{"three"}}, {2, 0, 0, []string{}},
		{2, 1000, 1000, []string{"zero", "one", "three", "four"}},
	} {
		for _, base := range []string{"kb", "kb@1"} {
			items, err := s.Neighbors(t.Context(), base, chunkID("a.txt", c.n), c.before, c.after)
			if err != nil || !slices.Equal(contents(items), c.want) {
				t.Errorf("%s %+v: %v %v", base, c, contents(items), err)
			}
		}
	}
	for _, id := range []string{"a.txt#00000005", "b.txt#00000000"} {
		if _, err := s.Neighbors(t.Context(), "kb", id, 1, 1); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, n := range []int{-1, 1001} {
		if _, err := s.Neighbors(t.Context(), "kb", chunkID("a.txt", 0), n, 0); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%d before: %v", n, err)
		}
	}
	if err := s.SetEnabled(t.Context(), "kb", "a.txt", false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Neighbors(t.Context(), "kb", chunkID("a.txt", 0), 0, 1); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("disabled: %v", err)
	}
}
