package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// MaxHits is the number of hits that a cluster ranks for one query: those of the
// page, and those before it.
const MaxHits = 10_000

const (
	defaultDepth = 100
	// ties is how many hits more are asked for where equal scores meet the end of
	// what was: which of them a node gives is by no id.
	ties = 256
)

// Search answers a query; see the package comment for what differs from an Index.
func (c *Collection) Search(ctx context.Context, q index.Query) (*index.Results, error) {
	start := time.Now()
	return read(ctx, c, "search", func(ctx context.Context, l *layout) (*index.Results, error) {
		s := &search{c: c, l: l, q: q, r: &index.Results{Hits: []index.Hit{}, Total: -1}}
		if err := s.prepare(ctx); err != nil {
			return nil, err
		}
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		s.r.Elapsed = time.Since(start)
		return s.r, nil
	})
}

// A search is one query on its way.
type search struct {
	c *Collection
	l *layout
	q index.Query
	r *index.Results

	filter where // everything without one
	text   *keywords
	vector *index.VectorField
	from   place
	depth  int

	all     int // documents
	matches int // of them, those that the filter lets through
}

// A ranked is one entry of the final list.
type ranked struct {
	*hit
	id              string
	score           float64
	keyword, vector index.Leg
}

// prepare checks the query and binds it to the schema.
func (s *search) prepare(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := s.checkFields(ctx); err != nil {
		return err
	}
	var err error
	if s.filter, err = s.c.compile(ctx, s.q.Filter); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if s.q.After != "" {
		if s.from, err = parsePlace(s.q.After); err != nil {
			return err
		}
	}
	if t := s.q.Text; t != nil {
		if s.text, s.r.Notes, err = s.l.keywords(t); err != nil {
			return err
		}
	}
	if s.q.Vector != nil {
		if err := s.prepareVector(); err != nil {
			return err
		}
	}
	return s.setDepth()
}

func (s *search) check() error {
	q := &s.q
	switch {
	case q.K < 0 || q.K > index.MaxK || q.K == 0 && !q.Count && len(q.Facets) == 0:
		return storage.Invalidf("k %d: want 1 to %d, or 0 where a count or facets are asked for", q.K, index.MaxK)
	case q.K == 0 && (q.Offset != 0 || q.After != "" || q.ExplainID != ""):
		return storage.Invalidf("k 0: no hits are wanted, so there is no page (offset, after) or document to explain")
	case q.Offset < 0 || q.Offset > index.MaxOffset-q.K:
		return storage.Invalidf("offset %d: want 0 to %d with k %d", q.Offset, index.MaxOffset-q.K, q.K)
	case q.After != "" && q.Offset != 0:
		return storage.Invalidf("after: an offset of %d is given too", q.Offset)
	case q.Depth < 0 || q.Depth > index.MaxDepth:
		return storage.Invalidf("depth %d: want 0 (default) to %d", q.Depth, index.MaxDepth)
	case math.IsNaN(q.MinScore):
		return storage.Invalidf("minimum score is not a number")
	case q.Fusion.Method > index.Weighted:
		return storage.Invalidf("fusion method %d is unknown", q.Fusion.Method)
	case q.Fusion.RankConstant < 0 || q.Fusion.RankConstant > 1_000_000:
		return storage.Invalidf("rank constant %d: want 0 (default) to 1,000,000", q.Fusion.RankConstant)
	case len(q.Facets) > index.MaxFacets:
		return storage.Invalidf("facets: %d fields, the limit is %d", len(q.Facets), index.MaxFacets)
	case q.Sparse != nil:
		return storage.Invalidf("sparse field %q: a cluster has no sparse vectors", q.Sparse.Field)
	case q.Group != nil:
		return storage.Invalidf("group: a cluster does not group hits")
	}
	return nil
}

