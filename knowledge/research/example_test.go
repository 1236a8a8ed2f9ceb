package research_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/research"
)

// A shelf is two passages, found by any word of a query.
type shelf struct{}

func (shelf) Search(_ context.Context, queries []string) ([][]research.Passage, error) {
	passages := []research.Passage{
		{ID: "backup.md", Text: "quarry backup copies an index while it is written to", Score: 0.8},
		{ID: "refunds.md", Text: "a refund takes 30 days", Score: 0.8},
	}
	out := make([][]research.Passage, len(queries))
	for i, q := range queries {
		for _, p := range passages {
			if strings.Contains(q, p.Text[:7]) || strings.Contains(q, "refund") == (p.ID == "refunds.md") {
				out[i] = append(out[i], p)
			}
		}
	}
	return out, nil
}

func (shelf) Expand(_ context.Context, seeds []research.Passage) ([][]research.Passage, error) {
	return make([][]research.Passage, len(seeds)), nil
}

func (shelf) Rerank(context.Context, []research.Passage) ([]research.Passage, bool, error) {
	return nil, false, nil // there is no reranker
}

// A question in two parts, without a model.
func ExampleRun() {
	q := research.Classify("How is an index copied and how long does a refund take?")
	fmt.Printf("%v %q\n", q.Complex, q.Clauses)
	out, err := research.Run(context.Background(), q, shelf{}, nil, nil, research.Limits{TopK: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range out.Passages {
		fmt.Println(p.ID)
	}
	fmt.Println(out.Calls, out.Flags)
	// Output:
	// true ["How is an index copied" "how long does a refund take"]
	// refunds.md
	// backup.md
	// {0 0} []
}
