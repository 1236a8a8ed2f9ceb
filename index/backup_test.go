package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/storage"
)

// A backup brought up to date writes what is new and keeps what it has; one
// segment of it that has rotted is written again.
func TestUpdateBackup(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	r, err := ix.UpdateBackup(bg, "/copy")
	if err != nil || r.Documents != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	for part := range 3 {
		var docs []Document
		for i := range 20 {
			docs = append(docs, goldenDocument(part, 20*part+i))
		}
		put(t, ix, docs...)
		if err := ix.Flush(bg); err != nil {
			t.Fatal(err)
		}
		if r, err = ix.UpdateBackup(bg, "/copy"); err != nil || r.Kept != part || r.Linked != 1 || r.Copied != 0 || r.Bytes != 0 {
			t.Fatalf("part %d: %+v %v", part, r, err)
		}
	}
	del(t, ix, goldenDocument(0, 3).ID)
	put(t, ix, Document{ID: "in memory"})
	want := listIDs(t, ix)
	if r, err = ix.UpdateBackup(bg, "/copy"); err != nil || r.Kept != 3 || r.Linked != 0 || r.Bytes == 0 || r.Documents != len(want) {
		t.Fatalf("%+v %v", r, err)
	}
	// The copy rots: its file gets other bytes than the index's, which is one
	// more name of the same file until then.
	names, err := fs.List("/copy")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if storage.ParseFileName(name).Kind == storage.FileSegment {
			b, err := fs.ReadFile("/copy/" + name)
			if err != nil {
				t.Fatal(err)
			}
			b = bytes.Clone(b)
			b[len(b)/2] ^= 4
			if err := fs.WriteFile("/copy/"+name, b); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if r, err = ix.UpdateBackup(bg, "/copy"); err != nil || r.Kept != 2 || r.Linked != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	c, err := Open("/copy", &Options{FS: fs, ReadOnly: true, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, listIDs(t, c)); diff != "" {
		t.Fatal(diff)
	}
	c.Close()
	if left, _ := fs.List("/copy"); len(left) > 8 { // 4 segments, tombstones, manifest, LOCK
		t.Errorf("old files were left: %v", left)
	}
}

// What is not a backup of the index is never written over.
func TestUpdateBackupRefuses(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "a"})
	live, err := Open("/live", &Options{FS: fs, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	put(t, live, Document{ID: "b"})
	if _, err := ix.UpdateBackup(bg, "/live"); !errors.Is(err, ErrLocked) {
		t.Errorf("over an open index: %v", err)
	}
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ix.UpdateBackup(bg, "/live"); !errors.Is(err, ErrInvalid) {
		t.Errorf("over an index: %v", err)
	}
	if err := ix.Backup(bg, "/copy"); err != nil {
		t.Fatal(err)
	}
	other, err := Open("/other", &Options{FS: fs, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.UpdateBackup(bg, "/copy"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "/db") {
		t.Errorf("over the backup of another index: %v", err)
	}
	c, err := Open("/copy", &Options{FS: fs, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, Document{ID: "written to the backup"})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ix.UpdateBackup(bg, "/copy"); !errors.Is(err, ErrInvalid) {
		t.Errorf("over a backup that was written to: %v", err)
	}
	if got := listIDs(t, mustOpenDir(t, fs, "/copy")); len(got) != 2 {
		t.Errorf("the refused backup holds %v", got)
	}
}

// Restore checks the backup before it touches the index, which may be whole,
// damaged, or not there, and is refused while a writer has it open.
func TestRestore(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "a"}, Document{ID: "b"})
	if err := ix.Backup(bg, "/copy"); err != nil {
		t.Fatal(err)
	}
	put(t, ix, Document{ID: "later"})
	if _, err := Restore(bg, "/copy", "/db", &Options{FS: fs}); !errors.Is(err, ErrLocked) {
		t.Errorf("over an open index: %v", err)
	}
	if err := errors.Join(ix.Flush(bg), ix.Close()); err != nil {
		t.Fatal(err)
	}
	before := readAll(t, fs, "/db")
	bad := readAll(t, fs, "/copy")
	for name, b := range bad {
		if storage.ParseFileName(name).Kind == storage.FileSegment {
			b[len(b)/3] ^= 1
		}
		if err := errors.Join(fs.MkdirAll("/bad"), fs.WriteFile("/bad/"+name, b)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Restore(bg, "/bad", "/db", &Options{FS: fs}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged backup: %v", err)
	}
	if diff := cmp.Diff(before, readAll(t, fs, "/db")); diff != "" {
		t.Errorf("a damaged backup changed the index: %s", diff)
	}
	for _, from := range []string{"/nothing", "/db"} {
		if _, err := Restore(bg, from, "/db", &Options{FS: fs}); err == nil {
			t.Errorf("restore of %s", from)
		}
	}
	for _, dir := range []string{"/db", "/fresh"} {
		for range 2 {
			r, err := Restore(bg, "/copy", dir, &Options{FS: fs})
			if err != nil || r.Documents != 2 {
				t.Fatalf("%s: %+v %v", dir, r, err)
			}
		}
		if got := fmt.Sprint(listIDs(t, mustOpenDir(t, fs, dir))); got != "[a b]" {
			t.Errorf("%s: %s", dir, got)
		}
	}
	if rep, err := Check(bg, "/db", fs, true); err != nil || len(rep.Leftovers) != 0 {
		t.Errorf("%+v %v", rep, err)
	}
}

// A backup, a restore, a repair and a check end when their context does, and
// leave nothing behind.
func TestCancelMaintenance(t *testing.T) {
	fs := goldenIndex(t)
	ix := mustOpen(t, fs, func(o *Options) { o.ReadOnly = true })
	for name, work := range map[string]func(context.Context) error{
		"backup": func(ctx context.Context) error { return ix.Backup(ctx, "/copy") },
		"update": func(ctx context.Context) error { _, err := ix.UpdateBackup(ctx, "/copy"); return err },
		"restore": func(ctx context.Context) error {
			_, err := Restore(ctx, "/db", "/copy", &Options{FS: fs})
			return err
		},
		"repair": func(ctx context.Context) error {
			_, err := Repair(ctx, "/db", "/copy", &Options{FS: fs})
			return err
		},
		"check": func(ctx context.Context) error { _, err := Check(ctx, "/db", fs, true); return err },
	} {
		n, step := 0, 1
		if !long() {
			step = 4 // looks are alike
		}
		for ; ; n += step {
			ctx := &countedContext{Context: bg, left: n}
			err := work(ctx)
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, canceled at look %d: %v", name, n, err)
			}
			if names, _ := fs.List("/copy"); len(names) > 1 || len(names) == 1 && names[0] != storage.LockName {
				t.Fatalf("%s, canceled at look %d: left %v", name, n, names)
			}
		}
		if n == 0 {
			t.Errorf("%s never looked at its context", name)
		}
		for _, name := range must(fs.List("/copy")) {
			if err := fs.Remove("/copy/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func must(names []string, _ error) []string { return names }

// A countedContext is canceled from its so-many-th look on.
type countedContext struct {
	context.Context
	mu   sync.Mutex // legs of a query look side by side
	left int
}

func (c *countedContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// failedBackup brings a backup up to date and runs out of space on the way, at
// its first write, its second and so on until it passes: what the failed ones
// made is taken away again, and at no moment does it stand for an index.
func failedBackup(fs *storage.MemFS, seed uint64) (func() error, func() func(*storage.MemFS) error, error) {
	ix, l, r, err := filled(fs, "/db", seed, crashOptions(fs))
	if err == nil {
		err = ix.Backup(bg, "/copy")
	}
	if err != nil {
		return nil, nil, err
	}
	copied := &ledger{states: []model{l.last()}}
	b, after := randomBatch(r, l.last())
	if err := errors.Join(l.apply(ix, b, after), ix.Flush(bg)); err != nil {
		return nil, nil, err
	}
	copied.try(after)
	full := &fullAfter{FS: fs}
	ix.fs = full
	act := func() error {
		for n := 0; ; n++ {
			full.left.Store(int64(n))
			_, err := ix.UpdateBackup(bg, "/copy")
			if err == nil && n == 0 {
				return errors.New("no backup has failed")
			}
			if err == nil {
				copied.ack(after)
				return ix.Close()
			}
			if !storage.IsDiskFull(err) {
				return errors.Join(err, ix.Close())
			}
		}
	}
	return act, func() func(*storage.MemFS) error { return both(l.found("/db"), copied.found("/copy")) }, nil
}

// A fullAfter has space for so many more new names.
type fullAfter struct {
	storage.FS
	left atomic.Int64
}

func (f *fullAfter) spent() bool { return f.left.Add(-1) < 0 }

func (f *fullAfter) Create(name string) (storage.File, error) {
	if f.spent() {
		return nil, fmt.Errorf("create %s: %w", name, syscall.ENOSPC)
	}
	return f.FS.Create(name)
}

func (f *fullAfter) Link(from, to string) error {
	if f.spent() {
		return fmt.Errorf("link %s: %w", to, syscall.ENOSPC)
	}
	return f.FS.Link(from, to)
}

func (f *fullAfter) Rename(from, to string) error {
	if f.spent() {
		return fmt.Errorf("rename %s: %w", to, syscall.ENOSPC)
	}
	return f.FS.Rename(from, to)
}
