package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

type hybridCmd struct {
	Folder   string   `arg:"" help:"Folder with base and query (.fvecs, .f16, .f32), rows.jsonl and, for the recall, gt.ivecs; plain or .gz."`
	Texts    string   `placeholder:"DIR" help:"Folder with the corpora that rows.jsonl names, one folder each; default the one above."`
	Dim      int      `default:"384" help:"Dimension of files that do not say it (.f32, .f16)."`
	Metric   string   `enum:"ip,cos,l2" default:"cos" help:"Metric: cos, ip or l2."`
	Analyzer string   `default:"standard" help:"Analyzer: ${analyzers}."`
	Filter   []string `sep:"none" placeholder:"EXPR" help:"Filter to measure with too, such as 'set = tldr'; may be repeated. Default the largest set."`
	Mode     []string `enum:"hybrid,keyword,vector" default:"hybrid,keyword,vector" help:"Modes to measure: hybrid, keyword, vector."`
	Words    int      `default:"5" help:"Words of a query row's text that are the query's."`
	Recall   float64  `default:"0.95" help:"Recall wanted of the vector leg (target_recall)."`
	Depth    int      `default:"100" help:"Hits each leg gives to the fusion."`
	Passes   int      `default:"5" help:"Timed passes; each query's fastest counts."`
	Threads  int      `default:"1" placeholder:"N" help:"Threads of a search: with 2 the legs run side by side on one snapshot."`
	K        int      `name:"k" default:"10" help:"Hits a query."`
	Dir      string   `help:"Keep the index here, and use the one that is here; default a temporary one."`
	JSON     bool     `name:"json" help:"Print JSON lines."`
}

func (hybridCmd) Help() string {
	return `Indexes vectors together with their texts and searches by both, joined by rank (RRF). Line i of rows.jsonl tells the text of vector i, queries before base: {"set", "id", "start"}, the piece from that character on of a document in DIR/SET, or {"set", "text"}. The set is metadata to filter by. A query's text is the first words of its row: what spaces and punctuation separate, and where a script writes without spaces (Chinese, Japanese but for Katakana, Thai, Lao, Khmer, Burmese) each character, as Unicode has it (UAX 29).

    quarry bench hybrid data/minilm-90k --json
    quarry bench hybrid data/minilm-90k --filter 'set = scifact' --threads 2

--json prints, for each mode without a filter and with each of them, {"kind": "hybrid", "engine", "set", "mode", "filter", "threads", "k", "depth", "queries", "hits", "recall", "avg_us", "p50_us", "p99_us"}; recall is that of the vector leg, where there is a gt.ivecs.`
}

const (
	setField  = "set"
	textField = "text"
)

// hybridBench is one run of bench hybrid.
type hybridBench struct {
	c       *hybridCmd
	queries bench.Matrix[float32]
	words   []string // of the queries
	filters map[string]filter.Filter
	snap    *index.Snapshot
}

// Run measures.
func (c *hybridCmd) Run(ctx context.Context, e *console.Console) (err error) {
	if c.Threads < 1 || c.Words < 1 {
		return console.Usagef("--threads %d, --words %d: want 1 or more", c.Threads, c.Words)
	}
	if err := engine.CheckAnalyzer("--analyzer", c.Analyzer); err != nil {
		return err
	}
	h := &hybridBench{c: c, filters: map[string]filter.Filter{}}
	base, rows, truth, err := h.read()
	if err != nil {
		return err
	}
	filters, err := h.parseFilters(rows[h.queries.Rows():])
	if err != nil {
		return err
	}
	dir, remove, err := tempDir(c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := h.build(ctx, dir, base, rows[h.queries.Rows():], e.Stages()); err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.Threads))
	ix, err := index.Open(dir, &index.Options{ReadOnly: true, Threads: c.Threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	if h.snap, err = ix.Snapshot(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.snap.Close()) }()
	return bench.RunHybrid(ctx, bench.HybridConfig{Engine: engineName, Set: filepath.Base(filepath.Clean(c.Folder)), Queries: h.queries.Rows(), K: c.K, Passes: c.Passes,
		Depth: c.Depth, Threads: c.Threads, Modes: c.Mode, Filters: append([]string{""}, filters...), Truth: truth, Search: h.search, Report: e.Report(c.JSON)})
}

