package kb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge"
)

type getCmd struct {
	engine.StoreArg
	ID       string `arg:"" name:"id" help:"Base, or ID@N for a frozen generation of it."`
	Document string `arg:"" help:"Document."`

	Bytes   bool `xor:"out" help:"Write the source as it was ingested, checked against its hash."`
	Version int  `placeholder:"N" help:"With --bytes: an earlier version that the base keeps."`
	JSON    bool `name:"json" xor:"out" help:"Print the record on one line."`
}

func (getCmd) Help() string {
	return `Prints what the base says of a document, or with --bytes its stored source: what a citation of that version names by its artifact_hash.

    quarry kb get store docs guide/refunds.md
    quarry kb get store docs paper.pdf --bytes > paper.pdf
    quarry kb get store docs guide/refunds.md --bytes --version 2

--json prints the record of kb list.`
}

// Validate checks the flags.
func (c *getCmd) Validate() error {
	if c.Version < 0 || c.Version > 0 && !c.Bytes {
		return fmt.Errorf("--version %d: it is for --bytes, and versions count from 1", c.Version)
	}
	return nil
}

// Run prints a record or writes a source.
func (c *getCmd) Run(ctx context.Context, s *session) (err error) {
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.reader(ctx, c.Store, c.ID)
	if err != nil {
		return err
	}
	d, err := store.Document(ctx, c.ID, c.Document)
	if err != nil {
		return err
	}
	switch {
	case c.Bytes:
		version := c.Version
		if version == 0 {
			version = d.Version
		}
		data, _, err := store.Source(ctx, c.ID, c.Document, version)
		if err == nil {
			_, err = s.Stdout.Write(data)
		}
		return err
	case c.JSON:
		return s.JSON(d)
	}
	return s.Printf("%s", record(&d))
}

// record is a document's record for reading: what it has, a line each.
func record(d *knowledge.Document) string {
	rows := [][]string{}
	line := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, show.Line(value, 0)})
		}
	}
	line("document", d.ID)
	if !d.Enabled {
		line("state", "disabled")
	}
	line("source", d.Source)
	line("origin", d.Origin)
	line("title", d.Title)
	line("format", d.Format)
	line("language", d.Language)
	line("version", fmt.Sprint(d.Version))
	line("artifact hash", d.ArtifactHash)
	line("size", show.Bytes(d.Bytes))
	if d.Pages > 0 {
		line("pages", fmt.Sprint(d.Pages))
	}
	line("chunks", fmt.Sprint(d.Chunks))
	line("tags", strings.Join(d.Tags, ", "))
	line("authors", strings.Join(d.Authors, ", "))
	line("entities", strings.Join(d.Entities, ", "))
	line("freshness", d.Freshness)
	line("source id", d.SourceID)
	if !d.Created.IsZero() {
		line("created", d.Created.Format("2006-01-02 15:04"))
	}
	if !d.Modified.IsZero() {
		line("modified", d.Modified.Format("2006-01-02 15:04"))
	}
	line("ingested", d.Ingested.Format("2006-01-02 15:04"))
	for _, w := range d.Warnings {
		line("warning", w)
	}
	return show.Table(rows, []bool{false})
}

type expandCmd struct {
	engine.StoreArg
	ID    string `arg:"" name:"id" help:"Base, or ID@N for a frozen generation of it."`
	Chunk string `arg:"" help:"Chunk, by its chunk_id."`

	Before   int  `placeholder:"N" help:"Chunks before it."`
	After    int  `placeholder:"N" help:"Chunks after it."`
	Section  bool `help:"The whole section that it lies in."`
	MaxBytes int  `placeholder:"N" help:"Cut what stands around it to so many bytes in all; default 64 KiB."`
	JSON     bool `name:"json" help:"Print the passage as JSON."`
}

func (expandCmd) Help() string {
	return `Prints a chunk with what stands around it in its document.

    quarry kb expand store docs 'guide/refunds.md#00000003' --before 1 --after 1
    quarry kb expand store docs 'guide/refunds.md#00000003' --section

--json prints {"text", "start_offset", "end_offset", "metadata", "truncated"}; offsets are bytes of the document's text, metadata is that of kb search.`
}

// Validate checks the flags.
func (c *expandCmd) Validate() error {
	if c.Before < 0 || c.After < 0 || c.MaxBytes < 0 {
		return errors.New("--before, --after and --max-bytes: want 0 or more")
	}
	return nil
}

// Run prints a passage.
func (c *expandCmd) Run(ctx context.Context, s *session) (err error) {
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.reader(ctx, c.Store, c.ID)
	if err != nil {
		return err
	}
	p, err := store.Expand(ctx, c.ID, c.Chunk, knowledge.ExpandOptions{Before: c.Before, After: c.After, Section: c.Section, MaxBytes: c.MaxBytes})
	if err != nil {
		return err
	}
	if c.JSON {
		return s.JSON(p)
	}
	page := []int{}
	if p.Metadata.Page > 0 {
		page = append(page, p.Metadata.Page)
	}
	cut := ""
	if p.Truncated {
		cut = ", cut"
	}
	return s.Printf("%s%s  %s\n%s\n", show.Bold(show.Line(p.Metadata.Source, 0), s.Color), pages(page...),
		show.Faint(fmt.Sprintf("[bytes %d–%d%s]", p.Start, p.End, cut), s.Color), indent(p.Text))
}
