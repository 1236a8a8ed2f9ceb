package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/quarrysearch/quarry/index"
)

// A Config says what Run reads and where it goes. Sources, Mapping and Apply
// are required.
type Config struct {
	Sources []Source
	Stdin   io.Reader // read for the source "-"
	Mapping *Mapping
	// Batch is the number of documents applied at once; default 1000. A batch
	// is also ended at BatchBytes of text and vectors; default 32 MiB.
	Batch      int
	BatchBytes int
	// Skip is how many lines of all sources together are in already.
	Skip int

	// Apply applies a batch, all or nothing.
	Apply func(docs []index.Document) error
	// Bad takes a line that makes no document or was refused, with its source
	// and number from 1. Nil ends the run at the first.
	Bad func(source string, line int, err error)
	// Refused tells whether an error of Apply is about the documents, so that
	// Run may look for the bad ones; where it says no, the run ends.
	Refused func(error) bool
	// Done is told after each applied batch how far the run is.
	Done func(Progress) error
}

// Progress is how far a run is, and its result.
type Progress struct {
	Lines     int   // of all sources, those of Skip included
	Documents int   // applied
	Bad       int   // lines that were not
	TextBytes int64 // of text fields applied
	RawBytes  int64 // read of the sources as they are stored
}

// item is one document and where it came from.
type item struct {
	doc    index.Document
	source string
	line   int
	err    error // the line makes no document
}

type batch struct {
	items []item
	lines int   // behind the batch, over all sources
	raw   int64 // bytes read
	err   error // the sources end here, by io.EOF or otherwise
}

// ErrStopped is returned, with the progress, when ctx was done before the end.
var ErrStopped = errors.New("interrupted")

// Run reads all sources and applies their documents in order. It stops between
// two batches when ctx is done. An error names source and line; the progress is
// what was applied before it.
func Run(ctx context.Context, c Config) (Progress, error) {
	if c.Batch == 0 {
		c.Batch = 1000
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 32 << 20
	}
	readCtx, stop := context.WithCancel(ctx)
	batches := make(chan batch, 1)
	// Nobody waits for the reader: it may sit in a read of standard input that
	// never comes back. It shares nothing but the channel.
	go c.read(readCtx, batches)
	defer stop()
	p := Progress{Lines: c.Skip}
	for {
		if ctx.Err() != nil {
			return p, ErrStopped
		}
		var b batch
		select {
		case <-ctx.Done():
			return p, ErrStopped
		case b = <-batches:
		}
		if err := c.apply(&p, b.items); err != nil {
			return p, err
		}
		if b.err == nil || b.err == io.EOF {
			p.Lines, p.RawBytes = b.lines, b.raw
			if c.Done != nil {
				if err := c.Done(p); err != nil {
					return p, err
				}
			}
		}
		if b.err == io.EOF {
			return p, nil
		}
		if b.err != nil {
			return p, b.err
		}
	}
}

// apply applies the good items of a batch.
func (c *Config) apply(p *Progress, items []item) error {
	docs := make([]index.Document, 0, len(items))
	good := items[:0]
	var failed error
	for _, it := range items {
		if it.err != nil {
			if err := c.bad(p, it, it.err); err != nil {
				failed = err // what stands before the line goes in all the same
				break
			}
			continue
		}
		docs, good = append(docs, it.doc), append(good, it)
	}
	if err := c.applyGood(p, docs, good); err != nil {
		return err
	}
	return failed
}

func (c *Config) applyGood(p *Progress, docs []index.Document, items []item) error {
	if len(docs) == 0 {
		return nil
	}
	err := c.Apply(docs)
	if err == nil {
		p.Documents += len(docs)
		for i := range docs {
			for _, t := range docs[i].Text {
				p.TextBytes += int64(len(t))
			}
		}
		return nil
	}
	if c.Refused == nil || !c.Refused(err) {
		return fmt.Errorf("%s: %w", where(items), err)
	}
	if len(docs) == 1 {
		return c.bad(p, items[0], err)
	}
	// The batch is refused as a whole: halve it until the bad ones stand alone.
	half := len(docs) / 2
	if err := c.applyGood(p, docs[:half], items[:half]); err != nil {
		return err
	}
	return c.applyGood(p, docs[half:], items[half:])
}

func where(items []item) string {
	first, last := items[0], items[len(items)-1]
	return fmt.Sprintf("%s:%d to %s:%d", first.source, first.line, last.source, last.line)
}

// bad reports a line, or returns the error that ends the run.
func (c *Config) bad(p *Progress, it item, err error) error {
	if c.Bad == nil {
		return fmt.Errorf("%s:%d: %w", it.source, it.line, err)
	}
	p.Bad++
	c.Bad(it.source, it.line, err)
	return nil
}

// read reads the sources and sends their documents, the end with the last batch.
func (c *Config) read(ctx context.Context, out chan<- batch) {
	r := &batchReader{c: c, ctx: ctx, out: out}
	for _, s := range c.Sources {
		if err := r.source(s); err != nil {
			r.send(err)
			return
		}
	}
	r.send(io.EOF)
}

type batchReader struct {
	c     *Config
	ctx   context.Context
	out   chan<- batch
	raw   atomic.Int64
	items []item
	bytes int
	line  int // over all sources
	json  objectParser
}

// send sends what was gathered.
func (r *batchReader) send(err error) {
	select {
	case r.out <- batch{r.items, r.line, r.raw.Load(), err}:
	case <-r.ctx.Done():
	}
	r.items, r.bytes = nil, 0
}

func (r *batchReader) source(s Source) error {
	in, err := s.open(r.c.Stdin, &r.raw)
	if err != nil {
		return err
	}
	defer in.close() // read only: nothing to lose
	for r.ctx.Err() == nil {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, ErrLineTooLong) {
			return err
		}
		r.line++
		if r.line <= r.c.Skip {
			continue
		}
		it := item{source: s.Name, line: in.n, err: err}
		if err == nil {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			it.doc, it.err = r.c.Mapping.document(&r.json, line, r.line-1)
		}
		r.items = append(r.items, it)
		r.bytes += len(line) + 4*dimensions(it.doc)
		if len(r.items) >= r.c.Batch || r.bytes >= r.c.BatchBytes {
			r.send(nil)
		}
	}
	return r.ctx.Err()
}

func dimensions(d index.Document) int {
	n := 0
	for _, v := range d.Vectors {
		n += len(v)
	}
	return n
}
