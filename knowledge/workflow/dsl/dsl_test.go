package dsl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t testing.TB, data []byte) *Document {
	t.Helper()
	d, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func export(t testing.TB, d *Document, f Format) []byte {
	t.Helper()
	b, err := d.Export(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is imported is exported with its bytes; through the other format what it
// says stays, and the bytes are stable from the second export on.
func TestS3_12RoundTrip(t *testing.T) {
	for _, name := range []string{"app.yml", "old.yml"} {
		source := read(t, name)
		d := parse(t, source)
		if d.Format() != YAML || !bytes.Equal(export(t, d, YAML), source) {
			t.Errorf("%s: the export has other bytes", name)
		}
		asJSON := export(t, d, JSON)
		j := parse(t, asJSON)
		if j.Format() != JSON || !bytes.Equal(export(t, j, JSON), asJSON) || !reflect.DeepEqual(j.Nodes(), d.Nodes()) || !slices.Equal(j.Spaces(), d.Spaces()) {
			t.Errorf("%s: not the same as JSON", name)
		}
		asYAML := export(t, j, YAML)
		y := parse(t, asYAML)
		if !bytes.Equal(export(t, y, JSON), asJSON) || !bytes.Equal(export(t, parse(t, export(t, y, JSON)), YAML), asYAML) {
			t.Errorf("%s: JSON and YAML of one another differ", name)
		}
	}
	asJSON := string(export(t, parse(t, read(t, "app.yml")), JSON))
	for _, want := range []string{
		`"icon": "📗"`, `"value": 7,`, `"desc": "Folded text over lines"`, `"createdAfter": "2024-01-01"`, `"y": 1e3`, `"mode": null`, `"version": "0.3.1"`,
		"2.50,\n", "\"yes\",\n", "null,\n", "\"null\",\n", "16,\n", "12345678901234567890\n", `"text": "look: \"here\""`,
	} {
		if !strings.Contains(asJSON, want) {
			t.Errorf("the JSON has no %s", want)
		}
	}
	// Order of keys, of a node somebody made up.
	if !strings.Contains(asJSON, "\"title\": \"Evidence\",\n            \"top_n\": 5,\n            \"type\": \"knowledge-retrieval-v2\",\n            \"x-of-a-later-release\"") {
		t.Errorf("keys moved:\n%s", asJSON)
	}
}

// Line ends, a missing last line end and a byte order mark come back, too.
func TestS3_12BytesAsTheyAre(t *testing.T) {
	source := string(read(t, "app.yml"))
	for name, text := range map[string]string{
		"carriage returns": strings.ReplaceAll(source, "\n", "\r\n"),
		"no line end":      strings.TrimSuffix(source, "\n"),
		"mark":             "\ufeff" + source,
		"start":            "---\n" + source + "...\n",
		"tight JSON":       `{"kind":"app","workflow":{"graph":{"nodes":[{"id":"a","data":{"type":"start","n":1.0e+2}}]}}}`,
	} {
		d := parse(t, []byte(text))
		if got := string(export(t, d, d.Format())); got != text {
			t.Errorf("%s: other bytes", name)
		}
	}
}

// A space that the workspace does not have is a warning that names node and
// space; with others chosen there is none, and nothing else has changed.
func TestS3_12MissingSpaces(t *testing.T) {
	for _, f := range []Format{YAML, JSON} {
		d := parse(t, export(t, parse(t, read(t, "app.yml")), f))
		if got := d.Spaces(); !slices.Equal(got, []string{"space-a", "space-b"}) {
			t.Fatalf("spaces %q", got)
		}
		has := func(id string) bool { return id == "space-a" }
		warnings := d.Missing(has)
		if len(warnings) != 1 || warnings[0].Node != "1712" || warnings[0].Title != "Evidence" || warnings[0].Space != "space-b" || !strings.Contains(warnings[0].Message, `node "1712"`) {
			t.Errorf("warnings %+v", warnings)
		}
		if got := Unresolved(warnings); !slices.Equal(got, []string{"space-b"}) {
			t.Errorf("unresolved %q", got)
		}
		chosen, err := d.Select("1712", []string{"space-a", "space-c: new"})
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen.Spaces(); !slices.Equal(got, []string{"space-a", "space-c: new"}) || chosen.Format() != f {
			t.Errorf("%s: spaces %q", f, got)
		}
		if f == YAML && !strings.Contains(string(export(t, chosen, YAML)), "# what the user types") {
			t.Error("comments are gone")
		}
		back, err := chosen.Select("1712", []string{"space-a", "space-b"})
		if err != nil || !bytes.Equal(export(t, back, other(f)), export(t, d, other(f))) {
			t.Errorf("%s: something else has changed, %v", f, err)
		}
		again, err := back.Select("1712", []string{"space-a", "space-b"})
		if err != nil || !bytes.Equal(export(t, again, f), export(t, back, f)) {
			t.Errorf("%s: not stable, %v", f, err)
		}
		if !bytes.Equal(export(t, d, f), d.source) || len(d.Missing(has)) != 1 {
			t.Error("Select has changed its document")
		}
		for node, spaces := range map[string][]string{"gone": {"a"}, "end": {"a"}, "1712": nil, "1711": {"a"}} {
			if _, err := d.Select(node, spaces); err == nil {
				t.Errorf("%s: %q selected", node, spaces)
			}
		}
	}
}

func other(f Format) Format {
	if f == YAML {
		return JSON
	}
	return YAML
}

// The old node is never rewritten, gives no warning and is not run.
func TestS3_12OldNode(t *testing.T) {
	d := parse(t, read(t, "old.yml"))
	if len(d.Spaces()) != 0 || len(d.Missing(func(string) bool { return false })) != 0 {
		t.Errorf("spaces %q", d.Spaces())
	}
	if _, err := d.Select("old", []string{"s"}); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	if _, err := d.Workflow(); !errors.Is(err, workflow.ErrUnsupported) || !strings.Contains(err.Error(), `node "llm" has the type "llm"`) {
		t.Error(err)
	}
	// Alone between start and end it is reached, and says so.
	text := strings.ReplaceAll(string(read(t, "old.yml")), "type: llm,", "type: end,")
	text = strings.Replace(text, "    - {source: llm, target: answer}\n", "", 1)
	text, _, _ = strings.Cut(text, "    - id: answer")
	w, err := parse(t, []byte(text)).Workflow()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Run(context.Background(), nil, nil); !errors.Is(err, workflow.ErrUnsupported) {
		t.Error(err)
	}
}

// spaces answers retrieval nodes.
type spaces struct{ asked []space.Request }

func (s *spaces) Retrieve(_ context.Context, r space.Request) (*space.Result, error) {
	s.asked = append(s.asked, r)
	return &space.Result{Metrics: space.Metrics{Mode: "fast"}}, nil
}

func TestWorkflow(t *testing.T) {
	app := string(read(t, "app.yml"))
	source := strings.Replace(app, "x-of-a-later-release:", "_open:", 1)
	for _, f := range []Format{YAML, JSON} {
		w, err := Load(export(t, parse(t, []byte(source)), f))
		if err != nil {
			t.Fatal(err)
		}
		if w.Name() != "Handbook" || !slices.Equal(w.Nodes(), []string{"1711", "1712", "end"}) || !slices.Equal(w.Spaces(), []string{"space-a", "space-b"}) {
			t.Errorf("%s: %q, %q", w.Name(), w.Nodes(), w.Spaces())
		}
		s := &spaces{}
		res, err := w.Run(context.Background(), &workflow.Environment{Retriever: s, Run: catalog.Run{Kind: catalog.Published, Workflow: "w"}}, map[string]any{"question": "how?"})
		if err != nil {
			t.Fatal(err)
		}
		want := space.Request{Run: catalog.Run{Kind: catalog.Published, Workflow: "w", Spaces: []string{"space-a", "space-b"}}, Query: "how?", TopN: 5,
			Filters: space.Filters{CreatedAfter: "2024-01-01", Freshness: []string{"fresh"}, Tags: []string{"handbook"}}}
		if len(s.asked) != 1 || !reflect.DeepEqual(s.asked[0], want) {
			t.Errorf("asked %+v", s.asked)
		}
		if res.Outputs["mode"] != "fast" || fmt.Sprint(res.Outputs["evidence"]) != "[]" {
			t.Errorf("outputs %v", res.Outputs)
		}
	}
	for change, want := range map[[2]string]string{
		{"x-of", "x-of"}:                                                       `node "1712".data.x-of-a-later-release (line 48, column 9): unknown key`,
		{"top_n: 5", "top_n: 500"}:                                             `node "1712".data.top_n`,
		{"        mode: null", "        mode: auto"}:                           `node "1712".data.mode`,
		{"target: end,", "sourceHandle: fail-branch, target: end,"}:            `leaves by "fail-branch"`,
		{"query_attachment_selector: []", "query_attachment_selector: [a, b]"}: "attachment",
		{"title: Evidence", "error_strategy: fail-branch"}:                     "error strategy",
		{"title: Evidence", "retry_config: {retry_enabled: true}"}:             "retries",
		{"title: Evidence", "isInIteration: true"}:                             "iteration",
		{"type: end\n", "type: if-else\n"}:                                     `node "end" has the type "if-else"`,
		{"- '1711'\n        - question", "- other\n        - question"}:        "no node \"other\" runs before",
	} {
		text := strings.Replace(app, change[0], change[1], 1)
		if !strings.HasPrefix(change[0], "x-of") {
			text = strings.Replace(text, "x-of-a-later-release:", "_open:", 1)
		}
		if _, err := Load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", change[1], err, want)
		}
	}
}

// Load takes the JSON of package workflow, and nodes of its types in a graph.
func TestLoadOwnNodes(t *testing.T) {
	w, err := Load([]byte(` {"nodes": [{"id": "s", "type": "start-node"}, {"id": "e", "type": "end-node"}]}`))
	if err != nil || len(w.Nodes()) != 2 {
		t.Errorf("%v", err)
	}
	w, err = Load([]byte(`kind: app
workflow:
  graph:
    edges: [{source: s, target: find}, {source: find, target: e}]
    nodes:
    - {id: s, data: {type: start-node, variables: [q], title: In}}
    - {id: find, data: {type: search-knowledge-node, desc: '', knowledge_base_ids: [docs], query: '{{q}}', top_k: 3}}
    - {id: e, data: {type: end-node}}
`))
	if err != nil || !slices.Equal(w.Nodes(), []string{"s", "find", "e"}) || w.Name() != "workflow" {
		t.Errorf("%v", err)
	}
}
