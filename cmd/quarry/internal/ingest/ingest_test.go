package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

func full() *Mapping {
	return &Mapping{
		ID: "id", Text: []string{"title", "body.text"}, Vectors: []string{"v"}, AllMeta: true,
		Rows:    map[string]bench.Matrix[float32]{"w": {Dim: 1, Data: []float32{7, 8}}},
		Meta:    []MetaField{{Name: "when", Type: filter.Time}, {Name: "deep.er"}},
		Encoded: []EncodedField{{Name: "tags", Key: "tags_json"}},
	}
}

func TestDocument(t *testing.T) {
	line := `{"id":"a","title":["x","y"],"body":{"text":"z"},"v":[1,-2.5],"when":"2024-01-02","deep":{"er":null},
		"tags_json":"[\"p\",\"q\"]","metadata":{"n":9007199254740993,"in":{"ner":true},"when":"no"},"other":{}}`
	d, err := full().Document([]byte(line), 1)
	if err != nil {
		t.Fatal(err)
	}
	if d.ID != "a" {
		t.Errorf("id %q", d.ID)
	}
	if diff := cmp.Diff(map[string]string{"title": "x\ny", "body.text": "z"}, d.Text); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]float32{"v": {1, -2.5}, "w": {8}}, d.Vectors); diff != "" {
		t.Error(diff)
	}
	got := map[string]string{}
	for k, v := range d.Meta {
		got[k] = fmt.Sprint(v)
	}
	want := map[string]string{"when": "2024-01-02", "deep.er": "<nil>", "tags": "[p q]", "n": "9007199254740993", "in.ner": "true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentIDs(t *testing.T) {
	m := &Mapping{ID: "id"}
	for line, want := range map[string]string{`{"_id":"b"}`: "b", `{"id":12}`: "12", `{"id":"","_id":"c"}`: ""} {
		if d, err := m.Document([]byte(line), 0); err != nil || d.ID != want {
			t.Errorf("%s: %q, %v; want %q", line, d.ID, err, want)
		}
	}
}

func TestDocumentErrors(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":"a"`:                    "cut short",
		`[1]`:                          "not a JSON object",
		`null`:                         "not a JSON object",
		`{"id":"a"} x`:                 "more after",
		`{"x":1}`:                      `key "id" is missing`,
		`{"id":1.5}`:                   "want a string or an integer",
		`{"id":"a","title":5}`:         `text field "title" is a number`,
		`{"id":"a","title":["x",1]}`:   `text field "title" is a list`,
		`{"id":"a","v":"x"}`:           `vector field "v" is a string`,
		`{"id":"a","v":[1,null]}`:      "component 1 is null",
		`{"id":"a","v":[1e39]}`:        "beyond float32",
		`{"id":"a","v":[NaN]}`:         "not a JSON object",
		`{"id":"a","metadata":3}`:      `"metadata" is a number`,
		`{"id":"a","tags_json":"[1"}`:  `metadata field "tags"`,
		`{"id":"a","tags_json":"1 2"}`: "more after",
		`{"id":"a","tags_json":"{}"}`:  "object",
		`{"id":"a","tags_json":[]}`:    "want a string that holds JSON",
		`{"id":"a","when":{}}`:         "name the keys in it",
		`{"id":"a","metadata":{"a.b":1,"a":{"b":2}}}`: "twice",
	} {
		if _, err := full().Document([]byte(line), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
	if _, err := full().Document([]byte(`{"id":"a"}`), 2); err == nil || !strings.Contains(err.Error(), "has 2 rows, this is line 3") {
		t.Errorf("beyond the vector file: %v", err)
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"id":"a","title":["x"],"v":[1],"metadata":{"a":{"b":[1,2]}},"tags_json":"[1]"}`))
	f.Add([]byte(`{"id":1e400,"v":[1e400]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		d, err := full().Document(line, 0)
		if err == nil && d.Meta == nil {
			t.Error("a document without a metadata map")
		}
	})
}

