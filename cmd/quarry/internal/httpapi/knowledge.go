package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

type inBase struct {
	Base string `path:"base" doc:"id of the knowledge base"`
}

type baseRequest struct {
	ID         string        `json:"id" shape:"required" doc:"letters, digits, - and _, at most 64"`
	Name       string        `json:"name,omitempty" shape:"maxlen=512" doc:"shown to people; default the id"`
	Embed      string        `json:"embed,omitempty" doc:"model that makes the vectors (GET /v1 lists them); empty: the base is searched by words only"`
	Analyzer   string        `json:"analyzer,omitempty" shape:"default=auto" doc:"name of an analyzer; auto goes by the language of each document"`
	Chunk      *chunkRequest `json:"chunk,omitempty" doc:"how texts are cut; default by structure, at most 300 tokens"`
	NoHeadings bool          `json:"no_headings,omitempty" doc:"leave title and section path out of what is indexed with each chunk"`
}

type chunkRequest struct {
	Strategy   string  `json:"strategy,omitempty" shape:"enum=|structure|count|divide,default=structure"`
	Unit       string  `json:"unit,omitempty" shape:"enum=|token|word|sentence|paragraph|custom|page,default=token"`
	Size       *int    `json:"size,omitempty" shape:"min=1,max=1000000" doc:"units a chunk, or parts"`
	Overlap    *int    `json:"overlap,omitempty" shape:"min=0,max=1000000" doc:"units that the next chunk repeats"`
	Separator  *string `json:"separator,omitempty" shape:"maxlen=1024" doc:"of unit custom"`
	KeepWhole  *int    `json:"keep_whole,omitempty" shape:"min=-1,max=1000000" doc:"units up to which structure keeps a code block or a table whole; -1 never"`
	AtSentence bool    `json:"at_sentence,omitempty" doc:"let count cut behind the last sentence of the window"`
}

// options are those of the request; by structure and without a size they are
// those of knowledge.DefaultChunk.
func (r *chunkRequest) options() *chunk.Options {
	if r == nil {
		return nil
	}
	o := knowledge.DefaultChunk()
	if r.Strategy != "" && chunk.Strategy(r.Strategy) != o.Strategy || r.Unit != "" && chunk.Unit(r.Unit) != chunk.Token {
		o = chunk.Options{Strategy: o.Strategy, Unit: chunk.Token}
	}
	if r.Strategy != "" {
		o.Strategy = chunk.Strategy(r.Strategy)
	}
	if r.Unit != "" {
		o.Unit = chunk.Unit(r.Unit)
	}
	if r.Size != nil {
		o.Size, o.KeepWhole = r.Size, 0
	}
	if r.KeepWhole != nil {
		o.KeepWhole = *r.KeepWhole
	}
	o.Overlap, o.Separator, o.AtSentence = r.Overlap, r.Separator, r.AtSentence
	return &o
}

type baseAnswer struct {
	Base knowledge.BaseInfo `json:"base"`
}

type basesAnswer struct {
	Bases []knowledge.BaseInfo `json:"bases"`
}

type knowledgeSearch struct {
	Bases     []string  `json:"bases" shape:"required,maxitems=100" doc:"ids of knowledge bases, or id@n for a generation; repeated ones count once"`
	Query     string    `json:"query" shape:"required,minlen=1,maxlen=1048576" doc:"text, never a syntax"`
	Mode      string    `json:"mode,omitempty" shape:"enum=|vector|keyword|hybrid,default=vector"`
	TopK      *int      `json:"top_k,omitempty" shape:"min=1,max=1000,default=5"`
	Depth     int       `json:"depth,omitempty" shape:"min=0,max=10000" doc:"hits that every leg of every base gives; default max(50, 4 top_k)"`
	Threshold float64   `json:"score_threshold,omitempty" shape:"min=0,max=1" doc:"drop items with a lower final score"`
	Filter    shape.Raw `json:"filter,omitempty" doc:"on the metadata of chunks: a string, or an object in the filter's JSON form"`
	OnError   string    `json:"on_error,omitempty" shape:"enum=|fail|partial,default=fail" doc:"partial answers with what works, and degradation flags"`
	Rerank    bool      `json:"rerank,omitempty" doc:"score the best candidates anew by this server's reranker"`
	Pool      int       `json:"rerank_pool,omitempty" shape:"min=0,max=1000" doc:"how many candidates it gets; default max(50, top_k)"`
	Keep      bool      `json:"rerank_keep,omitempty" doc:"keep the first order, with a flag, when the reranker fails"`
	Timeout   int       `json:"timeout_ms,omitempty" shape:"min=0,max=600000" doc:"give up after this long, with 504"`
}

type knowledgeAnswer struct {
	*knowledge.Response
}

type contextRequest struct {
	knowledgeSearch
	MaxTokens int `json:"max_tokens,omitempty" shape:"min=0,max=1000000" doc:"bound of the text in tokens; 0 is none"`
	MaxRunes  int `json:"max_runes,omitempty" shape:"min=0,max=10000000" doc:"bound of the text in characters; 0 is none"`
}

type contextAnswer struct {
	Context knowledge.Context `json:"context" doc:"what a language model is shown: the marker [n] is sources[n-1]"`
	knowledgeAnswer
}

