package segment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

var ctx = context.Background()

func testSchema(t testing.TB) *Schema {
	t.Helper()
	s := &Schema{
		Text:    map[string]*TextField{},
		Vectors: map[string]*VectorField{},
		Sparse:  map[string]bool{"s": true, "s/t": true},
		Meta:    map[string]filter.Type{"n": filter.Int64, "tag": filter.Keyword},
	}
	for name, analyzer := range map[string]string{"title": "english", "a/b c": "standard", strings.Repeat("長", 40): "standard"} {
		a, err := analysis.New(analyzer)
		if err != nil {
			t.Fatal(err)
		}
		s.Text[name] = &TextField{Name: name, Analyzer: a, NotStored: name == "a/b c"}
	}
	s.Vectors["v"] = &VectorField{Name: "v", Options: hnsw.Options{Dim: 8, Metric: quant.Cosine, M: 8, EfConstruction: 40}}
	s.Vectors["w"] = &VectorField{Name: "w", Options: hnsw.Options{Dim: 4, Metric: quant.L2}}
	return s
}

var words = strings.Fields("one two three four five six seven eight nine ten running runner épée straße 漢字漢 foo_bar")

func randomDocs(t testing.TB, r *rand.Rand, sc *Schema, n int, prefix string) []Doc {
	docs := make([]Doc, n)
	for i := range docs {
		d := Doc{ID: fmt.Sprintf("%s%06d", prefix, i*3+r.IntN(3))}
		for name, f := range sc.Text {
			if r.IntN(4) > 0 {
				var text []string
				for range r.IntN(20) {
					text = append(text, words[r.IntN(len(words))])
				}
				d.Texts = append(d.Texts, Text{name, strings.Join(text, " "), f.NotStored})
			}
		}
		slices.SortFunc(d.Texts, func(a, b Text) int { return cmp.Compare(a.Field, b.Field) })
		for _, name := range []string{"v", "w"} {
			if r.IntN(3) > 0 {
				v := make([]float32, sc.Vectors[name].Options.Dim)
				for j := range v {
					v[j] = r.Float32() + 0.1
				}
				d.Vectors = append(d.Vectors, Vector{name, v})
			}
		}
		if r.IntN(3) > 0 {
			v, err := filter.Normalize(r.IntN(10), filter.Int64)
			if err != nil {
				t.Fatal(err)
			}
			d.Metas = append(d.Metas, Meta{"n", v})
		}
		for _, name := range slices.Sorted(maps.Keys(sc.Sparse)) {
			if r.IntN(3) > 0 {
				v := sparse.Vector{}
				for term := r.Uint32N(40); term < 200; term += 1 + r.Uint32N(90) {
					v = append(v, sparse.Entry{Term: term, Weight: 0.01 + r.Float32()})
				}
				d.Sparse = append(d.Sparse, Sparse{name, v.Round()})
			}
		}
		d.Stored = AppendStored(nil, d.Texts, d.Metas, d.Sparse)
		docs[i] = d
	}
	return docs
}

