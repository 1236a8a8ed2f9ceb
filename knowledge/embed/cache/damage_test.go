package cache

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// After a power loss at any write, the cache opens, and every answer is right.
func TestCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	m := newModel(256)
	work := func(mem *storage.MemFS) *Cache {
		c, err := Open("/c", Options{FS: mem, MaxBytes: minBytes})
		if err != nil {
			return nil
		}
		for from := 0; from < 1500; from += 50 {
			get(t, c, m, embed.Passage, texts(from, from+50))
		}
		return c
	}
	mem := storage.NewMemFS()
	var crashed []*storage.MemFS
	mem.SetHook(func(op storage.Op, _ string, n int) error {
		if op.IsWrite() && rng.IntN(2) == 0 && len(crashed) < 15 {
			crashed = append(crashed, mem.CrashClone(rng))
		}
		return nil
	})
	work(mem).Close()
	if len(crashed) < 15 {
		t.Fatalf("only %d crashes", len(crashed))
	}
	for _, after := range crashed {
		c := work(after)
		if c == nil {
			t.Fatal("did not open")
		}
		if err := c.Close(); err != nil || after.Handles() != 0 {
			t.Errorf("%v, %d handles left", err, after.Handles())
		}
	}
}

// A file system that fails at any operation is never an error of Embed.
func TestFaults(t *testing.T) {
	m := newModel(256)
	for _, fault := range []error{errors.New("broken"), syscall.ENOSPC, &storage.PartialWrite{Bytes: 700, Err: syscall.ENOSPC}} {
		for at := 3; at < 30; at += 3 {
			mem := storage.NewMemFS()
			c, err := Open("/c", Options{FS: mem, MaxBytes: minBytes})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			mem.SetHook(func(op storage.Op, _ string, _ int) error {
				n++
				if n >= at && n < at+5 && op != storage.OpClose {
					return fault
				}
				return nil
			})
			for from := 0; from < 600; from += 60 {
				get(t, c, m, embed.Passage, texts(from, from+60))
				get(t, c, m, embed.Passage, texts(from, from+60))
			}
			mem.SetHook(nil)
			c.Close()
			c, err = Open("/c", Options{FS: mem})
			if err != nil {
				t.Fatal(err)
			}
			get(t, c, m, embed.Passage, texts(0, 600))
			c.Close()
			if mem.Handles() != 0 {
				t.Fatalf("%d handles left", mem.Handles())
			}
		}
	}
}

// Every flipped byte costs at most the records behind it, and no answer.
func TestDamage(t *testing.T) {
	m := newModel(8)
	mem := storage.NewMemFS()
	c, err := Open("/c", Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	get(t, c, m, embed.Passage, texts(0, 10))
	c.Close()
	path := filepath.Join("/c", logName(0))
	data, err := mem.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		broken := slices.Clone(data)
		broken[i] ^= 1 << (i % 8)
		c, mem := openBytes(t, broken)
		before := m.asked()
		get(t, c, m, embed.Passage, texts(0, 10))
		lost := 10
		if i >= headerSize {
			lost = 10 - (i-headerSize)/recordSize(8)
		}
		if got := m.asked() - before; got != lost || len(c.Notes()) != 1 || c.Stats().Damaged != 1 {
			t.Fatalf("byte %d: %d embedded again, want %d; notes %q", i, got, lost, c.Notes())
		}
		c.Close()
		if _, err := mem.ReadFile(path); (err == nil) != (i >= headerSize || i >= 8 && i < 16) { // versions are left alone
			t.Errorf("byte %d: the file is there: %v", i, err == nil)
		}
	}
	for n := range data {
		c, _ := openBytes(t, data[:n])
		get(t, c, m, embed.Passage, texts(0, 10))
		c.Close()
	}
	// Damage that comes after Open is found by the read.
	mem = storage.NewMemFS()
	mem.MkdirAll("/c")
	mem.WriteFile(path, data)
	c, err = Open("/c", Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	broken := slices.Clone(data)
	broken[headerSize+recordSize(8)+40]++
	c.logs[0].file.Close()
	mem.WriteFile(path+"x", broken)
	if c.logs[0].file, err = mem.Open(path + "x"); err != nil {
		t.Fatal(err)
	}
	before := m.asked()
	get(t, c, m, embed.Passage, texts(0, 10))
	if m.asked() != before+1 || c.Stats().Damaged != 1 {
		t.Errorf("%d embedded again, %+v", m.asked()-before, c.Stats())
	}
}

func openBytes(t *testing.T, log []byte) (*Cache, *storage.MemFS) {
	t.Helper()
	mem := storage.NewMemFS()
	if err := errors.Join(mem.MkdirAll("/c"), mem.WriteFile(filepath.Join("/c", logName(0)), log)); err != nil {
		t.Fatal(err)
	}
	c, err := Open("/c", Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	return c, mem
}

// The bytes of format version 1, for ever.
func TestGolden(t *testing.T) {
	b := appendHeader(nil, 3)
	sc := scope(embed.Identity{Name: "m", Revision: "1", Dim: 2, Metric: "cosine", QueryPrefix: "query: ", Tokenizer: "t"}, embed.Query)
	b = appendRecord(b, keyOf(sc, "日本"), []float32{.6, .8}, false)
	b = appendRecord(b, keyOf(sc, "long"), []float32{-1, 0}, true)
	var dump strings.Builder
	d := hex.Dumper(&dump)
	d.Write(b)
	d.Close()
	path := filepath.Join("testdata", "log.hex")
	if os.Getenv("QUARRY_REWRITE") != "" {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(dump.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), dump.String()); d != "" {
		t.Error(d)
	}
}

func FuzzLog(f *testing.F) {
	b := appendHeader(nil, 0)
	b = appendRecord(b, key{1}, []float32{1, 2, 3}, true)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(append(slices.Clone(b), b[headerSize:]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, seal := range []bool{false, true} {
			if seal && len(data) > headerSize { // past the checksums
				data = append(appendHeader(nil, 0), data[headerSize:]...)
			}
			c, _ := openBytes(t, data)
			total := int64(0)
			for k, e := range c.entries {
				v := make([]float32, e.dim)
				if _, ok := c.get(k, v); !ok {
					t.Fatalf("entry at %d cannot be read", e.off)
				}
				total += int64(recordSize(len(v)))
			}
			if total > int64(len(data)) {
				t.Fatalf("%d bytes of entries in %d bytes", total, len(data))
			}
			c.Close()
		}
	})
}
