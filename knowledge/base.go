package knowledge

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
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
	catalogVersion2 = 2 // collection, and never without it
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
	// Generation is that of the reference "id@n"; 0 for the live base.
	Generation int `json:"generation,omitempty"`
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
	Index      string          `json:"index"`                // directory of the index; a rebuild makes another
	Collection string          `json:"collection,omitempty"` // where the index is elsewhere, the start of its name
	Analyzer   string          `json:"analyzer"`
	NoHeadings bool            `json:"no_headings,omitempty"`
	Parse      parse.Options   `json:"parse"`
	Chunk      chunkConfig     `json:"chunk"`
	Embedder   string          `json:"embedder,omitempty"`
	Frozen     bool            `json:"frozen"`
	Model      *embed.Identity `json:"model,omitempty"`

	LastGeneration int `json:"last_generation,omitempty"` // of the live base: numbers used
	// Of a generation.
	Generation int       `json:"generation,omitempty"`
	FrozenAt   time.Time `json:"frozen_at,omitzero"`
	Documents  int       `json:"documents,omitempty"`
	Chunks     int       `json:"chunks,omitempty"`
}

func newCatalog(id string, o *BaseOptions, s *Store) (*catalog, error) {
	var opt BaseOptions
	if o != nil {
		opt = *o
	}
	c := &catalog{Version: catalogVersion1, ID: id, Name: opt.Name, Created: s.now(),
		Index: indexDir(1), Analyzer: opt.Analyzer, NoHeadings: opt.NoHeadings, Parse: opt.Parse, Chunk: configOf(DefaultChunk()), Embedder: opt.Embedder}
	if c.Name == "" {
		c.Name = id
	}
	if s.o.Elsewhere != nil {
		// Stores that share a cluster may have bases of one id.
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, err
		}
		c.Version, c.Collection = catalogVersion2, id+"-"+hex.EncodeToString(b[:])
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
	if err := errors.Join(c.Parse.Validate(), checkChunk(c.Chunk)); err != nil {
		return nil, err
	}
	return c, nil
}

func indexDir(n int) string { return fmt.Sprintf("index-%d", n) }

func (c *catalog) info() BaseInfo {
	i := BaseInfo{ID: c.ID, Name: c.Name, Created: c.Created, Analyzer: c.Analyzer, Embedder: c.Embedder, Frozen: c.Frozen, Generation: c.Generation}
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

// readCatalog reads the catalog file of a base, or of a generation.
func readCatalog(fs storage.FS, dir, id string, generation int) (*catalog, error) {
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
	case c.Version != catalogVersion1 && c.Version != catalogVersion2:
		return nil, fmt.Errorf("%w: %s has version %d, this build reads %d and %d", storage.ErrVersion, name, c.Version, catalogVersion1, catalogVersion2)
	case (c.Version == catalogVersion2) != (c.Collection != "") || len(c.Collection) > 80:
		return nil, storage.Corruptf(name, 0, "version %d with the collection %.100q", c.Version, c.Collection)
	case c.ID != id || c.Generation != generation:
		return nil, storage.Corruptf(name, 0, "it is of the knowledge base %q, generation %d", c.ID, c.Generation)
	case c.LastGeneration < 0 || c.LastGeneration > maxGeneration:
		return nil, storage.Corruptf(name, 0, "last generation %d", c.LastGeneration)
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

// Fields of a base's index. A chunk has one text field, a vector when its base
// has a model, and metadata; a document's record has metadata only, so neither
// leg of a search meets it.
const (
	fieldText   = "text"   // title, section path and content; or text_<analyzer>
	fieldVector = "vector" // of the same text

	FieldKind      = "kind"             // "chunk" or "document"
	FieldDocument  = "document_id"      //
	FieldSource    = "source"           // as given at ingest
	FieldTitle     = "title"            //
	FieldFormat    = "format"           // "markdown", "pdf", …
	FieldVersion   = "document_version" // from 1
	FieldArtifact  = "artifact_hash"    // SHA-256 of the source bytes, hexadecimal
	FieldLanguage  = "language"         // BCP 47, "" unknown
	FieldTags      = "tags"             // list
	FieldAuthors   = "authors"          // list
	FieldCreated   = "created"          // time, as the document says
	FieldModified  = "modified"         // time, as the document says
	FieldEntities  = "entities"         // list: names the document holds
	FieldFreshness = "freshness"        // fresh, stale, expired or unknown
	FieldSourceID  = "source_id"        // what the source is called elsewhere

	FieldNodeKind     = "node_kind"     // chunk, section, table, image or summary
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
	fieldDisabled    = "disabled" // only of records, and only when true

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
		FieldAuthors, FieldEntities, FieldFreshness, FieldNodeKind, FieldSourceID, FieldSection, fieldText2, fieldOrigin, fieldFingerprint, fieldHistory, fieldTexts, fieldWarnings} {
		m[f] = filter.Keyword
	}
	for _, f := range []string{FieldVersion, FieldPage, FieldPageEnd, FieldChunk, FieldStart, FieldEnd, FieldSourceStart, FieldSourceEnd,
		fieldSectionStart, fieldSectionEnd, fieldContentAt, fieldChunks, fieldPages, fieldBytes} {
		m[f] = filter.Int64
	}
	m[fieldDisabled] = filter.Bool
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

// A chunkConfig is chunk.Options as a catalog keeps them.
type chunkConfig struct {
	Strategy   chunk.Strategy `json:"strategy,omitempty"`
	Unit       chunk.Unit     `json:"unit,omitempty"`
	Size       *int           `json:"size,omitempty"`
	Separator  *string        `json:"separator,omitempty"`
	Overlap    *int           `json:"overlap,omitempty"`
	TokenLimit int            `json:"token_limit,omitempty"`
	MaxChunks  int            `json:"max_chunks,omitempty"`
	KeepWhole  int            `json:"keep_whole,omitempty"`
	AtSentence bool           `json:"at_sentence,omitempty"`
}

func configOf(o chunk.Options) chunkConfig {
	return chunkConfig{o.Strategy, o.Unit, o.Size, o.Separator, o.Overlap, o.TokenLimit, o.MaxChunks, o.KeepWhole, o.AtSentence}
}

func (c *chunkConfig) options(t chunk.Tokenizer) chunk.Options {
	return chunk.Options{Strategy: c.Strategy, Unit: c.Unit, Size: c.Size, Separator: c.Separator, Overlap: c.Overlap, Tokenizer: t,
		TokenLimit: c.TokenLimit, MaxChunks: c.MaxChunks, KeepWhole: c.KeepWhole, AtSentence: c.AtSentence}
}

// Of DefaultChunk.
const (
	defaultChunkSize = 300
	defaultKeepWhole = 450
	defaultMaxChunks = 1 << 20 // of one document
)

// DefaultChunk is how a base cuts its texts unless told otherwise: by
// structure, at most 300 tokens of the model; code blocks and tables stay whole
// up to 450. So a chunk and its headings fit the 512 tokens that encoders read.
func DefaultChunk() chunk.Options {
	size := defaultChunkSize
	return chunk.Options{Strategy: chunk.Structure, Unit: chunk.Token, Size: &size, KeepWhole: defaultKeepWhole, MaxChunks: defaultMaxChunks}
}

// checkChunk checks the chunk options of a base.
func checkChunk(c chunkConfig) error {
	o := c.options(nil)
	_, err := chunk.New(&o)
	return err
}