// read reads the folder.
func (h *hybridBench) read() (base bench.Matrix[float32], rows []joinedRow, truth bench.Matrix[int32], err error) {
	folder := h.c.Folder
	vectors := func(name string) (bench.Matrix[float32], error) {
		file, err := oneOf(folder, name+".fvecs", name+".f16", name+".f32")
		if err != nil {
			return bench.Matrix[float32]{}, err
		}
		dim := h.c.Dim
		if strings.Contains(file, ".fvecs") {
			dim = 0
		}
		return bench.ReadVectors(file, dim)
	}
	if base, err = vectors("base"); err != nil {
		return base, nil, truth, err
	}
	if h.queries, err = vectors("query"); err != nil {
		return base, nil, truth, err
	}
	if file, ferr := oneOf(folder, "gt.ivecs"); ferr == nil {
		if truth, err = bench.ReadIvecs(file); err != nil {
			return base, nil, truth, err
		}
	}
	texts := h.c.Texts
	if texts == "" {
		texts = filepath.Join(folder, "..")
	}
	if rows, err = readJoined(folder, texts); err != nil {
		return base, nil, truth, err
	}
	if len(rows) != h.queries.Rows()+base.Rows() {
		return base, nil, truth, fmt.Errorf("%s: %d lines of rows.jsonl, %d queries and %d vectors", folder, len(rows), h.queries.Rows(), base.Rows())
	}
	for _, r := range rows[:h.queries.Rows()] {
		h.words = append(h.words, firstWords(r.text, h.c.Words))
	}
	return base, rows, truth, nil
}

// parseFilters reads the filters, or takes the largest set.
func (h *hybridBench) parseFilters(rows []joinedRow) ([]string, error) {
	exprs := h.c.Filter
	if len(exprs) == 0 {
		counts, most := map[string]int{}, ""
		for _, r := range rows {
			if counts[r.set]++; counts[r.set] > counts[most] || counts[r.set] == counts[most] && r.set < most {
				most = r.set
			}
		}
		exprs = []string{fmt.Sprintf("%s = %q", setField, most)}
	}
	for _, expr := range exprs {
		f, err := filter.Parse(expr)
		if err != nil {
			return nil, fmt.Errorf("--filter: %w", err)
		}
		h.filters[expr] = f
	}
	return exprs, nil
}

// build indexes the rows, or takes the index that is there.
func (h *hybridBench) build(ctx context.Context, dir string, base bench.Matrix[float32], rows []joinedRow, progress func(string, int, int)) (err error) {
	field := index.VectorField{Name: vectorField, Dim: base.Dim}
	if err := engine.SetMetric(&field, "--metric", h.c.Metric); err != nil {
		return err
	}
	ix, err := index.Open(dir, &index.Options{NoBackground: true, Sync: storage.SyncNever, Progress: progress, Schema: &index.Schema{
		Text:    []index.TextField{{Name: textField, Analyzer: h.c.Analyzer, NotStored: true}},
		Vectors: []index.VectorField{field},
		Meta:    map[string]filter.Type{setField: filter.Keyword},
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	st, err := ix.Stats()
	if err != nil {
		return err
	}
	if st.Documents > 0 {
		if st.Documents != base.Rows() {
			return fmt.Errorf("%s holds %d documents, there are %d rows: %w", dir, st.Documents, base.Rows(), fs.ErrInvalid)
		}
		return nil
	}
	b := index.NewBatch()
	for i, r := range rows {
		b.Put(index.Document{ID: rowID(i), Text: map[string]string{textField: r.text}, Vectors: map[string][]float32{vectorField: base.Row(i)}, Meta: map[string]any{setField: r.set}})
	}
	if err := ix.Apply(ctx, b); err != nil {
		return err
	}
	return ix.Merge(ctx, 1)
}

// search answers one query.
func (h *hybridBench) search(ctx context.Context, i int, mode, expr string, dst []int32) ([]int32, error) {
	q := index.Query{K: h.c.K, Depth: h.c.Depth, Filter: h.filters[expr]}
	if mode != bench.ModeVector {
		q.Text = &index.TextQuery{Text: h.words[i]}
	}
	if mode != bench.ModeKeyword {
		q.Vector = &index.VectorQuery{Field: vectorField, Vector: h.queries.Row(i), TargetRecall: h.c.Recall}
	}
	r, err := h.snap.Search(ctx, q)
	if err != nil {
		return dst, err
	}
	return appendRows(dst, r)
}
