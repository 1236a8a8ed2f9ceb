package aisearch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

// BenchmarkSearch compares a call over 50,000 chunks whose embeddings are ready
// with what it cannot do without: cutting the texts once, and a flat cosine scan of
// the vectors, the product with the query and the length of each row. The three are run in
// turn and measured in processor time of the process, so that a busy machine and
// garbage collection count where they belong; the metric is the ratio of the
// sums, whole/(chunking + scan).
func BenchmarkSearch(b *testing.B) {
	const n, dim = 50_000, 384
	e := &fixedEmbedder{model: embed.Identity{Name: "fixed", Dim: dim, Metric: "cosine"}, rows: make([]float32, n*dim)}
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range e.rows {
		e.rows[i] = float32(rng.NormFloat64())
	}
	query := e.rows[:dim]
	var lines, prose strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "a line of text %d\n", i)
		for j := range 60 { // a chunk of 60 words
			fmt.Fprintf(&prose, "word%d ", (i*j)%977)
		}
	}
	one, zero, sep, words := 1, 0, "\n", 60
	for _, c := range []struct {
		name  string
		text  string
		chunk chunk.Options
	}{
		{"lines", lines.String(), chunk.Options{Unit: chunk.Custom, Separator: &sep, Size: &one, Overlap: &zero}},
		{"words", prose.String(), chunk.Options{Unit: chunk.Word, Size: &words, Overlap: &zero}},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := Request{Query: "q", Input: []string{c.text}, Chunk: c.chunk}
			cutter, err := chunk.New(&c.chunk)
			if err != nil {
				b.Fatal(err)
			}
			var spent [3]float64
			var sink float32
			for b.Loop() {
				start := cpuSeconds()
				count := 0
				for _, err := range cutter.Chunks(chunk.Document{Text: c.text}) {
					if err != nil {
						b.Fatal(err)
					}
					count++
				}
				if count != n {
					b.Fatalf("%d chunks", count)
				}
				spent[0], start = spent[0]+cpuSeconds()-start, cpuSeconds()
				for i := range n {
					row := e.rows[i*dim : (i+1)*dim]
					sink += simd.DotF32(query, row) / simd.DotF32(row, row)
				}
				spent[1], start = spent[1]+cpuSeconds()-start, cpuSeconds()
				if _, err := Search(b.Context(), r, e, nil); err != nil {
					b.Fatal(err)
				}
				spent[2] += cpuSeconds() - start
			}
			for i, name := range []string{"chunking-cpu-ms", "scan-cpu-ms", "whole-cpu-ms"} {
				b.ReportMetric(spent[i]*1000/float64(b.N), name)
			}
			b.ReportMetric(spent[2]/(spent[0]+spent[1]), "ratio")
			if sink == 1 {
				b.Log(sink)
			}
		})
	}
}

// fixedEmbedder has all its vectors ready.
type fixedEmbedder struct {
	model embed.Identity
	rows  []float32
}

func (e *fixedEmbedder) Identity() embed.Identity { return e.model }

func (e *fixedEmbedder) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	return embed.Result{Vectors: e.rows[:len(texts)*e.model.Dim]}, nil
}
