package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/describe"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/parse"
	"github.com/quarrysearch/quarry/storage"
)

// ingestVersion is the version of what this package makes of a source. When it
// changes, an ingest makes everything anew.
const ingestVersion = 2

// A piece is a chunk on its way into the index.
type piece struct {
	start, end    int // bytes of the document's text
	from, to      int // bytes of the source; from < 0 where it is no copy
	page, pageEnd int
	path          []string
	parent        chunk.Span
	kind          string // of node
	entities      []string
	text          string // indexed and embedded: headings, then the content
	contentAt     int
	vector        []float32 // nil: none wanted, or the text has no direction
	truncated     bool
}

// A version is a source that was parsed and cut.
type version struct {
	doc      Document
	text     string
	analyzer string
	pieces   []piece
	old      *Document
	isNew    bool // the base has no document of that id
	declared declared
	stored   chan error
}

// A preparer makes versions of sources for one base. It is shared by the
// workers of an ingest.
type preparer struct {
	s           *Store
	b           *base
	cat         catalog
	chunker     *chunk.Chunker
	fingerprint string
	maxBytes    int64
	replace     bool
	lookup      func(id string) (Document, error)
	start       func(func()) // a goroutine that the ingest waits for
	writes      chan struct{}
}

func newPreparer(b *base, cat catalog, e embed.Embedder) (*preparer, error) {
	tokenizer := embed.SpansOf(e)
	opts := cat.Chunk.options(tokenizer)
	chunker, err := chunk.New(&opts)
	if err != nil {
		return nil, err
	}
	model := cat.Model
	if model != nil {
		m := *model
		m.Floor = 0
		model = &m
	}
	print, err := json.Marshal([]any{ingestVersion, cat.Parse, cat.Chunk, cat.Analyzer, cat.NoHeadings, model, tokenizer != nil})
	if err != nil {
		return nil, err
	}
	return &preparer{s: b.s, b: b, cat: cat, chunker: chunker, fingerprint: hashOf(print), maxBytes: defaultMaxFile,
		writes: make(chan struct{}, blobWrites)}, nil
}

// errUnchanged says that the base holds this version already.
var errUnchanged = errors.New("unchanged")

// prepare reads, compares, parses and cuts one source, and keeps its bytes.
func (p *preparer) prepare(ctx context.Context, pl *place) (*version, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, modified, err := pl.read(p.maxBytes)
	if err != nil {
		return nil, err
	}
	v := &version{doc: Document{ID: pl.id, Source: pl.name, Origin: pl.origin, Version: 1, ArtifactHash: hashOf(data),
		Bytes: int64(len(data)), Ingested: p.s.now()}}
	if !modified.IsZero() {
		v.doc.FileTime = modified.UTC().Truncate(time.Microsecond)
	}
	if v.doc.fingerprint, err = p.fingerprintOf(pl); err != nil {
		return nil, err
	}
	if err := p.compare(v, pl); err != nil {
		return nil, err
	}
	parsed, err := parse.Parse(ctx, pl.name, data, p.cat.Parse)
	if err != nil {
		return nil, err
	}
	p.describe(v, pl, parsed)
	if err := p.cut(ctx, v, parsed); err != nil {
		return nil, err
	}
	v.doc.TextHash = hashOf([]byte(v.text))
	p.store(v, data)
	p.keep(v)
	return v, nil
}

// store keeps the source and the text of a version, in the background:
// version.stored tells when, and how it went.
func (p *preparer) store(v *version, data []byte) {
	v.stored = make(chan error, 1)
	p.writes <- struct{}{} // a write always ends, so this does
	p.start(func() {
		err := p.s.putBlob(p.b.dir, v.doc.ArtifactHash, data)
		if err == nil && v.doc.TextHash != v.doc.ArtifactHash {
			err = p.s.putBlob(p.b.dir, v.doc.TextHash, []byte(v.text))
		}
		<-p.writes
		v.stored <- err
	})
}

