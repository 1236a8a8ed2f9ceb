package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/aisearch"
	"github.com/quarrysearch/quarry/knowledge/workflow"
)

type nodeRequest struct {
	Config    shape.Raw `json:"config" shape:"required" doc:"the config of the node, as in a workflow"`
	Variables shape.Raw `json:"variables,omitempty" doc:"an object: the variables that the config's templates and names lead into"`
}

type nodeIn struct {
	Body nodeRequest `body:"json"`
}

type nodeAnswer struct {
	Variable string           `json:"output_variable"`
	Results  []knowledge.Item `json:"results" doc:"best first"`
	Query    string           `json:"query"`
	Flags    []string         `json:"degradation_flags"`
	Notes    []string         `json:"notes,omitempty"`
	Errors   []string         `json:"errors,omitempty" doc:"what an on_error option kept from failing"`
}

// The inputs of an ai-search node are of any type: the node itself checks them,
// in the order of its rules, and tells in its result what is wrong.
type aiSearchRequest struct {
	Query        any    `json:"query,omitempty" doc:"a string that is not blank"`
	Input        any    `json:"input,omitempty" doc:"a string, or a list of strings"`
	Rerank       any    `json:"rerank,omitempty" doc:"true or false"`
	ResultCount  any    `json:"resultCount,omitempty" doc:"a whole number above 0; default 10"`
	SearchType   any    `json:"searchType,omitempty" doc:"semantic"`
	ChunkOptions any    `json:"chunkOptions,omitempty" doc:"an object: strategy, unit, size, separator, overlap, tokenModel, tokenLimit"`
	OffsetUnit   string `json:"offset_unit,omitempty" shape:"enum=|utf16|rune|byte,default=utf16"`
	WithScore    bool   `json:"with_score,omitempty"`
}

type aiSearchAnswer struct {
	Result json.RawMessage `json:"result" doc:"the passages, {text, documentIndex, start, end}, or {error}"`
}

type runRequest struct {
	Workflow shape.Raw `json:"workflow" shape:"required" doc:"the workflow's JSON: name, nodes, edges"`
	Input    shape.Raw `json:"input,omitempty" doc:"an object: the input variables"`
	Trace    bool      `json:"trace,omitempty" doc:"add the trace of the nodes"`
}

type runAnswer struct {
	Outputs map[string]any        `json:"outputs"`
	Error   *workflow.ErrorObject `json:"error,omitempty" doc:"what ended the run; missing when it reached its end"`
	Trace   []workflow.NodeTrace  `json:"trace,omitempty"`
}

func nodeRoutes() []*route {
	const tag = "nodes"
	return []*route{
		op(route{method: "POST", path: "/v1/nodes/search-knowledge", id: "searchKnowledgeNode", tag: tag, access: Read, summary: "Run a Search Knowledge node"}, searchNode),
		op(route{method: "POST", path: "/v1/nodes/reranker", id: "rerankerNode", tag: tag, access: Read, summary: "Run a Reranker node"}, rerankNode),
		op(route{method: "POST", path: "/v1/nodes/ai-search", id: "aiSearchNode", tag: tag, access: Read, summary: "Run an AI Search node: search texts that no base holds"}, aiSearchNode),
		op(route{method: "POST", path: "/v1/workflows/run", id: "runWorkflow", tag: tag, access: Write, stream: true, summary: "Run a workflow; its agents may spend tokens of the server's chat service"}, runWorkflow),
	}
}

// object reads a Raw that must be an object, as encoding/json decodes one.
func object(name string, raw shape.Raw) (map[string]any, error) {
	if raw == "" {
		return map[string]any{}, nil
	}
	var m map[string]any
	if raw[0] != '{' {
		return nil, &shape.Error{Field: name, Reason: "want an object"}
	}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return nil, &shape.Error{Field: name, Reason: err.Error()}
	}
	return m, nil
}

// plainNumbers makes of numbers what encoding/json decodes.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err == nil {
			return f
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

func variables(raw shape.Raw) (*workflow.Vars, error) {
	m, err := object("variables", raw)
	if err != nil {
		return nil, err
	}
	return workflow.NewVars(m)
}

