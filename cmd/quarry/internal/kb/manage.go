package kb

import (
	"context"
	"errors"
	"fmt"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/storage"
)

// stateFlags are those of disable and enable.
type stateFlags struct {
	engine.StoreArg
	ID        string   `arg:"" name:"id" help:"Base."`
	Documents []string `arg:"" name:"document" help:"Documents."`
	JSON      bool     `name:"json" help:"Print the result as JSON."`
}

type disableCmd struct{ stateFlags }

func (disableCmd) Help() string {
	return `A disabled document is found by no search and no kb expand, at once; kb list shows it as disabled. It stays so when its file changes, and through a rebuild, until kb enable, or until it is removed. One that the base does not have is an error; those named before it are changed.

    quarry kb disable store docs old/guide.md

--json prints {"base", "documents"}: how many were named.`
}

// Run disables.
func (c *disableCmd) Run(ctx context.Context, s *session) error {
	return c.set(ctx, s, false, "disabled")
}

type enableCmd struct{ stateFlags }

func (enableCmd) Help() string {
	return `Brings back what kb disable has hidden.

    quarry kb enable store docs old/guide.md

--json prints {"base", "documents"}: how many were named.`
}

// Run enables.
func (c *enableCmd) Run(ctx context.Context, s *session) error { return c.set(ctx, s, true, "enabled") }

func (c *stateFlags) set(ctx context.Context, s *session, on bool, done string) (err error) {
	if _, err := pick(ctx, c.Store, c.ID); err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.store(ctx, c.Store, true)
	if err != nil {
		return err
	}
	for _, d := range c.Documents {
		if err := store.SetEnabled(ctx, c.ID, d, on); err != nil {
			if errors.Is(err, storage.ErrNotFound) {
				err = fmt.Errorf("no document %q in %s (quarry kb list shows them)", d, c.ID)
			}
			return err
		}
	}
	if c.JSON {
		return s.JSON(struct {
			Base      string `json:"base"`
			Documents int    `json:"documents"`
		}{c.ID, len(c.Documents)})
	}
	return s.Printf("%s: %s %s\n", c.ID, console.Count(len(c.Documents), "document"), done)
}

type pruneCmd struct {
	engine.StoreArg
	ID   string `arg:"" name:"id" optional:"" help:"Base; default all."`
	JSON bool   `name:"json" help:"Print a result a base, as JSON."`
}

func (pruneCmd) Help() string {
	return `Removes stored sources that no document names, current version or kept one: what a crash left.

    quarry kb prune store

--json prints a line a base: {"base", "removed"}.`
}

// Run prunes.
func (c *pruneCmd) Run(ctx context.Context, s *session) (err error) {
	infos, err := pick(ctx, c.Store, optional(c.ID)...)
	if err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.store(ctx, c.Store, true)
	if err != nil {
		return err
	}
	for _, b := range infos {
		n, err := store.Prune(ctx, b.ID)
		if err == nil && c.JSON {
			err = s.JSON(struct {
				Base    string `json:"base"`
				Removed int    `json:"removed"`
			}{b.ID, n})
		} else if err == nil {
			err = s.Printf("%s: %s removed\n", b.ID, console.Count(n, "stored file"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type freezeCmd struct {
	engine.StoreArg
	ID   string `arg:"" name:"id" help:"Base."`
	Drop int    `placeholder:"N" help:"Remove generation N instead."`
	List bool   `help:"List the generations instead."`
	JSON bool   `name:"json" help:"Print a generation a line, as JSON."`
}

func (freezeCmd) Help() string {
	return `Makes the state of a base a numbered generation that never changes: ID@N names it in search -b, get, expand, check and list. It costs a hard link a document.

    quarry kb freeze store docs
    quarry kb search store refund -b docs@1
    quarry kb freeze store docs --list
    quarry kb freeze store docs --drop 1

--json prints {"base", "number", "created", "documents", "chunks", "model"}.`
}

// Validate checks the flags.
func (c *freezeCmd) Validate() error {
	if c.Drop < 0 || c.Drop > 0 && c.List {
		return errors.New("--drop: want the number of a generation, and not --list")
	}
	return nil
}

// Run freezes, lists or drops.
func (c *freezeCmd) Run(ctx context.Context, s *session) (err error) {
	if _, err := pick(ctx, c.Store, c.ID); err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.store(ctx, c.Store, !c.List)
	if err != nil {
		return err
	}
	if c.Drop > 0 {
		if err := store.DropGeneration(ctx, c.ID, c.Drop); err != nil || c.JSON {
			return err
		}
		return s.Printf("%s@%d: removed\n", c.ID, c.Drop)
	}
	list, err := store.Generations(ctx, c.ID)
	if !c.List && err == nil {
		g, ferr := store.Freeze(ctx, c.ID)
		list, err = append(list[:0], g), ferr
	}
	if err != nil {
		return err
	}
	for _, g := range list {
		if c.JSON {
			err = s.JSON(g)
		} else {
			err = s.Printf("%s: %s, %s, made %s\n", g.Reference(), console.Count(g.Documents, "document"), console.Count(g.Chunks, "chunk"), g.Created.Format("2006-01-02 15:04"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
