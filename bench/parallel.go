package bench

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// parallelRecall is what a width must reach to be searched with in parallel.
const parallelRecall = 0.95

// A VectorParallel tells what several threads reach together.
type VectorParallel struct {
	Kind    string  `json:"kind"` // "parallel"
	Engine  string  `json:"engine"`
	Set     string  `json:"set,omitempty"`
	M       int     `json:"m,omitempty"`
	EF      int     `json:"ef"`
	Threads int     `json:"threads"`
	QPS     int     `json:"qps"`   // of all threads together, the best pass
	Ratio   float64 `json:"ratio"` // to the first number of threads
}

func (p VectorParallel) String() string {
	return fmt.Sprintf("%s ef %d threads %d qps %d, %.2f x", p.Engine, p.EF, p.Threads, p.QPS, p.Ratio)
}

// parallel searches with each number of threads at one width.
func (c *VectorConfig) parallel(ctx context.Context, ef int) error {
	first := 0.0
	for _, threads := range c.Parallel {
		if threads < 1 {
			return inputf("parallel", "%d threads, want 1 or more", threads)
		}
		best := time.Duration(math.MaxInt64)
		for range c.Passes {
			took, err := c.pass(ctx, ef, threads)
			if err != nil {
				return err
			}
			best = min(best, max(took, 1))
		}
		qps := float64(c.Queries.Rows()) / best.Seconds()
		if first == 0 {
			first = qps
		}
		line := VectorParallel{Kind: "parallel", Engine: c.Engine, Set: c.Set, M: c.M, EF: ef, Threads: threads, QPS: int(math.Round(qps)), Ratio: round(qps/first, 2)}
		if err := c.Report(line); err != nil {
			return err
		}
	}
	return nil
}

// pass answers every query once, whichever thread is free.
func (c *VectorConfig) pass(ctx context.Context, ef, threads int) (time.Duration, error) {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, threads)
	start := time.Now()
	for t := range threads {
		group.Go(func() {
			var dst []int32
			for {
				i := int(next.Add(1)) - 1
				if i >= c.Queries.Rows() || ctx.Err() != nil {
					return
				}
				rows, err := c.Search(ctx, c.Queries.Row(i), c.K, ef, dst[:0])
				if err != nil {
					errs[t] = fmt.Errorf("bench: query %d at ef %d, %d threads: %w", i, ef, threads, err)
					return
				}
				dst = rows
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, ctx.Err()
}
