package index

import (
	"slices"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
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
	// Keyword and Vector are nil where the query has no such leg or the leg
	// did not return the hit.
	Keyword *Leg `json:"keyword,omitempty"`
	Vector  *Leg `json:"vector,omitempty"`
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
	// Total is the number of live documents that match Filter and, in a
	// query with Text and no Vector, Text; the same on every page. It is -1
	// unless Query.Count asks for it. A vector leg ranks every document, so it
	// restricts nothing.
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

// hydrate makes the hits of a page: what the query asked to see of each.
func (s *search) hydrate(r *Results, page []ranked) error {
	kind := s.kind()
	var dec segment.DocDecoder
	var buf []byte
	want, stored := s.wanted()
	for i := range page {
		p := &page[i]
		h := Hit{ID: s.id(p.place), Score: p.score, Kind: kind}
		if p.keyword.Rank > 0 {
			leg := p.keyword
			h.Keyword = &leg
		}
		if p.vector.Rank > 0 {
			leg := p.vector
			h.Vector = &leg
		}
		if stored {
			var err error
			v := s.views[p.view]
			if buf, err = v.Stored.Get(p.doc, buf[:0]); err != nil {
				return err
			}
			d, err := dec.DecodeStored(v.name, buf, want)
			if err != nil {
				return err
			}
			s.fill(&h, d)
		}
		if s.q.Explain {
			e, err := s.explain(p)
			if err != nil {
				return err
			}
			h.Explanation = e
		}
		r.Hits = append(r.Hits, h)
	}
	return nil
}

func (s *search) kind() ScoreKind {
	switch {
	case s.text != nil && s.vector != nil && s.q.Fusion.Method == Weighted:
		return ScoreWeighted
	case s.text != nil && s.vector != nil:
		return ScoreRRF
	case s.text != nil:
		return ScoreKeyword
	case s.vector != nil:
		return s.vector.kind
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
	is := s.text.matcher(t.Field)
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
