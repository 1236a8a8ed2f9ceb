package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/bm25/sparse"
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
	Sparse  []SparseField          `json:"sparse,omitempty"`
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
	Bits      int          `json:"bits,omitempty"`            // of a component of a code, 8 or 4; default by segment, see hnsw.Options
}

// A SparseField holds at most one sparse vector a document: weights of terms of
// a learned vocabulary (SPLADE and the like), searched by dot product.
type SparseField struct {
	Name string `json:"name"`
}

// Options opens an index; nil means all defaults. Open clones it.
type Options struct {
	// Schema of a new index, or additions to an old one. Nil takes the stored
	// one.
	Schema *Schema
	// ReadOnly opens beside a live writer: it sees the last committed
	// manifest, plus the WAL's durable batches at the time of opening.
	ReadOnly bool
	// Verify makes Open compare every checksum of the segments, so that damage is
	// an error then and in no answer later. It reads all files once. Without it
	// damage that a query does not notice by itself is found by the next merge,
	// Backup or Check.
	Verify bool
	// Analyzers are analyzers with dictionaries (analysis.Analyzer.WithDictionary)
	// that TextField.Analyzer may name besides those of package analysis. An
	// index that was built with one opens only with it.
	Analyzers []*analysis.Analyzer
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
	// QueryBytes bounds the memory that a query takes for what it gathers: the
	// documents that match its filter, ranked hits, values of facets, the fields
	// and passages it returns. One past it is ErrTooLarge, which tells what was
	// being gathered. Default 1 GiB, at least 64 KiB.
	QueryBytes int64
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

// A Document is what an index stores and finds. Its maps name declared text,
// vector and sparse fields and typed metadata; a field that a map does not name is
// missing from the document.
type Document struct {
	// ID is 1–512 bytes of UTF-8. Ids are compared byte by byte.
	ID string `json:"id"`
	// Text holds declared text fields. Invalid UTF-8 is refused.
	Text map[string]string `json:"text,omitempty"`
	// Vectors holds declared vector fields, each of its field's dimension, all
	// components finite, and not zero under cosine.
	Vectors map[string][]float32 `json:"vectors,omitempty"`
	// Sparse holds declared sparse fields: terms that ascend, at most 65,536, with
	// weights above 0 up to 65,504. Weights are rounded to half precision, and
	// given back so; an empty vector counts as none. See bm25/sparse.
	Sparse map[string]sparse.Vector `json:"sparse,omitempty"`
	// Meta holds strings, bools, integers, floats, time.Time, slices of them,
	// or nil (null, which is not the same as missing). Read back, a value is
	// string, bool, int64, float64 or time.Time in UTC, a slice of one of
	// these, or nil.
	Meta map[string]any `json:"meta,omitempty"`
}

// Limits of documents and batches. One past each is ErrTooLarge.
const (
	// MaxDocumentBytes bounds a document as it is written to the WAL: its id,
	// texts, vectors and metadata.
	MaxDocumentBytes = 64 << 20
	// MaxBatchBytes bounds a batch as it is written to the WAL.
	MaxBatchBytes = 1 << 30
	// MaxMetaFields bounds the metadata fields of an index.
	MaxMetaFields = 65_536
	// MaxFields bounds the text fields, the vector fields and the sparse fields of
	// an index.
	MaxFields = 1_024
	// MaxName bounds the name of a field in bytes.
	MaxName = 128
)

// A Batch is a list of operations that Apply makes visible and durable at
// once, or not at all. They count in order: of two operations on one id the
// later wins. A Batch is not safe for concurrent use.
//
// It keeps the maps and slices of the documents put into it: leave them alone
// until Apply has returned. Apply does not change the batch, so that a batch
// that was refused can be mended or applied again.
type Batch struct {
	ops []op
}

type opKind uint8

const (
	opPut opKind = iota
	opDelete
	opDeleteWhere
)

type op struct {
	kind   opKind
	doc    Document // of opPut; only its ID of opDelete
	filter filter.Filter
}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{} }

// Put adds a document, or replaces the one of the same id as a whole: texts,
// vectors and metadata that the new one does not name are gone.
func (b *Batch) Put(d Document) { b.ops = append(b.ops, op{kind: opPut, doc: d}) }

// Delete removes the document of an id; an id that is not there is no error.
func (b *Batch) Delete(id string) {
	b.ops = append(b.ops, op{kind: opDelete, doc: Document{ID: id}})
}

// DeleteWhere removes the documents that match f when the batch is applied,
// those put earlier in the batch included. A nil filter is refused by Apply:
// a delete never widens by accident.
func (b *Batch) DeleteWhere(f filter.Filter) {
	b.ops = append(b.ops, op{kind: opDeleteWhere, filter: f})
}

// Len returns the number of operations; 0 for a nil batch.
func (b *Batch) Len() int {
	if b == nil {
		return 0
	}
	return len(b.ops)
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.ops)
	b.ops = b.ops[:0]
}

