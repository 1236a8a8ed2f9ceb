package knowledge

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// G10: a document that is disabled is found by no path, at once, and is back
// after enabling, just as it was.
func TestG10_Disable(t *testing.T) {
	fs := storage.NewMemFS()
	o := Options{Embedder: newWords("w", 16)}
	s := openMem(t, fs, o)
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	mustCreate(t, s, "other", nil)
	src := []Source{{Name: "a.md", Data: []byte("red apple\ngreen pear"), Meta: map[string]any{"k": "v"}}, text("b.md", "red brick"), text("c.md", "blue sky")}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	mustIngest(t, s, IngestRequest{Base: "other", Sources: src[2:]})
	requests := func() []Request {
		var out []Request
		for _, mode := range []Mode{Vector, Keyword, Hybrid} {
			for _, f := range []filter.Filter{{}, filter.Eq(MetaPrefix+"k", "v"), filter.Eq(FieldDocument, "a.md"), filter.Not(filter.Eq(FieldDocument, "b.md"))} {
				out = append(out, Request{Bases: []string{"kb", "other"}, Query: "red apple", Mode: mode, Filter: f, TopK: 50})
			}
		}
		return out
	}
	answers := func(s *Store) (out []string) {
		for _, r := range requests() {
			out = append(out, mustJSON(t, mustSearch(t, s, r).Items))
		}
		return out
	}
	before := answers(s)
	disabled := func(s *Store) {
		t.Helper()
		for i, got := range answers(s) {
			if strings.Contains(got, "a.md") {
				t.Errorf("request %d finds it: %s", i, got)
			}
		}
		if res := mustSearch(t, s, requests()[0]); len(res.Items) != 2 {
			t.Errorf("the others: %v", contents(res.Items))
		}
		if _, err := s.Expand(t.Context(), "kb", chunkID("a.md", 0), ExpandOptions{}); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("expand: %v", err)
		}
		if p, err := s.Expand(t.Context(), "kb", chunkID("b.md", 0), ExpandOptions{}); err != nil || p.Text != "red brick" {
			t.Errorf("expand of another: %+v %v", p, err)
		}
		// Who looks after the base still sees it, and that it is disabled.
		var on, off int
		for d, err := range s.Documents(t.Context(), "kb") {
			if err != nil {
				t.Fatal(err)
			}
			if d.Enabled {
				on++
			} else if off++; d.ID != "a.md" {
				t.Errorf("%s is disabled", d.ID)
			}
		}
		if on != 2 || off != 1 {
			t.Errorf("%d enabled, %d disabled", on, off)
		}
		mustCheck(t, s, "kb")
	}
	set := func(id string, on bool) {
		t.Helper()
		if err := s.SetEnabled(t.Context(), "kb", id, on); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"nobody", "", "b"} {
		if err := s.SetEnabled(t.Context(), "kb", id, false); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("unknown document %q: %v", id, err)
		}
	}
	set("a.md", false)
	disabled(s)
	set("a.md", false) // twice is once
	disabled(s)
	if rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: src}); rep.Unchanged != 3 {
		t.Errorf("%+v", rep)
	}
	disabled(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openMem(t, fs, o)
	disabled(s)
	reader := openMem(t, fs, Options{Embedder: o.Embedder, ReadOnly: true})
	disabled(reader)
	if _, err := s.Rebuild(t.Context(), "kb", nil, nil); err != nil {
		t.Fatal(err)
	}
	disabled(s)
	g := mustFreeze(t, s, "kb")
	set("a.md", true)
	if got := answers(s); !slices.Equal(got, before) {
		t.Errorf("enabled again:\n%s\nwas\n%s", got, before)
	}
	if res := mustSearch(t, s, Request{Bases: []string{g.Reference()}, Query: "apple", Mode: Keyword}); len(res.Items) != 0 {
		t.Errorf("the generation was frozen with it disabled: %v", contents(res.Items))
	}
	// A new version stays disabled; a document that was deleted comes back enabled.
	set("b.md", false)
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("b.md", "red brick wall")}})
	if d, err := s.Document(t.Context(), "kb", "b.md"); err != nil || d.Enabled || d.Version != 2 {
		t.Errorf("%+v %v", d, err)
	}
	if n, err := s.DeleteDocuments(t.Context(), "kb", "b.md", "nobody"); n != 1 || err != nil {
		t.Errorf("%d deleted: %v", n, err)
	}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("b.md", "red brick wall")}})
	if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "wall", Mode: Keyword}); len(res.Items) != 1 {
		t.Errorf("deleted and brought again: %v", contents(res.Items))
	}
	if d, err := s.Document(t.Context(), "kb", "b.md"); err != nil || !d.Enabled || d.Version != 1 {
		t.Errorf("%+v %v", d, err)
	}
}

