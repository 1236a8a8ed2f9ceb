package index

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/storage"
)

// long reports whether the long suite was asked for.
func long() bool { v := os.Getenv("QUARRY_LONG"); return v != "" && v != "0" }

// A damaged is a golden index of which one file is not what it was.
type damaged struct {
	what  string // for messages
	name  string // of the file
	files map[string][]byte
}

// damages yields the golden index with every stride-th byte flipped in one of
// its bits, and in all of them; with eight bytes set to the extremes of a
// length or an offset; and cut.
func damages(files map[string][]byte, flips, fields, cuts int, yield func(damaged) bool) {
	do := func(name, what string, b []byte) bool {
		d := damaged{what: name + ": " + what, name: name, files: maps.Clone(files)}
		d.files[name] = b
		return yield(d)
	}
	for name, whole := range files {
		if storage.ParseFileName(name).Kind == storage.FileLock {
			continue
		}
		for at := 0; at < len(whole); at += flips {
			b := bytes.Clone(whole)
			b[at] ^= []byte{1 << (at % 8), 0xff}[at/8%2]
			if !do(name, fmt.Sprintf("byte %d of %d flipped", at, len(whole)), b) {
				return
			}
		}
		for at := 0; at+8 <= len(whole); at += fields {
			for _, v := range []string{"\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff",
				"\x00\x00\x00\x00\x00\x00\x00\x80", "\xff\xff\xff\x7f\xff\xff\xff\x7f", "\x00\x00\x00\xbe\x00\x00\x00\x00"} {
				b := bytes.Clone(whole)
				copy(b[at:], v)
				if !bytes.Equal(b, whole) && !do(name, fmt.Sprintf("bytes at %d set to %x", at, v), b) {
					return
				}
			}
		}
		for cut := 0; cut < len(whole); cut += cuts {
			if !do(name, fmt.Sprintf("cut to %d of %d", cut, len(whole)), whole[:cut]) {
				return
			}
		}
	}
}

// strides are those of damages: a sample, or all of them.
func strides(t testing.TB) (flips, fields, cuts int) {
	switch {
	case long():
		return 1, 8, 1
	case testing.Short():
		return 149, 8 * 101, 499
	}
	return 37, 8 * 37, 199
}

// quick runs f, and fails when that takes longer than a damaged file may make
// it, each of three times: one time may be another process's fault.
func quick(t *testing.T, what string, f func()) {
	t.Helper()
	var took time.Duration
	for range 3 {
		start := time.Now()
		f()
		if took = time.Since(start); took < 2*time.Second || t.Failed() {
			return
		}
	}
	t.Errorf("%s: %v", what, took)
}

// Of an index damaged anywhere, an Open with Options.Verify gives right
// answers or an error of the right kind that names the file; without it, an
// answer may be wrong, but nothing panics or hangs, and Check finds it.
func TestB03B04EveryByteDamaged(t *testing.T) {
	flips, fields, cuts := strides(t)
	files := readAll(t, goldenIndex(t), "/db")
	ix := mustOpen(t, writeAll(t, files), nil)
	want, err := goldenAnswers(ix)
	if err != nil {
		t.Fatal(err)
	}
	cases, refused, torn, unnoticed := 0, 0, 0, 0
	try := func(d damaged) {
		fs := writeAll(t, d.files)
		got, err := answersOf(fs, true)
		isLog := storage.ParseFileName(d.name).Kind == storage.FileWAL
		switch {
		case err != nil:
			refused++
			mustBeDamage(t, d, err)
		case got == want:
		case isLog && tornBefore(files, d):
			// The log was closed, so that a seal tells of its last record:
			// that is lost without a word only together with the seal.
			if torn++; strings.Contains(d.what, "flipped") {
				t.Errorf("%s: a record is missing", d.what)
			}
		default:
			t.Errorf("%s: other answers", d.what)
		}
		if got, err := answersOf(fs, false); err != nil {
			mustBeDamage(t, d, err)
		} else if got != want && !isLog {
			unnoticed++
			if _, err := Check(bg, "/db", fs, true); err == nil {
				t.Errorf("%s: wrong answers, and Check finds nothing", d.what)
			}
		}
		if n := fs.Handles(); n != 0 {
			t.Errorf("%s: %d handles left open", d.what, n)
		}
	}
	damages(files, flips, fields, cuts, func(d damaged) bool {
		cases++
		quick(t, d.what, func() { try(d) })
		return !t.Failed()
	})
	t.Logf("%d damages: %d refused, %d torn tails; without Verify %d wrong answers, all found by Check", cases, refused, torn, unnoticed)
	if cases < 150 || refused < (cases-torn)*9/10 || torn > cases/5 {
		t.Errorf("%d damages, %d refused: too few", cases, refused)
	}
}

