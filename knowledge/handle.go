package knowledge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// A base is the handle of one knowledge base.
type base struct {
	s          *Store
	id         string
	generation int // 0: the live base
	dir        string

	write sync.Mutex // one ingest, delete or rebuild at a time
	later []string   // blobs to drop when links is free; guarded by write

	// links is held while a generation is made or dropped: the files that it
	// links must stay, and the index it copies stay open.
	links sync.Mutex

	// batch is held from reading what a batch is made of until it is applied.
	batch sync.Mutex

	mu     sync.Mutex // what follows
	swept  bool
	cat    catalog
	ix     collection.Collection // nil until first used
	fields []string              // text fields that hold something
	hidden []string              // ids of disabled documents, sorted; never changed in place
	closed bool
}

func (b *base) path(name string) string { return filepath.Join(b.dir, name) }

// reference names the base in requests and errors.
func (b *base) reference() string { return reference(b.id, b.generation) }

func (b *base) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.ix == nil {
		return nil
	}
	ix := b.ix
	b.ix = nil
	return ix.Close()
}

// open returns the index, opened when it is not, and the catalog.
func (b *base) open(ctx context.Context) (collection.Collection, catalog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openLocked(ctx)
}

func (b *base) openLocked(ctx context.Context) (collection.Collection, catalog, error) {
	if b.closed {
		return nil, catalog{}, noBase(b.reference())
	}
	if b.ix != nil {
		return b.ix, b.cat, nil
	}
	switch {
	case b.generation > 0: // it never changes
	case b.s.o.ReadOnly:
		cat, err := readCatalog(b.s.fs, b.dir, b.id, 0) // a writer may have rebuilt it
		if err != nil {
			return nil, catalog{}, err
		}
		b.cat = *cat
	case !b.swept:
		if err := b.sweep(); err != nil {
			return nil, catalog{}, err
		}
		b.swept = true
	}
	ix, err := b.openIndex(ctx, &b.cat)
	if err != nil {
		return nil, catalog{}, err
	}
	st, err := ix.Stats(ctx)
	if err == nil {
		b.hidden, err = markedIn(ctx, ix)
	}
	if err != nil {
		return nil, catalog{}, errors.Join(err, ix.Close())
	}
	b.ix, b.fields = ix, nil
	for _, f := range st.Fields {
		if f.Documents > 0 && (f.Name == fieldText || strings.HasPrefix(f.Name, fieldText+"_")) && f.Kind == "text" {
			b.fields = append(b.fields, f.Name)
		}
	}
	return b.ix, b.cat, nil
}

