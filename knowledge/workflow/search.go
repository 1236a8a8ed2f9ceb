package workflow

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// A Searcher searches knowledge bases: a *knowledge.Store.
type Searcher interface {
	Search(ctx context.Context, r knowledge.Request) (*knowledge.Response, error)
}

var _ Searcher = (*knowledge.Store)(nil)

// SearchOptions is the config of a search-knowledge-node. The zero value of
// each field but the first two stands for its default.
type SearchOptions struct {
	// KnowledgeBaseIDs, 1 to MaxBases; what repeats counts once, at its first
	// place.
	KnowledgeBaseIDs []string
	// Query is a template.
	Query string
	// TopK is the number of items wanted, 1 to knowledge.MaxTopK; default 5.
	TopK int
	// ScoreThreshold is the least score of an item, 0 to 1; 0 keeps all.
	ScoreThreshold float64
	// Mode is the search_mode; default knowledge.Vector.
	Mode knowledge.Mode
	// Depth is the retrieval_depth: how many hits each leg of each base gives,
	// TopK to index.MaxK; default max(50, 4·TopK).
	Depth int
	// OnError is knowledge.Fail, the default, or knowledge.Partial.
	OnError knowledge.OnError
	// OutputVariable; default "search_results".
	OutputVariable string
}

// Defaults of search and reranker nodes.
const (
	DefaultSearchOutput = "search_results"
	DefaultRerankOutput = "reranked_results"
	DefaultRerankModel  = "cross-encoder"
)

// decodeSearch reads the config of a search-knowledge-node.
func decodeSearch(o *object) SearchOptions {
	s := SearchOptions{
		KnowledgeBaseIDs: o.ids("knowledge_base_ids", MaxBases),
		Query:            o.template("query", ""),
		TopK:             o.integer("top_k", knowledge.DefaultTopK, 1, knowledge.MaxTopK),
		ScoreThreshold:   o.number("score_threshold", 0, 0, 1),
		Mode:             knowledge.Mode(o.choice("search_mode", string(knowledge.Vector), string(knowledge.Vector), string(knowledge.Keyword), string(knowledge.Hybrid))),
		OnError:          knowledge.OnError(o.choice("on_error", string(knowledge.Fail), string(knowledge.Fail), string(knowledge.Partial))),
		OutputVariable:   o.variable("output_variable", DefaultSearchOutput),
	}
	s.Depth = o.integer("retrieval_depth", 0, s.TopK, index.MaxK)
	if s.Query == "" {
		o.fail("query", nil, "required, want text")
	}
	return s
}

// ids reads a list of ids of bases or spaces.
func (o *object) ids(key string, most int) []string {
	ids := o.texts(key)
	v := o.required(key, kindArray)
	switch {
	case v == nil:
		return nil
	case len(ids) == 0 || len(ids) > most:
		o.fail(key, v, "%d ids, want 1 to %d", len(ids), most)
	}
	for i, id := range ids {
		if strings.TrimSpace(id) == "" {
			o.failItem(key, i, v.items[i], "is blank")
		}
	}
	return ids
}

// ParseSearch reads the config of a search-knowledge-node. The error is a
// *ConfigError.
func ParseSearch(config []byte) (*SearchOptions, error) {
	o, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	s := decodeSearch(o)
	return &s, o.end()
}

// parseConfig starts reading a config that stands alone.
func parseConfig(config []byte) (*object, error) {
	t, v, err := parseJSON(config, MaxWorkflowBytes)
	if err != nil {
		return nil, err
	}
	return t.reader("", v), nil
}

