package kb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/knowledge/workflow/dsl"
	"github.com/quarrysearch/quarry/storage"
)

// workflowCommands are those of quarry workflow.
type workflowCommands struct {
	Import   flowImportCmd  `cmd:"" help:"Keep a workflow's definition (YAML or JSON) in the catalogue, as a draft."`
	Export   flowExportCmd  `cmd:"" help:"Print a definition as it was imported, or in the other format."`
	List     flowListCmd    `cmd:"" help:"List workflows."`
	Select   flowSelectCmd  `cmd:"" help:"Choose the spaces of a retrieval node of a draft anew."`
	Publish  flowPublishCmd `cmd:"" help:"Publish a draft and bind exactly its spaces, in one step."`
	Run      flowRunCmd     `cmd:"" help:"Run the published workflow, or its draft."`
	Bindings bindingsCmd    `cmd:"" help:"List the bindings of a workflow."`
	Revoke   revokeCmd      `cmd:"" help:"Take a space away from a workflow: its next published run fails."`
	Rm       flowRmCmd      `cmd:"" help:"Remove a workflow with its snapshots and bindings."`
}

type flowImportCmd struct {
	engine.StoreArg
	File string `arg:"" help:"Definition: an app with a graph, in YAML or JSON, or the JSON that quarry run takes."`

	ID        string `name:"id" placeholder:"ID" help:"Id; default the file's name. A workflow that is there gets a new draft."`
	Name      string `placeholder:"TEXT" help:"Name shown to people; default that of the definition."`
	Workspace string `default:"default" placeholder:"ID" help:"Workspace, of a new workflow."`
	accountFlag
	JSON bool `name:"json" help:"Print the result as JSON."`
}

func (flowImportCmd) Help() string {
	return `Spaces that the workspace does not have are warnings; the workflow cannot be published until they are chosen again (quarry workflow select). Nodes and keys that are unknown here are kept as they are.

    quarry workflow import store support.yaml
    quarry workflow publish store support
    quarry workflow run store support --var user_message="How do I get a refund?"

--json prints {"workflow", "draft_revision", "spaces", "warnings": [{"node", "title", "space", "message"}], "runnable", "reason"}.`
}

// imported is the result of an import.
type imported struct {
	Workflow      string        `json:"workflow"`
	DraftRevision int           `json:"draft_revision"`
	Spaces        []string      `json:"spaces"`
	Warnings      []dsl.Warning `json:"warnings"`
	// Runnable tells that this engine runs it; Reason why not.
	Runnable bool   `json:"runnable"`
	Reason   string `json:"reason,omitempty"`
}

// Run imports.
func (c *flowImportCmd) Run(s *session) error {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	base := filepath.Base(c.File)
	id := cmp.Or(c.ID, strings.TrimSuffix(base, filepath.Ext(base)))
	return s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error {
		if err := ensureAlone(cat, c.Workspace); err != nil {
			return err
		}
		w, err := cat.Workflow(id)
		fresh := errors.Is(err, storage.ErrNotFound)
		if err != nil && !fresh {
			return err
		}
		if fresh {
			w.ID, w.Workspace = id, c.Workspace
		}
		r, err := dsl.Inspect(cat, w.Workspace, data)
		if err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
		w.Name, w.Draft, w.Unresolved = cmp.Or(c.Name, r.Name, id), data, dsl.Unresolved(r.Warnings)
		if fresh {
			w, err = cat.CreateWorkflow(c.Account, w)
		} else {
			w, err = cat.UpdateWorkflow(c.Account, w, w.DraftRevision)
		}
		if err != nil {
			return err
		}
		out := imported{Workflow: id, DraftRevision: w.DraftRevision, Spaces: r.Spaces, Warnings: r.Warnings, Runnable: r.Refused == nil}
		if r.Refused != nil {
			out.Reason = reason(r.Refused.Error())
		}
		return c.print(s, &out)
	})
}

func (c *flowImportCmd) print(s *session, out *imported) error {
	if c.JSON {
		return s.JSON(out)
	}
	for _, w := range out.Warnings {
		s.Notef("warning: %s", show.Line(w.String(), 300))
	}
	if !out.Runnable {
		s.Notef("kept, but not to be run here: %s", out.Reason)
	}
	return s.Printf("%s: draft %d, %s\n", out.Workflow, out.DraftRevision, console.Count(len(out.Spaces), "space"))
}

type flowExportCmd struct {
	engine.StoreArg
	ID     string `arg:"" name:"id" help:"Workflow, or id@N for a published snapshot."`
	Format string `enum:",yaml,json" default:"" placeholder:"NAME" help:"yaml or json; default that of the import, byte for byte."`
}

func (flowExportCmd) Help() string {
	return `    quarry workflow export store support > support.yaml
    quarry workflow export store support@3 --format json`
}

