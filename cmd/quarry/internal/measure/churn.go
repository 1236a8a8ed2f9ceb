package measure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

type churnCmd struct {
	vectorSet
	Rounds  int     `default:"10" help:"Full replacements."`
	Batch   int     `default:"1000" help:"Changes at once."`
	Queries int     `default:"200" help:"Queries of a measurement, at most."`
	Recall  float64 `default:"0.95" help:"Recall wanted (target_recall)."`
}

func (churnCmd) Help() string {
	return `Half of the rows are live at a time. In each round every document is replaced, one half of them by an upsert, the other by a delete and an insert under a new id, with the engine's own flushes and merges at work. Then it is merged, and an index is built fresh from what is live, with the same settings.

    quarry bench churn --base base.fvecs --query query.fvecs --json
    quarry bench churn --base b.fvecs --query q.fvecs --rounds 2

--json prints, after the filling, each round, the merge and the fresh build, {"kind": "churn", "engine", "set", "state": "churned", "merged" or "fresh", "round", "live", "segments", "deleted", "bytes", "changes", "seconds", "recall", "avg_us", "p50_us", "p99_us"}. Recall is against an exact scan of what is live.`
}

// Run measures.
func (c *churnCmd) Run(ctx context.Context, e *console.Console) (err error) {
	base, queries, metric, err := c.read()
	if err != nil {
		return err
	}
	dir, remove, err := tempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	n := 0
	open := func(context.Context) (bench.ChurnIndex, error) {
		n++
		return c.open(filepath.Join(dir, strconv.Itoa(n)), base)
	}
	return bench.RunChurn(ctx, bench.ChurnConfig{Engine: c.engine(), Set: c.Set, Base: base, Queries: queries.Head(c.Queries), Metric: metric, K: c.K,
		Rounds: c.Rounds, Batch: c.Batch, Open: open, Report: e.Report(c.JSON)})
}

func (c *churnCmd) open(dir string, base bench.Matrix[float32]) (bench.ChurnIndex, error) {
	s, err := c.schema(base.Dim)
	if err != nil {
		return bench.ChurnIndex{}, err
	}
	ix, err := index.Open(dir, &index.Options{Schema: s, Threads: c.BuildThreads, Sync: storage.SyncNever})
	if err != nil {
		return bench.ChurnIndex{}, err
	}
	b := index.NewBatch()
	return bench.ChurnIndex{
		Apply: func(ctx context.Context, changes []bench.Change) error {
			b.Reset()
			for _, ch := range changes {
				if ch.Row < 0 {
					b.Delete(rowID(ch.ID))
					continue
				}
				b.Put(index.Document{ID: rowID(ch.ID), Vectors: map[string][]float32{vectorField: base.Row(ch.Row)}})
			}
			return ix.Apply(ctx, b)
		},
		Search: func(ctx context.Context, query []float32, k int, dst []int32) ([]int32, error) {
			r, err := ix.Search(ctx, index.Query{K: k, Vector: &index.VectorQuery{Field: vectorField, Vector: query, TargetRecall: c.Recall}})
			if err != nil {
				return dst, err
			}
			return appendRows(dst, r)
		},
		Settle: func(ctx context.Context) error { return ix.Merge(ctx, 1) },
		Size: func() (bench.ChurnSize, error) {
			st, err := ix.Stats()
			if err != nil {
				return bench.ChurnSize{}, err
			}
			if st.LastError != nil {
				return bench.ChurnSize{}, fmt.Errorf("in the background: %s: %w", st.LastError.Stage, st.LastError.Err)
			}
			size, err := dirBytes(dir)
			return bench.ChurnSize{Segments: len(st.Segments), Deleted: st.Deleted, Bytes: size}, err
		},
		Close: ix.Close,
	}, nil
}
