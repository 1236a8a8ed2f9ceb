package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

func schema() index.Schema {
	return index.Schema{
		Text:    []index.TextField{{Name: "title", Boost: 2}, {Name: "body", Analyzer: "english"}},
		Vectors: []index.VectorField{{Name: "v", Dim: 5}, {Name: "w", Dim: 2, Metric: 2}},
		Meta:    map[string]filter.Type{"at": filter.Time, "n": filter.Int64},
	}
}

// document makes documents of all shapes: missing fields, null, empty lists, all
// types, ids that are prefixes of others.
func document(rng *rand.Rand, i int) index.Document {
	d := index.Document{ID: fmt.Sprintf("d%d", i), Text: map[string]string{"title": fmt.Sprintf("Title %d", i)}, Meta: map[string]any{}, Vectors: map[string][]float32{}}
	if i%3 > 0 {
		d.Text["body"] = strings.Repeat("slate and granite ", i%7)
	}
	if i%4 > 0 {
		v := make([]float32, 5)
		for j := range v {
			v[j] = float32(rng.NormFloat64())
		}
		d.Vectors["v"] = v
	}
	if i%5 > 0 {
		d.Vectors["w"] = []float32{rng.Float32(), 3}
	}
	d.Meta["at"] = time.Date(2000+i%30, 1, 2, 3, 4, 5, 6000, time.UTC)
	d.Meta["n"] = math.MaxInt64 - int64(i)
	d.Meta["x"] = float64(i) / 3
	d.Meta["ok"] = i%2 == 0
	switch i % 6 {
	case 1:
		d.Meta["tags"] = []string{}
	case 2:
		d.Meta["tags"] = nil
	case 3:
		d.Meta["tags"] = []string{"a", "b", "a"}
	}
	return d
}

