package knowledge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

func write(t testing.TB, dir, name, data string) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func reasons(skips []Skip) map[string]string {
	m := make(map[string]string)
	for _, s := range skips {
		m[s.Source] = s.Reason
	}
	return m
}

// A folder with everything in it that a folder may hold.
func TestIngestFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret.md", "# Secret\n\nnever in")
	write(t, dir, "guide/refunds.md", "---\ntitle: Refund policy\ntags: [money, returns]\nauthor: Ann\nyear: 2024\ndate: 2024-05-01\n---\n# Returns\n\nWithin 30 days.\n\n## Exceptions\n\nDigital products.\n")
	write(t, dir, "plain.txt", "just words\n")
	write(t, dir, "page.html", "<html lang=\"en\"><head><title>Page</title></head><body><h1>Head</h1><p>body words</p></body></html>")
	write(t, dir, "rows.csv", "name,price\nbolt,3\nnut,4\n")
	write(t, dir, "bad.pdf", "%PDF-1.7\nnot really\n%%EOF")
	write(t, dir, "empty.md", "")
	write(t, dir, "photo.png", "\x89PNG\r\n\x1a\n")
	write(t, dir, "lying.txt", "\x00\x01\x02\x03 binary \x00\x00")
	write(t, dir, ".hidden.md", "hidden")
	write(t, dir, ".git/config.md", "hidden")
	write(t, dir, "huge.txt", strings.Repeat("x ", 3000))
	for from, to := range map[string]string{"out.md": filepath.Join(outside, "secret.md"), "loop": ".", "up.md": "../" + filepath.Base(outside) + "/secret.md",
		"in.md": filepath.FromSlash("guide/refunds.md"), "dangling.md": "nowhere.md"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 32)})
	mustCreate(t, s, "kb", nil)
	var told []Progress
	req := IngestRequest{Base: "kb", Folders: []Folder{{Path: dir}}, MaxFileBytes: 5000, Progress: func(p Progress) { told = append(told, p) }}
	rep := mustIngest(t, s, req)
	if rep.Added != 6 || rep.Updated+rep.Unchanged+rep.Removed != 0 || rep.Chunks == 0 || rep.Bytes == 0 || rep.Warnings == 0 {
		t.Errorf("%+v", rep)
	}
	var failed []string
	for _, f := range rep.Failed {
		failed = append(failed, f.Source)
		if f.Reason == "" || f.Err == nil {
			t.Errorf("%+v", f)
		}
	}
	slices.Sort(failed)
	if !slices.Equal(failed, []string{"bad.pdf", "huge.txt", "lying.txt"}) {
		t.Errorf("failed: %v", rep.Failed)
	}
	want := map[string]string{"photo.png": "unknown kind", ".hidden.md": "hidden", ".git": "hidden", "out.md": "link out", "up.md": "link out",
		"dangling.md": "link out", "loop": "link to a directory"}
	got := reasons(rep.Skipped)
	for name, reason := range want {
		if !strings.Contains(got[name], reason) {
			t.Errorf("skipped %s: %q, want %q", name, got[name], reason)
		}
	}
	if len(got) != len(want) {
		t.Errorf("skipped: %v", got)
	}
	if last := told[len(told)-1]; last.Done != 9 || last.Total != 9 {
		t.Errorf("progress: %+v", last)
	}
	doc, err := s.Document(t.Context(), "kb", "guide/refunds.md")
	if err != nil {
		t.Fatal(err)
	}
	if doc.Title != "Refund policy" || !slices.Equal(doc.Tags, []string{"money", "returns"}) || doc.Meta["year"] != int64(2024) ||
		!doc.Created.Equal(time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)) || doc.Format != "markdown" || doc.Origin == "" || doc.FileTime.IsZero() {
		t.Errorf("%+v", doc)
	}
	res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "digital products exceptions", Mode: Hybrid, Filter: filter.And(filter.Eq(FieldTags, "money"), filter.Gte(FieldCreated, "2024-01-01"))})
	it := res.Items[0]
	if it.Metadata.Source != "guide/refunds.md" && it.Metadata.Source != "in.md" || !slices.Equal(it.Metadata.SectionPath, []string{"Returns", "Exceptions"}) || it.Metadata.SourceStart == nil {
		t.Errorf("%+v", it)
	}
	src, err := s.SourceBytes(t.Context(), "kb", it.Metadata.ArtifactHash)
	if err != nil || string(src[*it.Metadata.SourceStart:*it.Metadata.SourceEnd]) != it.Content {
		t.Errorf("citation: %q %v", it.Content, err)
	}
	mustCheck(t, s, "kb")

	// Again: nothing to do, and nothing embedded.
	rep = mustIngest(t, s, req)
	if rep.Unchanged != 6 || rep.Added+rep.Updated+rep.Removed+rep.Chunks != 0 {
		t.Errorf("again: %+v", rep)
	}
	// A file changes, one goes, and one that fails now stays as it was.
	write(t, dir, "plain.txt", "other words\n")
	write(t, dir, "page.html", "\x00\x01\x02\x00\x00\x01 garbage \x00")
	if err := os.Remove(filepath.Join(dir, "rows.csv")); err != nil {
		t.Fatal(err)
	}
	rep = mustIngest(t, s, req)
	if rep.Updated != 1 || rep.Removed != 1 || rep.Unchanged != 3 || len(rep.Failed) != 4 {
		t.Errorf("changed: %+v", rep)
	}
	if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "body words", Mode: Keyword}); len(res.Items) == 0 || res.Items[0].Metadata.Source != "page.html" {
		t.Errorf("the version before a failure is gone: %v", contents(res.Items))
	}
	mustCheck(t, s, "kb")
}

