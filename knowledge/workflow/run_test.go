package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// seedWorkflow is the example of the seed, letter by letter.
const seedWorkflow = `{
  "nodes": [
    {
      "id": "start",
      "type": "start-node"
    },
    {
      "id": "search",
      "type": "search-knowledge-node",
      "config": {
        "knowledge_base_ids": ["kb_product_docs", "kb_faq"],
        "query": "{{user_message}}",
        "top_k": 10,
        "score_threshold": 0.6,
        "search_mode": "hybrid"
      }
    },
    {
      "id": "rerank",
      "type": "reranker-node",
      "config": {
        "input_variable": "search_results",
        "top_k": 3
      }
    },
    {
      "id": "agent",
      "type": "ai-agent-node",
      "config": {
        "agent_mode": "standard",
        "model": "gpt-4o",
        "system_prompt": "Answer the user's question based on the provided context. If the context does not contain relevant information, say so."
      }
    },
    {
      "id": "end",
      "type": "end-node"
    }
  ]
}`

func supportStore(t testing.TB) *knowledge.Store {
	return openStore(t, nil, map[string]map[string]string{
		"kb_product_docs": {"returns.md": "# Returns\n\nA refund is paid within 30 days of the purchase.", "shipping.md": "# Shipping\n\nParcels leave each morning.",
			"refund-form.md": "# Form\n\nFill in the refund form and send the parcel back."},
		"kb_faq": {"faq.md": "# FAQ\n\nHow long does a refund take? A refund takes 30 days.", "jobs.md": "# Jobs\n\nWe hire cooks."},
	}, nil)
}

