package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// Mode says which legs a search has.
type Mode string

// The modes; the zero Mode is Vector.
const (
	Vector  Mode = "vector"
	Keyword Mode = "keyword"
	Hybrid  Mode = "hybrid"
)

// OnError says what a failing base, leg or reranker does to a search.
type OnError string

// The policies; the zero OnError is Fail.
const (
	// Fail makes it an error that names the base.
	Fail OnError = "fail"
	// Partial answers with the rest and a degradation flag. When every base
	// fails it is an error all the same.
	Partial OnError = "partial"
)

// Degradation flags. FlagBaseMissing and FlagBaseFailed are followed by the id
// of the base. A flag comes once.
const (
	FlagBaseMissing = "base-missing:"
	FlagBaseFailed  = "base-failed:"
	FlagDense       = "dense-failed:fts-only"
	FlagKeyword     = "fts-failed:dense-only"
	FlagRerank      = rerank.FlagSkipped
)

// A Request asks one or more bases for the chunks that answer a query.
type Request struct {
	// Bases to search, 1 or more: "id" for the live base, "id@n" for a
	// generation. Repeated ones count once, at their first place.
	Bases []string
	// Query is text, never a syntax. A blank one is storage.ErrInvalid.
	Query string
	// Mode is one of Vector (the default), Keyword and Hybrid.
	Mode Mode
	// Fusion joins the legs of a hybrid search: FusionRRF (the default) or
	// FusionWeighted.
	Fusion Fusion
	// TopK is the number of items wanted: default 5, 1–1,000.
	TopK int
	// Depth is how many hits every leg of every base gives; default
	// max(50, 4·TopK), at most 10,000, and never less than TopK.
	Depth int
	// ScoreThreshold drops items with a lower final score, after the rerank
	// step; inclusive, in [0,1]; 0 keeps all.
	ScoreThreshold float64
	// Filter on the metadata of chunks (the Field constants, MetaPrefix). In a
	// base that does not know one of its fields no chunk has that field, so
	// what asks for it matches nothing there; a field that none of the bases
	// knows is an error (storage.ErrInvalid).
	Filter filter.Filter
	// Vectors are embeddings made ahead (Store.EmbedQueries); a query or a model
	// that is not among them is embedded by the search. Nil is none.
	Vectors *QueryVectors
	// OnError is Fail (the default) or Partial.
	OnError OnError
	// Rerank, when it is not nil, scores the best candidates anew.
	Rerank rerank.Reranker
	// RerankPool is how many candidates it gets: default max(50, TopK), at
	// most 1,000.
	RerankPool int
	// RerankKeep keeps the retrieval order, with FlagRerank, when the reranker
	// fails. OnError Partial implies it.
	RerankKeep bool
}

// Ranges and defaults of a Request.
const (
	DefaultTopK = 5
	MaxTopK     = 1000
	minDepth    = 50
)

// ScoreRerank is the score kind of reranked items, beside those of package
// index. ScoreRank is that of items merged by rank.
const (
	ScoreRerank index.ScoreKind = "rerank"
	ScoreRank   index.ScoreKind = "rank"
)

// Merge tells how the lists of the bases became one.
type Merge string

// The ways of merging.
const (
	// MergeScore orders by score: all bases score alike.
	MergeScore Merge = "score"
	// MergeRank orders by rank in the own base, 61/(60+rank), because the
	// bases' scores do not compare: their models, metrics or modes differ. It
	// is reciprocal rank fusion, scaled so that the best of a base has score 1.
	MergeRank Merge = "rank"
)

