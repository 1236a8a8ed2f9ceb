package knowledge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// ExpandOptions say how far around a chunk to look. The zero value gives the
// chunk itself.
type ExpandOptions struct {
	// Before and After are numbers of neighboring chunks, up to 1,000.
	Before, After int
	// Section takes in the whole innermost section that the chunk lies in.
	Section bool
	// MaxBytes bounds the text; the chunk itself is always whole. What
	// exceeds it is cut evenly on both sides, between characters. Default 64 KiB.
	MaxBytes int
}

const (
	defaultExpandBytes = 64 << 10
	maxNeighbors       = 1000
)

// A Passage is a stretch of a document's text around a chunk: Text is what the
// document holds from Start to End.
type Passage struct {
	Text     string   `json:"text"`
	Start    int      `json:"start_offset"`
	End      int      `json:"end_offset"`
	Metadata Metadata `json:"metadata"` // of the chunk
	// Truncated tells that MaxBytes cut it.
	Truncated bool `json:"truncated"`
}

// Expand returns a chunk with what stands around it, read from the text of the
// document's current version. An unknown chunk, or one of a document that is
// disabled, is storage.ErrNotFound.
func (s *Store) Expand(ctx context.Context, baseID, chunk string, o ExpandOptions) (Passage, error) {
	if err := s.enter(); err != nil {
		return Passage{}, err
	}
	defer s.leave()
	if o.Before < 0 || o.After < 0 || o.Before > maxNeighbors || o.After > maxNeighbors || o.MaxBytes < 0 {
		return Passage{}, storage.Invalidf("expand: %d before, %d after, %d bytes: want 0 to %d neighbors and no negative bound", o.Before, o.After, o.MaxBytes, maxNeighbors)
	}
	document, n, err := splitChunkID(chunk)
	if err != nil {
		return Passage{}, err
	}
	v, err := s.view(ctx, baseID)
	if err != nil {
		return Passage{}, err
	}
	defer v.close()
	d, err := v.chunk(ctx, document, n)
	if err != nil {
		return Passage{}, err
	}
	it, err := itemOf(v.b, d)
	if err != nil {
		return Passage{}, err
	}
	doc, err := v.found(ctx, document)
	if err != nil {
		return Passage{}, err
	}
	text, err := s.text(v.b, &doc)
	if err != nil {
		return Passage{}, err
	}
	p := Passage{Start: it.Metadata.StartOffset, End: it.Metadata.EndOffset, Metadata: it.Metadata}
	if err := p.widen(ctx, v, d, document, n, &doc, o); err != nil {
		return Passage{}, err
	}
	if p.Start < 0 || p.End > len(text) || p.Start > it.Metadata.StartOffset || p.End < it.Metadata.EndOffset {
		return Passage{}, storage.Corruptf("index", 0, "chunk %q: span [%d, %d) of a text of %d bytes", chunk, p.Start, p.End, len(text))
	}
	p.limit(text, o.MaxBytes)
	p.Text = text[p.Start:p.End]
	return p, nil
}

