package index

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// formatNow is the number of the newest zip in testdata: a small index in the
// formats of one release. Later builds open every one of them for ever; a new
// one is added when a format changes, and none is ever replaced.
const formatNow = 2

func formatZip(n int) string { return filepath.Join("testdata", fmt.Sprintf("format-%d.zip", n)) }

// goldenIndex makes the index of the newest zip: two segments, one with
// graphs and tombstones, and a log with an upsert, a delete and new documents.
func goldenIndex(t testing.TB) *storage.MemFS {
	t.Helper()
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) { o.GraphMin = 8 })
	for part := range 3 {
		b := NewBatch()
		for i := range 10 {
			if part == 2 && i%3 == 0 { // a record of its own in the log
				put(t, ix, goldenDocument(part, 10*part+i))
				continue
			}
			b.Put(goldenDocument(part, 10*part+i))
		}
		switch part {
		case 1:
			b.Delete(goldenDocument(0, 3).ID)
			b.DeleteWhere(filter.Eq("n", 7))
		case 2:
			b.Put(goldenDocument(part, 5))
			b.Delete(goldenDocument(0, 12).ID)
		}
		if err := ix.Apply(bg, b); err != nil {
			t.Fatal(err)
		}
		if part < 2 {
			if err := ix.Flush(bg); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

func goldenDocument(part, i int) Document {
	words := strings.Fields("granite basalt shale chalk flint marble slate gneiss straße 石灰岩 tuff")
	text := func(n int) string {
		var out []string
		for k := range n {
			out = append(out, words[(i*i+3*k)%len(words)])
		}
		return strings.Join(out, " ")
	}
	d := Document{
		ID:   fmt.Sprintf("%s-%02d", []string{"q", "é", "漢"}[i%3], i),
		Text: map[string]string{"title": text(3 + i%2), "body": text(12 + i%5), "hidden": text(2)},
		Meta: map[string]any{"n": i % 10, "part": part, "weight": float64(i) / 4, "tags": []string{words[i%4], "all"}},
	}
	if i%5 == 0 {
		d.Meta["lang"], d.Meta["nothing"] = "de", nil
	}
	if i%3 != 1 {
		d.Sparse = map[string]sparse.Vector{"s": {{Term: uint32(i % 5), Weight: float32(1+i%7) / 4}, {Term: uint32(7 + i%4), Weight: 0.5}, {Term: 90_000, Weight: float32(i+1) / 8}}}
	}
	if i%4 != 3 {
		d.Vectors = map[string][]float32{"v": {float32(i), float32(i * i % 17), 3, float32(part)}, "c": {1, float32(i % 6), float32(i % 3)}}
	}
	return d
}

// goldenQueries are asked of the golden indexes.
func goldenQueries() map[string]Query {
	return map[string]Query{
		"text":   {Text: &TextQuery{Text: "granite shale straße"}, K: 30},
		"phrase": {Text: &TextQuery{Text: "chalk marble", Fields: map[string]float64{"body": 1}}, K: 30},
		"vector": {Vector: &VectorQuery{Field: "v", Vector: []float32{9, 4, 3, 1}}, K: 30},
		"cosine": {Vector: &VectorQuery{Field: "c", Vector: []float32{1, 2, 3}}, K: 7},
		"sparse": {Sparse: &SparseQuery{Vector: sparse.Vector{{Term: 2, Weight: 1}, {Term: 9, Weight: 0.75}, {Term: 90_000, Weight: 0.1}}}, K: 30},
		"three":  {Text: &TextQuery{Text: "slate"}, Vector: &VectorQuery{Field: "v", Vector: []float32{20, 1, 3, 2}}, Sparse: &SparseQuery{Vector: sparse.Vector{{Term: 8, Weight: 1}}}, K: 9},
		"filter": {Filter: filter.And(filter.Gte("weight", 2.5), filter.Not(filter.Eq("tags", "basalt"))), K: 30},
		"hybrid": {Text: &TextQuery{Text: "slate"}, Vector: &VectorQuery{Field: "v", Vector: []float32{20, 1, 3, 2}}, Filter: filter.Eq("part", 1), K: 5},
	}
}

// goldenAnswers are all documents, and the hits of each query with their
// scores. The first error ends it.
func goldenAnswers(ix *Index) (string, error) {
	s, err := ix.Snapshot()
	if err != nil {
		return "", err
	}
	defer s.Close()
	out := new(strings.Builder)
	for d, err := range s.Documents("") {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(out, "%s %q %v %v", d.ID, d.Text, d.Vectors, d.Meta)
		if len(d.Sparse) > 0 {
			fmt.Fprintf(out, " %v", d.Sparse)
		}
		fmt.Fprintln(out)
	}
	queries := goldenQueries()
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		if queries[name].Sparse != nil && len(s.schema.public.Sparse) == 0 {
			continue // format 1
		}
		r, err := s.Search(bg, queries[name])
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(out, "%s:", name)
		for _, h := range r.Hits {
			fmt.Fprintf(out, " %s %.7g", h.ID, h.Score)
		}
		fmt.Fprintln(out)
	}
	return out.String(), nil
}

func unzip(t testing.TB, path string) map[string][]byte {
	t.Helper()
	files, err := readZip(path)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readZip(path string) (map[string][]byte, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	out := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		if out[f.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func updateFormatZip(t *testing.T) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	files := readAll(t, goldenIndex(t), "/db")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(formatZip(formatNow)); err == nil {
		t.Fatalf("%s is there: it stays as it is; raise formatNow", formatZip(formatNow))
	}
	if err := os.WriteFile(formatZip(formatNow), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The index of every released format opens, answers as it did, takes writes
// and merges, and opening it changes none of its segments.
func TestB14FormatsOpenForEver(t *testing.T) {
	if *update {
		updateFormatZip(t)
	}
	for n := 1; n <= formatNow; n++ {
		files := unzip(t, formatZip(n))
		fs := writeAll(t, files)
		ix, err := Open("/db", &Options{FS: fs, ReadOnly: true, Verify: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := goldenAnswers(ix)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("format-%d.txt", n), []byte(got))
		if err := ix.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files, readAll(t, fs, "/db")); diff != "" {
			t.Errorf("format %d: reading changed files: %s", n, diff)
		}
		if ix, err = Open("/db", &Options{FS: fs, NoBackground: true, GraphMin: 8}); err != nil {
			t.Fatal(err)
		}
		now := readAll(t, fs, "/db")
		for name, b := range files {
			if storage.ParseFileName(name).Kind == storage.FileSegment && !bytes.Equal(b, now[name]) {
				t.Errorf("format %d: opening changed %s", n, name)
			}
		}
		put(t, ix, Document{ID: "new"})
		del(t, ix, "new")
		if err := errors.Join(ix.Merge(bg, 1), ix.Close()); err != nil {
			t.Fatal(err)
		}
		if rep, err := Check(bg, "/db", fs, true); err != nil {
			t.Fatalf("%+v %v", rep, err)
		}
	}
}

// A file of a newer format is refused as that, not called corrupt, and is not
// touched.
func TestB14NewerFormats(t *testing.T) {
	files := unzip(t, formatZip(formatNow))
	mustRefuse := func(what string, fs *storage.MemFS) {
		t.Helper()
		before := readAll(t, fs, "/db")
		for _, readOnly := range []bool{true, false} {
			if _, err := Open("/db", &Options{FS: fs, ReadOnly: readOnly}); !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := Check(bg, "/db", fs, false); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: check: %v", what, err)
		}
		if !maps.EqualFunc(before, readAll(t, fs, "/db"), bytes.Equal) {
			t.Errorf("%s: files were changed", what)
		}
	}
	for name, whole := range files {
		kind := storage.ParseFileName(name).Kind
		if kind == storage.FileLock {
			continue
		}
		at := map[string]int{"version": 8}
		if kind == storage.FileSegment {
			at["version of the sections"] = storage.SectionAlign // the first of the first section
		} else {
			at["features"] = 12
		}
		for what, off := range at {
			newer := maps.Clone(files)
			newer[name] = bytes.Clone(whole)
			newer[name][off] += 2
			mustRefuse(name+" "+what, writeAll(t, newer))
		}
	}
	fs := writeAll(t, files)
	m, err := storage.ReadManifest(fs, "/db")
	if err != nil {
		t.Fatal(err)
	}
	m.Generation++
	m.Schema = bytes.Replace(m.Schema, fmt.Appendf(nil, `"version":%d`, schemaVersion), fmt.Appendf(nil, `"version":%d`, schemaVersion+1), 1)
	if err := storage.WriteManifest(fs, "/db", m); err != nil {
		t.Fatal(err)
	}
	mustRefuse("schema", fs)
	fs = writeAll(t, files)
	r, err := storage.Replay(fs, "/db", 0, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	w, err := storage.CreateWAL(fs, "/db", r, storage.SyncAlways)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Append([]byte{recordVersion + 1, 0, 0, 0, 0})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	mustRefuse("record", fs)
}
