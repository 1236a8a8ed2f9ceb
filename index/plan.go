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

func (p *SegmentPlan) note(st hnsw.Stats) {
	p.Vector, p.Ef = st.Plan.String(), st.Ef
	p.Distances, p.Hops, p.Rescored, p.Candidates = st.Distances, st.Hops, st.Rescored, st.Matches
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
		m, err := s.matching(i, v)
		if err != nil {
			return err
		}
		total += int(m.GetCardinality())
		for j, f := range s.q.Facets {
			if err := merged[j].Add(v.Filter, m); err != nil {
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

// matching is the set of docs of a view that Total counts.
func (s *search) matching(i int, v *view) (*roaring.Bitmap, error) {
	if s.text == nil || s.vector != nil {
		return s.liveOrMatching(i), nil
	}
	if s.text.bound == nil {
		return roaring.New(), nil
	}
	scratch := textScratch.Get().(*bm25.Scratch)
	defer textScratch.Put(scratch)
	words, err := s.text.bound.Matches(i, s.accept(i, v), scratch, nil)
	if err != nil {
		return nil, err
	}
	return roaring.FromDense(words, false), nil
}

// explain tells how a hit got its score.
func (s *search) explain(p *ranked) (*Explanation, error) {
	e := Explanation{Value: p.score}
	var legs []Explanation
	if p.keyword.Rank > 0 {
		raw, err := s.text.bound.Explain(int(p.view), p.doc)
		if err != nil {
			return nil, err
		}
		legs = append(legs, Explanation{
			Value:   p.keyword.Score,
			What:    fmt.Sprintf("keyword: rank %d, x(1+k1)/(1+k1·x) with x = BM25 / Σ idf", p.keyword.Rank),
			Details: []Explanation{bm25Explanation(raw)},
		})
	}
	if p.vector.Rank > 0 {
		legs = append(legs, Explanation{
			Value:   p.vector.Score,
			What:    fmt.Sprintf("vector: rank %d, score of field %q", p.vector.Rank, s.vector.field),
			Details: []Explanation{{Value: p.vector.Raw, What: string(s.vector.kind) + ", raw value of the float32 vectors"}},
		})
	}
	switch {
	case s.text == nil && s.vector == nil:
		e.What = "filter alone: hits in order of id"
	case s.text == nil || s.vector == nil:
		return &legs[0], nil
	default:
		e.What, e.Details = s.explainFusion(p), legs
	}
	return &e, nil
}

func (s *search) explainFusion(p *ranked) string {
	wt, wv := weight(s.q.Text.Weight), weight(s.q.Vector.Weight)
	if s.q.Fusion.Method == Weighted {
		return fmt.Sprintf("weighted: (%g·%g + %g·%g) / %g", wt, p.keyword.Score, wv, p.vector.Score, wt+wv)
	}
	c := cmp.Or(s.q.Fusion.RankConstant, fusion.DefaultRankConstant)
	part := func(w float64, rank int) string {
		if rank == 0 {
			return "0"
		}
		return fmt.Sprintf("%g/(%d+%d)", w, c, rank)
	}
	return fmt.Sprintf("rrf: (%s + %s) / (%g/%d)", part(wt, p.keyword.Rank), part(wv, p.vector.Rank), wt+wv, c+1)
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
	if s.matches != nil && !s.matches[at].Contains(doc) {
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
			}
		}
		why = append(why, reason)
	}
	if len(why) == 0 {
		return "its id lies outside this page", nil
	}
	return "lost in each leg: " + strings.Join(why, "; "), nil
}
