package index

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// A crashRun drives an index with batches, flushes, merges, deletes, backups
// and reopenings until the file system fails, and knows what may be found
// afterwards.
type crashRun struct {
	fs       *storage.MemFS
	seed     uint64
	acked    model // after the last batch that Apply acknowledged
	inFlight model // after the batch that is being applied, or failed: there or not
	backups  map[string]model
	fault    error // what is injected
	told     error // the error with which the library told of it
}

func (c *crashRun) options() *Options {
	return &Options{FS: c.fs, Schema: testSchema(), NoBackground: true, MutableBytes: 64 << 10, GraphMin: 8, MaxSegments: 2}
}

// again calls f, and again when a full disk has stopped it: there is space
// now. A fault that it returns has been told.
func (c *crashRun) again(f func() error) error {
	err := f()
	c.note(err)
	if storage.IsDiskFull(err) && !errors.Is(err, ErrReadOnly) {
		err = f()
		c.note(err)
	}
	return err
}

func (c *crashRun) note(err error) {
	if c.fault != nil && err != nil && errors.Is(err, c.fault) {
		c.told = err
	}
}

// background notes what flushes and merges on the side have reported.
func (c *crashRun) background(ix *Index) {
	st, err := ix.Stats()
	if c.note(err); err == nil && st.LastError != nil {
		c.note(st.LastError.Err)
	}
}

// run returns the first error.
func (c *crashRun) run() error {
	r := rand.New(rand.NewPCG(c.seed, 1))
	c.acked, c.backups = model{}, map[string]model{}
	ix, err := Open("/db", c.options())
	if c.note(err); err != nil {
		return err
	}
	defer func() {
		if ix != nil {
			c.note(ix.Close())
		}
	}()
	for step := range 14 {
		b, after := randomBatch(r, c.acked)
		if step == 9 { // larger than the mutable segment
			d := Document{ID: "large", Text: map[string]string{"title": strings.Repeat("large ", 20_000)}}
			b.Put(d)
			after["large"] = asStored(d)
		}
		c.inFlight = after
		if err := c.again(func() error { return ix.Apply(bg, b) }); err != nil {
			return err
		}
		c.background(ix)
		c.acked, c.inFlight = after, nil
		switch step {
		case 3, 5, 6, 10:
			err = c.again(func() error { return ix.Flush(bg) })
		case 7, 12:
			err = c.again(func() error { return ix.Merge(bg, 1) })
		case 8:
			c.backups["/backup"] = maps.Clone(c.acked)
			err = c.again(func() error { return ix.Backup(bg, "/backup") })
		case 11:
			if err = ix.Close(); err == nil {
				ix, err = Open("/db", c.options())
			}
			c.note(err)
		}
		if err != nil {
			return err
		}
	}
	err = ix.Close()
	c.note(err)
	return err
}

