package manage

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/workflow/dsl"
	"github.com/quarrysearch/quarry/storage"
)

// WorkflowsOf is the input of ListWorkflows.
type WorkflowsOf struct {
	By
	Workspace string `query:"workspace" shape:"required,maxlen=512" doc:"id of the workspace"`
}

// Workflows is the answer of ListWorkflows.
type Workflows struct {
	Workflows []catalog.Workflow `json:"workflows" doc:"without their definitions"`
}

// ListWorkflows lists the workflows of a workspace.
func ListWorkflows(c *Call, in *WorkflowsOf) (*Workflows, error) {
	if _, err := c.Spaces.Catalog.Workspace(in.Workspace); err != nil {
		return nil, err
	}
	all, err := c.Spaces.Catalog.Workflows(in.Workspace)
	return &Workflows{list(all)}, err
}

// OfWorkflow is an input that names a workflow.
type OfWorkflow struct {
	By
	Workflow string `path:"workflow" doc:"id of the workflow"`
}

// AWorkflow is the answer of GetWorkflow.
type AWorkflow struct {
	Workflow   catalog.Workflow `json:"workflow"`
	Definition string           `json:"definition" doc:"the draft as it was imported, byte for byte"`
}

// GetWorkflow describes a workflow with its draft.
func GetWorkflow(c *Call, in *OfWorkflow) (*AWorkflow, error) {
	w, err := c.Spaces.Catalog.Workflow(in.Workflow)
	text := string(w.Draft)
	w.Draft = nil
	return &AWorkflow{w, text}, err
}

// DeleteWorkflow removes a workflow with its snapshots and bindings.
func DeleteWorkflow(c *Call, in *OfWorkflow) (*Done, error) {
	return done(c.Spaces.Catalog.DeleteWorkflow(c.By, in.Workflow))
}

// Definition is the input of Import.
type Definition struct {
	By
	Workflow string `path:"workflow" doc:"id of the workflow"`
	Body     struct {
		Workspace  string `json:"workspace" shape:"required,minlen=1,maxlen=512" doc:"id of the workspace"`
		Name       string `json:"name,omitempty" shape:"maxlen=512" doc:"shown to people; default that of the definition"`
		Definition string `json:"definition" shape:"required,minlen=1,maxlen=1048576" doc:"an app with a graph, in YAML or JSON, or the JSON of POST /v1/workflows/run, as text"`
		Revision   int    `json:"draft_revision,omitempty" shape:"min=0,max=2147483647" doc:"of the draft that was looked at; another one is refused. Default the one that is there"`
	} `body:"json"`
}

// Imported is the answer of Import.
type Imported struct {
	Workflow string        `json:"workflow"`
	Revision int           `json:"draft_revision"`
	Spaces   []string      `json:"spaces" doc:"that its nodes name"`
	Warnings []dsl.Warning `json:"warnings" doc:"spaces that the workspace does not have: it cannot be published until they are chosen again"`
	Runnable bool          `json:"runnable" doc:"whether this engine runs it; it is kept in any case"`
	Reason   string        `json:"reason,omitempty" doc:"why it does not"`

	name string
}

// Import keeps a definition as the draft of a workflow, which is made where
// there is none.
func Import(c *Call, in *Definition) (*Imported, error) {
	b := &in.Body
	out, err := c.read(b.Workspace, []byte(b.Definition))
	if err != nil {
		return nil, &shape.Error{Field: "definition", Reason: err.Error()}
	}
	cat := c.Spaces.Catalog
	w, err := cat.Workflow(in.Workflow)
	fresh := errors.Is(err, storage.ErrNotFound)
	switch {
	case err != nil && !fresh:
		return nil, err
	case !fresh && w.Workspace != b.Workspace:
		return nil, &shape.Error{Field: "workspace", Reason: fmt.Sprintf("the workflow is of the workspace %.80q", w.Workspace)}
	}
	revision := cmp.Or(b.Revision, w.DraftRevision)
	w.ID, w.Workspace, w.Name, w.Draft, w.Unresolved = in.Workflow, b.Workspace, cmp.Or(b.Name, out.name, in.Workflow), []byte(b.Definition), dsl.Unresolved(out.Warnings)
	if fresh {
		w, err = cat.CreateWorkflow(c.By, w)
	} else {
		w, err = cat.UpdateWorkflow(c.By, w, revision)
	}
	out.Workflow, out.Revision = w.ID, w.DraftRevision
	return out, err
}