// fingerprintOf covers all that decides what becomes of a source, its bytes
// aside: what the base does, and after a colon what the caller said of it. A
// rebuild keeps the second part.
func (p *preparer) fingerprintOf(pl *place) (string, error) {
	if pl.carry != nil {
		if _, own, ok := strings.Cut(pl.carry.fingerprint, ":"); ok {
			return p.fingerprint + ":" + own, nil
		}
		return p.fingerprint, nil
	}
	if pl.title == "" && len(pl.meta) == 0 {
		return p.fingerprint, nil
	}
	own, err := json.Marshal([]any{pl.title, pl.meta})
	if err != nil {
		return "", storage.Invalidf("source %q: metadata: %v", pl.name, err)
	}
	return p.fingerprint + ":" + hashOf(own), nil
}

// compare looks for an earlier version.
func (p *preparer) compare(v *version, pl *place) error {
	if pl.carry != nil {
		d := pl.carry
		v.doc.Version, v.doc.history, v.doc.texts, v.doc.Ingested, v.doc.FileTime = d.Version, d.history, d.texts, d.Ingested, d.FileTime
	}
	old, err := p.lookup(pl.id)
	if errors.Is(err, storage.ErrNotFound) {
		v.isNew = true
		return nil
	}
	if err != nil {
		return err
	}
	if old.Origin != pl.origin && old.Origin != "" && !p.replace {
		return storage.Invalidf("document %q came from %s before: give this one another name, or replace it", pl.id, old.Origin)
	}
	v.old = &old
	if pl.carry != nil {
		return nil
	}
	if old.ArtifactHash == v.doc.ArtifactHash {
		if old.fingerprint == v.doc.fingerprint && old.Source == v.doc.Source && old.Origin == v.doc.Origin {
			return errUnchanged
		}
		v.doc.Version = old.Version // cut anew, but the same content
	} else {
		v.doc.Version = old.Version + 1
	}
	return nil
}

// keep makes the history: entry i is of version Version−i.
func (p *preparer) keep(v *version) {
	from := v.old
	if v.doc.history != nil { // a rebuild
		from = &v.doc
	}
	var history, texts []string
	if from != nil {
		history, texts = from.history, from.texts
		if from.Version == v.doc.Version { // cut anew
			history, texts = history[min(1, len(history)):], texts[min(1, len(texts)):]
		}
	}
	n := p.s.o.KeepVersions
	v.doc.history = append([]string{v.doc.ArtifactHash}, history[:min(n, len(history))]...)
	v.doc.texts = append([]string{v.doc.TextHash}, texts[:min(n, len(texts))]...)
}

// describe takes over what a document says of itself.
func (p *preparer) describe(v *version, pl *place, d *parse.Document) {
	m := &d.Metadata
	v.text = d.Text
	v.doc.Format, v.doc.Title, v.doc.Authors = string(d.Format), clip(m.Title, maxTitle), clipList(m.Authors)
	v.doc.Pages = len(d.Pages)
	if pl.title != "" {
		v.doc.Title = clip(pl.title, maxTitle)
	}
	if !m.Date.IsZero() {
		v.doc.Created = m.Date.UTC()
	}
	if !m.Modified.IsZero() {
		v.doc.Modified = m.Modified.UTC()
	}
	for _, w := range d.Warnings {
		v.doc.warn("%s", w.Message)
	}
	v.doc.Tags = clipList(listOf(m.Fields["tags"]))
	v.doc.Meta = frontMatter(m.Fields, &v.doc)
	if pl.carry != nil {
		if strings.Contains(v.doc.fingerprint, ":") {
			v.doc.Title = pl.carry.Title
		}
		for k, x := range pl.carry.Meta {
			v.doc.setMeta(k, x)
		}
	}
	for k, x := range pl.meta {
		v.doc.setMeta(k, x)
	}
	v.declare(pl, m)
	v.analyzer, v.doc.Language = p.s.detector.Language(m.Language, d.Text)
	if p.cat.Analyzer != AnalyzerAuto {
		v.analyzer = p.cat.Analyzer
	}
}

// Kinds of node: what a chunk is in its document. Package parse tells the first
// three apart; a document has to declare the others (node_kind).
const (
	NodeChunk   = "chunk"   // part of a section, or of a text without any
	NodeSection = "section" // a whole section with its heading
	NodeTable   = "table"   // rows of tables, and headings at most
	NodeImage   = "image"
	NodeSummary = "summary"
)

// Bounds of entities.
const (
	maxEntities      = 100 // of a document, and of a chunk with those declared
	maxChunkEntities = 32  // found in a chunk
)

// ownFields are the front matter that has fields of its own.
var ownFields = []string{"tags", "entities", "freshness", "node_kind", "source_id"}

