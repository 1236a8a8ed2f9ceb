package space

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// S3.3: neither a draft of the profile nor what was ingested since reaches a run
// before the space is published; a publication by a stale revision is refused
// and changes nothing.
func TestS3_3_DraftsAndPublication(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha one", "alpha two", "alpha three"))
	all := contents(w.retrieve(draft("alpha", "a")))
	if len(all) != 3 {
		t.Fatalf("got %q", all)
	}
	w.draftProfile("a", func(p *catalog.Profile) { p.TopK = 1; p.DefaultMode = catalog.Deep })
	w.ingest("a", source("b.txt", "alpha four"))
	wantContents(t, w.retrieve(draft("alpha", "a")), all...)

	_, err := w.Publish(t.Context(), "ann", "a", 1)
	wantError(t, err, catalog.ErrStale, "a")
	wantContents(t, w.retrieve(draft("alpha", "a")), all...)
	if g := w.generations("a"); !slices.Equal(g, []int{1}) {
		t.Errorf("generations %v after a refused publication", g)
	}

	if p := w.publish("a"); p.Revision != 2 || p.Generation < 2 || p.Profile.TopK != 1 {
		t.Errorf("published %+v", p)
	}
	res := w.retrieve(draft("alpha four", "a"))
	wantContents(t, res, "alpha four")
	if res.Metrics.Mode != "deep" {
		t.Errorf("mode %s", res.Metrics.Mode)
	}
}

// S3.3: the top K of the profile bounds each space, its threshold drops what is
// below, inclusive, on the reranker's scores; a request that fixes a mode which
// the threshold does not allow is refused.
func TestS3_3_TopKAndThreshold(t *testing.T) {
	scores := func(_ context.Context, passages []string) (out []rerank.Scored, err error) {
		for i, p := range passages {
			out = append(out, rerank.Scored{Index: i, Score: map[string]float64{"alpha one": .9, "alpha two": .5, "alpha three": .4999}[p]})
		}
		return out, nil
	}
	w := newWorld(t, &Options{Rerankers: map[string]rerank.Reranker{"r": funcReranker(scores)}}, nil)
	text := source("a.txt", "alpha one", "alpha two", "alpha three")
	w.add("k", func(p *catalog.Profile) { p.TopK = 2 }, text)
	w.add("t", func(p *catalog.Profile) {
		p.Rerank = catalog.RerankSetting{Enabled: true, Model: "r"}
		p.ScoreThreshold = catalog.Threshold{Enabled: true, Stage: catalog.StageFinal, Value: 0.5}
	}, text)
	w.add("f", func(p *catalog.Profile) {
		p.DefaultMode = catalog.Research
		p.ScoreThreshold = catalog.Threshold{Enabled: true, Stage: catalog.StageFinal, Value: 0.5}
	}, text)
	for _, m := range allModes {
		r := draft("alpha", "k")
		r.Mode = m
		if n := len(w.retrieve(r).Evidence); n != 2 {
			t.Errorf("%s: %d with top K 2", m, n)
		}
		r = draft("alpha", "t")
		r.Mode = m
		wantContents(t, w.retrieve(r), "alpha one", "alpha two")
		r = draft("alpha", "k", "f")
		r.Mode = m
		if m == catalog.Research {
			w.retrieve(r)
		} else {
			w.refused(r, catalog.ErrThreshold, `"f"`)
		}
	}
}

