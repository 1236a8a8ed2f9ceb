package filter

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// Eval returns the live docs of a segment that match. live nil means that all
// docs are live; it is read only, and not kept. A nil segment, or one without
// the field, is one where the field is missing in every doc. docs must be the
// segment's number of docs.
//
// The result is always a bitmap of the caller's own: it shares nothing with
// the segment's bytes, with live, or with another result.
//
// Time: an equality costs the size of its bitmap; a range or a long In sets
// one bit a match in a dense window (or clears one a non-match, whichever are
// fewer); and, or, not cost a pass over containers. Inside an And the
// sparsest condition goes first, and what is much broader than the docs left
// is tested on those alone. ctx ends it within some milliseconds.
func (c Compiled) Eval(ctx context.Context, seg *Segment, live *roaring.Bitmap, docs uint32) (*roaring.Bitmap, error) {
	if seg != nil && seg.docs != docs {
		return nil, storage.Invalidf("filter: segment of %d docs, caller says %d", seg.docs, docs)
	}
	e := evaluator{ctx: ctx, seg: seg, docs: docs}
	result := everything()
	if c.root != nil {
		var err error
		if result, err = e.eval(c.root); err != nil {
			return nil, err
		}
	}
	return result.settle(live, docs), nil
}

// A set is a bitmap or, when not, everything but a bitmap. Complements are
// carried along and only made at the end, so that not never makes a bitmap of
// nearly all docs. A shared bitmap is a view or another's: read it only.
type set struct {
	bm     *roaring.Bitmap
	not    bool
	shared bool
}

func everything() set { return set{bm: roaring.New(), not: true} }

func nothing() set { return set{bm: roaring.New()} }

// settle turns a set into the caller's bitmap.
func (s set) settle(live *roaring.Bitmap, docs uint32) *roaring.Bitmap {
	var out *roaring.Bitmap
	switch {
	case s.not && live == nil:
		out = roaring.New()
		out.AddRange(0, uint64(docs))
		out.AndNot(s.bm)
	case s.not:
		out = roaring.AndNot(live, s.bm)
		// live may reach beyond the docs if the caller erred; the result never.
		if !out.IsEmpty() && out.Maximum() >= docs {
			out.RemoveRange(uint64(docs), 1<<32)
		}
	case live != nil:
		out = roaring.And(live, s.bm)
	case s.shared:
		out = s.bm.Clone()
	default:
		out = s.bm
	}
	out.SetCopyOnWrite(false)
	out.CloneCopyOnWriteContainers()
	return out
}

// and intersects into a new bitmap.
func (a set) and(b set) set {
	switch {
	case !a.not && !b.not:
		return set{bm: roaring.And(a.bm, b.bm)}
	case !a.not:
		return set{bm: roaring.AndNot(a.bm, b.bm)}
	case !b.not:
		return set{bm: roaring.AndNot(b.bm, a.bm)}
	}
	return set{bm: roaring.Or(a.bm, b.bm), not: true}
}

func (a set) complement() set {
	a.not = !a.not
	return a
}

type evaluator struct {
	ctx  context.Context
	seg  *Segment
	docs uint32
}

func (e *evaluator) eval(n *node) (set, error) {
	if err := e.ctx.Err(); err != nil {
		return set{}, err
	}
	switch n.kind {
	case nodeAnd:
		return e.and(n.kids)
	case nodeOr:
		return e.or(n.kids)
	case nodeNot:
		s, err := e.eval(&n.kids[0])
		return s.complement(), err
	}
	f := e.seg.field(n.field)
	if f == nil {
		return nothing(), nil
	}
	switch n.kind {
	case nodeNull:
		return f.stateSet(stateNull)
	case nodeEmpty:
		return f.stateSet(stateEmpty)
	case nodeExists:
		s, err := f.stateSet(statePresent)
		if err != nil || f.dir[f.stateIndex(stateEmpty)].count == 0 {
			return s, err
		}
		empty, err := f.stateSet(stateEmpty)
		if err != nil {
			return set{}, err
		}
		return set{bm: roaring.Or(s.bm, empty.bm)}, nil
	}
	l, err := f.leaf(e.ctx, n)
	if err != nil {
		return set{}, err
	}
	return l.set()
}

func (f *field) stateSet(state int) (set, error) {
	bm, err := f.state(state)
	return set{bm: bm, shared: true}, err
}

// A part is a child of an And before it is evaluated.
type part struct {
	node *node
	leaf leaf   // of a comparison; its field is nil otherwise
	est  uint64 // docs it matches at most
}

