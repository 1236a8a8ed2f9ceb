package bm25

import "math"

// A Query says which docs match and how they score. It is a plain value: one
// of Terms, Phrase, Prefix and Boolean. Terms in it are final index terms; the
// analysis of text is the caller's.
type Query interface{ kind() string }

// A FieldBoost names a field to search. Boosts are relative: Bind divides them
// by their sum, so that two fields of boost 1 weigh one half each. Boost 0
// means 1; a negative or infinite boost is ErrInvalid.
type FieldBoost struct {
	Field string
	Boost float64
}

// An Operator joins the words of Terms.
type Operator uint8

const (
	// Or matches a doc with at least one of the words (or as many as
	// MinimumShouldMatch says). It is the default.
	Or Operator = iota
	// And matches a doc with every word, each in at least one field.
	And
)

// A Word is one word of a query in every field searched. Terms has one term
// for each field, in the order of Fields, or a single one that holds for all.
// A nil term means that the field's analyzer dropped the word: the word cannot
// match there and adds nothing to IDFSum.
type Word struct {
	Terms [][]byte
	// Boost multiplies the word's weight; 0 means 1.
	Boost float64
}

// Words makes one Word, the same in all fields, of every term.
func Words(terms ...string) []Word {
	words := make([]Word, len(terms))
	for i, t := range terms {
		words[i].Terms = [][]byte{[]byte(t)}
	}
	return words
}

// Terms matches docs by words. Its score is the sum over words and fields.
// The same word given twice counts as one of double weight.
type Terms struct {
	Fields   []FieldBoost
	Words    []Word
	Operator Operator
	// MinimumShouldMatch is the number of different words a doc must have
	// when Operator is Or. 0 means 1; more than there are words matches
	// nothing.
	MinimumShouldMatch int
}

// A PhraseWord is a word of a phrase and its place, counted from any origin.
// Gaps between places (dropped stop words) are kept.
type PhraseWord struct {
	Terms    [][]byte // as in Word
	Position uint32
}

// Phrase matches docs where the words stand in order in one of the fields. A
// doc's phrase frequency takes the place of tf, and the sum of the words' idf
// that of idf.
//
// With Slop 0 every word must stand exactly at its place. With Slop s, a match
// is a choice of one occurrence of each word such that the differences between
// position and place span at most s. Matches are counted greedily from left to
// right, each using up an occurrence of every word, so the frequency is at most
// the smallest tf. In one match, equal words use different occurrences.
type Phrase struct {
	Fields []FieldBoost
	Words  []PhraseWord
	Slop   uint32
}

// PhraseOf makes the words of a phrase that stand side by side, the same in
// all fields.
func PhraseOf(terms ...string) []PhraseWord {
	words := make([]PhraseWord, len(terms))
	for i, t := range terms {
		words[i] = PhraseWord{Terms: [][]byte{[]byte(t)}, Position: uint32(i)}
	}
	return words
}

const (
	// DefaultPrefixTerms is the expansion limit of a Prefix that sets none.
	DefaultPrefixTerms = 64
	// MaxPrefixTerms is the greatest expansion limit.
	MaxPrefixTerms = 1024
	// MaxPrefixScan is the number of terms of one segment and field that an
	// expansion looks at, in order; terms after them are not candidates.
	MaxPrefixScan = 1 << 16
	// MaxClauses is the greatest number of different (field, term) pairs in a
	// query, expansions included.
	MaxClauses = 1 << 14
	// MaxDepth is the greatest nesting of Boolean.
	MaxDepth = 16
)

// Prefix matches docs with a term that starts with Prefix. It is expanded to
// at most MaxTerms terms a field (0 means DefaultPrefixTerms): those with the
// highest df over all segments, ties to the lesser term. All expansions
// together act as one pseudo term: its tf is the sum of theirs, its df the
// greatest of theirs, as in Lucene's SynonymQuery, so that a rare misspelling
// never outranks the common word.
type Prefix struct {
	Fields   []FieldBoost
	Prefix   [][]byte // as Terms in Word
	MaxTerms int
}

// Boolean composes queries. A doc matches when every Must matches, at least
// MinimumShouldMatch of Should match, and no MustNot matches. The score is the
// sum over the Must and Should that match. MinimumShouldMatch 0 means 1 when
// there is no Must, else 0. Without Must and Should nothing matches.
type Boolean struct {
	Must, Should, MustNot []Query
	MinimumShouldMatch    int
}

func (Terms) kind() string   { return "terms" }
func (Phrase) kind() string  { return "phrase" }
func (Prefix) kind() string  { return "prefix" }
func (Boolean) kind() string { return "boolean" }

// SegmentFields are the fields of one segment by name. A field that the
// segment lacks is absent.
type SegmentFields map[string]*Field

// Params are the constants of BM25 for one field.
type Params struct {
	K1 float64 // 0 or more, saturation of tf
	B  float64 // 0 to 1, strength of the length norm
}

// DefaultParams are k1 = 1.2 and b = 0.75, as in Lucene.
func DefaultParams() Params { return Params{K1: 1.2, B: 0.75} }

func (p Params) valid() bool {
	return p.K1 >= 0 && p.K1 <= 1000 && p.B >= 0 && p.B <= 1 && !math.IsNaN(p.K1)
}
