package storage

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// sections is a place for sections in memory.
type sections map[string]*bytes.Buffer

func (s sections) create(name string) (io.Writer, error) {
	s[name] = new(bytes.Buffer)
	return s[name], nil
}

func (s sections) section(name string) ([]byte, bool) {
	b, ok := s[name]
	if !ok {
		return nil, false
	}
	return b.Bytes(), true
}

func writeDocs(t testing.TB, docs [][]byte, mode DocMode) sections {
	t.Helper()
	s := sections{}
	w, err := NewDocWriter(s.create, mode)
	must(t, err)
	for _, d := range docs {
		must(t, w.Add(d))
	}
	must(t, w.Finish())
	return s
}

// testDocs returns n documents of words, a few empty, a few large.
func testDocs(seed uint64, n, size int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 5))
	words := strings.Fields("storage engine segment manifest record block commit crash sync the of and a in to is " +
		"retrieval index vector graph query term score filter Straße 漢字 naïve")
	docs := make([][]byte, n)
	for i := range docs {
		var b []byte
		want := rng.IntN(2*size + 1)
		switch rng.IntN(50) {
		case 0:
			want = 0
		case 1:
			want *= 40
		}
		for len(b) < want {
			b = append(b, words[rng.IntN(len(words))]...)
			b = fmt.Appendf(b, " %d ", rng.IntN(100))
		}
		docs[i] = b
	}
	return docs
}

func bothModes(t *testing.T, test func(t *testing.T, mode DocMode)) {
	t.Run("zstd", func(t *testing.T) { test(t, DocZstd) })
	t.Run("raw", func(t *testing.T) { test(t, DocRaw) })
}

func TestDocs(t *testing.T) {
	bothModes(t, func(t *testing.T, mode DocMode) {
		for _, docs := range [][][]byte{
			nil, {nil}, {[]byte("x")}, make([][]byte, 5000), testDocs(1, 3000, 300), testDocs(2, 40, 60000),
			{bytes.Repeat([]byte{'a'}, 5<<20), []byte("after")}, {randomBytes(3, 100_000), nil, randomBytes(4, 20)},
		} {
			s := writeDocs(t, docs, mode)
			d, err := OpenDocs(s.section, len(docs))
			must(t, err)
			if d.Len() != len(docs) {
				t.Fatal(d.Len())
			}
			c := d.Cursor()
			for i, want := range docs {
				got, err := c.Get(uint32(i))
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("cursor: doc %d: %v", i, err)
				}
			}
			rng := rand.New(rand.NewPCG(9, 9))
			buf := []byte("keep")
			for range min(len(docs), 500) {
				i := rng.IntN(len(docs))
				buf, err = d.Get(uint32(i), buf[:4])
				if err != nil || string(buf[:4]) != "keep" || !bytes.Equal(buf[4:], docs[i]) {
					t.Fatalf("doc %d: %v", i, err)
				}
			}
			if _, err := d.Get(uint32(len(docs)), nil); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			if _, err := OpenDocs(s.section, len(docs)+1); !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		}
	})
}

// The same documents give the same bytes from a fresh encoder and from one
// that has seen others.
func TestDocsDeterministic(t *testing.T) {
	docs := testDocs(7, 500, 400)
	first := writeDocs(t, docs, DocZstd)
	for i := range 4 {
		writeDocs(t, testDocs(uint64(i), 100, 5000), DocZstd)
		again := writeDocs(t, docs, DocZstd)
		for name := range first {
			if !bytes.Equal(first[name].Bytes(), again[name].Bytes()) {
				t.Fatal("bytes differ in section", name)
			}
		}
	}
}

