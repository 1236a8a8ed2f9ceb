package keyword

import (
	"cmp"
	"slices"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/analysis"
)

// A word is one token of a text, as each field's analyzer gives it.
type word struct {
	start, end int
	terms      [][]byte // a field, in the order of the fields; nil: none
	positions  []uint32
	boost      float64    // 0: 1
	query      bm25.Query // of a fuzzy word
}

// analyze makes the words. Fields with one analyzer share its work; tokens of
// different analyzers are one word when they cover the same bytes.
func (b *builder) analyze(fields []Field, text string, phrase bool) []word {
	var words []word
	done := map[string]int{} // analyzer → field whose terms to share
	// cover leads from bytes to words, in order, where analyzers differ.
	var cover map[[2]int][]int
	if slices.ContainsFunc(fields, func(f Field) bool { return f.Analyzer.Identity() != fields[0].Analyzer.Identity() }) {
		cover = map[[2]int][]int{}
	}
	for i, f := range fields {
		a := f.Analyzer
		if j, ok := done[a.Identity()]; ok {
			for w := range words {
				words[w].terms[i], words[w].positions[i] = words[w].terms[j], words[w].positions[j]
			}
			continue
		}
		done[a.Identity()] = i
		tokens := a.QueryTokens
		if phrase {
			tokens = a.PhraseTokens
		}
		tokens(b.scratch, text, func(tok *analysis.Token) {
			key := [2]int{tok.Start, tok.End}
			at := -1
			for _, w := range cover[key] {
				if words[w].terms[i] == nil {
					at = w
					break
				}
			}
			if at < 0 {
				at = len(words)
				words = append(words, word{
					start: tok.Start, end: tok.End,
					terms: make([][]byte, len(fields)), positions: make([]uint32, len(fields)),
				})
				if cover != nil {
					cover[key] = append(cover[key], at)
				}
			}
			words[at].terms[i] = slices.Clone(tok.Term)
			words[at].positions[i] = tok.Position
			if tok.Couple {
				words[at].boost = coupleBoost
			}
		})
	}
	return words
}

// coupleBoost is the weight of two words as one term beside each of them. XQuAD
// vi, MRR@10: .9477 without such terms, .9547 with a weight of 0.35, .9544 with
// 0.5, .9522 with 0.7, .9491 with 1.
const coupleBoost = 0.5

func boosts(fields []Field) []bm25.FieldBoost {
	out := make([]bm25.FieldBoost, len(fields))
	for i, f := range fields {
		out[i] = bm25.FieldBoost{Field: f.Name, Boost: f.Boost}
	}
	return out
}

func bm25Words(words []word) []bm25.Word {
	out := make([]bm25.Word, len(words))
	for i := range words {
		out[i].Terms, out[i].Boost = words[i].terms, words[i].boost
	}
	return out
}

// all wants every word. A token that covers others, as a whole identifier
// covers its parts, is wanted itself or all it covers: And must not ask for
// more than the text says. one makes the query of some words.
func all(words []word, one func(words []word, op bm25.Operator) bm25.Query) bm25.Query {
	words = slices.Clone(words)
	slices.SortStableFunc(words, func(a, b word) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var single []word
	var must []bm25.Query
	for i := 0; i < len(words); {
		j := i + 1
		for j < len(words) && words[j].end <= words[i].end {
			j++
		}
		if j == i+1 {
			single = append(single, words[i])
		} else {
			must = append(must, bm25.Boolean{Should: []bm25.Query{
				one(words[i:i+1], bm25.Or), one(words[i+1:j], bm25.And),
			}})
		}
		i = j
	}
	if len(single) > 0 {
		must = append(must, one(single, bm25.And))
	}
	if len(must) == 1 {
		return must[0]
	}
	return bm25.Boolean{Must: must}
}

// phrase makes one phrase for each group of fields whose analyzers put the
// words at the same positions: a phrase matches within one field, and
// positions of different analyzers do not compare. prefix lets the last word go
// on.
func phrase(fields []Field, words []word, c *Clause, prefix bool) bm25.Query {
	var parts []bm25.Query
	taken := make([]bool, len(fields))
	all := boosts(fields)
	for i := range fields {
		if taken[i] {
			continue
		}
		p := bm25.Phrase{Slop: uint32(c.Slop), LastPrefix: prefix, MaxTerms: c.MaxTerms}
		var members []int
		for j := i; j < len(fields); j++ {
			if !taken[j] && samePositions(words, i, j) {
				taken[j] = true
				members = append(members, j)
				p.Fields = append(p.Fields, all[j])
			}
		}
		for w := range words {
			if words[w].terms[i] == nil {
				continue
			}
			pw := bm25.PhraseWord{Position: words[w].positions[i]}
			for _, j := range members {
				pw.Terms = append(pw.Terms, words[w].terms[j])
			}
			p.Words = append(p.Words, pw)
		}
		// Words that only some analyzers make stand behind the others.
		slices.SortStableFunc(p.Words, func(a, b bm25.PhraseWord) int { return cmp.Compare(a.Position, b.Position) })
		if len(p.Words) > 0 {
			parts = append(parts, p)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return bm25.Boolean{Should: parts}
}

func samePositions(words []word, i, j int) bool {
	for w := range words {
		x := &words[w]
		if (x.terms[i] == nil) != (x.terms[j] == nil) || x.positions[i] != x.positions[j] {
			return false
		}
	}
	return true
}
