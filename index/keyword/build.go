package keyword

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/bm25/pattern"
	"github.com/quarrysearch/quarry/storage"
)

// A Field is a text field that may be searched.
type Field struct {
	Name     string
	Boost    float64
	Analyzer *analysis.Analyzer
}

// A Query is a clause made ready to search.
type Query struct {
	// Tree is what bm25 runs; nil when the clause asks for no word.
	Tree bm25.Query
	// Fields are the fields it searches, by name, each once.
	Fields []string
	Notes  []string

	words []matched
}

// matched is a word of the query that a text may hold, in each of some fields: a
// term, the start of one, or what automata accept.
type matched struct {
	fields []Field
	terms  [][]byte // a field; nil: none
	prefix bool
	dfas   [][]*pattern.DFA // of each form of the word, one a field; nil: none
}

type builder struct {
	all      []Field // of the schema, by name
	scratch  *analysis.Scratch
	q        *Query
	clauses  int
	text     int
	patterns int
	hidden   bool // under MustNot: no highlights
	together bool // the clause at hand joins its fields
}

// Build makes a clause ready. all are the text fields of the schema; they must
// not be empty.
// Errors: ErrInvalid, ErrTooLarge.
func Build(c *Clause, all []Field, s *analysis.Scratch) (*Query, error) {
	b := &builder{all: slices.Clone(all), scratch: s, q: &Query{}}
	slices.SortFunc(b.all, func(x, y Field) int { return cmp.Compare(x.Name, y.Name) })
	tree, err := b.clause(c, scope{fields: b.all}, 1)
	if err != nil {
		return nil, err
	}
	b.q.Tree = tree
	slices.Sort(b.q.Fields)
	b.q.Fields = slices.Compact(b.q.Fields)
	return b.q, nil
}

// A scope is what a clause takes from the one around it.
type scope struct {
	fields []Field
	join   Join
	tie    float64
}

// clause returns nil where the clause asks for no word.
func (b *builder) clause(c *Clause, around scope, depth int) (bm25.Query, error) {
	kind, text, err := c.check()
	if err != nil {
		return nil, err
	}
	if b.clauses++; b.clauses > MaxClauses || depth > MaxDepth {
		return nil, fmt.Errorf("%w: text clause %s: a tree of more than %d clauses or %d levels", storage.ErrTooLarge, kind, MaxClauses, MaxDepth)
	}
	if b.text += len(text); b.text > MaxText {
		return nil, fmt.Errorf("%w: text of more than %d bytes", storage.ErrTooLarge, MaxText)
	}
	in := around
	if in.fields, err = b.fields(c, around.fields); err != nil {
		return nil, err
	}
	if c.Join != "" {
		in.join, in.tie = c.Join, c.TieBreaker
	}
	var q bm25.Query
	switch kind {
	case "bool":
		q, err = b.boolean(c.Bool, in, depth)
	case "best":
		var kids []bm25.Query
		if kids, err = b.list(c.Best, in, depth); len(kids) > 0 {
			q = bm25.Best{Queries: kids, TieBreaker: c.TieBreaker}
		}
	case "constant":
		var kid bm25.Query
		if kid, err = b.clause(c.Constant, in, depth+1); kid != nil {
			q = bm25.Constant{Query: kid, Score: c.Score}
		}
	default:
		q, err = b.joined(c, kind, text, in)
		if q == nil && err == nil {
			b.notice("the text holds no word to search for")
		}
	}
	if err != nil || q == nil {
		return nil, err
	}
	if c.Boost != 0 && c.Boost != 1 {
		q = bm25.Boost{Query: q, Factor: c.Boost}
	}
	return q, nil
}

func (b *builder) notice(note string) {
	if !slices.Contains(b.q.Notes, note) {
		b.q.Notes = append(b.q.Notes, note)
	}
}

// fields chooses the fields of a clause.
func (b *builder) fields(c *Clause, around []Field) ([]Field, error) {
	if len(c.Fields) == 0 {
		return around, nil
	}
	var out []Field
	for name, boost := range c.Fields {
		i := slices.IndexFunc(b.all, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return nil, storage.Invalidf("text: no text field %q", name)
		}
		if !(boost > 0) || math.IsInf(boost, 0) {
			return nil, storage.Invalidf("text: boost %v of field %q: want a finite number above 0", boost, name)
		}
		out = append(out, Field{name, boost, b.all[i].Analyzer})
	}
	slices.SortFunc(out, func(x, y Field) int { return cmp.Compare(x.Name, y.Name) })
	return out, nil
}

func (b *builder) list(clauses []Clause, in scope, depth int) ([]bm25.Query, error) {
	var out []bm25.Query
	for i := range clauses {
		q, err := b.clause(&clauses[i], in, depth+1)
		if err != nil {
			return nil, err
		}
		if q != nil {
			out = append(out, q)
		}
	}
	return out, nil
}

