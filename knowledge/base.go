package knowledge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/parse"
	"github.com/quarrysearch/quarry/storage"
)

// Files of a base's directory; format.md tells what is in them.
const (
	catalogName = "base.json"
	trashName   = "deleted"
	blobsName   = "blobs"
)

// Versions of the catalog file, newest last, never reused.
const (
	catalogVersion1 = 1 // the first
	catalogVersion  = catalogVersion1
)

// AnalyzerAuto chooses the analyzer by the language of each document: the one
// it declares, or else the one its words look like.
const AnalyzerAuto = "auto"

// BaseOptions are fixed when a base is made. Nil means all defaults.
type BaseOptions struct {
	// Name is shown to people; default the id. At most 512 bytes of UTF-8.
	Name string
	// Embedder names one of Options.Embedders; "" is Options.Embedder.
	Embedder string
	// Analyzer is AnalyzerAuto (the default) or a name of package analysis.
	Analyzer string
	// Parse bounds and directs the reading of sources.
	Parse parse.Options
	// Chunk says how texts are cut. Nil is DefaultChunk.
	Chunk *chunk.Options
	// NoHeadings leaves the title and the section path out of what is indexed
	// with each chunk. With them, a chunk is found by words that only its
	// headings hold; its content stays what the source says.
	NoHeadings bool
}

// BaseInfo describes a base.
type BaseInfo struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	Analyzer string    `json:"analyzer"`
	Embedder string    `json:"embedder,omitempty"` // its name in Options.Embedders
	// Frozen tells that something was ingested, and the model is fixed: Model,
	// or none when Model is nil.
	Frozen bool            `json:"frozen"`
	Model  *embed.Identity `json:"model,omitempty"`
	// Documents and Chunks are counted by Store.Base only.
	Documents int `json:"documents"`
	Chunks    int `json:"chunks"`
}

// A catalog is what base.json holds.
type catalog struct {
	Version    int             `json:"version"`
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Created    time.Time       `json:"created"`
	Index      string          `json:"index"` // directory of the index; a rebuild makes another
	Analyzer   string          `json:"analyzer"`
	NoHeadings bool            `json:"no_headings,omitempty"`
	Parse      parse.Options   `json:"parse"`
	Chunk      chunkConfig     `json:"chunk"`
	Embedder   string          `json:"embedder,omitempty"`
	Frozen     bool            `json:"frozen"`
	Model      *embed.Identity `json:"model,omitempty"`
}

func newCatalog(id string, o *BaseOptions, s *Store) (*catalog, error) {
	var opt BaseOptions
	if o != nil {
		opt = *o
	}
	c := &catalog{Version: catalogVersion, ID: id, Name: opt.Name, Created: s.o.Now().UTC().Truncate(time.Microsecond),
		Index: indexDir(1), Analyzer: opt.Analyzer, NoHeadings: opt.NoHeadings, Parse: opt.Parse, Chunk: configOf(DefaultChunk()), Embedder: opt.Embedder}
	if c.Name == "" {
		c.Name = id
	}
	if c.Analyzer == "" {
		c.Analyzer = AnalyzerAuto
	}
	if opt.Chunk != nil {
		c.Chunk = configOf(*opt.Chunk)
	}
	if len(c.Name) > 512 || !utf8.ValidString(c.Name) {
		return nil, storage.Invalidf("name of the knowledge base: want at most 512 bytes of UTF-8")
	}
	if c.Analyzer != AnalyzerAuto && !slices.Contains(analysis.Names(), c.Analyzer) {
		return nil, storage.Invalidf("analyzer %q is not %s or one of %s", c.Analyzer, AnalyzerAuto, strings.Join(analysis.Names(), ", "))
	}
	if _, ok := s.o.Embedders[c.Embedder]; !ok && c.Embedder != "" {
		return nil, storage.Invalidf("embedder %q is not one of the store's", c.Embedder)
	}
	return c, checkChunk(c.Chunk)
}

func indexDir(n int) string { return fmt.Sprintf("index-%d", n) }

func (c *catalog) info() BaseInfo {
	i := BaseInfo{ID: c.ID, Name: c.Name, Created: c.Created, Analyzer: c.Analyzer, Embedder: c.Embedder, Frozen: c.Frozen}
	if c.Model != nil {
		m := *c.Model
		i.Model = &m
	}
	return i
}

