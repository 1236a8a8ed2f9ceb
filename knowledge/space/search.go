package space

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// How wide a space is searched, in multiples of its top K: recall is what each
// leg gives, pool what the reranker gets.
const (
	fastRecall = 1
	deepRecall = 5
	deepPool   = 3
)

// search finds the items of a space in its mode, within top K and threshold.
func (sp *searched) search(ctx context.Context) error {
	if sp.mode == catalog.Research {
		return sp.research(ctx)
	}
	if err := sp.t.embed(ctx, []string{sp.t.r.Query}); err != nil {
		return err
	}
	done, err := sp.t.slot(ctx)
	if err != nil {
		return err
	}
	defer done()
	recall, pool := fastRecall, fastRecall
	if sp.mode == catalog.Deep {
		recall, pool = deepRecall, deepPool
	}
	k := sp.profile.TopK
	want := k
	if sp.reranks() {
		want = pool * k
	}
	found, err := sp.find(ctx, sp.t.r.Query, recall*k, want)
	if err != nil {
		return err
	}
	if sp.reranks() {
		if found, err = sp.rerank(ctx, found); err != nil {
			return err
		}
	}
	sp.keep(found)
	return nil
}

// reranks tells whether the reranker is asked: in deep and research when the
// profile has one, in fast only when a threshold needs its score, since a
// threshold means nothing on a fused one.
func (sp *searched) reranks() bool {
	return sp.profile.Rerank.Enabled && (sp.mode != catalog.Fast || sp.profile.ScoreThreshold.Enabled)
}

// threshold is the least score of an item. One that was made for the reranker's
// scores does not act on those of a search whose reranker was left out.
func (sp *searched) threshold() float64 {
	t := sp.profile.ScoreThreshold
	if !t.Enabled || sp.reranks() && !sp.reranker {
		return 0
	}
	return t.Value
}

// keep cuts items at threshold and top K.
func (sp *searched) keep(items []knowledge.Item) {
	least := sp.threshold()
	for i := range items {
		if items[i].Score >= least && len(sp.items) < sp.profile.TopK {
			sp.items = append(sp.items, items[i])
		}
	}
}

// may tells whether the profile lets a part of the search fail.
func (sp *searched) may(part string) bool { return slices.Contains(sp.profile.Degrade, part) }

// find searches the space by both legs, fused. A leg that fails is a flag where
// the profile allows it, else an error.
func (sp *searched) find(ctx context.Context, query string, depth, want int) ([]knowledge.Item, error) {
	onError := knowledge.Fail
	if sp.may(catalog.Dense) || sp.may(catalog.FTS) {
		onError = knowledge.Partial
	}
	res, err := sp.t.s.store.Search(ctx, knowledge.Request{Bases: []string{sp.base}, Query: query, Vectors: sp.t.vector(query), Mode: knowledge.Hybrid,
		TopK: want, Depth: depth, Filter: sp.t.filter, OnError: onError})
	if err != nil {
		return nil, err
	}
	for _, flag := range res.Flags {
		if flag == knowledge.FlagDense && sp.may(catalog.Dense) || flag == knowledge.FlagKeyword && sp.may(catalog.FTS) {
			sp.flag(flag)
			continue
		}
		errs := []error{fmt.Errorf("%s, which its profile does not allow", flag)}
		for _, e := range res.Errors {
			errs = append(errs, e)
		}
		return nil, errors.Join(errs...)
	}
	for _, b := range res.Bases {
		sp.trace.CandidateCount += b.Candidates
	}
	return res.Items, nil
}

// rerank puts items in the order of the profile's reranker; as they are where it
// failed and may be left out.
func (sp *searched) rerank(ctx context.Context, items []knowledge.Item) ([]knowledge.Item, error) {
	texts := make([]string, len(items))
	for i := range items {
		texts[i] = items[i].Content
	}
	ranked, err := sp.score(ctx, texts)
	if err != nil || !sp.reranker {
		return items, err
	}
	out := make([]knowledge.Item, len(ranked))
	for i, x := range ranked {
		out[i] = items[x.Index]
		out[i].Score = x.Score
	}
	return out, nil
}

// score asks the reranker of the profile, and notes in sp.reranker that it has
// answered. A failure is a flag where the profile allows it.
func (sp *searched) score(ctx context.Context, texts []string) ([]rerank.Ranked, error) {
	name := sp.profile.Rerank.Model
	r := sp.t.s.o.Rerankers[name]
	var out rerank.Outcome
	var err error
	if r == nil {
		err = storage.Invalidf("the reranker of its profile, %q, is not configured", name)
	} else if out, err = rerank.Apply(ctx, r, sp.t.r.Query, texts, 0, rerank.Fail); err == nil && out.Flag != "" {
		err = fmt.Errorf("the reranker of its profile, %q, has scored nothing", name)
	}
	switch {
	case err == nil:
		sp.reranker = true
		return out.Ranked, nil
	case sp.may(catalog.Reranker) && ctx.Err() == nil:
		sp.flag(rerank.FlagSkipped)
		return nil, nil
	}
	return nil, err
}

// embed makes the vectors of texts for the models of the spaces. A text is
// embedded once a model and retrieval, whichever space needs it first; texts of
// one call are one batch. Those beside the query are for research only.
func (t *retrieval) embed(ctx context.Context, texts []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all, some []string // bases that have vectors
	mixed := false
	for _, sp := range t.spaces {
		mixed = mixed || sp.mode != catalog.Research
		if sp.granted.Publication.Embedding == nil {
			continue
		}
		all = append(all, sp.base)
		if sp.mode == catalog.Research {
			some = append(some, sp.base)
		}
	}
	var missing []string
	for _, text := range texts {
		if _, made := t.vectors[text]; !made && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	if i := slices.Index(missing, t.r.Query); mixed && i >= 0 {
		if err := t.embedFor(ctx, all, missing[i:i+1]); err != nil {
			return err
		}
		missing = slices.Delete(missing, i, i+1)
	}
	return t.embedFor(ctx, some, missing)
}

func (t *retrieval) embedFor(ctx context.Context, bases, texts []string) error {
	if len(bases) == 0 || len(texts) == 0 {
		return nil
	}
	v, err := t.s.store.EmbedQueries(ctx, bases, texts)
	if err != nil {
		return err
	}
	for _, text := range texts {
		t.vectors[text] = v
	}
	return nil
}

// vector is what embed has made of a text; nil where no space has vectors.
func (t *retrieval) vector(text string) *knowledge.QueryVectors {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.vectors[text]
}
