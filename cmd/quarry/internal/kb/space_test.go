package kb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/knowledge/workflow"
)

// published is a store with the base docs, published as a space of that id.
func published(t *testing.T) (store, dir string) {
	t.Helper()
	store, dir = filled(t)
	ok(t, "space", "create", store, "docs")
	ok(t, "space", "publish", store, "docs")
	for _, name := range []string{chatURL, chatModel, chatKey} {
		t.Setenv(name, "")
	}
	return store, dir
}

func TestSpaceCommands(t *testing.T) {
	store, dir := published(t)
	search := []string{"space", "search", store, "refund purchase", "--space", "docs"}
	first := ok(t, search...)
	got := decode[space.Result](t, first)
	if len(got.Evidence) == 0 || got.Metrics.Mode != "fast" || got.Evidence[0].Metadata.SpaceID != "docs" || got.Evidence[0].Metadata.Citation.StartOffset == nil {
		t.Fatal(first)
	}
	answer := write2(t, "answer.json", first)
	if out := ok(t, "space", "verify", store, answer); !strings.Contains(out, "hold") {
		t.Error(out)
	}
	write(t, answer, strings.Replace(first, got.Evidence[0].Content[:6], "Forged", 1))
	if r := command(t, fake, "space", "verify", store, answer, "--json"); r.code != 1 || !strings.Contains(r.out, `"problems":["result[0]`) {
		t.Errorf("%d %s %s", r.code, r.out, r.err)
	}

	// What is added to the base shows with the next publication.
	write(t, filepath.Join(dir, "new.md"), "# Refund of vouchers\n\nA refund of vouchers takes a week.\n")
	ok(t, "kb", "add", store, "docs", dir)
	if strings.Contains(ok(t, search...), "vouchers") {
		t.Error("not yet published, and found")
	}
	ok(t, "profile", "set", store, "docs", "--mode", "deep", "--top-k", "2", "--rerank", "cross-encoder", "--threshold", "0.01")
	ok(t, "space", "publish", store, "docs", "--json")
	if got := decode[space.Result](t, ok(t, search...)); got.Metrics.Mode != "deep" || len(got.Evidence) > 2 {
		t.Errorf("%+v", got.Metrics)
	}
	if !strings.Contains(ok(t, "space", "search", store, "vouchers week", "--space", "docs"), "vouchers takes") {
		t.Error("published, and not found")
	}
	fails(t, 1, "stale", "space", "publish", store, "docs", "--revision", "1")
	fails(t, 1, "rerank", "profile", "set", store, "docs", "--rerank", "none")
	fails(t, 2, "filters", append(search, "--filters", `{"colour": ["red"]}`)...)
	fails(t, 1, "none", "space", "search", store, "x", "--space", "docs,none")

	ok(t, "space", "deactivate", store, "docs")
	fails(t, 1, "docs", search...)
	ok(t, "space", "activate", store, "docs")
	ok(t, search...)
	if out := ok(t, "space", "list", store); !strings.Contains(out, "active") || !strings.Contains(out, "deep") {
		t.Error(out)
	}
	if lines := decodeLines[catalog.AuditEntry](t, ok(t, "space", "audit", store)); len(lines) < 6 || lines[0].Seq != 1 {
		t.Errorf("%+v", lines)
	}
}

// A permission that is taken away holds for the next run.
func TestSpaceGrants(t *testing.T) {
	store, _ := published(t)
	search := []string{"space", "search", store, "refund", "--space", "docs", "--account", "ann"}
	fails(t, 1, "ann", search...)
	ok(t, "space", "grant", store, "docs", "ann", "use")
	ok(t, search...)
	fails(t, 1, "ann", "space", "publish", store, "docs", "--account", "ann")
	ok(t, "space", "grant", store, "docs", "ann", "none")
	fails(t, 1, "ann", search...)
}

// evidenceFlow asks the spaces docs and other.
const evidenceFlow = `app:
  name: Support # of customers
  mode: workflow
kind: app
version: 0.3.1
workflow:
  graph:
    nodes:
      - id: start
        data: {type: start, variables: [{variable: user_message}]}
      - id: retrieval
        data:
          type: knowledge-retrieval-v2
          title: Evidence
          control_space_ids: [docs, other]
          query_variable_selector: [start, user_message]
          mode: fast
      - id: end
        data: {type: end, outputs: [{variable: result, value_selector: [retrieval, result]}]}
    edges:
      - {source: start, target: retrieval}
      - {source: retrieval, target: end}
`

