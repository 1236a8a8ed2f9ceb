package research

import (
	"context"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// A Question is a text and what Classify made of it.
type Question struct {
	// Text is the question as asked, without white space around it.
	Text string
	// Complex tells that more than one thing is asked for.
	Complex bool
	// Clauses are the things asked for, each a text that can be searched for
	// alone; one, the Text, when the question is direct. At most MaxClauses.
	Clauses []string
}

// A Passage is a candidate, as far as this package looks at one.
type Passage struct {
	// ID is the same for the same passage in each list of a run, and for no
	// other passage. It is not empty. Passages of equal score are ordered by it
	// where their ranks say nothing.
	ID string
	// Title and Text are what a judge reads.
	Title, Text string
	// Score in [0,1], higher is better.
	Score float64
}

// A Searcher finds passages; package space makes one of a published space. All
// calls of a run come one after the other.
type Searcher interface {
	// Search returns one list a query, best first; an ID that comes twice in a
	// list counts once. All queries are embedded as one batch. It is called
	// once a round.
	Search(ctx context.Context, queries []string) ([][]Passage, error)
	// Expand returns, for each of the passages, those next to it in the outline
	// of its document, nearest first: one list a passage, empty where there is
	// none. Their scores are not looked at.
	Expand(ctx context.Context, seeds []Passage) ([][]Passage, error)
	// Rerank scores passages against the question of the run: the same
	// passages, in any order, with new scores on one scale for all calls of the
	// run. done is false where there is no reranker, or it failed and may be
	// left out (the Searcher keeps the flag): then what it returns is not
	// looked at, and it is not called again in this run.
	Rerank(ctx context.Context, passages []Passage) (ranked []Passage, done bool, err error)
}

// A Planner splits a complex question into queries. It asks a model through the
// budget only. Implementations are safe for concurrent use.
type Planner interface {
	// Plan returns queries to search for beside the question itself; what
	// exceeds MaxQueries is dropped.
	Plan(ctx context.Context, q Question, b *Budget) ([]string, error)
}

// A Judge says whether evidence is enough to answer a question. It asks a model
// through the budget only. Implementations are safe for concurrent use.
type Judge interface {
	// Sufficient is called once a run, also where there is no evidence.
	Sufficient(ctx context.Context, q Question, evidence []Passage, b *Budget) (Verdict, error)
}

// A Verdict is what a Judge says of a set of evidence.
type Verdict struct {
	// Sufficient tells that nothing more need be searched for.
	Sufficient bool
	// Missing are queries for what the evidence lacks; what exceeds MaxQueries
	// is dropped. Without one there is no further round.
	Missing []string
}

// Limits of what one run does.
const (
	// MaxQueries bounds the queries of a plan, and those of a verdict.
	MaxQueries = 3
	// MaxQueryRunes bounds one query of a plan or a verdict; a longer one is cut.
	MaxQueryRunes = 500
	// MaxClauses bounds the clauses of a question.
	MaxClauses = 12
	// MaxTopK bounds Limits.TopK.
	MaxTopK = 100
)

// Limits bound a run. The zero value of each field stands for its default.
type Limits struct {
	// TopK is how many passages are kept, 1 to MaxTopK; default 10.
	TopK int
	// Threshold is the least score of a passage, inclusive, after rerank; 0
	// keeps all.
	Threshold float64
	// Candidates is how many passages of a round go on to expansion and rerank,
	// TopK to 1,000; default 5·TopK.
	Candidates int
	// Seeds is how many of the best candidates are expanded, and Neighbors how
	// many passages each adds at most; 0 to 100, defaults 5 and 2. −1 is none.
	Seeds, Neighbors int
	// CallTimeout bounds a call of a model, default 20 s. A call also never
	// takes more than half of what is left to the deadline of the run.
	CallTimeout time.Duration
}

// withDefaults fills in what is zero, and checks.
func (l Limits) withDefaults() (Limits, error) {
	fill := func(v *int, byDefault int) {
		switch *v {
		case 0:
			*v = byDefault
		case -1:
			*v = 0
		}
	}
	if l.TopK == 0 {
		l.TopK = 10
	}
	if l.Candidates == 0 {
		l.Candidates = 5 * l.TopK
	}
	fill(&l.Seeds, 5)
	fill(&l.Neighbors, 2)
	if l.CallTimeout == 0 {
		l.CallTimeout = 20 * time.Second
	}
	switch {
	case l.TopK < 1 || l.TopK > MaxTopK:
		return l, storage.Invalidf("top_k is %d, want 1 to %d", l.TopK, MaxTopK)
	case !(l.Threshold >= 0 && l.Threshold <= 1):
		return l, storage.Invalidf("threshold is %v, want 0 to 1", l.Threshold)
	case l.Candidates < l.TopK || l.Candidates > 1000:
		return l, storage.Invalidf("candidates is %d, want %d (top_k) to 1000", l.Candidates, l.TopK)
	case l.Seeds < 0 || l.Seeds > 100 || l.Neighbors < 0 || l.Neighbors > 100:
		return l, storage.Invalidf("seeds %d, neighbors %d: want 0 to 100", l.Seeds, l.Neighbors)
	case l.CallTimeout < 0:
		return l, storage.Invalidf("the call timeout is negative")
	}
	return l, nil
}

// Flags of an outcome.
const (
	// FlagPlanner: the planner failed, and the offline one took its place.
	FlagPlanner = "planner-failed:offline"
	// FlagJudge: the judge failed, and the offline one took its place.
	FlagJudge = "judge-failed:offline"
	// FlagSupplement: the reranker scored the first round and not the second,
	// whose passages were left out: two scales do not make one order.
	FlagSupplement = "supplement-failed:skipped"
)

// Calls counts requests to models.
type Calls struct {
	Plan  int `json:"plan"`
	Judge int `json:"judge"`
}

// An Outcome is the evidence of a run and how it came about.
type Outcome struct {
	// Passages, best first: by score, then by rank in the fusion. At most TopK,
	// none below the threshold.
	Passages []Passage
	// Queries that were searched for, in order: the question, the plan, what
	// the judge missed.
	Queries []string
	// Candidates is how many passages were looked at, those of expansion
	// included.
	Candidates int
	// Rounds of search: 1, or 2 after a supplementary one.
	Rounds int
	// Verdict on the evidence of the first round.
	Verdict Verdict
	// Reranked tells that the scores are a reranker's; else they are those of
	// the fusion.
	Reranked bool
	Calls    Calls
	// Flags of degradations, each once.
	Flags []string
}
