package measure

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/index"
)

type coldCmd struct {
	engine.FilesArg
	Query       string  `required:"" placeholder:"Q.fvecs" help:"Query vectors."`
	VectorField string  `placeholder:"NAME" help:"Vector field; default the one there is."`
	First       int     `default:"100" help:"Queries that are timed."`
	Passes      int     `default:"3" help:"Starts."`
	K           int     `name:"k" default:"10" help:"Hits a query."`
	Recall      float64 `default:"0.95" help:"Recall wanted (target_recall)."`
	Set         string  `placeholder:"NAME" help:"Name of the set, for the report; default the index's folder."`
	JSON        bool    `name:"json" help:"Print JSON lines."`
}

func (coldCmd) Help() string {
	return `Throws the files of an index out of the page cache (Linux: posix_fadvise, after a sync), opens it, and asks, each query once. Nobody else may have it open: pages that are mapped stay.

    quarry bench vectors --base base.fvecs --query query.fvecs --truth gt.ivecs --dir idx
    quarry bench cold idx --query query.fvecs --json

--json prints, for each start, {"kind": "cold", "engine", "set", "open_ms", "first_ms", "queries", "avg_us", "p50_us", "p99_us", "disk_bytes"}. disk_bytes are those fetched from disk meanwhile: with none the start was not cold.`
}

// Run measures.
func (c *coldCmd) Run(ctx context.Context, e *console.Console) error {
	ix, err := engine.OpenReader(c.Dir)
	if err != nil {
		return err
	}
	schema := ix.Schema()
	if err := ix.Close(); err != nil {
		return err
	}
	dim := 0
	for _, f := range schema.Vectors {
		if c.VectorField == "" && len(schema.Vectors) == 1 || f.Name == c.VectorField {
			c.VectorField, dim = f.Name, f.Dim
		}
	}
	if dim == 0 {
		return console.Usagef("--vector-field %q: want one of the index's vector fields", c.VectorField)
	}
	queries, err := bench.ReadVectors(c.Query, dim)
	if err != nil {
		return err
	}
	if c.Set == "" {
		c.Set = filepath.Base(filepath.Clean(c.Dir))
	}
	return bench.RunCold(ctx, bench.ColdConfig{Engine: engineName, Set: c.Set, Queries: queries, K: c.K, First: c.First, Passes: c.Passes,
		Drop: func() error { return dropAll(c.Dir) }, Read: diskBytes, Open: c.open, Report: e.Report(c.JSON)})
}

func (c *coldCmd) open(context.Context) (bench.ColdIndex, error) {
	ix, err := engine.OpenReader(c.Dir)
	if err != nil {
		return bench.ColdIndex{}, err
	}
	snap, err := ix.Snapshot()
	if err != nil {
		return bench.ColdIndex{}, errors.Join(err, ix.Close())
	}
	return bench.ColdIndex{
		Search: func(ctx context.Context, query []float32, k int) error {
			_, err := snap.Search(ctx, index.Query{K: k, Vector: &index.VectorQuery{Field: c.VectorField, Vector: query, TargetRecall: c.Recall}})
			return err
		},
		Close: func() error { return errors.Join(snap.Close(), ix.Close()) },
	}, nil
}

// dropAll throws all files below a folder out of the page cache.
func dropAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return dropFile(path)
	})
}
