package sparse

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sort"

	"github.com/quarrysearch/quarry/internal/bitpack"
	"github.com/quarrysearch/quarry/storage"
)

// Stats are the counts of one field of one segment.
type Stats struct {
	Bound         uint32 // the last doc with the field + 1
	DocsWithField uint32
	Terms         uint64 // different terms
	Postings      uint64 // pairs of term and doc
	ListBytes     uint64 // bytes of section lists
}

// A Field is the sparse vectors of one segment, read straight from its
// sections. It is immutable and safe for concurrent use.
type Field struct {
	table []byte // section terms
	lists []byte
	stats Stats
}

// Open reads a field from its sections terms, lists and meta, for a segment of
// docs docs. It checks counts and lengths in constant time; the rest is checked
// where it is read, and by Verify. Errors: ErrCorrupt, ErrVersion.
func Open(section func(name string) ([]byte, bool), docs uint32) (*Field, error) {
	if err := storage.CheckMachine(); err != nil {
		return nil, err
	}
	f := &Field{}
	var meta []byte
	for _, s := range []struct {
		name string
		to   *[]byte
	}{{"meta", &meta}, {"terms", &f.table}, {"lists", &f.lists}} {
		b, ok := section(s.name)
		if !ok {
			return nil, storage.Corruptf(s.name, 0, "missing section")
		}
		*s.to = b
	}
	d := storage.NewDecoder("meta", 0, meta)
	if v := d.Uvarint(); d.Err() == nil && v != formatVersion {
		return nil, storage.ErrVersion
	}
	bound, with := d.Uvarint(), d.Uvarint()
	s := Stats{Terms: d.Uvarint(), Postings: d.Uvarint(), ListBytes: d.Uvarint()}
	if d.End(); d.Err() != nil {
		return nil, d.Err()
	}
	switch {
	case bound > uint64(docs) || with > bound || s.Terms > s.Postings || with > s.Postings:
		return nil, storage.Corruptf("meta", 0, "counts contradict each other")
	case s.Terms > math.MaxInt32*2 || s.Terms*termSize != uint64(len(f.table)):
		return nil, storage.Corruptf("terms", 0, "%d bytes for %d terms", len(f.table), s.Terms)
	case s.ListBytes != uint64(len(f.lists)):
		return nil, storage.Corruptf("lists", 0, "%d bytes, meta says %d", len(f.lists), s.ListBytes)
	}
	s.Bound, s.DocsWithField = uint32(bound), uint32(with)
	f.stats = s
	return f, nil
}

// Stats returns the counts.
func (f *Field) Stats() Stats { return f.stats }

// DocFreq returns the number of docs with a term, deleted ones included until a
// merge drops them.
func (f *Field) DocFreq(term uint32) (uint32, error) {
	n, ok := f.find(term)
	if !ok {
		return 0, nil
	}
	l, err := f.list(n)
	return l.df, err
}

func (f *Field) terms() int { return len(f.table) / termSize }

func (f *Field) term(n int) uint32 { return binary.LittleEndian.Uint32(f.table[n*termSize:]) }

// find returns the number of a term.
func (f *Field) find(term uint32) (int, bool) {
	n := sort.Search(f.terms(), func(i int) bool { return f.term(i) >= term })
	return n, n < f.terms() && f.term(n) == term
}

// A list is the postings of a term, its lengths checked. The zero list is empty.
type list struct {
	off    int64 // in section lists, for errors
	df     uint32
	bound  uint32 // every doc is below
	most   uint16 // greatest code
	blocks int
	lasts  []byte
	ends   []byte
	maxs   []byte
	bodies []byte
}

// list returns the postings of the n-th term.
func (f *Field) list(n int) (l list, err error) {
	e := f.table[n*termSize:]
	where := binary.LittleEndian.Uint64(e[8:])
	from, to := where>>16, uint64(len(f.lists))
	if n+1 < f.terms() {
		to = binary.LittleEndian.Uint64(e[termSize+8:]) >> 16
	}
	l = list{off: int64(from), df: binary.LittleEndian.Uint32(e[4:]), bound: f.stats.Bound, most: uint16(where)}
	l.blocks = int((uint64(l.df) + blockDocs - 1) / blockDocs)
	head := uint64(l.blocks) * blockHeader
	if l.df == 0 || l.df > l.bound || !validCode(l.most) || from > to || to > uint64(len(f.lists)) || head > to-from {
		return list{}, storage.Corruptf("terms", int64(n)*termSize, "a list lies outside, or its counts are wrong")
	}
	b := f.lists[from:to]
	l.lasts, b = b[:4*l.blocks], b[4*l.blocks:]
	l.ends, b = b[:4*l.blocks], b[4*l.blocks:]
	l.maxs, l.bodies = b[:2*l.blocks], b[2*l.blocks:]
	return l, nil
}

