package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/quarrysearch/quarry/knowledge/aisearch"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// AISearchInputs are the inputs of an AI Search node. They come from anywhere,
// so they are of any type, and Run checks them; nil stands for the default.
// aisearch.Request is the typed form.
type AISearchInputs struct {
	// Query is a string that is not blank.
	Query any
	// Input is a string, or a list of strings.
	Input any
	// Rerank is a bool; default false.
	Rerank any
	// ResultCount is a finite positive whole number; default 10.
	ResultCount any
	// SearchType is "semantic", the default.
	SearchType any
	// ChunkOptions is a map, as chunk.OptionsFrom reads it, or a
	// chunk.Options; strategy count or divide. A tokenModel and a tokenLimit
	// in it are ignored, whatever they are.
	ChunkOptions any
	// OffsetUnit of the results; default aisearch.UTF16.
	OffsetUnit aisearch.OffsetUnit
	// WithScore adds a score to the results.
	WithScore bool
}

// AISearchResult is the Result output of an AI Search node: its JSON is the
// array of the passages, or {"error": "…"}.
type AISearchResult struct {
	Passages []aisearch.Passage
	Err      error
}

// MarshalJSON writes the array or the error object.
func (r *AISearchResult) MarshalJSON() ([]byte, error) {
	switch {
	case r == nil:
		return []byte("null"), nil
	case r.Err != nil:
		return json.Marshal(map[string]string{"error": clip(r.Err.Error(), maxMessage)})
	case len(r.Passages) == 0:
		return []byte("[]"), nil
	}
	return json.Marshal(r.Passages)
}

// AISearch is an AI Search node: a controlled node, which runs when Run is
// called and fires Done when it is finished. One Run at a time; others wait for
// their turn. It is safe for concurrent use.
type AISearch struct {
	embedder embed.Embedder
	reranker rerank.Reranker
	slot     chan struct{}
}

// NewAISearch returns a node. Without an embedder every Run ends in an error,
// without a reranker every Run that wants one.
func NewAISearch(e embed.Embedder, r rerank.Reranker) *AISearch {
	return &AISearch{e, r, make(chan struct{}, 1)}
}

// Run searches, calls done exactly once with the result, and returns it; done
// may be nil. Every failure is in the result: an input that is wrong, the
// first in the order query, input, rerank, result count, search type, chunk
// options; chunking, embedding, reranking; and the end of ctx, also while
// waiting for the Run before. When done is called, the next Run may start.
func (a *AISearch) Run(ctx context.Context, in AISearchInputs, done func(*AISearchResult)) *AISearchResult {
	res := &AISearchResult{Err: errors.New("the embedder or reranker panicked")}
	if done != nil {
		defer func() { done(res) }() // also when a model panics
	}
	select {
	case a.slot <- struct{}{}:
	case <-ctx.Done():
		res.Err = fmt.Errorf("while waiting for the run before: %w", ctx.Err())
		return res
	}
	defer func() { <-a.slot }()
	res.Passages, res.Err = a.search(ctx, in)
	return res
}

func (a *AISearch) search(ctx context.Context, in AISearchInputs) ([]aisearch.Passage, error) {
	r, err := in.request(a.reranker != nil)
	if err != nil {
		return nil, err
	}
	if a.embedder == nil {
		return nil, fmt.Errorf("%w: there is no embedding model", ErrNotConfigured)
	}
	return aisearch.Search(ctx, r, a.embedder, a.reranker)
}

// Request checks the inputs, in the order that Run does, and makes a typed
// request of them. Values of chunk options are checked when it is used.
func (in AISearchInputs) Request() (aisearch.Request, error) { return in.request(true) }

func (in AISearchInputs) request(hasReranker bool) (r aisearch.Request, err error) {
	r.OffsetUnit, r.WithScore = in.OffsetUnit, in.WithScore
	fail := func(err error) (aisearch.Request, error) { return aisearch.Request{}, err }
	var ok bool
	if u, bad := in.Query.(unresolved); bad {
		return fail(u.err)
	}
	if r.Query, ok = in.Query.(string); !ok || service.IsBlank(r.Query) {
		return fail(storage.Invalidf("query must be a non-empty string"))
	}
	if r.Input, err = inputTexts(in.Input); err != nil {
		return fail(err)
	}
	if r.Rerank, err = rerankFlag(in.Rerank, hasReranker); err != nil {
		return fail(err)
	}
	if r.ResultCount, err = resultCount(in.ResultCount); err != nil {
		return fail(err)
	}
	r.SearchType = aisearch.SearchTypeSemantic
	if u, bad := in.SearchType.(unresolved); bad {
		return fail(u.err)
	}
	if in.SearchType != nil && in.SearchType != any(aisearch.SearchTypeSemantic) {
		return fail(storage.Invalidf("searchType must be %q", aisearch.SearchTypeSemantic))
	}
	if r.Chunk, err = chunkOptions(in.ChunkOptions); err != nil {
		return fail(err)
	}
	return r, nil
}

// unresolved is an input whose template led nowhere: an error in its turn.
type unresolved struct{ err error }