// Run exports.
func (c *flowExportCmd) Run(s *session) error {
	return s.withCatalog(c.Store, false, func(cat *catalog.Catalog) error {
		data, err := definition(cat, c.ID)
		if err != nil {
			return err
		}
		if c.Format != "" {
			d, err := dsl.Parse(data)
			if err != nil {
				return fmt.Errorf("%s: %w", c.ID, err)
			}
			if data, err = d.Export(dsl.Format(c.Format)); err != nil {
				return err
			}
		}
		return s.Printf("%s", data)
	})
}

// definition is the draft of a workflow, or what a snapshot holds.
func definition(cat *catalog.Catalog, id string) ([]byte, error) {
	if strings.Contains(id, "@") {
		snap, err := cat.Snapshot(id)
		return snap.Definition, err
	}
	w, err := cat.Workflow(id)
	return w.Draft, err
}

type flowListCmd struct {
	engine.StoreArg
	JSON bool `name:"json" help:"Print a workflow a line, as JSON."`
}

func (flowListCmd) Help() string {
	return `    quarry workflow list store
    quarry workflow list store --json`
}

// Run lists.
func (c *flowListCmd) Run(s *session) error {
	return s.withCatalog(c.Store, false, func(cat *catalog.Catalog) error {
		workspaces, err := cat.Workspaces()
		if err != nil {
			return err
		}
		rows := [][]string{{"ID", "WORKSPACE", "DRAFT", "PUBLISHED", "UNRESOLVED", "NAME"}}
		for _, ws := range workspaces {
			flows, err := cat.Workflows(ws.ID)
			if err != nil {
				return err
			}
			for _, w := range flows {
				if c.JSON {
					if err := s.JSON(w); err != nil {
						return err
					}
				}
				rows = append(rows, []string{w.ID, w.Workspace, strconv.Itoa(w.DraftRevision), cmp.Or(w.Published, "never"),
					strings.Join(w.Unresolved, " "), show.Line(w.Name, 60)})
			}
		}
		if c.JSON {
			return nil
		}
		return s.Printf("%s", show.Table(rows, []bool{false, false, true}))
	})
}

type flowSelectCmd struct {
	engine.StoreArg
	ID    string   `arg:"" name:"id" help:"Workflow."`
	Node  string   `arg:"" help:"Id of the knowledge-retrieval-v2 node."`
	Space []string `arg:"" help:"Spaces, 1 to 10."`
	accountFlag
	jsonChange
}

func (flowSelectCmd) Help() string {
	return `    quarry workflow select store support retrieval docs faq`
}

// Run selects.
func (c *flowSelectCmd) Run(s *session) error {
	return s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error {
		w, err := cat.Workflow(c.ID)
		if err != nil {
			return err
		}
		d, err := dsl.Parse(w.Draft)
		if err == nil {
			d, err = d.Select(c.Node, c.Space)
		}
		if err == nil {
			w.Draft, err = d.Export(d.Format())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		w.Unresolved = dsl.Unresolved(d.Missing(func(id string) bool {
			sp, err := cat.Space(id)
			return err == nil && sp.Workspace == w.Workspace
		}))
		if w, err = cat.UpdateWorkflow(c.Account, w, w.DraftRevision); err != nil {
			return err
		}
		return c.told(s, nil, "workflow", w.ID, fmt.Sprintf("draft %d", w.DraftRevision))
	})
}

type flowPublishCmd struct {
	engine.StoreArg
	ID       string `arg:"" name:"id" help:"Workflow."`
	Revision int    `placeholder:"N" help:"Revision of the draft that you saw: another one now is an error. Default the one that is there."`
	accountFlag
	JSON bool `name:"json" help:"Print the snapshot as JSON."`
}

func (flowPublishCmd) Help() string {
	return `All spaces of the draft must be in the workspace, active and published, and the account must be allowed to use them. The snapshot and its exact bindings are written in one transaction.

    quarry workflow publish store support`
}

// Run publishes.
func (c *flowPublishCmd) Run(s *session) error {
	return s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error {
		w, err := cat.Workflow(c.ID)
		if err != nil {
			return err
		}
		r, err := dsl.Inspect(cat, w.Workspace, w.Draft)
		if err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		snap, err := cat.Publish(c.Account, c.ID, cmp.Or(c.Revision, w.DraftRevision), r.Spaces)
		if err != nil {
			return err
		}
		if c.JSON {
			snap.Definition = nil
			return s.JSON(snap)
		}
		return s.Printf("%s: published, %s\n", snap.ID, console.Count(len(snap.Spaces), "space"))
	})
}

