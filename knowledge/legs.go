package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/storage"
)

// embed gives every base with a vector leg the query's vector, made once for
// each model. A model that fails takes its bases with it, or, in a partial
// hybrid answer, their vector legs.
func (q *query) embed(ctx context.Context) error {
	type call struct {
		e     embed.Embedder
		model embed.Identity
		bases []*searched
	}
	var calls []*call
	for _, b := range q.bases {
		if b.err != nil {
			continue
		}
		if b.mode == Keyword {
			b.scale = string(Keyword)
			continue
		}
		e, model, err := q.embedderOf(ctx, b)
		if err != nil {
			b.fail(q, err)
			continue
		}
		if e == nil {
			continue // nothing was ever ingested
		}
		b.floor = model.Floor
		b.scale = fmt.Sprintf("%s %#v", b.mode, model)
		i := slices.IndexFunc(calls, func(c *call) bool { return same(c.model, model) })
		if i < 0 {
			i = len(calls)
			calls = append(calls, &call{e: e, model: model})
		}
		calls[i].bases = append(calls[i].bases, b)
	}
	var wg sync.WaitGroup
	vectors, errs := make([]embed.Result, len(calls)), make([]error, len(calls))
	for i, c := range calls {
		var made bool
		if vectors[i], made, errs[i] = q.r.Vectors.of(&c.model, q.r.Query); made {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			vectors[i], errs[i] = embedQueries(ctx, c.e, &c.model, []string{q.r.Query})
		}()
	}
	wg.Wait()
	for i, c := range calls {
		if len(vectors[i].Truncated) > 0 {
			q.note("the query is longer than %s reads: its end counts for keywords only", c.model.Label())
		}
		for _, b := range c.bases {
			if errs[i] != nil {
				b.fail(q, errs[i])
				continue
			}
			b.vector = vectors[i].Vectors
			if square, _ := squareNorm(b.vector); square == 0 && c.model.Metric != metricL2 && c.model.Metric != metricDot {
				b.vector = nil
				q.note("the query has no direction for %s: nothing is near it", c.model.Label())
			}
		}
	}
	return q.settle(ctx)
}

// fail notes that a base has no vector leg: the base's failure, but for a
// partial hybrid answer.
func (b *searched) fail(q *query, err error) {
	if q.r.OnError == Partial && b.mode == Hybrid {
		q.flag(FlagDense)
		q.resp.Errors = append(q.resp.Errors, BaseError{Base: b.id, Err: err, Message: err.Error()})
		b.mode, b.stats.Mode, b.scale = Keyword, Keyword, string(Keyword)
		return
	}
	b.err = err
}

// embedderOf returns the embedder of a base, checked against the model of its
// vectors; nil for a base that is empty.
func (q *query) embedderOf(ctx context.Context, b *searched) (embed.Embedder, embed.Identity, error) {
	cat := &b.view.cat
	if !cat.Frozen {
		return nil, embed.Identity{}, nil
	}
	e, err := q.s.embedder(cat)
	if err != nil {
		return nil, embed.Identity{}, err
	}
	model, err := identity(ctx, e)
	if err != nil {
		return nil, embed.Identity{}, err
	}
	if err := cat.checkModel(model); err != nil {
		return nil, embed.Identity{}, err
	}
	return e, *model, nil
}

// embedQueries embeds queries and checks the answer.
func embedQueries(ctx context.Context, e embed.Embedder, model *embed.Identity, texts []string) (embed.Result, error) {
	r, err := e.Embed(ctx, embed.Query, texts)
	if err != nil {
		return embed.Result{}, err
	}
	if err := r.Check(model, len(texts)); err != nil {
		return embed.Result{}, err
	}
	if _, ok := squareNorm(r.Vectors); !ok {
		return embed.Result{}, embed.NotFinite(model)
	}
	return r, nil
}

// QueryVectors are embeddings of queries, made ahead for several searches by
// Store.EmbedQueries. They never change.
type QueryVectors struct{ models []modelVectors }

