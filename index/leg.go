package index

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/hnsw/quant"
)

var (
	analysisScratch = sync.Pool{New: func() any { return new(analysis.Scratch) }}
	textScratch     = sync.Pool{New: func() any { return new(bm25.Scratch) }}
	vectorScratch   = sync.Pool{New: func() any { return new(hnsw.Scratch) }}
)

// A textLeg is the keyword part of a query, bound to the snapshot: every term
// looked up in every view, weights from the statistics of all of them.
type textLeg struct {
	fields []bm25.FieldBoost // by name
	words  []word
	prefix bool
	bound  *bm25.Bound // nil: the text has no term, nothing matches
}

// A word is one token of the query text, as each field's analyzer gives it.
type word struct {
	start, end int
	terms      [][]byte // a field, in the order of textLeg.fields; nil: none
	positions  []uint32
}

func (s *search) newTextLeg(q *TextQuery) (*textLeg, error) {
	switch {
	case len(q.Text) > MaxQueryText:
		return nil, invalidf("text of %d bytes, the limit is %d", len(q.Text), MaxQueryText)
	case !utf8.ValidString(q.Text):
		return nil, invalidf("text is not UTF-8")
	case q.Operator > And:
		return nil, invalidf("operator %d is unknown", q.Operator)
	case q.MinShouldMatch < 0 || q.Slop < 0 || q.Slop > 1000:
		return nil, invalidf("minimum should match %d and slop %d: want at least 0, slop at most 1,000", q.MinShouldMatch, q.Slop)
	case q.Phrase && q.Prefix:
		return nil, invalidf("a phrase whose last word is a prefix is not supported")
	}
	if err := checkWeight("text", q.Weight); err != nil {
		return nil, err
	}
	t := &textLeg{prefix: q.Prefix}
	if err := t.chooseFields(s.snap.schema, q.Fields); err != nil {
		return nil, err
	}
	t.analyze(s.snap.schema, q)
	if len(t.words) == 0 {
		s.notes = append(s.notes, "the text holds no word to search for")
		return t, nil
	}
	segs := make([]bm25.SegmentFields, len(s.views))
	for i, v := range s.views {
		segs[i] = v.Text
	}
	params := make(map[string]bm25.Params, len(t.fields))
	for _, f := range t.fields {
		tf := s.snap.schema.text[f.Field]
		params[f.Field] = bm25.Params{K1: tf.k1, B: tf.b}
	}
	var err error
	t.bound, err = bm25.Bind(t.query(q), segs, params)
	return t, err
}

func checkWeight(leg string, w float64) error {
	if w < 0 || math.IsNaN(w) || math.IsInf(w, 0) {
		return invalidf("weight %v of the %s leg: want a finite number, at least 0", w, leg)
	}
	return nil
}

func (t *textLeg) chooseFields(sc *schema, want map[string]float64) error {
	if len(want) == 0 {
		for _, f := range sc.public.Text {
			t.fields = append(t.fields, bm25.FieldBoost{Field: f.Name, Boost: f.Boost})
		}
	}
	for name, boost := range want {
		if sc.text[name] == nil {
			return invalidf("text: no text field %q", name)
		}
		if !(boost > 0) || math.IsInf(boost, 0) {
			return invalidf("text: boost %v of field %q: want a finite number above 0", boost, name)
		}
		t.fields = append(t.fields, bm25.FieldBoost{Field: name, Boost: boost})
	}
	if len(t.fields) == 0 {
		return invalidf("text: the schema has no text field")
	}
	slices.SortFunc(t.fields, func(a, b bm25.FieldBoost) int { return cmp.Compare(a.Field, b.Field) })
	return nil
}

