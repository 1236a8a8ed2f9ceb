package segment

import (
	"context"
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/storage"
)

// A Salvaged is what was readable of one document of a damaged segment.
type Salvaged struct {
	Doc     uint32   // its number in the segment
	Content Doc      // only its ID when Err is set
	Err     error    // why it is lost, nil when it is not
	Missing []string // vector fields whose vector may be lost
}

// Salvage reads the documents of a damaged segment, in order of id, and gives
// each to fn, lost ones included; an error of fn ends it. damage is what
// file.Damage found. A document is given out when its id and its stored bytes
// have the right checksums, without the vectors that have not. Texts that are
// not stored are not salvaged: the text fields the segment has are returned,
// to tell which. The error matches ErrCorrupt when there is no telling one
// document from another, and then every document is lost.
func Salvage(ctx context.Context, file *storage.Segment, damage storage.Damage, sc *Schema, fn func(Salvaged) error) (texts []string, err error) {
	var s salvager
	if err := storage.Guard(func() error { return s.open(file, damage, sc) }); err != nil {
		return s.texts, fmt.Errorf("%s: %w", file.Name(), err)
	}
	for doc := range s.docs {
		if doc%1024 == 0 && ctx.Err() != nil {
			return s.texts, ctx.Err()
		}
		out := Salvaged{Doc: doc}
		out.Err = storage.Guard(func() error { return s.read(&out) })
		if out.Err != nil {
			out.Err = fmt.Errorf("%s: %w", file.Name(), out.Err)
		}
		if err := fn(out); err != nil {
			return s.texts, err
		}
	}
	return s.texts, nil
}

type salvager struct {
	damage  storage.Damage
	docs    uint32
	texts   []string
	ids     *IDs
	stored  *storage.Docs
	cursor  *storage.DocCursor
	dec     DocDecoder
	vectors []salvagedField
}

// A salvagedField is a vector field; without a reader all its vectors are lost.
type salvagedField struct {
	name   string
	prefix string // of its sections
	dim    int
	reader *hnsw.Field
}

func (s *salvager) open(file *storage.Segment, damage storage.Damage, sc *Schema) error {
	s.damage = damage
	head, _ := file.Section(metaSection)
	var names fieldNames
	var err error
	if s.docs, names, err = readHead(file.Name(), head); err != nil {
		return err
	}
	for _, name := range []string{metaSection, "ids/head", storedPrefix + "index"} {
		if damage.Touches(name, 0, 1<<62) {
			return storage.Corruptf(name, 0, "section is damaged")
		}
	}
	s.texts = names.text
	if s.ids, err = openIDs(file.Section, s.docs); err != nil {
		return err
	}
	if s.stored, err = storage.OpenDocs(subSection(file.Section, storedPrefix), int(s.docs)); err != nil {
		return err
	}
	s.cursor = s.stored.Cursor()
	for _, name := range names.vectors {
		f := salvagedField{name: name, prefix: vectorPrefix(name)}
		if v := sc.Vectors[name]; v != nil && !damage.Touches(f.prefix+"meta", 0, 1<<62) && !damage.Touches(f.prefix+"ords", 0, 1<<62) {
			f.dim = v.Options.Dim
			// Without docs the ords would have to be looked for in it.
			if !damage.Touches(f.prefix+"docs", 0, 1<<62) {
				f.reader, _ = hnsw.Open(subSection(file.Section, f.prefix), s.docs)
			}
		}
		if f.reader != nil && f.reader.Dim() != f.dim {
			f.reader = nil
		}
		s.vectors = append(s.vectors, f)
	}
	return nil
}

func (s *salvager) read(out *Salvaged) error {
	doc := out.Doc
	group, next := int64(doc/idGroup), int64((doc+1)/idGroup)
	if s.damage.Touches("ids/offsets", 4*int64(doc), 8) {
		return storage.Corruptf("ids/offsets", 4*int64(doc), "the id of doc %d is damaged", doc)
	}
	lo := int64(s.ids.bases[group]) + int64(s.ids.offs[doc])
	hi := int64(s.ids.bases[next]) + int64(s.ids.offs[doc+1])
	id := s.ids.String(doc)
	if s.damage.Touches("ids/bytes", lo, max(hi-lo, 1)) || CheckID(id) != nil {
		return storage.Corruptf("ids/bytes", lo, "the id of doc %d is damaged", doc)
	}
	out.Content.ID = id
	b, err := s.cursor.Get(doc)
	if err != nil {
		return err
	}
	stored, err := s.dec.DecodeStored(storedPrefix, b, nil)
	if err != nil {
		return fmt.Errorf("stored document %d: %w", doc, err)
	}
	out.Content.Texts, out.Content.Metas, out.Content.Sparse = stored.Texts, stored.Metas, stored.Sparse
	out.Content.Stored = slices.Clone(b)
	for i := range s.vectors {
		f := &s.vectors[i]
		if f.reader == nil {
			out.Missing = append(out.Missing, f.name)
			continue
		}
		ord, ok := f.reader.Ord(doc)
		if !ok {
			continue
		}
		size := 4 * int64(f.dim)
		if s.damage.Touches(f.prefix+"raw", int64(ord)*size, size) {
			out.Missing = append(out.Missing, f.name)
			continue
		}
		out.Content.Vectors = append(out.Content.Vectors, Vector{Field: f.name, Vec: slices.Clone(f.reader.Vector(ord))})
	}
	return nil
}
