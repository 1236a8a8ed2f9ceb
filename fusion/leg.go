package fusion

import (
	"errors"
	"fmt"
	"math"
)

// ErrInvalid is matched (errors.Is) by every error of this package: a weight,
// option or leg score out of its range. The error's text names it.
var ErrInvalid = errors.New("fusion: invalid")

// DefaultRankConstant is RRF's constant where Options leaves it 0, from the
// paper.
const DefaultRankConstant = 60

// MaxItems bounds the items of all legs together in one call.
const MaxItems = 1 << 28

// An Item is one entry of a leg.
type Item struct {
	Key   uint64  // names the document across legs
	Score float64 // leg score in [0,1], higher is better; RRF only reports it
	Raw   float64 // what Score was made from (BM25 sum, cosine, distance); only reported
}

// A Leg is one ranked list, best item first. An empty one is legal: it adds
// nothing, and its weight still counts in the norm, so that a score means the
// same whether or not a leg found something.
type Leg struct {
	Name   string  // for explanations and errors; may be empty
	Weight float64 // finite, ≥ 0; at least one leg of a call has more than 0
	Items  []Item  // rank = place among the distinct keys, from 1
}

// Options tune one call. The zero value is the default.
type Options struct {
	// RankConstant is added to each rank in RRF: the larger, the flatter. 0
	// means DefaultRankConstant; negative is an error. Weighted ignores it.
	RankConstant int
	// K keeps the best K hits; 0 keeps all; negative is an error.
	K int
	// Compare orders two different keys of equal score: negative when a comes
	// first. It must be a total order and is called on ties only. Where it is
	// nil or returns 0 the lower key comes first.
	Compare func(a, b uint64) int
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

func (o Options) validate() error {
	if o.RankConstant < 0 {
		return invalidf("rank constant %d is negative", o.RankConstant)
	}
	if o.K < 0 {
		return invalidf("k %d is negative", o.K)
	}
	return nil
}

func (o Options) rankConstant() float64 {
	if o.RankConstant == 0 {
		return DefaultRankConstant
	}
	return float64(o.RankConstant)
}

// legName is how errors and explanations call leg i.
func legName(legs []Leg, i int) string {
	if legs[i].Name != "" {
		return legs[i].Name
	}
	return fmt.Sprintf("leg %d", i)
}

// ValidateWeights reports the first weight that is negative, NaN or infinite,
// or that no weight is above 0. Errors match ErrInvalid.
func ValidateWeights(legs []Leg) error {
	positive := false
	for i := range legs {
		w := legs[i].Weight
		if math.IsNaN(w) || math.IsInf(w, 0) || w < 0 {
			return invalidf("weight %v of %s: want a finite number, 0 or more", w, legName(legs, i))
		}
		positive = positive || w > 0
	}
	if !positive {
		return invalidf("weights: none of %d legs has one above 0", len(legs))
	}
	return nil
}

// scaleWeights appends the weights times the power of two that brings the
// largest into [0.5,1). Only weights 2^-1000 times smaller than the largest can
// lose bits by it.
func scaleWeights(dst []float64, legs []Leg) []float64 {
	top := 0.0
	for i := range legs {
		top = max(top, legs[i].Weight)
	}
	_, exp := math.Frexp(top)
	for i := range legs {
		dst = append(dst, math.Ldexp(legs[i].Weight, -exp))
	}
	return dst
}