// Neighbors returns the chunks of a document around one of them, at most before
// and after many (up to 1,000), in the order of the document and without that
// one. They are items without scores. The errors are those of Expand.
func (s *Store) Neighbors(ctx context.Context, baseID, chunk string, before, after int) ([]Item, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if before < 0 || after < 0 || before > maxNeighbors || after > maxNeighbors {
		return nil, storage.Invalidf("neighbors: %d before, %d after: want 0 to %d", before, after, maxNeighbors)
	}
	document, n, err := splitChunkID(chunk)
	if err != nil {
		return nil, err
	}
	v, err := s.view(ctx, baseID)
	if err != nil {
		return nil, err
	}
	defer v.close()
	doc, err := v.found(ctx, document)
	if err != nil {
		return nil, err
	}
	if n >= doc.Chunks {
		return nil, fmt.Errorf("%w: chunk %q", storage.ErrNotFound, chunk)
	}
	items := []Item{}
	for i := max(n-before, 0); i <= min(n+after, doc.Chunks-1); i++ {
		if i == n {
			continue
		}
		d, err := v.chunk(ctx, document, i)
		if err != nil {
			return nil, err
		}
		it, err := itemOf(v.b, d)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

// found reads the record of a document that searches may find.
func (v *view) found(ctx context.Context, id string) (Document, error) {
	d, err := record(ctx, v.snap, id)
	if err == nil && !d.Enabled {
		err = fmt.Errorf("%w: document %q is disabled", storage.ErrNotFound, id)
	}
	return d, err
}

// chunk reads a stored chunk.
func (v *view) chunk(ctx context.Context, document string, n int) (index.Document, error) {
	id := chunkID(document, n)
	d, err := v.snap.Get(ctx, chunkPrefix+id)
	if errors.Is(err, storage.ErrNotFound) {
		return d, fmt.Errorf("%w: chunk %q", storage.ErrNotFound, id)
	}
	return d, err
}

// widen extends the span to neighbors and section.
func (p *Passage) widen(ctx context.Context, v *view, d index.Document, document string, n int, doc *Document, o ExpandOptions) error {
	take := func(d index.Document, start, end string) {
		f := fields(d.Meta)
		p.Start, p.End = min(p.Start, f.num(start)), max(p.End, f.num(end))
	}
	if o.Section {
		take(d, fieldSectionStart, fieldSectionEnd)
	}
	for _, i := range []int{max(n-o.Before, 0), min(n+o.After, doc.Chunks-1)} {
		if i == n {
			continue
		}
		d, err := v.chunk(ctx, document, i)
		if err != nil {
			return err
		}
		take(d, FieldStart, FieldEnd)
	}
	return nil
}

// limit cuts a passage to a number of bytes, but never into its chunk.
func (p *Passage) limit(text string, most int) {
	if most == 0 {
		most = defaultExpandBytes
	}
	from, to := p.Metadata.StartOffset, p.Metadata.EndOffset
	room := max(most-(to-from), 0)
	if p.End-p.Start <= to-from+room {
		return
	}
	p.Truncated = true
	before, after := from-p.Start, p.End-to
	left := min(before, max(room/2, room-after))
	right := min(after, room-left)
	p.Start, p.End = from-left, to+right
	for p.Start < from && !utf8.RuneStart(text[p.Start]) {
		p.Start++
	}
	for p.End > to && p.End < len(text) && !utf8.RuneStart(text[p.End]) {
		p.End--
	}
}

// text reads the text of a document's current version.
func (s *Store) text(b *base, d *Document) (string, error) {
	data, err := s.getBlob(b.dir, d.TextHash)
	switch {
	case errors.Is(err, storage.ErrNotFound) && b.gone():
		return "", noBase(b.reference())
	case errors.Is(err, storage.ErrNotFound):
		return "", storage.Corruptf(b.dir, 0, "the text of document %q is not there", d.ID)
	}
	return string(data), err
}

// A CheckReport is what Check found.
type CheckReport struct {
	Documents int      `json:"documents"`
	Chunks    int      `json:"chunks"`
	Problems  []string `json:"problems,omitempty"`
}

// Check reads a base's documents, chunks and sources and recomputes what it
// promises: the stored source and text have their hashes; every chunk's content
// is what the text holds between its offsets, and what the source holds between
// its source offsets; a document has the chunks its record counts, all of its
// version, pages within its pages; no chunk is without a document. So is the index
// itself (index.Check, every checksum of it). The error matches
// storage.ErrCorrupt when there are problems.
func (s *Store) Check(ctx context.Context, baseID string) (*CheckReport, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	v, err := s.view(ctx, baseID)
	if err != nil {
		return nil, err
	}
	defer v.close()
	c := &checker{s: s, v: v, report: &CheckReport{}}
	for d, err := range records(ctx, v.snap) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return c.report, err
		}
		c.document(ctx, &d)
	}
	total, err := v.snap.Count(ctx, ofKind(kindChunk))
	if err != nil {
		return c.report, err
	}
	if total != c.report.Chunks {
		c.problem("%d chunks, %d of them belong to documents", total, c.report.Chunks)
	}
	if err := c.index(ctx); err != nil {
		return c.report, err
	}
	if n := len(c.report.Problems); n > 0 {
		return c.report, storage.Corruptf(v.b.dir, 0, "%d problems, the first: %s", n, c.report.Problems[0])
	}
	return c.report, nil
}

