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

// A cancelRun is an index with all the long work that a context may end.
type cancelRun struct {
	fs    *storage.MemFS
	ix    *Index
	r     *rand.Rand
	works map[string]func(ctx context.Context) error
}

func newCancelRun(tb testing.TB, docs int) *cancelRun {
	const dim = 64
	c := &cancelRun{fs: storage.NewMemFS(), r: rand.New(rand.NewPCG(5, 5))}
	ix, err := Open("/db", &Options{FS: c.fs, NoBackground: true, GraphMin: 100, Schema: &Schema{
		Text:    []TextField{{Name: "body"}},
		Vectors: []VectorField{{Name: "v", Dim: dim, Metric: quant.Cosine}},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ix.Close() })
	var batches []*Batch
	for part := range 2 {
		batch := NewBatch()
		for i := range docs / 2 {
			v := make([]float32, dim)
			for j := range v {
				v[j] = c.r.Float32() - 0.5
			}
			d := randomDocument(c.r, fmt.Sprintf("%d-%06d", part, i))
			batch.Put(Document{ID: d.ID, Text: map[string]string{"body": d.Text["body"]}, Meta: map[string]any{"n": i, "word": fmt.Sprint(i % 1000)},
				Vectors: map[string][]float32{"v": v}})
		}
		batches = append(batches, batch)
		if err := errors.Join(ix.Apply(bg, batch), ix.Flush(bg)); err != nil {
			tb.Fatal(err)
		}
	}
	c.ix = ix
	text := &TextQuery{Text: "alpha beta gamma the of dogs running 42 x"}
	search := func(q Query) func(context.Context) error {
		return func(ctx context.Context) error { _, err := ix.Search(ctx, q); return err }
	}
	n := 0
	fresh := func() string { n++; return fmt.Sprint("/copy", n) }
	c.works = map[string]func(ctx context.Context) error{
		"Apply": func(ctx context.Context) error { return ix.Apply(ctx, batches[0]) },
		"DeleteWhere": func(ctx context.Context) error {
			b := NewBatch()
			b.DeleteWhere(filter.Eq("word", "none"))
			return ix.Apply(ctx, b)
		},
		"Merge":        func(ctx context.Context) error { return ix.Merge(ctx, 1) },
		"Check":        func(ctx context.Context) error { _, err := Check(ctx, "/db", c.fs, true); return err },
		"Backup":       func(ctx context.Context) error { return ix.Backup(ctx, fresh()) },
		"UpdateBackup": func(ctx context.Context) error { _, err := ix.UpdateBackup(ctx, "/kept"); return err },
		"Restore": func(ctx context.Context) error {
			_, err := Restore(ctx, "/db", fresh(), &Options{FS: c.fs})
			return err
		},
		"Repair":       func(ctx context.Context) error { _, err := Repair(ctx, "/db", fresh(), &Options{FS: c.fs}); return err },
		"exact search": search(Query{Vector: &VectorQuery{Vector: unitVector(dim), Exact: true}, K: 1000}),
		"text search":  search(Query{Text: text, K: 1000}),
		"all of it": search(Query{Text: text, Vector: &VectorQuery{Vector: unitVector(dim)}, K: 1000, Depth: 5000, Filter: filter.Gte("n", 3), Count: true,
			Facets: []FacetRequest{{Field: "n"}, {Field: "word"}}, Fields: []string{"*"}, Highlight: []string{"body"}}),
		"groups": search(Query{Text: text, Group: &GroupRequest{Field: "word"}, K: 500}),
	}
	return c
}

// worst returns the longest time that a work went on after its context had
// ended, of so many tries, and how many of them it did end.
func (c *cancelRun) worst(work func(context.Context) error, tries int, within time.Duration) (worst time.Duration, ended int) {
	for range tries {
		ctx, cancel := context.WithCancel(bg)
		var at time.Time
		timer := time.AfterFunc(time.Duration(c.r.Int64N(int64(within))), func() { at = time.Now(); cancel() })
		err := work(ctx)
		if end := time.Now(); !timer.Stop() && err != nil {
			<-ctx.Done()
			ended++
			worst = max(worst, end.Sub(at))
		}
		cancel()
	}
	return worst, ended
}

// No work hangs when its context ends. The bound is for a loaded machine under
// the race detector; BenchmarkCancel tells how soon it is.
func TestCancelDoesNotHang(t *testing.T) {
	c := newCancelRun(t, 1000)
	for name, work := range c.works {
		worst, ended := c.worst(work, 3, 3*time.Millisecond)
		if worst > 5*time.Second {
			t.Errorf("%s went on for %v", name, worst)
		}
		t.Logf("%s: ended %d of 3, the last after %v", name, ended, worst)
	}
}

// Work ends soon after its context does. The benchmark tells how soon: the
// longest wait of each kind of work, canceled at random moments.
func BenchmarkCancel(b *testing.B) {
	c := newCancelRun(b, 20_000)
	for name, work := range c.works {
		b.Run(name, func(b *testing.B) {
			worst, ended := c.worst(work, b.N, 30*time.Millisecond)
			b.ReportMetric(float64(worst.Microseconds())/1000, "ms-worst")
			b.ReportMetric(float64(ended), "canceled")
		})
	}
}

func unitVector(n int) []float32 {
	v := make([]float32, n)
	v[0] = 1
	return v
}
