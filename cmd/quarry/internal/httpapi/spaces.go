package httpapi

import (
	"cmp"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
)

type inSpace struct {
	Space string `path:"space" doc:"id of the space"`
}

type spacesIn struct {
	Workspace string `query:"workspace" shape:"required,maxlen=64" doc:"id of the workspace"`
}

type spacesAnswer struct {
	Spaces []catalog.Space `json:"spaces"`
	Took   took            `json:"took,omitempty"`
}

type spaceAnswer struct {
	Space catalog.Space `json:"space"`
	Took  took          `json:"took,omitempty"`
}

type publishIn struct {
	Space string `path:"space" doc:"id of the space"`
	Body  struct {
		Account  string `json:"account,omitempty" shape:"maxlen=64" doc:"who publishes; empty: the operator"`
		Revision int    `json:"draft_revision" shape:"required,min=1,max=2147483647" doc:"of the draft that was looked at; another one is refused"`
	} `body:"json"`
}

type publicationAnswer struct {
	Publication catalog.Publication `json:"publication"`
	Took        took                `json:"took,omitempty"`
}

type retrieveRequest struct {
	Spaces   []string  `json:"spaces" shape:"required,maxitems=10" doc:"ids of spaces; repeated ones count once"`
	Query    string    `json:"query" shape:"required,minlen=1,maxlen=64000" doc:"text, never a syntax; at most 16000 characters"`
	Kind     string    `json:"kind,omitempty" shape:"enum=|draft|published,default=draft" doc:"of run: a draft run needs an account, a published one a workflow"`
	Account  string    `json:"account,omitempty" shape:"maxlen=64" doc:"who asks"`
	Workflow string    `json:"workflow,omitempty" shape:"maxlen=64" doc:"that asks"`
	Mode     string    `json:"mode,omitempty" shape:"enum=|fast|deep|research" doc:"default: that of each space's profile"`
	TopN     *int      `json:"top_n,omitempty" shape:"min=1,max=100,default=10"`
	Filters  shape.Raw `json:"filters,omitempty" doc:"an object: created_after, created_before, document_types, entities, freshness, languages, node_kinds, source_ids, tags"`
	Verify   bool      `json:"verify,omitempty" doc:"check each piece of evidence against its stored source first"`
	Timeout  int       `json:"timeout_ms,omitempty" shape:"min=0,max=600000" doc:"give up after this long, with 504"`
}

type retrieveAnswer struct {
	*space.Result
	Took took `json:"took,omitempty"`
}

// A difyRequest is that of Dify's External Knowledge API.
type difyRequest struct {
	Knowledge string `json:"knowledge_id" shape:"required,minlen=1,maxlen=128" doc:"id of a knowledge base"`
	Query     string `json:"query" shape:"required,minlen=1,maxlen=1048576"`
	Setting   struct {
		TopK      int     `json:"top_k" shape:"required,min=1,max=1000"`
		Threshold float64 `json:"score_threshold,omitempty" shape:"min=0,max=1"`
	} `json:"retrieval_setting" shape:"required"`
	Condition any `json:"metadata_condition,omitempty" doc:"null; conditions are refused, not passed over"`
}

type difyAnswer struct {
	Records []difyRecord `json:"records" doc:"best first"`
	Took    took         `json:"took,omitempty"`
}

type difyRecord struct {
	Content  string             `json:"content"`
	Score    float64            `json:"score"`
	Title    string             `json:"title"`
	Metadata knowledge.Metadata `json:"metadata"`
}

