package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letters is a service that embeds a text as how often it has the letters a to
// d. While down is set it answers 400.
type letters struct {
	url  string
	mu   sync.Mutex
	down bool
}

func newLetters(t *testing.T) *letters {
	l := &letters{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		var in struct{ Inputs []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || l.down {
			http.Error(w, `{"error":"down"}`, http.StatusBadRequest)
			return
		}
		rows := make([][4]float32, len(in.Inputs))
		for i, text := range in.Inputs {
			rows[i] = [4]float32{0.1, 0.1, 0.1, 0.1}
			for _, c := range text {
				if c >= 'a' && c <= 'd' {
					rows[i][c-'a']++
				}
			}
		}
		_ = json.NewEncoder(w).Encode(rows) // a client that went away
	}))
	l.url = s.URL
	t.Cleanup(s.Close)
	return l
}

func (l *letters) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

func (l *letters) models() map[string]models.Source {
	return map[string]models.Source{"letters": {Model: "tei:" + l.url + "#letters"}}
}

func openDir(t *testing.T, dir string, o *Options) *Registry {
	t.Helper()
	r, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDir(t, r) })
	return r
}

func closeDir(t *testing.T, r *Registry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil && !errors.Is(err, storage.ErrClosed) {
		t.Error(err)
	}
}

func texts() CreateOptions {
	return CreateOptions{Schema: index.Schema{Text: []index.TextField{{Name: "text"}}}}
}

func create(t *testing.T, r *Registry, name string, o CreateOptions, docs ...index.Document) {
	t.Helper()
	c, err := r.Create(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := c.Apply(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

func doc(id, text string) index.Document {
	return index.Document{ID: id, Text: map[string]string{"text": text}}
}

// ids are those of the documents of a collection.
func ids(t *testing.T, r *Registry, name string) []string {
	t.Helper()
	c, err := r.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	var out []string
	for d, err := range c.Index().Documents(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d.ID)
	}
	return out
}

func want(t *testing.T, what string, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("%s: %v, want %v", what, err, sentinel)
	}
}

func TestLifeOfACollection(t *testing.T) {
	dir := t.TempDir()
	r := openDir(t, dir, nil)
	_, err := r.Get(t.Context(), "notes")
	want(t, "get before create", err, storage.ErrNotFound)
	create(t, r, "notes", texts(), doc("1", "stone"), doc("2", "slate"))
	_, err = r.Create(t.Context(), "Notes", texts())
	want(t, "create in capitals", err, ErrExists)
	_, err = Open(dir, nil)
	want(t, "second writer", err, storage.ErrLocked)
	closeDir(t, r)
	_, err = r.Get(t.Context(), "notes")
	want(t, "get after close", err, storage.ErrClosed)

	r = openDir(t, dir, nil)
	if err := r.OpenAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Opened() {
		if c.Name() != "notes" {
			t.Error(c.Name())
		}
		c.Release()
		c.Release() // counts once
	}
	if got := ids(t, r, "notes"); !slices.Equal(got, []string{"1", "2"}) {
		t.Error(got)
	}
	if err := r.Delete(t.Context(), "notes"); err != nil {
		t.Fatal(err)
	}
	want(t, "delete again", r.Delete(t.Context(), "notes"), storage.ErrNotFound)
	if names, err := r.Names(); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
	if left := tree(t, filepath.Join(dir, "collections")) + tree(t, filepath.Join(dir, "trash")); left != "" {
		t.Errorf("left behind: %s", left)
	}
	create(t, r, "notes", texts(), doc("3", "marble"))
	if got := ids(t, r, "notes"); !slices.Equal(got, []string{"3"}) {
		t.Error("documents of a deleted collection are back:", got)
	}
}

// tree lists what is in a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// badNames are names that lead elsewhere, or mean something to a file system.
var badNames = []string{"../x", "..%2fx", "a/b", `a\b`, "C:x", "", ".", "..", "a\x00b", "CON", "nul", "com1", strings.Repeat("x", 300), "-a", "_a", "a.b", "ä", " a"}

func TestH03NamesStayInside(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "data")
	r := openDir(t, dir, nil)
	create(t, r, "there", texts())
	_, err := r.CreateSnapshot(t.Context(), "there", "s")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := r.Knowledge(ctx); err != nil {
		t.Fatal(err)
	}
	before := tree(t, outside)
	for _, name := range badNames {
		_, err := r.Get(ctx, name)
		want(t, "get "+name, err, storage.ErrInvalid)
		if err == nil || !strings.Contains(err.Error(), NamePattern) {
			t.Errorf("%q: %v does not tell the pattern", name, err)
		}
		_, err = r.Create(ctx, name, texts())
		want(t, "create "+name, err, storage.ErrInvalid)
		want(t, "delete "+name, r.Delete(ctx, name), storage.ErrInvalid)
		if name != "" { // a name of the registry's own
			_, err = r.CreateSnapshot(ctx, "there", name)
			want(t, "snapshot "+name, err, storage.ErrInvalid)
		}
		_, err = r.Snapshots(name)
		want(t, "snapshots of "+name, err, storage.ErrInvalid)
		want(t, "snapshot from "+name, r.WriteSnapshot(ctx, "there", name, nil, nil), storage.ErrInvalid)
		want(t, "remove snapshot "+name, r.DeleteSnapshot(ctx, "there", name), storage.ErrInvalid)
		want(t, "restore to "+name, r.RestoreSnapshot(ctx, name, "there", "s"), storage.ErrInvalid)
		want(t, "restore from "+name, r.RestoreSnapshot(ctx, "there", "there", name), storage.ErrInvalid)
		want(t, "restore of "+name, r.RestoreSnapshot(ctx, "there", name, "s"), storage.ErrInvalid)
		_, err = r.CreateBase(ctx, name, "", nil)
		want(t, "base "+name, err, storage.ErrInvalid)
	}
	if after := tree(t, outside); after != before {
		t.Errorf("the tree changed:\n%s\nwas\n%s", after, before)
	}
}

