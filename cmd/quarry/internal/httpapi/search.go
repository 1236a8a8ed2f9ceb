package httpapi

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/keyword"
)

type searchRequest struct {
	Query  string         `json:"query,omitempty" shape:"maxlen=1048576" doc:"words to search for; never read as a syntax"`
	Syntax string         `json:"query_string,omitempty" shape:"maxlen=1048576" doc:"instead of query, in the syntax that people know: title:harbor \"exact phrase\"~2 -tug +pilot ber* fog~1 (a OR b)^2; what is no such syntax is taken for text, and told in notes"`
	Mode   string         `json:"mode,omitempty" shape:"enum=|auto|keyword|vector|hybrid,default=auto" doc:"legs to run; auto takes what is given, and meaning beside words where the collection has a model, unless the words are demanded (phrase, and, fields, …)"`
	Text   *textQuery     `json:"text,omitempty" doc:"how the words are searched"`
	Vector *vectorQuery   `json:"vector,omitempty" doc:"the vector leg"`
	Sparse *sparseQuery   `json:"sparse,omitempty" doc:"a leg of its own, beside what mode runs"`
	Filter shape.Raw      `json:"filter,omitempty" doc:"only documents that match: a string (lang = \"de\" and year >= 2020), or an object in the filter's JSON form"`
	K      *int           `json:"k,omitempty" shape:"min=0,max=10000,default=10" doc:"hits wanted; 0 is for count and facets alone"`
	Offset int            `json:"offset,omitempty" shape:"min=0,max=100000" doc:"hits to skip; offset and k together are at most 100000"`
	After  string         `json:"after,omitempty" shape:"maxlen=4096" doc:"next of the page before, instead of offset"`
	Fusion *fusionRequest `json:"fusion,omitempty" doc:"how a hybrid search joins its legs"`
	Depth  int            `json:"depth,omitempty" shape:"min=0,max=10000,default=100" doc:"hits that each leg gives to the fusion"`
	Min    float64        `json:"min_score,omitempty" shape:"min=0,max=1" doc:"drop hits with a lower final score"`

	Fields    []string       `json:"fields,omitempty" shape:"maxitems=1024" doc:"stored fields and metadata to return; * is all"`
	Group     *groupRequest  `json:"group,omitempty" doc:"the best groups of documents with one value, instead of the best documents: k is the number of groups"`
	Facets    []facetRequest `json:"facets,omitempty" shape:"maxitems=64" doc:"count the values of metadata"`
	Highlight []string       `json:"highlight,omitempty" shape:"maxitems=1024" doc:"text fields to give marked passages of"`
	Count     bool           `json:"count,omitempty" doc:"count the matching documents"`
	Explain   bool           `json:"explain,omitempty" doc:"show the plan and how each score came about"`
	ExplainID string         `json:"explain_id,omitempty" shape:"maxlen=512" doc:"tell in plan.lost where this document was lost, or its rank"`
	Timeout   int            `json:"timeout_ms,omitempty" shape:"min=0,max=600000" doc:"give up after this long, with 504"`
}

type textQuery struct {
	Fields   map[string]float64 `json:"fields,omitempty" shape:"maxitems=1024" doc:"text fields to search with their boosts; default all, as boosted in the schema"`
	Clause   *keyword.Clause    `json:"clause,omitempty" doc:"instead of query: a tree of clauses, each one of match, phrase, phrase_prefix, term, prefix, fuzzy, wildcard, regexp, bool, best and constant"`
	Join     string             `json:"join,omitempty" shape:"enum=|sum|best|together,default=sum" doc:"how several fields make one score: the sum, the best one and tie_breaker times the others, or as one field (BM25F)"`
	Tie      float64            `json:"tie_breaker,omitempty" shape:"min=0,max=1"`
	Operator string             `json:"operator,omitempty" shape:"enum=|or|and,default=or" doc:"and: every word must occur"`
	Should   int                `json:"min_should_match,omitempty" shape:"min=0,max=1024,default=1" doc:"how many words must occur"`
	Phrase   bool               `json:"phrase,omitempty" doc:"the words must stand in this order, next to each other"`
	Slop     int                `json:"slop,omitempty" shape:"min=0,max=10000" doc:"with phrase: at most this many positions apart"`
	Prefix   bool               `json:"prefix,omitempty" doc:"the last word is the start of one"`
	Weight   *float64           `json:"weight,omitempty" shape:"min=0,default=1" doc:"of this leg in a hybrid search, above 0"`
}

