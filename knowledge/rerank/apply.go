package rerank

import (
	"context"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// A Policy says what happens when a reranker fails.
type Policy uint8

// The policies.
const (
	// Fail returns the error.
	Fail Policy = iota
	// Keep returns the first order with FlagSkipped.
	Keep
)

// FlagSkipped is the degradation flag of an answer that was not reranked.
const FlagSkipped = "rerank-failed:skipped"

// A Ranked is one passage in its final place.
type Ranked struct {
	Index  int     // in the passages of the call
	Scored bool    // the reranker scored it; else Score and Raw are 0
	Score  float64 // Scored.Score
	Raw    float64 // Scored.Raw
	// Truncated is Scored.Truncated.
	Truncated bool
}

// An Outcome is a final order and how it came about.
type Outcome struct {
	// Ranked holds the passages, scored ones first: all of them, or topN.
	Ranked []Ranked
	// Scored counts the passages that the reranker scored.
	Scored int
	// Flag is FlagSkipped when none of the passages was scored, else "".
	Flag string
	// Err is the failure that Keep kept from being an error.
	Err error
}

// Apply reranks passages, which are in their first order, and returns the final
// order of the best topN (all, when topN ≤ 0).
//
// When ctx has a deadline, the reranker gets three quarters of the time that is
// left, and all but half a second where that is more: so that the caller can
// still answer with the first order. With Keep, every failure for which
// Degradable holds gives the first order instead of an error, as long as ctx
// itself is not over.
func Apply(ctx context.Context, r Reranker, query string, passages []string, topN int, p Policy) (Outcome, error) {
	if p > Keep {
		return Outcome{}, storage.Invalidf("rerank policy %d", p)
	}
	n := len(passages)
	if n == 0 {
		return Outcome{}, checkQuery(query)
	}
	rctx, cancel := within(ctx)
	defer cancel()
	scored, err := r.Rerank(rctx, query, passages, topN)
	if err == nil {
		err = Check(r.Name(), scored, n, topN)
	}
	if err != nil {
		if p != Keep || !Degradable(err) || ctx.Err() != nil {
			return Outcome{}, err
		}
		scored = nil
	}
	out := Outcome{Ranked: order(scored, n, topN), Scored: len(scored), Err: err}
	if len(scored) == 0 {
		out.Flag = FlagSkipped
	}
	return out, nil
}

// within shortens a deadline so that time is left to answer without the
// reranker.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	t, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	reserve := min(max(0, time.Until(t))/4, 500*time.Millisecond)
	return context.WithDeadline(ctx, t.Add(-reserve))
}

// order puts the scored passages first, best first, and the others behind them
// as they were.
func order(scored []Scored, n, topN int) []Ranked {
	if topN <= 0 || topN > n {
		topN = n
	}
	sorted := append([]Scored(nil), scored...)
	sortScored(sorted)
	out := make([]Ranked, 0, n)
	has := make([]bool, n)
	for _, s := range sorted {
		has[s.Index] = true
		out = append(out, Ranked{Index: s.Index, Scored: true, Score: s.Score, Raw: s.Raw, Truncated: s.Truncated})
	}
	for i := range n {
		if !has[i] {
			out = append(out, Ranked{Index: i})
		}
	}
	return out[:topN]
}
