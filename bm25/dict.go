package bm25

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/quarrysearch/quarry/storage"
)

// MaxTermSize is the greatest length of a term in bytes.
const MaxTermSize = 32766

// indexEntry is the bytes of one block in the dictionary's index: a key of
// eight bytes and an offset of four.
const indexEntry = 12

// An entry is what the dictionary says of a term.
type entry struct {
	df, ttf uint64
	// df > 1: bytes in section docs.
	docsOff, docsLen uint64
	// Bytes in section pos; none when df = 1 and ttf ≤ inlinePositions.
	posOff, posLen uint64
	// df = 1: the only doc, and its positions when they lie inline.
	doc    uint32
	inline []uint32
	gaps   []byte // the bytes of inline, as read
}

// A dictWriter builds the blocks of the dictionary in memory.
type dictWriter struct {
	blocks []byte
	keys   []uint64
	offs   []uint32

	n               int // terms in the open block
	terms, infos    []byte
	prev            []byte
	docsOff, posOff uint64
	size            uint64 // bytes of the section after finish
	baseDocs        uint64
	basePos         uint64
	tooLarge        bool
}

// reset empties the writer and keeps its memory.
func (w *dictWriter) reset() {
	*w = dictWriter{
		blocks: w.blocks[:0], keys: w.keys[:0], offs: w.offs[:0],
		terms: w.terms[:0], infos: w.infos[:0], prev: w.prev[:0],
	}
}

// add adds a term, its info, and the bytes of its docs and positions.
func (w *dictWriter) add(term, info []byte, docsLen, posLen uint64) {
	if w.n == dictBlock {
		w.endBlock()
	}
	shared := 0
	if w.n == 0 {
		w.keys = append(w.keys, termKey(term))
		w.baseDocs, w.basePos = w.docsOff, w.posOff
		w.terms = binary.AppendUvarint(w.terms, uint64(len(term)))
	} else {
		shared = commonPrefix(w.prev, term)
		w.terms = binary.AppendUvarint(w.terms, uint64(shared))
		w.terms = binary.AppendUvarint(w.terms, uint64(len(term)-shared))
	}
	w.terms = append(w.terms, term[shared:]...)
	w.prev = append(w.prev[:shared], term[shared:]...)
	w.n++

	w.infos = append(w.infos, info...)
	w.docsOff += docsLen
	w.posOff += posLen
}

// appendInfo appends what the dictionary says of a term.
func appendInfo(b []byte, e *entry) []byte {
	b = binary.AppendUvarint(b, e.df)
	if e.df > 1 {
		b = binary.AppendUvarint(b, e.ttf-e.df)
		b = binary.AppendUvarint(b, e.docsLen)
		return binary.AppendUvarint(b, e.posLen)
	}
	b = binary.AppendUvarint(b, e.ttf)
	b = binary.AppendUvarint(b, uint64(e.doc))
	if e.ttf > inlinePositions {
		return binary.AppendUvarint(b, e.posLen)
	}
	at := uint32(0)
	for _, p := range e.inline {
		b = binary.AppendUvarint(b, uint64(p-at))
		at = p + 1
	}
	return b
}

func (w *dictWriter) endBlock() {
	if w.n == 0 {
		return
	}
	if uint64(len(w.blocks)) > math.MaxUint32 {
		w.tooLarge = true
	}
	w.offs = append(w.offs, uint32(len(w.blocks)))
	w.blocks = binary.AppendUvarint(w.blocks, w.baseDocs)
	w.blocks = binary.AppendUvarint(w.blocks, w.basePos)
	w.blocks = binary.AppendUvarint(w.blocks, uint64(len(w.terms)))
	w.blocks = append(w.blocks, w.terms...)
	w.blocks = append(w.blocks, w.infos...)
	w.terms, w.infos, w.n = w.terms[:0], w.infos[:0], 0
}

// finish ends the last block and returns the index.
func (w *dictWriter) finish() ([]byte, error) {
	w.endBlock()
	if w.tooLarge {
		return nil, fmt.Errorf("%w: dictionary of more than 4 GiB", storage.ErrTooLarge)
	}
	b := make([]byte, 0, indexEntry*len(w.keys))
	for _, k := range w.keys {
		b = storage.AppendU64(b, k)
	}
	for _, o := range w.offs {
		b = storage.AppendU32(b, o)
	}
	w.size = uint64(len(w.blocks) + len(b))
	return b, nil
}

