package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// inCollection is the path of what is about one collection.
type inCollection struct {
	Collection string `path:"collection" doc:"name of the collection"`
}

// A schema is index.Schema, types and metrics by name.
type schema struct {
	Text    []textField       `json:"text,omitempty" shape:"maxitems=1024" doc:"fields searched by words"`
	Vectors []vectorField     `json:"vectors,omitempty" shape:"maxitems=1024" doc:"fields searched by meaning"`
	Sparse  []sparseField     `json:"sparse,omitempty" shape:"maxitems=1024" doc:"fields of learned sparse vectors (SPLADE and the like)"`
	Meta    map[string]string `json:"meta,omitempty" shape:"maxitems=65536" doc:"types of metadata: keyword, int64, float64, bool or time"`
	Strict  bool              `json:"strict,omitempty" doc:"refuse undeclared metadata; otherwise it gets the type first seen"`
}

type textField struct {
	Name      string   `json:"name" shape:"required,minlen=1,maxlen=128"`
	Analyzer  string   `json:"analyzer,omitempty" shape:"default=standard" doc:"name of an analyzer: standard, english, …"`
	Boost     float64  `json:"boost,omitempty" shape:"min=0,default=1" doc:"weight among the text fields, above 0"`
	K1        *float64 `json:"k1,omitempty" shape:"min=0,max=1000,default=1.2"`
	B         *float64 `json:"b,omitempty" shape:"min=0,max=1,default=0.75"`
	NotStored bool     `json:"not_stored,omitempty" doc:"find it, but neither return nor highlight it"`
}

type vectorField struct {
	Name      string `json:"name" shape:"required,minlen=1,maxlen=128"`
	Dim       int    `json:"dim" shape:"required,min=1,max=4096"`
	Metric    string `json:"metric,omitempty" shape:"enum=|cosine|dot|l2,default=cosine"`
	M         int    `json:"m,omitempty" shape:"min=0,max=64,default=16" doc:"degree of the graph, from 4"`
	Construct int    `json:"ef_construction,omitempty" shape:"min=0,max=2000,default=200" doc:"width of the build, from 8"`
}

type sparseField struct {
	Name string `json:"name" shape:"required,minlen=1,maxlen=128"`
}

func (s *schema) index() (index.Schema, error) {
	out := index.Schema{Strict: s.Strict, Meta: make(map[string]filter.Type, len(s.Meta))}
	for _, t := range s.Text {
		out.Text = append(out.Text, index.TextField(t))
	}
	for _, v := range s.Vectors {
		f := index.VectorField{Name: v.Name, Dim: v.Dim, M: v.M, Construct: v.Construct}
		for v.Metric != "" && f.Metric.String() != v.Metric { // the shape knows no other names
			f.Metric++
		}
		out.Vectors = append(out.Vectors, f)
	}
	for _, f := range s.Sparse {
		out.Sparse = append(out.Sparse, index.SparseField(f))
	}
	for name, t := range s.Meta {
		var err error
		if out.Meta[name], err = filter.ParseType(t); err != nil {
			return out, storage.Invalidf("schema.meta.%s: %v", name, err)
		}
	}
	return out, nil
}

func schemaOf(in *index.Schema) schema {
	out := schema{Strict: in.Strict, Meta: make(map[string]string, len(in.Meta))}
	for _, t := range in.Text {
		out.Text = append(out.Text, textField(t))
	}
	for _, v := range in.Vectors {
		out.Vectors = append(out.Vectors, vectorField{v.Name, v.Dim, v.Metric.String(), v.M, v.Construct})
	}
	for _, f := range in.Sparse {
		out.Sparse = append(out.Sparse, sparseField(f))
	}
	for name, t := range in.Meta {
		out.Meta[name] = t.String()
	}
	return out
}

type createRequest struct {
	Name       string `json:"name" shape:"required" doc:"letters, digits, - and _, at most 64"`
	Schema     schema `json:"schema" doc:"the fields; more cannot be declared later, but undeclared metadata can be put"`
	Embed      string `json:"embed,omitempty" doc:"model that makes the vectors of text and queries (GET /v1 lists them); empty: vectors come with documents and queries"`
	EmbedField string `json:"embed_field,omitempty" shape:"default=embedding,maxlen=128" doc:"vector field that the model fills; not to be declared"`
}

type collectionAnswer struct {
	Name      string              `json:"name"`
	Schema    schema              `json:"schema" doc:"defaults filled in, metadata that documents brought included; its type is undeclared while it has shown no value"`
	Embedding *registry.Embedding `json:"embedding,omitempty" doc:"the model that fills a vector field"`
}

func describe(ctx context.Context, c *registry.Collection) (*collectionAnswer, error) {
	s, err := c.Index().Schema(ctx)
	if err != nil {
		return nil, err
	}
	a := &collectionAnswer{Name: c.Name(), Schema: schemaOf(&s)}
	if e, ok := c.Embedding(); ok {
		a.Embedding = &e
	}
	return a, nil
}

// A summary is a collection in a list.
type summary struct {
	Name      string              `json:"name"`
	Documents int                 `json:"documents"`
	Segments  int                 `json:"segments"`
	Bytes     int64               `json:"bytes" doc:"of segments and log"`
	Embedding *registry.Embedding `json:"embedding,omitempty"`
	Error     string              `json:"error,omitempty" doc:"why it cannot be opened"`
}

type listAnswer struct {
	Collections []summary `json:"collections"`
}

