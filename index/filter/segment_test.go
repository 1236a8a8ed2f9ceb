package filter

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/quarrysearch/quarry/storage"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func identity(n int) []uint32 {
	m := make([]uint32, n)
	for i := range m {
		m[i] = uint32(i)
	}
	return m
}

// A merge writes the bytes that a builder writes for the surviving rows.
func TestMergeEqualsBuild(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		schema := genSchema().Draw(r, "schema")
		rows := genRows(r, schema, 30)
		n := rapid.IntRange(1, 4).Draw(r, "inputs")
		parts := make([][]row, n)
		maps := make([][]uint32, n)
		var kept []row
		for _, row := range rows {
			in := rapid.IntRange(0, n-1).Draw(r, "input")
			to := Dropped
			if rapid.IntRange(0, 3).Draw(r, "dropped") > 0 {
				to = uint32(len(kept))
				kept = append(kept, row)
			}
			parts[in] = append(parts[in], row)
			maps[in] = append(maps[in], to)
		}
		inputs := make([]MergeInput, n)
		for i := range inputs {
			inputs[i] = MergeInput{segment(r, parts[i]), maps[i]}
		}
		got := sections{}
		if err := Merge(got.create, inputs, uint32(len(kept))); err != nil {
			r.Fatalf("merge: %v", err)
		}
		sameSections(r, got, build(r, kept))
	})
}

func sameSections(t fataler, got, want sections) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Fatalf("sections %v, want %v", g, w)
	}
	for name := range want {
		if !bytes.Equal(got[name].Bytes(), want[name].Bytes()) {
			t.Fatalf("section %q differs:\n%s\nwant\n%s", name, hex.Dump(got[name].Bytes()), hex.Dump(want[name].Bytes()))
		}
	}
}

func TestMergeLarge(t *testing.T) {
	rows := largeRows(20000, 6)
	var parts [3][]row
	var maps [3][]uint32
	for i, r := range rows {
		parts[i%3] = append(parts[i%3], r)
		maps[i%3] = append(maps[i%3], uint32(i))
	}
	inputs := []MergeInput{{segment(t, parts[2]), maps[2]}, {segment(t, parts[0]), maps[0]}, {segment(t, parts[1]), maps[1]}}
	got := sections{}
	if err := Merge(got.create, inputs, 20000); err != nil {
		t.Fatal(err)
	}
	sameSections(t, got, build(t, rows))
}

func TestMergeRefusals(t *testing.T) {
	a := segment(t, []row{{"f": keywordValue("a")}})
	b := segment(t, []row{{"f": numberValue(Int64, 1)}})
	none := sections{}
	for _, c := range []struct {
		inputs []MergeInput
		want   error
	}{
		{[]MergeInput{{a, []uint32{0}}, {b, []uint32{1}}}, storage.ErrSchema},
		{[]MergeInput{{a, []uint32{0}}, {a, []uint32{0}}}, storage.ErrInvalid},
		{[]MergeInput{{a, []uint32{2}}}, storage.ErrInvalid},
		{[]MergeInput{{a, nil}}, storage.ErrInvalid},
		{[]MergeInput{{nil, nil}}, storage.ErrInvalid},
	} {
		if err := Merge(none.create, c.inputs, 2); !errors.Is(err, c.want) {
			t.Errorf("%v: %v", c.inputs, err)
		}
	}
	// Types that no surviving doc holds do not clash.
	if err := Merge(sections{}.create, []MergeInput{{a, []uint32{0}}, {b, []uint32{Dropped}}}, 1); err != nil {
		t.Error(err)
	}
}

func TestBuilderRefusals(t *testing.T) {
	b := NewBuilder()
	if err := b.Add(3, "f", keywordValue("a")); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(3, "f", keywordValue("a")); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("doc twice: %v", err)
	}
	if err := b.Add(4, "f", numberValue(Int64, 1)); !errors.Is(err, storage.ErrSchema) {
		t.Errorf("other type: %v", err)
	}
	if err := b.Add(4, "", Null(0)); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no name: %v", err)
	}
	if err := b.Write(sections{}.create, 3); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("too few docs: %v", err)
	}
}

// What was added is read back, lists as sets.
func TestSegmentValue(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		schema := genSchema().Draw(r, "schema")
		rows := genRows(r, schema, 20)
		seg := segment(r, rows)
		if err := seg.Verify(context.Background()); err != nil {
			r.Fatalf("verify: %v", err)
		}
		for doc, row := range rows {
			for name, want := range row {
				got, err := seg.Value(name, uint32(doc))
				if err != nil {
					r.Fatal(err)
				}
				if got.form != want.form && got.Len() != 1 || !slices.Equal(sortedSet(got), sortedSet(want)) {
					r.Fatalf("doc %d %q: got %v, want %v", doc, name, got, want)
				}
			}
		}
	})
}

