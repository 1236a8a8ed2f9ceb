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
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/index/querystring"
)

var (
	analysisScratch = sync.Pool{New: func() any { return new(analysis.Scratch) }}
	textScratch     = sync.Pool{New: func() any { return new(bm25.Scratch) }}
	vectorScratch   = sync.Pool{New: func() any { return new(hnsw.Scratch) }}
	sparseScratch   = sync.Pool{New: func() any { return new(sparse.Scratch) }}
)

// A textLeg is the keyword part of a query. When it runs it is bound to the
// snapshot: every term looked up in every view, weights from the statistics of
// all of them.
type textLeg struct {
	query  *keyword.Query
	params map[string]bm25.Params
	bound  *bm25.Bound // nil after bind: the text has no term, nothing matches
}

func (s *search) newTextLeg(q *TextQuery) (*textLeg, error) {
	if err := checkWeight("text", q.Weight); err != nil {
		return nil, err
	}
	sc := s.snap.schema
	if len(sc.public.Text) == 0 {
		return nil, invalidf("text: the schema has no text field")
	}
	c, notes, err := q.clause(sc)
	s.notes = append(s.notes, notes...)
	if err != nil || c == nil {
		return &textLeg{}, err
	}
	fields := make([]keyword.Field, len(sc.public.Text))
	params := make(map[string]bm25.Params, len(fields))
	for i, f := range sc.public.Text {
		tf := sc.text[f.Name]
		fields[i] = keyword.Field{Name: f.Name, Boost: f.Boost, Analyzer: tf.analyzer}
		params[f.Name] = bm25.Params{K1: tf.k1, B: tf.b}
	}
	scratch := analysisScratch.Get().(*analysis.Scratch)
	defer analysisScratch.Put(scratch)
	t := &textLeg{}
	if t.query, err = keyword.Build(c, fields, scratch); err != nil {
		return nil, err
	}
	s.notes = append(s.notes, t.query.Notes...)
	t.params = params
	return t, nil
}

// bind looks the terms up, once for all runs.
func (t *textLeg) bind(s *search) error {
	if t.query == nil || t.query.Tree == nil || t.bound != nil {
		return nil
	}
	segs := make([]bm25.SegmentFields, len(s.views))
	for i, v := range s.views {
		segs[i] = v.Text
	}
	var err error
	t.bound, err = bm25.Bind(t.query.Tree, segs, t.params)
	return err
}

// clause makes one clause of whatever the query holds; nil when it holds no
// text.
func (q *TextQuery) clause(sc *schema) (c *keyword.Clause, notes []string, err error) {
	given := 0
	for _, is := range []bool{q.Text != "", q.QueryString != "", q.Clause != nil} {
		if is {
			given++
		}
	}
	text := q.Text + q.QueryString
	switch {
	case given > 1:
		return nil, nil, invalidf("text: more than one of text, query string and clause is given")
	case len(text) > MaxQueryText:
		return nil, nil, invalidf("text of %d bytes, the limit is %d", len(text), MaxQueryText)
	case !utf8.ValidString(text):
		return nil, nil, invalidf("text is not UTF-8")
	case q.Operator > And:
		return nil, nil, invalidf("operator %d is unknown", q.Operator)
	case q.MinShouldMatch < 0 || q.Slop < 0 || q.Slop > keyword.MaxSlop:
		return nil, nil, invalidf("minimum should match %d and slop %d: want at least 0, slop at most %d", q.MinShouldMatch, q.Slop, keyword.MaxSlop)
	case given == 0:
		return nil, []string{noWord}, nil
	}
	op := keyword.Or
	if q.Operator == And {
		op = keyword.And
	}
	switch {
	case q.Clause != nil:
		c = &keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{*q.Clause}}}
	case q.QueryString != "":
		known := func(field string) bool { return sc.text[field] != nil }
		c, notes = querystring.Parse(q.QueryString, querystring.Options{Operator: op, Field: known})
		if c != nil {
			c = &keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{*c}}}
		}
	case q.Phrase && q.Prefix:
		c = &keyword.Clause{PhrasePrefix: q.Text, Slop: q.Slop}
	case q.Phrase:
		c = &keyword.Clause{Phrase: q.Text, Slop: q.Slop}
	case q.Prefix:
		c = &keyword.Clause{Prefix: q.Text, Operator: op, MinShouldMatch: q.MinShouldMatch}
	default:
		c = &keyword.Clause{Match: q.Text, Operator: op, MinShouldMatch: q.MinShouldMatch}
	}
	if c == nil {
		return nil, append(notes, noWord), nil
	}
	c.Fields, c.Join, c.TieBreaker = q.Fields, q.Join, q.TieBreaker
	return c, notes, nil
}