type flowRunCmd struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Workflow."`

	Draft    bool     `help:"Run the draft, as the account; spaces it may use are bound to the workflow."`
	EndUser  bool     `name:"end-user" help:"Run the published workflow for somebody without an account."`
	Var      []string `sep:"none" placeholder:"NAME=TEXT" help:"Input variable, such as user_message=…; may be repeated."`
	Reranker string   `default:"late" placeholder:"NAME" help:"What the model cross-encoder stands for: late, none, or a service as in kb search --rerank."`
	Trace    bool     `help:"Add the trace of the nodes to the result, with the process data of retrievals."`
	accountFlag
	jsonAlways
}

func (flowRunCmd) Help() string {
	return `Prints the result as quarry run does. Published runs use what was published and bound then: a space that was revoked, switched off, or taken from the account since fails the run.

    quarry workflow run store support --var user_message="How do I get a refund?"`
}

// Validate checks the flags.
func (c *flowRunCmd) Validate() error {
	_, err := variables(c.Var)
	if c.Draft && c.EndUser {
		err = errors.Join(err, errors.New("--draft runs as an account: --end-user does not go with it"))
	}
	return errors.Join(err, (&rerankFlag{c.Reranker}).validate())
}

// Run runs a workflow of the catalogue.
func (c *flowRunCmd) Run(ctx context.Context, s *session) (err error) {
	input, err := variables(c.Var)
	if err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	rr, err := (&rerankFlag{c.Reranker}).reranker(ctx, open)
	if err != nil {
		return err
	}
	o := &space.Options{Rerankers: map[string]rerank.Reranker{}}
	if rr != nil {
		o.Rerankers[crossEncoder] = rr
	}
	// A draft run writes its bindings.
	cat, service, err := open.spaces(ctx, c.Store, c.Draft, o)
	if err != nil {
		return err
	}
	w, err := cat.Workflow(c.ID)
	if err != nil {
		return err
	}
	id := w.Published
	env := &workflow.Environment{Retriever: service, Rerankers: o.Rerankers, Run: catalog.Run{Kind: catalog.Published, Account: c.Account, Workflow: c.ID}}
	switch {
	case c.Draft:
		env.Run.Kind, id = catalog.Draft, c.ID
	case c.EndUser:
		env.Run.Account = ""
	}
	if id == "" {
		return fmt.Errorf("workflow %q was never published (quarry workflow publish does, --draft runs the draft)", c.ID)
	}
	data, err := definition(cat, id)
	if err != nil {
		return err
	}
	loaded, err := dsl.Load(data)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if env.Chat, err = openChat(open); err != nil {
		return err
	}
	r, err := loaded.Run(ctx, env, input)
	if c.Trace {
		return errors.Join(s.JSON(r), err)
	}
	return errors.Join(s.JSON(outcome{r.Outputs, r.Error}), err)
}

type bindingsCmd struct {
	engine.StoreArg
	ID   string `arg:"" name:"id" help:"Workflow."`
	JSON bool   `name:"json" help:"Print a binding a line, as JSON."`
}

func (bindingsCmd) Help() string {
	return `    quarry workflow bindings store support`
}

// Run lists bindings.
func (c *bindingsCmd) Run(s *session) error {
	return s.withCatalog(c.Store, false, func(cat *catalog.Catalog) error {
		bindings, err := cat.Bindings(c.ID)
		if err != nil {
			return err
		}
		rows := [][]string{{"SPACE", "STATE", "REVISION", "ORIGIN", "BY", "AT"}}
		for _, b := range bindings {
			if c.JSON {
				if err := s.JSON(b); err != nil {
					return err
				}
			}
			rows = append(rows, []string{b.Space, string(b.State), strconv.Itoa(b.Revision), string(b.Origin), b.By, b.At.Format("2006-01-02 15:04:05")})
		}
		if c.JSON {
			return nil
		}
		return s.Printf("%s", show.Table(rows, []bool{false, false, true}))
	})
}

type revokeCmd struct {
	engine.StoreArg
	ID    string `arg:"" name:"id" help:"Workflow."`
	Space string `arg:"" help:"Space."`
	accountFlag
	jsonChange
}

func (revokeCmd) Help() string {
	return `Published runs fail from now on where they would ask the space.

    quarry workflow revoke store support docs`
}

// Run revokes a binding.
func (c *revokeCmd) Run(s *session) error {
	err := s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error { return cat.RevokeBinding(c.Account, c.ID, c.Space) })
	return c.told(s, err, "workflow", c.ID, "may not use "+c.Space)
}

type flowRmCmd struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Workflow."`
	accountFlag
	jsonChange
}

func (flowRmCmd) Help() string {
	return `    quarry workflow rm store support`
}

// Run removes a workflow.
func (c *flowRmCmd) Run(s *session) error {
	err := s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error { return cat.DeleteWorkflow(c.Account, c.ID) })
	return c.told(s, err, "workflow", c.ID, "removed")
}