// checkFields checks the names of Fields, Facets and Highlight; a schema that
// lacks one is read anew.
func (s *search) checkFields(ctx context.Context) error {
	err := s.knowFields()
	if err == nil {
		return nil
	}
	l, rerr := s.c.refresh(ctx)
	if rerr != nil {
		return rerr
	}
	s.l = l
	return s.knowFields()
}

func (s *search) knowFields() error {
	for _, f := range s.q.Fields {
		if _, meta := s.l.schema.Meta[f]; !meta && f != "*" && s.l.text[f].analyzer == nil {
			return storage.Invalidf("fields: no text or metadata field %q", f)
		}
	}
	for _, f := range s.q.Facets {
		if _, ok := s.l.schema.Meta[f.Field]; !ok {
			return storage.Invalidf("facets: no metadata field %q", f.Field)
		}
		if f.Limit < 0 || f.Limit > index.MaxFacetSize {
			return storage.Invalidf("facets: limit %d of field %q: want 0 (default) to %d", f.Limit, f.Field, index.MaxFacetSize)
		}
	}
	for _, f := range s.q.Highlight {
		if t := s.l.text[f]; t.analyzer == nil || t.NotStored {
			return storage.Invalidf("highlight: no stored text field %q", f)
		}
	}
	return nil
}

func (s *search) prepareVector() error {
	v := s.q.Vector
	fields := s.l.schema.Vectors
	i := slices.IndexFunc(fields, func(f index.VectorField) bool { return f.Name == v.Field || v.Field == "" && len(fields) == 1 })
	if i < 0 {
		return storage.Invalidf("vector: no vector field %q, or several and none is named", v.Field)
	}
	s.vector = &fields[i]
	if err := s.vector.Metric.Validate(v.Vector, s.vector.Dim); err != nil {
		return fmt.Errorf("vector: %w", err)
	}
	switch {
	case v.Exact:
		return storage.Invalidf("vector: a cluster does not promise an exact search")
	case v.Plan != "":
		return storage.Invalidf("vector: a cluster chooses the way of its search by itself, not %q", v.Plan)
	case v.Within != nil && math.IsNaN(*v.Within):
		return storage.Invalidf("vector: within is not a number")
	case !(v.Floor >= 0 && v.Floor < 1):
		return storage.Invalidf("vector: floor %v: want 0 to below 1", v.Floor)
	case v.Ef < 0 || v.Ef > index.MaxEf || !(v.TargetRecall >= 0 && v.TargetRecall <= 1):
		return storage.Invalidf("vector: ef %d, target recall %v: out of range", v.Ef, v.TargetRecall)
	case v.Ef > 0 || v.TargetRecall > 0:
		s.r.Notes = append(s.r.Notes, "a cluster chooses the width of its vector search by itself")
	}
	return nil
}

// setDepth says how many hits of each leg are ranked: those that the page needs, as
// far as the cluster goes. One more is asked for.
func (s *search) setDepth() error {
	want := max(s.q.Offset, s.from.seen) + s.q.K
	if s.q.Text == nil && s.q.Vector == nil {
		want = s.q.Offset + s.q.K
	}
	if want > MaxHits {
		return fmt.Errorf("%w: hits to %d: a cluster ranks %d", storage.ErrTooLarge, want, MaxHits)
	}
	s.depth = want
	if s.q.Text == nil || s.q.Vector == nil {
		return nil
	}
	s.depth = or(s.from.depth, or(s.q.Depth, defaultDepth))
	for s.depth < want {
		s.depth *= 2
	}
	s.depth = min(s.depth, MaxHits)
	return nil
}

