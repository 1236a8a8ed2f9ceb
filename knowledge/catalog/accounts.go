package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// CreateWorkspace makes a workspace. Only the program itself can, so that the
// audit entry names no account.
func (c *Catalog) CreateWorkspace(id, name string) (Workspace, error) {
	out := Workspace{ID: id, Name: name}
	err := c.write("", "create_workspace", id, func(w *writer) (string, error) {
		if w.t.workspaces[id] != nil {
			return "", exists("workspace", id)
		}
		out.Created = w.now
		w.put(&out)
		return name, nil
	})
	return result(out, err)
}

// result is v, or on an error the zero value.
func result[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

func exists(kind, id string) error {
	return refuse(ErrExists, "", "%s %q is there already", kind, id)
}

// Workspace returns one; storage.ErrNotFound.
func (c *Catalog) Workspace(id string) (Workspace, error) {
	return view(c, func(t *tables) (Workspace, error) {
		w := t.workspaces[id]
		if w == nil {
			return Workspace{}, notFound("workspace", id)
		}
		return *w, nil
	})
}

// Workspaces lists all by id.
func (c *Catalog) Workspaces() ([]Workspace, error) {
	return view(c, func(t *tables) ([]Workspace, error) {
		return list(t.workspaces, func(w *Workspace) (Workspace, bool) { return *w, true }), nil
	})
}

// CreateAccount makes an account: ID, Workspace, Name and Grants of a count.
// Acting accounts need Admin on all spaces.
func (c *Catalog) CreateAccount(by string, a Account) (Account, error) {
	a.Grants = slices.Clone(a.Grants)
	slices.SortStableFunc(a.Grants, func(a, b Grant) int { return strings.Compare(a.Space, b.Space) })
	err := c.write(by, "create_account", a.ID, func(w *writer) (string, error) {
		if w.t.workspaces[a.Workspace] == nil {
			return "", notFound("workspace", a.Workspace)
		}
		if err := w.t.allow(by, a.Workspace, AllSpaces, Admin); err != nil {
			return "", err
		}
		if w.t.accounts[a.ID] != nil {
			return "", exists("account", a.ID)
		}
		for _, g := range a.Grants {
			if err := w.t.grantable(g.Space, a.Workspace); err != nil {
				return "", err
			}
		}
		a.Created = w.now
		w.put(&a)
		return fmt.Sprintf("workspace %s, grants %v", a.Workspace, a.Grants), nil
	})
	return result(a, err)
}

// grantable tells whether a workspace has a space, or it is AllSpaces.
func (t *tables) grantable(space, workspace string) error {
	if space == AllSpaces {
		return nil
	}
	_, err := t.spaceOf(space, workspace)
	return err
}

// Account returns one; storage.ErrNotFound.
func (c *Catalog) Account(id string) (Account, error) {
	return view(c, func(t *tables) (Account, error) {
		a := t.accounts[id]
		if a == nil {
			return Account{}, notFound("account", id)
		}
		return a.clone(), nil
	})
}

// Accounts lists those of a workspace by id.
func (c *Catalog) Accounts(workspace string) ([]Account, error) {
	return view(c, func(t *tables) ([]Account, error) {
		return list(t.accounts, func(a *account) (Account, bool) { return a.clone(), a.Workspace == workspace }), nil
	})
}

// Grant gives an account a permission on a space, in place of the one it had
// there. The acting account needs Admin on that space (or on all, for
// AllSpaces).
func (c *Catalog) Grant(by, account string, g Grant) error {
	return c.grant(by, "grant", account, g.Space, &g)
}

// RevokeGrant takes the permission on a space back; no grant is no error. A
// grant on AllSpaces is not touched by revoking one space. From its return on,
// no Authorize that starts rests on the permission.
func (c *Catalog) RevokeGrant(by, account, space string) error {
	return c.grant(by, "revoke_grant", account, space, nil)
}

func (c *Catalog) grant(by, action, account, space string, g *Grant) error {
	return c.write(by, action, account, func(w *writer) (string, error) {
		a := w.t.accounts[account]
		if a == nil {
			return "", notFound("account", account)
		}
		if err := w.t.grantable(space, a.Workspace); err != nil {
			return "", err
		}
		if err := w.t.allow(by, a.Workspace, space, Admin); err != nil {
			return "", err
		}
		next := a.withGrant(space, g)
		if !slices.Equal(next.Grants, a.Grants) {
			w.put(&next)
		}
		if g == nil {
			return "space " + space, nil
		}
		return fmt.Sprintf("space %s: %s", space, g.Permission), nil
	})
}

// withGrant returns the account with its grant on a space replaced, or for nil
// taken away.
func (a Account) withGrant(space string, g *Grant) Account {
	i, found := slices.BinarySearchFunc(a.Grants, space, func(g Grant, s string) int { return strings.Compare(g.Space, s) })
	a.Grants = slices.Clone(a.Grants)
	switch {
	case found && g != nil:
		a.Grants[i] = *g
	case found:
		a.Grants = slices.Delete(a.Grants, i, i+1)
	case g != nil:
		a.Grants = slices.Insert(a.Grants, i, *g)
	}
	return a
}
