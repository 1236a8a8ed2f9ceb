package bm25

import (
	"cmp"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/bm25/pattern"
	"github.com/quarrysearch/quarry/storage"
)

// A Query says which docs match and how they score. It is a plain value: one
// of Terms, Phrase, Prefix, Pattern, Boolean, Best, Constant and Boost. Terms
// in it are final index terms; the analysis of text is the caller's.
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
	// Combined takes all fields for one, as BM25F does: tf is the sum of the
	// fields' tf, each by its boost over the mean boost and by its own length
	// norm, before it saturates; idf is that of the greatest df and of the
	// field with most docs. So a word that stands in two fields counts little
	// more than one that stands in one of them twice. Otherwise each field is
	// a clause of its own.
	Combined bool
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
//
// With LastPrefix the last of Words may go on: it stands for at most MaxTerms
// terms a field (0 means DefaultPrefixTerms), those that start with it and have
// the highest df over all segments, ties to the lesser term. Each makes a phrase,
// all of one weight, that of the most frequent term; a doc scores by the best.
type Phrase struct {
	Fields     []FieldBoost
	Words      []PhraseWord
	Slop       uint32
	LastPrefix bool
	MaxTerms   int
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
	// DefaultPatternTerms is the expansion limit of a Pattern that sets none,
	// MaxPrefixTerms the greatest.
	DefaultPatternTerms = 64
	// MaxPatternScan is the number of terms that the automata of one query may
	// read, all fields and segments together; more are ErrTooLarge. Terms that
	// an automaton skips do not count.
	MaxPatternScan = 1 << 22
	// MaxBoost is the greatest factor of Boost and score of Constant.
	MaxBoost = 1000
	// MaxClauses is the greatest number of different (field, term) pairs in a
	// query, expansions included.
	MaxClauses = 1 << 14
	// MaxDepth is the greatest nesting of queries.
	MaxDepth = 32
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

// Pattern matches docs with a term that an automaton of package pattern
// accepts: a wildcard pattern, a regular expression, or a word with errors. It
// is expanded to at most MaxTerms terms a field (0 means DefaultPatternTerms):
// those with the fewest errors, then the highest df over all segments, ties to
// the lesser term.
//
// The expansions with an equal number of errors act as one pseudo term, as in
// Prefix, but with the greatest df of all that have as many errors or fewer, so
// that a rare misspelling never outranks the word. Its weight is that of its
// idf times 1 − errors/length of the word, and a doc scores by the best of the
// pseudo terms it has.
type Pattern struct {
	Fields   []FieldBoost
	Match    []*pattern.DFA // as Terms in Word
	MaxTerms int
}

// Boolean composes queries. A doc matches when every Must and every Filter
// matches, at least MinimumShouldMatch of Should match, and no MustNot matches.
// The score is the sum over the Must and Should that match.
// MinimumShouldMatch 0 means 1 when there is no Must and no Filter, else 0.
// Without Must, Filter and Should nothing matches. With Filter and no Must every
// match gets the least score there is, 2^-20, besides that of its Should.
type Boolean struct {
	Must, Filter, Should, MustNot []Query
	MinimumShouldMatch            int
}

// Best matches docs that any of Queries matches (a disjunction maximum). The
// score is that of the best one, plus TieBreaker (0 to 1) times the others'.
// A leg score is relative to the best part, too, not to all of them.
type Best struct {
	Queries    []Query
	TieBreaker float64
}

// Constant matches the docs that Query matches, each with the score given, a
// positive number up to MaxBoost; 0 means 1.
type Constant struct {
	Query Query
	Score float64
}

// Boost multiplies the weights of Query by Factor, a positive number up to
// MaxBoost.
type Boost struct {
	Query  Query
	Factor float64
}

func (Terms) kind() string    { return "terms" }
func (Phrase) kind() string   { return "phrase" }
func (Prefix) kind() string   { return "prefix" }
func (Pattern) kind() string  { return "pattern" }
func (Boolean) kind() string  { return "boolean" }
func (Best) kind() string     { return "best" }
func (Constant) kind() string { return "constant" }
func (Boost) kind() string    { return "boost" }

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

// prefixTerms is the expansion limit of a prefix.
func prefixTerms(n int) (int, error) {
	if n < 0 || n > MaxPrefixTerms {
		return 0, storage.Invalidf("query: MaxTerms %d is out of 1…%d", n, MaxPrefixTerms)
	}
	return cmp.Or(n, DefaultPrefixTerms), nil
}

// prefixLeaf adds the leaf of a prefix that stands for the terms.
func (b *binder) prefixLeaf(l leaf, terms []int) (*node, int64, error) {
	l.kind, l.terms, l.offsets, l.idf = leafPrefix, terms, nil, IDF(b.b.fields[l.field].docs, 0)
	for _, t := range terms {
		l.idf = min(l.idf, b.idf(t))
	}
	if len(terms) == 1 {
		l.kind = leafTerm
	}
	return b.leaf(l)
}

func (b *binder) bindPrefix(q Prefix) (*node, int64, error) {
	fields, weights, err := b.fieldSet(q.Fields)
	if err != nil {
		return nil, 0, err
	}
	limit, err := prefixTerms(q.MaxTerms)
	if err != nil {
		return nil, 0, err
	}
	n := &node{op: opAny, min: 1, depth: 1}
	var sum int64
	for k, f := range fields {
		prefix, err := inField(q.Prefix, k, len(fields))
		if err != nil {
			return nil, 0, err
		}
		if prefix == nil {
			continue
		}
		terms, err := b.expand(f, prefix, limit)
		if err != nil {
			return nil, 0, err
		}
		kid, s, err := b.prefixLeaf(leaf{field: f, boost: weights[k]}, terms)
		if err != nil {
			return nil, 0, err
		}
		sum += s
		n.kids = append(n.kids, kid)
	}
	return n, sum, nil
}

// bindPattern makes a leaf of the expansions of each number of errors and joins
// those of a field by their maximum.
func (b *binder) bindPattern(q Pattern) (*node, int64, error) {
	fields, weights, err := b.fieldSet(q.Fields)
	if err != nil {
		return nil, 0, err
	}
	limit := q.MaxTerms
	if limit == 0 {
		limit = DefaultPatternTerms
	}
	if limit < 0 || limit > MaxPrefixTerms {
		return nil, 0, storage.Invalidf("query: MaxTerms %d is out of 1…%d", q.MaxTerms, MaxPrefixTerms)
	}
	n := &node{op: opAny, min: 1, depth: 1}
	var sum int64
	for k, f := range fields {
		d, err := inField(q.Match, k, len(fields))
		if err != nil {
			return nil, 0, err
		}
		if d == nil {
			continue
		}
		found, err := b.matching(f, d)
		if err != nil {
			return nil, 0, err
		}
		kid, s, err := b.bindExpansions(f, weights[k], d, found[:min(len(found), limit)])
		if err != nil {
			return nil, 0, err
		}
		sum += s
		n.kids = append(n.kids, kid)
		n.depth = max(n.depth, kid.depth+1)
	}
	return n, sum, nil
}

// bindExpansions makes the node of one field. Its part of the sum of idf is the
// weight of the word without errors, unless nothing is found: then that of a
// word no doc has.
func (b *binder) bindExpansions(field int, weight float64, d *pattern.DFA, found []expansion) (*node, int64, error) {
	n := &node{op: opMax, depth: 1}
	docs := b.b.fields[field].docs
	most := uint64(0)
	whole := fullContribution(float32(min(IDF(docs, 0)*weight*b.scale, maxWeight)))
	for errors := 0; errors <= pattern.MaxErrors; errors++ {
		l := leaf{kind: leafPrefix, field: field, boost: weight * d.Similarity(errors)}
		for _, e := range found {
			if e.errors != errors {
				continue
			}
			most = max(most, e.df)
			t, err := b.term(field, []byte(e.term))
			if err != nil {
				return nil, 0, err
			}
			l.terms = append(l.terms, t)
		}
		if len(l.terms) == 0 || l.boost <= 0 {
			continue
		}
		if l.idf = IDF(docs, most); len(n.kids) == 0 {
			whole = fullContribution(float32(min(l.idf*weight*b.scale, maxWeight)))
		}
		if len(l.terms) == 1 {
			l.kind = leafTerm
		}
		kid, full, err := b.leaf(l)
		if err != nil {
			return nil, 0, err
		}
		whole = max(whole, uint32(full))
		n.kids = append(n.kids, kid)
	}
	if len(n.kids) == 1 {
		return n.kids[0], int64(whole), nil
	}
	return n, int64(whole), nil
}

// matching lists the terms of a field that an automaton accepts, best first.
func (b *binder) matching(field int, d *pattern.DFA) ([]expansion, error) {
	found := map[string]*expansion{}
	for _, f := range b.b.fields[field].perSeg {
		if f == nil {
			continue
		}
		err := f.EachMatch(d, &b.scanned, func(term []byte, errors int, df, _ uint64) bool {
			e := found[string(term)]
			if e == nil {
				e = &expansion{term: string(term), errors: errors}
				found[e.term] = e
			}
			e.df += df
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return byFrequency(found), nil
}

// expand returns the limit most frequent terms with a prefix.
func (b *binder) expand(field int, prefix []byte, limit int) ([]int, error) {
	found := map[string]*expansion{}
	for _, f := range b.b.fields[field].perSeg {
		if f == nil {
			continue
		}
		scanned := 0
		err := f.EachTerm(prefix, func(term []byte, df, _ uint64) bool {
			e := found[string(term)]
			if e == nil {
				e = &expansion{term: string(term)}
				found[e.term] = e
			}
			e.df += df
			scanned++
			return scanned < MaxPrefixScan
		})
		if err != nil {
			return nil, err
		}
	}
	all := byFrequency(found)
	numbers := make([]int, min(len(all), limit))
	for i := range numbers {
		n, err := b.term(field, []byte(all[i].term))
		if err != nil {
			return nil, err
		}
		numbers[i] = n
	}
	return numbers, nil
}

// An expansion is a term that stands for a prefix or a pattern.
type expansion struct {
	term   string
	errors int
	df     uint64
}

// byFrequency lists expansions: fewest errors, highest df, least term first.
func byFrequency(found map[string]*expansion) []expansion {
	all := make([]expansion, 0, len(found))
	for _, e := range found {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(x, y expansion) int {
		return cmp.Or(cmp.Compare(x.errors, y.errors), cmp.Compare(y.df, x.df), cmp.Compare(x.term, y.term))
	})
	return all
}

// bindBest counts as the sum of idf what the best of the parts can reach, but
// no less than the part that takes the least for all of its words, known or not:
// that a word is unknown to some of the parts (fields of other languages, the
// stem of a misspelled word) says nothing.
func (b *binder) bindBest(q Best, depth int) (*node, int64, error) {
	if !(q.TieBreaker >= 0 && q.TieBreaker <= 1) {
		return nil, 0, storage.Invalidf("query: tie breaker %v: want 0 to 1", q.TieBreaker)
	}
	n := &node{op: opMax, tie: uint64(math.Round(q.TieBreaker * tieUnit))}
	least := int64(math.MaxInt64)
	for _, child := range q.Queries {
		kid, s, err := b.query(child, depth+1)
		if err != nil {
			return nil, 0, err
		}
		n.kids = append(n.kids, kid)
		n.depth = max(n.depth, kid.depth+1)
		least = min(least, s)
	}
	if len(n.kids) == 0 {
		least = 0
	}
	return n, max(int64(b.reach(n)), least), nil
}

// reach is the score that no doc exceeds: a leaf none of whose terms is known
// adds nothing.
func (b *binder) reach(n *node) uint64 {
	switch n.op {
	case opLeaf:
		l := &b.b.leaves[n.leaf]
		for _, t := range l.terms {
			if b.b.terms[t].df > 0 {
				return uint64(l.full)
			}
		}
		return 0
	case opConst:
		return uint64(n.raw)
	case opMax:
		scores := make([]uint64, len(n.kids))
		for i, k := range n.kids {
			scores[i] = b.reach(k)
		}
		return n.best(scores)
	}
	sum := uint64(n.raw)
	for _, kids := range [][]*node{n.kids, n.should} {
		for _, k := range kids {
			sum += b.reach(k)
		}
	}
	return sum
}

func (b *binder) bindConstant(q Constant, depth int) (*node, int64, error) {
	score := q.Score
	if score == 0 {
		score = 1
	}
	if !(score > 0 && score <= MaxBoost) || q.Query == nil {
		return nil, 0, storage.Invalidf("query: constant score %v: want a query and a number above 0, at most %d", q.Score, MaxBoost)
	}
	kid, _, err := b.query(q.Query, depth+1)
	if err != nil {
		return nil, 0, err
	}
	raw := max(int64(math.Round(min(score*b.scale, maxWeight)*Scale)), 1)
	return &node{op: opConst, kids: []*node{kid}, raw: uint32(raw), depth: kid.depth + 1}, raw, nil
}

func (b *binder) bindBoost(q Boost, depth int) (*node, int64, error) {
	if !(q.Factor > 0 && q.Factor <= MaxBoost) || q.Query == nil {
		return nil, 0, storage.Invalidf("query: boost %v: want a query and a number above 0, at most %d", q.Factor, MaxBoost)
	}
	outer := b.scale
	b.scale *= q.Factor
	n, sum, err := b.query(q.Query, depth+1)
	b.scale = outer
	return n, sum, err
}

// bindCombined makes the one leaf of a word in all fields.
func (b *binder) bindCombined(fields []int, weights []float64, word [][]byte, boost float64, repeated bool) (*node, int64, error) {
	l := leaf{kind: leafCombined, field: fields[0], boost: boost}
	docs, df := uint64(0), uint64(0)
	for k, f := range fields {
		docs = max(docs, b.b.fields[f].docs)
		if word[k] == nil {
			continue
		}
		t, err := b.term(f, word[k])
		if err != nil {
			return nil, 0, err
		}
		df = max(df, b.b.terms[t].df)
		inv := *b.b.fields[f].inv
		for i := range inv {
			inv[i] *= float32(weights[k] * float64(len(fields)))
		}
		l.terms, l.inverses = append(l.terms, t), append(l.inverses, &inv)
	}
	if b.b.unit == nil {
		b.b.unit = new([256]float32)
		for i := range b.b.unit {
			b.b.unit[i] = 1 / float32(combinedUnit)
		}
	}
	if l.idf = IDF(docs, df); repeated {
		l.boost = min(l.boost, maxWeight/l.idf/b.scale)
	}
	return b.leaf(l)
}
