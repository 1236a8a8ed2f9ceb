package index

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

func TestSchemaRules(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	many := map[string]filter.Type{}
	for i := range MaxMetaFields + 1 {
		many[fmt.Sprint("f", i)] = filter.Keyword
	}
	for name, s := range map[string]Schema{
		"no name":      {Text: []TextField{{}}},
		"long name":    {Text: []TextField{{Name: strings.Repeat("x", 129)}}},
		"control":      {Meta: map[string]filter.Type{"a\nb": filter.Keyword}},
		"not UTF-8":    {Vectors: []VectorField{{Name: "\xff", Dim: 3}}},
		"twice":        {Text: []TextField{{Name: "a"}, {Name: "a"}}},
		"over kinds":   {Text: []TextField{{Name: "a"}}, Meta: map[string]filter.Type{"a": filter.Keyword}},
		"analyzer":     {Text: []TextField{{Name: "a", Analyzer: "klingon"}}},
		"boost":        {Text: []TextField{{Name: "a", Boost: -1}}},
		"k1":           {Text: []TextField{{Name: "a", K1: f(-1)}}},
		"b":            {Text: []TextField{{Name: "a", B: f(1.1)}}},
		"no dimension": {Vectors: []VectorField{{Name: "a"}}},
		"dimension":    {Vectors: []VectorField{{Name: "a", Dim: 4097}}},
		"metric":       {Vectors: []VectorField{{Name: "a", Dim: 1, Metric: 9}}},
		"m":            {Vectors: []VectorField{{Name: "a", Dim: 1, M: 65}}},
		"construct":    {Vectors: []VectorField{{Name: "a", Dim: 1, Construct: 2001}}},
		"type":         {Meta: map[string]filter.Type{"a": filter.Undeclared}},
		"sparse twice": {Text: []TextField{{Name: "a"}}, Sparse: []SparseField{{Name: "a"}}},
		"sparse name":  {Sparse: []SparseField{{}}},
		"sparse many":  {Sparse: make([]SparseField, MaxFields+1)},
		"too many":     {Meta: many},
	} {
		_, err := Open("/db", &Options{FS: storage.NewMemFS(), Schema: &s})
		if !errors.Is(err, ErrSchema) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fs := storage.NewMemFS()
	border := Schema{Text: []TextField{{Name: strings.Repeat("x", 128)}}, Vectors: []VectorField{{Name: "v", Dim: 4096}, {Name: "w", Dim: 1}}}
	if ix, err := Open("/border", &Options{FS: fs, Schema: &border}); err != nil {
		t.Fatal(err)
	} else {
		ix.Close()
	}
	ix := mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "a", Meta: map[string]any{"grown": 1.5, "null": nil}})
	ix.Close()
	for name, s := range map[string]Schema{
		"analyzer":  {Text: []TextField{{Name: "title"}}},
		"k1":        {Text: []TextField{{Name: "body", K1: f(2)}}},
		"stored":    {Text: []TextField{{Name: "hidden"}}},
		"dimension": {Vectors: []VectorField{{Name: "v", Dim: 5, Metric: quant.L2, M: 8, Construct: 40}}},
		"metric":    {Vectors: []VectorField{{Name: "v", Dim: 4, M: 8, Construct: 40}}},
		"type":      {Meta: map[string]filter.Type{"n": filter.Keyword}},
		"grown":     {Meta: map[string]filter.Type{"grown": filter.Int64}},
		"kind":      {Text: []TextField{{Name: "grown"}}},
	} {
		if _, err := Open("/db", &Options{FS: fs, Schema: &s}); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	more := Schema{
		Text:    []TextField{{Name: "body", Boost: 3}, {Name: "extra"}},
		Vectors: []VectorField{{Name: "second", Dim: 2}},
		Meta:    map[string]filter.Type{"null": filter.Time, "new": filter.Bool, "grown": filter.Float64},
		Strict:  true,
	}
	for i := range 2 {
		add := &more
		if i == 1 {
			add = nil
		}
		ix = mustOpen(t, fs, func(o *Options) { o.Schema = add })
		got := ix.Schema()
		if len(got.Text) != 4 || got.Text[1].Boost != 3 || len(got.Vectors) != 3 || !got.Strict || got.Meta["null"] != filter.Time {
			t.Fatalf("%+v", got)
		}
		b := NewBatch()
		b.Put(Document{ID: "z", Meta: map[string]any{"undeclared": 1}})
		if err := ix.Apply(bg, b); !errors.Is(err, ErrSchema) {
			t.Fatalf("undeclared under strict: %v", err)
		}
		put(t, ix, Document{ID: "z", Text: map[string]string{"extra": "hello"}, Vectors: map[string][]float32{"second": {1, 0}}})
		ix.Close()
	}
	// An analyzer with other rules than this build's.
	m, err := storage.ReadManifest(fs, "/db")
	if err != nil {
		t.Fatal(err)
	}
	m.Schema = bytes.Replace(m.Schema, []byte(`"english/`), []byte(`"english/9`), 1)
	m.Generation++
	if err := storage.WriteManifest(fs, "/db", m); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("/db", &Options{FS: fs}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), `"title"`) || !strings.Contains(err.Error(), "english/9") {
		t.Fatalf("another analyzer: %v", err)
	}
}

