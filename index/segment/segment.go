package segment

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A Segment is an open segment: its parts, all pointing into the bytes of
// File. It is immutable and safe for concurrent use. Docs are numbered from 0
// in ascending order of id. A field that no document of the segment has, or
// that was declared after it was written, is absent from the maps.
type Segment struct {
	Docs    uint32
	IDs     *IDs
	Stored  *storage.Docs
	Text    map[string]*bm25.Field
	Vectors map[string]*hnsw.Field
	Sparse  map[string]*sparse.Field
	Filter  *filter.Segment
	File    *storage.Segment
}

// Open opens the parts of a segment. It takes over the caller's reference to
// file, also when it fails. The cost does not depend on the number of docs.
func Open(file *storage.Segment, sc *Schema) (*Segment, error) {
	var s *Segment
	err := storage.Guard(func() (err error) {
		s, err = open(file, sc)
		return err
	})
	if err != nil {
		_ = file.Release() // nothing was written; the first error is the one that counts
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return s, nil
}

func open(file *storage.Segment, sc *Schema) (*Segment, error) {
	s := &Segment{
		File: file, Text: make(map[string]*bm25.Field), Vectors: make(map[string]*hnsw.Field), Sparse: make(map[string]*sparse.Field),
	}
	head, ok := file.Section(metaSection)
	if !ok {
		return nil, storage.Corruptf(file.Name(), 0, "no section %q", metaSection)
	}
	docs, names, err := readHead(file.Name(), head)
	if err != nil {
		return nil, err
	}
	s.Docs = docs
	if s.Docs > MaxDocs {
		return nil, storage.Corruptf(metaSection, 4, "%d docs", s.Docs)
	}
	if s.IDs, err = openIDs(file.Section, s.Docs); err != nil {
		return nil, err
	}
	if s.Stored, err = storage.OpenDocs(subSection(file.Section, storedPrefix), int(s.Docs)); err != nil {
		return nil, err
	}
	if s.Filter, err = filter.Open(subSection(file.Section, filterPrefix), s.Docs); err != nil {
		return nil, err
	}
	return s, s.openFields(file, sc, names)
}

// openFields opens the parts of each field.
func (s *Segment) openFields(file *storage.Segment, sc *Schema, names fieldNames) (err error) {
	for _, name := range names.text {
		if sc.Text[name] == nil {
			return storage.Corruptf(metaSection, 8, "text field %q is not in the schema", name)
		}
		if s.Text[name], err = bm25.Open(subSection(file.Section, textPrefix(name)), s.Docs); err != nil {
			return fmt.Errorf("text field %q: %w", name, err)
		}
	}
	for _, name := range names.vectors {
		if sc.Vectors[name] == nil {
			return storage.Corruptf(metaSection, 8, "vector field %q is not in the schema", name)
		}
		if s.Vectors[name], err = hnsw.Open(subSection(file.Section, vectorPrefix(name)), s.Docs); err != nil {
			return fmt.Errorf("vector field %q: %w", name, err)
		}
	}
	for _, name := range names.sparse {
		if !sc.Sparse[name] {
			return storage.Corruptf(metaSection, 8, "sparse field %q is not in the schema", name)
		}
		if s.Sparse[name], err = sparse.Open(subSection(file.Section, sparsePrefix(name)), s.Docs); err != nil {
			return fmt.Errorf("sparse field %q: %w", name, err)
		}
	}
	return nil
}

// fieldNames are the fields a segment has, each list strictly ascending.
type fieldNames struct{ text, vectors, sparse []string }

// readHead reads what writeHead wrote.
func readHead(file string, head []byte) (docs uint32, names fieldNames, err error) {
	d := storage.NewDecoder(metaSection, 0, head)
	v := d.U32()
	if d.Err() == nil && (v < 1 || v > Version) {
		return 0, names, &storage.VersionError{File: file, Have: v, Min: 1, Max: Version}
	}
	docs = d.U32()
	names.text, names.vectors = readNames(d), readNames(d)
	if v > 1 {
		names.sparse = readNames(d)
	}
	d.End()
	return docs, names, d.Err()
}

func readNames(d *storage.Decoder) []string {
	n := d.Count(2)
	names := make([]string, 0, n)
	for range n {
		name := d.String()
		if len(names) > 0 && name <= names[len(names)-1] {
			d.Fail("field %q is not above the one before", name)
		}
		names = append(names, name)
	}
	return names
}

// Old reports whether a part is of an older format than this build writes. A
// merge makes it new.
func (s *Segment) Old() bool {
	for _, f := range s.Vectors {
		if f.Old() {
			return true
		}
	}
	for _, f := range s.Text {
		if f.Old() {
			return true
		}
	}
	return false // of everything else there is one format yet
}

// Release gives back the reference to the file; the parts are dead after the
// last one.
func (s *Segment) Release() error { return s.File.Release() }

// Verify recomputes everything the segment promises from its bytes: the
// checksums, ids ascending and valid, every stored document decodable, and
// the invariants of each part. It reads the whole segment.
func (s *Segment) Verify(ctx context.Context) error {
	if err := s.File.Verify(ctx); err != nil {
		return err
	}
	return storage.Guard(func() error {
		if err := s.verify(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.File.Name(), err)
		}
		return nil
	})
}

func (s *Segment) verify(ctx context.Context) error {
	if err := s.IDs.verify(); err != nil {
		return err
	}
	var dd DocDecoder
	cur := s.Stored.Cursor()
	for doc := range s.Docs {
		if doc%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := cur.Get(doc)
		if err != nil {
			return err
		}
		if _, err := dd.DecodeStored(storedPrefix, b, nil); err != nil {
			return fmt.Errorf("stored document %d: %w", doc, err)
		}
	}
	for name, f := range s.Text {
		if err := f.Verify(ctx); err != nil {
			return fmt.Errorf("text field %q: %w", name, err)
		}
	}
	for name, f := range s.Vectors {
		if err := f.Verify(ctx); err != nil {
			return fmt.Errorf("vector field %q: %w", name, err)
		}
	}
	for name, f := range s.Sparse {
		if err := f.Verify(); err != nil {
			return fmt.Errorf("sparse field %q: %w", name, err)
		}
	}
	return s.Filter.Verify(ctx)
}

func hashName(field string) string {
	return strconv.FormatUint(xxhash.Sum64String(field), 16) + "-" + strconv.Itoa(len(field))
}
