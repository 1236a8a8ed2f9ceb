package index

import (
	"log/slog"
	"time"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A Schema declares the fields of an index. It is stored in the manifest; an
// Open with another schema may add fields, change boosts and turn Strict on;
// fields it leaves out stay, and everything else that differs is ErrSchema.
type Schema struct {
	Text    []TextField            `json:"text,omitempty"`
	Vectors []VectorField          `json:"vectors,omitempty"`
	Meta    map[string]filter.Type `json:"meta,omitempty"`
	// Strict refuses undeclared metadata; otherwise it is indexed by the type
	// first seen, and a later conflict is ErrSchema naming field, document and
	// both types.
	Strict bool `json:"strict,omitempty"`
}

// A TextField is indexed for keyword search. Its name, like every field name,
// is 1–128 bytes of UTF-8 without control characters, unique over all kinds
// of fields.
type TextField struct {
	Name string `json:"name"`
	// Analyzer names an analyzer of package analysis; default "standard".
	Analyzer string `json:"analyzer,omitempty"`
	// Boost weighs the field among the text fields, default 1, finite, > 0.
	Boost float64 `json:"boost,omitempty"`
	// K1 and B are BM25's parameters, defaults 1.2 and 0.75 (nil).
	K1 *float64 `json:"k1,omitempty"`
	B  *float64 `json:"b,omitempty"`
	// NotStored keeps the text out of the stored document: it is found but
	// neither returned nor highlighted.
	NotStored bool `json:"not_stored,omitempty"`
}

// A VectorField holds at most one vector a document.
type VectorField struct {
	Name      string       `json:"name"`
	Dim       int          `json:"dim"` // 1–4096
	Metric    quant.Metric `json:"metric"`
	M         int          `json:"m,omitempty"`               // default 16, 4–64
	Construct int          `json:"ef_construction,omitempty"` // default 200, 8–2000
}

// Options opens an index; nil means all defaults. Open clones it.
type Options struct {
	// Schema of a new index, or additions to an old one. Nil takes the stored
	// one.
	Schema *Schema
	// ReadOnly opens beside a live writer: it sees the last committed
	// manifest, plus the WAL's durable batches at the time of opening.
	ReadOnly bool
	// MustExist makes Open of a directory without an index ErrNotFound.
	MustExist bool
	// Sync says when an applied batch is durable; default storage.SyncAlways.
	Sync storage.SyncPolicy
	// MutableBytes is the budget of the mutable segment; at this size it is
	// flushed, and a batch larger than it goes straight to a segment. Default
	// 64 MiB, 64 KiB–4 GiB.
	MutableBytes int64
	// Threads bounds the work of one search, build or merge; default GOMAXPROCS.
	Threads int
	// GraphMin is the number of vectors below which a segment is scanned and
	// carries no graph; default 10,000.
	GraphMin int
	// MaxSegments is the number of file segments above which writers wait for
	// the merger; default 32, at least 2.
	MaxSegments int
	// NoBackground turns background flush and merge off: they then happen
	// inside Apply, Flush and Merge. For tests and batch jobs.
	NoBackground bool
	// FS is the file system; default storage.OS.
	FS storage.FS
	// Logger gets background failures and merges; nil logs nothing.
	Logger *slog.Logger
	// Progress is told of long work: graph builds and merges. It may be called
	// from several goroutines.
	Progress func(stage string, done, total int)
	// BackgroundRetry is the pause after a failed flush or merge; default 1 s.
	BackgroundRetry time.Duration
}