func TestH03LinksAreNotFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	r := openDir(t, dir, nil)
	ix, err := index.Open(filepath.Join(elsewhere, "idx"), nil)
	if err == nil {
		err = ix.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(elsewhere, "idx"), filepath.Join(dir, "collections", "link")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	_, err = r.Get(t.Context(), "link")
	want(t, "get through a link", err, storage.ErrInvalid)
	want(t, "delete through a link", r.Delete(t.Context(), "link"), storage.ErrInvalid)
	if names, err := r.Names(); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
}

func TestDeleteWaitsForHandles(t *testing.T) {
	r := openDir(t, t.TempDir(), nil)
	create(t, r, "a", texts(), doc("1", "x"))
	c, err := r.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	want(t, "delete of a collection in use", r.Delete(soon, "a"), ErrBusy)
	if err := c.Apply(t.Context(), []index.Document{doc("2", "y")}); err != nil {
		t.Error("the handle is of no use after a deletion that did not happen:", err)
	}
	done := make(chan error)
	go func() { done <- r.Delete(t.Context(), "a") }()
	time.Sleep(10 * time.Millisecond)
	if _, err := c.Index().Get(t.Context(), "1"); err != nil {
		t.Error("closed under a handle:", err)
	}
	got := make(chan error)
	go func() { // waits for the deletion, then finds nothing
		_, err := r.Get(t.Context(), "a")
		got <- err
	}()
	c.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(t, "get after the deletion", <-got, storage.ErrNotFound)
}

func TestConcurrentUse(t *testing.T) {
	r := openDir(t, t.TempDir(), nil)
	create(t, r, "a", texts(), doc("1", "x"))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 25 {
				c, err := r.Get(t.Context(), "a")
				if errors.Is(err, storage.ErrNotFound) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := c.Apply(t.Context(), []index.Document{doc(fmt.Sprint(i, j), "y")}); err != nil {
					t.Error(err)
				}
				c.Release()
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			if err := r.Delete(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			c, err := r.Create(t.Context(), "a", texts())
			if err != nil {
				t.Error(err)
				return
			}
			c.Release()
		}
	})
	wg.Wait()
}

func TestCloseWithinItsDeadline(t *testing.T) {
	dir := t.TempDir()
	r := openDir(t, dir, nil)
	create(t, r, "a", texts(), doc("1", "x"))
	c, err := r.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	want(t, "close with a handle out", r.Close(ctx), ErrBusy)
	if err := errors.Join(c.e.close(), r.lock.Close()); err != nil { // as the end of the process would
		t.Error(err)
	}
	r = openDir(t, dir, nil)
	if got := ids(t, r, "a"); !slices.Equal(got, []string{"1"}) {
		t.Error(got)
	}
}

