package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// BindDraft records that draft runs of a workflow use spaces, 1 to MaxSpaces,
// in the order of its draft. All or none are bound: the first that is missing,
// of another workspace, not permitted to the account (Use) or not active names
// the error. Bindings that are active stay as they are; when nothing changes,
// nothing is written.
//
// A binding made here serves no published run, also when a publication made it
// before and it was revoked since. At most MaxSpaces are active at a time: the
// oldest that are not asked for give way.
func (c *Catalog) BindDraft(account, workflow string, spaces []string) error {
	if err := checkIDs("spaces", spaces, 1, MaxSpaces); err != nil {
		return err
	}
	run := Run{Kind: Draft, Account: account, Workflow: workflow, Spaces: spaces}
	// The same checks without a lock on the file: most calls change nothing.
	done, err := view(c, func(t *tables) (bool, error) { return t.bound(run) })
	if err != nil || done {
		return err
	}
	return c.write(account, "bind_draft", workflow, func(w *writer) (string, error) {
		if _, err := w.t.bound(run); err != nil {
			return "", err
		}
		for _, id := range spaces {
			w.bind(workflow, id, ByDraft)
		}
		active := w.t.boundBy(workflow, ByDraft)
		active = append(active, w.changed()...)
		extra := len(active) - MaxSpaces
		for _, b := range active {
			if extra > 0 && !slices.Contains(spaces, b.Space) {
				w.revoke(b)
				extra--
			}
		}
		return w.summary(), nil
	})
}

// bound checks a draft run's spaces and tells whether all are bound.
func (t *tables) bound(run Run) (bool, error) {
	f := t.workflows[run.Workflow]
	if f == nil {
		return false, notFound("workflow", run.Workflow)
	}
	a, err := t.member(run.Account, f.Workspace)
	if err != nil {
		return false, err
	}
	all := true
	for _, id := range run.Spaces {
		if _, err := t.usable(id, f.Workspace, a); err != nil {
			return false, err
		}
		b := t.bindings[run.Workflow][id]
		all = all && b != nil && b.State == Active
	}
	return all, nil
}

// bind makes a binding active: adds it, restores it, or lifts one by a draft
// run to one by a publication.
func (w *writer) bind(workflow, space string, o Origin) {
	b := Binding{Workflow: workflow, Space: space, Revision: 1, State: Active, Origin: o, At: w.now, By: w.by}
	if have := w.t.bindings[workflow][space]; have != nil {
		if have.State == Active && (have.Origin == o || o == ByDraft) {
			return
		}
		b.Revision = have.Revision
		if have.State == Revoked {
			b.Revision++
		}
	}
	w.put(&b)
}

func (w *writer) revoke(b *Binding) {
	r := *b
	r.State, r.At, r.By = Revoked, w.now, w.by
	w.put(&r)
}

// changed returns the bindings among the changes so far.
func (w *writer) changed() []*Binding {
	var out []*Binding
	for _, ch := range w.changes {
		if b, ok := ch.r.(*Binding); ok {
			out = append(out, b)
		}
	}
	return out
}

// summary says in the audit entry what became of which binding.
func (w *writer) summary() string {
	var out []string
	for _, b := range w.changed() {
		out = append(out, fmt.Sprintf("%s %s %d", b.Space, b.State, b.Revision))
	}
	return strings.Join(out, ", ")
}

// Publish makes the workflow's draft what published runs use: a new snapshot
// of it, and bindings to exactly the given spaces, in one transaction. A crash
// leaves both or neither.
//
// spaces are those the draft names, in its order, at most MaxSpaces, none
// twice; the catalogue does not read the definition. expected is the revision
// of the draft they were read from (ErrStale). The account must be of the
// workspace and have Use on each space.
//
// All spaces are checked before anything is refused: the error names every one
// that is missing, of another workspace, not active or never published, in the
// order given, and has the code of the first. ErrUnresolved while an import
// has left spaces unresolved.
//
// Bindings are added, restored with a revision one higher, or revoked; those
// in place stay untouched.
func (c *Catalog) Publish(account, workflow string, expected int, spaces []string) (Snapshot, error) {
	if err := checkIDs("spaces", spaces, 0, MaxSpaces); err != nil {
		return Snapshot{}, err
	}
	var out Snapshot
	err := c.write(account, "publish", workflow, func(w *writer) (string, error) {
		f, err := w.workflow(workflow)
		if err != nil {
			return "", err
		}
		a, err := w.t.member(account, f.Workspace)
		if err != nil {
			return "", err
		}
		if f.DraftRevision != expected {
			return "", stale("", "draft of workflow", workflow, f.DraftRevision, expected)
		}
		if len(f.Unresolved) > 0 {
			return "", refuseAll(ErrUnresolved, f.Unresolved, "spaces must be chosen again after the import")
		}
		if err := w.t.publishable(f.Workspace, a, spaces); err != nil {
			return "", err
		}
		if out, err = w.snapshot(f, spaces); err != nil {
			return "", err
		}
		for _, id := range spaces {
			w.bind(workflow, id, ByPublish)
		}
		bound := w.t.bindings[workflow]
		for _, id := range slices.Sorted(maps.Keys(bound)) {
			if bound[id].State == Active && !slices.Contains(spaces, id) {
				w.revoke(bound[id])
			}
		}
		return fmt.Sprintf("%s of draft %d; %s", out.ID, expected, w.summary()), nil
	})
	return result(out, err)
}