func (c *catalog) write(fs storage.FS, dir string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return storage.WriteFileAtomic(fs, dir, catalogName, append(data, '\n'))
}

// maxCatalog bounds base.json.
const maxCatalog = 1 << 20

func readCatalog(fs storage.FS, dir string) (*catalog, error) {
	name := filepath.Join(dir, catalogName)
	data, err := readFile(fs, name, maxCatalog)
	if err != nil {
		return nil, err
	}
	c := new(catalog)
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(c); err != nil {
		return nil, storage.Corruptf(name, d.InputOffset(), "%v", err)
	}
	var n int
	switch {
	case c.Version != catalogVersion:
		return nil, fmt.Errorf("%w: %s has version %d, this build reads %d", storage.ErrVersion, name, c.Version, catalogVersion)
	case c.ID != filepath.Base(dir):
		return nil, storage.Corruptf(name, 0, "it is of the knowledge base %q", c.ID)
	case c.Model != nil && (c.Model.Dim < 1 || c.Model.Dim > 4096):
		return nil, storage.Corruptf(name, 0, "a model of dimension %d", c.Model.Dim)
	}
	// The name is joined to a path.
	if _, err := fmt.Sscanf(c.Index, "index-%d", &n); err != nil || n < 1 || c.Index != indexDir(n) {
		return nil, storage.Corruptf(name, 0, "index directory %q", c.Index)
	}
	return c, nil
}

// readFile reads a whole file of at most limit bytes.
func readFile(fs storage.FS, name string, limit int64) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil && size > limit {
		err = fmt.Errorf("%w: %s has %d bytes, at most %d", storage.ErrTooLarge, name, size, limit)
	}
	var data []byte
	if err == nil {
		data = make([]byte, size)
		_, err = io.ReadFull(io.NewSectionReader(f, 0, size), data)
	}
	return data, errors.Join(err, f.Close())
}

// same tells whether two identities give comparable vectors.
func same(a, b embed.Identity) bool {
	a.Floor, b.Floor = 0, 0
	return a == b
}

func modelName(m *embed.Identity) string {
	if m == nil {
		return "no embedding model"
	}
	name := m.Name
	if m.Revision != "" {
		name += "@" + m.Revision
	}
	return fmt.Sprintf("%s (%d dimensions, %s)", name, m.Dim, m.Metric)
}

// Fields of a base's index. A chunk has one text field, a vector when its base
// has a model, and metadata; a document's record has metadata only, so neither
// leg of a search meets it.
const (
	fieldText   = "text"   // title, section path and content; or text_<analyzer>
	fieldVector = "vector" // of the same text

	FieldKind     = "kind"             // "chunk" or "document"
	FieldDocument = "document_id"      //
	FieldSource   = "source"           // as given at ingest
	FieldTitle    = "title"            //
	FieldFormat   = "format"           // "markdown", "pdf", …
	FieldVersion  = "document_version" // from 1
	FieldArtifact = "artifact_hash"    // SHA-256 of the source bytes, hexadecimal
	FieldLanguage = "language"         // BCP 47, "" unknown
	FieldTags     = "tags"             // list
	FieldAuthors  = "authors"          // list
	FieldCreated  = "created"          // time, as the document says
	FieldModified = "modified"         // time, as the document says

	FieldPage         = "page"          // where the chunk starts, from 1
	FieldPageEnd      = "page_end"      // only where the chunk crosses pages
	FieldChunk        = "chunk_index"   // from 0
	FieldSection      = "section"       // list: the section path
	FieldStart        = "start"         // bytes of the document's text
	FieldEnd          = "end"           //
	FieldSourceStart  = "source_start"  // bytes of the source; missing where the
	FieldSourceEnd    = "source_end"    // text is no copy of the source
	fieldSectionStart = "section_start" // of the deepest section, bytes of the text
	fieldSectionEnd   = "section_end"
	fieldContentAt    = "content_at" // where the content starts in the text field

	fieldText2       = "text_hash" // of the document's text, in blobs
	fieldOrigin      = "origin"
	fieldFingerprint = "fingerprint"
	fieldIngested    = "ingested"
	fieldFileTime    = "file_time"
	fieldChunks      = "chunks"
	fieldPages       = "pages"
	fieldBytes       = "bytes"
	fieldHistory     = "history" // artifact hashes of the last versions, newest first
	fieldTexts       = "texts"   // their text hashes
	fieldWarnings    = "warnings"

	// MetaPrefix precedes the names of what a document says of itself (front
	// matter, meta elements) and of Source.Meta.
	MetaPrefix = "meta."

	kindChunk    = "chunk"
	kindDocument = "document"
)