func parseSeed(t testing.TB) *Workflow {
	t.Helper()
	w, err := Parse([]byte(seedWorkflow))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func rerankers() map[string]rerank.Reranker {
	return map[string]rerank.Reranker{DefaultRerankModel: wordReranker{}}
}

func TestS1_9_EndToEnd(t *testing.T) {
	t.Setenv("QUARRY_TEST_CHAT_KEY", "k-123")
	var body chatBody
	var key, path string
	c := chatServer(t, chat.Options{Call: call.Options{KeyEnv: "QUARRY_TEST_CHAT_KEY"}}, func(w http.ResponseWriter, r *http.Request) {
		key, path = r.Header.Get("Authorization"), r.URL.Path
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		io.WriteString(w, answer("Within 30 days [1]."))
	})
	var events []string
	env := &Environment{Store: supportStore(t), Rerankers: rerankers(), Chat: c,
		OnEvent: func(e Event) { events = append(events, fmt.Sprint(e.Kind, " ", e.Node, " ", e.Err)) }}
	const question = "How long does a refund take, {{secret}}?"
	res, err := parseSeed(t).Run(bg, env, map[string]any{"user_message": question, "secret": "x"})
	if err != nil || res.Error != nil {
		t.Fatalf("%+v, %v", res.Error, err)
	}
	if got := res.Outputs["agent_response"]; got != "Within 30 days [1]." {
		t.Errorf("answer %q", got)
	}
	reranked := res.Outputs["reranked_results"].(*Results)
	if n := len(reranked.Items); n == 0 || n > 3 || reranked.Items[0].Metadata.Source != "faq.md" || reranked.Items[0].Kind != knowledge.ScoreRerank {
		t.Errorf("reranked: %s", mustJSON(t, reranked))
	}
	for _, it := range res.Outputs["search_results"].(*Results).Items {
		if it.Score < .6 {
			t.Errorf("score %v is below the threshold", it.Score)
		}
	}
	if path != "/v1/chat/completions" || key != "Bearer k-123" || body.Model != "gpt-4o" || body.Stream || len(body.Messages) != 2 {
		t.Fatalf("%s, %q, %+v", path, key, body)
	}
	system, user := body.Messages[0], body.Messages[1]
	if system.Role != "system" || !strings.HasPrefix(system.Content, "Answer the user's question based on") || strings.Contains(system.Content, "refund") {
		t.Errorf("system: %+v", system)
	}
	if user.Role != "user" || !strings.HasPrefix(user.Content, "Context:\n[1] faq.md\n") || !strings.HasSuffix(user.Content, "\n\n"+question) {
		t.Errorf("user: %+v", user)
	}
	want := []string{"run start <nil>", "done start <nil>", "run search <nil>", "done search <nil>", "run rerank <nil>", "done rerank <nil>",
		"run agent <nil>", "done agent <nil>", "run end <nil>", "done end <nil>"}
	if !slices.Equal(events, want) {
		t.Errorf("events %q", events)
	}
	for _, n := range res.Trace {
		if n.Status != StatusOK || n.ElapsedMS < 0 || n.StartMS < 0 {
			t.Errorf("%+v", n)
		}
	}
}

func TestS1_9_NoEndpoint(t *testing.T) {
	res, err := parseSeed(t).Run(bg, &Environment{Store: supportStore(t), Rerankers: rerankers()}, map[string]any{"user_message": "refund"})
	var ne *NodeError
	if !errors.As(err, &ne) || ne.Node != "agent" || !errors.Is(err, ErrNotConfigured) {
		t.Fatal(err)
	}
	if e := res.Error; e.Node != "agent" || e.Type != TypeAgent || e.Code != CodeNotConfigured || !strings.Contains(e.Message, "no chat endpoint") {
		t.Errorf("%+v", e)
	}
	var states []string
	for _, n := range res.Trace {
		states = append(states, string(n.Status))
	}
	if !slices.Equal(states, []string{"ok", "ok", "ok", "error", "skipped"}) {
		t.Errorf("%q", states)
	}
	if _, ok := res.Outputs["reranked_results"]; !ok || res.Outputs["agent_response"] != nil {
		t.Errorf("outputs %s", mustJSON(t, res.Outputs))
	}
	// The other nodes likewise, each by its own name.
	for want, env := range map[string]*Environment{"search": nil, "rerank": {Store: supportStore(t)}} {
		if res, err := parseSeed(t).Run(bg, env, map[string]any{"user_message": "refund"}); !errors.Is(err, ErrNotConfigured) || res.Error.Node != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A run's JSON is the same each time, but for the times.
func TestResultJSON(t *testing.T) {
	w, err := Parse([]byte(`{"nodes": [{"id": "s", "type": "start-node"},
		{"id": "find", "type": "search-knowledge-node", "config": {"knowledge_base_ids": ["kb"], "query": "{{q}}", "top_k": 1}},
		{"id": "e", "type": "end-node", "config": {"outputs": ["search_results", "q"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(`_ms":[0-9.]+`)
	for range 20 {
		res, err := w.Run(bg, &Environment{Store: &fakeStore{}}, map[string]any{"q": "x", "unused": 1})
		if err != nil {
			t.Fatal(err)
		}
		got := times.ReplaceAllString(mustJSON(t, res), `_ms":0`)
		want := `{"outputs":{"q":"x","search_results":[{"content":"passage 0","score":1,"score_kind":"rrf","metadata":{"source":"0.md","knowledge_base_id":"kb","chunk_index":0,` +
			`"chunk_id":"","document_id":"0.md","document_version":0,"artifact_hash":"","start_offset":0,"end_offset":0}}]},` +
			`"trace":[{"node":"s","type":"start-node","status":"ok","start_ms":0,"elapsed_ms":0},` +
			`{"node":"find","type":"search-knowledge-node","status":"ok","start_ms":0,"elapsed_ms":0,"outputs":["search_results"],"items":1},` +
			`{"node":"e","type":"end-node","status":"ok","start_ms":0,"elapsed_ms":0}],"error":null}`
		if got != want {
			t.Fatalf("%s\nwant\n%s", got, want)
		}
	}
}

const graphNodes = `{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-agent-node"}, {"id": "c", "type": "ai-agent-node"}, {"id": "d", "type": "end-node"}`

func TestParse(t *testing.T) {
	for _, c := range []struct{ workflow, path, reason string }{
		{`{"nodes": [], "edges": []}`, "nodes", "0 nodes, want 1 to 100"},
		{`{}`, "nodes", "required"},
		{`{"nodes": {}}`, "nodes", "want an array, got an object"},
		{`{"nodes": [], "version": 1}`, "version", "unknown key"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "llm-node"}]}`, "nodes[1].type", `is "llm-node", want one of start-node, search`},
		{`{"nodes": [{"id": "a", "type": "start-node", "confg": {}}]}`, "nodes[0].confg", "unknown key, want one of id, type, config"},
		{`{"nodes": [{"type": "start-node"}]}`, "nodes[0].id", "required"},
		{`{"nodes": [{"id": "a"}]}`, "nodes[0].type", "required"},
		{`{"nodes": [{"id": "a b", "type": "start-node"}]}`, "nodes[0].id", "variable name"},
		{`{"nodes": [7]}`, "nodes[0]", "want an object, got a number"},
		{`{"nodes": [{"id": "a", "type": "start-node", "config": []}]}`, "nodes[0].config", "want an object, got an array"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "search-knowledge-node", "config": {"knowledge_base_ids": ["x"], "query": "q", "top_k": "5"}}]}`,
			"nodes[1].config.top_k", "want a number, got text"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "search-knowledge-node"}]}`, "nodes[1].config.knowledge_base_ids", "required"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-search-node", "config": {"query": "x", "input": ["{{a}}", "{{"]}}]}`, "nodes[1].config.input[1]", "want }}"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-search-node", "config": {"result_count": 3}}]}`, "nodes[1].config.result_count", "unknown key"},
		{`{"nodes": [{"id": "a", "type": "start-node", "config": {"variables": ["x", "y z"]}}]}`, "nodes[0].config.variables[1]", "variable name"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-agent-node", "config": {"agent_mode": "react"}}]}`, "nodes[1].config.agent_mode", "want one of standard"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-agent-node", "config": {"temperature": 3}}]}`, "nodes[1].config.temperature", "from 0 to 2"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-agent-node", "config": {"base_url": "https://x"}}]}`, "nodes[1].config.base_url", "unknown key"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "a", "type": "end-node"}]}`, "nodes[1].id", `the id "a" is that of nodes[0]`},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "start-node"}, {"id": "d", "type": "end-node"}]}`, "nodes[1]", "into the start node"},
		{`{"nodes": [{"id": "b", "type": "ai-agent-node"}, {"id": "d", "type": "end-node"}]}`, "nodes", "0 nodes of type start-node (), want 1"},
		{`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-agent-node"}]}`, "nodes", "0 nodes of type end-node (), want 1"},
		{`{"nodes": [{"id": "d", "type": "end-node"}, {"id": "a", "type": "start-node"}]}`, "nodes[1]", "into the start node"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "x"}]}`, "edges[0].to", `there is no node "x"`},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a"}]}`, "edges[0].to", "required"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"source": "a", "target": "b"}]}`, "edges[0].source", "unknown key"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "b"}]}`, "edges[1]", "comes twice"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "d"}]}`, "nodes", "not reached from the start node: b, c"},
		{`{"nodes": [` + graphNodes + `], "edges": []}`, "nodes", "not reached from the start node: b, c, d"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "d"}, {"from": "a", "to": "b"}, {"from": "b", "to": "c"}]}`, "nodes", "no way to the end node from: b, c"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "b"}, {"from": "c", "to": "d"}]}`, "edges", "a cycle: b → c → b"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "d"}]}`, "edges", "a cycle: b → b"},
		{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "d"}, {"from": "d", "to": "b"}]}`, "nodes[3]", "out of the end node"},
	} {
		_, err := Parse([]byte(c.workflow))
		var ce *ConfigError
		if !errors.As(err, &ce) || !errors.Is(err, storage.ErrInvalid) || ce.Path != c.path || !strings.Contains(ce.Reason, c.reason) {
			t.Errorf("%s:\n%v, want %s: … %s", c.workflow, err, c.path, c.reason)
		}
	}
	w, err := Parse([]byte(`{"name": "diamond", "nodes": [` + graphNodes + `], "edges": [{"from": "c", "to": "d"}, {"from": "a", "to": "c"}, {"from": "a", "to": "b"}, {"from": "b", "to": "d"}]}`))
	if err != nil || !slices.Equal(w.Nodes(), []string{"a", "b", "c", "d"}) || w.Name() != "diamond" {
		t.Errorf("%v, %v", w, err)
	}
	if w := parseSeed(t); !slices.Equal(w.Nodes(), []string{"start", "search", "rerank", "agent", "end"}) || w.Name() != "" {
		t.Errorf("%v", w.Nodes())
	}
}

func TestLimits(t *testing.T) {
	chain := func(agents int) []byte {
		var b strings.Builder
		b.WriteString(`{"nodes": [{"id": "a", "type": "start-node"}`)
		for i := range agents {
			fmt.Fprintf(&b, `, {"id": "n%d", "type": "ai-agent-node"}`, i)
		}
		b.WriteString(`, {"id": "z", "type": "end-node"}]}`)
		return []byte(b.String())
	}
	if _, err := Parse(chain(MaxNodes - 2)); err != nil {
		t.Error(err)
	}
	if _, err := Parse(chain(MaxNodes - 1)); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	if _, err := Parse([]byte(`{"nodes": [` + graphNodes + `], "edges": [` + strings.Repeat(`{"from": "a", "to": "b"},`, MaxEdges) + `{"from": "a", "to": "b"}]}`)); err == nil || !strings.Contains(err.Error(), "1001 edges") {
		t.Error(err)
	}
	if _, err := Parse([]byte(strings.Repeat(" ", MaxWorkflowBytes+1))); !errors.Is(err, storage.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := ParseSearch([]byte(`{"query": "` + strings.Repeat("x", MaxTemplateBytes+1) + `"}`)); err == nil {
		t.Error("a template above the limit")
	}
	many := make([]string, MaxBases+1)
	for i := range many {
		many[i] = fmt.Sprint("b", i)
	}
	config := mustJSON(t, map[string]any{"knowledge_base_ids": many, "query": "x"})
	if _, err := ParseSearch([]byte(config)); err == nil || !strings.Contains(err.Error(), "101 ids, want 1 to 100") {
		t.Error(err)
	}
	if _, err := Search(bg, &fakeStore{}, &SearchOptions{KnowledgeBaseIDs: many, Query: "x"}, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	// Outputs: two of 9 MiB are too much, and the second is not kept.
	w, err := Parse([]byte(`{"nodes": [{"id": "a", "type": "start-node"},
		{"id": "b", "type": "search-knowledge-node", "config": {"knowledge_base_ids": ["x"], "query": "q", "output_variable": "one"}},
		{"id": "c", "type": "search-knowledge-node", "config": {"knowledge_base_ids": ["x"], "query": "q", "output_variable": "two"}},
		{"id": "d", "type": "end-node"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	big := &fakeStore{answer: func(knowledge.Request) (*knowledge.Response, error) {
		return &knowledge.Response{Items: []knowledge.Item{{Content: strings.Repeat("x", 9<<20), Score: 1}}}, nil
	}}
	res, err := w.Run(bg, &Environment{Store: big}, nil)
	if !errors.Is(err, storage.ErrTooLarge) || res.Error.Code != CodeTooLarge || res.Error.Node != "c" || len(res.Outputs) != 1 || res.Outputs["one"] == nil {
		t.Errorf("%+v, %v", res.Error, err)
	}
}

func TestRunErrors(t *testing.T) {
	w, err := Parse([]byte(`{"nodes": [{"id": "a", "type": "start-node", "config": {"variables": ["user_message"]}},
		{"id": "b", "type": "search-knowledge-node", "config": {"knowledge_base_ids": ["x"], "query": "{{user_message}}"}},
		{"id": "d", "type": "end-node", "config": {"outputs": ["gone"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		input map[string]any
		node  string
		code  Code
	}{
		{nil, "a", CodeInvalid},
		{map[string]any{"user_message": " \u3000"}, "a", CodeInvalid},
		{map[string]any{"user_message": 3}, "b", CodeInvalid},
		{map[string]any{"user_message": "x"}, "d", CodeInvalid},
		{map[string]any{"a.b": "x"}, "", CodeInvalid},
	} {
		var done []string
		env := &Environment{Store: &fakeStore{}, OnEvent: func(e Event) {
			if e.Kind == EventDone && e.Err != nil {
				done = append(done, e.Node)
			}
		}}
		res, err := w.Run(bg, env, c.input)
		if err == nil || res.Error == nil || res.Error.Node != c.node || res.Error.Code != c.code || res.Outputs == nil {
			t.Errorf("%v: %+v, %v", c.input, res.Error, err)
		}
		if c.node != "" && !slices.Equal(done, []string{c.node}) {
			t.Errorf("%v: Done with errors of %q", c.input, done)
		}
	}
	// A store's failure keeps its class.
	for code, cause := range map[Code]error{CodeNotFound: storage.ErrNotFound, CodeUnavailable: &call.Error{Class: call.ErrUnavailable}, CodeInternal: errors.New("x"), CodeBadReply: embed.ErrContract} {
		s := &fakeStore{answer: func(knowledge.Request) (*knowledge.Response, error) { return nil, fmt.Errorf("wrapped: %w", cause) }}
		res, err := w.Run(bg, &Environment{Store: s}, map[string]any{"user_message": "x"})
		if !errors.Is(err, cause) || res.Error.Code != code {
			t.Errorf("%s: %+v, %v", code, res.Error, err)
		}
	}
}

func TestRunCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	s := &fakeStore{answer: func(knowledge.Request) (*knowledge.Response, error) {
		cancel()
		return &knowledge.Response{}, nil
	}}
	res, err := parseSeed(t).Run(ctx, &Environment{Store: s, Rerankers: rerankers()}, map[string]any{"user_message": "x"})
	if !errors.Is(err, context.Canceled) || res.Error.Code != CodeCanceled || res.Error.Node != "rerank" || res.Trace[1].Status != StatusOK || res.Trace[2].Status != StatusSkipped {
		t.Errorf("%+v, %v", res, err)
	}
	c := chatServer(t, chat.Options{}, misbehave()["late"])
	ctx, stop := context.WithTimeout(bg, 100*time.Millisecond)
	defer stop()
	res, err = parseSeed(t).Run(ctx, &Environment{Store: &fakeStore{}, Rerankers: rerankers(), Chat: c}, map[string]any{"user_message": "x"})
	if !errors.Is(err, context.DeadlineExceeded) || res.Error.Code != CodeDeadline || res.Error.Node != "agent" {
		t.Errorf("%+v, %v", res.Error, err)
	}
}

// S2 as a node: {error} ends no run, and expressions stand for values.
func TestS2_1_Node(t *testing.T) {
	w, err := Parse([]byte(`{"nodes": [{"id": "a", "type": "start-node"},
		{"id": "find", "type": "ai-search-node", "config": {"query": "about {{topic}}", "input": "{{docs}}", "rerank": "{{flag}}", "resultCount": "{{n}}",
			"chunkOptions": {"unit": "custom", "separator": "{{", "size": 1}}},
		{"id": "z", "type": "end-node"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var done []error
	env := &Environment{Embedder: newWords(), Rerankers: rerankers(), OnEvent: func(e Event) {
		if e.Kind == EventDone && e.Node == "find" {
			done = append(done, e.Err)
		}
	}}
	good := map[string]any{"topic": "granite", "docs": []any{"granite{{slate", "chalk"}, "flag": true, "n": 2.0}
	res, err := w.Run(bg, env, good)
	if err != nil || mustJSON(t, res.Outputs["result"]) != `[{"text":"granite","documentIndex":0,"start":0,"end":7},{"text":"slate","documentIndex":0,"start":9,"end":14}]` ||
		*res.Trace[1].Items != 2 {
		t.Fatalf("%s, %v", mustJSON(t, res), err)
	}
	for key, bad := range map[string]any{"topic": 1, "docs": []any{1}, "flag": "yes", "n": "2"} {
		input := map[string]any{key: bad}
		for k, v := range good {
			if k != key {
				input[k] = v
			}
		}
		done = nil
		res, err := w.Run(bg, env, input)
		out, _ := res.Outputs["result"].(*AISearchResult)
		if err != nil || res.Error != nil || out == nil || out.Err == nil || res.Trace[1].Status != StatusError || res.Trace[1].Error.Code != CodeInvalid || res.Trace[2].Status != StatusOK ||
			len(done) != 1 || done[0] == nil {
			t.Errorf("%s: %s, %v, done %v", key, mustJSON(t, res), err, done)
		}
		delete(input, key)
		if res, err := w.Run(bg, env, input); err != nil || !strings.Contains(mustJSON(t, res.Outputs["result"]), "unknown variable "+key) {
			t.Errorf("%s missing: %s, %v", key, mustJSON(t, res.Outputs), err)
		}
	}
	// An {error} can be read further on.
	vars := newVars(t, nil)
	if err := vars.Set("result", &AISearchResult{Err: errors.New("why")}); err != nil {
		t.Fatal(err)
	}
	if got, err := render("{{result.error}}", vars); err != nil || got != "why" {
		t.Error(got, err)
	}
	// Nothing given at all is an error of the query, texts may be literal.
	w, err = Parse([]byte(`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "x", "type": "ai-search-node", "config": {"query": null}},
		{"id": "y", "type": "ai-search-node", "config": {"query": "slate", "input": ["", "a \\{{b}} slate"], "output_variable": "y", "offset_unit": "byte", "with_score": true}}, {"id": "z", "type": "end-node"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err = w.Run(bg, env, nil)
	if err != nil || !strings.Contains(mustJSON(t, res.Outputs["result"]), `{"error":"quarry: invalid: query must be a non-empty string"}`) ||
		!strings.HasPrefix(mustJSON(t, res.Outputs["y"]), `[{"text":"a {{b}} slate","documentIndex":1,"start":0,"end":13,"score":0.5`) {
		t.Errorf("%s, %v", mustJSON(t, res.Outputs), err)
	}
}

// One workflow, many runs at once.
func TestConcurrentRuns(t *testing.T) {
	var calls atomic.Int64
	c := chatServer(t, chat.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, answer(fmt.Sprint("answer ", calls.Add(1))))
	})
	w, env := parseSeed(t), &Environment{Store: supportStore(t), Rerankers: rerankers(), Chat: c}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if _, err := w.Run(bg, env, map[string]any{"user_message": "refund"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if calls.Load() != 40 {
		t.Errorf("%d calls", calls.Load())
	}
}

// S2.10 in a workflow: runs of one node wait for each other, and one that is
// canceled meanwhile ends with {error} and Done.
func TestS2_10_Node(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Parsed in here: only a channel of the bubble lets its time go on.
		w, err := Parse([]byte(`{"nodes": [{"id": "a", "type": "start-node"}, {"id": "b", "type": "ai-search-node", "config": {"query": "q", "input": "x"}}, {"id": "z", "type": "end-node"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		e := newWords()
		var open, most atomic.Int64
		e.hook = func(context.Context, embed.Kind, []string, *embed.Result) error {
			most.Store(max(most.Load(), open.Add(1)))
			time.Sleep(time.Second)
			open.Add(-1)
			return nil
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if res, err := w.Run(bg, &Environment{Embedder: e}, nil); err != nil || res.Trace[1].Status != StatusOK {
					t.Errorf("%+v, %v", res, err)
				}
			})
		}
		ctx, cancel := context.WithTimeout(bg, time.Second/2)
		defer cancel()
		wg.Go(func() {
			done := 0
			res, err := w.Run(ctx, &Environment{Embedder: e, OnEvent: func(ev Event) {
				if ev.Node == "b" && ev.Kind == EventDone && ev.Err != nil {
					done++
				}
			}}, nil)
			if !errors.Is(err, context.DeadlineExceeded) || done != 1 || !strings.Contains(mustJSON(t, res.Outputs["result"]), `{"error":`) || res.Error.Node != "z" {
				t.Errorf("%s, %v", mustJSON(t, res), err)
			}
		})
		wg.Wait()
		if most.Load() != 1 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(seedWorkflow))
	for _, s := range []string{`{"nodes": [` + graphNodes + `], "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]}`, `{"nodes":[{"id":"a","type":"ai-search-node","config":{"input":["{{x}}",[1,{"k":null}]]}}]}`,
		`{"nodes": [{"id": "a", "type": "start-node"},{"id": "b", "type": "end-node"}]}`, `[[[[`, `{"a":1,"a":1}`, "{\"\xff\":1}", `{"nodes":,}`, `nul`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Parse(data)
		if err != nil {
			var ce *ConfigError
			if errors.As(err, &ce) {
				if ce.Line < 1 || ce.Column < 1 || ce.Line > 1+strings.Count(string(data), "\n") {
					t.Fatalf("place %d:%d of %q", ce.Line, ce.Column, data)
				}
			} else if !errors.Is(err, storage.ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is no JSON", data)
		}
		// Whatever the workflow, a run without an environment ends and says how.
		res, err := w.Run(bg, nil, map[string]any{"user_message": "x"})
		if (err == nil) != (res.Error == nil) || len(res.Trace) != len(w.Nodes()) {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := json.Marshal(res); err != nil {
			t.Fatal(err)
		}
	})
}
