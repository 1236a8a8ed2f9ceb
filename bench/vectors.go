package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// DefaultEF are the search widths swept where a VectorConfig names none. The
// peers' scripts sweep most of them.
func DefaultEF() []int {
	return []int{4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 800}
}

// A VectorConfig says what RunVectors measures. Engine, Queries, Truth, Build,
// Search and Report are required.
type VectorConfig struct {
	Engine  string
	Set     string // name of the data, for the report
	M       int    // links a node, for the report; 0 is not told
	Queries Matrix[float32]
	// Truth holds each query's nearest rows, best first, at least K of them. It
	// may have fewer rows than there are queries; then only those queries run.
	Truth   Matrix[int32]
	K       int   // 0 means 10
	EF      []int // widths to sweep; nil means DefaultEF()
	Passes  int   // timed passes a width, the fastest counts; 0 means 3
	Threads int   // what Build uses, for the report
	// Parallel are the numbers of threads to search with at once at the first
	// width of recall 0.95 or more, or else at the last; nil is none.
	Parallel []int

	// Build makes the index and returns how many vectors it holds and its size
	// on disk. Its whole run is timed.
	Build func(ctx context.Context) (vectors int, bytes int64, err error)
	// Search appends the base rows of the k nearest to dst, best first.
	Search func(ctx context.Context, query []float32, k, ef int, dst []int32) ([]int32, error)
	// Count tells how many distances such a search computes, in a pass of its own
	// that is not timed; nil: that is not known.
	Count func(ctx context.Context, query []float32, k, ef int) (int, error)
	// Report takes each line when it is ready: a VectorBuild, then a
	// VectorSetting for every width, then a VectorParallel for each of Parallel,
	// for which Search is called from several goroutines.
	Report func(line any) error
}

// A VectorBuild is RunVectors' first line.
type VectorBuild struct {
	Kind    string  `json:"kind"` // "build"
	Engine  string  `json:"engine"`
	Set     string  `json:"set,omitempty"`
	M       int     `json:"m,omitempty"`
	BuildS  float64 `json:"build_s"` // seconds, to a tenth
	Threads int     `json:"threads"`
	Vectors int     `json:"vectors"`
	Bytes   int64   `json:"bytes"` // on disk
}

func (b VectorBuild) String() string {
	return fmt.Sprintf("%s build %.1f s, threads %d, vectors %d, bytes %d", b.Engine, b.BuildS, b.Threads, b.Vectors, b.Bytes)
}

// A VectorSetting is one line of RunVectors' sweep.
type VectorSetting struct {
	Kind      string  `json:"kind"` // "curve"
	Engine    string  `json:"engine"`
	Set       string  `json:"set,omitempty"`
	M         int     `json:"m,omitempty"`
	EF        int     `json:"ef"`
	Recall    float64 `json:"recall"`    // at K, to four places
	QPS       int     `json:"qps"`       // queries a second on one thread
	Distances int     `json:"distances"` // computed a query, rounded
	Latency           // of each query's fastest pass
	// OverheadUs is what an empty query costs where the engine is driven from a
	// slow language, and NetQPS the speed without it; 0: nothing was taken off.
	// This package takes nothing off: the peers' scripts do.
	OverheadUs float64 `json:"overhead_us,omitempty"`
	NetQPS     int     `json:"net_qps,omitempty"`
}

func (s VectorSetting) String() string {
	return fmt.Sprintf("%s ef %d recall %.4f qps %d distances %d", s.Engine, s.EF, s.Recall, s.QPS, s.Distances)
}

func (c *VectorConfig) prepare() error {
	if c.K == 0 {
		c.K = 10
	}
	if c.EF == nil {
		c.EF = DefaultEF()
	}
	if c.Passes == 0 {
		c.Passes = 3
	}
	c.Queries = c.Queries.Head(c.Truth.Rows())
	switch {
	case c.K < 1 || c.K > c.Truth.Dim:
		return inputf("truth", "it has %d neighbors a query, recall@%d needs 1 to that many", c.Truth.Dim, c.K)
	case c.Passes < 1:
		return inputf("passes", "%d, want 1 or more", c.Passes)
	case c.Queries.Rows() == 0:
		return inputf("queries", "none")
	}
	c.Truth = c.Truth.Head(c.Queries.Rows())
	return nil
}

// RunVectors builds an index and sweeps its search width, one query at a time on
// this goroutine.
func RunVectors(ctx context.Context, c VectorConfig) error {
	if err := c.prepare(); err != nil {
		return err
	}
	start := time.Now()
	vectors, size, err := c.Build(ctx)
	if err != nil {
		return fmt.Errorf("bench: build: %w", err)
	}
	took := time.Since(start).Seconds()
	if err := c.Report(VectorBuild{Kind: "build", Engine: c.Engine, Set: c.Set, M: c.M, BuildS: round(took, 1), Threads: c.Threads, Vectors: vectors, Bytes: size}); err != nil {
		return err
	}
	wide := 0 // the width for Parallel
	for _, ef := range c.EF {
		s, err := c.sweep(ctx, ef)
		if err != nil {
			return err
		}
		if err := c.Report(s); err != nil {
			return err
		}
		if wide == 0 && s.Recall >= parallelRecall {
			wide = ef
		}
	}
	if wide == 0 {
		wide = c.EF[len(c.EF)-1]
	}
	return c.parallel(ctx, wide)
}

// sweep measures one width.
func (c *VectorConfig) sweep(ctx context.Context, ef int) (VectorSetting, error) {
	n := c.Queries.Rows()
	found := make([][]int32, n)
	for i := range found {
		found[i] = make([]int32, 0, c.K)
	}
	distances := 0
	for i := range n {
		if c.Count == nil {
			break
		}
		d, err := c.Count(ctx, c.Queries.Row(i), c.K, ef)
		if err != nil {
			return VectorSetting{}, fmt.Errorf("bench: query %d at ef %d: %w", i, ef, err)
		}
		distances += d
	}
	best := time.Duration(math.MaxInt64)
	fastest := make([]time.Duration, n)
	for pass := range c.Passes {
		start := time.Now()
		last := start
		for i := range n {
			rows, err := c.Search(ctx, c.Queries.Row(i), c.K, ef, found[i][:0])
			if err != nil {
				return VectorSetting{}, fmt.Errorf("bench: query %d at ef %d: %w", i, ef, err)
			}
			found[i] = rows
			now := time.Now()
			if took := now.Sub(last); pass == 0 || took < fastest[i] {
				fastest[i] = took
			}
			last = now
		}
		best = min(best, max(time.Since(start), 1))
		if err := ctx.Err(); err != nil {
			return VectorSetting{}, err
		}
	}
	recall := 0.0
	for i := range n {
		recall += RecallAt(found[i], c.Truth.Row(i), c.K)
	}
	return VectorSetting{
		Kind: "curve", Engine: c.Engine, Set: c.Set, M: c.M, EF: ef,
		Recall:    round(recall/float64(n), 4),
		QPS:       int(math.Round(float64(n) / best.Seconds())),
		Distances: int(math.Round(float64(distances) / float64(n))),
		Latency:   summarize(fastest).rounded(),
	}, nil
}

// round keeps the given number of decimal places.
func round(x float64, places int) float64 {
	p := math.Pow10(places)
	return math.Round(x*p) / p
}
