package fusion

import (
	"fmt"
	"strings"
)

// An Explanation tells how a value came about: a value, the words for it, and
// the parts it is the sum of.
type Explanation struct {
	Value float64       `json:"value"`
	What  string        `json:"what"`
	Parts []Explanation `json:"parts,omitempty"`
}

// String draws the tree, one line a node, two spaces a level.
func (e Explanation) String() string {
	var b strings.Builder
	e.write(&b, 0)
	return b.String()
}

func (e Explanation) write(b *strings.Builder, depth int) {
	fmt.Fprintf(b, "%s%.6f %s\n", strings.Repeat("  ", depth), e.Value, e.What)
	for _, p := range e.Parts {
		p.write(b, depth+1)
	}
}

// ExplainRRF explains a hit that RRF returned for the same legs and options.
// Its parts, one a leg, add up to its value (but for rounding).
func ExplainRRF(h Hit, legs []Leg, o Options) Explanation {
	c := o.rankConstant()
	e := Explanation{Value: h.Score, What: fmt.Sprintf("rrf: sum of w/(%g+rank), divided by the sum of w/%g", c, c+1)}
	for i, s := range h.From {
		e.Parts = append(e.Parts, Explanation{Value: s.Part, What: source(legs, i, s, true)})
	}
	return e
}

// ExplainWeighted explains a hit that Weighted returned for the same legs. Its
// parts, one a leg, add up to its value (but for rounding).
func ExplainWeighted(h Hit, legs []Leg) Explanation {
	e := Explanation{Value: h.Score, What: "weighted: sum of w times leg score, divided by the sum of w"}
	for i, s := range h.From {
		e.Parts = append(e.Parts, Explanation{Value: s.Part, What: source(legs, i, s, false)})
	}
	return e
}

// source puts one leg's share into words.
func source(legs []Leg, i int, s Source, byRank bool) string {
	name, w := legName(legs, i), legs[i].Weight
	switch {
	case s.Rank == 0:
		return fmt.Sprintf("%s: not found, weight %g", name, w)
	case w == 0:
		return fmt.Sprintf("%s: switched off by weight 0; rank %d, raw %g, leg score %g", name, s.Rank, s.Raw, s.Score)
	case byRank:
		return fmt.Sprintf("%s: rank %d, weight %g; raw %g, leg score %g", name, s.Rank, w, s.Raw, s.Score)
	}
	return fmt.Sprintf("%s: leg score %g, weight %g; rank %d, raw %g", name, s.Score, w, s.Rank, s.Raw)
}
