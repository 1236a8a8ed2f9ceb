package bm25

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

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
// terms and docs, in ranges of consecutive terms that may be read in any order.
// Builder and Merge are sources; so both write the field with the same code, and
// the same postings give the same bytes, however they are cut into ranges.
type source interface {
	// ranges is the number of ranges; start goes before the first term of one.
	ranges() int
	start(i int) error
	// next moves to the next term of the range and tells in how many docs it is,
	// which may be none. io.EOF after the last.
	next() (term []byte, df uint64, err error)
	// fill reads the next postings of the term into b, a full block unless
	// the list ends, n = 0 after the end; positions only if asked.
	fill(b *batch, positions bool) error
	// passed is the number of terms since start, one that several inputs have as
	// often. It tells whether the ranges together are all of terms.
	passed() uint64
	terms() uint64
	// docBytes is about the size of section docs.
	docBytes() int64
	// fork returns a source of the same postings for another goroutine. release
	// gives back what either holds.
	fork() source
	release()
}

const (
	// rangeSize is about how many bytes of sections a range becomes, the list of
	// its longest term aside.
	rangeSize = 1 << 20

	// maxHeld is the size of section docs up to which it is held in memory.
	maxHeld = 32 << 20

	// maxPooledField is the capacity up to which a writer's buffers are kept.
	maxPooledField = 4 << 20
)

// A fieldWriter writes the sections of a field: pos, docs, dict, norms, meta.
// Ranges of terms are encoded by several goroutines and written in order.
// Sections are written one after the other, so section docs waits in memory
// until pos is complete. Where it is too large for that, the postings are read
// twice, and only the lengths of the blocks of positions are kept in between.
type fieldWriter struct {
	create  func(section string) (io.Writer, error)
	src     source
	norms   []byte
	threads int
	stats   Stats

	own   encoder // of this goroutine
	piece piece
	out   io.Writer // the open section
	docs  []byte    // section docs, where it is held
	plan  []byte    // bytes of positions of each block
	plans []int     // where the plan of each range ends
	dict  dictWriter
	meta  []byte
}

// fieldWriters keeps writers with their buffers.
var fieldWriters = sync.Pool{New: func() any { return new(fieldWriter) }}

// writeField writes all sections. norms has one byte for each doc up to the
// last with the field.
func writeField(create func(string) (io.Writer, error), src source, norms []byte, threads int) error {
	return writeFieldHeld(create, src, norms, threads, maxHeld)
}

