package kb

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/quarrysearch/quarry/knowledge/aisearch"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/workflow"
)

func TestAISearch(t *testing.T) {
	dir := folder(t, library)
	files := []string{filepath.Join(dir, "refunds.md"), filepath.Join(dir, "manual.txt")}
	out := ok(t, "aisearch", "größer ist nicht besser 🙂", files[0], files[1], "--unit", "sentence", "--size", "1", "--overlap", "0", "-k", "1", "--json")
	p := decode[[]aisearch.Passage](t, out)
	units := utf16.Encode([]rune(library["manual.txt"]))
	if len(p) != 1 || p[0].DocumentIndex != 1 || p[0].Score != nil || string(utf16.Decode(units[p[0].Start:p[0].End])) != p[0].Text {
		t.Errorf("%s", out)
	}
	out = ok(t, "aisearch", "größer", files[1], "--offsets", "byte", "--raw", "--score", "--json", "--rerank", "late")
	if p := decode[[]aisearch.Passage](t, out); len(p) != 1 || p[0].Score == nil || library["manual.txt"][p[0].Start:p[0].End] != p[0].Text {
		t.Errorf("%s", out)
	}
	if out := ok(t, "aisearch", "refund", write2(t, "blank.txt", " \n\n "), "--json"); out != "[]\n" {
		t.Errorf("nothing to search gives %q", out)
	}
	r := fails(t, 1, "no UTF-8", "aisearch", "refund", write2(t, "latin.txt", "gr\xf6\xdfer"), "--json", "--raw")
	if e := decode[map[string]string](t, r.out); len(e) != 1 || !strings.Contains(e["error"], "no UTF-8") {
		t.Error(r.out)
	}
	if r := command(t, none, "aisearch", "refund", files[0]); r.code != 1 || r.out != "" || !strings.Contains(r.err, "no model here") {
		t.Errorf("%+v", r)
	}
	out = ok(t, "aisearch", "red button", files[0], files[1], "--unit", "page", "--size", "1", "--overlap", "0", "-k", "2")
	if !strings.HasPrefix(out, "  1  ") || !strings.Contains(out, "manual.txt  [utf16 46–") || !strings.HasSuffix(out, "2 passages of 2 files\n") {
		t.Error(out)
	}
}

// searchFlow searches one base.
const searchFlow = `{"nodes": [{"id": "start", "type": "start-node"},
  {"id": "search", "type": "search-knowledge-node", "config": {"knowledge_base_ids": ["docs"], "query": "{{user_message}}", "search_mode": "hybrid"}},
  {"id": "end", "type": "end-node"}]}`

// supportFlow is the example of the seed: start, search, rerank, agent, end.
const supportFlow = `{
  "nodes": [
    {"id": "start", "type": "start-node"},
    {"id": "search", "type": "search-knowledge-node",
     "config": {"knowledge_base_ids": ["kb_product_docs", "kb_faq"], "query": "{{user_message}}", "top_k": 10, "score_threshold": 0.6, "search_mode": "hybrid"}},
    {"id": "rerank", "type": "reranker-node", "config": {"input_variable": "search_results", "top_k": 3}},
    {"id": "agent", "type": "ai-agent-node",
     "config": {"agent_mode": "standard", "model": "gpt-4o",
      "system_prompt": "Answer the user's question based on the provided context. If the context does not contain relevant information, say so."}},
    {"id": "end", "type": "end-node"}
  ]
}`

// support is a store with the two bases of supportFlow, and its file.
func support(t *testing.T) (store, flow string) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "s")
	ok(t, "kb", "create", store, "kb_product_docs")
	ok(t, "kb", "create", store, "kb_faq")
	ok(t, "kb", "add", store, "kb_product_docs", folder(t, library))
	ok(t, "kb", "add", store, "kb_faq", folder(t, map[string]string{"faq.md": "# Questions\n\nHow do I get a refund? Ask billing.\n"}))
	for _, name := range []string{chatURL, chatModel, chatKey} {
		t.Setenv(name, "")
	}
	return store, write2(t, "support.json", supportFlow)
}

