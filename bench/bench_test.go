package bench

import (
	"context"
	"testing"
)

func BenchmarkTruth(b *testing.B) {
	base, queries := randomMatrix(1, 10000, 100), randomMatrix(2, 4, 100)
	for _, metric := range []Metric{Cosine, L2} {
		b.Run("metric="+metric.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := Truth(context.Background(), base, queries, metric, 10); err != nil {
					b.Fatal(err)
				}
			}
			rows := float64(base.Rows() * queries.Rows())
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
