package index

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
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
	sc, err := newSchema(Schema{Text: []TextField{{Name: "t"}}, Vectors: []VectorField{{Name: "v", Dim: 4096}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := prepare(sc, []op{{doc: Document{ID: "i", Text: map[string]string{"t": ""}}}})
	if err != nil {
		t.Fatal(err)
	}
	room := MaxDocumentBytes - int(empty.bytes) - 3 // the length of the text needs 3 bytes more
	for past := range 2 {
		_, err := prepare(sc, []op{{doc: Document{ID: "i", Text: map[string]string{"t": strings.Repeat("x", room+past)}}}})
		if past == 0 && err != nil || past == 1 && !errors.Is(err, ErrTooLarge) {
			t.Errorf("document %d past the limit: %v", past, err)
		}
	}
	for _, n := range []int{512, 513} {
		_, err := prepare(sc, []op{{doc: Document{ID: strings.Repeat("i", n)}}})
		if (err != nil) != (n == 513) {
			t.Errorf("id of %d bytes: %v", n, err)
		}
	}
	meta := map[string]any{}
	for i := range MaxMetaFields {
		meta[fmt.Sprint(i)] = nil
	}
	if _, err := prepare(sc, []op{{doc: Document{ID: "a", Meta: meta}}}); err != nil {
		t.Errorf("%d fields: %v", len(meta), err)
	}
	meta["one more"] = nil
	if _, err := prepare(sc, []op{{doc: Document{ID: "a", Meta: meta}}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d fields: %v", len(meta), err)
	}
	// Vectors are not copied when a batch is checked, so a GiB costs little.
	v := make([]float32, 4096)
	v[0] = 1
	one, err := prepare(sc, []op{{doc: Document{ID: "00000", Vectors: map[string][]float32{"v": v}}}})
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]op, MaxBatchBytes/one.bytes)
	for i := range ops {
		ops[i].doc = Document{ID: fmt.Sprintf("%05d", i), Vectors: map[string][]float32{"v": v}}
	}
	if _, err := prepare(sc, append(ops, op{doc: Document{ID: "x", Vectors: map[string][]float32{"v": v}}})); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("batch one document past the limit: %v", err)
	}
}
