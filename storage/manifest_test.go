package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testManifest(generation uint64) *Manifest {
	return &Manifest{
		Generation: generation, WALFirst: 300, NextNumber: 20 + generation,
		Segments: []SegmentEntry{
			{Number: 3, Info: SegmentInfo{Size: 1 << 40, Hash: 0xfedcba9876543210}, Docs: 1000,
				Tombstones: TombstoneEntry{Generation: generation, Size: 77, Hash: 5, Count: 1000}},
			{Number: 1, Info: SegmentInfo{Size: 128, Hash: 1}, Docs: 1},
		},
		Schema: []byte(`{"fields":[]}`), Extra: fmt.Append(nil, "extra ", generation),
	}
}

func TestManifestRoundTrip(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		if _, err := ReadManifest(fs, dir); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), dir) {
			t.Fatal(err)
		}
		for g := uint64(1); g < 20; g += 6 {
			want := testManifest(g)
			must(t, WriteManifest(fs, dir, want))
			got, err := ReadManifest(fs, dir)
			must(t, err)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		}
		g, err := ListManifests(fs, dir)
		if !slices.Equal(g, []uint64{1, 7, 13, 19}) || err != nil {
			t.Fatal(g, err)
		}
		old, err := ReadManifestAt(fs, dir, 7)
		if err != nil || old.Generation != 7 {
			t.Fatal(old, err)
		}
	})
}

func TestManifestChecks(t *testing.T) {
	for i, spoil := range []func(*Manifest){
		func(m *Manifest) { m.Generation = 0 },
		func(m *Manifest) { m.NextNumber = 3 },
		func(m *Manifest) { m.Segments[1].Number = 3 },
		func(m *Manifest) { m.Segments[1].Info.Size = 0 },
		func(m *Manifest) { m.Segments[0].Tombstones.Count = 1001 },
		func(m *Manifest) { m.Segments[0].Tombstones.Generation = 0 },
	} {
		m := testManifest(1)
		spoil(m)
		if err := WriteManifest(NewMemFS(), "/", m); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A manifest with any bit flipped, or cut anywhere, is reported by name. The
// older one is never taken instead.
func TestManifestFlips(t *testing.T) {
	fs := NewMemFS()
	must(t, WriteManifest(fs, "/", testManifest(1)))
	must(t, WriteManifest(fs, "/", testManifest(2)))
	name := ManifestName(2)
	data := slurp(t, fs, name)
	check := func(b []byte) {
		t.Helper()
		must(t, fs.WriteFile(name, b))
		_, err := ReadManifest(fs, "/")
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), name) {
			t.Fatal(err)
		}
	}
	for i := range data {
		check(data[:i])
		for bit := range 8 {
			b := bytes.Clone(data)
			b[i] ^= 1 << bit
			check(b)
		}
	}
	check(append(bytes.Clone(data), 0))
}

// B03: absurd numbers, with the checksum made right again, cannot make the
// reader allocate more than the file holds.
func TestB03ManifestGarbage(t *testing.T) {
	data := manifestEnvelope.seal(testManifest(2).encode())
	for _, garbage := range [][]byte{bytes.Repeat([]byte{0xFF}, 8), {0, 0, 0, 0, 0, 0, 0, 0xBE}} {
		for at := envelopeSize; at+8 <= len(data); at++ {
			b := bytes.Clone(data)
			copy(b[at:], garbage)
			binary.LittleEndian.PutUint64(b[24:], envelopeSum(b, b[envelopeSize:]))
			m, err := decodeManifest("m", b)
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			if m != nil && len(m.Segments)*minSegmentEntry > len(b) {
				t.Fatal("more segments than bytes")
			}
		}
		for at := 0; at+8 <= envelopeSize; at++ {
			b := bytes.Clone(data)
			copy(b[at:], garbage)
			if _, err := decodeManifest("m", b); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatal(at, err)
			}
		}
	}
}

// B14: the version field set to current+1, 0 and "abc".
func TestB14ManifestVersion(t *testing.T) {
	fs := NewMemFS()
	must(t, WriteManifest(fs, "/", testManifest(1)))
	data := slurp(t, fs, ManifestName(1))
	for _, v := range []uint32{manifestVersion + 1, 0, binary.LittleEndian.Uint32([]byte("abc\x00"))} {
		binary.LittleEndian.PutUint32(data[8:], v)
		must(t, fs.WriteFile(ManifestName(1), data))
		_, err := ReadManifest(fs, "/")
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), fmt.Sprintf("%s has version %d, this build reads 1", ManifestName(1), v)) {
			t.Fatal(err)
		}
		if !bytes.Equal(slurp(t, fs, ManifestName(1)), data) {
			t.Fatal("file touched")
		}
	}
}