func answersOf(fs *storage.MemFS, verify bool) (string, error) {
	ix, err := Open("/db", &Options{FS: fs, ReadOnly: true, Verify: verify})
	if err != nil {
		return "", err
	}
	got, err := goldenAnswers(ix)
	return got, errors.Join(err, ix.Close())
}

func mustBeDamage(t *testing.T, d damaged, err error) {
	t.Helper()
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		t.Errorf("%s: %v", d.what, err)
	}
	if !strings.Contains(err.Error(), d.name) && storage.ParseFileName(d.name).Kind != storage.FileManifest {
		t.Errorf("%s: the error does not name the file: %v", d.what, err)
	}
	var c *storage.CorruptError
	if errors.As(err, &c) && (c.Offset < 0 || c.Offset > int64(len(d.files[d.name]))+64) {
		t.Errorf("%s: offset %d: %v", d.what, c.Offset, err)
	}
}

// tornBefore reports whether the damage is in the last record of the log and
// the seal behind it, or cuts them: nothing tells such bytes from those of a
// write that a crash cut.
func tornBefore(files map[string][]byte, d damaged) bool {
	fs := storage.NewMemFS()
	if fs.MkdirAll("/db") != nil || fs.WriteFile("/db/"+d.name, d.files[d.name]) != nil {
		return false
	}
	r, err := storage.Replay(fs, "/db", 0, func([]byte) error { return nil })
	return err == nil && (r.Torn || len(d.files[d.name]) < len(files[d.name]))
}

// Repair makes an index of whatever is left. Each of its documents is one
// that was acknowledged, whole but for the fields the report names; one that
// is missing is in the report.
func TestRepairEveryByteDamaged(t *testing.T) {
	flips, fields, cuts := strides(t)
	files := readAll(t, goldenIndex(t), "/db")
	versions := goldenVersions(t, files)
	cases, whole, saved, lost, back := 0, 0, 0, 0, 0
	try := func(d damaged) {
		fs := writeAll(t, d.files)
		r, err := Repair(bg, "/db", "/new", &Options{FS: fs, Schema: testSchema()})
		if errors.Is(err, ErrVersion) {
			return // a version that was damaged cannot be told from a newer one
		}
		if err != nil {
			t.Errorf("%s: %v", d.what, err)
			return
		}
		if !maps.EqualFunc(d.files, readAll(t, fs, "/db"), bytes.Equal) {
			t.Errorf("%s: repair changed the damaged index", d.what)
		}
		n := repairedDocuments(t, d, fs, versions, r)
		if n != r.Documents {
			t.Errorf("%s: %d documents, the report has %d", d.what, n, r.Documents)
		}
		switch now := len(versions.live); {
		case len(r.Problems) == 0 && n == now:
			whole++
		case n < now:
			lost += now - n
			if len(r.Problems) == 0 && !tornBefore(files, d) {
				t.Errorf("%s: %d documents are gone and the report tells nothing", d.what, now-n)
			}
		default:
			back += n - now
		}
		saved += n
		if n := fs.Handles(); n != 0 {
			t.Errorf("%s: %d handles left open", d.what, n)
		}
	}
	damages(files, 2*flips+1, 2*fields, 2*cuts+1, func(d damaged) bool {
		cases++
		quick(t, d.what, func() { try(d) })
		return !t.Failed()
	})
	t.Logf("%d damages of an index of %d documents: %d left it whole; %d documents saved, %d lost, %d deleted ones back",
		cases, len(versions.live), whole, saved, lost, back)
	if cases > 0 && saved < cases*len(versions.live)/2 {
		t.Errorf("only %d documents saved", saved)
	}
}

