package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/index/accept"
	"github.com/quarrysearch/quarry/index/filter"
)

// Limits of a query. One past each is ErrInvalid.
const (
	MaxK         = 10_000
	MaxOffset    = 100_000
	MaxDepth     = 10_000
	MaxEf        = 10_000
	MaxQueryText = 1 << 20 // bytes
	MaxFacets    = 64      // fields
	MaxFacetSize = 10_000  // values a field
	defaultDepth = 100
)

// Search answers a query on a snapshot of this moment. See Snapshot.Search.
func (ix *Index) Search(ctx context.Context, q Query) (*Results, error) {
	s, err := ix.Snapshot()
	if err != nil {
		return nil, err
	}
	r, err := s.Search(ctx, q)
	return r, cmp.Or(err, s.Close())
}

// Search answers a query. All legs see the same documents. Hits are ordered
// by score descending, then id ascending; the order does not depend on
// GOMAXPROCS, the CPU or reopening. A query out of its documented ranges is
// ErrInvalid naming the field; damage met on the way is ErrCorrupt; ctx ends
// the work early with its error.
func (s *Snapshot) Search(ctx context.Context, q Query) (*Results, error) {
	start := time.Now()
	if err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.release()
	var r *Results
	err := guard(func() error {
		sr, err := s.newSearch(ctx, q)
		if err != nil {
			return err
		}
		sr.buf = searchBuffers.Get().(*buffers)
		r, err = sr.run()
		sr.buf.giveBack()
		return err
	})
	if err != nil {
		return nil, s.blame(err)
	}
	r.Elapsed = time.Since(start)
	return r, nil
}

// A place is a doc of one view. As a fusion key it is view<<32 | doc.
type place struct {
	view, doc uint32
}

func (p place) key() uint64         { return uint64(p.view)<<32 | uint64(p.doc) }
func placeOf(key uint64) place      { return place{uint32(key >> 32), uint32(key)} }
func (s *search) id(p place) string { return s.views[p.view].IDs.String(p.doc) }

// compareIDs orders two places by external id; ids are unique among live docs,
// and the docs of a view ascend by id.
func (s *search) compareIDs(a, b place) int {
	if a.view == b.view {
		return cmp.Compare(a.doc, b.doc)
	}
	return slices.Compare(s.views[a.view].IDs.Bytes(a.doc), s.views[b.view].IDs.Bytes(b.doc))
}

// The legs of a query, in the order in which they are fused.
const (
	legKeyword = iota
	legVector
	legSparse
	legKinds
)

// A leg ranks documents: run returns the best of all views, at most s.depth,
// best first. The items are good until the leg runs again.
type leg interface {
	run(s *search) ([]fusion.Item, error)
}

// An askedLeg is a leg of a query.
type askedLeg struct {
	leg
	kind   int
	name   string
	weight float64
}

// A ranked is one entry of the final list.
type ranked struct {
	place
	score float64
	legs  [legKinds]Leg
}

// A search is one query on its way through the engine.
type search struct {
	ctx    context.Context
	cancel func() error // ctx.Err, made once
	snap   *Snapshot
	views  []*view
	q      Query
	filter filter.Compiled
	// matches are the docs that pass the filter, a view; nil without a filter.
	matches []*accept.Set
	legs    []askedLeg
	text    *textLeg
	vector  *vectorLeg
	sparse  *sparseLeg
	buf     *buffers
	depth   int
	from    *cursor
	plan    Plan
	notes   []string
	taken   *int64 // bytes gathered so far
	// exhausted tells, after rank, that no leg has more to give.
	exhausted bool
}

// newSearch checks the query and binds it to the schema.
func (s *Snapshot) newSearch(ctx context.Context, q Query) (*search, error) {
	sr := &search{ctx: ctx, cancel: ctx.Err, snap: s, views: s.segs, q: q, taken: new(int64)}
	if err := sr.checkRanges(); err != nil {
		return nil, err
	}
	if err := sr.checkFields(); err != nil {
		return nil, err
	}
	var err error
	if !q.Filter.IsZero() {
		if sr.filter, err = s.schema.compile(q.Filter); err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
	}
	if q.After != "" {
		if sr.from, err = parseCursor(q.After); err != nil {
			return nil, err
		}
	}
	if err := sr.checkGroup(); err != nil {
		return nil, err
	}
	sr.depth = sr.legDepth()
	if q.Text != nil {
		if sr.text, err = sr.newTextLeg(q.Text); err != nil {
			return nil, err
		}
		sr.legs = append(sr.legs, askedLeg{sr.text, legKeyword, "keyword", weight(q.Text.Weight)})
	}
	if q.Vector != nil {
		if sr.vector, err = sr.newVectorLeg(q.Vector); err != nil {
			return nil, err
		}
		sr.legs = append(sr.legs, askedLeg{sr.vector, legVector, "vector", weight(q.Vector.Weight)})
	}
	if q.Sparse != nil {
		if sr.sparse, err = sr.newSparseLeg(q.Sparse); err != nil {
			return nil, err
		}
		sr.legs = append(sr.legs, askedLeg{sr.sparse, legSparse, "sparse", weight(q.Sparse.Weight)})
	}
	return sr, nil
}

