package index

import (
	"encoding/base64"
	"math"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/storage"
)

// A Query asks for the best K documents. It has any of Text, Vector, Sparse and
// Filter: two or three of the first are legs that run on one snapshot and are fused;
// with Filter alone the hits are the matching documents in id order, all with
// score 1.
type Query struct {
	// Text is the keyword leg.
	Text *TextQuery
	// Vector is searched among the vectors of one field.
	Vector *VectorQuery
	// Sparse is searched among the sparse vectors of one field.
	Sparse *SparseQuery
	// Filter restricts all legs; the zero Filter keeps every live document.
	Filter filter.Filter

	// K is the number of hits wanted, 1–10,000. Fewer come back only when
	// fewer documents match. 0 is for Count and Facets alone, at least one of
	// which must be asked for then: nothing is ranked, which costs less than the
	// best hit would; it excludes Offset, After, Group and ExplainID.
	K int
	// Offset skips hits, 0–100,000; Offset+K is at most 100,000.
	Offset int
	// After continues behind the last hit of an earlier page (Results.Next).
	// It excludes Offset. On one snapshot pages never repeat or lose a hit: what
	// a vector search for more hits finds nearer than one for fewer had, comes
	// with a later page.
	After string

	// Group asks for the best groups of documents by a metadata field; K is then
	// the number of groups.
	Group *GroupRequest

	// Fusion joins the legs of a hybrid query.
	Fusion Fusion
	// Depth is how many hits each leg gives to the fusion: default 100, 1–10,000.
	// Scores of a hybrid query depend on Depth but not on K or Offset; where
	// Offset+K exceeds it, Depth is doubled until it does not. A single leg is
	// asked for Offset+K.
	Depth int
	// MinScore drops hits with a lower final score; inclusive; 0 keeps all.
	MinScore float64

	// Fields names the stored fields and metadata to return with each hit; nil
	// returns none, []string{"*"} all.
	Fields []string
	// Facets counts the values of metadata among all documents that Total
	// counts.
	Facets []FacetRequest
	// Highlight asks for marked passages of these stored text fields.
	Highlight []string
	// Count asks for Results.Total, always exact.
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

// A TextQuery is the keyword leg: one of Text, QueryString and Clause.
type TextQuery struct {
	// Text is taken literally, whatever signs it holds.
	Text string
	// QueryString is in the syntax of package querystring, as in
	//	title:foo "exact phrase"~2 -bar +baz fo* fuzzy~1 (a OR b)^2
	// Bad syntax is taken for text and told in Results.Notes. Operator joins its
	// words; MinShouldMatch, Phrase, Slop and Prefix do not hold for it.
	QueryString string
	// Clause is a tree of clauses. Operator and the fields below that hold for
	// Text do not hold for it; Fields holds where a clause names none.
	Clause *keyword.Clause
	// Fields to search with their boosts; empty means every text field of the
	// schema with the schema's boosts.
	Fields map[string]float64
	// Join says how the fields make one score, TieBreaker what the others add
	// to the best one; see keyword.Clause. Fields that hold different languages,
	// of which a document fills one, want keyword.JoinBest.
	Join       keyword.Join
	TieBreaker float64
	// Operator joins the terms; default Or.
	Operator Operator
	// MinShouldMatch is the least number of terms under Or; default 1.
	MinShouldMatch int
	// Phrase wants the terms in this order next to each other, at most Slop
	// positions apart.
	Phrase bool
	Slop   int
	// Prefix treats the last term as a prefix, for search as you type; also of a
	// phrase.
	Prefix bool
	// Weight of this leg in a hybrid query, default 1.
	Weight float64
}

// A VectorQuery is the vector leg.
type VectorQuery struct {
	// Field names the vector field; it may be empty when the schema has one.
	Field  string
	Vector []float32
	// Ef is the width of the graph walk, at most 10,000; 0 takes the width that
	// each segment's calibration gives for TargetRecall.
	Ef int
	// TargetRecall is the recall@10 wanted where Ef is 0, in (0, 1]; default 0.95.
	TargetRecall float64
	// Exact compares the float32 vectors of every matching document: no code,
	// no graph, recall 1.
	Exact bool
	// Within is the worst raw value wanted, itself included: the least cosine or
	// dot product, the greatest squared distance. Hits beyond it are not found,
	// however few there are then. As far as the search is not Exact, it misses
	// what a search for as many hits misses. Total does not depend on it.
	Within *float64
	// Plan is the way that a filtered search must go in segments with a graph:
	// "flat", "graph" or "two-hop" (SegmentPlan.Vector). It is there to measure the
	// choice that an empty one leaves to the engine.
	Plan string
	// Floor is the cosine that unrelated pairs of the model have, in [0,1): the
	// leg score is max(0, (cos−Floor)/(1−Floor)). Default 0; embed.Identity
	// declares it. Order and raw values do not depend on it.
	Floor float64
	// Weight of this leg in a hybrid query, default 1.
	Weight float64
}

// A SparseQuery is the leg of a learned sparse vector: documents that share a term
// with it, by dot product. The leg score is m/(1+m), where m is that product over
// the sum of the query's weights.
type SparseQuery struct {
	// Field names the sparse field; it may be empty when the schema has one.
	Field string
	// Vector has at most 4,096 terms. One without terms finds nothing.
	Vector sparse.Vector
	// Weight of this leg in a hybrid query, default 1.
	Weight float64
}

// FusionMethod joins ranked lists.
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

// A cursor is the place behind a hit: its score and id, and what keeps later
// pages equal to one long list, the legs' depth and the hits already seen.
type cursor struct {
	seen, depth int
	score       float64
	id          string
}

const cursorVersion = 1

// String encodes the cursor for Results.Next.
func (c cursor) String() string {
	b := []byte{cursorVersion}
	b = storage.AppendUvarint(b, uint64(c.seen))
	b = storage.AppendUvarint(b, uint64(c.depth))
	b = storage.AppendU64(b, math.Float64bits(c.score))
	b = append(b, c.id...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(s string) (*cursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return nil, invalidf("after: not a cursor of this version")
	}
	d := storage.NewDecoder("cursor", 0, b[1:])
	seen, depth := d.Uvarint(), d.Uvarint()
	c := &cursor{score: math.Float64frombits(d.U64())}
	c.id = string(d.Raw(d.Len()))
	if d.Err() != nil || seen > MaxOffset-MaxK || depth > 2*MaxOffset || depth < 1 || math.IsNaN(c.score) {
		return nil, invalidf("after: a damaged cursor, or one past %d hits", MaxOffset-MaxK)
	}
	c.seen, c.depth = int(seen), int(depth)
	return c, nil
}