// A Response is the answer to a Request.
type Response struct {
	Items []Item `json:"items"`
	// Query is that of the request, for a reranker further on.
	Query string `json:"query"`
	Mode  Mode   `json:"mode"`
	Merge Merge  `json:"merge"`
	// Flags tell of degradations, each once, in order.
	Flags []string `json:"degradation_flags"`
	// Errors are what Partial kept from being an error, in base order.
	Errors []BaseError `json:"errors,omitempty"`
	// Notes tell what was done that the request did not say.
	Notes   []string      `json:"notes,omitempty"`
	Bases   []BaseStats   `json:"bases"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// BaseStats tells how one base was searched.
type BaseStats struct {
	ID         string        `json:"id"`   // as in the request
	Mode       Mode          `json:"mode"` // of this base: one without a model is searched by keyword
	Candidates int           `json:"candidates"`
	Elapsed    time.Duration `json:"elapsed_ns"`
}

// A BaseError is the failure of one base.
type BaseError struct {
	Base string `json:"base"` // as in the request
	Err  error  `json:"-"`
	// Message is the text of Err.
	Message string `json:"message"`
}

func (e BaseError) Error() string { return fmt.Sprintf("knowledge base %q: %s", e.Base, e.Message) }

// Unwrap returns the cause.
func (e BaseError) Unwrap() error { return e.Err }

// An Item is one chunk found, with what is needed to cite it.
type Item struct {
	Content string          `json:"content"`
	Score   float64         `json:"score"` // in [0,1]
	Kind    index.ScoreKind `json:"score_kind"`
	// RetrievalScore is the score before merging by rank or reranking, and
	// RetrievalKind its kind; nil where Score is that.
	RetrievalScore *float64        `json:"retrieval_score,omitempty"`
	RetrievalKind  index.ScoreKind `json:"retrieval_kind,omitempty"`
	// Unscored tells that the reranker gave other items a score but not this
	// one; its Score is then 0.
	Unscored bool `json:"unscored,omitempty"`
	// Keyword and Vector tell what each leg knew of it: rank in its base, raw
	// value, score.
	Keyword  *index.Leg `json:"keyword,omitempty"`
	Vector   *index.Leg `json:"vector,omitempty"`
	Metadata Metadata   `json:"metadata"`
}

// Metadata tells where an item comes from. What is unknown is left out.
type Metadata struct {
	Source          string `json:"source"`
	Page            int    `json:"page,omitempty"`     // where the chunk starts, from 1
	PageEnd         int    `json:"page_end,omitempty"` // only when it crosses
	KnowledgeBaseID string `json:"knowledge_base_id"`
	ChunkIndex      int    `json:"chunk_index"` // from 0
	// Generation is that of the reference "id@n"; 0 for the live base.
	Generation int `json:"generation,omitempty"`

	ChunkID         string   `json:"chunk_id"` // for Store.Expand
	DocumentID      string   `json:"document_id"`
	DocumentVersion int      `json:"document_version"`
	ArtifactHash    string   `json:"artifact_hash"` // SHA-256 of the source bytes
	Title           string   `json:"title,omitempty"`
	SectionPath     []string `json:"section_path,omitempty"`
	// StartOffset and EndOffset are bytes of the document's text;
	// SourceStart and SourceEnd are bytes of the source, given where the
	// content is a copy of them.
	StartOffset int      `json:"start_offset"`
	EndOffset   int      `json:"end_offset"`
	SourceStart *int     `json:"source_start,omitempty"`
	SourceEnd   *int     `json:"source_end,omitempty"`
	Format      string   `json:"format,omitempty"`
	Language    string   `json:"language,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	// Entities are names that the chunk's document holds, SourceID is what its
	// source is called elsewhere; see the package comment.
	Entities  []string       `json:"entities,omitempty"`
	Freshness string         `json:"freshness,omitempty"`
	NodeKind  string         `json:"node_kind,omitempty"`
	SourceID  string         `json:"source_id,omitempty"`
	Authors   []string       `json:"authors,omitempty"`
	Created   time.Time      `json:"created,omitzero"`
	Modified  time.Time      `json:"modified,omitzero"`
	Meta      map[string]any `json:"meta,omitempty"` // without MetaPrefix
}

// normalize checks a request and fills in defaults.
func (r *Request) normalize() error {
	if r.Mode == "" {
		r.Mode = Vector
	}
	if r.Fusion == "" {
		r.Fusion = FusionRRF
	}
	if r.OnError == "" {
		r.OnError = Fail
	}
	if r.TopK == 0 {
		r.TopK = DefaultTopK
	}
	if r.Depth == 0 {
		r.Depth = max(minDepth, 4*r.TopK)
	}
	if r.RerankPool == 0 {
		r.RerankPool = max(minDepth, r.TopK)
	}
	var bases []string
	for _, id := range r.Bases {
		if !slices.Contains(bases, id) {
			bases = append(bases, id)
		}
	}
	r.Bases, r.Query = bases, strings.ToValidUTF8(r.Query, "\uFFFD")
	switch {
	case len(r.Bases) == 0:
		return storage.Invalidf("knowledge_base_ids: want 1 or more")
	case service.IsBlank(r.Query):
		return storage.Invalidf("query is blank")
	case len(r.Query) > index.MaxQueryText:
		return storage.Invalidf("query of %d bytes, at most %d", len(r.Query), index.MaxQueryText)
	case r.Mode != Vector && r.Mode != Keyword && r.Mode != Hybrid:
		return storage.Invalidf("search_mode %q: want %s, %s or %s", r.Mode, Vector, Keyword, Hybrid)
	case r.Fusion != FusionRRF && r.Fusion != FusionWeighted:
		return storage.Invalidf("fusion %q: want %s or %s", r.Fusion, FusionRRF, FusionWeighted)
	case r.OnError != Fail && r.OnError != Partial:
		return storage.Invalidf("on_error %q: want %s or %s", r.OnError, Fail, Partial)
	case r.TopK < 1 || r.TopK > MaxTopK:
		return storage.Invalidf("top_k %d: want 1 to %d", r.TopK, MaxTopK)
	case r.Depth < 1 || r.Depth > index.MaxK:
		return storage.Invalidf("depth %d: want 1 to %d", r.Depth, index.MaxK)
	case r.RerankPool < 1 || r.RerankPool > MaxTopK:
		return storage.Invalidf("rerank pool %d: want 1 to %d", r.RerankPool, MaxTopK)
	case !(r.ScoreThreshold >= 0 && r.ScoreThreshold <= 1):
		return storage.Invalidf("score_threshold %v: want 0 to 1", r.ScoreThreshold)
	}
	r.Depth = max(r.Depth, r.TopK)
	r.RerankPool = max(r.RerankPool, r.TopK)
	return nil
}

