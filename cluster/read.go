package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// Sizes of pages.
const (
	idsPage       = 5000
	documentsPage = 100
)

// begin starts a call.
func (c *Collection) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if c.closed.Load() {
		return nil, nil, storage.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := c.client.bound(ctx)
	return ctx, cancel, nil
}

// read runs one call that reads; a layout that is out of date is read anew.
func read[T any](ctx context.Context, c *Collection, what string, f func(ctx context.Context, l *layout) (T, error)) (T, error) {
	var none T
	ctx, cancel, err := c.begin(ctx)
	if err != nil {
		return none, err
	}
	defer cancel()
	out, err := f(ctx, c.known.Load())
	if errors.Is(err, errStale) {
		l, rerr := c.refresh(ctx)
		if rerr != nil {
			return none, c.wrap(what, rerr)
		}
		out, err = f(ctx, l)
	}
	if err != nil {
		return none, c.wrap(what, err)
	}
	return out, nil
}

// objectsPath is where documents are.
const objectsPath = "/v1/objects/"

func (c *Collection) objectPath(id string) string {
	return objectsPath + url.PathEscape(c.class) + "/" + uuid(id)
}

// Get returns a document as it was put, vectors included, by a majority of its
// replicas; ErrNotFound when there is none.
func (c *Collection) Get(ctx context.Context, id string) (index.Document, error) {
	return read(ctx, c, "get from", func(ctx context.Context, l *layout) (index.Document, error) {
		data, err := c.client.call(ctx, request{method: http.MethodGet, path: c.objectPath(id), query: "include=vector", replicated: true})
		if errors.Is(err, storage.ErrNotFound) {
			return index.Document{}, fmt.Errorf("%w: document %q", storage.ErrNotFound, id)
		}
		if err != nil {
			return index.Document{}, err
		}
		d, err := decodeObject(data, l)
		if err == nil && d.ID != id {
			return d, fmt.Errorf("%w: the cluster holds document %q where %q belongs", storage.ErrCorrupt, d.ID, id)
		}
		return d, err
	})
}