func sortedSet(v Value) []string {
	var out []string
	for e := range v.Elements() {
		out = append(out, e.literal())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// goldenRows is a tiny segment with every part in use.
func goldenRows() []row {
	list := func(ss ...string) Value {
		v, _ := Normalize(ss, Keyword)
		return v
	}
	return []row{
		{"tag": list("ab", "a"), "n": numberValue(Int64, -1)},
		{"tag": Null(Keyword)},
		{"tag": list(), "n": numberValue(Int64, 7)},
		{},
		{"tag": keywordValue("abc"), "n": numberValue(Int64, -1)},
	}
}

// The bytes of a tiny segment never change without a new format version.
func TestGolden(t *testing.T) {
	s := build(t, goldenRows())
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&out, "section %q\n%s\n", name, hex.Dump(s[name].Bytes()))
	}
	path := filepath.Join("testdata", "segment.golden")
	if *rewrite {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := must(os.ReadFile(path))(t)
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("the format changed; now\n%s", out.Bytes())
	}
}

func TestOpenRefusals(t *testing.T) {
	s := build(t, goldenRows())
	if _, err := Open(s.open, 6); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("other number of docs: %v", err)
	}
	missing := maps.Clone(s)
	delete(missing, "1")
	if _, err := Open(missing.open, 5); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("missing section: %v", err)
	}
	newer := maps.Clone(s)
	newer["fields"] = bytes.NewBuffer(append([]byte{9}, s["fields"].Bytes()[1:]...))
	if _, err := Open(newer.open, 5); !errors.Is(err, storage.ErrVersion) {
		t.Errorf("newer version: %v", err)
	}
}

// Every single bit flipped is found by Open or Verify, and nothing panics.
func TestFlippedBits(t *testing.T) {
	s := build(t, goldenRows())
	for name, b := range s {
		for bit := range b.Len() * 8 {
			bad := maps.Clone(s)
			data := bytes.Clone(b.Bytes())
			data[bit/8] ^= 1 << (bit % 8)
			bad[name] = bytes.NewBuffer(data)
			seg, err := Open(bad.open, 5)
			if err == nil {
				if bit%5 == 0 { // all bits of a byte in turn
					exercise(t, seg)
				}
				err = seg.Verify(context.Background())
			}
			// Only the text of names and keywords can change into another that is sound.
			if err == nil && build(t, readBack(t, seg)).equal(bad) {
				continue
			}
			if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
				t.Errorf("section %q bit %d: %v", name, bit, err)
			}
		}
	}
}

func (s sections) equal(o sections) bool {
	return maps.EqualFunc(s, o, func(a, b *bytes.Buffer) bool { return bytes.Equal(a.Bytes(), b.Bytes()) })
}

// readBack returns the rows of a segment.
func readBack(t fataler, seg *Segment) []row {
	rows := make([]row, seg.Docs())
	for doc := range rows {
		rows[doc] = row{}
		for name := range seg.Fields {
			v, err := seg.Value(name, uint32(doc))
			if err != nil {
				t.Fatalf("value: %v", err)
			}
			rows[doc][name] = v
		}
	}
	return rows
}

// exercise runs every reader; errors must be about damage.
func exercise(t fataler, seg *Segment) {
	t.Helper()
	check := func(err error) {
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("want ErrCorrupt, got %v", err)
		}
	}
	for name, typ := range seg.Fields {
		schema := func(string) (Type, bool) { return typ, true }
		fs := []Filter{Exists(name), IsNull(name), Not(IsEmpty(name))}
		switch typ {
		case Keyword:
			fs = append(fs, Eq(name, "ab"), Prefix(name, "a"), Gt(name, "a"), In(name, "a", "abc"), And(Eq(name, "a"), Gt(name, "")))
		case Int64, Float64:
			fs = append(fs, Eq(name, 7), Gt(name, -5), Lt(name, 3), And(Eq(name, 7), Gt(name, 0)))
		}
		for _, f := range fs {
			c, err := Compile(f, schema)
			if err != nil {
				t.Fatalf("compile: %v", err)
			}
			bm, err := c.Eval(context.Background(), seg, nil, seg.Docs())
			check(err)
			if err == nil {
				if err := bm.Validate(); err != nil && !bm.IsEmpty() {
					t.Fatalf("%s: unsound result: %v", f, err)
				}
				if !bm.IsEmpty() && bm.Maximum() >= seg.Docs() {
					t.Fatalf("%s: doc %d of %d", f, bm.Maximum(), seg.Docs())
				}
				facet := NewFacet(name)
				check(facet.Add(context.Background(), seg, bm))
				facet.Top(3)
			}
		}
		check(NewFacet(name).Add(context.Background(), seg, nil))
		for doc := range min(seg.Docs(), 16) {
			_, err := seg.Value(name, doc)
			check(err)
		}
	}
	check(Merge(sections{}.create, []MergeInput{{seg, identity(int(seg.Docs()))}}, seg.Docs()))
	check(seg.Verify(context.Background()))
}

