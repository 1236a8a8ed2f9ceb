package knowledge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

func mustFreeze(t testing.TB, s *Store, id string) Generation {
	t.Helper()
	g, err := s.Freeze(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func numbers(t testing.TB, s *Store, id string) (out []int) {
	t.Helper()
	list, err := s.Generations(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		out = append(out, g.Number)
	}
	return out
}

// A generation stays what it was, whatever becomes of the base.
func TestGenerationNeverChanges(t *testing.T) {
	fs := storage.NewMemFS()
	e := newWords("w", 16)
	s := openMem(t, fs, Options{Embedder: e, KeepVersions: -1})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	empty := mustFreeze(t, s, "kb")
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", "red apple\ngreen pear"), text("b.txt", "blue sky")}})
	g := mustFreeze(t, s, "kb")
	if empty.Number != 1 || empty.Documents != 0 || g.Number != 2 || g.Documents != 2 || g.Chunks != 3 || g.Model.Name != "w" || g.Reference() != "kb@2" {
		t.Fatalf("%+v %+v", empty, g)
	}
	want := dump(t, s, "kb@2")
	ask := func(base string) string {
		r := mustSearch(t, s, Request{Bases: []string{base}, Query: "red apple", Mode: Hybrid})
		for i := range r.Items {
			if m := &r.Items[i].Metadata; m.KnowledgeBaseID != "kb" || reference(m.KnowledgeBaseID, m.Generation) != base {
				t.Errorf("%s: item of %q, generation %d", base, m.KnowledgeBaseID, m.Generation)
			}
		}
		return mustJSON(t, r.Items)
	}
	found := ask("kb@2")
	source := func(base string) string {
		data, d, err := s.Source(t.Context(), base, "a.txt", 1)
		if err != nil || hashOf(data) != d.ArtifactHash {
			t.Fatalf("%s: %v", base, err)
		}
		return string(data)
	}

	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", "red brick"), text("c.txt", "red apple")}})
	if err := s.SetEnabled(t.Context(), "kb", "c.txt", false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteDocuments(t.Context(), "kb", "b.txt"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rebuild(t.Context(), "kb", &BaseOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	check := func(s *Store) {
		t.Helper()
		if got := dump(t, s, "kb@2"); got != want {
			t.Errorf("the generation has changed:\n%s\nwas\n%s", got, want)
		}
		if c := mustCheck(t, s, "kb@2"); c.Documents != 2 || c.Chunks != 3 {
			t.Errorf("%+v", c)
		}
		mustCheck(t, s, "kb")
		if p, err := s.Expand(t.Context(), "kb@2", chunkID("a.txt", 1), ExpandOptions{Before: 1}); err != nil || !strings.HasPrefix(p.Text, "red apple") || p.Metadata.Generation != 2 {
			t.Errorf("expand: %+v %v", p, err)
		}
		if info, err := s.Base(t.Context(), "kb@2"); err != nil || info.ID != "kb" || info.Generation != 2 || info.Documents != 2 {
			t.Errorf("%+v %v", info, err)
		}
		if !slices.Equal(numbers(t, s, "kb"), []int{1, 2}) {
			t.Errorf("generations %v", numbers(t, s, "kb"))
		}
	}
	check(s)
	if got := ask("kb@2"); got != found {
		t.Errorf("another answer:\n%s\nwas\n%s", got, found)
	}
	if source("kb@2") != "red apple\ngreen pear" {
		t.Errorf("source: %q", source("kb@2"))
	}
	if _, _, err := s.Source(t.Context(), "kb", "a.txt", 1); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the live base keeps no versions: %v", err)
	}
	// The live base and its generation side by side: what is in both comes once.
	both := mustSearch(t, s, Request{Bases: []string{"kb", "kb@2", "kb@1"}, Query: "red", Mode: Keyword, TopK: 50})
	if len(both.Items) < 2 || !slices.ContainsFunc(both.Items, func(it Item) bool { return it.Metadata.Generation == 2 }) {
		t.Errorf("%s", mustJSON(t, both.Items))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		s = openMem(t, fs, Options{Embedder: e, ReadOnly: readOnly})
		check(s)
		if readOnly {
			if _, err := s.Freeze(t.Context(), "kb"); !errors.Is(err, storage.ErrReadOnly) {
				t.Errorf("freeze: %v", err)
			}
			if err := s.DropGeneration(t.Context(), "kb", 2); !errors.Is(err, storage.ErrReadOnly) {
				t.Errorf("drop: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Numbers are never used again, a dropped generation is gone, and what was in
// flight when it was dropped ends as it would have.
func TestDropGeneration(t *testing.T) {
	fs := storage.NewMemFS()
	e := newWords("w", 16)
	s := openMem(t, fs, Options{Embedder: e})
	mustCreate(t, s, "kb", nil)
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", "red apple")}})
	mustFreeze(t, s, "kb")
	mustFreeze(t, s, "kb")
	// The hook runs in the middle of a search, when its snapshots are taken.
	e.hook = func(kind embed.Kind, _ []string, _ *embed.Result) error {
		if kind == embed.Query {
			return s.DropGeneration(t.Context(), "kb", 2)
		}
		return nil
	}
	if res := mustSearch(t, s, Request{Bases: []string{"kb@2"}, Query: "red apple", Mode: Hybrid}); len(res.Items) != 1 {
		t.Errorf("in flight: %+v", res.Items)
	}
	e.hook = nil
	_, err := s.Search(t.Context(), Request{Bases: []string{"kb@2"}, Query: "red apple"})
	var be BaseError
	if !errors.Is(err, storage.ErrNotFound) || !errors.As(err, &be) || be.Base != "kb@2" {
		t.Errorf("afterwards: %v", err)
	}
	if err := s.DropGeneration(t.Context(), "kb", 2); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
	if got := numbers(t, s, "kb"); !slices.Equal(got, []int{1}) {
		t.Errorf("left %v", got)
	}
	if g := mustFreeze(t, s, "kb"); g.Number != 3 {
		t.Errorf("number %d", g.Number)
	}
	mustCheck(t, s, "kb@3")
	if err := s.Delete(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Base(t.Context(), "kb@3"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("of a deleted base: %v", err)
	}
	mustCreate(t, s, "kb", nil)
	if got := numbers(t, s, "kb"); len(got) != 0 {
		t.Errorf("made again: %v", got)
	}
	if err := s.Close(); err != nil || fs.Handles() != 0 {
		t.Errorf("%d files are open: %v", fs.Handles(), err)
	}
}

func TestReferences(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	mustFreeze(t, s, "kb")
	for ref, want := range map[string]error{
		"kb@0": storage.ErrInvalid, "kb@-1": storage.ErrInvalid, "kb@01": storage.ErrInvalid, "kb@": storage.ErrInvalid, "kb@1@1": storage.ErrInvalid,
		"@1": storage.ErrInvalid, "kb@x": storage.ErrInvalid, "kb@+1": storage.ErrInvalid, "kb@../..": storage.ErrInvalid,
		"kb@2147483648": storage.ErrInvalid, "kb@99999999999999999999": storage.ErrInvalid, "kb@2": storage.ErrNotFound, "no@1": storage.ErrNotFound,
	} {
		if _, err := s.Base(t.Context(), ref); !errors.Is(err, want) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	for what, err := range map[string]error{
		"ingest":  second(s.Ingest(t.Context(), IngestRequest{Base: "kb@1"})),
		"remove":  second(s.DeleteDocuments(t.Context(), "kb@1", "a")),
		"rebuild": second(s.Rebuild(t.Context(), "kb@1", nil, nil)),
		"prune":   second(s.Prune(t.Context(), "kb@1")),
		"freeze":  second(s.Freeze(t.Context(), "kb@1")),
		"disable": s.SetEnabled(t.Context(), "kb@1", "a", false),
		"drop":    s.DropGeneration(t.Context(), "kb@1", 1),
	} {
		if !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"create": second(s.Create(t.Context(), "kb@1", nil)), "delete": s.Delete(t.Context(), "kb@1"),
		"generations": second(s.Generations(t.Context(), "kb@1")), "negative": s.DropGeneration(t.Context(), "kb", -1),
	} {
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A freeze, and a drop, killed at every write of the disk: the generation is
// there whole or not at all, the base is as it was, and nothing is left over.
func TestGenerationCrash(t *testing.T) {
	base := storage.NewMemFS()
	open := func(fs *storage.MemFS) *Store {
		s, err := Open("kb", &Options{FS: fs, Embedder: newWords("w", 8), Now: testClock()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(base)
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines(), Analyzer: "standard"})
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.md", "# One\n\ntwo"), text("b.html", "<p>three</p>")}})
	mustFreeze(t, s, "kb")
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.md", "# One\n\nother")}})
	want := dump(t, s, "kb")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for name, c := range map[string]struct {
		do            func(s *Store) error
		before, after []int
	}{
		"freeze": {func(s *Store) error { return second(s.Freeze(context.Background(), "kb")) }, []int{1}, []int{1, 2}},
		"drop":   {func(s *Store) error { return s.DropGeneration(context.Background(), "kb", 1) }, []int{1}, nil},
	} {
		killed := 0
		for at := 0; ; at++ {
			fs := base.Clone()
			s := open(fs)
			if _, err := s.Base(t.Context(), "kb"); err != nil { // what opening writes is not meant
				t.Fatal(err)
			}
			n := 0
			var mu sync.Mutex
			fs.SetHook(func(op storage.Op, _ string, _ int) error {
				mu.Lock()
				defer mu.Unlock()
				if op.IsWrite() {
					if n++; n > at {
						return errFake
					}
				}
				return nil
			})
			err := c.do(s)
			fs.SetHook(nil)
			crashed := fs.CrashClone(rng)
			_ = s.Close() // of a dead machine
			s = open(crashed)
			got := numbers(t, s, "kb")
			switch {
			case err == nil && !slices.Equal(got, c.after):
				t.Fatalf("%s at %d: done, but there is %v", name, at, got)
			case !slices.Equal(got, c.before) && !slices.Equal(got, c.after):
				t.Fatalf("%s at %d: there is %v", name, at, got)
			}
			for _, g := range got {
				mustCheck(t, s, reference("kb", g))
			}
			if now := dump(t, s, "kb"); now != want {
				t.Fatalf("%s at %d: the base has changed", name, at)
			}
			mustCheck(t, s, "kb")
			names, lerr := crashed.List("kb/bases/kb")
			if lerr != nil {
				t.Fatal(lerr)
			}
			names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "gen-") })
			if len(names) != len(got) {
				t.Fatalf("%s at %d: %v, of which %v are generations", name, at, names, got)
			}
			if g := mustFreeze(t, s, "kb"); slices.Contains(got, g.Number) || g.Number < 2 {
				t.Fatalf("%s at %d: number %d again", name, at, g.Number)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err == nil && n <= at {
				break
			}
			killed++
		}
		t.Logf("%s: killed at %d writes", name, killed)
		if killed < 3 {
			t.Errorf("%s: killed %d times only", name, killed)
		}
	}
}

// A file system without hard links gets copies.
func TestGenerationWithoutLinks(t *testing.T) {
	for _, sync := range []storage.SyncPolicy{storage.SyncAlways, storage.SyncNever} {
		fs := storage.NewMemFS()
		s := openMem(t, fs, Options{Sync: sync})
		mustCreate(t, s, "kb", nil)
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.html", "<p>one"), text("b.md", "two")}})
		fs.SetHook(func(op storage.Op, _ string, _ int) error {
			if op == storage.OpLink {
				return errFake
			}
			return nil
		})
		mustFreeze(t, s, "kb")
		fs.SetHook(nil)
		crashed := openMem(t, fs.CrashClone(rand.New(rand.NewPCG(1, 9))), Options{})
		if sync == storage.SyncAlways {
			mustCheck(t, crashed, "kb")
		}
		mustCheck(t, crashed, "kb@1") // durable, whatever the policy of the base
	}
}

// Freezing beside an ingest that drops old versions, and beside searches: every
// generation is one moment of the base, its sources included.
func TestFreezeBesideIngest(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 16), KeepVersions: -1})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	var src []Source
	put := func(n int) {
		src = src[:0]
		for i := range 5 {
			src = append(src, text(fmt.Sprintf("%d.html", i), fmt.Sprintf("<p>word%d of %d</p>", n, i)))
		}
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	}
	put(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 25 {
			put(n + 1)
		}
	}()
	made := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		g := mustFreeze(t, s, "kb")
		made++
		if c := mustCheck(t, s, g.Reference()); c.Documents != 5 {
			t.Fatalf("%d documents", c.Documents)
		}
		if g.Number > 2 {
			if err := s.DropGeneration(t.Context(), "kb", g.Number-2); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustCheck(t, s, "kb")
	// Blobs whose removal had to wait go with the next change.
	put(100)
	names, err := s.fs.List("kb/bases/kb/blobs")
	if err != nil || len(names) != 10 {
		t.Errorf("%d blobs, want the source and text of 5 documents: %v", len(names), err)
	}
	t.Logf("%d generations", made)
}
