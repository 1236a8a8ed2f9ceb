package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

type getIn struct {
	target
	ID       string `json:"id" jsonschema:"id of the document; in a knowledge base also the chunk of a hit"`
	Field    string `json:"field,omitempty" jsonschema:"text field to read on in (collections)"`
	Offset   int    `json:"offset,omitempty" jsonschema:"character of that field to start at (collections)"`
	Chunk    int    `json:"chunk,omitempty" jsonschema:"chunk to start at, from 0 (knowledge bases)"`
	Chunks   int    `json:"chunks,omitempty" jsonschema:"chunks wanted, default 5 (knowledge bases)"`
	MaxChars int    `json:"max_chars,omitempty" jsonschema:"bound on the text in characters, default 12000"`
}

// A gotText is a text field, or a part of one.
type gotText struct {
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
	// Offset and Total are in characters; Next is where it goes on, 0 at the end.
	Offset int `json:"offset"`
	Total  int `json:"total,omitempty"`
	Next   int `json:"next,omitempty"`
}

type getOut struct {
	ID    string         `json:"id"`
	Texts []gotText      `json:"texts"`
	Meta  map[string]any `json:"meta,omitempty"`
	// Vectors are the dimensions of its vectors.
	Vectors map[string]int `json:"vectors,omitempty"`
	// Of a knowledge base: the stretch of the document that was read.
	Title       string   `json:"title,omitempty"`
	Source      string   `json:"source,omitempty"`
	Version     int      `json:"document_version,omitempty"`
	Page        int      `json:"page,omitempty"`
	SectionPath []string `json:"section_path,omitempty"`
	Start       *int     `json:"start_offset,omitempty"`
	End         *int     `json:"end_offset,omitempty"`
	NextChunk   int      `json:"next_chunk,omitempty"`
	Truncated   bool     `json:"truncated"`
	Notes       []string `json:"notes,omitempty"`
}

func get(ctx context.Context, r *registry.Registry, in *getIn) (*getOut, error) {
	if err := in.pick(ctx, r); err != nil {
		return nil, err
	}
	if in.MaxChars == 0 {
		in.MaxChars = defaultChars
	}
	if in.Collection != "" {
		return getDocument(ctx, r, in)
	}
	return getPassage(ctx, r, in)
}

func (o *getOut) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s\n", show.Line(o.ID, 0), prefixed(" – ", show.Line(o.Title, 200)), metaLine(o.Meta))
	for _, t := range o.Texts {
		fmt.Fprintf(&b, "%s\n%s\n", prefixed("\n", t.Field), t.Text)
	}
	return finish(&b, o.Notes)
}

func getDocument(ctx context.Context, r *registry.Registry, in *getIn) (*getOut, error) {
	c, err := r.Get(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	d, err := c.Index().Get(ctx, in.ID)
	if err != nil {
		return nil, fmt.Errorf("document %.100q of collection %s: %w", in.ID, in.Collection, err)
	}
	out := &getOut{ID: d.ID, Texts: []gotText{}}
	meta, shortened := brief(d.Meta, nil)
	out.Meta = meta
	if shortened > 0 {
		out.Truncated = true
		out.Notes = append(out.Notes, plural(shortened, "metadata value")+" shortened or left out")
	}
	for name, v := range d.Vectors {
		if out.Vectors == nil {
			out.Vectors = map[string]int{}
		}
		out.Vectors[name] = len(v)
	}
	left := in.MaxChars
	schema, err := c.Index().Schema(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range storedTexts(&schema) {
		text, ok := d.Text[name]
		if !ok || in.Field != "" && in.Field != name {
			continue
		}
		t := gotText{Field: name, Offset: in.Offset}
		t.Text, t.Next, t.Total = slice(text, in.Offset, left)
		left -= len([]rune(t.Text))
		if t.Next > 0 {
			out.Truncated = true
			out.Notes = append(out.Notes, fmt.Sprintf("text %s: characters %d to %d of %d; more with field: %q, offset: %d", name, t.Offset, t.Next, t.Total, name, t.Next))
		}
		out.Texts = append(out.Texts, t)
	}
	if in.Field != "" && len(out.Texts) == 0 {
		return nil, storage.Invalidf("field %q: document %.100q has no such stored text", in.Field, in.ID)
	}
	return out, nil
}

const (
	defaultChunks = 5
	// chunkDigits is the form of a chunk's id, as knowledge.Metadata.ChunkID has
	// it: document, '#', digits.
	chunkDigits = 8
)

// getPassage reads chunks of a document. An id is tried as a document's first:
// names of files may look like ids of chunks.
func getPassage(ctx context.Context, r *registry.Registry, in *getIn) (*getOut, error) {
	store, err := r.Knowledge(ctx)
	if err != nil {
		return nil, err
	}
	if in.Chunks == 0 {
		in.Chunks = defaultChunks
	}
	d, err := store.Document(ctx, in.KnowledgeBase, in.ID)
	var chunk string
	switch {
	case err == nil && d.Chunks == 0:
		return &getOut{ID: d.ID, Title: d.Title, Source: d.Source, Version: d.Version, Texts: []gotText{}, Notes: []string{"the document has no text"}}, nil
	case err == nil && in.Chunk >= d.Chunks:
		return nil, storage.Invalidf("chunk %d: document %.100q has %s, counted from 0", in.Chunk, d.ID, plural(d.Chunks, "chunk"))
	case err == nil:
		chunk = fmt.Sprintf("%s#%0*d", d.ID, chunkDigits, in.Chunk)
	default:
		i := strings.LastIndexByte(in.ID, '#')
		if i < 0 {
			return nil, err
		}
		document, derr := store.Document(ctx, in.KnowledgeBase, in.ID[:i])
		if derr != nil {
			return nil, err
		}
		d, chunk = document, in.ID
	}
	p, err := store.Expand(ctx, in.KnowledgeBase, chunk, knowledge.ExpandOptions{After: in.Chunks - 1, MaxBytes: 4 * in.MaxChars})
	if err != nil {
		return nil, err
	}
	out := &getOut{ID: d.ID, Title: d.Title, Source: d.Source, Version: d.Version, Page: p.Metadata.Page, SectionPath: p.Metadata.SectionPath, Start: &p.Start, End: &p.End}
	text, more := cut(p.Text, in.MaxChars)
	*out.End = p.Start + len(text)
	out.Texts = []gotText{{Text: text}}
	if more || p.Truncated {
		out.Truncated = true
		out.Notes = append(out.Notes, fmt.Sprintf("cut at max_chars %d: ask for fewer chunks, or for more characters", in.MaxChars))
	}
	if next := p.Metadata.ChunkIndex + in.Chunks; next < d.Chunks {
		out.NextChunk = next
		out.Notes = append(out.Notes, fmt.Sprintf("chunks %d to %d of %d; more with chunk: %d", p.Metadata.ChunkIndex, next-1, d.Chunks, next))
	}
	if !d.Modified.IsZero() {
		out.Meta = map[string]any{"modified": d.Modified.Format(time.RFC3339)}
	}
	return out, nil
}
