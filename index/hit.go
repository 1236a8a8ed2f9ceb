package index

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index/accept"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/highlight"
	"github.com/quarrysearch/quarry/index/segment"
)

// ScoreKind says what a hit's score is made of.
type ScoreKind string

const (
	ScoreCosine   ScoreKind = "cosine"   // max(0, cos), rescaled by VectorQuery.Floor
	ScoreDot      ScoreKind = "dot"      // (1+x/(1+|x|))/2, x the inner product
	ScoreL2       ScoreKind = "l2"       // 1/(1+d²)
	ScoreKeyword  ScoreKind = "keyword"  // x(1+k1)/(1+k1·x), x = BM25/Σ idf
	ScoreSparse   ScoreKind = "sparse"   // m/(1+m), m = dot product/Σ query weights
	ScoreRRF      ScoreKind = "rrf"      // Σ w/(c+rank) over Σ w/(c+1)
	ScoreWeighted ScoreKind = "weighted" // Σ w·score over Σ w
	ScoreFilter   ScoreKind = "filter"   // 1, hits in id order
)

// A Leg tells what one leg knew of a hit.
type Leg struct {
	Rank  int     `json:"rank"`  // from 1; 0: the leg did not return the hit
	Raw   float64 `json:"raw"`   // BM25, cosine, dot product or squared distance
	Score float64 `json:"score"` // in [0,1]
}

// A Hit is one returned document. It is a copy: it holds nothing of the index.
type Hit struct {
	ID    string    `json:"id"`
	Score float64   `json:"score"` // in [0,1]
	Kind  ScoreKind `json:"score_kind"`
	// Keyword, Vector and Sparse are nil where the query has no such leg or the
	// leg did not return the hit.
	Keyword *Leg `json:"keyword,omitempty"`
	Vector  *Leg `json:"vector,omitempty"`
	Sparse  *Leg `json:"sparse,omitempty"`
	// Fields holds the fields asked for: text as string, metadata as the Go
	// value of its type.
	Fields map[string]any `json:"fields,omitempty"`
	// Highlights holds passages by text field.
	Highlights  map[string][]Passage `json:"highlights,omitempty"`
	Explanation *Explanation         `json:"explanation,omitempty"`
}

