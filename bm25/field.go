package bm25

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/quarrysearch/quarry/bm25/pattern"
	"github.com/quarrysearch/quarry/storage"
)

// Stats are the counts of one field of one segment.
type Stats struct {
	Docs          uint32 // docs in the segment
	DocsWithField uint32 // docs with at least one token
	TotalLength   uint64 // tokens
	Terms         uint64 // different terms
	Postings      uint64 // pairs of term and doc
	DictBytes     uint64 // bytes of section dict
	DocBytes      uint64 // of docs
	PositionBytes uint64 // of pos
}

// A Field is the text side of one field of one segment, read straight from its
// sections. It is immutable and safe for concurrent use; it holds the sections
// given to Open and little else, however many terms there are.
type Field struct {
	dict  dictReader
	docs  []byte
	pos   []byte
	norms []byte // of the docs up to the last with the field
	stats Stats
	// blocksFrom is the least df, above 1, of a list with blocks.
	blocksFrom uint64
	inverses   atomic.Pointer[inverses] // of the last query
}

// inverses are the inverse norms of a field.
type inverses struct {
	params  Params
	average float64
	of      *[256]float32
}

// inverseNorms returns those of an average length, as the last query had them: as
// a rule no document has come since.
func (f *Field) inverseNorms(p Params, average float64) *[256]float32 {
	if l := f.inverses.Load(); l != nil && l.params == p && l.average == average {
		return l.of
	}
	of := inverseNorms(p, average)
	f.inverses.Store(&inverses{p, average, of})
	return of
}

// Open reads a field from its sections dict, docs, pos, norms and meta, for a
// segment of docs docs. It checks counts and lengths in constant time; the
// rest is checked where it is read, and by Verify.
// Errors: ErrCorrupt, ErrVersion.
func Open(section func(name string) ([]byte, bool), docs uint32) (*Field, error) {
	if err := storage.CheckMachine(); err != nil {
		return nil, err
	}
	f := &Field{}
	var meta, dict []byte
	for _, s := range []struct {
		name string
		to   *[]byte
	}{{"meta", &meta}, {"dict", &dict}, {"docs", &f.docs}, {"pos", &f.pos}, {"norms", &f.norms}} {
		b, ok := section(s.name)
		if !ok {
			return nil, storage.Corruptf(s.name, 0, "missing section")
		}
		*s.to = b
	}
	version, s, err := readMeta(meta)
	if err != nil {
		return nil, err
	}
	if f.blocksFrom = smallDocs; version == 1 {
		f.blocksFrom = 2
	}
	norms := uint64(s.Docs)
	switch {
	case norms != uint64(len(f.norms)):
		return nil, storage.Corruptf("norms", 0, "%d bytes, meta says %d", len(f.norms), norms)
	case norms > uint64(docs):
		return nil, storage.Corruptf("norms", 0, "%d norms for %d docs", norms, docs)
	case uint64(s.DocsWithField) > norms:
		return nil, storage.Corruptf("meta", 0, "%d docs with the field of %d", s.DocsWithField, norms)
	case s.DictBytes != uint64(len(dict)):
		return nil, storage.Corruptf("dict", 0, "%d bytes, meta says %d", len(dict), s.DictBytes)
	case s.DocBytes != uint64(len(f.docs)):
		return nil, storage.Corruptf("docs", 0, "%d bytes, meta says %d", len(f.docs), s.DocBytes)
	case s.PositionBytes != uint64(len(f.pos)):
		return nil, storage.Corruptf("pos", 0, "%d bytes, meta says %d", len(f.pos), s.PositionBytes)
	}
	if f.dict, err = openDict(dict, s.Terms); err != nil {
		return nil, err
	}
	s.Docs = docs
	f.stats = s
	return f, nil
}

func readMeta(b []byte) (version uint64, s Stats, err error) {
	d := storage.NewDecoder("meta", 0, b)
	if version = d.Uvarint(); d.Err() == nil && (version < 1 || version > formatVersion) {
		return version, s, storage.ErrVersion
	}
	norms, with := d.Uvarint(), d.Uvarint()
	s.TotalLength, s.Terms, s.Postings = d.Uvarint(), d.Uvarint(), d.Uvarint()
	s.DictBytes, s.DocBytes, s.PositionBytes = d.Uvarint(), d.Uvarint(), d.Uvarint()
	d.End()
	if norms > math.MaxUint32 || with > norms || s.Terms > s.Postings || s.Postings > s.TotalLength {
		d.Fail("counts contradict each other")
	}
	s.Docs, s.DocsWithField = uint32(norms), uint32(with)
	return version, s, d.Err()
}

