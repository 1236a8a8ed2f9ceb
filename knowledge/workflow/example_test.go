package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

// words is an embedder that hashes words; a program takes embed.Local or a
// service.
type words struct{}

func (words) Identity() embed.Identity {
	return embed.Identity{Name: "words", Revision: "1", Dim: 128, Metric: "cosine"}
}

func (words) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	var r embed.Result
	for _, t := range texts {
		v := make([]float32, 128)
		fields := strings.Fields(strings.ToLower(strings.Trim(t, ".?")))
		for _, w := range fields {
			h := fnv.New64a()
			h.Write([]byte(strings.Trim(w, ".,?")))
			v[h.Sum64()%128] += float32(1 / math.Sqrt(float64(len(fields))))
		}
		r.Vectors = append(r.Vectors, v...)
	}
	return r, nil
}

// overlap is a reranker that counts the words of the query in a passage; a
// program takes rerank.LateInteraction or a service.
type overlap struct{}

func (overlap) Name() string { return "overlap" }

func (overlap) Pairs(_ context.Context, query string, passages []string) ([]float64, error) {
	logits := make([]float64, len(passages))
	for i, p := range passages {
		for _, w := range strings.Fields(strings.ToLower(strings.Trim(query, "?"))) {
			if strings.Contains(strings.ToLower(p), w) {
				logits[i]++
			}
		}
	}
	return logits, nil
}

// store is a store in memory with one base.
func store() *knowledge.Store {
	ctx := context.Background()
	s, err := knowledge.Open("store", &knowledge.Options{FS: storage.NewMemFS(), Embedder: words{}})
	if err != nil {
		panic(err)
	}
	if _, err := s.Create(ctx, "kb_faq", nil); err != nil {
		panic(err)
	}
	_, err = s.Ingest(ctx, knowledge.IngestRequest{Base: "kb_faq", Sources: []knowledge.Source{
		{Name: "refunds.md", Data: []byte("A refund takes 30 days.")},
		{Name: "returns.md", Data: []byte("Send the parcel back for a refund.")},
		{Name: "jobs.md", Data: []byte("We hire cooks.")},
	}})
	if err != nil {
		panic(err)
	}
	return s
}

// The Search Knowledge node as a Go call.
func ExampleSearch() {
	s := store()
	defer s.Close()
	vars, _ := workflow.NewVars(map[string]any{"user_message": "how long does a refund take"})
	out, err := workflow.Search(context.Background(), s, &workflow.SearchOptions{
		KnowledgeBaseIDs: []string{"kb_faq"},
		Query:            "{{user_message}}",
		TopK:             2,
		Mode:             knowledge.Hybrid,
	}, vars)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, it := range out.Items {
		fmt.Println(it.Content, it.Metadata.Source)
	}
	text, err := vars.Lookup("search_results.0.content")
	fmt.Println(text, err)
	// Output:
	// A refund takes 30 days. refunds.md
	// Send the parcel back for a refund. returns.md
	// A refund takes 30 days. <nil>
}

// The Reranker node, from its JSON config.
func ExampleRerank() {
	o, err := workflow.ParseRerank([]byte(`{"input_variable": "search_results", "top_k": 1, "on_error": "keep"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	vars, _ := workflow.NewVars(nil)
	vars.Set("search_results", &workflow.Results{Query: "hard stone", Items: []knowledge.Item{
		{Content: "marble", Score: 0.9},
		{Content: "granite is a hard stone", Score: 0.8},
	}})
	out, err := workflow.Rerank(context.Background(), rerank.Pairs(overlap{}), o, vars)
	if err != nil {
		fmt.Println(err)
		return
	}
	best := out.Items[0]
	fmt.Printf("%s %.2f, was %.2f\n", best.Content, best.Score, *best.RetrievalScore)
	// Output: granite is a hard stone 0.88, was 0.80
}

// The AI Search node: Run, Done, and what a wrong input gives.
func ExampleAISearch() {
	node := workflow.NewAISearch(words{}, nil)
	done := func(r *workflow.AISearchResult) {
		b, _ := json.Marshal(r)
		fmt.Println(string(b))
	}
	in := workflow.AISearchInputs{
		Query:        "how long does a refund take",
		Input:        []string{"We hire cooks.\n\nA refund takes 30 days."},
		ResultCount:  1,
		ChunkOptions: map[string]any{"unit": "paragraph", "size": 1},
	}
	node.Run(context.Background(), in, done)
	in.ResultCount = 0
	node.Run(context.Background(), in, done)
	// Output:
	// [{"text":"A refund takes 30 days.","documentIndex":0,"start":16,"end":39}]
	// {"error":"quarry: invalid: resultCount must be a positive integer"}
}

// A workflow's JSON, end to end.
func ExampleWorkflow_Run() {
	w, err := workflow.Parse([]byte(`{"nodes": [
		{"id": "start", "type": "start-node"},
		{"id": "search", "type": "search-knowledge-node",
		 "config": {"knowledge_base_ids": ["kb_faq"], "query": "{{user_message}}", "top_k": 10, "search_mode": "hybrid"}},
		{"id": "rerank", "type": "reranker-node", "config": {"input_variable": "search_results", "top_k": 1}},
		{"id": "agent", "type": "ai-agent-node", "config": {"model": "gpt-4o", "system_prompt": "Answer from the context."}},
		{"id": "end", "type": "end-node", "config": {"outputs": ["agent_response", "agent_sources"]}}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fake := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		io.WriteString(rw, `{"choices": [{"message": {"content": "It takes 30 days [1]."}}]}`)
	}))
	defer fake.Close()
	model, err := chat.New(chat.Options{Call: call.Options{BaseURL: fake.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	s := store()
	defer s.Close()
	res, err := w.Run(context.Background(), &workflow.Environment{
		Store:     s,
		Rerankers: map[string]rerank.Reranker{workflow.DefaultRerankModel: rerank.Pairs(overlap{})},
		Chat:      model,
	}, map[string]any{"user_message": "How long does a refund take?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Outputs["agent_response"])
	for _, src := range res.Outputs["agent_sources"].([]knowledge.ContextSource) {
		fmt.Printf("[%d] %s\n", src.Number, src.Source)
	}
	// Output:
	// It takes 30 days [1].
	// [1] refunds.md
}