func ofKind(kind string) filter.Filter { return filter.Eq(FieldKind, kind) }

func ofDocument(id string) filter.Filter { return filter.Eq(FieldDocument, id) }

func schemaMeta() map[string]filter.Type {
	m := make(map[string]filter.Type)
	for _, f := range []string{FieldKind, FieldDocument, FieldSource, FieldTitle, FieldFormat, FieldArtifact, FieldLanguage, FieldTags,
		FieldAuthors, FieldSection, fieldText2, fieldOrigin, fieldFingerprint, fieldHistory, fieldTexts, fieldWarnings} {
		m[f] = filter.Keyword
	}
	for _, f := range []string{FieldVersion, FieldPage, FieldPageEnd, FieldChunk, FieldStart, FieldEnd, FieldSourceStart, FieldSourceEnd,
		fieldSectionStart, fieldSectionEnd, fieldContentAt, fieldChunks, fieldPages, fieldBytes} {
		m[f] = filter.Int64
	}
	for _, f := range []string{FieldCreated, FieldModified, fieldIngested, fieldFileTime} {
		m[f] = filter.Time
	}
	return m
}

// textField names the text field of an analyzer. A base of one analyzer has one
// field; an automatic one has a field an analyzer, of which a chunk fills one:
// so each is searched with its own statistics, and scores stay in [0,1].
func (c *catalog) textField(analyzer string) string {
	if c.Analyzer != AnalyzerAuto {
		return fieldText
	}
	return fieldText + "_" + analyzer
}

func (c *catalog) schema() (*index.Schema, error) {
	sc := &index.Schema{Meta: schemaMeta()}
	if c.Analyzer != AnalyzerAuto {
		sc.Text = []index.TextField{{Name: fieldText, Analyzer: c.Analyzer}}
	} else {
		for _, a := range analysis.Names() {
			sc.Text = append(sc.Text, index.TextField{Name: c.textField(a), Analyzer: a})
		}
	}
	if c.Model != nil {
		f := index.VectorField{Name: fieldVector, Dim: c.Model.Dim}
		switch c.Model.Metric {
		case "", metricCosine: // the zero value
		case metricDot:
			f.Metric = 1
		case metricL2:
			f.Metric = 2
		default:
			return nil, storage.Invalidf("embedding model %s: metric %q", c.Model.Name, c.Model.Metric)
		}
		sc.Vectors = []index.VectorField{f}
	}
	return sc, nil
}

// Names of metrics in an embed.Identity.
const (
	metricCosine = "cosine"
	metricDot    = "dot"
	metricL2     = "l2"
)

// A base is the handle of one knowledge base.
type base struct {
	s   *Store
	id  string
	dir string

	write sync.Mutex // one ingest, delete or rebuild at a time

	mu     sync.Mutex // what follows
	cat    catalog
	ix     *index.Index // nil until first used
	fields []string     // text fields that hold something
	closed bool
}

func (b *base) path(name string) string { return filepath.Join(b.dir, name) }

func (b *base) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.ix == nil {
		return nil
	}
	ix := b.ix
	b.ix = nil
	return ix.Close()
}

// open returns the index, opened when it is not, and the catalog.
func (b *base) open() (*index.Index, catalog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openLocked()
}

func (b *base) openLocked() (*index.Index, catalog, error) {
	if b.closed {
		return nil, catalog{}, noBase(b.id)
	}
	if b.ix != nil {
		return b.ix, b.cat, nil
	}
	if b.s.o.ReadOnly {
		cat, err := readCatalog(b.s.fs, b.dir) // a writer may have rebuilt it
		if err != nil {
			return nil, catalog{}, err
		}
		b.cat = *cat
	} else if err := b.sweep(); err != nil {
		return nil, catalog{}, err
	}
	ix, err := b.openIndex(&b.cat)
	if err != nil {
		return nil, catalog{}, err
	}
	st, err := ix.Stats()
	if err != nil {
		return nil, catalog{}, errors.Join(err, ix.Close())
	}
	b.ix, b.fields = ix, nil
	for _, f := range st.Fields {
		if f.Documents > 0 && (f.Name == fieldText || strings.HasPrefix(f.Name, fieldText+"_")) && f.Kind == "text" {
			b.fields = append(b.fields, f.Name)
		}
	}
	return b.ix, b.cat, nil
}