// inConfig makes an error about a node's config name it.
func inConfig(err error) error {
	if config, ok := errors.AsType[*workflow.ConfigError](err); ok {
		p := "config"
		if config.Path != "" {
			p += "." + config.Path
		}
		return &Problem{Status: http.StatusBadRequest, Code: CodeInvalid, Field: p, Detail: config.Error(), cause: err}
	}
	return err
}

func searchNode(c *call, in *nodeIn) (*nodeAnswer, error) {
	o, err := workflow.ParseSearch([]byte(in.Body.Config))
	if err != nil {
		return nil, inConfig(err)
	}
	vars, err := variables(in.Body.Variables)
	if err != nil {
		return nil, err
	}
	s, err := c.a.reg.Knowledge(c.r.Context())
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r, err := workflow.Search(c.r.Context(), s, o, vars)
	if err != nil {
		return nil, err
	}
	c.stage("search", start)
	return c.nodeAnswer(o.OutputVariable, r), nil
}

func rerankNode(c *call, in *nodeIn) (*nodeAnswer, error) {
	o, err := workflow.ParseRerank([]byte(in.Body.Config))
	if err != nil {
		return nil, inConfig(err)
	}
	vars, err := variables(in.Body.Variables)
	if err != nil {
		return nil, err
	}
	if o.Model != "" && o.Model != workflow.DefaultRerankModel {
		return nil, &shape.Error{Field: "config.model", Reason: "there is only " + workflow.DefaultRerankModel}
	}
	rr := c.a.reg.Reranker()
	start := time.Now()
	r, err := workflow.Rerank(c.r.Context(), rr, o, vars)
	if err != nil {
		return nil, err
	}
	c.stage("rerank", start)
	return c.nodeAnswer(o.OutputVariable, r), nil
}

func (c *call) nodeAnswer(variable string, r *workflow.Results) *nodeAnswer {
	out := &nodeAnswer{Variable: variable, Results: r.Items, Query: r.Query, Flags: r.Flags, Notes: r.Notes}
	if out.Results == nil {
		out.Results = []knowledge.Item{}
	}
	if out.Flags == nil {
		out.Flags = []string{}
	}
	for _, err := range r.Errors {
		out.Errors = append(out.Errors, c.a.plain(err))
	}
	return out
}

func aiSearchNode(c *call, in *struct {
	Body aiSearchRequest `body:"json"`
}) (*aiSearchAnswer, error) {
	env, err := c.a.reg.Environment(c.r.Context())
	if err != nil {
		return nil, err
	}
	b := &in.Body
	node := workflow.NewAISearch(env.Embedder, env.Rerankers[workflow.DefaultRerankModel])
	start := time.Now()
	r := node.Run(c.r.Context(), workflow.AISearchInputs{Query: b.Query, Input: b.Input, Rerank: b.Rerank, ResultCount: plainNumbers(b.ResultCount),
		SearchType: b.SearchType, ChunkOptions: plainNumbers(b.ChunkOptions), OffsetUnit: aisearch.OffsetUnit(b.OffsetUnit), WithScore: b.WithScore}, nil)
	c.stage("search", start)
	result, err := r.MarshalJSON()
	return &aiSearchAnswer{Result: result}, err
}

func runWorkflow(c *call, in *struct {
	Body runRequest `body:"json"`
}) (*runAnswer, error) {
	w, err := workflow.Parse([]byte(in.Body.Workflow))
	if err != nil {
		return nil, err
	}
	input, err := object("input", in.Body.Input)
	if err != nil {
		return nil, err
	}
	env, err := c.a.reg.Environment(c.r.Context())
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r, err := w.Run(c.r.Context(), env, input)
	c.stage("run", start)
	var node *workflow.NodeError
	if err != nil && !errors.As(err, &node) {
		return nil, err
	}
	if err := c.r.Context().Err(); err != nil { // what ended the node is the request's end
		return nil, err
	}
	out := &runAnswer{Outputs: r.Outputs, Error: r.Error}
	if in.Body.Trace {
		out.Trace = r.Trace
	}
	return out, nil
}