func (b *builder) boolean(c *Bool, in scope, depth int) (bm25.Query, error) {
	q := bm25.Boolean{MinimumShouldMatch: c.MinShouldMatch}
	var err error
	if q.Must, err = b.list(c.Must, in, depth); err != nil {
		return nil, err
	}
	if q.Filter, err = b.list(c.Filter, in, depth); err != nil {
		return nil, err
	}
	if q.Should, err = b.list(c.Should, in, depth); err != nil {
		return nil, err
	}
	outer := b.hidden
	b.hidden = true
	q.MustNot, err = b.list(c.MustNot, in, depth)
	b.hidden = outer
	if err != nil {
		return nil, err
	}
	switch must, should := len(q.Must), len(q.Should); {
	case must+should+len(q.Filter) == 0:
		if len(c.MustNot) > 0 && len(c.Must)+len(c.Filter)+len(c.Should) == 0 {
			b.notice("words to leave out alone find nothing: add one to look for")
		}
		return nil, nil
	case len(q.Filter)+len(q.MustNot) > 0:
	case must == 1 && should == 0 && q.MinimumShouldMatch == 0:
		return q.Must[0], nil
	case must == 0 && should == 1 && q.MinimumShouldMatch <= 1:
		return q.Should[0], nil
	}
	return q, nil
}

// joined makes a clause of text in all its fields.
func (b *builder) joined(c *Clause, kind, text string, in scope) (bm25.Query, error) {
	fields := in.fields
	b.together = in.join == JoinTogether
	for _, f := range fields {
		b.q.Fields = append(b.q.Fields, f.Name)
	}
	if in.join != JoinBest || len(fields) == 1 {
		return b.leaf(c, kind, text, fields)
	}
	high := 0.0
	for _, f := range fields {
		high = max(high, f.Boost)
	}
	best := bm25.Best{TieBreaker: in.tie}
	for i, f := range fields {
		q, err := b.leaf(c, kind, text, fields[i:i+1])
		if err != nil {
			return nil, err
		}
		if q != nil {
			best.Queries = append(best.Queries, bm25.Boost{Query: q, Factor: max(f.Boost/high, 1e-6)})
		}
	}
	if len(best.Queries) == 0 {
		return nil, nil
	}
	return best, nil
}

func (b *builder) leaf(c *Clause, kind, text string, fields []Field) (bm25.Query, error) {
	switch kind {
	case "term":
		terms := make([][]byte, len(fields))
		for i := range terms {
			terms[i] = []byte(text)
		}
		w := []word{{terms: terms}}
		b.note(fields, w)
		return bm25.Terms{Fields: boosts(fields), Words: bm25Words(w), Combined: b.together}, nil
	case "wildcard", "regexp":
		return b.pattern(c, kind, text, fields)
	}
	words := b.analyze(fields, text, kind == "phrase" || kind == "phrase_prefix")
	if len(words) == 0 {
		return nil, nil
	}
	one := func(words []word, op bm25.Operator) bm25.Query {
		return bm25.Terms{Fields: boosts(fields), Words: bm25Words(words), Operator: op, Combined: b.together}
	}
	switch {
	case kind == "fuzzy":
		return b.fuzzy(c, text, fields, words)
	case kind == "phrase":
		b.note(fields, words)
		return phrase(fields, words, c, false), nil
	case kind == "phrase_prefix":
		b.notePrefix(fields, words)
		return phrase(fields, words, c, true), nil
	case kind == "prefix":
		return b.prefix(c, fields, words, one), nil
	}
	b.note(fields, words)
	if c.Operator == And {
		return all(words, one), nil
	}
	return bm25.Terms{Fields: boosts(fields), Words: bm25Words(words), MinimumShouldMatch: c.MinShouldMatch, Combined: b.together}, nil
}

// prefix makes the last word a prefix.
func (b *builder) prefix(c *Clause, fields []Field, words []word, one func([]word, bm25.Operator) bm25.Query) bm25.Query {
	last, rest := words[len(words)-1], words[:len(words)-1]
	b.notePrefix(fields, words)
	prefix := bm25.Prefix{Fields: boosts(fields), Prefix: last.terms, MaxTerms: c.MaxTerms}
	if c.Operator == And {
		must := []bm25.Query{prefix}
		if len(rest) > 0 {
			must = append(must, all(rest, one))
		}
		return bm25.Boolean{Must: must}
	}
	parts := []bm25.Query{prefix}
	for i := range rest {
		parts = append(parts, one(rest[i:i+1], bm25.Or))
	}
	return bm25.Boolean{Should: parts, MinimumShouldMatch: c.MinShouldMatch}
}

