package kb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge/aisearch"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/workflow"
)

type aiSearchCmd struct {
	Query string   `arg:"" help:"What to look for; quote it when it has several words."`
	Files []string `arg:"" name:"file" help:"Documents."`

	K int `name:"k" short:"k" default:"10" help:"Passages wanted."`
	models.Flags
	rerankFlag
	chunkFlags
	Offsets string `enum:"utf16,rune,byte" default:"utf16" help:"What start and end count: utf16 (as JavaScript), rune, byte."`
	Score   bool   `help:"Add the score to the JSON."`
	Raw     bool   `help:"Take files as they are, as UTF-8 text, instead of what a reader sees of them."`
	Full    bool   `help:"Print passages whole."`
	JSON    bool   `name:"json" help:"Print the array of passages as JSON."`
}

func (aiSearchCmd) Help() string {
	return `Cuts the files into chunks (500 tokens, 50 of them shared), embeds query and chunks, and ranks by cosine; equal ones come in the order of files. Keeps nothing.

    quarry aisearch "how do I reset my password" articles/*.md -k 5
    quarry aisearch "delivery times" *.txt --unit paragraph --size 1 --overlap 0 --json
    quarry aisearch "who pays customs" contract.pdf --rerank late

--json prints [{"text", "documentIndex", "start", "end"}], best first, [] when nothing is left to search, or {"error"} with exit code 1; text is the document from start to end, the document being the readable text of the file, or with --raw the file.`
}

// Validate checks the flags.
func (c *aiSearchCmd) Validate() error {
	switch {
	case strings.TrimSpace(c.Query) == "":
		return errors.New("nothing to search for")
	case c.K < 1:
		return fmt.Errorf("-k %d: want 1 or more", c.K)
	case c.Embed == models.None:
		return errors.New("--embed none: aisearch compares vectors")
	}
	_, err := embedderName(c.Flags)
	return errors.Join(err, c.rerankFlag.validate(), c.chunkFlags.validate(chunk.Count))
}

// Run searches.
func (c *aiSearchCmd) Run(ctx context.Context, s *session) error {
	passages, err := c.search(ctx, s)
	if c.JSON {
		return errors.Join(s.JSON(&workflow.AISearchResult{Passages: passages, Err: err}), err)
	}
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, p := range passages {
		fmt.Fprintf(&b, "%3d  %.4f  %s  %s\n", i+1, *p.Score, show.Bold(show.Line(c.Files[p.DocumentIndex], 0), s.Color),
			show.Faint(fmt.Sprintf("[%s %d–%d]", c.Offsets, p.Start, p.End), s.Color))
		if c.Full {
			fmt.Fprintf(&b, "%s\n", indent(p.Text))
		} else {
			fmt.Fprintf(&b, "     %s\n", show.Line(p.Text, 240))
		}
	}
	return s.Printf("%s%s of %s\n", b.String(), console.Count(len(passages), "passage"), console.Count(len(c.Files), "file"))
}

func (c *aiSearchCmd) search(ctx context.Context, s *session) (passages []aisearch.Passage, err error) {
	r := aisearch.Request{Query: c.Query, Rerank: c.Rerank != "" && c.Rerank != models.None, ResultCount: c.K, Chunk: c.options(chunk.Count),
		OffsetUnit: aisearch.OffsetUnit(c.Offsets), WithScore: c.Score || !c.JSON}
	for _, path := range c.Files {
		text, err := c.read(ctx, path)
		if err != nil {
			return nil, err
		}
		r.Input = append(r.Input, text)
	}
	open := s.resources()
	defer open.close(&err)
	name, err := embedderName(c.Flags)
	if err != nil {
		return nil, err
	}
	e, err := open.embedder(ctx, name)
	if err != nil {
		return nil, err
	}
	rr, err := c.reranker(ctx, open)
	if err != nil {
		return nil, err
	}
	return aisearch.Search(ctx, r, e, rr)
}

func (c *aiSearchCmd) read(ctx context.Context, path string) (string, error) {
	if !c.Raw {
		doc, err := readDocument(ctx, path)
		if err != nil {
			return "", err
		}
		return doc.Text, nil
	}
	data, err := os.ReadFile(path)
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("%s: no UTF-8", path)
	}
	return string(data), err
}