// source writes a file and makes a Source of it.
func source(t *testing.T, name, content string, zip bool) Source {
	t.Helper()
	data := []byte(content)
	if zip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		data = b.Bytes()
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := Stat([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	return s[0]
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, zip := range []bool{false, true} {
		s := source(t, "f", "\ufeffone\r\n\n"+long+"\nlast", zip)
		var raw atomic.Int64
		l, err := s.open(nil, &raw)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			line, err := l.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		if !slices.Equal(got, []string{"one", "", long, "last"}) {
			t.Errorf("zip %v: %d lines", zip, len(got))
		}
		if raw.Load() != s.Size {
			t.Errorf("zip %v: read %d of %d bytes", zip, raw.Load(), s.Size)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	var raw atomic.Int64
	in := io.MultiReader(strings.NewReader("a\n"), bytes.NewReader(make([]byte, MaxLine+1)), strings.NewReader("\nb\n"))
	l, err := Source{Name: "-"}.open(in, &raw)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := l.next(); string(line) != "a" || err != nil {
		t.Fatal(string(line), err)
	}
	if _, err := l.next(); !errors.Is(err, ErrLineTooLong) {
		t.Fatal(err)
	}
	if line, err := l.next(); string(line) != "b" || err != nil || l.n != 3 {
		t.Fatal(string(line), err, l.n)
	}
}

// TestRunFindsRefused refuses documents in every place of a batch: the others
// must be applied, in order, and the bad lines named.
func TestRunFindsRefused(t *testing.T) {
	refused := errors.New("refused")
	for bad := range 8 {
		var text strings.Builder
		for i := range 8 {
			fmt.Fprintf(&text, "{\"id\":\"%d\"}\n", i)
		}
		var applied, lines []string
		p, err := Run(t.Context(), Config{
			Sources: []Source{source(t, "f", text.String(), false)}, Mapping: &Mapping{ID: "id"}, Batch: 5,
			Refused: func(err error) bool { return errors.Is(err, refused) },
			Bad:     func(_ string, line int, _ error) { lines = append(lines, fmt.Sprint(line)) },
			Apply: func(docs []index.Document) error {
				for _, d := range docs {
					if d.ID == fmt.Sprint(bad) {
						return refused
					}
				}
				for _, d := range docs {
					applied = append(applied, d.ID)
				}
				return nil
			},
		})
		if err != nil || p.Documents != 7 || p.Bad != 1 || p.Lines != 8 {
			t.Fatalf("bad %d: %+v, %v", bad, p, err)
		}
		if !slices.IsSorted(applied) || !slices.Equal(lines, []string{fmt.Sprint(bad + 1)}) {
			t.Errorf("bad %d: applied %v, lines %v", bad, applied, lines)
		}
	}
}

func TestRunStopsAndSkips(t *testing.T) {
	s := []Source{source(t, "a", "{\"id\":\"0\"}\n\n{\"id\":\"1\"}\n", true), source(t, "b", "{\"id\":\"2\"}\n{\"id\":\"3\"}", false)}
	for stop := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		var applied []string
		c := Config{Sources: s, Mapping: &Mapping{ID: "id"}, Batch: 1, Apply: func(docs []index.Document) error {
			applied = append(applied, docs[0].ID)
			return nil
		}}
		c.Done = func(Progress) error {
			if len(applied) == stop {
				cancel()
			}
			return nil
		}
		if stop == 0 {
			cancel()
		}
		p, err := Run(ctx, c)
		if !errors.Is(err, ErrStopped) && len(applied) < 4 {
			t.Fatalf("stop %d: %v", stop, err)
		}
		c.Skip, c.Done = p.Lines, nil
		if p, err = Run(t.Context(), c); err != nil || p.Lines != 5 {
			t.Fatalf("resumed: %+v, %v", p, err)
		}
		if !slices.Equal(applied, []string{"0", "1", "2", "3"}) {
			t.Errorf("stop %d: applied %v", stop, applied)
		}
		cancel()
	}
}

// TestRunStopsWhileReading interrupts a run that waits for input.
func TestRunStopsWhileReading(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	in, out := io.Pipe()
	defer out.Close()
	_, err := Run(ctx, Config{Sources: []Source{{Name: "-", Size: -1}}, Stdin: in, Mapping: &Mapping{ID: "id"}})
	if !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}

func TestCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	s := []Source{{Name: "a", Size: 1}}
	c, err := ReadCheckpoint(path, s)
	if err != nil || c.Lines != 0 {
		t.Fatal(c, err)
	}
	c.Lines = 7
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	if c, err = ReadCheckpoint(path, s); err != nil || c.Lines != 7 {
		t.Fatal(c, err)
	}
	if _, err := ReadCheckpoint(path, []Source{{Name: "a", Size: 2}}); err == nil {
		t.Error("a file of another size was taken for the same")
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCheckpoint(path, s); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("an empty file: %v", err)
	}
	if err := errors.Join(RemoveCheckpoint(path), RemoveCheckpoint(path)); err != nil {
		t.Error(err)
	}
}

func TestStat(t *testing.T) {
	if _, err := Stat([]string{"-", "-"}); err == nil {
		t.Error("standard input twice")
	}
	if _, err := Stat([]string{t.TempDir()}); err == nil {
		t.Error("a directory")
	}
	if _, err := Stat([]string{filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func BenchmarkDocument(b *testing.B) {
	line := []byte(`{"id":"pages/common/tar","title":"tar","text":"` + strings.Repeat("Archiving utility, often combined with a compression method. ", 10) +
		`","metadata":{"lang":"en","platform":"common","examples":8,"created":"2014-03-04"}}`)
	m := &Mapping{ID: "id", Text: []string{"title", "text"}, AllMeta: true}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Document(line, 0); err != nil {
			b.Fatal(err)
		}
	}
}
