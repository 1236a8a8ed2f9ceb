package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// smallDisk mounts a file system of so many bytes in memory, or skips.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("no file system of its own to fill: mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// A full disk fails the write that meets it and nothing else: searches go on,
// writes resume when there is space, without a restart, and what was
// acknowledged is there.
func TestB06FullDisk(t *testing.T) {
	disk := smallDisk(t, 16<<20)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(disk, "ix")
	o := &Options{Schema: testSchema(), MutableBytes: 1 << 20, NoBackground: true}
	ix, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(6, 6))
	acked := map[string]bool{}
	apply := func(n int) error {
		b := NewBatch()
		d := randomDocument(r, fmt.Sprintf("%06d", n))
		noise := make([]byte, 8<<10)
		for i := range noise {
			noise[i] = 'a' + byte(r.IntN(26))
		}
		d.Text = map[string]string{"body": "granite " + string(noise)}
		b.Put(d)
		err := ix.Apply(bg, b)
		if err == nil {
			acked[d.ID] = true
		}
		return err
	}
	n, full := 0, 0
	for ; full < 20 && n < 10_000; n++ {
		if err := apply(n); err != nil {
			full++
			if !storage.IsDiskFull(err) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrReadOnly) {
				t.Fatalf("document %d on a full disk: %v", n, err)
			}
			res, err := ix.Search(bg, Query{Text: &TextQuery{Text: "granite"}, K: 5})
			if err != nil || len(res.Hits) != 5 {
				t.Fatalf("search on a full disk: %v", err)
			}
		}
	}
	if full < 20 {
		t.Fatal("the disk did not fill")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for end := n + 200; n < end; n++ {
		if err := apply(n); err != nil {
			t.Fatalf("there is space again: %v", err)
		}
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	if ix, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	for id := range acked {
		if ok, err := ix.Exists(id); !ok || err != nil {
			t.Fatalf("document %s was acknowledged and is gone (%v)", id, err)
		}
	}
	if _, err := Check(bg, dir, nil, true); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d documents acknowledged of %d, %d refused by the full disk", len(acked), n, full)
}

// Of too many open files the error says just that; 300 commits need no more
// files than one.
func TestB06FewFiles(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	few := syscall.Rlimit{Cur: uint64(openFiles(t)) + 40, Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}()
	ix, err := Open(filepath.Join(dir, "one"), &Options{NoBackground: true, Sync: storage.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		put(t, ix, Document{ID: fmt.Sprint(i), Meta: map[string]any{"n": i}})
		if i%10 == 0 {
			if err := ix.Flush(bg); err != nil {
				t.Fatal(err)
			}
		}
	}
	var open []*Index
	for i := range 100 {
		more, oerr := Open(filepath.Join(dir, fmt.Sprint("c", i)), &Options{NoBackground: true})
		if oerr != nil {
			err = oerr
			break
		}
		open = append(open, more)
	}
	if !errors.Is(err, syscall.EMFILE) || !errors.Is(err, ErrIO) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "too many open files") {
		t.Errorf("out of files: %v", err)
	}
	if ok, err := ix.Exists("299"); !ok || err != nil {
		t.Errorf("a search while out of files: %v", err)
	}
	for _, more := range append(open, ix) {
		if err := more.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(open) == 0 {
		t.Error("no collection opened")
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds) - 1 // the one that reads the directory
}

// mapsOf counts the mappings of files below a directory.
func mapsOf(t testing.TB, dir string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), dir)
}

