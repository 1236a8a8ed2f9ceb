package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// An OffsetUnit says what AISearch counts offsets in.
type OffsetUnit string

// The units; the zero OffsetUnit is UTF16.
const (
	UTF16 OffsetUnit = "utf16" // as JavaScript does
	Rune  OffsetUnit = "rune"
	Byte  OffsetUnit = "byte"
)

// SearchTypeSemantic is the only search type of AISearch.
const SearchTypeSemantic = "semantic"

// Defaults and limits of AISearch.
const (
	DefaultResultCount = 10
	MaxAIChunks        = 50_000 // searchable chunks over all documents
	aiRerankPool       = 50
)

// An AIRequest is a one-shot search over texts that no base holds.
type AIRequest struct {
	// Query is not blank.
	Query string
	// Input are the documents. None, or none with text, gives an empty result.
	Input []string
	// Rerank scores the best max(50, ResultCount) anew.
	Rerank bool
	// ResultCount is the number of passages wanted, 1 or more; 0 means 10.
	ResultCount int
	// SearchType is "semantic" or empty.
	SearchType string
	// Chunk says how the documents are cut; the zero value is 500 tokens, 50
	// of them shared. Its Tokenizer, TokenLimit and MaxChunks are always those
	// of the embedder, 32,768 and 50,000.
	Chunk chunk.Options
	// OffsetUnit is UTF16 (the default), Rune or Byte.
	OffsetUnit OffsetUnit
	// WithScore puts the score into the passages.
	WithScore bool
}

// An AIPassage is one result: Text is the document from Start to End.
type AIPassage struct {
	Text          string `json:"text"`
	DocumentIndex int    `json:"documentIndex"`
	Start         int    `json:"start"`
	End           int    `json:"end"`
	// Score is set where the request asks for it: the rerank score, or the
	// cosine rescaled by the embedder's floor; in [0,1].
	Score *float64 `json:"score,omitempty"`
}

// AISearch cuts documents into chunks, compares each with the query by the
// cosine of their embeddings, and returns the best, equal ones in the order of
// document and chunk. The reranker may be nil unless the request wants it.
//
// The request is checked in the order query, input, rerank, result count,
// search type, chunk options, offset unit; the first that is wrong is the error
// (storage.ErrInvalid). More than 50,000 chunks are chunk.ErrTooManyChunks, as
// soon as there is one too many. One failed embedding or a reranker that breaks
// its contract fails the call. The result is never nil without an error.
//
// Beside chunking and embedding it costs one pass over the vectors.
func AISearch(ctx context.Context, r AIRequest, e embed.Embedder, rr rerank.Reranker) ([]AIPassage, error) {
	chunker, err := r.check(e, rr)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	chunks, err := r.chunks(ctx, chunker)
	if err != nil {
		return nil, err
	}
	if len(chunks) == 0 {
		return []AIPassage{}, nil
	}
	model, query, vectors, err := r.embed(ctx, e, chunks)
	if err != nil {
		return nil, err
	}
	scored, err := cosines(model, query, vectors)
	if err != nil {
		return nil, err
	}
	pool := r.ResultCount
	if r.Rerank {
		pool = max(aiRerankPool, r.ResultCount)
	}
	best := bestOf(scored, pool)
	for i := range best {
		best[i].score = fusion.Cosine(best[i].score, model.Floor)
	}
	if r.Rerank {
		if best, err = rescore(ctx, rr, r.Query, chunks, best); err != nil {
			return nil, err
		}
	}
	return r.passages(chunks, best[:min(len(best), r.ResultCount)]), nil
}

// check checks a request and fills in defaults.
func (r *AIRequest) check(e embed.Embedder, rr rerank.Reranker) (*chunk.Chunker, error) {
	if service.IsBlank(r.Query) {
		return nil, storage.Invalidf("query must be a non-empty string")
	}
	for i, text := range r.Input {
		if !utf8.ValidString(text) {
			return nil, storage.Invalidf("input %d is not valid text (UTF-8)", i)
		}
	}
	if r.Rerank && rr == nil {
		return nil, storage.Invalidf("rerank: there is no reranking model")
	}
	if r.ResultCount == 0 {
		r.ResultCount = DefaultResultCount
	}
	if r.ResultCount < 0 {
		return nil, storage.Invalidf("resultCount %d: want a positive integer", r.ResultCount)
	}
	if r.SearchType != "" && r.SearchType != SearchTypeSemantic {
		return nil, storage.Invalidf("searchType %q: want %s", r.SearchType, SearchTypeSemantic)
	}
	if e == nil {
		return nil, storage.Invalidf("there is no embedding model")
	}
	o := r.Chunk
	o.TokenLimit, o.MaxChunks = 0, MaxAIChunks
	if t := TokenizerOf(e); t != nil {
		o.Tokenizer = t
	}
	chunker, err := chunk.New(&o)
	if err != nil {
		return nil, err
	}
	switch r.OffsetUnit {
	case "":
		r.OffsetUnit = UTF16
	case UTF16, Rune, Byte:
	default:
		return nil, storage.Invalidf("offset_unit %q: want %s, %s or %s", r.OffsetUnit, UTF16, Rune, Byte)
	}
	return chunker, nil
}