const noWord = "the text holds no word to search for"

func checkWeight(leg string, w float64) error {
	if w < 0 || math.IsNaN(w) || math.IsInf(w, 0) {
		return invalidf("weight %v of the %s leg: want a finite number, at least 0", w, leg)
	}
	return nil
}

// borrowText lends a Scratch of keyword search that ends with the search's
// context.
func (s *search) borrowText() *bm25.Scratch {
	scratch := textScratch.Get().(*bm25.Scratch)
	scratch.Cancel = s.cancel
	return scratch
}

func returnText(scratch *bm25.Scratch) {
	scratch.Cancel = nil
	textScratch.Put(scratch)
}

// run returns the best docs of all views, at most s.depth, best first. The
// k-th best raw score so far is the floor of the next view.
func (t *textLeg) run(s *search) ([]fusion.Item, error) {
	if err := t.bind(s); err != nil || t.bound == nil {
		return nil, err
	}
	scratch := s.borrowText()
	defer returnText(scratch)
	buf := &s.buf.text
	best, lists := buf.best[:0], 0
	var floor bm25.Floor
	for i, v := range s.views {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if s.plan.Segments[i].Matches == 0 {
			continue
		}
		var err error
		if buf.found, err = t.bound.TopK(i, s.depth, s.accept(i, v), floor, scratch, buf.found[:0]); err != nil {
			return nil, err
		}
		if len(buf.found) == 0 {
			continue
		}
		for _, f := range buf.found {
			best = append(best, rawHit{place{uint32(i), f.Doc}, f.Raw})
		}
		if lists++; lists > 1 { // each list is in order
			slices.SortFunc(best, func(a, b rawHit) int {
				if a.raw != b.raw {
					return cmp.Compare(b.raw, a.raw)
				}
				return s.compareIDs(a.place, b.place)
			})
		}
		if len(best) >= s.depth {
			best = best[:s.depth]
			floor = bm25.Floor(best[s.depth-1].raw)
		}
	}
	buf.best, buf.items = best, slices.Grow(buf.items[:0], len(best))
	for _, h := range best {
		buf.items = append(buf.items, fusion.Item{Key: h.key(), Score: t.bound.LegScore(h.raw), Raw: float64(h.raw) / bm25.Scale})
	}
	return buf.items, nil
}

// A rawHit is a hit of the keyword leg.
type rawHit struct {
	place
	raw int64
}

// textBuffers are those of the keyword leg.
type textBuffers struct {
	best  []rawHit
	found []bm25.Scored
	items []fusion.Item
}

