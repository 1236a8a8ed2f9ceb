package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

type searchCmd struct {
	engine.IndexArg
	Query []string `arg:"" optional:"" help:"Words to search for; never read as a syntax."`

	Mode   string `enum:"auto,keyword,vector,hybrid" default:"auto" help:"Legs to run: keyword, vector, hybrid; auto takes what is given, and meaning beside words where the index has a model."`
	K      int    `name:"k" short:"k" default:"10" help:"Hits wanted; 0 only counts."`
	Offset int    `help:"Hits to skip."`
	After  string `placeholder:"CURSOR" help:"Continue behind an earlier page (its next)."`
	Filter string `short:"f" placeholder:"EXPR" help:"Only documents that match, such as 'lang = \"de\" and created >= 2024-01-01'."`

	Field     []string `placeholder:"NAME[^BOOST]" help:"Text fields to search; default all, as boosted in the schema."`
	And       bool     `help:"Every word must occur."`
	AtLeast   int      `placeholder:"N" help:"At least N of the words must occur; default 1."`
	Phrase    bool     `help:"The words must stand in this order, next to each other."`
	Slop      int      `help:"With --phrase: at most this many positions apart."`
	Prefix    bool     `help:"The last word is the start of one."`
	Syntax    bool     `name:"query-string" help:"Read the words as a query: title:foo \"exact phrase\"~2 -bar +baz fo* fuzzy~1 (a OR b)^2. What is no syntax is taken for text, with a note."`
	Highlight []string `placeholder:"NAME" help:"Text fields to mark matches in; default all stored ones, none with --json."`

	VectorField  string   `placeholder:"NAME" help:"Vector field; may be left out when there is one."`
	VectorFile   string   `placeholder:"FILE" help:"File with the query vector (.f32, .f16, .fvecs)."`
	Row          int      `help:"Row of --vector-file, from 0."`
	Ef           int      `help:"Width of the graph walk; default: as calibrated for --target-recall."`
	TargetRecall float64  `placeholder:"0.95" help:"Recall@10 wanted where --ef is not given."`
	Exact        bool     `help:"Scan every vector."`
	Within       *float64 `placeholder:"RAW" help:"Only hits of the vector leg whose raw value is no worse: the least cosine or dot product, the greatest squared distance."`

	Sparse      string `placeholder:"JSON" help:"Sparse query vector, weights by term: '{\"12\": 0.5}'. A leg of its own, joined with the others that are given."`
	SparseField string `placeholder:"NAME" help:"Sparse field; may be left out when there is one."`

	models.Flags

	Fusion       string    `enum:"auto,rrf,weighted" default:"auto" help:"How hybrid joins its legs: rrf or weighted; auto is weighted where the model declares what unrelated texts score, so that both legs' scores mean something."`
	RankConstant int       `placeholder:"60" help:"Rank constant of rrf."`
	Weights      []float64 `placeholder:"KEYWORD,VECTOR" help:"Weights of the legs given, in the order keyword, vector, sparse; default 1 each."`
	Depth        int       `help:"Hits each leg gives to the fusion, default 100."`
	MinScore     float64   `help:"Drop hits with a lower score."`

	Group     string `placeholder:"NAME" help:"Group the hits by the values of a metadata field; -k is the number of groups."`
	GroupSize int    `default:"3" placeholder:"N" help:"Hits of a group."`

	Facet   []string `placeholder:"NAME[:N]" help:"Count the values of metadata, the N most frequent (10)."`
	Fields  []string `placeholder:"NAME" help:"Fields to show; '*' is all."`
	Count   bool     `default:"true" negatable:"" help:"Count the matching documents."`
	Explain bool     `help:"Show the plan and how each score came about."`
	Why     string   `placeholder:"ID" help:"Tell where a document was lost, or its rank."`
	JSON    bool     `name:"json" help:"Print the result as JSON."`
}

