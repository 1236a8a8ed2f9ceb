package knowledge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A Document is one source as a base keeps it.
type Document struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	// Origin is the absolute path of the folder or file it came from, empty
	// for a source given as bytes.
	Origin       string    `json:"origin,omitempty"`
	Title        string    `json:"title,omitempty"`
	Format       string    `json:"format"`
	Version      int       `json:"version"`       // from 1, counting changed contents
	ArtifactHash string    `json:"artifact_hash"` // SHA-256 of the source bytes
	TextHash     string    `json:"text_hash"`     // SHA-256 of the text
	Language     string    `json:"language,omitempty"`
	Tags         []string  `json:"tags,omitempty"`
	Authors      []string  `json:"authors,omitempty"`
	Entities     []string  `json:"entities,omitempty"`
	Freshness    string    `json:"freshness,omitempty"` // when it was ingested
	SourceID     string    `json:"source_id,omitempty"`
	Created      time.Time `json:"created,omitzero"`   // as the document says
	Modified     time.Time `json:"modified,omitzero"`  // as the document says
	FileTime     time.Time `json:"file_time,omitzero"` // of the file, or Source.Modified
	Ingested     time.Time `json:"ingested"`
	Bytes        int64     `json:"bytes"`
	Pages        int       `json:"pages,omitempty"` // 0: the format has none
	Chunks       int       `json:"chunks"`
	Warnings     []string  `json:"warnings,omitempty"`
	// Enabled is false for a document that no search finds (Store.SetEnabled).
	Enabled bool `json:"enabled"`
	// Meta is what the document says of itself beside the above, without
	// MetaPrefix.
	Meta map[string]any `json:"meta,omitempty"`

	fingerprint    string
	history, texts []string
}

// Ids in the index: "d/" + document id, "c/" + chunk id. A chunk id is the
// document id, '#', and the chunk's number in 8 digits, so chunks of a document
// follow each other in the order of ids.
const (
	recordPrefix = "d/"
	chunkPrefix  = "c/"
	chunkDigits  = 8

	// maxDocumentID leaves room for the chunk's number and more.
	maxDocumentID = 400
)

func chunkID(document string, n int) string { return fmt.Sprintf("%s#%0*d", document, chunkDigits, n) }

// splitChunkID is the inverse of chunkID.
func splitChunkID(id string) (document string, n int, err error) {
	i := len(id) - chunkDigits - 1
	if i < 1 || id[i] != '#' {
		return "", 0, storage.Invalidf("chunk id %q: want a document id, '#' and %d digits", id, chunkDigits)
	}
	v, err := strconv.ParseUint(id[i+1:], 10, 32)
	if err != nil {
		return "", 0, storage.Invalidf("chunk id %q: want a document id, '#' and %d digits", id, chunkDigits)
	}
	return id[:i], int(v), nil
}

// documentID makes the id of a source's document of its name: the name itself
// where it can be, else its hash.
func documentID(name string) string {
	bad := len(name) > maxDocumentID || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl)
	if bad || name == "" {
		return "sha256-" + hashOf([]byte(name))
	}
	return name
}

// meta makes the record's metadata.
func (d *Document) meta() map[string]any {
	m := map[string]any{
		FieldKind: kindDocument, FieldDocument: d.ID, FieldSource: d.Source, FieldFormat: d.Format, FieldVersion: d.Version,
		FieldArtifact: d.ArtifactHash, fieldText2: d.TextHash, fieldFingerprint: d.fingerprint, fieldIngested: d.Ingested,
		fieldChunks: d.Chunks, fieldBytes: d.Bytes, fieldHistory: d.history, fieldTexts: d.texts,
	}
	optional(m, fieldOrigin, d.Origin)
	if !d.FileTime.IsZero() {
		m[fieldFileTime] = d.FileTime
	}
	if d.Pages > 0 {
		m[fieldPages] = d.Pages
	}
	if len(d.Warnings) > 0 {
		m[fieldWarnings] = d.Warnings
	}
	if !d.Enabled {
		m[fieldDisabled] = true
	}
	if len(d.Entities) > 0 {
		m[FieldEntities] = d.Entities
	}
	d.shared(m)
	return m
}

// shared adds what the record and every chunk hold.
func (d *Document) shared(m map[string]any) {
	optional(m, FieldTitle, d.Title)
	optional(m, FieldLanguage, d.Language)
	if len(d.Tags) > 0 {
		m[FieldTags] = d.Tags
	}
	if len(d.Authors) > 0 {
		m[FieldAuthors] = d.Authors
	}
	optional(m, FieldFreshness, d.Freshness)
	optional(m, FieldSourceID, d.SourceID)
	if !d.Created.IsZero() {
		m[FieldCreated] = d.Created
	}
	if !d.Modified.IsZero() {
		m[FieldModified] = d.Modified
	}
	for k, v := range d.Meta {
		m[MetaPrefix+k] = v
	}
}