func TestDocsConcurrent(t *testing.T) {
	docs := testDocs(11, 2000, 200)
	d, err := OpenDocs(writeDocs(t, docs, DocZstd).section, len(docs))
	must(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			var buf []byte
			for range 300 {
				i := rng.IntN(len(docs))
				var err error
				buf, err = d.Get(uint32(i), buf[:0])
				if err != nil || !bytes.Equal(buf, docs[i]) {
					t.Errorf("doc %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestDocsTooLarge(t *testing.T) {
	s := sections{}
	w, err := NewDocWriter(s.create, DocRaw)
	must(t, err)
	must(t, w.Add([]byte("a")))
	if err := w.Add(make([]byte, MaxStoredDoc+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	must(t, w.Add([]byte("b"))) // still usable
	must(t, w.Finish())
	d, err := OpenDocs(s.section, 2)
	must(t, err)
	if b, err := d.Get(1, nil); string(b) != "b" || err != nil {
		t.Fatal(b, err)
	}
}

// A document is compressed however much is left of it: its size times the
// largest ratio may exceed an int.
func TestDocsLarge(t *testing.T) {
	doc := randomBytes(6, 6<<20)
	for i := 0; i < len(doc); i += 256 {
		copy(doc[i+128:i+256], doc[i:])
	}
	s := writeDocs(t, [][]byte{doc}, DocZstd)
	if n := s["data"].Len(); n < 2<<20 || n > 4<<20 {
		t.Fatalf("%d bytes of %d", n, len(doc))
	}
	d, err := OpenDocs(s.section, 1)
	must(t, err)
	if b, err := d.Get(0, nil); err != nil || !bytes.Equal(b, doc) {
		t.Fatal(err)
	}
}

// A flipped bit gives the right bytes or ErrCorrupt. In raw mode the bytes of
// a document are not covered: the segment's checksums are.
func TestDocsFlips(t *testing.T) {
	docs := testDocs(3, 60, 900)
	s := writeDocs(t, docs, DocZstd)
	for name, buf := range s {
		b := buf.Bytes()
		step := max(len(b)/2000, 1)
		for i := 0; i < len(b); i += step {
			b[i] ^= 1 << (i % 8)
			d, err := OpenDocs(s.section, len(docs))
			for doc := 0; err == nil && doc < len(docs); doc++ {
				var got []byte
				if got, err = d.Get(uint32(doc), nil); err == nil && !bytes.Equal(got, docs[doc]) {
					t.Fatalf("%s byte %d: wrong bytes of doc %d", name, i, doc)
				}
			}
			if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatal(err)
			}
			b[i] ^= 1 << (i % 8)
		}
	}
}

// A block that claims to expand without measure is refused before memory is
// taken for it.
func TestDocsBomb(t *testing.T) {
	s := writeDocs(t, testDocs(3, 10, 100), DocZstd)
	b := s["index"].Bytes()
	binary.LittleEndian.PutUint32(b[docsHeaderSize+12:], docMaxBlock|docBlockZstd)
	d, err := OpenDocs(s.section, 10)
	must(t, err)
	if _, err := d.Get(0, nil); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	// The same through the frame itself: it holds more than the index says.
	e, err := zstd.NewWriter(nil)
	must(t, err)
	defer e.Close()
	bomb := e.EncodeAll(make([]byte, 8<<20), nil)
	blk := docBlock{block: -1}
	if err := blk.decode(bomb, 1000); err == nil {
		t.Fatal("decoded beyond the limit")
	}
	if cap(blk.buf) > 1<<20 {
		t.Fatalf("took %d bytes", cap(blk.buf))
	}
}

func TestDocsRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		docs := rapid.SliceOfN(rapid.SliceOfN(rapid.ByteRange('a', 'd'), 0, 3000), 0, 60).Draw(rt, "docs")
		mode := DocMode(rapid.IntRange(0, 1).Draw(rt, "mode"))
		d, err := OpenDocs(writeDocs(t, docs, mode).section, len(docs))
		if err != nil {
			rt.Fatal(err)
		}
		c := d.Cursor()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, max(len(docs)-1, 0)), 0, 50).Draw(rt, "gets") {
			if len(docs) == 0 {
				break
			}
			a, e1 := d.Get(uint32(i), nil)
			b, e2 := c.Get(uint32(i))
			if e1 != nil || e2 != nil || !bytes.Equal(a, docs[i]) || !bytes.Equal(b, docs[i]) {
				rt.Fatalf("doc %d: %v %v", i, e1, e2)
			}
		}
	})
}

func TestDocsAllocs(t *testing.T) {
	docs := testDocs(1, 2000, 300)
	d, err := OpenDocs(writeDocs(t, docs, DocZstd).section, len(docs))
	must(t, err)
	c := d.Cursor()
	i := uint32(0)
	// The large documents have blocks above docKeep only in Get.
	allocs := testing.AllocsPerRun(1500, func() {
		if _, err := c.Get(i); err != nil {
			t.Fatal(err)
		}
		i++
	})
	if allocs > 0 {
		t.Errorf("cursor: %v allocations a document", allocs)
	}
}

// realDocs returns a staged collection, one JSON document a line.
func realDocs(t testing.TB, name string) [][]byte {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	f, err := os.Open(filepath.Join(dir, name))
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 64<<20)
	var docs [][]byte
	for sc.Scan() {
		docs = append(docs, bytes.Clone(sc.Bytes()))
	}
	must(t, sc.Err())
	return docs
}

func BenchmarkDocs(b *testing.B) {
	docs := testDocs(1, 4000, 500)
	if os.Getenv("QUARRY_DATA") != "" {
		docs = realDocs(b, "nfcorpus/corpus.jsonl.gz")
	}
	raw := 0
	for _, d := range docs {
		raw += len(d)
	}
	for _, mode := range []DocMode{DocZstd, DocRaw} {
		name := [...]string{"zstd", "raw"}[mode]
		s := writeDocs(b, docs, mode)
		d, err := OpenDocs(s.section, len(docs))
		must(b, err)
		b.Run(name+"/write", func(b *testing.B) {
			b.SetBytes(int64(raw))
			for b.Loop() {
				writeDocs(b, docs, mode)
			}
			b.ReportMetric(float64(raw)/float64(s["data"].Len()+s["index"].Len()), "ratio")
		})
		b.Run(name+"/get", func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf, err = d.Get(rng.Uint32N(uint32(len(docs))), buf[:0])
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/cursor", func(b *testing.B) {
			c, i := d.Cursor(), uint32(0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Get(i); err != nil {
					b.Fatal(err)
				}
				if i++; i == uint32(len(docs)) {
					i = 0
				}
			}
		})
	}
}
