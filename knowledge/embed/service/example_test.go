package service_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
)

// An Ollama server on this machine would need no Call options at all.
func ExampleNew() {
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"embeddings":[[3,4],[0,2]]}`)
	}))
	defer fake.Close()

	e, err := service.New(service.Ollama, service.Options{
		Model:         "nomic-embed-text",
		QueryPrefix:   "search_query: ",
		PassagePrefix: "search_document: ",
		Call:          call.Options{BaseURL: fake.URL},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	r, err := e.Embed(context.Background(), embed.Passage, []string{"granite", "slate"})
	fmt.Println(r.Vectors, err)
	fmt.Println(e.Identity().Name, e.Identity().Dim)
	_, err = e.Embed(context.Background(), embed.Query, []string{" "})
	fmt.Println(err)
	// Output:
	// [0.6 0.8 0 1] <nil>
	// ollama/nomic-embed-text 2
	// text 0: quarry: invalid: it is blank
}