type vectorQuery struct {
	Field  string    `json:"field,omitempty" shape:"maxlen=128" doc:"vector field; may be left out when there is one"`
	Values []float32 `json:"values,omitempty" shape:"maxitems=4096" doc:"the query vector; left out, the query is embedded by the collection's model"`
	Ef     int       `json:"ef,omitempty" shape:"min=0,max=10000" doc:"width of the graph walk; default as calibrated for target_recall"`
	Recall float64   `json:"target_recall,omitempty" shape:"min=0,max=1,default=0.95"`
	Exact  bool      `json:"exact,omitempty" doc:"compare every matching vector"`
	Within *float64  `json:"within,omitempty" doc:"the worst raw value wanted, itself included: the least cosine or dot product, the greatest squared distance; hits beyond it are not found, however few are left"`
	Weight *float64  `json:"weight,omitempty" shape:"min=0,default=1" doc:"of this leg in a hybrid search, above 0"`
}

type sparseQuery struct {
	Field  string       `json:"field,omitempty" shape:"maxlen=128" doc:"sparse field; may be left out when there is one"`
	Vector sparseVector `json:"vector" shape:"required" doc:"at most 4096 terms"`
	Weight *float64     `json:"weight,omitempty" shape:"min=0,default=1" doc:"of this leg in a hybrid search, above 0"`
}

func (q *sparseQuery) query() (*index.SparseQuery, error) {
	v, err := q.Vector.vector()
	if err != nil {
		return nil, fmt.Errorf("sparse.vector: %w", err)
	}
	return &index.SparseQuery{Field: q.Field, Vector: v}, nil
}

type fusionRequest struct {
	Method       string `json:"method,omitempty" shape:"enum=|rrf|weighted,default=rrf"`
	RankConstant int    `json:"rank_constant,omitempty" shape:"min=0,max=1000000,default=60" doc:"of rrf"`
}

type facetRequest struct {
	Field string `json:"field" shape:"required,minlen=1,maxlen=128"`
	Limit int    `json:"limit,omitempty" shape:"min=0,max=10000,default=10" doc:"values wanted, the most frequent first"`
}

type groupRequest struct {
	Field string `json:"field" shape:"required,minlen=1,maxlen=128" doc:"metadata, not float64; a document with a list is in the group of each value"`
	Size  int    `json:"size,omitempty" shape:"min=0,max=10000,default=3" doc:"hits of each group; k times size is at most 10000"`
}

type searchIn struct {
	Collection string        `path:"collection" doc:"name of the collection"`
	Body       searchRequest `body:"json"`
}

// A searchAnswer is index.Results.
type searchAnswer struct {
	Hits   []index.Hit                   `json:"hits" doc:"best first; empty with group"`
	Groups []index.Group                 `json:"groups,omitempty" doc:"with group: best first, by their best hits"`
	Total  *int                          `json:"total,omitempty" doc:"matching documents, with count"`
	Next   string                        `json:"next,omitempty" doc:"for after; missing on the last page"`
	Facets map[string][]index.FacetCount `json:"facets,omitempty"`
	Plan   *index.Plan                   `json:"plan,omitempty"`
	Notes  []string                      `json:"notes,omitempty" doc:"what was done that the request did not say"`
}

type batchIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Body       struct {
		Searches []searchRequest `json:"searches" shape:"required,maxitems=100"`
	} `body:"json"`
}

type batchAnswer struct {
	Results []batchResult `json:"results" doc:"one for each search, in order, all of one state of the collection"`
}

