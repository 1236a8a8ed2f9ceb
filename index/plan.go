package index

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/index/filter"
)

// An Explanation is a tree: a value, the words for it, and the parts it was
// made from.
type Explanation struct {
	Value   float64       `json:"value"`
	What    string        `json:"what"`
	Details []Explanation `json:"details,omitempty"`
}

// A Plan tells what the engine counted, chose and did.
type Plan struct {
	// Documents is the number of live documents, Matches of those that pass
	// the filter; both exact.
	Documents int           `json:"documents"`
	Matches   int           `json:"matches"`
	Segments  []SegmentPlan `json:"segments"`
	// Lost tells where the document of Query.ExplainID was lost, or its rank.
	Lost string `json:"lost,omitempty"`
}

// A SegmentPlan is the plan of one segment. The counts are work done: vectors
// whose codes were compared, nodes expanded, vectors compared exactly. The
// estimates are those by which the vector plan was chosen, in µs of a machine
// that is assumed, not measured: their order counts. Both depend on the number
// of matches and where they lie, never on how the filter is written.
type SegmentPlan struct {
	Segment string `json:"segment"` // file name, or "mutable"
	Docs    int    `json:"docs"`
	Matches int    `json:"matches"`
	// Vector is hnsw's plan: "flat", "graph", "two-hop" or "abandoned" (a walk
	// that came to cost as much as the exact scan, and was finished by it).
	Vector    string `json:"vector,omitempty"`
	Ef        int    `json:"ef,omitempty"`
	Distances int    `json:"distances,omitempty"`
	Hops      int    `json:"hops,omitempty"`
	Rescored  int    `json:"rescored,omitempty"`
	// Candidates is the number of vectors that pass the filter.
	Candidates int `json:"candidates,omitempty"`
	// Scan, Graph and TwoHop are what the ways to search were expected to cost;
	// 0 for one that was not weighed.
	Scan   float64 `json:"scan_us,omitempty"`
	Graph  float64 `json:"graph_us,omitempty"`
	TwoHop float64 `json:"two_hop_us,omitempty"`
}

// note adds the work of a search; of several the last one's plan is told.
func (p *SegmentPlan) note(st hnsw.Stats) {
	p.Vector, p.Ef, p.Candidates = st.Plan.String(), st.Ef, st.Matches
	p.Distances += st.Distances
	p.Hops += st.Hops
	p.Rescored += st.Rescored
	us := func(ns float64) float64 { return math.Round(ns/10) / 100 }
	p.Scan, p.Graph, p.TwoHop = us(st.Estimates.Scan), us(st.Estimates.Graph), us(st.Estimates.TwoHop)
}

// countAndFacet fills Total and Facets, both over the documents that match
// the filter and, where text alone is asked for, the text.
func (s *search) countAndFacet(r *Results) error {
	if !s.q.Count && len(s.q.Facets) == 0 {
		return nil
	}
	merged := make([]*filter.Facet, len(s.q.Facets))
	for i, f := range s.q.Facets {
		merged[i] = filter.NewFacet(f.Field)
		merged[i].Limit(func(n int) error { return s.take(int64(n)+facetBytes, "facets") })
	}
	total := 0
	for i, v := range s.views {
		if len(merged) == 0 {
			n, err := s.count(i, v)
			if err != nil {
				return err
			}
			total += n
			continue
		}
		m, err := s.matching(i, v)
		if err != nil {
			return err
		}
		total += int(m.GetCardinality())
		for j, f := range s.q.Facets {
			if err := merged[j].Add(s.ctx, v.Filter, m); err != nil {
				return fmt.Errorf("%s: facet %q: %w", v.name, f.Field, err)
			}
		}
	}
	if s.q.Count {
		r.Total = total
	}
	if len(merged) > 0 {
		r.Facets = make(map[string][]FacetCount, len(merged))
	}
	for j, f := range s.q.Facets {
		r.Facets[f.Field] = []FacetCount{}
		for _, c := range merged[j].Top(cmp.Or(f.Limit, 10)) {
			r.Facets[f.Field] = append(r.Facets[f.Field], FacetCount{Value: c.Value.Any(), Count: int(c.Docs)})
		}
	}
	return nil
}

// count is the number of docs of matching; of words alone it is found without
// writing down which they are.
func (s *search) count(i int, v *view) (int, error) {
	if s.text != nil && s.text.bound != nil && s.vector == nil && s.sparse == nil {
		scratch := s.borrowText()
		defer returnText(scratch)
		return s.text.bound.Count(i, s.accept(i, v), scratch)
	}
	m, err := s.matching(i, v)
	if err != nil {
		return 0, err
	}
	return int(m.GetCardinality()), nil
}

// matching is the set of docs of a view that Total counts.
func (s *search) matching(i int, v *view) (*roaring.Bitmap, error) {
	if len(s.legs) == 0 || s.vector != nil {
		return s.liveOrMatching(i), nil
	}
	out := roaring.New()
	if s.text != nil && s.text.bound != nil {
		scratch := s.borrowText()
		defer returnText(scratch)
		words, err := s.text.bound.Matches(i, s.accept(i, v), scratch, nil)
		if err != nil {
			return nil, err
		}
		out = roaring.FromDense(words, false)
	}
	if s.sparse != nil {
		docs, err := s.sparse.bound.Matches(i, s.sparse.accept(s, i, v), nil)
		if err != nil {
			return nil, err
		}
		out.Or(roaring.FromDense(docs, false))
	}
	return out, nil
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
		return s.matches[i].Docs
	}
	if m := s.views[i].liveDocs(); m != nil {
		return m
	}
	m := roaring.New()
	m.AddRange(0, uint64(s.views[i].Docs))
	return m
}

