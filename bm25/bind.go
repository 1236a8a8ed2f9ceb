package bm25

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// A Bound is a query with every term looked up in every segment and weights
// from the statistics of all segments together. It is immutable and safe for
// concurrent use, each search with a Scratch of its own.
type Bound struct {
	segs    int
	docs    []uint32 // docs of each segment
	fields  []boundField
	terms   []boundTerm
	entries []entry // of term t in segment s: entries[s·len(terms)+t], df 0 = absent
	leaves  []leaf
	root    *node
	idfSum  int64 // bounds every raw score
	k1      float64
	// shift makes the unit of leaves and nodes 2^shift of the usual ones, where
	// sums would not fit into 32 bits (hundreds of rare words).
	shift uint
	unit  *[256]float32 // the inverse norms of combined leaves
}

type boundField struct {
	name    string
	params  Params
	docs    uint64 // docs with the field, all segments
	length  uint64
	inv     *[256]float32
	perSeg  []*Field
	average float64
}

type boundTerm struct {
	field int
	term  string
	df    uint64
}

type leafKind uint8

const (
	leafTerm leafKind = iota
	leafPrefix
	leafPhrase
	leafCombined
)

// A leaf is what scores: a term, the expansions of a prefix as one pseudo
// term, or a phrase, each in one field; or a word in several fields together.
type leaf struct {
	kind    leafKind
	field   int
	terms   []int    // in Bound.terms
	offsets []uint32 // places of a phrase's terms, the least 0
	slop    uint32
	// inverses are, of a combined leaf, the inverse norms of each term's field
	// times the field's weight.
	inverses []*[256]float32
	idf      float64
	boost    float64 // field weight × boost × times given
	w        float32 // idf × boost
	full     uint32  // bounds the leaf's contribution
}

type nodeOp uint8

const (
	opLeaf  nodeOp = iota
	opAny          // at least min of kids
	opAll          // all of kids
	opBool         // all of must (kids) and filter, min of should, none of not
	opMax          // any of kids, scored by the best
	opConst        // the only kid, each doc with the score raw
)

type node struct {
	op     nodeOp
	leaf   int
	kids   []*node
	should []*node
	filter []*node
	not    []*node
	min    int
	raw    uint32 // opConst: the score; opBool: what each doc gets besides
	tie    uint64 // opMax: the share of the others, in units of 1/tieUnit
	depth  int    // frames needed below
}

// tieUnit is the unit of the tie breaker. Sums of fixed point are divided by it
// once, rounding down, so that the score is monotone in each part's.
const tieUnit = 1 << 16

// best is the score of a maximum from those of its parts.
func (n *node) best(scores []uint64) uint64 {
	high, sum := uint64(0), uint64(0)
	for _, s := range scores {
		high = max(high, s)
		sum += s
	}
	return high + (sum-high)*n.tie/tieUnit
}

type binder struct {
	b      *Bound
	segs   []SegmentFields
	params map[string]Params
	seen   map[string]int // field number and term → number in terms
	names  map[string]int
	found  []entry // of term t in segment s: found[t·segments+s], df 0 = absent
	scale  float64 // product of the boosts around the query at hand
	key    []byte  // of seen, at hand
	nodes  []node  // room for leaves' nodes
	ints   []int   // and for their terms
	// scanned counts the terms that automata have read.
	scanned int
}

// Bind prepares a query for a list of segments. params gives the constants of
// BM25 by field; a field that is missing there has DefaultParams. Fields that
// no segment has match nothing.
//
// Weights come from sums over all segments (docs with the field, df, total
// length), deleted docs included until a merge drops them (case C03), so a
// doc's score does not depend on the segment it lies in.
// Errors: ErrInvalid, ErrTooLarge, ErrCorrupt.
func Bind(q Query, segs []SegmentFields, params map[string]Params) (*Bound, error) {
	b := &binder{
		b: &Bound{segs: len(segs), docs: make([]uint32, len(segs))}, segs: segs, params: params,
		seen: map[string]int{}, names: map[string]int{}, scale: 1,
	}
	root, sum, err := b.query(q, 0)
	if err != nil {
		return nil, err
	}
	b.b.root, b.b.idfSum = root, sum
	if sum >= math.MaxUint32 {
		b.b.coarsen(uint(bits.Len64(uint64(sum)) - 31))
	}
	b.b.k1 = DefaultParams().K1
	if n := len(b.b.fields); n > 0 {
		k1 := 0.0
		for _, f := range b.b.fields {
			k1 += f.params.K1
		}
		b.b.k1 = k1 / float64(n)
	}
	// Terms were found one after the other; a search wants those of a segment
	// side by side.
	n := len(b.b.terms)
	b.b.entries = make([]entry, len(segs)*n)
	for t := range n {
		for s := range segs {
			b.b.entries[s*n+t] = b.found[t*len(segs)+s]
		}
	}
	return b.b, nil
}