type batchResult struct {
	Result  *searchAnswer `json:"result,omitempty"`
	Problem *Problem      `json:"problem,omitempty"`
}

func searchRoutes() []*route {
	const tag, path = "search", "/v1/collections/{collection}/search"
	return []*route{
		op(route{method: "POST", path: path, id: "search", tag: tag, access: Read, summary: "Search by words, by a vector, by a filter, or by all of them"}, search),
		op(route{method: "POST", path: path + "/batch", id: "searchBatch", tag: tag, access: Read, summary: "Several searches on one state of the collection"}, searchBatch),
		op(route{method: "POST", path: "/v1/collections/{collection}/suggest", id: "suggest", tag: tag, access: Read, summary: "Words of a text that may be misspelled, and what may have been meant"}, suggest),
		op(route{method: "POST", path: "/v1/collections/{collection}/terms", id: "terms", tag: tag, access: Read, summary: "Counts of a text field, and of the terms that a search for a text looks up in it"}, terms),
	}
}

func search(c *call, in *searchIn) (*searchAnswer, error) {
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	q, err := in.Body.query(h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline(c.r.Context(), in.Body.Timeout)
	defer cancel()
	start := time.Now()
	if q.embed {
		v, err := h.Embed(ctx, in.Body.Query)
		if err != nil {
			return nil, err
		}
		q.use(v)
		start = c.info.stage("embed", start)
	}
	r, err := h.Index().Search(ctx, q.Query)
	if err != nil {
		return nil, err
	}
	c.stage("search", start)
	return q.answer(r), nil
}

func searchBatch(c *call, in *batchIn) (*batchAnswer, error) {
	h, err := c.collection(in.Collection)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	s, err := h.Index().Snapshot(c.r.Context())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := &batchAnswer{Results: make([]batchResult, len(in.Body.Searches))}
	start := time.Now()
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(out.Results)) {
		wg.Go(func() {
			for i := range next {
				r, err := searchOne(c.r.Context(), h, s, &in.Body.Searches[i])
				if out.Results[i].Result = r; err != nil {
					out.Results[i] = batchResult{Problem: c.problem(err).fill(c.info)}
				}
			}
		})
	}
	for i := range out.Results {
		next <- i
	}
	close(next)
	wg.Wait()
	c.stage("search", start)
	return out, c.r.Context().Err()
}

func searchOne(ctx context.Context, h *registry.Collection, s collection.Reader, in *searchRequest) (*searchAnswer, error) {
	q, err := in.query(h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline(ctx, in.Timeout)
	defer cancel()
	if q.embed {
		v, err := h.Embed(ctx, in.Query)
		if err != nil {
			return nil, err
		}
		q.use(v)
	}
	r, err := s.Search(ctx, q.Query)
	if err != nil {
		return nil, err
	}
	return q.answer(r), nil
}

type suggestIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Body       struct {
		Field string `json:"field" shape:"required,minlen=1,maxlen=128" doc:"a text field"`
		Text  string `json:"text" shape:"required,minlen=1,maxlen=1000"`
		Limit int    `json:"limit,omitempty" shape:"min=0,max=50,default=5" doc:"options of each word"`
	} `body:"json"`
}

type suggestAnswer struct{ *index.Suggestion }

type termsIn struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Body       struct {
		Field string `json:"field" shape:"required,minlen=1,maxlen=128" doc:"a text field"`
		Text  string `json:"text,omitempty" shape:"maxlen=1048576" doc:"as it would be searched for"`
	} `body:"json"`
}

type termsAnswer struct{ *index.TextStats }

// onSnapshot calls f on one state of a collection.
func onSnapshot[Out any](c *call, collection string, f func(*index.Snapshot) (Out, error)) (out Out, err error) {
	h, err := c.collection(collection)
	if err != nil {
		return out, err
	}
	defer h.Release()
	ix, err := h.Local("tell the words of its texts")
	if err != nil {
		return out, err
	}
	s, err := ix.Snapshot()
	if err != nil {
		return out, err
	}
	defer s.Close()
	start := time.Now()
	out, err = f(s)
	c.stage("search", start)
	return out, err
}

