package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// ErrUnsupported is the error of a node that a workflow may hold and that this
// engine does not run: knowledge-retrieval. Its dataset ids, its weights and its
// rerank modes are those of another system and have no counterpart here; nothing
// is guessed, and the node is never rewritten.
var ErrUnsupported = errors.New("quarry: this engine does not run this node")

// A Retriever answers knowledge-retrieval-v2 nodes: a *space.Service.
type Retriever interface {
	Retrieve(ctx context.Context, r space.Request) (*space.Result, error)
}

var _ Retriever = (*space.Service)(nil)

// RetrievalOptions is the config of a knowledge-retrieval-v2 node. The zero
// value of each field but the first two stands for its default.
type RetrievalOptions struct {
	// Spaces are ids, 1 to catalog.MaxSpaces; what repeats counts once, at its
	// first place.
	Spaces []string
	// Query is a template that names a variable; what is searched for comes
	// from upstream, never from the node.
	Query string
	// Mode of all spaces; default that of each one's published profile.
	Mode catalog.Mode
	// TopN is how much evidence all spaces give together, 1 to space.MaxTopN;
	// default space.DefaultTopN.
	TopN    int
	Filters space.Filters
	// OutputVariable; in a workflow the id of the node by default.
	OutputVariable string
}

// A Retrieval is what a knowledge-retrieval-v2 node writes. Its JSON is an
// object with result and metrics; a path leads into either.
type Retrieval struct {
	Result  []space.Evidence `json:"result"`
	Metrics space.Metrics    `json:"metrics"`
	// ProcessData is for the details of the run: the trace has it, no variable.
	ProcessData space.ProcessData `json:"-"`
	// Query as it was searched for; a reranker node uses it.
	Query string `json:"-"`
}

// results makes evidence look like what a search gives, for agents and
// rerankers further on. Evidence without a place stands apart from all other.
func (r *Retrieval) results() *Results {
	if r == nil {
		return &Results{}
	}
	out := &Results{Query: r.Query, Flags: r.Metrics.DegradationFlags, Items: make([]knowledge.Item, len(r.Result))}
	apart := 2 // beyond the places of all evidence so far, touching none
	for i := range r.Result {
		if end := r.Result[i].Metadata.Citation.EndOffset; end != nil {
			apart = max(apart, *end+2)
		}
	}
	for i := range r.Result {
		e := &r.Result[i]
		c := &e.Metadata.Citation
		m := knowledge.Metadata{Source: c.DocumentID, DocumentID: c.DocumentID, DocumentVersion: c.DocumentVersion, ArtifactHash: c.ArtifactHash,
			KnowledgeBaseID: e.Metadata.SpaceID, Title: e.Title, SectionPath: c.SectionPath, Page: c.PageNumber,
			SourceStart: c.StartOffset, SourceEnd: c.EndOffset, ChunkIndex: 2 * i, StartOffset: apart}
		if c.StartOffset != nil {
			m.StartOffset = *c.StartOffset
		}
		m.EndOffset = m.StartOffset + len(e.Content)
		apart = max(apart, m.EndOffset+2)
		out.Items[i] = knowledge.Item{Content: e.Content, Score: e.Metadata.Score, Metadata: m}
	}
	return out
}

// decodeRetrieval reads the config of a knowledge-retrieval-v2 node. A selector
// becomes a template when the other nodes are known (link).
func decodeRetrieval(o *object, n *node) *RetrievalOptions {
	r := &RetrievalOptions{
		Query: o.template("query", ""),
		Mode:  catalog.Mode(o.choice("mode", "", string(catalog.Fast), string(catalog.Deep), string(catalog.Research))),
		TopN:  o.integer("top_n", space.DefaultTopN, 1, space.MaxTopN), OutputVariable: o.variable("output_variable", n.id),
	}
	r.Spaces = o.ids("control_space_ids", catalog.MaxSpaces)
	if v := o.want("metadata_filters", kindObject); v != nil {
		b, err := json.Marshal(v.plain())
		if err == nil {
			r.Filters, err = space.ParseFilters(b)
		}
		if err != nil {
			o.fail("metadata_filters", v, "%v", err)
		}
	}
	s := o.selector("query_variable_selector")
	switch {
	case (s == nil) == (r.Query == ""):
		o.fail("query", nil, "want either it or a query_variable_selector")
	case s == nil:
		if t, err := ParseTemplate(r.Query); err == nil && len(t.Paths()) == 0 {
			o.fail("query", o.take("query"), "names no variable")
		}
	default:
		n.link = func(upstream map[string]*node) error {
			path, err := s.path(upstream)
			r.Query = opening + strings.Join(path, ".") + closing
			return err
		}
	}
	n.output, n.spaces = r.OutputVariable, r.Spaces
	return r
}

// ParseRetrieval reads the config of a knowledge-retrieval-v2 node that stands
// alone, so with a query and no query_variable_selector; its default output
// variable is "retrieval". The error is a *ConfigError.
func ParseRetrieval(config []byte) (*RetrievalOptions, error) {
	o, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	n := &node{id: "retrieval"}
	r := decodeRetrieval(o, n)
	if n.link != nil {
		o.fail("query_variable_selector", o.take("query_variable_selector"), "there are no nodes to select from")
	}
	return r, o.end()
}

// Retrieve runs a knowledge-retrieval-v2 node: it resolves the query from vars,
// has s retrieve from all spaces at once and writes a *Retrieval to the output
// variable, if one is named. run says who runs it; its Spaces are not looked at.
// Any space that fails, or may not be used, is an error, and nothing is written.
func Retrieve(ctx context.Context, s Retriever, run catalog.Run, o *RetrievalOptions, vars *Vars) (*Retrieval, error) {
	if o == nil {
		o = &RetrievalOptions{}
	}
	t, err := ParseTemplate(o.Query)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if len(t.Paths()) == 0 {
		return nil, storage.Invalidf("query: it names no variable")
	}
	query, err := t.Render(vars)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if s == nil {
		return nil, fmt.Errorf("%w: there is no catalogue of spaces", ErrNotConfigured)
	}
	run.Spaces = slices.Clone(o.Spaces)
	res, err := s.Retrieve(ctx, space.Request{Run: run, Query: query, Mode: o.Mode, TopN: o.TopN, Filters: o.Filters})
	if err != nil {
		return nil, err
	}
	if err := checkEvidence(res, o.TopN); err != nil {
		return nil, err
	}
	out := &Retrieval{Result: res.Evidence, Metrics: res.Metrics, ProcessData: res.ProcessData, Query: strings.TrimSpace(query)}
	if out.Result == nil {
		out.Result = []space.Evidence{}
	}
	if o.OutputVariable == "" {
		return out, nil
	}
	return out, write(vars, o.OutputVariable, "", out)
}

// checkEvidence holds a Retriever to what nodes further on rely on.
func checkEvidence(res *space.Result, topN int) error {
	if topN == 0 {
		topN = space.DefaultTopN
	}
	if res == nil {
		return call.Replyf("retrieval", "no result")
	}
	if len(res.Evidence) > topN {
		return call.Replyf("retrieval", "%d pieces of evidence, want at most %d", len(res.Evidence), topN)
	}
	for i := range res.Evidence {
		switch s := res.Evidence[i].Metadata.Score; {
		case !(s >= 0 && s <= 1):
			return call.Replyf("retrieval", "evidence %d has score %v, want 0 to 1", i, s)
		case i > 0 && s > res.Evidence[i-1].Metadata.Score:
			return call.Replyf("retrieval", "evidence %d has a better score than the one before it", i)
		}
	}
	return nil
}