func writeFieldHeld(create func(string) (io.Writer, error), src source, norms []byte, threads int, held int64) error {
	w := fieldWriters.Get().(*fieldWriter)
	defer w.release()
	w.create, w.src, w.norms, w.threads = create, src, norms, threads
	for _, n := range norms {
		if n != 0 {
			w.stats.DocsWithField++
		}
	}
	if err := w.postings(src.docBytes() <= held); err != nil {
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
	return w.section("meta", w.counts())
}

// release puts the writer back, without what belongs to others.
func (w *fieldWriter) release() {
	w.create, w.src, w.out, w.norms, w.stats = nil, nil, nil, nil, Stats{}
	w.own.src, w.own.norms, w.own.plan = nil, nil, nil
	if w.piece.size()+cap(w.docs)+cap(w.plan)+cap(w.dict.blocks) > maxPooledField {
		return
	}
	w.docs, w.plan, w.plans = w.docs[:0], w.plan[:0], w.plans[:0]
	w.dict.reset()
	w.own.list.clear()
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
func (w *fieldWriter) postings(once bool) error {
	var err error
	if w.out, err = w.create("pos"); err != nil {
		return err
	}
	if once {
		if err := w.pass(true, true); err != nil {
			return err
		}
		return w.section("docs", w.docs)
	}
	if err := w.pass(true, false); err != nil {
		return err
	}
	if w.out, err = w.create("docs"); err != nil {
		return err
	}
	return w.pass(false, true)
}

// pass reads all postings once and writes their positions, or their docs and
// the dictionary, or both.
func (w *fieldWriter) pass(positions, docs bool) error {
	n, passed := w.src.ranges(), uint64(0)
	take := func(p *piece) error {
		passed += p.passed
		return w.take(p, positions, docs)
	}
	encode := func(e *encoder, i int, p *piece) error {
		e.norms, e.positions, e.docs = w.norms, positions, docs
		if e.plan = nil; !positions {
			e.plan = storage.NewDecoder("plan", 0, w.planOf(i))
		}
		return e.run(i, p)
	}
	if w.threads > 1 && n > 1 {
		if err := w.sideBySide(n, encode, take); err != nil {
			return err
		}
	} else {
		w.own.src = w.src
		for i := range n {
			if err := encode(&w.own, i, &w.piece); err != nil {
				return err
			}
			if err := take(&w.piece); err != nil {
				return err
			}
		}
	}
	if passed != w.src.terms() {
		return storage.Corruptf("dict", 0, "terms do not ascend: %d of %d are met in order", passed, w.src.terms())
	}
	return nil
}

// sideBySide encodes n ranges in several goroutines. take gets their pieces in
// order, two a goroutine being under way or waiting for it.
func (w *fieldWriter) sideBySide(n int, encode func(*encoder, int, *piece) error, take func(*piece) error) error {
	workers := min(w.threads, n)
	free := make(chan *piece, 2*workers)
	ready := make([]chan *piece, cap(free))
	for i := range ready {
		free <- new(piece)
		ready[i] = make(chan *piece, 1)
	}
	var next atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range workers {
		e := &encoder{src: w.src.fork()}
		wg.Go(func() {
			defer e.src.release()
			for p := range free {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if !stop.Load() {
					p.err = storage.Guard(func() error { return encode(e, i, p) })
				}
				ready[i%len(ready)] <- p
			}
		})
	}
	var err error
	for i := range n {
		p := <-ready[i%len(ready)]
		if err == nil {
			if err = p.err; err == nil {
				err = take(p)
			}
			stop.Store(err != nil)
		}
		free <- p
	}
	wg.Wait()
	return err
}

// planOf is the plan of a range.
func (w *fieldWriter) planOf(i int) []byte {
	from := 0
	if i > 0 {
		from = w.plans[i-1]
	}
	return w.plan[from:w.plans[i]]
}

// take writes a piece, or keeps what has to wait.
func (w *fieldWriter) take(p *piece, positions, docs bool) error {
	out := p.docs
	if positions {
		out = p.pos
		w.stats.PositionBytes += uint64(len(p.pos))
	}
	if _, err := w.out.Write(out); err != nil {
		return err
	}
	if !docs {
		w.plan = append(w.plan, p.plan...)
		w.plans = append(w.plans, len(w.plan))
		return nil
	}
	if positions {
		w.docs = append(w.docs, p.docs...)
	}
	w.stats.DocBytes += uint64(len(p.docs))
	w.stats.Terms += uint64(len(p.terms))
	w.stats.Postings += p.postings
	w.stats.TotalLength += p.tokens
	b := p.dict
	for _, t := range p.terms {
		w.dict.add(b[:t.term], b[t.term:t.term+t.info], t.docs, t.pos)
		b = b[t.term+t.info:]
	}
	return nil
}

// counts is section meta.
func (w *fieldWriter) counts() []byte {
	s := &w.stats
	b := storage.AppendUvarint(w.meta[:0], formatVersion)
	for _, v := range []uint64{
		uint64(len(w.norms)), uint64(s.DocsWithField), s.TotalLength, s.Terms, s.Postings,
		w.dict.size, s.DocBytes, s.PositionBytes,
	} {
		b = storage.AppendUvarint(b, v)
	}
	w.meta = b
	return b
}

// A piece is what a range of terms becomes.
type piece struct {
	pos, docs []byte
	plan      []byte      // bytes of positions of each block, where docs are left out
	dict      []byte      // each term and its info
	terms     []pieceTerm // their lengths

	postings, tokens, passed uint64
	err                      error
}

// A pieceTerm has the bytes of a term in dict, and of its postings.
type pieceTerm struct {
	term, info int
	docs, pos  uint64
}

func (p *piece) reset() {
	*p = piece{pos: p.pos[:0], docs: p.docs[:0], plan: p.plan[:0], dict: p.dict[:0], terms: p.terms[:0]}
}

// size is the memory it keeps.
func (p *piece) size() int {
	return cap(p.pos) + cap(p.docs) + cap(p.plan) + cap(p.dict) + 32*cap(p.terms)
}

// An encoder makes pieces, for one goroutine.
type encoder struct {
	src             source
	norms           []byte
	positions, docs bool             // what is wanted
	plan            *storage.Decoder // without positions

	b    batch
	list listWriter
	p    *piece
}

// run encodes a range.
func (e *encoder) run(i int, p *piece) error {
	p.reset()
	e.p = p
	if err := e.src.start(i); err != nil {
		return err
	}
	for {
		term, df, err := e.src.next()
		if err == io.EOF {
			p.passed = e.src.passed()
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case df == 0:
			continue
		case !e.docs:
			err = e.planTerm(df)
		case df == 1:
			err = e.single(term)
		default:
			err = e.several(term, df)
		}
		if err != nil {
			return err
		}
	}
}

// planTerm writes the positions of a term and notes the bytes of each block.
func (e *encoder) planTerm(df uint64) error {
	for at := uint64(0); at < df; at += blockDocs {
		if err := e.fill(true, min(df-at, blockDocs)); err != nil {
			return err
		}
		e.p.plan = binary.AppendUvarint(e.p.plan, e.block(df))
	}
	return nil
}

var errChanged = fmt.Errorf("%w: a list of postings is not as long as promised, or changed while it was read", storage.ErrCorrupt)

// fill reads the next n postings of the term at hand.
func (e *encoder) fill(positions bool, n uint64) error {
	if err := e.src.fill(&e.b, positions); err != nil {
		return err
	}
	if uint64(e.b.n) != n {
		return errChanged
	}
	return nil
}

// block appends the positions of the block, unless they belong into the
// dictionary, and returns their bytes.
func (e *encoder) block(df uint64) uint64 {
	if df == 1 && len(e.b.pos) <= inlinePositions {
		return 0
	}
	from := len(e.p.pos)
	e.p.pos = appendPositions(e.p.pos, e.b.freqs[:e.b.n], e.b.pos)
	return uint64(len(e.p.pos) - from)
}

// single adds a term of one doc, which lies in the dictionary alone.
func (e *encoder) single(term []byte) error {
	var posLen uint64
	if !e.positions {
		posLen = e.plan.Uvarint()
	}
	// Without a length there are few positions, or there is no plan.
	if err := e.fill(posLen == 0, 1); err != nil {
		return err
	}
	if e.positions {
		posLen = e.block(1)
	}
	t := entry{df: 1, ttf: uint64(e.b.freqs[0]), doc: e.b.docs[0], posLen: posLen}
	if (t.ttf <= inlinePositions) != (posLen == 0) {
		return errChanged
	}
	if posLen == 0 {
		t.inline = e.b.pos
	}
	return e.add(term, &t)
}

// several adds a term of two or more docs.
func (e *encoder) several(term []byte, df uint64) error {
	t := entry{df: df}
	l := &e.list
	l.reset(df)
	for range l.blocks {
		if err := e.fill(e.positions, uint64(l.blockLen())); err != nil {
			return err
		}
		var n uint64
		if e.positions {
			n = e.block(df)
			t.ttf += uint64(len(e.b.pos))
		} else {
			n = e.plan.Uvarint()
			for _, f := range e.b.freqs[:e.b.n] {
				t.ttf += uint64(f)
			}
		}
		t.posLen += n
		l.add(&e.b, n, e.norms)
	}
	from := len(e.p.docs)
	e.p.docs = l.finish(e.p.docs)
	t.docsLen = uint64(len(e.p.docs) - from)
	return e.add(term, &t)
}

// add adds a term to the piece.
func (e *encoder) add(term []byte, t *entry) error {
	p := e.p
	p.postings += t.df
	p.tokens += t.ttf
	from := len(p.dict) + len(term)
	p.dict = appendInfo(append(p.dict, term...), t)
	p.terms = append(p.terms, pieceTerm{len(term), len(p.dict) - from, t.docsLen, t.posLen})
	if e.plan != nil {
		return e.plan.Err()
	}
	return nil
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
