package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

const (
	maxFields = 100 // fields told
	maxFacets = 16  // fields whose values are told
	topValues = 8   // values told of each
)

type statsIn struct{ target }

// A fieldOut is a field of a collection.
type fieldOut struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Type      string `json:"type"`
	Documents int    `json:"documents"`
	// Values are those that most documents hold.
	Values []index.FacetCount `json:"values,omitempty"`
}

type statsOut struct {
	Collection    string `json:"collection,omitempty"`
	KnowledgeBase string `json:"knowledge_base,omitempty"`
	Documents     int    `json:"documents"`
	Chunks        int    `json:"chunks,omitempty"`
	Deleted       int    `json:"deleted,omitempty"`
	Segments      int    `json:"segments,omitempty"`
	Bytes         int64  `json:"bytes,omitempty"`
	// Model embeds texts and queries; empty for none.
	Model  string     `json:"model,omitempty"`
	Modes  []string   `json:"modes"`
	Fields []fieldOut `json:"fields"`
	Notes  []string   `json:"notes,omitempty"`
}

func stats(ctx context.Context, r *registry.Registry, in *statsIn) (*statsOut, error) {
	if err := in.pick(ctx, r); err != nil {
		return nil, err
	}
	if in.Collection != "" {
		return collectionStats(ctx, r, in.Collection)
	}
	return baseStats(ctx, r, in.KnowledgeBase)
}

func (o *statsOut) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s: %s", o.Collection, o.KnowledgeBase, plural(o.Documents, "document"))
	if o.Chunks > 0 {
		fmt.Fprintf(&b, ", %s", plural(o.Chunks, "chunk"))
	}
	if o.Bytes > 0 {
		fmt.Fprintf(&b, ", %s, %s", plural(o.Segments, "segment"), show.Bytes(o.Bytes))
	}
	fmt.Fprintf(&b, ", search by %s%s\n", strings.Join(o.Modes, ", "), prefixed(" with ", o.Model))
	for _, f := range o.Fields {
		fmt.Fprintf(&b, "%s  %s %s", show.Line(f.Name, 120), f.Kind, f.Type)
		if f.Documents > 0 {
			fmt.Fprintf(&b, ", in %d", f.Documents)
		}
		for i, v := range f.Values {
			sep := ", "
			if i == 0 {
				sep = ": "
			}
			fmt.Fprintf(&b, "%s%s (%d)", sep, show.Value(v.Value, 60), v.Count)
		}
		b.WriteByte('\n')
	}
	return finish(&b, o.Notes)
}

func collectionStats(ctx context.Context, r *registry.Registry, name string) (*statsOut, error) {
	c, err := r.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	st, err := c.Index().Stats(ctx)
	if err != nil {
		return nil, err
	}
	p := place{Collection: name}
	if err := describe(ctx, r, &p); err != nil {
		return nil, err
	}
	out := &statsOut{Collection: name, Documents: st.Documents, Deleted: st.Deleted, Segments: len(st.Segments), Modes: p.Modes, Fields: []fieldOut{}}
	if e, ok := c.Embedding(); ok {
		out.Model = e.Model
	}
	for _, seg := range st.Segments {
		out.Bytes += seg.Bytes
	}
	q := index.Query{K: 1, Filter: filter.And()}
	for _, f := range st.Fields {
		if len(out.Fields) == maxFields {
			out.Notes = append(out.Notes, fmt.Sprintf("%d more fields are left out", len(st.Fields)-maxFields))
			break
		}
		out.Fields = append(out.Fields, fieldOut{Name: f.Name, Kind: f.Kind, Type: f.Type, Documents: f.Documents})
		if f.Kind == "metadata" && (f.Type == filter.Keyword.String() || f.Type == filter.Bool.String()) && len(q.Facets) < maxFacets {
			q.Facets = append(q.Facets, index.FacetRequest{Field: f.Name, Limit: topValues})
		}
	}
	res, err := c.Index().Search(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range out.Fields {
		for _, v := range res.Facets[out.Fields[i].Name] {
			if s, ok := v.Value.(string); ok {
				v.Value = show.Line(s, 100)
			}
			out.Fields[i].Values = append(out.Fields[i].Values, v)
		}
	}
	return out, nil
}
