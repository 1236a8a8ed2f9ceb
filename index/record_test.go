package index

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s\nA format may change only with its version.", name, got, want)
	}
}

func goldenBatch(t testing.TB) (*schema, *prepared) {
	sc, err := newSchema(*testSchema(), false)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch()
	b.Put(Document{
		ID: "b", Text: map[string]string{"title": "Dogs", "hidden": "no"},
		Vectors: map[string][]float32{"v": {1, 2, 3, 4}},
		Meta:    map[string]any{"n": -5, "lang": "de", "f": 0.5, "l": []bool{true, false}, "nil": nil},
	})
	b.Put(Document{ID: "a"})
	b.Delete("z")
	p, err := prepare(bg, sc, b.ops)
	if err != nil {
		t.Fatal(err)
	}
	return sc, p
}

func TestGoldenFormats(t *testing.T) {
	sc, p := goldenBatch(t)
	record := appendIDs(p.appendRecord(nil), []string{"where"})
	golden(t, "record.hex", []byte(hex.Dump(record)))
	grown, err := sc.grow(p.grown)
	if err != nil {
		t.Fatal(err)
	}
	b, err := grown.encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", append(b, '\n'))
	again, err := decodeSchema("test", b)
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := again.encode(); !bytes.Equal(b, c) {
		t.Errorf("schema read back: %s", c)
	}
}

func FuzzRecord(f *testing.F) {
	sc, p := goldenBatch(f)
	f.Add(appendIDs(p.appendRecord(nil), []string{"where"}))
	f.Add([]byte{recordVersion, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeRecord(sc, b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if grown, err := sc.grow(p.grown); err == nil {
			_ = p.checkRecord(grown)
		}
	})
}

func FuzzSchema(f *testing.F) {
	sc, p := goldenBatch(f)
	grown, _ := sc.grow(p.grown)
	b, _ := grown.encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSchema("fuzz", b)
		if err != nil {
			return
		}
		c, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeSchema("again", c); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzTombstones(f *testing.F) {
	b, _ := roaring.BitmapOf(1, 5, 70_000).ToBytes()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeTombstones("fuzz", b, 100_000)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if !d.IsEmpty() && d.Maximum() >= 100_000 {
			t.Fatal(d.Maximum())
		}
	})
}
