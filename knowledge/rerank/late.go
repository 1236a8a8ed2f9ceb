package rerank

import (
	"cmp"
	"context"
	"math"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// LateOptions configure LateInteraction. The zero value is the default.
type LateOptions struct {
	// Floor is the raw value of passages that have nothing to do with the
	// query, in [0,1): score = max(0, (raw−Floor)/(1−Floor)). Token vectors of
	// small encoders all point a little the same way, so unrelated passages
	// are far from 0; it changes scores, never the order. Default 0.
	Floor float64
	// Pure leaves out the fusion with the first order (see Fuse), which is the
	// default because it gained more, and never lost.
	Pure bool
	// Depth is how many passages are scored at most, from the first on: they
	// are encoded for each query, which is all of the cost. The others stay
	// unscored, in their order behind. Default 20: beyond, nothing was gained.
	Depth int
}

// LateInteraction scores a passage by the mean, over the tokens of the query,
// of the best cosine with a token of the passage: MaxSim of Khattab and
// Zaharia, "ColBERT: Efficient and Effective Passage Search via Contextualized
// Late Interaction over BERT", SIGIR 2020, divided by the length of the query
// and taken over the last layer of an ordinary encoder. It needs no model
// beside the embedder. Raw is that mean, in [−1,1].
//
// A passage without tokens stays unscored.
func LateInteraction(e embed.TokenEmbedder, o LateOptions) (Reranker, error) {
	if !(o.Floor >= 0 && o.Floor < 1) {
		return nil, storage.Invalidf("late interaction: Floor %v, want 0 ≤ Floor < 1", o.Floor)
	}
	if o.Depth < 0 {
		return nil, storage.Invalidf("late interaction: Depth %d is negative", o.Depth)
	}
	r := &late{e: e, floor: o.Floor, depth: cmp.Or(o.Depth, lateDepth), name: "late-interaction/" + e.Identity().Name}
	if o.Pure {
		return r, nil
	}
	return Fuse(r, lateWeight)
}

type late struct {
	e     embed.TokenEmbedder
	floor float64
	depth int
	name  string
}

const (
	// lateDepth is the default of LateOptions.Depth.
	lateDepth = 20
	// lateWeight is that of late interaction beside the first order. From 2 to
	// 8 it gained on every collection and with both models.
	lateWeight = 3
)

// latePassages are encoded in one call: token vectors take some 2 KiB a token,
// and all passages of a deep list need not be in memory at once.
const latePassages = 32

func (r *late) Name() string { return r.name }

func (r *late) Rerank(ctx context.Context, query string, passages []string, topN int) ([]Scored, error) {
	if err := checkQuery(query); err != nil {
		return nil, err
	}
	if len(passages) == 0 {
		return nil, nil
	}
	q, err := r.tokens(ctx, embed.Query, []string{query})
	if err != nil {
		return nil, err
	}
	if len(q[0].Spans) == 0 {
		return nil, nil
	}
	n := len(passages)
	passages = passages[:min(n, r.depth)]
	var scored []Scored
	for from := 0; from < len(passages); from += latePassages {
		part := passages[from:min(from+latePassages, len(passages))]
		tokens, err := r.tokens(ctx, embed.Passage, part)
		if err != nil {
			return nil, err
		}
		for i, t := range tokens {
			if len(t.Spans) == 0 {
				continue
			}
			if t.Dim != q[0].Dim {
				return nil, call.Replyf(r.name, "token vectors of %d and of %d components", q[0].Dim, t.Dim)
			}
			raw := embed.MaxSim(q[0], t)
			score := max(0, min(1, (raw-r.floor)/(1-r.floor)))
			scored = append(scored, Scored{Index: from + i, Score: score, Raw: raw, Truncated: t.Truncated || q[0].Truncated})
		}
	}
	scored = top(scored, topN)
	if err := Check(r.name, scored, n, topN); err != nil {
		return nil, err
	}
	return scored, nil
}

// tokens checks what the embedder gave.
func (r *late) tokens(ctx context.Context, kind embed.Kind, texts []string) ([]embed.TokenVectors, error) {
	out, err := r.e.Tokens(ctx, kind, texts)
	if err != nil {
		return nil, err
	}
	if len(out) != len(texts) {
		return nil, call.Replyf(r.name, "token vectors of %d texts, want %d", len(out), len(texts))
	}
	for i, t := range out {
		if n := len(t.Spans); n > 0 && (t.Dim <= 0 || len(t.Vectors) != n*t.Dim) {
			return nil, call.Replyf(r.name, "text %d has %d components for %d tokens of %d", i, len(t.Vectors), n, t.Dim)
		}
	}
	return out, nil
}

// Fuse makes a Reranker that keeps part of the first order: a passage that r
// scores and that is number rank of the first order, counted from 1, gets
//
//	(weight·score + 61/(60+rank)) / (weight+1)
//
// Raw is r's. The second term falls from 1 as the share of one list in
// reciprocal rank fusion does (Cormack, Clarke and Büttcher, SIGIR 2009; rank
// constant 60): it tells passages apart near the top, and hardly far below.
// Unlike in that fusion, how much better r finds a passage counts, not only that
// it does. weight is positive and finite.
func Fuse(r Reranker, weight float64) (Reranker, error) {
	if !(weight > 0) || math.IsInf(weight, 0) {
		return nil, storage.Invalidf("fusion weight %v, want a positive number", weight)
	}
	return &fused{r, weight}, nil
}

type fused struct {
	r      Reranker
	weight float64
}

const rankConstant = 60

func (f *fused) Name() string { return f.r.Name() + "+first" }

func (f *fused) Rerank(ctx context.Context, query string, passages []string, topN int) ([]Scored, error) {
	scored, err := f.r.Rerank(ctx, query, passages, 0)
	if err != nil {
		return nil, err
	}
	if err := Check(f.r.Name(), scored, len(passages), 0); err != nil {
		return nil, err
	}
	out := make([]Scored, len(scored))
	for i, s := range scored {
		first := (rankConstant + 1) / float64(rankConstant+1+s.Index)
		s.Score = (f.weight*s.Score + first) / (f.weight + 1)
		out[i] = s
	}
	return top(out, topN), nil
}