// request checks the options and makes a request, without its query.
func (o *SearchOptions) request() (knowledge.Request, error) {
	if o == nil {
		o = &SearchOptions{}
	}
	r := knowledge.Request{TopK: o.TopK, Depth: o.Depth, ScoreThreshold: o.ScoreThreshold, Mode: o.Mode, OnError: o.OnError}
	for i, id := range o.KnowledgeBaseIDs {
		if id = strings.TrimSpace(id); id == "" {
			return r, storage.Invalidf("knowledge_base_ids[%d] is blank", i)
		}
		if !slices.Contains(r.Bases, id) {
			r.Bases = append(r.Bases, id)
		}
	}
	if r.TopK == 0 {
		r.TopK = knowledge.DefaultTopK
	}
	if r.Depth == 0 {
		r.Depth = max(50, 4*r.TopK)
	}
	if r.Mode == "" {
		r.Mode = knowledge.Vector
	}
	if r.OnError == "" {
		r.OnError = knowledge.Fail
	}
	switch {
	case len(r.Bases) == 0 || len(r.Bases) > MaxBases:
		return r, storage.Invalidf("knowledge_base_ids: %d ids, want 1 to %d", len(r.Bases), MaxBases)
	case r.TopK < 1 || r.TopK > knowledge.MaxTopK:
		return r, storage.Invalidf("top_k is %d, want 1 to %d", r.TopK, knowledge.MaxTopK)
	case !(r.ScoreThreshold >= 0 && r.ScoreThreshold <= 1):
		return r, storage.Invalidf("score_threshold is %v, want 0 to 1", r.ScoreThreshold)
	case r.Depth < r.TopK || r.Depth > index.MaxK:
		return r, storage.Invalidf("retrieval_depth is %d, want %d (top_k) to %d", r.Depth, r.TopK, index.MaxK)
	case !slices.Contains([]knowledge.Mode{knowledge.Vector, knowledge.Keyword, knowledge.Hybrid}, r.Mode):
		return r, storage.Invalidf("search_mode is %q, want %s, %s or %s", r.Mode, knowledge.Vector, knowledge.Keyword, knowledge.Hybrid)
	case r.OnError != knowledge.Fail && r.OnError != knowledge.Partial:
		return r, storage.Invalidf("on_error is %q, want %s or %s", r.OnError, knowledge.Fail, knowledge.Partial)
	}
	return r, nil
}

// Search runs a search-knowledge-node: it resolves the query from vars, has s
// search all bases at once, and writes the results to the output variable. Nil
// vars are empty, and nothing is written. Nothing is searched when an option or
// the query is wrong.
func Search(ctx context.Context, s Searcher, o *SearchOptions, vars *Vars) (*Results, error) {
	r, err := o.request()
	if err != nil {
		return nil, err
	}
	if r.Query, err = render(o.Query, vars); err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if s == nil {
		return nil, fmt.Errorf("%w: there is no store of knowledge bases", ErrNotConfigured)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	resp, err := s.Search(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := checkResponse(resp, &r); err != nil {
		return nil, err
	}
	out := &Results{Query: r.Query, Items: resp.Items, Flags: union(nil, resp.Flags...), Notes: resp.Notes}
	for _, e := range resp.Errors {
		out.Errors = append(out.Errors, e)
	}
	return out, write(vars, o.OutputVariable, DefaultSearchOutput, out)
}

// checkResponse holds a Searcher to what nodes further on rely on.
func checkResponse(resp *knowledge.Response, r *knowledge.Request) error {
	if resp == nil {
		return call.Replyf("search", "no response")
	}
	if len(resp.Items) > r.TopK {
		return call.Replyf("search", "%d items, want at most %d", len(resp.Items), r.TopK)
	}
	for i, it := range resp.Items {
		switch {
		case !(it.Score >= r.ScoreThreshold && it.Score <= 1):
			return call.Replyf("search", "item %d has score %v, want %v to 1", i, it.Score, r.ScoreThreshold)
		case i > 0 && it.Score > resp.Items[i-1].Score:
			return call.Replyf("search", "item %d has a better score than the one before it", i)
		}
	}
	return nil
}

// write sets an output variable of a node.
func write(vars *Vars, name, byDefault string, value any) error {
	if vars == nil {
		return nil
	}
	if name == "" {
		name = byDefault
	}
	return vars.Set(name, value)
}
