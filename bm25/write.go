package bm25

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/quarrysearch/quarry/storage"
)

// formatVersion is the version in the meta section.
//
//	1: first version
//	2: lists of few docs without blocks, patches in blocks of docs
const formatVersion = 2

// dictBlock is the number of terms in a dictionary block.
const dictBlock = 16

// A source gives the postings of a field term by term, in ascending order of
// terms and docs, as often as it is rewound. Builder and Merge are sources; so
// both write the field with the same code, and the same postings give the same
// bytes.
type source interface {
	rewind() error
	// docBytes is about the size of section docs.
	docBytes() int64
	// next moves to the next term and tells in how many docs it is, which may
	// be none. io.EOF after the last.
	next() (term []byte, df uint64, err error)
	// fill reads the next postings of the term into b, a full block unless
	// the list ends, n = 0 after the end; positions only if asked.
	fill(b *batch, positions bool) error
}

// A fieldWriter writes the sections of a field: pos, docs, dict, norms, meta.
// Sections are written one after the other, so section docs waits in memory
// until pos is complete. Where it is too large for that, the postings are read
// twice, and only the lengths of the blocks of positions are kept in between.
type fieldWriter struct {
	create func(section string) (io.Writer, error)
	out    io.Writer // the open section
	norms  []byte
	stats  Stats

	b    batch
	buf  []byte // bytes for out
	docs []byte // section docs, or what is not written of it yet
	plan []byte // bytes of positions of each block
	dict dictWriter
	list listWriter
}

const (
	// maxHeld is the size of section docs up to which it is held in memory.
	maxHeld = 32 << 20

	flushSize = 32 << 10 // bytes gathered before a write

	// maxPooledField is the capacity up to which a writer's buffers are kept.
	maxPooledField = 4 << 20
)

// fieldWriters keeps writers with their buffers.
var fieldWriters = sync.Pool{New: func() any { return new(fieldWriter) }}

// writeField writes all sections. norms has one byte for each doc up to the
// last with the field.
func writeField(create func(string) (io.Writer, error), src source, norms []byte) error {
	return writeFieldHeld(create, src, norms, maxHeld)
}

func writeFieldHeld(create func(string) (io.Writer, error), src source, norms []byte, held int64) error {
	w := fieldWriters.Get().(*fieldWriter)
	defer w.release()
	w.create, w.norms = create, norms
	for _, n := range norms {
		if n != 0 {
			w.stats.DocsWithField++
		}
	}
	if err := w.postings(src, src.docBytes() <= held); err != nil {
		return err
	}
	index, err := w.dict.finish()
	if err != nil {
		return err
	}
	if err := w.section("dict", w.dict.blocks, index); err != nil {
		return err
	}
	if err := w.section("norms", norms); err != nil {
		return err
	}
	return w.section("meta", w.meta())
}

// release puts the writer back, without what belongs to others.
func (w *fieldWriter) release() {
	w.create, w.out, w.norms, w.stats = nil, nil, nil, Stats{}
	if cap(w.buf)+cap(w.docs)+cap(w.plan)+cap(w.dict.blocks) > maxPooledField {
		return
	}
	w.buf, w.docs, w.plan = w.buf[:0], w.docs[:0], w.plan[:0]
	w.dict.reset()
	w.list.clear()
	fieldWriters.Put(w)
}

