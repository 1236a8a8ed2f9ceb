package cluster

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/highlight"
	"github.com/quarrysearch/quarry/storage"
)

// answer cuts the page and makes its hits.
func (s *search) answer(list []ranked) error {
	kept := len(list)
	for kept > 0 && list[kept-1].score < s.q.MinScore {
		kept--
	}
	list = list[:kept]
	seen := max(s.q.Offset, s.from.seen)
	at := seen
	if s.text == nil && s.vector == nil && s.from.id != "" {
		at = 0 // the list starts behind the page before
	}
	at = min(at, kept)
	page := list[at:]
	page = page[:min(len(page), s.q.K)]
	byID := s.text == nil && s.vector == nil
	if n := len(page); n > 0 && (at+n < kept || byID && kept == MaxHits) {
		s.r.Next = place{seen + n, s.depth, page[n-1].id}.String()
	}
	for i := range page {
		h, err := s.hydrate(&page[i])
		if err != nil {
			return err
		}
		s.r.Hits = append(s.r.Hits, h)
	}
	if s.q.Explain || s.q.ExplainID != "" {
		s.r.Plan = &index.Plan{Documents: s.all, Matches: s.matches, Segments: []index.SegmentPlan{}}
		if s.q.ExplainID != "" {
			s.r.Plan.Lost = "a cluster does not tell where a document was lost"
		}
	}
	return nil
}

func (s *search) kind() index.ScoreKind {
	switch {
	case s.text != nil && s.vector != nil && s.q.Fusion.Method == index.Weighted:
		return index.ScoreWeighted
	case s.text != nil && s.vector != nil:
		return index.ScoreRRF
	case s.text != nil:
		return index.ScoreKeyword
	case s.vector == nil:
		return index.ScoreFilter
	case s.vector.Metric == quant.Dot:
		return index.ScoreDot
	case s.vector.Metric == quant.L2:
		return index.ScoreL2
	}
	return index.ScoreCosine
}

// hydrate makes a hit: what the query asked to see of it.
func (s *search) hydrate(r *ranked) (index.Hit, error) {
	h := index.Hit{ID: r.id, Score: r.score, Kind: s.kind()}
	if r.keyword.Rank > 0 {
		h.Keyword = &r.keyword
	}
	if r.vector.Rank > 0 {
		h.Vector = &r.vector
	}
	if s.q.Explain {
		h.Explanation = s.explain(r)
	}
	if len(s.q.Fields)+len(s.q.Highlight) == 0 {
		return h, nil
	}
	text, meta, err := decodeStored(s.l, r.Stored)
	if err != nil {
		return h, fmt.Errorf("document %q: %w", r.id, err)
	}
	all := slices.Contains(s.q.Fields, "*")
	if len(s.q.Fields) > 0 {
		h.Fields = make(map[string]any, len(text)+len(meta))
	}
	for name, t := range text {
		if all || slices.Contains(s.q.Fields, name) {
			h.Fields[name] = t
		}
	}
	for name, v := range meta {
		if all || slices.Contains(s.q.Fields, name) {
			h.Fields[name] = v
		}
	}
	s.highlight(&h, text)
	return h, nil
}

func (s *search) highlight(h *index.Hit, text map[string]string) {
	if s.text == nil || s.text.query == nil {
		return
	}
	scratch := analysisScratch.Get().(*analysis.Scratch)
	defer analysisScratch.Put(scratch)
	for _, name := range s.q.Highlight {
		is := s.text.query.Matcher(name)
		if is == nil {
			continue
		}
		t := text[name]
		for _, p := range highlight.Passages(s.l.text[name].analyzer, scratch, t, is, highlight.Options{}) {
			out := index.Passage{Text: t[p.Start:p.End], Start: p.Start, End: p.End, Marks: make([]index.Span, len(p.Marks))}
			for i, m := range p.Marks {
				out.Marks[i] = index.Span{Start: m.Start - p.Start, End: m.End - p.Start}
			}
			if h.Highlights == nil {
				h.Highlights = make(map[string][]index.Passage)
			}
			h.Highlights[name] = append(h.Highlights[name], out)
		}
	}
}

// explain tells how a hit got its score, and where the cluster's differ.
func (s *search) explain(r *ranked) *index.Explanation {
	var legs []index.Explanation
	if r.keyword.Rank > 0 {
		legs = append(legs, index.Explanation{Value: r.keyword.Score, What: fmt.Sprintf("keyword: rank %d, x(1+k1)/(1+k1·x) with x = BM25 / Σ idf", r.keyword.Rank),
			Details: []index.Explanation{{Value: r.keyword.Raw,
				What: "BM25 of Weaviate: its fields as one, idf and mean length of each shard by itself, length in different terms; Σ idf is that of the whole collection"}}})
	}
	if r.vector.Rank > 0 {
		legs = append(legs, index.Explanation{Value: r.vector.Score, What: fmt.Sprintf("vector: rank %d, raw %g by Weaviate's graph", r.vector.Rank, r.vector.Raw)})
	}
	switch {
	case len(legs) == 1 && (s.text == nil || s.vector == nil):
		return &legs[0]
	case len(legs) == 0:
		return &index.Explanation{Value: r.score, What: "matches the filter; hits in order of id"}
	}
	what := fmt.Sprintf("rrf: sum of w/(%d+rank), divided by the sum of w/%d", or(s.q.Fusion.RankConstant, 60), or(s.q.Fusion.RankConstant, 60)+1)
	if s.q.Fusion.Method == index.Weighted {
		what = "weighted: sum of w times leg score, divided by the sum of w"
	}
	return &index.Explanation{Value: r.score, What: what, Details: legs}
}

// A place is where a page ends: the hits before it, the depth of the legs, and
// the id of the last one.
type place struct {
	seen, depth int
	id          string
}

// String encodes the place for Results.Next.
func (p place) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "c1.%d.%d.%s", p.seen, p.depth, p.id))
}

func parsePlace(s string) (place, error) {
	data, err := base64.RawURLEncoding.DecodeString(s)
	parts := strings.SplitN(string(data), ".", 4)
	if err != nil || len(parts) != 4 || parts[0] != "c1" || parts[3] == "" {
		return place{}, storage.Invalidf("after: not a cursor of a cluster")
	}
	seen, err1 := strconv.Atoi(parts[1])
	depth, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || seen < 0 || depth < 1 || depth > MaxHits {
		return place{}, storage.Invalidf("after: a damaged cursor")
	}
	return place{seen, depth, parts[3]}, nil
}