// Search asks every base in its own way, merges their lists into one, drops
// what repeats, reranks if asked to, and cuts.
//
// A query is embedded once for each model among the bases. Items come by score
// descending; ties by the order of the bases in the request, document id, chunk
// index. Of hits that repeat one stretch of one document (equal or contained
// spans, also in two bases) the best stays and the list is filled up. The same
// request on the same bases gives the same answer, for any parallelism.
func (s *Store) Search(ctx context.Context, r Request) (*Response, error) {
	start := time.Now()
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := r.normalize(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q := &query{s: s, r: &r, resp: &Response{Items: []Item{}, Query: r.Query, Mode: r.Mode, Merge: MergeScore, Flags: []string{}}}
	defer q.close()
	if err := q.open(ctx); err != nil {
		return nil, err
	}
	if err := q.embed(ctx); err != nil {
		return nil, err
	}
	items, err := q.collect(ctx)
	if err != nil {
		return nil, err
	}
	if q.resp.Items, err = q.finish(ctx, items); err != nil {
		return nil, err
	}
	for _, b := range q.bases {
		if b.err == nil {
			q.resp.Bases = append(q.resp.Bases, b.stats)
		}
	}
	q.resp.Elapsed = time.Since(start)
	return q.resp, nil
}

// A query is one search on its way.
type query struct {
	s     *Store
	r     *Request
	resp  *Response
	bases []*searched
}

// searched is one base of a query.
type searched struct {
	order  int // in the request
	id     string
	view   *view
	mode   Mode
	filter filter.Filter
	vector []float32 // nil without a vector leg, or where the query has no direction
	floor  float64
	scale  string // bases of one scale have scores that compare
	depth  int
	words  []legHit // of the legs
	near   []legHit
	ran    bool
	more   bool // a deeper search would find more
	byRank bool // the list is merged by rank
	err    error
	stats  BaseStats
	// reported tells that err is in the answer.
	reported bool
	// lost is the flag of a leg that failed in a partial answer.
	lost    string
	lostErr error
}

// A candidate is a hit before its document is read.
type candidate struct {
	base     *searched
	document string
	chunk    int
	score    float64 // merged
	own      float64 // in its base
	kind     index.ScoreKind
	keyword  *index.Leg
	vector   *index.Leg
}

func compareCandidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.base.order, b.base.order), cmp.Compare(a.document, b.document),
		cmp.Compare(a.chunk, b.chunk))
}

func (q *query) close() {
	for _, b := range q.bases {
		if b.view != nil {
			b.view.close()
		}
	}
}

func (q *query) flag(flag string) {
	if !slices.Contains(q.resp.Flags, flag) {
		q.resp.Flags = append(q.resp.Flags, flag)
	}
}

func (q *query) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(q.resp.Notes, n) {
		q.resp.Notes = append(q.resp.Notes, n)
	}
}

// open takes a snapshot of every base.
func (q *query) open(ctx context.Context) error {
	for i, id := range q.r.Bases {
		b := &searched{order: i, id: id, depth: q.r.Depth, stats: BaseStats{ID: id}}
		q.bases = append(q.bases, b)
		b.view, b.err = q.s.view(ctx, id)
		if b.err == nil {
			b.err = b.choose(q.r.Mode)
		}
	}
	if err := q.filters(ctx); err != nil {
		return err
	}
	return q.settle(ctx)
}

// choose says how a base is searched: in hybrid mode by keyword where it has no
// vectors.
func (b *searched) choose(mode Mode) error {
	cat := &b.view.cat
	b.mode = mode
	if cat.Frozen && cat.Model == nil && mode != Keyword {
		if mode == Vector {
			return storage.Invalidf("it was made without an embedding model and has no vectors: search it by keyword, or rebuild it with: quarry kb rebuild %s", b.id)
		}
		b.mode = Keyword
	}
	b.stats.Mode = b.mode
	return nil
}