// accept gives bm25 the docs of a view that may be returned. Where they are
// few they lead the search, else they mask it.
func (s *search) accept(i int, v *view) bm25.Accept {
	switch {
	case s.matches != nil && s.matches[i].Few(bm25.FewDocs):
		return bm25.AcceptDocs(s.matches[i].List())
	case s.matches != nil:
		return bm25.AcceptBits(s.matches[i].Bits())
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
	plan  hnsw.Plan
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
	case q.Within != nil && math.IsNaN(*q.Within):
		return nil, invalidf("vector: within is not a number")
	}
	if err := f.Metric.Validate(q.Vector, f.Dim); err != nil {
		return nil, fmt.Errorf("vector for field %q: %w", name, err)
	}
	if err := checkWeight("vector", q.Weight); err != nil {
		return nil, err
	}
	kinds := map[quant.Metric]ScoreKind{quant.Cosine: ScoreCosine, quant.Dot: ScoreDot, quant.L2: ScoreL2}
	l := &vectorLeg{field: name, q: q, kind: kinds[f.Metric], m: f.Metric}
	for l.plan <= hnsw.PlanTwoHop {
		if q.Plan == "" || q.Plan == l.plan.String() {
			return l, nil
		}
		l.plan++
	}
	return nil, invalidf("vector: plan %q: want flat, graph or two-hop", q.Plan)
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
	buf := &s.buf.vector
	best, lists := buf.best[:0], 0
	p := hnsw.Params{Ef: l.q.Ef, TargetRecall: float32(l.q.TargetRecall), Plan: l.plan, Cancel: s.cancel}
	for i, v := range s.views {
		f := v.Vectors[l.field]
		if f == nil || s.plan.Segments[i].Matches == 0 {
			continue
		}
		p.K = s.depth
		if l.q.Within != nil {
			p.K = min(p.K, firstWithin)
		}
		for {
			var (
				st  hnsw.Stats
				err error
			)
			if buf.found, st, err = l.searchView(s, i, v, f, p, scratch, buf.found[:0]); err != nil {
				return nil, err
			}
			s.plan.Segments[i].note(st)
			found := len(buf.found)
			buf.found = l.within(buf.found)
			if len(buf.found) < found || found < p.K || p.K == s.depth {
				break
			}
			p.K = min(4*p.K, s.depth)
		}
		if len(buf.found) > 0 {
			lists++
		}
		for _, n := range buf.found {
			best = append(best, near{place{uint32(i), n.Doc}, n.Distance})
		}
	}
	if lists > 1 { // each list is in order
		slices.SortFunc(best, func(a, b near) int {
			if a.distance != b.distance {
				return cmp.Compare(a.distance, b.distance)
			}
			return s.compareIDs(a.place, b.place)
		})
	}
	best = best[:min(len(best), s.depth)]
	buf.best, buf.items = best, slices.Grow(buf.items[:0], len(best))
	for _, n := range best {
		raw, score := l.score(n.distance)
		buf.items = append(buf.items, fusion.Item{Key: n.key(), Score: score, Raw: raw})
	}
	return buf.items, nil
}

// A near is a hit of the vector leg.
type near struct {
	place
	distance float32
}

// vectorBuffers are those of the vector leg.
type vectorBuffers struct {
	best  []near
	found []hnsw.Neighbor
	items []fusion.Item
}

// firstWithin is the number of hits that are asked for first where only those
// within a bound are wanted; four times as many the next time, as long as the
// last one is within.
const firstWithin = 64

// within cuts a list in order of distance to what is within the bound.
func (l *vectorLeg) within(list []hnsw.Neighbor) []hnsw.Neighbor {
	if l.q.Within == nil {
		return list
	}
	n := len(list)
	for n > 0 {
		raw, _ := l.score(list[n-1].Distance)
		if l.m == quant.L2 && raw <= *l.q.Within || l.m != quant.L2 && raw >= *l.q.Within {
			break
		}
		n--
	}
	return list[:n]
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
		return s.matches[i].Ords(f)
	}
	if b, ok := v.ords.Load(l.field); ok {
		return b.([]uint64)
	}
	b := f.AcceptWords(v.liveBits(), nil)
	v.ords.Store(l.field, b)
	return b
}

// A sparseLeg is the sparse part of a query.
type sparseLeg struct {
	field string
	q     *SparseQuery
	bound *sparse.Bound
}