// run asks the cluster, each question at the same time as the others; the tally
// alone where no hit is wanted.
func (s *search) run(ctx context.Context) error {
	if s.q.K == 0 {
		if err := s.tally(ctx); err != nil {
			return err
		}
		return s.answer(nil)
	}
	var legs [3][]hit // keyword, vector, by id
	var idfSum float64
	tasks := []func(ctx context.Context) error{s.tally}
	ask := func(leg int, sel *selection) {
		tasks = append(tasks, func(ctx context.Context) (err error) { legs[leg], err = s.leg(ctx, sel); return err })
	}
	if s.text != nil && s.text.query != nil {
		ask(0, s.keywordLeg())
		tasks = append(tasks, func(ctx context.Context) (err error) { idfSum, err = s.idfSum(ctx); return err })
	}
	if s.vector != nil {
		ask(1, s.vectorLeg())
	}
	if s.text == nil && s.vector == nil {
		ask(2, s.listing())
	}
	if err := parallel(ctx, len(tasks), len(tasks), func(ctx context.Context, i int) error { return tasks[i](ctx) }); err != nil {
		return err
	}
	list, err := s.join(legs, idfSum)
	if err != nil {
		return err
	}
	return s.answer(list)
}

// leg asks for the hits of a leg, and for more where equal scores meet its end.
func (s *search) leg(ctx context.Context, sel *selection) ([]hit, error) {
	sel.limit, sel.props = min(s.depth+1, MaxHits), s.props()
	hits, err := s.c.get(ctx, sel)
	n := len(hits)
	if err != nil || sel.byID || n < sel.limit || sel.limit == MaxHits || hits[n-1].score != hits[n-2].score || hits[n-1].Additional.Distance != hits[n-2].Additional.Distance {
		return hits, err
	}
	sel.limit = min(sel.limit+ties, MaxHits)
	return s.c.get(ctx, sel)
}

// props are the properties of the hits that the answer needs.
func (s *search) props() []string {
	if len(s.q.Fields)+len(s.q.Highlight) == 0 {
		return []string{propID}
	}
	return []string{propID, propStored}
}

func (s *search) keywordLeg() *selection {
	sel := &selection{bm25: s.text.text(), in: s.text.props}
	var conds []where
	if !s.q.Filter.IsZero() {
		conds = append(conds, s.filter)
	}
	if !s.text.ranking {
		conds = append(conds, s.text.match)
	}
	if len(conds) > 0 {
		w := allOf(conds...)
		sel.where = &w
	}
	return sel
}

func (s *search) vectorLeg() *selection {
	v := slices.Clone(s.q.Vector.Vector)
	s.vector.Metric.Prepare(v, s.q.Vector.Vector)
	sel := &selection{near: prefixVector + escape(s.vector.Name), query: v}
	if !s.q.Filter.IsZero() {
		sel.where = &s.filter
	}
	return sel
}

func (s *search) listing() *selection {
	w := s.filter
	if s.from.id != "" {
		w = allOf(w, where{op: opGte, prop: propID, values: []string{idKey(s.from.id + "\x00")}})
	}
	return &selection{where: &w, byID: true}
}

// idfSum is the sum of the words' idf over all documents of the collection.
func (s *search) idfSum(ctx context.Context) (float64, error) {
	now := time.Now()
	names := []string{""} // of all documents
	conds := []where{everything()}
	for _, w := range s.text.words {
		names, conds = append(names, string(w.is.json(nil))), append(conds, w.is)
	}
	n := make([]int, len(names))
	var missing []int
	for i, name := range names {
		var ok bool
		if n[i], ok = s.c.counts.get(name, now); !ok {
			missing = append(missing, i)
		}
	}
	if len(missing) > 0 {
		q := []byte("Aggregate{")
		for _, i := range missing {
			q = s.c.aggregate(append(q, ' '), "n"+strconv.Itoa(i), &conds[i], "", 0)
		}
		a, err := s.c.ask(ctx, append(q, '}'))
		if err != nil {
			return 0, err
		}
		for _, i := range missing {
			if n[i], err = a.count("n" + strconv.Itoa(i)); err != nil {
				return 0, err
			}
			s.c.counts.put(names[i], n[i], now)
		}
	}
	sum := 0.0
	for _, df := range n[1:] {
		sum += idf(n[0], df)
	}
	return sum, nil
}

