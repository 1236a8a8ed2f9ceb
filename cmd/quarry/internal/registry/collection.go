package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// An entry is an open collection. refs is the registry's, under its mutex.
type entry struct {
	name   string
	dir    string
	ready  chan struct{} // closed when it is open, or err is set
	err    error
	ix     collection.Collection
	record *models.Record // nil: vectors come from the caller
	texts  []string       // text fields that are embedded

	refs    int
	drained chan struct{} // closed when refs is 0, while somebody waits for that

	// writes is held for reading by those who put documents, and for writing by
	// those who delete and count what they delete.
	writes sync.RWMutex

	models shared[struct{}, embedders]
	caches struct {
		sync.Mutex
		close []func() error
	}
}

// embedders are those of one collection: the shared model for queries, the same
// behind the collection's cache for documents.
type embedders struct{ queries, documents *models.Model }

func (e *entry) close() error {
	<-e.ready
	if e.err != nil {
		return nil
	}
	err := e.ix.Close()
	e.caches.Lock()
	defer e.caches.Unlock()
	for _, f := range e.caches.close {
		err = errors.Join(err, f())
	}
	if err != nil {
		return fmt.Errorf("collection %s: %w", e.name, err)
	}
	return nil
}

// A Collection is a handle on an open collection, to be released once. Its
// methods may be called from any goroutine until then.
type Collection struct {
	r    *Registry
	e    *entry
	once sync.Once
}

// Name is the collection's.
func (c *Collection) Name() string { return c.e.name }

// Index is the collection's. It is not to be closed, nor used after Release.
func (c *Collection) Index() collection.Collection { return c.e.ix }

// Local is the index of a collection in the directory; storage.ErrInvalid for one
// on a cluster, which cannot do what.
func (c *Collection) Local(what string) (*index.Index, error) {
	if l, ok := c.e.ix.(*collection.Local); ok {
		return l.Index, nil
	}
	return nil, storage.Invalidf("collection %q is on a cluster, which does not %s", c.e.name, what)
}

// Release gives the handle back.
func (c *Collection) Release() {
	c.once.Do(func() {
		c.r.mu.Lock()
		defer c.r.mu.Unlock()
		c.e.refs--
		if c.e.refs == 0 {
			if c.e.drained != nil {
				close(c.e.drained)
				c.e.drained = nil
			}
			c.r.checkIdle()
		}
	})
}

// An Embedding tells how a collection gets its vectors.
type Embedding struct {
	Field string `json:"field"` // the vector field that is filled
	Model string `json:"model"` // name of the model
	Dim   int    `json:"dim"`
	// Texts are the text fields it is filled from, joined by newlines.
	Texts []string `json:"texts"`
}

// Embedding tells which field is filled by a model, and false where vectors
// come from the caller.
func (c *Collection) Embedding() (Embedding, bool) {
	rec := c.e.record
	if rec == nil {
		return Embedding{}, false
	}
	return Embedding{Field: rec.Field, Model: rec.Model.Name, Dim: rec.Model.Dim, Texts: c.e.texts}, true
}

// A Vector is an embedded query.
type Vector struct {
	Values []float32
	// Truncated tells that the query was cut at the model's limit.
	Truncated bool
	// Floor of the model, for index.VectorQuery.
	Floor float64
}

// Embed embeds a query by the collection's model. A query with nothing to embed
// is storage.ErrInvalid, as is a collection without a model; ErrModel when the
// model cannot be opened.
func (c *Collection) Embed(ctx context.Context, query string) (Vector, error) {
	m, err := c.embedders(ctx)
	if err != nil {
		return Vector{}, err
	}
	v, err := m.queries.Texts(ctx, embed.Query, []string{query}, nil)
	if err != nil {
		return Vector{}, fmt.Errorf("embedding the query: %w", err)
	}
	if v.Blank[0] {
		return Vector{}, storage.Invalidf("the query has nothing to embed")
	}
	return Vector{Values: v.Row(0), Truncated: v.Truncated[0], Floor: c.e.record.Model.Floor}, nil
}

// Apply puts documents, all of them at once or none, and returns when they are
// durable. Where the collection has a model, it makes their vectors; a document
// that brings one for that field is storage.ErrInvalid.
func (c *Collection) Apply(ctx context.Context, docs []index.Document) error {
	if err := c.r.writable(); err != nil {
		return err
	}
	if rec := c.e.record; rec != nil {
		for i := range docs {
			if _, given := docs[i].Vectors[rec.Field]; given {
				return storage.Invalidf("document %.80q: vector field %q is filled by the model %s: leave it out", docs[i].ID, rec.Field, rec.Model.Name)
			}
		}
		m, err := c.embedders(ctx)
		if err != nil {
			return err
		}
		docs = slices.Clone(docs) // the caller's keep what they brought
		for i := range docs {
			docs[i].Vectors = maps.Clone(docs[i].Vectors)
		}
		fill := models.Documents{Model: m.documents, Field: rec.Field, Texts: c.e.texts}
		if err := fill.Fill(ctx, docs); err != nil {
			return fmt.Errorf("embedding: %w", err)
		}
	}
	b := index.NewBatch()
	for i := range docs {
		b.Put(docs[i])
	}
	c.e.writes.RLock()
	defer c.e.writes.RUnlock()
	return c.e.ix.Apply(ctx, b)
}

