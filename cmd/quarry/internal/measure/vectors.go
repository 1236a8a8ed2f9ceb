package measure

import (
	"context"
	"errors"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/index"
)

type vectorsCmd struct {
	vectorSet
	Truth    string `required:"" placeholder:"T.ivecs" help:"Nearest rows of each query; may be of the first queries only. Gzip is read too."`
	Ef       []int  `placeholder:"10,16,…" help:"Widths of the walk to measure; default those of the peer scripts."`
	Passes   int    `default:"3" help:"Timed passes a width; the fastest counts."`
	Parallel []int  `placeholder:"1,2" help:"Numbers of threads to search with at once, at the first width of recall 0.95; default none."`
	Dir      string `help:"Keep the index here, and use the one that is here; default a temporary one."`
}

func (vectorsCmd) Help() string {
	return `Builds an index by the public API (as few batches as fit, merged to one segment), closes it, opens it again, and searches with one thread.

    quarry bench vectors --base base.fvecs --query query.fvecs --truth gt.ivecs --json
    quarry bench vectors --base wink-100/base.fvecs --query wink-100/query.fvecs --truth wink-100/gt.ivecs --parallel 1,2 --json > wink.jsonl

--json prints lines that bench/plot draws and bench/peers prints too, each with "kind", "engine" and "set": "build" with {"m", "build_s", "threads", "vectors", "bytes"}; "open" with {"open_ms", "rss_bytes"}; for each width "curve" with {"m", "ef", "recall", "qps", "distances", "avg_us", "p50_us", "p99_us"}; for each of --parallel "parallel" with {"ef", "threads", "qps", "ratio"}.

rss_bytes is the resident memory of this process after the opening, with the base vectors given back and the queries still held (0 where the system does not tell; bench open has it for a fresh process). distances are codes compared a query, counted in a pass that is not timed.`
}

// vectorBench is one run of bench vectors.
type vectorBench struct {
	c    *vectorsCmd
	dir  string
	base bench.Matrix[float32]
	snap *index.Snapshot

	progress func(stage string, done, total int)
}

// Run measures.
func (c *vectorsCmd) Run(ctx context.Context, e *console.Console) (err error) {
	v := &vectorBench{c: c, progress: e.Stages()}
	base, queries, _, err := c.read()
	if err != nil {
		return err
	}
	v.base = base
	base = bench.Matrix[float32]{} // it is to be given back
	config := bench.VectorConfig{Engine: c.engine(), Set: c.Set, M: c.M, K: c.K, EF: c.Ef, Threads: c.BuildThreads, Parallel: c.Parallel, Passes: c.Passes,
		Queries: queries, Build: v.build, Search: v.search, Count: v.count}
	if config.Truth, err = bench.ReadIvecs(c.Truth); err != nil {
		return err
	}
	dir, remove, err := tempDir(c.Dir)
	if err != nil {
		return err
	}
	v.dir = dir
	defer func() { err = errors.Join(err, remove()) }()
	report := e.Report(c.JSON)
	var ix *index.Index
	defer func() {
		if ix != nil {
			err = errors.Join(err, v.snap.Close(), ix.Close())
		}
	}()
	config.Report = func(line any) error {
		if err := report(line); err != nil {
			return err
		}
		if _, built := line.(bench.VectorBuild); !built {
			return nil
		}
		v.base = bench.Matrix[float32]{}
		var opened openLine
		var err error
		if ix, v.snap, opened, err = openMeasured(v.dir, c.Set); err != nil {
			return err
		}
		return report(opened)
	}
	return bench.RunVectors(ctx, config)
}

// build makes the index, or takes the one that is there.
func (v *vectorBench) build(ctx context.Context) (int, int64, error) {
	s, err := v.c.schema(v.base.Dim)
	if err != nil {
		return 0, 0, err
	}
	if err := v.c.vectorSet.build(ctx, v.dir, v.base, s, nil, v.progress); err != nil {
		return 0, 0, err
	}
	size, err := dirBytes(v.dir)
	return v.base.Rows(), size, err
}

func (v *vectorBench) query(query []float32, k, ef int) index.Query {
	return index.Query{K: k, Vector: &index.VectorQuery{Field: vectorField, Vector: query, Ef: ef}}
}

// search answers one query.
func (v *vectorBench) search(ctx context.Context, query []float32, k, ef int, dst []int32) ([]int32, error) {
	r, err := v.snap.Search(ctx, v.query(query, k, ef))
	if err != nil {
		return dst, err
	}
	return appendRows(dst, r)
}

// count tells what one query computes.
func (v *vectorBench) count(ctx context.Context, query []float32, k, ef int) (n int, err error) {
	q := v.query(query, k, ef)
	q.Explain = true
	r, err := v.snap.Search(ctx, q)
	if err != nil || r.Plan == nil {
		return 0, err
	}
	for _, s := range r.Plan.Segments {
		n += s.Distances
	}
	return n, nil
}
