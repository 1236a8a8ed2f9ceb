package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/fusion"
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
		r, err = sr.run()
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

// compareIDs orders two places by external id; ids are unique among live docs.
func (s *search) compareIDs(a, b place) int {
	return slices.Compare(s.views[a.view].IDs.Bytes(a.doc), s.views[b.view].IDs.Bytes(b.doc))
}

// A ranked is one entry of the final list.
type ranked struct {
	place
	score           float64
	keyword, vector Leg
}

// A search is one query on its way through the engine.
type search struct {
	ctx    context.Context
	snap   *Snapshot
	views  []*view
	q      Query
	filter filter.Compiled
	// matches are the docs that pass the filter, a view; nil without a filter.
	matches []*roaring.Bitmap
	text    *textLeg
	vector  *vectorLeg
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
	sr := &search{ctx: ctx, snap: s, views: s.segs, q: q, taken: new(int64)}
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
	}
	if q.Vector != nil {
		if sr.vector, err = sr.newVectorLeg(q.Vector); err != nil {
			return nil, err
		}
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
	case q.K < 1 || q.K > MaxK:
		return invalidf("k %d: want 1 to %d", q.K, MaxK)
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
	if s.q.Text == nil || s.q.Vector == nil {
		return want + 1
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
// from, how many of it reach the minimum score, and the hits.
func (s *search) answer(r *Results) (list []ranked, kept int, page []ranked, err error) {
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
	if n := len(page); n > 0 && seen+n < kept {
		last := page[n-1]
		r.Next = cursor{seen: seen + n, depth: s.depth, score: last.score, id: s.id(last.place)}.String()
	}
	r.Hits, err = s.hydrate(page)
	return list, kept, page, err
}

// applyFilter evaluates the filter in each view and starts the plan.
func (s *search) applyFilter() error {
	filtered := !s.q.Filter.IsZero()
	s.plan.Segments = make([]SegmentPlan, len(s.views))
	if filtered {
		s.matches = make([]*roaring.Bitmap, len(s.views))
	}
	for i, v := range s.views {
		p := &s.plan.Segments[i]
		p.Segment, p.Docs, p.Matches = v.name, int(v.Docs), v.live
		if filtered {
			m, err := v.matches(s.filter)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			if err := s.take(int64(m.GetSizeInBytes()), "filter"); err != nil {
				return err
			}
			s.matches[i], p.Matches = m, int(m.GetCardinality())
		}
		s.plan.Documents += v.live
		s.plan.Matches += p.Matches
	}
	return s.ctx.Err()
}

// rank runs the legs, side by side when there are two, and joins them.
func (s *search) rank() ([]ranked, error) {
	switch {
	case s.text != nil && s.vector != nil:
		// The vector leg takes less time as a rule: it goes to the goroutine that
		// starts late. Both run under guard, so that neither is left behind.
		var wg sync.WaitGroup
		var keyword, vector []fusion.Item
		var errText, errVector error
		wg.Go(func() {
			errVector = guard(func() (err error) {
				vector, err = s.vector.run(s)
				return err
			})
		})
		errText = guard(func() (err error) {
			keyword, err = s.text.run(s)
			return err
		})
		wg.Wait()
		if err := cmp.Or(errText, errVector); err != nil {
			return nil, err
		}
		s.exhausted = len(keyword) < s.depth && len(vector) < s.depth
		return s.fuse(keyword, vector)
	case s.text != nil:
		items, err := s.text.run(s)
		s.exhausted = len(items) < s.depth
		list := make([]ranked, len(items))
		for i, it := range items {
			list[i] = ranked{place: placeOf(it.Key), score: it.Score, keyword: Leg{i + 1, it.Raw, it.Score}}
		}
		return list, err
	case s.vector != nil:
		items, err := s.vector.run(s)
		s.exhausted = len(items) < s.depth
		list := make([]ranked, len(items))
		for i, it := range items {
			list[i] = ranked{place: placeOf(it.Key), score: it.Score, vector: Leg{i + 1, it.Raw, it.Score}}
		}
		return list, err
	}
	list := s.listByID()
	s.exhausted = len(list) < s.depth
	return list, nil
}

var fusers = sync.Pool{New: func() any { return new(fusion.Fuser) }}

func (s *search) fuse(keyword, vector []fusion.Item) ([]ranked, error) {
	f := fusers.Get().(*fusion.Fuser)
	defer fusers.Put(f)
	legs := []fusion.Leg{
		{Name: "keyword", Weight: weight(s.q.Text.Weight), Items: keyword},
		{Name: "vector", Weight: weight(s.q.Vector.Weight), Items: vector},
	}
	o := fusion.Options{
		RankConstant: s.q.Fusion.RankConstant,
		Compare:      func(a, b uint64) int { return s.compareIDs(placeOf(a), placeOf(b)) },
	}
	join := f.RRF
	if s.q.Fusion.Method == Weighted {
		join = func(l []fusion.Leg, o fusion.Options) ([]fusion.Hit, error) { return f.Weighted(l, o) }
	}
	hits, err := join(legs, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	list := make([]ranked, len(hits))
	for i, h := range hits {
		list[i] = ranked{
			place: placeOf(h.Key), score: h.Score,
			keyword: Leg{h.From[0].Rank, h.From[0].Raw, h.From[0].Score},
			vector:  Leg{h.From[1].Rank, h.From[1].Raw, h.From[1].Score},
		}
	}
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

// listByID lists the matching docs in order of id, as many as the page needs:
// docs ascend by id in each view, so a view's first ones suffice.
func (s *search) listByID() []ranked {
	from := ""
	if s.from != nil {
		from = s.from.id
	}
	want := s.depth
	if s.from != nil {
		want = s.q.K + 2 // the last hit of the page before, and one to look ahead
	}
	var list []ranked
	for i, v := range s.views {
		doc := v.IDs.Seek(from)
		n := 0
		for it := s.docsFrom(i, doc); n < want && it.HasNext(); n++ {
			list = append(list, ranked{place: place{uint32(i), it.Next()}, score: 1})
		}
	}
	slices.SortFunc(list, func(a, b ranked) int { return s.compareIDs(a.place, b.place) })
	return list[:min(len(list), want)]
}

// docsFrom iterates over the docs of a view that match, from doc on.
func (s *search) docsFrom(i int, doc uint32) roaring.IntPeekable {
	m := s.liveOrMatching(i)
	it := m.Iterator()
	it.AdvanceIfNeeded(doc)
	return it
}

// liveOrMatching is the set of docs that a hit may come from; it may be shared.
func (s *search) liveOrMatching(i int) *roaring.Bitmap {
	if s.matches != nil {
		return s.matches[i]
	}
	if m := s.views[i].liveDocs(); m != nil {
		return m
	}
	m := roaring.New()
	m.AddRange(0, uint64(s.views[i].Docs))
	return m
}

// page cuts the list to the hits asked for and tells how many come before
// them.
func (s *search) page(list []ranked) ([]ranked, int) {
	off := s.q.Offset
	if s.from != nil {
		off, _ = slices.BinarySearchFunc(list, s.from, func(r ranked, c *cursor) int {
			if d := cmp.Compare(c.score, r.score); d != 0 {
				return d
			}
			if cmp.Compare(s.id(r.place), c.id) <= 0 {
				return -1
			}
			return 1
		})
	}
	off = min(off, len(list))
	page := list[off:]
	return page[:min(len(page), s.q.K)], off
}
