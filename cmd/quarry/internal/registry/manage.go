package registry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// Names lists the collections there are, sorted. It reads one directory a
// collection, and asks the cluster.
func (r *Registry) Names() ([]string, error) {
	all, err := directories(filepath.Join(r.dir, collectionsName))
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(all))
	for _, name := range all {
		there, err := hasIndex(filepath.Join(r.dir, collectionsName, name))
		if err == nil && there { // else it is being made, or removed
			out = append(out, name)
		}
	}
	if r.o.Cluster == nil {
		return out, nil
	}
	others, err := cluster.List(context.Background(), *r.o.Cluster)
	for _, name := range others {
		if CheckName("collection", name) == nil && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, err
}

// onCluster tells whether a collection that is not in the directory is on the
// cluster.
func (r *Registry) onCluster(ctx context.Context, name string) (bool, error) {
	if r.o.Cluster == nil {
		return false, nil
	}
	names, err := cluster.List(ctx, *r.o.Cluster)
	return slices.Contains(names, name), err
}

// CreateOptions say what a new collection is.
type CreateOptions struct {
	Schema index.Schema
	// Embed is a name of Models: vectors are made of the text fields. Empty:
	// they come from the caller, if there are any.
	Embed string
	// EmbedField is the vector field it fills, which the schema must not
	// declare; default "embedding".
	EmbedField string
}

const defaultEmbedField = "embedding"

// Create makes an empty collection and returns a handle. ErrExists when the
// name is taken, be it in capitals.
func (r *Registry) Create(ctx context.Context, name string, o CreateOptions) (*Collection, error) {
	if err := r.writable(); err != nil {
		return nil, err
	}
	dir, err := r.place("collection", name, collectionsName)
	if err != nil {
		return nil, err
	}
	end, err := r.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := r.vacant(name); err != nil {
		return nil, err
	}
	record, schema, err := r.embedInto(ctx, o)
	if err != nil {
		return nil, err
	}
	// What stands there without an index is left from a crash or a failure.
	if err := removeCollection(dir); err != nil {
		return nil, err
	}
	if record != nil {
		if err := record.Write(dir); err != nil {
			return nil, err
		}
	}
	e := &entry{name: name, dir: dir, ready: make(chan struct{})}
	if err := r.openEntry(ctx, e, schema); err != nil {
		return nil, errors.Join(err, removeCollection(dir))
	}
	close(e.ready)
	if err := (storage.OS{}).SyncDir(filepath.Dir(dir)); err != nil {
		return nil, errors.Join(err, e.close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.refs = 1
	r.open[name] = e
	return &Collection{r: r, e: e}, nil
}

// vacant tells that a new collection may have the name. Some file systems do
// not tell capitals from small letters.
func (r *Registry) vacant(name string) error {
	names, err := r.Names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return fmt.Errorf("%w: collection %q", ErrExists, n)
		}
	}
	if len(names) >= MaxCollections {
		return fmt.Errorf("%w: %d collections are the most there can be", storage.ErrTooLarge, MaxCollections)
	}
	return nil
}

// embedInto adds the field of a model to a schema.
func (r *Registry) embedInto(ctx context.Context, o CreateOptions) (*models.Record, *index.Schema, error) {
	schema := o.Schema
	schema.Vectors = append([]index.VectorField(nil), schema.Vectors...)
	if o.Embed == "" {
		if o.EmbedField != "" {
			return nil, nil, storage.Invalidf("embed_field %q without embed", o.EmbedField)
		}
		return nil, &schema, nil
	}
	field := o.EmbedField
	if field == "" {
		field = defaultEmbedField
	}
	if hasVector(&schema, field) {
		return nil, nil, storage.Invalidf("embed_field: the schema declares %q: a field that a model fills is not to be declared", field)
	}
	if len(schema.Text) == 0 {
		return nil, nil, storage.Invalidf("embed: the schema has no text field to embed")
	}
	source, err := r.source(o.Embed)
	if err != nil {
		return nil, nil, err
	}
	m, err := r.model(ctx, source, 0)
	if err != nil {
		return nil, nil, err
	}
	id := m.Identity()
	v := index.VectorField{Name: field, Dim: id.Dim}
	for v.Metric.Valid() && v.Metric.String() != id.Metric {
		v.Metric++
	}
	if !v.Metric.Valid() {
		return nil, nil, storage.Invalidf("embed: model %s has the metric %q, which no index has", id.Name, id.Metric)
	}
	schema.Vectors = append(schema.Vectors, v)
	return models.NewRecord(m, field), &schema, nil
}

// Delete removes a collection and all it holds; its snapshots stay. It waits
// for the handles that are out until ctx is done, and is then ErrBusy.
func (r *Registry) Delete(ctx context.Context, name string) error {
	if err := r.writable(); err != nil {
		return err
	}
	dir, err := r.place("collection", name, collectionsName)
	if err != nil {
		return err
	}
	end, err := r.begin(ctx, name)
	if err != nil {
		return err
	}
	defer end()
	there, err := hasIndex(dir)
	elsewhere := false
	if err == nil && !there {
		if elsewhere, err = r.onCluster(ctx, name); err == nil && !elsewhere {
			err = fmt.Errorf("%w: collection %q", storage.ErrNotFound, name)
		}
	}
	if err != nil {
		return err
	}
	if err := r.retire(ctx, name); err != nil {
		return err
	}
	if elsewhere {
		return errors.Join(r.o.Cluster.DropNamed(ctx, name), removeCollection(dir))
	}
	// From the rename on it is gone; the rest is tidying up.
	trash := filepath.Join(r.dir, trashName, name+deletedSuffix)
	if err := remove(trash); err != nil {
		return err
	}
	if err := move(dir, trash); err != nil {
		return err
	}
	return errors.Join(removeCollection(dir), remove(trash))
}

// begin reserves a name for making, removing or replacing its collection, after
// whoever has it reserved; end gives it free.
func (r *Registry) begin(ctx context.Context, name string) (end func(), err error) {
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return nil, storage.ErrClosed
		}
		wait := r.busy[name]
		if wait == nil {
			mine := make(chan struct{})
			r.busy[name] = mine
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.busy, name)
				close(mine)
				r.checkIdle()
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// retire waits for the handles on a reserved name and closes its index.
func (r *Registry) retire(ctx context.Context, name string) error {
	r.mu.Lock()
	e := r.open[name]
	if e == nil {
		r.mu.Unlock()
		return nil
	}
	if e.refs > 0 {
		drained := make(chan struct{})
		e.drained = drained
		r.mu.Unlock()
		select {
		case <-drained:
		case <-ctx.Done():
			r.mu.Lock()
			e.drained = nil
			n := e.refs
			r.mu.Unlock()
			if n > 0 {
				return fmt.Errorf("%w: collection %q: %d requests are at work on it", ErrBusy, name, n)
			}
		}
		r.mu.Lock()
	}
	delete(r.open, name)
	r.mu.Unlock()
	return e.close()
}

// removeCollection removes all there may be of a collection that has no index,
// or whose index is to go.
func removeCollection(dir string) error {
	return remove(dir, models.RecordFile(dir), models.CacheDir(dir), dir+".import.json")
}

func ioError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", storage.ErrIO, err)
}

// move renames, durably; nothing may stand at the new name. Both lie in the
// data directory.
func move(from, to string) error {
	fs := storage.OS{}
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(fs.SyncDir(filepath.Dir(to)), fs.SyncDir(filepath.Dir(from)))
}
