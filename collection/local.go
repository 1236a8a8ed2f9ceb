package collection

import (
	"context"
	"iter"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// Local is an index of this machine as a Collection. Calls that take a context
// and are a lookup look at it once, before they begin.
type Local struct{ Index *index.Index }

// Open opens the index in dir as a Collection; see index.Open.
func Open(dir string, o *index.Options) (*Local, error) {
	ix, err := index.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &Local{ix}, nil
}

// Search is index.Index.Search.
func (l *Local) Search(ctx context.Context, q index.Query) (*index.Results, error) {
	return l.Index.Search(ctx, q)
}

// Apply is index.Index.Apply.
func (l *Local) Apply(ctx context.Context, b *index.Batch) error { return l.Index.Apply(ctx, b) }

// Flush is index.Index.Flush.
func (l *Local) Flush(ctx context.Context) error { return l.Index.Flush(ctx) }

// Close is index.Index.Close.
func (l *Local) Close() error { return l.Index.Close() }

// Get is index.Index.Get.
func (l *Local) Get(ctx context.Context, id string) (d index.Document, err error) {
	err = l.read(ctx, func(s *index.Snapshot) error { d, err = s.Get(id); return err })
	return d, err
}

// Exists is index.Index.Exists.
func (l *Local) Exists(ctx context.Context, id string) (ok bool, err error) {
	err = l.read(ctx, func(s *index.Snapshot) error { ok, err = s.Exists(id); return err })
	return ok, err
}

// Count is index.Index.Count.
func (l *Local) Count(ctx context.Context, f filter.Filter) (n int, err error) {
	err = l.read(ctx, func(s *index.Snapshot) error { n, err = s.Count(ctx, f); return err })
	return n, err
}

// Schema is index.Index.Schema.
func (l *Local) Schema(ctx context.Context) (sc index.Schema, err error) {
	err = l.read(ctx, func(s *index.Snapshot) error { sc = s.Schema(); return nil })
	return sc, err
}

// Stats is index.Index.Stats.
func (l *Local) Stats(ctx context.Context) (index.Stats, error) {
	if err := ctx.Err(); err != nil {
		return index.Stats{}, err
	}
	return l.Index.Stats()
}

// Documents is index.Index.Documents.
func (l *Local) Documents(ctx context.Context, from string) iter.Seq2[index.Document, error] {
	return documents(ctx, l.Index.Documents(from))
}

// Snapshot is index.Index.Snapshot.
func (l *Local) Snapshot(ctx context.Context) (Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := l.Index.Snapshot()
	if err != nil {
		return nil, err
	}
	return LocalSnapshot{s}, nil
}

func (l *Local) read(ctx context.Context, f func(s *index.Snapshot) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := l.Index.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close() // it gives back memory: nothing to report
	return f(s)
}

// LocalSnapshot is a snapshot of an index of this machine.
type LocalSnapshot struct{ Snapshot *index.Snapshot }

// Search is index.Snapshot.Search.
func (l LocalSnapshot) Search(ctx context.Context, q index.Query) (*index.Results, error) {
	return l.Snapshot.Search(ctx, q)
}

// Get is index.Snapshot.Get.
func (l LocalSnapshot) Get(ctx context.Context, id string) (index.Document, error) {
	if err := ctx.Err(); err != nil {
		return index.Document{}, err
	}
	return l.Snapshot.Get(id)
}

// Exists is index.Snapshot.Exists.
func (l LocalSnapshot) Exists(ctx context.Context, id string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return l.Snapshot.Exists(id)
}

// Count is index.Snapshot.Count.
func (l LocalSnapshot) Count(ctx context.Context, f filter.Filter) (int, error) {
	return l.Snapshot.Count(ctx, f)
}

// Schema is index.Snapshot.Schema.
func (l LocalSnapshot) Schema(ctx context.Context) (index.Schema, error) {
	return l.Snapshot.Schema(), ctx.Err()
}

// Documents is index.Snapshot.Documents.
func (l LocalSnapshot) Documents(ctx context.Context, from string) iter.Seq2[index.Document, error] {
	return documents(ctx, l.Snapshot.Documents(from))
}

// Close is index.Snapshot.Close.
func (l LocalSnapshot) Close() error { return l.Snapshot.Close() }

// documents ends an iteration when ctx is done.
func documents(ctx context.Context, seq iter.Seq2[index.Document, error]) iter.Seq2[index.Document, error] {
	return func(yield func(index.Document, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(index.Document{}, err)
			return
		}
		for d, err := range seq {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}