// chunks cuts the documents; blank chunks are none.
func (r *AIRequest) chunks(ctx context.Context, c *chunk.Chunker) ([]chunk.Chunk, error) {
	var out []chunk.Chunk
	docs := func(yield func(chunk.Document) bool) {
		for _, text := range r.Input {
			if !yield(chunk.Document{Text: text}) {
				return
			}
		}
	}
	for ch, err := range c.Documents(docs) {
		if err == nil && len(out)&255 == 255 {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if !service.IsBlank(ch.Text) {
			out = append(out, ch)
		}
	}
	return out, ctx.Err()
}

// embed gives the query's vector and those of the chunks.
func (r *AIRequest) embed(ctx context.Context, e embed.Embedder, chunks []chunk.Chunk) (embed.Identity, []float32, []float32, error) {
	fail := func(err error) (embed.Identity, []float32, []float32, error) { return embed.Identity{}, nil, nil, err }
	query, err := e.Embed(ctx, embed.Query, []string{r.Query})
	if err != nil {
		return fail(err)
	}
	texts := make([]string, len(chunks))
	for i := range chunks {
		texts[i] = chunks[i].Text
	}
	passages, err := e.Embed(ctx, embed.Passage, texts)
	if err != nil {
		return fail(err)
	}
	model := e.Identity() // known for certain after an answer
	if model.Dim <= 0 {
		model.Dim = len(query.Vectors)
	}
	if model.Dim <= 0 || len(query.Vectors) != model.Dim {
		return fail(badShape(&model, len(query.Vectors), 1))
	}
	if len(passages.Vectors) != len(texts)*model.Dim {
		return fail(badShape(&model, len(passages.Vectors), len(texts)))
	}
	return model, query.Vectors, passages.Vectors, nil
}

// A semantic is a chunk with its score.
type semantic struct {
	chunk int
	score float64
}

// cosines compares the query with every row. A vector of length zero has cosine
// 0; one that is not finite is ErrEmbedding.
func cosines(model embed.Identity, query, rows []float32) ([]semantic, error) {
	_, qq := dotNorm(query, query)
	dim := len(query)
	out := make([]semantic, len(rows)/dim)
	bad := math.IsNaN(qq) || math.IsInf(qq, 0)
	for i := range out {
		dot, norm := dotNorm(query, rows[i*dim:(i+1)*dim])
		if square := qq * norm; square > 0 {
			out[i] = semantic{i, dot / math.Sqrt(square)}
		} else {
			out[i] = semantic{i, 0}
			bad = bad || square != 0
		}
		bad = bad || !(norm <= math.MaxFloat32)
	}
	if bad {
		return nil, notFinite(&model)
	}
	return out, nil
}

// dotNorm returns the product of two vectors and the squared length of the
// second, in float32 sums of 4 lanes, each product rounded before it is added:
// the same bits on every processor.
func dotNorm(a, b []float32) (dot, norm float64) {
	var d, n [4]float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		d[0] += float32(x[0] * y[0])
		d[1] += float32(x[1] * y[1])
		d[2] += float32(x[2] * y[2])
		d[3] += float32(x[3] * y[3])
		n[0] += float32(y[0] * y[0])
		n[1] += float32(y[1] * y[1])
		n[2] += float32(y[2] * y[2])
		n[3] += float32(y[3] * y[3])
	}
	for ; i < len(a); i++ {
		d[0] += float32(a[i] * b[i])
		n[0] += float32(b[i] * b[i])
	}
	return float64((d[0] + d[1]) + (d[2] + d[3])), float64((n[0] + n[1]) + (n[2] + n[3]))
}

func compareSemantic(a, b semantic) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.chunk, b.chunk))
}

// bestOf returns the best n, best first. Chunks are numbered by document, then
// by place in it, so the number decides between equals. The heap's root is the
// worst kept.
func bestOf(all []semantic, n int) []semantic {
	if n >= len(all) {
		slices.SortFunc(all, compareSemantic)
		return all
	}
	heap := slices.Clone(all[:n])
	down := func(i int) {
		for {
			kid := 2*i + 1
			if kid >= n {
				return
			}
			if kid+1 < n && compareSemantic(heap[kid+1], heap[kid]) > 0 {
				kid++
			}
			if compareSemantic(heap[kid], heap[i]) <= 0 {
				return
			}
			heap[i], heap[kid] = heap[kid], heap[i]
			i = kid
		}
	}
	for i := n/2 - 1; i >= 0; i-- {
		down(i)
	}
	for _, s := range all[n:] {
		if s.score > heap[0].score { // equal ones come later in order
			heap[0] = s
			down(0)
		}
	}
	slices.SortFunc(heap, compareSemantic)
	return heap
}

// rescore puts candidates in the reranker's order; equal ones stay as they were,
// and those it gave no score follow, with score 0.
func rescore(ctx context.Context, rr rerank.Reranker, query string, chunks []chunk.Chunk, best []semantic) ([]semantic, error) {
	texts := make([]string, len(best))
	for i, s := range best {
		texts[i] = chunks[s.chunk].Text
	}
	o, err := rerank.Apply(ctx, rr, query, texts, 0, rerank.Fail)
	if err != nil {
		return nil, fmt.Errorf("rerank: %w", err)
	}
	if o.Scored == 0 {
		return nil, fmt.Errorf("%w: %s gave none of %d passages a score", ErrRerank, rr.Name(), len(texts))
	}
	out := make([]semantic, len(o.Ranked))
	for i, x := range o.Ranked {
		out[i] = semantic{best[x.Index].chunk, x.Score}
	}
	return out, nil
}

func (r *AIRequest) passages(chunks []chunk.Chunk, best []semantic) []AIPassage {
	out := make([]AIPassage, 0, len(best))
	for _, s := range best {
		ch := &chunks[s.chunk]
		p := AIPassage{Text: ch.Text, DocumentIndex: ch.Document}
		switch r.OffsetUnit {
		case Byte:
			p.Start, p.End = ch.Start, ch.End
		case Rune:
			p.Start, p.End = ch.RuneStart, ch.RuneEnd
		default:
			p.Start, p.End = ch.UTF16Start, ch.UTF16End
		}
		if r.WithScore {
			score := s.score
			p.Score = &score
		}
		out = append(out, p)
	}
	return out
}