// read looks at a definition: of the Dify family, or of package workflow.
func (c *Call) read(workspace string, data []byte) (*Imported, error) {
	r, err := dsl.Inspect(c.Spaces.Catalog, workspace, data)
	if err != nil {
		return nil, err
	}
	out := &Imported{Spaces: r.Spaces, Warnings: r.Warnings, Runnable: r.Refused == nil, name: r.Name}
	if r.Refused != nil {
		out.Reason = r.Refused.Error()
	}
	return out, nil
}

// Selection is the input of Select.
type Selection struct {
	By
	Workflow string `path:"workflow" doc:"id of the workflow"`
	Body     struct {
		Node   string   `json:"node" shape:"required,minlen=1,maxlen=512" doc:"id of the knowledge-retrieval-v2 node"`
		Spaces []string `json:"spaces" shape:"required,maxitems=10"`
	} `body:"json"`
}

// Select chooses the spaces of a node of a draft anew.
func Select(c *Call, in *Selection) (*Imported, error) {
	w, err := c.Spaces.Catalog.Workflow(in.Workflow)
	if err != nil {
		return nil, err
	}
	d, err := dsl.Parse(w.Draft)
	if err == nil {
		d, err = d.Select(in.Body.Node, in.Body.Spaces)
	}
	if err == nil {
		w.Draft, err = d.Export(d.Format())
	}
	if err != nil {
		return nil, err
	}
	out, err := c.read(w.Workspace, w.Draft)
	if err != nil {
		return nil, err
	}
	w.Unresolved = dsl.Unresolved(out.Warnings)
	w, err = c.Spaces.Catalog.UpdateWorkflow(c.By, w, w.DraftRevision)
	out.Workflow, out.Revision = w.ID, w.DraftRevision
	return out, err
}

// Publication is the input of Publish.
type Publication struct {
	By
	Workflow string `path:"workflow" doc:"id of the workflow"`
	Body     struct {
		Revision int `json:"draft_revision" shape:"required,min=1,max=2147483647" doc:"of the draft that was looked at; another one is refused"`
	} `body:"json"`
}

// Snapshot is the answer of Publish.
type Snapshot struct {
	Snapshot catalog.Snapshot `json:"snapshot" doc:"without its definition"`
}

// Publish publishes the draft of a workflow and binds exactly its spaces, in one
// step. It takes an account.
func Publish(c *Call, in *Publication) (*Snapshot, error) {
	w, err := c.Spaces.Catalog.Workflow(in.Workflow)
	if err != nil {
		return nil, err
	}
	read, err := c.read(w.Workspace, w.Draft)
	if err != nil {
		return nil, err
	}
	snap, err := c.Spaces.Catalog.Publish(c.By, in.Workflow, in.Body.Revision, read.Spaces)
	snap.Definition = nil
	return &Snapshot{snap}, err
}

// Bindings is the answer of ListBindings.
type Bindings struct {
	Bindings []catalog.Binding `json:"bindings"`
}

// ListBindings lists the bindings of a workflow.
func ListBindings(c *Call, in *OfWorkflow) (*Bindings, error) {
	all, err := c.Spaces.Catalog.Bindings(in.Workflow)
	return &Bindings{list(all)}, err
}

// OfBinding is the input of RevokeBinding.
type OfBinding struct {
	By
	Workflow string `path:"workflow" doc:"id of the workflow"`
	Space    string `path:"space" doc:"id of the space"`
}

// RevokeBinding takes a space away from a workflow: its next published run fails.
func RevokeBinding(c *Call, in *OfBinding) (*Done, error) {
	return done(c.Spaces.Catalog.RevokeBinding(c.By, in.Workflow, in.Space))
}
