package kb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed/builtin"
	"github.com/quarrysearch/quarry/storage"
)

// baseFlags are fixed when a base is made.
type baseFlags struct {
	analyzerFlags
	models.Flags
	chunkFlags
	parseFlags
	NoHeadings bool   `help:"Leave title and section path out of what is indexed with each chunk."`
	Name       string `placeholder:"TEXT" help:"Name shown to people; default the id."`
}

func (f *baseFlags) validate() error {
	_, err := embedderName(f.Flags)
	return errors.Join(err, f.analyzerFlags.validate(), f.chunkFlags.validate(chunk.Structure), f.parseFlags.options().Validate())
}

func (f *baseFlags) options() (*knowledge.BaseOptions, error) {
	if f.Embed == "" && builtin.IsEnglish(f.Lang) { // better there, and it knows nothing else
		f.Embed = models.BGE
	}
	embedder, err := embedderName(f.Flags)
	o := f.chunkFlags.options(chunk.Structure)
	return &knowledge.BaseOptions{Name: f.Name, Embedder: embedder, Analyzer: f.analyzerFlags.name(), Parse: f.parseFlags.options(), Chunk: &o, NoHeadings: f.NoHeadings}, err
}

type createCmd struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Id of the base: letters, digits, - and _."`

	baseFlags

	JSON bool `name:"json" help:"Print the base as JSON."`
}

func (createCmd) Help() string {
	return `Options are fixed for the base; kb rebuild changes them later. Without options texts are cut by structure into at most 300 tokens, and each document is analyzed by its own language.

    quarry kb create store docs
    quarry kb create store docs --embed ollama:nomic-embed-text
    quarry kb create store faq --lang de --size 200 --overlap 20
    quarry kb create store tickets --embed none --strategy count --unit sentence --size 8

Without --embed the model is e5, or bge for a base of --lang en. It is part of the base, and opened again whenever vectors are needed. A base made with --embed none is searched by words only. quarry chunk shows what chunk options do to a file.

--json prints {"id", "name", "created", "analyzer", "embedder", "frozen", "model", "documents", "chunks"}.`
}

// Validate checks the flags.
func (c *createCmd) Validate() error { return c.validate() }

// Run makes a base.
func (c *createCmd) Run(ctx context.Context, s *session) (err error) {
	o, err := c.options()
	if err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.store(ctx, c.Store, true, o.Embedder)
	if err != nil {
		return err
	}
	info, err := store.Create(ctx, c.ID, o)
	if err != nil {
		return err
	}
	if c.JSON {
		return s.JSON(info)
	}
	return s.Printf("%s: made, analyzer %s, embedder %s\n", info.ID, info.Analyzer, shortName(info.Embedder))
}

type listCmd struct {
	engine.StoreArg
	ID   string `arg:"" name:"id" optional:"" help:"Base whose documents are listed."`
	JSON bool   `name:"json" help:"Print a base or a document a line, as JSON."`
}

func (listCmd) Help() string {
	return `    quarry kb list store
    quarry kb list store docs

--json prints a line a base, {"id", "name", "created", "analyzer", "embedder", "frozen", "model", "documents", "chunks"}, or a line a document, {"id", "source", "origin", "title", "format", "version", "artifact_hash", "text_hash", "language", "tags", "authors", "entities", "freshness", "source_id", "created", "modified", "file_time", "ingested", "bytes", "pages", "chunks", "warnings", "enabled", "meta"}.`
}

// Run lists.
func (c *listCmd) Run(ctx context.Context, s *session) (err error) {
	infos, err := pick(ctx, c.Store, optional(c.ID)...)
	if err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.store(ctx, c.Store, false)
	if err != nil {
		return err
	}
	if c.ID != "" {
		return c.documents(ctx, s, store)
	}
	rows := [][]string{{"ID", "DOCUMENTS", "CHUNKS", "ANALYZER", "EMBEDDER", "CREATED", "NAME"}}
	for _, b := range infos {
		if b, err = store.Base(ctx, b.ID); err != nil {
			return err
		}
		if c.JSON {
			if err := s.JSON(b); err != nil {
				return err
			}
			continue
		}
		name := show.Line(b.Name, 60)
		if b.Name == b.ID {
			name = ""
		}
		rows = append(rows, []string{b.ID, strconv.Itoa(b.Documents), strconv.Itoa(b.Chunks), b.Analyzer, shortName(b.Embedder),
			b.Created.Format("2006-01-02 15:04"), name})
	}
	if c.JSON {
		return nil
	}
	return s.Printf("%s", show.Table(rows, []bool{false, true, true}))
}

// optional is a list of an id, empty without one.
func optional(id string) []string {
	if id == "" {
		return nil
	}
	return []string{id}
}

