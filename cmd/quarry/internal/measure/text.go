package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

type textCmd struct {
	Docs     string `required:"" placeholder:"FILE" help:"One document a line, .gz or not."`
	Queries  string `required:"" placeholder:"FILE" help:"One query a line."`
	Mode     string `enum:"union,and,phrase" default:"union" help:"How a query's words are joined: union, and, phrase."`
	K        int    `name:"k" default:"10" help:"Hits a query."`
	Count    bool   `help:"Only count the matches of a query: no hits, the exact total."`
	Share    int    `name:"filter-share" placeholder:"PERCENT" help:"Filter to 1, 10 or 50 percent of the documents. The index of --dir must have been made with this flag; 100 makes one and filters nothing."`
	Analyzer string `default:"standard" help:"Analyzer: ${analyzers}."`
	Passes   int    `default:"15" help:"Passes over the queries; each query's fastest counts."`
	Segments int    `default:"1" help:"Merge to this many segments; 0 leaves them as they come."`
	Dir      string `help:"Keep the index here, and use the one that is here; default a temporary one."`
	Set      string `placeholder:"NAME" help:"Name of the set, for the report; default by the file of documents."`
	JSON     bool   `name:"json" help:"Print JSON lines."`
}

// textShares are the shares of documents a filter can keep, in percent: the
// values of shareField.
func textShares() []int { return []int{1, 10, 50} }

const shareField = "share"

// sharesOf are the shares a row belongs to, spread by a hash. Lucene's program
// does the same.
func sharesOf(row int) []string {
	at := int(uint32(row) * 2654435761 >> 16 % 100)
	var out []string
	for _, s := range textShares() {
		if at < s {
			out = append(out, strconv.Itoa(s))
		}
	}
	return out
}

func (textCmd) Help() string {
	return `Indexes the lines without keeping their text, as the peer scripts do, merges, and searches with one thread.

    quarry bench text --docs passages.txt --queries and.txt --mode and --json

--json prints {"kind", "engine", "set", "index_s", "docs", "bytes"}, then {"kind", "engine", "set", "mode", "k", "segments", "queries", "hits", "avg_us", "p50_us", "p99_us"} of each query's fastest pass.`
}

// Run measures.
func (c *textCmd) Run(ctx context.Context, e *console.Console) (err error) {
	if err := engine.CheckAnalyzer("--analyzer", c.Analyzer); err != nil {
		return err
	}
	if c.Share != 0 && c.Share != 100 && !slices.Contains(textShares(), c.Share) {
		return fmt.Errorf("--filter-share %d: want one of %v, or 100: %w", c.Share, textShares(), storage.ErrInvalid)
	}
	if c.Count {
		c.K = 0
	}
	queries, err := c.readQueries()
	if err != nil {
		return err
	}
	dir, remove, err := tempDir(c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	schema := &index.Schema{Text: []index.TextField{{Name: textField, Analyzer: c.Analyzer, NotStored: true}}}
	if c.Share != 0 {
		schema.Meta = map[string]filter.Type{shareField: filter.Keyword}
	}
	ix, err := index.Open(dir, &index.Options{Sync: storage.SyncNever, NoBackground: true, Schema: schema})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	var snap *index.Snapshot
	defer func() {
		if snap != nil {
			err = errors.Join(err, snap.Close())
		}
	}()
	return bench.RunText(ctx, bench.TextConfig{
		Engine: engineName, Set: cmp.Or(c.Set, setName(c.Docs)), Mode: c.Mode, K: c.K, Count: c.Count, Share: c.Share, Queries: len(queries), Passes: c.Passes, Report: e.Report(c.JSON),
		Index: func(ctx context.Context) (bench.TextSize, error) {
			size, err := c.index(ctx, ix)
			if err != nil {
				return size, err
			}
			if snap, err = ix.Snapshot(); err != nil {
				return size, err
			}
			size.Bytes, err = dirBytes(dir)
			return size, err
		},
		Search: func(ctx context.Context, i int) (int, error) {
			r, err := snap.Search(ctx, queries[i])
			if err != nil {
				return 0, err
			}
			if c.Count {
				return r.Total, nil
			}
			return len(r.Hits), nil
		},
	})
}

func (c *textCmd) readQueries() ([]index.Query, error) {
	lines, err := bench.ReadLines(c.Queries)
	if err != nil {
		return nil, err
	}
	var out []index.Query
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		q := &index.TextQuery{Text: line, Phrase: c.Mode == "phrase"}
		if c.Mode == "and" {
			q.Operator = index.And
		}
		query := index.Query{Text: q, K: c.K, Count: c.Count}
		if slices.Contains(textShares(), c.Share) {
			query.Filter = filter.ContainsAny(shareField, strconv.Itoa(c.Share))
		}
		out = append(out, query)
	}
	return out, nil
}

// index indexes the lines, or takes the index that is there.
func (c *textCmd) index(ctx context.Context, ix *index.Index) (bench.TextSize, error) {
	st, err := ix.Stats()
	if err != nil {
		return bench.TextSize{}, err
	}
	if st.Documents == 0 {
		if err := c.fill(ctx, ix); err != nil {
			return bench.TextSize{}, err
		}
		if st, err = ix.Stats(); err != nil {
			return bench.TextSize{}, err
		}
	}
	return bench.TextSize{Docs: st.Documents, Segments: len(st.Segments)}, nil
}

func (c *textCmd) fill(ctx context.Context, ix *index.Index) error {
	const textBatch = 256 << 20 // above the engine's budget for its mutable part; Lucene's peer has a buffer of 512
	b := index.NewBatch()
	row, bytes := 0, 0
	for line, err := range bench.Lines(c.Docs) {
		if err != nil {
			return err
		}
		d := index.Document{ID: rowID(row), Text: map[string]string{textField: line}}
		if c.Share != 0 {
			d.Meta = map[string]any{shareField: sharesOf(row)}
		}
		b.Put(d)
		row++
		if bytes += len(line); bytes < textBatch {
			continue
		}
		if err := ix.Apply(ctx, b); err != nil {
			return err
		}
		b.Reset()
		bytes = 0
	}
	if err := ix.Apply(ctx, b); err != nil {
		return err
	}
	if c.Segments == 0 {
		return ix.Flush(ctx)
	}
	return ix.Merge(ctx, c.Segments)
}
