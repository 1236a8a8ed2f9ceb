package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
)

// Options say what is tested, and how strictly.
type Options struct {
	// Open opens the collection of a name, and makes it where there is none and
	// a schema is given. The test closes it.
	Open func(t testing.TB, name string, schema *index.Schema) collection.Collection
	// Overlap is the mean share of the ten best hits of a keyword search that
	// the index has among its ten best, in (0, 1].
	Overlap float64
}

// Run runs all tests.
func Run(t *testing.T, o Options) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, o Options)
	}{
		{"Documents", testDocuments},
		{"S0_7_Filters", testFilters},
		{"Text", testText},
		{"Vectors", testVectors},
		{"S0_4_Hybrid", testHybrid},
		{"Pages", testPages},
		{"Deletes", testDeletes},
		{"Schema", testSchema},
		{"Errors", testErrors},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, o) })
	}
}

// open opens a collection for a test; it is closed with it, unless close was
// called before.
func (o Options) open(t *testing.T, name string, s *index.Schema) (c collection.Collection, close func()) {
	t.Helper()
	c = o.Open(t, name, s)
	closed := false
	close = func() {
		t.Helper()
		if closed {
			return
		}
		closed = true
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(close)
	return c, close
}

// reference opens an index of this machine with the same documents.
func reference(t *testing.T, s *index.Schema, docs []index.Document) *index.Index {
	t.Helper()
	ix, err := index.Open(t.TempDir(), &index.Options{Schema: s, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ix.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := ix.Apply(t.Context(), batchOf(docs)); err != nil {
		t.Fatal(err)
	}
	return ix
}

func batchOf(docs []index.Document) *index.Batch {
	b := index.NewBatch()
	for _, d := range docs {
		b.Put(d)
	}
	return b
}

func apply(t *testing.T, c collection.Collection, b *index.Batch) {
	t.Helper()
	if err := c.Apply(bounded(t), b); err != nil {
		t.Fatal(err)
	}
}

// bounded is a context for one call.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func search(t *testing.T, r collection.Reader, q index.Query) *index.Results {
	t.Helper()
	res, err := r.Search(bounded(t), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return res
}

func ids(hits []index.Hit) []string {
	out := make([]string, len(hits))
	for i, h := range hits {
		out[i] = h.ID
	}
	return out
}