// difyRetrieval answers Dify: by words and by meaning, where the base has both.
func difyRetrieval(c *call, in *struct {
	Body difyRequest `body:"json"`
}) (*difyAnswer, error) {
	b := &in.Body
	if b.Condition != nil {
		return nil, &shape.Error{Field: "metadata_condition", Reason: "conditions are not supported here"}
	}
	r, err := c.searchBases(&knowledgeSearch{Bases: []string{b.Knowledge}, Query: b.Query, Mode: string(knowledge.Hybrid), TopK: &b.Setting.TopK, Threshold: b.Setting.Threshold})
	if err != nil {
		return nil, err
	}
	out := &difyAnswer{Records: make([]difyRecord, len(r.Items))}
	for i := range r.Items {
		it := &r.Items[i]
		out.Records[i] = difyRecord{it.Content, it.Score, cmp.Or(it.Metadata.Title, it.Metadata.Source), it.Metadata}
	}
	return out, nil
}

// spaceRoutes are those of the spaces. The catalogue itself (workspaces,
// accounts, profiles, workflows) is changed by quarry kb.
func spaceRoutes() []*route {
	const tag = "spaces"
	return []*route{
		op(route{method: "GET", path: "/v1/spaces", id: "listSpaces", tag: tag, access: Read, summary: "List the spaces of a workspace"},
			func(c *call, in *spacesIn) (*spacesAnswer, error) {
				s, err := c.a.reg.Spaces(c.r.Context())
				if err != nil {
					return nil, err
				}
				list, err := s.Catalog.Spaces(in.Workspace)
				if list == nil {
					list = []catalog.Space{}
				}
				return &spacesAnswer{Spaces: list}, err
			}),
		op(route{method: "GET", path: "/v1/spaces/{space}", id: "getSpace", tag: tag, access: Read, summary: "Describe a space: its profile, and what is published"},
			func(c *call, in *inSpace) (*spaceAnswer, error) {
				s, err := c.a.reg.Spaces(c.r.Context())
				if err != nil {
					return nil, err
				}
				sp, err := s.Catalog.Space(in.Space)
				return &spaceAnswer{Space: sp}, err
			}),
		op(route{method: "POST", path: "/v1/spaces/{space}/publish", id: "publishSpace", tag: tag, access: Admin, stream: true, summary: "Make the base and the draft of a space what runs use"},
			func(c *call, in *publishIn) (*publicationAnswer, error) {
				s, err := c.a.reg.Spaces(c.r.Context())
				if err != nil {
					return nil, err
				}
				p, err := s.Publish(c.r.Context(), in.Body.Account, in.Space, in.Body.Revision)
				return &publicationAnswer{Publication: p}, err
			}),
		op(route{method: "POST", path: "/v1/spaces/retrieve", id: "retrieveEvidence", tag: tag, access: Admin, summary: "Retrieve evidence from published spaces (knowledge-retrieval-v2), as any account: so it takes an admin key"}, retrieve),
		op(route{method: "POST", path: "/v1/retrieval", id: "difyRetrieval", tag: "knowledge", access: Read, summary: "Dify's External Knowledge API; its endpoint is this server's /v1"}, difyRetrieval),
	}
}

func retrieve(c *call, in *struct {
	Body retrieveRequest `body:"json"`
}) (*retrieveAnswer, error) {
	b := &in.Body
	req := space.Request{Run: catalog.Run{Kind: catalog.RunKind(b.Kind), Account: b.Account, Workflow: b.Workflow, Spaces: b.Spaces}, Query: b.Query, Mode: catalog.Mode(b.Mode), Verify: b.Verify}
	if b.Kind == "" {
		req.Run.Kind = catalog.Draft
	}
	if b.TopN != nil {
		req.TopN = *b.TopN
	}
	if b.Filters != "" {
		var err error
		if req.Filters, err = space.ParseFilters([]byte(b.Filters)); err != nil {
			return nil, err
		}
	}
	s, err := c.a.reg.Spaces(c.r.Context())
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline(c.r.Context(), b.Timeout)
	defer cancel()
	start := time.Now()
	r, err := s.Retrieve(ctx, req)
	if err != nil {
		return nil, err
	}
	c.stage("retrieve", start)
	return &retrieveAnswer{Result: r}, nil
}
