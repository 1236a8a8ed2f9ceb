package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/dify"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/manage"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
)

type inSpace struct {
	Space string `path:"space" doc:"id of the space"`
}

type spacesIn struct {
	Workspace string `query:"workspace" shape:"maxlen=512" doc:"id of the workspace; default that of the key's account, or with an admin key all of them"`
}

type spacesAnswer struct {
	Spaces []catalog.Space `json:"spaces"`
}

type spaceAnswer struct {
	Space catalog.Space `json:"space"`
}

type publishIn struct {
	Space string `path:"space" doc:"id of the space"`
	Body  struct {
		Account  string `json:"account,omitempty" shape:"maxlen=64" doc:"who publishes: default the account of the key; with an admin key, any account or the operator"`
		Revision int    `json:"draft_revision" shape:"required,min=1,max=2147483647" doc:"of the draft that was looked at; another one is refused"`
	} `body:"json"`
}

type publicationAnswer struct {
	Publication catalog.Publication `json:"publication"`
}

type retrieveRequest struct {
	Spaces   []string  `json:"spaces" shape:"required,maxitems=10" doc:"ids of spaces; repeated ones count once"`
	Query    string    `json:"query" shape:"required,minlen=1,maxlen=64000" doc:"text, never a syntax; at most 16000 characters"`
	Kind     string    `json:"kind,omitempty" shape:"enum=|draft|published,default=draft" doc:"of run: a draft run needs an account, a published one a workflow"`
	Account  string    `json:"account,omitempty" shape:"maxlen=64" doc:"who asks: default the account of the key; with an admin key, any account"`
	Workflow string    `json:"workflow,omitempty" shape:"maxlen=64" doc:"that asks"`
	Mode     string    `json:"mode,omitempty" shape:"enum=|fast|deep|research" doc:"default: that of each space's profile"`
	TopN     *int      `json:"top_n,omitempty" shape:"min=1,max=100,default=10"`
	Filters  shape.Raw `json:"filters,omitempty" doc:"an object: created_after, created_before, document_types, entities, freshness, languages, node_kinds, source_ids, tags"`
	Verify   bool      `json:"verify,omitempty" doc:"check each piece of evidence against its stored source first"`
	Timeout  int       `json:"timeout_ms,omitempty" shape:"min=0,max=600000" doc:"give up after this long, with 504"`
}

type retrieveAnswer struct {
	*space.Result
}

// difyRoute is Dify's External Knowledge API.
func (a *API) difyRoute() (*route, error) {
	handler, err := dify.New(dify.Options{Registry: a.reg, Account: func(ctx context.Context) string { return InfoOf(ctx).Caller.Account },
		OnError: func(r *http.Request, err error) { InfoOf(r.Context()).Err = err }})
	f := &foreign{handler: handler, refuse: func(w http.ResponseWriter, r *http.Request, p *Problem) { dify.Refuse(w, r, p.Status, p.Detail) }}
	for _, t := range []struct {
		shape **shape.Shape
		of    reflect.Type
	}{{&f.in, reflect.TypeFor[dify.Request]()}, {&f.out, reflect.TypeFor[dify.Answer]()}, {&f.failure, reflect.TypeFor[dify.Failure]()}} {
		if err == nil {
			*t.shape, err = shape.Of(t.of)
		}
	}
	rt := op(route{method: "POST", path: "/v1/retrieval", id: "difyRetrieval", tag: "knowledge", access: Read, summary: "Dify's External Knowledge API; its endpoint is this server's /v1", foreign: f},
		func(*call, *struct{}) (*none, error) { return nil, nil })
	return rt, err
}

// actor is the account that a request acts as, where it names one or not: the one
// that its key is bound to, or, with an admin key, any, or "", the operator.
func (c *call) actor(named string) (string, error) {
	who := c.info.Caller
	switch {
	case who.Access >= Admin && named != "", named == who.Account && named != "":
		return named, nil
	case named != "":
		return "", &Problem{Status: http.StatusForbidden, Code: CodeForbidden, Field: "account", Detail: "the key may not act as this account: quarry keys create --account binds one to it, and admin keys may name any"}
	case who.Account == "" && who.Access < Admin:
		return "", &Problem{Status: http.StatusForbidden, Code: CodeForbidden, Detail: "the key is bound to no account: quarry keys create --account binds one"}
	}
	return who.Account, nil
}

