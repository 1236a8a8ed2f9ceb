package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// readAll returns the index files of a directory by base name.
func readAll(t testing.TB, fs *storage.MemFS, dir string) map[string][]byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[name], err = fs.ReadFile(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func writeAll(t testing.TB, files map[string][]byte) *storage.MemFS {
	t.Helper()
	fs := storage.NewMemFS()
	if err := fs.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := fs.WriteFile("/db/"+name, b); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

func TestB01TornAndDamagedLog(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	var ends []int
	for i := range 5 {
		put(t, ix, Document{ID: fmt.Sprint(i), Text: map[string]string{"body": "some words"}})
		ends = append(ends, int(ix.wal.Size()))
	}
	files := readAll(t, fs.Clone(), "/db")
	name := storage.WALName(1)
	log := files[name]
	open := func(b []byte) ([]string, error) {
		files[name] = b
		ix, err := Open("/db", &Options{FS: writeAll(t, files), NoBackground: true})
		if err != nil {
			return nil, err
		}
		defer ix.Close()
		return listIDs(t, ix), nil
	}
	for cut := ends[3]; cut <= ends[4]; cut++ {
		got, err := open(log[:cut])
		want := []string{"0", "1", "2", "3"}
		if cut == ends[4] {
			want = append(want, "4")
		}
		if err != nil || !cmp.Equal(got, want) {
			t.Fatalf("cut at %d of %d: %v %v", cut, ends[4], got, err)
		}
	}
	for at := ends[0]; at < ends[1]; at++ {
		b := bytes.Clone(log)
		b[at] ^= 0x40
		if got, err := open(b); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Fatalf("byte %d flipped: %v %v", at, got, err)
		}
	}
}

func TestB04CutAndMissingFiles(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	for i := range 300 {
		put(t, ix, Document{ID: fmt.Sprint(i), Text: map[string]string{"body": "some words"},
			Vectors: map[string][]float32{"v": {float32(i), 2, 3, 4}}, Meta: map[string]any{"n": i}})
	}
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	del(t, ix, "7")
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	ix.Close()
	files := readAll(t, fs, "/db")
	if len(files) != 5 { // LOCK, manifest, segment, tombstones, log
		t.Fatalf("%d files", len(files))
	}
	for name, whole := range files {
		kind := storage.ParseFileName(name).Kind
		if kind == storage.FileLock {
			continue
		}
		for _, size := range []int{0, 1, len(whole) / 2, len(whole) - 1, len(whole) &^ 4095, -1} {
			if size == len(whole) {
				continue
			}
			damaged := map[string][]byte{}
			for n, b := range files {
				damaged[n] = b
			}
			if size < 0 {
				delete(damaged, name)
			} else {
				damaged[name] = whole[:size]
			}
			fs := writeAll(t, damaged)
			ix, err := Open("/db", &Options{FS: fs, NoBackground: true})
			if err == nil {
				ix.Close()
				t.Errorf("%s cut to %d of %d bytes: opened", name, size, len(whole))
				continue
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s cut to %d bytes: %v", name, size, err)
			}
			if kind != storage.FileManifest && !strings.Contains(err.Error(), name) {
				t.Errorf("%s cut to %d bytes: error does not name it: %v", name, size, err)
			}
			if n := fs.Handles(); n != 0 {
				t.Errorf("%d handles open after a failed Open", n)
			}
			if diff := cmp.Diff(damaged, readAll(t, fs, "/db"), cmp.FilterPath(func(p cmp.Path) bool {
				return p.Last().String() == `["LOCK"]`
			}, cmp.Ignore())); diff != "" {
				t.Errorf("a failed Open changed files: %s", diff)
			}
		}
	}
}

// A file cut under a running index is an error of the call that meets it.
func TestCutWhileMapped(t *testing.T) {
	dir := t.TempDir()
	ix, err := Open(dir, &Options{NoBackground: true, Schema: testSchema()})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	b := NewBatch()
	for i := range 2000 {
		b.Put(Document{ID: fmt.Sprint(i), Vectors: map[string][]float32{"v": {float32(i), 2, 3, 4}}})
	}
	if err := errors.Join(ix.Apply(bg, b), ix.Flush(bg)); err != nil {
		t.Fatal(err)
	}
	seg, _ := filepath.Glob(filepath.Join(dir, "seg-*.qry"))
	if len(seg) != 1 {
		t.Fatal(seg)
	}
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to cut a mapped file")
	}
	if err := os.Truncate(seg[0], 4096); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"3", "77", "1999"} {
		if _, err := ix.Get(id); !errors.Is(err, ErrIO) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
			t.Errorf("get from a cut file: %v", err)
		}
	}
	if err := ix.Merge(bg, 1); err != nil {
		t.Log(err) // one segment without tombstones: nothing to do
	}
}