// order looks the comparisons up and sorts the children by what they match.
// Comparisons on a field that no doc holds have no field and estimate 0.
func (e *evaluator) order(kids []node) ([]part, error) {
	out := make([]part, len(kids))
	for i := range kids {
		p := part{node: &kids[i], est: uint64(e.docs)}
		if kids[i].kind == nodeSpans {
			p.est = 0
			if f := e.seg.field(kids[i].field); f != nil {
				var err error
				if p.leaf, err = f.leaf(e.ctx, p.node); err != nil {
					return nil, err
				}
				p.est = p.leaf.total
			}
		}
		out[i] = p
	}
	slices.SortStableFunc(out, func(a, b part) int { return cmp.Compare(a.est, b.est) })
	return out, nil
}

func (e *evaluator) part(p *part) (set, error) {
	if p.leaf.f != nil {
		return p.leaf.set()
	}
	return e.eval(p.node)
}

// and evaluates the cheapest part first, by the number of docs it can match.
func (e *evaluator) and(kids []node) (set, error) {
	order, err := e.order(kids)
	if err != nil {
		return set{}, err
	}
	acc := everything()
	for i := range order {
		p := &order[i]
		if !acc.not {
			n := acc.bm.GetCardinality()
			if n == 0 {
				return nothing(), nil
			}
			if p.leaf.f != nil && !p.leaf.ready() && n <= p.est/probeFactor {
				bm, err := p.leaf.probe(acc.bm, int(n))
				if err != nil {
					return set{}, err
				}
				acc = set{bm: bm}
				continue
			}
		}
		s, err := e.part(p)
		if err != nil {
			return set{}, err
		}
		if acc.not && acc.bm.IsEmpty() {
			acc = s
		} else {
			acc = acc.and(s)
		}
	}
	return acc, nil
}

// probeFactor is how many docs are set in a window, some 2 ns each, in the time
// that one doc is tested through the column and added to the result.
const probeFactor = 3

// orAtOnce is how many bitmaps are united between two looks at the context.
const orAtOnce = 32

// or unites the plain parts, then handles complements:
// a ∪ ¬b = ¬(b \ a).
func (e *evaluator) or(kids []node) (set, error) {
	var plain []*roaring.Bitmap
	var not *roaring.Bitmap
	for i := range kids {
		s, err := e.eval(&kids[i])
		if err != nil {
			return set{}, err
		}
		switch {
		case !s.not:
			if !s.bm.IsEmpty() {
				plain = append(plain, s.bm)
			}
			if len(kids) == 1 {
				return s, nil
			}
		case not == nil:
			not = s.bm
		default:
			not = roaring.And(not, s.bm)
		}
	}
	union := roaring.New()
	switch len(plain) {
	case 0:
	case 1:
		union = plain[0]
	case 2:
		union = roaring.Or(plain[0], plain[1])
	default:
		for some := range slices.Chunk(plain, orAtOnce) {
			if err := e.ctx.Err(); err != nil {
				return set{}, err
			}
			union.Or(roaring.FastOr(some...))
		}
	}
	if not != nil {
		return set{bm: roaring.AndNot(not, union), not: true}, nil
	}
	return set{bm: union, shared: len(plain) == 1}, nil
}

// An ordRange is the values lo to hi-1.
type ordRange struct{ lo, hi uint32 }

// A leaf is a comparison resolved to the ords of one segment.
type leaf struct {
	ctx    context.Context
	f      *field
	ranges []ordRange // ascending, disjoint, none empty
	total  uint64     // docs of all these values, those of lists counted once a value
}

// leaf looks the spans of a node up in the field's values.
func (f *field) leaf(ctx context.Context, n *node) (leaf, error) {
	l := leaf{ctx: ctx, f: f}
	switch {
	case f.typ == Undeclared:
		return l, nil
	case n.typ != f.typ: // also when the schema has not heard of f's type
		return l, storage.Invalidf("field %q: filter compiled for %s, segment holds %s", n.field, n.typ, f.typ)
	}
	if len(n.nums)+len(n.strs) > 1 {
		l.ranges = make([]ordRange, 0, len(n.nums)+len(n.strs))
	}
	for _, s := range n.nums {
		hi := f.values
		if s.hi+1 > s.hi { // no overflow
			hi = lowerBoundNum(f.nums, s.hi+1)
		}
		if err := l.add(lowerBoundNum(f.nums, s.lo), hi); err != nil {
			return l, err
		}
	}
	for i, s := range n.strs {
		if i%256 == 255 {
			if err := ctx.Err(); err != nil {
				return l, err
			}
		}
		lo, err := f.dict.lowerBound(s.lo)
		if err != nil {
			return l, err
		}
		hi := f.values
		if !s.noEnd {
			if hi, err = f.dict.lowerBound(s.hi); err != nil {
				return l, err
			}
		}
		if err := l.add(lo, hi); err != nil {
			return l, err
		}
	}
	return l, nil
}

