package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

func TestMain(m *testing.M) {
	if dir := killDir(); dir != "" {
		killChild(dir)
		return
	}
	debug.SetGCPercent(400) // thousands of small indexes are opened and forgotten
	goleak.VerifyTestMain(m)
}

var bg = context.Background()

func testSchema() *Schema {
	return &Schema{
		Text: []TextField{{Name: "title", Analyzer: "english", Boost: 2}, {Name: "body"}, {Name: "hidden", NotStored: true}},
		Vectors: []VectorField{
			{Name: "v", Dim: 4, Metric: quant.L2, M: 8, Construct: 40},
			{Name: "c", Dim: 3, Metric: quant.Cosine},
		},
		Sparse: []SparseField{{Name: "s"}},
		Meta:   map[string]filter.Type{"lang": filter.Keyword, "n": filter.Int64},
	}
}

func mustOpen(t testing.TB, fs storage.FS, change func(*Options)) *Index {
	t.Helper()
	o := &Options{FS: fs, Schema: testSchema(), NoBackground: true}
	if change != nil {
		change(o)
	}
	ix, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ix.Close(); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
	})
	return ix
}

func put(t testing.TB, ix *Index, docs ...Document) {
	t.Helper()
	b := NewBatch()
	for _, d := range docs {
		b.Put(d)
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
}

func del(t testing.TB, ix *Index, ids ...string) {
	t.Helper()
	b := NewBatch()
	for _, id := range ids {
		b.Delete(id)
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
}

// ids lists the live documents, and checks that Count and Get agree.
func listIDs(t testing.TB, ix *Index) []string {
	t.Helper()
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []string
	for d, err := range s.Documents("") {
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(d.ID)
		if err != nil {
			t.Fatalf("get %q: %v", d.ID, err)
		}
		if diff := cmp.Diff(d, got); diff != "" {
			t.Fatalf("Documents and Get differ: %s", diff)
		}
		out = append(out, d.ID)
	}
	if n, err := s.Count(bg, filter.Filter{}); err != nil || n != len(out) {
		t.Fatalf("count %d, %v; listed %d", n, err, len(out))
	}
	return out
}

func TestPutGetReopen(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	want := Document{
		ID:      "a/1",
		Text:    map[string]string{"title": "Running dogs", "body": "", "hidden": "secret"},
		Vectors: map[string][]float32{"v": {1, 2, 3, 4}, "c": {0, 0, 5}},
		Meta:    map[string]any{"lang": "en", "n": 5, "tags": []string{"x", "y"}, "none": nil, "list": []any{}},
	}
	put(t, ix, want, Document{ID: "b"})
	stored := want
	stored.Text = map[string]string{"title": "Running dogs", "body": ""}
	stored.Vectors = map[string][]float32{"v": {1, 2, 3, 4}, "c": {0, 0, 1}}
	stored.Meta = map[string]any{"lang": "en", "n": int64(5), "tags": []string{"x", "y"}, "none": nil, "list": []any{}}
	for i := range 3 {
		got, err := ix.Get("a/1")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(stored, got); diff != "" {
			t.Fatalf("round %d: %s", i, diff)
		}
		if _, err := ix.Get("zz"); !errors.Is(err, ErrNotFound) {
			t.Fatalf("get of nothing: %v", err)
		}
		if i == 1 {
			if err := ix.Flush(bg); err != nil {
				t.Fatal(err)
			}
		}
		if err := ix.Close(); err != nil {
			t.Fatal(err)
		}
		ix = mustOpen(t, fs, nil)
	}
	if diff := cmp.Diff([]string{"a/1", "b"}, listIDs(t, ix)); diff != "" {
		t.Fatal(diff)
	}
}

func TestA02DeleteLastThenAdd(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	vec := func(i int) []float32 { return []float32{float32(i), 1, 2, 3} }
	put(t, ix, Document{ID: "1", Vectors: map[string][]float32{"v": vec(1)}})
	del(t, ix, "1")
	if got := listIDs(t, ix); len(got) != 0 {
		t.Fatalf("after the delete: %v", got)
	}
	put(t, ix, Document{ID: "1", Vectors: map[string][]float32{"v": vec(1)}})
	for range 20 {
		for range 2 {
			for i := range 8 {
				put(t, ix, Document{ID: fmt.Sprint(i), Vectors: map[string][]float32{"v": vec(i)}})
			}
		}
		if n := len(listIDs(t, ix)); n != 8 {
			t.Fatalf("%d documents", n)
		}
		for i := range 8 {
			del(t, ix, fmt.Sprint(i))
		}
		if got := listIDs(t, ix); len(got) != 0 {
			t.Fatalf("left %v", got)
		}
	}
}

func TestA04DeletedIDAddedAgain(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	vec := func(x float32) map[string][]float32 { return map[string][]float32{"v": {x, x, x, x}} }
	put(t, ix, Document{ID: "12", Vectors: vec(1)}, Document{ID: "3", Vectors: vec(2)})
	del(t, ix, "3")
	if diff := cmp.Diff([]string{"12"}, listIDs(t, ix)); diff != "" {
		t.Fatal(diff)
	}
	put(t, ix, Document{ID: "3", Vectors: vec(3)})
	check := func() {
		t.Helper()
		d, err := ix.Get("3")
		if err != nil || d.Vectors["v"][0] != 3 {
			t.Fatalf("get 3: %v %v", d, err)
		}
		s, _ := ix.Snapshot()
		defer s.Close()
		n := 0
		for _, v := range s.segs { // nothing live answers at the old vector
			for doc := range v.Docs {
				f := v.Vectors["v"]
				if ord, ok := f.Ord(doc); ok && v.isLive(doc) {
					n++
					if f.Vector(ord)[0] == 2 {
						t.Fatal("the old vector is live")
					}
				}
			}
		}
		if n != 2 {
			t.Fatalf("%d live vectors", n)
		}
	}
	check()
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	check()
	put(t, ix, Document{ID: "3", Vectors: vec(3)})
	check()
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
	check()
	// A document put without the vector no longer has one.
	put(t, ix, Document{ID: "3"})
	if d, _ := ix.Get("3"); d.Vectors != nil {
		t.Fatalf("vector stayed: %v", d)
	}
}

func TestA15BadBatchAppliesNothing(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "old", Meta: map[string]any{"n": 1, "grown": "x"}})
	v := func(x ...float32) map[string][]float32 { return map[string][]float32{"v": x} }
	c := func(x ...float32) map[string][]float32 { return map[string][]float32{"c": x} }
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tt := range []struct {
		doc  Document
		kind error
		says []string
	}{
		{Document{ID: "x", Vectors: v(1, 2, 3)}, ErrInvalid, []string{`"x"`, `"v"`, "want 4", "got 3"}},
		{Document{ID: "x", Vectors: v()}, ErrInvalid, []string{"want 4", "got 0"}},
		{Document{ID: "x", Vectors: v(1, 2, 3, 4, 5)}, ErrInvalid, []string{"want 4", "got 5"}},
		{Document{ID: "x", Vectors: v(1, 2, nan, 4)}, ErrInvalid, []string{`"x"`, "component 2", "NaN"}},
		{Document{ID: "x", Vectors: v(1, inf, 3, 4)}, ErrInvalid, []string{"component 1", "Inf"}},
		{Document{ID: "x", Vectors: c(0, 0, 0)}, ErrInvalid, []string{`"c"`, "zero"}},
		{Document{ID: "x", Vectors: map[string][]float32{"w": {1}}}, ErrSchema, []string{`"w"`}},
		{Document{ID: "x", Sparse: map[string]sparse.Vector{"v": {{Term: 1, Weight: 1}}}}, ErrSchema, []string{`"x"`, `"v"`, "sparse"}},
		{Document{ID: "x", Sparse: map[string]sparse.Vector{"s": {{Term: 1, Weight: 0}}}}, ErrInvalid, []string{`"x"`, `"s"`, "weight 0", "term 1"}},
		{Document{ID: "x", Sparse: map[string]sparse.Vector{"s": {{Term: 1, Weight: nan}}}}, ErrInvalid, []string{"NaN"}},
		{Document{ID: "x", Sparse: map[string]sparse.Vector{"s": {{Term: 1, Weight: inf}}}}, ErrInvalid, []string{"Inf"}},
		{Document{ID: "x", Sparse: map[string]sparse.Vector{"s": {{Term: 2, Weight: 1}, {Term: 2, Weight: 1}}}}, ErrInvalid, []string{"term 2", "twice"}},
		{Document{ID: "x", Meta: map[string]any{"s": 1}}, ErrSchema, []string{`"s"`}},
		{Document{ID: ""}, ErrInvalid, []string{"empty"}},
		{Document{ID: strings.Repeat("i", 513)}, ErrTooLarge, []string{"513", "512"}},
		{Document{ID: "a\xff"}, ErrInvalid, []string{"UTF-8"}},
		{Document{ID: "x", Text: map[string]string{"nope": ""}}, ErrSchema, []string{`"x"`, `"nope"`}},
		{Document{ID: "x", Text: map[string]string{"body": "\xff"}}, ErrInvalid, []string{`"body"`, "UTF-8"}},
		{Document{ID: "x", Meta: map[string]any{"n": "five"}}, ErrSchema, []string{`"x"`, `"n"`, "int64", "keyword"}},
		{Document{ID: "x", Meta: map[string]any{"grown": 5}}, ErrSchema, []string{`"grown"`, "keyword", "int64"}},
		{Document{ID: "x", Meta: map[string]any{"n": math.NaN()}}, ErrInvalid, []string{`"n"`}},
		{Document{ID: "x", Meta: map[string]any{"body": "no"}}, ErrSchema, []string{`"body"`}},
		{Document{ID: "x", Meta: map[string]any{"f": struct{}{}}}, ErrInvalid, []string{`"f"`, "struct"}},
		{Document{ID: "x", Meta: map[string]any{"": 1}}, ErrInvalid, []string{"empty"}},
		{Document{ID: "x", Meta: map[string]any{strings.Repeat("f", 129): 1}}, ErrTooLarge, []string{"129"}},
	} {
		b := NewBatch()
		for i := range 9 {
			b.Put(Document{ID: fmt.Sprint("good", i), Meta: map[string]any{"new": i}})
		}
		b.Delete("old")
		b.Put(tt.doc)
		err := ix.Apply(bg, b)
		if !errors.Is(err, tt.kind) {
			t.Errorf("%+v: %v, want %v", tt.doc, err, tt.kind)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v: does not say %q", err, s)
			}
		}
		if diff := cmp.Diff([]string{"old"}, listIDs(t, ix)); diff != "" {
			t.Fatalf("%v: %s", err, diff)
		}
		if _, ok := ix.Schema().Meta["new"]; ok {
			t.Fatal("a refused batch changed the schema")
		}
	}
	b := NewBatch()
	b.DeleteWhere(filter.Filter{})
	if err := ix.Apply(bg, b); !errors.Is(err, ErrInvalid) {
		t.Errorf("delete without a filter: %v", err)
	}
	b.Reset()
	b.Delete("")
	if err := ix.Apply(bg, b); !errors.Is(err, ErrInvalid) {
		t.Errorf("delete without id: %v", err)
	}
	b.Reset()
	b.DeleteWhere(filter.Eq("unknown", 1))
	if err := ix.Apply(bg, b); !errors.Is(err, ErrInvalid) {
		t.Errorf("delete by unknown field: %v", err)
	}
	if got := listIDs(t, ix); len(got) != 1 {
		t.Fatal(got)
	}
}

func TestBatchOrder(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	m := func(n int) map[string]any { return map[string]any{"n": n} }
	put(t, ix, Document{ID: "a", Meta: m(1)}, Document{ID: "b", Meta: m(2)}, Document{ID: "c", Meta: m(1)})
	b := NewBatch()
	b.Put(Document{ID: "d", Meta: m(1)})
	b.Put(Document{ID: "e", Meta: m(1)})
	b.Put(Document{ID: "e", Meta: m(2)}) // no longer matches
	b.Put(Document{ID: "a", Meta: m(3)}) // nor does this, although the old one did
	b.DeleteWhere(filter.Eq("n", 1))     // c and d
	b.Put(Document{ID: "f", Meta: m(1)}) // after it
	b.Put(Document{ID: "g", Meta: m(1)})
	b.Delete("g")
	b.Delete("nothing")
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "e", "f"}, listIDs(t, ix)); diff != "" {
		t.Fatal(diff)
	}
}
