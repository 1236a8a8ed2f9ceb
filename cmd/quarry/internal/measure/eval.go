package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// Eval is quarry eval.
type Eval struct {
	Data         string    `required:"" placeholder:"DIR" help:"Folder with corpus.jsonl, queries.jsonl and qrels.tsv (or BEIR's qrels/test.tsv), plain or .gz."`
	Fields       []string  `default:"title,text" help:"Parts of a document to index: title, text; joined by a newline into one text field."`
	Analyzer     string    `default:"auto" help:"Analyzer: ${analyzers}; auto goes by --lang, the folder's name, or the corpus."`
	Lang         string    `placeholder:"CODE" help:"Language of the corpus."`
	Mode         string    `enum:"auto,keyword,vector,hybrid,all" default:"auto" help:"Search to measure: keyword, vector, hybrid, or all of them, hybrid by both ways of fusion; auto is hybrid where there are vectors or a model."`
	Vectors      string    `placeholder:"FILE" help:"Vectors of the documents, row i for line i."`
	QueryVectors string    `placeholder:"FILE" help:"Vectors of the queries, row i for line i."`
	Dim          int       `help:"Dimension of vector files that do not say it (.f32, .f16)."`
	Metric       string    `enum:"cos,ip,l2" default:"cos" help:"Metric of the vectors: cos, ip, l2."`
	Fusion       string    `enum:"auto,rrf,weighted" default:"auto" help:"How hybrid joins its legs: rrf or weighted; auto is weighted where the model declares what unrelated texts score, so that both legs' scores mean something."`
	Weights      []float64 `placeholder:"KEYWORD,VECTOR" help:"Weights of the legs, default 1,1."`

	models.Flags

	Cache     string   `placeholder:"DIR" help:"Directory that keeps embeddings, for the next time."`
	Rerank    string   `enum:"none,late" default:"none" help:"Reorder the first 30 hits: late, by the token vectors of the model of --embed, fused with the order of the search."`
	Corpus    string   `placeholder:"FILE" help:"Another file of documents than the folder's corpus.jsonl or docs.jsonl."`
	Qrels     string   `placeholder:"FILE" help:"Other judgements than the folder's."`
	Only      []string `placeholder:"KEY=VALUE" help:"Only documents and queries whose metadata says so."`
	OnlyQuery []string `placeholder:"KEY=VALUE" help:"The same for queries alone, instead of --only."`
	By        string   `placeholder:"KEY" help:"What is judged is not the document but what its metadata names under KEY, at the place of its best document: pages of which the corpus holds chunks."`

	Cross string `placeholder:"LANG" help:"Take the queries of the folder LANG beside the data, such as questions in Chinese for documents in English."`

	Depth   int    `default:"1000" help:"Documents asked for a query, 100 or more."`
	RunFile string `name:"run" placeholder:"FILE" help:"Write the rankings as a TREC run file, scores strictly falling."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// Help is shown by quarry eval --help.
func (Eval) Help() string {
	return `Builds a real index in a temporary directory and searches it with every query that has a relevant document.

Without --analyzer and --lang, the language is that of a folder named by a language code whose judgements lie in its parent, or else the one whose stop words make up most of a sample of the corpus.

    quarry eval --data scifact --json
    quarry eval --data xquad/de --run de.run
    quarry eval --data scifact --mode hybrid --vectors docs.f32 --query-vectors queries.f32 --dim 384
    quarry eval --data scifact --embed e5 --cache embeddings
    quarry eval --data scifact --embed e5 --mode vector --rerank late
    quarry eval --data xquad/en --embed e5 --mode vector --cross zh
    quarry eval --data dify-docs --corpus chunks.jsonl.gz --by doc --only lang=en --embed e5 --mode all
    quarry eval --data dify-docs --corpus chunks.jsonl.gz --by doc --only lang=ja --only-query lang=en --qrels qrels.cross.tsv.gz --embed e5

--corpus and --qrels are looked for in the folder of --data, too. With --mode all there is one line a mode, and the vectors are made once.

--embed makes the vectors itself, of the same parts of a document, cut at the model's limit. How long that took is told on stderr: seconds are those of the searches, with reranking and without embedding queries.

--json prints {"set", "mode", "docs", "queries", "skipped", "ndcg@10", "map", "recall@100", "mrr@10", "seconds", "analyzer"}, with a model also "model", "rerank", "truncated", in mode hybrid "fusion".`
}

// evalReport is the result and what it was measured with.
type evalReport struct {
	bench.EvalReport
	Analyzer  string `json:"analyzer"`
	Model     string `json:"model,omitempty"`
	Fusion    string `json:"fusion,omitempty"` // of mode hybrid
	Rerank    string `json:"rerank,omitempty"`
	Truncated int    `json:"truncated,omitempty"` // documents cut at the model's limit
}

func (r evalReport) String() string {
	s := r.EvalReport.String() + ", analyzer " + r.Analyzer
	if r.Model != "" {
		s += ", model " + r.Model
	}
	if r.Fusion != "" {
		s += ", fusion " + r.Fusion
	}
	if r.Rerank != "" {
		s += ", reranked by " + r.Rerank + " interaction"
	}
	return s
}

// evalRun is one measurement of an evaluation.
type evalRun struct{ mode, fusion string }

// evaluation is one run of eval.
type evaluation struct {
	c          *Eval
	collection *bench.Collection
	only       []condition // of the documents
	analyzer   string
	runs       []evalRun // to measure, in this order
	mode       string    // being measured
	fusion     string
	docs       bench.Matrix[float32]
	blank      []bool // documents without a vector, when a model made them
	queries    bench.Matrix[float32]
	rows       map[string]int // query id → row
	truncated  int
	model      *models.Model
	reranker   rerank.Reranker
	texts      map[string]string // document id → text, for the reranker
	groups     map[string]string // document id → what is judged, with --by
	snap       *index.Snapshot
}

// Run evaluates.
func (c *Eval) Run(ctx context.Context, e *console.Console) (err error) {
	for _, f := range c.Fields {
		if f != "title" && f != "text" {
			return console.Usagef("--fields %q: want title, text or both", f)
		}
	}
	if n := len(c.Weights); n != 0 && n != 2 {
		return console.Usagef("--weights: want two, of the keyword leg and of the vector leg")
	}
	v := &evaluation{c: c}
	if v.collection, v.only, err = c.openCollection(); err != nil {
		return err
	}
	if v.analyzer, err = c.chooseAnalyzer(v.collection, v.only); err != nil {
		return err
	}
	if c.Cross != "" {
		if err := v.cross(); err != nil {
			return err
		}
	}
	if err := v.chooseMode(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close(e)) }()
	if err := v.readVectors(ctx, e); err != nil {
		return err
	}
	return v.run(ctx, e)
}

// run builds the index and measures.
func (v *evaluation) run(ctx context.Context, e *console.Console) (err error) {
	dir, remove, err := tempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	ix, n, err := v.build(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	if v.snap, err = ix.Snapshot(); err != nil {
		return err
	}
	defer v.snap.Close()
	for _, r := range v.runs {
		v.mode, v.fusion = r.mode, r.fusion
		if err := v.measure(ctx, e, n); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the queries in one mode.
func (v *evaluation) measure(ctx context.Context, e *console.Console, docs int) (err error) {
	c := v.c
	config := bench.EvalConfig{Set: v.collection.Name, Mode: v.mode, Docs: docs, Queries: v.collection.Queries, Qrels: v.collection.Qrels,
		Depth: c.Depth, Search: v.search, Tag: engineName}
	if c.RunFile != "" {
		f, err := os.Create(c.RunFile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		config.Run = f
	}
	r, err := bench.RunEval(ctx, config)
	if err != nil {
		return err
	}
	report := evalReport{EvalReport: r, Analyzer: v.analyzer, Truncated: v.truncated}
	if v.mode == "hybrid" {
		report.Fusion = v.fusion
		if v.fusion == "auto" {
			report.Fusion = "rrf"
			if v.model != nil && v.model.Identity().Floor > 0 {
				report.Fusion = "weighted"
			}
		}
	}
	if v.model != nil {
		report.Model = v.model.Identity().Name
	}
	if v.reranker != nil {
		report.Rerank = c.Rerank
	}
	return e.Result(c.JSON, report)
}

// cross takes the queries of another language's folder.
func (v *evaluation) cross() error {
	other, err := bench.OpenCollection(filepath.Join(v.c.Data, "..", v.c.Cross))
	if err != nil {
		return fmt.Errorf("--cross %s: %w", v.c.Cross, err)
	}
	v.collection.Queries = other.Queries
	v.collection.Name = other.Name + "-" + v.collection.Name
	return nil
}

// chooseMode settles what is measured, and with what.
func (v *evaluation) chooseMode() error {
	c := v.c
	files := c.Vectors != "" || c.QueryVectors != ""
	mode := c.Mode
	if mode == "auto" {
		if mode = "keyword"; files || c.Embed != "" {
			mode = "hybrid"
		}
	}
	v.runs = []evalRun{{mode, c.Fusion}}
	if mode == "all" {
		v.runs = []evalRun{{"keyword", ""}, {"vector", ""}, {"hybrid", "rrf"}, {"hybrid", "weighted"}}
	}
	switch {
	case files && c.Embed != "":
		return console.Usagef("--embed makes the vectors that --vectors and --query-vectors give: leave one out")
	case c.Cross != "" && files:
		return console.Usagef("--cross needs --embed: the vectors are of the folder's own queries")
	case c.Rerank != "none" && c.Embed == "":
		return console.Usagef("--rerank %s needs the model of --embed", c.Rerank)
	case c.Cache != "" && c.Embed == "":
		return console.Usagef("--cache is for --embed")
	case mode != "keyword" && c.Embed == "" && (c.Vectors == "" || c.QueryVectors == ""):
		return console.Usagef("--mode %s needs --vectors and --query-vectors, or --embed", mode)
	case mode == "all" && c.RunFile != "":
		return console.Usagef("--run takes one mode")
	case len(v.only) > 0 && files:
		return console.Usagef("--only needs --embed: the vectors are of the whole corpus")
	}
	return nil
}

func (v *evaluation) needsVectors() bool { return v.runs[0].mode != "keyword" || len(v.runs) > 1 }

func (v *evaluation) close(e *console.Console) error {
	if v.model == nil {
		return nil
	}
	return v.model.CloseNoting(e.Notef)
}

func (v *evaluation) readVectors(ctx context.Context, e *console.Console) (err error) {
	c := v.c
	if c.Embed != "" {
		return v.embed(ctx, e)
	}
	if !v.needsVectors() {
		return nil
	}
	if v.docs, err = bench.ReadVectors(c.Vectors, c.Dim); err != nil {
		return err
	}
	if v.queries, err = bench.ReadVectors(c.QueryVectors, v.docs.Dim); err != nil {
		return err
	}
	if n := len(v.collection.Queries); v.queries.Rows() < n {
		return fmt.Errorf("%s has %d rows, there are %d queries", c.QueryVectors, v.queries.Rows(), n)
	}
	v.rows = make(map[string]int, len(v.collection.Queries))
	for i, q := range v.collection.Queries {
		v.rows[q.ID] = i
	}
	return nil
}

// embed makes the vectors by a model, and the reranker.
func (v *evaluation) embed(ctx context.Context, e *console.Console) (err error) {
	c := v.c
	if v.model, err = c.Open(ctx, "", c.Cache); err != nil {
		return err
	}
	if c.Rerank == "late" {
		t := v.model.Tokens()
		if t == nil {
			return console.Usagef("--rerank late: %s gives no token vectors", c.Embed)
		}
		if v.reranker, err = rerank.LateInteraction(t, rerank.LateOptions{}); err != nil {
			return err
		}
		v.texts = map[string]string{}
	}
	var docs, queries []string
	for d, err := range documents(v.collection, v.only) {
		if err != nil {
			return err
		}
		docs = append(docs, v.text(d))
		if v.texts != nil {
			v.texts[d.ID] = docs[len(docs)-1]
		}
	}
	if !v.needsVectors() {
		return nil
	}
	v.rows = map[string]int{}
	for _, q := range v.collection.Queries {
		if len(v.collection.Qrels[q.ID]) > 0 {
			v.rows[q.ID] = len(queries)
			queries = append(queries, q.Text)
		}
	}
	start := time.Now()
	d, err := v.vectors(ctx, e, embed.Passage, docs)
	if err != nil {
		return fmt.Errorf("%s: %w", v.collection.CorpusFile, err)
	}
	q, err := v.vectors(ctx, e, embed.Query, queries)
	if err != nil {
		return fmt.Errorf("queries: %w", err)
	}
	v.docs, v.blank = bench.Matrix[float32]{Dim: d.Dim, Data: d.Data}, d.Blank
	v.queries = bench.Matrix[float32]{Dim: q.Dim, Data: q.Data}
	for _, cut := range d.Truncated {
		if cut {
			v.truncated++
		}
	}
	e.Notef("embedded %d documents (%d cut at the model's limit) and %d queries in %.1f s, %d from the cache",
		len(docs), v.truncated, len(queries), time.Since(start).Seconds(), v.model.Hits())
	return nil
}

func (v *evaluation) vectors(ctx context.Context, e *console.Console, kind embed.Kind, texts []string) (*models.Vectors, error) {
	var step func(int)
	if show := e.Stages(); show != nil {
		step = func(done int) { show("embedding "+kind.String(), done, len(texts)) }
	}
	return v.model.Texts(ctx, kind, texts, step)
}

// build indexes the corpus and returns the number of documents.
func (v *evaluation) build(ctx context.Context, dir string) (_ *index.Index, n int, err error) {
	schema := &index.Schema{Text: []index.TextField{{Name: textField, Analyzer: v.analyzer, NotStored: true}}}
	if v.docs.Dim > 0 {
		field := index.VectorField{Name: vectorField, Dim: v.docs.Dim}
		if err := engine.SetMetric(&field, "--metric", v.c.Metric); err != nil {
			return nil, 0, err
		}
		schema.Vectors = []index.VectorField{field}
	}
	ix, err := index.Open(dir, &index.Options{Schema: schema, Sync: storage.SyncNever, NoBackground: true})
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ix.Close())
		}
	}()
	b := index.NewBatch()
	for d, err := range documents(v.collection, v.only) {
		if err != nil {
			return nil, 0, err
		}
		doc := index.Document{ID: d.ID, Text: map[string]string{textField: v.text(d)}}
		if v.docs.Dim > 0 && (v.blank == nil || !v.blank[n]) {
			if n >= v.docs.Rows() {
				return nil, 0, fmt.Errorf("%s has %d rows, the corpus has more documents", v.c.Vectors, v.docs.Rows())
			}
			doc.Vectors = map[string][]float32{vectorField: v.docs.Row(n)}
		}
		b.Put(doc)
		if err := v.group(d); err != nil {
			return nil, 0, err
		}
		if n++; b.Len() == 10_000 {
			if err := ix.Apply(ctx, b); err != nil {
				return nil, 0, err
			}
			b.Reset()
		}
	}
	if err := ix.Apply(ctx, b); err != nil {
		return nil, 0, err
	}
	return ix, n, ix.Merge(ctx, 1)
}

// group notes what a document is judged as.
func (v *evaluation) group(d bench.Document) error {
	if v.c.By == "" {
		return nil
	}
	of, ok := d.Metadata[v.c.By].(string)
	if !ok || of == "" {
		return fmt.Errorf("%s: document %q: --by %s: its metadata has no such text", v.collection.CorpusFile, d.ID, v.c.By)
	}
	if v.groups == nil {
		v.groups = map[string]string{}
	}
	v.groups[d.ID] = of
	return nil
}

// grouped ranks what is judged, each at the place of its best document.
func (v *evaluation) grouped(hits []bench.Ranked) []bench.Ranked {
	if v.groups == nil {
		return hits
	}
	seen := map[string]bool{}
	out := hits[:0]
	for _, h := range hits {
		if h.ID = v.groups[h.ID]; !seen[h.ID] {
			seen[h.ID] = true
			out = append(out, h)
		}
	}
	return out
}

func (v *evaluation) text(d bench.Document) string {
	parts := make([]string, 0, len(v.c.Fields))
	for _, f := range v.c.Fields {
		if f == "title" {
			parts = append(parts, d.Title)
		} else {
			parts = append(parts, d.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// search answers one query.
func (v *evaluation) search(ctx context.Context, q bench.Query, depth int) ([]bench.Ranked, error) {
	query := index.Query{K: depth, Depth: depth}
	if v.mode != "vector" {
		query.Text = &index.TextQuery{Text: q.Text}
	}
	if v.mode != "keyword" {
		query.Vector = &index.VectorQuery{Field: vectorField, Vector: v.queries.Row(v.rows[q.ID])}
		if v.model != nil {
			query.Vector.Floor = v.model.Identity().Floor
		}
	}
	if w := v.c.Weights; v.mode == "hybrid" && len(w) == 2 {
		query.Text.Weight, query.Vector.Weight = w[0], w[1]
	}
	query.Fusion.Method = engine.FusionMethod(v.fusion, query.Vector)
	r, err := v.snap.Search(ctx, query)
	if err != nil {
		return nil, err
	}
	out := make([]bench.Ranked, len(r.Hits))
	for i := range r.Hits {
		out[i] = bench.Ranked{ID: r.Hits[i].ID, Score: r.Hits[i].Score}
	}
	if v.reranker != nil {
		if err := v.rerank(ctx, q.Text, out); err != nil {
			return nil, err
		}
	}
	return v.grouped(out), nil
}

// rerankTop is how many hits are reranked.
const rerankTop = 30

// rerank puts the first hits in the reranker's order. The scores stay where
// they are: they only say that the order falls.
func (v *evaluation) rerank(ctx context.Context, query string, hits []bench.Ranked) error {
	top := slices.Clone(hits[:min(rerankTop, len(hits))])
	passages := make([]string, len(top))
	for i, h := range top {
		passages[i] = v.texts[h.ID]
	}
	o, err := rerank.Apply(ctx, v.reranker, query, passages, 0, rerank.Fail)
	if err != nil {
		return err
	}
	for i, r := range o.Ranked {
		hits[i].ID = top[r.Index].ID
	}
	return nil
}
