package bm25

import (
	"bytes"
	"io"

	"github.com/quarrysearch/quarry/storage"
)

// Dropped marks a deleted doc in a DocMap.
const Dropped = ^uint32(0)

// A MergeInput is the field of one segment to merge, and where its docs go:
// DocMap[old] is the new doc or Dropped. New docs ascend within an input and
// may interleave between inputs; no two inputs share one.
type MergeInput struct {
	Field  *Field
	DocMap []uint32
}

// Merge writes the field of a segment of docs docs from its inputs, streaming:
// it holds one block of each input and the new dictionary, norms and block
// lengths. The bytes equal those of a Builder given the surviving docs.
// Errors: ErrInvalid for a bad DocMap, ErrCorrupt for a bad input.
func Merge(create func(section string) (io.Writer, error), inputs []MergeInput, docs uint32) error {
	norms, err := mergeNorms(inputs, docs)
	if err != nil {
		return err
	}
	m := &mergeSource{inputs: make([]mergeCursor, len(inputs)), docs: docs}
	for i, in := range inputs {
		m.inputs[i].field, m.inputs[i].docMap = in.Field, in.DocMap
	}
	return writeField(create, m, norms)
}

// mergeNorms checks the maps and gathers the norms.
func mergeNorms(inputs []MergeInput, docs uint32) ([]byte, error) {
	norms := make([]byte, docs)
	seen := make([]uint64, (uint64(docs)+63)/64)
	top := 0
	for i, in := range inputs {
		if uint64(len(in.DocMap)) < uint64(len(in.Field.norms)) {
			return nil, storage.Invalidf("bm25: DocMap of input %d has %d docs, the field %d", i, len(in.DocMap), len(in.Field.norms))
		}
		next := uint64(0)
		for old, d := range in.DocMap {
			if d == Dropped {
				continue
			}
			if d >= docs || uint64(d) < next || seen[d/64]>>(d%64)&1 != 0 {
				return nil, storage.Invalidf("bm25: DocMap of input %d sends doc %d to %d: out of range, not ascending or taken", i, old, d)
			}
			next = uint64(d) + 1
			seen[d/64] |= 1 << (d % 64)
			if old < len(in.Field.norms) && in.Field.norms[old] != 0 {
				norms[d] = in.Field.norms[old]
				top = max(top, int(d)+1)
			}
		}
	}
	return norms[:top], nil
}

// A mergeCursor is one input: its terms, and the postings of the term at hand,
// a block at a time, docs renumbered and deleted ones dropped.
type mergeCursor struct {
	field  *Field
	docMap []uint32
	terms  termCursor
	more   bool   // terms stands on a term
	prev   []byte // the term before

	cur    cursor
	b      batch
	at     int // postings of b used
	posAt  int // positions of b used
	active bool
}

// A mergeSource gives the union of its inputs, k ways by term and by doc.
type mergeSource struct {
	inputs []mergeCursor
	docs   uint32
	term   []byte
	heads  []*mergeCursor // active inputs, a binary heap by next doc
	ready  bool           // heads are filled
}

func (m *mergeSource) rewind() error {
	for i := range m.inputs {
		in := &m.inputs[i]
		in.terms = in.field.dict.walk(0)
		in.active = false
		if err := in.nextTerm(); err != nil {
			return err
		}
	}
	return nil
}

func (in *mergeCursor) nextTerm() error {
	in.prev = append(in.prev[:0], in.terms.term...)
	ok, err := in.terms.next()
	if err != nil {
		return err
	}
	if ok && bytes.Compare(in.terms.term, in.prev) <= 0 {
		return storage.Corruptf("dict", 0, "terms do not ascend")
	}
	in.more = ok
	return nil
}

func (m *mergeSource) next() ([]byte, bool, error) {
	for i := range m.inputs {
		if in := &m.inputs[i]; in.active {
			in.active = false
			if err := in.nextTerm(); err != nil {
				return nil, false, err
			}
		}
	}
	var least []byte
	for i := range m.inputs {
		if in := &m.inputs[i]; in.more && (least == nil || bytes.Compare(in.terms.term, least) < 0) {
			least = in.terms.term
		}
	}
	if least == nil {
		return nil, false, nil
	}
	m.term = append(m.term[:0], least...)
	for i := range m.inputs {
		in := &m.inputs[i]
		if in.active = in.more && bytes.Equal(in.terms.term, m.term); !in.active {
			continue
		}
		if err := in.field.check(&in.terms.entry); err != nil {
			return nil, false, err
		}
		in.cur.open(in.field, &in.terms.entry, 1, zeroInverse)
		in.b.n, in.at = 0, 0
	}
	m.ready = false
	return m.term, true, nil
}