func knowledgeRoutes() []*route {
	const tag, path = "knowledge", "/v1/knowledge-bases"
	return []*route{
		op(route{method: "GET", path: path, id: "listBases", tag: tag, access: Read, summary: "List knowledge bases"}, listBases),
		op(route{method: "POST", path: path, id: "createBase", tag: tag, access: Admin, status: http.StatusCreated, summary: "Make a knowledge base"}, createBase),
		op(route{method: "GET", path: path + "/{base}", id: "getBase", tag: tag, access: Read, summary: "Describe a knowledge base, its documents and chunks counted"},
			func(c *call, in *inBase) (*baseAnswer, error) {
				s, err := c.store(in.Base)
				if err != nil {
					return nil, err
				}
				info, err := s.Base(c.r.Context(), in.Base)
				c.relabel(&info)
				return &baseAnswer{Base: info}, err
			}),
		op(route{method: "DELETE", path: path + "/{base}", id: "deleteBase", tag: tag, access: Admin, summary: "Delete a knowledge base and all it holds"},
			func(c *call, in *inBase) (*doneAnswer, error) {
				s, err := c.store(in.Base)
				if err != nil {
					return nil, err
				}
				return &doneAnswer{Done: true}, s.Delete(c.r.Context(), in.Base)
			}),
		op(route{method: "POST", path: "/v1/knowledge/search", id: "searchKnowledge", tag: tag, access: Read, summary: "Search knowledge bases together"},
			func(c *call, in *struct {
				Body knowledgeSearch `body:"json"`
			}) (*knowledgeAnswer, error) {
				r, err := c.searchBases(&in.Body)
				return &knowledgeAnswer{Response: r}, err
			}),
		op(route{method: "POST", path: "/v1/knowledge/context", id: "knowledgeContext", tag: tag, access: Read, summary: "Search, and assemble one text for a language model, with its sources"}, assemble),
	}
}

// store opens the knowledge store, for a base whose id, or id@n, is a name.
func (c *call) store(base string) (*knowledge.Store, error) {
	id, generation, frozen := strings.Cut(base, "@")
	if n, err := strconv.Atoi(generation); frozen && (err != nil || n < 1) {
		return nil, storage.Invalidf("knowledge base %.80q: want ID or ID@N, the ID of the form %s", base, registry.NamePattern)
	}
	if err := registry.CheckName("knowledge base", id); err != nil {
		return nil, err
	}
	return c.a.reg.Knowledge(c.r.Context())
}

// relabel names the embedder of a base as callers do: never by its place.
func (c *call) relabel(b *knowledge.BaseInfo) { b.Embedder = c.a.reg.ModelOf(b) }

func listBases(c *call, _ *struct{}) (*basesAnswer, error) {
	out := &basesAnswer{Bases: []knowledge.BaseInfo{}}
	s, err := c.a.reg.Knowledge(c.r.Context())
	if errors.Is(err, storage.ErrNotFound) { // opened for reading, and there is none
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := s.Bases(c.r.Context())
	for _, b := range list {
		if b, err = s.Base(c.r.Context(), b.ID); err != nil {
			return nil, err
		}
		c.relabel(&b)
		out.Bases = append(out.Bases, b)
	}
	return out, err
}

func createBase(c *call, in *struct {
	Body baseRequest `body:"json"`
}) (*baseAnswer, error) {
	r := &in.Body
	info, err := c.a.reg.CreateBase(c.r.Context(), r.ID, r.Embed, &knowledge.BaseOptions{Name: r.Name, Analyzer: r.Analyzer, Chunk: r.Chunk.options(), NoHeadings: r.NoHeadings})
	c.relabel(&info)
	return &baseAnswer{Base: info}, err
}

func (c *call) searchBases(r *knowledgeSearch) (*knowledge.Response, error) {
	s, err := c.a.reg.Knowledge(c.r.Context())
	if err != nil {
		return nil, err
	}
	req := knowledge.Request{Bases: r.Bases, Query: r.Query, Mode: knowledge.Mode(r.Mode), Depth: r.Depth, ScoreThreshold: r.Threshold,
		OnError: knowledge.OnError(r.OnError), RerankPool: r.Pool, RerankKeep: r.Keep}
	if r.TopK != nil {
		req.TopK = *r.TopK
	}
	if req.Filter, err = parseFilter(r.Filter); err != nil {
		return nil, err
	}
	ctx, cancel := deadline(c.r.Context(), r.Timeout)
	defer cancel()
	if r.Rerank {
		if req.Rerank, err = c.reranker(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	res, err := s.Search(ctx, req)
	if err != nil {
		return nil, err
	}
	c.stage("search", start)
	if res.Items == nil {
		res.Items = []knowledge.Item{}
	}
	if res.Flags == nil {
		res.Flags = []string{}
	}
	return res, nil
}

// reranker is the server's; that it has none is an error.
func (c *call) reranker() (rerank.Reranker, error) {
	if r := c.a.reg.Reranker(); r != nil {
		return r, nil
	}
	return nil, workflow.ErrNotConfigured
}

func assemble(c *call, in *struct {
	Body contextRequest `body:"json"`
}) (*contextAnswer, error) {
	r, err := c.searchBases(&in.Body.knowledgeSearch)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	text, err := knowledge.AssembleContext(r.Items, knowledge.ContextOptions{MaxTokens: in.Body.MaxTokens, MaxRunes: in.Body.MaxRunes})
	c.stage("assemble", start)
	return &contextAnswer{Context: text, knowledgeAnswer: knowledgeAnswer{Response: r}}, err
}