func writeBytes(t testing.TB, write func(*storage.SegmentWriter) error) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := storage.NewSegmentWriter(&buf)
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func openBytes(t testing.TB, sc *Schema, b []byte) *Segment {
	t.Helper()
	f, err := storage.ParseSegment("test", b)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustWrite(t testing.TB, sc *Schema, docs []Doc, o Options) []byte {
	return writeBytes(t, func(w *storage.SegmentWriter) error { return Write(ctx, w, sc, docs, o) })
}

func TestWriteOpenVerify(t *testing.T) {
	sc := testSchema(t)
	for _, n := range []int{0, 1, 2, 63, 64, 65, 500} {
		for _, o := range []Options{{Memory: true}, {GraphMin: 50}} {
			docs := randomDocs(t, rand.New(rand.NewPCG(1, uint64(n))), sc, n, "id/")
			s := openBytes(t, sc, mustWrite(t, sc, docs, o))
			if err := s.Verify(ctx); err != nil {
				t.Fatalf("%d docs, %+v: %v", n, o, err)
			}
			var dd DocDecoder
			for i, d := range docs {
				if got := s.IDs.String(uint32(i)); got != d.ID {
					t.Fatalf("doc %d is %q, want %q", i, got, d.ID)
				}
				if doc, ok := s.IDs.Find(d.ID); !ok || doc != uint32(i) {
					t.Fatalf("find %q: %d %v", d.ID, doc, ok)
				}
				b, err := s.Stored.Get(uint32(i), nil)
				if err != nil || !bytes.Equal(b, d.Stored) {
					t.Fatalf("stored %d: %v", i, err)
				}
				got, err := dd.DecodeStored("test", b, nil)
				if err != nil || len(got.Metas) != len(d.Metas) || !reflect.DeepEqual(got.Sparse, d.Sparse) {
					t.Fatal(got, err)
				}
				for _, text := range got.Texts {
					if text.Field == "a/b c" {
						t.Fatal("text that is not to be stored is stored")
					}
				}
			}
		}
	}
}

// A segment without sparse vectors is one that earlier releases read.
func TestVersionIsTheLeast(t *testing.T) {
	sc := testSchema(t)
	docs := randomDocs(t, rand.New(rand.NewPCG(9, 9)), sc, 50, "id/")
	version := func() uint32 {
		head, _ := openBytes(t, sc, mustWrite(t, sc, docs, Options{})).File.Section("segment")
		return binary.LittleEndian.Uint32(head)
	}
	if v := version(); v != 2 {
		t.Errorf("with sparse vectors: version %d", v)
	}
	for i := range docs {
		docs[i].Sparse = nil
		docs[i].Stored = AppendStored(nil, docs[i].Texts, docs[i].Metas, nil)
	}
	if v := version(); v != 1 {
		t.Errorf("without sparse vectors: version %d", v)
	}
}

// A merge must write the bytes that Write would for the documents that live.
func TestMergeIsWrite(t *testing.T) {
	sc := testSchema(t)
	for round := range 6 {
		r := rand.New(rand.NewPCG(2, uint64(round)))
		var inputs []Input
		var live []Doc
		for i := range 1 + r.IntN(5) {
			docs := randomDocs(t, r, sc, r.IntN(200), []string{"", "x", "aa", "é", "0"}[i])
			deleted := roaring.New()
			for doc := range docs {
				if r.IntN(4) == 0 {
					deleted.Add(uint32(doc))
				} else {
					live = append(live, docs[doc])
				}
			}
			s := openBytes(t, sc, mustWrite(t, sc, docs, Options{Memory: r.IntN(2) == 0, GraphMin: 50}))
			inputs = append(inputs, Input{s, deleted})
		}
		sort.Slice(live, func(i, j int) bool { return live[i].ID < live[j].ID })
		o := Options{GraphMin: 100}
		var maps [][]uint32
		got := writeBytes(t, func(w *storage.SegmentWriter) (err error) {
			var n uint32
			if maps, n, err = Merge(ctx, w, sc, inputs, o); int(n) != len(live) {
				t.Errorf("%d docs, want %d", n, len(live))
			}
			return err
		})
		s := openBytes(t, sc, got)
		if err := s.Verify(ctx); err != nil {
			t.Fatal(err)
		}
		for i, m := range maps {
			for doc, to := range m {
				if dead := inputs[i].Deleted.Contains(uint32(doc)); dead != (to == Dropped) {
					t.Fatalf("doc %d of input %d goes to %d", doc, i, to)
				} else if !dead && !bytes.Equal(s.IDs.Bytes(to), inputs[i].IDs.Bytes(uint32(doc))) {
					t.Fatal("a doc became another")
				}
			}
		}
		if len(live) == 0 {
			continue
		}
		want := openBytes(t, sc, mustWrite(t, sc, live, o))
		for _, sec := range want.File.Sections() {
			a, _ := want.File.Section(sec.Name)
			if b, ok := s.File.Section(sec.Name); !ok || !bytes.Equal(a, b) {
				t.Errorf("round %d: section %q differs (%d and %d bytes)", round, sec.Name, len(a), len(b))
			}
		}
	}
}

func TestMergeRefusesLiveTwice(t *testing.T) {
	sc := testSchema(t)
	docs := randomDocs(t, rand.New(rand.NewPCG(3, 3)), sc, 5, "d")
	s := openBytes(t, sc, mustWrite(t, sc, docs, Options{Memory: true}))
	w := storage.NewSegmentWriter(io.Discard)
	if _, _, err := Merge(ctx, w, sc, []Input{{s, nil}, {s, nil}}, Options{}); !errors.Is(err, storage.ErrCorrupt) {
		t.Fatalf("the same id live in two inputs: %v", err)
	}
}

// The bytes may not depend on the number of processors, of texts that several
// goroutines share either.
func TestDeterministic(t *testing.T) {
	sc := testSchema(t)
	docs := randomDocs(t, rand.New(rand.NewPCG(4, 4)), sc, 800, "d")
	for i := range docs {
		for j := range docs[i].Texts {
			t := &docs[i].Texts[j].Text
			*t = strings.Repeat(*t+" ", 1+4*shareBytes/len(docs)/(len(*t)+1))
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want []byte
	for _, procs := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(procs)
		got := mustWrite(t, sc, docs, Options{GraphMin: 100})
		s := openBytes(t, sc, got)
		got = append(got, writeBytes(t, func(w *storage.SegmentWriter) error {
			_, _, err := Merge(ctx, w, sc, []Input{{s, roaring.BitmapOf(3, 500)}}, Options{GraphMin: 1000})
			return err
		})...)
		if want == nil {
			want = got
		} else if !bytes.Equal(want, got) {
			t.Errorf("other bytes with %d processors", procs)
		}
	}
}

func TestIDsSeek(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for round := range 60 {
		seen := map[string]bool{}
		alphabet := []string{"ab", "a\x00\xff", "0123456789abcdef"}[round%3]
		prefix := strings.Repeat("p", r.IntN(12))
		for range r.IntN(400) {
			id := []byte(prefix)
			for range 1 + r.IntN(14) {
				id = append(id, alphabet[r.IntN(len(alphabet))])
			}
			seen[string(id)] = true
		}
		var ids []string
		for id := range seen {
			ids = append(ids, id)
		}
		sort.Strings(ids)
		parts := map[string]*bytes.Buffer{}
		err := writeIDs(func(name string) (io.Writer, error) {
			parts[name] = new(bytes.Buffer)
			return parts[name], nil
		}, len(ids), func(i int) []byte { return []byte(ids[i]) })
		if err != nil {
			t.Fatal(err)
		}
		x, err := openIDs(func(name string) ([]byte, bool) { return parts[name].Bytes(), true }, uint32(len(ids)))
		if err != nil {
			t.Fatal(err)
		}
		if err := x.verify(); err != nil {
			t.Fatal(err)
		}
		probe := func(id string) {
			want := sort.SearchStrings(ids, id)
			if got := x.Seek(id); int(got) != want {
				t.Fatalf("seek %q: %d, want %d of %q", id, got, want, ids)
			}
			doc, ok := x.Find(id)
			if ok != seen[id] || ok && ids[doc] != id {
				t.Fatalf("find %q: %d %v", id, doc, ok)
			}
		}
		probe("")
		for _, id := range ids {
			probe(id)
			probe(id + "\x00")
			probe(id[:len(id)-1])
			probe(id[:len(id)-1] + "\xff")
			probe("q" + id)
			probe("o" + id)
		}
	}
}

// Ids that share the eight bytes of the samples fall back on comparing bytes.
func TestIDsSharedKeys(t *testing.T) {
	var ids []string
	for _, prefix := range []string{"a", "bbbbbbbbb", "bbbbbbbbc", "c"} {
		for i := range 400 {
			ids = append(ids, fmt.Sprintf("%s%04d", prefix, 2*i))
		}
	}
	sort.Strings(ids)
	parts := map[string]*bytes.Buffer{}
	err := writeIDs(func(name string) (io.Writer, error) {
		parts[name] = new(bytes.Buffer)
		return parts[name], nil
	}, len(ids), func(i int) []byte { return []byte(ids[i]) })
	if err != nil {
		t.Fatal(err)
	}
	x, err := openIDs(func(name string) ([]byte, bool) { return parts[name].Bytes(), true }, uint32(len(ids)))
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "a", "bbbbbbbb", "bbbbbbbbb", "bbbbbbbbbb", "bbbbbbbbc", "bbbbbbbbd", "c", "d"} {
		for i := range 802 {
			id := fmt.Sprintf("%s%04d", prefix, i)
			if got, want := x.Seek(id), sort.SearchStrings(ids, id); int(got) != want {
				t.Fatalf("seek %q: %d, want %d", id, got, want)
			}
		}
	}
}

func TestIDsManyGroups(t *testing.T) {
	const n = 3*idGroup + 7
	parts := map[string]*bytes.Buffer{}
	err := writeIDs(func(name string) (io.Writer, error) {
		parts[name] = new(bytes.Buffer)
		return parts[name], nil
	}, n, func(i int) []byte { return fmt.Appendf(nil, "doc-%08d", i) })
	if err != nil {
		t.Fatal(err)
	}
	x, err := openIDs(func(name string) ([]byte, bool) { return parts[name].Bytes(), true }, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.verify(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 997 {
		if doc, ok := x.Find(fmt.Sprintf("doc-%08d", i)); !ok || int(doc) != i {
			t.Fatalf("%d: %d %v", i, doc, ok)
		}
	}
}

func BenchmarkIDsFind(b *testing.B) {
	const n = 1 << 20
	parts := map[string]*bytes.Buffer{}
	_ = writeIDs(func(name string) (io.Writer, error) {
		parts[name] = new(bytes.Buffer)
		return parts[name], nil
	}, n, func(i int) []byte { return fmt.Appendf(nil, "doc-%08d", i) })
	x, err := openIDs(func(name string) ([]byte, bool) { return parts[name].Bytes(), true }, n)
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, 4096)
	for i := range ids {
		ids[i] = fmt.Sprintf("doc-%08d", uint64(i)*2654435761%n)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok := x.Find(ids[i%len(ids)]); !ok {
			b.Fatal("not found")
		}
	}
}

func FuzzReadDoc(f *testing.F) {
	sc := testSchema(f)
	for _, d := range randomDocs(f, rand.New(rand.NewPCG(6, 6)), sc, 8, "d") {
		f.Add(AppendDoc(nil, &d))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var dd DocDecoder
		d := storage.NewDecoder("fuzz", 0, b)
		doc := dd.ReadDoc(d)
		if d.End(); d.Err() != nil {
			if !errors.Is(d.Err(), storage.ErrCorrupt) {
				t.Fatal(d.Err())
			}
			return
		}
		// What was read is what would be written, up to the length of varints.
		r := storage.NewDecoder("again", 0, AppendDoc(nil, &doc))
		again := dd.ReadDoc(r)
		if r.Err() != nil || again.ID != doc.ID || len(again.Texts) != len(doc.Texts) || len(again.Sparse) != len(doc.Sparse) {
			t.Fatalf("%+v\n%+v\n%v", doc, again, r.Err())
		}
	})
}

func FuzzOpenSegment(f *testing.F) {
	sc := testSchema(f)
	docs := randomDocs(f, rand.New(rand.NewPCG(7, 7)), sc, 20, "d")
	good := mustWrite(f, sc, docs, Options{GraphMin: 4})
	f.Add(uint32(0), byte(0))
	f.Add(uint32(100), byte(1))
	f.Fuzz(func(t *testing.T, at uint32, flip byte) {
		b := bytes.Clone(good)
		b[int(at)%len(b)] ^= flip
		file, err := storage.ParseSegment("fuzz", b)
		if err != nil {
			return
		}
		// The container opens without reading its data: the parts meet the
		// damage, and must not panic.
		s, err := Open(file, sc)
		if err != nil {
			return
		}
		for doc := range s.Docs {
			_, _ = s.IDs.Find(s.IDs.String(doc))
			_, _ = s.Stored.Get(doc, nil)
		}
		if err := s.Verify(ctx); err == nil && flip != 0 {
			t.Fatalf("byte %d of %d changed unnoticed", int(at)%len(b), len(b))
		}
	})
}