func optional(m map[string]any, field, value string) {
	if value != "" {
		m[field] = value
	}
}

// fields reads typed metadata back; what is missing is the zero value.
type fields map[string]any

func (f fields) str(name string) string { s, _ := f[name].(string); return s }

func (f fields) num(name string) int { n, _ := f[name].(int64); return int(n) }

func (f fields) time(name string) time.Time { t, _ := f[name].(time.Time); return t }

func (f fields) list(name string) []string {
	switch v := f[name].(type) {
	case []string:
		return v
	case string:
		return []string{v}
	}
	return nil
}

func (f fields) user() map[string]any {
	var out map[string]any
	for k, v := range f {
		if name, ok := strings.CutPrefix(k, MetaPrefix); ok {
			if out == nil {
				out = make(map[string]any)
			}
			out[name] = v
		}
	}
	return out
}

// readRecord makes a Document of a record.
func readRecord(r index.Document) Document {
	f := fields(r.Meta)
	return Document{
		ID: f.str(FieldDocument), Source: f.str(FieldSource), Origin: f.str(fieldOrigin), Title: f.str(FieldTitle), Format: f.str(FieldFormat),
		Version: f.num(FieldVersion), ArtifactHash: f.str(FieldArtifact), TextHash: f.str(fieldText2), Language: f.str(FieldLanguage),
		Tags: f.list(FieldTags), Authors: f.list(FieldAuthors), Entities: f.list(FieldEntities),
		Freshness: f.str(FieldFreshness), SourceID: f.str(FieldSourceID), Created: f.time(FieldCreated), Modified: f.time(FieldModified),
		FileTime: f.time(fieldFileTime), Ingested: f.time(fieldIngested), Bytes: int64(f.num(fieldBytes)), Pages: f.num(fieldPages),
		Chunks: f.num(fieldChunks), Warnings: f.list(fieldWarnings), Enabled: f[fieldDisabled] != true, Meta: f.user(),
		fingerprint: f.str(fieldFingerprint), history: f.list(fieldHistory), texts: f.list(fieldTexts),
	}
}

// record reads a document's record.
func record(ctx context.Context, ix collection.Reader, id string) (Document, error) {
	r, err := ix.Get(ctx, recordPrefix+id)
	if errors.Is(err, storage.ErrNotFound) {
		return Document{}, fmt.Errorf("%w: document %q", storage.ErrNotFound, id)
	}
	if err != nil {
		return Document{}, err
	}
	return readRecord(r), nil
}

// records gives the records of an index in the order of their ids.
func records(ctx context.Context, ix collection.Reader) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for r, err := range ix.Documents(ctx, recordPrefix) {
			if err != nil {
				yield(Document{}, err)
				return
			}
			if !strings.HasPrefix(r.ID, recordPrefix) || !yield(readRecord(r), nil) {
				return
			}
		}
	}
}

// Document returns the record of a document; storage.ErrNotFound when the base
// has none of that id.
func (s *Store) Document(ctx context.Context, baseID, id string) (Document, error) {
	if err := s.enter(); err != nil {
		return Document{}, err
	}
	defer s.leave()
	v, err := s.view(ctx, baseID)
	if err != nil {
		return Document{}, err
	}
	defer v.close()
	return record(ctx, v.snap, id)
}

