package knowledge

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// latentEmbedder gives every text a vector, the same for the same text, as
// language models do in one respect: of its many components few are independent.
type latentEmbedder struct {
	dim  int
	rows []float32 // latent rows of dim components
}

const latent = 32

func newLatent(dim int) *latentEmbedder {
	e := &latentEmbedder{dim: dim, rows: make([]float32, latent*dim)}
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range e.rows {
		e.rows[i] = float32(rng.NormFloat64())
	}
	return e
}

func (e *latentEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: "latent", Dim: e.dim, Metric: "cosine"}
}

func (e *latentEmbedder) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	r := embed.Result{Vectors: make([]float32, len(texts)*e.dim)}
	for i, t := range texts {
		h := fnv.New64a()
		h.Write([]byte(t))
		rng := rand.New(rand.NewPCG(h.Sum64(), 1))
		v := r.Vectors[i*e.dim : (i+1)*e.dim]
		for l := range latent {
			z := float32(rng.NormFloat64())
			for j, x := range e.rows[l*e.dim : (l+1)*e.dim] {
				v[j] += z * x
			}
		}
		for j := range v {
			v[j] += float32(rng.Float64()-0.5) * 2
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

// BenchmarkSearchBases searches ten bases together, at sizes of 2,000 chunks and,
// where QUARRY_BENCH_DIR names a directory for the store, which is kept there,
// of 100,000. The embedder costs some microseconds, so that what is measured is
// the search without the query's embedding.
func BenchmarkSearchBases(b *testing.B) {
	b.Run("2k", func(b *testing.B) {
		benchmarkBases(b, b.TempDir(), 2_000)
	})
	b.Run("100k", func(b *testing.B) {
		dir := os.Getenv("QUARRY_BENCH_DIR")
		if dir == "" {
			b.Skip("QUARRY_BENCH_DIR is not set")
		}
		benchmarkBases(b, filepath.Join(dir, "bases-100k"), 100_000)
	})
}

func benchmarkBases(b *testing.B, dir string, chunks int) {
	ids := makeBases(b, dir, chunks)
	// Read only, so that no merge in the background is measured, too.
	s, err := Open(dir, &Options{Embedder: newLatent(384), ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, mode := range []Mode{Vector, Keyword, Hybrid} {
		b.Run(string(mode), func(b *testing.B) {
			b.ReportAllocs()
			rng := rand.New(rand.NewPCG(5, 5))
			z := rand.NewZipf(rng, 1.2, 8, 30_000)
			var took []time.Duration
			cpu := cpuSeconds()
			for b.Loop() {
				q := fmt.Sprintf("w%d w%d w%d w%d", z.Uint64(), z.Uint64(), 100+z.Uint64(), 1000+z.Uint64())
				start := time.Now()
				res := mustSearch(b, s, Request{Bases: ids, Query: q, Mode: mode, TopK: 10})
				took = append(took, time.Since(start))
				if len(res.Items) != 10 {
					b.Fatalf("%q: %d items", q, len(res.Items))
				}
			}
			cpu = cpuSeconds() - cpu
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
			b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "p95-ms")
			b.ReportMetric(cpu*1000/float64(len(took)), "cpu-ms")
		})
	}
}

// makeBases makes what is not there yet of ten bases.
func makeBases(b *testing.B, dir string, chunks int) (ids []string) {
	const words, perDocument = 60, 100
	s, err := Open(dir, &Options{Embedder: newLatent(384)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range 10 {
		id := fmt.Sprintf("kb%d", i)
		ids = append(ids, id)
		if _, err := s.Create(b.Context(), id, &BaseOptions{Chunk: wordChunks(words, 0), Analyzer: "english"}); err != nil && !errors.Is(err, ErrExists) {
			b.Fatal(err)
		}
		info, err := s.Base(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		// Two hundred documents at a time; what is there is passed over.
		for d := info.Documents; d < chunks/perDocument; d += 200 {
			var src []Source
			for n := d; n < min(d+200, chunks/perDocument); n++ {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
				src = append(src, text(fmt.Sprintf("%05d.txt", n), prose(rng, words*perDocument)))
			}
			mustIngest(b, s, IngestRequest{Base: id, Sources: src})
		}
	}
	return ids
}

// e5 opens the small model of the tree, without the package that would carry its
// weights into every test of this one.
func e5(b *testing.B) *embed.Local {
	b.Helper()
	m, err := embed.OpenModel(storage.OS{}, filepath.FromSlash("embed/e5small/e5small.qem"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	e, err := embed.NewLocal(m, nil)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// english makes text of real words, so that a tokenizer has something to do.
func english(rng *rand.Rand, sentences int) string {
	words := strings.Fields("the refund policy allows returns within thirty days of purchase and exceptions include digital products gift cards or items on final sale " +
		"customers who write to billing with an order number receive an answer in two working days unless the holiday calendar says otherwise")
	var b strings.Builder
	for i := range sentences {
		for j := range 8 + rng.IntN(12) {
			w := words[rng.IntN(len(words))]
			if j == 0 {
				w = strings.ToUpper(w[:1]) + w[1:]
			}
			b.WriteString(w + " ")
		}
		b.WriteString("Article ")
		fmt.Fprintf(&b, "%d.", rng.IntN(1000))
		if i%7 == 6 {
			b.WriteString("\n\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// BenchmarkTokenChunks cuts by the tokens of a real model.
func BenchmarkTokenChunks(b *testing.B) {
	e := e5(b)
	for _, c := range []struct{ name, text string }{
		{"english", english(rand.New(rand.NewPCG(4, 4)), 5000)},
		{"chinese", strings.Repeat("退款政策允许在购买后三十天内退货。运费由买家承担！\n", 6000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			cutter, err := chunk.New(&chunk.Options{Tokenizer: embed.SpansOf(e), MaxChunks: -1})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(c.text)))
			cpu, n := cpuSeconds(), 0
			for b.Loop() {
				n++
				if _, err := chunk.Collect(cutter.Chunks(chunk.Document{Text: c.text})); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*len(c.text))/1e6/(cpuSeconds()-cpu), "MB/cpu-s")
		})
	}
}

// BenchmarkIngestEncoder tells how near an ingest comes to the rate of its
// encoder: the same chunks are embedded alone, then ingested, in turn. On a busy
// machine the ratio of processor times is the one to look at.
func BenchmarkIngestEncoder(b *testing.B) {
	e := e5(b)
	rng := rand.New(rand.NewPCG(6, 6))
	var src []Source
	for i := range 12 {
		src = append(src, text(fmt.Sprintf("%d.md", i), "# Article\n\n"+english(rng, 60)))
	}
	var texts []string
	record := &recordingEmbedder{Local: e, texts: &texts}
	ingest := func(e embed.Embedder) *Report {
		s, err := Open(b.TempDir(), &Options{Embedder: e})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		mustCreate(b, s, "kb", nil)
		return mustIngest(b, s, IngestRequest{Base: "kb", Sources: src})
	}
	ingest(record)
	var wall, cpu [2]float64
	chunks := 0
	for b.Loop() {
		start, used := time.Now(), cpuSeconds()
		if _, err := e.Embed(b.Context(), embed.Passage, texts); err != nil {
			b.Fatal(err)
		}
		wall[0], cpu[0] = wall[0]+time.Since(start).Seconds(), cpu[0]+cpuSeconds()-used
		start, used = time.Now(), cpuSeconds()
		chunks += ingest(e).Chunks
		wall[1], cpu[1] = wall[1]+time.Since(start).Seconds(), cpu[1]+cpuSeconds()-used
	}
	b.ReportMetric(float64(chunks)/wall[0], "encoder-chunks/s")
	b.ReportMetric(float64(chunks)/wall[1], "ingest-chunks/s")
	b.ReportMetric(100*wall[0]/wall[1], "%-of-encoder")
	b.ReportMetric(100*cpu[0]/cpu[1], "%-of-encoder-cpu")
}

// recordingEmbedder keeps the texts it is asked for.
type recordingEmbedder struct {
	*embed.Local
	mu    sync.Mutex
	texts *[]string
}

func (e *recordingEmbedder) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	e.mu.Lock()
	*e.texts = append(*e.texts, texts...)
	e.mu.Unlock()
	return e.Local.Embed(ctx, kind, texts)
}