// What cannot be read is not taken for vanished; a folder that is gone is an
// error, and removes nothing.
func TestIngestNotVanished(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/x.md", "one")
	write(t, dir, "b/y.md", "two")
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	req := IngestRequest{Base: "kb", Folders: []Folder{{Path: dir}}}
	mustIngest(t, s, req)
	tr, err := walk(t.Context(), Folder{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.root.Close()
	tr.unread, tr.seen = []string{"a"}, map[string]bool{}
	for id, want := range map[string]bool{"a/x.md": false, "b/y.md": true} {
		d, err := s.Document(t.Context(), "kb", id)
		if err != nil || tr.vanished(&d) != want {
			t.Errorf("%s: %v %v", id, tr.vanished(&d), err)
		}
	}
	if _, err := s.Ingest(t.Context(), IngestRequest{Base: "kb", Folders: []Folder{{Path: filepath.Join(dir, "none")}}}); err == nil {
		t.Error("no such folder, and no error")
	}
	os.RemoveAll(filepath.Join(dir, "b"))
	keep := req
	keep.KeepVanished = true
	if rep := mustIngest(t, s, keep); rep.Removed != 0 {
		t.Errorf("%+v", rep)
	}
	if rep := mustIngest(t, s, req); rep.Removed != 1 {
		t.Errorf("%+v", rep)
	}
}

// Names: '..' is refused, two sources of one name are not one document, and a
// document of another folder is not taken over by accident.
func TestIngestNames(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write(t, one, "x.md", "from one")
	write(t, two, "x.md", "from two")
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("../x.md", "a"), text(`a\..\x.md`, "a"), text("", "a"), text("a..b.md", "fine"), text("a..b.md", "twice")}})
	if rep.Added != 1 || len(rep.Failed) != 4 {
		t.Errorf("%+v", rep)
	}
	rep = mustIngest(t, s, IngestRequest{Base: "kb", Folders: []Folder{{Path: one}, {Path: two}}})
	if rep.Added != 1 || len(rep.Failed) != 1 {
		t.Errorf("%+v", rep)
	}
	rep = mustIngest(t, s, IngestRequest{Base: "kb", Folders: []Folder{{Path: two}}})
	if rep.Added != 0 || len(rep.Failed) != 1 || !strings.Contains(rep.Failed[0].Reason, filepath.ToSlash(one)) {
		t.Errorf("%+v", rep)
	}
	rep = mustIngest(t, s, IngestRequest{Base: "kb", Folders: []Folder{{Path: two, Name: "second"}}})
	if rep.Added != 1 {
		t.Errorf("%+v", rep)
	}
	rep = mustIngest(t, s, IngestRequest{Base: "kb", Folders: []Folder{{Path: two}}, Replace: true})
	if rep.Updated != 1 || rep.Removed != 1 { // second/x.md is no more: the folder has another name now
		t.Errorf("%+v", rep)
	}
	for _, name := range []string{"..", "a/../b", "/abs", `a\b`} {
		if _, err := s.Ingest(t.Context(), IngestRequest{Base: "kb", Folders: []Folder{{Path: two, Name: name}}}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("folder name %q: %v", name, err)
		}
	}
	rep = mustIngest(t, s, IngestRequest{Base: "kb", Files: []File{{Path: filepath.Join(one, "x.md"), Name: "named.md"}, {Path: filepath.Join(two, "none.md")}, {Path: two, Name: "dir.md"}}})
	if rep.Added != 1 || len(rep.Failed) != 2 {
		t.Errorf("%+v", rep)
	}
	long := strings.Repeat("n", 2000) + ".md"
	rep = mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text(long, "long name"), text("ctl\x01.md", "control")}})
	if rep.Added != 2 {
		t.Errorf("%+v", rep)
	}
	res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "long name", Mode: Keyword, TopK: 1})
	if res.Items[0].Metadata.Source != long || !strings.HasPrefix(res.Items[0].Metadata.DocumentID, "sha256-") {
		t.Errorf("%+v", res.Items[0].Metadata)
	}
	mustCheck(t, s, "kb")
}

