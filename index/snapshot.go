package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/index/accept"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// A handle is one open segment, shared by all views of it. When the last
// reference goes, the segment is unmapped, and its file removed if no
// manifest names it any more: a reader never loses the bytes under it.
type handle struct {
	*segment.Segment
	refs   atomic.Int64
	name   string // file name, or "mutable"
	number uint64 // of the file, 0 in memory
	size   int64  // bytes
	remove atomic.Pointer[func() error]

	verified sync.Once
	verdict  error // of Verify, once asked for
}

func newHandle(s *segment.Segment, name string, number uint64, size int64) *handle {
	h := &handle{Segment: s, name: name, number: number, size: size}
	h.refs.Store(1)
	return h
}

// damage compares the checksums of the segment, once.
func (h *handle) damage() error {
	h.verified.Do(func() { h.verdict = h.File.Verify(context.Background()) })
	return h.verdict
}

func (h *handle) retain() { h.refs.Add(1) }

func (h *handle) release() error {
	if h.refs.Add(-1) != 0 {
		return nil
	}
	err := h.Segment.Release()
	if f := h.remove.Load(); f != nil && err == nil {
		err = (*f)()
	}
	return err
}

// A view is a segment with the tombstones of one moment. It never changes.
type view struct {
	*segment.Segment
	h       *handle
	name    string          // file name, or "mutable"
	deleted *roaring.Bitmap // nil: none; never changed after publication
	live    int             // docs without a tombstone

	bitsOnce sync.Once
	bits     []uint64
	liveOnce sync.Once
	liveMap  *roaring.Bitmap
	accepts  accept.Cache // of filters
	ords     sync.Map     // vector field name → ord bitset of the live docs, made at first use
}

func newView(h *handle, deleted *roaring.Bitmap) *view {
	v := &view{Segment: h.Segment, h: h, name: h.name, live: int(h.Docs)}
	if deleted != nil && !deleted.IsEmpty() {
		v.deleted = deleted
		v.live -= int(deleted.GetCardinality())
	}
	return v
}

// with returns the view with more tombstones; it takes over dead.
func (v *view) with(dead *roaring.Bitmap) *view {
	if v.deleted != nil {
		dead.Or(v.deleted)
	}
	return newView(v.h, dead)
}

// matches returns the live docs that match, a bitmap of the caller's own.
func (v *view) matches(ctx context.Context, c filter.Compiled) (*roaring.Bitmap, error) {
	return c.Eval(ctx, v.Filter, v.liveDocs(), v.Docs)
}

// liveDocs is the bitmap of the live docs, built at the first call and
// shared; nil when all are.
func (v *view) liveDocs() *roaring.Bitmap {
	if v.deleted == nil {
		return nil
	}
	v.liveOnce.Do(func() {
		v.liveMap = roaring.New()
		v.liveMap.AddRange(0, uint64(v.Docs))
		v.liveMap.AndNot(v.deleted)
	})
	return v.liveMap
}

// document reads a stored document and its vectors.
func (v *view) document(doc uint32) (Document, error) {
	buf := documentBuffers.Get().(*[]byte)
	defer documentBuffers.Put(buf)
	b, err := v.Stored.Get(doc, (*buf)[:0])
	if err != nil {
		return Document{}, fmt.Errorf("%s: doc %d: %w", v.name, doc, err)
	}
	if cap(b) <= 1<<20 {
		*buf = b[:0]
	}
	var dd segment.DocDecoder
	s, err := dd.DecodeStored(v.name, b, nil)
	if err != nil {
		return Document{}, fmt.Errorf("doc %d: %w", doc, err)
	}
	d := Document{ID: v.IDs.String(doc)}
	if len(s.Texts) > 0 {
		d.Text = make(map[string]string, len(s.Texts))
		for _, t := range s.Texts {
			d.Text[t.Field] = t.Text
		}
	}
	if len(s.Metas) > 0 {
		d.Meta = make(map[string]any, len(s.Metas))
		for _, m := range s.Metas {
			d.Meta[m.Field] = m.Value.Any()
		}
	}
	if len(s.Sparse) > 0 {
		d.Sparse = make(map[string]sparse.Vector, len(s.Sparse))
		for _, p := range s.Sparse {
			d.Sparse[p.Field] = p.Vector
		}
	}
	for name, f := range v.Vectors {
		if ord, ok := f.Ord(doc); ok {
			if d.Vectors == nil {
				d.Vectors = make(map[string][]float32, len(v.Vectors))
			}
			d.Vectors[name] = slices.Clone(f.Vector(ord))
		}
	}
	return d, nil
}