// S1.9: the seed's workflow runs from its JSON.
func TestSupportWorkflow(t *testing.T) {
	store, flow := support(t)
	var asked struct {
		Model    string         `json:"model"`
		Messages []chat.Message `json:"messages"`
	}
	key := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &asked) != nil || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s: %s, %v", r.URL, body, err)
		}
		key = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"model": "gpt-4o", "choices": [{"message": {"role": "assistant", "content": "Within 30 days [1]."}, "finish_reason": "stop"}]}`)
	}))
	defer server.Close()
	t.Setenv(chatURL, server.URL+"/v1")
	t.Setenv(chatKey, "secret")
	question := "How do I get a refund; for a purchase, a = b?"
	r := command(t, fake, "run", flow, "--store", store, "--var", "user_message="+question, "--trace")
	if r.code != 0 {
		t.Fatal(r.err)
	}
	got := decode[workflow.Result](t, r.out)
	if got.Error != nil || got.Outputs["agent_response"] != "Within 30 days [1]." || len(got.Trace) != 5 {
		t.Errorf("%s", r.out)
	}
	if n := len(got.Outputs["reranked_results"].([]any)); n == 0 || n > 3 {
		t.Errorf("%d reranked", n)
	}
	last := asked.Messages[len(asked.Messages)-1].Content
	if asked.Model != "gpt-4o" || key != "Bearer secret" || !strings.Contains(last, question) || !strings.Contains(last, "efund") {
		t.Errorf("%s, %q: %s", asked.Model, key, last)
	}
	if strings.Contains(r.out+r.err, "secret") || !strings.Contains(r.err, "quarry: run rerank (reranker-node)\n") {
		t.Errorf("%s", r.err)
	}
	if out := ok(t, "run", flow, "--store", store, "--var", "user_message=refund purchase"); strings.Contains(out, `"trace"`) {
		t.Error("a trace nobody asked for")
	}
}

func TestRunErrors(t *testing.T) {
	store, flow := support(t)
	var o outcome
	check := func(node string, code workflow.Code, want string, args ...string) {
		t.Helper()
		r := fails(t, 1, want, append([]string{"run", flow, "--var", "user_message=refund purchase"}, args...)...)
		o = decode[outcome](t, r.out)
		if o.Error == nil || o.Error.Node != node || o.Error.Code != code {
			t.Errorf("%v: %s", args, r.out)
		}
	}
	// Without an endpoint the run ends in an error of that node only (S1.9).
	check("agent", workflow.CodeNotConfigured, "agent", "--store", store)
	if o.Outputs["reranked_results"] == nil {
		t.Error("the other nodes did not run")
	}
	check("search", workflow.CodeNotConfigured, "search")
	check("rerank", workflow.CodeNotConfigured, "rerank", "--store", store, "--reranker", "none")
	fails(t, 1, "user_message", "run", flow, "--store", store)
	fails(t, 1, "none.json", "run", filepath.Join(t.TempDir(), "none.json"))
	fails(t, 1, "top_k", "run", write2(t, "bad.json", strings.Replace(supportFlow, `"top_k": 3`, `"top_k": "3"`, 1)))
	fails(t, 1, "no knowledge base in", "run", flow, "--store", t.TempDir(), "--var", "user_message=x")
	t.Setenv(chatURL, "ftp://nowhere")
	fails(t, 1, "chat", "run", flow, "--store", store, "--var", "user_message=refund")
}

func TestRunAISearch(t *testing.T) {
	flow := write2(t, "ai.json", `{"nodes": [{"id": "start", "type": "start-node"},
	  {"id": "find", "type": "ai-search-node", "config": {"query": "{{user_message}}", "input": "{{text}}", "rerank": true, "resultCount": 1, "chunkOptions": {"unit": "sentence", "size": 1}}},
	  {"id": "end", "type": "end-node", "config": {"outputs": ["result"]}}]}`)
	out := ok(t, "run", flow, "--var", "user_message=red button", "--var", "text=The green button. The red button!")
	got := decode[struct {
		Outputs struct {
			Result []aisearch.Passage `json:"result"`
		} `json:"outputs"`
	}](t, out)
	if len(got.Outputs.Result) != 1 || got.Outputs.Result[0].Text != "The red button!" || got.Outputs.Result[0].Start != 18 {
		t.Error(out)
	}
}
