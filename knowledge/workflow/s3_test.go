package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// fakeSpaces is a Retriever that records what it was asked.
type fakeSpaces struct {
	asked []space.Request
	res   *space.Result
	err   error
}

func (f *fakeSpaces) Retrieve(_ context.Context, r space.Request) (*space.Result, error) {
	f.asked = append(f.asked, r)
	return f.res, f.err
}

// evidence is n pieces of two documents, the second without places.
func evidence(n int) []space.Evidence {
	var out []space.Evidence
	for i := range n {
		e := space.Evidence{Content: "passage " + string(rune('a'+i)), Title: "Section"}
		c := space.Citation{DocumentID: "refund.md", DocumentVersion: 2, SectionPath: []string{"Chapter", "Section"}, ArtifactHash: "abc"}
		if start, end := 100*i, 100*i+len(e.Content); i%2 == 0 {
			c.StartOffset, c.EndOffset = &start, &end
		} else {
			c.DocumentID, c.PageNumber = "paper.pdf", 3
		}
		e.Metadata = space.EvidenceMetadata{Citation: c, Score: 0.9 - 0.1*float64(i), Sources: []string{"dense", "fts"}, SpaceID: "s1"}
		out = append(out, e)
	}
	return out
}

func found(n int) *space.Result {
	return &space.Result{Evidence: evidence(n), Metrics: space.Metrics{Mode: "mixed", TotalMS: 1.5, DegradationFlags: []string{"dense-failed:fts-only"}},
		ProcessData: space.ProcessData{KnowledgeFS: space.Trace{RequestedMode: space.RequestedDefault}}}
}

const retrievalJSON = `{"nodes": [
	{"id": "start", "type": "start-node", "config": {"variables": ["question"]}},
	{"id": "kr", "type": "knowledge-retrieval-v2", "config": {"control_space_ids": [" s1 ", "s2", "s1"], "query_variable_selector": ["start", "question"], "mode": "deep", "top_n": 3,
		"metadata_filters": {"tags": ["handbook"], "created_after": "2024-01-01"}}},
	{"id": "agent", "type": "ai-agent-node", "config": {"model": "m", "prompt": "{{question}}"}},
	{"id": "end", "type": "end-node", "config": {"outputs": {"evidence": ["kr", "result"], "mode": "kr.metrics.mode", "first": "kr.result.0.metadata.citation.document_id"}}}]}`

// The node gives its spaces, filters and run to the retriever as they are, and
// writes result and metrics; process data goes into the trace only.
func TestS3_9RetrievalNode(t *testing.T) {
	w, err := Parse([]byte(retrievalJSON))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Spaces(); !slices.Equal(got, []string{"s1", "s2"}) {
		t.Errorf("spaces %q", got)
	}
	f := &fakeSpaces{res: found(2)}
	var shown string
	env := &Environment{Retriever: f, Run: catalog.Run{Kind: catalog.Published, Workflow: "w", Spaces: []string{"other"}},
		Chat: chatFunc(func(r chat.Request) (chat.Reply, error) {
			shown = r.Messages[0].Content
			return chat.Reply{Text: "ok"}, nil
		})}
	res, err := w.Run(bg, env, map[string]any{"question": "how long?"})
	if err != nil {
		t.Fatal(err)
	}
	want := space.Request{Run: catalog.Run{Kind: catalog.Published, Workflow: "w", Spaces: []string{" s1 ", "s2", "s1"}}, Query: "how long?", Mode: catalog.Deep, TopN: 3,
		Filters: space.Filters{Tags: []string{"handbook"}, CreatedAfter: "2024-01-01"}}
	if len(f.asked) != 1 || !reflect.DeepEqual(f.asked[0], want) {
		t.Errorf("asked %+v", f.asked)
	}
	if res.Outputs["mode"] != "mixed" || res.Outputs["first"] != "refund.md" || mustJSON(t, res.Outputs["evidence"]) != mustJSON(t, evidence(2)) {
		t.Errorf("outputs %s", mustJSON(t, res.Outputs))
	}
	tr := res.Trace[1]
	if *tr.Items != 2 || tr.ProcessData.KnowledgeFS.RequestedMode != "space-default" || !slices.Equal(tr.Flags, found(0).Metrics.DegradationFlags) || !slices.Equal(tr.Outputs, []string{"kr"}) {
		t.Errorf("trace %s", mustJSON(t, tr))
	}
	// An agent further on is shown the evidence, cited.
	if !strings.Contains(shown, "[1] refund.md") || !strings.Contains(shown, "passage a") || !strings.Contains(shown, "[2] paper.pdf") {
		t.Errorf("shown %q", shown)
	}
}

// The node writes result and metrics, and asks no model.
func TestS3_13EvidenceOnly(t *testing.T) {
	vars := newVars(t, map[string]any{"q": "x"})
	if _, err := Retrieve(bg, &fakeSpaces{res: found(1)}, catalog.Run{}, &RetrievalOptions{Spaces: []string{"s"}, Query: "{{q}}", OutputVariable: "kr"}, vars); err != nil {
		t.Fatal(err)
	}
	v, _ := vars.Get("kr")
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(mustJSON(t, v)), &keys); err != nil || len(keys) != 2 || keys["result"] == nil || keys["metrics"] == nil {
		t.Errorf("%s", mustJSON(t, v))
	}
}