var documentBuffers = sync.Pool{New: func() any { return new([]byte) }}

func (v *view) isLive(doc uint32) bool { return v.deleted == nil || !v.deleted.Contains(doc) }

// find returns the live doc of an id.
func (v *view) find(id string) (uint32, bool) {
	doc, ok := v.IDs.Find(id)
	return doc, ok && v.isLive(doc)
}

// liveBits is a dense bitset of the live docs, one bit a doc, built at the
// first call and shared.
func (v *view) liveBits() []uint64 {
	v.bitsOnce.Do(func() {
		n := int(v.Docs)
		b := make([]uint64, (n+63)/64)
		for i := range b {
			b[i] = ^uint64(0)
		}
		if n%64 != 0 {
			b[len(b)-1] = 1<<(n%64) - 1
		}
		if v.deleted != nil {
			for it := v.deleted.Iterator(); it.HasNext(); {
				doc := it.Next()
				b[doc/64] &^= 1 << (doc % 64)
			}
		}
		v.bits = b
	})
	return v.bits
}

// A state is what the index publishes: a schema and views, file segments
// first, oldest first, then memory segments, oldest first. It never changes;
// it holds a reference to each handle until its own last reference goes.
type state struct {
	refs   atomic.Int64
	schema *schema
	views  []*view
	files  int // views[:files] are file segments
}

func newState(sc *schema, files, memory []*view) *state {
	st := &state{schema: sc, files: len(files)}
	st.views = append(append(make([]*view, 0, len(files)+len(memory)), files...), memory...)
	for _, v := range st.views {
		v.h.retain()
	}
	st.refs.Store(1)
	return st
}

func (st *state) release() {
	if st.refs.Add(-1) != 0 {
		return
	}
	for _, v := range st.views {
		_ = v.h.release() // an unmap or unlink that failed harms no reader; Open clears leftovers
	}
}

// A Snapshot is the index at one moment: no later write shows in it. It keeps
// the segments it sees from being unmapped and must be closed. It is safe for
// concurrent use and outlives the Index's own Close.
type Snapshot struct {
	ix     *Index
	schema *schema
	segs   []*view // file segments first, oldest first, then memory segments
	st     *state

	refs   atomic.Int64 // one for the owner, one for each call in flight
	closed atomic.Bool
}

// Close releases the snapshot; calls in flight finish first. Later calls on
// the snapshot are ErrClosed, a second Close does nothing.
func (s *Snapshot) Close() error {
	if !s.closed.Swap(true) {
		s.release()
	}
	return nil
}

