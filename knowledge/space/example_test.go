package space_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// A space is made of a base, filled, published, and asked; what it answers is
// checked against the source.
func Example() {
	dir, err := os.MkdirTemp("", "space")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := knowledge.Open("kb", &knowledge.Options{FS: storage.NewMemFS()}) // no embedder: by keyword
	check(err)
	defer store.Close()
	cat, err := catalog.Open(filepath.Join(dir, "catalog.db"), nil)
	check(err)
	defer cat.Close()
	s, err := space.New(cat, store, nil)
	check(err)

	_, err = store.Create(ctx, "handbook", nil)
	check(err)
	_, err = cat.CreateWorkspace("acme", "Acme")
	check(err)
	_, err = cat.CreateAccount("", catalog.Account{ID: "ann", Workspace: "acme", Name: "Ann",
		Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Publish}}})
	check(err)
	_, err = cat.CreateSpace("", catalog.Space{ID: "hb", Workspace: "acme", Name: "Handbook", Base: "handbook"})
	check(err)

	_, err = s.Ingest(ctx, "ann", "hb", knowledge.IngestRequest{Sources: []knowledge.Source{
		{Name: "leave.md", Data: []byte("# Leave\n\n## Holidays\n\nEverybody has thirty days of holidays.\n")},
	}})
	check(err)
	published, err := s.Publish(ctx, "ann", "hb", 1)
	check(err)
	fmt.Println("published", published.Revision)

	res, err := s.Retrieve(ctx, space.Request{
		Run:   catalog.Run{Kind: catalog.Draft, Account: "ann", Spaces: []string{"hb"}},
		Query: "how many holidays?",
	})
	check(err)
	for _, e := range res.Evidence {
		c := e.Metadata.Citation
		fmt.Printf("%s: %s, version %d, bytes %d to %d, by %v\n", e.Title, c.DocumentID, c.DocumentVersion, *c.StartOffset, *c.EndOffset, e.Metadata.Sources)
		fmt.Println("verified:", s.Verify(ctx, e) == nil)
	}
	// Output:
	// published 1
	// Holidays: leave.md, version 1, bytes 0 to 60, by [fts]
	// verified: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