// Every space that fails, and every run that may not use one, fails the node:
// no evidence is written, and the code says which it was.
func TestS3_10FailsClosed(t *testing.T) {
	w, err := Parse([]byte(retrievalJSON))
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[Code]error{
		CodeDenied:        &catalog.Error{Code: catalog.ErrNotBound, Space: "s2", Message: "the space s2 is not bound"},
		CodeNotFound:      &catalog.Error{Code: catalog.ErrUnavailable, Space: "s1", Message: "there is no space s1"},
		CodeInternal:      &space.Error{Space: "s1", Err: errors.New("disk on fire")},
		CodeInvalid:       storage.Invalidf("query of 16001 characters"),
		CodeNotConfigured: ErrNotConfigured,
	} {
		f := &fakeSpaces{res: found(2), err: err}
		res, got := w.Run(bg, &Environment{Retriever: f}, map[string]any{"question": "q"})
		if !errors.Is(got, err) || res.Error.Code != want || res.Error.Node != "kr" || res.Outputs["kr"] != nil || res.Outputs["evidence"] != nil {
			t.Errorf("%v: %s", err, mustJSON(t, res))
		}
	}
	if res, _ := w.Run(bg, nil, map[string]any{"question": "q"}); res.Error.Code != CodeNotConfigured {
		t.Errorf("no retriever: %+v", res.Error)
	}
	// Empty everywhere is a success.
	w, err = Parse([]byte(strings.Replace(retrievalJSON, `, "first": "kr.result.0.metadata.citation.document_id"`, "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	env := &Environment{Retriever: &fakeSpaces{res: &space.Result{}}, Chat: chatFunc(func(chat.Request) (chat.Reply, error) { return chat.Reply{Text: "ok"}, nil })}
	if res, err := w.Run(bg, env, map[string]any{"question": "q"}); err != nil || mustJSON(t, res.Outputs["evidence"]) != "[]" {
		t.Errorf("%s, %v", mustJSON(t, res), err)
	}
	// A retriever that breaks its contract is not believed.
	for _, bad := range []*space.Result{nil, found(4), {Evidence: []space.Evidence{{Metadata: space.EvidenceMetadata{Score: 2}}}},
		{Evidence: []space.Evidence{evidence(2)[1], evidence(2)[0]}}} {
		if res, _ := w.Run(bg, &Environment{Retriever: &fakeSpaces{res: bad}}, map[string]any{"question": "q"}); res.Error.Code != CodeBadReply {
			t.Errorf("%+v: %+v", bad, res.Error)
		}
	}
}

// The query is a text variable from upstream; nothing is asked when it is not.
func TestS3_1QueryFromUpstream(t *testing.T) {
	for _, v := range []any{"", " \u200b", nil, 5.0, []any{"x"}} {
		f := &fakeSpaces{res: found(0)}
		o := &RetrievalOptions{Spaces: []string{"s"}, Query: "{{q}}"}
		if _, err := Retrieve(bg, f, catalog.Run{}, o, newVars(t, map[string]any{"q": v})); !errors.Is(err, storage.ErrInvalid) || len(f.asked) > 0 {
			t.Errorf("%v: %v", v, err)
		}
	}
	for _, o := range []*RetrievalOptions{nil, {Query: "fixed"}, {Query: "{{gone}}"}, {Query: "{{"}} {
		if _, err := Retrieve(bg, &fakeSpaces{}, catalog.Run{}, o, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	f := &fakeSpaces{res: found(1)}
	vars := newVars(t, map[string]any{"a": map[string]any{"b": "refund"}})
	out, err := Retrieve(bg, f, catalog.Run{Kind: catalog.Draft, Account: "ann"}, &RetrievalOptions{Spaces: []string{"s"}, Query: "how long: {{a.b}} "}, vars)
	if err != nil || f.asked[0].Query != "how long: refund " || out.Query != "how long: refund" || f.asked[0].Run.Account != "ann" || len(vars.written) != 0 {
		t.Errorf("%+v, %v", f.asked, err)
	}
}

func TestS3_2ConfigOfRetrieval(t *testing.T) {
	o, err := ParseRetrieval([]byte(`{"control_space_ids": ["a"], "query": "{{q}}"}`))
	if err != nil || o.TopN != space.DefaultTopN || o.Mode != "" || o.OutputVariable != "retrieval" {
		t.Errorf("%+v, %v", o, err)
	}
	eleven := `["a","b","c","d","e","f","g","h","i","j","k"]`
	for config, want := range map[string]string{
		`{"query": "{{q}}"}`:                                                               "control_space_ids",
		`{"control_space_ids": [], "query": "{{q}}"}`:                                      "0 ids",
		`{"control_space_ids": ` + eleven + `, "query": "{{q}}"}`:                          "11 ids, want 1 to 10",
		`{"control_space_ids": [" "], "query": "{{q}}"}`:                                   "blank",
		`{"control_space_ids": ["a"]}`:                                                     "query",
		`{"control_space_ids": ["a"], "query": "words"}`:                                   "names no variable",
		`{"control_space_ids": ["a"], "query": "{{q}}", "mode": "auto"}`:                   "mode",
		`{"control_space_ids": ["a"], "query": "{{q}}", "top_n": 0}`:                       "top_n",
		`{"control_space_ids": ["a"], "query": "{{q}}", "top_n": 101}`:                     "top_n",
		`{"control_space_ids": ["a"], "query": "{{q}}", "top_k": 3}`:                       "unknown key",
		`{"control_space_ids": ["a"], "query": "{{q}}", "metadata_filters": {"x":1}}`:      "metadata_filters",
		`{"control_space_ids": ["a"], "query": "{{q}}", "metadata_filters": {"tags": []}}`: "tags",
		`{"control_space_ids": ["a"], "query_variable_selector": ["start", "q"]}`:          "no nodes",
	} {
		if _, err := ParseRetrieval([]byte(config)); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	for selector, want := range map[string]string{
		`["start"]`: "1 parts", `["later", "result"]`: "no node", `["nobody", "x"]`: "no node", `["start", ""]`: "no name", `["start", 5]`: "want text", `"start"`: "want an array",
	} {
		text := strings.Replace(retrievalJSON, `["start", "question"]`, selector, 1)
		text = strings.Replace(text, `{"id": "agent"`, `{"id": "later", "type": "knowledge-retrieval-v2", "config": {"control_space_ids": ["a"], "query": "{{question}}"}}, {"id": "agent"`, 1)
		if _, err := Parse([]byte(text)); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "nodes[1].config.query_variable_selector") {
			t.Errorf("%s: %v, want %q", selector, err, want)
		}
	}
	// A selector of another retrieval leads into its output.
	text := strings.Replace(retrievalJSON, `{"id": "agent"`, `{"id": "again", "type": "knowledge-retrieval-v2", "config": {"control_space_ids": ["a"], "query_variable_selector": ["kr", "result", "0", "content"]}}, {"id": "agent"`, 1)
	w, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSpaces{res: found(1)}
	w.Run(bg, &Environment{Retriever: f}, map[string]any{"question": "q"})
	if len(f.asked) != 2 || f.asked[1].Query != "passage a" || !slices.Equal(w.Spaces(), []string{"s1", "s2", "a"}) {
		t.Errorf("%+v", f.asked)
	}
}

// The old node may stand in a workflow, whatever its config; reaching it fails
// that run and says what to do.
func TestS3_12OldNodeIsNotRun(t *testing.T) {
	w, err := Parse([]byte(`{"nodes": [{"id": "s", "type": "start-node"},
		{"id": "old", "type": "knowledge-retrieval", "config": {"dataset_ids": ["d"], "retrieval_mode": "multiple", "multiple_retrieval_config": {"top_k": 4, "weights": null}, "anything": [1, {"x": "{{"}]}},
		{"id": "e", "type": "end-node"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.Run(bg, &Environment{Retriever: &fakeSpaces{res: found(1)}, Store: &fakeStore{}}, nil)
	if !errors.Is(err, ErrUnsupported) || res.Error.Code != CodeUnsupported || res.Error.Node != "old" || !strings.Contains(res.Error.Message, TypeRetrieval) {
		t.Errorf("%s, %v", mustJSON(t, res), err)
	}
}

// A reranker takes evidence for search results.
func TestRerankEvidence(t *testing.T) {
	vars := newVars(t, nil)
	if _, err := Retrieve(bg, &fakeSpaces{res: found(3)}, catalog.Run{}, &RetrievalOptions{Spaces: []string{"s"}, Query: "{{q}}", OutputVariable: "kr"}, newVars(t, map[string]any{"q": "x"})); err != nil {
		t.Fatal(err)
	}
	vars.Set("kr", &Retrieval{Result: evidence(3), Query: "x"})
	for _, path := range []string{"kr", "kr.result"} {
		out, err := Rerank(bg, rerankers()[DefaultRerankModel], &RerankOptions{InputVariable: path, Query: "passage"}, vars)
		if err != nil || len(out.Items) != 3 {
			t.Errorf("%s: %+v, %v", path, out, err)
		}
	}
	for path, want := range map[string]any{"kr.result.0.title": "Section", "kr.metrics.total_ms": 0.0, "kr.result.1.metadata.citation.page_number": 3.0} {
		if v, err := vars.Lookup(path); err != nil || v != want {
			t.Errorf("%s: %v, %v", path, v, err)
		}
	}
	for _, path := range []string{"kr.process_data", "kr.Query", "kr.result.3"} {
		if v, err := vars.Lookup(path); err == nil {
			t.Errorf("%s: %v", path, v)
		}
	}
}