// A Passage is a piece of a stored text, text == source[Start:End] in bytes,
// with the spans inside it that matched, relative to the passage's start.
type Passage struct {
	Text  string `json:"text"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	Marks []Span `json:"marks"`
}

// A Span is a half-open range of bytes.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// A FacetCount is one value of a metadata field with its number of documents.
type FacetCount struct {
	Value any `json:"value"`
	Count int `json:"count"`
}

// Results is the answer to a query.
type Results struct {
	Hits []Hit `json:"hits"`
	// Groups holds the hits instead of Hits, where Query.Group asks for them.
	Groups []Group `json:"groups,omitempty"`
	// Total is the number of live documents that match Filter and, in a query
	// without Vector, Text or Sparse, where these are given; the same on every
	// page. It is -1 unless Query.Count asks for it. A vector leg ranks every
	// document, so it restricts nothing.
	Total int `json:"total"`
	// Next continues behind the last hit in Query.After; empty on the last page.
	Next   string                  `json:"next,omitempty"`
	Facets map[string][]FacetCount `json:"facets,omitempty"`
	Plan   *Plan                   `json:"plan,omitempty"`
	// Notes tells what the query did not say but the engine did, such as stop
	// words dropped.
	Notes   []string      `json:"notes,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// hydrate makes hits: what the query asked to see of each.
func (s *search) hydrate(page []ranked) ([]Hit, error) {
	hits := make([]Hit, 0, len(page))
	legs := make([]Leg, 0, len(page)*len(s.legs)) // of all hits
	kind, ids := s.kind(), s.ids(page)
	var dec segment.DocDecoder
	var buf []byte
	want, stored := s.wanted()
	for i := range page {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		p := &page[i]
		n := len(s.views[p.view].IDs.Bytes(p.doc))
		h := Hit{ID: ids[:n], Score: p.score, Kind: kind}
		ids = ids[n:]
		for j, to := range [legKinds]**Leg{legKeyword: &h.Keyword, legVector: &h.Vector, legSparse: &h.Sparse} {
			if p.legs[j].Rank > 0 {
				legs = append(legs, p.legs[j])
				*to = &legs[len(legs)-1]
			}
		}
		if stored {
			var err error
			v := s.views[p.view]
			if buf, err = v.Stored.Get(p.doc, buf[:0]); err != nil {
				return nil, err
			}
			d, err := dec.DecodeStored(v.name, buf, want)
			if err != nil {
				return nil, err
			}
			s.fill(&h, d)
			if err := s.take(sizeOf(&h, d), "fields and passages"); err != nil {
				return nil, err
			}
		}
		if s.q.Explain {
			e, err := s.explain(p)
			if err != nil {
				return nil, err
			}
			h.Explanation = e
		}
		hits = append(hits, h)
	}
	return hits, nil
}

// ids are those of a page, one behind the other. What each is read from comes
// from memory: asking for all at once waits less than one by one.
func (s *search) ids(page []ranked) string {
	n := 0
	for i := range page {
		n += len(s.views[page[i].view].IDs.Bytes(page[i].doc))
	}
	var b strings.Builder
	b.Grow(n)
	for i := range page {
		b.Write(s.views[page[i].view].IDs.Bytes(page[i].doc))
	}
	return b.String()
}

// sizeOf is about the bytes that a hit takes with the fields that were decoded
// for it. Passages point into the texts.
func sizeOf(h *Hit, d segment.Stored) int64 {
	n := len(h.ID) + rankedBytes
	for i := range d.Texts {
		n += len(d.Texts[i].Text)
	}
	for i := range d.Metas {
		n += d.Metas[i].Value.SizeHint()
	}
	for _, ps := range h.Highlights {
		for i := range ps {
			n += 64 + 16*len(ps[i].Marks)
		}
	}
	return int64(n)
}

func (s *search) kind() ScoreKind {
	switch {
	case len(s.legs) > 1 && s.q.Fusion.Method == Weighted:
		return ScoreWeighted
	case len(s.legs) > 1:
		return ScoreRRF
	case s.text != nil:
		return ScoreKeyword
	case s.vector != nil:
		return s.vector.kind
	case s.sparse != nil:
		return ScoreSparse
	}
	return ScoreFilter
}

// wanted says which fields of a stored document to decode, and whether any.
func (s *search) wanted() (want func(string) bool, any bool) {
	highlights := s.q.Highlight
	if s.text == nil {
		highlights = nil
	}
	if len(s.q.Fields)+len(highlights) == 0 {
		return nil, false
	}
	if slices.Contains(s.q.Fields, "*") {
		return nil, true
	}
	return func(f string) bool {
		return slices.Contains(s.q.Fields, f) || slices.Contains(highlights, f)
	}, true
}

// fill puts the fields and highlights asked for into a hit.
func (s *search) fill(h *Hit, d segment.Stored) {
	all := slices.Contains(s.q.Fields, "*")
	if len(s.q.Fields) > 0 {
		h.Fields = make(map[string]any, len(d.Texts)+len(d.Metas))
	}
	for _, t := range d.Texts {
		if all || slices.Contains(s.q.Fields, t.Field) {
			h.Fields[t.Field] = t.Text
		}
		if s.text != nil && slices.Contains(s.q.Highlight, t.Field) {
			if ps := s.passages(t); len(ps) > 0 {
				if h.Highlights == nil {
					h.Highlights = make(map[string][]Passage)
				}
				h.Highlights[t.Field] = ps
			}
		}
	}
	for _, m := range d.Metas {
		if all || slices.Contains(s.q.Fields, m.Field) {
			h.Fields[m.Field] = m.Value.Any()
		}
	}
}

// passages finds the passages of a text by the query's terms for its field.
func (s *search) passages(t segment.Text) []Passage {
	if s.text.query == nil {
		return nil
	}
	is := s.text.query.Matcher(t.Field)
	if is == nil {
		return nil
	}
	scratch := analysisScratch.Get().(*analysis.Scratch)
	defer analysisScratch.Put(scratch)
	found := highlight.Passages(s.snap.schema.text[t.Field].analyzer, scratch, t.Text, is, highlight.Options{})
	out := make([]Passage, len(found))
	for i, p := range found {
		out[i] = Passage{Text: t.Text[p.Start:p.End], Start: p.Start, End: p.End, Marks: make([]Span, len(p.Marks))}
		for j, m := range p.Marks {
			out[i].Marks[j] = Span{m.Start - p.Start, m.End - p.Start}
		}
	}
	return out
}

const (
	defaultGroupSize = 3
	groupSlack       = 4 // hits asked for in a first try, for each hit of a group
)

// A GroupRequest asks for the best groups of documents instead of the best
// documents: a group is the documents that hold one value of a metadata field.
// Query.K is then the number of groups and Size that of hits in each.
//
// Groups are ordered by their best hit, and groups that share it (a list of
// values) by value; the hits of a group are ordered as hits are: by score
// descending, then id ascending. A document with several values stands in the
// group of each; one whose field is missing, null or an empty list is in none,
// and is not returned. MinScore, Filter and Fields hold as ever; Offset and
// After are refused. Total and Facets count documents, not groups.
//
// With a single leg, and with Filter alone, each group holds its best Size
// documents whatever their rank, and a hit's Leg.Rank is that within it. The hits of a hybrid query have scores that
// come of their ranks within Depth; its groups are made of that one fused list,
// and Depth is doubled while there are fewer than K of them and a leg may have
// more to give.
type GroupRequest struct {
	Field string `json:"field"`
	// Size is the number of hits of each group, at least 1; default 3. K × Size
	// is at most MaxK.
	Size int `json:"size,omitempty"`
}

// A Group is the best hits among the documents with one value.
type Group struct {
	Value any   `json:"value"` // of the field's type
	Hits  []Hit `json:"hits"`
}

// group is a Group on its way.
type group struct {
	value filter.Value
	hits  []ranked
}

func (s *search) checkGroup() error {
	g := s.q.Group
	if g == nil {
		return nil
	}
	typ, ok := s.snap.schema.public.Meta[g.Field]
	switch {
	case !ok:
		return invalidf("group: no metadata field %q", g.Field)
	case typ == filter.Float64:
		return invalidf("group: field %q holds fractions, which make no groups", g.Field)
	case s.q.Offset != 0 || s.q.After != "":
		return invalidf("group: pages (offset, after) are for single hits: ask for more groups")
	case g.Size < 0 || s.q.K*cmp.Or(g.Size, defaultGroupSize) > MaxK:
		return invalidf("group: %d groups of %d hits: want at least 1 and at most %d hits together", s.q.K, g.Size, MaxK)
	}
	return nil
}

// rankGroups is rank for groups. It returns them with the list they come from.
//
// The first K values met in a ranked list are the best groups, so the list is
// made longer until it holds as many. What it does not hold of each group is
// then searched in that group alone.
func (s *search) rankGroups() (groups []group, list []ranked, kept int, err error) {
	size := cmp.Or(s.q.Group.Size, defaultGroupSize)
	if len(s.legs) < 2 {
		s.depth = min(max(s.q.K*size*groupSlack, defaultDepth), s.plan.Matches+1)
	} else {
		for s.depth < s.q.K*size {
			s.depth *= 2
		}
	}
	for {
		if list, err = s.rank(); err != nil {
			return nil, nil, 0, err
		}
		if err := s.take(int64(len(list))*rankedBytes, "ranked hits"); err != nil {
			return nil, nil, 0, err
		}
		if kept = s.keep(list); kept < len(list) {
			s.exhausted = true
		}
		if groups, err = s.gather(list[:kept], size); err != nil {
			return nil, nil, 0, err
		}
		if len(groups) == s.q.K || s.exhausted || s.depth > s.plan.Matches {
			break
		}
		if s.depth >= MaxOffset {
			s.notes = append(s.notes, fmt.Sprintf("%d groups are all that the best %d hits hold", len(groups), s.depth))
			break
		}
		s.depth *= 2
	}
	if !s.exhausted && (len(s.legs) < 2) {
		for i := range groups {
			if err := s.fillGroup(&groups[i], size); err != nil {
				return nil, nil, 0, err
			}
		}
	}
	for i := range groups {
		s.numberHits(groups[i].hits)
	}
	return groups, list, kept, nil
}

// gather makes the first K groups of a ranked list.
func (s *search) gather(list []ranked, size int) ([]group, error) {
	at := map[filter.Value]int{}
	var groups []group
	for _, r := range list {
		v, err := s.views[r.view].Filter.Value(s.q.Group.Field, r.doc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.views[r.view].name, err)
		}
		for e := range v.Elements() {
			i, ok := at[e]
			if !ok {
				if len(groups) == s.q.K {
					continue
				}
				i = len(groups)
				at[e] = i
				groups = append(groups, group{value: e})
			}
			if g := &groups[i]; len(g.hits) < size {
				g.hits = append(g.hits, r)
			}
		}
	}
	return groups, nil
}