// A crash at every write operation of a commit, with every outcome of the
// disk: the directory holds the old state or the new one, and the new one
// once WriteManifest has returned.
func TestManifestCrash(t *testing.T) {
	for k := 1; ; k++ {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, uint64(k)))
			fs := NewMemFS()
			must(t, fs.MkdirAll("db"))
			must(t, WriteManifest(fs, "db", testManifest(1)))
			before := fs.Writes()
			fs.SetHook(crashAt(before+k, rng))
			err := WriteManifest(fs, "db", testManifest(2))
			if err == nil && fs.Writes() >= before+k {
				t.Fatal("a failed operation was not reported")
			}
			after := fs.CrashClone(rng)
			got, rerr := ReadManifest(after, "db")
			if rerr != nil {
				t.Fatalf("crash at %d, seed %d: %v", k, seed, rerr)
			}
			if err == nil && got.Generation != 2 {
				t.Fatalf("crash at %d, seed %d: acknowledged state lost", k, seed)
			}
			if d := cmp.Diff(testManifest(got.Generation), got); d != "" {
				t.Fatal(d)
			}
			if err == nil { // untouched
				return
			}
			// The next writer sweeps and commits over what is left.
			_, err = Sweep(after, "db", got)
			must(t, err)
			must(t, WriteManifest(after, "db", testManifest(got.Generation+1)))
			names, err := after.List("db")
			must(t, err)
			for _, name := range names {
				if strings.HasSuffix(name, tmpSuffix) {
					t.Fatal("left", name)
				}
			}
		}
	}
}

var errCrash = errors.New("crash")

// crashAt fails every operation from write operation k on; a write that is
// hit leaves some of its bytes.
func crashAt(k int, rng *rand.Rand) func(Op, string, int) error {
	return func(op Op, _ string, n int) error {
		switch {
		case n < k:
			return nil
		case n == k && op == OpWrite && rng != nil:
			return &PartialWrite{Bytes: rng.IntN(1 << rng.IntN(17)), Err: errCrash}
		}
		return errCrash
	}
}

// One operation fails and the program lives on: the error surfaces, no handle
// stays open, and the error tells whether the state is known.
func TestManifestErrors(t *testing.T) {
	for k := 1; ; k++ {
		fs := NewMemFS()
		must(t, WriteManifest(fs, "/", testManifest(1)))
		n, hit := 0, OpLock
		fs.SetHook(func(op Op, _ string, _ int) error {
			if n++; n == k {
				hit = op
				return errCrash
			}
			return nil
		})
		err := WriteManifest(fs, "/", testManifest(2))
		fs.SetHook(nil)
		if hit == OpLock {
			must(t, err)
			return
		}
		unknown := hit == OpSync || hit == OpSyncDir || hit == OpRename
		if !errors.Is(err, errCrash) || errors.Is(err, ErrReadOnly) != unknown || hit != OpClose && fs.Handles() != 0 {
			t.Fatalf("op %d (%v): %v, %d handles", k, hit, err, fs.Handles())
		}
		if !unknown {
			if m, err := ReadManifest(fs, "/"); err != nil || m.Generation != 1 {
				t.Fatal(m, err)
			}
			must(t, WriteManifest(fs, "/", testManifest(2)))
		}
	}
}

func TestFileNames(t *testing.T) {
	for name, want := range map[string]FileName{
		LockName:                         {Kind: FileLock},
		WALName(0xab):                    {Kind: FileWAL, Number: 0xab},
		SegmentName(1<<64 - 1):           {Kind: FileSegment, Number: 1<<64 - 1},
		TombstoneName(2, 3):              {Kind: FileTombstone, Number: 2, Generation: 3},
		ManifestName(9):                  {Kind: FileManifest, Generation: 9},
		ManifestName(9) + ".tmp":         {Kind: FileTemp, Generation: 9},
		TombstoneName(2, 3) + ".tmp":     {Kind: FileTemp, Number: 2, Generation: 3},
		WALName(1) + ".tmp":              {},
		ManifestName(9) + ".tmp.tmp":     {},
		"MANIFEST-1":                     {},
		"MANIFEST-00000000000000AB":      {},
		"MANIFEST-+00000000000000b":      {},
		"seg-0000000000000001.qry ":      {},
		"seg-0000000000000001.2.del":     {},
		"wal-00000000000000001.log":      {},
		".tmp-123":                       {},
		"":                               {},
		"seg-0000000000000001_0000.del":  {},
		strings.ToUpper(ManifestName(1)): {},
	} {
		if got := ParseFileName(name); name != strings.ToUpper(ManifestName(1)) && got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if (WALName(a) < WALName(b)) != (a < b) || ParseFileName(TombstoneName(a, b)) != (FileName{FileTombstone, a, b}) {
			t.Fatal(a, b)
		}
	})
}

