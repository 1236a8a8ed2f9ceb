package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// Sixteen writers, readers, snapshots, flushes and merges at once: run it with
// the race detector.
func TestConcurrent(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) {
		o.NoBackground, o.MutableBytes, o.MaxSegments, o.GraphMin = false, 64<<10, 4, 50
	})
	const writers, rounds = 16, 12
	ctx, cancel := context.WithCancel(bg)
	var readers, wg sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				s, err := ix.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				n, last := 0, ""
				perWriter := map[string]int{}
				for d, err := range s.Documents("") {
					if err != nil || d.ID <= last {
						t.Errorf("%q after %q: %v", d.ID, last, err)
					}
					last = d.ID
					perWriter[d.ID[:2]]++
					n++
				}
				for w, n := range perWriter {
					if n%10 != 0 {
						t.Errorf("%d documents of writer %s: part of a batch", n, w)
					}
				}
				if n != s.Len() {
					t.Errorf("listed %d of %d", n, s.Len())
				}
				res, err := s.Search(bg, Query{
					Text:   &TextQuery{Text: "running dogs"},
					Vector: &VectorQuery{Field: "v", Vector: []float32{50, 50, 50, 50}},
					K:      10,
				})
				if err != nil {
					t.Error(err)
					return
				}
				seen := map[string]bool{}
				for _, h := range res.Hits {
					if ok, err := s.Exists(h.ID); !ok || err != nil || seen[h.ID] {
						t.Errorf("hit %q twice or not in the snapshot (%v)", h.ID, err)
					}
					seen[h.ID] = true
				}
				s.Close()
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(9, uint64(w)))
			for round := range rounds {
				b := NewBatch()
				for i := range 10 {
					d := randomDocument(r, fmt.Sprintf("%02d-%03d", w, (round%4)*10+i))
					b.Put(d)
				}
				if err := ix.Apply(bg, b); err != nil {
					t.Error(err)
				}
				if round == 7 && w%5 == 0 {
					if err := ix.Merge(bg, 2); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	cancel()
	readers.Wait()
	if n, _ := ix.Count(bg, filter.Filter{}); n != writers*40 {
		t.Errorf("%d documents", n)
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	if n := fs.Handles(); n != 0 {
		t.Errorf("%d handles left open", n)
	}
	if rep, err := Check(bg, "/db", fs, true); err != nil || rep.Documents != writers*40 {
		t.Errorf("%+v %v", rep, err)
	}
}

// Fields that two batches bring at once get one type; the loser is refused or
// converted, never half applied.
func TestConcurrentGrowth(t *testing.T) {
	for range 20 {
		ix := mustOpen(t, storage.NewMemFS(), nil)
		var wg sync.WaitGroup
		var failed [8]error
		for w := range 8 {
			wg.Go(func() {
				b := NewBatch()
				b.Put(Document{ID: fmt.Sprint(w), Meta: map[string]any{"x": []any{1, 2.5, "s", 4.0}[w%4]}})
				failed[w] = ix.Apply(bg, b)
			})
		}
		wg.Wait()
		typ := ix.Schema().Meta["x"]
		for w, err := range failed {
			_, gerr := ix.Get(fmt.Sprint(w))
			if (err == nil) != (gerr == nil) || err != nil && !errors.Is(err, ErrSchema) {
				t.Errorf("type %v, writer %d: %v, get: %v", typ, w, err, gerr)
			}
		}
		ix.Close()
	}
}

// A reader may open at any moment of a writer's work.
func TestReadOnlyBesideWriter(t *testing.T) {
	dir := t.TempDir()
	ix, err := Open(dir, &Options{Schema: testSchema(), MutableBytes: 64 << 10, MaxSegments: 3, GraphMin: 50})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := rand.New(rand.NewPCG(8, 8))
		for round := range 60 {
			b := NewBatch()
			for i := range 20 {
				b.Put(randomDocument(r, fmt.Sprintf("%03d", (round%5)*20+i)))
			}
			if err := ix.Apply(bg, b); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	}()
	last := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		ro, err := Open(dir, &Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		n := len(listIDs(t, ro))
		if n%20 != 0 || n < last {
			t.Errorf("%d documents, %d before", n, last)
		}
		last = n
		if err := ro.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if last != 100 {
		t.Errorf("%d documents at the end", last)
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
}

// A full disk takes batches out of the log while sixteen writers go on and the
// background flushes and merges. Whatever crash comes, each writer finds the
// state after its last acknowledged batch, or the one it was about to apply.
func TestDiskFullConcurrent(t *testing.T) {
	seed := testSeed(t)
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) {
		o.NoBackground, o.MutableBytes, o.MaxSegments, o.BackgroundRetry = false, 64<<10, 4, time.Millisecond
	})
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 5))
	fs.SetHook(func(op storage.Op, name string, n int) error {
		mu.Lock()
		defer mu.Unlock()
		if op == storage.OpWrite && r.IntN(12) == 0 {
			return &storage.PartialWrite{Bytes: r.IntN(64), Err: syscall.ENOSPC}
		}
		return nil
	})
	const writers, rounds = 16, 25
	var acked, tried [writers]atomic.Int64
	check := func(fs *storage.MemFS, low [writers]int64) {
		c, err := Open("/db", &Options{FS: fs, NoBackground: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for w := range writers {
			var have []int64
			for d, err := range c.Documents(fmt.Sprintf("%02d", w)) {
				if err != nil {
					t.Error(err)
					return
				}
				if d.ID[:2] != fmt.Sprintf("%02d", w) {
					break
				}
				have = append(have, d.Meta["n"].(int64))
			}
			var last int64
			if len(have) > 0 {
				last = have[len(have)-1]
			}
			if last < low[w] || last > tried[w].Load() || int64(len(have)) != min(3, last) || len(have) > 0 && have[0] != max(1, last-2) {
				t.Errorf("writer %d: found %v, acknowledged %d, tried %d", w, have, low[w], tried[w].Load())
			}
		}
	}
	crash := func(rng *rand.Rand) {
		var low [writers]int64
		for w := range low {
			low[w] = acked[w].Load() // before the clone: later ones may be in it too
		}
		check(fs.CrashClone(rng), low)
	}
	var wg sync.WaitGroup
	full := 0
	for w := range writers {
		wg.Go(func() {
			for n := int64(1); n <= rounds; n++ {
				tried[w].Store(n)
				b := NewBatch()
				b.Put(Document{ID: fmt.Sprintf("%02d/%06d", w, n), Meta: map[string]any{"w": w, "n": n},
					Text: map[string]string{"body": strings.Repeat("some text ", 50)}})
				b.DeleteWhere(filter.And(filter.Eq("w", w), filter.Eq("n", n-3)))
				for {
					err := ix.Apply(bg, b)
					if err == nil {
						break
					}
					if !storage.IsDiskFull(err) || errors.Is(err, ErrReadOnly) {
						t.Error(err)
						return
					}
					mu.Lock()
					full++
					mu.Unlock()
					time.Sleep(200 * time.Microsecond)
				}
				acked[w].Store(n)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for i := uint64(0); ; i++ {
		select {
		case <-done:
			crash(nil)
			t.Logf("%d batches refused by a full disk, %d crashes", full, i)
			return
		default:
			crash(rand.New(rand.NewPCG(seed, 100+i)))
		}
	}
}

// Opening again and again without writing must not pile up logs for ever.
func TestManyOpens(t *testing.T) {
	fs := storage.NewMemFS()
	for i := range 3 * maxLogs {
		ix := mustOpen(t, fs, nil)
		if i == 0 {
			put(t, ix, Document{ID: "a"})
		}
		if err := ix.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := fs.List("/db")
	if err != nil || len(names) > maxLogs+5 {
		t.Errorf("%d files: %v", len(names), err)
	}
	if got := listIDs(t, mustOpen(t, fs, nil)); len(got) != 1 {
		t.Error(got)
	}
}