// take counts bytes that the query keeps until it ends, against
// Options.QueryBytes. One goroutine at a time calls it.
func (s *search) take(n int64, what string) error {
	*s.taken += n
	if limit := s.snap.ix.o.QueryBytes; *s.taken > limit {
		return tooLargef("a query takes more than Options.QueryBytes (%d bytes) with its %s", limit, what)
	}
	return nil
}

// Bytes that a ranked hit and a value of a facet take, about.
const (
	rankedBytes = 200
	facetBytes  = 48
)

func (s *search) checkRanges() error {
	q := &s.q
	switch {
	case q.K < 0 || q.K > MaxK || q.K == 0 && !q.Count && len(q.Facets) == 0:
		return invalidf("k %d: want 1 to %d, or 0 where a count or facets are asked for", q.K, MaxK)
	case q.K == 0 && (q.Offset != 0 || q.After != "" || q.Group != nil || q.ExplainID != ""):
		return invalidf("k 0: no hits are wanted, so there is no page (offset, after), group or document to explain")
	case q.Offset < 0 || q.Offset > MaxOffset-q.K:
		return invalidf("offset %d: want 0 to %d with k %d", q.Offset, MaxOffset-q.K, q.K)
	case q.After != "" && q.Offset != 0:
		return invalidf("after: an offset of %d is given too", q.Offset)
	case q.Depth < 0 || q.Depth > MaxDepth:
		return invalidf("depth %d: want 0 (default) to %d", q.Depth, MaxDepth)
	case math.IsNaN(q.MinScore):
		return invalidf("minimum score is not a number")
	case q.Fusion.Method > Weighted:
		return invalidf("fusion method %d is unknown", q.Fusion.Method)
	case q.Fusion.RankConstant < 0 || q.Fusion.RankConstant > 1_000_000:
		return invalidf("rank constant %d: want 0 (default) to 1,000,000", q.Fusion.RankConstant)
	case len(q.Facets) > MaxFacets:
		return invalidf("facets: %d fields, the limit is %d", len(q.Facets), MaxFacets)
	}
	return nil
}

// checkFields checks the names of Fields, Facets and Highlight.
func (s *search) checkFields() error {
	sc := s.snap.schema
	for _, f := range s.q.Fields {
		if _, meta := sc.public.Meta[f]; !meta && f != "*" && sc.text[f] == nil {
			return invalidf("fields: no text or metadata field %q", f)
		}
	}
	for _, f := range s.q.Facets {
		if _, ok := sc.public.Meta[f.Field]; !ok {
			return invalidf("facets: no metadata field %q", f.Field)
		}
		if f.Limit < 0 || f.Limit > MaxFacetSize {
			return invalidf("facets: limit %d of field %q: want 0 (default) to %d", f.Limit, f.Field, MaxFacetSize)
		}
	}
	for _, f := range s.q.Highlight {
		if t := sc.text[f]; t == nil || t.NotStored {
			return invalidf("highlight: no stored text field %q", f)
		}
	}
	return nil
}

// legDepth is how many hits each leg gives. A single leg is asked for one hit
// more than the page holds, to know whether there is another page.
func (s *search) legDepth() int {
	want := s.q.Offset + s.q.K
	if s.from != nil {
		want = s.from.seen + s.q.K
	}
	legs := 0
	for _, asked := range []bool{s.q.Text != nil, s.q.Vector != nil, s.q.Sparse != nil} {
		legs += boolInt(asked)
	}
	if legs < 2 {
		return want + 1 // of a cursor, for the legs that do not go by blocks
	}
	if s.from != nil {
		return s.from.depth
	}
	depth := cmp.Or(s.q.Depth, defaultDepth)
	for depth < want {
		depth *= 2
	}
	return depth
}

func (s *search) run() (*Results, error) {
	if err := s.applyFilter(); err != nil {
		return nil, err
	}
	r := &Results{Hits: []Hit{}, Total: -1}
	list, kept, page, err := s.answer(r)
	if err != nil {
		return nil, err
	}
	r.Notes = s.notes
	if err := s.countAndFacet(r); err != nil {
		return nil, err
	}
	if s.q.Explain || s.q.ExplainID != "" {
		if s.q.ExplainID != "" {
			if s.plan.Lost, err = s.whereLost(s.q.ExplainID, list, kept, page); err != nil {
				return nil, err
			}
		}
		r.Plan = &s.plan
	}
	return r, nil
}

