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

	"github.com/quarrysearch/quarry/cmd/quarry/internal/godocs"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// demoFormat is counted up when the demo's index changes its form.
const demoFormat = 1

type demoCmd struct {
	Query  []string `arg:"" optional:"" help:"What to search for; without it a few examples, and a prompt on a terminal."`
	Filter string   `short:"f" placeholder:"EXPR" help:"Only symbols that match, such as 'kind = func and minor >= 21'."`
	K      int      `name:"k" short:"k" default:"5" help:"Hits wanted."`
	Dir    string   `help:"Folder for the demo's indexes; default quarry/demo in the user's cache folder."`
	GOROOT string   `name:"goroot" env:"GOROOT" help:"Go installation to read; default the one this program was built with, or that the go command names."`
	JSON   bool     `name:"json" help:"Print results as JSON."`
}

func (demoCmd) Help() string {
	return `Indexes the documentation of Go's standard library, found in GOROOT, without network: packages, functions, types, methods, constants and variables. The index is made once for each Go version.

Metadata to filter by: package (net/http), kind (package, func, type, method, const, var), since ("1.21"), minor (21).

    quarry demo
    quarry demo shut down a server gracefully
    quarry demo ReadAll
    quarry demo sort a slice --filter 'minor >= 21 and kind = func'

At the prompt, what follows a | is a filter: copy files | package = io. --json prints, for each query, what search --json prints.`
}

// demoQueries are answered when none is given.
var demoQueries = []struct{ text, filter string }{
	{"shut down a server without interrupting connections", ""},
	{"ReadAll", ""},
	{"sort a slice", "minor >= 21 and kind = func"},
	{"timeout", "package prefix \"net\" and kind = method"},
}

// Run answers.
func (c *demoCmd) Run(ctx context.Context, e *env) (err error) {
	dir, err := c.prepare(ctx, e)
	if err != nil {
		return err
	}
	ix, err := openReader(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	if len(c.Query) > 0 || c.Filter != "" {
		return c.answer(ctx, e, ix, strings.Join(c.Query, " "), c.Filter)
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
		if err := c.answer(ctx, e, ix, q.text, q.filter); err != nil {
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
	return c.prompt(ctx, e, ix)
}

// prompt answers lines until the end of the input.
func (c *demoCmd) prompt(ctx context.Context, e *env, ix *index.Index) error {
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
		if err := c.answer(ctx, e, ix, strings.TrimSpace(text), strings.TrimSpace(f)); err != nil {
			if ctx.Err() != nil {
				return err
			}
			e.notef("%s", oneLine(err))
		}
	}
}

func (c *demoCmd) answer(ctx context.Context, e *env, ix *index.Index, text, expr string) error {
	q := index.Query{K: c.K, Count: true, Fields: []string{"signature", "kind", "since"},
		Facets: []index.FacetRequest{{Field: "kind", Limit: 6}, {Field: "package", Limit: 5}}}
	if text != "" {
		q.Text = &index.TextQuery{Text: text}
		q.Highlight = []string{"doc"}
	}
	if expr != "" {
		f, err := filter.Parse(expr)
		if err != nil {
			return err
		}
		q.Filter = f
	}
	r, err := ix.Search(ctx, q)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.json(r)
	}
	return e.printf("%s", c.form(r, e.color))
}

// form lays out an answer of the demo.
func (c *demoCmd) form(r *index.Results, color bool) string {
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
func (c *demoCmd) prepare(ctx context.Context, e *env) (string, error) {
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
	n, err := buildDemo(ctx, tmp, goroot)
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
func buildDemo(ctx context.Context, dir, goroot string) (n int, err error) {
	ix, err := index.Open(dir, &index.Options{NoBackground: true, Schema: &index.Schema{
		Text: []index.TextField{
			// Identifiers are found whole and by their parts.
			{Name: "symbol", Analyzer: "code", Boost: 3},
			{Name: "signature", Analyzer: "code", Boost: 0.5},
			{Name: "doc", Analyzer: "english", Boost: 2},
		},
		Meta: map[string]filter.Type{"package": filter.Keyword, "kind": filter.Keyword, "since": filter.Keyword, "minor": filter.Int64},
	}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	b := index.NewBatch()
	for s, err := range godocs.Symbols(goroot) {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return n, err
		}
		d := index.Document{ID: s.ID,
			Text: map[string]string{"symbol": s.ID, "signature": s.Signature, "doc": s.Doc},
			Meta: map[string]any{"package": s.Package, "kind": s.Kind}}
		if s.Minor >= 0 {
			d.Meta["since"], d.Meta["minor"] = s.Since(), s.Minor
		}
		b.Put(d)
		n++
		if b.Len() == 5000 {
			if err := ix.Apply(ctx, b); err != nil {
				return n, err
			}
			b.Reset()
		}
	}
	if err := ix.Apply(ctx, b); err != nil {
		return n, err
	}
	return n, ix.Merge(ctx, 1)
}