func (s *search) newSparseLeg(q *SparseQuery) (*sparseLeg, error) {
	sc := s.snap.schema
	name := q.Field
	if name == "" {
		if len(sc.public.Sparse) != 1 {
			return nil, invalidf("sparse: no field is named, and the schema has %d sparse fields", len(sc.public.Sparse))
		}
		name = sc.public.Sparse[0].Name
	}
	if !sc.seg.Sparse[name] {
		return nil, invalidf("sparse: no sparse field %q", name)
	}
	if err := checkWeight("sparse", q.Weight); err != nil {
		return nil, err
	}
	if len(q.Vector) == 0 {
		s.notes = append(s.notes, "the sparse vector holds no term to search for")
	}
	segs := make([]*sparse.Field, len(s.views))
	for i, v := range s.views {
		segs[i] = v.Sparse[name]
	}
	bound, err := sparse.Bind(q.Vector, segs)
	if err != nil {
		return nil, fmt.Errorf("sparse vector for field %q: %w", name, err)
	}
	return &sparseLeg{field: name, q: q, bound: bound}, nil
}

// run returns the best docs of all views, at most s.depth, best first. The k-th
// best score so far is the floor of the next view.
func (l *sparseLeg) run(s *search) ([]fusion.Item, error) {
	scratch := sparseScratch.Get().(*sparse.Scratch)
	scratch.Cancel = s.cancel
	defer func() {
		scratch.Cancel = nil
		sparseScratch.Put(scratch)
	}()
	type scored struct {
		place
		score float32
	}
	var (
		best  []scored
		found []sparse.Scored
		floor float32
	)
	for i, v := range s.views {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if s.plan.Segments[i].Matches == 0 {
			continue
		}
		var err error
		if found, err = l.bound.TopK(i, s.depth, l.accept(s, i, v), floor, scratch, found[:0]); err != nil {
			return nil, fmt.Errorf("sparse field %q: %w", l.field, err)
		}
		for _, f := range found {
			best = append(best, scored{place{uint32(i), f.Doc}, f.Score})
		}
		slices.SortFunc(best, func(a, b scored) int {
			return cmp.Or(cmp.Compare(b.score, a.score), s.compareIDs(a.place, b.place))
		})
		if len(best) >= s.depth {
			best = best[:s.depth]
			floor = best[s.depth-1].score
		}
	}
	items := make([]fusion.Item, len(best))
	for i, h := range best {
		items[i] = fusion.Item{Key: h.key(), Score: l.bound.LegScore(h.score), Raw: float64(h.score)}
	}
	return items, nil
}

// accept gives the docs of a view that may be returned, as search.accept does.
func (l *sparseLeg) accept(s *search, i int, v *view) sparse.Accept {
	switch {
	case s.matches != nil && s.matches[i].Few(sparse.FewDocs):
		return sparse.Accept{Docs: s.matches[i].List()}
	case s.matches != nil:
		return sparse.Accept{Bits: s.matches[i].Bits()}
	case v.deleted != nil:
		return sparse.Accept{Bits: v.liveBits()}
	}
	return sparse.Accept{}
}

// explain tells how the leg came to a hit's score.
func (l *sparseLeg) explain(p *ranked) (Explanation, error) {
	score, parts, _, err := l.bound.Explain(int(p.view), p.doc)
	e := Explanation{Value: p.legs[legSparse].Score, What: fmt.Sprintf("sparse: rank %d, m/(1+m) with m = dot product / Σ query weights, field %q", p.legs[legSparse].Rank, l.field)}
	dot := Explanation{Value: float64(score), What: "dot product of the weights as stored"}
	for _, t := range parts {
		dot.Details = append(dot.Details, Explanation{Value: t.Score, What: fmt.Sprintf("term %d: %g × %g", t.Term, t.Query, t.Stored)})
	}
	e.Details = []Explanation{dot}
	return e, err
}

// whyNot tells why the leg did not return a document that passes the filter.
func (l *sparseLeg) whyNot(s *search, at int, doc uint32) (string, error) {
	score, _, ok, err := l.bound.Explain(at, doc)
	if !ok || err != nil {
		return "sparse: the document has none of the terms", err
	}
	return fmt.Sprintf("sparse: dot product %g is not among the best %d", score, s.depth), nil
}
