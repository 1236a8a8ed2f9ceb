package aisearch

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// An OffsetUnit says what Search counts offsets in.
type OffsetUnit string

// The units; the zero OffsetUnit is UTF16.
const (
	UTF16 OffsetUnit = "utf16" // as JavaScript does
	Rune  OffsetUnit = "rune"
	Byte  OffsetUnit = "byte"
)

// SearchTypeSemantic is the only search type there is.
const SearchTypeSemantic = "semantic"

// Defaults and limits.
const (
	DefaultResultCount = 10
	MaxChunks          = 50_000 // searchable chunks over all documents
	rerankPool         = 50
)

// A Request is a one-shot search over texts that no base holds.
type Request struct {
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

// A Passage is one result: Text is the document from Start to End.
type Passage struct {
	Text          string `json:"text"`
	DocumentIndex int    `json:"documentIndex"`
	Start         int    `json:"start"`
	End           int    `json:"end"`
	// Score is set where the request asks for it: the rerank score, or the
	// cosine rescaled by the embedder's floor; in [0,1].
	Score *float64 `json:"score,omitempty"`
}

// Search cuts documents into chunks, compares each with the query by the
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
func Search(ctx context.Context, r Request, e embed.Embedder, rr rerank.Reranker) ([]Passage, error) {
	chunker, err := r.check(e, rr)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pieces, texts, err := r.chunks(ctx, chunker)
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		return []Passage{}, nil
	}
	model, query, vectors, err := r.embed(ctx, e, texts)
	if err != nil {
		return nil, err
	}
	scored, err := cosines(model, query, vectors)
	if err != nil {
		return nil, err
	}
	pool := r.ResultCount
	if r.Rerank {
		pool = max(rerankPool, r.ResultCount)
	}
	best := bestOf(scored, pool)
	for i := range best {
		best[i].score = fusion.Cosine(best[i].score, model.Floor)
	}
	if r.Rerank {
		if best, err = rescore(ctx, rr, r.Query, texts, best); err != nil {
			return nil, err
		}
	}
	return r.passages(pieces, texts, best[:min(len(best), r.ResultCount)]), nil
}

// check checks a request and fills in defaults.
func (r *Request) check(e embed.Embedder, rr rerank.Reranker) (*chunk.Chunker, error) {
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
	o.TokenLimit, o.MaxChunks = 0, MaxChunks
	if t := embed.SpansOf(e); t != nil {
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

// A piece is a searchable chunk: its document, and its place in the offset unit
// of the request.
type piece struct{ document, start, end int }

// chunks cuts the documents; blank chunks are none. Texts are parts of the
// input, not copies.
func (r *Request) chunks(ctx context.Context, c *chunk.Chunker) (pieces []piece, texts []string, err error) {
	docs := func(yield func(chunk.Document) bool) {
		for _, text := range r.Input {
			if !yield(chunk.Document{Text: text}) {
				return
			}
		}
	}
	for ch, err := range c.Documents(docs) {
		if err == nil && len(texts)&255 == 255 {
			err = ctx.Err()
		}
		if err != nil {
			return nil, nil, err
		}
		if service.IsBlank(ch.Text) {
			continue
		}
		p := piece{ch.Document, ch.UTF16Start, ch.UTF16End}
		switch r.OffsetUnit {
		case Byte:
			p.start, p.end = ch.Start, ch.End
		case Rune:
			p.start, p.end = ch.RuneStart, ch.RuneEnd
		}
		if len(texts) == cap(texts) && ch.End > 0 {
			// What the rest of this document may give, if it is like its start.
			more := max(min((ch.Index+1)*len(r.Input[ch.Document])/ch.End, MaxChunks)-ch.Index, 64)
			pieces, texts = slices.Grow(pieces, more), slices.Grow(texts, more)
		}
		pieces, texts = append(pieces, p), append(texts, ch.Text)
	}
	return pieces, texts, ctx.Err()
}

// embed gives the query's vector and those of the chunks.
func (r *Request) embed(ctx context.Context, e embed.Embedder, texts []string) (embed.Identity, []float32, []float32, error) {
	fail := func(err error) (embed.Identity, []float32, []float32, error) { return embed.Identity{}, nil, nil, err }
	query, err := e.Embed(ctx, embed.Query, []string{r.Query})
	if err != nil {
		return fail(err)
	}
	passages, err := e.Embed(ctx, embed.Passage, texts)
	if err != nil {
		return fail(err)
	}
	model := e.Identity() // known for certain after an answer
	if model.Dim <= 0 {
		model.Dim = len(query.Vectors)
	}
	if err := errors.Join(query.Check(&model, 1), passages.Check(&model, len(texts))); err != nil {
		return fail(err)
	}
	return model, query.Vectors, passages.Vectors, nil
}

func (r *Request) passages(pieces []piece, texts []string, best []semantic) []Passage {
	out := make([]Passage, 0, len(best))
	for _, s := range best {
		at := &pieces[s.chunk]
		p := Passage{Text: texts[s.chunk], DocumentIndex: at.document, Start: at.start, End: at.end}
		if r.WithScore {
			score := s.score
			p.Score = &score
		}
		out = append(out, p)
	}
	return out
}
