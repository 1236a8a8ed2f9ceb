package bench

import (
	"context"
	"fmt"
	"io"
	"time"
)

// DefaultDepth is how many documents a query are asked for where an EvalConfig
// leaves it 0: trec_eval's habit, deep enough for MAP.
const DefaultDepth = 1000

// An EvalConfig says what RunEval evaluates. Queries, Qrels and Search are
// required.
type EvalConfig struct {
	Set     string // names the collection in the report
	Mode    string // keyword, vector or hybrid: for the report
	Docs    int    // for the report
	Queries []Query
	Qrels   Qrels
	Depth   int // documents asked for a query; 0 means DefaultDepth

	// Search answers one query with at most depth documents, best first.
	Search func(ctx context.Context, q Query, depth int) ([]Ranked, error)
	// Run, when not nil, takes the rankings as a TREC run file under Tag.
	Run io.Writer
	Tag string
}

// An EvalReport is the mean of each metric over the judged queries, to four
// places; the package comment defines them.
type EvalReport struct {
	Set       string  `json:"set"`
	Mode      string  `json:"mode"`
	Docs      int     `json:"docs"`
	Queries   int     `json:"queries"` // with at least one relevant document
	Skipped   int     `json:"skipped"` // the others
	NDCG10    float64 `json:"ndcg@10"`
	MAP       float64 `json:"map"`
	Recall100 float64 `json:"recall@100"`
	MRR10     float64 `json:"mrr@10"`
	Seconds   float64 `json:"seconds"` // of all searches
}

func (r EvalReport) String() string {
	return fmt.Sprintf("%s %s: nDCG@10 %.4f MAP %.4f recall@100 %.4f MRR@10 %.4f (%d docs, %d queries, %.1f s)",
		r.Set, r.Mode, r.NDCG10, r.MAP, r.Recall100, r.MRR10, r.Docs, r.Queries, r.Seconds)
}

// RunEval searches every judged query, in order, and averages the metrics. No
// judged query at all is an error.
func RunEval(ctx context.Context, c EvalConfig) (EvalReport, error) {
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	if c.Depth < 100 {
		return EvalReport{}, inputf("depth", "%d: recall@100 needs 100 or more", c.Depth)
	}
	out := EvalReport{Set: c.Set, Mode: c.Mode, Docs: c.Docs}
	var run *RunWriter
	if c.Run != nil {
		run = NewRunWriter(c.Run, c.Tag)
	}
	var took time.Duration
	for _, q := range c.Queries {
		if !relevant(c.Qrels[q.ID]) {
			out.Skipped++
			continue
		}
		if err := ctx.Err(); err != nil {
			return EvalReport{}, err
		}
		start := time.Now()
		ranking, err := c.Search(ctx, q, c.Depth)
		took += time.Since(start)
		if err != nil {
			return EvalReport{}, fmt.Errorf("bench: query %q: %w", q.ID, err)
		}
		if err := out.add(q, ranking, c.Qrels[q.ID]); err != nil {
			return EvalReport{}, err
		}
		if run != nil {
			if err := run.Query(q.ID, ranking); err != nil {
				return EvalReport{}, err
			}
		}
	}
	if out.Queries == 0 {
		return EvalReport{}, inputf("qrels", "none of %d queries has a relevant document", len(c.Queries))
	}
	if run != nil {
		if err := run.Flush(); err != nil {
			return EvalReport{}, err
		}
	}
	n := float64(out.Queries)
	for _, mean := range []*float64{&out.NDCG10, &out.MAP, &out.Recall100, &out.MRR10} {
		*mean = round(*mean/n, 4)
	}
	out.Seconds = round(took.Seconds(), 1)
	return out, nil
}

// add adds one query's figures to the sums.
func (r *EvalReport) add(q Query, ranking []Ranked, judgements map[string]int) error {
	ids := make([]string, len(ranking))
	for i := range ranking {
		ids[i] = ranking[i].ID
	}
	j, err := Judge(ids, judgements)
	if err != nil {
		return fmt.Errorf("query %q: %w", q.ID, err)
	}
	r.Queries++
	r.NDCG10 += j.NDCG(10)
	r.MAP += j.AP()
	r.Recall100 += j.Recall(100)
	r.MRR10 += j.RR(10)
	return nil
}

func relevant(judgements map[string]int) bool {
	for _, grade := range judgements {
		if grade > 0 {
			return true
		}
	}
	return false
}
