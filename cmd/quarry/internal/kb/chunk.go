package kb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/parse"
)

type chunkCmd struct {
	File string `arg:"" help:"File to cut."`

	models.Flags
	chunkFlags

	Full bool `help:"Print chunks whole."`
	JSON bool `name:"json" help:"Print a chunk a line, as JSON."`
}

func (chunkCmd) Help() string {
	return `A dry run of kb add with the chunk options of kb create: nothing is kept. Offsets are bytes of the readable text, which for Markdown and plain text in UTF-8 is the file itself (behind its front matter).

    quarry chunk guide.md
    quarry chunk guide.md --size 120 --overlap 20 --full
    quarry chunk paper.pdf --strategy count --unit page --size 1
    quarry chunk log.txt --embed none --strategy count --unit custom --separator '\n---\n' --size 3

--embed says whose tokens are counted; with none, words stand for them.

--json prints {"index", "text", "start", "end", "rune_start", "rune_end", "utf16_start", "utf16_end", "source_start", "source_end", "page", "page_end", "section_path", "tokens"} a line; source_start and source_end, bytes of the file, are there where the chunk is a copy of them.`
}

// Validate checks the flags.
func (c *chunkCmd) Validate() error {
	_, err := embedderName(c.Flags)
	return errors.Join(err, c.validate(chunk.Structure))
}

// chunkLine is a chunk as --json prints it.
type chunkLine struct {
	Index       int      `json:"index"`
	Text        string   `json:"text"`
	Start       int      `json:"start"`
	End         int      `json:"end"`
	RuneStart   int      `json:"rune_start"`
	RuneEnd     int      `json:"rune_end"`
	UTF16Start  int      `json:"utf16_start"`
	UTF16End    int      `json:"utf16_end"`
	SourceStart *int     `json:"source_start,omitempty"`
	SourceEnd   *int     `json:"source_end,omitempty"`
	Page        int      `json:"page,omitempty"`
	PageEnd     int      `json:"page_end,omitempty"`
	SectionPath []string `json:"section_path,omitempty"`
	Tokens      int      `json:"tokens"`
}

// Run cuts a file.
func (c *chunkCmd) Run(ctx context.Context, s *session) (err error) {
	doc, err := readDocument(ctx, c.File)
	if err != nil {
		return err
	}
	open := s.resources()
	defer open.close(&err)
	name, err := embedderName(c.Flags)
	if err != nil {
		return err
	}
	e, err := open.embedder(ctx, name)
	if err != nil {
		return err
	}
	o := c.options(chunk.Structure)
	if o.Tokenizer = embed.SpansOf(e); o.Tokenizer == nil {
		o.Tokenizer = chunk.Words
	}
	chunker, err := chunk.New(&o)
	if err != nil {
		return err
	}
	for _, w := range doc.Warnings {
		s.Notef("warning: %s: %s", c.File, show.Line(w.Message, 200))
	}
	if c.JSON {
		for ch, err := range chunker.Chunks(knowledge.ChunkInput(doc)) {
			if err == nil {
				err = s.JSON(line(doc, &ch, o.Tokenizer))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	chunks, err := chunk.Collect(chunker.Chunks(knowledge.ChunkInput(doc)))
	if err != nil {
		return err
	}
	return c.print(s, doc, chunks, o.Tokenizer)
}

func (c *chunkCmd) print(s *session, doc *parse.Document, chunks []chunk.Chunk, t chunk.Tokenizer) error {
	rows := [][]string{{"#", "BYTES", "PAGE", "TOKENS", "SECTION", "TEXT"}}
	most := 0
	for i := range chunks {
		l := line(doc, &chunks[i], t)
		most = max(most, l.Tokens)
		page := ""
		if l.Page > 0 {
			page = strconv.Itoa(l.Page)
			if l.PageEnd > l.Page {
				page += "–" + strconv.Itoa(l.PageEnd)
			}
		}
		row := []string{strconv.Itoa(l.Index), fmt.Sprintf("%d–%d", l.Start, l.End), page, strconv.Itoa(l.Tokens), section("", l.SectionPath), show.Line(l.Text, 60)}
		if c.Full {
			row[5] = ""
			if err := s.Printf("%s\n%s\n", show.Bold(show.Line(fmt.Sprintf("#%s  %s%s  %s tokens  %s", row[0], row[1], pages(pageList(l)...), row[3], row[4]), 0), s.Color), indent(l.Text)); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, row)
	}
	out := ""
	if !c.Full {
		out = show.Table(rows, []bool{true, true, true, true})
	}
	what := string(doc.Format)
	if len(doc.Pages) > 0 {
		what += ", " + console.Count(len(doc.Pages), "page")
	}
	return s.Printf("%s%s: %s, %s, %s of text; %s, at most %s\n", out, show.Line(c.File, 0), what, console.Count(len(doc.Sections), "section"), show.Bytes(int64(len(doc.Text))),
		console.Count(len(chunks), "chunk"), console.Count(most, "token"))
}

func pageList(l chunkLine) []int {
	if l.Page == 0 {
		return nil
	}
	return []int{l.Page, max(l.Page, l.PageEnd)}
}

func line(doc *parse.Document, ch *chunk.Chunk, t chunk.Tokenizer) chunkLine {
	l := chunkLine{Index: ch.Index, Text: ch.Text, Start: ch.Start, End: ch.End, RuneStart: ch.RuneStart, RuneEnd: ch.RuneEnd,
		UTF16Start: ch.UTF16Start, UTF16End: ch.UTF16End, Page: ch.Page, SectionPath: ch.Path}
	if ch.PageEnd > ch.Page {
		l.PageEnd = ch.PageEnd
	}
	if doc.Map.Plain(ch.Start, ch.End) {
		if from, to, ok := doc.Map.Source(ch.Start, ch.End); ok {
			l.SourceStart, l.SourceEnd = &from, &to
		}
	}
	t(ch.Text, func(int, int) { l.Tokens++ })
	return l
}

// readDocument reads and parses a file.
func readDocument(ctx context.Context, path string) (*parse.Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse.Parse(ctx, path, data, parse.Options{})
}
