package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

type evalCmd struct {
	Data         string   `required:"" placeholder:"DIR" help:"Folder with corpus.jsonl, queries.jsonl and qrels.tsv (or BEIR's qrels/test.tsv), plain or .gz."`
	Fields       []string `default:"title,text" help:"Parts of a document to index: title, text; joined by a newline into one text field."`
	Analyzer     string   `default:"auto" help:"Analyzer: ${analyzers}; auto goes by --lang, the folder's name, or the corpus."`
	Lang         string   `placeholder:"CODE" help:"Language of the corpus."`
	Mode         string   `enum:"keyword,vector,hybrid" default:"keyword" help:"Search to measure: keyword, vector, hybrid."`
	Vectors      string   `placeholder:"FILE" help:"Vectors of the documents, row i for line i."`
	QueryVectors string   `placeholder:"FILE" help:"Vectors of the queries, row i for line i."`
	Dim          int      `help:"Dimension of vector files that do not say it (.f32, .f16)."`
	Metric       string   `enum:"cos,ip,l2" default:"cos" help:"Metric of the vectors: cos, ip, l2."`
	Fusion       string   `enum:"rrf,weighted" default:"rrf" help:"How hybrid joins its legs: rrf or weighted."`
	Depth        int      `default:"1000" help:"Documents asked for a query, 100 or more."`
	RunFile      string   `name:"run" placeholder:"FILE" help:"Write the rankings as a TREC run file, scores strictly falling."`
	JSON         bool     `name:"json" help:"Print JSON."`
}

func (evalCmd) Help() string {
	return `Builds a real index in a temporary directory and searches it with every query that has a relevant document.

Without --analyzer and --lang, the language is that of a folder named by a language code whose judgements lie in its parent, or else the one whose stop words make up most of a sample of the corpus.

    quarry eval --data scifact --json
    quarry eval --data xquad/de --run de.run
    quarry eval --data scifact --mode hybrid --vectors docs.f32 --query-vectors queries.f32 --dim 384

--json prints {"set", "mode", "docs", "queries", "skipped", "ndcg@10", "map", "recall@100", "mrr@10", "seconds", "analyzer"}.`
}

// evalReport is the result and what it was measured with.
type evalReport struct {
	bench.EvalReport
	Analyzer string `json:"analyzer"`
}

func (r evalReport) String() string { return r.EvalReport.String() + ", analyzer " + r.Analyzer }

// evaluation is one run of eval.
type evaluation struct {
	c          *evalCmd
	collection *bench.Collection
	analyzer   string
	docs       bench.Matrix[float32]
	queries    bench.Matrix[float32]
	rows       map[string]int // query id → row
	snap       *index.Snapshot
}

