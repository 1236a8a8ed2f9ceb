package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// Apply makes a batch visible and durable, all of it or nothing. Every
// document is checked before anything is written; the error names document,
// field and reason. When Apply returns nil, the batch survives a crash by the
// rule of Options.Sync, and every later Snapshot and Search sees it (a search
// may see it a moment earlier, while it is being synced).
//
// When the log cannot be written, the error is returned and the batch is not
// acknowledged: it may be visible, and a reopened index holds it whole or not
// at all. After a full disk (storage.IsDiskFull) it may be applied again once
// there is space; after a failed fsync the index is read-only until reopened
// (ErrReadOnly).
//
// Apply may be called from many goroutines. Batches are checked, analyzed and
// built side by side, ordered and logged one after the other, and synced
// together. It waits while more than Options.MaxSegments segments await a
// merge or the mutable segment is twice over its budget; ctx ends the wait,
// and the work until the batch is logged.
func (ix *Index) Apply(ctx context.Context, b *Batch) error {
	if err := ix.enter(); err != nil {
		return err
	}
	defer ix.leave()
	if err := ix.writable(); err != nil || b.Len() == 0 {
		return err
	}
	for {
		if err := ix.waitForRoom(ctx); err != nil {
			return err
		}
		p, err := prepare(ctx, ix.currentSchema(), b.ops)
		if err != nil {
			return err
		}
		if p.bytes > ix.o.MutableBytes {
			err = ix.applyLarge(ctx, p)
		} else {
			err = ix.applyLogged(ctx, p)
		}
		switch {
		case errors.Is(err, errInDoubt):
			if err := ix.flush(ctx); err != nil {
				return err
			}
		case !errors.Is(err, errSchemaMoved):
			return err
		}
	}
}

// errInDoubt tells that a full disk took an earlier batch out of the log. It
// stays visible, so later batches build on it and must not be logged before a
// flush has made it durable.
var errInDoubt = errors.New("index: an earlier batch is not in the log")

// errSchemaMoved tells that another batch gave a type to a field this batch
// brought too: the batch must be checked again, under that type.
var errSchemaMoved = errors.New("index: schema moved")

// A prepared batch is a batch checked under a schema and reduced to what it
// does: documents that live after it, in order of id, and ids that do not.
type prepared struct {
	base   *schema       // the schema it was checked under
	grown  []grownField  // metadata it brings to that
	docs   []segment.Doc // strictly ascending ids
	dead   []string      // ids whose older documents go: put or deleted; sorted
	gone   []string      // of these, the ones not put; sorted
	wheres []filter.Compiled
	bytes  int64 // in the WAL
}

// prepare checks all operations, in order, and resolves them among each
// other. What a DeleteWhere hits in the index is found when the batch is
// logged; an older document of an id in dead goes anyway, so the order within
// the batch does not matter for it.
func prepare(ctx context.Context, sc *schema, ops []op) (*prepared, error) {
	c := checker{sc: sc}
	p := &prepared{base: sc}
	slot := make(map[string]int, len(ops)) // id → place in docs, -1 deleted
	docs := make([]segment.Doc, 0, len(ops))
	for i := range ops {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		o := &ops[i]
		c.left = len(ops) - i
		switch o.kind {
		case opPut:
			d, err := c.check(&o.doc)
			if err != nil {
				return nil, err
			}
			size := docBytes(&d)
			if size > MaxDocumentBytes {
				return nil, tooLargef("document %q takes %d bytes, the limit is %d", d.ID, size, MaxDocumentBytes)
			}
			if p.bytes += size; p.bytes > MaxBatchBytes {
				return nil, tooLargef("batch takes more than %d bytes, at document %q", MaxBatchBytes, d.ID)
			}
			slot[d.ID] = len(docs)
			docs = append(docs, d)
		case opDelete:
			if err := segment.CheckID(o.doc.ID); err != nil {
				return nil, fmt.Errorf("delete: %w", err)
			}
			p.bytes += int64(len(o.doc.ID)) + 2
			slot[o.doc.ID] = -1
		case opDeleteWhere:
			f, err := c.compile(o.filter)
			if err != nil {
				return nil, fmt.Errorf("delete where: %w", err)
			}
			p.wheres = append(p.wheres, f)
			if err := deleteAmong(f, docs, slot); err != nil {
				return nil, err
			}
		}
	}
	p.grown = c.grown()
	if _, err := sc.grow(p.grown); err != nil {
		return nil, err
	}
	p.settle(docs, slot)
	return p, nil
}