// modelVectors are those of one model, or why there are none.
type modelVectors struct {
	e     embed.Embedder
	model embed.Identity
	texts []string
	rows  embed.Result
	err   error
}

// of returns the vector of a text by a model as a Result of one row, and whether
// it was made; nil has none.
func (v *QueryVectors) of(model *embed.Identity, text string) (embed.Result, bool, error) {
	if v == nil {
		return embed.Result{}, false, nil
	}
	for i := range v.models {
		m := &v.models[i]
		at := slices.Index(m.texts, text)
		if !same(m.model, *model) || at < 0 {
			continue
		}
		if m.err != nil {
			return embed.Result{}, true, m.err
		}
		one := embed.Result{Vectors: m.rows.Vectors[at*model.Dim : (at+1)*model.Dim]}
		if slices.Contains(m.rows.Truncated, at) {
			one.Truncated = []int{0}
		}
		return one, true, nil
	}
	return embed.Result{}, false, nil
}

// EmbedQueries embeds texts for searches of bases (Request.Vectors), with one
// call for each model among them. A model that fails is no error here but of the
// searches that want it, by their policy; so is a base that is not there. Texts
// that repeat are embedded once.
func (s *Store) EmbedQueries(ctx context.Context, bases, texts []string) (*QueryVectors, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	out := new(QueryVectors)
	var clean []string
	for _, t := range texts {
		if t = strings.ToValidUTF8(t, "\uFFFD"); service.IsBlank(t) {
			return nil, storage.Invalidf("query is blank")
		}
		clean = union(clean, []string{t}, len(texts))
	}
	for _, ref := range bases {
		v, err := s.view(ctx, ref)
		if err != nil {
			continue
		}
		q := &query{s: s}
		e, model, err := q.embedderOf(ctx, &searched{view: v})
		v.close()
		if err != nil || e == nil || slices.ContainsFunc(out.models, func(m modelVectors) bool { return same(m.model, model) }) {
			continue
		}
		out.models = append(out.models, modelVectors{e: e, model: model, texts: clean})
	}
	var wg sync.WaitGroup
	for i := range out.models {
		m := &out.models[i]
		wg.Add(1)
		go func() {
			defer wg.Done()
			if len(m.texts) > 0 {
				m.rows, m.err = embedQueries(ctx, m.e, &m.model, m.texts)
			}
		}()
	}
	wg.Wait()
	return out, ctx.Err()
}

// run searches one base: each leg on the same snapshot, with the filter pushed
// into it, then fused.
func (b *searched) run(ctx context.Context, r *Request) error {
	if len(b.view.fields) == 0 { // nothing was put into it yet
		b.more = false
		return nil
	}
	var words, near []legHit
	var errs [2]error
	var wg sync.WaitGroup
	if b.mode == Hybrid && b.vector != nil {
		wg.Add(1)
		go func() {
			defer wg.Done()
			near, errs[1] = b.vectorLeg(ctx)
		}()
	}
	if b.mode != Vector {
		words, errs[0] = b.keywordLeg(ctx, r)
	} else if b.vector != nil {
		near, errs[1] = b.vectorLeg(ctx)
	}
	wg.Wait()
	if err := b.legFailed(ctx, r, errs); err != nil {
		return err
	}
	b.more = len(words) >= b.depth || len(near) >= b.depth
	b.words, b.near = words, near
	return nil
}

// candidates are the base's hits as one list.
func (b *searched) candidates(method Fusion) ([]candidate, error) {
	switch b.mode {
	case Keyword:
		return b.single(b.words, index.ScoreKeyword), nil
	case Vector:
		return b.single(b.near, b.vectorKind()), nil
	}
	return fuse([]*searched{b}, method)
}

// legFailed lets a partial hybrid answer go on with the leg that is left.
func (b *searched) legFailed(ctx context.Context, r *Request, errs [2]error) error {
	both := b.mode == Hybrid && r.OnError == Partial && ctx.Err() == nil && b.vector != nil
	switch {
	case errs[0] == nil && errs[1] == nil:
		return nil
	case both && errs[0] == nil:
		b.mode, b.lost, b.lostErr = Keyword, FlagDense, errs[1]
	case both && errs[1] == nil:
		b.mode, b.lost, b.lostErr = Vector, FlagKeyword, errs[0]
	default:
		return errors.Join(errs[0], errs[1])
	}
	b.stats.Mode, b.scale = b.mode, b.scale+" "+b.lost
	return nil
}