// answer fills the hits or groups of r. It returns the list they were taken
// from, how many of it reach the minimum score, and the hits; nothing where no
// hit is wanted.
func (s *search) answer(r *Results) (list []ranked, kept int, page []ranked, err error) {
	if s.q.K == 0 {
		if s.text != nil {
			err = s.text.bind(s)
		}
		return nil, 0, nil, err
	}
	if s.q.Group != nil {
		var groups []group
		if groups, list, kept, err = s.rankGroups(); err != nil {
			return nil, 0, nil, err
		}
		r.Groups = make([]Group, len(groups))
		for i, g := range groups {
			r.Groups[i].Value = g.value.Any()
			if r.Groups[i].Hits, err = s.hydrate(g.hits); err != nil {
				return nil, 0, nil, err
			}
			page = append(page, g.hits...)
		}
		return list, kept, page, nil
	}
	if list, err = s.rank(); err != nil {
		return nil, 0, nil, err
	}
	if err := s.take(int64(len(list))*rankedBytes, "ranked hits"); err != nil {
		return nil, 0, nil, err
	}
	kept = s.keep(list)
	page, seen := s.page(list[:kept])
	r.Hits, err = s.hydrate(page)
	if n := len(page); err == nil && n > 0 && seen+n < kept {
		r.Next = cursor{seen: seen + n, depth: s.firstDepth(), score: page[n-1].score, id: r.Hits[n-1].ID}.String()
	}
	return list, kept, page, err
}

// applyFilter evaluates the filter in each view and starts the plan.
func (s *search) applyFilter() error {
	filtered := !s.q.Filter.IsZero()
	s.plan.Segments = make([]SegmentPlan, len(s.views))
	var key []byte
	if filtered {
		s.matches = make([]*accept.Set, len(s.views))
		key = s.filter.AppendKey(nil)
	}
	for i, v := range s.views {
		p := &s.plan.Segments[i]
		p.Segment, p.Docs, p.Matches = v.name, int(v.Docs), v.live
		if filtered {
			m, err := v.accepts.Get(key, v.Docs, func() (*roaring.Bitmap, error) { return v.matches(s.ctx, s.filter) })
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			if err := s.take(int64(m.Docs.GetSizeInBytes()), "filter"); err != nil {
				return err
			}
			s.matches[i], p.Matches = m, m.Count
		}
		s.plan.Documents += v.live
		s.plan.Matches += p.Matches
	}
	return s.ctx.Err()
}

// rank runs the legs, side by side when there are several, and joins them.
func (s *search) rank() ([]ranked, error) {
	switch len(s.legs) {
	case 0:
		list := s.listByID()
		s.exhausted = len(list) < s.depth
		return list, nil
	case 1:
		l := &s.legs[0]
		if s.from != nil && l.kind == legVector {
			return s.rankBlocks(l)
		}
		items, err := l.run(s)
		s.exhausted = len(items) < s.depth
		s.buf.list = appendRanked(s.buf.list[:0], l.kind, items)
		return s.buf.list, err
	}
	// The first goes to this goroutine: the others start late, and take less time
	// as a rule. With one thread all go to it. All run under guard, so that none is
	// left behind.
	var wg sync.WaitGroup
	var items [legKinds][]fusion.Item
	var errs [legKinds]error
	run := func(i int) {
		errs[i] = guard(func() (err error) {
			items[i], err = s.legs[i].run(s)
			return err
		})
	}
	alone := s.snap.ix.o.Threads == 1
	for i := 1; i < len(s.legs) && !alone; i++ {
		wg.Go(func() { run(i) })
	}
	run(0)
	for i := 1; i < len(s.legs) && alone; i++ {
		run(i)
	}
	wg.Wait()
	s.exhausted = true
	for i := range s.legs {
		if errs[i] != nil {
			return nil, errs[i]
		}
		s.exhausted = s.exhausted && len(items[i]) < s.depth
	}
	return s.fuse(items[:len(s.legs)])
}

// appendRanked appends a leg's items, which are numbered on.
func appendRanked(list []ranked, kind int, items []fusion.Item) []ranked {
	list = slices.Grow(list, len(items))
	for _, it := range items {
		r := ranked{place: placeOf(it.Key), score: it.Score}
		r.legs[kind] = Leg{len(list) + 1, it.Raw, it.Score}
		list = append(list, r)
	}
	return list
}

