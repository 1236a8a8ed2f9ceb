package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/godocs"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

// demoFormat is counted up when the demo's index changes its form.
const demoFormat = 2

type demoCmd struct {
	Query  []string `arg:"" optional:"" help:"What to search for; without it a few examples, and a prompt on a terminal."`
	Filter string   `short:"f" placeholder:"EXPR" help:"Only symbols that match, such as 'kind = func and minor >= 21'."`
	K      int      `name:"k" short:"k" default:"5" help:"Hits wanted."`
	Mode   string   `enum:"hybrid,keyword,vector" default:"hybrid" help:"Search by meaning and words (hybrid), by words (keyword), by meaning (vector)."`
	Dir    string   `help:"Folder for the demo's indexes; default quarry/demo in the user's cache folder."`
	GOROOT string   `name:"goroot" env:"GOROOT" help:"Go installation to read; default the one this program was built with, or that the go command names."`
	JSON   bool     `name:"json" help:"Print results as JSON."`
}

func (demoCmd) Help() string {
	return `Indexes the documentation of Go's standard library, found in GOROOT, without network: packages, functions, types, methods, constants and variables, by their words, and what is documented of the first four also by meaning, with the model in this program. The index is made once for each Go version, in some 20 seconds on two cores.

Metadata to filter by: package (net/http), kind (package, func, type, method, const, var), since ("1.21"), minor (21).

    quarry demo
    quarry demo wait until all goroutines are done
    quarry demo ReadAll --mode keyword
    quarry demo sort a slice --filter 'minor >= 21 and kind = func'

At the prompt, what follows a | is a filter: copy files | package = io. --json prints, for each query, what search --json prints.`
}

// demoQueries are answered when none is given.
var demoQueries = []struct{ text, filter string }{
	{"parse command line arguments", ""},
	{"eine Funktion nur einmal ausführen", ""},
	{"ReadAll", ""},
	{"sort a slice", "minor >= 21 and kind = func"},
	{"timeout", "package prefix \"net\" and kind = method"},
}

// Run answers.
func (c *demoCmd) Run(ctx context.Context, e *env) (err error) {
	model, err := models.Open(ctx, models.Source{Model: models.E5}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	dir, err := c.prepare(ctx, e, model)
	if err != nil {
		return err
	}
	ix, err := openReader(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	d := &demo{c, e, ix, model}
	if len(c.Query) > 0 || c.Filter != "" {
		return d.answer(ctx, strings.Join(c.Query, " "), c.Filter)
	}
	for _, q := range demoQueries {
		line := "quarry demo " + q.text
		if q.filter != "" {
			line += " --filter '" + q.filter + "'"
		}
		if !c.JSON {
			if err := e.printf("%s\n", show.Bold("$ "+line, e.color)); err != nil {
				return err
			}
		}
		if err := d.answer(ctx, q.text, q.filter); err != nil {
			return err
		}
		if !c.JSON {
			if err := e.printf("\n"); err != nil {
				return err
			}
		}
	}
	if !e.interactive {
		return nil
	}
	return d.prompt(ctx)
}

// demo is an open demo.
type demo struct {
	*demoCmd
	e     *env
	ix    *index.Index
	model *models.Model
}

// prompt answers lines until the end of the input.
func (d *demo) prompt(ctx context.Context) error {
	e := d.e
	if err := e.printf("Type a query, or: query | filter. An empty line or Ctrl-D ends.\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(e.stdin)
	for {
		if err := e.printf("> "); err != nil {
			return err
		}
		if !lines.Scan() || strings.TrimSpace(lines.Text()) == "" {
			return errors.Join(lines.Err(), e.printf("\n"))
		}
		text, f, _ := strings.Cut(lines.Text(), "|")
		if err := d.answer(ctx, strings.TrimSpace(text), strings.TrimSpace(f)); err != nil {
			if ctx.Err() != nil {
				return err
			}
			e.notef("%s", oneLine(err))
		}
	}
}

func (d *demo) answer(ctx context.Context, text, expr string) error {
	q := index.Query{K: d.K, Count: true, Fields: []string{"signature", "kind", "since"}}
	if d.Mode == "keyword" || expr != "" { // by meaning, everything matches a little
		q.Facets = []index.FacetRequest{{Field: "kind", Limit: 6}, {Field: "package", Limit: 5}}
	}
	if text != "" && d.Mode != "vector" {
		q.Text = &index.TextQuery{Text: text}
		q.Highlight = []string{"doc"}
	}
	if text != "" && d.Mode != "keyword" {
		v, err := d.model.Texts(ctx, embed.Query, []string{text}, nil)
		if err != nil {
			return err
		}
		if row := v.Row(0); row != nil {
			q.Vector = &index.VectorQuery{Field: "meaning", Vector: row, Floor: d.model.Identity().Floor}
		}
	}
	if expr != "" {
		f, err := filter.Parse(expr)
		if err != nil {
			return err
		}
		q.Filter = f
	}
	q.Fusion.Method = fusionMethod("auto", q.Vector)
	r, err := d.ix.Search(ctx, q)
	if err != nil {
		return err
	}
	if d.JSON {
		return d.e.json(r)
	}
	return d.e.printf("%s", d.form(r, d.e.color))
}

// form lays out an answer of the demo.
func (d *demo) form(r *index.Results, color bool) string {
	var b strings.Builder
	for i := range r.Hits {
		h := &r.Hits[i]
		since := ""
		if s, ok := h.Fields["since"].(string); ok {
			since = ", since Go " + s
		}
		fmt.Fprintf(&b, "%2d  %.3f  %s  %s\n", i+1, h.Score, show.Bold(h.ID, color), show.Faint(fmt.Sprintf("(%v%s)", h.Fields["kind"], since), color))
		if s, ok := h.Fields["signature"].(string); ok && h.Fields["kind"] != godocs.Package {
			fmt.Fprintf(&b, "           %s\n", show.Line(s, 100))
		}
		for j, p := range h.Highlights["doc"] {
			if j == maxPassages {
				break
			}
			fmt.Fprintf(&b, "           %s\n", show.Passage(p, color))
		}
	}
	for _, name := range []string{"kind", "package"} {
		var parts []string
		for _, f := range r.Facets[name] {
			parts = append(parts, fmt.Sprintf("%v %d", f.Value, f.Count))
		}
		if len(parts) > 0 {
			fmt.Fprintf(&b, "    %s: %s\n", name, strings.Join(parts, ", "))
		}
	}
	fmt.Fprintf(&b, "    %d of %d symbols, %s\n", len(r.Hits), r.Total, elapsed(r.Elapsed))
	return b.String()
}

// prepare returns the folder of the index, which it makes when there is none of
// this Go version.
func (c *demoCmd) prepare(ctx context.Context, e *env, model *models.Model) (string, error) {
	goroot, err := c.findGOROOT(ctx)
	if err != nil {
		return "", err
	}
	version, err := godocs.Version(goroot)
	if err != nil {
		return "", err
	}
	base := c.Dir
	if base == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(cache, "quarry", "demo")
	}
	// Only an index that is complete has this name.
	dir := filepath.Join(base, fmt.Sprintf("%s-%s-%s-v%d", strings.ReplaceAll(version, string(filepath.Separator), "_"), runtime.GOOS, runtime.GOARCH, demoFormat))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o777); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(base, "building-")
	if err != nil {
		return "", err
	}
	e.notef("indexing the documentation of %s in %s, once", version, base)
	start := time.Now()
	n, err := buildDemo(ctx, e, tmp, goroot, model)
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		if _, serr := os.Stat(dir); serr == nil && errors.Is(err, fs.ErrExist) {
			err = nil // another process was faster
		}
		return dir, errors.Join(err, os.RemoveAll(tmp))
	}
	e.notef("indexed %d symbols in %.1f s: %s", n, time.Since(start).Seconds(), dir)
	return dir, nil
}

