package rerank

import (
	"context"
	"math"

	"github.com/quarrysearch/quarry/internal/simd"
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
	// default because it is what was measured to do no harm.
	Pure bool
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
	r := &late{e: e, floor: o.Floor, name: "late-interaction/" + e.Identity().Name}
	if o.Pure {
		return r, nil
	}
	return Fuse(r, 1), nil
}

type late struct {
	e     embed.TokenEmbedder
	floor float64
	name  string
}

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
			raw := maxSim(q[0].Vectors, t.Vectors, t.Dim)
			score := max(0, min(1, (raw-r.floor)/(1-r.floor)))
			scored = append(scored, Scored{Index: from + i, Score: score, Raw: raw})
		}
	}
	scored = top(scored, topN)
	if err := Check(r.name, scored, len(passages), topN); err != nil {
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

// maxSim is the mean over the rows of q of the largest dot product with a row
// of p. Sums run in row order.
func maxSim(q, p []float32, dim int) float64 {
	sum := 0.0
	for i := 0; i < len(q); i += dim {
		best := float32(math.Inf(-1))
		row := q[i : i+dim]
		for j := 0; j < len(p); j += dim {
			if d := simd.DotF32(row, p[j:j+dim]); d > best || d != d { // a NaN stays, and Check finds it
				best = d
			}
		}
		sum += float64(best)
	}
	return sum / float64(len(q)/dim)
}

// Fuse makes a Reranker whose order is the reciprocal rank fusion of r's order,
// with weight 1, and the first order, with the given weight > 0. A passage's
// score is Σ w/(60+rank), over the two, divided by what a passage that is first
// in both has; Raw is r's. A passage that r has no score for is ranked by the
// first order alone, and stays unscored when r scored none.
//
// RRF: Cormack, Clarke and Büttcher, SIGIR 2009; rank constant 60.
func Fuse(r Reranker, weight float64) Reranker {
	return fused{r, weight}
}

type fused struct {
	r      Reranker
	weight float64
}

const rankConstant = 60

func (f fused) Name() string { return f.r.Name() + "+rrf" }

func (f fused) Rerank(ctx context.Context, query string, passages []string, topN int) ([]Scored, error) {
	if !(f.weight > 0) || math.IsInf(f.weight, 0) {
		return nil, storage.Invalidf("fusion weight %v, want a positive number", f.weight)
	}
	scored, err := f.r.Rerank(ctx, query, passages, 0)
	if err != nil || len(scored) == 0 {
		return nil, err
	}
	if err := Check(f.r.Name(), scored, len(passages), 0); err != nil {
		return nil, err
	}
	sortScored(scored)
	out := make([]Scored, len(passages))
	norm := (1 + f.weight) / (rankConstant + 1)
	for i := range out {
		out[i] = Scored{Index: i, Score: f.weight / float64(rankConstant+1+i)}
	}
	for rank, s := range scored {
		o := &out[s.Index]
		o.Score += 1 / float64(rankConstant+1+rank)
		o.Raw = s.Raw
	}
	for i := range out {
		out[i].Score = min(1, out[i].Score/norm)
	}
	return top(out, topN), nil
}