type statsAnswer struct {
	index.Stats
	Background string `json:"background,omitempty" doc:"the last failure of a flush or merge, which lost nothing"`
	ReadOnly   string `json:"read_only,omitempty" doc:"why the index takes no writes"`
}

type doneAnswer struct {
	Done bool `json:"done"`
}

func collectionRoutes() []*route {
	const tag = "collections"
	return []*route{
		op(route{method: "GET", path: "/v1/collections", id: "listCollections", tag: tag, access: Read, summary: "List collections"}, listCollections),
		op(route{method: "POST", path: "/v1/collections", id: "createCollection", tag: tag, access: Admin, status: http.StatusCreated, summary: "Make a collection"}, createCollection),
		op(route{method: "GET", path: "/v1/collections/{collection}", id: "getCollection", tag: tag, access: Read, summary: "Schema and model of a collection"},
			func(c *call, in *inCollection) (*collectionAnswer, error) {
				h, err := c.collection(in.Collection)
				if err != nil {
					return nil, err
				}
				defer h.Release()
				return describe(c.r.Context(), h)
			}),
		op(route{method: "DELETE", path: "/v1/collections/{collection}", id: "deleteCollection", tag: tag, access: Admin, summary: "Delete a collection and its documents; its snapshots stay"}, deleteCollection),
		op(route{method: "GET", path: "/v1/collections/{collection}/stats", id: "collectionStats", tag: tag, access: Read, summary: "Documents, segments and fields"}, collectionStats),
		op(route{method: "POST", path: "/v1/collections/{collection}/flush", id: "flushCollection", tag: tag, access: Admin, stream: true, summary: "Write what is in memory to a segment"},
			func(c *call, in *inCollection) (*doneAnswer, error) {
				return c.maintain(in.Collection, func(ctx context.Context, h *registry.Collection) error { return h.Index().Flush(ctx) })
			}),
		op(route{method: "POST", path: "/v1/collections/{collection}/merge", id: "mergeCollection", tag: tag, access: Admin, stream: true, summary: "Merge segments and drop deleted documents"},
			func(c *call, in *mergeIn) (*doneAnswer, error) {
				return c.maintain(in.Collection, func(ctx context.Context, h *registry.Collection) error {
					ix, err := h.Local("merge on demand")
					if err != nil {
						return err
					}
					return ix.Merge(ctx, in.Body.MaxSegments)
				})
			}),
	}
}

type mergeIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Body       struct {
		MaxSegments int `json:"max_segments" shape:"required,min=1,max=32" doc:"how many segments may be left"`
	} `body:"json"`
}

func (c *call) maintain(name string, work func(context.Context, *registry.Collection) error) (*doneAnswer, error) {
	h, err := c.collection(name)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return &doneAnswer{Done: true}, work(c.r.Context(), h)
}

func listCollections(c *call, _ *struct{}) (*listAnswer, error) {
	names, err := c.a.reg.Names()
	if err != nil {
		return nil, err
	}
	out := &listAnswer{Collections: make([]summary, 0, len(names))}
	for _, name := range names {
		s := summary{Name: name}
		if err := summarize(c, &s); err != nil {
			if c.r.Context().Err() != nil {
				return nil, err
			}
			s.Error = c.a.plain(err)
		}
		out.Collections = append(out.Collections, s)
	}
	return out, nil
}

func summarize(c *call, s *summary) error {
	h, err := c.collection(s.Name)
	if err != nil {
		return err
	}
	defer h.Release()
	if e, ok := h.Embedding(); ok {
		s.Embedding = &e
	}
	stats, err := h.Index().Stats(c.r.Context())
	if err != nil {
		return err
	}
	s.Documents, s.Segments, s.Bytes = stats.Documents, len(stats.Segments), SizeOf(&stats)
	return nil
}

// SizeOf is the bytes of an index's segments and log.
func SizeOf(s *index.Stats) int64 {
	n := s.WALBytes
	for i := range s.Segments {
		n += s.Segments[i].Bytes
	}
	return n
}

func createCollection(c *call, in *struct {
	Body createRequest `body:"json"`
}) (*collectionAnswer, error) {
	s, err := in.Body.Schema.index()
	if err != nil {
		return nil, err
	}
	h, err := c.a.reg.Create(c.r.Context(), in.Body.Name, registry.CreateOptions{Schema: s, Embed: in.Body.Embed, EmbedField: in.Body.EmbedField})
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return describe(c.r.Context(), h)
}

// patience is how long a deletion or a restore waits for requests at work on
// the collection.
const patience = 10 * time.Second

func deleteCollection(c *call, in *inCollection) (*doneAnswer, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), patience)
	defer cancel()
	if err := c.a.reg.Delete(ctx, in.Collection); err != nil {
		return nil, err
	}
	return &doneAnswer{Done: true}, nil
}

func collectionStats(c *call, in *inCollection) (*statsAnswer, error) {
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	start := time.Now()
	stats, err := h.Index().Stats(c.r.Context())
	if err != nil {
		return nil, err
	}
	c.stage("stats", start)
	out := &statsAnswer{Stats: stats}
	if out.Segments == nil {
		out.Segments = []index.SegmentStats{}
	}
	if out.Fields == nil {
		out.Fields = []index.FieldStats{}
	}
	if stats.LastError != nil {
		out.Background, out.LastError = stats.LastError.Stage+": "+c.a.plain(stats.LastError.Err), nil
	}
	if stats.ReadOnly != nil {
		out.ReadOnly = c.a.plain(stats.ReadOnly)
	}
	return out, nil
}
