package aisearch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
)

// ErrRerank is returned when a reranker gives no passage a score.
var ErrRerank = errors.New("quarry: nothing reranked")

// A semantic is a chunk with its score.
type semantic struct {
	chunk int
	score float64
}

// cosines compares the query with every row. A vector of length zero has cosine
// 0; one that is not finite is embed.ErrContract. Sums are float32 in the fixed
// order of package simd: the same bits on every processor.
func cosines(model embed.Identity, query, rows []float32) ([]semantic, error) {
	dim := len(query)
	own := float64(simd.DotF32(query, query))
	out := make([]semantic, len(rows)/dim)
	bad := !(own <= math.MaxFloat32)
	for i := range out {
		row := rows[i*dim : (i+1)*dim : (i+1)*dim]
		dot, norm := float64(simd.DotF32(query, row)), float64(simd.DotF32(row, row))
		out[i].chunk = i
		if square := own * norm; square > 0 {
			out[i].score = dot / math.Sqrt(square)
		}
		bad = bad || !(norm <= math.MaxFloat32)
	}
	if bad {
		return nil, embed.NotFinite(&model)
	}
	return out, nil
}

func compareSemantic(a, b semantic) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.chunk, b.chunk))
}

// bestOf returns the best n, best first. Chunks are numbered by document, then
// by place in it, so the number decides between equals. The heap's root is the
// worst kept.
func bestOf(all []semantic, n int) []semantic {
	if n >= len(all) {
		slices.SortFunc(all, compareSemantic)
		return all
	}
	heap := slices.Clone(all[:n])
	down := func(i int) {
		for {
			kid := 2*i + 1
			if kid >= n {
				return
			}
			if kid+1 < n && compareSemantic(heap[kid+1], heap[kid]) > 0 {
				kid++
			}
			if compareSemantic(heap[kid], heap[i]) <= 0 {
				return
			}
			heap[i], heap[kid] = heap[kid], heap[i]
			i = kid
		}
	}
	for i := n/2 - 1; i >= 0; i-- {
		down(i)
	}
	for _, s := range all[n:] {
		if s.score > heap[0].score { // equal ones come later in order
			heap[0] = s
			down(0)
		}
	}
	slices.SortFunc(heap, compareSemantic)
	return heap
}

// rescore puts candidates in the reranker's order; equal ones stay as they were,
// and those it gave no score follow, with score 0.
func rescore(ctx context.Context, rr rerank.Reranker, query string, all []string, best []semantic) ([]semantic, error) {
	texts := make([]string, len(best))
	for i, s := range best {
		texts[i] = all[s.chunk]
	}
	o, err := rerank.Apply(ctx, rr, query, texts, 0, rerank.Fail)
	if err != nil {
		return nil, fmt.Errorf("rerank: %w", err)
	}
	if o.Scored == 0 {
		return nil, fmt.Errorf("%w: %s gave none of %d passages a score", ErrRerank, rr.Name(), len(texts))
	}
	out := make([]semantic, len(o.Ranked))
	for i, x := range o.Ranked {
		out[i] = semantic{best[x.Index].chunk, x.Score}
	}
	return out, nil
}