func (searchCmd) Help() string {
	return `Opens the index read-only: a writer may be at work beside it.

    quarry search idx how to deploy
    quarry search idx archive files --filter 'lang = "de" and platform in [linux, osx]' --facet platform
    quarry search idx "zero downtime" --phrase --field text
    quarry search idx deploy --vector-file q.f32 --row 3 --filter 'tags contains any ["CLI"]'
    quarry search idx --vector-file q.f32 --within 0.8 -k 1000
    quarry search idx --filter 'created between 2024-01-01 and 2024-06-30' -k 100
    quarry search idx --query-string 'title:river "old bank"~2 -money strase~'
    quarry search idx --sparse '{"2181": 1.4, "3976": 0.8}' --sparse-field splade
    quarry search idx archive --group platform --group-size 2

An index that was imported with --embed is searched by words and by meaning: the query is embedded by the model that DIR.embed.json records, or, where that is somewhere else now, by the one --embed names, which must be the same. --mode keyword does without and loads no model; so do demands on words (--phrase, --and, --at-least, --prefix, --field), unless --mode hybrid is given too.

A filter knows = != < <= > >=, in […], between … and …, prefix, contains any […], contains all […], exists FIELD, is null, is empty, and, or, not and parentheses. Without words and vector it lists what matches, by id. Put -- before words that start with a dash.

--json prints one object: {"hits": [{"id", "score", "score_kind", "keyword", "vector", "sparse": {"rank", "raw", "score"}, "fields", "highlights", "explanation"}], "total", "next", "facets", "plan", "notes", "elapsed_ns"}; total is -1 with --no-count. With --group the hits stand in "groups": [{"value", "hits"}].`
}

// Run searches.
func (c *searchCmd) Run(ctx context.Context, e *console.Console) error {
	ix, err := c.Reader(ctx)
	if err != nil {
		return err
	}
	defer ix.Close() // opened for reading: nothing to lose
	schema, err := ix.Schema(ctx)
	if err != nil {
		return err
	}
	q, err := c.query(ctx, e, &schema)
	if err != nil {
		return err
	}
	title := ""
	if !c.JSON {
		title = titleField(&schema)
		if title != "" && !slices.Contains(q.Fields, "*") && !slices.Contains(q.Fields, title) {
			q.Fields = append(q.Fields, title)
		}
	}
	r, err := ix.Search(ctx, q)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.JSON(r)
	}
	v := view{Console: e, title: title, first: c.Offset + 1, facets: facetNames(q.Facets), extra: c.Fields, explain: c.Explain}
	if err := v.results(r); err != nil {
		return err
	}
	if c.K > 0 && len(r.Hits) == 0 && len(r.Groups) == 0 && q.Text != nil {
		if err := didYouMean(ctx, e, ix, &schema, strings.Join(c.Query, " ")); err != nil {
			return err
		}
	}
	if c.Why != "" && r.Plan != nil {
		return e.Printf("%s: %s\n", show.Line(c.Why, 0), show.Line(r.Plan.Lost, 0))
	}
	return nil
}

// query makes the engine's query of the flags.
func (c *searchCmd) query(ctx context.Context, e *console.Console, schema *index.Schema) (index.Query, error) {
	q := index.Query{K: c.K, Offset: c.Offset, After: c.After, Depth: c.Depth, MinScore: c.MinScore,
		Fields: c.Fields, Count: c.Count, Explain: c.Explain || c.Why != "", ExplainID: c.Why}
	q.Fusion.RankConstant = c.RankConstant
	if c.Group != "" {
		q.Group = &index.GroupRequest{Field: c.Group, Size: c.GroupSize}
	}
	if c.Filter != "" {
		f, err := filter.Parse(c.Filter)
		if err != nil {
			return q, err
		}
		q.Filter = f
	}
	var err error
	if q.Facets, err = parseFacets(c.Facet); err != nil {
		return q, err
	}
	record, err := c.record(schema)
	if err != nil {
		return q, err
	}
	keyword, vector, err := c.legs(record != nil)
	if err != nil {
		return q, err
	}
	if keyword {
		if q.Text, err = c.textQuery(); err != nil {
			return q, err
		}
		q.Highlight = c.Highlight
		if len(q.Highlight) == 0 && !c.JSON {
			q.Highlight = storedTexts(schema)
		}
	}
	if c.Within != nil && !vector {
		return q, console.Usagef("--within is for a search with a vector")
	}
	if vector {
		if q.Vector, err = c.vectorQuery(ctx, e, schema, record); err != nil {
			return q, err
		}
	}
	if c.Sparse != "" {
		q.Sparse = &index.SparseQuery{Field: c.SparseField}
		if err := json.Unmarshal([]byte(c.Sparse), &q.Sparse.Vector); err != nil {
			return q, fmt.Errorf("--sparse: %w", err)
		}
	}
	q.Fusion.Method = engine.FusionMethod(c.Fusion, q.Vector)
	return q, c.setWeights(&q)
}