// G11: a shorter new version leaves no old chunk and no old vector.
func TestG11_ShorterVersion(t *testing.T) {
	for _, e := range []embed.Embedder{newWords("w", 64), nil} {
		s := openMem(t, storage.NewMemFS(), Options{Embedder: e})
		mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
		var long []string
		for i := range 10 {
			long = append(long, fmt.Sprintf("obsolete line %d", i))
		}
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("x.txt", strings.Join(long, "\n")), text("other.txt", "a bystander")}})
		rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("x.txt", "new one\nnew two\nnew three")}})
		if rep.Updated != 1 || rep.Chunks != 3 {
			t.Fatalf("%+v", rep)
		}
		info, err := s.Base(t.Context(), "kb")
		if err != nil || info.Chunks != 4 || info.Documents != 2 {
			t.Errorf("%+v %v", info, err)
		}
		if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "obsolete", Mode: Keyword}); len(res.Items) != 0 {
			t.Errorf("found: %v", contents(res.Items))
		}
		if e != nil {
			for _, it := range mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "obsolete line 3", TopK: 50}).Items {
				if strings.Contains(it.Content, "obsolete") || it.Metadata.DocumentVersion != 2 && it.Metadata.DocumentID == "x.txt" {
					t.Errorf("found: %+v", it)
				}
			}
		}
		mustCheck(t, s, "kb")
		// Deleted and added again: nothing of before comes back.
		if n, err := s.DeleteDocuments(t.Context(), "kb", "x.txt"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("x.txt", "quite different")}})
		if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "new three", Mode: Keyword}); len(res.Items) != 0 {
			t.Errorf("found: %v", contents(res.Items))
		}
		mustCheck(t, s, "kb")
	}
}

// G10: a deleted document is found by no path, at once; an unknown id says 0.
func TestG10_Deleted(t *testing.T) {
	fs := storage.NewMemFS()
	s := openMem(t, fs, Options{Embedder: newWords("w", 64)})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("x.txt", "the quick fox"), text("y.txt", "the slow ox")}})
	hit := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "quick fox"}).Items[0].Metadata
	if n, err := s.DeleteDocuments(t.Context(), "kb", "nobody", "x.txt", "x.txt"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := s.DeleteDocuments(t.Context(), "kb", "nobody"); n != 0 || err != nil {
		t.Errorf("unknown id: %d %v", n, err)
	}
	for _, mode := range []Mode{Vector, Keyword, Hybrid} {
		for _, it := range mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "quick fox", Mode: mode}).Items {
			if it.Metadata.DocumentID == "x.txt" {
				t.Errorf("%s still finds it", mode)
			}
		}
	}
	if _, err := s.Document(t.Context(), "kb", "x.txt"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Expand(t.Context(), "kb", hit.ChunkID, ExpandOptions{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("expand: %v", err)
	}
	if _, err := s.SourceBytes(t.Context(), "kb", hit.ArtifactHash); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("source: %v", err)
	}
	for d, err := range s.Documents(t.Context(), "kb") {
		if err != nil || d.ID != "y.txt" {
			t.Errorf("list: %+v %v", d, err)
		}
	}
	if n, err := s.Prune(t.Context(), "kb"); n != 0 || err != nil {
		t.Errorf("something was left: %d %v", n, err)
	}
}