// S3.4: the embedding model is frozen at the first ingest; another one is
// refused before anything is read, by ingest and publication; a rebuild and a
// publication change it, and until the latter runs use the old one.
func TestS3_4_EmbeddingFrozen(t *testing.T) {
	one, two := newBag("one", 64), newBag("two", 32)
	fs, file := storage.NewMemFS(), filepath.Join(t.TempDir(), "catalog.db")
	w := newWorldOn(t, fs, file, nil, map[string]embed.Embedder{"model": one, "new": two})
	o := baseOptions()
	o.Embedder = "model"
	w.addBase("a", o, nil)
	if e := value[catalog.Space](t)(w.cat.Space("a")).Embedding; e != nil {
		t.Errorf("frozen before the first ingest: %+v", e)
	}
	w.ingest("a", source("a.txt", "alpha one"))
	w.publish("a")
	frozen := value[catalog.Space](t)(w.cat.Space("a")).Embedding
	if frozen == nil || frozen.Name != "one" || frozen.Dim != 64 || frozen.Metric != "cosine" || len(frozen.Digest) != 64 {
		t.Fatalf("frozen is %+v", frozen)
	}
	w.ingest("a", source("b.txt", "alpha two")) // the same model: nothing happens

	// The base gets another model behind the catalogue's back.
	value[*knowledge.Report](t)(w.kb.Rebuild(t.Context(), "a", &knowledge.BaseOptions{Chunk: lines(), NoHeadings: true, Embedder: "new"}, nil))
	rep, err := w.Ingest(t.Context(), "ann", "a", knowledge.IngestRequest{Sources: []knowledge.Source{source("c.txt", "alpha three")}})
	wantError(t, err, catalog.ErrFrozen, "a")
	if rep != nil {
		t.Errorf("ingested %+v", rep)
	}
	_, err = w.Publish(t.Context(), "ann", "a", 1)
	wantError(t, err, catalog.ErrFrozen, "a")
	wantContents(t, w.retrieve(draft("alpha", "a")), "alpha one") // the old generation, by the old model

	value[*knowledge.Report](t)(w.Rebuild(t.Context(), "ann", "a", &knowledge.BaseOptions{Chunk: lines(), NoHeadings: true, Embedder: "new"}, nil))
	one.asked()
	wantContents(t, w.retrieve(draft("alpha", "a")), "alpha one")
	if asked, _ := one.asked(); len(asked) != 1 {
		t.Errorf("the old model was asked for %q before the publication", asked)
	}
	w.ingest("a", source("c.txt", "alpha three"))
	if p := w.publish("a"); p.Embedding == nil || p.Embedding.Name != "two" {
		t.Errorf("published %+v", p.Embedding)
	}
	if n := len(w.retrieve(draft("alpha", "a")).Evidence); n != 3 {
		t.Errorf("%d pieces of evidence", n)
	}
	if asked, _ := one.asked(); len(asked) != 0 {
		t.Errorf("the old model was asked for %q", asked)
	}
}

// Who may not edit does not ingest, who may not publish does not freeze.
func TestPermissions(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha one"))
	for id, p := range map[string]catalog.Permission{"user": catalog.Use, "editor": catalog.Edit} {
		value[catalog.Account](t)(w.cat.CreateAccount("", catalog.Account{ID: id, Workspace: "w", Name: id, Grants: []catalog.Grant{{Space: "a", Permission: p}}}))
	}
	_, err := w.Ingest(t.Context(), "user", "a", knowledge.IngestRequest{Sources: []knowledge.Source{source("b.txt", "alpha two")}})
	wantError(t, err, catalog.ErrPermission, "a")
	_, err = w.Rebuild(t.Context(), "user", "a", nil, nil)
	wantError(t, err, catalog.ErrPermission, "a")
	_, err = w.Ingest(t.Context(), "editor", "a", knowledge.IngestRequest{Sources: []knowledge.Source{source("b.txt", "alpha two")}})
	must(t, err)
	_, err = w.Publish(t.Context(), "editor", "a", 1)
	wantError(t, err, catalog.ErrPermission, "a")
	if g := w.generations("a"); !slices.Equal(g, []int{1}) {
		t.Errorf("generations %v", g)
	}
	_, err = w.Publish(t.Context(), "ann", "none", 1)
	wantError(t, err, catalog.ErrUnavailable, "none")
}

