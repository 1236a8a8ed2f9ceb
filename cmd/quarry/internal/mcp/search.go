package mcp

import (
	"context"
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

// A question is what search and explain share.
type question struct {
	Query          string   `json:"query,omitempty" jsonschema:"what to look for, in words; without it the documents that match the filter are listed (collections only)"`
	Collection     string   `json:"collection,omitempty" jsonschema:"name of a collection; may be left out when there is one target only"`
	KnowledgeBases []string `json:"knowledge_bases,omitempty" jsonschema:"ids of knowledge bases to search together, instead of a collection"`
	Mode           string   `json:"mode,omitempty" jsonschema:"keyword (words), vector (meaning) or hybrid (both); default the best the target can do"`
	Filter         string   `json:"filter,omitempty" jsonschema:"condition on metadata, such as lang = \"de\" and year >= 2020; stats tells the fields"`
	K              int      `json:"k,omitempty" jsonschema:"hits wanted, default 10"`
	MinScore       float64  `json:"min_score,omitempty" jsonschema:"drop hits with a lower score, from 0 to 1"`
}

type searchIn struct {
	question
	Group     string `json:"group,omitempty" jsonschema:"metadata field of a collection: the best documents of each of its values, k values in all; stats tells the fields"`
	GroupSize int    `json:"group_size,omitempty" jsonschema:"with group: documents of each value, default 3"`
	MaxChars  int    `json:"max_chars,omitempty" jsonschema:"bound on the text of the result in characters, default 12000"`
}

// A foundSource is what the marker [n] stands for.
type foundSource struct {
	N             int    `json:"n"`
	Collection    string `json:"collection,omitempty"`
	KnowledgeBase string `json:"knowledge_base,omitempty"`
	ID            string `json:"id"`
	Title         string `json:"title,omitempty"`
	Source        string `json:"source,omitempty"`
	Pages         []int  `json:"pages,omitempty"`
	ArtifactHash  string `json:"artifact_hash,omitempty"`
}

// A foundHit is a hit or a passage of source N.
type foundHit struct {
	N         int             `json:"n"`
	Score     float64         `json:"score"`
	ScoreKind index.ScoreKind `json:"score_kind"`
	Keyword   *index.Leg      `json:"keyword,omitempty"`
	Vector    *index.Leg      `json:"vector,omitempty"`
	Text      string          `json:"text"`
	Group     any             `json:"group,omitempty"` // value of the field that was asked for
	// Of a knowledge base.
	Chunk       string   `json:"chunk,omitempty"`
	Page        int      `json:"page,omitempty"`
	PageEnd     int      `json:"page_end,omitempty"`
	SectionPath []string `json:"section_path,omitempty"`
	Start       *int     `json:"start_offset,omitempty"`
	End         *int     `json:"end_offset,omitempty"`
	// Of a collection.
	Meta map[string]any `json:"meta,omitempty"`
}

type searchOut struct {
	Mode    string        `json:"mode"`
	Sources []foundSource `json:"sources"`
	Hits    []foundHit    `json:"hits"`
	// Total counts the documents that match, -1 when it is not known.
	Total int `json:"total"`
	// Truncated tells that hits or parts of them were left out for max_chars.
	Truncated bool     `json:"truncated"`
	Notes     []string `json:"notes,omitempty"`

	said string // the same for reading
}

func (o *searchOut) text() string { return o.said }

func search(ctx context.Context, r *registry.Registry, in *searchIn) (*searchOut, error) {
	if err := in.pick(ctx, r); err != nil {
		return nil, err
	}
	if in.MaxChars == 0 {
		in.MaxChars = defaultChars
	}
	if in.Collection != "" {
		return searchCollection(ctx, r, in)
	}
	if in.Group != "" {
		return nil, storage.Invalidf("group: passages of knowledge bases are not grouped; give a collection")
	}
	return searchBases(ctx, r, in)
}

// pick fills in what was left out.
func (q *question) pick(ctx context.Context, r *registry.Registry) error {
	if q.K == 0 {
		q.K = defaultK
	}
	if len(q.KnowledgeBases) > 0 {
		if q.Collection != "" {
			return errBoth()
		}
		return nil
	}
	t := target{Collection: q.Collection}
	if err := t.pick(ctx, r); err != nil {
		return err
	}
	q.Collection = t.Collection
	if t.KnowledgeBase != "" {
		q.KnowledgeBases = []string{t.KnowledgeBase}
	}
	return nil
}

// An asked is a question to a collection, ready to be asked.
type asked struct {
	c     *registry.Collection
	q     index.Query
	mode  string
	title string
	texts []string // stored text fields
	notes []string
}

// ask opens the collection of a question and makes the engine's query. The
// collection is the caller's to release.
func ask(ctx context.Context, r *registry.Registry, in *question) (*asked, error) {
	c, err := r.Get(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	a := &asked{c: c, q: index.Query{K: in.K, MinScore: in.MinScore, Count: true, Fields: []string{"*"}}}
	if err := a.fill(ctx, in); err != nil {
		c.Release()
		return nil, err
	}
	return a, nil
}

func (a *asked) fill(ctx context.Context, in *question) error {
	schema, err := a.c.Index().Schema(ctx)
	if err != nil {
		return err
	}
	a.texts = storedTexts(&schema)
	a.title = titleField(&schema)
	if in.Filter != "" {
		f, err := filter.Parse(in.Filter)
		if err != nil {
			return fmt.Errorf("filter: %w", err)
		}
		a.q.Filter = f
	}
	if strings.TrimSpace(in.Query) == "" {
		if in.Filter == "" {
			return storage.Invalidf("give a query, a filter, or both")
		}
		a.mode = "filter"
		return nil
	}
	e, embeds := a.c.Embedding()
	a.mode = in.Mode
	switch {
	case a.mode == "" && embeds && len(schema.Text) > 0:
		a.mode = "hybrid"
	case a.mode == "" && embeds:
		a.mode = "vector"
	case a.mode == "":
		a.mode = "keyword"
	}
	if a.mode != "vector" {
		a.q.Text = &index.TextQuery{Text: in.Query}
		a.q.Highlight = a.texts
	}
	if a.mode != "keyword" {
		if !embeds {
			return storage.Invalidf("mode %s: collection %q has no model that would embed the query; use keyword", a.mode, in.Collection)
		}
		v, err := a.c.Embed(ctx, in.Query)
		if err != nil {
			return err
		}
		if v.Truncated {
			a.notes = append(a.notes, "the query is longer than the model's limit: its end has no part in the vector")
		}
		a.q.Vector = &index.VectorQuery{Field: e.Field, Vector: v.Values, Floor: v.Floor}
	}
	return nil
}

func storedTexts(schema *index.Schema) []string {
	var out []string
	for _, t := range schema.Text {
		if !t.NotStored {
			out = append(out, t.Name)
		}
	}
	return out
}

func searchCollection(ctx context.Context, r *registry.Registry, in *searchIn) (*searchOut, error) {
	a, err := ask(ctx, r, &in.question)
	if err != nil {
		return nil, err
	}
	defer a.c.Release()
	if in.Group != "" {
		a.q.Group = &index.GroupRequest{Field: in.Group, Size: in.GroupSize}
	}
	res, err := a.c.Index().Search(ctx, a.q)
	if err != nil {
		return nil, err
	}
	out := &searchOut{Mode: a.mode, Sources: []foundSource{}, Hits: []foundHit{}, Total: res.Total, Notes: append(a.notes, res.Notes...)}
	list := flat(res)
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %d for %q in collection %s (%s)\n", plural(len(list), "hit"), res.Total, in.Query, in.Collection, a.mode)
	left := in.MaxChars
	for i, h := range list {
		most := min(maxSnippet, left)
		if most < 80 {
			out.Truncated = true
			out.Notes = append(out.Notes, fmt.Sprintf("%d more hits did not fit in max_chars %d: ask for fewer, or for more characters", len(list)-i, in.MaxChars))
			break
		}
		if h.first {
			fmt.Fprintf(&b, "\n%s %s:\n", show.Line(in.Group, 60), show.Value(h.group, 100))
		}
		line := out.add(a, in.Collection, h, most)
		left -= len([]rune(line)) + jsonSize(out.Hits[i].Meta)
		b.WriteString(line)
	}
	out.said = finish(&b, out.Notes)
	return out, nil
}

// A rankedHit is one of a flat list, with the value of its group, if there are
// groups.
type rankedHit struct {
	*index.Hit
	group any
	first bool // of its group
}

func flat(res *index.Results) []rankedHit {
	out := make([]rankedHit, 0, len(res.Hits))
	for i := range res.Hits {
		out = append(out, rankedHit{Hit: &res.Hits[i]})
	}
	for i := range res.Groups {
		g := &res.Groups[i]
		for j := range g.Hits {
			out = append(out, rankedHit{&g.Hits[j], g.Value, j == 0})
		}
	}
	return out
}

// add adds a hit, with at most so many characters of its texts, and tells it for
// reading.
func (o *searchOut) add(a *asked, collection string, h rankedHit, most int) string {
	text := snippet(h.Hit, a.texts, most)
	meta, shortened := brief(h.Fields, func(name string) bool { return slices.Contains(a.texts, name) })
	if shortened > 0 {
		o.Truncated = true
	}
	title := titleOf(h.Hit, a.title)
	n := 1 + slices.IndexFunc(o.Sources, func(s foundSource) bool { return s.ID == h.ID })
	if n == 0 { // a document with several values stands in several groups
		n = len(o.Sources) + 1
		o.Sources = append(o.Sources, foundSource{N: n, Collection: collection, ID: h.ID, Title: title})
	}
	o.Hits = append(o.Hits, foundHit{N: n, Score: h.Score, ScoreKind: h.Kind, Keyword: h.Keyword, Vector: h.Vector, Text: text, Group: h.group, Meta: meta})
	return fmt.Sprintf("\n[%d] %s\nid %s, score %.3f%s\n%s\n", n, show.Line(firstOf(title, h.ID), 200), show.Line(h.ID, 0), h.Score, metaLine(meta), text)
}

// finish puts the notes under a text.
func finish(b *strings.Builder, notes []string) string {
	for _, n := range notes {
		fmt.Fprintf(b, "\nnote: %s", show.Line(n, 0))
	}
	return strings.TrimRight(b.String(), "\n")
}

func titleOf(h *index.Hit, field string) string {
	if v, ok := h.Fields[field]; ok && field != "" {
		return show.Value(v, 200)
	}
	return ""
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// metaLine is metadata on one line, short.
func metaLine(meta map[string]any) string {
	var b strings.Builder
	n := 0
	for _, name := range sortedKeys(meta) {
		if n == 8 {
			b.WriteString(", …")
			break
		}
		fmt.Fprintf(&b, ", %s %s", show.Line(name, 60), show.Value(meta[name], 60))
		n++
	}
	return b.String()
}

func searchBases(ctx context.Context, r *registry.Registry, in *searchIn) (*searchOut, error) {
	store, err := r.Knowledge(ctx)
	if err != nil {
		return nil, err
	}
	req, err := request(ctx, store, &in.question)
	if err != nil {
		return nil, err
	}
	res, err := store.Search(ctx, req)
	if err != nil {
		return nil, err
	}
	text, err := knowledge.AssembleContext(res.Items, knowledge.ContextOptions{MaxRunes: in.MaxChars})
	if err != nil {
		return nil, err
	}
	out := &searchOut{Mode: string(res.Mode), Sources: []foundSource{}, Hits: []foundHit{}, Total: -1, Truncated: text.Truncated, Notes: append(res.Notes, res.Flags...)}
	for _, src := range text.Sources {
		out.Sources = append(out.Sources, foundSource{N: src.Number, KnowledgeBase: src.KnowledgeBaseID, ID: src.DocumentID, Title: src.Title, Source: src.Source, Pages: src.Pages, ArtifactHash: src.ArtifactHash})
	}
	number := map[int]int{} // of the source of an item
	for _, p := range text.Parts {
		for _, i := range p.Items {
			number[i] = p.Number
		}
	}
	left := in.MaxChars
	for i := range res.Items {
		n, shown := number[i]
		if !shown { // a repeat of what is shown, or beyond the budget
			continue
		}
		it := &res.Items[i]
		content, more := cut(it.Content, max(left, 0))
		left -= len([]rune(content))
		out.Truncated = out.Truncated || more
		m := &it.Metadata
		out.Hits = append(out.Hits, foundHit{N: n, Score: it.Score, ScoreKind: it.Kind, Keyword: it.Keyword, Vector: it.Vector, Text: content,
			Chunk: m.ChunkID, Page: m.Page, PageEnd: m.PageEnd, SectionPath: m.SectionPath, Start: &m.StartOffset, End: &m.EndOffset})
	}
	if out.Truncated {
		out.Notes = append(out.Notes, fmt.Sprintf("%s of %d shown: the rest did not fit in max_chars %d; get reads on", plural(len(out.Hits), "passage"), len(res.Items), in.MaxChars))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s for %q in %s (%s)\n\n%s\n", plural(len(res.Items), "passage"), in.Query, strings.Join(in.KnowledgeBases, ", "), res.Mode, text.Text)
	out.said = finish(&b, out.Notes)
	return out, nil
}

// request makes the store's request of a question.
func request(ctx context.Context, store *knowledge.Store, in *question) (knowledge.Request, error) {
	req := knowledge.Request{Bases: in.KnowledgeBases, Query: in.Query, Mode: knowledge.Mode(in.Mode), TopK: in.K, ScoreThreshold: in.MinScore}
	if in.Mode == "" {
		req.Mode = knowledge.Keyword
		for _, id := range in.KnowledgeBases {
			info, err := store.Base(ctx, id)
			if err != nil {
				return req, err
			}
			if info.Embedder != "" {
				req.Mode = knowledge.Hybrid
			}
		}
	}
	if in.Filter != "" {
		f, err := filter.Parse(in.Filter)
		if err != nil {
			return req, fmt.Errorf("filter: %w", err)
		}
		req.Filter = f
	}
	return req, nil
}
