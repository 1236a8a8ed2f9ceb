package sparse

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/internal/bitpack"
	"github.com/quarrysearch/quarry/storage"
)

// formatVersion is the version in the meta section.
//
//	1: first version
const formatVersion = 1

const (
	blockDocs   = bitpack.Block
	termSize    = 16        // bytes of a term in section terms
	blockHeader = 4 + 4 + 2 // bytes of a block before the bodies
	flushSize   = 32 << 10  // bytes gathered before a write
)

// A posting is a doc and its code: doc<<16 | code.
type posting uint64

func (p posting) doc() uint32  { return uint32(p >> 16) }
func (p posting) code() uint16 { return uint16(p) }

// Write writes the sections lists, terms and meta of a field: vectors[i] is that
// of docs[i], which ascend strictly. An empty vector counts as none.
// Errors: ErrInvalid for docs or vectors that break their rules, ErrTooLarge.
func Write(create func(section string) (io.Writer, error), docs []uint32, vectors []Vector) error {
	if len(docs) != len(vectors) {
		return storage.Invalidf("sparse: %d docs and %d vectors", len(docs), len(vectors))
	}
	number := map[uint32]int{} // term → place in terms
	var terms []uint32
	var counts []int
	total := 0
	for i, v := range vectors {
		if err := v.Check(); err != nil {
			return err
		}
		if i > 0 && docs[i] <= docs[i-1] {
			return storage.Invalidf("sparse: doc %d does not ascend", docs[i])
		}
		for _, e := range v {
			n, ok := number[e.Term]
			if !ok {
				n = len(terms)
				number[e.Term] = n
				terms, counts = append(terms, e.Term), append(counts, 0)
			}
			counts[n]++
		}
		total += len(v)
	}
	all := make([]posting, total)
	at := make([]int, len(terms))
	sum := 0
	for n, c := range counts {
		at[n] = sum
		sum += c
	}
	for i, v := range vectors {
		for _, e := range v {
			n := number[e.Term]
			all[at[n]] = posting(docs[i])<<16 | posting(encode(e.Weight))
			at[n]++
		}
	}
	w, err := newWriter(create)
	if err != nil {
		return err
	}
	slices.Sort(terms)
	for _, t := range terms {
		n := number[t]
		if err := w.list(t, all[at[n]-counts[n]:at[n]]); err != nil {
			return err
		}
	}
	return w.finish()
}

// A writer writes the sections, list after list in ascending order of terms.
type writer struct {
	create func(section string) (io.Writer, error)
	out    io.Writer
	buf    []byte // of section lists
	off    uint64 // of the next list in it
	terms  []byte
	stats  Stats
	seen   []uint64 // docs with the field

	lasts, ends, maxs, bodies []byte
}

func newWriter(create func(section string) (io.Writer, error)) (*writer, error) {
	out, err := create("lists")
	return &writer{create: create, out: out}, err
}

// list writes the postings of a term, in strictly ascending order; none are no
// list.
func (w *writer) list(term uint32, list []posting) error {
	if len(list) == 0 {
		return nil
	}
	w.lasts, w.ends, w.maxs, w.bodies = w.lasts[:0], w.ends[:0], w.maxs[:0], w.bodies[:0]
	base, most := uint32(0), uint16(0)
	for rest := list; len(rest) > 0; {
		n := min(len(rest), blockDocs)
		high, err := w.block(rest[:n], base)
		if err != nil {
			return err
		}
		last := rest[n-1].doc()
		w.lasts = binary.LittleEndian.AppendUint32(w.lasts, last)
		w.ends = binary.LittleEndian.AppendUint32(w.ends, uint32(len(w.bodies)))
		w.maxs = binary.LittleEndian.AppendUint16(w.maxs, high)
		base, most, rest = last+1, max(most, high), rest[n:]
	}
	if uint64(len(w.bodies)) > math.MaxUint32 || w.off >= 1<<47 {
		return fmt.Errorf("%w: sparse: the postings of term %d", storage.ErrTooLarge, term)
	}
	w.terms = binary.LittleEndian.AppendUint32(w.terms, term)
	w.terms = binary.LittleEndian.AppendUint32(w.terms, uint32(len(list)))
	w.terms = binary.LittleEndian.AppendUint64(w.terms, w.off<<16|uint64(most))
	for _, part := range [][]byte{w.lasts, w.ends, w.maxs, w.bodies} {
		w.buf = append(w.buf, part...)
		w.off += uint64(len(part))
	}
	w.stats.Terms++
	w.stats.Postings += uint64(len(list))
	if len(w.buf) < flushSize {
		return nil
	}
	return w.flush()
}

// block appends the body of a block and returns its greatest code.
func (w *writer) block(list []posting, base uint32) (uint16, error) {
	var gaps [blockDocs]uint32
	high := uint16(0)
	for i, p := range list {
		d := p.doc()
		if d < base || d == math.MaxUint32 {
			return 0, storage.Invalidf("sparse: doc %d does not ascend", d)
		}
		gaps[i] = d - base
		base = d + 1
		high = max(high, p.code())
		for int(d/64) >= len(w.seen) {
			w.seen = append(w.seen, 0)
		}
		w.seen[d/64] |= 1 << (d % 64)
	}
	n := len(list)
	width := bitpack.Width(gaps[:n])
	w.bodies = append(w.bodies, byte(width))
	if n == blockDocs {
		w.bodies = bitpack.Pack(w.bodies, &gaps, width)
	} else {
		w.bodies = bitpack.AppendRun(w.bodies, gaps[:n], width)
	}
	for _, p := range list {
		w.bodies = binary.LittleEndian.AppendUint16(w.bodies, p.code())
	}
	return high, nil
}

func (w *writer) flush() error {
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *writer) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	with, docs := countDocs(w.seen)
	meta := storage.AppendUvarint(nil, formatVersion)
	for _, v := range []uint64{uint64(docs), uint64(with), w.stats.Terms, w.stats.Postings, w.off} {
		meta = storage.AppendUvarint(meta, v)
	}
	for _, s := range []struct {
		name string
		data []byte
	}{{"terms", w.terms}, {"meta", meta}} {
		out, err := w.create(s.name)
		if err != nil {
			return err
		}
		if _, err := out.Write(s.data); err != nil {
			return err
		}
	}
	return nil
}