// Old tells whether the field was written by an older version, which a merge
// would write anew.
func (f *Field) Old() bool { return f.blocksFrom != smallDocs }

// Stats returns the counts.
func (f *Field) Stats() Stats { return f.stats }

// DocFreq returns the number of docs with a term, deleted ones included until
// a merge drops them, in O(log terms).
func (f *Field) DocFreq(term []byte) (uint64, error) {
	e, ok, err := f.lookup(term)
	if !ok {
		return 0, err
	}
	return e.df, nil
}

// TermStats returns the number of docs with a term and how often it occurs in
// all of them, deleted docs included; both 0 for an unknown term.
func (f *Field) TermStats(term []byte) (df, ttf uint64, err error) {
	e, ok, err := f.lookup(term)
	if !ok {
		return 0, 0, err
	}
	return e.df, e.ttf, nil
}

// Length returns the length of a doc in tokens: exact to 39, above that rounded
// down to four significant bits; 0 for a doc without the field.
func (f *Field) Length(doc uint32) uint32 {
	if uint64(doc) >= uint64(len(f.norms)) {
		return 0
	}
	return decodeNorm(f.norms[doc])
}

// EachTerm calls fn with the terms that start with prefix, in order, with df
// and total tf, until fn returns false. term holds until fn returns.
func (f *Field) EachTerm(prefix []byte, fn func(term []byte, df, ttf uint64) bool) error {
	block, err := f.dict.seekBlock(prefix)
	if err != nil {
		return err
	}
	it := f.dict.walk(max(block, 0))
	for {
		ok, err := it.next()
		if err != nil || !ok {
			return err
		}
		n := commonPrefix(it.term, prefix)
		if n == len(prefix) {
			if !fn(it.term, it.entry.df, it.entry.ttf) {
				return nil
			}
		} else if n < len(it.term) && it.term[n] > prefix[n] {
			return nil
		}
	}
}

// EachMatch calls fn with the terms that an automaton accepts, in order, with
// their errors, df and total tf, until fn returns false. Blocks of the
// dictionary in which none can lie are not read. scanned is increased by the
// terms that were read; past MaxPatternScan the result is ErrTooLarge.
func (f *Field) EachMatch(d *pattern.DFA, scanned *int, fn func(term []byte, errors int, df, ttf uint64) bool) error {
	m := matcher{walk: pattern.NewWalk(d), dfa: d, scanned: scanned, fn: fn}
	m.next = m.walk.Next()
	for block := -1; m.next != nil; {
		var err error
		if block, err = f.dict.seekBlockFrom(block+1, m.next); err != nil || block >= f.dict.blocks() {
			return err
		}
		if more, err := m.block(&f.dict, block); err != nil || !more {
			return err
		}
	}
	return nil
}

// A matcher walks the dictionary for EachMatch.
type matcher struct {
	walk    *pattern.Walk
	dfa     *pattern.DFA
	next    []byte // terms before it do not match; nil: none is left
	term    []byte
	after   []byte // memory of next
	scanned *int
	fn      func(term []byte, errors int, df, ttf uint64) bool
}

// block goes through the terms of a block; false when fn has had enough.
//
// Terms below next are passed over as lookup passes over those below the wanted
// one, unread but for the bytes where they part from it: same is what the term
// before, which is less, shares with next.
func (m *matcher) block(d *dictReader, block int) (bool, error) {
	data, off, err := d.block(block)
	if err != nil {
		return false, err
	}
	var c blockCursor
	if !c.open(data, off, d.blockTerms(block)) {
		return false, c.corrupt()
	}
	same, below := 0, true // below: the term before is less than next
	m.term = m.term[:0]
	for c.left > 0 {
		shared := c.nextTerm()
		if shared < 0 || !below && shared > len(m.term) {
			return false, c.corrupt()
		}
		switch {
		case below && shared > same:
			continue
		case below:
			k := commonPrefix(c.suffix, m.next[shared:])
			if shared+k < len(m.next) && (k == len(c.suffix) || c.suffix[k] < m.next[shared+k]) {
				same = shared + k
				continue
			}
			m.term = append(m.term[:0], m.next[:shared]...)
		}
		m.term = append(m.term[:shared], c.suffix...)
		if *m.scanned++; *m.scanned > MaxPatternScan {
			return false, fmt.Errorf("%w: pattern %q: more than %d terms to look at: it must say more at its start", storage.ErrTooLarge, m.dfa, MaxPatternScan)
		}
		if !m.dfa.MayEnd(m.term) {
			below = false
			continue
		}
		result, errors := m.walk.Match(m.term)
		if below = result == pattern.Fails; below {
			if m.next = m.walk.Next(); m.next == nil {
				return false, nil
			}
			same = commonPrefix(m.term, m.next)
		}
		if result == pattern.Matches {
			if e, ok := c.info(c.n - 1); !ok {
				return false, c.corrupt()
			} else if !m.fn(m.term, errors, e.df, e.ttf) {
				return false, nil
			}
		}
	}
	if !below {
		// The least string behind the last term.
		m.next = append(append(m.after[:0], m.term...), 0)
		m.after = m.next
	}
	return true, nil
}