func TestLimits(t *testing.T) {
	sc, err := newSchema(Schema{Text: []TextField{{Name: "t"}}, Vectors: []VectorField{{Name: "v", Dim: 4096}}, Sparse: []SparseField{{Name: "s"}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := prepare(bg, sc, []op{{doc: Document{ID: "i", Text: map[string]string{"t": ""}}}})
	if err != nil {
		t.Fatal(err)
	}
	room := MaxDocumentBytes - int(empty.bytes) - 3 // the length of the text needs 3 bytes more
	for past := range 2 {
		_, err := prepare(bg, sc, []op{{doc: Document{ID: "i", Text: map[string]string{"t": strings.Repeat("x", room+past)}}}})
		if past == 0 && err != nil || past == 1 && !errors.Is(err, ErrTooLarge) {
			t.Errorf("document %d past the limit: %v", past, err)
		}
	}
	for _, n := range []int{512, 513} {
		_, err := prepare(bg, sc, []op{{doc: Document{ID: strings.Repeat("i", n)}}})
		if (err != nil) != (n == 513) {
			t.Errorf("id of %d bytes: %v", n, err)
		}
	}
	meta := map[string]any{}
	for i := range MaxMetaFields {
		meta[fmt.Sprint(i)] = nil
	}
	if _, err := prepare(bg, sc, []op{{doc: Document{ID: "a", Meta: meta}}}); err != nil {
		t.Errorf("%d fields: %v", len(meta), err)
	}
	meta["one more"] = nil
	if _, err := prepare(bg, sc, []op{{doc: Document{ID: "a", Meta: meta}}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d fields: %v", len(meta), err)
	}
	long := make(sparse.Vector, sparse.MaxEntries+1)
	for i := range long {
		long[i] = sparse.Entry{Term: uint32(i), Weight: sparse.MaxWeight}
	}
	if _, err := prepare(bg, sc, []op{{doc: Document{ID: "a", Sparse: map[string]sparse.Vector{"s": long[:sparse.MaxEntries]}}}}); err != nil {
		t.Errorf("%d terms: %v", sparse.MaxEntries, err)
	}
	if _, err := prepare(bg, sc, []op{{doc: Document{ID: "a", Sparse: map[string]sparse.Vector{"s": long}}}}); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), `"s"`) {
		t.Errorf("%d terms: %v", len(long), err)
	}
	// Vectors are not copied when a batch is checked, so a GiB costs little.
	v := make([]float32, 4096)
	v[0] = 1
	one, err := prepare(bg, sc, []op{{doc: Document{ID: "00000", Vectors: map[string][]float32{"v": v}}}})
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]op, MaxBatchBytes/one.bytes)
	for i := range ops {
		ops[i].doc = Document{ID: fmt.Sprintf("%05d", i), Vectors: map[string][]float32{"v": v}}
	}
	if _, err := prepare(bg, sc, append(ops, op{doc: Document{ID: "x", Vectors: map[string][]float32{"v": v}}})); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("batch one document past the limit: %v", err)
	}
}