// expiryFields may say when a document ceases to hold.
var expiryFields = []string{"expires", "expiry", "expiry_date", "expiration_date", "valid_until"}

// declared is what a document, or its caller, says of its chunks.
type declared struct {
	entities []string
	kind     string
}

// declare takes over entities, freshness, kind of node and source id: what the
// caller says goes before what the document does.
func (v *version) declare(pl *place, m *parse.Metadata) {
	look := func(name string) any {
		if x, ok := pl.meta[name]; ok {
			return x
		}
		if pl.carry != nil {
			if x, ok := pl.carry.Meta[name]; ok {
				return x
			}
		}
		return m.Fields[name]
	}
	text := func(name string) string { s, _ := look(name).(string); return clip(strings.TrimSpace(s), maxTitle) }
	v.declared.entities = union(nil, clipList(listOf(look("entities"))), maxEntities)
	switch kind := text("node_kind"); kind {
	case NodeChunk, NodeSection, NodeTable, NodeImage, NodeSummary:
		v.declared.kind = kind
	case "":
	default:
		v.doc.warn("node_kind %q is none: left out", kind)
	}
	v.doc.SourceID = cmp.Or(text("source_id"), pl.sourceID, pl.name)
	var expiry time.Time
	for _, name := range expiryFields {
		switch x := look(name).(type) {
		case time.Time:
			expiry = x
		case string:
			for _, layout := range []string{time.RFC3339, time.DateOnly} {
				if t, err := time.Parse(layout, strings.TrimSpace(x)); err == nil {
					expiry = t
				}
			}
		}
		if !expiry.IsZero() {
			break
		}
	}
	changed := v.doc.Modified
	if changed.IsZero() {
		changed = v.doc.Created
	}
	v.doc.Freshness = describe.Freshness(text("freshness"), expiry, changed, v.doc.Ingested)
}

// entities are those declared and those that stand in a chunk.
func (v *version) entities(text string) []string {
	return union(slices.Clone(v.declared.entities), describe.Entities(text, maxChunkEntities), maxEntities)
}

