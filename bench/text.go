package bench

import (
	"context"
	"fmt"
	"time"
)

// A TextConfig says what RunText measures. Engine, Queries, Index, Search and
// Report are required.
type TextConfig struct {
	Engine  string
	Set     string // name of the data, for the report
	Mode    string // union, and or phrase: for the report
	K       int    // for the report; 0 means 10, or no hits with Count
	Count   bool   // for the report: matches are counted
	Share   int    // for the report: documents that pass a filter, in percent; 0 without
	Queries int    // how many there are
	Passes  int    // 0 means 15

	// Index makes the index and returns documents, segments and bytes on disk.
	// Its whole run is timed.
	Index func(ctx context.Context) (TextSize, error)
	// Search answers query number i, made ready beforehand, and returns the
	// number of hits.
	Search func(ctx context.Context, i int) (hits int, err error)
	// Report takes each line when it is ready: a TextIndex, then a TextLatency.
	Report func(line any) error
}

// A TextSize is what Index made.
type TextSize struct {
	Docs     int
	Segments int
	Bytes    int64
}

// A TextIndex is RunText's first line.
type TextIndex struct {
	Kind   string  `json:"kind"` // "text index"
	Engine string  `json:"engine"`
	Set    string  `json:"set,omitempty"`
	IndexS float64 `json:"index_s"` // seconds, to a tenth
	Docs   int     `json:"docs"`
	Bytes  int64   `json:"bytes"` // on disk
}

// String is the line in the peers' form.
func (t TextIndex) String() string {
	return fmt.Sprintf("%s index %d docs %.1f s %d bytes", t.Engine, t.Docs, t.IndexS, t.Bytes)
}

// A TextLatency is RunText's second line. Latencies are the least of all passes
// a query, in µs to a tenth.
type TextLatency struct {
	Kind     string `json:"kind"` // "text"
	Engine   string `json:"engine"`
	Set      string `json:"set,omitempty"`
	Mode     string `json:"mode"`
	K        int    `json:"k"`
	Count    bool   `json:"count,omitempty"`
	Share    int    `json:"share,omitempty"`
	Segments int    `json:"segments"`
	Queries  int    `json:"queries"`
	Hits     int    `json:"hits"` // of all queries together: equal speed on unequal answers is none
	Latency
}

// String is the line in the peers' form.
func (t TextLatency) String() string {
	return fmt.Sprintf("%s %s k=%d segments=%d avg %.1f p50 %.1f p99 %.1f us", t.Engine, t.Mode, t.K, t.Segments, t.AvgUs, t.P50Us, t.P99Us)
}

// RunText makes an index and measures each query's latency, one at a time on
// this goroutine.
func RunText(ctx context.Context, c TextConfig) error {
	if c.K == 0 && !c.Count {
		c.K = 10
	}
	if c.Passes == 0 {
		c.Passes = 15
	}
	if c.Queries < 1 || c.Passes < 1 || c.K < 0 {
		return inputf("text", "%d queries, %d passes, k %d: want 1 or more of each", c.Queries, c.Passes, c.K)
	}
	start := time.Now()
	size, err := c.Index(ctx)
	if err != nil {
		return fmt.Errorf("bench: index: %w", err)
	}
	took := time.Since(start).Seconds()
	if err := c.Report(TextIndex{Kind: "text index", Engine: c.Engine, Set: c.Set, IndexS: round(took, 1), Docs: size.Docs, Bytes: size.Bytes}); err != nil {
		return err
	}
	hits := make([]int, c.Queries)
	latency, err := Measure(ctx, c.Queries, c.Passes, func(ctx context.Context, i int) (err error) {
		hits[i], err = c.Search(ctx, i)
		return err
	})
	if err != nil {
		return fmt.Errorf("bench: query: %w", err)
	}
	line := TextLatency{Kind: "text", Engine: c.Engine, Set: c.Set, Mode: c.Mode, K: c.K, Count: c.Count, Share: c.Share, Segments: size.Segments, Queries: c.Queries}
	line.Latency = latency.rounded()
	for _, n := range hits {
		line.Hits += n
	}
	return c.Report(line)
}
