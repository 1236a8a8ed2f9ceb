package bench

import (
	"fmt"
	"math"
	"slices"
)

// RecallAt is the share of truth's first k rows that found's first k hold. A row
// found twice counts once. k must be at least 1 and at most len(truth).
func RecallAt(found, truth []int32, k int) float64 {
	found, truth = found[:min(k, len(found))], truth[:k]
	hits := 0
	for _, t := range truth {
		if slices.Contains(found, t) {
			hits++
		}
	}
	return float64(hits) / float64(k)
}

// A Judged is one query's ranking seen through its judgements.
type Judged struct {
	grades []int // by rank, 0 when not judged or judged not relevant
	ideal  []int // every grade above 0, best first
}

// Judge looks up the grades of ranked document ids, best first. A repeated id
// is an error: it would count twice.
func Judge(ranked []string, judgements map[string]int) (Judged, error) {
	j := Judged{grades: make([]int, len(ranked))}
	seen := make(map[string]bool, len(ranked))
	for i, id := range ranked {
		if seen[id] {
			return Judged{}, fmt.Errorf("bench: document %q at rank %d was ranked before", id, i+1)
		}
		seen[id] = true
		j.grades[i] = max(0, judgements[id])
	}
	for _, grade := range judgements {
		if grade > 0 {
			j.ideal = append(j.ideal, grade)
		}
	}
	slices.Sort(j.ideal) // map order ends here
	slices.Reverse(j.ideal)
	return j, nil
}

// Relevant counts the documents with a grade above 0.
func (j Judged) Relevant() int { return len(j.ideal) }

// NDCG is nDCG@k as the package comment defines it; 0 when nothing is relevant.
func (j Judged) NDCG(k int) float64 {
	if len(j.ideal) == 0 {
		return 0
	}
	return dcg(j.grades, k) / dcg(j.ideal, k)
}

func dcg(grades []int, k int) float64 {
	sum := 0.0
	for i, g := range grades[:min(k, len(grades))] {
		sum += float64(g) / math.Log2(float64(i+2))
	}
	return sum
}

// AP is the average precision over the whole ranking; 0 when nothing is
// relevant.
func (j Judged) AP() float64 {
	if len(j.ideal) == 0 {
		return 0
	}
	sum, found := 0.0, 0
	for i, g := range j.grades {
		if g > 0 {
			found++
			sum += float64(found) / float64(i+1)
		}
	}
	return sum / float64(len(j.ideal))
}

// Recall is the share of the relevant documents in the first k; 0 when nothing
// is relevant.
func (j Judged) Recall(k int) float64 {
	if len(j.ideal) == 0 {
		return 0
	}
	found := 0
	for _, g := range j.grades[:min(k, len(j.grades))] {
		if g > 0 {
			found++
		}
	}
	return float64(found) / float64(len(j.ideal))
}

// RR is one over the rank of the first relevant document, 0 when none is in the
// first k.
func (j Judged) RR(k int) float64 {
	for i, g := range j.grades[:min(k, len(j.grades))] {
		if g > 0 {
			return 1 / float64(i+1)
		}
	}
	return 0
}
