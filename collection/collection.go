package collection

import (
	"context"
	"errors"
	"iter"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// ErrUnavailable is returned when too few nodes of a cluster answered in time. A
// write that ends so may have been carried out, whole or in part; it can be
// applied again. Sentinels of package storage, such as ErrNotFound, ErrInvalid
// and ErrSchema, keep their meaning on both sides.
var ErrUnavailable = errors.New("quarry: cluster unavailable")

// A Reader answers queries.
type Reader interface {
	// Search answers a query.
	Search(ctx context.Context, q index.Query) (*index.Results, error)
	// Get returns a document, vectors included; ErrNotFound when there is none.
	Get(ctx context.Context, id string) (index.Document, error)
	// Exists says whether there is a document of an id.
	Exists(ctx context.Context, id string) (bool, error)
	// Count returns the number of documents that match f; the zero Filter
	// matches all.
	Count(ctx context.Context, f filter.Filter) (int, error)
	// Documents gives the documents whose id is not less than from, in
	// ascending order of id, vectors included. The first error ends it. It is
	// resumed with the last id and a zero byte behind it.
	Documents(ctx context.Context, from string) iter.Seq2[index.Document, error]
	// Schema returns the schema, metadata that documents brought included.
	Schema(ctx context.Context) (index.Schema, error)
}

// A Snapshot is the collection at one moment where the engine keeps such; it
// must be closed.
type Snapshot interface {
	Reader
	Close() error
}

// A Collection takes documents and answers queries.
type Collection interface {
	Reader
	// Apply carries out a batch. When it returns nil the batch is durable and
	// later searches see it.
	Apply(ctx context.Context, b *index.Batch) error
	// Snapshot returns a view for several calls.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Stats describes the collection; what an engine does not know is zero.
	Stats(ctx context.Context) (index.Stats, error)
	// Flush makes a later Open cheap. It adds nothing to what is durable.
	Flush(ctx context.Context) error
	Close() error
}