// settle sorts the outcome by id.
func (p *prepared) settle(docs []segment.Doc, slot map[string]int) {
	sorted := true
	p.docs = docs[:0]
	for i := range docs {
		if slot[docs[i].ID] != i {
			continue // overwritten or deleted later in the batch
		}
		if n := len(p.docs); n > 0 && p.docs[n-1].ID >= docs[i].ID {
			sorted = false
		}
		p.docs = append(p.docs, docs[i])
	}
	if !sorted {
		sort.Slice(p.docs, func(i, j int) bool { return p.docs[i].ID < p.docs[j].ID })
	}
	p.dead = make([]string, 0, len(slot))
	for i := range p.docs {
		p.dead = append(p.dead, p.docs[i].ID)
	}
	for id, i := range slot {
		if i < 0 {
			p.gone = append(p.gone, id)
		}
	}
	if len(p.gone) > 0 {
		slices.Sort(p.gone)
		p.dead = append(p.dead, p.gone...)
		slices.Sort(p.dead)
	}
}

// deleteAmong deletes the documents of the batch so far that f matches.
func deleteAmong(f filter.Compiled, docs []segment.Doc, slot map[string]int) error {
	var live []segment.Doc
	for i := range docs {
		if slot[docs[i].ID] == i {
			live = append(live, docs[i])
		}
	}
	if len(live) == 0 {
		return nil
	}
	m, err := segment.Match(f, live)
	if err != nil {
		return err
	}
	for it := m.Iterator(); it.HasNext(); {
		slot[live[it.Next()].ID] = -1
	}
	return nil
}

// docBytes is about the size AppendDoc writes, never less by more than the
// varints of the lengths.
func docBytes(d *segment.Doc) int64 {
	n := len(d.ID) + len(d.Stored) + 16
	for _, t := range d.Texts {
		if t.NotStored {
			n += len(t.Field) + len(t.Text) + 8
		}
	}
	for _, v := range d.Vectors {
		n += len(v.Field) + 4*len(v.Vec) + 8
	}
	return int64(n)
}

// A checker turns Documents into segment.Docs under a schema and the types
// that earlier documents of the batch have shown.
type checker struct {
	sc    *schema
	types map[string]filter.Type // over sc's
	arena []byte                 // stored documents
	left  int                    // operations to come, this one included
}

// arenaDocs is the number of documents that share a piece of memory.
const arenaDocs = 64

// room makes room in the arena for a stored document, and for more like it.
func (c *checker) room(d *segment.Doc) {
	n := 16
	for i := range d.Texts {
		n += len(d.Texts[i].Field) + len(d.Texts[i].Text) + 8
	}
	for i := range d.Metas {
		n += len(d.Metas[i].Field) + d.Metas[i].Value.SizeHint() + 4
	}
	for i := range d.Sparse {
		n += len(d.Sparse[i].Field) + 5*len(d.Sparse[i].Vector) + 8
	}
	if cap(c.arena)-len(c.arena) < n {
		c.arena = make([]byte, 0, n*max(1, min(c.left, arenaDocs)))
	}
}

func (c *checker) typeOf(field string) (filter.Type, bool) {
	if t, ok := c.types[field]; ok {
		return t, true
	}
	t, ok := c.sc.public.Meta[field]
	return t, ok
}