// Run evaluates.
func (c *evalCmd) Run(ctx context.Context, e *env) (err error) {
	for _, f := range c.Fields {
		if f != "title" && f != "text" {
			return usagef("--fields %q: want title, text or both", f)
		}
	}
	v := &evaluation{c: c}
	if v.collection, err = bench.OpenCollection(c.Data); err != nil {
		return err
	}
	if v.analyzer, err = c.chooseAnalyzer(v.collection); err != nil {
		return err
	}
	if err := v.readVectors(); err != nil {
		return err
	}
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
	config := bench.EvalConfig{Set: v.collection.Name, Mode: c.Mode, Docs: n, Queries: v.collection.Queries, Qrels: v.collection.Qrels,
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
	return e.result(c.JSON, evalReport{r, v.analyzer})
}

func (v *evaluation) readVectors() (err error) {
	c := v.c
	if c.Mode == "keyword" {
		return nil
	}
	if c.Vectors == "" || c.QueryVectors == "" {
		return usagef("--mode %s needs --vectors and --query-vectors", c.Mode)
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

// build indexes the corpus and returns the number of documents.
func (v *evaluation) build(ctx context.Context, dir string) (_ *index.Index, n int, err error) {
	schema := &index.Schema{Text: []index.TextField{{Name: textField, Analyzer: v.analyzer, NotStored: true}}}
	if v.docs.Dim > 0 {
		field := index.VectorField{Name: vectorField, Dim: v.docs.Dim}
		if err := setMetric(&field, "--metric", v.c.Metric); err != nil {
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
	for d, err := range v.collection.Documents() {
		if err != nil {
			return nil, 0, err
		}
		doc := index.Document{ID: d.ID, Text: map[string]string{textField: v.text(d)}}
		if v.docs.Dim > 0 {
			if n >= v.docs.Rows() {
				return nil, 0, fmt.Errorf("%s has %d rows, the corpus has more documents", v.c.Vectors, v.docs.Rows())
			}
			doc.Vectors = map[string][]float32{vectorField: v.docs.Row(n)}
		}
		b.Put(doc)
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
	if v.c.Mode != "vector" {
		query.Text = &index.TextQuery{Text: q.Text}
	}
	if v.c.Mode != "keyword" {
		query.Vector = &index.VectorQuery{Field: vectorField, Vector: v.queries.Row(v.rows[q.ID])}
	}
	if v.c.Fusion == "weighted" {
		query.Fusion.Method = index.Weighted
	}
	r, err := v.snap.Search(ctx, query)
	if err != nil {
		return nil, err
	}
	out := make([]bench.Ranked, len(r.Hits))
	for i := range r.Hits {
		out[i] = bench.Ranked{ID: r.Hits[i].ID, Score: r.Hits[i].Score}
	}
	return out, nil
}

// chooseAnalyzer takes the flags, or the folder's name, or the corpus.
func (c *evalCmd) chooseAnalyzer(collection *bench.Collection) (string, error) {
	if c.Lang != "" || c.Analyzer != "auto" {
		name := c.Analyzer
		if c.Lang != "" && name == "auto" {
			name = ""
		}
		return analyzerFlag(name, c.Lang)
	}
	if code := collection.Name; (len(code) == 2 || len(code) == 3) && !hasQrels(c.Data) {
		return analysis.ForLanguage(code).Name(), nil
	}
	return guessAnalyzer(collection)
}

// hasQrels tells whether a folder has judgements of its own.
func hasQrels(dir string) bool {
	for _, pattern := range []string{"qrels.tsv*", filepath.Join("qrels", "test.tsv*")} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// guessAnalyzer goes by a sample of the corpus, and by the queries where that
// tells nothing: some corpora come with their stop words taken out.
func guessAnalyzer(collection *bench.Collection) (string, error) {
	const sample = 200
	var words []string
	n := 0
	for d, err := range collection.Documents() {
		if err != nil {
			return "", err
		}
		words = append(words, strings.Fields(d.Text)...)
		if n++; n == sample {
			break
		}
	}
	name, err := guessByWords(words)
	if name != "" || err != nil {
		return name, err
	}
	words = words[:0]
	for _, q := range collection.Queries {
		words = append(words, strings.Fields(q.Text)...)
	}
	name, err = guessByWords(words)
	return cmp.Or(name, "standard"), err
}

// guessByWords tells a language: kana is Japanese, other text that is mostly Han
// is Chinese; else it is the one whose stop words are the largest part of the
// words, and "" when none are a tenth.
func guessByWords(words []string) (string, error) {
	if name := guessByScript(words); name != "" {
		return name, nil
	}
	best, most := "", len(words)/10
	for _, name := range analysis.Names() {
		a, err := analysis.New(name)
		if err != nil {
			return "", err
		}
		stops := 0
		for _, w := range words {
			if a.IsStopWord(w) {
				stops++
			}
		}
		if stops > most {
			best, most = name, stops
		}
	}
	return best, nil
}

// guessByScript tells the languages that are written without spaces.
func guessByScript(words []string) string {
	kana, han, letters := 0, 0, 0
	for _, w := range words {
		for _, r := range w {
			switch {
			case unicode.In(r, unicode.Hiragana, unicode.Katakana):
				kana++
			case unicode.Is(unicode.Han, r):
				han++
			case !unicode.IsLetter(r):
				continue
			}
			letters++
		}
	}
	switch {
	case kana*20 > letters:
		return analysis.ForLanguage("ja").Name()
	case han*3 > letters:
		return analysis.ForLanguage("zh").Name()
	}
	return ""
}
