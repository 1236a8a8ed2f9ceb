package rerank

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// A Reranker scores passages against a query. Implementations are safe for
// concurrent use and return when the context is over.
type Reranker interface {
	// Rerank returns the best topN passages, best first; all when topN ≤ 0.
	// passages are in their first order, which decides between equals. It may
	// return fewer than asked for: those it has no score for keep their order
	// behind the others. The result passes Check.
	Rerank(ctx context.Context, query string, passages []string, topN int) ([]Scored, error)
	// Name names the model, for messages and explanations.
	Name() string
}

// A Scored is one passage with its scores.
type Scored struct {
	Index int     // in the passages of the call
	Score float64 // in [0,1]; higher is better
	Raw   float64 // as the model gave it: a logit, a cosine, a probability
	// Truncated tells that the model read only the beginning of the passage,
	// or of the query: only local models tell.
	Truncated bool
}

// Check checks the contract of Rerank: at most n items (topN, when that is
// positive), unique indices in [0, n), finite scores in [0,1]. The error
// matches call.ErrReply and starts with name.
func Check(name string, scored []Scored, n, topN int) error {
	if topN <= 0 || topN > n {
		topN = n
	}
	if len(scored) > topN {
		return call.Replyf(name, "%d scored passages, want at most %d", len(scored), topN)
	}
	seen := make([]bool, n)
	for i, s := range scored {
		switch {
		case s.Index < 0 || s.Index >= n:
			return call.Replyf(name, "item %d has index %d, want 0 to %d", i, s.Index, n-1)
		case seen[s.Index]:
			return call.Replyf(name, "index %d comes twice", s.Index)
		case math.IsNaN(s.Raw) || math.IsInf(s.Raw, 0):
			return call.Replyf(name, "the score of passage %d is %v", s.Index, s.Raw)
		case !(s.Score >= 0 && s.Score <= 1):
			return call.Replyf(name, "the score of passage %d is %v, want 0 to 1", s.Index, s.Score)
		}
		seen[s.Index] = true
	}
	return nil
}

// sortScored orders best first: score, raw, first order.
func sortScored(scored []Scored) {
	slices.SortFunc(scored, func(a, b Scored) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Raw, a.Raw), cmp.Compare(a.Index, b.Index))
	})
}

// top sorts and cuts.
func top(scored []Scored, topN int) []Scored {
	sortScored(scored)
	if topN > 0 && len(scored) > topN {
		scored = scored[:topN]
	}
	return scored
}

// checkQuery refuses what no reranker can use.
func checkQuery(query string) error {
	if service.IsBlank(query) {
		return storage.Invalidf("query is blank")
	}
	return nil
}

// A Scale says how raw values become scores.
type Scale uint8

// The scales.
const (
	// ScaleDefault is the provider's own: logits for TEI, unit for the others.
	ScaleDefault Scale = iota
	// ScaleUnit is for values that lie in [0,1] as they are. Others are an
	// error.
	ScaleUnit
	// ScaleLogit is 1/(1+e^−x), for cross-encoders without an activation.
	ScaleLogit
	// ScaleCosine is max(0, x), for models that answer with cosines.
	ScaleCosine
)

// score maps a finite raw value. Values that rounding has pushed out of the
// scale by less than a millionth are pulled back.
func (s Scale) score(raw float64) (score float64, ok bool) {
	const slack = 1e-6
	switch s {
	case ScaleLogit:
		return sigmoid(raw), true
	case ScaleCosine:
		return min(max(raw, 0), 1), raw >= -1-slack && raw <= 1+slack
	}
	return min(max(raw, 0), 1), raw >= -slack && raw <= 1+slack
}

// sigmoid does not overflow: e is raised to negative powers only.
func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

// Degradable reports whether err leaves the first order standing: the reranker
// failed, was late, refused or answered nonsense. It is false for nil, for what
// the caller did wrong (storage.ErrInvalid) and for a canceled call, whose
// answer nobody waits for.
func Degradable(err error) bool {
	return err != nil && !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, context.Canceled)
}
