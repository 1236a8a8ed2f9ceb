package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A tables is the catalogue in memory, without definitions and audit entries.
// Records in it are never changed: a write puts new ones in their place.
type tables struct {
	workspaces map[string]*Workspace
	accounts   map[string]*account
	spaces     map[string]*Space
	workflows  map[string]*Workflow
	snapshots  map[string][]*Snapshot         // by workflow, ascending by number
	bindings   map[string]map[string]*Binding // by workflow and space

	total total

	// Audit entries kept are those from auditFirst to auditLast; none while
	// both are 0.
	auditFirst, auditLast uint64
}

// An account with its grants ready to be asked.
type account struct {
	*Account
	level map[string]int // by space
	all   int            // on AllSpaces
}

func newTables() *tables {
	return &tables{
		workspaces: make(map[string]*Workspace),
		accounts:   make(map[string]*account),
		spaces:     make(map[string]*Space),
		workflows:  make(map[string]*Workflow),
		snapshots:  make(map[string][]*Snapshot),
		bindings:   make(map[string]map[string]*Binding),
	}
}

// set puts a record in its place. Loading a file and applying a write both end
// here, so that memory is what reading the file again would give.
func (t *tables) set(r record) {
	switch r := r.(type) {
	case *Workspace:
		t.workspaces[r.ID] = r
	case *Account:
		a := &account{Account: r, level: make(map[string]int, len(r.Grants))}
		for _, g := range r.Grants {
			if g.Space == AllSpaces {
				a.all = g.Permission.level()
			} else {
				a.level[g.Space] = g.Permission.level()
			}
		}
		t.accounts[r.ID] = a
	case *Space:
		t.spaces[r.ID] = r
	case *Workflow:
		t.workflows[r.ID] = r
	case *Snapshot:
		t.snapshots[r.Workflow] = append(t.snapshots[r.Workflow], r)
	case *Binding:
		if t.bindings[r.Workflow] == nil {
			t.bindings[r.Workflow] = make(map[string]*Binding)
		}
		t.bindings[r.Workflow][r.Space] = r
	case *AuditEntry:
		if t.auditFirst == 0 {
			t.auditFirst = r.Seq
		}
		t.auditLast = r.Seq
	}
}

// unset takes a record away.
func (t *tables) unset(r record) {
	switch r := r.(type) {
	case *Space:
		delete(t.spaces, r.ID)
	case *Workflow:
		delete(t.workflows, r.ID)
	case *Snapshot:
		s := slices.DeleteFunc(t.snapshots[r.Workflow], func(s *Snapshot) bool { return s.Number == r.Number })
		if t.snapshots[r.Workflow] = s; len(s) == 0 {
			delete(t.snapshots, r.Workflow)
		}
	case *Binding:
		m := t.bindings[r.Workflow]
		if delete(m, r.Space); len(m) == 0 {
			delete(t.bindings, r.Workflow)
		}
	case *AuditEntry:
		t.auditFirst = r.Seq + 1
	}
}

// current is the snapshot that published runs of a workflow use; nil for none.
func (t *tables) current(workflow string) *Snapshot {
	s := t.snapshots[workflow]
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1]
}

// list returns, by id, what f makes of the records it wants.
func list[T, V any](m map[string]T, f func(T) (V, bool)) []V {
	var out []V
	for _, id := range slices.Sorted(maps.Keys(m)) {
		if v, ok := f(m[id]); ok {
			out = append(out, v)
		}
	}
	return out
}

// boundBy returns the active bindings of one origin, oldest first.
func (t *tables) boundBy(workflow string, o Origin) []*Binding {
	var out []*Binding
	for _, b := range t.bindings[workflow] {
		if b.State == Active && b.Origin == o {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *Binding) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Space, b.Space))
	})
	return out
}

// level orders permissions; 0 is none.
func (p Permission) level() int {
	switch p {
	case Use:
		return 1
	case Edit:
		return 2
	case Publish:
		return 3
	case Admin:
		return 4
	}
	return 0
}

// may tells the account's greatest permission on a space, AllSpaces included.
func (a *account) may(space string) int { return max(a.all, a.level[space]) }

// allow refuses what an account may not do on a space, or with AllSpaces on
// the workspace as a whole. An empty account is the program itself.
func (t *tables) allow(by, workspace, space string, p Permission) error {
	if by == "" {
		return nil
	}
	a, err := t.member(by, workspace)
	if err != nil {
		return err
	}
	if a.may(space) < p.level() {
		return refusePermission(by, space, p)
	}
	return nil
}

func refusePermission(by, space string, p Permission) error {
	if space == AllSpaces {
		return refuse(ErrPermission, "", "account %q lacks the permission %s on all spaces of its workspace", by, p)
	}
	return refuse(ErrPermission, space, "account %q lacks the permission %s on space %q", by, p, space)
}

// member returns an account of a workspace.
func (t *tables) member(id, workspace string) (*account, error) {
	a := t.accounts[id]
	if a == nil {
		return nil, refuse(ErrPermission, "", "there is no account %q", id)
	}
	if a.Workspace != workspace {
		return nil, refuse(ErrWorkspace, "", "account %q is not of workspace %q", id, workspace)
	}
	return a, nil
}

// memberOrProgram is member for calls that the program itself may make.
func (t *tables) memberOrProgram(by, workspace string) error {
	if by == "" {
		return nil
	}
	_, err := t.member(by, workspace)
	return err
}