// IDFSum returns the sum of the weights of the query, unknown terms counted:
// the score that no doc can exceed, in the unit of BM25 scores.
func (b *Bound) IDFSum() float64 { return float64(b.idfSum) / Scale }

// LegScore maps a raw score to [0, 1] by Normalize with the query's own sum of
// idf and the mean k1 of its fields.
func (b *Bound) LegScore(raw int64) float64 { return Normalize(raw, b.idfSum, b.k1) }

// query returns the node of q and its part of the sum of idf.
func (b *binder) query(q Query, depth int) (*node, int64, error) {
	if depth > MaxDepth {
		return nil, 0, fmt.Errorf("%w: query nested deeper than %d", storage.ErrTooLarge, MaxDepth)
	}
	switch q := q.(type) {
	case Terms:
		return b.bindTerms(q)
	case Phrase:
		return b.bindPhrase(q)
	case Prefix:
		return b.bindPrefix(q)
	case Pattern:
		return b.bindPattern(q)
	case Boolean:
		return b.bindBoolean(q, depth)
	case Best:
		return b.bindBest(q, depth)
	case Constant:
		return b.bindConstant(q, depth)
	case Boost:
		return b.bindBoost(q, depth)
	}
	return nil, 0, storage.Invalidf("query: unknown type %T", q)
}

func (b *binder) bindBoolean(q Boolean, depth int) (*node, int64, error) {
	if q.MinimumShouldMatch < 0 {
		return nil, 0, storage.Invalidf("query: MinimumShouldMatch is negative")
	}
	n := &node{op: opBool, min: q.MinimumShouldMatch}
	if n.min == 0 && len(q.Must)+len(q.Filter) == 0 {
		n.min = 1
	}
	if len(q.Must) == 0 && len(q.Filter) > 0 {
		n.raw = 1
	}
	sum := int64(n.raw)
	for _, part := range []struct {
		queries []Query
		to      *[]*node
		scored  bool
	}{{q.Must, &n.kids, true}, {q.Filter, &n.filter, false}, {q.Should, &n.should, true}, {q.MustNot, &n.not, false}} {
		for _, child := range part.queries {
			kid, s, err := b.query(child, depth+1)
			if err != nil {
				return nil, 0, err
			}
			*part.to = append(*part.to, kid)
			n.depth = max(n.depth, kid.depth+1)
			if part.scored {
				sum += s
			}
		}
	}
	return n, sum, nil
}

// fieldSet resolves fields and divides the boosts by their sum.
func (b *binder) fieldSet(fields []FieldBoost) (numbers []int, weights []float64, err error) {
	if len(fields) == 0 {
		return nil, nil, storage.Invalidf("query: no fields")
	}
	sum := 0.0
	for _, f := range fields {
		w := f.Boost
		if w == 0 {
			w = 1
		}
		if !(w > 0) || math.IsInf(w, 0) {
			return nil, nil, storage.Invalidf("query: boost %v of field %q", f.Boost, f.Field)
		}
		n, err := b.field(f.Field)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(numbers, n) {
			return nil, nil, storage.Invalidf("query: field %q given twice", f.Field)
		}
		sum += w
		numbers = append(numbers, n)
		weights = append(weights, w)
	}
	for i := range weights {
		weights[i] /= sum
	}
	return numbers, weights, nil
}

func (b *binder) field(name string) (int, error) {
	if n, ok := b.names[name]; ok {
		return n, nil
	}
	p, ok := b.params[name]
	if !ok {
		p = DefaultParams()
	}
	if !p.valid() {
		return 0, storage.Invalidf("params: k1 %v, b %v of field %q", p.K1, p.B, name)
	}
	f := boundField{name: name, params: p, perSeg: make([]*Field, len(b.segs))}
	some := &Field{}
	for i, s := range b.segs {
		field := s[name]
		if field == nil {
			continue
		}
		f.perSeg[i], some = field, field
		f.docs += uint64(field.stats.DocsWithField)
		f.length += field.stats.TotalLength
		b.b.docs[i] = max(b.b.docs[i], field.stats.Docs)
	}
	if f.docs > 0 {
		f.average = float64(f.length) / float64(f.docs)
	}
	f.inv = some.inverseNorms(p, f.average)
	b.names[name] = len(b.b.fields)
	b.b.fields = append(b.b.fields, f)
	return len(b.b.fields) - 1, nil
}