// FuzzOpen changes one section of a sound segment, by a patch that is xored
// over it and a cut at its end; whatever opens must answer or say ErrCorrupt.
// The patch, not the section, is what is fuzzed, so that inputs stay small.
func FuzzOpen(f *testing.F) {
	base := build(f, append(goldenRows(), largeRows(200, 8)...))
	const docs = 205
	names := slices.Sorted(maps.Keys(base))
	for i, name := range names {
		size := base[name].Len()
		for _, at := range []int{0, size / 2, max(0, size-footerSize), size - 20} {
			f.Add(uint8(i), uint32(max(0, at)), []byte{1, 0, 0, 0x80}, uint16(0))
		}
		f.Add(uint8(i), uint32(0), []byte{}, uint16(8))
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint32, patch []byte, cut uint16) {
		s := maps.Clone(base)
		name := names[int(which)%len(names)]
		data := bytes.Clone(s[name].Bytes())
		for i, x := range patch {
			data[(int(at)+i)%len(data)] ^= x
		}
		s[name] = bytes.NewBuffer(data[:len(data)-int(cut)%(len(data)+1)])
		seg, err := Open(s.open, docs)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
				t.Fatalf("%v", err)
			}
			return
		}
		exercise(t, seg)
	})
}

// Stored bitmaps of every shape pass the check, and are added to a window as
// the library would add them.
func TestStoredBitmaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	const docs = 200000
	for i := range 60 {
		bm := roaring.New()
		for key := range uint32(3) {
			switch rng.IntN(4) {
			case 0: // an array
				for range rng.IntN(200) {
					bm.Add(key<<16 + rng.Uint32N(60000))
				}
			case 1: // words
				for range 6000 {
					bm.Add(key<<16 + rng.Uint32N(60000))
				}
			case 2: // runs, some a whole container
				for range 1 + rng.IntN(20) {
					at := uint64(key)<<16 + uint64(rng.IntN(60000))
					bm.AddRange(at, at+uint64(rng.IntN(500)))
				}
				if rng.IntN(3) == 0 {
					bm.AddRange(uint64(key)<<16, uint64(key+1)<<16)
				}
			}
		}
		bm.RunOptimize()
		b := must(bm.ToBytes())(t)
		n := uint32(bm.GetCardinality())
		if err := checkBitmap(b, docs, n); err != nil {
			t.Fatalf("bitmap %d %v: %v", i, bm.Stats(), err)
		}
		if checkBitmap(b, docs, n+1) == nil || n > 0 && checkBitmap(b, bm.Maximum(), n) == nil {
			t.Fatalf("bitmap %d: a wrong count or a doc beyond the last is accepted", i)
		}
		w := borrowWindow(docs)
		if err := orBitmap(w.words, b); err != nil {
			t.Fatal(err)
		}
		if got := roaring.FromDense(w.words, true); !got.Equals(bm) {
			t.Fatalf("bitmap %d %v: the window differs", i, bm.Stats())
		}
		returnWindow(w)
		for cut := range len(b) {
			if cut < 300 && checkBitmap(b[:cut], docs, n) == nil {
				t.Fatalf("bitmap %d cut to %d bytes is accepted", i, cut)
			}
		}
	}
}

// Numbers of containers that an int may not hold, or not four times.
func TestBitmapOfTooManyContainers(t *testing.T) {
	for _, n := range []uint32{1<<16 + 1, 1 << 30, 1 << 31, 1<<32 - 5, 1<<32 - 1} {
		b := binary.LittleEndian.AppendUint32(nil, cookiePure)
		b = append(binary.LittleEndian.AppendUint32(b, n), make([]byte, 40)...)
		if checkBitmap(b, 100, 0) == nil {
			t.Errorf("%d containers in %d bytes are accepted", n, len(b))
		}
	}
}

// Sections that do not lie on eight bytes read the same.
func TestUnaligned(t *testing.T) {
	rows := largeRows(500, 10)
	s := build(t, rows)
	seg, err := Open(func(name string) ([]byte, bool) {
		b, ok := s.open(name)
		odd := append(make([]byte, 1, len(b)+1), b...)
		return odd[1:], ok
	}, 500)
	if err != nil {
		t.Fatal(err)
	}
	if err := seg.Verify(context.Background()); err != nil {
		t.Error(err)
	}
	aligned := must(Open(s.open, 500))(t)
	for name, typ := range seg.Fields {
		if got := aligned.field(name).typ; got != typ {
			t.Errorf("%s: %s and %s", name, got, typ)
		}
		a, b := NewFacet(name), NewFacet(name)
		if err := errors.Join(a.Add(context.Background(), seg, nil), b.Add(context.Background(), aligned, nil)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Top(-1), b.Top(-1)) {
			t.Errorf("%s differs", name)
		}
	}
}
