package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

// Bounds of a call that writes.
const (
	maxPut    = 200
	maxDelete = 1000
	maxText   = 8 << 20 // bytes of all texts together
)

// A document is one to put. Which fields it needs depends on the target.
type document struct {
	ID      string            `json:"id" jsonschema:"id in a collection; in a knowledge base the name of the file, whose extension tells the format (notes/today.md)"`
	Text    map[string]string `json:"text,omitempty" jsonschema:"text fields of a collection by name"`
	Meta    map[string]any    `json:"meta,omitempty" jsonschema:"metadata by name: strings, numbers, true or false, lists of one kind; times as 2024-01-31T08:00:00Z"`
	Content string            `json:"content,omitempty" jsonschema:"the whole text of the file, in a knowledge base"`
	Title   string            `json:"title,omitempty" jsonschema:"title, in a knowledge base"`
}

type upsertIn struct {
	target
	Documents []document `json:"documents" jsonschema:"documents to put, at most 200"`
}

type upsertOut struct {
	Put int `json:"put"`
	// Of a knowledge base: how many were new, changed, as before.
	Added     int      `json:"added,omitempty"`
	Updated   int      `json:"updated,omitempty"`
	Unchanged int      `json:"unchanged,omitempty"`
	Chunks    int      `json:"chunks,omitempty"`
	Failed    []string `json:"failed,omitempty"`
}

func (o *upsertOut) text() string {
	text := plural(o.Put, "document") + " put, durable"
	if len(o.Failed) > 0 {
		text += "\nnot put: " + strings.Join(o.Failed, "\nnot put: ")
	}
	return text
}

func upsert(ctx context.Context, r *registry.Registry, in *upsertIn) (*upsertOut, error) {
	if err := in.pick(ctx, r); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Collection != "" {
		return putDocuments(ctx, r, in)
	}
	return putSources(ctx, r, in)
}

func (in *upsertIn) check() error {
	if len(in.Documents) == 0 || len(in.Documents) > maxPut {
		return storage.Invalidf("documents: %d, want 1 to %d a call", len(in.Documents), maxPut)
	}
	size := 0
	for i := range in.Documents {
		d := &in.Documents[i]
		size += len(d.Content)
		for _, t := range d.Text {
			size += len(t)
		}
		switch {
		case d.ID == "":
			return storage.Invalidf("documents[%d]: id is missing", i)
		case in.Collection != "" && (d.Content != "" || d.Title != ""):
			return storage.Invalidf("documents[%d] (%.80q): content and title are for knowledge bases; a collection takes text: {field: …}", i, d.ID)
		case in.KnowledgeBase != "" && len(d.Text) > 0:
			return storage.Invalidf("documents[%d] (%.80q): text is for collections; a knowledge base takes content", i, d.ID)
		case in.KnowledgeBase != "" && d.Content == "":
			return storage.Invalidf("documents[%d] (%.80q): content is missing", i, d.ID)
		}
	}
	if size > maxText {
		return fmt.Errorf("%w: %s of text in one call, at most %s", storage.ErrTooLarge, show.Bytes(int64(size)), show.Bytes(maxText))
	}
	return nil
}

func putDocuments(ctx context.Context, r *registry.Registry, in *upsertIn) (*upsertOut, error) {
	c, err := r.Get(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	docs := make([]index.Document, len(in.Documents))
	for i, d := range in.Documents {
		docs[i] = index.Document{ID: d.ID, Text: d.Text, Meta: d.Meta}
	}
	if err := c.Apply(ctx, docs); err != nil {
		return nil, fmt.Errorf("nothing was put: %w", err)
	}
	return &upsertOut{Put: len(docs)}, nil
}

func putSources(ctx context.Context, r *registry.Registry, in *upsertIn) (*upsertOut, error) {
	store, err := r.Knowledge(ctx)
	if err != nil {
		return nil, err
	}
	req := knowledge.IngestRequest{Base: in.KnowledgeBase}
	for _, d := range in.Documents {
		req.Sources = append(req.Sources, knowledge.Source{Name: d.ID, Data: []byte(d.Content), Title: d.Title, Meta: d.Meta})
	}
	report, err := store.Ingest(ctx, req)
	out := &upsertOut{Added: report.Added, Updated: report.Updated, Unchanged: report.Unchanged, Chunks: report.Chunks}
	out.Put = out.Added + out.Updated + out.Unchanged
	if err != nil {
		return nil, fmt.Errorf("%d of %d were put: %w", out.Put, len(in.Documents), err)
	}
	for _, f := range report.Failed {
		out.Failed = append(out.Failed, show.Line(f.Source+": "+f.Reason, maxValue))
	}
	for _, f := range report.Skipped {
		out.Failed = append(out.Failed, show.Line(f.Source+": "+f.Reason, maxValue))
	}
	if out.Put == 0 {
		return nil, errors.New("nothing was put: " + strings.Join(out.Failed, "; "))
	}
	return out, nil
}

type deleteIn struct {
	target
	IDs []string `json:"ids" jsonschema:"ids of the documents to remove, at most 1000"`
}

type deleteOut struct {
	Removed int `json:"removed"`
	// Missing were not there, the first 100 of them; NotThere counts all.
	Missing  []string `json:"missing,omitempty"`
	NotThere int      `json:"not_there"`
}

const maxMissing = 100

func (o *deleteOut) miss(id string) {
	if o.NotThere++; len(o.Missing) < maxMissing {
		o.Missing = append(o.Missing, id)
	}
}

func (o *deleteOut) text() string {
	text := plural(o.Removed, "document") + " removed"
	if o.NotThere > 0 {
		text += fmt.Sprintf("; %d not there: ", o.NotThere) + show.Line(strings.Join(o.Missing, ", "), 2000)
	}
	return text
}

func remove(ctx context.Context, r *registry.Registry, in *deleteIn) (*deleteOut, error) {
	if err := in.pick(ctx, r); err != nil {
		return nil, err
	}
	if len(in.IDs) == 0 || len(in.IDs) > maxDelete {
		return nil, storage.Invalidf("ids: %d, want 1 to %d a call", len(in.IDs), maxDelete)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(in.IDs)))
	out := &deleteOut{}
	if in.Collection != "" {
		return out, deleteDocuments(ctx, r, in.Collection, ids, out)
	}
	return out, deleteSources(ctx, r, in.KnowledgeBase, ids, out)
}

func deleteDocuments(ctx context.Context, r *registry.Registry, name string, ids []string, out *deleteOut) error {
	c, err := r.Get(ctx, name)
	if err != nil {
		return err
	}
	defer c.Release()
	for _, id := range ids {
		there, err := c.Index().Exists(ctx, id)
		if err != nil {
			return err
		}
		if !there {
			out.miss(id)
		}
	}
	out.Removed, err = c.Delete(ctx, ids, filter.Filter{}, false)
	return err
}

func deleteSources(ctx context.Context, r *registry.Registry, base string, ids []string, out *deleteOut) error {
	store, err := r.Knowledge(ctx)
	if err != nil {
		return err
	}
	there := ids[:0]
	for _, id := range ids {
		switch _, err := store.Document(ctx, base, id); {
		case errors.Is(err, storage.ErrNotFound):
			if _, berr := store.Base(ctx, base); berr != nil {
				return berr
			}
			out.miss(id)
		case err != nil:
			return err
		default:
			there = append(there, id)
		}
	}
	if len(there) == 0 {
		return nil
	}
	out.Removed, err = store.DeleteDocuments(ctx, base, there...)
	return err
}
