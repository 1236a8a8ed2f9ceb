package aisearch_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/aisearch"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

// counter is an embedder for the example: a text's vector counts a few words.
type counter struct{}

func (counter) Identity() embed.Identity {
	return embed.Identity{Name: "counter", Dim: 3, Metric: "cosine"}
}

func (counter) Embed(_ context.Context, _ embed.Kind, texts []string) (r embed.Result, err error) {
	for _, t := range texts {
		for _, w := range []string{"refund", "ship", "password"} {
			r.Vectors = append(r.Vectors, float32(strings.Count(strings.ToLower(t), w)))
		}
	}
	return r, nil
}

func ExampleSearch() {
	size, overlap := 1, 0
	out, err := aisearch.Search(context.Background(), aisearch.Request{
		Query: "reset my password",
		Input: []string{"We ship by boat. A refund takes a day.", "Click on Password to change the password 😀. Then log in."},
		Chunk: chunk.Options{Unit: chunk.Sentence, Size: &size, Overlap: &overlap}, ResultCount: 1,
	}, counter{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range out {
		fmt.Printf("document %d, %d-%d: %s\n", p.DocumentIndex, p.Start, p.End, p.Text)
	}
	// Output:
	// document 1, 0-44: Click on Password to change the password 😀.
}