// Stats describes an index at one moment.
type Stats struct {
	Generation   uint64         `json:"generation"`    // commits so far
	Documents    int            `json:"documents"`     // live
	Deleted      int            `json:"deleted"`       // tombstones no merge has dropped yet
	Segments     []SegmentStats `json:"segments"`      // file segments, then memory segments
	MutableBytes int64          `json:"mutable_bytes"` // of the memory segments
	WALBytes     int64          `json:"wal_bytes"`     // of all log files
	Fields       []FieldStats   `json:"fields"`
	// LastError is the last failure of a flush or merge since Open, nil for
	// none. ReadOnly tells why the index takes no writes.
	LastError *BackgroundError `json:"last_error,omitempty"`
	ReadOnly  error            `json:"-"`
}

// SegmentStats describes one segment.
type SegmentStats struct {
	Name    string `json:"name"` // file name, or "mutable"
	Bytes   int64  `json:"bytes"`
	Docs    int    `json:"docs"`    // tombstoned ones included
	Deleted int    `json:"deleted"` // tombstones
}

// FieldStats counts the documents that hold a field, tombstoned ones included.
type FieldStats struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // "text", "vector", "sparse" or "metadata"
	Type      string `json:"type"` // analyzer, metric and dimension, or type
	Documents int    `json:"documents"`
}

// Stats describes the index as it is now. It costs a bitmap operation a
// metadata field and segment.
func (ix *Index) Stats() (Stats, error) {
	var st Stats
	s, err := ix.Snapshot()
	if err != nil {
		return st, err
	}
	defer s.Close()
	st.Generation = ix.generation.Load()
	st.LastError, st.ReadOnly = ix.bg.err.Load(), ix.writable()
	for _, v := range s.segs {
		d := SegmentStats{Name: v.name, Bytes: v.h.size, Docs: int(v.Docs), Deleted: int(v.Docs) - v.live}
		st.Segments = append(st.Segments, d)
		st.Documents += v.live
		st.Deleted += d.Deleted
	}
	st.MutableBytes = s.st.memoryBytes()
	if st.WALBytes, err = ix.walBytes(); err != nil {
		return st, err
	}
	err = guard(func() error {
		st.Fields, err = s.fieldStats()
		return err
	})
	return st, err
}

func (ix *Index) walBytes() (int64, error) {
	names, err := ix.fs.List(ix.dir)
	var total int64
	for _, name := range names {
		if storage.ParseFileName(name).Kind != storage.FileWAL {
			continue
		}
		n, err := ix.fs.Stat(ix.path(name))
		if err != nil && !errors.Is(err, ErrNotFound) { // removed meanwhile
			return 0, err
		}
		total += n
	}
	return total, err
}

func (s *Snapshot) fieldStats() ([]FieldStats, error) {
	var out []FieldStats
	for _, f := range s.schema.public.Text {
		fs := FieldStats{Name: f.Name, Kind: "text", Type: f.Analyzer}
		for _, v := range s.segs {
			if t := v.Text[f.Name]; t != nil {
				fs.Documents += int(t.Stats().DocsWithField)
			}
		}
		out = append(out, fs)
	}
	for _, f := range s.schema.public.Vectors {
		fs := FieldStats{Name: f.Name, Kind: "vector", Type: fmt.Sprintf("%v %d", f.Metric, f.Dim)}
		for _, v := range s.segs {
			if t := v.Vectors[f.Name]; t != nil {
				fs.Documents += t.Len()
			}
		}
		out = append(out, fs)
	}
	for _, f := range s.schema.public.Sparse {
		fs := FieldStats{Name: f.Name, Kind: "sparse", Type: "weights by term"}
		for _, v := range s.segs {
			if t := v.Sparse[f.Name]; t != nil {
				fs.Documents += int(t.Stats().DocsWithField)
			}
		}
		out = append(out, fs)
	}
	n := len(out)
	for name, typ := range s.schema.public.Meta {
		fs := FieldStats{Name: name, Kind: "metadata", Type: typ.String()}
		c, err := s.schema.compile(filter.Or(filter.Exists(name), filter.IsNull(name)))
		if err != nil {
			return nil, err
		}
		for _, v := range s.segs {
			m, err := c.Eval(context.Background(), v.Filter, nil, v.Docs)
			if err != nil {
				return nil, err
			}
			fs.Documents += int(m.GetCardinality())
		}
		out = append(out, fs)
	}
	slices.SortFunc(out[n:], func(a, b FieldStats) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Sentinels, matched with errors.Is. They are the ones of package storage, so
// an error keeps its kind wherever in the engine it arose.
var (
	ErrClosed   = storage.ErrClosed
	ErrLocked   = storage.ErrLocked
	ErrReadOnly = storage.ErrReadOnly
	ErrNotFound = storage.ErrNotFound
	ErrCorrupt  = storage.ErrCorrupt
	ErrVersion  = storage.ErrVersion
	ErrSchema   = storage.ErrSchema
	ErrInvalid  = storage.ErrInvalid
	ErrTooLarge = storage.ErrTooLarge
	ErrIO       = storage.ErrIO
)

func invalidf(format string, args ...any) error { return storage.Invalidf(format, args...) }

func schemaf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSchema, fmt.Sprintf(format, args...))
}

func tooLargef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTooLarge, fmt.Sprintf(format, args...))
}

func notFound(id string) error { return fmt.Errorf("%w: document %q", ErrNotFound, id) }

// guard runs f such that a memory fault in a mapped file is an ErrIO, not the
// end of the program.
func guard(f func() error) error { return storage.Guard(f) }
