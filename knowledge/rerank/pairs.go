package rerank

import (
	"context"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
)

// A PairScorer is a model that reads a query and a passage together and gives
// one logit. It returns one value a passage, in order.
type PairScorer interface {
	Pairs(ctx context.Context, query string, passages []string) ([]float64, error)
	Name() string
}

// Pairs makes a Reranker of a PairScorer; logits go through a sigmoid.
func Pairs(m PairScorer) Reranker {
	return &pairs{name: m.Name(), score: func(ctx context.Context, query string, passages []string) (r embed.PairResult, err error) {
		r.Logits, err = m.Pairs(ctx, query, passages)
		return r, err
	}}
}

// CrossEncoder makes a Reranker of a local cross-encoder (embed.LoadDir of a
// directory as the hub lays it out, or embed.OpenModel of a compact file; then
// embed.NewCrossEncoder). Logits go through a sigmoid. Passages that were cut at
// the model's limit are marked Truncated.
//
// On one core, a model of 6 layers and 384 dimensions takes some 60 ms for 10
// passages of 200 tokens.
func CrossEncoder(m *embed.CrossEncoder) Reranker {
	return &pairs{name: m.Name(), score: m.Pairs}
}

type pairs struct {
	name  string
	score func(ctx context.Context, query string, passages []string) (embed.PairResult, error)
}

func (p *pairs) Name() string { return p.name }

func (p *pairs) Rerank(ctx context.Context, query string, passages []string, topN int) ([]Scored, error) {
	if err := checkQuery(query); err != nil {
		return nil, err
	}
	at, texts := notBlank(passages)
	if len(at) == 0 {
		return nil, nil
	}
	r, err := p.score(ctx, query, texts)
	if err != nil {
		return nil, err
	}
	if len(r.Logits) != len(texts) {
		return nil, call.Replyf(p.name, "%d scores for %d passages", len(r.Logits), len(texts))
	}
	scored := make([]Scored, len(r.Logits))
	for i, x := range r.Logits {
		scored[i] = Scored{Index: at[i], Score: sigmoid(x), Raw: x}
	}
	for _, i := range r.Truncated {
		scored[i].Truncated = true
	}
	scored = top(scored, topN)
	if err := Check(p.name, scored, len(passages), topN); err != nil {
		return nil, err
	}
	return scored, nil
}

// notBlank returns the passages that have something to read, and where they are.
func notBlank(passages []string) (at []int, texts []string) {
	for i, p := range passages {
		if !service.IsBlank(p) {
			at, texts = append(at, i), append(texts, p)
		}
	}
	return at, texts
}
