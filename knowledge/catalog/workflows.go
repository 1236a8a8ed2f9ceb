package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CreateWorkflow makes a workflow: ID, Workspace, Name, Draft and Unresolved of
// f count. Any account of the workspace may.
func (c *Catalog) CreateWorkflow(by string, f Workflow) (Workflow, error) {
	f = Workflow{ID: f.ID, Workspace: f.Workspace, Name: f.Name, Draft: f.Draft, Unresolved: f.Unresolved, DraftRevision: 1}
	err := c.write(by, "create_workflow", f.ID, func(w *writer) (string, error) {
		if w.t.workspaces[f.Workspace] == nil {
			return "", notFound("workspace", f.Workspace)
		}
		if err := w.t.memberOrProgram(by, f.Workspace); err != nil {
			return "", err
		}
		if w.t.workflows[f.ID] != nil {
			return "", exists("workflow", f.ID)
		}
		f.Created = w.now
		w.putWorkflow(&f)
		return "workspace " + f.Workspace, nil
	})
	return result(f.clone(), err)
}

// putWorkflow writes a workflow and its draft.
func (w *writer) putWorkflow(f *Workflow) {
	f.Updated = w.now
	r := *f
	r.Draft = nil
	w.put(&r)
	w.putRaw(bucketDrafts, f.ID, f.Draft)
}

// UpdateWorkflow replaces Name, Draft and Unresolved of the workflow f.ID. Any
// account of the workspace may. expected is the revision of the draft the
// change was made from, Workflow.DraftRevision; another one is ErrStale.
// Published runs keep their snapshot.
func (c *Catalog) UpdateWorkflow(by string, f Workflow, expected int) (Workflow, error) {
	var out Workflow
	err := c.write(by, "update_workflow", f.ID, func(w *writer) (string, error) {
		have, err := w.workflow(f.ID)
		if err != nil {
			return "", err
		}
		if err := w.t.memberOrProgram(by, have.Workspace); err != nil {
			return "", err
		}
		if have.DraftRevision != expected {
			return "", stale("", "draft of workflow", f.ID, have.DraftRevision, expected)
		}
		out = *have
		out.Name, out.Draft, out.Unresolved = f.Name, f.Draft, f.Unresolved
		out.DraftRevision++
		w.putWorkflow(&out)
		return fmt.Sprintf("revision %d", out.DraftRevision), nil
	})
	return result(out.clone(), err)
}

func (w *writer) workflow(id string) (*Workflow, error) {
	f := w.t.workflows[id]
	if f == nil {
		return nil, notFound("workflow", id)
	}
	return f, nil
}

// Workflow returns one with its draft; storage.ErrNotFound. It reads the file,
// and waits for a write in progress.
func (c *Catalog) Workflow(id string) (Workflow, error) {
	c.disk.Lock()
	defer c.disk.Unlock()
	f, err := view(c, func(t *tables) (Workflow, error) {
		f := t.workflows[id]
		if f == nil {
			return Workflow{}, notFound("workflow", id)
		}
		return f.clone(), nil
	})
	if err == nil {
		f.Draft, err = c.raw(bucketDrafts, id)
	}
	return result(f, err)
}

// Workflows lists those of a workspace by id, without their drafts.
func (c *Catalog) Workflows(workspace string) ([]Workflow, error) {
	return view(c, func(t *tables) ([]Workflow, error) {
		return list(t.workflows, func(f *Workflow) (Workflow, bool) { return f.clone(), f.Workspace == workspace }), nil
	})
}

// DeleteWorkflow removes a workflow with its snapshots and bindings. Any
// account of the workspace may.
func (c *Catalog) DeleteWorkflow(by, workflow string) error {
	return c.write(by, "delete_workflow", workflow, func(w *writer) (string, error) {
		f, err := w.workflow(workflow)
		if err != nil {
			return "", err
		}
		if err := w.t.memberOrProgram(by, f.Workspace); err != nil {
			return "", err
		}
		w.drop(f)
		w.dropRaw(bucketDrafts, workflow)
		for _, s := range w.t.snapshots[workflow] {
			w.dropSnapshot(s)
		}
		for _, b := range w.t.bindings[workflow] {
			w.drop(b)
		}
		return "", nil
	})
}

func (w *writer) dropSnapshot(s *Snapshot) {
	w.drop(s)
	_, key := s.place()
	w.dropRaw(bucketDefinitions, key)
}

// Snapshot returns one with its definition, by its id; storage.ErrNotFound. It
// reads the file, and waits for a write in progress; since a snapshot never
// changes, callers may keep it.
func (c *Catalog) Snapshot(id string) (Snapshot, error) {
	c.disk.Lock()
	defer c.disk.Unlock()
	s, err := view(c, func(t *tables) (Snapshot, error) {
		i := strings.LastIndexByte(id, '@')
		if i < 0 {
			return Snapshot{}, notFound("snapshot", id)
		}
		n, err := strconv.Atoi(id[i+1:])
		snapshots := t.snapshots[id[:i]]
		j, found := slices.BinarySearchFunc(snapshots, n, func(s *Snapshot, n int) int { return cmp.Compare(s.Number, n) })
		if err != nil || !found || snapshots[j].ID != id {
			return Snapshot{}, notFound("snapshot", id)
		}
		return snapshots[j].clone(), nil
	})
	if err == nil {
		_, key := s.place()
		s.Definition, err = c.raw(bucketDefinitions, key)
	}
	return result(s, err)
}

// Snapshots lists those kept of a workflow, oldest first, without their
// definitions. The last is the one that published runs use.
func (c *Catalog) Snapshots(workflow string) ([]Snapshot, error) {
	return view(c, func(t *tables) ([]Snapshot, error) {
		if t.workflows[workflow] == nil {
			return nil, notFound("workflow", workflow)
		}
		var out []Snapshot
		for _, s := range t.snapshots[workflow] {
			out = append(out, s.clone())
		}
		return out, nil
	})
}
