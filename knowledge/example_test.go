package knowledge_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// counter is an embedder for examples: a text's vector counts a few words.
type counter struct{}

func (counter) Identity() embed.Identity {
	return embed.Identity{Name: "counter", Dim: 5, Metric: "cosine"}
}

func (counter) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	var r embed.Result
	for _, t := range texts {
		for _, w := range []string{"refund", "digital", "ship", "password", ""} {
			r.Vectors = append(r.Vectors, min(float32(strings.Count(strings.ToLower(t), w)), 3))
		}
	}
	return r, nil
}

func Example() {
	ctx := context.Background()
	s, err := knowledge.Open("kb", &knowledge.Options{Embedder: counter{}, FS: storage.NewMemFS()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, err := s.Create(ctx, "docs", nil); err != nil {
		fmt.Println(err)
		return
	}
	report, err := s.Ingest(ctx, knowledge.IngestRequest{Base: "docs", Sources: []knowledge.Source{
		{Name: "refunds.md", Data: []byte("# Refunds\n\nA refund is possible within 30 days.\n\n# Exceptions\n\nNo refund for digital goods.\n")},
		{Name: "shipping.md", Data: []byte("# Shipping\n\nWe ship by boat.\n")},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Added, "documents,", report.Chunks, "chunks")
	res, err := s.Search(ctx, knowledge.Request{Bases: []string{"docs"}, Query: "refund digital", Mode: knowledge.Hybrid, TopK: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	it := res.Items[0]
	fmt.Printf("%s, %s, bytes %d-%d\n", it.Metadata.Source, strings.Join(it.Metadata.SectionPath, " > "), it.Metadata.StartOffset, it.Metadata.EndOffset)
	text, err := knowledge.AssembleContext(res.Items, knowledge.ContextOptions{MaxRunes: 500})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text.Text)
	// Output:
	// 2 documents, 3 chunks
	// refunds.md, Exceptions, bytes 49-91
	// [1] refunds.md
	// # Exceptions
	//
	// No refund for digital goods.
}