// section writes a whole section.
func (w *fieldWriter) section(name string, parts ...[]byte) error {
	out, err := w.create(name)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := out.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// postings writes the sections pos and docs and fills the dictionary.
func (w *fieldWriter) postings(src source, once bool) error {
	var err error
	if w.out, err = w.create("pos"); err != nil {
		return err
	}
	if once {
		if err := w.pass(src, true, true); err != nil {
			return err
		}
		if err := w.spill(&w.buf, 0); err != nil {
			return err
		}
		return w.section("docs", w.docs)
	}
	if err := w.pass(src, true, false); err != nil {
		return err
	}
	if err := w.spill(&w.buf, 0); err != nil {
		return err
	}
	if w.out, err = w.create("docs"); err != nil {
		return err
	}
	if err := w.pass(src, false, true); err != nil {
		return err
	}
	return w.spill(&w.docs, 0)
}

// spill writes b to the open section once it holds more than size bytes.
func (w *fieldWriter) spill(b *[]byte, size int) error {
	if len(*b) <= size {
		return nil
	}
	_, err := w.out.Write(*b)
	*b = (*b)[:0]
	return err
}

// pass reads all postings once and writes their positions, or their docs and
// the dictionary, or both.
func (w *fieldWriter) pass(src source, positions, docs bool) error {
	if err := src.rewind(); err != nil {
		return err
	}
	plan := storage.NewDecoder("plan", 0, w.plan)
	for {
		term, df, err := src.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case df == 0:
			continue
		case !docs:
			err = w.planTerm(src, df)
		case df == 1:
			err = w.single(src, term, positions, plan)
		default:
			err = w.several(src, term, df, positions, plan)
		}
		if err == nil && positions {
			err = w.spill(&w.buf, flushSize)
		} else if err == nil {
			err = w.spill(&w.docs, flushSize)
		}
		if err != nil {
			return err
		}
	}
}

// planTerm writes the positions of a term and notes the bytes of each block.
func (w *fieldWriter) planTerm(src source, df uint64) error {
	for at := uint64(0); at < df; at += blockDocs {
		if err := w.fill(src, true, min(df-at, blockDocs)); err != nil {
			return err
		}
		w.plan = binary.AppendUvarint(w.plan, w.positions(df))
	}
	return nil
}

var errChanged = fmt.Errorf("%w: a list of postings is not as long as promised, or changed while it was read", storage.ErrCorrupt)

// fill reads the next n postings of the term at hand.
func (w *fieldWriter) fill(src source, positions bool, n uint64) error {
	if err := src.fill(&w.b, positions); err != nil {
		return err
	}
	if uint64(w.b.n) != n {
		return errChanged
	}
	return nil
}

// positions appends the positions of the block to buf, unless they belong into
// the dictionary, and returns their bytes.
func (w *fieldWriter) positions(df uint64) uint64 {
	if df == 1 && len(w.b.pos) <= inlinePositions {
		return 0
	}
	from := len(w.buf)
	w.buf = appendPositions(w.buf, w.b.freqs[:w.b.n], w.b.pos)
	n := uint64(len(w.buf) - from)
	w.stats.PositionBytes += n
	return n
}

// single adds a term of one doc, which lies in the dictionary alone.
func (w *fieldWriter) single(src source, term []byte, positions bool, plan *storage.Decoder) error {
	var posLen uint64
	if !positions {
		posLen = plan.Uvarint()
	}
	// Without a length there are few positions, or there is no plan yet.
	if err := w.fill(src, posLen == 0, 1); err != nil {
		return err
	}
	if positions {
		posLen = w.positions(1)
	}
	e := entry{df: 1, ttf: uint64(w.b.freqs[0]), doc: w.b.docs[0], posLen: posLen}
	if (e.ttf <= inlinePositions) != (posLen == 0) {
		return errChanged
	}
	if posLen == 0 {
		e.inline = w.b.pos
	}
	w.add(term, &e)
	return plan.Err()
}

// several adds a term of two or more docs.
func (w *fieldWriter) several(src source, term []byte, df uint64, positions bool, plan *storage.Decoder) error {
	e := entry{df: df}
	l := &w.list
	l.reset(df)
	for range l.blocks {
		if err := w.fill(src, positions, uint64(l.blockLen())); err != nil {
			return err
		}
		var n uint64
		if positions {
			n = w.positions(df)
			e.ttf += uint64(len(w.b.pos))
		} else {
			n = plan.Uvarint()
			for _, f := range w.b.freqs[:w.b.n] {
				e.ttf += uint64(f)
			}
		}
		e.posLen += n
		l.add(&w.b, n, w.norms)
	}
	from := len(w.docs)
	w.docs = l.finish(w.docs)
	e.docsLen = uint64(len(w.docs) - from)
	w.add(term, &e)
	return plan.Err()
}

func (w *fieldWriter) add(term []byte, e *entry) {
	w.stats.Terms++
	w.stats.Postings += e.df
	w.stats.TotalLength += e.ttf
	w.stats.DocBytes += e.docsLen
	w.dict.add(term, e)
}

