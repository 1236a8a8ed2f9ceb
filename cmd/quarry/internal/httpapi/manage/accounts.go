package manage

import (
	"cmp"

	"github.com/quarrysearch/quarry/knowledge/catalog"
)

// Workspaces is the answer of ListWorkspaces.
type Workspaces struct {
	Workspaces []catalog.Workspace `json:"workspaces"`
}

// ListWorkspaces lists the workspaces.
func ListWorkspaces(c *Call, _ *struct{ By }) (*Workspaces, error) {
	all, err := c.Spaces.Catalog.Workspaces()
	return &Workspaces{list(all)}, err
}

// NewWorkspace is the input of CreateWorkspace.
type NewWorkspace struct {
	By
	Body struct {
		ID   string `json:"id" shape:"required,minlen=1,maxlen=512"`
		Name string `json:"name,omitempty" shape:"maxlen=512" doc:"shown to people; default the id"`
	} `body:"json"`
}

// Workspace is the answer of CreateWorkspace.
type Workspace struct {
	Workspace catalog.Workspace `json:"workspace"`
}

// CreateWorkspace makes a workspace.
func CreateWorkspace(c *Call, in *NewWorkspace) (*Workspace, error) {
	w, err := c.Spaces.Catalog.CreateWorkspace(in.Body.ID, cmp.Or(in.Body.Name, in.Body.ID))
	return &Workspace{w}, err
}

// OfWorkspace is an input that names a workspace.
type OfWorkspace struct {
	By
	Workspace string `path:"workspace" doc:"id of the workspace"`
}

// Accounts is the answer of ListAccounts.
type Accounts struct {
	Accounts []catalog.Account `json:"accounts"`
}

// ListAccounts lists the accounts of a workspace.
func ListAccounts(c *Call, in *OfWorkspace) (*Accounts, error) {
	if _, err := c.Spaces.Catalog.Workspace(in.Workspace); err != nil {
		return nil, err
	}
	all, err := c.Spaces.Catalog.Accounts(in.Workspace)
	return &Accounts{list(all)}, err
}

// grant is a permission on a space.
type grant struct {
	Space      string `json:"space" shape:"required,minlen=1,maxlen=512" doc:"id of a space, or * for all of the workspace"`
	Permission string `json:"permission" shape:"required,enum=use|edit|publish|admin" doc:"each includes those before it"`
}

// NewAccount is the input of CreateAccount.
type NewAccount struct {
	By
	Workspace string `path:"workspace" doc:"id of the workspace"`
	Body      struct {
		ID     string  `json:"id" shape:"required,minlen=1,maxlen=512"`
		Name   string  `json:"name,omitempty" shape:"maxlen=512" doc:"shown to people; default the id"`
		Grants []grant `json:"grants,omitempty" shape:"maxitems=1000"`
	} `body:"json"`
}

// Account is an answer with an account.
type Account struct {
	Account catalog.Account `json:"account"`
}

// CreateAccount makes an account.
func CreateAccount(c *Call, in *NewAccount) (*Account, error) {
	a := catalog.Account{ID: in.Body.ID, Workspace: in.Workspace, Name: cmp.Or(in.Body.Name, in.Body.ID)}
	for _, g := range in.Body.Grants {
		a.Grants = append(a.Grants, catalog.Grant{Space: g.Space, Permission: catalog.Permission(g.Permission)})
	}
	a, err := c.Spaces.Catalog.CreateAccount(c.By, a)
	return &Account{a}, err
}

// OfAccount is an input that names an account.
type OfAccount struct {
	By
	ID string `path:"id" doc:"id of the account"`
}

// GetAccount describes an account with its grants.
func GetAccount(c *Call, in *OfAccount) (*Account, error) {
	a, err := c.Spaces.Catalog.Account(in.ID)
	return &Account{a}, err
}

// NewGrant is the input of Grant.
type NewGrant struct {
	By
	ID   string `path:"id" doc:"id of the account"`
	Body grant  `body:"json"`
}

// Grant gives an account a permission on a space, in place of the one it had.
func Grant(c *Call, in *NewGrant) (*Account, error) {
	if err := c.Spaces.Catalog.Grant(c.By, in.ID, catalog.Grant{Space: in.Body.Space, Permission: catalog.Permission(in.Body.Permission)}); err != nil {
		return nil, err
	}
	return GetAccount(c, &OfAccount{ID: in.ID})
}

// NoGrant is the input of Revoke.
type NoGrant struct {
	By
	ID    string `path:"id" doc:"id of the account"`
	Space string `query:"space" shape:"required,minlen=1,maxlen=512" doc:"id of a space, or * for the grant on all of the workspace"`
}

// Revoke takes a permission away.
func Revoke(c *Call, in *NoGrant) (*Account, error) {
	if err := c.Spaces.Catalog.RevokeGrant(c.By, in.ID, in.Space); err != nil {
		return nil, err
	}
	return GetAccount(c, &OfAccount{ID: in.ID})
}

// AuditPage is the input of Audit.
type AuditPage struct {
	By
	After int `query:"after" shape:"min=0" doc:"number of the last entry of the page before"`
	Limit int `query:"limit" shape:"min=1,max=1000,default=100" doc:"how many"`
}

// Entries is the answer of Audit.
type Entries struct {
	Entries []catalog.AuditEntry `json:"entries" doc:"in the order of their numbers"`
}

// Audit tells what was changed, by whom.
func Audit(c *Call, in *AuditPage) (*Entries, error) {
	all, err := c.Spaces.Catalog.Audit(uint64(in.After), cmp.Or(in.Limit, 100))
	return &Entries{list(all)}, err
}