func (c *listCmd) documents(ctx context.Context, s *session, store *knowledge.Store) error {
	rows := [][]string{{"DOCUMENT", "VERSION", "FORMAT", "PAGES", "CHUNKS", "SIZE", "LANGUAGE", "STATE", "TITLE"}}
	warnings := ""
	for d, err := range store.Documents(ctx, c.ID) {
		if err != nil {
			return err
		}
		if c.JSON {
			if err := s.JSON(d); err != nil {
				return err
			}
			continue
		}
		pages := ""
		if d.Pages > 0 {
			pages = strconv.Itoa(d.Pages)
		}
		state := ""
		if !d.Enabled {
			state = "disabled"
		}
		rows = append(rows, []string{show.Line(d.ID, 80), strconv.Itoa(d.Version), d.Format, pages, strconv.Itoa(d.Chunks), show.Bytes(d.Bytes), d.Language, state, show.Line(d.Title, 60)})
		for _, w := range d.Warnings {
			warnings += fmt.Sprintf("warning: %s: %s\n", show.Line(d.ID, 80), show.Line(w, 200))
		}
	}
	if c.JSON {
		return nil
	}
	return s.Printf("%s%s%s\n", show.Table(rows, []bool{false, true, false, true, true, true}), warnings, console.Count(len(rows)-1, "document"))
}

type rmCmd struct {
	engine.StoreArg
	ID        string   `arg:"" name:"id" help:"Base."`
	Documents []string `arg:"" name:"document" optional:"" help:"Documents to remove; without one, the base and all it holds."`
	JSON      bool     `name:"json" help:"Print the result as JSON."`
}

func (rmCmd) Help() string {
	return `A document that is not there is no error. Files that documents came from are not touched; kb add brings back those that are still in their folder.

    quarry kb rm store docs old/guide.md
    quarry kb rm store docs

--json prints {"base", "removed", "documents"}: whether the base was removed, and how many documents.`
}

// Run removes.
func (c *rmCmd) Run(ctx context.Context, s *session) (err error) {
	if _, err := pick(ctx, c.Store, c.ID); err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.store(ctx, c.Store, true)
	if err != nil {
		return err
	}
	r := struct {
		Base      string `json:"base"`
		Removed   bool   `json:"removed"`
		Documents int    `json:"documents"`
	}{Base: c.ID, Removed: len(c.Documents) == 0}
	text := ""
	if r.Removed {
		info, err := store.Base(ctx, c.ID)
		if err == nil {
			r.Documents = info.Documents
		} // a damaged base can be removed all the same
		if err := store.Delete(ctx, c.ID); err != nil {
			return err
		}
		text = "the base and "
	} else if r.Documents, err = store.DeleteDocuments(ctx, c.ID, c.Documents...); err != nil {
		return err
	}
	if c.JSON {
		return s.JSON(r)
	}
	return s.Printf("%s: removed %s%s\n", c.ID, text, console.Count(r.Documents, "document"))
}

type checkCmd struct {
	engine.StoreArg
	ID   string `arg:"" name:"id" optional:"" help:"Base; default all."`
	JSON bool   `name:"json" help:"Print a report a base, as JSON."`
}

func (checkCmd) Help() string {
	return `Reads every document, chunk and stored source, and recomputes: hashes of sources and texts, the content of each chunk at its offsets, pages, counts; and the index with every checksum of it. Changes nothing; a writer may be at work.

    quarry kb check store

--json prints a line a base: {"base", "documents", "chunks", "problems"}.`
}

// Run checks.
func (c *checkCmd) Run(ctx context.Context, s *session) (err error) {
	infos, err := pick(ctx, c.Store, optional(c.ID)...)
	if err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.store(ctx, c.Store, false)
	if err != nil {
		return err
	}
	rows := [][]string{{"BASE", "DOCUMENTS", "CHUNKS", "STATE"}}
	var text strings.Builder
	damaged := 0
	for _, b := range infos {
		ref := b.ID
		if c.ID != "" {
			ref = c.ID
		}
		r, err := store.Check(ctx, ref)
		if err != nil && (r == nil || !errors.Is(err, storage.ErrCorrupt)) {
			return err
		}
		state := "ok"
		if len(r.Problems) > 0 {
			damaged++
			state = "DAMAGED"
		}
		rows = append(rows, []string{ref, strconv.Itoa(r.Documents), strconv.Itoa(r.Chunks), state})
		for _, p := range r.Problems {
			fmt.Fprintf(&text, "PROBLEM: %s: %s\n", ref, show.Line(p, 0))
		}
		if c.JSON {
			if err := s.JSON(struct {
				Base string `json:"base"`
				*knowledge.CheckReport
			}{ref, r}); err != nil {
				return err
			}
		}
	}
	if !c.JSON {
		err = s.Printf("%s%s", show.Table(rows, []bool{false, true, true}), text.String())
	}
	if damaged > 0 {
		err = errors.Join(err, fmt.Errorf("%s: damaged bases: %d", c.Store, damaged))
	}
	return err
}