// goldenLife knows the documents of the golden index, and every version of an
// id that was ever acknowledged.
type goldenLife struct {
	live map[string]Document
	ever map[string][]Document
}

func goldenVersions(t *testing.T, files map[string][]byte) goldenLife {
	g := goldenLife{live: map[string]Document{}, ever: map[string][]Document{}}
	ix := mustOpen(t, writeAll(t, files), func(o *Options) { o.ReadOnly = true })
	for d, err := range ix.Documents("") {
		if err != nil {
			t.Fatal(err)
		}
		g.live[d.ID] = d
		g.ever[d.ID] = append(g.ever[d.ID], d)
	}
	for part := range 3 {
		for _, i := range []int{10 * part, 10*part + 1, 10*part + 2, 10*part + 3, 10*part + 4, 10*part + 5, 10*part + 6, 10*part + 7, 10*part + 8, 10*part + 9, 5} {
			fs := storage.NewMemFS()
			one := mustOpen(t, fs, nil)
			put(t, one, goldenDocument(part, i))
			d, err := one.Get(goldenDocument(part, i).ID)
			if err != nil {
				t.Fatal(err)
			}
			g.ever[d.ID] = append(g.ever[d.ID], d)
			one.Close()
		}
	}
	return g
}

func repairedDocuments(t *testing.T, d damaged, fs *storage.MemFS, versions goldenLife, r *RepairReport) int {
	t.Helper()
	ix, err := Open("/new", &Options{FS: fs, ReadOnly: true, MustExist: true, Verify: true})
	if err != nil {
		t.Fatalf("%s: %v", d.what, err)
	}
	defer ix.Close()
	partial := map[string]bool{}
	for _, p := range r.PartialDocuments {
		partial[p.ID] = true
	}
	n := 0
	for got, err := range ix.Documents("") {
		if err != nil {
			t.Fatalf("%s: %v", d.what, err)
		}
		n++
		ok := false
		for _, v := range versions.ever[got.ID] {
			if partial[got.ID] {
				v.Vectors, got.Vectors = nil, nil
			}
			ok = ok || cmp.Equal(v, got)
		}
		if !ok {
			t.Errorf("%s: repaired document %q is none that was ever put: %v", d.what, got.ID, got)
		}
	}
	return n
}

// A merge reads the checksums of its inputs: else it would give damaged bytes
// a new checksum, and nobody could find them any more.
func TestMergeRefusesDamage(t *testing.T) {
	fs := goldenIndex(t)
	files := readAll(t, fs, "/db")
	name := storage.SegmentName(2)
	vector := []byte{0, 0, 0x40, 0x40} // 3 as a float32, of the field v
	at := bytes.LastIndex(files[name], vector)
	if at < 0 {
		t.Fatal("no vector in the segment")
	}
	files[name] = bytes.Clone(files[name])
	files[name][at] ^= 1
	fs = writeAll(t, files)
	ix := mustOpen(t, fs, nil)
	if err := ix.Merge(bg, 1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Fatalf("merge of a damaged segment: %v", err)
	}
	if err := ix.Backup(bg, "/copy"); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("backup of a damaged segment: %v", err)
	}
	if names, err := fs.List("/copy"); err != nil || len(names) != 0 {
		t.Fatalf("a failed backup left %v (%v)", names, err)
	}
}