// term numbers a term of a field and sums its df.
func (b *binder) term(field int, term []byte) (int, error) {
	b.key = append(append(b.key[:0], byte(field), byte(field>>8)), term...)
	if n, ok := b.seen[string(b.key)]; ok {
		return n, nil
	}
	if len(b.b.terms) == MaxClauses {
		return 0, fmt.Errorf("%w: query of more than %d terms", storage.ErrTooLarge, MaxClauses)
	}
	key := string(b.key)
	t := boundTerm{field: field, term: key[2:]}
	for _, f := range b.b.fields[field].perSeg {
		var e entry
		if f != nil {
			var err error
			if e, _, err = f.lookup(term); err != nil {
				return 0, err
			}
		}
		t.df += e.df
		b.found = append(b.found, e)
	}
	b.seen[key] = len(b.b.terms)
	b.b.terms = append(b.b.terms, t)
	return len(b.b.terms) - 1, nil
}

// leaf adds a leaf and returns its node and its bound.
func (b *binder) leaf(l leaf) (*node, int64, error) {
	if len(b.b.leaves) == MaxClauses {
		return nil, 0, fmt.Errorf("%w: query of more than %d clauses", storage.ErrTooLarge, MaxClauses)
	}
	l.boost *= b.scale
	w := l.idf * l.boost
	if !(w > 0) || w > maxWeight {
		return nil, 0, storage.Invalidf("query: a weight of %v is out of (0, %d]", w, maxWeight)
	}
	l.w = max(float32(w), math.SmallestNonzeroFloat32)
	l.full = fullContribution(l.w)
	if len(b.nodes) == 0 {
		b.nodes = make([]node, roomLeaves)
	}
	n := &b.nodes[0]
	b.nodes = b.nodes[1:]
	n.leaf = len(b.b.leaves)
	b.b.leaves = append(b.b.leaves, l)
	return n, int64(l.full), nil
}

// roomLeaves is the number of leaves that memory is taken for at a time.
const roomLeaves = 8

// one makes the terms of a leaf of one term.
func (b *binder) one(term int) []int {
	if len(b.ints) == 0 {
		b.ints = make([]int, roomLeaves)
	}
	t := b.ints[:1:1]
	b.ints = b.ints[1:]
	t[0] = term
	return t
}

func (b *binder) idf(term int) float64 {
	t := &b.b.terms[term]
	return IDF(b.b.fields[t.field].docs, t.df)
}

// inField returns the term of a word in the i-th of n fields.
func inField[T any](terms []T, i, n int) (term T, err error) {
	switch len(terms) {
	case 1:
		return terms[0], nil
	case n:
		return terms[i], nil
	}
	return term, storage.Invalidf("query: a word has %d terms for %d fields", len(terms), n)
}

func (b *binder) bindTerms(q Terms) (*node, int64, error) {
	fields, weights, err := b.fieldSet(q.Fields)
	if err != nil {
		return nil, 0, err
	}
	if q.MinimumShouldMatch < 0 || q.Operator > And {
		return nil, 0, storage.Invalidf("query: MinimumShouldMatch %d, operator %d", q.MinimumShouldMatch, q.Operator)
	}
	words, boosts, repeated, err := distinctWords(q.Words, len(fields))
	if err != nil {
		return nil, 0, err
	}
	need := max(q.MinimumShouldMatch, 1)
	n := &node{op: opAny, min: need, depth: 1}
	if q.Operator == And {
		n.op, n.min = opAll, 0
	}
	if q.Combined && q.Operator == And {
		n.op = opBool // the loops of opAll are for terms alone
	}
	flat := q.Operator == Or && need == 1
	leaves := min(len(words)*len(fields), MaxClauses)
	n.kids = make([]*node, 0, leaves)
	b.b.leaves = slices.Grow(b.b.leaves, leaves)
	b.b.terms = slices.Grow(b.b.terms, leaves)
	b.found = slices.Grow(b.found, leaves*len(b.segs))
	var sum int64
	for i, word := range words {
		if q.Combined {
			kid, s, err := b.bindCombined(fields, weights, word, boosts[i], repeated[i])
			if err != nil {
				return nil, 0, err
			}
			sum += s
			n.kids = append(n.kids, kid)
			continue
		}
		first := len(n.kids)
		for k, f := range fields {
			if word[k] == nil {
				continue
			}
			t, err := b.term(f, word[k])
			if err != nil {
				return nil, 0, err
			}
			l := leaf{field: f, terms: b.one(t), idf: b.idf(t), boost: weights[k] * boosts[i]}
			if repeated[i] { // thousands of times is text, no mistake: the weight stops growing
				l.boost = min(l.boost, maxWeight/l.idf/b.scale)
			}
			kid, s, err := b.leaf(l)
			if err != nil {
				return nil, 0, err
			}
			sum += s
			n.kids = append(n.kids, kid)
		}
		if kids := n.kids[first:]; !flat && len(kids) > 1 {
			group := &node{op: opAny, min: 1, depth: 1, kids: slices.Clone(kids)}
			n.kids = append(n.kids[:first], group)
			n.depth = 2
		}
	}
	return n, sum, nil
}