// fillGroup searches for the hits that a group lacks among its documents alone.
func (s *search) fillGroup(g *group, size int) error {
	if len(g.hits) == size {
		return nil
	}
	c, err := s.snap.schema.compile(filter.Eq(s.q.Group.Field, g.value.Any()))
	if err != nil {
		return err
	}
	sub := *s
	sub.plan.Segments = slices.Clone(s.plan.Segments)
	sub.matches = make([]*accept.Set, len(s.views))
	sub.depth, sub.buf = size, new(buffers)
	total := 0
	for i, v := range s.views {
		m, err := v.matches(s.ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if s.matches != nil {
			m.And(s.matches[i].Docs)
		}
		sub.matches[i] = accept.NewSet(m, v.Docs)
		sub.plan.Segments[i].Matches = sub.matches[i].Count
		total += sub.plan.Segments[i].Matches
	}
	if total == len(g.hits) {
		return nil
	}
	more, err := sub.rank()
	if err != nil {
		return err
	}
	for _, r := range more[:s.keep(more)] {
		if !slices.ContainsFunc(g.hits, func(h ranked) bool { return h.place == r.place }) {
			g.hits = append(g.hits, r)
		}
	}
	s.order(g.hits)
	g.hits = g.hits[:min(len(g.hits), size)]
	return nil
}

// numberHits makes a single leg's ranks those within the group, as its search
// may have given them.
func (s *search) numberHits(hits []ranked) {
	if len(s.legs) > 1 {
		return
	}
	for i := range hits {
		for j := range hits[i].legs {
			if leg := &hits[i].legs[j]; leg.Rank > 0 {
				leg.Rank = i + 1
			}
		}
	}
}

// order sorts hits as results are.
func (s *search) order(hits []ranked) {
	slices.SortFunc(hits, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), s.compareIDs(a.place, b.place))
	})
}

// keep counts the hits at the front of a list that reach the minimum score.
func (s *search) keep(list []ranked) int {
	kept := len(list)
	for kept > 0 && list[kept-1].score < s.q.MinScore {
		kept--
	}
	return kept
}
