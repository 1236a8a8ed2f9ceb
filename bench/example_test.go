package bench_test

import (
	"context"
	"fmt"

	"github.com/quarrysearch/quarry/bench"
)

// A stand-in engine that always answers the same.
func ExampleRunEval() {
	report, err := bench.RunEval(context.Background(), bench.EvalConfig{
		Set: "toy", Mode: "keyword", Docs: 3,
		Queries: []bench.Query{{ID: "q1", Text: "anything"}},
		Qrels:   bench.Qrels{"q1": {"b": 1}},
		Search: func(context.Context, bench.Query, int) ([]bench.Ranked, error) {
			return []bench.Ranked{{ID: "a", Score: 0.9}, {ID: "b", Score: 0.8}}, nil
		},
	})
	fmt.Println(report, err)
	// Output: toy keyword: nDCG@10 0.6309 MAP 0.5000 recall@100 1.0000 MRR@10 0.5000 (3 docs, 1 queries, 0.0 s) <nil>
}
