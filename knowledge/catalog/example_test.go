package catalog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quarrysearch/quarry/knowledge/catalog"
)

// A space is published, a workflow over it too, and then the space is taken
// away from it.
func Example() {
	dir, err := os.MkdirTemp("", "catalog")
	check(err)
	defer os.RemoveAll(dir)
	c, err := catalog.Open(filepath.Join(dir, "catalog.db"), nil)
	check(err)
	defer c.Close()

	_, err = c.CreateWorkspace("acme", "Acme")
	check(err)
	_, err = c.CreateAccount("", catalog.Account{ID: "ann", Workspace: "acme",
		Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Admin}}})
	check(err)
	space, err := c.CreateSpace("ann", catalog.Space{ID: "handbook", Workspace: "acme", Base: "handbook"})
	check(err)
	_, err = c.PublishSpace("ann", "handbook", space.Draft.Revision, 1, nil)
	check(err)
	flow, err := c.CreateWorkflow("ann", catalog.Workflow{ID: "support", Workspace: "acme", Draft: []byte("nodes: …")})
	check(err)
	snapshot, err := c.Publish("ann", "support", flow.DraftRevision, []string{"handbook"})
	check(err)
	fmt.Println("published", snapshot.ID)

	run := catalog.Run{Kind: catalog.Published, Workflow: "support", Spaces: []string{"handbook"}}
	granted, err := c.Authorize(run)
	check(err)
	fmt.Println(granted[0].Space, "generation", granted[0].Publication.Generation, "mode", granted[0].Publication.Profile.DefaultMode)

	check(c.RevokeBinding("ann", "support", "handbook"))
	_, err = c.Authorize(run)
	fmt.Println(err, errors.Is(err, catalog.ErrNotBound))
	// Output:
	// published support@1
	// handbook generation 1 mode fast
	// quarry: [binding_not_enabled] space "handbook" is not bound to workflow "support" true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
