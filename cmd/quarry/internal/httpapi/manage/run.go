package manage

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/knowledge/workflow/dsl"
)

// RunOf is the input of Run.
type RunOf struct {
	By
	Workflow string `path:"workflow" doc:"id of the workflow"`
	Body     struct {
		Draft   bool      `json:"draft,omitempty" doc:"run the draft, as the account; spaces that it may use are bound to the workflow"`
		EndUser bool      `json:"end_user,omitempty" doc:"run the published workflow for somebody without an account"`
		Input   shape.Raw `json:"input,omitempty" doc:"an object: the input variables"`
		Trace   bool      `json:"trace,omitempty" doc:"add the trace of the nodes"`
	} `body:"json"`
}

// Result is the answer of Run.
type Result struct {
	Outputs map[string]any        `json:"outputs"`
	Error   *workflow.ErrorObject `json:"error,omitempty" doc:"what ended the run; missing when it reached its end"`
	Trace   []workflow.NodeTrace  `json:"trace,omitempty"`
}

// Run runs a workflow of the catalogue: what was published, by the bindings made
// then, or its draft.
func Run(c *Call, in *RunOf) (*Result, error) {
	b := &in.Body
	if b.Draft && b.EndUser {
		return nil, &shape.Error{Field: "end_user", Reason: "a draft runs as an account"}
	}
	input := map[string]any{}
	if b.Input != "" {
		if err := json.Unmarshal([]byte(b.Input), &input); err != nil {
			return nil, &shape.Error{Field: "input", Reason: "want an object"}
		}
	}
	w, err := c.Spaces.Catalog.Workflow(in.Workflow)
	if err != nil {
		return nil, err
	}
	run, data := catalog.Run{Kind: catalog.Draft, Account: c.By, Workflow: w.ID}, w.Draft
	if !b.Draft {
		if w.Published == "" {
			return nil, &catalog.Error{Code: catalog.ErrUnpublished, Message: fmt.Sprintf("workflow %q was never published", w.ID)}
		}
		snap, err := c.Spaces.Catalog.Snapshot(w.Published)
		if err != nil {
			return nil, err
		}
		run.Kind, data = catalog.Published, snap.Definition
		if b.EndUser {
			run.Account = ""
		}
	}
	loaded, err := dsl.Load(data)
	if err != nil {
		return nil, err
	}
	env, err := c.Registry.Environment(c.Context)
	if err != nil {
		return nil, err
	}
	env.Retriever, env.Run = c.Spaces, run
	r, err := loaded.Run(c.Context, env, input)
	var node *workflow.NodeError
	if err != nil && !errors.As(err, &node) {
		return nil, err
	}
	if err := c.Context.Err(); err != nil { // what ended the node is the request's end
		return nil, err
	}
	out := &Result{Outputs: r.Outputs, Error: r.Error}
	if b.Trace {
		out.Trace = r.Trace
	}
	return out, nil
}
