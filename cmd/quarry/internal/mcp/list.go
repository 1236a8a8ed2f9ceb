package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

type listIn struct {
	target
	Filter string `json:"filter,omitempty" jsonschema:"only documents that match (collections only)"`
	After  string `json:"after,omitempty" jsonschema:"continue behind an earlier page: its next"`
	Limit  int    `json:"limit,omitempty" jsonschema:"documents wanted, default 50"`
}

// A place is a collection or knowledge base in a list.
type place struct {
	Collection    string `json:"collection,omitempty"`
	KnowledgeBase string `json:"knowledge_base,omitempty"`
	Name          string `json:"name,omitempty"`
	Documents     int    `json:"documents"`
	Chunks        int    `json:"chunks,omitempty"`
	// Modes are the ways to search it.
	Modes []string `json:"modes"`
	// Problem tells why it cannot be used now.
	Problem string `json:"problem,omitempty"`
}

type listed struct {
	ID     string `json:"id"`
	Title  string `json:"title,omitempty"`
	Format string `json:"format,omitempty"`
	Chunks int    `json:"chunks,omitempty"`
	Pages  int    `json:"pages,omitempty"`
}

type listOut struct {
	Targets   []place  `json:"targets,omitempty"`
	Documents []listed `json:"documents,omitempty"`
	Total     int      `json:"total"`
	Next      string   `json:"next,omitempty"`
}

func list(ctx context.Context, r *registry.Registry, in *listIn) (*listOut, error) {
	if in.Limit == 0 {
		in.Limit = defaultList
	}
	switch {
	case in.Collection != "" && in.KnowledgeBase != "":
		return nil, errBoth()
	case in.Collection != "":
		return listCollection(ctx, r, in)
	case in.KnowledgeBase != "":
		return listBase(ctx, r, in)
	}
	return listTargets(ctx, r)
}

func (o *listOut) text() string {
	var b strings.Builder
	for _, t := range o.Targets {
		what, name := "collection", t.Collection
		if t.KnowledgeBase != "" {
			what, name = "knowledge_base", t.KnowledgeBase
		}
		fmt.Fprintf(&b, "%s %s: %s, search by %s%s\n", what, name, plural(t.Documents, "document"), strings.Join(t.Modes, ", "), prefixed("; ", t.Problem))
	}
	for _, d := range o.Documents {
		fmt.Fprintf(&b, "%s%s\n", show.Line(d.ID, 0), prefixed("  ", show.Line(d.Title, 120)))
	}
	if o.Next != "" {
		fmt.Fprintf(&b, "%d of %d; more with after: %q\n", len(o.Documents), o.Total, o.Next)
	} else if len(o.Documents) > 0 {
		fmt.Fprintf(&b, "%d in all\n", o.Total)
	}
	if b.Len() == 0 {
		return "nothing there"
	}
	return strings.TrimRight(b.String(), "\n")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func listTargets(ctx context.Context, r *registry.Registry) (*listOut, error) {
	names, err := r.Names()
	if err != nil {
		return nil, err
	}
	out := &listOut{Targets: []place{}}
	for _, name := range names {
		p := place{Collection: name, Modes: []string{}}
		if err := describe(ctx, r, &p); err != nil {
			p.Problem = show.Line(err.Error(), maxValue)
		}
		out.Targets = append(out.Targets, p)
	}
	bases, err := basesOf(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, b := range bases {
		p := place{KnowledgeBase: b.ID, Name: b.Name, Modes: baseModes(&b)}
		store, err := r.Knowledge(ctx)
		if err == nil {
			b, err = store.Base(ctx, b.ID)
		}
		if p.Documents, p.Chunks = b.Documents, b.Chunks; err != nil {
			p.Problem = show.Line(err.Error(), maxValue)
		}
		out.Targets = append(out.Targets, p)
	}
	out.Total = len(out.Targets)
	return out, nil
}

func describe(ctx context.Context, r *registry.Registry, p *place) error {
	c, err := r.Get(ctx, p.Collection)
	if err != nil {
		return err
	}
	defer c.Release()
	snap, err := c.Index().Snapshot(ctx)
	if err != nil {
		return err
	}
	schema, err := snap.Schema(ctx)
	if err == nil {
		p.Documents, err = snap.Count(ctx, filter.Filter{})
	}
	if err != nil {
		return errors.Join(err, snap.Close())
	}
	_, embeds := c.Embedding()
	if len(schema.Text) > 0 {
		p.Modes = append(p.Modes, "keyword")
	}
	if embeds {
		p.Modes = append(p.Modes, "vector")
	}
	if len(p.Modes) == 2 {
		p.Modes = append(p.Modes, "hybrid")
	}
	return snap.Close()
}

func baseModes(b *knowledge.BaseInfo) []string {
	if b.Embedder == "" {
		return []string{"keyword"}
	}
	return []string{"keyword", "vector", "hybrid"}
}

func listCollection(ctx context.Context, r *registry.Registry, in *listIn) (*listOut, error) {
	c, err := r.Get(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	schema, err := c.Index().Schema(ctx)
	if err != nil {
		return nil, err
	}
	title := titleField(&schema)
	q := index.Query{K: in.Limit, After: in.After, Filter: filter.And(), Count: true}
	if title != "" {
		q.Fields = []string{title}
	}
	if in.Filter != "" {
		if q.Filter, err = filter.Parse(in.Filter); err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
	}
	res, err := c.Index().Search(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &listOut{Documents: []listed{}, Total: res.Total, Next: res.Next}
	for i := range res.Hits {
		h := &res.Hits[i]
		out.Documents = append(out.Documents, listed{ID: h.ID, Title: titleOf(h, title)})
	}
	return out, nil
}

func listBase(ctx context.Context, r *registry.Registry, in *listIn) (*listOut, error) {
	if in.Filter != "" {
		return nil, storage.Invalidf("filter: documents of a knowledge base are listed whole; search takes a filter")
	}
	store, err := r.Knowledge(ctx)
	if err != nil {
		return nil, err
	}
	out := &listOut{Documents: []listed{}}
	for d, err := range store.Documents(ctx, in.KnowledgeBase) {
		if err != nil {
			return nil, err
		}
		out.Total++
		switch {
		case in.After != "" && d.ID <= in.After:
		case len(out.Documents) < in.Limit:
			out.Documents = append(out.Documents, listed{ID: d.ID, Title: d.Title, Format: d.Format, Chunks: d.Chunks, Pages: d.Pages})
		default:
			out.Next = out.Documents[len(out.Documents)-1].ID
		}
	}
	return out, nil
}
