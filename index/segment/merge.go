package segment

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// Dropped is the new doc, in a map, of a doc that a merge left out.
const Dropped = ^uint32(0)

// An Input is a segment to merge without its deleted docs.
type Input struct {
	*Segment
	Deleted *roaring.Bitmap // nil: none
}

// Merge writes the live docs of inputs as one segment to w, which the caller
// finishes, and returns for each input the map from its docs to the new ones,
// and their number. No two live docs may have the same id. Nothing is analyzed
// again: postings, vectors and bitmaps are renumbered and copied. Time is linear
// in the bytes of the inputs, but for graphs: the largest is kept, and the
// vectors of the others are inserted, see hnsw.Merge; o.Merged is told.
func Merge(ctx context.Context, w *storage.SegmentWriter, sc *Schema, inputs []Input, o Options) ([][]uint32, uint32, error) {
	w.StopWhen(ctx.Err)
	m, err := newMerger(inputs)
	if err != nil {
		return nil, 0, err
	}
	names := fieldsOf(inputs)
	if err := writeSection(w.Section, metaSection, appendHead(nil, m.docs, names)); err != nil {
		return nil, 0, err
	}
	if err := writeIDs(w.Section, int(m.docs), m.id); err != nil {
		return nil, 0, err
	}
	if err := m.stored(ctx, w, o); err != nil {
		return nil, 0, err
	}
	var fi []filter.MergeInput
	for i, in := range inputs {
		fi = append(fi, filter.MergeInput{Segment: in.Filter, DocMap: m.maps[i]})
	}
	if err := filter.Merge(sub(w.Section, filterPrefix), fi, m.docs); err != nil {
		return nil, 0, err
	}
	return m.maps, m.docs, m.fields(ctx, w, sc, names, o)
}

// fields merges the parts of each field.
func (m *merger) fields(ctx context.Context, w *storage.SegmentWriter, sc *Schema, names fieldNames, o Options) error {
	for i, name := range names.text {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.text(w, name, o.threads()); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress("merge text", i+1, len(names.text))
		}
	}
	for _, name := range names.vectors {
		if err := m.vectors(ctx, w, sc, name, o); err != nil {
			return err
		}
	}
	for _, name := range names.sparse {
		if err := m.sparse(w, name); err != nil {
			return fmt.Errorf("sparse field %q: %w", name, err)
		}
	}
	return nil
}

// A merger holds the order of the docs of the new segment.
type merger struct {
	inputs []Input
	maps   [][]uint32 // input, old doc → new doc
	from   []docRef   // new doc → input, old doc
	docs   uint32
}

type docRef struct{ input, doc uint32 }

// newMerger orders the live docs of all inputs by id.
func newMerger(inputs []Input) (*merger, error) {
	m := &merger{inputs: inputs}
	total := 0
	h := idHeap{inputs: inputs}
	for i, in := range inputs {
		dm := make([]uint32, in.Docs)
		for d := range dm {
			dm[d] = Dropped
		}
		m.maps = append(m.maps, dm)
		live := int(in.Docs)
		if in.Deleted != nil {
			live -= int(in.Deleted.GetCardinality())
		}
		total += live
		h.start(uint32(i))
	}
	if _, err := docCount(total); err != nil {
		return nil, err
	}
	m.from = make([]docRef, 0, total)
	var last []byte
	for len(h.pos) > 0 {
		ref, id := h.pos[0].docRef, h.pos[0].id
		if m.docs > 0 && bytes.Compare(last, id) >= 0 {
			return nil, storage.Corruptf(inputs[ref.input].File.Name(), 0, "id %q is not above the one before, or live in two segments", id)
		}
		m.maps[ref.input][ref.doc] = m.docs
		m.from = append(m.from, ref)
		m.docs++
		last = id
		h.advance()
	}
	return m, nil
}

// An idHeap gives the least id of all inputs.
type idHeap struct {
	inputs []Input
	pos    []idPos
}

type idPos struct {
	docRef
	id []byte
}