func (w *fieldWriter) meta() []byte {
	s := &w.stats
	b := storage.AppendUvarint(w.buf[:0], formatVersion)
	for _, v := range []uint64{
		uint64(len(w.norms)), uint64(s.DocsWithField), s.TotalLength, s.Terms, s.Postings,
		w.dict.size, s.DocBytes, s.PositionBytes,
	} {
		b = storage.AppendUvarint(b, v)
	}
	w.buf = b
	return b
}

// A listWriter encodes one postings list; format.md draws it.
type listWriter struct {
	df     uint64
	blocks int
	at     int    // blocks added
	base   uint32 // last doc so far + 1

	body     []byte // docs and freqs of one block
	group    []byte // blocks of the open group
	list     []byte // finished groups
	groupLow uint32 // first doc the open group may hold
	groupPos uint64 // bytes of positions of the open group

	blockSet, groupSet, listSet impactSet
}

func (l *listWriter) reset(df uint64) {
	l.df, l.blocks, l.at, l.base = df, int((df+blockDocs-1)/blockDocs), 0, 0
	l.group, l.list = l.group[:0], l.list[:0]
	l.groupLow, l.groupPos = 0, 0
}

// blockLen returns the number of docs the next block must have.
func (l *listWriter) blockLen() int {
	return int(min(l.df-uint64(l.at)*blockDocs, blockDocs))
}

func (l *listWriter) add(b *batch, posLen uint64, norms []byte) {
	docs, freqs := b.docs[:b.n], b.freqs[:b.n]
	if l.df < smallDocs {
		l.addSmall(docs, freqs)
		return
	}
	last := docs[b.n-1]
	l.body = appendDocs(l.body[:0], docs, l.base)
	l.body = appendFreqs(l.body, freqs)
	l.blockSet.add(freqs, docs, norms)

	l.group = binary.AppendUvarint(l.group, uint64(last-l.base))
	if l.blocks > 1 {
		l.groupSet.addAll(&l.blockSet)
		l.group = binary.AppendUvarint(l.group, uint64(len(l.body)))
		l.group = binary.AppendUvarint(l.group, posLen)
	}
	l.group = appendImpacts(l.group, l.blockSet.take(blockImpacts))
	l.group = append(l.group, l.body...)
	l.groupPos += posLen
	l.base = last + 1
	l.at++
	if l.at%groupBlocks == 0 || l.at == l.blocks {
		l.endGroup(last)
	}
}

// addSmall adds a whole list of few docs: gaps shifted left for a bit that says
// that tf is 1, else tf follows.
func (l *listWriter) addSmall(docs, freqs []uint32) {
	for i, d := range docs {
		gap := uint64(d-l.base) << 1
		if freqs[i] == 1 {
			l.list = binary.AppendUvarint(l.list, gap|1)
		} else {
			l.list = binary.AppendUvarint(l.list, gap)
			l.list = binary.AppendUvarint(l.list, uint64(freqs[i]))
		}
		l.base = d + 1
	}
}

func (l *listWriter) endGroup(last uint32) {
	if l.blocks > 1 {
		l.listSet.addAll(&l.groupSet)
	}
	if l.blocks > groupBlocks {
		l.list = binary.AppendUvarint(l.list, uint64(last-l.groupLow))
		l.list = binary.AppendUvarint(l.list, uint64(len(l.group)))
		l.list = binary.AppendUvarint(l.list, l.groupPos)
		l.list = appendImpacts(l.list, l.groupSet.take(groupImpacts))
	} else if l.blocks > 1 {
		l.groupSet.take(groupImpacts)
	}
	l.list = append(l.list, l.group...)
	l.group = l.group[:0]
	l.groupLow, l.groupPos = last+1, 0
}

// finish appends the list to dst.
func (l *listWriter) finish(dst []byte) []byte {
	if l.blocks > 1 {
		dst = appendImpacts(dst, l.listSet.take(groupImpacts))
	}
	return append(dst, l.list...)
}

// clear empties what a failed list has left behind.
func (l *listWriter) clear() {
	for _, s := range []*impactSet{&l.blockSet, &l.groupSet, &l.listSet} {
		s.take(groupImpacts)
	}
}
