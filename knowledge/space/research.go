package space

import (
	"context"
	"slices"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/research"
)

// expandReach is how many chunks on each side of a passage are offered as its
// neighbors; research.Limits.Neighbors says how many of them are taken.
const expandReach = 2

// research searches a space in mode research: its own run, with the plan and the
// verdict of all.
func (sp *searched) research(ctx context.Context) error {
	s := &seat{p: sp.t.panel, sp: sp}
	defer s.come(nil)
	limits := sp.t.s.o.Research
	limits.TopK = sp.profile.TopK
	limits.Threshold = 0 // keep applies it, and come
	r := &researcher{sp: sp, items: make(map[string]*knowledge.Item)}
	out, err := research.Run(ctx, research.Classify(sp.t.r.Query), r, s, s, limits)
	if err != nil {
		return err
	}
	sp.outcome = out
	sp.trace.CandidateCount = out.Candidates
	for _, flag := range out.Flags {
		sp.flag(flag)
	}
	items := make([]knowledge.Item, 0, len(out.Passages))
	for _, p := range out.Passages {
		it := *r.items[p.ID]
		it.Score = p.Score
		items = append(items, it)
	}
	sp.keep(items)
	return nil
}

// A researcher is a space as package research sees it. Passages are known by the
// ids of their chunks.
type researcher struct {
	sp    *searched
	items map[string]*knowledge.Item
}

// Search returns a list a query.
func (r *researcher) Search(ctx context.Context, queries []string) ([][]research.Passage, error) {
	sp := r.sp
	if err := sp.t.embed(ctx, queries); err != nil {
		return nil, err
	}
	done, err := sp.t.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	depth := deepRecall * sp.profile.TopK
	lists := make([][]research.Passage, len(queries))
	for i, q := range queries {
		found, err := sp.find(ctx, q, depth, depth)
		if err != nil {
			return nil, err
		}
		for j := range found {
			lists[i] = append(lists[i], r.passage(&found[j]))
		}
	}
	return lists, nil
}

// passage makes a passage of an item, and remembers that. Legs that found it for
// any query count as its sources.
func (r *researcher) passage(it *knowledge.Item) research.Passage {
	id := it.Metadata.ChunkID
	if old := r.items[id]; old == nil {
		r.items[id] = it
	} else {
		if old.Keyword == nil {
			old.Keyword = it.Keyword
		}
		if old.Vector == nil {
			old.Vector = it.Vector
		}
	}
	return research.Passage{ID: id, Title: titleOf(&it.Metadata), Text: it.Content, Score: it.Score}
}

// Expand returns the neighbors of passages in the outline: chunks of the same
// section first, then by distance, what follows before what precedes.
func (r *researcher) Expand(ctx context.Context, seeds []research.Passage) ([][]research.Passage, error) {
	sp := r.sp
	done, err := sp.t.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	lists := make([][]research.Passage, len(seeds))
	for i, seed := range seeds {
		m := &r.items[seed.ID].Metadata
		near, err := sp.t.s.store.Neighbors(ctx, sp.base, seed.ID, expandReach, expandReach)
		if err != nil {
			return nil, err
		}
		near = slices.DeleteFunc(near, func(it knowledge.Item) bool {
			return !sp.t.r.Filters.letNeighbor(&it.Metadata)
		})
		slices.SortStableFunc(near, func(a, b knowledge.Item) int { return distance(m, &a.Metadata) - distance(m, &b.Metadata) })
		for j := range near {
			lists[i] = append(lists[i], r.passage(&near[j]))
		}
	}
	return lists, nil
}

// distance orders the neighbors of a chunk.
func distance(m, n *knowledge.Metadata) int {
	d := 2 * (n.ChunkIndex - m.ChunkIndex)
	if d < 0 {
		d = 1 - d
	}
	if !slices.Equal(m.SectionPath, n.SectionPath) {
		d += 4 * expandReach
	}
	return d
}

// Rerank scores passages by the reranker of the profile.
func (r *researcher) Rerank(ctx context.Context, passages []research.Passage) ([]research.Passage, bool, error) {
	sp := r.sp
	if !sp.reranks() {
		return nil, false, nil
	}
	done, err := sp.t.slot(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	texts := make([]string, len(passages))
	for i := range passages {
		texts[i] = passages[i].Text
	}
	ranked, err := sp.score(ctx, texts)
	if err != nil || !sp.reranker {
		return nil, false, err
	}
	out := make([]research.Passage, len(ranked))
	for i, x := range ranked {
		out[i] = passages[x.Index]
		out[i].Score = x.Score
	}
	return out, true, nil
}

func (t *retrieval) researchTrace() *ResearchTrace {
	var tr *ResearchTrace
	for _, sp := range t.spaces {
		if sp.outcome == nil {
			continue
		}
		if tr == nil {
			tr = &ResearchTrace{Complex: research.Classify(t.r.Query).Complex, Queries: sp.outcome.Queries, Sufficient: sp.outcome.Verdict.Sufficient}
		}
		tr.Rounds = max(tr.Rounds, sp.outcome.Rounds)
		tr.Calls.Plan += sp.outcome.Calls.Plan
		tr.Calls.Judge += sp.outcome.Calls.Judge
	}
	return tr
}
