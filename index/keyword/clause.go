package keyword

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/pattern"
	"github.com/quarrysearch/quarry/storage"
)

// Limits of a clause.
const (
	MaxText    = 1 << 20 // bytes of text in a tree
	MaxClauses = 4096    // nodes of a tree
	MaxDepth   = 12      // nesting
	MaxSlop    = 1000
	maxPattern = 96 // automata a tree: a word of a fuzzy text takes up to three
)

// AutoErrors is the value of Clause.Errors that goes by the length of each word:
// none up to two characters, one up to five, two above.
const AutoErrors = -1

// Operator joins the words of a clause.
type Operator string

const (
	Or  Operator = "or"  // at least MinShouldMatch words, default 1
	And Operator = "and" // every word, each in any field
)

// Join says how the fields of a clause make one score.
type Join string

const (
	JoinSum      Join = "sum"      // each field a clause of its own; the default
	JoinBest     Join = "best"     // the best field, and TieBreaker times the others
	JoinTogether Join = "together" // one field made of all (BM25F); the same as sum for phrases, prefixes and patterns
)

// A Clause is a node of a keyword query. Exactly one of Match, Phrase,
// PhrasePrefix, Term, Prefix, Fuzzy, Wildcard, Regexp, Bool, Best and Constant is
// given.
type Clause struct {
	// Match wants words of a text, Phrase all of them in order, at most Slop
	// positions apart.
	Match  string `json:"match,omitempty"`
	Phrase string `json:"phrase,omitempty"`
	// PhrasePrefix is Phrase whose last word may go on, as in "new yor*".
	PhrasePrefix string `json:"phrase_prefix,omitempty"`
	// Term wants one index term, as the analyzer has made it.
	Term string `json:"term,omitempty"`
	// Prefix is Match whose last word may go on.
	Prefix string `json:"prefix,omitempty"`
	// Fuzzy is Match whose words may have Errors errors.
	Fuzzy string `json:"fuzzy,omitempty"`
	// Wildcard wants a term with * for any characters and ? for one, Regexp one
	// that a regular expression of package regexp matches as a whole.
	Wildcard string `json:"wildcard,omitempty"`
	Regexp   string `json:"regexp,omitempty"`

	// Bool combines clauses.
	Bool *Bool `json:"bool,omitempty"`
	// Best has the score of the best of its clauses, plus TieBreaker times the
	// others'.
	Best []Clause `json:"best,omitempty"`
	// Constant gives every match of a clause the score Score (default 1).
	Constant *Clause `json:"constant,omitempty"`
	Score    float64 `json:"score,omitempty"`

	// Fields to search with their boosts; empty means those of the clause
	// around, and at the top every text field with the schema's boosts.
	Fields map[string]float64 `json:"fields,omitempty"`
	// Join and TieBreaker are those of the clause around as well, unless Join is
	// given. In a clause with Best, TieBreaker is that of its clauses.
	Join       Join    `json:"join,omitempty"`
	TieBreaker float64 `json:"tie_breaker,omitempty"`

	// Operator and MinShouldMatch hold for Match, Prefix and Fuzzy.
	Operator       Operator `json:"operator,omitempty"`
	MinShouldMatch int      `json:"min_should_match,omitempty"`
	Slop           int      `json:"slop,omitempty"`
	// Errors is how many characters of a word may be inserted, deleted,
	// replaced or swapped with their neighbor: 1, 2, or AutoErrors; 0 means
	// AutoErrors. The first PrefixLength characters must be right.
	Errors       int `json:"errors,omitempty"`
	PrefixLength int `json:"prefix_length,omitempty"`
	// MaxTerms is the number of terms that a prefix, pattern, fuzzy word or last
	// word of PhrasePrefix
	// stands for at most in a field, the best first: default 64, at most 1,024.
	MaxTerms int `json:"max_terms,omitempty"`
	// Boost multiplies the weight of the clause: default 1, at most 1,000.
	Boost float64 `json:"boost,omitempty"`
}

// Bool matches docs that match all of Must and Filter, none of MustNot and at
// least MinShouldMatch of Should; the score is the sum over Must and Should.
// MinShouldMatch 0 means 1 when there is no Must and no Filter, else 0.
type Bool struct {
	Must           []Clause `json:"must,omitempty"`
	Filter         []Clause `json:"filter,omitempty"`
	Should         []Clause `json:"should,omitempty"`
	MustNot        []Clause `json:"must_not,omitempty"`
	MinShouldMatch int      `json:"min_should_match,omitempty"`
}

// texts are the parts of a clause that are text, by name.
func (c *Clause) texts() [8]struct{ name, text string } {
	return [...]struct{ name, text string }{
		{"match", c.Match}, {"phrase", c.Phrase}, {"phrase_prefix", c.PhrasePrefix}, {"term", c.Term}, {"prefix", c.Prefix},
		{"fuzzy", c.Fuzzy}, {"wildcard", c.Wildcard}, {"regexp", c.Regexp},
	}
}

// check returns the kind of the clause and refuses what is out of range.
func (c *Clause) check() (kind, text string, err error) {
	n := 0
	for _, t := range c.texts() {
		if t.text != "" {
			kind, text = t.name, t.text
			n++
		}
	}
	for name, given := range map[string]bool{"bool": c.Bool != nil, "best": c.Best != nil, "constant": c.Constant != nil} {
		if given {
			kind = name
			n++
		}
	}
	if n != 1 {
		return "", "", storage.Invalidf("text clause: %d of match, phrase, phrase_prefix, term, prefix, fuzzy, wildcard, regexp, bool, best and constant are given: want one", n)
	}
	bad := func(format string, args ...any) error {
		return storage.Invalidf("text clause %s: %s", kind, fmt.Sprintf(format, args...))
	}
	switch {
	case !utf8.ValidString(text):
		err = bad("not UTF-8")
	case c.Operator != "" && c.Operator != Or && c.Operator != And:
		err = bad("operator %q: want %q or %q", c.Operator, Or, And)
	case c.Join != "" && c.Join != JoinSum && c.Join != JoinBest && c.Join != JoinTogether:
		err = bad("join %q: want %q, %q or %q", c.Join, JoinSum, JoinBest, JoinTogether)
	case c.MinShouldMatch < 0 || c.Bool != nil && c.Bool.MinShouldMatch < 0:
		err = bad("min_should_match is negative")
	case c.Slop < 0 || c.Slop > MaxSlop:
		err = bad("slop %d: want 0 to %d", c.Slop, MaxSlop)
	case c.Errors < AutoErrors || c.Errors > pattern.MaxErrors || c.PrefixLength < 0:
		err = bad("errors %d, prefix_length %d: want at most %d errors, and no negative length", c.Errors, c.PrefixLength, pattern.MaxErrors)
	case c.MaxTerms < 0 || c.MaxTerms > bm25.MaxPrefixTerms:
		err = bad("max_terms %d: want 0 (default) to %d", c.MaxTerms, bm25.MaxPrefixTerms)
	case !inRange(c.Boost):
		err = bad("boost %v: want a number above 0, at most %d", c.Boost, bm25.MaxBoost)
	case !inRange(c.Score):
		err = bad("score %v: want a number above 0, at most %d", c.Score, bm25.MaxBoost)
	case !(c.TieBreaker >= 0 && c.TieBreaker <= 1):
		err = bad("tie_breaker %v: want 0 to 1", c.TieBreaker)
	}
	return kind, text, err
}

// inRange tells whether x can be a factor, 0 being the default.
func inRange(x float64) bool { return x >= 0 && x <= bm25.MaxBoost && !math.IsNaN(x) }