// settle makes failures of bases an error, or flags of a partial answer.
func (q *query) settle(ctx context.Context) error {
	alive := 0
	var first error
	for _, b := range q.bases {
		if b.lost != "" {
			q.flag(b.lost)
			q.resp.Errors = append(q.resp.Errors, BaseError{Base: b.id, Err: b.lostErr, Message: b.lostErr.Error()})
			b.lost = ""
		}
		if b.err == nil {
			alive++
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e := BaseError{Base: b.id, Err: b.err, Message: b.err.Error()}
		if first == nil {
			first = e
		}
		if q.r.OnError == Fail {
			return e
		}
		if b.reported {
			continue
		}
		b.reported = true
		q.resp.Errors = append(q.resp.Errors, e)
		if errors.Is(b.err, storage.ErrNotFound) {
			q.flag(FlagBaseMissing + b.id)
		} else {
			q.flag(FlagBaseFailed + b.id)
		}
	}
	if alive == 0 {
		return first
	}
	return nil
}

// collect searches, merges and reads documents until there are as many items as
// wanted, deeper when repeats have taken places.
func (q *query) collect(ctx context.Context) ([]Item, error) {
	want, least := q.r.TopK, q.r.ScoreThreshold
	if q.r.Rerank != nil {
		want, least = q.r.RerankPool, 0 // the threshold is for final scores
	}
	for {
		if err := q.search(ctx); err != nil {
			return nil, err
		}
		merged, err := q.merge()
		if err != nil {
			return nil, err
		}
		items, complete, err := q.read(ctx, merged, want, least)
		if err != nil {
			return nil, err
		}
		deeper := false
		for _, b := range q.bases {
			if b.err == nil && b.more && b.depth < index.MaxK {
				b.depth, deeper = min(2*b.depth, index.MaxK), true
			}
		}
		if complete || !deeper {
			return items, nil
		}
	}
}

// search runs all bases, at most Options.Threads at a time.
func (q *query) search(ctx context.Context) error {
	slots := make(chan struct{}, max(1, q.s.o.Threads))
	var wg sync.WaitGroup
	for _, b := range q.bases {
		if b.err != nil || b.ran && !b.more {
			continue
		}
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer wg.Done()
			start := time.Now()
			b.err = b.run(ctx, q.r)
			b.stats.Elapsed += time.Since(start)
			b.ran = true
			<-slots
		}()
	}
	wg.Wait()
	return q.settle(ctx)
}

// finish reranks, applies the threshold and cuts.
func (q *query) finish(ctx context.Context, items []Item) ([]Item, error) {
	if q.r.Rerank != nil && len(items) > 0 {
		policy := rerank.Fail
		if q.r.RerankKeep || q.r.OnError == Partial {
			policy = rerank.Keep
		}
		out, err := Rerank(ctx, q.r.Rerank, q.r.Query, items, 0, policy)
		if err != nil {
			return nil, err
		}
		if items = out.Items; out.Flag != "" {
			q.flag(out.Flag)
		}
	}
	kept := items[:0]
	for _, it := range items {
		if it.Score >= q.r.ScoreThreshold && len(kept) < q.r.TopK {
			kept = append(kept, it)
		}
	}
	return kept, nil
}

// Reranked is the answer of Rerank.
type Reranked struct {
	Items []Item
	Flag  string // FlagRerank when the order is still the first one
	Err   error  // what rerank.Keep kept from being an error
}

// Rerank puts items in the order of a reranker and keeps the best topN, all when
// topN ≤ 0. The rerank score becomes the score, the old one RetrievalScore.
// Items that the reranker gave no score keep their order behind the others, with
// score 0. Indices that repeat or are out of range, and scores that are not
// finite, are contract errors. Items are not changed; the result is a copy.
func Rerank(ctx context.Context, r rerank.Reranker, query string, items []Item, topN int, policy rerank.Policy) (Reranked, error) {
	passages := make([]string, len(items))
	for i := range items {
		passages[i] = items[i].Content
	}
	out, err := rerank.Apply(ctx, r, query, passages, topN, policy)
	if err != nil {
		return Reranked{}, err
	}
	res := Reranked{Items: make([]Item, 0, len(out.Ranked)), Flag: out.Flag, Err: out.Err}
	for _, x := range out.Ranked {
		it := items[x.Index]
		if out.Flag == "" {
			if it.RetrievalScore == nil {
				old := it.Score
				it.RetrievalScore, it.RetrievalKind = &old, it.Kind
			}
			it.Score, it.Kind, it.Unscored = x.Score, ScoreRerank, !x.Scored
		}
		res.Items = append(res.Items, it)
	}
	return res, nil
}