// add adds the ords lo to hi-1 and counts their docs.
func (l *leaf) add(lo, hi uint32) error {
	f := l.f
	if lo >= hi {
		return nil
	}
	if n := len(l.ranges); n > 0 && l.ranges[n-1].hi > lo {
		return f.corrupt(partValues, "values out of order")
	}
	if n := len(l.ranges); n > 0 && l.ranges[n-1].hi == lo {
		l.ranges[n-1].hi = hi
	} else {
		l.ranges = append(l.ranges, ordRange{lo, hi})
	}
	docs, err := f.docLists(lo, hi)
	if err != nil {
		return err
	}
	l.total += uint64(len(docs))
	for i := f.bitmapFrom(lo); i < len(f.dir)-states && f.dir[i].ord < hi; i++ {
		l.total += uint64(f.dir[i].count)
	}
	return nil
}

// docLists returns the docs of the values lo to hi-1 that have no bitmap.
func (f *field) docLists(lo, hi uint32) ([]uint32, error) {
	a, b := f.lists[lo], f.lists[hi]
	if a > b || uint64(b) > uint64(len(f.listed)) {
		return nil, f.corrupt(partDocLists, "doc lists of values %d to %d out of order", lo, hi)
	}
	return f.listed[a:b], nil
}

// ready tells whether the set is there for the taking, as a stored bitmap.
func (l *leaf) ready() bool {
	if len(l.ranges) != 1 || l.ranges[0].hi-l.ranges[0].lo != 1 {
		return false
	}
	i := l.f.bitmapFrom(l.ranges[0].lo)
	return i < len(l.f.dir)-states && l.f.dir[i].ord == l.ranges[0].lo
}

// fewDocs is the number of docs up to which sorting them beats clearing and
// reading a window.
const fewDocs = 512

func (l *leaf) set() (set, error) {
	f := l.f
	if l.total == 0 {
		return nothing(), nil
	}
	if l.ready() {
		bm, err := f.bitmap(f.bitmapFrom(l.ranges[0].lo))
		return set{bm: bm, shared: true}, err
	}
	present := uint64(f.dir[f.stateIndex(statePresent)].count)
	if f.starts == nil && l.total == present {
		return f.stateSet(statePresent)
	}
	if f.starts == nil && l.total > present/2 && l.total < present {
		// One value a doc: the docs of all other values are the complement.
		out := leaf{ctx: l.ctx, f: f}
		at := uint32(0)
		for _, r := range append(slices.Clone(l.ranges), ordRange{f.values, f.values}) {
			if err := out.add(at, r.lo); err != nil {
				return set{}, err
			}
			at = r.hi
		}
		rest, err := out.gather()
		if err != nil {
			return set{}, err
		}
		bm, err := f.state(statePresent)
		if err != nil {
			return set{}, err
		}
		return set{bm: roaring.AndNot(bm, rest)}, nil
	}
	bm, err := l.gather()
	return set{bm: bm}, err
}

// listAtOnce is how many listed docs are set between two looks at the context:
// about a millisecond.
const listAtOnce = 1 << 19

// gather collects the docs of all ranges into a new bitmap.
func (l *leaf) gather() (*roaring.Bitmap, error) {
	if l.total <= fewDocs {
		return l.gatherFew()
	}
	w := borrowWindow(l.f.docs)
	defer returnWindow(w)
	for _, r := range l.ranges {
		docs, err := l.f.docLists(r.lo, r.hi)
		if err != nil {
			return nil, err
		}
		for some := range slices.Chunk(docs, listAtOnce) {
			if err := l.ctx.Err(); err != nil {
				return nil, err
			}
			if !setBits(w.words, some, l.f.docs) {
				return nil, l.f.corrupt(partDocs, "doc beyond %d", l.f.docs)
			}
		}
		for i := l.f.bitmapFrom(r.lo); i < len(l.f.dir)-states && l.f.dir[i].ord < r.hi; i++ {
			if err := l.ctx.Err(); err != nil {
				return nil, err
			}
			b, err := l.f.stored(i)
			if err != nil {
				return nil, err
			}
			if err := orBitmap(w.words, b); err != nil {
				return nil, l.f.corrupt(partBitmaps, "bitmap %d: %v", i, err)
			}
		}
	}
	return roaring.FromDense(w.words, true), nil
}

