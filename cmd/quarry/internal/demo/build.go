package demo

import (
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

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/godocs"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

// format is counted up when the demo's data change their form.
const format = 3

// Names of the demo's collection and of its vector field.
const (
	collection = "go"
	meaning    = "meaning"
)

// prepare returns the data directory, which it makes when there is none of this
// Go version.
func (c *Command) prepare(ctx context.Context, e *console.Console) (string, error) {
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
	// Only data that are complete have this name.
	dir := filepath.Join(base, fmt.Sprintf("%s-%s-%s-v%d", strings.ReplaceAll(version, string(filepath.Separator), "_"), runtime.GOOS, runtime.GOARCH, format))
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
	e.Notef("indexing the documentation of %s in %s, once", version, base)
	start := time.Now()
	n, err := makeData(ctx, e, tmp, goroot)
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		if _, serr := os.Stat(dir); serr == nil && errors.Is(err, fs.ErrExist) {
			err = nil // another process was faster
		}
		return dir, errors.Join(err, os.RemoveAll(tmp))
	}
	e.Notef("indexed %d symbols in %.1f s: %s", n, time.Since(start).Seconds(), dir)
	return dir, nil
}

// findGOROOT finds a folder with Go's sources.
func (c *Command) findGOROOT(ctx context.Context) (string, error) {
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

// makeData indexes the symbols and returns how many there are.
func makeData(ctx context.Context, e *console.Console, dir, goroot string) (n int, err error) {
	docs, err := documents(ctx, e, goroot)
	if err != nil {
		return 0, err
	}
	reg, err := registry.Open(dir, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, reg.Close(context.WithoutCancel(ctx))) }()
	h, err := reg.Create(ctx, collection, registry.CreateOptions{Embed: models.E5, EmbedField: meaning, Schema: index.Schema{
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
	defer h.Release()
	b := index.NewBatch()
	for _, d := range docs {
		b.Put(d)
	}
	// The vectors are not of all text: the collection would make others.
	if err := h.Index().Apply(ctx, b); err != nil {
		return 0, err
	}
	ix, err := h.Local("merge on demand")
	if err != nil {
		return 0, err
	}
	return len(docs), ix.Merge(ctx, 1)
}

// documents reads the symbols and what they mean.
func documents(ctx context.Context, e *console.Console, goroot string) (docs []index.Document, err error) {
	model, err := models.Open(ctx, models.Source{Model: models.E5}, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	var texts []string // to embed
	var places []int   // the documents they are of
	for s, err := range godocs.Symbols(goroot) {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
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
	if show := e.Stages(); show != nil {
		step = func(done int) { show("reading what it means", done, len(texts)) }
	}
	v, err := model.Texts(ctx, embed.Passage, texts, step)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		if row := v.Row(i); row != nil {
			docs[place].Vectors = map[string][]float32{meaning: row}
		}
	}
	return docs, nil
}

// maxText bounds what is embedded of a symbol, in bytes: the first sentences say
// what it is for, and the time goes with the length.
const maxText = 300

// firstParagraph is the start of a comment, on one line.
func firstParagraph(doc string) string {
	doc, _, _ = strings.Cut(doc, "\n\n")
	doc = strings.Join(strings.Fields(doc), " ")
	if len(doc) <= maxText {
		return doc
	}
	cut := maxText
	for !utf8.RuneStart(doc[cut]) {
		cut--
	}
	return doc[:cut]
}