// lookup finds a term and checks its entry against the sections.
func (f *Field) lookup(term []byte) (entry, bool, error) {
	e, ok, err := f.dict.lookup(term)
	if !ok || err != nil {
		return e, false, err
	}
	return e, true, f.check(&e)
}

// check makes sure that the lengths and offsets of an entry lie inside the
// sections, so that slicing by them cannot fail.
func (f *Field) check(e *entry) error {
	norms := uint64(len(f.norms))
	switch {
	case e.df > norms, e.df == 1 && uint64(e.doc) >= norms:
		return storage.Corruptf("dict", 0, "a term has more docs than the field")
	case e.docsOff > uint64(len(f.docs)) || e.docsLen > uint64(len(f.docs))-e.docsOff:
		return storage.Corruptf("docs", int64(len(f.docs)), "a postings list lies outside")
	case e.posOff > uint64(len(f.pos)) || e.posLen > uint64(len(f.pos))-e.posOff:
		return storage.Corruptf("pos", int64(len(f.pos)), "a list of positions lies outside")
	}
	return nil
}

// small tells whether the list of a term has no blocks.
func (f *Field) small(e *entry) bool { return e.df < f.blocksFrom }

// readSmall reads a list without blocks, of one doc at least. A success means
// that the docs ascend and have the field.
func (f *Field) readSmall(e *entry, docs, freqs *[blockDocs]uint32) bool {
	if e.df == 1 {
		docs[0], freqs[0] = e.doc, uint32(e.ttf)
		return true
	}
	list := f.docs[e.docsOff : e.docsOff+e.docsLen]
	next := uint64(0)
	for i := range e.df {
		var v, freq uint64
		if !takeUvarint(&list, &v) {
			return false
		}
		if freq = 1; v&1 == 0 && (!takeUvarint(&list, &freq) || freq < 2 || freq > 1<<31) {
			return false
		}
		v >>= 1
		if v >= uint64(len(f.norms)) || next+v >= uint64(len(f.norms)) {
			return false
		}
		docs[i&(blockDocs-1)], freqs[i&(blockDocs-1)] = uint32(next+v), uint32(freq)
		next += v + 1
	}
	return len(list) == 0
}

// Verify reads everything and recomputes every invariant: terms strictly
// ascending and no longer than the limit, keys of the index right, docs
// ascending and below the last doc with the field, block and group ends and
// byte lengths right, impacts true bounds, positions ascending, counts equal
// to the meta section's, and every doc's norm that of its number of tokens.
// It takes eight bytes of memory a doc. ctx ends it.
func (f *Field) Verify(ctx context.Context) error {
	v := verifier{f: f, lengths: make([]uint64, len(f.norms))}
	it := f.dict.walk(0)
	for {
		if v.terms%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		v.prev = append(v.prev[:0], it.term...)
		ok, err := it.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if v.terms > 0 && bytes.Compare(it.term, v.prev) <= 0 || len(it.term) == 0 {
			return storage.Corruptf("dict", it.cur.off, "terms do not ascend")
		}
		if it.cur.n == 1 && f.dict.key(it.block) != termKey(it.term) {
			return storage.Corruptf("dict", it.cur.off, "wrong key of block %d in the index", it.block)
		}
		if it.cur.left == 0 && len(it.cur.terms)+len(it.cur.infos) > 0 {
			return storage.Corruptf("dict", it.cur.off, "bytes after the last term of a block")
		}
		if err := v.term(&it.entry); err != nil {
			return err
		}
	}
	return v.totals()
}

type verifier struct {
	f       *Field
	prev    []byte
	terms   uint64
	docs    uint64 // bytes of section docs accounted for
	pos     uint64
	df, ttf uint64
	lengths []uint64
	c       cursor
	b       batch
}

