package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// durableDocument is a small document of a few words and numbers.
func durableDocument(r *rand.Rand, i int) Document {
	var words [12]string
	for j := range words {
		words[j] = fmt.Sprint("w", r.IntN(50_000)*r.IntN(100)/100)
	}
	return Document{ID: fmt.Sprintf("%08d", i), Text: map[string]string{"body": strings.Join(words[:], " ")}, Meta: map[string]any{"n": i % 100}}
}

// BenchmarkReopenAfterKill opens what a killed writer of 100,000 documents
// leaves, of a million with QUARRY_LONG: segments, and a log of half its limit
// to replay.
func BenchmarkReopenAfterKill(b *testing.B) {
	docs := 100_000
	if long() {
		docs = 1_000_000
	}
	dir := b.TempDir()
	ix, err := Open(filepath.Join(dir, "live"), &Options{Schema: &Schema{Text: []TextField{{Name: "body"}}}, Sync: storage.SyncNever})
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := 0; i < docs; {
		batch := NewBatch()
		for range 1000 {
			batch.Put(durableDocument(r, i))
			i++
		}
		if err := ix.Apply(bg, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := ix.Flush(bg); err != nil {
		b.Fatal(err)
	}
	for replay := range 2 {
		if replay == 1 { // a log of about 32 MiB
			for i := 0; ix.wal.Size() < 32<<20; i += 1000 {
				batch := NewBatch()
				for j := range 1000 {
					batch.Put(durableDocument(r, docs+i+j))
				}
				if err := ix.Apply(bg, batch); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run([]string{"no log", "32 MiB log"}[replay], func(b *testing.B) {
			n := 0
			for b.Loop() {
				b.StopTimer()
				left := filepath.Join(dir, fmt.Sprint("left", replay, "-", n))
				n++
				if err := os.CopyFS(left, os.DirFS(filepath.Join(dir, "live"))); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				again, err := Open(left, &Options{NoBackground: true})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := again.Close(); err != nil {
					b.Fatal(err)
				}
				_ = os.RemoveAll(left)
				b.StartTimer()
			}
		})
	}
	if err := ix.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSearchUnderWrites tells the 99th percentile of a search alone, and
// while a writer fills the index so fast that it flushes and merges all the
// time.
func BenchmarkSearchUnderWrites(b *testing.B) {
	ix, err := Open(b.TempDir(), &Options{Schema: &Schema{Text: []TextField{{Name: "body"}}}, MutableBytes: 4 << 20, Sync: storage.SyncEvery(10 * time.Millisecond)})
	if err != nil {
		b.Fatal(err)
	}
	defer ix.Close()
	r := rand.New(rand.NewPCG(1, 1))
	next := 0
	write := func(n int) {
		batch := NewBatch()
		for range n {
			batch.Put(durableDocument(r, next%200_000))
			next++
		}
		if err := ix.Apply(bg, batch); err != nil {
			b.Error(err)
		}
	}
	for range 100 {
		write(1000)
	}
	p99 := func() time.Duration {
		rng := rand.New(rand.NewPCG(2, 2))
		var took []time.Duration
		for range 3000 {
			start := time.Now()
			if _, err := ix.Search(bg, Query{Text: &TextQuery{Text: fmt.Sprint("w", rng.IntN(500), " w", rng.IntN(5000))}, K: 10}); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	for b.Loop() {
		if err := ix.Merge(bg, 1); err != nil {
			b.Fatal(err)
		}
		idle := p99()
		ctx, stop := context.WithCancel(bg)
		var wg sync.WaitGroup
		before := next
		start := time.Now()
		wg.Go(func() {
			for ctx.Err() == nil {
				write(100)
			}
		})
		busy := p99()
		stop()
		wg.Wait()
		b.ReportMetric(float64(idle.Microseconds()), "µs-p99-idle")
		b.ReportMetric(float64(busy.Microseconds()), "µs-p99-busy")
		b.ReportMetric(float64(busy)/float64(idle), "ratio")
		b.ReportMetric(float64(next-before)/time.Since(start).Seconds(), "docs/s")
	}
}

// BenchmarkSixteenWriters is the price of durability: batches of one document
// from 16 writers, all synced before they return, or within 10 ms. The two take
// turns, a thousand documents each, so that other work on the machine slows
// both; the ratio is that of their times.
func BenchmarkSixteenWriters(b *testing.B) {
	policies := []storage.SyncPolicy{storage.SyncAlways, storage.SyncEvery(10 * time.Millisecond)}
	var took [2]time.Duration
	var docs [2]int
	var ixs [2]*Index
	for i, policy := range policies {
		ix, err := Open(b.TempDir(), &Options{Schema: &Schema{Text: []TextField{{Name: "body"}}}, Sync: policy})
		if err != nil {
			b.Fatal(err)
		}
		defer ix.Close()
		ixs[i] = ix
	}
	for b.Loop() {
		for i, ix := range ixs {
			start := time.Now()
			sixteenWriters(b, ix, docs[i], 1000)
			took[i] += time.Since(start)
			docs[i] += 1000
		}
	}
	always, every := float64(docs[0])/took[0].Seconds(), float64(docs[1])/took[1].Seconds()
	b.ReportMetric(always, "docs/s-always")
	b.ReportMetric(every, "docs/s-every")
	b.ReportMetric(always/every, "ratio")
}

func sixteenWriters(b *testing.B, ix *Index, from, n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(from+w)))
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				batch := NewBatch()
				batch.Put(durableDocument(r, from+i))
				if err := ix.Apply(bg, batch); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
