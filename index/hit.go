package index

import "time"

// ScoreKind says what a hit's score is made of.
type ScoreKind string

const (
	ScoreCosine   ScoreKind = "cosine"   // max(0, cos)
	ScoreDot      ScoreKind = "dot"      // 1/(1+e^-dot)
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
	// query with Text and no Vector, Text; only where Query.Count asks for it,
	// otherwise -1. A vector leg ranks every document, so it restricts nothing.
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

// An Explanation is a tree whose values add up to its root.
type Explanation struct {
	Value   float64       `json:"value"`
	What    string        `json:"what"`
	Details []Explanation `json:"details,omitempty"`
}

// A Plan tells what the engine estimated, chose and did.
type Plan struct {
	// Documents is the number of live documents, Matches of those that pass
	// the filter.
	Documents int           `json:"documents"`
	Matches   int           `json:"matches"`
	Segments  []SegmentPlan `json:"segments"`
	// Lost tells where the document of Query.ExplainID was lost.
	Lost string `json:"lost,omitempty"`
}

// A SegmentPlan is the plan of one segment.
type SegmentPlan struct {
	Segment string `json:"segment"` // file name, or "mutable"
	Docs    int    `json:"docs"`
	Matches int    `json:"matches"`
	// VectorPlan is "scan", "matches", "graph", "graph-filtered" or "" and the
	// estimates are in nanoseconds of work.
	VectorPlan    string             `json:"vector_plan,omitempty"`
	Estimates     map[string]float64 `json:"estimates_ns,omitempty"`
	Distances     int                `json:"distances,omitempty"`
	Hops          int                `json:"hops,omitempty"`
	KeywordScored int                `json:"keyword_scored,omitempty"`
}
