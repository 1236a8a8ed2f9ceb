package fusion

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// reference is the plain form of both fusions: maps, one key at a time, weights
// as given. It is the oracle for Fuser, bit for bit.
func reference(legs []Leg, constant float64, byRank bool) []Hit {
	from := map[uint64][]Source{}
	norm := 0.0
	for l, leg := range legs {
		if byRank {
			norm += leg.Weight / (constant + 1)
		} else {
			norm += leg.Weight
		}
		rank := 0
		for _, it := range leg.Items {
			if from[it.Key] == nil {
				from[it.Key] = make([]Source, len(legs))
			}
			if s := &from[it.Key][l]; s.Rank == 0 {
				rank++
				*s = Source{Rank: rank, Raw: it.Raw, Score: it.Score}
			}
		}
	}
	var hits []Hit
	for key, sources := range from {
		sum, found := 0.0, false
		for l, leg := range legs {
			if s := &sources[l]; s.Rank > 0 && leg.Weight > 0 {
				part := leg.Weight / (constant + float64(s.Rank))
				if !byRank {
					part = float64(leg.Weight * s.Score)
				}
				sum += part
				s.Part = part / norm
				found = true
			}
		}
		if found {
			hits = append(hits, Hit{Key: key, Score: sum / norm, From: sources})
		}
	}
	sort.Slice(hits, func(i, j int) bool {
		if hits[i].Score != hits[j].Score {
			return hits[i].Score > hits[j].Score
		}
		return hits[i].Key < hits[j].Key
	})
	return hits
}

func drawLegs(t *rapid.T) []Leg {
	legs := make([]Leg, rapid.IntRange(1, 4).Draw(t, "legs"))
	item := rapid.Custom(func(t *rapid.T) Item {
		return Item{
			Key:   rapid.Uint64Range(0, 3).Draw(t, "segment")<<32 | rapid.Uint64Range(0, 9).Draw(t, "doc"),
			Score: rapid.SampledFrom([]float64{0, .1, .25, .3, .5, .7, 1}).Draw(t, "score"),
			Raw:   rapid.Float64Range(-10, 10).Draw(t, "raw"),
		}
	})
	for i := range legs {
		legs[i].Weight = rapid.SampledFrom([]float64{0, .3, .7, 1, 1, 2.5}).Draw(t, "weight")
		legs[i].Items = rapid.SliceOfN(item, 0, 30).Draw(t, "items")
	}
	legs[0].Weight += 1
	return legs
}

func TestEqualsReference(t *testing.T) {
	var shared Fuser
	rapid.Check(t, func(t *rapid.T) {
		legs := drawLegs(t)
		constant := rapid.SampledFrom([]int{0, 1, 60, 1000}).Draw(t, "constant")
		o := Options{RankConstant: constant}
		for _, byRank := range []bool{true, false} {
			fuse := shared.Weighted
			if byRank {
				fuse = shared.RRF
			}
			got, err := fuse(legs, o)
			if err != nil {
				t.Fatal(err)
			}
			want := reference(legs, o.rankConstant(), byRank)
			if g, w := fmt.Sprint(got), fmt.Sprint(want); len(want) > 0 && g != w || len(got) != len(want) {
				t.Fatalf("by rank %v:\ngot  %s\nwant %s", byRank, g, w)
			}
			for i, h := range got {
				if !(h.Score >= 0 && h.Score <= 1) {
					t.Fatalf("score %v out of bounds", h.Score)
				}
				if i > 0 && got[i-1].Score < h.Score {
					t.Fatalf("score %v after %v", h.Score, got[i-1].Score)
				}
			}
		}
	})
}

// The order of legs, of keys and of what came before changes nothing but the
// last bits of a sum.
func TestIndependentOfOrderAndKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		legs := drawLegs(t)
		base, err := new(Fuser).RRF(legs, Options{})
		if err != nil {
			t.Fatal(err)
		}
		scores := map[uint64]float64{}
		for _, h := range base {
			scores[h.Key] = h.Score
		}

		order := rapid.Permutation([]int{0, 1, 2, 3}[:len(legs)]).Draw(t, "leg order")
		shuffled := make([]Leg, len(legs))
		for i, o := range order {
			shuffled[i] = legs[o]
		}
		hits, err := new(Fuser).RRF(shuffled, Options{})
		if err != nil || len(hits) != len(base) {
			t.Fatalf("shuffled legs: %d hits, %v, want %d", len(hits), err, len(base))
		}
		for _, h := range hits {
			if math.Abs(h.Score-scores[h.Key]) > 1e-15 {
				t.Fatalf("shuffled legs: score %v of %d, want %v", h.Score, h.Key, scores[h.Key])
			}
		}

		// Keys scattered over uint64: other places in the table, same answer.
		mix := rapid.Uint64().Draw(t, "mix")
		relabel := func(k uint64) uint64 { return k ^ mix }
		renamed := make([]Leg, len(legs))
		for i, l := range legs {
			renamed[i] = Leg{Weight: l.Weight, Items: slices.Clone(l.Items)}
			for j := range l.Items {
				renamed[i].Items[j].Key = relabel(l.Items[j].Key)
			}
		}
		hits, err = new(Fuser).RRF(renamed, Options{Compare: func(a, b uint64) int {
			if relabel(a) < relabel(b) {
				return -1
			}
			return 1
		}})
		if err != nil || len(hits) != len(base) {
			t.Fatalf("renamed keys: %d hits, %v, want %d", len(hits), err, len(base))
		}
		for i, h := range hits {
			if relabel(h.Key) != base[i].Key || h.Score != base[i].Score {
				t.Fatalf("renamed keys: hit %d is %d (%v), want %d (%v)", i, relabel(h.Key), h.Score, base[i].Key, base[i].Score)
			}
		}
	})
}

// Moving an item up in one leg never lowers its score; a repeat of a key further
// down changes nothing.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		legs := drawLegs(t)
		l := rapid.IntRange(0, len(legs)-1).Draw(t, "leg")
		if len(legs[l].Items) == 0 {
			return
		}
		at := rapid.IntRange(0, len(legs[l].Items)-1).Draw(t, "from")
		to := rapid.IntRange(0, at).Draw(t, "to")
		key := legs[l].Items[at].Key
		score := func(legs []Leg) float64 {
			hits, err := new(Fuser).RRF(legs, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hits {
				if h.Key == key {
					return h.Score
				}
			}
			return 0
		}
		before := score(legs)
		repeated := slices.Clone(legs)
		repeated[l].Items = append(slices.Clone(legs[l].Items), legs[l].Items[at])
		if got := score(repeated); got != before {
			t.Fatalf("a repeat moved the score from %v to %v", before, got)
		}
		moved := slices.Clone(legs)
		items := slices.Clone(legs[l].Items)
		it := items[at]
		moved[l].Items = slices.Insert(slices.Delete(items, at, at+1), to, it)
		if after := score(moved); after < before {
			t.Fatalf("moved from %d to %d in leg %d: score fell from %v to %v", at, to, l, before, after)
		}
	})
}
