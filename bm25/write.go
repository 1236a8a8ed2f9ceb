package bm25

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/quarrysearch/quarry/storage"
)

// formatVersion is the version in the meta section.
//
//	1: first version
const formatVersion = 1

// dictBlock is the number of terms in a dictionary block.
const dictBlock = 16

// A source gives the postings of a field term by term, in ascending order of
// terms and docs, twice. Builder and Merge are sources; so both write the
// field with the same code, and the same postings give the same bytes.
type source interface {
	rewind() error
	// next moves to the next term.
	next() (term []byte, ok bool, err error)
	// fill reads the next postings of the term into b, a full block unless
	// the list ends, n = 0 after the end; positions only if asked.
	fill(b *batch, positions bool) error
}

// A fieldWriter writes the sections of a field: pos, docs, dict, norms, meta.
// Sections are written one after the other, so the postings are read twice;
// between the passes only lengths are kept, some bytes a term and block.
type fieldWriter struct {
	create func(section string) (io.Writer, error)
	src    source
	norms  []byte
	b      batch
	buf    []byte
	plan   []byte // per term: df, total tf, bytes of positions of each block
	dict   dictWriter
	list   listWriter
	stats  Stats
}

// writeField writes all sections. norms has one byte for each doc up to the
// last with the field.
func writeField(create func(string) (io.Writer, error), src source, norms []byte) error {
	w := &fieldWriter{create: create, src: src, norms: norms}
	for _, n := range norms {
		if n != 0 {
			w.stats.DocsWithField++
		}
	}
	if err := w.section("pos", w.writePositions); err != nil {
		return err
	}
	if err := w.section("docs", w.writeDocs); err != nil {
		return err
	}
	err := w.section("dict", func(out *bufio.Writer) error {
		index, err := w.dict.finish()
		if err != nil {
			return err
		}
		out.Write(w.dict.blocks)
		_, err = out.Write(index)
		return err
	})
	if err != nil {
		return err
	}
	err = w.section("norms", func(out *bufio.Writer) error {
		_, err := out.Write(norms)
		return err
	})
	if err != nil {
		return err
	}
	return w.section("meta", w.writeMeta)
}

func (w *fieldWriter) section(name string, write func(*bufio.Writer) error) error {
	out, err := w.create(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(out, 1<<16)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// writePositions is the first pass. It also counts.
func (w *fieldWriter) writePositions(out *bufio.Writer) error {
	if err := w.src.rewind(); err != nil {
		return err
	}
	var lens []int
	for {
		_, ok, err := w.src.next()
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		var df, ttf uint64
		lens = lens[:0]
		for {
			if err := w.src.fill(&w.b, true); err != nil {
				return err
			}
			n := w.b.n
			if n > 0 {
				df += uint64(n)
				ttf += uint64(len(w.b.pos))
				w.buf = w.buf[:0]
				if n > 1 || df > 1 || ttf > inlinePositions {
					w.buf = appendPositions(w.buf, w.b.freqs[:n], w.b.pos)
				}
				if _, err := out.Write(w.buf); err != nil {
					return err
				}
				lens = append(lens, len(w.buf))
			}
			if n < blockDocs {
				break
			}
		}
		w.plan = binary.AppendUvarint(w.plan, df)
		w.plan = binary.AppendUvarint(w.plan, ttf)
		for _, n := range lens {
			w.plan = binary.AppendUvarint(w.plan, uint64(n))
		}
		w.stats.TotalLength += ttf
		w.stats.Postings += df
		w.stats.PositionBytes += uint64(sum(lens))
	}
}

func sum(v []int) (n int) {
	for _, x := range v {
		n += x
	}
	return n
}

// writeDocs is the second pass. It fills the dictionary in memory.
func (w *fieldWriter) writeDocs(out *bufio.Writer) error {
	if err := w.src.rewind(); err != nil {
		return err
	}
	plan := storage.NewDecoder("plan", 0, w.plan)
	for {
		term, ok, err := w.src.next()
		if err != nil {
			return err
		}
		if !ok {
			w.stats.DocBytes = w.dict.docsOff
			return plan.Err()
		}
		df, ttf := plan.Uvarint(), plan.Uvarint()
		if df == 0 {
			continue
		}
		w.stats.Terms++
		if df == 1 {
			if err := w.writeSingle(term, ttf, plan); err != nil {
				return err
			}
			continue
		}
		list, posLen, err := w.encodeList(df, plan)
		if err != nil {
			return err
		}
		if _, err := out.Write(list); err != nil {
			return err
		}
		w.dict.add(term, entry{df: df, ttf: ttf, docsLen: uint64(len(list)), posLen: posLen})
	}
}

// writeSingle adds a term of one doc, which lies in the dictionary alone.
func (w *fieldWriter) writeSingle(term []byte, ttf uint64, plan *storage.Decoder) error {
	posLen := plan.Uvarint()
	if err := w.src.fill(&w.b, ttf <= inlinePositions); err != nil {
		return err
	}
	if w.b.n != 1 || uint64(w.b.freqs[0]) != ttf {
		return errChanged
	}
	e := entry{df: 1, ttf: ttf, doc: w.b.docs[0], posLen: posLen}
	if ttf <= inlinePositions {
		e.inline = w.b.pos
	}
	w.dict.add(term, e)
	return nil
}

var errChanged = fmt.Errorf("%w: a merge input changed between two passes", storage.ErrCorrupt)

// encodeList encodes the postings list of a term of two or more docs.
func (w *fieldWriter) encodeList(df uint64, plan *storage.Decoder) (list []byte, posLen uint64, err error) {
	l := &w.list
	l.reset(df)
	for range l.blocks {
		if err := w.src.fill(&w.b, false); err != nil {
			return nil, 0, err
		}
		if w.b.n != l.blockLen() {
			return nil, 0, errChanged
		}
		n := plan.Uvarint()
		posLen += n
		l.add(&w.b, n, w.norms)
	}
	return l.finish(), posLen, nil
}

func (w *fieldWriter) writeMeta(out *bufio.Writer) error {
	s := &w.stats
	b := make([]byte, 0, 64)
	b = storage.AppendUvarint(b, formatVersion)
	for _, v := range []uint64{
		uint64(len(w.norms)), uint64(s.DocsWithField), s.TotalLength, s.Terms, s.Postings,
		w.dict.size, s.DocBytes, s.PositionBytes,
	} {
		b = storage.AppendUvarint(b, v)
	}
	_, err := out.Write(b)
	return err
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
	out      []byte
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

func (l *listWriter) finish() []byte {
	if l.blocks == 1 {
		return l.list
	}
	l.out = appendImpacts(l.out[:0], l.listSet.take(groupImpacts))
	l.out = append(l.out, l.list...)
	return l.out
}
