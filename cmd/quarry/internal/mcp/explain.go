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

type explainIn struct {
	question
	ID string `json:"id" jsonschema:"id of the document to explain"`
}

type explainOut struct {
	ID string `json:"id"`
	// Found tells whether it is among the k hits, at Rank.
	Found bool    `json:"found"`
	Rank  int     `json:"rank,omitempty"`
	Score float64 `json:"score,omitempty"`
	// Verdict says where the document was lost, or its place.
	Verdict string `json:"verdict"`
	// Documents are there, Matches pass the filter; -1 when not counted.
	Documents int      `json:"documents"`
	Matches   int      `json:"matches"`
	Tree      string   `json:"tree,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

func explain(ctx context.Context, r *registry.Registry, in *explainIn) (*explainOut, error) {
	if err := in.pick(ctx, r); err != nil {
		return nil, err
	}
	if in.Collection != "" {
		return explainCollection(ctx, r, in)
	}
	return explainBases(ctx, r, in)
}

func (o *explainOut) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", show.Line(o.ID, 0), o.Verdict)
	if o.Matches >= 0 && o.Documents >= 0 {
		fmt.Fprintf(&b, "%s, %d pass the filter\n", plural(o.Documents, "document"), o.Matches)
	}
	b.WriteString(o.Tree)
	return finish(&b, o.Notes)
}

func explainCollection(ctx context.Context, r *registry.Registry, in *explainIn) (*explainOut, error) {
	a, err := ask(ctx, r, &in.question)
	if err != nil {
		return nil, err
	}
	defer a.c.Release()
	a.q.Explain, a.q.ExplainID, a.q.Fields, a.q.Highlight = true, in.ID, nil, nil
	res, err := a.c.Index().Search(ctx, a.q)
	if err != nil {
		return nil, err
	}
	out := &explainOut{ID: in.ID, Documents: -1, Matches: -1, Notes: append(a.notes, res.Notes...)}
	if res.Plan != nil {
		out.Verdict, out.Documents, out.Matches = show.Line(res.Plan.Lost, 0), res.Plan.Documents, res.Plan.Matches
	}
	for i := range res.Hits {
		h := &res.Hits[i]
		if h.ID != in.ID {
			continue
		}
		out.Found, out.Rank, out.Score = true, i+1, h.Score
		if h.Explanation != nil {
			var b strings.Builder
			show.Tree(&b, h.Explanation, "")
			var more bool
			if out.Tree, more = cut(b.String(), defaultChars); more {
				out.Notes = append(out.Notes, "the tree is cut: ask with fewer words")
			}
		}
	}
	return out, nil
}

// explainBases looks for a document's best chunk: in the hits, then far below
// them, then without the filter, and tells at which of these it first shows.
func explainBases(ctx context.Context, r *registry.Registry, in *explainIn) (*explainOut, error) {
	store, err := r.Knowledge(ctx)
	if err != nil {
		return nil, err
	}
	req, err := request(ctx, store, &in.question)
	if err != nil {
		return nil, err
	}
	out := &explainOut{ID: in.ID, Documents: -1, Matches: -1}
	if out.Verdict, err = missing(ctx, store, in); err != nil || out.Verdict != "" {
		return out, err
	}
	res, err := store.Search(ctx, req)
	if err != nil {
		return nil, err
	}
	out.Notes = append(res.Notes, res.Flags...)
	if i := find(res.Items, in.ID); i >= 0 {
		it := &res.Items[i]
		out.Found, out.Rank, out.Score = true, i+1, it.Score
		out.Verdict = fmt.Sprintf("hit %d of %d, chunk %d%s", i+1, len(res.Items), it.Metadata.ChunkIndex, legs(it))
		return out, nil
	}
	deep := req
	deep.TopK, deep.ScoreThreshold = knowledge.MaxTopK, 0
	if res, err = store.Search(ctx, deep); err != nil {
		return nil, err
	}
	if i := find(res.Items, in.ID); i >= 0 {
		it := &res.Items[i]
		out.Score = it.Score
		out.Verdict = fmt.Sprintf("lost at the end: its best chunk, %d, would be hit %d with score %.3f%s; k is %d, min_score %g", it.Metadata.ChunkIndex, i+1, it.Score, legs(it), in.K, in.MinScore)
		return out, nil
	}
	deep.Filter = filter.Eq(knowledge.FieldDocument, in.ID)
	if res, err = store.Search(ctx, deep); err != nil {
		return nil, err
	}
	switch {
	case len(res.Items) == 0:
		out.Verdict = "no leg returns it, even alone: none of its chunks has a word of the query"
	case in.Filter != "":
		out.Score = res.Items[0].Score
		out.Verdict = fmt.Sprintf("lost to the filter, or beyond the first %d: without the filter its best chunk is %d%s", knowledge.MaxTopK, res.Items[0].Metadata.ChunkIndex, legs(&res.Items[0]))
	default:
		out.Score = res.Items[0].Score
		out.Verdict = fmt.Sprintf("beyond the first %d hits: its best chunk is %d%s", knowledge.MaxTopK, res.Items[0].Metadata.ChunkIndex, legs(&res.Items[0]))
	}
	return out, nil
}

// missing tells why a document cannot be found by any query, "" when it can.
func missing(ctx context.Context, store *knowledge.Store, in *explainIn) (string, error) {
	for _, base := range in.KnowledgeBases {
		d, err := store.Document(ctx, base, in.ID)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			continue
		case err != nil:
			return "", err
		case !d.Enabled:
			return "the document is disabled", nil
		case d.Chunks == 0:
			return "the document has no text: " + show.Line(strings.Join(d.Warnings, "; "), maxValue), nil
		}
		return "", nil
	}
	return "no such document in " + strings.Join(in.KnowledgeBases, ", "), nil
}

func find(items []knowledge.Item, document string) int {
	for i := range items {
		if items[i].Metadata.DocumentID == document {
			return i
		}
	}
	return -1
}

// legs tells what the legs knew of an item.
func legs(it *knowledge.Item) string {
	var b strings.Builder
	for _, l := range []struct {
		name string
		leg  *index.Leg
	}{{"keyword", it.Keyword}, {"vector", it.Vector}} {
		if l.leg != nil {
			fmt.Fprintf(&b, ", %s rank %d (raw %.4g, score %.3f)", l.name, l.leg.Rank, l.leg.Raw, l.leg.Score)
		}
	}
	return b.String()
}