func (h *idHeap) settle(p *idPos) bool {
	in := &h.inputs[p.input]
	for in.Deleted != nil && p.doc < in.Docs && in.Deleted.Contains(p.doc) {
		p.doc++
	}
	p.id = in.IDs.Bytes(p.doc)
	return p.doc < in.Docs
}

func (h *idHeap) start(input uint32) {
	p := idPos{docRef: docRef{input: input}}
	if !h.settle(&p) {
		return
	}
	h.pos = append(h.pos, p)
	for i := len(h.pos) - 1; i > 0; {
		up := (i - 1) / 2
		if bytes.Compare(h.pos[up].id, h.pos[i].id) <= 0 {
			break
		}
		h.pos[up], h.pos[i] = h.pos[i], h.pos[up]
		i = up
	}
}

// advance replaces the least position by the next of its input.
func (h *idHeap) advance() {
	top := &h.pos[0]
	if top.doc++; !h.settle(top) {
		last := len(h.pos) - 1
		h.pos[0] = h.pos[last]
		h.pos = h.pos[:last]
	}
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c < min(2*i+3, len(h.pos)); c++ {
			if bytes.Compare(h.pos[c].id, h.pos[least].id) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		h.pos[i], h.pos[least] = h.pos[least], h.pos[i]
		i = least
	}
}

func (m *merger) id(doc int) []byte {
	r := m.from[doc]
	return m.inputs[r.input].IDs.Bytes(r.doc)
}

func (m *merger) stored(ctx context.Context, w *storage.SegmentWriter, o Options) error {
	dw, err := storage.NewDocWriter(sub(w.Section, storedPrefix), o.docMode())
	if err != nil {
		return err
	}
	cursors := make([]*storage.DocCursor, len(m.inputs))
	for i, in := range m.inputs {
		cursors[i] = in.Stored.Cursor()
	}
	for i, r := range m.from {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if o.Progress != nil {
				o.Progress("merge documents", i, len(m.from))
			}
		}
		b, err := cursors[r.input].Get(r.doc)
		if err != nil {
			return err
		}
		if err := dw.Add(b); err != nil {
			return err
		}
	}
	return dw.Finish()
}

func (m *merger) text(w *storage.SegmentWriter, name string, threads int) error {
	var in []bm25.MergeInput
	for i, s := range m.inputs {
		if f := s.Text[name]; f != nil {
			in = append(in, bm25.MergeInput{Field: f, DocMap: m.maps[i]})
		}
	}
	return bm25.Merge(sub(w.Section, textPrefix(name)), in, m.docs, threads)
}

func (m *merger) sparse(w *storage.SegmentWriter, name string) error {
	var in []sparse.MergeInput
	for i, s := range m.inputs {
		if f := s.Sparse[name]; f != nil {
			in = append(in, sparse.MergeInput{Field: f, DocMap: m.maps[i]})
		}
	}
	return sparse.Merge(sub(w.Section, sparsePrefix(name)), in, m.docs)
}

func (m *merger) vectors(ctx context.Context, w *storage.SegmentWriter, sc *Schema, name string, o Options) error {
	var in []hnsw.MergeInput
	for i, s := range m.inputs {
		if f := s.Vectors[name]; f != nil {
			in = append(in, hnsw.MergeInput{Field: f, DocMap: m.maps[i]})
		}
	}
	report, err := hnsw.Merge(ctx, o.vector(sc.Vectors[name]), in, sub(w.Section, vectorPrefix(name)))
	if err == nil && o.Merged != nil {
		o.Merged(name, report)
	}
	return err
}

// fieldsOf returns the fields that any input has, sorted. A field of which
// every doc is deleted stays, empty, until the next merge.
func fieldsOf(inputs []Input) (n fieldNames) {
	for _, in := range inputs {
		n.text = slices.AppendSeq(n.text, maps.Keys(in.Text))
		n.vectors = slices.AppendSeq(n.vectors, maps.Keys(in.Vectors))
		n.sparse = slices.AppendSeq(n.sparse, maps.Keys(in.Sparse))
	}
	for _, list := range []*[]string{&n.text, &n.vectors, &n.sparse} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return n
}
