package dsl

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

// office is a workspace with two published spaces of one document each, an
// editor who may use both and a guest who may use the first.
func office(t *testing.T) (*catalog.Catalog, *space.Service) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	st, err := knowledge.Open("store", &knowledge.Options{FS: storage.NewMemFS()})
	must(err)
	t.Cleanup(func() { st.Close() })
	c, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"), nil)
	must(err)
	t.Cleanup(func() { c.Close() })
	s, err := space.New(c, st, nil)
	must(err)
	_, err = c.CreateWorkspace("w", "Office")
	must(err)
	_, err = c.CreateAccount("", catalog.Account{ID: "editor", Workspace: "w", Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Admin}}})
	must(err)
	for id, text := range map[string]string{"hr": "Leave is thirty days.", "it": "Leave the laptop locked."} {
		_, err = st.Create(ctx, id+"-base", nil)
		must(err)
		sp, err := c.CreateSpace("editor", catalog.Space{ID: id, Workspace: "w", Base: id + "-base", Active: true})
		must(err)
		_, err = s.Ingest(ctx, "editor", id, knowledge.IngestRequest{Sources: []knowledge.Source{{Name: id + ".md", Data: []byte(text)}}})
		must(err)
		_, err = s.Publish(ctx, "editor", id, sp.Draft.Revision)
		must(err)
	}
	_, err = c.CreateAccount("", catalog.Account{ID: "guest", Workspace: "w", Grants: []catalog.Grant{{Space: "hr", Permission: catalog.Use}}})
	must(err)
	return c, s
}

// From an import with spaces that are not here to a published run, and to the
// end of it: publishing waits until the spaces are chosen again, published runs
// bind nothing, and a revocation counts from the next run on.
func TestS3_11ImportPublishRunRevoke(t *testing.T) {
	c, s := office(t)
	d := parse(t, []byte(strings.Replace(string(read(t, "app.yml")), "x-of-a-later-release:", "_open:", 1)))
	d = parse(t, []byte(strings.Replace(string(d.source), "          freshness_statuses: [fresh]\n          createdAfter: 2024-01-01\n          tags:\n          - handbook\n", "          node_kinds: [chunk]\n", 1)))
	known := func(id string) bool { _, err := c.Space(id); return err == nil }
	wf, err := c.CreateWorkflow("editor", catalog.Workflow{ID: "flow", Workspace: "w", Name: d.Name(), Draft: d.source, Unresolved: Unresolved(d.Missing(known))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish("editor", "flow", wf.DraftRevision, d.Spaces()); !errors.Is(err, catalog.ErrUnresolved) || !strings.Contains(err.Error(), "space-a, space-b") {
		t.Fatalf("published with spaces that are not here: %v", err)
	}
	if d, err = d.Select("1712", []string{"it", "hr"}); err != nil {
		t.Fatal(err)
	}
	if wf, err = c.UpdateWorkflow("editor", catalog.Workflow{ID: "flow", Name: d.Name(), Draft: d.source, Unresolved: Unresolved(d.Missing(known))}, wf.DraftRevision); err != nil {
		t.Fatal(err)
	}
	snap, err := c.Publish("editor", "flow", wf.DraftRevision, d.Spaces())
	if err != nil {
		t.Fatal(err)
	}
	w, err := Load(snap.Definition)
	if err != nil {
		t.Fatal(err)
	}
	run := func(r catalog.Run) (*workflow.Result, error) {
		return w.Run(context.Background(), &workflow.Environment{Retriever: s, Run: r}, map[string]any{"question": "leave"})
	}
	published := catalog.Run{Kind: catalog.Published, Workflow: "flow"}
	bound, _ := c.Bindings("flow")
	res, err := run(published)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(res.Outputs["evidence"])
	var found []space.Evidence
	if json.Unmarshal(b, &found) != nil || len(found) != 2 || s.Verify(context.Background(), found[0]) != nil {
		t.Errorf("evidence %s", b)
	}
	if res.Trace[1].ProcessData == nil || len(res.Trace[1].ProcessData.KnowledgeFS.PerSpace) != 2 {
		t.Errorf("trace %+v", res.Trace[1])
	}
	if now, _ := c.Bindings("flow"); len(now) != 2 || len(bound) != 2 || now[0] != bound[0] || now[1] != bound[1] {
		t.Errorf("a published run has bound: %+v", now)
	}
	for name, r := range map[string]catalog.Run{"guest": {Kind: catalog.Draft, Account: "guest", Workflow: "flow"}, "nobody": {Kind: catalog.Draft, Workflow: "flow"}} {
		if res, err := run(r); err == nil || res.Outputs["evidence"] != nil || res.Outputs["1712"] != nil {
			t.Errorf("draft run of %s: %+v", name, res)
		}
	}
	if res, err := run(catalog.Run{Kind: catalog.Draft, Account: "editor", Workflow: "flow"}); err != nil {
		t.Errorf("draft run of editor: %+v", res.Error)
	}
	if err := c.RevokeBinding("editor", "flow", "hr"); err != nil {
		t.Fatal(err)
	}
	res, err = run(published)
	if !errors.Is(err, catalog.ErrNotBound) || res.Error.Code != workflow.CodeDenied || res.Error.Node != "1712" || len(res.Outputs) != 0 {
		t.Errorf("after the revocation: %+v, %v", res, err)
	}
}

// A definition is looked at for the workspace it is of, whatever its kind.
func TestInspect(t *testing.T) {
	c, _ := office(t)
	if _, err := c.CreateWorkspace("other", "Other"); err != nil {
		t.Fatal(err)
	}
	plain := []byte(`{"name": "Leave", "nodes": [{"id": "start", "type": "start-node"},
	  {"id": "ask", "type": "knowledge-retrieval-v2", "config": {"control_space_ids": ["hr"], "query_variable_selector": ["start", "question"]}},
	  {"id": "end", "type": "end-node"}]}`)
	for workspace, missing := range map[string]int{"w": 0, "other": 1} {
		r, err := Inspect(c, workspace, plain)
		if err != nil || r.Name != "Leave" || r.Refused != nil || len(r.Spaces) != 1 || len(r.Warnings) != missing {
			t.Errorf("%s: %+v, %v", workspace, r, err)
		}
	}
	r, err := Inspect(c, "w", read(t, "app.yml"))
	if err != nil || r.Refused == nil || strings.Join(Unresolved(r.Warnings), " ") != strings.Join(r.Spaces, " ") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Inspect(c, "w", []byte("no: workflow")); err == nil {
		t.Error("what is no definition passes")
	}
}
