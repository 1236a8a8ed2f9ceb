package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// Defaults and bounds of a batch.
const (
	defaultBatch  = 1000
	maxBatchBytes = 32 << 20
)

// A Config says what Copy copies and where to.
type Config struct {
	From collection.Reader
	To   collection.Collection
	// Batch is the number of documents applied at once, default 1,000; 32 MiB of
	// text and vectors end one too.
	Batch int
	// After is the last id of an earlier run; "" is the start.
	After string
	// Saved is told after each batch that is durable: its last id, and how many
	// documents this run has copied.
	Saved func(last string, documents int) error
}

// Declared is the schema to make a target with: that of the source without metadata
// that has shown no type yet. Text that is not stored cannot be copied: ErrInvalid.
func Declared(s index.Schema) (index.Schema, error) {
	for _, f := range s.Text {
		if f.NotStored {
			return s, fmt.Errorf("%w: text field %q is not stored, so its documents cannot be copied whole: import them again", index.ErrInvalid, f.Name)
		}
	}
	s.Meta = maps.Clone(s.Meta)
	maps.DeleteFunc(s.Meta, func(_ string, t filter.Type) bool { return t == filter.Undeclared })
	return s, nil
}

type batch struct {
	ops  *index.Batch
	last string
	err  error // of the source; ops is applied all the same
}

// Copy copies documents and returns how many. It reads one batch ahead.
func Copy(ctx context.Context, c Config) (documents int, err error) {
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	ctx, stop := context.WithCancel(ctx)
	batches, read := make(chan batch, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer close(batches)
		c.read(ctx, batches)
	}()
	defer func() {
		stop()
		<-read // it uses From, which the caller closes
	}()
	for b := range batches {
		if n := b.ops.Len(); n > 0 {
			if err := c.To.Apply(ctx, b.ops); err != nil {
				return documents, fmt.Errorf("up to id %q: %w", b.last, err)
			}
			documents += n
			if err := c.Saved(b.last, documents); err != nil {
				return documents, err
			}
		}
		if b.err != nil {
			return documents, fmt.Errorf("behind id %q: %w", b.last, b.err)
		}
	}
	return documents, ctx.Err()
}

func (c *Config) read(ctx context.Context, out chan<- batch) {
	b := batch{ops: index.NewBatch(), last: c.After}
	bytes := 0
	send := func() bool {
		select {
		case out <- b:
		case <-ctx.Done():
			return false
		}
		b.ops, bytes = index.NewBatch(), 0
		return true
	}
	from := c.After
	if from != "" {
		from += "\x00"
	}
	for d, err := range c.From.Documents(ctx, from) {
		if err == nil && d.ID < from {
			err = errors.New("the source does not keep the order of ids")
		}
		if err != nil {
			b.err = err
			send()
			return
		}
		b.ops.Put(d)
		b.last, from = d.ID, d.ID
		if bytes += size(d); b.ops.Len() >= c.Batch || bytes >= maxBatchBytes {
			if !send() {
				return
			}
		}
	}
	send()
}

// size is about what a document holds in memory.
func size(d index.Document) int {
	n := len(d.ID)
	for _, t := range d.Text {
		n += len(t)
	}
	for _, v := range d.Vectors {
		n += 4 * len(v)
	}
	return n
}
