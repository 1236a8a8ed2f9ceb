package cluster

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/index/querystring"
	"github.com/quarrysearch/quarry/storage"
)

// Limits of the keyword leg.
const (
	maxWords  = 1024
	maxChoose = 8 // words of which some but not all must match
	noWord    = "the text holds no word to search for"
)

// A keywords is a text query made ready for the cluster: what is ranked by, and
// which documents match.
type keywords struct {
	query   *keyword.Query // nil: the text asks for no word
	match   where
	ranking bool // the ranking matches what match does, and no more
	words   []word
	props   []string // with their boosts
	k1      float64
}

// A word is one word of the query in every field, for its frequency.
type word struct {
	terms []string // to send, each once
	is    where
}

// analysisScratch keeps the caches of stemmed words warm.
var analysisScratch = sync.Pool{New: func() any { return new(analysis.Scratch) }}

// keywords builds a text query.
func (l *layout) keywords(q *index.TextQuery) (*keywords, []string, error) {
	if len(l.text) == 0 {
		return nil, nil, storage.Invalidf("text: the schema has no text field")
	}
	c, notes, err := l.clause(q)
	if err != nil || c == nil {
		return &keywords{match: nothing()}, notes, err
	}
	fields := make([]keyword.Field, len(l.schema.Text))
	for i, f := range l.schema.Text {
		fields[i] = keyword.Field{Name: f.Name, Boost: f.Boost, Analyzer: l.text[f.Name].analyzer}
	}
	scratch := analysisScratch.Get().(*analysis.Scratch)
	defer analysisScratch.Put(scratch)
	k := &keywords{k1: number(l.schema.Text[0].K1, 1.2)}
	if k.query, err = keyword.Build(c, fields, scratch); err != nil {
		return nil, nil, err
	}
	notes = append(notes, k.query.Notes...)
	if k.query.Tree == nil {
		k.query, k.match = nil, nothing()
		return k, append(notes, noWord), nil
	}
	t := translation{l: l, boosts: make(map[string]float64)}
	if k.match, err = t.query(k.query.Tree, true); err != nil {
		return nil, nil, err
	}
	if len(t.words) > maxWords {
		return nil, nil, fmt.Errorf("%w: text: %d words, a cluster takes %d", storage.ErrTooLarge, len(t.words), maxWords)
	}
	root, plain := k.query.Tree.(bm25.Terms)
	k.ranking = plain && root.Operator == bm25.Or && root.MinimumShouldMatch <= 1 && !t.differ
	k.words = t.words
	k.props, err = t.props()
	return k, notes, err
}

// clause makes one clause of whatever the query holds; nil when that is no text.
func (l *layout) clause(q *index.TextQuery) (*keyword.Clause, []string, error) {
	given := 0
	for _, is := range []bool{q.Text != "", q.QueryString != "", q.Clause != nil} {
		if is {
			given++
		}
	}
	text := q.Text + q.QueryString
	switch {
	case given > 1:
		return nil, nil, storage.Invalidf("text: more than one of text, query string and clause is given")
	case len(text) > index.MaxQueryText || !utf8.ValidString(text):
		return nil, nil, storage.Invalidf("text of %d bytes: want UTF-8, at most %d", len(text), index.MaxQueryText)
	case q.Operator > index.And || q.MinShouldMatch < 0:
		return nil, nil, storage.Invalidf("operator %d, minimum should match %d: out of range", q.Operator, q.MinShouldMatch)
	case q.Phrase:
		return nil, nil, unsupported("a phrase")
	case q.Prefix:
		return nil, nil, unsupported("a word that is a prefix")
	}
	op := keyword.Or
	if q.Operator == index.And {
		op = keyword.And
	}
	var c *keyword.Clause
	var notes []string
	switch {
	case q.Clause != nil:
		c = &keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{*q.Clause}}}
	case q.QueryString != "":
		known := func(field string) bool { return l.text[field].analyzer != nil }
		if c, notes = querystring.Parse(q.QueryString, querystring.Options{Operator: op, Field: known}); c != nil {
			c = &keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{*c}}}
		}
	case q.Text != "":
		c = &keyword.Clause{Match: q.Text, Operator: op, MinShouldMatch: q.MinShouldMatch}
	}
	if c == nil {
		return nil, append(notes, noWord), nil
	}
	c.Fields, c.Join, c.TieBreaker = q.Fields, q.Join, q.TieBreaker
	return c, notes, nil
}

// unsupported is the error of a query that an Index answers and a cluster does
// not.
func unsupported(what string) error {
	return storage.Invalidf("a cluster does not search for %s", what)
}

// A translation walks a query tree.
type translation struct {
	l      *layout
	words  []word
	boosts map[string]float64 // of the fields that are ranked by
	differ bool               // a word has several terms, one a field
}

// query is the condition that a query puts on documents; scored tells that its
// words are ranked by.
func (t *translation) query(q bm25.Query, scored bool) (where, error) {
	switch q := q.(type) {
	case bm25.Terms:
		return t.terms(&q, scored)
	case bm25.Boolean:
		return t.boolean(&q, scored)
	case bm25.Boost:
		if q.Factor != 1 {
			return where{}, unsupported("a clause with a boost of its own")
		}
		return t.query(q.Query, scored)
	case bm25.Phrase:
		return where{}, unsupported("a phrase")
	case bm25.Prefix, bm25.Pattern:
		return where{}, unsupported("a prefix, pattern or word with errors")
	case bm25.Best:
		return where{}, unsupported("the best of several fields or clauses (best), or a word with errors")
	case bm25.Constant:
		return where{}, unsupported("a clause of constant score")
	}
	return where{}, unsupported(fmt.Sprintf("a clause of type %T", q))
}

