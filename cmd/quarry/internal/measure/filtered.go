package measure

import (
	"context"
	"errors"
	"fmt"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

type filteredCmd struct {
	vectorSet
	Shares  []float64 `placeholder:"50,20,…" help:"Shares of the documents that pass, in percent; default 50, 20, 10, 5, 2, 1, 0.1."`
	Anchors int       `default:"4" help:"Places around which correlated filters lie."`
	PerCell int       `default:"100" help:"Queries of a cell."`
	Passes  int       `default:"3" help:"Timed passes; each query's fastest counts."`
	Recall  float64   `default:"0.95" help:"Recall wanted (target_recall)."`
	Dir     string    `help:"Keep the index here, and use the one that is here; default a temporary one."`
}

func (filteredCmd) Help() string {
	return `Measures each share of documents that pass with each correlation: + what passes lies where the queries are, 0 anywhere, - away from them. A filter is a range of a number: by random, or by the distance from an anchor, one of the queries.

    quarry bench filtered --base base.fvecs --query query.fvecs --json
    quarry bench filtered --base b.fvecs --query q.fvecs --shares 10,1 --per-cell 20

--json prints, for each cell, {"kind": "filtered", "engine", "set", "share", "correlation", "matches", "queries", "k", "recall", "short", "avg_us", "p99_us", "exact_us", "best_us", "best", "to_best", "ways", "chosen"}: short counts queries that got fewer than min(k, matches) hits, ways has {"avg_us", "recall", "short"} of each single way, exact_us is that of comparing every full vector that passes, best_us that of the fastest with recall 0.95 or more, to_best the time as a multiple of it, and chosen the number of queries by the way taken. The ways are exact; flat, graph and two-hop, those among which the engine chooses; and filter after, a walk without the filter whose hits are filtered, widened until they suffice.`
}

// filteredBench is one run of bench filtered.
type filteredBench struct {
	c    *filteredCmd
	snap *index.Snapshot
	grid *bench.Grid
}

// Run measures.
func (c *filteredCmd) Run(ctx context.Context, e *console.Console) (err error) {
	base, queries, metric, err := c.read()
	if err != nil {
		return err
	}
	f := &filteredBench{c: c}
	if f.grid, err = bench.NewGrid(base, queries, metric, c.Anchors); err != nil {
		return err
	}
	dir, remove, err := tempDir(c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var names []string
	for i := range f.grid.Columns {
		names = append(names, column(i))
	}
	s, err := c.schema(base.Dim, names...)
	if err != nil {
		return err
	}
	meta := func(row int) map[string]any {
		m := make(map[string]any, len(names))
		for i, values := range f.grid.Columns {
			m[names[i]] = int64(values[row])
		}
		return m
	}
	if err := c.build(ctx, dir, base, s, meta, e.Stages()); err != nil {
		return err
	}
	ix, err := engine.OpenReader(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	if f.snap, err = ix.Snapshot(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.snap.Close()) }()
	return bench.RunFiltered(ctx, bench.FilteredConfig{Engine: c.engine(), Set: c.Set, Grid: f.grid, Base: base, Queries: queries, Metric: metric, K: c.K, Shares: c.Shares,
		PerCell: c.PerCell, Passes: c.Passes, Search: f.search("", false), Exact: f.search("", true), Singles: f.singles(), Chosen: f.chosen,
		Report: e.Report(c.JSON)})
}

func column(i int) string { return fmt.Sprintf("c%d", i) }

// singles are the ways to search among what passes.
func (f *filteredBench) singles() []bench.Strategy {
	out := []bench.Strategy{{Name: "filter after", Search: f.after}}
	for _, plan := range []string{"flat", "graph", "two-hop"} {
		out = append(out, bench.Strategy{Name: plan, Search: f.search(plan, false)})
	}
	return out
}

func (f *filteredBench) query(query []float32, k int, r bench.Restriction) index.Query {
	return index.Query{K: k, Filter: filter.Lt(column(r.Column), r.Below), Vector: &index.VectorQuery{Field: vectorField, Vector: query, TargetRecall: f.c.Recall}}
}

func (f *filteredBench) search(plan string, exact bool) bench.FilteredSearch {
	return func(ctx context.Context, query []float32, k int, r bench.Restriction, dst []int32) ([]int32, error) {
		q := f.query(query, k, r)
		q.Vector.Plan, q.Vector.Exact = plan, exact
		res, err := f.snap.Search(ctx, q)
		if err != nil {
			return dst, err
		}
		return appendRows(dst, res)
	}
}

// chosen tells by what plan a query is answered.
func (f *filteredBench) chosen(ctx context.Context, query []float32, k int, r bench.Restriction) (string, error) {
	q := f.query(query, k, r)
	q.Explain = true
	res, err := f.snap.Search(ctx, q)
	if err != nil {
		return "", err
	}
	way := ""
	for _, s := range res.Plan.Segments {
		way = max(way, s.Vector) // there is one segment
	}
	return way, nil
}

// after searches without the filter and keeps what passes, wider and wider.
func (f *filteredBench) after(ctx context.Context, query []float32, k int, r bench.Restriction, dst []int32) ([]int32, error) {
	values := f.grid.Columns[r.Column]
	wanted := min(k, r.Below)
	from := len(dst)
	for wide := min(index.MaxK, 2*k*len(values)/r.Below); ; wide = min(2*wide, index.MaxK) {
		res, err := f.snap.Search(ctx, index.Query{K: wide, Vector: &index.VectorQuery{Field: vectorField, Vector: query, TargetRecall: f.c.Recall}})
		if err != nil {
			return dst, err
		}
		rows, err := appendRows(nil, res)
		if err != nil {
			return dst, err
		}
		dst = dst[:from]
		for _, row := range rows {
			if int(values[row]) < r.Below && len(dst)-from < wanted {
				dst = append(dst, row)
			}
		}
		if len(dst)-from == wanted || wide == index.MaxK || wide >= len(values) {
			return dst, nil
		}
	}
}