// A mark that is set while an ingest or a rebuild runs does not wait for it, and
// is not lost by it.
func TestG10_DisableBesideIngest(t *testing.T) {
	for _, what := range []string{"ingest", "rebuild"} {
		s := openMem(t, storage.NewMemFS(), Options{Threads: 1})
		mustCreate(t, s, "kb", nil)
		src := []Source{text("a.txt", "red apple"), text("b.txt", "red brick"), text("c.txt", "red sky")}
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
		if err := s.SetEnabled(t.Context(), "kb", "c.txt", false); err != nil {
			t.Fatal(err)
		}
		toggle := func(p Progress) {
			if p.Source != "b.txt" {
				return
			}
			for id, on := range map[string]bool{"a.txt": false, "b.txt": false, "c.txt": true} {
				if err := s.SetEnabled(t.Context(), "kb", id, on); err != nil {
					t.Error(err)
				}
			}
		}
		var err error
		if what == "rebuild" {
			_, err = s.Rebuild(t.Context(), "kb", nil, toggle)
		} else {
			for i := range src {
				src[i].Data = append(src[i].Data, " again"...)
			}
			// Three batches of one document, so that c.txt is applied after the toggle.
			_, err = s.Ingest(t.Context(), IngestRequest{Base: "kb", Sources: src, Progress: toggle})
		}
		if err != nil {
			t.Fatal(err)
		}
		res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "red", Mode: Keyword})
		if len(res.Items) != 1 || res.Items[0].Metadata.DocumentID != "c.txt" {
			t.Errorf("%s: %v", what, contents(res.Items))
		}
		mustCheck(t, s, "kb")
	}
}

// The sources of a document's versions, each by its number, also where a
// content came back.
func TestSourceOfVersions(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{KeepVersions: 3})
	mustCreate(t, s, "kb", nil)
	versions := []string{"A", "B", "A", "C", "B", "B", "D"} // the second of two equal ones is none
	for _, v := range versions {
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("x.txt", v)}})
	}
	want := map[int]string{6: "D", 5: "B", 4: "C", 3: "A"}
	ask := func() {
		t.Helper()
		for n := range 9 {
			data, d, err := s.Source(t.Context(), "kb", "x.txt", n)
			if v, ok := want[n]; ok {
				if err != nil || string(data) != v || d.Version != n || d.ArtifactHash != hashOf([]byte(v)) || d.Bytes != 1 {
					t.Errorf("version %d: %q %+v %v", n, data, d, err)
				}
			} else if !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("version %d: %q %v", n, data, err)
			}
		}
	}
	ask()
	if _, err := s.Rebuild(t.Context(), "kb", &BaseOptions{Chunk: lines()}, nil); err != nil {
		t.Fatal(err)
	}
	ask()
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{{Name: "x.txt", Data: []byte("D"), Title: "cut anew"}}})
	ask()
	if _, _, err := s.Source(t.Context(), "kb", "y.txt", 1); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	d, err := s.Document(t.Context(), "kb", "x.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := blobPath("kb/bases/kb", d.ArtifactHash)
	fs := s.fs.(*storage.MemFS)
	good, err := fs.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other, err := fs.ReadFile(blobPath("kb/bases/kb", hashOf([]byte("B"))))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{other, good[:len(good)-1], nil} {
		if err := fs.WriteFile(file, bad); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Source(t.Context(), "kb", "x.txt", 6); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("damaged: %v", err)
		}
	}
}

// A field that only some of the bases know matches nothing in the others; one
// that none knows is an error.
func TestS0_7_FieldOfSomeBases(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	for _, id := range []string{"a", "b", "empty"} {
		mustCreate(t, s, id, nil)
	}
	mustIngest(t, s, IngestRequest{Base: "a", Sources: []Source{{Name: "x.txt", Data: []byte("red one"), Meta: map[string]any{"n": int64(9007199254740993)}},
		{Name: "y.txt", Data: []byte("red two"), Meta: map[string]any{"n": int64(9007199254740992)}}}})
	mustIngest(t, s, IngestRequest{Base: "b", Sources: []Source{text("z.txt", "red three")}})
	const field = MetaPrefix + "n"
	for _, c := range []struct {
		f    filter.Filter
		want string
	}{
		{filter.Eq(field, int64(9007199254740993)), "x.txt"}, // exact through the rewriting, too
		{filter.Gte(field, 1), "x.txt y.txt"},
		{filter.Exists(field), "x.txt y.txt"},
		{filter.IsNull(field), ""},
		{filter.IsEmpty(field), ""},
		{filter.Not(filter.Exists(field)), "z.txt"}, // the complement
		{filter.Not(filter.Eq(field, int64(9007199254740992))), "x.txt z.txt"},
		{filter.Or(filter.Between(field, 1, int64(9007199254740992)), filter.Eq(FieldDocument, "z.txt")), "y.txt z.txt"},
		{filter.And(filter.In(field, int64(9007199254740992)), filter.Eq(FieldFormat, "text")), "y.txt"},
		{filter.And(filter.Not(filter.In(field)), filter.Prefix(FieldSource, "z")), "z.txt"},
		{filter.Exists(FieldPage), ""}, // known to every base, though no chunk has it
	} {
		res := mustSearch(t, s, Request{Bases: []string{"a", "b", "empty"}, Query: "red", Mode: Keyword, Filter: c.f})
		var got []string
		for _, it := range res.Items {
			got = append(got, it.Metadata.DocumentID)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.f, got, c.want)
		}
	}
	for _, r := range []Request{
		{Bases: []string{"b", "empty"}, Filter: filter.Eq(field, 1)},
		{Bases: []string{"a", "b"}, Filter: filter.Eq(MetaPrefix+"nobody", 1)},
		{Bases: []string{"a", "b"}, Filter: filter.Eq(MetaPrefix+"nobody", 1), OnError: Partial},
		{Bases: []string{"a", "b"}, Filter: filter.Or(filter.Eq(field, 1), filter.Not(filter.Eq("nobody", 1)))},
		{Bases: []string{"a", "b"}, Filter: filter.Eq(field, "text")}, // a wrong type where it is known
	} {
		r.Query, r.Mode = "red", Keyword
		if res, err := s.Search(t.Context(), r); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s in %v: %+v %v", r.Filter, r.Bases, res, err)
		}
	}
}