// acquire keeps the segments alive for one call; release ends it.
func (s *Snapshot) acquire() error {
	for {
		n := s.refs.Load()
		if n == 0 || s.closed.Load() {
			return ErrClosed
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (s *Snapshot) release() {
	if s.refs.Add(-1) == 0 {
		s.st.release()
	}
}

// Schema returns the schema the snapshot was taken under, defaults filled in
// and grown metadata included.
func (s *Snapshot) Schema() Schema { return s.schema.public.clone() }

// Len returns the number of live documents.
func (s *Snapshot) Len() int {
	n := 0
	for _, v := range s.segs {
		n += v.live
	}
	return n
}

// blame gives an error of damaged bytes, or of a fault, the file and the place
// in it: a part of a segment knows only the names of its sections.
func (s *Snapshot) blame(err error) error {
	var fault *storage.FaultError
	if !errors.As(err, &fault) && !errors.Is(err, ErrCorrupt) {
		return err
	}
	for _, v := range s.segs {
		if off, ok := v.File.FaultOffset(err); ok {
			return fmt.Errorf("%s: byte %d: %w", v.name, off, err)
		}
	}
	for _, v := range s.segs {
		if verr := v.h.damage(); fault == nil && verr != nil {
			return fmt.Errorf("%w, where %w", err, verr)
		}
	}
	return err
}

// find returns where an id's live document is.
func (s *Snapshot) find(id string) (*view, uint32, bool) {
	for i := len(s.segs) - 1; i >= 0; i-- {
		if doc, ok := s.segs[i].find(id); ok {
			return s.segs[i], doc, true
		}
	}
	return nil, 0, false
}

// Exists says whether the snapshot holds a document.
func (s *Snapshot) Exists(id string) (bool, error) {
	if err := s.acquire(); err != nil {
		return false, err
	}
	defer s.release()
	var ok bool
	err := guard(func() error { _, _, ok = s.find(id); return nil })
	return ok, s.blame(err)
}

// Get returns a document, vectors included; ErrNotFound when there is none of
// that id. Text of fields declared NotStored is not part of it.
func (s *Snapshot) Get(id string) (Document, error) {
	if err := s.acquire(); err != nil {
		return Document{}, err
	}
	defer s.release()
	var d Document
	err := guard(func() error {
		v, doc, ok := s.find(id)
		if !ok {
			return notFound(id)
		}
		var err error
		d, err = v.document(doc)
		return err
	})
	return d, s.blame(err)
}

// Count returns the number of live documents that match f; the zero Filter
// matches all.
func (s *Snapshot) Count(ctx context.Context, f filter.Filter) (int, error) {
	if err := s.acquire(); err != nil {
		return 0, err
	}
	defer s.release()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if f.IsZero() {
		return s.Len(), nil
	}
	c, err := s.schema.compile(f)
	if err != nil {
		return 0, err
	}
	n := 0
	err = guard(func() error {
		for _, v := range s.segs {
			m, err := v.matches(ctx, c)
			if err != nil {
				return err
			}
			n += int(m.GetCardinality())
		}
		return nil
	})
	return n, s.blame(err)
}

// Documents gives the live documents whose id is not less than from, in
// ascending order of id, vectors included. The first error ends it. It costs
// a binary search a segment and then one document read a step.
func (s *Snapshot) Documents(from string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		if err := s.acquire(); err != nil {
			yield(Document{}, err)
			return
		}
		defer s.release()
		c := newMergeCursor(s.segs, from)
		for {
			var d Document
			more := true
			err := guard(func() error {
				v, doc, ok := c.next()
				if more = ok; !ok {
					return nil
				}
				var err error
				d, err = v.document(doc)
				return err
			})
			if !more && err == nil || !yield(d, s.blame(err)) || err != nil {
				return
			}
		}
	}
}

// A mergeCursor walks the live docs of several views in ascending order of
// id: a heap of one position a view.
type mergeCursor struct {
	heap []mergePos
}

type mergePos struct {
	id  []byte
	v   *view
	doc uint32
}

func newMergeCursor(views []*view, from string) *mergeCursor {
	c := &mergeCursor{}
	for _, v := range views {
		if p := (mergePos{v: v, doc: v.IDs.Seek(from)}); p.settle() {
			c.heap = append(c.heap, p)
		}
	}
	for i := len(c.heap)/2 - 1; i >= 0; i-- {
		c.down(i)
	}
	return c
}

// settle moves to the first live doc from p.doc on.
func (p *mergePos) settle() bool {
	for p.doc < p.v.Docs && !p.v.isLive(p.doc) {
		p.doc++
	}
	p.id = p.v.IDs.Bytes(p.doc)
	return p.doc < p.v.Docs
}

func (c *mergeCursor) next() (*view, uint32, bool) {
	if len(c.heap) == 0 {
		return nil, 0, false
	}
	top := &c.heap[0]
	v, doc := top.v, top.doc
	if top.doc++; !top.settle() {
		last := len(c.heap) - 1
		c.heap[0] = c.heap[last]
		c.heap = c.heap[:last]
	}
	c.down(0)
	return v, doc, true
}

func (c *mergeCursor) down(i int) {
	for {
		m := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < len(c.heap) && string(c.heap[k].id) < string(c.heap[m].id) {
				m = k
			}
		}
		if m == i {
			return
		}
		c.heap[i], c.heap[m] = c.heap[m], c.heap[i]
		i = m
	}
}

// Get is Snapshot.Get on the index as it is now.
func (ix *Index) Get(id string) (Document, error) {
	s, err := ix.Snapshot()
	if err != nil {
		return Document{}, err
	}
	defer s.Close()
	return s.Get(id)
}

// Count is Snapshot.Count on the index as it is now.
func (ix *Index) Count(ctx context.Context, f filter.Filter) (int, error) {
	s, err := ix.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return s.Count(ctx, f)
}

// Exists is Snapshot.Exists on the index as it is now.
func (ix *Index) Exists(id string) (bool, error) {
	s, err := ix.Snapshot()
	if err != nil {
		return false, err
	}
	defer s.Close()
	return s.Exists(id)
}

// Documents is Snapshot.Documents on the index as it is when the iteration
// starts.
func (ix *Index) Documents(from string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		s, err := ix.Snapshot()
		if err != nil {
			yield(Document{}, err)
			return
		}
		defer s.Close()
		s.Documents(from)(yield)
	}
}