// explain tells how a hit got its score.
func (s *search) explain(p *ranked) (*Explanation, error) {
	e := Explanation{Value: p.score}
	var legs []Explanation
	if p.legs[legKeyword].Rank > 0 {
		raw, err := s.text.bound.Explain(int(p.view), p.doc)
		if err != nil {
			return nil, err
		}
		legs = append(legs, Explanation{
			Value:   p.legs[legKeyword].Score,
			What:    fmt.Sprintf("keyword: rank %d, x(1+k1)/(1+k1·x) with x = BM25 / Σ idf", p.legs[legKeyword].Rank),
			Details: []Explanation{bm25Explanation(raw)},
		})
	}
	if p.legs[legVector].Rank > 0 {
		legs = append(legs, Explanation{
			Value:   p.legs[legVector].Score,
			What:    fmt.Sprintf("vector: rank %d, score of field %q", p.legs[legVector].Rank, s.vector.field),
			Details: []Explanation{{Value: p.legs[legVector].Raw, What: string(s.vector.kind) + ", raw value of the float32 vectors"}},
		})
	}
	if p.legs[legSparse].Rank > 0 {
		leg, err := s.sparse.explain(p)
		if err != nil {
			return nil, err
		}
		legs = append(legs, leg)
	}
	switch len(s.legs) {
	case 0:
		e.What = "filter alone: hits in order of id"
	case 1:
		return &legs[0], nil
	default:
		e.What, e.Details = s.explainFusion(p), legs
	}
	return &e, nil
}

func (s *search) explainFusion(p *ranked) string {
	c := cmp.Or(s.q.Fusion.RankConstant, fusion.DefaultRankConstant)
	sum := 0.0
	parts := make([]string, len(s.legs))
	for i, l := range s.legs {
		leg := p.legs[l.kind]
		sum += l.weight
		switch {
		case s.q.Fusion.Method == Weighted:
			parts[i] = fmt.Sprintf("%g·%g", l.weight, leg.Score)
		case leg.Rank == 0:
			parts[i] = "0"
		default:
			parts[i] = fmt.Sprintf("%g/(%d+%d)", l.weight, c, leg.Rank)
		}
	}
	all := strings.Join(parts, " + ")
	if s.q.Fusion.Method == Weighted {
		return fmt.Sprintf("weighted: (%s) / %g", all, sum)
	}
	return fmt.Sprintf("rrf: (%s) / (%g/%d)", all, sum, c+1)
}

func bm25Explanation(e *bm25.Explanation) Explanation {
	out := Explanation{Value: float64(e.Raw) / bm25.Scale, What: e.Description}
	for i := range e.Details {
		out.Details = append(out.Details, bm25Explanation(&e.Details[i]))
	}
	return out
}

// whereLost tells where on the way to the page a document was lost.
func (s *search) whereLost(id string, list []ranked, kept int, page []ranked) (string, error) {
	at := slices.IndexFunc(s.views, func(v *view) bool { _, ok := v.find(id); return ok })
	if at < 0 {
		return "not in the index", nil
	}
	doc, _ := s.views[at].find(id)
	p := place{uint32(at), doc}
	if s.matches != nil && !s.matches[at].Docs.Contains(doc) {
		return "does not pass the filter", nil
	}
	same := func(r ranked) bool { return r.place == p }
	if i := slices.IndexFunc(page, same); i >= 0 {
		return fmt.Sprintf("found: hit %d of the page", i+1), nil
	}
	if i := slices.IndexFunc(list, same); i >= 0 {
		if i >= kept {
			return fmt.Sprintf("rank %d, score %g is below the minimum score %g", i+1, list[i].score, s.q.MinScore), nil
		}
		return fmt.Sprintf("rank %d is not on this page", i+1), nil
	}
	return s.whyNoLeg(at, doc)
}

// whyNoLeg tells why no leg returned a document that passes the filter.
func (s *search) whyNoLeg(at int, doc uint32) (string, error) {
	var why []string
	if s.text != nil {
		reason := "keyword: the text has no word to search for"
		if s.text.bound != nil {
			raw, ok, err := s.text.bound.ScoreDoc(at, doc)
			if err != nil {
				return "", err
			}
			reason = "keyword: does not match the text"
			if ok {
				reason = fmt.Sprintf("keyword: BM25 %g is not among the best %d", float64(raw)/bm25.Scale, s.depth)
			}
		}
		why = append(why, reason)
	}
	if s.vector != nil {
		reason := "vector: the document has none"
		if f := s.views[at].Vectors[s.vector.field]; f != nil {
			if _, ok := f.Ord(doc); ok {
				reason = fmt.Sprintf("vector: not among the nearest %d", s.depth)
				if s.vector.q.Within != nil {
					reason += fmt.Sprintf(", or not within %g", *s.vector.q.Within)
				}
			}
		}
		why = append(why, reason)
	}
	if s.sparse != nil {
		reason, err := s.sparse.whyNot(s, at, doc)
		if err != nil {
			return "", err
		}
		why = append(why, reason)
	}
	if len(why) == 0 {
		return "its id lies outside this page", nil
	}
	return "lost in each leg: " + strings.Join(why, "; "), nil
}