func TestWorkflowCommands(t *testing.T) {
	store, _ := published(t)
	file := write2(t, "support.yaml", evidenceFlow)
	r := command(t, fake, "workflow", "import", store, file)
	if r.code != 0 || !strings.Contains(r.err, "warning") || !strings.Contains(r.err, "other") {
		t.Fatalf("%d %s %s", r.code, r.out, r.err)
	}
	if out := ok(t, "workflow", "export", store, "support"); out != evidenceFlow {
		t.Errorf("not as it was imported:\n%s", out)
	}
	if out := ok(t, "workflow", "export", store, "support", "--format", "json"); !strings.Contains(out, `"control_space_ids"`) {
		t.Error(out)
	}
	fails(t, 1, "other", "workflow", "publish", store, "support")
	ok(t, "workflow", "select", store, "support", "retrieval", "docs")
	ok(t, "workflow", "publish", store, "support", "--json")
	run := []string{"workflow", "run", store, "support", "--var", "user_message=refund purchase"}
	out := ok(t, append(run, "--end-user")...)
	if got := decode[outcome](t, out); got.Error != nil || !strings.Contains(out, `"artifact_hash"`) {
		t.Error(out)
	}
	if got := decode[workflow.Result](t, ok(t, append(run, "--trace")...)); len(got.Trace) != 3 {
		t.Errorf("%+v", got.Trace)
	}
	bindings := decodeLines[catalog.Binding](t, ok(t, "workflow", "bindings", store, "support", "--json"))
	if len(bindings) != 1 || bindings[0].Space != "docs" || bindings[0].State != catalog.Active {
		t.Errorf("%+v", bindings)
	}
	ok(t, "workflow", "revoke", store, "support", "docs")
	fails(t, 1, "docs", append(run, "--end-user")...)
	ok(t, append(run, "--draft")...)
	fails(t, 1, "docs", append(run, "--end-user")...) // a draft run binds nothing for others
	ok(t, "workflow", "publish", store, "support")
	ok(t, append(run, "--end-user")...)
	if out := ok(t, "workflow", "list", store); !strings.Contains(out, "support@2") {
		t.Error(out)
	}
	// What this engine does not run is kept as it is.
	strange := strings.Replace(evidenceFlow, "mode: fast", "from_tomorrow: true", 1)
	if r := command(t, fake, "workflow", "import", store, write2(t, "strange.yaml", strange), "--json"); r.code != 0 || !strings.Contains(r.out, `"runnable":false,"reason"`) {
		t.Errorf("%d %s %s", r.code, r.out, r.err)
	}
	if out := ok(t, "workflow", "export", store, "strange"); out != strange {
		t.Errorf("not as it was imported:\n%s", out)
	}
	fails(t, 2, "NAME=TEXT", "workflow", "run", store, "support", "--var", "x")
	fails(t, 1, "none.yaml", "workflow", "import", store, filepath.Join(t.TempDir(), "none.yaml"))
	ok(t, "workflow", "rm", store, "support")
	fails(t, 1, "support", run...)
}

// The JSON that quarry run takes can be kept and published, too.
func TestWorkflowOfThisEngine(t *testing.T) {
	store, _ := published(t)
	file := write2(t, "ask.json", `{"nodes": [{"id": "s", "type": "start-node", "config": {"variables": ["user_message"]}},
		{"id": "r", "type": "knowledge-retrieval-v2", "config": {"control_space_ids": ["docs"], "query": "{{user_message}}"}}, {"id": "e", "type": "end-node"}],
		"edges": [{"from": "s", "to": "r"}, {"from": "r", "to": "e"}]}`)
	ok(t, "workflow", "import", store, file)
	fails(t, 1, "never published", "workflow", "run", store, "ask", "--var", "user_message=refund")
	ok(t, "workflow", "publish", store, "ask")
	if out := ok(t, "workflow", "run", store, "ask", "--var", "user_message=refund"); !strings.Contains(out, `"citation"`) {
		t.Error(out)
	}
	if err := os.Remove(filepath.Join(store, catalogName)); err != nil {
		t.Fatal(err)
	}
	fails(t, 1, "no spaces", "space", "list", store)
}

// A cross-encoder's directory reranks.
func TestRerankByCrossEncoder(t *testing.T) {
	store, _ := filled(t)
	dir := filepath.Join("..", "..", "..", "..", "knowledge", "embed", "testdata", "cross", "bert")
	if out := ok(t, "kb", "search", store, "refund purchase", "--rerank", dir, "--json"); !strings.Contains(out, `"score_kind":"rerank"`) {
		t.Error(out)
	}
	fails(t, 1, "--rerank", "kb", "search", store, "refund", "--rerank", store)
	fails(t, 2, "cross-encoder", "kb", "search", store, "refund", "--rerank", "nothing-there")
}
