package rerank_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/rerank"
)

// A reranker that answers for two of three passages, and then not at all.
func ExampleApply() {
	up := true
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `{"results":[{"index":2,"relevance_score":0.9},{"index":0,"relevance_score":0.4}]}`)
	}))
	defer fake.Close()

	r, err := rerank.NewHTTP(rerank.Jina, rerank.Options{
		Model: "jina-reranker-v2-base-multilingual",
		Call:  call.Options{BaseURL: fake.URL, Backoff: time.Millisecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	passages := []string{"slate", "marble", "granite"}
	for range 2 {
		out, err := rerank.Apply(context.Background(), r, "hard stone", passages, 0, rerank.Keep)
		for _, x := range out.Ranked {
			fmt.Print(passages[x.Index], " ", x.Score, ", ")
		}
		fmt.Println(out.Flag, err)
		up = false
	}
	// Output:
	// granite 0.9, slate 0.4, marble 0,  <nil>
	// slate 0, marble 0, granite 0, rerank-failed:skipped <nil>
}