// Delete deletes the documents of the ids, or those that match the filter where
// it is not zero, all at once, and tells how many there were. An id that is not
// there counts nothing. With dryRun it only counts. Neither ids nor a filter is
// storage.ErrInvalid: a deletion never widens.
func (c *Collection) Delete(ctx context.Context, ids []string, f filter.Filter, dryRun bool) (int, error) {
	if !dryRun {
		if err := c.r.writable(); err != nil {
			return 0, err
		}
	}
	if (len(ids) > 0) != f.IsZero() {
		return 0, storage.Invalidf("want either ids or a filter")
	}
	b := index.NewBatch()
	if !f.IsZero() {
		b.DeleteWhere(f)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids {
		b.Delete(id)
	}
	// Nobody else writes meanwhile: what is counted is what the batch deletes.
	c.e.writes.Lock()
	defer c.e.writes.Unlock()
	n, err := CountMatches(ctx, c.e.ix, ids, f)
	if err != nil || dryRun || n == 0 {
		return n, err
	}
	return n, c.e.ix.Apply(ctx, b)
}

// CountMatches counts what f matches, or where f is zero the ids that exist, all
// on one snapshot.
func CountMatches(ctx context.Context, ix collection.Collection, ids []string, f filter.Filter) (int, error) {
	s, err := ix.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if !f.IsZero() {
		return s.Count(ctx, f)
	}
	n := 0
	for _, id := range ids {
		there, err := s.Exists(ctx, id)
		if err != nil {
			return 0, err
		}
		if there {
			n++
		}
	}
	return n, nil
}

// Get opens a collection at its first use and returns a handle.
// storage.ErrNotFound when there is none of that name, storage.ErrInvalid when
// the name is none.
func (r *Registry) Get(ctx context.Context, name string) (*Collection, error) {
	dir := "" // looked at only when there is something to open
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return nil, storage.ErrClosed
		}
		if wait := r.busy[name]; wait != nil {
			r.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if r.open[name] == nil && dir == "" {
			r.mu.Unlock()
			var err error
			if dir, err = r.place("collection", name, collectionsName); err != nil {
				return nil, err
			}
			continue
		}
		c := r.take(name, dir)
		r.mu.Unlock()
		select {
		case <-c.e.ready:
		case <-ctx.Done():
			c.Release()
			return nil, ctx.Err()
		}
		if c.e.err != nil {
			c.Release()
			return nil, c.e.err
		}
		return c, nil
	}
}

// take returns a handle on an entry, which is opened if it was not there. r.mu
// is held.
func (r *Registry) take(name, dir string) *Collection {
	e := r.open[name]
	if e == nil {
		e = &entry{name: name, dir: dir, ready: make(chan struct{})}
		r.open[name] = e
		go func() {
			if e.err = r.openEntry(context.Background(), e, nil); e.err != nil {
				r.forget(e)
			}
			close(e.ready)
		}()
	}
	e.refs++
	return &Collection{r: r, e: e}
}

func (r *Registry) forget(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[e.name] == e {
		delete(r.open, e.name)
	}
}

// openIndex opens the index of an entry, or makes it where there is a schema: in
// the directory where it is there, or there is no cluster.
func (r *Registry) openIndex(ctx context.Context, e *entry, schema *index.Schema) (collection.Collection, error) {
	there, err := hasIndex(e.dir)
	switch {
	case err != nil:
		return nil, err
	case !there && r.o.Cluster != nil:
		return r.o.Cluster.OpenNamed(ctx, e.name, schema)
	case !there && schema == nil:
		return nil, storage.ErrNotFound
	}
	ix, err := collection.Open(e.dir, &index.Options{Schema: schema, MustExist: schema == nil, ReadOnly: r.o.ReadOnly, Verify: r.o.Verify, Sync: r.o.Sync,
		Logger: r.log.With("collection", e.name)})
	if err != nil {
		return nil, err
	}
	return ix, nil
}

func (r *Registry) openEntry(ctx context.Context, e *entry, schema *index.Schema) error {
	ix, err := r.openIndex(ctx, e, schema)
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("%w: collection %q", storage.ErrNotFound, e.name)
		}
		return fmt.Errorf("collection %q: %w", e.name, err)
	}
	s, err := ix.Schema(ctx)
	var record *models.Record
	if err == nil {
		record, err = models.ReadRecord(e.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("collection %q: %w", e.name, err), ix.Close())
	}
	if record != nil && hasVector(&s, record.Field) {
		e.record = record
		for _, t := range s.Text {
			e.texts = append(e.texts, t.Name)
		}
	}
	e.ix = ix
	return nil
}

func hasVector(s *index.Schema, name string) bool {
	for i := range s.Vectors {
		if s.Vectors[i].Name == name {
			return true
		}
	}
	return false
}

// Opened returns handles on all collections that are open, in no order.
func (r *Registry) Opened() []*Collection {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*Collection
	for _, e := range r.open {
		select {
		case <-e.ready:
			if e.err == nil && !r.closed && r.busy[e.name] == nil {
				e.refs++
				out = append(out, &Collection{r: r, e: e})
			}
		default:
		}
	}
	return out
}

// OpenAll opens every collection, so that the first request finds it open. The
// error joins those of collections that cannot be opened; the others are open.
func (r *Registry) OpenAll(ctx context.Context) error {
	names, err := r.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		c, err := r.Get(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.Release()
	}
	return errors.Join(errs...)
}