// findGOROOT finds a folder with Go's sources.
func (c *demoCmd) findGOROOT(ctx context.Context) (string, error) {
	dirs := []string{c.GOROOT}
	if c.GOROOT == "" {
		dirs = []string{build.Default.GOROOT}
		if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output(); err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "src", "fmt")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no Go installation with sources found (looked in %q): name one by --goroot", dirs)
}

// buildDemo indexes the symbols.
func buildDemo(ctx context.Context, e *env, dir, goroot string, model *models.Model) (n int, err error) {
	ix, err := index.Open(dir, &index.Options{NoBackground: true, Schema: &index.Schema{
		Text: []index.TextField{
			// Identifiers are found whole and by their parts.
			{Name: "symbol", Analyzer: "code", Boost: 3},
			{Name: "signature", Analyzer: "code", Boost: 0.5},
			{Name: "doc", Analyzer: "english", Boost: 2},
		},
		Vectors: []index.VectorField{{Name: "meaning", Dim: model.Identity().Dim}},
		Meta:    map[string]filter.Type{"package": filter.Keyword, "kind": filter.Keyword, "since": filter.Keyword, "minor": filter.Int64},
	}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	var docs []index.Document
	var texts []string // to embed
	var places []int   // the documents they are of
	for s, err := range godocs.Symbols(goroot) {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return 0, err
		}
		d := index.Document{ID: s.ID,
			Text: map[string]string{"symbol": s.ID, "signature": s.Signature, "doc": s.Doc},
			Meta: map[string]any{"package": s.Package, "kind": s.Kind}}
		if s.Minor >= 0 {
			d.Meta["since"], d.Meta["minor"] = s.Since(), s.Minor
		}
		if s.Doc != "" && s.Kind != godocs.Const && s.Kind != godocs.Var {
			texts, places = append(texts, s.ID+": "+firstParagraph(s.Doc)), append(places, len(docs))
		}
		docs = append(docs, d)
	}
	var step func(int)
	if show := e.stages(); show != nil {
		step = func(done int) { show("reading what it means", done, len(texts)) }
	}
	v, err := model.Texts(ctx, embed.Passage, texts, step)
	if err != nil {
		return 0, err
	}
	for i, place := range places {
		if row := v.Row(i); row != nil {
			docs[place].Vectors = map[string][]float32{"meaning": row}
		}
	}
	b := index.NewBatch()
	for _, d := range docs {
		b.Put(d)
	}
	if err := ix.Apply(ctx, b); err != nil {
		return 0, err
	}
	return len(docs), ix.Merge(ctx, 1)
}

// maxDemoText bounds what is embedded of a symbol, in bytes: the first sentences
// say what it is for, and the time goes with the length.
const maxDemoText = 300

// firstParagraph is the start of a comment, on one line.
func firstParagraph(doc string) string {
	doc, _, _ = strings.Cut(doc, "\n\n")
	doc = strings.Join(strings.Fields(doc), " ")
	if len(doc) <= maxDemoText {
		return doc
	}
	cut := maxDemoText
	for !utf8.RuneStart(doc[cut]) {
		cut--
	}
	return doc[:cut]
}