// sweep removes the indexes of rebuilds and the generations that a crash has
// ended. It runs before this handle has made any of its own.
func (b *base) sweep() error {
	names, err := b.s.fs.List(b.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		leftover := strings.HasPrefix(name, "index-") && name != b.cat.Index+"/"
		if n, ok := generationOf(name); ok {
			_, err := b.s.fs.Stat(filepath.Join(b.path(generationDir(n)), catalogName))
			leftover = errors.Is(err, storage.ErrNotFound)
		}
		if leftover {
			if err := removeTree(b.s.fs, b.path(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// collection is the name of the collection that holds the index, "" for a
// directory.
func (c *catalog) collection() string {
	if c.Collection == "" {
		return ""
	}
	return c.Collection + "." + c.Index
}

// openIndex opens the index that a catalog names.
func (b *base) openIndex(ctx context.Context, cat *catalog) (collection.Collection, error) {
	sc, err := cat.schema()
	if err != nil {
		return nil, err
	}
	if name := cat.collection(); name != "" {
		if b.s.o.Elsewhere == nil {
			return nil, storage.Invalidf("knowledge base %q: its index is the collection %s of a cluster, and the store was opened without one", b.reference(), name)
		}
		ix, err := b.s.o.Elsewhere.Open(ctx, name, sc)
		if err != nil {
			return nil, fmt.Errorf("knowledge base %q: %w", b.reference(), err)
		}
		return ix, nil
	}
	o := &index.Options{Schema: sc, FS: b.s.fs, Sync: b.s.o.Sync, Logger: b.s.o.Logger, ReadOnly: b.s.o.ReadOnly || b.generation > 0}
	if o.ReadOnly {
		o.Schema = nil
	}
	ix, err := collection.Open(filepath.Join(b.dir, cat.Index), o)
	if err != nil {
		return nil, fmt.Errorf("knowledge base %q: %w", b.reference(), err)
	}
	return ix, nil
}

// dropIndex removes the index that a catalog names; none is no error.
func (b *base) dropIndex(ctx context.Context, cat *catalog) error {
	name := cat.collection()
	if name == "" {
		return removeTree(b.s.fs, b.path(cat.Index))
	}
	if b.s.o.Elsewhere == nil {
		return nil // it cannot be reached
	}
	if err := b.s.o.Elsewhere.Drop(ctx, name); !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// freeze fixes the model of a base at its first ingest, and afterwards checks
// that it is still the same.
func (b *base) freeze(ctx context.Context, model *embed.Identity) (collection.Collection, catalog, error) {
	// The first time the index is opened anew: not while it is being copied.
	if b.isEmpty() {
		b.links.Lock()
		defer b.links.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cat.Frozen {
		if err := b.cat.checkModel(model); err != nil {
			return nil, catalog{}, err
		}
		return b.openLocked(ctx)
	}
	next := b.cat
	next.Frozen, next.Model = true, model
	if _, err := next.schema(); err != nil {
		return nil, catalog{}, err
	}
	// An index that is open has no vector field yet.
	if b.ix != nil {
		ix := b.ix
		b.ix = nil
		if err := ix.Close(); err != nil {
			return nil, catalog{}, err
		}
	}
	if err := next.write(b.s.fs, b.dir); err != nil {
		return nil, catalog{}, err
	}
	b.cat = next
	return b.openLocked(ctx)
}

// gone tells that the base was deleted, or the generation dropped.
func (b *base) gone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// isEmpty tells that nothing was ever ingested.
func (b *base) isEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.cat.Frozen
}

// checkModel compares the model in use with the frozen one.
func (c *catalog) checkModel(model *embed.Identity) error {
	if !c.Frozen || c.Model == nil && model == nil || c.Model != nil && model != nil && same(*c.Model, *model) {
		return nil
	}
	return fmt.Errorf("%w: knowledge base %q was made with %s, in use is %s; rebuild it with: quarry kb rebuild %s",
		ErrModel, reference(c.ID, c.Generation), c.Model.Label(), model.Label(), c.ID)
}

// embedder returns the embedder of a base, nil for none.
func (s *Store) embedder(c *catalog) (embed.Embedder, error) {
	if c.Embedder == "" {
		return s.o.Embedder, nil
	}
	if e := s.o.Embedders[c.Embedder]; e != nil {
		return e, nil
	}
	return nil, storage.Invalidf("knowledge base %q: embedder %q is not one of the store's", c.ID, c.Embedder)
}

// identity asks an embedder for its identity; one that learns its dimension
// from its first answer is asked for a vector. Nil for no embedder.
func identity(ctx context.Context, e embed.Embedder) (*embed.Identity, error) {
	if e == nil {
		return nil, nil
	}
	id := e.Identity()
	if id.Dim <= 0 {
		r, err := e.Embed(ctx, embed.Passage, []string{"quarry"})
		if err != nil {
			return nil, err
		}
		if id = e.Identity(); id.Dim <= 0 {
			id.Dim = len(r.Vectors)
		}
	}
	if id.Dim < 1 || id.Dim > 4096 {
		return nil, fmt.Errorf("%w: model %s has dimension %d, want 1 to 4096", embed.ErrContract, id.Name, id.Dim)
	}
	return &id, nil
}

// hold notes that a text field is in use, before anything is put into it.
func (b *base) hold(fields map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for f := range fields {
		if !slices.Contains(b.fields, f) {
			b.fields = append(slices.Clone(b.fields), f)
		}
	}
	slices.Sort(b.fields)
}

// setDisabled changes which documents are passed over by searches.
func (b *base) setDisabled(add, remove []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(add) == 0 && len(b.hidden) == 0 {
		return
	}
	next := slices.DeleteFunc(slices.Concat(b.hidden, add), func(id string) bool { return slices.Contains(remove, id) })
	slices.Sort(next)
	b.hidden = slices.Compact(next)
}

func (b *base) disabledIDs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hidden
}

// A view is a base at one moment.
type view struct {
	b      *base
	cat    catalog
	snap   collection.Snapshot
	fields []string
	hidden []string
}

// filter is f without the disabled documents.
func (v *view) filter(f filter.Filter) filter.Filter {
	if len(v.hidden) == 0 {
		return f
	}
	ids := make([]any, len(v.hidden))
	for i, id := range v.hidden {
		ids[i] = id
	}
	rest := filter.Not(filter.In(FieldDocument, ids...))
	if f.IsZero() {
		return rest
	}
	return filter.And(f, rest)
}

func (v *view) close() { _ = v.snap.Close() } // it gives back memory; nothing to report

// view opens a base for reading.
func (s *Store) view(ctx context.Context, id string) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := s.base(id)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ix, cat, err := b.openLocked(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := ix.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &view{b: b, cat: cat, snap: snap, fields: b.fields, hidden: b.hidden}, nil
}

// filters gives every base its filter.
func (q *query) filters(ctx context.Context) error {
	var tree any
	metas := make([]map[string]filter.Type, len(q.bases))
	fields := make(map[string]bool) // known to any base
	if !q.r.Filter.IsZero() {
		data, err := q.r.Filter.MarshalJSON()
		if err == nil {
			tree, err = decodeNumbers(data)
		}
		if err != nil {
			return fmt.Errorf("filter: %w", err)
		}
		for name := range schemaMeta() {
			fields[name] = true
		}
		for i, b := range q.bases {
			if b.err != nil {
				continue
			}
			var sc index.Schema
			sc, b.err = b.view.snap.Schema(ctx)
			metas[i] = sc.Meta
			for name := range sc.Meta {
				fields[name] = true
			}
		}
	}
	for i, b := range q.bases {
		if b.err != nil {
			continue
		}
		b.filter = q.r.Filter
		if tree != nil {
			meta := metas[i]
			rest, changed := without(tree, func(field string) bool { _, here := meta[field]; return !here && fields[field] })
			if changed {
				data, err := json.Marshal(rest)
				if err == nil {
					b.filter, err = filter.ParseJSON(data)
				}
				if err != nil {
					return fmt.Errorf("filter: %w", err)
				}
			}
		}
		b.filter = b.view.filter(b.filter)
	}
	return nil
}

// decodeNumbers decodes JSON and keeps numbers as they are written.
func decodeNumbers(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// without returns the JSON form of a filter in which every condition on a field
// that is missing matches nothing, and whether there is one.
func without(node any, missing func(field string) bool) (any, bool) {
	switch v := node.(type) {
	case []any:
		out, changed := make([]any, len(v)), false
		for i, kid := range v {
			k, c := without(kid, missing)
			out[i], changed = k, changed || c
		}
		return out, changed
	case map[string]any:
		if field, ok := v["field"].(string); ok {
			if missing(field) {
				return map[string]any{"or": []any{}}, true
			}
			return v, false
		}
		out, changed := make(map[string]any, 1), false
		for op, kid := range v {
			k, c := without(kid, missing)
			out[op], changed = k, changed || c
		}
		return out, changed
	}
	return node, false
}