// Generations are dropped when nothing names them and nobody reads them.
func TestGenerationsDropped(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha 1"))
	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a"})))
	first := w.published("a")
	w.ingest("a", source("a.txt", "alpha 2"))
	second := w.publish("a").Generation
	if g := w.generations("a"); !slices.Equal(g, []int{first, second}) {
		t.Errorf("generations %v: the snapshot of the workflow uses %d", g, first)
	}
	w.ingest("a", source("a.txt", "alpha 3"))
	third := w.publish("a").Generation
	if g := w.generations("a"); !slices.Equal(g, []int{first, third}) {
		t.Errorf("generations %v, want %d and %d", g, first, third)
	}

	// A retrieval that reads the third keeps it.
	granted, release, err := w.authorize(catalog.Run{Kind: catalog.Draft, Account: "ann", Spaces: []string{"a"}})
	must(t, err)
	if granted[0].Publication.Generation != third {
		t.Fatalf("granted %+v", granted)
	}
	w.ingest("a", source("a.txt", "alpha 4"))
	fourth := w.publish("a").Generation
	must(t, w.Sweep(t.Context(), "a"))
	if g := w.generations("a"); !slices.Equal(g, []int{first, third, fourth}) {
		t.Errorf("generations %v while %d is read", g, third)
	}
	release()
	must(t, w.Sweep(t.Context(), "a"))
	if g := w.generations("a"); !slices.Equal(g, []int{first, fourth}) {
		t.Errorf("generations %v after it was read", g)
	}
	if n := len(w.pins.readers); n != 0 {
		t.Errorf("%d pins are left", n)
	}
	// The workflow takes up the new publication: nothing names the first.
	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a"})))
	must(t, w.Sweep(t.Context(), "a"))
	if g := w.generations("a"); !slices.Equal(g, []int{fourth}) {
		t.Errorf("generations %v", g)
	}
}

// A crash at any write of a publication leaves the old publication or the new
// one, both searchable, and what it leaves behind goes with the next.
func TestPublishCrash(t *testing.T) {
	base, file := storage.NewMemFS(), filepath.Join(t.TempDir(), "catalog.db")
	w := newWorldOn(t, base, file, nil, nil)
	w.add("a", nil, source("a.txt", "alpha old"))
	w.ingest("a", source("a.txt", "alpha new"))
	w.close()
	rng := rand.New(rand.NewPCG(1, 2))
	left := 0
	step := 1
	if testing.Short() {
		step = 7
	}
	for at := 0; ; at += step {
		fs, copied := base.Clone(), filepath.Join(t.TempDir(), "catalog.db")
		must(t, os.WriteFile(copied, value[[]byte](t)(os.ReadFile(file)), 0o600))
		w := newWorldOn(t, fs, copied, nil, nil)
		value[knowledge.BaseInfo](t)(w.kb.Base(t.Context(), "a")) // what opening writes is not meant
		var mu sync.Mutex
		n := 0
		fs.SetHook(func(op storage.Op, _ string, _ int) error {
			mu.Lock()
			defer mu.Unlock()
			if op.IsWrite() {
				n++
			}
			if n > at {
				return errFake
			}
			return nil
		})
		_, err := w.Publish(context.Background(), "ann", "a", 1)
		fs.SetHook(nil)
		crashed := fs.CrashClone(rng)
		w.close()

		w = newWorldOn(t, crashed, copied, nil, nil)
		want, g := "alpha old", w.published("a")
		if g != 1 {
			want = "alpha new"
		}
		if (err == nil) != (g != 1) {
			t.Fatalf("at %d: %v, but published is %d", at, err, g)
		}
		wantContents(t, w.retrieve(draft("alpha", "a")), want)
		if len(w.generations("a")) > 1 {
			left++
		}
		w.publish("a")
		wantContents(t, w.retrieve(draft("alpha", "a")), "alpha new")
		if g := w.generations("a"); !slices.Equal(g, []int{w.published("a")}) {
			t.Errorf("at %d: generations %v", at, g)
		}
		w.close()
		if err == nil && n <= at {
			t.Logf("crashed at %d writes, %d times with a generation too many", at, left)
			if at < 5 || left == 0 && step == 1 {
				t.Errorf("crashed at %d writes, %d times with a generation too many", at, left)
			}
			return
		}
	}
}

// A generation that was made, and never published because of a crash, goes with
// the next publication.
func TestPublishLeftover(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha"))
	value[knowledge.Generation](t)(w.kb.Freeze(t.Context(), "a"))
	g := w.publish("a").Generation
	if got := w.generations("a"); !slices.Equal(got, []int{g}) {
		t.Errorf("generations %v, want %d", got, g)
	}
}

func errOf[T any](_ T, err error) error { return err }

func (w *world) generations(base string) (numbers []int) {
	w.t.Helper()
	for _, g := range value[[]knowledge.Generation](w.t)(w.kb.Generations(w.t.Context(), base)) {
		numbers = append(numbers, g.Number)
	}
	return numbers
}

// published is the generation of a space that runs use.
func (w *world) published(space string) int {
	w.t.Helper()
	return value[catalog.Space](w.t)(w.cat.Space(space)).Published.Generation
}