func (c *checker) compile(f filter.Filter) (filter.Compiled, error) {
	if f.IsZero() {
		return filter.Compiled{}, invalidf("no filter: to delete every document say And()")
	}
	return filter.Compile(f, c.typeOf)
}

func (c *checker) grown() []grownField {
	out := make([]grownField, 0, len(c.types))
	for name, t := range c.types {
		out = append(out, grownField{name, t})
	}
	slices.SortFunc(out, func(a, b grownField) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return out
}

func (c *checker) check(d *Document) (segment.Doc, error) {
	out := segment.Doc{ID: d.ID}
	if err := segment.CheckID(d.ID); err != nil {
		return out, err
	}
	if err := c.texts(d, &out); err != nil {
		return out, fmt.Errorf("document %q: %w", d.ID, err)
	}
	if err := c.vectors(d, &out); err != nil {
		return out, fmt.Errorf("document %q: %w", d.ID, err)
	}
	if err := c.sparse(d, &out); err != nil {
		return out, fmt.Errorf("document %q: %w", d.ID, err)
	}
	if err := c.metas(d, &out); err != nil {
		return out, fmt.Errorf("document %q: %w", d.ID, err)
	}
	c.room(&out)
	start := len(c.arena)
	c.arena = segment.AppendStored(c.arena, out.Texts, out.Metas, out.Sparse)
	out.Stored = c.arena[start:len(c.arena):len(c.arena)]
	return out, nil
}

func (c *checker) texts(d *Document, out *segment.Doc) error {
	if len(d.Text) == 0 {
		return nil
	}
	out.Texts = make([]segment.Text, 0, len(d.Text))
	for field, text := range d.Text {
		f := c.sc.text[field]
		if f == nil {
			return schemaf("unknown text field %q", field)
		}
		if len(text) > MaxDocumentBytes {
			return tooLargef("text field %q has %d bytes, the limit is %d", field, len(text), MaxDocumentBytes)
		}
		if !utf8.ValidString(text) {
			return invalidf("text field %q is not UTF-8", field)
		}
		out.Texts = append(out.Texts, segment.Text{Field: f.Name, Text: text, NotStored: f.NotStored})
	}
	slices.SortFunc(out.Texts, func(a, b segment.Text) int { return cmp.Compare(a.Field, b.Field) })
	return nil
}

func (c *checker) vectors(d *Document, out *segment.Doc) error {
	for field, v := range d.Vectors {
		f := c.sc.vectors[field]
		if f == nil {
			return schemaf("unknown vector field %q", field)
		}
		if len(v) != f.Dim {
			return invalidf("vector field %q: want %d components, got %d", field, f.Dim, len(v))
		}
		if err := f.Metric.Validate(v, f.Dim); err != nil {
			return fmt.Errorf("vector field %q: %w", field, err)
		}
		out.Vectors = append(out.Vectors, segment.Vector{Field: f.Name, Vec: v})
	}
	slices.SortFunc(out.Vectors, func(a, b segment.Vector) int { return cmp.Compare(a.Field, b.Field) })
	return nil
}

func (c *checker) sparse(d *Document, out *segment.Doc) error {
	for field, v := range d.Sparse {
		if !c.sc.seg.Sparse[field] {
			return schemaf("unknown sparse field %q", field)
		}
		if err := cmp.Or(v.CheckSize(), v.Check()); err != nil {
			return fmt.Errorf("sparse field %q: %w", field, err)
		}
		if len(v) > 0 {
			out.Sparse = append(out.Sparse, segment.Sparse{Field: field, Vector: v})
		}
	}
	slices.SortFunc(out.Sparse, func(a, b segment.Sparse) int { return cmp.Compare(a.Field, b.Field) })
	return nil
}

func (c *checker) metas(d *Document, out *segment.Doc) error {
	if len(d.Meta) == 0 {
		return nil
	}
	out.Metas = make([]segment.Meta, 0, len(d.Meta))
	for field, v := range d.Meta {
		val, err := c.meta(field, v)
		if err != nil {
			return err
		}
		out.Metas = append(out.Metas, segment.Meta{Field: field, Value: val})
	}
	slices.SortFunc(out.Metas, func(a, b segment.Meta) int { return cmp.Compare(a.Field, b.Field) })
	return nil
}

func (c *checker) meta(field string, v any) (filter.Value, error) {
	typ, known := c.typeOf(field)
	if !known {
		switch {
		case c.sc.public.Strict:
			return filter.Value{}, schemaf("metadata field %q is not declared and the schema is strict", field)
		case c.sc.declared(field):
			return filter.Value{}, schemaf("metadata field %q is declared as another kind of field", field)
		}
		if err := checkName(field); err != nil {
			return filter.Value{}, err
		}
	}
	val, err := filter.Normalize(v, typ)
	if err != nil {
		// A good value of another type is a conflict, a bad value is not.
		if _, bad := filter.Normalize(v, filter.Undeclared); bad == nil {
			return val, fmt.Errorf("%w: metadata field %q: %w", ErrSchema, field, err)
		}
		return val, fmt.Errorf("metadata field %q: %w", field, err)
	}
	if val.IsMissing() {
		return val, invalidf("metadata field %q: the missing value cannot be put", field)
	}
	if !known || typ == filter.Undeclared && val.Type() != typ {
		if c.types == nil {
			c.types = make(map[string]filter.Type)
		}
		c.types[field] = val.Type()
	}
	return val, nil
}

// rebase returns the schema after the batch, given the one in force now.
func (p *prepared) rebase(now *schema) (*schema, error) {
	if now != p.base {
		for _, g := range p.grown {
			if t, ok := now.public.Meta[g.name]; ok && t != g.typ && t != filter.Undeclared {
				return nil, errSchemaMoved
			}
		}
	}
	sc, err := now.grow(p.grown)
	if err != nil && now != p.base {
		return nil, errSchemaMoved // check again, for a message about this batch
	}
	return sc, err
}

// applyLogged is the way of a batch through the WAL.
func (ix *Index) applyLogged(ctx context.Context, p *prepared) error {
	sc, err := p.base.grow(p.grown)
	if err != nil {
		return err
	}
	h, err := ix.memorySegment(ctx, sc, p.docs)
	if err != nil {
		return err
	}
	if h != nil {
		defer h.release()
	}
	record := p.appendRecord(nil)
	pos, err := ix.logAndPublish(p, h, record)
	if err != nil {
		return err
	}
	// Housekeeping runs while the record is on its way to the disk.
	ix.afterApply(ctx)
	return ix.commitWAL(ctx, pos)
}

// logAndPublish orders the batch among all others: under the lock it finds
// the documents that go, appends the record and publishes the new state.
func (ix *Index) logAndPublish(p *prepared, h *handle, record []byte) (storage.Position, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var none storage.Position
	if err := ix.writable(); err != nil {
		return none, err
	}
	for _, l := range ix.unsynced {
		if l.failed {
			return none, errInDoubt
		}
	}
	st := ix.cur
	sc, err := p.rebase(st.schema)
	if err != nil {
		return none, err
	}
	dead, ids, err := resolve(st, p)
	if err != nil {
		return none, err
	}
	record = appendIDs(record, ids)
	if len(record) > MaxBatchBytes {
		return none, tooLargef("batch takes %d bytes in the log, the limit is %d", len(record), MaxBatchBytes)
	}
	pos, err := ix.wal.Append(record)
	if err != nil {
		return none, ix.note(err)
	}
	files, memory := withDead(st, dead)
	if h != nil {
		memory = append(memory, newView(h, nil))
	}
	ix.logSeq++
	ix.unsynced[pos] = &logged{seq: ix.logSeq}
	ix.dirty = true
	ix.publish(newState(sc, files, memory))
	return pos, nil
}

// resolve finds, for each view, the live docs that a batch deletes or
// replaces, and the ids that its DeleteWheres hit.
func resolve(st *state, p *prepared) (dead []*roaring.Bitmap, ids []string, err error) {
	dead = make([]*roaring.Bitmap, len(st.views))
	err = guard(func() error {
		for i, v := range st.views {
			if dead[i] = v.among(p.dead); len(p.wheres) == 0 {
				continue
			}
			if dead[i] == nil {
				dead[i] = roaring.New()
			}
			for _, f := range p.wheres {
				m, err := v.matches(context.Background(), f) // of a record that is to be logged, or was
				if err != nil {
					return err
				}
				for it := m.Iterator(); it.HasNext(); {
					if doc := it.Next(); dead[i].CheckedAdd(doc) {
						ids = append(ids, v.IDs.String(doc))
					}
				}
			}
		}
		return nil
	})
	return dead, ids, err
}

// among returns the live docs of the view with an id in ids, which are
// sorted; nil when there is none.
func (v *view) among(ids []string) *roaring.Bitmap {
	if len(ids) == 0 || v.live == 0 || ids[len(ids)-1] < string(v.IDs.Bytes(0)) || ids[0] > string(v.IDs.Bytes(v.Docs-1)) {
		return nil
	}
	var out *roaring.Bitmap
	for _, id := range ids {
		doc, ok := v.find(id)
		if !ok {
			continue
		}
		if out == nil {
			out = roaring.New()
		}
		out.Add(doc)
	}
	return out
}

// withDead returns the views of a state with more tombstones. Memory segments
// without a live doc are left out.
func withDead(st *state, dead []*roaring.Bitmap) (files, memory []*view) {
	for i, v := range st.views {
		if d := dead[i]; d != nil && !d.IsEmpty() {
			v = v.with(d)
		}
		switch {
		case i < st.files:
			files = append(files, v)
		case v.live > 0:
			memory = append(memory, v)
		}
	}
	return files, memory
}

// An Effect is what a batch does under a schema, for an engine that is no Index.
// Wheres meet what was there before; Docs and Gone do not overlap, so the order
// is: Wheres, Gone, Docs.
type Effect struct {
	Docs   []segment.Doc   // checked, ascending ids; of each id the last
	Gone   []string        // ids deleted, and not put afterwards; ascending
	Wheres []filter.Filter // of DeleteWhere
	Grown  map[string]filter.Type
}

// Resolve checks a batch as Index.Apply does and reduces it to what it does.
// custom are analyzers with dictionaries, as Options.Analyzers.
func (s Schema) Resolve(ctx context.Context, b *Batch, custom ...*analysis.Analyzer) (*Effect, error) {
	if b.Len() == 0 {
		return &Effect{}, nil
	}
	sc, err := newSchema(s, true, custom...)
	if err != nil {
		return nil, err
	}
	p, err := prepare(ctx, sc, b.ops)
	if err != nil {
		return nil, err
	}
	e := &Effect{Docs: p.docs, Gone: p.gone, Grown: make(map[string]filter.Type, len(p.grown))}
	for _, g := range p.grown {
		e.Grown[g.name] = g.typ
	}
	for i := range b.ops {
		if b.ops[i].kind == opDeleteWhere {
			e.Wheres = append(e.Wheres, b.ops[i].filter)
		}
	}
	return e, nil
}

// Extend returns the schema with what add adds, its defaults filled in, and
// whether that differs from s; what Open refuses is ErrSchema here, too.
func (s Schema) Extend(add *Schema, custom ...*analysis.Analyzer) (Schema, bool, error) {
	sc, err := newSchema(s, true, custom...)
	if err != nil {
		return s, false, err
	}
	out, changed, err := sc.extend(add)
	if err != nil {
		return s, false, err
	}
	return out.public.clone(), changed, nil
}