// record finds the model that is to embed the query, nil when none is.
func (c *searchCmd) record(schema *index.Schema) (*models.Record, error) {
	switch {
	case c.Embed == models.None || c.Mode == "keyword" || c.VectorFile != "" || len(c.Query) == 0:
		return nil, nil
	case c.Mode == "auto" && (c.Phrase || c.And || c.AtLeast > 0 || c.Prefix || c.Syntax || len(c.Field) > 0):
		return nil, nil
	}
	r, err := recordOf(c.Dir, schema)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w (--mode keyword does without)", err)
	case r == nil && c.Embed != "":
		return nil, console.Usagef("--embed: %s has no embeddings of a model on record", c.Dir)
	case r != nil && c.VectorField != "" && c.VectorField != r.Field:
		return nil, nil
	}
	return r, nil
}

// legs says which legs to run, by --mode and what is given.
func (c *searchCmd) legs(embeds bool) (keyword, vector bool, err error) {
	words, vector := len(c.Query) > 0, c.VectorFile != "" || embeds
	switch {
	case (c.Mode == "keyword" || c.Mode == "hybrid") && !words:
		return false, false, console.Usagef("--mode %s needs words to search for", c.Mode)
	case (c.Mode == "vector" || c.Mode == "hybrid") && !vector:
		return false, false, console.Usagef("--mode %s needs --vector-file, or words and an index imported with --embed", c.Mode)
	case !words && !vector && c.Sparse == "" && c.Filter == "" && len(c.Facet) == 0:
		return false, false, console.Usagef("nothing to search for: give words, --vector-file, --sparse or --filter")
	}
	return words && c.Mode != "vector", vector && c.Mode != "keyword", nil
}

func (c *searchCmd) textQuery() (*index.TextQuery, error) {
	t := &index.TextQuery{Text: strings.Join(c.Query, " "), MinShouldMatch: c.AtLeast, Phrase: c.Phrase, Slop: c.Slop, Prefix: c.Prefix}
	if c.Syntax {
		if c.AtLeast > 0 || c.Phrase || c.Slop > 0 || c.Prefix {
			return nil, console.Usagef("--query-string has its own syntax for --phrase, --slop, --prefix and --at-least")
		}
		t.Text, t.QueryString = "", t.Text
	}
	if c.And {
		t.Operator = index.And
	}
	for _, spec := range c.Field {
		name, boost, ok := cutLast(spec, "^")
		b := 1.0
		if ok {
			var err error
			if b, err = parseBoost("--field", spec, boost); err != nil {
				return nil, err
			}
		}
		if t.Fields == nil {
			t.Fields = map[string]float64{}
		}
		t.Fields[name] = b
	}
	return t, nil
}

func (c *searchCmd) vectorQuery(ctx context.Context, e *console.Console, schema *index.Schema, record *models.Record) (*index.VectorQuery, error) {
	if record != nil {
		v, err := c.embedQuery(ctx, e, record)
		if err != nil {
			return nil, err
		}
		return &index.VectorQuery{Field: record.Field, Vector: v, Ef: c.Ef, TargetRecall: c.TargetRecall, Exact: c.Exact, Within: c.Within, Floor: record.Model.Floor}, nil
	}
	name := c.VectorField
	if name == "" && len(schema.Vectors) == 1 {
		name = schema.Vectors[0].Name
	}
	i := slices.IndexFunc(schema.Vectors, func(v index.VectorField) bool { return v.Name == name })
	switch {
	case len(schema.Vectors) == 0:
		return nil, fmt.Errorf("%s has no vector field", c.Dir)
	case name == "":
		return nil, console.Usagef("%s has several vector fields: choose one by --vector-field", c.Dir)
	case i < 0:
		return nil, fmt.Errorf("%s has no vector field %q", c.Dir, name)
	}
	rows, err := bench.ReadVectors(c.VectorFile, schema.Vectors[i].Dim)
	if err != nil {
		return nil, err
	}
	if c.Row < 0 || c.Row >= rows.Rows() {
		return nil, console.Usagef("--row %d: %s has rows 0 to %d", c.Row, c.VectorFile, rows.Rows()-1)
	}
	return &index.VectorQuery{Field: name, Vector: rows.Row(c.Row), Ef: c.Ef, TargetRecall: c.TargetRecall, Exact: c.Exact, Within: c.Within}, nil
}

