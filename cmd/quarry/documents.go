package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

type getCmd struct {
	engine.IndexArg
	IDs     []string `arg:"" name:"id" help:"Ids of documents."`
	Vectors bool     `help:"Print the vectors too."`
	JSON    bool     `name:"json" help:"One document a line; otherwise indented."`
}

func (getCmd) Help() string {
	return `Prints {"id", "text": {field: text}, "vectors": {field: [numbers]}, "meta": {field: value}} for each id, in the order given; an id that is not there is an error, after the others.

    quarry get idx pages/common/tar`
}

// Run prints documents.
func (c *getCmd) Run(ctx context.Context, e *console.Console) error {
	ix, err := c.Reader(ctx)
	if err != nil {
		return err
	}
	defer ix.Close() // opened for reading: nothing to lose
	s, err := ix.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var missing error
	for _, id := range c.IDs {
		d, err := s.Get(ctx, id)
		if errors.Is(err, index.ErrNotFound) {
			missing = errors.Join(missing, err)
			continue
		}
		if err != nil {
			return err
		}
		if !c.Vectors {
			d.Vectors = nil
		}
		enc := json.NewEncoder(e.Stdout)
		enc.SetEscapeHTML(false)
		if !c.JSON {
			enc.SetIndent("", "  ")
		}
		if err := enc.Encode(d); err != nil {
			return err
		}
	}
	return missing
}

type deleteCmd struct {
	engine.IndexArg
	IDs    []string `arg:"" name:"id" optional:"" help:"Ids of documents; one that is not there is no error."`
	Where  string   `placeholder:"EXPR" help:"Delete what matches a filter."`
	DryRun bool     `help:"Only count."`
	JSON   bool     `name:"json" help:"Print the result as JSON."`
}

func (deleteCmd) Help() string {
	return `All of it happens at once or not at all, but for a collection of a cluster.

    quarry delete idx page-1 page-2
    quarry delete idx --where 'platform = "android" and updated < 2020-01-01' --dry-run

--json prints {"deleted", "dry_run"}.`
}

type deleteResult struct {
	Deleted int  `json:"deleted"`
	DryRun  bool `json:"dry_run"`
}

func (r deleteResult) String() string {
	if r.DryRun {
		return console.Count(r.Deleted, "document") + " would be deleted"
	}
	return console.Count(r.Deleted, "document") + " deleted"
}

// Run deletes documents.
func (c *deleteCmd) Run(ctx context.Context, e *console.Console) (err error) {
	if (len(c.IDs) > 0) == (c.Where != "") {
		return console.Usagef("delete: give either ids or --where")
	}
	b := index.NewBatch()
	var f filter.Filter
	if c.Where != "" {
		if f, err = filter.Parse(c.Where); err != nil {
			return err
		}
		b.DeleteWhere(f)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(c.IDs)))
	for _, id := range ids {
		b.Delete(id)
	}
	ix, err := c.Open(ctx, &index.Options{ReadOnly: c.DryRun, MustExist: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	// In a directory nobody else writes: what is counted here is what the batch deletes.
	r := deleteResult{DryRun: c.DryRun}
	if r.Deleted, err = registry.CountMatches(ctx, ix, ids, f); err != nil {
		return err
	}
	if !c.DryRun {
		if err := ix.Apply(ctx, b); err != nil {
			return err
		}
	}
	return e.Result(c.JSON, r)
}
