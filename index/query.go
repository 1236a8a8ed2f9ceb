package index

import (
	"github.com/quarrysearch/quarry/index/filter"
)

// A Query asks for the best K documents. It has any of Text, Vector and
// Filter: with Text and Vector the two legs run on one snapshot and are fused;
// with Filter alone the hits are the matching documents in id order, all with
// score 1.
type Query struct {
	// Text is searched literally: it is analyzed, never parsed as a syntax.
	Text *TextQuery
	// Vector is searched among the vectors of one field.
	Vector *VectorQuery
	// Filter restricts both legs; nil keeps every live document.
	Filter filter.Filter

	// K is the number of hits wanted, 1–10,000. Fewer come back only when
	// fewer documents match.
	K int
	// Offset skips hits, 0–100,000; Offset+K is at most 100,000.
	Offset int
	// After continues behind the last hit of an earlier page (Results.Next).
	// It excludes Offset.
	After string

	// Fusion joins the legs of a hybrid query.
	Fusion Fusion
	// Depth is how many hits each leg gives to the fusion: default 100, 1–10,000.
	// Scores of a hybrid query depend on Depth but not on K or Offset; where
	// Offset+K exceeds it, Depth is doubled until it does not.
	Depth int
	// MinScore drops hits with a lower final score; inclusive; 0 keeps all.
	MinScore float64

	// Fields names the stored fields and metadata to return with each hit; nil
	// returns none, []string{"*"} all.
	Fields []string
	// Facets counts the values of keyword, bool and integer metadata among
	// all documents that match Filter and Text.
	Facets []FacetRequest
	// Highlight asks for marked passages of these stored text fields.
	Highlight []string
	// Count asks for Results.Total.
	Count bool
	// Explain asks for a Plan with the results and an explanation tree with
	// every hit. ExplainID also tells where the document of that id was lost.
	Explain   bool
	ExplainID string
}

// Operator says how many of a text query's terms a document must hold.
type Operator uint8

const (
	// Or wants at least MinShouldMatch terms (default 1).
	Or Operator = iota
	// And wants every term, each in any of the fields.
	And
)

// A TextQuery is the keyword leg.
type TextQuery struct {
	Text string
	// Fields to search with their boosts; empty means every text field of the
	// schema with the schema's boosts.
	Fields map[string]float64
	// Operator joins the terms; default Or.
	Operator Operator
	// MinShouldMatch is the least number of terms under Or; default 1.
	MinShouldMatch int
	// Phrase wants the terms in this order next to each other, at most Slop
	// positions apart.
	Phrase bool
	Slop   int
	// Prefix treats the last term as a prefix, for search as you type.
	Prefix bool
	// Weight of this leg in a hybrid query, default 1.
	Weight float64
}

// A VectorQuery is the vector leg.
type VectorQuery struct {
	// Field names the vector field; it may be empty when the schema has one.
	Field  string
	Vector []float32
	// Ef is the width of the graph walk; 0 takes the default max(2·depth, 64).
	Ef int
	// Exact scans every matching vector.
	Exact bool
	// Weight of this leg in a hybrid query, default 1.
	Weight float64
}

// FusionMethod joins two ranked lists.
type FusionMethod uint8

const (
	// RRF is reciprocal rank fusion (Cormack, Clarke, Büttcher 2009).
	RRF FusionMethod = iota
	// Weighted is the weighted mean of the legs' scores in [0,1].
	Weighted
)

// Fusion holds the settings of a hybrid query.
type Fusion struct {
	Method FusionMethod
	// RankConstant of RRF, default 60, at least 1.
	RankConstant int
}

// A FacetRequest asks for the counts of one metadata field's values.
type FacetRequest struct {
	Field string
	// Limit is the number of values wanted, the most frequent first; default 10.
	Limit int
}
