package httpapi

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A document is index.Document, with rules and sparse vectors of another shape.
type document struct {
	ID      string                  `json:"id" shape:"required,minlen=1,maxlen=512" doc:"bytes of UTF-8"`
	Text    map[string]string       `json:"text,omitempty" shape:"maxitems=1024" doc:"declared text fields"`
	Vectors map[string][]float32    `json:"vectors,omitempty" shape:"maxitems=1024" doc:"declared vector fields; not the one that a model fills"`
	Sparse  map[string]sparseVector `json:"sparse,omitempty" shape:"maxitems=1024" doc:"declared sparse fields"`
	Meta    map[string]any          `json:"meta,omitempty" shape:"maxitems=65536" doc:"metadata: strings, numbers (integers exact to 64 bits), true or false, times as strings, lists of these, or null"`
}

// A sparseVector is a sparse vector as two lists of one length.
type sparseVector struct {
	Indices []uint32  `json:"indices" shape:"required,maxitems=65536" doc:"terms of the learned vocabulary, in any order, each once"`
	Values  []float32 `json:"values" shape:"required,maxitems=65536" doc:"a weight for each, above 0 up to 65504; kept, and given back, in half precision"`
}

func (v *sparseVector) vector() (sparse.Vector, error) { return sparse.New(v.Indices, v.Values) }

func sparseOf(v sparse.Vector) sparseVector {
	out := sparseVector{Indices: make([]uint32, len(v)), Values: make([]float32, len(v))}
	for i, e := range v {
		out.Indices[i], out.Values[i] = e.Term, e.Weight
	}
	return out
}

// A body is a document whose id is in the path.
type documentBody struct {
	Text    map[string]string       `json:"text,omitempty" shape:"maxitems=1024" doc:"declared text fields"`
	Vectors map[string][]float32    `json:"vectors,omitempty" shape:"maxitems=1024" doc:"declared vector fields; not the one that a model fills"`
	Sparse  map[string]sparseVector `json:"sparse,omitempty" shape:"maxitems=1024" doc:"declared sparse fields"`
	Meta    map[string]any          `json:"meta,omitempty" shape:"maxitems=65536" doc:"metadata"`
}

type putAnswer struct {
	Documents int `json:"documents" doc:"how many are durable now"`
}

type putIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Body       struct {
		Documents []document `json:"documents" shape:"required,maxitems=10000"`
	} `body:"json"`
}

type putOneIn struct {
	Collection string       `path:"collection" doc:"name of the collection"`
	ID         string       `path:"id" doc:"id of the document"`
	Body       documentBody `body:"json"`
}

type oneIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	ID         string `path:"id" doc:"id of the document"`
}

type getIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	ID         string `path:"id" doc:"id of the document"`
	Vectors    bool   `query:"vectors" doc:"give the vectors too"`
}

type documentAnswer struct {
	Document document `json:"document"`
}

type scrollIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Limit      int    `query:"limit" shape:"min=1,max=1000,default=100" doc:"documents on a page"`
	After      string `query:"after" doc:"next of the page before"`
	Filter     string `query:"filter" doc:"only documents that match, as text"`
	Vectors    bool   `query:"vectors" doc:"give the vectors too"`
}

type scrollAnswer struct {
	Documents []document `json:"documents" doc:"by id, ascending"`
	Next      string     `json:"next,omitempty" doc:"continues behind this page; missing on the last"`
}

type deleteIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Body       struct {
		IDs    []string  `json:"ids,omitempty" shape:"maxitems=100000" doc:"ids of documents; one that is not there counts nothing"`
		Filter shape.Raw `json:"filter,omitempty" doc:"a filter, as text or in its JSON form"`
		DryRun bool      `json:"dry_run,omitempty" doc:"only count"`
	} `body:"json"`
}

type deleteAnswer struct {
	Deleted int  `json:"deleted" doc:"documents deleted, or with dry_run those that would be"`
	DryRun  bool `json:"dry_run"`
}

func documentRoutes() []*route {
	const tag, path = "documents", "/v1/collections/{collection}/documents"
	return []*route{
		op(route{method: "PUT", path: path, id: "putDocuments", tag: tag, access: Write, summary: "Put documents, all or none; each replaces the one of its id"}, putDocuments),
		op(route{method: "GET", path: path, id: "scrollDocuments", tag: tag, access: Read, summary: "Page through documents"}, scrollDocuments),
		op(route{method: "PUT", path: path + "/{id}", id: "putDocument", tag: tag, access: Write, summary: "Put one document"}, putDocument),
		op(route{method: "GET", path: path + "/{id}", id: "getDocument", tag: tag, access: Read, summary: "Get one document"}, getDocument),
		op(route{method: "DELETE", path: path + "/{id}", id: "deleteDocument", tag: tag, access: Write, summary: "Delete one document"}, deleteDocument),
		op(route{method: "POST", path: "/v1/collections/{collection}/delete", id: "deleteDocuments", tag: tag, access: Write, summary: "Delete documents by ids or by a filter, all at once"}, deleteDocuments),
		op(route{method: "POST", path: "/v1/collections/{collection}/bulk", id: "bulkDocuments", tag: tag, access: Write, stream: true, takes: mediaNDJSON, summary: "Put a stream of documents, one JSON object a line"}, bulk),
	}
}

func putDocuments(c *call, in *putIn) (*putAnswer, error) {
	docs := make([]index.Document, len(in.Body.Documents))
	for i := range docs {
		var err error
		if docs[i], err = in.Body.Documents[i].index(); err != nil {
			return nil, err
		}
	}
	return c.put(in.Collection, docs)
}

