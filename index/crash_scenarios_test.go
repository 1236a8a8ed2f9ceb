package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A ledger knows what may be found after a crash: the state that was
// acknowledged last, or one that was tried since.
type ledger struct {
	mu     sync.Mutex
	states []model
	lax    bool // acknowledged does not mean durable: any state may be found
}

func (l *ledger) try(m model) {
	l.mu.Lock()
	l.states = append(l.states, m)
	l.mu.Unlock()
}

func (l *ledger) ack(m model) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lax {
		l.states = l.states[:0]
	}
	l.states = append(l.states, m)
}

// apply applies a batch and keeps the ledger.
func (l *ledger) apply(ix *Index, b *Batch, after model) error {
	l.try(after)
	err := ix.Apply(bg, b)
	if err == nil {
		l.ack(after)
	}
	return err
}

func (l *ledger) last() model {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.states[len(l.states)-1]
}

// found returns a check of the index in dir, for the states that may be found
// there now.
func (l *ledger) found(dir string) func(*storage.MemFS) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	states := append([]model(nil), l.states...)
	return func(fs *storage.MemFS) error {
		ix, err := Open(dir, &Options{FS: fs, NoBackground: true, Schema: testSchema(), GraphMin: 8, MutableBytes: 64 << 10})
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer ix.Close()
		s, err := ix.Snapshot()
		if err != nil {
			return err
		}
		defer s.Close()
		have := model{}
		for d, err := range s.Documents("") {
			if err != nil {
				return err
			}
			have[d.ID] = d
		}
		at := slices.IndexFunc(states, func(m model) bool { return reflect.DeepEqual(m, have) })
		if err := states[max(at, 0)].compare(s); err != nil {
			return fmt.Errorf("none of %d states that may be there: %w", len(states), err)
		}
		_, err = Check(bg, dir, fs, true)
		return err
	}
}

// A crashScenario makes an index on fs and returns what is done while the
// power may go, and what may be found if it goes now.
type crashScenario struct {
	name  string
	floor int // writing operations at least
	start func(fs *storage.MemFS, seed uint64) (act func() error, found func() func(*storage.MemFS) error, err error)
}

func crashOptions(fs storage.FS) *Options {
	return &Options{FS: fs, Schema: testSchema(), NoBackground: true, MutableBytes: 64 << 10, GraphMin: 8, MaxSegments: 4}
}

// filled makes an index with two file segments, tombstones and a log.
func filled(fs storage.FS, dir string, seed uint64, o *Options) (*Index, *ledger, *rand.Rand, error) {
	r := rand.New(rand.NewPCG(seed, 11))
	ix, err := Open(dir, o)
	if err != nil {
		return nil, nil, nil, err
	}
	l := &ledger{states: []model{{}}, lax: o.Sync != storage.SyncAlways}
	for step := range 5 {
		b, after := randomBatch(r, l.last())
		if err := l.apply(ix, b, after); err != nil {
			return nil, nil, nil, err
		}
		if step == 1 || step == 3 {
			if err := ix.Flush(bg); err != nil {
				return nil, nil, nil, err
			}
			l.states = l.states[len(l.states)-1:]
		}
	}
	return ix, l, r, nil
}

// simple is a scenario on one index whose states the ledger follows.
func simple(name string, floor int, change func(*Options), act func(ix *Index, l *ledger, r *rand.Rand) error) crashScenario {
	return crashScenario{name, floor, func(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
		o := crashOptions(fs)
		if change != nil {
			change(o)
		}
		ix, l, r, err := filled(fs, "/db", seed, o)
		return func() error { return errors.Join(act(ix, l, r), ignoreClosed(ix.Close())) },
			func() func(*storage.MemFS) error { return l.found("/db") }, err
	}}
}