type checker struct {
	s      *Store
	v      *view
	report *CheckReport
}

func (c *checker) problem(format string, args ...any) {
	c.report.Problems = append(c.report.Problems, fmt.Sprintf(format, args...))
}

// index checks the files of the index. One that a rebuild has just replaced is
// not there any more, which is no problem.
func (c *checker) index(ctx context.Context) error {
	if c.v.cat.Collection != "" {
		return nil // its files are those of the nodes
	}
	r, err := index.Check(ctx, c.v.b.path(c.v.cat.Index), c.s.fs, true)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if cat, cerr := readCatalog(c.s.fs, c.v.b.dir, c.v.b.id, c.v.b.generation); cerr != nil || cat.Index != c.v.cat.Index {
		if errors.Is(cerr, storage.ErrNotFound) {
			return noBase(c.v.b.reference())
		}
		return cerr
	}
	if r == nil {
		c.problem("index: %v", err)
		return nil
	}
	for _, p := range r.Problems {
		c.problem("index: %s", p)
	}
	return nil
}

func (c *checker) document(ctx context.Context, d *Document) {
	c.report.Documents++
	text, err := c.s.text(c.v.b, d)
	if err != nil {
		c.problem("document %q: %v", d.ID, err)
		return
	}
	source, err := c.s.getBlob(c.v.b.dir, d.ArtifactHash)
	if err != nil {
		c.problem("document %q: %v", d.ID, err)
		return
	}
	last := -1
	for i := range d.Chunks {
		stored, err := c.v.chunk(ctx, d.ID, i)
		if err != nil {
			c.problem("%v", err)
			continue
		}
		c.report.Chunks++
		it, err := itemOf(c.v.b, stored)
		if err != nil {
			c.problem("%v", err)
			continue
		}
		m := &it.Metadata
		switch {
		case m.StartOffset < 0 || m.EndOffset > len(text) || m.StartOffset > m.EndOffset || text[m.StartOffset:m.EndOffset] != it.Content:
			c.problem("chunk %q is not what the text holds from %d to %d", m.ChunkID, m.StartOffset, m.EndOffset)
		case m.SourceStart != nil && (*m.SourceStart < 0 || *m.SourceEnd > len(source) || *m.SourceStart > *m.SourceEnd ||
			string(source[*m.SourceStart:*m.SourceEnd]) != it.Content):
			c.problem("chunk %q is not what the source holds from %d to %d", m.ChunkID, *m.SourceStart, *m.SourceEnd)
		case m.StartOffset <= last:
			c.problem("chunk %q starts at %d, the one before at %d", m.ChunkID, m.StartOffset, last)
		case m.DocumentID != d.ID || m.DocumentVersion != d.Version || m.ArtifactHash != d.ArtifactHash || m.ChunkIndex != i:
			c.problem("chunk %q is of another document or version", m.ChunkID)
		case m.Page < 0 || d.Pages > 0 && (m.Page > d.Pages || m.PageEnd > d.Pages) || m.PageEnd != 0 && m.PageEnd <= m.Page:
			c.problem("chunk %q: pages %d to %d of %d", m.ChunkID, m.Page, m.PageEnd, d.Pages)
		case strings.TrimSpace(it.Content) == "":
			c.problem("chunk %q is blank", m.ChunkID)
		}
		last = m.StartOffset
	}
}
