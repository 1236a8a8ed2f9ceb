package segment

import (
	"cmp"
	"slices"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A Text is the text of one field.
type Text struct {
	Field     string
	Text      string
	NotStored bool // found, but not part of the stored document
}

// A Meta is the value of one metadata field, never missing.
type Meta struct {
	Field string
	Value filter.Value
}

// A Sparse is the sparse vector of one field, never empty.
type Sparse struct {
	Field  string
	Vector sparse.Vector
}

// Stored is what a stored document holds, sorted by field.
type Stored struct {
	Texts  []Text
	Metas  []Meta
	Sparse []Sparse
}

// AppendStored appends a stored document to b; the lists are sorted by field.
// Without sparse vectors the bytes are those of a release that knew none.
func AppendStored(b []byte, texts []Text, metas []Meta, vectors []Sparse) []byte {
	b = appendTexts(b, texts, false)
	b = storage.AppendUvarint(b, uint64(len(metas)))
	for _, m := range metas {
		b = storage.AppendBytes(b, m.Field)
		b = filter.AppendValue(b, m.Value)
	}
	if len(vectors) == 0 {
		return b
	}
	b = storage.AppendUvarint(b, uint64(len(vectors)))
	for _, v := range vectors {
		b = storage.AppendBytes(b, v.Field)
		b = storage.AppendBytes(b, sparse.Append(nil, v.Vector))
	}
	return b
}

// appendTexts appends the texts that are stored, or those that are not.
func appendTexts(b []byte, texts []Text, notStored bool) []byte {
	n := 0
	for i := range texts {
		if texts[i].NotStored == notStored {
			n++
		}
	}
	b = storage.AppendUvarint(b, uint64(n))
	for i := range texts {
		if t := &texts[i]; t.NotStored == notStored {
			b = storage.AppendBytes(b, t.Field)
			b = storage.AppendBytes(b, t.Text)
		}
	}
	return b
}

// A DocDecoder decodes stored documents. It keeps the names of fields it has
// met, so that documents share them. It is used by one goroutine.
type DocDecoder struct {
	names map[string]string
}

// DecodeStored decodes one stored document. Its strings are copies. want,
// unless nil, says which fields to decode; the others are skipped.
func (d *DocDecoder) DecodeStored(name string, b []byte, want func(field string) bool) (Stored, error) {
	r := storage.NewDecoder(name, 0, b)
	s := d.read(r, want)
	r.End()
	return s, r.Err()
}

func (d *DocDecoder) read(r *storage.Decoder, want func(string) bool) Stored {
	var s Stored
	n := r.Count(2)
	if want == nil {
		s.Texts = make([]Text, 0, n)
	}
	for range n {
		field, text := d.name(r.Bytes()), r.Bytes()
		if want == nil || want(field) {
			s.Texts = append(s.Texts, Text{Field: field, Text: string(text)})
		}
	}
	n = r.Count(2)
	if want == nil {
		s.Metas = make([]Meta, 0, min(n, 1024))
	}
	for range n {
		field := d.name(r.Bytes())
		if v := filter.DecodeValue(r); want == nil || want(field) {
			s.Metas = append(s.Metas, Meta{field, v})
		}
		if r.Err() != nil {
			return Stored{}
		}
	}
	if r.Len() == 0 {
		return s
	}
	for range r.Count(2) {
		field, raw := d.name(r.Bytes()), r.Bytes()
		if want != nil && !want(field) {
			continue
		}
		in := storage.NewDecoder("sparse vector", 0, raw)
		v := Sparse{field, sparse.Read(in)}
		if in.End(); in.Err() != nil || len(v.Vector) == 0 {
			r.Fail("sparse vector of field %q: empty, or %v", field, in.Err())
			return Stored{}
		}
		s.Sparse = append(s.Sparse, v)
	}
	return s
}

func (d *DocDecoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if d.names == nil {
		d.names = make(map[string]string)
	}
	s := string(b)
	if len(d.names) < 1<<16 {
		d.names[s] = s
	}
	return s
}

// A Doc is one document on its way into a segment.
type Doc struct {
	ID      string
	Texts   []Text // all text fields, those not stored included, sorted by field
	Metas   []Meta // sorted by field
	Vectors []Vector
	Sparse  []Sparse // sorted by field
	Stored  []byte   // by AppendStored
}

// A Vector is the vector of one field.
type Vector struct {
	Field string
	Vec   []float32
}

// AppendDoc appends the WAL form of a document: its id, the stored document,
// texts that are not stored, and vectors.
func AppendDoc(b []byte, d *Doc) []byte {
	b = storage.AppendBytes(b, d.ID)
	b = storage.AppendBytes(b, d.Stored)
	b = appendTexts(b, d.Texts, true)
	b = storage.AppendUvarint(b, uint64(len(d.Vectors)))
	for _, v := range d.Vectors {
		b = storage.AppendBytes(b, v.Field)
		b = storage.AppendUvarint(b, uint64(len(v.Vec)))
		b = append(b, f32Bytes(v.Vec)...)
	}
	return b
}

// ReadDoc reads what AppendDoc wrote. Stored points into the decoder's bytes,
// everything else is copied.
func (d *DocDecoder) ReadDoc(r *storage.Decoder) Doc {
	doc := Doc{ID: r.String(), Stored: r.Bytes()}
	in := storage.NewDecoder("stored document in WAL record", 0, doc.Stored)
	s := d.read(in, nil)
	if in.End(); in.Err() != nil {
		r.Fail("document %q: %v", doc.ID, in.Err())
	}
	doc.Texts, doc.Metas, doc.Sparse = s.Texts, s.Metas, s.Sparse
	for range r.Count(2) {
		doc.Texts = append(doc.Texts, Text{Field: d.name(r.Bytes()), Text: r.String(), NotStored: true})
	}
	for range r.Count(2) {
		v := Vector{Field: d.name(r.Bytes())}
		if raw := r.Raw(4 * r.Count(4)); len(raw) > 0 {
			v.Vec = make([]float32, len(raw)/4)
			copy(f32Bytes(v.Vec), raw)
		}
		doc.Vectors = append(doc.Vectors, v)
	}
	slices.SortFunc(doc.Texts, func(a, b Text) int { return cmp.Compare(a.Field, b.Field) })
	return doc
}