func (v *verifier) term(e *entry) error {
	f := v.f
	if err := f.check(e); err != nil {
		return err
	}
	if e.docsOff != v.docs || e.posOff != v.pos {
		return storage.Corruptf("dict", 0, "term %d does not start where the one before ended", v.terms)
	}
	v.terms++
	v.docs += e.docsLen
	v.pos += e.posLen
	c := &v.c
	c.open(f, e, 1, zeroInverse)
	var df, ttf uint64
	var list, group impactSet
	for {
		ok, err := c.nextBatch(&v.b, true)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		freqs := v.b.freqs[:v.b.n]
		for i, d := range v.b.docs[:v.b.n] {
			if uint64(d) >= uint64(len(f.norms)) {
				return storage.Corruptf("docs", c.skip.off, "doc %d is out of range", d)
			}
			v.lengths[d] += uint64(freqs[i])
			ttf += uint64(freqs[i])
		}
		df += uint64(v.b.n)
		if e.df == 1 {
			continue
		}
		if err := v.block(&list, &group); err != nil {
			return err
		}
	}
	if df != e.df || ttf != e.ttf {
		return storage.Corruptf("dict", 0, "term %d has df %d and tf %d, the dictionary says %d and %d", v.terms-1, df, ttf, e.df, e.ttf)
	}
	if s := &c.skip; !s.small && (s.next != len(s.list) || s.posTo != s.positionsLen) {
		return storage.Corruptf("docs", s.off, "bytes after the last block of a list")
	}
	if s := &c.skip; s.blocks > 1 && !bounds(s.list[s.listAt:s.listTo], &list) {
		return storage.Corruptf("docs", s.off, "impacts of a list do not bound it")
	}
	v.df += df
	v.ttf += ttf
	return nil
}

// block checks the block just read against its header.
func (v *verifier) block(list, group *impactSet) error {
	s := &v.c.skip
	var set impactSet
	set.add(v.b.freqs[:v.b.n], v.b.docs[:v.b.n], v.f.norms)
	list.addAll(&set)
	if !s.small {
		if !bounds(s.list[s.impAt:s.impTo], &set) {
			return storage.Corruptf("docs", s.off+int64(s.impAt), "impacts of a block do not bound it")
		}
		body := s.list[s.body:s.bodyTo]
		n := docsSize(body, s.n, s.lo, s.last)
		if n+readFreqs(&v.c.freqs, s.n, body[n:]) != len(body) {
			return storage.Corruptf("docs", s.off+int64(s.body), "wrong length of a block")
		}
	}
	total := uint64(len(v.b.pos))
	if positionsSize(v.f.pos[v.c.e.posOff:][s.posAt:s.posTo], total) != s.posTo-s.posAt {
		return storage.Corruptf("pos", int64(v.c.e.posOff)+int64(s.posAt), "wrong length of a block")
	}
	if s.blocks <= groupBlocks {
		return nil
	}
	if s.block%groupBlocks == 0 {
		*group = impactSet{}
	}
	group.addAll(&set)
	if (s.block+1)%groupBlocks != 0 && s.block+1 != s.blocks {
		return nil
	}
	if s.last != s.groupLast || s.next != s.groupEnd || s.posTo != s.groupPosTo || !bounds(s.list[s.groupImpAt:s.groupImpTo], group) {
		return storage.Corruptf("docs", s.off+int64(s.groupImpAt), "wrong header of a group")
	}
	return nil
}

// bounds tells whether coded impacts are in order and bound every posting.
func bounds(src []byte, set *impactSet) bool {
	high := uint32(0)
	n := 0
	var p impact
	for len(src) > 0 {
		prev := p
		var ok bool
		if p, src, ok = nextImpact(src, prev); !ok || p.freq <= prev.freq || p.norm <= prev.norm {
			return false
		}
		// Norms below this pair's must be bounded by the pairs before.
		for ; n < int(p.norm); n++ {
			if set.best[n] > high {
				return false
			}
		}
		high = p.freq
	}
	for ; n < 256; n++ {
		if set.best[n] > high {
			return false
		}
	}
	return true
}

func (v *verifier) totals() error {
	f, s := v.f, &v.f.stats
	if v.terms != s.Terms || v.df != s.Postings || v.ttf != s.TotalLength || v.docs != s.DocBytes || v.pos != s.PositionBytes {
		return storage.Corruptf("meta", 0, "counts differ from what the field holds")
	}
	with := uint32(0)
	for d, n := range v.lengths {
		if n > 0 {
			with++
		}
		if encodeNorm(uint32(min(n, math.MaxUint32))) != f.norms[d] {
			return storage.Corruptf("norms", int64(d), "doc of %d tokens has norm %d", n, f.norms[d])
		}
	}
	if n := len(f.norms); with != s.DocsWithField || n > 0 && f.norms[n-1] == 0 {
		return storage.Corruptf("meta", 0, "wrong number of docs with the field")
	}
	return nil
}