// managed completes a row on the catalogue.
func managed[In any, P interface {
	*In
	manage.Actor
}, Out any](rt route, f func(*manage.Call, *In) (*Out, error)) *route {
	rt.tag = "catalogue"
	return op(rt, func(c *call, in *In) (*Out, error) {
		by, err := c.actor(P(in).Actor())
		if err != nil {
			return nil, err
		}
		s, err := c.a.reg.Spaces(c.r.Context())
		if err != nil {
			return nil, err
		}
		start := time.Now()
		out, err := f(&manage.Call{Context: c.r.Context(), Registry: c.a.reg, Spaces: s, By: by}, in)
		if err != nil {
			return nil, err
		}
		c.stage("catalogue", start)
		return out, nil
	})
}

// catalogueRoutes are those that change the catalogue of spaces.
func catalogueRoutes() []*route {
	const workspaces, accounts, spaces, workflows = "/v1/workspaces", "/v1/accounts/{id}", "/v1/spaces", "/v1/workflows/{workflow}"
	return []*route{
		managed(route{method: "GET", path: workspaces, id: "listWorkspaces", access: Admin, summary: "List the workspaces of the catalogue"}, manage.ListWorkspaces),
		managed(route{method: "POST", path: workspaces, id: "createWorkspace", access: Admin, status: http.StatusCreated, summary: "Make a workspace"}, manage.CreateWorkspace),
		managed(route{method: "GET", path: workspaces + "/{workspace}/accounts", id: "listAccounts", access: Admin, summary: "List the accounts of a workspace"}, manage.ListAccounts),
		managed(route{method: "POST", path: workspaces + "/{workspace}/accounts", id: "createAccount", access: Admin, status: http.StatusCreated, summary: "Make an account"}, manage.CreateAccount),
		managed(route{method: "GET", path: accounts, id: "getAccount", access: Admin, summary: "Describe an account with its grants"}, manage.GetAccount),
		managed(route{method: "PUT", path: accounts + "/grants", id: "grant", access: Admin, summary: "Give an account a permission on a space"}, manage.Grant),
		managed(route{method: "DELETE", path: accounts + "/grants", id: "revokeGrant", access: Admin, summary: "Take the permission on a space from an account"}, manage.Revoke),
		managed(route{method: "GET", path: "/v1/audit", id: "audit", access: Admin, summary: "List what was changed in the catalogue, by whom"}, manage.Audit),
		managed(route{method: "POST", path: spaces, id: "createSpace", access: Admin, status: http.StatusCreated, summary: "Make a space on a knowledge base"}, manage.CreateSpace),
		managed(route{method: "POST", path: spaces + "/{space}/passage", id: "readPassage", access: Read, summary: "Read what a piece of evidence cites, in its document, as the account of the key"}, manage.ReadPassage),
		managed(route{method: "DELETE", path: spaces + "/{space}", id: "deleteSpace", access: Admin, summary: "Remove a space; its base stays"}, manage.DeleteSpace),
		managed(route{method: "PUT", path: spaces + "/{space}/active", id: "activateSpace", access: Admin, summary: "Switch a space on or off"}, manage.Activate),
		managed(route{method: "PUT", path: spaces + "/{space}/profile", id: "setProfile", access: Admin, summary: "Replace the draft of a space's Retrieval Profile"}, manage.SetProfile),
		managed(route{method: "GET", path: "/v1/workflows", id: "listWorkflows", access: Admin, summary: "List the workflows of a workspace"}, manage.ListWorkflows),
		managed(route{method: "GET", path: workflows, id: "getWorkflow", access: Admin, summary: "Describe a workflow, with its draft"}, manage.GetWorkflow),
		managed(route{method: "PUT", path: workflows, id: "importWorkflow", access: Admin, summary: "Keep a definition as the draft of a workflow"}, manage.Import),
		managed(route{method: "DELETE", path: workflows, id: "deleteWorkflow", access: Admin, summary: "Remove a workflow with its snapshots and bindings"}, manage.DeleteWorkflow),
		managed(route{method: "PUT", path: workflows + "/spaces", id: "selectSpaces", access: Admin, summary: "Choose the spaces of a node of a draft anew"}, manage.Select),
		managed(route{method: "POST", path: workflows + "/publish", id: "publishWorkflow", access: Admin, summary: "Publish the draft of a workflow, and bind exactly its spaces"}, manage.Publish),
		managed(route{method: "POST", path: workflows + "/run", id: "runCataloguedWorkflow", access: Write, stream: true, summary: "Run a workflow of the catalogue, published or as a draft; its agents may spend tokens of the server's chat service"}, manage.Run),
		managed(route{method: "GET", path: workflows + "/bindings", id: "listBindings", access: Admin, summary: "List the bindings of a workflow"}, manage.ListBindings),
		managed(route{method: "DELETE", path: workflows + "/bindings/{space}", id: "revokeBinding", access: Admin, summary: "Take a space away from a workflow"}, manage.RevokeBinding),
	}
}