// decodeObject reads an object of the REST interface.
func decodeObject(data []byte, l *layout) (index.Document, error) {
	var o struct {
		Properties struct {
			Docid  string `json:"docid"`
			Stored string `json:"stored"`
		} `json:"properties"`
		Vectors map[string][]float32 `json:"vectors"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return index.Document{}, fmt.Errorf("%w: object of the cluster: %w", storage.ErrCorrupt, err)
	}
	return l.document(o.Properties.Docid, o.Properties.Stored, o.Vectors)
}

// Exists says whether there is a document of an id, by a majority of its
// replicas.
func (c *Collection) Exists(ctx context.Context, id string) (bool, error) {
	return read(ctx, c, "look into", func(ctx context.Context, _ *layout) (bool, error) {
		_, err := c.client.call(ctx, request{method: http.MethodHead, path: c.objectPath(id), replicated: true})
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	})
}

// Count returns the number of documents that match f; the zero Filter matches
// all.
func (c *Collection) Count(ctx context.Context, f filter.Filter) (int, error) {
	return read(ctx, c, "count in", func(ctx context.Context, _ *layout) (int, error) {
		w, err := c.compile(ctx, f)
		if err != nil {
			return 0, err
		}
		return c.count(ctx, &w)
	})
}

func (c *Collection) count(ctx context.Context, w *where) (int, error) {
	a, err := c.ask(ctx, append(c.aggregate([]byte("Aggregate{"), "n", w, "", 0), '}'))
	if err != nil {
		return 0, err
	}
	return a.count("n")
}

// Schema returns the schema as the cluster has it now.
func (c *Collection) Schema(ctx context.Context) (index.Schema, error) {
	return read(ctx, c, "read the schema of", func(ctx context.Context, _ *layout) (index.Schema, error) {
		l, err := c.refresh(ctx)
		if err != nil {
			return index.Schema{}, err
		}
		s, _, err := l.schema.Extend(nil, c.o.Analyzers...)
		return s, err
	})
}

// Documents gives the documents from an id on, in ascending order of id, vectors
// included. It lists all ids first, some 40 bytes and the id each, and then
// reads documents in pages; each page is a call of its own for Options.Timeout.
// What is put or deleted meanwhile may be seen or not.
func (c *Collection) Documents(ctx context.Context, from string) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		ids, err := c.ids(ctx, from)
		if err != nil {
			yield(index.Document{}, err)
			return
		}
		for page := range slices.Chunk(ids, documentsPage) {
			docs, err := c.documents(ctx, page)
			if err != nil {
				yield(index.Document{}, err)
				return
			}
			for _, d := range docs {
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// ids lists the ids from one on, sorted, as keys.
func (c *Collection) ids(ctx context.Context, from string) ([]string, error) {
	var ids []string
	least, after := idKey(from), ""
	for {
		hits, err := read(ctx, c, "list", func(ctx context.Context, _ *layout) ([]hit, error) {
			return c.get(ctx, &selection{after: &after, limit: idsPage, props: []string{propID}})
		})
		if err != nil {
			return nil, err
		}
		for i := range hits {
			if hits[i].Docid >= least {
				ids = append(ids, hits[i].Docid)
			}
		}
		if len(hits) == 0 {
			slices.Sort(ids)
			return slices.Compact(ids), nil
		}
		if next := hits[len(hits)-1].Additional.UUID; next > after {
			after = next
		} else {
			return nil, fmt.Errorf("%w: collection %q: the cluster's list goes from %q back to %q", storage.ErrCorrupt, c.name, after, next)
		}
	}
}

// documents reads documents by their keys, in order of id.
func (c *Collection) documents(ctx context.Context, ids []string) ([]index.Document, error) {
	return read(ctx, c, "read from", func(ctx context.Context, l *layout) ([]index.Document, error) {
		w := anyOf(propID, ids)
		hits, err := c.get(ctx, &selection{where: &w, limit: len(ids), props: []string{propID, propStored}, vectors: l.vectorNames()})
		if err != nil {
			return nil, err
		}
		docs := make([]index.Document, len(hits))
		for i, h := range hits {
			if docs[i], err = l.document(h.Docid, h.Stored, h.Additional.Vectors); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(docs, func(a, b index.Document) int { return strings.Compare(a.ID, b.ID) })
		return docs, nil
	})
}

func (l *layout) vectorNames() []string {
	var names []string
	for _, f := range l.schema.Vectors {
		names = append(names, prefixVector+escape(f.Name))
	}
	return names
}

// Stats counts documents and fields; what belongs to files is zero.
func (c *Collection) Stats(ctx context.Context) (index.Stats, error) {
	return read(ctx, c, "count in", func(ctx context.Context, _ *layout) (index.Stats, error) {
		l, err := c.refresh(ctx)
		if err != nil {
			return index.Stats{}, err
		}
		w := everything()
		a, err := c.ask(ctx, append(c.aggregate([]byte("Aggregate{"), "s", &w, propStates, maxStates), '}'))
		if err != nil {
			return index.Stats{}, err
		}
		n := make(map[string]int)
		for _, g := range a.Data.Aggregate["s"] {
			state, err := unkey(g.GroupedBy.Value)
			if err != nil {
				return index.Stats{}, err
			}
			n[state] = g.Meta.Count
		}
		st := index.Stats{Documents: n[stateAlive]}
		for _, f := range l.schema.Text {
			st.Fields = append(st.Fields, index.FieldStats{Name: f.Name, Kind: "text", Type: f.Analyzer, Documents: n[stateText+f.Name]})
		}
		for _, f := range l.schema.Vectors {
			st.Fields = append(st.Fields, index.FieldStats{Name: f.Name, Kind: "vector", Type: fmt.Sprintf("%v %d", f.Metric, f.Dim), Documents: n[stateVector+f.Name]})
		}
		first := len(st.Fields)
		for name, t := range l.schema.Meta {
			st.Fields = append(st.Fields, index.FieldStats{Name: name, Kind: "metadata", Type: t.String(),
				Documents: n[stateValue+name] + n[stateEmpty+name] + n[stateNull+name]})
		}
		slices.SortFunc(st.Fields[first:], func(a, b index.FieldStats) int { return strings.Compare(a.Name, b.Name) })
		return st, nil
	})
}

// maxStates bounds the different states of a collection that Stats counts.
const maxStates = 300_000

// Snapshot returns the collection itself: a cluster keeps no earlier state.
func (c *Collection) Snapshot(ctx context.Context) (collection.Snapshot, error) {
	_, cancel, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	cancel()
	return snapshot{c}, nil
}

// A snapshot is a collection that its Close does not close.
type snapshot struct{ *Collection }

func (snapshot) Close() error { return nil }

// Flush does nothing: what Apply acknowledged is in the logs of the nodes.
func (c *Collection) Flush(ctx context.Context) error {
	_, cancel, err := c.begin(ctx)
	if err == nil {
		cancel()
	}
	return err
}
