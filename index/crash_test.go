package index

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
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
}

func (c *crashRun) options() *Options {
	return &Options{FS: c.fs, Schema: testSchema(), NoBackground: true, MutableBytes: 64 << 10, GraphMin: 8, MaxSegments: 2}
}

// again repeats what a full disk has stopped: there is space now.
func again(f func() error) error {
	err := f()
	if storage.IsDiskFull(err) && !errors.Is(err, ErrReadOnly) {
		err = f()
	}
	return err
}

// run returns the first error.
func (c *crashRun) run() error {
	r := rand.New(rand.NewPCG(c.seed, 1))
	c.acked, c.backups = model{}, map[string]model{}
	ix, err := Open("/db", c.options())
	if err != nil {
		return err
	}
	defer func() {
		if ix != nil {
			ix.Close()
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
		if err := again(func() error { return ix.Apply(bg, b) }); err != nil {
			return err
		}
		c.acked, c.inFlight = after, nil
		switch step {
		case 3, 5, 6, 10:
			err = again(func() error { return ix.Flush(bg) })
		case 7, 12:
			err = again(func() error { return ix.Merge(bg, 1) })
		case 8:
			c.backups["/backup"] = maps.Clone(c.acked)
			err = again(func() error { return ix.Backup(bg, "/backup") })
		case 11:
			if err = ix.Close(); err == nil {
				ix, err = Open("/db", c.options())
			}
		}
		if err != nil {
			return err
		}
	}
	return ix.Close()
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

// TestReadErrorEverywhere fails single operations that only read. Nothing may
// be lost, and nothing opened stay open.
func TestReadErrorEverywhere(t *testing.T) {
	seed := testSeed(t)
	stride := 7
	if os.Getenv("QUARRY_FAULTS") == "all" {
		stride = 1
	}
	for k := 1 + int(seed%uint64(stride)); ; k += stride {
		c := &crashRun{fs: storage.NewMemFS(), seed: seed}
		reads := 0
		c.fs.SetHook(func(op storage.Op, name string, n int) error {
			if op.IsWrite() || op == storage.OpClose {
				return nil
			}
			if reads++; reads == k {
				return syscall.EIO
			}
			return nil
		})
		err := c.run()
		c.fs.SetHook(nil)
		if reads < k {
			t.Logf("%d reading operations", reads)
			return
		}
		if n := c.fs.Handles(); n != 0 {
			t.Fatalf("seed %d, error at read %d (%v): %d handles left open", seed, k, err, n)
		}
		if err := c.recovered(c.fs.Clone()); err != nil {
			t.Fatalf("seed %d, error at read %d: %v", seed, k, err)
		}
	}
}

// TestErrorEverywhere fails single writing operations: with a full disk, after
// which the index goes on, and with an I/O error. It takes every tenth, from
// another start each time, or all with QUARRY_FAULTS=all.
func TestErrorEverywhere(t *testing.T) {
	seed := testSeed(t)
	stride := 10
	if os.Getenv("QUARRY_FAULTS") == "all" {
		stride = 1
	}
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		surfaced, failed := 0, 0
		for k := 1 + int(seed%uint64(stride)); ; k += stride {
			c := &crashRun{fs: storage.NewMemFS(), seed: seed}
			hit := false
			c.fs.SetHook(func(op storage.Op, name string, n int) error {
				if n == k && !hit && op.IsWrite() && op != storage.OpRemove && op != storage.OpLink {
					hit = true
					return fault
				}
				return nil
			})
			err := c.run()
			if c.fs.Writes() < k {
				break
			}
			c.fs.SetHook(nil)
			if hit {
				failed++
				if err != nil {
					surfaced++
				}
			}
			if err := c.recovered(c.fs.Clone()); err != nil {
				t.Fatalf("seed %d, %v at write %d: %v", seed, fault, k, err)
			}
		}
		t.Logf("%v: %d operations failed, %d ended a run", fault, failed, surfaced)
	}
}