func (l *leaf) gatherFew() (*roaring.Bitmap, error) {
	all := make([]uint32, 0, l.total)
	bm := roaring.New()
	for _, r := range l.ranges {
		docs, err := l.f.docLists(r.lo, r.hi)
		if err != nil {
			return nil, err
		}
		all = append(all, docs...)
		for i := l.f.bitmapFrom(r.lo); i < len(l.f.dir)-states && l.f.dir[i].ord < r.hi; i++ {
			view, err := l.f.bitmap(i)
			if err != nil {
				return nil, err
			}
			all = append(all, view.ToArray()...)
		}
	}
	slices.Sort(all)
	if n := len(all); n > 0 && all[n-1] >= l.f.docs {
		return nil, l.f.corrupt(partDocs, "doc %d of %d", all[n-1], l.f.docs)
	}
	bm.AddMany(all)
	return bm, nil
}

// A window is a dense bitmap of all docs of a segment, in whole roaring
// containers. It is all zero while nobody has it.
type window struct{ words []uint64 }

var windows = sync.Pool{New: func() any { return new(window) }}

func borrowWindow(docs uint32) *window {
	w := windows.Get().(*window)
	n := int((uint64(docs) + 1<<16 - 1) >> 16 * wordsPer)
	if cap(w.words) < n {
		w.words = make([]uint64, n)
	}
	w.words = w.words[:n]
	return w
}

func returnWindow(w *window) {
	clear(w.words)
	windows.Put(w)
}

// setBits sets the bit of every doc, and tells whether all were below limit.
func setBits(words []uint64, docs []uint32, limit uint32) bool {
	for _, d := range docs {
		if d >= limit {
			return false
		}
		words[d>>6] |= 1 << (d & 63)
	}
	return true
}

// probe keeps the docs of among whose values lie in the ranges, by looking
// each up in the column.
func (l *leaf) probe(among *roaring.Bitmap, n int) (*roaring.Bitmap, error) {
	kept := make([]uint32, 0, n)
	var buf [256]uint32
	it := among.ManyIterator()
	for got := it.NextMany(buf[:]); got > 0; got = it.NextMany(buf[:]) {
		err := l.ctx.Err()
		if err == nil {
			kept, err = l.keep(kept, buf[:got])
		}
		if err != nil {
			return nil, err
		}
	}
	if len(kept) <= fewDocs {
		return roaring.BitmapOf(kept...), nil
	}
	w := borrowWindow(l.f.docs)
	defer returnWindow(w)
	setBits(w.words, kept, l.f.docs)
	return roaring.FromDense(w.words, true), nil
}

// keep appends those of docs that have a value in the ranges.
func (l *leaf) keep(kept, docs []uint32) ([]uint32, error) {
	f := l.f
	if f.starts == nil && len(l.ranges) == 1 {
		r := l.ranges[0]
		switch c := &f.codes; {
		case c.w1 != nil:
			return keepWithin(kept, docs, c.w1, r), nil
		case c.w2 != nil:
			return keepWithin(kept, docs, c.w2, r), nil
		default:
			return keepWithin(kept, docs, c.w4, r), nil
		}
	}
	for _, doc := range docs {
		lo, hi, err := f.span(doc)
		if err != nil {
			return nil, err
		}
		for ; lo < hi; lo++ {
			// Code 0, no value, wraps to an ord that no range holds.
			if l.holds(f.codes.at(lo) - 1) {
				kept = append(kept, doc)
				break
			}
		}
	}
	return kept, nil
}

// keepWithin is keep for one code a doc and one range. It writes every doc and
// steps on past those that fit, so that there is no branch to mispredict.
func keepWithin[C uint8 | uint16 | uint32](kept, docs []uint32, codes []C, r ordRange) []uint32 {
	at := len(kept)
	kept = slices.Grow(kept, len(docs))[:at+len(docs)]
	first, width := r.lo+1, r.hi-r.lo // codes are ord+1
	for _, doc := range docs {
		kept[at] = doc
		if uint32(codes[doc])-first < width {
			at++
		}
	}
	return kept[:at]
}

func (l *leaf) holds(ord uint32) bool {
	lo, hi := 0, len(l.ranges)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if l.ranges[mid].hi <= ord {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(l.ranges) && l.ranges[lo].lo <= ord
}