// termKey is the first eight bytes of a term as a number, zeros after its end:
// keys never descend when terms ascend.
func termKey(term []byte) uint64 {
	if len(term) >= 8 {
		return binary.BigEndian.Uint64(term)
	}
	var b [8]byte
	copy(b[:], term)
	return binary.BigEndian.Uint64(b[:])
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// A dictReader finds terms in the bytes of a dict section. It is a value over
// the section and holds nothing else.
type dictReader struct {
	data  []byte // blocks
	keys  []byte
	offs  []byte
	terms uint64
}

func openDict(data []byte, terms uint64) (dictReader, error) {
	blocks := (terms + dictBlock - 1) / dictBlock
	if blocks > uint64(len(data))/indexEntry {
		return dictReader{}, storage.Corruptf("dict", int64(len(data)), "index of %d blocks does not fit", blocks)
	}
	end := len(data) - int(blocks)*indexEntry
	keyEnd := end + 8*int(blocks)
	return dictReader{data: data[:end], keys: data[end:keyEnd], offs: data[keyEnd:], terms: terms}, nil
}

func (d *dictReader) blocks() int { return len(d.offs) / 4 }

func (d *dictReader) key(i int) uint64 { return binary.LittleEndian.Uint64(d.keys[8*i:]) }

// block returns the bytes of block i and the offset they start at.
func (d *dictReader) block(i int) ([]byte, int64, error) {
	from := uint64(binary.LittleEndian.Uint32(d.offs[4*i:]))
	to := uint64(len(d.data))
	if i+1 < d.blocks() {
		to = uint64(binary.LittleEndian.Uint32(d.offs[4*i+4:]))
	}
	if from >= to || to > uint64(len(d.data)) {
		return nil, 0, storage.Corruptf("dict", int64(len(d.data)+len(d.keys)+4*i), "bad offset of block %d", i)
	}
	return d.data[from:to], int64(from), nil
}

// blockTerms returns the number of terms in block i.
func (d *dictReader) blockTerms(i int) int {
	return int(min(d.terms-uint64(i)*dictBlock, dictBlock))
}

// seekBlock returns the last block whose first term is at most term, or -1.
// The keys narrow it down; first terms are read only where keys are equal.
func (d *dictReader) seekBlock(term []byte) (int, error) {
	n := d.blocks()
	key := termKey(term)
	lo := sort.Search(n, func(i int) bool { return d.key(i) >= key })
	hi := lo
	if lo < n && d.key(lo) == key {
		hi += sort.Search(n-lo, func(i int) bool { return d.key(lo+i) > key })
	}
	i, err := d.firstAbove(lo, hi, term)
	return i - 1, err
}

// seekBlockFrom is seekBlock from a block on, which it returns at least: near
// blocks are found at less cost.
func (d *dictReader) seekBlockFrom(from int, term []byte) (int, error) {
	n, key := d.blocks(), termKey(term)
	if from >= n || d.key(from) > key {
		return from, nil
	}
	step := 1
	lo := from // its key is at most that of the term
	for lo+step < n && d.key(lo+step) <= key {
		lo += step
		step *= 2
	}
	hi := min(lo+step, n)
	lo += sort.Search(hi-lo, func(i int) bool { return d.key(lo+i) > key }) - 1
	if d.key(lo) < key {
		return lo, nil
	}
	tie := from + sort.Search(lo-from, func(i int) bool { return d.key(from+i) >= key })
	i, err := d.firstAbove(tie, lo+1, term)
	return max(i-1, from), err
}

// firstAbove returns the first of some blocks whose first term is above term.
func (d *dictReader) firstAbove(from, to int, term []byte) (int, error) {
	var err error
	i := sort.Search(to-from, func(i int) bool {
		first, e := d.firstTerm(from + i)
		if e != nil {
			err = e
		}
		return bytes.Compare(first, term) > 0
	})
	return from + i, err
}

func (d *dictReader) firstTerm(i int) ([]byte, error) {
	b, off, err := d.block(i)
	if err != nil {
		return nil, err
	}
	c := blockCursor{}
	if !c.open(b, off, d.blockTerms(i)) || c.nextTerm() < 0 {
		return nil, c.corrupt()
	}
	return c.suffix, nil
}

// cut returns the first terms of blocks that cut docs, positions and dictionary,
// size bytes in all, in about equal parts.
func (d *dictReader) cut(parts int, size float64) (terms [][]byte, err error) {
	from := 1 // the first block that may start the next part
	for i := 1; i < parts; i++ {
		from += sort.Search(d.blocks()-from, func(j int) bool {
			b, off, e := d.block(from + j)
			var c blockCursor
			if e == nil && !c.open(b, off, 0) {
				e = c.corrupt()
			}
			if e != nil {
				err = e
			}
			return float64(off)+float64(c.docsOff)+float64(c.posOff) >= size*float64(i)/float64(parts)
		})
		if err != nil || from >= d.blocks() {
			return terms, err
		}
		term, err := d.firstTerm(from)
		if err != nil {
			return nil, err
		}
		if n := len(terms); n > 0 && bytes.Compare(terms[n-1], term) >= 0 {
			return nil, errOrder
		}
		terms = append(terms, term)
		from++
	}
	return terms, nil
}

// lookup finds a term. ok is false when the field lacks it.
func (d *dictReader) lookup(term []byte) (e entry, ok bool, err error) {
	i, err := d.seekBlock(term)
	if err != nil || i < 0 {
		return e, false, err
	}
	b, off, err := d.block(i)
	if err != nil {
		return e, false, err
	}
	var c blockCursor
	if !c.open(b, off, d.blockTerms(i)) {
		return e, false, c.corrupt()
	}
	// same is the length of the common prefix of the wanted term and the term
	// before, which is less than it. A term that shares more with the one
	// before is less as well; one that shares less is greater.
	same := 0
	for c.left > 0 {
		shared := c.nextTerm()
		switch {
		case shared < 0:
			return e, false, c.corrupt()
		case shared > same:
			continue
		case shared < same:
			return e, false, nil
		}
		k := commonPrefix(c.suffix, term[same:])
		same += k
		if same == len(term) && k == len(c.suffix) {
			e, ok := c.info(c.n - 1)
			if !ok {
				return e, false, c.corrupt()
			}
			return e, true, nil
		}
		if same == len(term) || k < len(c.suffix) && c.suffix[k] > term[same] {
			return e, false, nil
		}
	}
	return e, false, nil
}

// A blockCursor reads one dictionary block.
type blockCursor struct {
	off     int64 // of the block in the section
	data    []byte
	terms   []byte // coded terms not read yet
	infos   []byte // coded infos not read yet
	left, n int    // terms to come, terms read
	infoAt  int    // infos read
	suffix  []byte // of the last term read
	docsOff uint64 // of the next info
	posOff  uint64
}

func (c *blockCursor) open(b []byte, off int64, terms int) bool {
	*c = blockCursor{off: off, data: b, infos: b, left: terms}
	var size uint64
	ok := takeUvarint(&c.infos, &c.docsOff) && takeUvarint(&c.infos, &c.posOff) && takeUvarint(&c.infos, &size)
	if !ok || size > uint64(len(c.infos)) {
		return false
	}
	c.terms, c.infos = c.infos[:size], c.infos[size:]
	return true
}

func (c *blockCursor) corrupt() error {
	return storage.Corruptf("dict", c.off+int64(len(c.data)-len(c.infos)), "bad dictionary block")
}

// takeUvarint reads a varint off the front of b. Most are of one byte.
func takeUvarint(b *[]byte, v *uint64) bool {
	if s := *b; len(s) > 0 && s[0] < 0x80 {
		*b, *v = s[1:], uint64(s[0])
		return true
	}
	x, n := binary.Uvarint(*b)
	if n <= 0 {
		return false
	}
	*b, *v = (*b)[n:], x
	return true
}

// nextTerm reads the next term and returns the bytes it shares with the one
// before, or -1. The rest is in suffix.
func (c *blockCursor) nextTerm() (shared int) {
	var s, n uint64
	if t := c.terms; c.n > 0 && c.left > 0 && len(t) > 1 && t[0]|t[1] < 0x80 {
		s, n, c.terms = uint64(t[0]), uint64(t[1]), t[2:] // the usual case
	} else if c.left == 0 || c.n > 0 && !takeUvarint(&c.terms, &s) || !takeUvarint(&c.terms, &n) {
		return -1
	}
	if n > uint64(len(c.terms)) || s > MaxTermSize || n > MaxTermSize {
		return -1
	}
	c.suffix, c.terms = c.terms[:n], c.terms[n:]
	c.left--
	c.n++
	return int(s)
}

// info reads infos up to number i.
func (c *blockCursor) info(i int) (e entry, ok bool) {
	for c.infoAt <= i {
		if !c.nextInfo(&e) {
			return e, false
		}
	}
	return e, true
}

// nextInfo reads the next info into e.
func (c *blockCursor) nextInfo(e *entry) (ok bool) {
	c.infoAt++
	*e = entry{docsOff: c.docsOff, posOff: c.posOff}
	if b := c.infos; len(b) > 1 && b[0]|b[1] < 0x80 {
		e.df, e.ttf, c.infos = uint64(b[0]), uint64(b[1]), b[2:]
	} else if !takeUvarint(&c.infos, &e.df) || !takeUvarint(&c.infos, &e.ttf) {
		return false
	}
	if e.df == 0 || e.df > math.MaxUint32 {
		return false
	}
	if e.df > 1 {
		e.ttf += e.df
		ok = takeUvarint(&c.infos, &e.docsLen) && takeUvarint(&c.infos, &e.posLen)
	} else {
		var doc uint64
		ok = takeUvarint(&c.infos, &doc) && doc < math.MaxUint32 && e.ttf > 0 && e.ttf <= 1<<31
		e.doc = uint32(doc)
		if ok && e.ttf > inlinePositions {
			ok = takeUvarint(&c.infos, &e.posLen)
		} else if ok {
			from := c.infos
			for range e.ttf {
				var gap uint64
				ok = ok && takeUvarint(&c.infos, &gap)
			}
			e.gaps = from[:len(from)-len(c.infos)]
		}
	}
	c.docsOff += e.docsLen
	c.posOff += e.posLen
	return ok && e.docsLen <= math.MaxInt64/2 && e.posLen <= math.MaxInt64/2
}

// inlined decodes the positions of a term whose entry holds them.
func (e *entry) inlined(dst []uint32) bool {
	b := e.gaps
	at := uint64(0)
	for i := range dst {
		var gap uint64
		if !takeUvarint(&b, &gap) || gap > math.MaxUint32 || at+gap > math.MaxUint32 {
			return false
		}
		dst[i] = uint32(at + gap)
		at += gap + 1
	}
	return true
}

// A termCursor walks the terms of a dictionary in order.
type termCursor struct {
	d     *dictReader
	block int // of cur
	cur   blockCursor
	term  []byte // owned
	entry entry
}

// walk returns a cursor before the first term of a block.
func (d *dictReader) walk(block int) termCursor { return termCursor{d: d, block: block - 1} }

// next moves to the next term. term and entry hold until the next call.
func (it *termCursor) next() (ok bool, err error) {
	if it.cur.left == 0 {
		if it.block+1 >= it.d.blocks() {
			return false, nil
		}
		it.block++
		b, off, err := it.d.block(it.block)
		if err != nil {
			return false, err
		}
		if !it.cur.open(b, off, it.d.blockTerms(it.block)) {
			return false, it.cur.corrupt()
		}
		it.term = it.term[:0]
	}
	shared := it.cur.nextTerm()
	if shared < 0 || shared > len(it.term) || shared+len(it.cur.suffix) > MaxTermSize {
		return false, it.cur.corrupt()
	}
	it.term = append(it.term[:shared], it.cur.suffix...)
	if !it.cur.nextInfo(&it.entry) {
		return false, it.cur.corrupt()
	}
	return true, nil
}