// sweep removes the indexes of rebuilds that a crash has ended.
func (b *base) sweep() error {
	names, err := b.s.fs.List(b.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "index-") && name != b.cat.Index+"/" {
			if err := removeTree(b.s.fs, b.path(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// openIndex opens the index that a catalog names.
func (b *base) openIndex(cat *catalog) (*index.Index, error) {
	sc, err := cat.schema()
	if err != nil {
		return nil, err
	}
	o := &index.Options{Schema: sc, FS: b.s.fs, Sync: b.s.o.Sync, Logger: b.s.o.Logger, ReadOnly: b.s.o.ReadOnly}
	if o.ReadOnly {
		o.Schema = nil
	}
	ix, err := index.Open(filepath.Join(b.dir, cat.Index), o)
	if err != nil {
		return nil, fmt.Errorf("knowledge base %q: %w", b.id, err)
	}
	return ix, nil
}

// freeze fixes the model of a base at its first ingest, and afterwards checks
// that it is still the same.
func (b *base) freeze(model *embed.Identity) (*index.Index, catalog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cat.Frozen {
		if err := b.cat.checkModel(model); err != nil {
			return nil, catalog{}, err
		}
		return b.openLocked()
	}
	next := b.cat
	next.Frozen, next.Model = true, model
	if _, err := next.schema(); err != nil {
		return nil, catalog{}, err
	}
	// An index that is open has no vector field yet.
	if b.ix != nil {
		ix := b.ix
		b.ix = nil
		if err := ix.Close(); err != nil {
			return nil, catalog{}, err
		}
	}
	if err := next.write(b.s.fs, b.dir); err != nil {
		return nil, catalog{}, err
	}
	b.cat = next
	return b.openLocked()
}

// checkModel compares the model in use with the frozen one.
func (c *catalog) checkModel(model *embed.Identity) error {
	if !c.Frozen || c.Model == nil && model == nil || c.Model != nil && model != nil && same(*c.Model, *model) {
		return nil
	}
	return fmt.Errorf("%w: knowledge base %q was made with %s, in use is %s; rebuild it with: quarry kb rebuild %s",
		ErrModel, c.ID, modelName(c.Model), modelName(model), c.ID)
}

// embedder returns the embedder of a base, nil for none.
func (s *Store) embedder(c *catalog) (embed.Embedder, error) {
	if c.Embedder == "" {
		return s.o.Embedder, nil
	}
	if e := s.o.Embedders[c.Embedder]; e != nil {
		return e, nil
	}
	return nil, storage.Invalidf("knowledge base %q: embedder %q is not one of the store's", c.ID, c.Embedder)
}

// identity asks an embedder for its identity; one that learns its dimension
// from its first answer is asked for a vector. Nil for no embedder.
func identity(ctx context.Context, e embed.Embedder) (*embed.Identity, error) {
	if e == nil {
		return nil, nil
	}
	id := e.Identity()
	if id.Dim <= 0 {
		r, err := e.Embed(ctx, embed.Passage, []string{"quarry"})
		if err != nil {
			return nil, err
		}
		if id = e.Identity(); id.Dim <= 0 {
			id.Dim = len(r.Vectors)
		}
	}
	if id.Dim < 1 || id.Dim > 4096 {
		return nil, fmt.Errorf("%w: model %s has dimension %d, want 1 to 4096", ErrEmbedding, id.Name, id.Dim)
	}
	return &id, nil
}

// hold notes that a text field is in use, before anything is put into it.
func (b *base) hold(fields map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for f := range fields {
		if !slices.Contains(b.fields, f) {
			b.fields = append(slices.Clone(b.fields), f)
		}
	}
	slices.Sort(b.fields)
}

// A view is a base at one moment.
type view struct {
	b      *base
	cat    catalog
	snap   *index.Snapshot
	fields []string
}

func (v *view) close() { _ = v.snap.Close() } // it gives back memory; nothing to report

// view opens a base for reading.
func (s *Store) view(ctx context.Context, id string) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := s.base(id)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ix, cat, err := b.openLocked()
	if err != nil {
		return nil, err
	}
	snap, err := ix.Snapshot()
	if err != nil {
		return nil, err
	}
	return &view{b: b, cat: cat, snap: snap, fields: b.fields}, nil
}