func TestModelOfACollection(t *testing.T) {
	l := newLetters(t)
	dir := t.TempDir()
	r := openDir(t, dir, &Options{Models: l.models()})
	if got := r.Models(); !slices.Equal(got, []string{"bge", "e5", "letters"}) {
		t.Error(got)
	}
	o := texts()
	o.Embed = "tei:" + l.url
	_, err := r.Create(t.Context(), "x", o)
	want(t, "a model by its place", err, storage.ErrInvalid)
	o.Embed = "letters"
	create(t, r, "x", o, doc("a", "aaa"), doc("b", "bbb"), doc("none", " "))
	c, err := r.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := c.Embedding(); !ok || e.Field != "embedding" || e.Model != "tei/letters" || e.Dim != 4 || !slices.Equal(e.Texts, []string{"text"}) {
		t.Errorf("%+v", e)
	}
	v, err := c.Embed(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Index().Search(t.Context(), index.Query{Vector: &index.VectorQuery{Vector: v.Values}, K: 5})
	if err != nil || len(res.Hits) != 2 || res.Hits[0].ID != "b" {
		t.Errorf("%+v, %v", res, err)
	}
	_, err = c.Embed(t.Context(), "\u200b")
	want(t, "blank query", err, storage.ErrInvalid)
	given := doc("c", "ccc")
	given.Vectors = map[string][]float32{"embedding": {1, 0, 0, 0}}
	want(t, "a vector beside the model", c.Apply(t.Context(), []index.Document{given}), storage.ErrInvalid)
	c.Release()
	closeDir(t, r)

	r = openDir(t, dir, &Options{Models: l.models(), ReadOnly: true})
	if c, err = r.Get(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	l.set(true)
	_, err = c.Embed(t.Context(), "b")
	if err == nil {
		t.Error("a model that is down embeds")
	}
	l.set(false)
	if _, err = c.Embed(t.Context(), "b"); err != nil {
		t.Error("a model that is back:", err)
	}
	want(t, "write", c.Apply(t.Context(), []index.Document{doc("d", "d")}), storage.ErrReadOnly)
	c.Release()
}

func TestKnowledge(t *testing.T) {
	l := newLetters(t)
	dir := t.TempDir()
	r := openDir(t, dir, &Options{Models: l.models()})
	_, err := r.CreateBase(t.Context(), "docs", "nobody", nil)
	want(t, "unknown model", err, storage.ErrInvalid)
	info, err := r.CreateBase(t.Context(), "docs", "letters", nil)
	if err != nil || r.ModelOf(&info) != "letters" {
		t.Fatalf("%+v, %v", info, err)
	}
	_, err = r.CreateBase(t.Context(), "docs", "letters", nil)
	want(t, "taken", err, ErrExists)
	s, err := r.Knowledge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ingest(t.Context(), knowledge.IngestRequest{Base: "docs", Sources: []knowledge.Source{{Name: "a.md", Data: []byte("# A\n\naaa")}, {Name: "b.md", Data: []byte("# B\n\nbbb")}}}); err != nil {
		t.Fatal(err)
	}
	closeDir(t, r)

	l.set(true) // a base is found by its words while its model is down
	r = openDir(t, dir, &Options{Models: l.models()})
	if s, err = r.Knowledge(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := s.Search(t.Context(), knowledge.Request{Bases: []string{"docs"}, Query: "bbb", Mode: knowledge.Keyword})
	if err != nil || len(res.Items) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	_, err = s.Search(t.Context(), knowledge.Request{Bases: []string{"docs"}, Query: "b"})
	want(t, "by a model that is down", err, ErrModel)
	l.set(false)
	res, err = s.Search(t.Context(), knowledge.Request{Bases: []string{"docs"}, Query: "b", TopK: 1})
	if err != nil || len(res.Items) != 1 || res.Items[0].Metadata.Source != "b.md" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestEnvironmentWithoutStore(t *testing.T) {
	dir := t.TempDir()
	openDir(t, dir, nil)
	r := openDir(t, dir, &Options{ReadOnly: true})
	env, err := r.Environment(t.Context())
	if err != nil || env.Store != nil || env.Embedder == nil || env.Rerankers["cross-encoder"] == nil {
		t.Errorf("%+v, %v", env, err)
	}
	_, err = Open(t.TempDir(), &Options{Reranker: "guess"})
	want(t, "reranker", err, storage.ErrInvalid)
}

func TestReadOnly(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none"), &Options{ReadOnly: true})
	want(t, "no directory", err, storage.ErrNotFound)
	dir := t.TempDir()
	w := openDir(t, dir, nil)
	create(t, w, "a", texts(), doc("1", "x"))
	r := openDir(t, dir, &Options{ReadOnly: true}) // beside the writer
	if got := ids(t, r, "a"); !slices.Equal(got, []string{"1"}) {
		t.Error(got)
	}
	_, err = r.Create(t.Context(), "b", texts())
	want(t, "create", err, storage.ErrReadOnly)
	want(t, "delete", r.Delete(t.Context(), "a"), storage.ErrReadOnly)
	_, err = r.CreateSnapshot(t.Context(), "a", "s")
	want(t, "snapshot", err, storage.ErrReadOnly)
	want(t, "restore", r.RestoreSnapshot(t.Context(), "a", "a", "s"), storage.ErrReadOnly)
	_, err = r.CreateBase(t.Context(), "b", "", nil)
	want(t, "base", err, storage.ErrReadOnly)
}

func TestADamagedCollectionIsOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	r := openDir(t, dir, nil)
	create(t, r, "bad", texts())
	create(t, r, "good", texts(), doc("1", "x"))
	closeDir(t, r)
	manifests, err := filepath.Glob(filepath.Join(dir, "collections", "bad", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, m := range manifests {
		if err := os.Truncate(m, 20); err != nil {
			t.Fatal(err)
		}
	}
	r = openDir(t, dir, nil)
	err = r.OpenAll(t.Context())
	want(t, "open all", err, storage.ErrCorrupt)
	if err == nil || !strings.Contains(err.Error(), `"bad"`) {
		t.Error(err)
	}
	if got := ids(t, r, "good"); !slices.Equal(got, []string{"1"}) {
		t.Error(got)
	}
	if err := r.Delete(t.Context(), "bad"); err != nil {
		t.Error("a damaged collection cannot be deleted:", err)
	}
}

func TestCreateThatFailsLeavesNothing(t *testing.T) {
	r := openDir(t, t.TempDir(), nil)
	o := CreateOptions{Schema: index.Schema{Text: []index.TextField{{Name: "t", Analyzer: "none such"}}}}
	_, err := r.Create(t.Context(), "a", o)
	want(t, "bad analyzer", err, storage.ErrSchema)
	o = CreateOptions{Schema: index.Schema{Meta: map[string]filter.Type{"": filter.Keyword}}}
	_, err = r.Create(t.Context(), "a", o)
	want(t, "bad field", err, storage.ErrSchema)
	if left := tree(t, filepath.Join(r.Dir(), "collections")); left != "" {
		t.Error(left)
	}
	_, err = r.Create(t.Context(), "a", CreateOptions{Embed: "e5"})
	want(t, "nothing to embed", err, storage.ErrInvalid)
	_, err = r.Create(t.Context(), "a", CreateOptions{EmbedField: "v"})
	want(t, "a field without a model", err, storage.ErrInvalid)
	create(t, r, "a", texts())
}

func TestOpenPlainFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		r, err := Open(file, &Options{ReadOnly: readOnly})
		if err == nil {
			t.Fatal("a plain file is opened", r.Close(t.Context()))
		}
		if readOnly && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "no directory")) {
			t.Error(err)
		}
	}
}

// Models are opened when something needs them, not with the store.
func TestModelsOpenLate(t *testing.T) {
	r := openDir(t, t.TempDir(), nil)
	e5 := models.Source{Model: models.E5}
	opened := func() bool { _, ok := r.models.get(e5); return ok }
	if _, err := r.CreateBase(t.Context(), "words", "", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.CreateBase(t.Context(), "meaning", models.E5, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Environment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Spaces(t.Context()); err != nil {
		t.Fatal(err)
	}
	store, err := r.Knowledge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ingest := func(base string) {
		t.Helper()
		if _, err := store.Ingest(t.Context(), knowledge.IngestRequest{Base: base, Sources: []knowledge.Source{{Name: "a.md", Data: []byte("Granite is hard.")}}}); err != nil {
			t.Fatal(err)
		}
	}
	search := func(base string, mode knowledge.Mode) {
		t.Helper()
		if got, err := store.Search(t.Context(), knowledge.Request{Bases: []string{base}, Query: "granite", Mode: mode}); err != nil || len(got.Items) != 1 {
			t.Fatal(got, err)
		}
	}
	ingest("words")
	search("words", knowledge.Keyword)
	if opened() {
		t.Error("e5 is open, and nothing has needed it")
	}
	ingest("meaning")
	search("meaning", knowledge.Hybrid)
	if !opened() {
		t.Error("e5 has embedded, and is not open")
	}
	if l := (&lateEmbedder{r, models.E5}); embed.SpansOf(l) == nil || l.Identity().Dim != 384 {
		t.Error("the late embedder has no tokenizer, or no dimension")
	}
}
