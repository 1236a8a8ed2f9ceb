package index

import (
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// A Document is what an index stores and finds. Its maps name declared text
// and vector fields and typed metadata; a field that a map does not name is
// missing from the document.
type Document struct {
	// ID is 1–512 bytes of UTF-8. Ids are compared byte by byte.
	ID string `json:"id"`
	// Text holds declared text fields. Invalid UTF-8 is refused.
	Text map[string]string `json:"text,omitempty"`
	// Vectors holds declared vector fields, each of its field's dimension, all
	// components finite, and not zero under cosine.
	Vectors map[string][]float32 `json:"vectors,omitempty"`
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
	// MaxFields bounds the text fields and the vector fields of an index.
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

// Record of a batch in the WAL (format.md).
const recordVersion = 1

// appendRecord appends the record of the batch but for its last list, the ids
// that DeleteWheres hit, which is known only under the lock.
func (p *prepared) appendRecord(b []byte) []byte {
	b = slices.Grow(b, int(p.bytes)+64)
	b = append(b, recordVersion)
	b = storage.AppendUvarint(b, uint64(len(p.grown)))
	for _, g := range p.grown {
		b = storage.AppendBytes(b, g.name)
		b = append(b, byte(g.typ))
	}
	b = storage.AppendUvarint(b, uint64(len(p.docs)))
	for i := range p.docs {
		b = segment.AppendDoc(b, &p.docs[i])
	}
	return appendIDs(b, p.gone)
}

func appendIDs(b []byte, ids []string) []byte {
	b = storage.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = storage.AppendBytes(b, id)
	}
	return b
}

// decodeRecord reads a record back into the prepared batch it came from.
func decodeRecord(sc *schema, record []byte) (*prepared, error) {
	d := storage.NewDecoder("WAL record", 0, record)
	if v := d.Byte(); d.Err() == nil && v != recordVersion {
		return nil, fmt.Errorf("%w: WAL record has version %d, this build reads %d", ErrVersion, v, recordVersion)
	}
	p := &prepared{base: sc, bytes: int64(len(record))}
	for range d.Count(2) {
		p.grown = append(p.grown, grownField{d.String(), filter.Type(d.Byte())})
	}
	var dd segment.DocDecoder
	for range d.Count(4) {
		p.docs = append(p.docs, dd.ReadDoc(d))
		if d.Err() != nil {
			return nil, d.Err()
		}
	}
	for range 2 {
		for range d.Count(1) {
			p.gone = append(p.gone, d.String())
		}
	}
	if d.End(); d.Err() != nil {
		return nil, d.Err()
	}
	for i := range p.docs {
		if i > 0 && p.docs[i].ID <= p.docs[i-1].ID {
			return nil, storage.Corruptf("WAL record", 0, "document %q is not above the one before", p.docs[i].ID)
		}
		p.dead = append(p.dead, p.docs[i].ID)
	}
	p.dead = append(p.dead, p.gone...)
	slices.Sort(p.dead)
	return p, nil
}

// checkRecord holds a decoded record against the schema: a record that passed
// its checksum and names what the schema lacks comes from another index.
func (p *prepared) checkRecord(sc *schema) error {
	for i := range p.docs {
		d := &p.docs[i]
		for _, t := range d.Texts {
			if sc.text[t.Field] == nil {
				return storage.Corruptf("WAL record", 0, "document %q: unknown text field %q", d.ID, t.Field)
			}
		}
		for _, v := range d.Vectors {
			if f := sc.vectors[v.Field]; f == nil || f.Dim != len(v.Vec) {
				return storage.Corruptf("WAL record", 0, "document %q: vector field %q unknown or of another dimension", d.ID, v.Field)
			}
		}
		for _, m := range d.Metas {
			if t, ok := sc.public.Meta[m.Field]; !ok || m.Value.Type() != t && m.Value.Type() != filter.Undeclared {
				return storage.Corruptf("WAL record", 0, "document %q: metadata field %q is not %v", d.ID, m.Field, m.Value.Type())
			}
		}
	}
	return nil
}