// union appends what is not there yet, to at most so many.
func union(to, from []string, most int) []string {
	for _, s := range from {
		if len(to) < most && !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}

// nodeKind tells what the chunk text[start:end] is.
func (v *version) nodeKind(d *parse.Document, start, end int) string {
	if v.declared.kind != "" {
		return v.declared.kind
	}
	rows, other := 0, 0
	first, _ := slices.BinarySearchFunc(d.Blocks, start, func(b parse.Block, at int) int { return cmp.Compare(b.End, at+1) })
	for _, b := range d.Blocks[first:] {
		if b.Start >= end || other > 0 {
			break
		}
		switch {
		case b.Kind == parse.Table, b.Kind == parse.Record && (d.Format == parse.CSV || d.Format == parse.XLSX):
			rows++
		case b.Kind != parse.Heading:
			other++
		}
	}
	if rows > 0 && other == 0 {
		return NodeTable
	}
	for i := d.SectionAt(start); i >= 0; i = d.Sections[i].Parent {
		if s := &d.Sections[i]; s.Start == start && end <= s.End && strings.TrimLeft(d.Text[end:s.End], " \t\r\n\f") == "" {
			return NodeSection
		}
	}
	return NodeChunk
}

func (d *Document) setMeta(name string, v any) {
	if d.Meta == nil {
		d.Meta = make(map[string]any)
	}
	d.Meta[name] = v
}

// Bounds of what a document may say of itself.
const (
	maxTitle    = 512
	maxWarnings = 50
	maxTags     = 100
	maxFields   = 64
	maxValue    = 1024 // bytes
)

func (d *Document) warn(format string, args ...any) {
	switch n := len(d.Warnings); {
	case n < maxWarnings:
		d.Warnings = append(d.Warnings, clip(fmt.Sprintf(format, args...), maxValue))
	case n == maxWarnings:
		d.Warnings = append(d.Warnings, "more warnings were left out")
	}
}

// frontMatter makes metadata of the fields of a document, dropping what has no
// type of the index's.
func frontMatter(in map[string]any, d *Document) map[string]any {
	names := make([]string, 0, len(in))
	for k := range in {
		if k != "" && len(k) <= maxMetaName && !slices.Contains(ownFields, k) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	if len(names) > maxFields {
		d.warn("%d metadata fields, %d are kept", len(names), maxFields)
		names = names[:maxFields]
	}
	var out map[string]any
	for _, k := range names {
		var v any
		switch x := in[k].(type) {
		case string:
			v = clip(x, maxValue)
		case bool, int64, float64:
			v = x
		case time.Time:
			v = x.UTC()
		case []any:
			if l := clipList(listOf(x)); len(l) > 0 {
				v = l
			}
		}
		if v != nil {
			if out == nil {
				out = make(map[string]any)
			}
			out[k] = v
		}
	}
	return out
}

// listOf makes a list of texts of a list of anything, or of text with commas.
func listOf(v any) []string {
	var out []string
	switch x := v.(type) {
	case string:
		for part := range strings.SplitSeq(x, ",") {
			out = append(out, strings.TrimSpace(part))
		}
	case []string:
		return slices.DeleteFunc(slices.Clone(x), func(s string) bool { return s == "" })
	case []any:
		for _, e := range x {
			switch e := e.(type) {
			case string:
				out = append(out, strings.TrimSpace(e))
			case bool, int64, float64:
				out = append(out, fmt.Sprint(e))
			}
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func clipList(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, 0, min(len(in), maxTags))
	for _, s := range in[:min(len(in), maxTags)] {
		out = append(out, clip(s, maxValue))
	}
	return out
}

// clip shortens to at most n bytes of whole runes, and makes it UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// ChunkInput is a document as a base gives it to its chunker: code, tables and
// records are kept whole.
func ChunkInput(d *parse.Document) chunk.Document {
	in := chunk.Document{Text: d.Text, Sections: make([]chunk.Section, 0, len(d.Sections))}
	for _, s := range d.Sections {
		in.Sections = append(in.Sections, chunk.Section{Start: s.Start, End: s.End, Level: s.Level, Title: s.Title})
	}
	for _, pg := range d.Pages {
		in.Pages = append(in.Pages, chunk.PageSpan{Start: pg.Start, End: pg.End, Number: pg.Number})
	}
	for _, b := range d.Blocks {
		if b.Kind == parse.Code || b.Kind == parse.Table || b.Kind == parse.Record {
			in.Keep = append(in.Keep, chunk.Span{Start: b.Start, End: b.End})
		}
	}
	return in
}

// cut makes the pieces of a version.
func (p *preparer) cut(ctx context.Context, v *version, d *parse.Document) error {
	for ch, err := range p.chunker.Chunks(ChunkInput(d)) {
		if err == nil && len(v.pieces)&255 == 255 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if service.IsBlank(ch.Text) {
			continue // nothing a reader would see: never embedded, never found
		}
		pc := piece{kind: v.nodeKind(d, ch.Start, ch.End), start: ch.Start, end: ch.End, from: -1, page: ch.Page, path: ch.Path, parent: ch.Parent}
		if ch.PageEnd > ch.Page {
			pc.pageEnd = ch.PageEnd
		}
		if d.Map.Plain(ch.Start, ch.End) {
			if from, to, ok := d.Map.Source(ch.Start, ch.End); ok {
				pc.from, pc.to = from, to
			}
		}
		head := ""
		if !p.cat.NoHeadings {
			head = headings(v.doc.Title, ch.Path, ch.Text)
		}
		pc.text, pc.contentAt = head+ch.Text, len(head)
		pc.entities = v.entities(ch.Text)
		v.pieces = append(v.pieces, pc)
	}
	v.doc.Chunks = len(v.pieces)
	for i := 0; i < len(v.pieces) && len(v.doc.Entities) < maxEntities; i++ {
		v.doc.Entities = union(v.doc.Entities, v.pieces[i].entities, maxEntities)
	}
	if v.doc.Chunks == 0 {
		v.doc.warn("no text to search")
	}
	return nil
}

// headings puts title and section path before a content, each once, and not
// those that the content starts with itself.
func headings(title string, path []string, content string) string {
	head := content[:min(len(content), 2*maxTitle)]
	var out []string
	for i := -1; i < len(path); i++ {
		s := title
		if i >= 0 {
			s = path[i]
		}
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(out, s) && !strings.Contains(head, s) {
			out = append(out, clip(s, maxTitle))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, " > ") + "\n\n"
}