func (t *translation) boolean(q *bm25.Boolean, scored bool) (where, error) {
	if len(q.Filter) > 0 && len(q.Must) == 0 {
		return where{}, unsupported("a bool clause with filter and without must")
	}
	list := func(qs []bm25.Query, scored bool) (out []where, err error) {
		for _, sub := range qs {
			w, err := t.query(sub, scored)
			if err != nil {
				return nil, err
			}
			out = append(out, w)
		}
		return out, nil
	}
	all, err := list(q.Must, scored)
	if err != nil {
		return where{}, err
	}
	more, err := list(q.Filter, false)
	if err != nil {
		return where{}, err
	}
	should, err := list(q.Should, scored)
	if err != nil {
		return where{}, err
	}
	no, err := list(q.MustNot, false)
	if err != nil {
		return where{}, err
	}
	all = append(all, more...)
	least := q.MinimumShouldMatch
	if least == 0 && len(all) == 0 {
		least = 1
	}
	if least > 0 {
		w, err := choose(should, least)
		if err != nil {
			return where{}, err
		}
		all = append(all, w)
	}
	for _, w := range no {
		all = append(all, not(w))
	}
	return allOf(all...), nil
}

func (t *translation) terms(q *bm25.Terms, scored bool) (where, error) {
	if scored {
		for _, f := range q.Fields {
			t.boosts[f.Field] = or(f.Boost, 1)
		}
	}
	var parts []where
	for _, w := range q.Words {
		if w.Boost != 0 && w.Boost != 1 {
			return where{}, unsupported("a word with a boost of its own")
		}
		var terms []string
		var any []where
		for i, f := range q.Fields {
			term := w.Terms[min(i, len(w.Terms)-1)]
			if term == nil {
				t.differ = true
				continue
			}
			s := string(appendTerm(nil, term))
			if !slices.Contains(terms, s) {
				terms = append(terms, s)
			}
			any = append(any, equal(t.l.text[f.Field].prop, s))
		}
		t.differ = t.differ || len(terms) > 1
		is := oneOf(any...)
		if scored {
			t.words = append(t.words, word{terms, is})
		}
		if !slices.ContainsFunc(parts, func(p where) bool { return equalWhere(&p, &is) }) {
			parts = append(parts, is)
		}
	}
	if q.Operator == bm25.And {
		return choose(parts, len(parts))
	}
	return choose(parts, max(q.MinimumShouldMatch, 1))
}

func equalWhere(a, b *where) bool { return string(a.json(nil)) == string(b.json(nil)) }

// choose wants least of the conditions.
func choose(parts []where, least int) (where, error) {
	switch {
	case least > len(parts) || len(parts) == 0:
		return nothing(), nil
	case least == 1:
		return oneOf(parts...), nil
	case least == len(parts):
		return allOf(parts...), nil
	case len(parts) > maxChoose:
		return where{}, unsupported(fmt.Sprintf("%d of %d words or clauses: only for one, for all, or for some of at most %d", least, len(parts), maxChoose))
	}
	with, err := choose(parts[1:], least-1)
	if err != nil {
		return where{}, err
	}
	without, err := choose(parts[1:], least)
	return oneOf(allOf(parts[0], with), without), err
}

// props are the properties to rank by, with boosts, which the cluster takes as
// whole numbers only.
func (t *translation) props() ([]string, error) {
	var fields []string
	var boosts []float64
	for _, f := range t.l.schema.Text {
		if b, ok := t.boosts[f.Name]; ok {
			fields, boosts = append(fields, f.Name), append(boosts, b)
		}
	}
	whole, ok := integers(boosts)
	if !ok {
		return nil, storage.Invalidf("text: boosts %v of the fields %s: a cluster takes whole numbers and their like", boosts, strings.Join(fields, ", "))
	}
	out := make([]string, len(fields))
	for i, f := range fields {
		if out[i] = t.l.text[f].prop; whole[i] > 1 {
			out[i] += "^" + strconv.Itoa(whole[i])
		}
	}
	return out, nil
}

// text is what is sent to be ranked by. A word that is given twice is sent twice.
func (k *keywords) text() string {
	var b strings.Builder
	for _, w := range k.words {
		for _, t := range w.terms {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(t)
		}
	}
	return b.String()
}

// idf is that of BM25, of a word in n of all documents.
func idf(all, n int) float64 {
	n = min(n, all)
	return math.Log(1 + (float64(all-n)+0.5)/(float64(n)+0.5))
}

// within draws values near 1 and above it into [0, 1) and keeps their order: by the
// statistics of its shard a document may have more than Σ idf of the collection.
func within(x float64) float64 {
	const from = 0.9
	if x <= from {
		return x
	}
	return 1 - (1-from)*math.Exp((from-x)/(1-from))
}

// counts remembers for a moment how many documents hold a word.
type counts struct {
	mu sync.Mutex
	of map[string]counted
}

type counted struct {
	n  int
	at time.Time
}

const (
	countsLife = 5 * time.Second
	maxCounts  = 1 << 14
)

func (c *counts) get(name string, now time.Time) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.of[name]
	return e.n, ok && now.Sub(e.at) < countsLife
}

func (c *counts) put(name string, n int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= maxCounts {
		c.of = make(map[string]counted)
	}
	c.of[name] = counted{n, now}
}