// analyze makes the words. Fields with one analyzer share its work; tokens of
// different analyzers are one word when they cover the same bytes.
func (t *textLeg) analyze(sc *schema, q *TextQuery) {
	scratch := analysisScratch.Get().(*analysis.Scratch)
	defer analysisScratch.Put(scratch)
	done := map[string]int{} // analyzer → field whose terms to share
	for i, f := range t.fields {
		a := sc.text[f.Field].analyzer
		if j, ok := done[a.Identity()]; ok {
			for w := range t.words {
				t.words[w].terms[i], t.words[w].positions[i] = t.words[w].terms[j], t.words[w].positions[j]
			}
			continue
		}
		done[a.Identity()] = i
		tokens := a.QueryTokens
		if q.Phrase {
			tokens = a.PhraseTokens
		}
		free := 0 // words before it are taken by this analyzer's tokens
		tokens(scratch, q.Text, func(tok *analysis.Token) {
			at := t.wordAt(tok, i, free)
			t.words[at].terms[i] = slices.Clone(tok.Term)
			t.words[at].positions[i] = tok.Position
		})
	}
}

// wordAt returns the word that covers the token's bytes and has no term of
// field i yet, or a new one.
func (t *textLeg) wordAt(tok *analysis.Token, i, from int) int {
	for w := from; w < len(t.words) && i > 0; w++ {
		if x := &t.words[w]; x.start == tok.Start && x.end == tok.End && x.terms[i] == nil {
			return w
		}
	}
	t.words = append(t.words, word{
		start: tok.Start, end: tok.End,
		terms: make([][]byte, len(t.fields)), positions: make([]uint32, len(t.fields)),
	})
	return len(t.words) - 1
}

// query builds the tree that bm25 runs.
func (t *textLeg) query(q *TextQuery) bm25.Query {
	if q.Phrase {
		return t.phrase(q)
	}
	if !q.Prefix && q.Operator == And {
		return t.all(t.words)
	}
	if !q.Prefix {
		return bm25.Terms{Fields: t.fields, Words: bm25Words(t.words), MinimumShouldMatch: q.MinShouldMatch}
	}
	last := t.words[len(t.words)-1]
	rest := t.words[:len(t.words)-1]
	prefix := bm25.Prefix{Fields: t.fields, Prefix: last.terms}
	if q.Operator == And {
		must := []bm25.Query{prefix}
		if len(rest) > 0 {
			must = append(must, t.all(rest))
		}
		return bm25.Boolean{Must: must}
	}
	parts := []bm25.Query{prefix}
	for i := range rest {
		parts = append(parts, t.terms(rest[i:i+1], bm25.Or))
	}
	return bm25.Boolean{Should: parts, MinimumShouldMatch: q.MinShouldMatch}
}

func (t *textLeg) terms(words []word, op bm25.Operator) bm25.Query {
	return bm25.Terms{Fields: t.fields, Words: bm25Words(words), Operator: op}
}

// all wants every word. A token that covers others, as a whole identifier
// covers its parts, is wanted itself or all it covers: AND must not ask for
// more than the text says.
func (t *textLeg) all(words []word) bm25.Query {
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
				t.terms(words[i:i+1], bm25.Or), t.terms(words[i+1:j], bm25.And),
			}})
		}
		i = j
	}
	if len(single) > 0 {
		must = append(must, t.terms(single, bm25.And))
	}
	if len(must) == 1 {
		return must[0]
	}
	return bm25.Boolean{Must: must}
}

func bm25Words(words []word) []bm25.Word {
	out := make([]bm25.Word, len(words))
	for i := range words {
		out[i].Terms = words[i].terms
	}
	return out
}

