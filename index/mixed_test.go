package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A mixedRun has writers, each with documents and a model of its own, and
// everything else an index does, at once.
type mixedRun struct {
	t     *testing.T
	fs    *storage.MemFS
	ix    *Index
	ctx   context.Context
	did   sync.Map // what → *atomic.Int64
	wrote sync.WaitGroup
	rest  sync.WaitGroup
}

func (m *mixedRun) count(what string) {
	n, _ := m.did.LoadOrStore(what, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// loop does something until the writers have ended.
func (m *mixedRun) loop(what string, f func(r *rand.Rand) error) {
	m.rest.Go(func() {
		r := rand.New(rand.NewPCG(1, uint64(len(what))))
		for m.ctx.Err() == nil {
			if err := f(r); err != nil && !errors.Is(err, context.Canceled) {
				m.t.Errorf("%s: %v", what, err)
				return
			}
			m.count(what)
		}
	})
}

// writer puts, replaces and deletes documents of its own, and knows them.
func (m *mixedRun) writer(w, rounds int, out *map[string]int64) {
	m.wrote.Go(func() {
		r := rand.New(rand.NewPCG(77, uint64(w)))
		mine := map[string]int64{}
		for round := range rounds {
			b := NewBatch()
			after := map[string]int64{}
			for id, n := range mine {
				after[id] = n
			}
			for range 1 + r.IntN(8) {
				id := fmt.Sprintf("%02d/%02d", w, r.IntN(40))
				if r.IntN(4) == 0 {
					b.Delete(id)
					delete(after, id)
					continue
				}
				d := randomDocument(r, id)
				d.Meta = map[string]any{"n": round, "w": w}
				b.Put(d)
				after[id] = int64(round)
			}
			if round%7 == 0 {
				b.DeleteWhere(filter.And(filter.Eq("w", w), filter.Lt("n", round-20)))
				for id, n := range after {
					if n < int64(round-20) {
						delete(after, id)
					}
				}
			}
			if err := m.ix.Apply(bg, b); err != nil {
				m.t.Errorf("writer %d: %v", w, err)
				return
			}
			mine = after
			m.count("apply")
		}
		*out = mine
	})
}

// TestMixedRun is for the race detector: inserts, upserts, deletes, searches,
// snapshots, flushes, merges, backups, checks and readers opened beside the
// writer, until a Close in the midst of queries. Then every writer finds its
// own documents as it left them, and nothing is left open.
func TestMixedRun(t *testing.T) {
	rounds := 40
	if long() {
		rounds = 2000
	}
	fs := storage.NewMemFS()
	o := func(o *Options) {
		o.NoBackground, o.MutableBytes, o.MaxSegments, o.GraphMin = false, 64<<10, 4, 50
	}
	ctx, cancel := context.WithCancel(bg)
	m := &mixedRun{t: t, fs: fs, ix: mustOpen(t, fs, o), ctx: ctx}
	const writers = 6
	var left [writers]map[string]int64
	for w := range writers {
		m.writer(w, rounds, &left[w])
	}
	m.loop("search", func(r *rand.Rand) error {
		_, err := m.ix.Search(ctx, Query{Text: &TextQuery{Text: modelWords[r.IntN(len(modelWords))]},
			Vector: &VectorQuery{Field: "v", Vector: []float32{1, 2, 3, float32(r.IntN(90))}}, Filter: filter.Gte("n", r.IntN(5)), K: 10})
		return err
	})
	m.loop("snapshot", func(*rand.Rand) error {
		s, err := m.ix.Snapshot()
		if err != nil {
			return err
		}
		defer s.Close()
		n := 0
		for _, err := range s.Documents("") {
			if err != nil {
				return err
			}
			n++
		}
		if n != s.Len() {
			return fmt.Errorf("%d documents of %d", n, s.Len())
		}
		return nil
	})
	m.loop("flush", func(*rand.Rand) error { return m.ix.Flush(ctx) })
	m.loop("merge", func(*rand.Rand) error { return m.ix.Merge(ctx, 2) })
	m.loop("backup", func(*rand.Rand) error { _, err := m.ix.UpdateBackup(ctx, "/copy"); return err })
	m.loop("check", func(*rand.Rand) error { _, err := Check(ctx, "/db", fs, true); return err })
	m.loop("stats", func(*rand.Rand) error { _, err := m.ix.Stats(); return err })
	m.loop("reader", func(*rand.Rand) error {
		ro, err := Open("/db", &Options{FS: fs, ReadOnly: true})
		if err != nil {
			return err
		}
		_, err = ro.Search(ctx, Query{Text: &TextQuery{Text: "dogs"}, K: 3})
		return errors.Join(err, ro.Close())
	})
	m.wrote.Wait()
	cancel()
	m.rest.Wait()
	// Close while queries run.
	var queries sync.WaitGroup
	for range 4 {
		queries.Go(func() {
			for {
				if _, err := m.ix.Search(bg, Query{Text: &TextQuery{Text: "dogs"}, K: 3}); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	if err := m.ix.Close(); err != nil {
		t.Fatal(err)
	}
	queries.Wait()
	if n := fs.Handles(); n != 0 {
		t.Errorf("%d handles left open", n)
	}
	ix := mustOpen(t, fs, nil)
	for w, want := range left {
		have := map[string]int64{}
		for d, err := range ix.Documents(fmt.Sprintf("%02d/", w)) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Meta["w"] != int64(w) {
				break
			}
			have[d.ID] = d.Meta["n"].(int64)
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("writer %d: found %v, left %v", w, have, want)
		}
	}
	m.did.Range(func(what, n any) bool {
		t.Logf("%v: %d", what, n.(*atomic.Int64).Load())
		return true
	})
}

// Work ends soon after its context does. The benchmark tells how soon: the
// longest wait of each kind of work, canceled at random moments.
func BenchmarkCancel(b *testing.B) {
	const docs, dim = 20_000, 64
	r := rand.New(rand.NewPCG(5, 5))
	fs := storage.NewMemFS()
	ix, err := Open("/db", &Options{FS: fs, NoBackground: true, GraphMin: 100, Schema: &Schema{
		Text:    []TextField{{Name: "body"}},
		Vectors: []VectorField{{Name: "v", Dim: dim, Metric: quant.Cosine}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer ix.Close()
	var batches []*Batch
	for part := range 2 {
		batch := NewBatch()
		for i := range docs / 2 {
			v := make([]float32, dim)
			for j := range v {
				v[j] = r.Float32() - 0.5
			}
			d := randomDocument(r, fmt.Sprintf("%d-%06d", part, i))
			batch.Put(Document{ID: d.ID, Text: map[string]string{"body": d.Text["body"]}, Vectors: map[string][]float32{"v": v}})
		}
		batches = append(batches, batch)
		if err := errors.Join(ix.Apply(bg, batch), ix.Flush(bg)); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for name, work := range map[string]func(ctx context.Context) error{
		"Apply":  func(ctx context.Context) error { return ix.Apply(ctx, batches[0]) },
		"Merge":  func(ctx context.Context) error { return ix.Merge(ctx, 1) },
		"Check":  func(ctx context.Context) error { _, err := Check(ctx, "/db", fs, true); return err },
		"Backup": func(ctx context.Context) error { n++; return ix.Backup(ctx, fmt.Sprint("/copy", n)) },
		"Repair": func(ctx context.Context) error {
			n++
			_, err := Repair(ctx, "/db", fmt.Sprint("/copy", n), &Options{FS: fs})
			return err
		},
		"exact search": func(ctx context.Context) error {
			_, err := ix.Search(ctx, Query{Vector: &VectorQuery{Vector: unitVector(dim), Exact: true}, K: 1000})
			return err
		},
		"text search": func(ctx context.Context) error {
			_, err := ix.Search(ctx, Query{Text: &TextQuery{Text: "alpha beta gamma the of dogs running 42 x"}, K: 1000})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var worst time.Duration
			hits := 0
			for b.Loop() {
				ctx, cancel := context.WithCancel(bg)
				var at time.Time
				timer := time.AfterFunc(time.Duration(r.IntN(int(30*time.Millisecond))), func() { at = time.Now(); cancel() })
				err := work(ctx)
				if end := time.Now(); !timer.Stop() && err != nil {
					<-ctx.Done()
					hits++
					worst = max(worst, end.Sub(at))
				}
				cancel()
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "ms-worst")
			b.ReportMetric(float64(hits), "canceled")
		})
	}
}

func unitVector(n int) []float32 {
	v := make([]float32, n)
	v[0] = 1
	return v
}