// stoneIndex is an index on disk of several segments with graphs.
func stoneIndex(t *testing.T, dir string, docs int) *Index {
	t.Helper()
	ix, err := Open(dir, &Options{NoBackground: true, GraphMin: 100, Schema: &Schema{
		Text:    []TextField{{Name: "body"}},
		Vectors: []VectorField{{Name: "v", Dim: 64, Metric: quant.Cosine, M: 8, Construct: 32}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	for part := range 2 {
		b := NewBatch()
		for i := range docs / 2 {
			v := make([]float32, 64)
			for j := range v {
				v[j] = r.Float32() - 0.5
			}
			b.Put(Document{ID: fmt.Sprintf("%d-%05d", part, i), Vectors: map[string][]float32{"v": v}, Meta: map[string]any{"n": i},
				Text: map[string]string{"body": strings.Repeat(modelWords[r.IntN(len(modelWords))]+" ", 1+r.IntN(30))}})
		}
		if err := errors.Join(ix.Apply(bg, b), ix.Flush(bg)); err != nil {
			t.Fatal(err)
		}
	}
	return ix
}

func stoneQueries() map[string]Query {
	v := make([]float32, 64)
	for i := range v {
		v[i] = float32(i%7) - 3
	}
	return map[string]Query{
		"text":   {Text: &TextQuery{Text: "alpha dogs running"}, K: 50},
		"graph":  {Vector: &VectorQuery{Vector: v, Ef: 200}, K: 50},
		"exact":  {Vector: &VectorQuery{Vector: v, Exact: true}, K: 50},
		"hybrid": {Text: &TextQuery{Text: "alpha"}, Vector: &VectorQuery{Vector: v}, K: 50},
		"filter": {Vector: &VectorQuery{Vector: v}, Filter: filter.Gt("n", 300), K: 50},
	}
}

// A segment cut under running queries of every kind: each gets an error that
// names the file, or an answer; another index in the process never notices,
// and nothing stays mapped. The kernels run as they are, assembly included.
func TestCutUnderQueries(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	ix, well := stoneIndex(t, dir, 4000), stoneIndex(t, other, 400)
	segs, err := filepath.Glob(filepath.Join(dir, "seg-*.qry"))
	if err != nil || len(segs) != 2 {
		t.Fatal(segs, err)
	}
	ctx, stop := context.WithCancel(bg)
	var wg sync.WaitGroup
	var failed, answered sync.Map
	for name, q := range stoneQueries() {
		bad, good := new(atomic.Int64), new(atomic.Int64)
		failed.Store(name, bad)
		answered.Store(name, good)
		wg.Go(func() {
			for ctx.Err() == nil && bad.Load() < 20 {
				if _, err := ix.Search(bg, q); err == nil {
					good.Add(1)
				} else if bad.Add(1); !errors.Is(err, ErrIO) && !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "seg-") {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := well.Search(bg, q); err != nil {
					t.Errorf("%s in another index: %v", name, err)
				}
			}
		})
	}
	for running := 0; running < len(stoneQueries()); { // all kinds of queries are
		if _, err := ix.Search(bg, stoneQueries()["exact"]); err != nil {
			t.Fatal(err)
		}
		running = 0
		answered.Range(func(_, n any) bool {
			if n.(*atomic.Int64).Load() > 0 {
				running++
			}
			return true
		})
	}
	if err := os.Truncate(segs[1], 8192); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	<-done
	stop()
	failed.Range(func(name, n any) bool {
		good, _ := answered.Load(name)
		if n.(*atomic.Int64).Load() == 0 || good.(*atomic.Int64).Load() == 0 {
			t.Errorf("%v: %d queries failed, %d answered", name, n.(*atomic.Int64).Load(), good.(*atomic.Int64).Load())
		}
		return true
	})
	if err := ix.Merge(bg, 1); !errors.Is(err, ErrIO) && !errors.Is(err, ErrCorrupt) {
		t.Errorf("merge of a cut file: %v", err)
	}
	if err := errors.Join(ix.Close(), well.Close()); err != nil {
		t.Error(err)
	}
	if n := mapsOf(t, dir) + mapsOf(t, other); n != 0 {
		t.Errorf("%d mappings left", n)
	}
}

// Close while queries, snapshots, a backup and a merge run: nothing of the
// index stays open or mapped once the last of them has ended.
func TestNothingLeftOpen(t *testing.T) {
	before := openFiles(t)
	dir := t.TempDir()
	ix := stoneIndex(t, dir, 1000)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for name, q := range stoneQueries() {
		wg.Go(func() {
			close := sync.OnceFunc(func() { start <- struct{}{} })
			for {
				if _, err := ix.Search(bg, q); errors.Is(err, ErrClosed) {
					return
				} else if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				close()
			}
		})
	}
	for _, work := range []func() error{
		func() error { return ix.Merge(bg, 1) },
		func() error { return ix.Backup(bg, filepath.Join(dir, "copy")) },
		func() error {
			for _, err := range ix.Documents("") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		wg.Go(func() {
			if err := work(); err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	for range len(stoneQueries()) {
		<-start
	}
	if err := ix.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := openFiles(t); n != before {
		t.Errorf("%d files open, %d before", n, before)
	}
	if n := mapsOf(t, dir); n != 0 {
		t.Errorf("%d mappings left", n)
	}
}