// recovered opens what is left and compares: every acknowledged batch is
// there, one that was not is there whole or not at all.
func (c *crashRun) recovered(fs *storage.MemFS) error {
	c2 := crashRun{fs: fs}
	ix, err := Open("/db", c2.options())
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer ix.Close()
	s, err := ix.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	err = c.acked.compare(s)
	if err != nil && c.inFlight != nil && c.inFlight.compare(s) == nil {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("neither the state acknowledged nor one in flight: %w", err)
	}
	if _, err := Check(bg, "/db", fs, true); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	// It takes writes, and keeps them.
	b := NewBatch()
	b.Put(Document{ID: "after", Meta: map[string]any{"n": 99}})
	if err := ix.Apply(bg, b); err != nil {
		return err
	}
	if err := ix.Merge(bg, 1); err != nil {
		return err
	}
	if _, err := ix.Get("after"); err != nil {
		return err
	}
	// A backup that was finished is whole; one that was not is no index or
	// whole.
	for dir, m := range c.backups {
		if err := backupOK(fs, dir, m); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return nil
}

func backupOK(fs *storage.MemFS, dir string, m model) error {
	ix, err := Open(dir, &Options{FS: fs, ReadOnly: true})
	if errors.Is(err, ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	defer ix.Close()
	s, err := ix.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	return m.compare(s)
}

// TestCrashEverywhere cuts the power before every writing operation of a run.
func TestCrashEverywhere(t *testing.T) {
	seed := testSeed(t)
	c := &crashRun{fs: storage.NewMemFS(), seed: seed}
	var failed error
	c.fs.SetHook(func(op storage.Op, name string, n int) error {
		if !op.IsWrite() || failed != nil || testing.Short() && n%7 != 0 {
			return nil
		}
		var rng *rand.Rand // every third time all that was not synced is lost
		if n%3 != 0 {
			rng = rand.New(rand.NewPCG(seed, uint64(n)))
		}
		if err := c.recovered(c.fs.CrashClone(rng)); err != nil {
			failed = fmt.Errorf("cut before write %d, %v %s: %w", n, op, name, err)
		}
		return nil
	})
	if err := errors.Join(c.run(), failed); err != nil {
		t.Fatal(err)
	}
	if n := c.fs.Handles(); n != 0 {
		t.Errorf("%d files, mappings or locks left open", n)
	}
	t.Logf("%d writing operations", c.fs.Writes())
}

// A fault is a way in which a file system fails.
type fault struct {
	name string
	err  error // what the caller must find in the error it gets
	// hit returns what the operation fails with, nil to let it pass.
	hit func(op storage.Op) error
}

func faults() []fault {
	all := func(err error) func(storage.Op) error { return func(storage.Op) error { return err } }
	short := func(err error) func(storage.Op) error {
		return func(op storage.Op) error {
			if op == storage.OpWrite || op == storage.OpReserve {
				return &storage.PartialWrite{Bytes: 7, Err: err}
			}
			return nil
		}
	}
	return []fault{
		{"EIO", syscall.EIO, all(syscall.EIO)},
		{"ENOSPC", syscall.ENOSPC, all(syscall.ENOSPC)},
		{"short write", syscall.EIO, short(syscall.EIO)},
		{"short write on a full disk", syscall.ENOSPC, short(syscall.ENOSPC)},
	}
}

// TestFaultEverywhere fails single operations of a long run, reading and
// writing ones, in every way. Each fault must be told to the caller, by the
// call that met it or as Stats.LastError; nothing acknowledged may be lost,
// nothing stay open; and after a failed fsync nothing may be written. It takes
// a sample, from another start each time, or all with QUARRY_LONG.
func TestFaultEverywhere(t *testing.T) {
	seed := testSeed(t)
	stride := 17
	if long() {
		stride = 1
	}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			injected, silent := map[storage.Op]int{}, map[storage.Op]int{}
			for k := 1 + int(seed%uint64(stride)); ; k += stride {
				op, told, done := faultAt(t, f, seed, k)
				if done {
					break
				}
				if op.hit {
					injected[op.op]++
					if !told && !op.tidying {
						silent[op.op]++
					}
				}
			}
			t.Logf("injected %v; met without a word %v", injected, silent)
			for op, n := range silent {
				t.Errorf("%d faults of %q were never told", n, op)
			}
			if len(injected) == 0 {
				t.Error("no fault was injected")
			}
		})
	}
}

type faultHit struct {
	op   storage.Op
	name string
	hit  bool
	// tidying faults harm nobody and need not be told: what cannot be removed
	// is swept by the next Open, where there are no links a backup copies, and
	// a file that was read need not close. A full disk leaves a log unsealed, and
	// without zeros ahead.
	tidying bool
}

// faultAt fails number k of the operations that the fault is for. done tells
// that there are fewer.
func faultAt(t *testing.T, f fault, seed uint64, k int) (hit faultHit, told, done bool) {
	c := &crashRun{fs: storage.NewMemFS(), seed: seed, fault: f.err}
	ops := 0
	c.fs.SetHook(func(op storage.Op, name string, n int) error {
		err := f.hit(op)
		if err == nil {
			return nil
		}
		if ops++; ops != k {
			return nil
		}
		within := func(function string) bool { return bytes.Contains(debug.Stack(), []byte(function)) }
		full := errors.Is(f.err, syscall.ENOSPC)
		hit = faultHit{op, name, true, op == storage.OpRemove || op == storage.OpLink || op == storage.OpClose ||
			op == storage.OpList && within("RemoveBefore") || full && (op == storage.OpReserve || within("(*WAL).seal"))}
		return err
	})
	err := c.run()
	c.fs.SetHook(nil)
	what := fmt.Sprintf("seed %d, %s at operation %d (%v %s)", seed, f.name, k, hit.op, hit.name)
	if n := c.fs.Handles(); n != 0 && !(hit.hit && hit.op == storage.OpClose) {
		t.Fatalf("%s (%v): %d handles left open", what, err, n)
	}
	isSync := hit.op == storage.OpStartSync || hit.op == storage.OpSync || hit.op == storage.OpSyncDir
	if hit.hit && isSync && c.told != nil && !errors.Is(c.told, ErrReadOnly) && !strings.Contains(hit.name, "/backup") {
		t.Errorf("%s: a failed fsync did not end writing: %v", what, c.told)
	}
	if err := c.recovered(c.fs.Clone()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return hit, c.told != nil, ops < k
}
