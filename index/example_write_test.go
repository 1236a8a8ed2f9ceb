package index_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

func ExampleIndex_Apply() {
	ix, err := index.Open("/books", &index.Options{
		FS: storage.NewMemFS(), // leave it out to use the disk
		Schema: &index.Schema{
			Text:    []index.TextField{{Name: "title", Analyzer: "english"}},
			Vectors: []index.VectorField{{Name: "embedding", Dim: 3}},
			Meta:    map[string]filter.Type{"published": filter.Time},
		},
	})
	if err != nil {
		panic(err)
	}
	defer ix.Close()

	b := index.NewBatch()
	b.Put(index.Document{
		ID:      "sea/1",
		Text:    map[string]string{"title": "Twenty Thousand Leagues"},
		Vectors: map[string][]float32{"embedding": {0.6, 0, 0.8}},
		Meta:    map[string]any{"published": time.Date(1870, 6, 20, 0, 0, 0, 0, time.UTC), "tags": []string{"sea", "novel"}},
	})
	b.Put(index.Document{ID: "sea/2", Text: map[string]string{"title": "The Toilers of the Sea"}, Meta: map[string]any{"tags": []string{"sea"}}})
	b.Put(index.Document{ID: "draft", Meta: map[string]any{"tags": []string{"draft"}}})
	b.DeleteWhere(filter.Eq("tags", "draft"))
	if err := ix.Apply(context.Background(), b); err != nil {
		panic(err)
	}

	for d, err := range ix.Documents("sea/") {
		if err != nil {
			panic(err)
		}
		fmt.Println(d.ID, d.Text["title"], d.Meta["tags"])
	}
	n, err := ix.Count(context.Background(), filter.Lt("published", "1900-01-01"))
	fmt.Println(n, err)
	// Output:
	// sea/1 Twenty Thousand Leagues [sea novel]
	// sea/2 The Toilers of the Sea [sea]
	// 1 <nil>
}