// Earlier versions keep their bytes, as many as wanted, as long as any document
// has them.
func TestKeepVersions(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{KeepVersions: 2})
	mustCreate(t, s, "kb", nil)
	var hashes []string
	for i := range 5 {
		data := fmt.Sprintf("version %d", i)
		hashes = append(hashes, hashOf([]byte(data)))
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("x.txt", data), text("first.txt", "version 0")}})
	}
	for i, h := range hashes {
		data, err := s.SourceBytes(t.Context(), "kb", h)
		if kept := i == 0 || i >= 2; kept != (err == nil) || kept && string(data) != fmt.Sprintf("version %d", i) {
			t.Errorf("version %d: %q %v", i, data, err)
		}
	}
	if d, err := s.Document(t.Context(), "kb", "x.txt"); err != nil || d.Version != 5 || d.ArtifactHash != hashes[4] {
		t.Errorf("%+v %v", d, err)
	}
	if _, err := s.SourceBytes(t.Context(), "kb", "../../x"); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// The bytes that one document lets go are those another comes with.
func TestBlobPassedOn(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{KeepVersions: -1, Threads: 4})
	mustCreate(t, s, "kb", nil)
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", "content 0")}})
	for i := range 20 {
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", fmt.Sprintf("content %d", i+1)), text("b.txt", fmt.Sprintf("content %d", i))}})
		mustCheck(t, s, "kb")
	}
	if n, err := s.Prune(t.Context(), "kb"); n != 0 || err != nil {
		t.Errorf("left: %d %v", n, err)
	}
}

// Metadata of two files that disagree on a type: both files stay.
func TestMetadataTypes(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	front := func(v string) string { return "---\nrank: " + v + "\n---\ntext\n" }
	rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.md", front("3")), text("b.md", front("high")), text("c.md", front("5")),
		{Name: "d.md", Data: []byte("text"), Meta: map[string]any{"price": 2.5, "list": []string{"x"}}},
		{Name: "e.md", Data: []byte("text"), Meta: map[string]any{"price": 3, "bad": struct{}{}}}}})
	if rep.Added != 4 || len(rep.Failed) != 1 || rep.Failed[0].Source != "e.md" {
		t.Errorf("%+v", rep)
	}
	res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "text", Mode: Keyword, Filter: filter.Gt(MetaPrefix+"rank", 2)})
	if len(res.Items) != 2 {
		t.Errorf("%+v", contents(res.Items))
	}
	if d, err := s.Document(t.Context(), "kb", "b.md"); err != nil || len(d.Warnings) != 1 || d.Meta["rank"] != nil {
		t.Errorf("%+v %v", d, err)
	}
	// Meta is part of what decides whether a source has changed.
	src := Source{Name: "d.md", Data: []byte("text"), Meta: map[string]any{"price": 9.5}}
	if rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{src}}); rep.Updated != 1 {
		t.Errorf("%+v", rep)
	}
	if d, err := s.Document(t.Context(), "kb", "d.md"); err != nil || d.Version != 1 || d.Meta["price"] != 9.5 || d.Meta["list"] != nil {
		t.Errorf("%+v %v", d, err)
	}
	if rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{src}}); rep.Unchanged != 1 {
		t.Errorf("%+v", rep)
	}
}

// G08: a blank chunk is never embedded, nor is a blank document an error.
func TestG08_BlankNeverEmbedded(t *testing.T) {
	e := newWords("w", 16)
	e.hook = func(_ embed.Kind, texts []string, _ *embed.Result) error {
		for _, x := range texts {
			if strings.TrimSpace(strings.Trim(x, "\u200b\u3000")) == "" {
				t.Errorf("embedded %q", x)
			}
		}
		return nil
	}
	s := openMem(t, storage.NewMemFS(), Options{Embedder: e})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", "one\n  \n\u3000\n\u200b\ntwo"), text("b.txt", " \n \u200b"), text("c.txt", "")}})
	if rep.Added != 3 || rep.Chunks != 2 || len(rep.Failed) != 0 {
		t.Errorf("%+v", rep)
	}
	calls := e.calls.Load()
	for _, q := range []string{"", " ", "\u3000\n", "\u200b\u200d\ufeff"} {
		for _, mode := range []Mode{Vector, Keyword, Hybrid} {
			if _, err := s.Search(t.Context(), Request{Bases: []string{"kb"}, Query: q, Mode: mode}); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%q %s: %v", q, mode, err)
			}
		}
	}
	if e.calls.Load() != calls {
		t.Error("a blank query was embedded")
	}
}