// publishable checks all spaces of a publication.
func (t *tables) publishable(workspace string, a *account, spaces []string) error {
	var bad, denied []string
	var code Code
	for _, id := range spaces {
		s, err := t.spaceOf(id, workspace)
		if err == nil {
			err = s.ready()
		}
		if err != nil {
			if bad = append(bad, id); len(bad) == 1 {
				code = err.(*Error).Code
			}
		} else if a.may(id) < Use.level() {
			denied = append(denied, id)
		}
	}
	if len(bad) > 0 {
		return refuseAll(code, bad, "spaces are missing, inactive or not published in workspace "+workspace)
	}
	if len(denied) > 0 {
		return refuseAll(ErrPermission, denied, fmt.Sprintf("account %q lacks the permission use on spaces", a.ID))
	}
	return nil
}

// snapshot writes the next snapshot of a workflow and lets go of the oldest.
func (w *writer) snapshot(f *Workflow, spaces []string) (Snapshot, error) {
	definition, err := w.c.raw(bucketDrafts, f.ID)
	if err != nil {
		return Snapshot{}, err
	}
	number := 1
	if s := w.t.current(f.ID); s != nil {
		number = s.Number + 1
	}
	s := Snapshot{ID: snapshotID(f.ID, number), Workflow: f.ID, Number: number, DraftRevision: f.DraftRevision,
		Spaces: make([]SnapshotSpace, len(spaces)), At: w.now, By: w.by}
	for i, id := range spaces {
		sp := w.t.spaces[id]
		s.Spaces[i] = SnapshotSpace{Space: id, Base: sp.Base, Revision: sp.Published.Revision, Generation: sp.Published.Generation}
	}
	w.put(&s)
	_, key := s.place()
	w.putRaw(bucketDefinitions, key, definition)
	if old := w.t.snapshots[f.ID]; len(old) == MaxSnapshots {
		w.dropSnapshot(old[0])
	}
	next := f.clone()
	next.Published, next.Updated = s.ID, w.now
	w.put(&next)
	s.Definition = definition
	return s, nil
}

// RevokeBinding takes a space away from a workflow until its next publication;
// needs Admin on the space. From its return on, no Authorize of a published
// run that starts gives the space out. One that is revoked already stays so;
// none at all is storage.ErrNotFound.
func (c *Catalog) RevokeBinding(by, workflow, space string) error {
	return c.write(by, "revoke_binding", workflow, func(w *writer) (string, error) {
		f, err := w.workflow(workflow)
		if err != nil {
			return "", err
		}
		if _, err := w.t.spaceOf(space, f.Workspace); err != nil {
			return "", err
		}
		if err := w.t.allow(by, f.Workspace, space, Admin); err != nil {
			return "", err
		}
		b := w.t.bindings[workflow][space]
		if b == nil {
			return "", notFound("binding of workflow "+workflow+" to space", space)
		}
		if b.State == Active {
			w.revoke(b)
		}
		return w.summary(), nil
	})
}

// Bindings lists those of a workflow by space, the revoked ones included.
func (c *Catalog) Bindings(workflow string) ([]Binding, error) {
	return view(c, func(t *tables) ([]Binding, error) {
		if t.workflows[workflow] == nil {
			return nil, notFound("workflow", workflow)
		}
		return list(t.bindings[workflow], func(b *Binding) (Binding, bool) { return *b, true }), nil
	})
}