func (l *list) last(block int) uint32 { return binary.LittleEndian.Uint32(l.lasts[4*block:]) }
func (l *list) max(block int) uint16  { return binary.LittleEndian.Uint16(l.maxs[2*block:]) }

// low is the first doc a block may hold.
func (l *list) low(block int) uint32 {
	if block == 0 {
		return 0
	}
	return l.last(block-1) + 1
}

// blockOf returns the first block from block on whose last doc is ≥ doc, or
// the number of blocks: by galloping, then by halves.
func (l *list) blockOf(block int, doc uint32) int {
	step := 1
	for block+step <= l.blocks && l.last(block+step-1) < doc {
		block += step
		step *= 2
	}
	end := min(block+step-1, l.blocks)
	for block < end {
		m := int(uint(block+end) / 2)
		if l.last(m) < doc {
			block = m + 1
		} else {
			end = m
		}
	}
	return block
}

// read decodes the docs of a block and returns its codes, or nil for bad bytes.
// Whatever the bytes, a success means docs that ascend strictly up to the
// block's last, which is below the bound.
func (l *list) read(dst *[blockDocs]uint32, block int) (codes []byte) {
	n := int(min(l.df-uint32(block)*blockDocs, blockDocs))
	from := uint32(0)
	if block > 0 {
		from = binary.LittleEndian.Uint32(l.ends[4*(block-1):])
	}
	to := binary.LittleEndian.Uint32(l.ends[4*block:])
	low, last := uint64(0), l.last(block)
	if block > 0 {
		low = uint64(l.last(block-1)) + 1
	}
	if from >= to || uint64(to) > uint64(len(l.bodies)) || last >= l.bound || uint64(last) < low {
		return nil
	}
	body := l.bodies[from:to]
	width := int(body[0])
	size := bitpack.RunSize(n, width)
	if body = body[1:]; width > bitpack.MaxWidth || len(body) != size+2*n {
		return nil
	}
	// Below 24 bits, 256 gaps and their count stay under 2^32: a sum that is
	// right modulo 2^32 is right, and no doc on the way can wrap around.
	if n == blockDocs {
		bitpack.Unpack(dst, body, width)
	} else {
		bitpack.Run(dst[:n], body, width)
	}
	if width >= 24 {
		sum := low + uint64(n) - 1
		for _, g := range dst[:n] {
			sum += uint64(g)
		}
		if sum != uint64(last) {
			return nil
		}
	}
	bitpack.PrefixSum(dst[:n], uint32(low))
	if dst[n-1] != last {
		return nil
	}
	return body[size:]
}

// Verify reads everything and recomputes every invariant: terms and docs
// strictly ascending, codes valid, the maxima of blocks and lists, lists that
// follow each other without gaps, and the counts. It takes a bit of memory a doc.
func (f *Field) Verify() error {
	seen := make([]uint64, (uint64(f.stats.Bound)+63)/64)
	var postings uint64
	next := int64(0)
	var c cursor
	for n := range f.terms() {
		if n > 0 && f.term(n) <= f.term(n-1) {
			return storage.Corruptf("terms", int64(n)*termSize, "terms do not ascend")
		}
		l, err := f.list(n)
		if err != nil {
			return err
		}
		if l.off != next {
			return storage.Corruptf("terms", int64(n)*termSize, "list does not start where the one before ended")
		}
		most := uint16(0)
		c.open(l, 1)
		for c.nextBlock() {
			high := uint16(0)
			for i, d := range c.docs[:c.n] {
				if !validCode(c.code(i)) {
					return storage.Corruptf("lists", l.off, "a code is out of range")
				}
				high = max(high, c.code(i))
				seen[d/64] |= 1 << (d % 64)
			}
			if high != l.max(c.block) {
				return storage.Corruptf("lists", l.off, "the greatest code of block %d is %d, not %d", c.block, high, l.max(c.block))
			}
			most = max(most, high)
			postings += uint64(c.n)
		}
		if err := c.err(); err != nil {
			return err
		}
		end := binary.LittleEndian.Uint32(l.ends[4*(l.blocks-1):])
		if most != l.most || uint64(end) != uint64(len(l.bodies)) {
			return storage.Corruptf("lists", l.off, "the greatest code or the end of a list is wrong")
		}
		next += int64(blockHeader*l.blocks + len(l.bodies))
	}
	with, bound := countDocs(seen)
	if s := &f.stats; next != int64(len(f.lists)) || postings != s.Postings || with != s.DocsWithField || bound != s.Bound {
		return storage.Corruptf("meta", 0, "counts differ from what the field holds")
	}
	return nil
}

// countDocs returns the number of docs in a set and the last of them + 1.
func countDocs(set []uint64) (n, bound uint32) {
	for i, w := range set {
		if w != 0 {
			n += uint32(bits.OnesCount64(w))
			bound = uint32(64*i+bits.Len64(w)-1) + 1
		}
	}
	return n, bound
}