// rankBlocks lists what lies before and on a cursor's page, in blocks: the hits
// of the search that the first page was taken from, then those that a search for
// four times as many finds besides, and so on. A wider search may find nearer
// ones than a narrower one did; they begin the next block, so that no page loses
// or repeats a hit. Blocks are ordered in themselves. A page costs at most about
// five times what one search for all hits up to it does.
func (s *search) rankBlocks(l *askedLeg) ([]ranked, error) {
	want := s.from.seen + s.q.K + 1
	given := make(map[uint64]struct{}, want)
	list := s.buf.list[:0]
	for s.depth = s.from.depth; ; s.depth *= 4 {
		items, err := l.run(s)
		if err != nil {
			return nil, err
		}
		s.exhausted = len(items) < s.depth
		below := len(items) > 0 && items[len(items)-1].Score < s.q.MinScore
		items = slices.DeleteFunc(items, func(it fusion.Item) bool {
			_, ok := given[it.Key]
			given[it.Key] = struct{}{}
			return ok
		})
		if list = appendRanked(list, l.kind, items); len(list) >= want || s.exhausted || below || s.depth > MaxOffset {
			break
		}
	}
	s.buf.list = list
	// keep counts from the end.
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Compare(boolInt(a.score < s.q.MinScore), boolInt(b.score < s.q.MinScore))
	})
	return list, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// firstDepth is the depth of the search that a first page was taken from.
func (s *search) firstDepth() int {
	if s.from != nil {
		return s.from.depth
	}
	return s.depth
}

var fusers = sync.Pool{New: func() any { return new(fusion.Fuser) }}

func (s *search) fuse(items [][]fusion.Item) ([]ranked, error) {
	f := fusers.Get().(*fusion.Fuser)
	defer fusers.Put(f)
	var legs [legKinds]fusion.Leg
	for i, l := range s.legs {
		legs[i] = fusion.Leg{Name: l.name, Weight: l.weight, Items: items[i]}
	}
	o := fusion.Options{
		RankConstant: s.q.Fusion.RankConstant,
		Compare:      func(a, b uint64) int { return s.compareIDs(placeOf(a), placeOf(b)) },
	}
	var hits []fusion.Hit
	var err error
	if s.q.Fusion.Method == Weighted {
		hits, err = f.Weighted(legs[:len(s.legs)], o)
	} else {
		hits, err = f.RRF(legs[:len(s.legs)], o)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	list := slices.Grow(s.buf.list[:0], len(hits))[:len(hits)]
	for i, h := range hits {
		list[i] = ranked{place: placeOf(h.Key), score: h.Score}
		for j, from := range h.From {
			list[i].legs[s.legs[j].kind] = Leg{from.Rank, from.Raw, from.Score}
		}
	}
	s.buf.list = list
	return list, nil
}

// weight gives a leg's weight its default. A leg that shall not count is left
// out of the query, so 0 can stand for 1.
func weight(w float64) float64 {
	if w == 0 {
		return 1
	}
	return w
}

// page cuts the list to the hits asked for and tells how many come before
// them. The hit that a cursor names is where it was, unless the index has
// changed since; then the page begins where it would be in order.
func (s *search) page(list []ranked) ([]ranked, int) {
	off := s.q.Offset
	if s.from != nil {
		is := func(r ranked) bool { return r.score == s.from.score && s.id(r.place) == s.from.id }
		off = s.from.seen
		if off == 0 || off > len(list) || !is(list[off-1]) {
			if off = slices.IndexFunc(list, is) + 1; off == 0 {
				s.order(list)
				off, _ = slices.BinarySearchFunc(list, s.from, func(r ranked, c *cursor) int {
					return cmp.Or(cmp.Compare(c.score, r.score), cmp.Compare(s.id(r.place), c.id))
				})
			}
		}
	}
	off = min(off, len(list))
	page := list[off:]
	return page[:min(len(page), s.q.K)], off
}

// SearchAll answers many queries on the same documents, threads of them side by
// side (0: as many as Options.Threads). Result i is that of Search for queries[i],
// whatever the threads. An error ends it; of several, the first in the order of
// the queries is returned.
func (s *Snapshot) SearchAll(ctx context.Context, queries []Query, threads int) ([]*Results, error) {
	if threads <= 0 {
		threads = s.ix.o.Threads
	}
	out, errs := make([]*Results, len(queries)), make([]error, len(queries))
	var next atomic.Int64
	var failed atomic.Bool
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(queries)) && !failed.Load(); i = next.Add(1) - 1 {
			if out[i], errs[i] = s.Search(ctx, queries[i]); errs[i] != nil {
				errs[i] = fmt.Errorf("query %d: %w", i, errs[i])
				failed.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(threads, len(queries)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// buffers are what a search fills and throws away, kept for the next one.
type buffers struct {
	text   textBuffers
	vector vectorBuffers
	list   []ranked
}

var searchBuffers = sync.Pool{New: func() any { return new(buffers) }}

// mostKept is the longest list that is kept for another search.
const mostKept = 4096

func (b *buffers) giveBack() {
	if cap(b.list) <= mostKept && cap(b.text.best) <= mostKept && cap(b.vector.best) <= mostKept {
		searchBuffers.Put(b)
	}
}