func putDocument(c *call, in *putOneIn) (*putAnswer, error) {
	b := &in.Body
	d, err := (&document{in.ID, b.Text, b.Vectors, b.Sparse, b.Meta}).index()
	if err != nil {
		return nil, err
	}
	return c.put(in.Collection, []index.Document{d})
}

func (c *call) put(name string, docs []index.Document) (*putAnswer, error) {
	h, err := c.collection(name)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	start := time.Now()
	if err := h.Apply(c.r.Context(), docs); err != nil {
		return nil, err
	}
	c.stage("apply", start)
	return &putAnswer{Documents: len(docs)}, nil
}

func getDocument(c *call, in *getIn) (*documentAnswer, error) {
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	d, err := h.Index().Get(c.r.Context(), in.ID)
	if err != nil {
		return nil, err
	}
	return &documentAnswer{Document: documentOf(&d, in.Vectors)}, nil
}

// index is the document as the engine takes it.
func (d *document) index() (index.Document, error) {
	out := index.Document{ID: d.ID, Text: d.Text, Vectors: d.Vectors, Meta: d.Meta}
	if len(d.Sparse) > 0 {
		out.Sparse = make(map[string]sparse.Vector, len(d.Sparse))
	}
	for field, v := range d.Sparse {
		var err error
		if out.Sparse[field], err = v.vector(); err != nil {
			return out, fmt.Errorf("document %q: sparse field %q: %w", d.ID, field, err)
		}
	}
	return out, nil
}

// documentOf is a document as a client gets it, with its vectors or without.
func documentOf(d *index.Document, vectors bool) document {
	out := document{ID: d.ID, Text: d.Text, Meta: d.Meta}
	if !vectors {
		return out
	}
	out.Vectors = d.Vectors
	if len(d.Sparse) > 0 {
		out.Sparse = make(map[string]sparseVector, len(d.Sparse))
	}
	for field, v := range d.Sparse {
		out.Sparse[field] = sparseOf(v)
	}
	return out
}

func deleteDocument(c *call, in *oneIn) (*deleteAnswer, error) {
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	n, err := h.Delete(c.r.Context(), []string{in.ID}, filter.Filter{}, false)
	return &deleteAnswer{Deleted: n}, err
}

func deleteDocuments(c *call, in *deleteIn) (*deleteAnswer, error) {
	if (in.Body.IDs != nil) == (in.Body.Filter != "") {
		return nil, &shape.Error{Reason: "want either ids or filter"}
	}
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	out := &deleteAnswer{DryRun: in.Body.DryRun}
	var f filter.Filter
	if in.Body.IDs == nil {
		if f, err = parseFilter(in.Body.Filter); err != nil {
			return nil, err
		}
	} else if len(in.Body.IDs) == 0 { // an empty list deletes nothing
		return out, nil
	}
	start := time.Now()
	out.Deleted, err = h.Delete(c.r.Context(), in.Body.IDs, f, in.Body.DryRun)
	c.stage("apply", start)
	return out, err
}

func scrollDocuments(c *call, in *scrollIn) (*scrollAnswer, error) {
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	if in.Limit == 0 {
		in.Limit = 100
	}
	s, err := h.Index().Snapshot(c.r.Context())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := &scrollAnswer{Documents: []document{}}
	if in.Filter != "" {
		err = out.matching(c, s, in)
	} else {
		err = out.all(c, s, in)
	}
	return out, err
}

// all is a page of all documents. Its cursor is the last id, so that a page
// neither repeats nor misses a document whatever is written in between.
func (a *scrollAnswer) all(c *call, s collection.Reader, in *scrollIn) error {
	last, err := base64.RawURLEncoding.DecodeString(in.After)
	if err != nil {
		return &shape.Error{Field: "after", Reason: "is no cursor of this list"}
	}
	from := string(last)
	if from != "" {
		from += "\x00" // the least id behind it
	}
	for d, err := range s.Documents(c.r.Context(), from) {
		if err != nil {
			return err
		}
		if len(a.Documents) == in.Limit {
			a.Next = base64.RawURLEncoding.EncodeToString([]byte(a.Documents[in.Limit-1].ID))
			return nil
		}
		a.Documents = append(a.Documents, documentOf(&d, in.Vectors))
	}
	return nil
}

// matching is a page of the documents that match a filter.
func (a *scrollAnswer) matching(c *call, s collection.Reader, in *scrollIn) error {
	f, err := filter.Parse(in.Filter)
	if err != nil {
		return err
	}
	r, err := s.Search(c.r.Context(), index.Query{Filter: f, K: in.Limit, After: in.After})
	if err != nil {
		return err
	}
	for i := range r.Hits {
		d, err := s.Get(c.r.Context(), r.Hits[i].ID)
		if err != nil {
			return err
		}
		a.Documents = append(a.Documents, documentOf(&d, in.Vectors))
	}
	a.Next = r.Next
	return nil
}

// parseFilter reads a filter given as text or in its JSON form.
func parseFilter(raw shape.Raw) (filter.Filter, error) {
	if raw == "" {
		return filter.Filter{}, nil
	}
	switch raw[0] {
	case '"':
		text, err := shape.String(raw)
		if err != nil {
			return filter.Filter{}, err
		}
		return filter.Parse(text)
	case '{':
		return filter.ParseJSON([]byte(raw))
	}
	return filter.Filter{}, &shape.Error{Field: "filter", Reason: "want a string or an object"}
}

// writable tells early that a collection cannot be written to.
func (c *call) writable(h *registry.Collection) error {
	if c.a.reg.ReadOnly() {
		return storage.ErrReadOnly
	}
	l, ok := h.Index().(*collection.Local)
	if !ok {
		return nil
	}
	stats, err := l.Index.Stats()
	if err != nil {
		return err
	}
	return stats.ReadOnly
}