var zeroInverse = new([256]float32)

// refill reads the next block with surviving docs, or leaves b empty.
func (in *mergeCursor) refill(positions bool) error {
	in.at, in.posAt, in.b.n = 0, 0, 0
	for in.b.n == 0 {
		ok, err := in.cur.nextBatch(&in.b, positions)
		if err != nil || !ok {
			return err
		}
		in.renumber()
	}
	return nil
}

// renumber maps the docs of b and drops the deleted ones.
func (in *mergeCursor) renumber() {
	b := &in.b
	n, from, to := 0, 0, 0
	for i := range b.n {
		f := int(b.freqs[i])
		if d := in.docMap[b.docs[i]]; d != Dropped {
			b.docs[n], b.freqs[n] = d, b.freqs[i]
			n++
			if len(b.pos) > 0 {
				copy(b.pos[to:], b.pos[from:from+f])
			}
			to += f
		}
		from += f
	}
	b.n = n
	if len(b.pos) > 0 {
		b.pos = b.pos[:to]
	}
}

func (m *mergeSource) fill(b *batch, positions bool) error {
	b.n, b.pos = 0, b.pos[:0]
	if !m.ready {
		m.ready = true
		m.heads = m.heads[:0]
		for i := range m.inputs {
			in := &m.inputs[i]
			if !in.active {
				continue
			}
			if err := in.refill(positions); err != nil {
				return err
			}
			if in.b.n > 0 {
				m.heads = append(m.heads, in)
				m.up(len(m.heads) - 1)
			}
		}
	}
	for b.n < blockDocs && len(m.heads) > 0 {
		in := m.heads[0]
		f := in.b.freqs[in.at]
		b.docs[b.n], b.freqs[b.n] = in.b.docs[in.at], f
		b.n++
		if positions {
			b.pos = append(b.pos, in.b.pos[in.posAt:in.posAt+int(f)]...)
			in.posAt += int(f)
		}
		in.at++
		if in.at == in.b.n {
			if err := in.refill(positions); err != nil {
				return err
			}
			if in.b.n == 0 {
				m.heads[0] = m.heads[len(m.heads)-1]
				m.heads = m.heads[:len(m.heads)-1]
			}
		}
		m.down()
	}
	return nil
}

func (in *mergeCursor) doc() uint32 { return in.b.docs[in.at] }

func (m *mergeSource) up(i int) {
	for h := m.heads; i > 0; {
		p := (i - 1) / 2
		if h[p].doc() <= h[i].doc() {
			return
		}
		h[p], h[i] = h[i], h[p]
		i = p
	}
}

func (m *mergeSource) down() {
	h := m.heads
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].doc() < h[c].doc() {
			c++
		}
		if h[i].doc() <= h[c].doc() {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// nextBatch reads the next block of a list as a whole.
func (c *cursor) nextBatch(b *batch, positions bool) (bool, error) {
	b.n, b.pos = 0, b.pos[:0]
	if !c.skip.advance() {
		return false, c.err()
	}
	if !c.load() || !c.loadFreqs() {
		return false, c.err()
	}
	b.n = c.n
	copy(b.docs[:], c.docs[:c.n])
	copy(b.freqs[:], c.freqs[:c.n])
	for _, f := range b.freqs[:b.n] {
		if f == 0 || f > 1<<31 {
			c.fail()
			return false, c.err()
		}
	}
	if !positions {
		return true, nil
	}
	if c.skip.df == 1 {
		b.pos = c.positions(b.pos)
		return !c.bad, c.err()
	}
	src := c.f.pos[c.e.posOff:][c.skip.posAt:c.skip.posTo]
	var ok bool
	if b.pos, ok = readAllPositions(b.pos, src, b.freqs[:b.n]); !ok {
		c.fail()
	}
	return ok, c.err()
}