func inputTexts(value any) ([]string, error) {
	switch v := value.(type) {
	case unresolved:
		return nil, v.err
	case string:
		return []string{v}, nil
	case []string:
		return v, nil
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			text, ok := e.(string)
			if !ok {
				return nil, storage.Invalidf("input[%d] must be a string, got %s", i, describe(e))
			}
			out[i] = text
		}
		return out, nil
	}
	return nil, storage.Invalidf("input must be a string or an array of strings, got %s", describe(value))
}

func rerankFlag(value any, hasReranker bool) (bool, error) {
	switch v := value.(type) {
	case unresolved:
		return false, v.err
	case nil:
		return false, nil
	case bool:
		if v && !hasReranker {
			return false, fmt.Errorf("%w: rerank is on and there is no reranking model", ErrNotConfigured)
		}
		return v, nil
	}
	return false, storage.Invalidf("rerank must be a boolean, got %s", describe(value))
}

// resultCount reads a finite positive whole number. One beyond any number of
// chunks asks for all of them.
func resultCount(value any) (int, error) {
	const most = aisearch.MaxChunks
	x := math.NaN()
	switch v := value.(type) {
	case unresolved:
		return 0, v.err
	case nil:
		return aisearch.DefaultResultCount, nil
	case int:
		x = float64(v)
	case int64:
		x = float64(v)
	case float64:
		x = v
	case json.Number:
		if f, err := v.Float64(); err == nil {
			x = f
		}
	}
	if !(x >= 1) || math.IsInf(x, 0) || x != math.Trunc(x) {
		return 0, storage.Invalidf("resultCount must be a positive integer")
	}
	return int(min(x, most)), nil
}

func chunkOptions(value any) (o chunk.Options, err error) {
	switch v := value.(type) {
	case unresolved:
		err = v.err
	case nil:
	case chunk.Options:
		o = v
	case *chunk.Options:
		if v != nil {
			o = *v
		}
	case map[string]any:
		o, err = chunk.OptionsFrom(v)
	default:
		err = storage.Invalidf("chunk options must be an object, got %s", describe(value))
	}
	if err == nil && o.Strategy != "" && o.Strategy != chunk.Count && o.Strategy != chunk.Divide {
		err = storage.Invalidf("chunk options: strategy %q is not count or divide", clip(string(o.Strategy), 40))
	}
	return o, err
}

// DefaultAISearchOutput is the output variable of an ai-search-node.
const DefaultAISearchOutput = "result"

// An aiConfig is the config of an ai-search-node. Inputs may be templates; one
// that is nothing but an expression stands for the value itself.
type aiConfig struct {
	inputs map[string]any
	unit   aisearch.OffsetUnit
	score  bool
	output string
}

// aiInputs are the keys of the node's inputs, in the order of their checks.
var aiInputs = [...]string{"query", "input", "rerank", "resultCount", "searchType", "chunkOptions"}

// decodeAISearch reads the config of an ai-search-node. Types of inputs are not
// checked here: what is wrong with an input is an {error} of the Run.
func decodeAISearch(o *object) aiConfig {
	c := aiConfig{inputs: make(map[string]any)}
	for _, key := range aiInputs {
		v := o.take(key)
		if v == nil || v.kind == kindNull {
			continue
		}
		c.inputs[key] = o.templates(join(o.path, key), v)
	}
	c.unit = aisearch.OffsetUnit(o.choice("offset_unit", string(aisearch.UTF16), string(aisearch.UTF16), string(aisearch.Rune), string(aisearch.Byte)))
	c.score = o.boolean("with_score", false)
	c.output = o.variable("output_variable", DefaultAISearchOutput)
	return c
}

// templates makes templates of texts and of texts in arrays, and plain values
// of all else. Chunk options are taken as they are: a separator is no template.
func (o *object) templates(path string, v *jsonValue) any {
	switch v.kind {
	case kindText:
		return o.parse(path, v)
	case kindArray:
		list := make([]any, len(v.items))
		for i, item := range v.items {
			list[i] = o.templates(fmt.Sprintf("%s[%d]", path, i), item)
		}
		return list
	}
	return v.plain()
}

// resolve replaces templates by what they stand for.
func resolve(value any, vars *Vars) (any, error) {
	switch v := value.(type) {
	case *Template:
		return v.value(vars)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var err error
			if out[i], err = resolve(e, vars); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}

// run runs the node. An input that does not resolve is an error at its place in
// the order of checks: those before it are checked first.
func (c *aiConfig) run(ctx context.Context, a *AISearch, vars *Vars, done func(*AISearchResult)) *AISearchResult {
	in := AISearchInputs{OffsetUnit: c.unit, WithScore: c.score}
	for i, p := range []*any{&in.Query, &in.Input, &in.Rerank, &in.ResultCount, &in.SearchType, &in.ChunkOptions} {
		v, err := resolve(c.inputs[aiInputs[i]], vars)
		if err != nil {
			*p = unresolved{fmt.Errorf("%s: %w", aiInputs[i], err)}
			continue
		}
		*p = v
	}
	return a.Run(ctx, in, done)
}