// Documents gives the documents of a base in the order of their ids, as they
// are when the iteration starts. The first error ends it.
func (s *Store) Documents(ctx context.Context, baseID string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		if err := s.enter(); err != nil {
			yield(Document{}, err)
			return
		}
		v, err := s.view(ctx, baseID)
		s.leave() // the view outlives the store; the caller's loop may take its time
		if err != nil {
			yield(Document{}, err)
			return
		}
		defer v.close()
		for d, err := range records(ctx, v.snap) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// DeleteDocuments removes documents, their chunks and their source bytes, in
// one atomic step, and tells how many there were: an unknown id counts 0.
func (s *Store) DeleteDocuments(ctx context.Context, baseID string, ids ...string) (removed int, err error) {
	err = s.exclusively(baseID, func(b *base) error {
		ix, _, err := b.open(ctx)
		if err != nil {
			return err
		}
		removed, err = b.remove(ctx, ix, ids)
		return err
	})
	return removed, err
}

// remove deletes documents of a base whose write lock is held.
func (b *base) remove(ctx context.Context, ix collection.Collection, ids []string) (removed int, err error) {
	b.batch.Lock()
	defer b.batch.Unlock()
	batch := index.NewBatch()
	var hashes []string
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for _, id := range ids {
		d, err := record(ctx, ix, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		batch.DeleteWhere(ofDocument(id))
		hashes = append(append(hashes, d.history...), d.texts...)
		removed++
	}
	if removed == 0 {
		return 0, ctx.Err()
	}
	if err := ix.Apply(ctx, batch); err != nil {
		return 0, err
	}
	b.setDisabled(nil, ids) // who brings one of them again brings it enabled
	return removed, b.dropBlobs(ctx, ix, hashes)
}

// maxDisabled is how many documents of a base may be disabled: a search passes
// them over by their ids.
const maxDisabled = 10_000

// SetEnabled disables a document, or enables it again. A disabled one is found
// by no search and no Expand, from the moment SetEnabled returns; its record
// (Document, Documents), its sources and its place in the counts of Base stay.
// The mark is part of the record: it survives new versions of the document, a
// rebuild and reopening, and goes when the document is deleted. Generations keep
// the marks they were frozen with. storage.ErrNotFound when the base has no such
// document. At most 10,000 may be disabled (storage.ErrTooLarge). It does not
// wait for an ingest.
func (s *Store) SetEnabled(ctx context.Context, baseID, documentID string, on bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	b, err := s.writableBase(ctx, baseID)
	if err != nil {
		return err
	}
	b.batch.Lock()
	defer b.batch.Unlock()
	ix, _, err := b.open(ctx)
	if err != nil {
		return err
	}
	d, err := record(ctx, ix, documentID)
	if err != nil || d.Enabled == on {
		return err
	}
	if !on && len(b.disabledIDs()) >= maxDisabled {
		return fmt.Errorf("%w: %d documents of knowledge base %q are disabled, at most %d can be", storage.ErrTooLarge, maxDisabled, b.id, maxDisabled)
	}
	if err := mark(ctx, ix, on, d); err != nil {
		return err
	}
	if on {
		b.setDisabled(nil, []string{documentID})
	} else {
		b.setDisabled([]string{documentID}, nil)
	}
	return nil
}

// mark writes records anew, enabled or disabled, as one batch.
func mark(ctx context.Context, ix collection.Collection, on bool, docs ...Document) error {
	batch := index.NewBatch()
	for _, d := range docs {
		d.Enabled = on
		batch.Put(index.Document{ID: recordPrefix + d.ID, Meta: d.meta()})
	}
	return ix.Apply(ctx, batch)
}

// markedIn reads the ids of the disabled documents from an index.
func markedIn(ctx context.Context, ix collection.Reader) ([]string, error) {
	sc, err := ix.Schema(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := sc.Meta[fieldDisabled]; !ok {
		return nil, nil
	}
	res, err := ix.Search(ctx, index.Query{Filter: filter.Eq(fieldDisabled, true), K: maxDisabled})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, h := range res.Hits {
		ids = append(ids, strings.TrimPrefix(h.ID, recordPrefix))
	}
	slices.Sort(ids)
	return ids, nil
}

// Source returns the source bytes of a version of a document, checked against
// their hash, and the record: that of the version the base holds, with Version,
// ArtifactHash, TextHash and Bytes of the version asked for. So a citation can
// be verified: of what it cites, source_start to source_end are bytes of these.
// storage.ErrNotFound when the base has no such document, or does not keep that
// version (any more). Documents that are disabled have their sources, too.
func (s *Store) Source(ctx context.Context, baseID, documentID string, version int) ([]byte, Document, error) {
	if err := s.enter(); err != nil {
		return nil, Document{}, err
	}
	defer s.leave()
	v, err := s.view(ctx, baseID)
	if err != nil {
		return nil, Document{}, err
	}
	defer v.close()
	d, err := record(ctx, v.snap, documentID)
	if err != nil {
		return nil, Document{}, err
	}
	missing := fmt.Errorf("%w: version %d of document %q, of which %d are there and %d kept",
		storage.ErrNotFound, version, documentID, d.Version, len(d.history))
	i := d.Version - version
	if version < 1 || i < 0 || i >= len(d.history) || i >= len(d.texts) {
		return nil, Document{}, missing
	}
	data, err := s.getBlob(v.b.dir, d.history[i])
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) { // dropped since the snapshot
			err = missing
		}
		return nil, Document{}, err
	}
	d.Version, d.ArtifactHash, d.TextHash, d.Bytes = version, d.history[i], d.texts[i], int64(len(data))
	return data, d, nil
}

// SourceBytes returns the bytes of a version of a document by their artifact
// hash, as a citation names it, checked against it. storage.ErrNotFound when
// the base does not keep them (any more).
func (s *Store) SourceBytes(ctx context.Context, baseID, artifactHash string) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := s.base(baseID)
	if err != nil {
		return nil, err
	}
	return s.getBlob(b.dir, artifactHash)
}
