package knowledge

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// H03 at this level: an id never leaves the directory.
func TestBaseIDs(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "C:x", "-a", "_a", "a b", "é", "a\x00", strings.Repeat("a", 65)} {
		if _, err := s.Create(t.Context(), id, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("create %q: %v", id, err)
		}
		if err := s.Delete(t.Context(), id); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("delete %q: %v", id, err)
		}
		if _, err := s.Base(t.Context(), id); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("base %q: %v", id, err)
		}
	}
	for _, id := range []string{"a", "0", "kb_01HX7A9B2C3D4E5F6G7H8J9K", "A-b_c", strings.Repeat("a", 64)} {
		mustCreate(t, s, id, nil)
	}
	if _, err := s.Create(t.Context(), "a", nil); !errors.Is(err, ErrExists) {
		t.Errorf("create again: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the store: %v %v", entries, err)
	}
}

func TestCreateListDelete(t *testing.T) {
	fs := storage.NewMemFS()
	s := openMem(t, fs, Options{Embedder: newWords("w", 16)})
	mustCreate(t, s, "b", &BaseOptions{Name: "Second", Analyzer: "english"})
	mustCreate(t, s, "a", nil)
	list, err := s.Bases(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "a" || list[1].Name != "Second" || list[1].Frozen {
		t.Fatalf("%+v %v", list, err)
	}
	mustIngest(t, s, IngestRequest{Base: "b", Sources: []Source{text("x.md", "# One\n\ntwo three")}})
	info, err := s.Base(t.Context(), "b")
	if err != nil || info.Documents != 1 || info.Chunks != 1 || !info.Frozen || info.Model.Name != "w" {
		t.Fatalf("%+v %v", info, err)
	}
	if err := s.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "b"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("delete twice: %v", err)
	}
	if names, err := fs.List("kb/bases"); err != nil || !slices.Equal(names, []string{"a/"}) {
		t.Errorf("left: %v %v", names, err)
	}
	mustCreate(t, s, "b", nil)
	if info, err := s.Base(t.Context(), "b"); err != nil || info.Documents != 0 || info.Frozen {
		t.Errorf("made again: %+v %v", info, err)
	}
	for _, o := range []*BaseOptions{{Analyzer: "klingon"}, {Embedder: "nobody"}, {Name: strings.Repeat("x", 513)},
		{Chunk: &chunk.Options{Strategy: "pieces"}}} {
		if _, err := s.Create(t.Context(), "c", o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A crash while a base is being deleted leaves the base, or nothing.
func TestDeleteCrash(t *testing.T) {
	for at := 0; ; at++ {
		fs := storage.NewMemFS()
		s := openMem(t, fs, Options{})
		mustCreate(t, s, "a", nil)
		mustIngest(t, s, IngestRequest{Base: "a", Sources: []Source{text("x.txt", "one two")}})
		n := 0
		fs.SetHook(func(op storage.Op, _ string, _ int) error {
			if op.IsWrite() {
				if n++; n > at {
					return errFake
				}
			}
			return nil
		})
		err := s.Delete(t.Context(), "a")
		fs.SetHook(nil)
		_ = s.Close() // may fail as the disk did
		s = openMem(t, fs.Clone(), Options{})
		list, lerr := s.Bases(t.Context())
		if lerr != nil {
			t.Fatal(lerr)
		}
		switch {
		case len(list) == 0:
			mustCreate(t, s, "a", nil)
		case err == nil:
			t.Fatalf("at %d: deleted, and still there", at)
		default:
			mustCheck(t, s, "a")
		}
		if err == nil {
			return
		}
	}
}

func TestStoreLockAndClose(t *testing.T) {
	fs := storage.NewMemFS()
	s := openMem(t, fs, Options{})
	if _, err := Open("kb", &Options{FS: fs}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("second writer: %v", err)
	}
	mustCreate(t, s, "a", nil)
	mustIngest(t, s, IngestRequest{Base: "a", Sources: []Source{text("x.txt", "one two")}})
	r := openMem(t, fs, Options{ReadOnly: true})
	if res := mustSearch(t, r, Request{Bases: []string{"a"}, Query: "two", Mode: Keyword}); len(res.Items) != 1 {
		t.Errorf("reader: %+v", res.Items)
	}
	for what, err := range map[string]error{
		"create": second(r.Create(t.Context(), "b", nil)), "delete": r.Delete(t.Context(), "a"),
		"ingest": second(r.Ingest(t.Context(), IngestRequest{Base: "a"})), "remove": second(r.DeleteDocuments(t.Context(), "a", "x.txt")),
		"prune": second(r.Prune(t.Context(), "a")), "rebuild": second(r.Rebuild(t.Context(), "a", nil, nil)),
	} {
		if !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("%s on a reader: %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	for what, err := range map[string]error{
		"create": second(s.Create(t.Context(), "b", nil)), "bases": second(s.Bases(t.Context())),
		"search":   second(s.Search(t.Context(), Request{Bases: []string{"a"}, Query: "x"})),
		"document": second(s.Document(t.Context(), "a", "x")), "expand": second(s.Expand(t.Context(), "a", "x", ExpandOptions{})),
	} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s after close: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestCatalogDamage(t *testing.T) {
	fs := storage.NewMemFS()
	s := openMem(t, fs, Options{})
	mustCreate(t, s, "a", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := fs.ReadFile("kb/bases/a/base.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"{", "[", storage.ErrCorrupt},
		{`"version": 1`, `"version": 9`, storage.ErrVersion},
		{`"id": "a"`, `"id": "b"`, storage.ErrCorrupt},
		{`"index-1"`, `"../../x"`, storage.ErrCorrupt},
		{`"index-1"`, `"index-1/.."`, storage.ErrCorrupt},
		{`"frozen": false`, `"frozen": true, "model": {"Dim": -1}`, storage.ErrCorrupt},
	} {
		bad := bytes.Replace(good, []byte(c.from), []byte(c.to), 1)
		if bytes.Equal(bad, good) {
			t.Fatalf("%q is not in %s", c.from, good)
		}
		if err := fs.WriteFile("kb/bases/a/base.json", bad); err != nil {
			t.Fatal(err)
		}
		s := openMem(t, fs, Options{})
		if _, err := s.Base(t.Context(), "a"); !errors.Is(err, c.want) {
			t.Errorf("%q: %v", c.to, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The model is frozen at first ingest; another is ErrModel that names both and
// the way out, which Rebuild is.
func TestModelFrozen(t *testing.T) {
	fs := storage.NewMemFS()
	first := newWords("first", 16)
	s := openMem(t, fs, Options{Embedder: first})
	mustCreate(t, s, "a", nil)
	src := []Source{text("x.md", "# Refunds\n\nmoney back"), text("y.md", "# Shipping\n\nby boat"),
		{Name: "z.md", Data: []byte("# Own title\n\nother"), Title: "Given", Meta: map[string]any{"k": "v"}}}
	mustIngest(t, s, IngestRequest{Base: "a", Sources: src})
	src[1].Data = []byte("# Shipping\n\nby train")
	mustIngest(t, s, IngestRequest{Base: "a", Sources: src})
	before, err := s.Document(t.Context(), "a", "y.md")
	if err != nil || before.Version != 2 {
		t.Fatal(before, err)
	}
	s.Close()

	second := newWords("second", 32)
	s = openMem(t, fs, Options{Embedder: second})
	_, err = s.Search(t.Context(), Request{Bases: []string{"a"}, Query: "money"})
	if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "first@1 (16") || !strings.Contains(err.Error(), "second@1 (32") ||
		!strings.Contains(err.Error(), "quarry kb rebuild a") {
		t.Errorf("search: %v", err)
	}
	if _, err = s.Ingest(t.Context(), IngestRequest{Base: "a", Sources: src}); !errors.Is(err, ErrModel) {
		t.Errorf("ingest: %v", err)
	}
	if res := mustSearch(t, s, Request{Bases: []string{"a"}, Query: "money", Mode: Keyword}); len(res.Items) != 1 {
		t.Errorf("keywords need no model: %+v", res.Items)
	}
	rep, err := s.Rebuild(t.Context(), "a", nil, nil)
	if err != nil || rep.Added != 3 {
		t.Fatalf("%+v %v", rep, err)
	}
	if res := mustSearch(t, s, Request{Bases: []string{"a"}, Query: "money back"}); res.Items[0].Content != "# Refunds\n\nmoney back" {
		t.Errorf("rebuilt: %+v", res.Items)
	}
	after, err := s.Document(t.Context(), "a", "y.md")
	if err != nil || after.Version != 2 || !after.Ingested.Equal(before.Ingested) || len(after.history) != 2 {
		t.Errorf("rebuilt: %+v %v", after, err)
	}
	if rep := mustIngest(t, s, IngestRequest{Base: "a", Sources: src}); rep.Unchanged != 3 {
		t.Errorf("after the rebuild: %+v", rep)
	}
	if d, err := s.Document(t.Context(), "a", "z.md"); err != nil || d.Title != "Given" || d.Meta["k"] != "v" {
		t.Errorf("rebuilt: %+v %v", d, err)
	}
	mustCheck(t, s, "a")
	if names, err := fs.List("kb/bases/a"); err != nil || !slices.Equal(names, []string{"base.json", "blobs/", "index-2/"}) {
		t.Errorf("files: %v %v", names, err)
	}
	// A model without vectors is a model too.
	s.Close()
	s = openMem(t, fs, Options{})
	if _, err := s.Search(t.Context(), Request{Bases: []string{"a"}, Query: "money"}); !errors.Is(err, ErrModel) {
		t.Errorf("no embedder: %v", err)
	}
}

// A rebuild that fails leaves the base as it was.
func TestRebuildFails(t *testing.T) {
	fs := storage.NewMemFS()
	e := newWords("w", 16)
	s := openMem(t, fs, Options{Embedder: e})
	mustCreate(t, s, "a", nil)
	mustIngest(t, s, IngestRequest{Base: "a", Sources: []Source{text("x.md", "one two"), text("y.md", "three")}})
	e.hook = func(embed.Kind, []string, *embed.Result) error { return errFake }
	if _, err := s.Rebuild(t.Context(), "a", nil, nil); !errors.Is(err, errFake) {
		t.Fatal(err)
	}
	e.hook = nil
	mustCheck(t, s, "a")
	if res := mustSearch(t, s, Request{Bases: []string{"a"}, Query: "three"}); len(res.Items) != 2 {
		t.Errorf("%+v", res.Items)
	}
	if names, _ := fs.List("kb/bases/a"); !slices.Equal(names, []string{"base.json", "blobs/", "index-1/"}) {
		t.Errorf("files: %v", names)
	}
	rep, err := s.Rebuild(t.Context(), "a", &BaseOptions{Chunk: lines(), Analyzer: "english"}, nil)
	if err != nil || rep.Added != 2 {
		t.Fatalf("%+v %v", rep, err)
	}
	mustCheck(t, s, "a")
}

// An embedder that learns its dimension with its first answer.
func TestLateDimension(t *testing.T) {
	e := &lateEmbedder{wordsEmbedder: newWords("late", 16)}
	s := openMem(t, storage.NewMemFS(), Options{Embedder: e})
	mustCreate(t, s, "a", nil)
	mustIngest(t, s, IngestRequest{Base: "a", Sources: []Source{text("x.md", "one two")}})
	if res := mustSearch(t, s, Request{Bases: []string{"a"}, Query: "two"}); len(res.Items) != 1 {
		t.Errorf("%+v", res)
	}
}

type lateEmbedder struct{ *wordsEmbedder }

func (e *lateEmbedder) Identity() embed.Identity {
	id := e.id
	if e.calls.Load() == 0 {
		id.Dim = 0
	}
	return id
}
