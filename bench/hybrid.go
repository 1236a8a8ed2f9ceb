package bench

import (
	"context"
	"fmt"
)

// A HybridConfig says what RunHybrid measures. Engine, Queries, Search and
// Report are required.
type HybridConfig struct {
	Engine, Set string
	Queries     int // how many there are
	K           int // 0 means 10
	Passes      int // the fastest of each query counts; 0 means 5
	Depth       int // for the report
	Threads     int // for the report; with 1 the legs run one after the other

	// Modes and Filters are measured in every pair; the empty filter is none.
	Modes, Filters []string
	// Truth holds the rows nearest to each query by vector, for the recall of the
	// vector leg without a filter; may be empty.
	Truth Matrix[int32]

	// Search answers query i in a mode with a filter and returns the hits there
	// were; it appends their rows to dst.
	Search func(ctx context.Context, i int, mode, filter string, dst []int32) ([]int32, error)
	// Report takes a HybridLine for each pair.
	Report func(line any) error
}

// Modes of a hybrid search and of its legs alone.
const (
	ModeHybrid  = "hybrid"
	ModeKeyword = "keyword"
	ModeVector  = "vector"
)

// A HybridLine is what searches in one mode, with one filter, cost.
type HybridLine struct {
	Kind    string   `json:"kind"` // "hybrid"
	Engine  string   `json:"engine"`
	Set     string   `json:"set,omitempty"`
	Mode    string   `json:"mode"`
	Filter  string   `json:"filter,omitempty"`
	Threads int      `json:"threads"`
	K       int      `json:"k"`
	Depth   int      `json:"depth,omitempty"` // hits each leg gives to the fusion
	Queries int      `json:"queries"`
	Hits    int      `json:"hits"`             // of all queries together
	Recall  *float64 `json:"recall,omitempty"` // of mode vector without a filter
	Latency
}

func (l HybridLine) String() string {
	out := fmt.Sprintf("%s %s %s", l.Engine, l.Set, l.Mode)
	if l.Filter != "" {
		out += " where " + l.Filter
	}
	out += fmt.Sprintf(" k=%d avg %.1f p50 %.1f p99 %.1f us, %d hits", l.K, l.AvgUs, l.P50Us, l.P99Us, l.Hits)
	if l.Recall != nil {
		out += fmt.Sprintf(", recall %.4f", *l.Recall)
	}
	return out
}

// RunHybrid measures each mode with each filter, one query at a time.
func RunHybrid(ctx context.Context, c HybridConfig) error {
	if c.K == 0 {
		c.K = 10
	}
	if c.Passes == 0 {
		c.Passes = 5
	}
	if c.Queries < 1 || c.Passes < 1 {
		return inputf("hybrid", "%d queries, %d passes: want 1 or more of each", c.Queries, c.Passes)
	}
	for _, mode := range c.Modes {
		for _, filter := range c.Filters {
			line, err := c.measure(ctx, mode, filter)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", mode, err)
			}
			if err := c.Report(line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *HybridConfig) measure(ctx context.Context, mode, filter string) (HybridLine, error) {
	found := make([][]int32, c.Queries)
	latency, err := Measure(ctx, c.Queries, c.Passes, func(ctx context.Context, i int) (err error) {
		found[i], err = c.Search(ctx, i, mode, filter, found[i][:0])
		return err
	})
	line := HybridLine{Kind: "hybrid", Engine: c.Engine, Set: c.Set, Mode: mode, Filter: filter, Threads: c.Threads, K: c.K, Depth: c.Depth, Queries: c.Queries, Latency: latency.rounded()}
	recall, n := 0.0, min(c.Queries, c.Truth.Rows())
	for i, rows := range found {
		line.Hits += len(rows)
		if i < n {
			recall += RecallAt(rows, c.Truth.Row(i), min(c.K, c.Truth.Dim)) / float64(n)
		}
	}
	if mode == ModeVector && filter == "" && n > 0 {
		recall = round(recall, 4)
		line.Recall = &recall
	}
	return line, err
}
