package bench

import (
	"context"
	"fmt"
	"time"
)

// A ColdConfig says what RunCold measures. Engine, Queries, Drop, Open and
// Report are required.
type ColdConfig struct {
	Engine, Set string
	Queries     Matrix[float32]
	K           int // 0 means 10
	First       int // queries that are timed; 0 means 100
	Passes      int // starts; 0 means 3

	// Drop throws the index's files out of the page cache.
	Drop func() error
	// Read counts the bytes this process has had fetched from disk so far: a start
	// that fetches none was not cold.
	Read func() (int64, error)
	// Open opens the index.
	Open func(ctx context.Context) (ColdIndex, error)
	// Report takes a ColdStart for each start.
	Report func(line any) error
}

// A ColdIndex is one that was opened. Search answers a query; Close closes it.
type ColdIndex struct {
	Search func(ctx context.Context, query []float32, k int) error
	Close  func() error
}

// A ColdStart is what the first queries cost after the page cache was dropped.
// Each query is asked once.
type ColdStart struct {
	Kind    string  `json:"kind"` // "cold"
	Engine  string  `json:"engine"`
	Set     string  `json:"set,omitempty"`
	OpenMs  float64 `json:"open_ms"`
	FirstMs float64 `json:"first_ms"` // the first query
	Queries int     `json:"queries"`
	Latency         // of the first queries, that one included
	Read    int64   `json:"disk_bytes"` // fetched from disk meanwhile
}

func (c ColdStart) String() string {
	return fmt.Sprintf("%s %s cold: open %.2f ms, first query %.2f ms, first %d queries p50 %.1f us p99 %.1f us (%d bytes read from disk)", c.Engine, c.Set,
		c.OpenMs, c.FirstMs, c.Queries, c.P50Us, c.P99Us, c.Read)
}

// RunCold opens an index that is not in memory and asks it.
func RunCold(ctx context.Context, c ColdConfig) error {
	if c.K == 0 {
		c.K = 10
	}
	if c.First == 0 {
		c.First = 100
	}
	if c.Passes == 0 {
		c.Passes = 3
	}
	if c.First = min(c.First, c.Queries.Rows()); c.First < 1 {
		return inputf("cold", "no queries")
	}
	for range c.Passes {
		line, err := c.start(ctx)
		if err != nil {
			return err
		}
		if err := c.Report(line); err != nil {
			return err
		}
	}
	return nil
}

func (c *ColdConfig) start(ctx context.Context) (line ColdStart, err error) {
	line = ColdStart{Kind: "cold", Engine: c.Engine, Set: c.Set, Queries: c.First}
	if err := c.Drop(); err != nil {
		return line, err
	}
	before, err := c.Read()
	if err != nil {
		return line, err
	}
	ms := func(d time.Duration) float64 { return round(d.Seconds()*1e3, 3) }
	start := time.Now()
	ix, err := c.Open(ctx)
	line.OpenMs = ms(time.Since(start))
	if err != nil {
		return line, err
	}
	defer func() {
		if cerr := ix.Close(); err == nil {
			err = cerr
		}
	}()
	times := make([]time.Duration, c.First)
	for i := range times {
		start := time.Now()
		if err := ix.Search(ctx, c.Queries.Row(i), c.K); err != nil {
			return line, fmt.Errorf("bench: query %d: %w", i, err)
		}
		times[i] = time.Since(start)
	}
	after, err := c.Read()
	line.Read, line.FirstMs = after-before, ms(times[0])
	line.Latency = summarize(times).rounded()
	return line, err
}
