package bench

import (
	"context"
	"slices"
	"time"
)

// A Latency sums up the least time each query took, in microseconds. Percentiles
// are the peers': the sorted times at len/2 and at ⌊0.99·len⌋.
type Latency struct {
	AvgUs float64 `json:"avg_us"`
	P50Us float64 `json:"p50_us"`
	P99Us float64 `json:"p99_us"`
}

// rounded is l to a tenth of a microsecond.
func (l Latency) rounded() Latency {
	return Latency{AvgUs: round(l.AvgUs, 1), P50Us: round(l.P50Us, 1), P99Us: round(l.P99Us, 1)}
}

// Measure runs query 0 … queries−1 in order, passes times over, on this
// goroutine, and keeps each query's least time. The first error ends it and is
// returned; so does the context, between queries.
func Measure(ctx context.Context, queries, passes int, run func(ctx context.Context, query int) error) (Latency, error) {
	best := make([]time.Duration, queries)
	for pass := range passes {
		for i := range best {
			if err := ctx.Err(); err != nil {
				return Latency{}, err
			}
			start := time.Now()
			err := run(ctx, i)
			took := time.Since(start)
			if err != nil {
				return Latency{}, err
			}
			if pass == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	return summarize(best), nil
}

// summarize sorts the times in place.
func summarize(times []time.Duration) Latency {
	if len(times) == 0 {
		return Latency{}
	}
	slices.Sort(times)
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	us := func(t time.Duration) float64 { return float64(t) / float64(time.Microsecond) }
	return Latency{
		AvgUs: us(sum) / float64(len(times)),
		P50Us: us(times[len(times)/2]),
		P99Us: us(times[len(times)*99/100]),
	}
}
