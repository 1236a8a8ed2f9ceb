package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// RerankOptions is the config of a reranker-node. The zero value of each field
// but the first stands for its default.
type RerankOptions struct {
	// InputVariable holds search results: a variable, or a path into one.
	InputVariable string
	// TopK is the number of items kept, 1 to knowledge.MaxTopK; default 5.
	TopK int
	// Model names a reranker of the Environment; default "cross-encoder".
	Model string
	// Query is a template; by default the query is the one that the results
	// were searched for.
	Query string
	// OnError is rerank.Fail, the default, or rerank.Keep.
	OnError rerank.Policy
	// OutputVariable; default "reranked_results".
	OutputVariable string
}

// decodeRerank reads the config of a reranker-node.
func decodeRerank(o *object) RerankOptions {
	r := RerankOptions{
		InputVariable:  o.text("input_variable", ""),
		TopK:           o.integer("top_k", knowledge.DefaultTopK, 1, knowledge.MaxTopK),
		Model:          o.text("model", DefaultRerankModel),
		Query:          o.template("query", ""),
		OutputVariable: o.variable("output_variable", DefaultRerankOutput),
	}
	if o.choice("on_error", "fail", "fail", "keep") == "keep" {
		r.OnError = rerank.Keep
	}
	if v := o.required("input_variable", kindText); v != nil {
		if _, reason := parsePath(v.text); reason != "" {
			o.fail("input_variable", v, "%s", reason)
		}
	}
	return r
}

// ParseRerank reads the config of a reranker-node. The error is a
// *ConfigError.
func ParseRerank(config []byte) (*RerankOptions, error) {
	o, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	r := decodeRerank(o)
	return &r, o.end()
}

// Rerank runs a reranker-node: it scores the items of the input variable anew
// with r, keeps the best TopK and writes them to the output variable. The
// rerank score becomes the score, the old one stays as the retrieval score.
// Items that got no score keep their order behind the others.
//
// With rerank.Keep a reranker that fails, is late or breaks its contract leaves
// the old order and scores, cut at TopK, with the flag rerank.FlagSkipped. What
// is wrong with the options or the input is an error all the same.
func Rerank(ctx context.Context, r rerank.Reranker, o *RerankOptions, vars *Vars) (*Results, error) {
	if o == nil {
		o = &RerankOptions{}
	}
	topK := o.TopK
	if topK == 0 {
		topK = knowledge.DefaultTopK
	}
	if topK < 1 || topK > knowledge.MaxTopK {
		return nil, storage.Invalidf("top_k is %d, want 1 to %d", topK, knowledge.MaxTopK)
	}
	if o.OnError > rerank.Keep {
		return nil, storage.Invalidf("on_error is %d, want rerank.Fail or rerank.Keep", o.OnError)
	}
	value, err := vars.Lookup(o.InputVariable)
	if err != nil {
		return nil, fmt.Errorf("input_variable: %w", err)
	}
	in, err := resultsOf(value)
	if err != nil {
		return nil, fmt.Errorf("input_variable %q: %w", o.InputVariable, err)
	}
	query, err := o.query(in, vars)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("%w: there is no reranker %q", ErrNotConfigured, o.model())
	}
	// All are scored and cut here, so that ties fall by the old order.
	ranked, err := knowledge.Rerank(ctx, r, query, in.Items, 0, o.OnError)
	if err != nil {
		return nil, err
	}
	out := &Results{Query: query, Items: ranked.Items[:min(topK, len(ranked.Items))], Flags: union(in.Flags, ranked.Flag),
		Notes: in.Notes, Errors: slices.Clone(in.Errors)}
	if ranked.Err != nil {
		out.Errors = append(out.Errors, ranked.Err)
	}
	return out, write(vars, o.OutputVariable, DefaultRerankOutput, out)
}

func (o *RerankOptions) model() string {
	if o.Model == "" {
		return DefaultRerankModel
	}
	return o.Model
}

// query is that of the options, else that of the results.
func (o *RerankOptions) query(in *Results, vars *Vars) (string, error) {
	switch {
	case o.Query != "":
		q, err := render(o.Query, vars)
		if err != nil {
			return "", fmt.Errorf("query: %w", err)
		}
		return q, nil
	case service.IsBlank(in.Query):
		return "", storage.Invalidf("query: %q carries none, and the node has no template for one", o.InputVariable)
	}
	return in.Query, nil
}
