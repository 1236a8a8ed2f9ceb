package space

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// topicEmbedder gives a text a vector near that of its topic, the word it starts
// with: real vectors lie in groups, random ones do not.
type topicEmbedder struct{ dim int }

func (e topicEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: "topics", Dim: e.dim, Metric: "cosine"}
}

func (e topicEmbedder) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	r := embed.Result{Vectors: make([]float32, 0, len(texts)*e.dim)}
	for _, t := range texts {
		topic, _, _ := strings.Cut(t, " ")
		r.Vectors = append(r.Vectors, unit(e.dim, topic, t)...)
	}
	return r, nil
}

// unit adds up a random vector for each text, and makes the sum a unit long.
func unit(dim int, texts ...string) []float32 {
	v := make([]float32, dim)
	for _, t := range texts {
		var h uint64 = 14695981039346656037
		for i := range len(t) {
			h = (h ^ uint64(t[i])) * 1099511628211
		}
		rng := rand.New(rand.NewPCG(h, 1))
		for i := range v {
			v[i] += float32(rng.NormFloat64())
		}
	}
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

// vocabulary is how many words there are; word k comes about 1/k as often as the
// first.
const vocabulary = 30_000

func zipf(rng *rand.Rand) *rand.Zipf { return rand.NewZipf(rng, 1.1, 3, vocabulary-1) }

// fiveSpaces makes five published spaces on disk of 60,000 chunks of about 60
// words together, and returns their ids.
func fiveSpaces(b *testing.B, chunks int) (*world, []string) {
	dir := b.TempDir()
	kb, err := knowledge.Open(filepath.Join(dir, "kb"), &knowledge.Options{Embedder: topicEmbedder{384}, Sync: storage.SyncNever})
	must(b, err)
	cat, err := catalog.Open(filepath.Join(dir, "catalog.db"), nil)
	must(b, err)
	s, err := New(cat, kb, nil)
	must(b, err)
	b.Cleanup(func() { must(b, kb.Close()); must(b, cat.Close()) })
	w := &world{Service: s, t: b, cat: cat, kb: kb}
	w.people()
	size, overlap := 60, 0
	var ids []string
	for i := range 5 {
		id := fmt.Sprintf("s%d", i)
		ids = append(ids, id)
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		z := zipf(rng)
		var src []knowledge.Source
		for d := range chunks / 5 / 20 {
			var text strings.Builder
			for range 20 {
				fmt.Fprintf(&text, "t%d", rng.IntN(500))
				for range 59 {
					fmt.Fprintf(&text, " w%d", z.Uint64())
				}
				text.WriteByte('\n')
			}
			src = append(src, knowledge.Source{Name: fmt.Sprintf("%d.txt", d), Data: []byte(text.String())})
		}
		w.addBase(id, &knowledge.BaseOptions{NoHeadings: true, Analyzer: "english",
			Chunk: &chunk.Options{Strategy: chunk.Count, Unit: chunk.Word, Size: &size, Overlap: &overlap}}, nil, src...)
	}
	must(b, errOf(w.cat.Publish("ann", "flow", 1, ids)))
	return w, ids
}

// BenchmarkRetrieve asks five spaces of 60,000 chunks together; the embedding of
// the query costs next to nothing here.
func BenchmarkRetrieve(b *testing.B) {
	w, ids := fiveSpaces(b, 60_000)
	rng := rand.New(rand.NewPCG(3, 4))
	z := zipf(rng)
	queries := make([]string, 500)
	for i := range queries {
		queries[i] = fmt.Sprintf("t%d", rng.IntN(500))
		for range 2 + rng.IntN(4) {
			queries[i] += fmt.Sprintf(" w%d", 20+z.Uint64())
		}
	}
	for _, m := range allModes {
		b.Run(string(m), func(b *testing.B) {
			b.ReportAllocs()
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				r := published(queries[i%len(queries)], ids...)
				r.Mode = m
				start := time.Now()
				if res := w.retrieve(r); len(res.Evidence) != DefaultTopN {
					b.Fatalf("%d pieces of evidence", len(res.Evidence))
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		})
	}
}
