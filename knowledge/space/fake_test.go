package space

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var allModes = []catalog.Mode{catalog.Fast, catalog.Deep, catalog.Research}

var errFake = errors.New("fake failure")

// bagEmbedder gives a text the set of its words, hashed, as a vector of unit
// length, and keeps the queries it was asked for.
type bagEmbedder struct {
	name string
	dim  int
	fail atomic.Bool // queries

	mu      sync.Mutex
	queries []string // in the order they were asked for
	calls   int      // for queries
}

func newBag(name string, dim int) *bagEmbedder { return &bagEmbedder{name: name, dim: dim} }

func (e *bagEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: e.name, Dim: e.dim, Metric: "cosine"}
}

func (e *bagEmbedder) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	if kind == embed.Query {
		e.mu.Lock()
		e.queries = append(e.queries, texts...)
		e.calls++
		e.mu.Unlock()
		if e.fail.Load() {
			return embed.Result{}, errFake
		}
	}
	r := embed.Result{Vectors: make([]float32, len(texts)*e.dim)}
	for i, t := range texts {
		v := r.Vectors[i*e.dim : (i+1)*e.dim]
		for w := range strings.FieldsFuncSeq(strings.ToLower(t), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			h := fnv.New32a()
			h.Write([]byte(w))
			v[h.Sum32()%uint32(e.dim)]++
		}
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		for j := range v {
			v[j] /= float32(max(math.Sqrt(sum), 1e-9))
		}
	}
	return r, ctx.Err()
}

// asked returns the queries since the last call.
func (e *bagEmbedder) asked() (queries []string, calls int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	queries, calls = e.queries, e.calls
	e.queries, e.calls = nil, 0
	return queries, calls
}

// funcReranker is a reranker made of a function.
type funcReranker func(ctx context.Context, passages []string) ([]rerank.Scored, error)

func (funcReranker) Name() string { return "func" }

func (f funcReranker) Rerank(ctx context.Context, _ string, passages []string, _ int) ([]rerank.Scored, error) {
	return f(ctx, passages)
}

// byLength scores long passages best, from 0 for none to near 1.
func byLength(_ context.Context, passages []string) (out []rerank.Scored, err error) {
	for i, p := range passages {
		out = append(out, rerank.Scored{Index: i, Score: 1 - 1/float64(1+len(p))})
	}
	return out, nil
}

// A world is a store, a catalogue and a service, with workspace "w", its account
// "ann" who may do everything in it, and workflow "flow".
type world struct {
	*Service
	t   testing.TB
	cat *catalog.Catalog
	kb  *knowledge.Store
	fs  storage.FS
}

func newWorld(t testing.TB, o *Options, embedders map[string]embed.Embedder) *world {
	t.Helper()
	return newWorldOn(t, storage.NewMemFS(), filepath.Join(t.TempDir(), "catalog.db"), o, embedders)
}

func newWorldOn(t testing.TB, fs storage.FS, file string, o *Options, embedders map[string]embed.Embedder) *world {
	t.Helper()
	var n atomic.Int64
	kb, err := knowledge.Open("kb", &knowledge.Options{FS: fs, Embedder: newBag("default", 64), Embedders: embedders,
		Now: func() time.Time { return time.Date(2030, 1, 1, 0, 0, int(n.Add(1)), 0, time.UTC) }})
	must(t, err)
	cat, err := catalog.Open(file, nil)
	must(t, err)
	s, err := New(cat, kb, o)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(closed(kb.Close()), closed(cat.Close()))) })
	w := &world{Service: s, t: t, cat: cat, kb: kb, fs: fs}
	w.people()
	return w
}

// people are made where there are none yet.
func (w *world) people() {
	w.t.Helper()
	if _, err := w.cat.Workspace("w"); err == nil {
		return
	}
	value[catalog.Workspace](w.t)(w.cat.CreateWorkspace("w", "W"))
	value[catalog.Account](w.t)(w.cat.CreateAccount("", catalog.Account{ID: "ann", Workspace: "w", Name: "Ann",
		Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Admin}}}))
	value[catalog.Workflow](w.t)(w.cat.CreateWorkflow("", catalog.Workflow{ID: "flow", Workspace: "w", Name: "Flow", Draft: []byte("{}")}))
}

// close closes the store, whatever it says, and the catalogue: the machine dies.
func (w *world) close() {
	w.t.Helper()
	_ = w.kb.Close()
	must(w.t, w.cat.Close())
}

