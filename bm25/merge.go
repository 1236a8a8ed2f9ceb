package bm25

import (
	"bytes"
	"io"
	"slices"
	"sync"

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
// each of threads goroutines holds one block of each input and about two MiB of
// postings; besides, there are the new dictionary, norms and, up to 32 MiB,
// postings without positions or else the lengths of their blocks. The bytes equal
// those of a Builder given the surviving docs, whatever the threads.
// Errors: ErrInvalid for a bad DocMap, ErrCorrupt for a bad input.
func Merge(create func(section string) (io.Writer, error), inputs []MergeInput, docs uint32, threads int) error {
	norms, err := mergeNorms(inputs, docs)
	if err != nil {
		return err
	}
	m, err := newMergeSource(inputs, rangeSize)
	if err != nil {
		return err
	}
	defer m.release()
	return writeField(create, m, norms, threads)
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
	drops  bool // docMap drops docs
	terms  termCursor
	prev   []byte // the last term of the block before

	skip  skipper // over the list of a term of several docs
	last  bool    // b holds the last block
	b     batch
	at    int // postings of b used
	posAt int // positions of b used
}

// A mergeSource gives the union of its inputs, k ways by term and by doc.
type mergeSource struct {
	given  []MergeInput
	bounds [][]byte       // the least terms of all ranges but the first
	inputs []*mergeCursor // of a merge, first; more are kept for the next
	n      int
	end    []byte         // the bound after the range, nil for none
	live   []*mergeCursor // the inputs that stand on a term
	keys   []uint64       // termKey of that term
	active []int32        // of live, the inputs that stand on the least term
	heads  []*mergeCursor // active inputs, a binary heap by next doc
	ready  bool           // heads are filled
	met    uint64
}

// mergeSources keeps sources with their cursors.
var mergeSources = sync.Pool{New: func() any { return new(mergeSource) }}

func newMergeSource(inputs []MergeInput, size int64) (*mergeSource, error) {
	bounds, err := mergeBounds(inputs, size)
	if err != nil {
		return nil, err
	}
	return mergeSources.Get().(*mergeSource).reset(inputs, bounds), nil
}

func (m *mergeSource) reset(inputs []MergeInput, bounds [][]byte) *mergeSource {
	m.given, m.bounds, m.n = inputs, bounds, len(inputs)
	for len(m.inputs) < m.n {
		m.inputs = append(m.inputs, new(mergeCursor))
	}
	for i, in := range inputs {
		c := m.inputs[i]
		c.field, c.docMap = in.Field, in.DocMap
		c.drops = slices.Contains(in.DocMap, Dropped)
	}
	return m
}

func (m *mergeSource) fork() source {
	return mergeSources.Get().(*mergeSource).reset(m.given, m.bounds)
}

func (m *mergeSource) ranges() int    { return len(m.bounds) + 1 }
func (m *mergeSource) passed() uint64 { return m.met }

func (m *mergeSource) terms() (n uint64) {
	for _, in := range m.given {
		n += in.Field.dict.terms
	}
	return n
}

func (m *mergeSource) docBytes() (n int64) {
	for _, in := range m.given {
		n += int64(len(in.Field.docs))
	}
	return n
}

// mergeBounds cuts the terms in ranges of about size bytes, where blocks of the
// largest input's dictionary begin.
func mergeBounds(inputs []MergeInput, size int64) ([][]byte, error) {
	total, most := int64(0), int64(-1)
	var lead *Field
	for _, in := range inputs {
		n := int64(len(in.Field.docs) + len(in.Field.pos) + len(in.Field.dict.data))
		if total += n; n > most {
			lead, most = in.Field, n
		}
	}
	if total < 2*size {
		return nil, nil
	}
	return lead.dict.cut(int(total/size), float64(most))
}

// release puts the source back, without what belongs to others.
func (m *mergeSource) release() {
	for _, in := range m.inputs[:m.n] {
		in.field, in.docMap, in.skip = nil, nil, skipper{}
		in.terms = termCursor{term: in.terms.term[:0]}
	}
	m.given, m.bounds, m.end = nil, nil, nil
	if len(m.inputs) > 64 {
		return // their blocks are not worth keeping
	}
	mergeSources.Put(m)
}

func (m *mergeSource) start(i int) error {
	m.live, m.keys, m.active, m.met = m.live[:0], m.keys[:0], m.active[:0], 0
	var from []byte
	if m.end = nil; i < len(m.bounds) {
		m.end = m.bounds[i]
	}
	if i > 0 {
		from = m.bounds[i-1]
	}
	for _, in := range m.inputs[:m.n] {
		more, err := in.seekTerm(from)
		if err != nil {
			return err
		}
		if more && m.within(in) {
			m.live = append(m.live, in)
			m.keys = append(m.keys, termKey(in.terms.term))
		}
	}
	return nil
}

// within tells whether an input's term belongs to the range.
func (m *mergeSource) within(in *mergeCursor) bool {
	return m.end == nil || bytes.Compare(in.terms.term, m.end) < 0
}

// seekTerm moves to the first term at or after from. It is false when there is
// none.
func (in *mergeCursor) seekTerm(from []byte) (bool, error) {
	block, err := in.field.dict.seekBlock(from)
	if err != nil {
		return false, err
	}
	term := in.terms.term[:0]
	in.terms = in.field.dict.walk(max(block, 0))
	in.terms.term = term
	for {
		more, err := in.nextTerm()
		if !more || err != nil || bytes.Compare(in.terms.term, from) >= 0 {
			return more, err
		}
	}
}

// nextTerm moves to the next term, which must ascend. It is false at the end.
func (in *mergeCursor) nextTerm() (bool, error) {
	it := &in.terms
	if it.cur.left == 0 {
		in.prev = append(in.prev[:0], it.term...)
		ok, err := it.next()
		if ok && bytes.Compare(it.term, in.prev) <= 0 {
			err = errOrder
		}
		return ok, err
	}
	shared := it.cur.nextTerm()
	if shared < 0 || shared > len(it.term) || shared+len(it.cur.suffix) > MaxTermSize {
		return false, it.cur.corrupt()
	}
	// Up to shared the terms are equal.
	if bytes.Compare(it.cur.suffix, it.term[shared:]) <= 0 {
		return false, errOrder
	}
	it.term = append(it.term[:shared], it.cur.suffix...)
	if !it.cur.nextInfo(&it.entry) {
		return false, it.cur.corrupt()
	}
	return true, nil
}

var errOrder = storage.Corruptf("dict", 0, "terms do not ascend")

func (m *mergeSource) next() ([]byte, uint64, error) {
	if err := m.leave(); err != nil {
		return nil, 0, err
	}
	if len(m.live) == 0 {
		return nil, 0, io.EOF
	}
	least := m.keys[0]
	m.active = append(m.active[:0], 0)
	for i := 1; i < len(m.keys); i++ {
		key := m.keys[i]
		if key > least {
			continue
		}
		c := -1
		if key == least {
			c = bytes.Compare(m.live[i].terms.term, m.live[m.active[0]].terms.term)
		}
		if c < 0 {
			least, m.active = key, m.active[:0]
		}
		if c <= 0 {
			m.active = append(m.active, int32(i))
		}
	}
	m.ready = false
	m.met += uint64(len(m.active))
	var df uint64
	for _, i := range m.active {
		in := m.live[i]
		if err := in.field.check(&in.terms.entry); err != nil {
			return nil, 0, err
		}
		n, err := in.survivors()
		if err != nil {
			return nil, 0, err
		}
		df += n
	}
	return m.live[m.active[0]].terms.term, df, nil
}

// leave moves the active inputs to their next terms.
func (m *mergeSource) leave() error {
	ended := false
	for _, i := range m.active {
		in := m.live[i]
		more, err := in.nextTerm()
		if err != nil {
			return err
		}
		if more && m.within(in) {
			m.keys[i] = termKey(in.terms.term)
		} else {
			m.live[i], ended = nil, true
		}
	}
	if !ended {
		return nil
	}
	n := 0
	for i, in := range m.live {
		if in != nil {
			m.live[n], m.keys[n] = in, m.keys[i]
			n++
		}
	}
	m.live, m.keys = m.live[:n], m.keys[:n]
	return nil
}

// survivors counts the docs of the term at hand that are not dropped.
func (in *mergeCursor) survivors() (uint64, error) {
	e := &in.terms.entry
	if !in.drops {
		return e.df, nil
	}
	n := uint64(0)
	for in.open(); ; {
		if ok, err := in.readDocs(); !ok {
			return n, err
		}
		for _, d := range in.b.docs[:in.b.n] {
			if in.docMap[d] != Dropped {
				n++
			}
		}
	}
}

// open starts before the first block of the term at hand.
func (in *mergeCursor) open() { in.skip.open(in.field, &in.terms.entry) }

func (in *mergeCursor) corrupt() error {
	return storage.Corruptf("docs", in.skip.off, "bad postings list")
}

// readDocs reads the docs of the next block into b. It is false at the end.
func (in *mergeCursor) readDocs() (bool, error) {
	s, b := &in.skip, &in.b
	b.n = 0
	if !s.advance() {
		if s.bad {
			return false, in.corrupt()
		}
		return false, nil
	}
	ok := false
	if s.small {
		ok = in.field.readSmall(&in.terms.entry, &b.docs, &b.freqs)
	} else {
		ok = readDocs(&b.docs, s.n, s.list[s.body:s.bodyTo], s.lo, s.last) >= 0
	}
	if !ok {
		return false, in.corrupt()
	}
	b.n = s.n
	return true, nil
}

// readFreqs reads the freqs of the block in b.
func (in *mergeCursor) readFreqs() error {
	s, b := &in.skip, &in.b
	if s.small {
		return nil
	}
	body := s.list[s.body:s.bodyTo]
	at := docsSize(body, s.n, s.lo, s.last)
	if at < 0 || readFreqs(&b.freqs, s.n, body[at:]) < 0 {
		return in.corrupt()
	}
	for _, f := range b.freqs[:b.n] {
		if f == 0 || f > 1<<31 {
			return in.corrupt()
		}
	}
	return nil
}

// readPositions reads the positions of the block in b from bytes from … to of
// the term's.
func (in *mergeCursor) readPositions(from, to int) (err error) {
	e, b := &in.terms.entry, &in.b
	ok := true
	if e.df == 1 && e.ttf <= inlinePositions {
		b.pos = grow(b.pos, int(e.ttf))
		ok = e.inlined(b.pos)
	} else {
		b.pos, ok = readAllPositions(b.pos, in.field.pos[e.posOff:][from:to], b.freqs[:b.n])
	}
	if !ok {
		return in.corrupt()
	}
	return nil
}

// first reads the first block of a term with surviving docs, or leaves b empty.
func (in *mergeCursor) first(positions bool) error {
	e, b := &in.terms.entry, &in.b
	b.pos = b.pos[:0]
	in.last = e.df == 1
	if !in.last {
		in.skip.open(in.field, e)
		return in.refill(positions)
	}
	in.at, in.posAt, b.n = 0, 0, 0
	doc := in.docMap[e.doc]
	if doc == Dropped {
		return nil
	}
	b.n, b.docs[0], b.freqs[0] = 1, doc, uint32(e.ttf)
	if !positions {
		return nil
	}
	return in.readPositions(0, int(e.posLen))
}

// refill reads the next block with surviving docs, or leaves b empty.
func (in *mergeCursor) refill(positions bool) error {
	in.at, in.posAt, in.b.n = 0, 0, 0
	for in.b.n == 0 && !in.last {
		ok, err := in.readDocs()
		if err != nil || !ok {
			return err
		}
		if err := in.readFreqs(); err != nil {
			return err
		}
		if positions {
			if err := in.readPositions(in.skip.posAt, in.skip.posTo); err != nil {
				return err
			}
		}
		in.renumber()
	}
	return nil
}

// renumber maps the docs of b and drops the deleted ones.
func (in *mergeCursor) renumber() {
	b := &in.b
	if !in.drops {
		docs := b.docs[:b.n]
		for i, d := range docs {
			docs[i] = in.docMap[d]
		}
		return
	}
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

// open fills the heads.
func (m *mergeSource) open(positions bool) error {
	m.ready = true
	m.heads = m.heads[:0]
	for _, i := range m.active {
		in := m.live[i]
		if err := in.first(positions); err != nil {
			return err
		}
		if in.b.n > 0 {
			m.heads = append(m.heads, in)
			m.up(len(m.heads) - 1)
		}
	}
	return nil
}

func (m *mergeSource) fill(b *batch, positions bool) error {
	b.n, b.pos = 0, b.pos[:0]
	if !m.ready {
		if err := m.open(positions); err != nil {
			return err
		}
	}
	for b.n < blockDocs && len(m.heads) > 0 {
		in := m.heads[0]
		in.copyTo(b, m.limit(), positions)
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

// limit returns the least doc that an input other than the first head has next.
func (m *mergeSource) limit() uint32 {
	limit := uint32(noDoc)
	for _, h := range m.heads[1:min(3, len(m.heads))] {
		limit = min(limit, h.doc())
	}
	return limit
}

// copyTo moves postings before doc limit, one at least, to b, which has room.
func (in *mergeCursor) copyTo(b *batch, limit uint32, positions bool) {
	from, n, f := in.at, b.n, 0
	for {
		b.docs[n&(blockDocs-1)], b.freqs[n&(blockDocs-1)] = in.b.docs[in.at], in.b.freqs[in.at]
		f += int(in.b.freqs[in.at])
		in.at++
		n++
		if in.at == in.b.n || n == blockDocs || in.b.docs[in.at] >= limit {
			break
		}
	}
	b.n += in.at - from
	if positions {
		b.pos = append(b.pos, in.b.pos[in.posAt:in.posAt+f]...)
		in.posAt += f
	}
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