func open(t *testing.T, dir string, s *index.Schema) *collection.Local {
	t.Helper()
	l, err := collection.Open(dir, &index.Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func fill(t *testing.T, n int) *collection.Local {
	t.Helper()
	s := schema()
	l := open(t, t.TempDir(), &s)
	rng, b := rand.New(rand.NewPCG(7, 8)), index.NewBatch()
	for i := range n {
		b.Put(document(rng, i))
	}
	if err := l.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return l
}

func compare(t *testing.T, a, b collection.Reader) *Comparison {
	t.Helper()
	c, err := Compare(t.Context(), a, b, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCopy(t *testing.T) {
	from := fill(t, 500)
	s, err := from.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to := open(t, t.TempDir(), &s)
	saved := []string{}
	n, err := Copy(t.Context(), Config{From: from, To: to, Batch: 64, Saved: func(last string, n int) error { saved = append(saved, last); return nil }})
	if n != 500 || err != nil || len(saved) != 8 || saved[7] != "d99" {
		t.Fatalf("copied %d, %v, saved %q", n, err, saved)
	}
	c := compare(t, from, to)
	if !c.Equal() || c.From.Documents != 500 || c.From.Checksum != c.To.Checksum || len(c.From.Checksum) != 32 {
		t.Errorf("%+v", c)
	}
	// What differs is counted and named.
	b := index.NewBatch()
	b.Delete("d0")
	b.Put(index.Document{ID: "d00"})
	d, err := to.Get(t.Context(), "d7")
	if err != nil {
		t.Fatal(err)
	}
	d.Meta["n"] = int64(1)
	b.Put(d)
	if d, err = to.Get(t.Context(), "d9"); err != nil {
		t.Fatal(err)
	}
	d.Vectors["v"][0] += 0.01
	b.Put(d)
	if err := to.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	c = compare(t, from, to)
	want := []string{`missing: "d0"`, `extra: "d00"`, `different: "d7"`, `different: "d9"`}
	if c.Equal() || c.Missing != 1 || c.Extra != 1 || c.Different != 2 || !cmp.Equal(c.First, want) || c.From.Checksum == c.To.Checksum {
		t.Errorf("%+v", c)
	}
}

// failing is a target whose Apply fails at a call, before or after it has applied.
type failing struct {
	*collection.Local
	left  int
	after bool
}

var errCut = errors.New("cut")

func (f *failing) Apply(ctx context.Context, b *index.Batch) error {
	if f.left--; f.left < 0 {
		if f.after {
			return errors.Join(f.Local.Apply(ctx, b), errCut)
		}
		return errCut
	}
	return f.Local.Apply(ctx, b)
}

// A copy that is cut off anywhere, again and again, ends as one that was not.
func TestCopyResumes(t *testing.T) {
	from := fill(t, 200)
	for _, after := range []bool{false, true} {
		s, err := from.Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		to := open(t, t.TempDir(), &s)
		file := filepath.Join(t.TempDir(), "state")
		runs, total := 0, 0
		for ; ; runs++ {
			state, err := ReadState(file, "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			total = state.Documents
			f := &failing{Local: to, left: 2, after: after}
			_, err = Copy(t.Context(), Config{From: from, To: f, Batch: 16, After: state.Last, Saved: func(last string, n int) error {
				state.Last, state.Documents = last, total+n
				return state.Write(file)
			}})
			if err == nil {
				total = state.Documents
				break
			}
			if !errors.Is(err, errCut) {
				t.Fatal(err)
			}
		}
		if c := compare(t, from, to); !c.Equal() || total != 200 || runs != 6 {
			t.Errorf("%d runs, %d documents, %+v", runs, total, c)
		}
	}
}

// broken is a source whose documents end in an error.
type broken struct{ *collection.Local }

func (b broken) Documents(ctx context.Context, from string) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		n := 0
		for d, err := range b.Local.Documents(ctx, from) {
			if n++; n > 20 {
				d, err = index.Document{}, errCut
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// What a source gave before it failed is copied.
func TestCopyOfABrokenSource(t *testing.T) {
	from := fill(t, 50)
	s := schema()
	to := open(t, t.TempDir(), &s)
	last := ""
	n, err := Copy(t.Context(), Config{From: broken{from}, To: to, Batch: 16, Saved: func(id string, _ int) error { last = id; return nil }})
	if n != 20 || !errors.Is(err, errCut) || last == "" {
		t.Errorf("%d documents up to %q, %v", n, last, err)
	}
	if _, err := Compare(t.Context(), broken{from}, to, func(int) {}); !errors.Is(err, errCut) {
		t.Errorf("compare: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Copy(ctx, Config{From: from, To: to}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestNear(t *testing.T) {
	unit := map[string]bool{"v": true}
	doc := func(v, w float32) index.Document {
		return index.Document{ID: "a", Vectors: map[string][]float32{"v": {v}, "w": {w}}}
	}
	for _, c := range []struct {
		a, b index.Document
		want bool
	}{
		{doc(1, 1), doc(1, 1), true},
		{doc(1, 1), doc(math.Nextafter32(1, 0), 1), true},
		{doc(1, 1), doc(1, math.Nextafter32(1, 0)), false},
		{doc(1, 1), doc(0.9999, 1), false},
		{doc(1, 1), doc(float32(math.NaN()), 1), false},
		{doc(1, 1), index.Document{ID: "a", Vectors: map[string][]float32{"w": {1}}}, false},
		{index.Document{ID: "a", Vectors: map[string][]float32{"w": {1}}}, doc(1, 1), false},
	} {
		if got := near(c.a, c.b, unit); got != c.want {
			t.Errorf("%v, %v: got %v", c.a.Vectors, c.b.Vectors, got)
		}
	}
}

// Values that are near each other, or look alike, have different hashes.
func TestHash(t *testing.T) {
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	seen := map[hash]any{}
	for _, v := range []any{nil, "", "a", true, false, int64(0), int64(1), 1.0, math.Copysign(0, -1), at, at.Add(time.Microsecond), []string{}, []string{""}, []string{"a", "b"},
		[]string{"b", "a"}, []string{"ab"}, []int64{1}, []float64{1}, []bool{true}, []time.Time{at}} {
		h := hashOf(index.Document{ID: "a", Meta: map[string]any{"f": v}})
		if w, ok := seen[h]; ok {
			t.Errorf("%#v and %#v have one hash", v, w)
		}
		seen[h] = v
	}
	if hashOf(index.Document{ID: "a", Meta: map[string]any{"f": at}}) != hashOf(index.Document{ID: "a", Meta: map[string]any{"f": at.In(time.FixedZone("x", 3600))}}) {
		t.Error("one instant in two zones has two hashes")
	}
	if hashOf(index.Document{ID: "a"}) == hashOf(index.Document{ID: "a", Text: map[string]string{"t": ""}}) {
		t.Error("an empty text is as a missing one")
	}
}

func TestStateOfAnotherCopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s, err := ReadState(file, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	s.Last, s.Documents = "x", 3
	if err := s.Write(file); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadState(file, "a", "b"); err != nil || got != s {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := ReadState(file, "a", "c"); err == nil || !strings.Contains(err.Error(), "from a to b") {
		t.Errorf("another copy: %v", err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(file, "a", "b"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged: %v", err)
	}
}

func TestDeclared(t *testing.T) {
	s := schema()
	s.Meta["null"] = filter.Undeclared
	got, err := Declared(s)
	if _, ok := got.Meta["null"]; ok || len(got.Meta) != 2 || len(s.Meta) != 3 || err != nil {
		t.Errorf("got %v, %v", got.Meta, err)
	}
	s.Text[1].NotStored = true
	if _, err := Declared(s); !errors.Is(err, index.ErrInvalid) || !strings.Contains(err.Error(), `"body"`) {
		t.Errorf("got %v", err)
	}
}