func closed(err error) error {
	if errors.Is(err, storage.ErrClosed) {
		return nil
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value passes on the value of a call that must succeed.
func value[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// lines cuts a text at every line.
func lines() *chunk.Options {
	size, overlap, sep := 1, 0, "\n"
	return &chunk.Options{Strategy: chunk.Count, Unit: chunk.Custom, Size: &size, Overlap: &overlap, Separator: &sep}
}

// source makes a source of lines, each of which is a chunk.
func source(name string, text ...string) knowledge.Source {
	return knowledge.Source{Name: name, Data: []byte(strings.Join(text, "\n") + "\n")}
}

// add makes a published space on a base of its own, with the default profile
// changed by edit.
func (w *world) add(id string, edit func(*catalog.Profile), sources ...knowledge.Source) {
	w.t.Helper()
	w.addBase(id, baseOptions(), edit, sources...)
}

// baseOptions cut at lines.
func baseOptions() *knowledge.BaseOptions {
	return &knowledge.BaseOptions{Chunk: lines(), NoHeadings: true}
}

// edit changes the profile of a space and publishes it.
func (w *world) edit(id string, change func(*catalog.Profile)) {
	w.t.Helper()
	w.draftProfile(id, change)
	w.publish(id)
}

func (w *world) draftProfile(id string, change func(*catalog.Profile)) {
	w.t.Helper()
	p := value[catalog.Space](w.t)(w.cat.Space(id)).Draft
	change(&p)
	value[catalog.Space](w.t)(w.cat.UpdateDraft("ann", id, p, p.Revision))
}

func (w *world) addBase(id string, o *knowledge.BaseOptions, edit func(*catalog.Profile), sources ...knowledge.Source) {
	w.t.Helper()
	value[knowledge.BaseInfo](w.t)(w.kb.Create(w.t.Context(), id, o))
	p := catalog.DefaultProfile()
	if edit != nil {
		edit(&p)
	}
	value[catalog.Space](w.t)(w.cat.CreateSpace("ann", catalog.Space{ID: id, Workspace: "w", Name: id, Base: id, Draft: p}))
	w.ingest(id, sources...)
	w.publish(id)
}

func (w *world) ingest(id string, sources ...knowledge.Source) {
	w.t.Helper()
	if len(sources) == 0 {
		return
	}
	rep := value[*knowledge.Report](w.t)(w.Ingest(w.t.Context(), "ann", id, knowledge.IngestRequest{Sources: sources}))
	if len(rep.Failed) > 0 {
		w.t.Fatal(rep.Failed)
	}
}

func (w *world) publish(id string) catalog.Publication {
	w.t.Helper()
	sp := value[catalog.Space](w.t)(w.cat.Space(id))
	return value[catalog.Publication](w.t)(w.Publish(w.t.Context(), "ann", id, sp.Draft.Revision))
}

// draft asks for evidence outside of any workflow, as ann.
func draft(query string, spaces ...string) Request {
	return Request{Run: catalog.Run{Kind: catalog.Draft, Account: "ann", Spaces: spaces}, Query: query}
}

// published asks as a user of the workflow.
func published(query string, spaces ...string) Request {
	return Request{Run: catalog.Run{Kind: catalog.Published, Workflow: "flow", Spaces: spaces}, Query: query}
}

func (w *world) retrieve(r Request) *Result {
	w.t.Helper()
	return value[*Result](w.t)(w.Retrieve(w.t.Context(), r))
}

// refused demands an error of a class, or of a catalogue code, and no result.
func (w *world) refused(r Request, class error, parts ...string) {
	w.t.Helper()
	res, err := w.Retrieve(w.t.Context(), r)
	if res != nil {
		w.t.Errorf("evidence in spite of the error: %v", contents(res))
	}
	wantError(w.t, err, class, parts...)
}

func wantError(t testing.TB, err, class error, parts ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Fatalf("got %v, want %v", err, class)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not name %q", err, p)
		}
	}
}

func contents(r *Result) []string {
	out := []string{}
	for _, e := range r.Evidence {
		out = append(out, e.Content)
	}
	return out
}

// from gives the spaces of the evidence, in order.
func from(r *Result) []string {
	var out []string
	for _, e := range r.Evidence {
		out = append(out, e.Metadata.SpaceID)
	}
	return out
}

func wantContents(t testing.TB, r *Result, want ...string) {
	t.Helper()
	if got := contents(r); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// numbered makes n lines that all hold the words.
func numbered(words string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s number%d", words, i)
	}
	return out
}