// phrase makes one phrase for each group of fields whose analyzers put the
// words at the same positions: a phrase matches within one field, and
// positions of different analyzers do not compare.
func (t *textLeg) phrase(q *TextQuery) bm25.Query {
	var parts []bm25.Query
	taken := make([]bool, len(t.fields))
	for i := range t.fields {
		if taken[i] {
			continue
		}
		p := bm25.Phrase{Slop: uint32(q.Slop)}
		var members []int
		for j := i; j < len(t.fields); j++ {
			if !taken[j] && t.samePositions(i, j) {
				taken[j] = true
				members = append(members, j)
				p.Fields = append(p.Fields, t.fields[j])
			}
		}
		for w := range t.words {
			if t.words[w].terms[i] == nil {
				continue
			}
			pw := bm25.PhraseWord{Position: t.words[w].positions[i]}
			for _, j := range members {
				pw.Terms = append(pw.Terms, t.words[w].terms[j])
			}
			p.Words = append(p.Words, pw)
		}
		if len(p.Words) > 0 {
			parts = append(parts, p)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return bm25.Boolean{Should: parts}
}

func (t *textLeg) samePositions(i, j int) bool {
	for w := range t.words {
		x := &t.words[w]
		if (x.terms[i] == nil) != (x.terms[j] == nil) || x.positions[i] != x.positions[j] {
			return false
		}
	}
	return true
}

// run returns the best docs of all views, at most s.depth, best first. The
// k-th best raw score so far is the floor of the next view.
func (t *textLeg) run(s *search) ([]fusion.Item, error) {
	if t.bound == nil {
		return nil, nil
	}
	scratch := textScratch.Get().(*bm25.Scratch)
	defer textScratch.Put(scratch)
	type rawHit struct {
		place
		raw int64
	}
	var (
		best  []rawHit
		found []bm25.Scored
		floor bm25.Floor
	)
	for i, v := range s.views {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if s.plan.Segments[i].Matches == 0 {
			continue
		}
		var err error
		if found, err = t.bound.TopK(i, s.depth, s.accept(i, v), floor, scratch, found[:0]); err != nil {
			return nil, err
		}
		for _, f := range found {
			best = append(best, rawHit{place{uint32(i), f.Doc}, f.Raw})
		}
		slices.SortFunc(best, func(a, b rawHit) int {
			if a.raw != b.raw {
				return cmp.Compare(b.raw, a.raw)
			}
			return s.compareIDs(a.place, b.place)
		})
		if len(best) >= s.depth {
			best = best[:s.depth]
			floor = bm25.Floor(best[s.depth-1].raw)
		}
	}
	items := make([]fusion.Item, len(best))
	for i, h := range best {
		items[i] = fusion.Item{Key: h.key(), Score: t.bound.LegScore(h.raw), Raw: float64(h.raw) / bm25.Scale}
	}
	return items, nil
}

// accept gives bm25 the docs of a view that may be returned. Where they are
// few they lead the search, else they mask it.
func (s *search) accept(i int, v *view) bm25.Accept {
	switch {
	case s.matches != nil && s.plan.Segments[i].Matches*64 < int(v.Docs):
		return bm25.AcceptDocs(s.matches[i].ToArray())
	case s.matches != nil:
		return bm25.AcceptBits(s.matches[i].ToDense())
	case v.deleted != nil:
		return bm25.AcceptBits(v.liveBits())
	}
	return bm25.Accept{}
}

// A vectorLeg is the vector part of a query.
type vectorLeg struct {
	field string
	q     *VectorQuery
	kind  ScoreKind
	m     quant.Metric
}

func (s *search) newVectorLeg(q *VectorQuery) (*vectorLeg, error) {
	sc := s.snap.schema
	name := q.Field
	if name == "" {
		if len(sc.public.Vectors) != 1 {
			return nil, invalidf("vector: no field is named, and the schema has %d vector fields", len(sc.public.Vectors))
		}
		name = sc.public.Vectors[0].Name
	}
	f := sc.vectors[name]
	switch {
	case f == nil:
		return nil, invalidf("vector: no vector field %q", name)
	case q.Ef < 0 || q.Ef > MaxEf:
		return nil, invalidf("vector: ef %d: want 0 (by target recall) to %d", q.Ef, MaxEf)
	case !(q.TargetRecall >= 0 && q.TargetRecall <= 1):
		return nil, invalidf("vector: target recall %v: want 0 (default) to 1", q.TargetRecall)
	case !(q.Floor >= 0 && q.Floor < 1):
		return nil, invalidf("vector: floor %v: want 0 to less than 1", q.Floor)
	}
	if err := f.Metric.Validate(q.Vector, f.Dim); err != nil {
		return nil, fmt.Errorf("vector for field %q: %w", name, err)
	}
	if err := checkWeight("vector", q.Weight); err != nil {
		return nil, err
	}
	kinds := map[quant.Metric]ScoreKind{quant.Cosine: ScoreCosine, quant.Dot: ScoreDot, quant.L2: ScoreL2}
	return &vectorLeg{field: name, q: q, kind: kinds[f.Metric], m: f.Metric}, nil
}

// score gives the raw value a user knows and the leg score of a distance.
func (l *vectorLeg) score(distance float32) (raw, score float64) {
	d := float64(distance)
	switch l.m {
	case quant.Cosine:
		return 1 - d, fusion.Cosine(1-d, l.q.Floor)
	case quant.Dot:
		return -d, fusion.Dot(-d)
	}
	return d, fusion.L2(d)
}

// run returns the nearest docs of all views, at most s.depth, nearest first.
func (l *vectorLeg) run(s *search) ([]fusion.Item, error) {
	scratch := vectorScratch.Get().(*hnsw.Scratch)
	defer vectorScratch.Put(scratch)
	type near struct {
		place
		distance float32
	}
	var (
		best  []near
		found []hnsw.Neighbor
	)
	p := hnsw.Params{K: s.depth, Ef: l.q.Ef, TargetRecall: float32(l.q.TargetRecall), Cancel: s.ctx.Err}
	for i, v := range s.views {
		f := v.Vectors[l.field]
		if f == nil || s.plan.Segments[i].Matches == 0 {
			continue
		}
		var (
			st  hnsw.Stats
			err error
		)
		if found, st, err = l.searchView(s, i, v, f, p, scratch, found[:0]); err != nil {
			return nil, err
		}
		s.plan.Segments[i].note(st)
		for _, n := range found {
			best = append(best, near{place{uint32(i), n.Doc}, n.Distance})
		}
	}
	slices.SortFunc(best, func(a, b near) int {
		if a.distance != b.distance {
			return cmp.Compare(a.distance, b.distance)
		}
		return s.compareIDs(a.place, b.place)
	})
	best = best[:min(len(best), s.depth)]
	items := make([]fusion.Item, len(best))
	for i, n := range best {
		raw, score := l.score(n.distance)
		items[i] = fusion.Item{Key: n.key(), Score: score, Raw: raw}
	}
	return items, nil
}

// searchView searches one view. The number of matches is exact, so hnsw can
// choose between a walk and the exact scan without a guess.
func (l *vectorLeg) searchView(s *search, i int, v *view, f *hnsw.Field, p hnsw.Params, scratch *hnsw.Scratch, dst []hnsw.Neighbor) ([]hnsw.Neighbor, hnsw.Stats, error) {
	var accept []uint64
	if s.matches != nil || v.deleted != nil {
		accept = l.acceptOrds(s, i, v, f)
	}
	switch {
	case l.q.Exact:
		return f.SearchExact(l.q.Vector, p, accept, scratch, dst)
	case accept == nil:
		return f.Search(l.q.Vector, p, scratch, dst)
	}
	return f.SearchFiltered(l.q.Vector, p, accept, scratch, dst)
}

// acceptOrds is the ord bitset of the docs that match; that of the live docs
// alone is made once a view.
func (l *vectorLeg) acceptOrds(s *search, i int, v *view, f *hnsw.Field) []uint64 {
	if s.matches != nil {
		return f.AcceptDocs(s.matches[i], nil)
	}
	if b, ok := v.ords.Load(l.field); ok {
		return b.([]uint64)
	}
	b := f.AcceptWords(v.liveBits(), nil)
	v.ords.Store(l.field, b)
	return b
}