// The limits that are no matter of a schema or a batch, at the border and one
// past it.
func TestQueryLimits(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	put(t, ix, Document{ID: "a", Text: map[string]string{"body": "x"}, Meta: map[string]any{"n": 1},
		Vectors: map[string][]float32{"v": {1, 2, 3, 4}}})
	nested := func(depth int) filter.Filter {
		f := filter.Eq("n", 1)
		for range depth - 1 {
			f = filter.Not(f)
		}
		return f
	}
	wide := func(size int) filter.Filter { // a node and its values
		vals := make([]any, size-1)
		for i := range vals {
			vals[i] = i
		}
		return filter.In("n", vals...)
	}
	facets := func(n, size int) []FacetRequest {
		out := make([]FacetRequest, n)
		for i := range out {
			out[i] = FacetRequest{Field: "n", Limit: size}
		}
		return out
	}
	v := []float32{1, 2, 3, 4}
	for name, q := range map[string]func(past int) Query{
		"K":      func(past int) Query { return Query{K: MaxK + past} },
		"offset": func(past int) Query { return Query{K: 10, Offset: MaxOffset - 10 + past} },
		"depth":  func(past int) Query { return Query{K: 1, Depth: MaxDepth + past} },
		"ef": func(past int) Query {
			return Query{K: 1, Vector: &VectorQuery{Field: "v", Vector: v, Ef: MaxEf + past}}
		},
		"text": func(past int) Query {
			return Query{K: 1, Text: &TextQuery{Text: strings.Repeat("x", MaxQueryText+past)}}
		},
		"sparse": func(past int) Query {
			v := make(sparse.Vector, sparse.MaxQueryEntries+past)
			for i := range v {
				v[i] = sparse.Entry{Term: uint32(i), Weight: 1}
			}
			return Query{K: 1, Sparse: &SparseQuery{Vector: v}}
		},
		"filter depth":   func(past int) Query { return Query{K: 1, Filter: nested(filter.MaxDepth + past)} },
		"filter size":    func(past int) Query { return Query{K: 1, Filter: wide(filter.MaxSize + past)} },
		"facets":         func(past int) Query { return Query{K: 1, Facets: facets(MaxFacets+past, 1)} },
		"values a facet": func(past int) Query { return Query{K: 1, Facets: facets(1, MaxFacetSize+past)} },
	} {
		for past := range 2 {
			_, err := ix.Search(bg, q(past))
			if past == 0 && err != nil || past == 1 && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, %d past the limit: %v", name, past, err)
			}
		}
	}
	for name, meta := range map[string]func(past int) any{
		"keyword": func(past int) any { return strings.Repeat("x", filter.MaxKeywordSize+past) },
		"list":    func(past int) any { return make([]int, filter.MaxListValues+past) },
	} {
		for past := range 2 {
			b := NewBatch()
			b.Put(Document{ID: name, Meta: map[string]any{name: meta(past)}})
			if err := ix.Apply(bg, b); past == 0 && err != nil || past == 1 && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, %d past the limit: %.200v", name, past, err)
			}
		}
	}
}