// spaceRoutes are those of the spaces.
func spaceRoutes() []*route {
	const tag = "spaces"
	return []*route{
		op(route{method: "GET", path: "/v1/spaces", id: "listSpaces", tag: tag, access: Read, summary: "List the spaces of a workspace"}, listSpaces),
		op(route{method: "GET", path: "/v1/spaces/{space}", id: "getSpace", tag: tag, access: Read, summary: "Describe a space: its profile, and what is published"},
			func(c *call, in *inSpace) (*spaceAnswer, error) {
				s, err := c.a.reg.Spaces(c.r.Context())
				if err != nil {
					return nil, err
				}
				sp, err := s.Catalog.Space(in.Space)
				return &spaceAnswer{Space: sp}, err
			}),
		op(route{method: "POST", path: "/v1/spaces/{space}/publish", id: "publishSpace", tag: tag, access: Write, stream: true, summary: "Make the base and the draft of a space what runs use"},
			func(c *call, in *publishIn) (*publicationAnswer, error) {
				account, err := c.actor(in.Body.Account)
				if err != nil {
					return nil, err
				}
				s, err := c.a.reg.Spaces(c.r.Context())
				if err != nil {
					return nil, err
				}
				p, err := s.Publish(c.r.Context(), account, in.Space, in.Body.Revision)
				return &publicationAnswer{Publication: p}, err
			}),
		op(route{method: "POST", path: "/v1/spaces/retrieve", id: "retrieveEvidence", tag: tag, access: Read, summary: "Retrieve evidence from published spaces (knowledge-retrieval-v2), as the account of the key"}, retrieve),
	}
}

func listSpaces(c *call, in *spacesIn) (*spacesAnswer, error) {
	out := &spacesAnswer{Spaces: []catalog.Space{}}
	if !c.a.reg.HasCatalog() {
		return out, nil
	}
	s, err := c.a.reg.Spaces(c.r.Context())
	if err != nil {
		return nil, err
	}
	workspaces := []string{in.Workspace}
	who := c.info.Caller
	switch {
	case in.Workspace != "":
	case who.Account != "":
		a, err := s.Catalog.Account(who.Account)
		if err != nil {
			return nil, err
		}
		workspaces[0] = a.Workspace
	case who.Access < Admin:
		return out, nil
	default:
		all, err := s.Catalog.Workspaces()
		if err != nil {
			return nil, err
		}
		workspaces = workspaces[:0]
		for _, w := range all {
			workspaces = append(workspaces, w.ID)
		}
	}
	for _, w := range workspaces {
		list, err := s.Catalog.Spaces(w)
		if err != nil {
			return nil, err
		}
		out.Spaces = append(out.Spaces, list...)
	}
	return out, nil
}

func retrieve(c *call, in *struct {
	Body retrieveRequest `body:"json"`
}) (*retrieveAnswer, error) {
	b := &in.Body
	account, err := c.actor(b.Account)
	if err != nil {
		return nil, err
	}
	req := space.Request{Run: catalog.Run{Kind: catalog.RunKind(b.Kind), Account: account, Workflow: b.Workflow, Spaces: b.Spaces}, Query: b.Query, Mode: catalog.Mode(b.Mode), Verify: b.Verify}
	if b.Kind == "" {
		req.Run.Kind = catalog.Draft
	}
	if b.TopN != nil {
		req.TopN = *b.TopN
	}
	if b.Filters != "" {
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