// B08: leftovers of ours go, the rest stays and is reported.
func TestB08Sweep(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		m := testManifest(5)
		must(t, WriteManifest(fs, dir, testManifest(4)))
		must(t, WriteManifest(fs, dir, m))
		ours := []string{SegmentName(2), TombstoneName(3, 4), TombstoneName(1, 5), WALName(299), ManifestName(4), ManifestName(5) + ".tmp",
			ManifestName(6) + ".tmp", TombstoneName(3, 6) + ".tmp"}
		live := []string{SegmentName(3), SegmentName(1), TombstoneName(3, 5), WALName(300), WALName(301), LockName}
		unknown := []string{".tmp-123", "x.seg.tmp", ".DS_Store", "notes.txt"}
		for _, name := range slices.Concat(ours, live, unknown) {
			if name != ManifestName(4) {
				writeFile(t, fs, filepath.Join(dir, name), []byte(name))
			}
		}
		must(t, fs.MkdirAll(filepath.Join(dir, "empty")))
		must(t, fs.MkdirAll(filepath.Join(dir, SegmentName(99)))) // a directory is never ours
		r, err := Sweep(fs, dir, m)
		must(t, err)
		unknown = append(unknown, "empty/", SegmentName(99)+"/")
		live = append(live, ManifestName(5))
		slices.Sort(ours)
		slices.Sort(r.Removed)
		slices.Sort(unknown)
		slices.Sort(r.Unknown)
		if !slices.Equal(r.Removed, ours) || !slices.Equal(r.Unknown, unknown) || len(r.Kept) != 0 {
			t.Fatalf("%+v", r)
		}
		names, err := fs.List(dir)
		must(t, err)
		want := slices.Concat(live, unknown)
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Fatalf("%q\nwant %q", names, want)
		}
		got, err := ReadManifest(fs, dir)
		if err != nil || got.Generation != 5 {
			t.Fatal(got, err)
		}
	})
}

func TestTombstones(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		for i, payload := range [][]byte{nil, {1, 2, 3}, randomBytes(1, 100_000)} {
			g := uint64(i + 1)
			e, err := WriteTombstones(fs, dir, 7, g, payload, 3)
			must(t, err)
			if e.Generation != g || e.Count != 3 || e.Size != int64(len(payload)+envelopeSize) {
				t.Fatal(e)
			}
			got, err := ReadTombstones(fs, dir, 7, e)
			if err != nil || !bytes.Equal(got, payload) {
				t.Fatal(err)
			}
			bad := e
			bad.Hash++
			name := TombstoneName(7, g)
			if _, err := ReadTombstones(fs, dir, 7, bad); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Fatal(err)
			}
			bad.Size++
			if _, err := ReadTombstones(fs, dir, 7, bad); !errors.Is(err, ErrCorrupt) ||
				!strings.Contains(err.Error(), fmt.Sprintf("want %d bytes, have %d", bad.Size, e.Size)) {
				t.Fatal(err)
			}
			bad.Generation += 9
			if _, err := ReadTombstones(fs, dir, 7, bad); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
		}
		if _, err := WriteTombstones(fs, dir, 7, 0, nil, 0); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	})
}

// A reader beside a writer: the newest manifest is replaced and removed
// between being listed and being opened.
func TestReadManifestRace(t *testing.T) {
	fs := NewMemFS()
	must(t, WriteManifest(fs, "/", testManifest(1)))
	g := uint64(1)
	fs.SetHook(func(op Op, name string, _ int) error {
		if op == OpOpen && strings.HasSuffix(name, ManifestName(g)) && g < 4 {
			g++
			c := fs.hook
			fs.SetHook(nil)
			must(t, WriteManifest(fs, "/", testManifest(g)))
			must(t, fs.Remove(ManifestName(g-1)))
			fs.SetHook(c)
		}
		return nil
	})
	m, err := ReadManifest(fs, "/")
	if err != nil || m.Generation != 4 {
		t.Fatal(m, err)
	}
}