// tally fills Total, Facets and the counts of the plan.
func (s *search) tally(ctx context.Context) error {
	explain := s.q.Explain || s.q.ExplainID != ""
	if !s.q.Count && len(s.q.Facets) == 0 && !explain {
		return nil
	}
	w := s.filter
	if s.text != nil && s.vector == nil {
		w = allOf(w, s.text.match)
	}
	q := s.c.aggregate([]byte("Aggregate{"), "total", &w, "", 0)
	for i, f := range s.q.Facets {
		if prop := prefixMeta + escape(f.Field); s.l.props[prop] {
			q = s.c.aggregate(append(q, ' '), "f"+strconv.Itoa(i), &w, prop, maxValues+1)
		}
	}
	if explain {
		all := everything()
		q = s.c.aggregate(append(q, ' '), "all", &all, "", 0)
		q = s.c.aggregate(append(q, ' '), "filtered", &s.filter, "", 0)
	}
	a, err := s.c.ask(ctx, append(q, '}'))
	if err != nil {
		return err
	}
	if s.q.Count {
		if s.r.Total, err = a.count("total"); err != nil {
			return err
		}
	}
	if explain {
		if s.all, err = a.count("all"); err != nil {
			return err
		}
		if s.matches, err = a.count("filtered"); err != nil {
			return err
		}
	}
	return s.facets(a)
}

// maxValues is the number of different values of a field that a facet may have:
// the cluster cuts each shard's list before it adds them up, so that all must
// be asked for.
const maxValues = 50_000

func (s *search) facets(a *answer) error {
	if len(s.q.Facets) > 0 {
		s.r.Facets = make(map[string][]index.FacetCount, len(s.q.Facets))
	}
	for i, f := range s.q.Facets {
		groups := a.Data.Aggregate["f"+strconv.Itoa(i)]
		if len(groups) > maxValues {
			return fmt.Errorf("%w: facet %q: more than %d different values, at most %d can be counted in a cluster", storage.ErrTooLarge, f.Field, maxValues, maxValues)
		}
		slices.SortFunc(groups, func(a, b group) int {
			return cmp.Or(cmp.Compare(b.Meta.Count, a.Meta.Count), strings.Compare(a.GroupedBy.Value, b.GroupedBy.Value))
		})
		list := []index.FacetCount{}
		for _, g := range groups[:min(len(groups), or(f.Limit, 10))] {
			k, err := unkey(g.GroupedBy.Value)
			if err != nil {
				return fmt.Errorf("facet %q: %w", f.Field, err)
			}
			v, err := filter.KeyValue(s.l.schema.Meta[f.Field], k)
			if err != nil {
				return fmt.Errorf("facet %q: %w", f.Field, err)
			}
			list = append(list, index.FacetCount{Value: v, Count: g.Meta.Count})
		}
		s.r.Facets[f.Field] = list
	}
	return nil
}

// join makes one list of the legs, best first.
func (s *search) join(legs [3][]hit, idfSum float64) ([]ranked, error) {
	if s.text == nil && s.vector == nil {
		return s.byID(legs[2])
	}
	docs := make(map[string]uint64) // docid → key of the fusion
	var hits []*hit
	var ids []string
	items := func(leg []hit, score func(h *hit) (raw, score float64)) ([]fusion.Item, error) {
		out := make([]fusion.Item, 0, len(leg))
		for i := range leg {
			h := &leg[i]
			k, ok := docs[h.Docid]
			if !ok {
				id, err := unID(h.Docid)
				if err != nil {
					return nil, err
				}
				k = uint64(len(hits))
				docs[h.Docid], hits, ids = k, append(hits, h), append(ids, id)
			}
			raw, y := score(h)
			out = append(out, fusion.Item{Key: k, Raw: raw, Score: y})
		}
		slices.SortStableFunc(out, func(a, b fusion.Item) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), s.compareRaw(a.Raw, b.Raw), strings.Compare(ids[a.Key], ids[b.Key]))
		})
		if s.text != nil && s.vector != nil {
			out = out[:min(len(out), s.depth)]
		}
		return out, nil
	}
	words, err := items(legs[0], func(h *hit) (float64, float64) {
		return h.score, fusion.Keyword(within(h.score/idfSum), s.text.k1)
	})
	if err != nil {
		return nil, err
	}
	near, err := items(s.within(legs[1]), s.vectorScore)
	if err != nil {
		return nil, err
	}
	list, err := s.fuse(words, near, ids)
	for i := range list {
		list[i].hit = hits[docs[idKey(list[i].id)]]
	}
	return list, err
}