func suggest(c *call, in *suggestIn) (*suggestAnswer, error) {
	b := &in.Body
	out, err := onSnapshot(c, in.Collection, func(s *index.Snapshot) (*index.Suggestion, error) {
		return s.Suggest(c.r.Context(), b.Field, b.Text, b.Limit)
	})
	if err == nil && out.Words == nil {
		out.Words = []index.SuggestedWord{}
	}
	return &suggestAnswer{out}, err
}

func terms(c *call, in *termsIn) (*termsAnswer, error) {
	out, err := onSnapshot(c, in.Collection, func(s *index.Snapshot) (*index.TextStats, error) { return s.TermStats(in.Body.Field, in.Body.Text) })
	if err == nil && out.Terms == nil {
		out.Terms = []index.Term{}
	}
	return &termsAnswer{out}, err
}

func deadline(ctx context.Context, ms int) (context.Context, context.CancelFunc) {
	if ms == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
}

// A bound query is the engine's, and what is still to be done about it.
type bound struct {
	index.Query
	embed bool // the words are to be embedded
	notes []string
}

func (q *bound) use(v registry.Vector) {
	q.Vector.Vector, q.Vector.Floor = v.Values, v.Floor
	if v.Truncated {
		q.notes = append(q.notes, "the query is longer than the model's limit: its end has no part in the vector")
	}
}

func (q *bound) answer(r *index.Results) *searchAnswer {
	a := &searchAnswer{Hits: r.Hits, Groups: r.Groups, Next: r.Next, Facets: r.Facets, Plan: r.Plan, Notes: append(q.notes, r.Notes...)}
	if a.Hits == nil {
		a.Hits = []index.Hit{}
	}
	if q.Count {
		a.Total = &r.Total
	}
	return a
}

// query makes the engine's query of a request.
func (r *searchRequest) query(h *registry.Collection) (*bound, error) {
	q := &bound{Query: index.Query{K: 10, Offset: r.Offset, After: r.After, Depth: r.Depth, MinScore: r.Min, Fields: r.Fields, Highlight: r.Highlight,
		Count: r.Count, Explain: r.Explain || r.ExplainID != "", ExplainID: r.ExplainID}}
	if r.K != nil {
		q.K = *r.K
	}
	if r.Fusion != nil {
		q.Fusion.RankConstant = r.Fusion.RankConstant
		if r.Fusion.Method == "weighted" {
			q.Fusion.Method = index.Weighted
		}
	}
	var err error
	if q.Filter, err = parseFilter(r.Filter); err != nil {
		return nil, err
	}
	if r.Group != nil {
		q.Group = &index.GroupRequest{Field: r.Group.Field, Size: r.Group.Size}
	}
	for _, f := range r.Facets {
		q.Facets = append(q.Facets, index.FacetRequest{Field: f.Field, Limit: f.Limit})
	}
	if err := r.legs(h, q); err != nil {
		return nil, err
	}
	if r.Sparse != nil {
		if q.Sparse, err = r.Sparse.query(); err != nil {
			return nil, err
		}
	}
	switch {
	case q.Text == nil && r.Text != nil:
		return nil, &shape.Error{Field: "text", Reason: "there is no keyword leg: query is missing, or mode is vector"}
	case q.Vector == nil && r.Vector != nil:
		return nil, &shape.Error{Field: "vector", Reason: "there is no vector leg: mode is keyword"}
	case q.Text == nil && q.Vector == nil && q.Sparse == nil && q.Filter.IsZero() && len(q.Facets) == 0:
		return nil, &shape.Error{Reason: "nothing to search for: want query, vector, sparse or filter"}
	}
	return q, r.weights(q)
}