func (b *searched) vectorKind() index.ScoreKind {
	if b.view.cat.Model == nil {
		return index.ScoreCosine
	}
	switch b.view.cat.Model.Metric {
	case metricDot:
		return index.ScoreDot
	case metricL2:
		return index.ScoreL2
	}
	return index.ScoreCosine
}

// A legHit is a hit of one leg.
type legHit struct {
	document string
	chunk    int
	raw      float64
	score    float64
}

func compareLegHits(a, b legHit) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.document, b.document), cmp.Compare(a.chunk, b.chunk))
}

// keywordLeg searches every text field in use with its own analyzer and
// statistics. A chunk is in one field, so the lists are disjoint, and their
// scores, in [0,1] by the same rule, compare.
func (b *searched) keywordLeg(ctx context.Context, r *Request) ([]legHit, error) {
	var all []legHit
	for _, field := range b.view.fields {
		res, err := b.view.snap.Search(ctx, index.Query{
			Text: &index.TextQuery{Text: r.Query, Fields: map[string]float64{field: 1}}, Filter: b.filter, K: b.depth,
		})
		if err != nil {
			return nil, err
		}
		for _, h := range res.Hits {
			if all, err = appendHit(all, h, *h.Keyword); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(all, compareLegHits)
	return all[:min(len(all), b.depth)], nil
}

// vectorLeg searches the vectors. The score of a cosine is rescaled by the
// floor of the model; the order stays that of the raw values, also where they
// are below the floor.
func (b *searched) vectorLeg(ctx context.Context) ([]legHit, error) {
	res, err := b.view.snap.Search(ctx, index.Query{
		Vector: &index.VectorQuery{Field: fieldVector, Vector: b.vector}, Filter: b.filter, K: b.depth,
	})
	if err != nil {
		return nil, err
	}
	kind := b.vectorKind()
	all := make([]legHit, 0, len(res.Hits))
	for _, h := range res.Hits {
		leg := *h.Vector
		if kind == index.ScoreCosine {
			leg.Score = fusion.Cosine(leg.Raw, b.floor)
		}
		if all, err = appendHit(all, h, leg); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func appendHit(all []legHit, h index.Hit, leg index.Leg) ([]legHit, error) {
	id, ok := strings.CutPrefix(h.ID, chunkPrefix)
	if !ok {
		return nil, storage.Corruptf("index", 0, "document %q is not a chunk", h.ID)
	}
	document, n, err := splitChunkID(id)
	if err != nil {
		return nil, storage.Corruptf("index", 0, "document %q is not a chunk", h.ID)
	}
	return append(all, legHit{document: document, chunk: n, raw: leg.Raw, score: leg.Score}), nil
}

// single makes candidates of the only leg.
func (b *searched) single(hits []legHit, kind index.ScoreKind) []candidate {
	list := make([]candidate, 0, len(hits))
	for i, h := range hits {
		leg := &index.Leg{Rank: i + 1, Raw: h.raw, Score: h.score}
		c := candidate{base: b, document: h.document, chunk: h.chunk, score: h.score, own: h.score, kind: kind}
		if kind == index.ScoreKeyword {
			c.keyword = leg
		} else {
			c.vector = leg
		}
		list = append(list, c)
	}
	// Equal scores in the order of the node's rule, whatever the raw values.
	slices.SortStableFunc(list, compareCandidates)
	return list
}

// Fusion says how the legs of a hybrid search are joined.
type Fusion string

// The ways of fusion; the zero Fusion is FusionRRF.
const (
	// FusionRRF goes by the ranks in the legs (semantics S0.4).
	FusionRRF Fusion = "rrf"
	// FusionWeighted is the mean of the legs' scores. It needs a model that
	// declares its floor (embed.Identity), and was then better than ranks on
	// every collection measured.
	FusionWeighted Fusion = "weighted"
)

// fuse joins the legs of bases whose scores compare, with scores in [0,1]: once
// for all of them, so that several bases are ranked as one that holds them all.
// A fusion a base would let the best of each, good or bad, share the first place.
func fuse(bases []*searched, method Fusion) ([]candidate, error) {
	type place struct {
		base     *searched
		document string
		chunk    int
	}
	keys := make(map[place]uint64)
	var places []place
	compare := func(x, y uint64) int {
		a, b := &places[x], &places[y]
		return cmp.Or(cmp.Compare(a.base.order, b.base.order), cmp.Compare(a.document, b.document), cmp.Compare(a.chunk, b.chunk))
	}
	leg := func(name string, hits func(*searched) []legHit) fusion.Leg {
		l := fusion.Leg{Name: name, Weight: 1}
		for _, b := range bases {
			for _, h := range hits(b) {
				p := place{b, h.document, h.chunk}
				k, ok := keys[p]
				if !ok {
					k = uint64(len(places))
					keys[p] = k
					places = append(places, p)
				}
				l.Items = append(l.Items, fusion.Item{Key: k, Score: h.score, Raw: h.raw})
			}
		}
		if len(bases) > 1 {
			slices.SortStableFunc(l.Items, func(x, y fusion.Item) int {
				return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(y.Raw, x.Raw), compare(x.Key, y.Key))
			})
		}
		return l
	}
	legs := []fusion.Leg{leg("keyword", func(b *searched) []legHit { return b.words }), leg("vector", func(b *searched) []legHit { return b.near })}
	var f fusion.Fuser
	join, kind := f.RRF, index.ScoreRRF
	if method == FusionWeighted {
		join, kind = f.Weighted, index.ScoreWeighted
	}
	hits, err := join(legs, fusion.Options{Compare: compare})
	if err != nil {
		return nil, err
	}
	list := make([]candidate, 0, len(hits))
	for _, h := range hits {
		p := places[h.Key]
		c := candidate{base: p.base, document: p.document, chunk: p.chunk, score: h.Score, own: h.Score, kind: kind}
		if s := h.From[0]; s.Rank > 0 {
			c.keyword = &index.Leg{Rank: s.Rank, Raw: s.Raw, Score: s.Score}
		}
		if s := h.From[1]; s.Rank > 0 {
			c.vector = &index.Leg{Rank: s.Rank, Raw: s.Raw, Score: s.Score}
		}
		list = append(list, c)
	}
	return list, nil
}

// merge makes one list of the bases' lists.
func (q *query) merge() ([]candidate, error) {
	var alive []*searched
	byRank := false
	for _, b := range q.bases {
		if b.err != nil || b.scale == "" { // no scale: nothing was ever ingested
			continue
		}
		alive = append(alive, b)
		byRank = byRank || b.scale != alive[0].scale
	}
	q.resp.Merge = MergeScore
	if byRank {
		q.resp.Merge = MergeRank
		q.note("the bases' scores do not compare (their embedding models or modes differ): merged by rank")
	}
	all, err := q.gather(alive, byRank)
	if err != nil {
		return nil, err
	}
	for _, b := range alive {
		b.stats.Candidates = 0
	}
	for i := range all {
		all[i].base.stats.Candidates++
	}
	slices.SortFunc(all, compareCandidates)
	return all, nil
}

// gather takes the hits of bases together. Those of one scale have one mode.
func (q *query) gather(bases []*searched, byRank bool) (all []candidate, err error) {
	if !byRank && len(bases) > 1 && bases[0].mode == Hybrid {
		return fuse(bases, q.r.Fusion)
	}
	for _, b := range bases {
		list, err := b.candidates(q.r.Fusion)
		if err != nil {
			return nil, err
		}
		b.byRank = byRank
		for rank := range list {
			if byRank {
				list[rank].score = rankScore(rank + 1)
			}
		}
		all = append(all, list...)
	}
	return all, nil
}

// rankScore is reciprocal rank fusion where every item is in one list only,
// divided by its largest value.
func rankScore(rank int) float64 { return 61 / float64(60+rank) }

// read makes items of the best candidates until there are want of them, and
// tells whether there are, or no other candidate can be one: those below least
// are none. Each costs one document read.
func (q *query) read(ctx context.Context, merged []candidate, want int, least float64) (items []Item, complete bool, err error) {
	items = []Item{}
	seen := make(map[string][]int) // items by artifact hash
	for i := range merged {
		c := &merged[i]
		if c.score < least {
			return items, true, nil
		}
		if len(items) == want {
			return items, true, nil
		}
		d, err := c.base.view.snap.Get(ctx, chunkPrefix+chunkID(c.document, c.chunk))
		if err != nil {
			return nil, false, BaseError{Base: c.base.id, Err: err, Message: err.Error()}
		}
		it, err := c.item(d)
		if err != nil {
			return nil, false, BaseError{Base: c.base.id, Err: err, Message: err.Error()}
		}
		hash := it.Metadata.ArtifactHash
		if slices.ContainsFunc(seen[hash], func(j int) bool { return repeats(&items[j], &it) }) {
			continue
		}
		seen[hash] = append(seen[hash], len(items))
		items = append(items, it)
	}
	return items, len(items) >= want, nil
}

// repeats tells whether two items of one source show the same stretch of it, or
// one a part of the other's.
func repeats(a, b *Item) bool {
	m, n := &a.Metadata, &b.Metadata
	switch {
	case m.StartOffset <= n.StartOffset && n.EndOffset <= m.EndOffset:
		return strings.Contains(a.Content, b.Content)
	case n.StartOffset <= m.StartOffset && m.EndOffset <= n.EndOffset:
		return strings.Contains(b.Content, a.Content)
	}
	return false
}

// item makes an Item of a candidate and its stored chunk.
func (c *candidate) item(d index.Document) (Item, error) {
	it, err := itemOf(c.base.view.b, d)
	if err != nil {
		return Item{}, err
	}
	it.Score, it.Kind, it.Keyword, it.Vector = c.score, c.kind, c.keyword, c.vector
	if c.base.byRank {
		own := c.own
		it.Kind, it.RetrievalScore, it.RetrievalKind = ScoreRank, &own, c.kind
	}
	return it, nil
}

// itemOf makes an item without scores of a stored chunk.
func itemOf(b *base, d index.Document) (Item, error) {
	f := fields(d.Meta)
	at := f.num(fieldContentAt)
	text := ""
	for _, t := range d.Text {
		text = t
	}
	if at < 0 || at > len(text) {
		return Item{}, storage.Corruptf("index", 0, "chunk %q: its content starts at %d of %d bytes", d.ID, at, len(text))
	}
	m := Metadata{
		Source: f.str(FieldSource), Page: f.num(FieldPage), PageEnd: f.num(FieldPageEnd), KnowledgeBaseID: b.id, Generation: b.generation, ChunkIndex: f.num(FieldChunk),
		ChunkID: strings.TrimPrefix(d.ID, chunkPrefix), DocumentID: f.str(FieldDocument), DocumentVersion: f.num(FieldVersion),
		ArtifactHash: f.str(FieldArtifact), Title: f.str(FieldTitle), SectionPath: f.list(FieldSection), StartOffset: f.num(FieldStart),
		EndOffset: f.num(FieldEnd), Format: f.str(FieldFormat), Language: f.str(FieldLanguage), Tags: f.list(FieldTags),
		Authors: f.list(FieldAuthors), Entities: f.list(FieldEntities), Freshness: f.str(FieldFreshness), NodeKind: f.str(FieldNodeKind),
		SourceID: f.str(FieldSourceID), Created: f.time(FieldCreated), Modified: f.time(FieldModified), Meta: f.user(),
	}
	if _, ok := f[FieldSourceStart]; ok {
		from, to := f.num(FieldSourceStart), f.num(FieldSourceEnd)
		m.SourceStart, m.SourceEnd = &from, &to
	}
	return Item{Content: text[at:], Metadata: m}, nil
}