// embedQuery embeds the words.
func (c *searchCmd) embedQuery(ctx context.Context, e *console.Console, record *models.Record) (_ []float32, err error) {
	m, err := openRecorded(ctx, c.Dir, c.Flags, record)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	v, err := m.Texts(ctx, embed.Query, []string{strings.Join(c.Query, " ")}, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("embedding the query: %w (--mode keyword does without)", err)
	case v.Blank[0]:
		return nil, console.Usagef("the query has nothing to embed: --mode keyword does without")
	case v.Truncated[0]:
		e.Notef("the query is longer than the model's limit: its end has no part in the vector")
	}
	return v.Row(0), nil
}

func (c *searchCmd) setWeights(q *index.Query) error {
	var legs []*float64
	if q.Text != nil {
		legs = append(legs, &q.Text.Weight)
	}
	if q.Vector != nil {
		legs = append(legs, &q.Vector.Weight)
	}
	if q.Sparse != nil {
		legs = append(legs, &q.Sparse.Weight)
	}
	switch {
	case len(c.Weights) == 0:
		return nil
	case len(legs) < 2:
		return console.Usagef("--weights is for hybrid searches")
	case len(c.Weights) != len(legs):
		return console.Usagef("--weights: %d numbers, want %d: of each leg, in the order keyword, vector, sparse", len(c.Weights), len(legs))
	}
	for i, w := range c.Weights {
		if !(w > 0) {
			return console.Usagef("--weights %v: want numbers above 0; --mode leaves a leg out", c.Weights)
		}
		*legs[i] = w
	}
	return nil
}

func parseFacets(specs []string) ([]index.FacetRequest, error) {
	var out []index.FacetRequest
	for _, spec := range specs {
		f := index.FacetRequest{Field: spec}
		if name, n, ok := cutLast(spec, ":"); ok {
			limit, err := strconv.Atoi(n)
			if err != nil || limit < 1 {
				return nil, console.Usagef("--facet %q: want NAME or NAME:COUNT", spec)
			}
			f = index.FacetRequest{Field: name, Limit: limit}
		}
		out = append(out, f)
	}
	return out, nil
}

func facetNames(requests []index.FacetRequest) []string {
	var out []string
	for _, f := range requests {
		out = append(out, f.Field)
	}
	return out
}

func storedTexts(schema *index.Schema) []string {
	var out []string
	for _, t := range schema.Text {
		if !t.NotStored {
			out = append(out, t.Name)
		}
	}
	return out
}

// titleField is the field that names a document in a list of hits.
func titleField(schema *index.Schema) string {
	for _, name := range []string{"title", "name", "symbol", "heading", "subject"} {
		if slices.Contains(storedTexts(schema), name) {
			return name
		}
		if _, ok := schema.Meta[name]; ok {
			return name
		}
	}
	return ""
}

// didYouMean tells of words that the index has instead, if there are any.
func didYouMean(ctx context.Context, e *console.Console, ix collection.Collection, schema *index.Schema, text string) error {
	local, ok := ix.(*collection.Local)
	if !ok {
		return nil // a cluster does not tell its words
	}
	snap, err := local.Index.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close() // opened for reading: nothing to lose
	for _, field := range schema.Text {
		s, err := snap.Suggest(ctx, field.Name, text, 0)
		if err != nil {
			return err
		}
		if s.Text != "" {
			e.Notef("did you mean: %s", show.Line(s.Text, 200))
			return nil
		}
	}
	return nil
}
