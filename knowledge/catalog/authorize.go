package catalog

import "github.com/quarrysearch/quarry/storage"

// Authorize tells what a run may use: for each of its spaces, in order, the
// publication, or for the first space that fails an error that names it. It is
// all or nothing, sees one state of the catalogue, and writes nothing: a
// published run never binds.
//
// A space must be of the run's workspace, active and published. A draft run
// needs the account's Use on each. A published run needs an active binding
// that a publication made, which are those of the workflow's current snapshot;
// the account, if it names one, needs Use as well.
//
// A write that has returned is seen by every Authorize that starts later. The
// cost is a lock for reading and a few look-ups a space; see the package
// comment for figures.
func (c *Catalog) Authorize(run Run) ([]Granted, error) {
	if err := run.check(); err != nil {
		return nil, err
	}
	return view(c, func(t *tables) ([]Granted, error) { return t.authorize(run) })
}

func (r Run) check() error {
	if err := checkIDs("spaces", r.Spaces, 1, MaxSpaces); err != nil {
		return err
	}
	switch r.Kind {
	case Draft:
		return checkID("account of a draft run", r.Account)
	case Published:
		return checkID("workflow of a published run", r.Workflow)
	}
	return storage.Invalidf("run kind %q: want draft or published", r.Kind)
}

func (t *tables) authorize(run Run) ([]Granted, error) {
	workspace, a, err := t.runner(run)
	if err != nil {
		return nil, err
	}
	bindings := t.bindings[run.Workflow]
	out := make([]Granted, len(run.Spaces))
	for i, id := range run.Spaces {
		s, err := t.usable(id, workspace, a)
		if err == nil {
			err = s.ready()
		}
		if err != nil {
			return nil, err
		}
		g := &out[i]
		if b := bindings[id]; b != nil {
			g.Binding = *b
		}
		if run.Kind == Published && (g.Binding.State != Active || g.Binding.Origin != ByPublish) {
			return nil, refuse(ErrNotBound, id, "space %q is not bound to workflow %q", id, run.Workflow)
		}
		g.Space, g.Base, g.Publication = id, s.Base, s.Published.clone()
	}
	return out, nil
}

// runner finds who runs: the workspace, and the account, nil for end users.
func (t *tables) runner(run Run) (workspace string, a *account, err error) {
	f := t.workflows[run.Workflow]
	switch {
	case f != nil:
		workspace = f.Workspace
	case run.Workflow != "":
		return "", nil, notFound("workflow", run.Workflow)
	case t.accounts[run.Account] != nil:
		workspace = t.accounts[run.Account].Workspace
	}
	if run.Account != "" {
		if a, err = t.member(run.Account, workspace); err != nil {
			return "", nil, err
		}
	}
	if run.Kind == Published && f.Published == "" {
		return "", nil, refuse(ErrUnpublished, "", "workflow %q has never been published", run.Workflow)
	}
	return workspace, a, nil
}

// usable returns a space of a workspace that is active and that an account, if
// any, may use.
func (t *tables) usable(id, workspace string, a *account) (*Space, error) {
	s, err := t.spaceOf(id, workspace)
	switch {
	case err != nil:
		return nil, err
	case a != nil && a.may(id) < Use.level():
		return nil, refusePermission(a.ID, id, Use)
	case !s.Active:
		return nil, inactive(id)
	}
	return s, nil
}

func inactive(id string) error { return refuse(ErrInactive, id, "space %q is not active", id) }

// ready refuses a space that no published run can use.
func (s *Space) ready() error {
	if !s.Active {
		return inactive(s.ID)
	}
	if s.Published == nil {
		return refuse(ErrUnpublished, s.ID, "space %q has never been published", s.ID)
	}
	return nil
}