func ignoreClosed(err error) error {
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

func someBatches(n int) func(ix *Index, l *ledger, r *rand.Rand) error {
	return func(ix *Index, l *ledger, r *rand.Rand) error {
		for range n {
			b, after := randomBatch(r, l.last())
			if err := l.apply(ix, b, after); err != nil {
				return err
			}
		}
		return nil
	}
}

func crashScenarios() []crashScenario {
	return []crashScenario{
		simple("commit", 6, nil, someBatches(3)),
		simple("commit, SyncNever", 3, func(o *Options) { o.Sync = storage.SyncNever }, someBatches(3)),
		simple("commit, SyncEvery", 3, func(o *Options) { o.Sync = storage.SyncEvery(1) }, someBatches(3)),
		simple("flush", 12, nil, func(ix *Index, l *ledger, r *rand.Rand) error { return ix.Flush(bg) }),
		simple("merge", 20, nil, func(ix *Index, l *ledger, r *rand.Rand) error { return ix.Merge(bg, 1) }),
		simple("delete by filter", 20, nil, func(ix *Index, l *ledger, r *rand.Rand) error {
			for n := range 3 {
				b, after := NewBatch(), maps.Clone(l.last())
				b.DeleteWhere(filter.Or(filter.Eq("n", 2*n), filter.Eq("lang", "de")))
				maps.DeleteFunc(after, func(_ string, d Document) bool { return d.Meta["n"] == int64(2*n) || d.Meta["lang"] == "de" })
				if err := l.apply(ix, b, after); err != nil {
					return err
				}
			}
			return ix.Flush(bg)
		}),
		simple("large batch", 15, nil, func(ix *Index, l *ledger, r *rand.Rand) error {
			b, after := randomBatch(r, l.last())
			d := Document{ID: "large", Text: map[string]string{"title": strings.Repeat("large ", 20_000)}}
			b.Put(d)
			after["large"] = asStored(d)
			return l.apply(ix, b, after)
		}),
		simple("schema change", 8, nil, func(ix *Index, l *ledger, r *rand.Rand) error {
			if err := ix.Close(); err != nil {
				return err
			}
			sc := testSchema()
			sc.Text = append(sc.Text, TextField{Name: "extra", Analyzer: "german"})
			sc.Vectors = append(sc.Vectors, VectorField{Name: "w", Dim: 2, Metric: quant.Dot})
			sc.Meta["more"] = filter.Bool
			o := crashOptions(ix.fs)
			o.Schema = sc
			ix, err := Open("/db", o)
			if err != nil {
				return err
			}
			d := Document{ID: "wide", Text: map[string]string{"extra": "hallo"}, Vectors: map[string][]float32{"w": {1, 2}}, Meta: map[string]any{"more": true}}
			b, after := NewBatch(), maps.Clone(l.last())
			b.Put(d)
			after["wide"] = d
			return errors.Join(l.apply(ix, b, after), ix.Close())
		}),
		{"group commit", 10, groupCommit},
		{"backup", 8, func(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
			ix, l, _, err := filled(fs, "/db", seed, crashOptions(fs))
			return func() error { return errors.Join(ix.Backup(bg, "/copy"), ix.Close()) },
				func() func(*storage.MemFS) error {
					return both(l.found("/db"), wholeOrNothing("/copy", l.found("/copy")))
				}, err
		}},
		{"backup brought up to date", 10, updatedBackup},
		{"backup that fails", 8, failedBackup},
		{"restore", 10, restored},
		{"restore over damage", 8, restoredOverDamage},
		{"repair", 10, repaired},
		{"upgrade", 20, upgraded},
	}
}

func both(checks ...func(*storage.MemFS) error) func(*storage.MemFS) error {
	return func(fs *storage.MemFS) error {
		for _, c := range checks {
			if err := c(fs); err != nil {
				return err
			}
		}
		return nil
	}
}

// wholeOrNothing passes a directory that holds no index yet.
func wholeOrNothing(dir string, check func(*storage.MemFS) error) func(*storage.MemFS) error {
	return func(fs *storage.MemFS) error {
		ix, err := Open(dir, &Options{FS: fs, ReadOnly: true})
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(ix.Close(), check(fs))
	}
}

// groupCommit is eight writers at once; each finds its last acknowledged
// batch, or the one it was about to apply.
func groupCommit(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
	const writers, batches = 8, 4
	ix, err := Open("/db", crashOptions(fs))
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var acked, tried [writers]int
	act := func() error {
		var wg sync.WaitGroup
		errs := make([]error, writers)
		for w := range writers {
			wg.Go(func() {
				for n := 1; n <= batches && errs[w] == nil; n++ {
					mu.Lock()
					tried[w] = n
					mu.Unlock()
					b := NewBatch()
					for i := range 3 {
						b.Put(Document{ID: fmt.Sprintf("%d-%d-%d", w, n, i), Meta: map[string]any{"n": n}})
					}
					if errs[w] = ix.Apply(bg, b); errs[w] == nil {
						mu.Lock()
						acked[w] = n
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(append(errs, ix.Close())...)
	}
	return act, func() func(*storage.MemFS) error {
		mu.Lock()
		low := acked
		mu.Unlock()
		return func(fs *storage.MemFS) error {
			c, err := Open("/db", crashOptions(fs))
			if err != nil {
				return err
			}
			defer c.Close()
			var have [writers]int
			for d, err := range c.Documents("") {
				if err != nil {
					return err
				}
				have[d.ID[0]-'0']++
			}
			mu.Lock()
			defer mu.Unlock()
			for w, n := range have {
				if n%3 != 0 || n/3 < low[w] || n/3 > tried[w] {
					return fmt.Errorf("writer %d: %d documents found, %d batches acknowledged, %d tried", w, n, low[w], tried[w])
				}
			}
			return nil
		}
	}, nil
}

func updatedBackup(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
	ix, l, r, err := filled(fs, "/db", seed, crashOptions(fs))
	if err == nil {
		err = ix.Backup(bg, "/copy")
	}
	if err != nil {
		return nil, nil, err
	}
	copied := &ledger{states: []model{l.last()}}
	after := l.last()
	for i := range 2 { // one more segment, and documents in the log
		b := NewBatch()
		after = maps.Clone(after)
		d := randomDocument(r, fmt.Sprint("new-", i))
		b.Put(d)
		after[d.ID] = asStored(d)
		if err = errors.Join(err, l.apply(ix, b, after)); i == 0 {
			err = errors.Join(err, ix.Flush(bg))
		}
	}
	copied.try(after)
	act := func() error {
		rep, err := ix.UpdateBackup(bg, "/copy")
		if err == nil && rep.Kept == 0 {
			err = errors.New("no segment was kept")
		}
		if err == nil {
			copied.ack(after)
		}
		return errors.Join(err, ix.Close())
	}
	return act, func() func(*storage.MemFS) error { return both(l.found("/db"), copied.found("/copy")) }, err
}

func restored(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
	a, la, _, err := filled(fs, "/db", seed, crashOptions(fs))
	if err == nil {
		err = a.Close()
	}
	b, lb, _, err2 := filled(fs, "/backup", seed+1, crashOptions(fs)) // with a log of its own
	if err2 == nil {
		err2 = b.Close()
	}
	l := &ledger{states: []model{la.last()}}
	l.try(lb.last())
	act := func() error {
		_, err := Restore(bg, "/backup", "/db", &Options{FS: fs})
		if err == nil {
			l.ack(lb.last())
		}
		return err
	}
	return act, func() func(*storage.MemFS) error { return both(l.found("/db"), lb.found("/backup")) }, errors.Join(err, err2)
}

// restoredOverDamage restores where the manifest is damaged: until the new
// state is there, nothing opens, and nothing wrong does.
func restoredOverDamage(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
	act, found, err := restored(fs, seed)
	if err != nil {
		return nil, nil, err
	}
	g, err := storage.ListManifests(fs, "/db")
	if err != nil {
		return nil, nil, err
	}
	err = fs.WriteFile("/db/"+storage.ManifestName(g[len(g)-1]), make([]byte, 100))
	return act, func() func(*storage.MemFS) error {
		check := found()
		return func(fs *storage.MemFS) error {
			ix, err := Open("/db", &Options{FS: fs, ReadOnly: true})
			if errors.Is(err, ErrCorrupt) {
				return nil
			}
			if err != nil {
				return err
			}
			return errors.Join(ix.Close(), check(fs))
		}
	}, err
}

func repaired(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
	ix, l, _, err := filled(fs, "/db", seed, crashOptions(fs))
	if err != nil {
		return nil, nil, err
	}
	if err := ix.Close(); err != nil {
		return nil, nil, err
	}
	names, err := fs.List("/db")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if storage.ParseFileName(name).Kind != storage.FileSegment {
			continue
		}
		b, err := fs.ReadFile("/db/" + name)
		if err != nil {
			return nil, nil, err
		}
		b[12] = 1 // the padding of the header: nothing is lost, but it does not open
		if err := fs.WriteFile("/db/"+name, b); err != nil {
			return nil, nil, err
		}
		break
	}
	// Texts that are not stored are lost; the documents compare without them.
	act := func() error {
		r, err := Repair(context.Background(), "/db", "/new", &Options{FS: fs})
		if err == nil && (r.Lost != 0 || r.Documents != len(l.last())) {
			err = fmt.Errorf("%d of %d documents repaired: %v", r.Documents, len(l.last()), r.Problems)
		}
		return err
	}
	return act, func() func(*storage.MemFS) error { return wholeOrNothing("/new", l.found("/new")) }, nil
}

// TestCrashScenarios cuts the power before every writing operation of every
// scenario, keeps nothing or a random part of what was not synced, opens what
// is left, and cuts the power again before every writing operation of that.
func TestCrashScenarios(t *testing.T) {
	seed := testSeed(t)
	for _, sc := range crashScenarios() {
		t.Run(sc.name, func(t *testing.T) { sc.run(t, seed) })
	}
}

func (sc crashScenario) run(t *testing.T, seed uint64) {
	kept, within := 1, 5 // random parts a crash leaves, besides nothing; a recovery of how many is cut too
	if long() {
		kept, within = 4, 3
	}
	fs := storage.NewMemFS()
	act, found, err := sc.start(fs, seed)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	points, opened, again, cuts := 0, 0, 0, 0
	crash := func(what string) error {
		mu.Lock()
		defer mu.Unlock()
		points++
		check := found()
		for i := range kept + 1 {
			var rng *rand.Rand
			if i > 0 {
				rng = rand.New(rand.NewPCG(seed, uint64(1000*points+i)))
			}
			left := fs.CrashClone(rng)
			if cuts++; cuts%within == 0 {
				n, err := crashRecovery(left.Clone(), check, seed)
				if again += n; err != nil {
					return fmt.Errorf("cut %d, before %s, then within recovery: %w", points, what, err)
				}
			}
			opened++
			if err := check(left); err != nil {
				return fmt.Errorf("cut %d, before %s: %w", points, what, err)
			}
			if n := left.Handles(); n != 0 {
				return fmt.Errorf("cut %d, before %s: %d handles left open", points, what, n)
			}
		}
		return nil
	}
	var failed error
	fs.SetHook(func(op storage.Op, name string, n int) error {
		if op.IsWrite() && failed == nil {
			if err := crash(fmt.Sprint(op, " ", name)); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		}
		return nil
	})
	err = act()
	fs.SetHook(nil)
	if err = errors.Join(err, failed, crash("the end")); err != nil {
		t.Fatal(err)
	}
	if n := fs.Handles(); n != 0 {
		t.Errorf("%d handles left open", n)
	}
	t.Logf("%d crash points, %d recoveries, %d crashes within a recovery", points, opened, again)
	if points < sc.floor {
		t.Errorf("%d crash points, want at least %d", points, sc.floor)
	}
}

// crashRecovery opens what a crash left, and cuts the power before each of
// the writing operations of that.
func crashRecovery(fs *storage.MemFS, check func(*storage.MemFS) error, seed uint64) (int, error) {
	n := 0
	var failed error
	fs.SetHook(func(op storage.Op, name string, _ int) error {
		if !op.IsWrite() || failed != nil {
			return nil
		}
		n++
		var rng *rand.Rand
		if n%3 != 0 {
			rng = rand.New(rand.NewPCG(seed, uint64(n)))
		}
		if err := check(fs.CrashClone(rng)); err != nil {
			failed = fmt.Errorf("cut %d, before %v %s: %w", n, op, name, err)
		}
		return nil
	})
	err := check(fs)
	fs.SetHook(nil)
	return n, errors.Join(err, failed)
}