func TestB08Leftovers(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "a"}, Document{ID: "b"})
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	put(t, ix, Document{ID: "c"})
	ix.Close()
	ours := []string{storage.SegmentName(77), storage.TombstoneName(1, 9), storage.ManifestName(900) + ".tmp", storage.ManifestName(1)}
	foreign := []string{".tmp-123", "x.seg.tmp", ".DS_Store", "notes.txt", "seg-12.qry", "MANIFEST-x"}
	for _, name := range append(append([]string{}, ours...), foreign...) {
		if err := fs.WriteFile("/db/"+name, []byte("left over")); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.MkdirAll("/db/empty"); err != nil {
		t.Fatal(err)
	}
	rep, err := Check(bg, "/db", fs, true)
	if err != nil || len(rep.Leftovers) != len(ours) || len(rep.Unknown) != len(foreign)+1 {
		t.Fatalf("%+v %v", rep, err)
	}
	ix = mustOpen(t, fs, nil)
	if got := listIDs(t, ix); len(got) != 3 {
		t.Fatal(got)
	}
	names, _ := fs.List("/db")
	have := strings.Join(names, " ") + " "
	for _, name := range ours {
		if strings.Contains(have, name+" ") {
			t.Errorf("%s was not removed", name)
		}
	}
	for _, name := range append(foreign, "empty/") {
		if !strings.Contains(have, name+" ") {
			t.Errorf("%s was removed", name)
		}
	}
	put(t, ix, Document{ID: "d"})
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []*Options{{MustExist: true}, {ReadOnly: true}} {
		for _, d := range []string{dir, filepath.Join(dir, "none")} {
			if _, err := Open(d, o); !errors.Is(err, ErrNotFound) {
				t.Errorf("%+v of nothing: %v", o, err)
			}
		}
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("a failed Open made %v", names)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, nil); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("open of a file: %v", err)
	}
	for _, o := range []*Options{
		{MutableBytes: 1}, {MutableBytes: 8 << 30}, {MaxSegments: 1}, {Threads: -1}, {Sync: -2}, {BackgroundRetry: -1},
	} {
		if _, err := Open(dir, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	// Segments without a manifest are a damaged index, not an empty directory.
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "a"})
	ix.Close()
	m, _ := storage.ListManifests(fs, "/db")
	if err := fs.Remove("/db/" + storage.ManifestName(m[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("/db", &Options{FS: fs}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without manifest: %v", err)
	}
}

func TestB09Lock(t *testing.T) {
	dir := t.TempDir()
	ix, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("second writer: %v", err)
	}
	put(t, ix, Document{ID: "a", Meta: map[string]any{"n": 1}})
	// A reader beside the writer sees what is durable.
	ro, err := Open(dir, &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := listIDs(t, ro); len(got) != 1 {
		t.Fatal(got)
	}
	b := NewBatch()
	b.Put(Document{ID: "x"})
	for _, err := range []error{ro.Apply(bg, b), ro.Flush(bg), ro.Merge(bg, 1)} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("write on a reader: %v", err)
		}
	}
	// A copy with its lock file opens beside the original.
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	c, err := Open(copied, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := listIDs(t, c); len(got) != 1 {
		t.Fatal(got)
	}
	for _, ix := range []*Index{c, ro, ix} {
		if err := ix.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ix, err = Open(dir, nil) // the lock file is still there
	if err != nil {
		t.Fatal(err)
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestB12DeletedStayDeleted(t *testing.T) {
	const n = 10_000
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	b := NewBatch()
	for i := range n {
		b.Put(Document{ID: fmt.Sprintf("%05d", i), Text: map[string]string{"body": "word"},
			Vectors: map[string][]float32{"v": {float32(i), 1, 1, 1}}, Meta: map[string]any{"n": i % 2}})
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	for i := range n / 2 {
		b.Delete(fmt.Sprintf("%05d", 2*i))
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	check := func(step string, ix *Index) {
		t.Helper()
		if got := listIDs(t, ix); len(got) != n/2 || got[0] != "00001" {
			t.Fatalf("%s: %d documents", step, len(got))
		}
		even, err1 := ix.Count(bg, filter.Eq("n", 0))
		odd, err2 := ix.Count(bg, filter.Eq("n", 1))
		if even != 0 || odd != n/2 || err1 != nil || err2 != nil {
			t.Fatalf("%s: filter finds %d and %d", step, even, odd)
		}
		if _, err := ix.Get("00004"); !errors.Is(err, ErrNotFound) {
			t.Fatalf("%s: %v", step, err)
		}
	}
	check("deleted", ix)
	fs = fs.CrashClone(nil) // the machine stops right after the acknowledgement
	ix = mustOpen(t, fs, nil)
	check("reopened", ix)
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
	check("merged", ix)
	if st, _ := ix.Stats(); st.Deleted != 0 || len(st.Segments) != 1 {
		t.Fatalf("after the merge: %+v", st)
	}
	ix.Close()
	check("reopened again", mustOpen(t, fs, nil))
}

func TestCloseWithOpenSnapshot(t *testing.T) {
	dir := t.TempDir()
	ix, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, ix, Document{ID: "a", Meta: map[string]any{"n": 1}})
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("a"); err != nil {
		t.Fatalf("snapshot after Close: %v", err)
	}
	s.Close()
	s.Close()
	if _, err := s.Get("a"); !errors.Is(err, ErrClosed) {
		t.Fatalf("closed snapshot: %v", err)
	}
	b := NewBatch()
	b.Delete("a")
	_, err1 := ix.Get("a")
	_, err2 := ix.Snapshot()
	_, err3 := ix.Stats()
	for _, err := range []error{err1, err2, err3, ix.Apply(bg, b), ix.Flush(bg), ix.Merge(bg, 1), ix.Close(), ix.Backup(bg, dir+"x")} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestApplyCanceled(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	b := NewBatch()
	b.Put(Document{ID: "a"})
	if err := ix.Apply(ctx, b); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := listIDs(t, ix); len(got) != 0 {
		t.Fatal(got)
	}
}

// Every byte of a directory is covered: a flip anywhere is found by Check.
func TestCheckFindsFlips(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) { o.GraphMin = 4 })
	for i := range 30 {
		put(t, ix, Document{ID: fmt.Sprint(i), Text: map[string]string{"body": "some words here"},
			Vectors: map[string][]float32{"v": {float32(i), 2, 3, 4}}, Meta: map[string]any{"n": i}})
	}
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	del(t, ix, "7")
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	put(t, ix, Document{ID: "in the log"})
	ix.Close()
	files := readAll(t, fs, "/db")
	r := rand.New(rand.NewPCG(testSeed(t), 3))
	for name, whole := range files {
		if storage.ParseFileName(name).Kind == storage.FileLock || len(whole) == 0 {
			continue
		}
		for range 60 {
			at := r.IntN(len(whole))
			b := bytes.Clone(whole)
			b[at] ^= 1 << r.IntN(8)
			damaged := map[string][]byte{}
			for n, c := range files {
				damaged[n] = c
			}
			damaged[name] = b
			_, err := Check(bg, "/db", writeAll(t, damaged), true)
			if err == nil && !strings.HasSuffix(name, ".log") {
				t.Errorf("%s: byte %d of %d flipped: not found", name, at, len(whole))
			} else if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("%s: byte %d flipped: %v", name, at, err)
			}
		}
	}
}

// Where the file system has no hard links, a backup copies.
func TestBackupCopies(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	for i := range 200 {
		put(t, ix, Document{ID: fmt.Sprintf("%03d", i), Text: map[string]string{"body": "some words"}})
	}
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	del(t, ix, "007")
	put(t, ix, Document{ID: "new"})
	fs.SetHook(func(op storage.Op, name string, n int) error {
		if op == storage.OpLink {
			return errors.New("no links here")
		}
		return nil
	})
	if err := ix.Backup(bg, "/copy"); err != nil {
		t.Fatal(err)
	}
	fs.SetHook(nil)
	want := listIDs(t, ix)
	if err := ix.Merge(bg, 1); err != nil { // removes the files it was made from
		t.Fatal(err)
	}
	c, err := Open("/copy", &Options{FS: fs, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if diff := cmp.Diff(want, listIDs(t, c)); diff != "" {
		t.Fatal(diff)
	}
	names, err := fs.List("/copy")
	if err != nil || len(names) != 6 { // two segments, tombstones, manifest, LOCK, log
		t.Fatal(names, err)
	}
	// A backup that fails leaves nothing behind.
	fs.SetHook(func(op storage.Op, name string, n int) error {
		if op == storage.OpRename {
			return errors.New("no renames here")
		}
		return nil
	})
	if err := ix.Backup(bg, "/broken"); err == nil {
		t.Fatal("backup without a rename")
	}
	fs.SetHook(nil)
	if names, err := fs.List("/broken"); err != nil || len(names) != 0 {
		t.Fatal(names, err)
	}
}

// A big-endian machine opens no index, rather than take documents that it
// cannot flush, nor a part of one. GOARCH=s390x go test -exec qemu-s390x -run BigEndian ./index
func TestBigEndianIsRefused(t *testing.T) {
	if storage.CheckMachine() == nil {
		t.Skip("this machine is little-endian")
	}
	section := func(string) ([]byte, bool) { return nil, false }
	_, e0 := Open("/db", &Options{FS: storage.NewMemFS()})
	_, e1 := filter.Open(section, 1)
	_, e2 := bm25.Open(section, 1)
	_, e3 := sparse.Open(section, 1)
	_, e4 := hnsw.Open(section, 1)
	for i, err := range []error{e0, e1, e2, e3, e4} {
		if !errors.Is(err, ErrVersion) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
