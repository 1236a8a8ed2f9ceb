package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/godocs"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/page"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/serve"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// Command is quarry demo.
type Command struct {
	Query  []string `arg:"" optional:"" help:"What to search for; without it a few examples, and a prompt on a terminal."`
	Filter string   `short:"f" placeholder:"EXPR" help:"Only symbols that match, such as 'kind = func and minor >= 21'."`
	K      int      `name:"k" short:"k" default:"5" help:"Hits wanted."`
	Mode   string   `enum:"hybrid,keyword,vector" default:"hybrid" help:"Search by meaning and words (hybrid), by words (keyword), by meaning (vector)."`
	Serve  *bool    `negatable:"" help:"Serve the page on the index after the answers, until interrupted; default where somebody sits before a terminal."`
	Listen string   `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the page; port 0 takes a free one."`
	Dir    string   `help:"Folder for the demo's data; default quarry/demo in the user's cache folder."`
	GOROOT string   `name:"goroot" env:"GOROOT" help:"Go installation to read; default the one this program was built with, or that the go command names."`
	JSON   bool     `name:"json" help:"Print results as JSON, and serve nothing."`
}

// Help is shown by quarry demo --help.
func (Command) Help() string {
	return `Indexes the documentation of Go's standard library, found in GOROOT, without network: packages, functions, types, methods, constants and variables, by their words, and what is documented of the first four also by meaning, with the model in this program. The index is made once for each Go version, in some 20 seconds on two cores. Then it answers, and on a terminal serves the page on it, on this machine only.

Metadata to filter by: package (net/http), kind (package, func, type, method, const, var), since ("1.21"), minor (21).

    quarry demo
    quarry demo wait until all goroutines are done
    quarry demo ReadAll --mode keyword --no-serve
    quarry demo sort a slice --filter 'minor >= 21 and kind = func'

At the prompt, what follows a | is a filter: copy files | package = io. --json prints, for each query, what search --json prints.`
}

// queries are answered when none is given.
var queries = []struct{ text, filter string }{
	{"parse command line arguments", ""},
	{"eine Funktion nur einmal ausführen", ""},
	{"ReadAll", ""},
	{"sort a slice", "minor >= 21 and kind = func"},
	{"timeout", "package prefix \"net\" and kind = method"},
}

// Run answers, and serves.
func (c *Command) Run(ctx context.Context, e *console.Console) error {
	dir, err := c.prepare(ctx, e)
	if err != nil {
		return err
	}
	reg, err := registry.Open(dir, &registry.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	h, err := reg.Get(ctx, collection)
	if err != nil {
		return errors.Join(err, reg.Close(context.WithoutCancel(ctx)))
	}
	d := &demo{c, e, h}
	err = d.examples(ctx)
	if err != nil || !c.serves(e) {
		h.Release()
		return errors.Join(err, reg.Close(context.WithoutCancel(ctx)))
	}
	return d.serve(ctx, reg)
}

func (c *Command) serves(e *console.Console) bool {
	if c.Serve != nil {
		return *c.Serve && !c.JSON
	}
	return e.Interactive && !c.JSON
}

// demo is an open demo.
type demo struct {
	*Command
	e    *console.Console
	data *registry.Collection
}

// examples answers what is asked, or the examples.
func (d *demo) examples(ctx context.Context) error {
	if len(d.Query) > 0 || d.Filter != "" {
		return d.answer(ctx, strings.Join(d.Query, " "), d.Filter)
	}
	for _, q := range queries {
		line := "quarry demo " + q.text
		if q.filter != "" {
			line += " --filter '" + q.filter + "'"
		}
		if !d.JSON {
			if err := d.e.Printf("%s\n", show.Bold("$ "+line, d.e.Color)); err != nil {
				return err
			}
		}
		if err := d.answer(ctx, q.text, q.filter); err != nil {
			return err
		}
		if !d.JSON {
			if err := d.e.Printf("\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve serves the page, with a prompt beside it where somebody sits before the
// terminal, until the context or the input ends. It closes the data.
func (d *demo) serve(ctx context.Context, reg *registry.Registry) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready := make(chan string, 1)
	listener, server, err := d.listen(reg, func(address string) { ready <- address })
	if err != nil {
		d.data.Release()
		return errors.Join(err, reg.Close(context.WithoutCancel(ctx)))
	}
	served := make(chan error, 1)
	go func() { served <- server.Run(ctx, listener) }()
	address := "http://" + <-ready + "/"
	if len(d.Query) > 0 {
		address += "?" + url.Values{"q": {strings.Join(d.Query, " ")}}.Encode()
	}
	err = d.e.Printf("The page is at %s\n", address)
	if err == nil && d.e.Interactive {
		asked := make(chan error, 1)
		go func() { asked <- d.prompt(ctx) }()
		select {
		case err = <-asked: // the end of the input ends the demo
		case <-ctx.Done():
		}
	} else if err == nil {
		<-ctx.Done()
	}
	d.data.Release()
	stop()
	return errors.Join(err, <-served)
}

func (d *demo) listen(reg *registry.Registry, ready func(string)) (l net.Listener, s *serve.Server, err error) {
	handler, err := page.Handler()
	if err != nil {
		return nil, nil, err
	}
	if s, err = serve.New(serve.Config{Open: reg, Listen: d.Listen, Page: handler, MCP: true, Ready: ready}); err != nil {
		return nil, nil, err
	}
	l, err = s.Listen()
	return l, s, err
}

// prompt answers lines until the end of the input.
func (d *demo) prompt(ctx context.Context) error {
	e := d.e
	if err := e.Printf("Type a query, or: query | filter. An empty line or Ctrl-D ends.\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(e.Stdin)
	for {
		if err := e.Printf("> "); err != nil {
			return err
		}
		if !lines.Scan() || strings.TrimSpace(lines.Text()) == "" {
			return errors.Join(lines.Err(), e.Printf("\n"))
		}
		text, f, _ := strings.Cut(lines.Text(), "|")
		if err := d.answer(ctx, strings.TrimSpace(text), strings.TrimSpace(f)); err != nil {
			if ctx.Err() != nil {
				return err
			}
			e.Notef("%s", console.OneLine(err))
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
		v, err := d.data.Embed(ctx, text)
		if err != nil {
			return err
		}
		q.Vector = &index.VectorQuery{Field: meaning, Vector: v.Values, Floor: v.Floor}
	}
	if expr != "" {
		f, err := filter.Parse(expr)
		if err != nil {
			return err
		}
		q.Filter = f
	}
	q.Fusion.Method = engine.FusionMethod("auto", q.Vector)
	r, err := d.data.Index().Search(ctx, q)
	if err != nil {
		return err
	}
	if d.JSON {
		return d.e.JSON(r)
	}
	return d.e.Printf("%s", d.form(r, d.e.Color))
}

const maxPassages = 2 // shown a hit

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
	fmt.Fprintf(&b, "    %d of %d symbols, %s\n", len(r.Hits), r.Total, show.Elapsed(r.Elapsed))
	return b.String()
}
