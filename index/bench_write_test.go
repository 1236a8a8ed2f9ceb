package index

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// benchDocs makes documents shaped like tldr pages: 700 bytes of text of a
// vocabulary with a Zipf distribution, and six metadata fields.
func benchDocs(n int) []Document {
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]string, 30_000)
	for i := range vocabulary {
		var w []byte
		for range 3 + r.IntN(8) {
			w = append(w, "etaoinshrdlucmfwypvbgkqjxz"[min(r.IntN(26), r.IntN(26))])
		}
		vocabulary[i] = string(w)
	}
	zipf := rand.NewZipf(r, 1.1, 4, uint64(len(vocabulary)-1))
	docs := make([]Document, n)
	for i := range docs {
		var text strings.Builder
		for text.Len() < 700 {
			text.WriteString(vocabulary[zipf.Uint64()])
			text.WriteString([]string{" ", " ", " ", ", ", ". ", "\n"}[r.IntN(6)])
		}
		title := vocabulary[r.IntN(len(vocabulary))]
		docs[i] = Document{
			ID:   fmt.Sprintf("pages/%s/%06d", title[:2], r.IntN(1_000_000)),
			Text: map[string]string{"title": title, "body": text.String()},
			Meta: map[string]any{
				"lang": vocabulary[r.IntN(40)], "platform": vocabulary[r.IntN(7)], "size": text.Len(),
				"tags": []string{vocabulary[r.IntN(300)], vocabulary[r.IntN(300)]}, "draft": r.IntN(9) == 0,
				"date": time.Unix(int64(1_600_000_000+r.IntN(1<<26)), 0),
			},
		}
	}
	return docs
}

// BenchmarkImport applies 20,000 documents in batches of 1,000, synced one by
// one, and flushes. MB/core-s is text over processor time, whatever the number
// of processors.
func BenchmarkImport(b *testing.B) {
	docs := benchDocs(20_000)
	text := 0
	for _, d := range docs {
		text += len(d.Text["title"]) + len(d.Text["body"])
	}
	var cpu float64
	for b.Loop() {
		b.StopTimer()
		runtime.GC()
		dir := b.TempDir()
		b.StartTimer()
		start := cpuSeconds()
		ix, err := Open(dir, &Options{Schema: &Schema{Text: []TextField{{Name: "title", Boost: 3}, {Name: "body"}}}})
		if err != nil {
			b.Fatal(err)
		}
		batch := NewBatch()
		for i := 0; i < len(docs); i += 1000 {
			batch.Reset()
			for _, d := range docs[i : i+1000] {
				batch.Put(d)
			}
			if err := ix.Apply(bg, batch); err != nil {
				b.Fatal(err)
			}
		}
		if err := ix.Flush(bg); err != nil {
			b.Fatal(err)
		}
		if err := ix.Close(); err != nil {
			b.Fatal(err)
		}
		cpu += cpuSeconds() - start
	}
	b.SetBytes(int64(text))
	b.ReportMetric(float64(text)*float64(b.N)/cpu/1e6, "MB/core-s")
}

// BenchmarkApplyOne applies one document a batch.
func BenchmarkApplyOne(b *testing.B) {
	docs := benchDocs(1000)
	ix, err := Open("/db", &Options{FS: storage.NewMemFS(), Schema: &Schema{Text: []TextField{{Name: "title"}, {Name: "body"}}}})
	if err != nil {
		b.Fatal(err)
	}
	defer ix.Close()
	b.ReportAllocs()
	batch := NewBatch()
	for i := 0; b.Loop(); i++ {
		batch.Reset()
		batch.Put(docs[i%len(docs)])
		if err := ix.Apply(bg, batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFlush writes 10,000 documents of the mutable segment to a file, and
// BenchmarkMerge four files of 2,500 each to one.
func BenchmarkFlush(b *testing.B) { benchWrite(b, 1, func(ix *Index) error { return ix.Flush(bg) }) }

func BenchmarkMerge(b *testing.B) { benchWrite(b, 4, func(ix *Index) error { return ix.Merge(bg, 1) }) }

func benchWrite(b *testing.B, files int, work func(*Index) error) {
	docs := benchDocs(10_000)
	var bytes int64
	for b.Loop() {
		b.StopTimer()
		// One file short of a full tier, so that none is merged before its time.
		ix, err := Open(b.TempDir(), &Options{MutableBytes: 1 << 30, MaxSegments: 100,
			Schema: &Schema{Text: []TextField{{Name: "title"}, {Name: "body"}}}})
		if err != nil {
			b.Fatal(err)
		}
		for i := range files {
			if i > 0 {
				if err := ix.Flush(bg); err != nil {
					b.Fatal(err)
				}
			}
			n := len(docs) / files
			put(b, ix, docs[i*n:(i+1)*n]...)
		}
		b.StartTimer()
		if err := work(ix); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		st, err := ix.Stats()
		if err != nil || len(st.Segments) != 1 {
			b.Fatalf("%+v %v", st, err)
		}
		bytes = st.Segments[0].Bytes
		if err := ix.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.SetBytes(bytes)
	b.ReportMetric(float64(bytes)/float64(len(docs)), "bytes/doc")
}

func BenchmarkGet(b *testing.B) {
	docs := benchDocs(5000)
	ix, err := Open(b.TempDir(), &Options{Schema: &Schema{Text: []TextField{{Name: "title"}, {Name: "body"}}}})
	if err != nil {
		b.Fatal(err)
	}
	defer ix.Close()
	put(b, ix, docs...)
	if err := ix.Flush(bg); err != nil {
		b.Fatal(err)
	}
	s, err := ix.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Get(docs[i*7919%len(docs)].ID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens an index of 100,000 documents with vectors.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	o := &Options{Schema: &Schema{Vectors: []VectorField{{Name: "v", Dim: 8}}, Meta: map[string]filter.Type{"n": filter.Int64}}, GraphMin: 1 << 30}
	ix, err := Open(dir, o)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	batch := NewBatch()
	for i := range 100_000 {
		v := make([]float32, 8)
		for j := range v {
			v[j] = r.Float32()
		}
		batch.Put(Document{ID: fmt.Sprint(i), Vectors: map[string][]float32{"v": v}, Meta: map[string]any{"n": i}})
	}
	if err := ix.Apply(bg, batch); err != nil {
		b.Fatal(err)
	}
	if err := ix.Merge(bg, 1); err != nil {
		b.Fatal(err)
	}
	if err := ix.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ix, err := Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := ix.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
