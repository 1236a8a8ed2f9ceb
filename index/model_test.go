package index

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/index/filter"
)

// A model is what an index should hold: documents as they are read back.
type model map[string]Document

// asStored is the document that Get gives for one that was put.
func asStored(d Document) Document {
	out := Document{ID: d.ID, Vectors: maps.Clone(d.Vectors), Sparse: maps.Clone(d.Sparse)}
	for f, text := range d.Text {
		if f != "hidden" {
			if out.Text == nil {
				out.Text = map[string]string{}
			}
			out.Text[f] = text
		}
	}
	for f, v := range d.Meta {
		if out.Meta == nil {
			out.Meta = map[string]any{}
		}
		if n, ok := v.(int); ok {
			v = int64(n)
		}
		out.Meta[f] = v
	}
	return out
}

var modelWords = strings.Fields("alpha beta gamma delta épée straße 漢字 running dogs the a of quick-brown foo_bar HTTPServer 42 x")

func randomDocument(r *rand.Rand, id string) Document {
	d := Document{ID: id}
	if r.IntN(4) > 0 {
		d.Text = map[string]string{}
		for _, f := range []string{"title", "body", "hidden"} {
			if r.IntN(3) > 0 {
				var words []string
				for range r.IntN(30) {
					words = append(words, modelWords[r.IntN(len(modelWords))])
				}
				d.Text[f] = strings.Join(words, " ")
			}
		}
		if len(d.Text) == 0 {
			d.Text = nil
		}
	}
	if r.IntN(2) == 0 {
		v := make([]float32, 4)
		for i := range v {
			v[i] = float32(r.IntN(100))
		}
		d.Vectors = map[string][]float32{"v": v}
	}
	if r.IntN(3) == 0 {
		var v sparse.Vector
		for term := r.Uint32N(6); term < 40; term += 1 + r.Uint32N(20) {
			v = append(v, sparse.Entry{Term: term, Weight: float32(1+r.IntN(30)) / 8})
		}
		d.Sparse = map[string]sparse.Vector{"s": v}
	}
	if r.IntN(4) > 0 {
		d.Meta = map[string]any{"n": r.IntN(6)}
		switch r.IntN(4) {
		case 0:
			d.Meta["lang"] = []string{"en", "de", "漢"}[r.IntN(3)]
		case 1:
			d.Meta["grown"+strconv.Itoa(r.IntN(3))] = float64(r.IntN(4)) + 0.5
		case 2:
			d.Meta["tags"] = []string{"x", "y"}[:1+r.IntN(2)]
		}
	}
	return d
}

var modelIDs = func() []string {
	var ids []string
	for i := range 120 {
		ids = append(ids, []string{"", "é", "漢字/", "doc-000"}[i%4]+strconv.Itoa(i))
	}
	return ids
}()

// randomBatch makes a batch and the model after it.
func randomBatch(r *rand.Rand, m model) (*Batch, model) { return batchOf(r, m, 1+r.IntN(25)) }

func batchOf(r *rand.Rand, m model, size int) (*Batch, model) {
	b, after := NewBatch(), maps.Clone(m)
	for range size {
		id := modelIDs[r.IntN(len(modelIDs))]
		switch r.IntN(12) {
		case 0, 1:
			b.Delete(id)
			delete(after, id)
		case 2:
			n := r.IntN(6)
			b.DeleteWhere(filter.Eq("n", n))
			for id, d := range after {
				if d.Meta["n"] == int64(n) {
					delete(after, id)
				}
			}
		default:
			d := randomDocument(r, id)
			b.Put(d)
			after[id] = asStored(d)
		}
	}
	return b, after
}

// compare fails unless the snapshot holds exactly the model.
func (m model) compare(s *Snapshot) error {
	ids := slices.Sorted(maps.Keys(m))
	i := 0
	for d, err := range s.Documents("") {
		if err != nil {
			return err
		}
		if i == len(ids) || d.ID != ids[i] {
			return fmt.Errorf("document %d is %q, want one of %q", i, d.ID, ids[min(i, len(ids)):])
		}
		if !reflect.DeepEqual(m[d.ID], d) { // a diff is slow
			if diff := cmp.Diff(m[d.ID], d); diff != "" {
				return errors.New(diff)
			}
		}
		if i++; i%7 == 0 {
			if got, err := s.Get(d.ID); err != nil || !reflect.DeepEqual(got, d) {
				return fmt.Errorf("get %q: %v %v", d.ID, got, err)
			}
		}
	}
	if i != len(ids) {
		return fmt.Errorf("%d documents, want %d: %q is missing", i, len(ids), ids[i])
	}
	for n := range 6 {
		want, above := 0, 0
		for _, d := range m {
			if v, ok := d.Meta["n"].(int64); ok && v == int64(n) {
				want++
			} else if ok && v > int64(n) {
				above++
			}
		}
		if got, err := s.Count(bg, filter.Eq("n", n)); err != nil || got != want {
			return fmt.Errorf("n = %d: %d (%v), want %d", n, got, err, want)
		}
		if got, err := s.Count(bg, filter.Gt("n", n)); err != nil || got != above {
			return fmt.Errorf("n > %d: %d (%v), want %d", n, got, err, above)
		}
	}
	for _, id := range []string{"nothing", "é", "doc-0000"} {
		if ok, err := s.Exists(id); err != nil || ok {
			return fmt.Errorf("exists %q: %v %v", id, ok, err)
		}
	}
	from := modelIDs[len(m)%len(modelIDs)]
	j, _ := slices.BinarySearch(ids, from)
	for d, err := range s.Documents(from) {
		if err != nil || d.ID != ids[j] {
			return fmt.Errorf("documents from %q start with %q, want %q (%v)", from, d.ID, ids[j], err)
		}
		break
	}
	return nil
}

// testSeed is a new seed, or QUARRY_SEED to repeat a run.
func testSeed(t testing.TB) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("QUARRY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with QUARRY_SEED=%d", seed)
		}
	})
	return seed
}