// compareRaw orders equal scores of a single vector leg, such as those below the
// floor, by what they were made of.
func (s *search) compareRaw(a, b float64) int {
	if s.vector != nil && s.text == nil && s.vector.Metric == quant.L2 {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

func (s *search) vectorScore(h *hit) (raw, score float64) {
	switch s.vector.Metric {
	case quant.Dot:
		return -h.Additional.Distance, fusion.Dot(-h.Additional.Distance)
	case quant.L2:
		return h.Additional.Distance, fusion.L2(max(h.Additional.Distance, 0))
	}
	return 1 - h.Additional.Distance, fusion.Cosine(1-h.Additional.Distance, s.q.Vector.Floor)
}

// within are the hits of a vector leg that are near enough.
func (s *search) within(leg []hit) []hit {
	if s.vector == nil || s.q.Vector.Within == nil {
		return leg
	}
	limit := *s.q.Vector.Within
	return slices.DeleteFunc(leg, func(h hit) bool {
		raw, _ := s.vectorScore(&h)
		return s.vector.Metric == quant.L2 && raw > limit || s.vector.Metric != quant.L2 && raw < limit
	})
}

// fuse joins the legs of a hybrid query; a single one is taken as it is.
func (s *search) fuse(words, near []fusion.Item, ids []string) ([]ranked, error) {
	var list []ranked
	if s.text == nil || s.vector == nil {
		for i, it := range slices.Concat(words, near) {
			r := ranked{id: ids[it.Key], score: it.Score}
			leg := index.Leg{Rank: i + 1, Raw: it.Raw, Score: it.Score}
			if r.keyword = leg; s.text == nil {
				r.keyword, r.vector = index.Leg{}, leg
			}
			list = append(list, r)
		}
		return list, nil
	}
	legs := []fusion.Leg{
		{Name: "keyword", Weight: or(s.q.Text.Weight, 1), Items: words},
		{Name: "vector", Weight: or(s.q.Vector.Weight, 1), Items: near},
	}
	o := fusion.Options{RankConstant: s.q.Fusion.RankConstant, Compare: func(a, b uint64) int { return strings.Compare(ids[a], ids[b]) }}
	var f fusion.Fuser
	join := f.RRF
	if s.q.Fusion.Method == index.Weighted {
		join = f.Weighted
	}
	fused, err := join(legs, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	for _, h := range fused {
		list = append(list, ranked{id: ids[h.Key], score: h.Score,
			keyword: index.Leg{Rank: h.From[0].Rank, Raw: h.From[0].Raw, Score: h.From[0].Score},
			vector:  index.Leg{Rank: h.From[1].Rank, Raw: h.From[1].Raw, Score: h.From[1].Score}})
	}
	return list, nil
}

func (s *search) byID(hits []hit) ([]ranked, error) {
	list := make([]ranked, len(hits))
	for i := range hits {
		id, err := unID(hits[i].Docid)
		if err != nil {
			return nil, err
		}
		list[i] = ranked{hit: &hits[i], id: id, score: 1}
	}
	slices.SortFunc(list, func(a, b ranked) int { return strings.Compare(a.id, b.id) })
	return list, nil
}
