package knowledge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// prose makes text of words by Zipf's law.
func prose(rng *rand.Rand, words int) string {
	z := rand.NewZipf(rng, 1.2, 8, 30_000)
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "w%d", z.Uint64())
		switch {
		case i%97 == 96:
			b.WriteString(".\n\n")
		case i%13 == 12:
			b.WriteString(". ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// randomEmbedder gives every text a random vector, the same for the same text.
type randomEmbedder struct{ dim int }

func (e randomEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: "random", Dim: e.dim, Metric: "cosine"}
}

func (e randomEmbedder) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	var r embed.Result
	for _, t := range texts {
		var seed [32]byte
		copy(seed[:], t)
		rng := rand.New(rand.NewChaCha8(seed))
		for range e.dim {
			r.Vectors = append(r.Vectors, float32(rng.NormFloat64()))
		}
	}
	return r, nil
}

// BenchmarkIngest: everything but the encoder.
func BenchmarkIngest(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var src []Source
	size := 0
	for i := range 200 {
		t := "# Title\n\n" + prose(rng, 1500)
		size += len(t)
		src = append(src, text(fmt.Sprintf("%d.md", i), t))
	}
	b.SetBytes(int64(size))
	chunks := 0
	for b.Loop() {
		s, err := Open(b.TempDir(), &Options{Embedder: nullEmbedder{384}})
		if err != nil {
			b.Fatal(err)
		}
		mustCreate(b, s, "kb", nil)
		chunks += mustIngest(b, s, IngestRequest{Base: "kb", Sources: src}).Chunks
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(chunks)/b.Elapsed().Seconds(), "chunks/s")
}

// BenchmarkSearchBases: ten bases of 2,000 chunks, the query's embedding left out
// as far as it can be.
func BenchmarkSearchBases(b *testing.B) {
	s := openMem(b, storage.NewMemFS(), Options{Embedder: randomEmbedder{384}, Now: time.Now})
	rng := rand.New(rand.NewPCG(2, 2))
	var ids []string
	for i := range 10 {
		id := fmt.Sprintf("kb%d", i)
		ids = append(ids, id)
		mustCreate(b, s, id, &BaseOptions{Chunk: wordChunks(60, 0), Analyzer: "english"})
		var src []Source
		for d := range 20 {
			src = append(src, text(fmt.Sprintf("%d.md", d), prose(rng, 6000)))
		}
		mustIngest(b, s, IngestRequest{Base: id, Sources: src})
	}
	for _, mode := range []Mode{Vector, Keyword, Hybrid} {
		b.Run(string(mode), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				mustSearch(b, s, Request{Bases: ids, Query: fmt.Sprintf("w%d w%d w%d", i%300, i%1000, i%77), Mode: mode, TopK: 10})
			}
		})
	}
}

// BenchmarkAISearch compares a call over 50,000 chunks, chunking left out, with
// the scan of their vectors that it cannot do without.
func BenchmarkAISearch(b *testing.B) {
	const n, dim = 50_000, 384
	e := &fixedEmbedder{model: embed.Identity{Name: "fixed", Dim: dim, Metric: "cosine"}, rows: make([]float32, n*dim)}
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range e.rows {
		e.rows[i] = float32(rng.NormFloat64())
	}
	query := e.rows[:dim]
	b.Run("scan", func(b *testing.B) {
		var sink float64
		for b.Loop() {
			for i := range n {
				d, _ := dotNorm(query, e.rows[i*dim:(i+1)*dim])
				sink += d
			}
		}
		_ = sink
	})
	b.Run("rank", func(b *testing.B) {
		for b.Loop() {
			scored, err := cosines(e.model, query, e.rows)
			if err != nil {
				b.Fatal(err)
			}
			bestOf(scored, 10)
		}
	})
	one, zero, sep := 1, 0, "\n"
	r := AIRequest{Query: "q", Input: []string{strings.Repeat("a line of text\n", n)},
		Chunk: chunk.Options{Unit: chunk.Custom, Separator: &sep, Size: &one, Overlap: &zero}}
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := AISearch(b.Context(), r, e, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
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