// pattern makes one automaton for all fields that fold alike.
func (b *builder) pattern(c *Clause, kind, text string, fields []Field) (bm25.Query, error) {
	p := bm25.Pattern{Fields: boosts(fields), MaxTerms: c.MaxTerms}
	made := map[string]*pattern.DFA{}
	for _, f := range fields {
		id := f.Analyzer.Identity()
		if made[id] == nil {
			fold := func(s string) string { return f.Analyzer.Fold(b.scratch, s) }
			compile := pattern.Wildcard
			if kind == "regexp" {
				compile = pattern.Regexp
			}
			var err error
			if made[id], err = compile(text, fold); err != nil {
				return nil, err
			}
			if b.patterns++; b.patterns > maxPattern {
				return nil, b.tooMany()
			}
		}
		p.Match = append(p.Match, made[id])
	}
	b.noteDFAs(fields, p.Match)
	return p, nil
}

func (b *builder) tooMany() error {
	return fmt.Errorf("%w: a text with more than %d patterns and fuzzy words", storage.ErrTooLarge, maxPattern)
}

// fuzzy makes a pattern of every form of every word; see analysis.Forms.
func (b *builder) fuzzy(c *Clause, text string, fields []Field, words []word) (bm25.Query, error) {
	made := map[string]*pattern.DFA{}
	automaton := func(word string) (*pattern.DFA, error) {
		errors := c.Errors
		if errors == 0 || errors == AutoErrors {
			errors = min(utf8.RuneCountInString(word)/3, pattern.MaxErrors)
		}
		if d := made[word]; d != nil {
			return d, nil
		}
		if b.patterns++; b.patterns > maxPattern {
			return nil, b.tooMany()
		}
		d, err := pattern.Fuzzy(word, errors, c.PrefixLength)
		made[word] = d
		return d, err
	}
	for i := range words {
		w := &words[i]
		var forms [][]*pattern.DFA // of each form, one a field
		for k, f := range fields {
			if w.terms[k] == nil {
				continue
			}
			for n, form := range f.Analyzer.Forms(b.scratch, text[w.start:w.end], w.terms[k]) {
				if n == len(forms) {
					forms = append(forms, make([]*pattern.DFA, len(fields)))
				}
				var err error
				if forms[n][k], err = automaton(form); err != nil {
					return nil, err
				}
			}
		}
		var best bm25.Best
		for _, match := range forms {
			best.Queries = append(best.Queries, bm25.Pattern{Fields: boosts(fields), Match: match, MaxTerms: c.MaxTerms})
		}
		if w.query = best; len(forms) == 1 {
			w.query = best.Queries[0]
		}
		b.noteDFAs(fields, forms...)
	}
	one := func(words []word, op bm25.Operator) bm25.Query {
		var kids []bm25.Query
		for i := range words {
			kids = append(kids, words[i].query)
		}
		if op == bm25.And {
			return bm25.Boolean{Must: kids}
		}
		return bm25.Boolean{Should: kids, MinimumShouldMatch: c.MinShouldMatch}
	}
	if c.Operator == And {
		return all(words, one), nil
	}
	return one(words, bm25.Or), nil
}

// note remembers words for highlights.
func (b *builder) note(fields []Field, words []word) {
	for i := 0; i < len(words) && !b.hidden; i++ {
		b.q.words = append(b.q.words, matched{fields: fields, terms: words[i].terms})
	}
}

// notePrefix is note for words of which the last may go on.
func (b *builder) notePrefix(fields []Field, words []word) {
	last := len(words) - 1
	b.note(fields, words[:last])
	if !b.hidden {
		b.q.words = append(b.q.words, matched{fields: fields, terms: words[last].terms, prefix: true})
	}
}

func (b *builder) noteDFAs(fields []Field, forms ...[]*pattern.DFA) {
	if !b.hidden {
		b.q.words = append(b.q.words, matched{fields: fields, dfas: forms})
	}
}

// Matcher tells which word of the query, counted from 0, a term of a field's
// text is, or -1; nil when no word is looked for there.
func (q *Query) Matcher(field string) func(term []byte) int {
	exact := map[string]int{}
	prefixes := map[int][]byte{}
	dfas := map[int][]*pattern.DFA{}
	for i, m := range q.words {
		k := slices.IndexFunc(m.fields, func(f Field) bool { return f.Name == field })
		switch {
		case k < 0:
		case m.terms != nil && m.terms[k] == nil:
		case m.prefix:
			prefixes[i] = m.terms[k]
		case m.terms != nil:
			exact[string(m.terms[k])] = i
		}
		for _, form := range m.dfas {
			if k >= 0 && form[k] != nil {
				dfas[i] = append(dfas[i], form[k])
			}
		}
	}
	if len(exact)+len(prefixes)+len(dfas) == 0 {
		return nil
	}
	return func(term []byte) int {
		if i, ok := exact[string(term)]; ok {
			return i
		}
		best := -1
		for i, p := range prefixes {
			if bytes.HasPrefix(term, p) && (best < 0 || i < best) {
				best = i
			}
		}
		for i, forms := range dfas {
			for _, d := range forms {
				if _, ok := d.Match(term); ok && (best < 0 || i < best) {
					best = i
				}
			}
		}
		return best
	}
}