// distinctWords resolves words to one term a field, without those that have
// none, and joins equal ones, whose boosts add up.
func distinctWords(words []Word, fields int) (terms [][][]byte, boosts []float64, repeated []bool, err error) {
	at := map[string]int{}
	n := min(len(words), MaxClauses)
	terms, boosts, repeated = make([][][]byte, 0, n), make([]float64, 0, n), make([]bool, 0, n)
	var room [][]byte
	var key []byte
	for _, w := range words {
		boost := w.Boost
		if boost == 0 {
			boost = 1
		}
		if !(boost > 0) || math.IsInf(boost, 0) {
			return nil, nil, nil, storage.Invalidf("query: boost %v of a word", w.Boost)
		}
		if len(room) == 0 {
			room = make([][]byte, roomLeaves*fields)
		}
		word := room[:fields:fields]
		key = key[:0]
		some := false
		for k := range fields {
			t, err := inField(w.Terms, k, fields)
			if err != nil {
				return nil, nil, nil, err
			}
			word[k] = t
			some = some || t != nil
			if t != nil {
				key = append(key, 1)
			}
			key = storage.AppendBytes(key, t)
		}
		if !some {
			continue
		}
		if i, ok := at[string(key)]; ok {
			boosts[i] += boost
			repeated[i] = true
			continue
		}
		room = room[fields:]
		at[string(key)] = len(terms)
		terms = append(terms, word)
		boosts = append(boosts, boost)
		repeated = append(repeated, false)
	}
	return terms, boosts, repeated, nil
}

func (b *binder) bindPhrase(q Phrase) (*node, int64, error) {
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
		l := leaf{kind: leafPhrase, field: f, slop: min(q.Slop, 1<<30), boost: weights[k]}
		least := uint32(math.MaxUint32)
		var start []byte // the last word, if it may go on
		for i, w := range q.Words {
			term, err := inField(w.Terms, k, len(fields))
			if err != nil {
				return nil, 0, err
			}
			if term == nil {
				continue
			}
			if q.LastPrefix && i == len(q.Words)-1 {
				start = term
			} else {
				t, err := b.term(f, term)
				if err != nil {
					return nil, 0, err
				}
				l.terms = append(l.terms, t)
				l.idf += b.idf(t)
			}
			l.offsets = append(l.offsets, w.Position)
			least = min(least, w.Position)
		}
		for i := range l.offsets {
			l.offsets[i] -= least
		}
		kid, s, err := b.phraseLeaf(l, start, limit)
		if err != nil {
			return nil, 0, err
		}
		if kid == nil {
			continue
		}
		sum += s
		n.kids = append(n.kids, kid)
		n.depth = max(n.depth, kid.depth+1)
	}
	return n, sum, nil
}

// phraseLeaf adds the leaf of a phrase in one field, or one for each term that
// its last word, start unless nil, stands for. nil for a phrase without a word.
func (b *binder) phraseLeaf(l leaf, start []byte, limit int) (*node, int64, error) {
	switch {
	case start == nil && len(l.terms) == 0:
		return nil, 0, nil
	case start == nil && len(l.terms) == 1:
		l.kind, l.offsets = leafTerm, nil
		return b.leaf(l)
	case start == nil:
		return b.leaf(l)
	}
	terms, err := b.expand(l.field, start, limit)
	if err != nil {
		return nil, 0, err
	}
	if len(l.terms) == 0 {
		return b.prefixLeaf(l, terms)
	}
	idf := IDF(b.b.fields[l.field].docs, 0)
	for _, t := range terms {
		idf = min(idf, b.idf(t))
	}
	l.idf += idf
	if len(terms) == 0 { // a phrase that no doc has
		t, err := b.term(l.field, start)
		if err != nil {
			return nil, 0, err
		}
		terms = append(terms, t)
	}
	n := &node{op: opMax, depth: 1}
	var whole int64
	for _, t := range terms {
		one := l
		one.terms = append(slices.Clone(l.terms), t)
		kid, s, err := b.leaf(one)
		if err != nil {
			return nil, 0, err
		}
		whole = s
		n.kids = append(n.kids, kid)
	}
	if len(n.kids) == 1 {
		return n.kids[0], whole, nil
	}
	return n, whole, nil
}