// Without a manifest the schema is the caller's, and deleted documents that no
// tombstone file kills are told to be back.
func TestRepairWithoutManifest(t *testing.T) {
	fs := goldenIndex(t)
	m, err := storage.ListManifests(fs, "/db")
	if err != nil {
		t.Fatal(err)
	}
	ix := mustOpen(t, fs, func(o *Options) { o.ReadOnly = true })
	want := listIDs(t, ix)
	ix.Close()
	if err := fs.Remove("/db/" + storage.ManifestName(m[len(m)-1])); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(bg, "/db", "/new", &Options{FS: fs}); !errors.Is(err, ErrSchema) {
		t.Fatalf("without a schema: %v", err)
	}
	r, err := Repair(bg, "/db", "/new", &Options{FS: fs, Schema: testSchema()})
	if err != nil || len(r.Problems) == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	again := mustOpenDir(t, fs, "/new")
	if diff := cmp.Diff(want, listIDs(t, again)); diff != "" {
		t.Fatal(diff)
	}
	if n, err := again.Schema().Meta["weight"], error(nil); n == 0 || err != nil {
		t.Errorf("metadata was not found again: %v", again.Schema().Meta)
	}
	if _, err := Repair(bg, "/db", "/new", &Options{FS: fs, Schema: testSchema()}); !errors.Is(err, ErrInvalid) {
		t.Errorf("repair into an index: %v", err)
	}
	if _, err := Repair(bg, "/nothing", "/new2", &Options{FS: fs}); !errors.Is(err, ErrNotFound) {
		t.Errorf("repair of nothing: %v", err)
	}
}

func mustOpenDir(t testing.TB, fs storage.FS, dir string) *Index {
	t.Helper()
	ix, err := Open(dir, &Options{FS: fs, NoBackground: true, MustExist: true, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ix.Close() })
	return ix
}

// Repair works on the host's file system too, where a segment is mapped.
func TestRepairOnDisk(t *testing.T) {
	dir := t.TempDir()
	for name, b := range readAll(t, goldenIndex(t), "/db") {
		if storage.ParseFileName(name).Kind == storage.FileSegment {
			b = bytes.Clone(b)
			b[len(b)/2] ^= 0x10
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dst := filepath.Join(t.TempDir(), "new")
	r, err := Repair(bg, dir, dst, nil)
	if err != nil || len(r.Problems) < 2 || r.Documents == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	mustOpenDir(t, storage.OS{}, dst)
}

// Bytes written anywhere over a file of the golden index: an answer is right
// or there is an error, and what is repaired is a sound index.
func FuzzDamagedIndex(f *testing.F) {
	files := readAll(f, goldenIndex(f), "/db")
	want, err := answersOf(writeAll(f, files), true)
	if err != nil {
		f.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(files))
	for i := range names {
		f.Add(uint8(i), uint16(40), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		f.Add(uint8(i), uint16(1), []byte{})
	}
	f.Fuzz(func(t *testing.T, file uint8, at uint16, b []byte) {
		name := names[int(file)%len(names)]
		whole := files[name]
		cut := int(at) % (len(whole) + 1)
		damagedBytes := slices.Concat(whole[:cut], b)
		if len(b) > 0 && len(damagedBytes) < len(whole) {
			damagedBytes = append(damagedBytes, whole[len(damagedBytes):]...)
		}
		d := damaged{what: name, name: name, files: maps.Clone(files)}
		d.files[name] = damagedBytes
		kind := storage.ParseFileName(name).Kind
		got, err := answersOf(writeAll(t, d.files), true)
		if err != nil {
			mustBeDamage(t, d, err)
		} else if got != want && kind != storage.FileWAL {
			t.Fatalf("%s: other answers", name)
		}
		fs := writeAll(t, d.files)
		if _, err := Repair(bg, "/db", "/new", &Options{FS: fs, Schema: testSchema()}); err != nil && !errors.Is(err, ErrVersion) {
			t.Fatal(err)
		}
	})
}