// written tells in which of the three ways a text is given.
func (r *searchRequest) written() (words, other bool, err error) {
	words, other = strings.TrimSpace(r.Query) != "", strings.TrimSpace(r.Syntax) != ""
	tree := r.Text != nil && r.Text.Clause != nil
	switch {
	case other && (words || tree):
		err = &shape.Error{Field: "query_string", Reason: "want one of query, query_string and text.clause"}
	case tree && words:
		err = &shape.Error{Field: "text.clause", Reason: "want one of query, query_string and text.clause"}
	case (other || tree) && r.Mode == "vector":
		err = &shape.Error{Field: "mode", Reason: "vector takes no query_string and no text.clause"}
	}
	return words, other || tree, err
}

// legs chooses the legs, as quarry search does.
func (r *searchRequest) legs(h *registry.Collection, q *bound) error {
	words, other, err := r.written()
	if err != nil {
		return err
	}
	given := r.Vector != nil && r.Vector.Values != nil
	embedding, model := h.Embedding()
	if r.Vector != nil && r.Vector.Field != "" && r.Vector.Field != embedding.Field {
		model = false
	}
	t := r.Text
	demands := t != nil && (t.Phrase || t.Operator == "and" || t.Should > 0 || t.Prefix || len(t.Fields) > 0)
	auto := r.Mode == "" || r.Mode == "auto"
	vector := given || words && model && (r.Mode != "keyword" && (!auto || !demands || r.Vector != nil))
	switch {
	case (r.Mode == "keyword" || r.Mode == "hybrid") && !words && !other:
		return &shape.Error{Field: "query", Reason: "mode " + r.Mode + " needs words to search for"}
	case r.Mode == "keyword" && given:
		return &shape.Error{Field: "vector", Reason: "mode keyword takes none"}
	case !auto && r.Mode != "keyword" && !vector, r.Vector != nil && !vector:
		return &shape.Error{Field: "vector.values", Reason: "is missing: give a vector, or words in query and a collection with a model"}
	}
	if (words || other) && r.Mode != "vector" {
		q.Text = r.text(words)
	}
	if vector {
		q.embed = !given
		q.Vector = &index.VectorQuery{}
		if v := r.Vector; v != nil {
			*q.Vector = index.VectorQuery{Field: v.Field, Vector: v.Values, Ef: v.Ef, TargetRecall: v.Recall, Exact: v.Exact, Within: v.Within}
		}
		if q.embed {
			q.Vector.Field = embedding.Field
		}
	}
	return nil
}

// text is the keyword leg, of words, or of what is written in another way.
func (r *searchRequest) text(words bool) *index.TextQuery {
	q := &index.TextQuery{}
	if t := r.Text; t != nil {
		*q = index.TextQuery{Clause: t.Clause, Join: keyword.Join(t.Join), TieBreaker: t.Tie, Fields: t.Fields, MinShouldMatch: t.Should, Phrase: t.Phrase, Slop: t.Slop, Prefix: t.Prefix}
		if t.Operator == "and" {
			q.Operator = index.And
		}
	}
	switch {
	case words:
		q.Text = r.Query
	case q.Clause == nil:
		q.QueryString = r.Syntax
	}
	return q
}

// weights sets those of the legs. A weight of 0 is a leg to be left out, which
// is mode's to say.
func (r *searchRequest) weights(q *bound) error {
	set := func(name string, given *float64, w *float64) error {
		if given == nil {
			return nil
		}
		if *given <= 0 {
			return &shape.Error{Field: name + ".weight", Reason: "want a number above 0; mode leaves a leg out"}
		}
		*w = *given
		return nil
	}
	if r.Text != nil && q.Text != nil {
		if err := set("text", r.Text.Weight, &q.Text.Weight); err != nil {
			return err
		}
	}
	if r.Vector != nil && q.Vector != nil {
		if err := set("vector", r.Vector.Weight, &q.Vector.Weight); err != nil {
			return err
		}
	}
	if r.Sparse != nil {
		return set("sparse", r.Sparse.Weight, &q.Sparse.Weight)
	}
	return nil
}