// What a query gathers counts against Options.QueryBytes: with as much as it
// takes it passes, with a byte less it is refused by name, and takes no more.
func TestQueryBytes(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	b := NewBatch()
	for i := range 300 {
		b.Put(Document{ID: fmt.Sprintf("%03d", i), Text: map[string]string{"body": "granite " + strings.Repeat("x", 300)},
			Meta: map[string]any{"n": i % 50, "lang": fmt.Sprintf("language %d", i)}, Vectors: map[string][]float32{"v": {float32(i), 1, 2, 3}}})
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	granite := &TextQuery{Text: "granite"}
	for name, q := range map[string]Query{
		"filter":              {Filter: filter.Gte("n", 10), K: 1},
		"ranked hits":         {Text: granite, K: 200},
		"fields and passages": {Text: granite, Fields: []string{"*"}, Highlight: []string{"body"}, K: 100},
		"facets":              {Facets: []FacetRequest{{Field: "lang"}, {Field: "n"}}, K: 1},
	} {
		takes := sort.Search(1<<20, func(limit int) bool {
			ix.o.QueryBytes = int64(limit)
			_, err := ix.Search(bg, q)
			return err == nil
		})
		if takes < 100 || takes == 1<<20 {
			t.Errorf("%s: passes with %d bytes", name, takes)
		}
		less := takes - 1
		if name == "filter" {
			less = 10 // what comes first
		}
		ix.o.QueryBytes = int64(less)
		if _, err := ix.Search(bg, q); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), fmt.Sprintf("(%d bytes) with its %s", less, name)) {
			t.Errorf("%s: %d bytes: %v", name, less, err)
		}
	}
	// Groups are ranked hits, a hybrid query is one list.
	ix.o.QueryBytes = 1000
	for _, q := range []Query{
		{Text: granite, Group: &GroupRequest{Field: "n"}, K: 20},
		{Text: granite, Vector: &VectorQuery{Field: "v", Vector: []float32{1, 2, 3, 4}}, K: 20},
	} {
		if _, err := ix.Search(bg, q); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	}
	if _, err := Open("/x", &Options{FS: storage.NewMemFS(), QueryBytes: minQueryBytes - 1}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// Above MaxSegments a writer waits for the merger, or merges itself.
func TestSegmentLimit(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) { o.MaxSegments = 2 })
	for i := range 12 {
		put(t, ix, Document{ID: fmt.Sprint(i)})
		if err := ix.Flush(bg); err != nil {
			t.Fatal(err)
		}
		if st, err := ix.Stats(); err != nil || len(st.Segments) > 3 {
			t.Fatalf("%d segments (%v)", len(st.Segments), err)
		}
	}
	if n := len(listIDs(t, ix)); n != 12 {
		t.Errorf("%d documents", n)
	}
}

// The table in doc.go has every limit, with its number.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "// # Limits")
	for name, n := range map[string]int{
		"document id": segment.MaxID, "field name": MaxName, "text fields": MaxFields, "metadata fields": MaxMetaFields,
		"document in the WAL": MaxDocumentBytes, "batch in the WAL": MaxBatchBytes, "vector": hnsw.MaxDim,
		"sparse vector": sparse.MaxEntries, "terms of a sparse query": sparse.MaxQueryEntries,
		"keyword value": filter.MaxKeywordSize, "list of values": filter.MaxListValues, "documents in a segment": segment.MaxDocs,
		"hits of a query": MaxK, "offset and hits together": MaxOffset, "candidates of a leg": MaxDepth, "width of a graph walk": MaxEf,
		"query text": MaxQueryText, "filter nesting": filter.MaxDepth, "filter nodes and values": filter.MaxSize,
		"clauses of a query": keyword.MaxClauses, "terms of a query": bm25.MaxClauses, "slop of a phrase": keyword.MaxSlop, "facets": MaxFacets,
	} {
		digits := fmt.Sprint(n)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		if !regexp.MustCompile(`//\t` + name + ` +` + digits + `\b`).MatchString(table) {
			t.Errorf("doc.go does not say that the limit of %q is %s", name, digits)
		}
	}
}
