package index

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A model is what an index should hold: documents as they are read back.
type model map[string]Document

// asStored is the document that Get gives for one that was put.
func asStored(d Document) Document {
	out := Document{ID: d.ID, Vectors: maps.Clone(d.Vectors)}
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
func randomBatch(r *rand.Rand, m model) (*Batch, model) {
	b, after := NewBatch(), maps.Clone(m)
	for range 1 + r.IntN(25) {
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
		if diff := cmp.Diff(m[d.ID], d); diff != "" {
			return errors.New(diff)
		}
		if i++; i%7 == 0 {
			if got, err := s.Get(d.ID); err != nil || !cmp.Equal(got, d) {
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
		if got, err := s.Count(filter.Eq("n", n)); err != nil || got != want {
			return fmt.Errorf("n = %d: %d (%v), want %d", n, got, err, want)
		}
		if got, err := s.Count(filter.Gt("n", n)); err != nil || got != above {
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

func (m model) check(t testing.TB, ix *Index) {
	t.Helper()
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := m.compare(s); err != nil {
		t.Fatal(err)
	}
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

func randomOptions(r *rand.Rand) func(*Options) {
	mutable := []int64{64 << 10, 200 << 10, 64 << 20}[r.IntN(3)]
	graph := []int{2, 20, 10_000}[r.IntN(3)]
	segments := 2 + r.IntN(6)
	background := r.IntN(2) == 0
	sync := []storage.SyncPolicy{storage.SyncAlways, storage.SyncNever, storage.SyncEvery(1)}[r.IntN(3)]
	return func(o *Options) {
		o.MutableBytes, o.GraphMin, o.MaxSegments, o.NoBackground, o.Sync = mutable, graph, segments, !background, sync
	}
}

func TestModel(t *testing.T) {
	for range 6 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(testSeed(t), 0))
			fs := storage.NewMemFS()
			ix := mustOpen(t, fs, randomOptions(r))
			m := model{}
			var held *Snapshot
			var heldModel model
			for step := range 150 {
				switch op := r.IntN(20); {
				case op == 0:
					if err := ix.Flush(bg); err != nil {
						t.Fatal(err)
					}
				case op == 1:
					if err := ix.Merge(bg, 1+r.IntN(3)); err != nil {
						t.Fatal(err)
					}
				case op == 2:
					if err := ix.Close(); err != nil {
						t.Fatal(err)
					}
					ix = mustOpen(t, fs, randomOptions(r))
				case op == 3 && held == nil:
					held, _ = ix.Snapshot()
					heldModel = maps.Clone(m)
				case op == 4 && held != nil:
					if err := heldModel.compare(held); err != nil {
						t.Fatalf("step %d: snapshot changed: %v", step, err)
					}
					held.Close()
					held = nil
				case op == 5:
					if rep, err := Check(bg, "/db", fs, true); err != nil || rep.Documents != len(m) {
						t.Fatalf("step %d: check: %+v %v", step, rep, err)
					}
				case op == 6:
					checkBackup(t, ix, fs, m, step)
				default:
					b, after := randomBatch(r, m)
					if err := ix.Apply(bg, b); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					m = after
				}
				if step%5 == 0 {
					m.check(t, ix)
				}
			}
			m.check(t, ix)
			if held != nil {
				held.Close()
			}
		})
	}
}

func checkBackup(t *testing.T, ix *Index, fs *storage.MemFS, m model, step int) {
	dir := fmt.Sprintf("/backup-%d", step)
	if err := ix.Backup(bg, dir); err != nil {
		t.Fatal(err)
	}
	if err := ix.Backup(bg, dir); !errors.Is(err, ErrInvalid) {
		t.Fatalf("backup over a backup: %v", err)
	}
	copy, err := Open(dir, &Options{FS: fs, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	m.check(t, copy)
	if err := copy.Close(); err != nil {
		t.Fatal(err)
	}
}
