package httpapi

import (
	"strings"
	"testing"
)

// The catalogue from nothing to a published run, over HTTP only.
func TestManage(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	s.ok("PUT", "/v1/knowledge-bases/kb/documents/a.md", []byte("# Refunds\n\nMoney comes back within ten days."))
	s.ok("POST", "/v1/workspaces", `{"id":"w","name":"W"}`)
	if p := s.fails(409, "already_exists", "POST", "/v1/workspaces", `{"id":"w"}`); p.Detail == "" {
		t.Error(p)
	}
	s.ok("POST", "/v1/workspaces/w/accounts", `{"id":"ann","grants":[{"space":"*","permission":"admin"}]}`)
	s.ok("POST", "/v1/workspaces/w/accounts", `{"id":"bob"}`)
	if got := s.ok("GET", "/v1/workspaces/w/accounts", nil)["accounts"].([]any); len(got) != 2 {
		t.Error(got)
	}
	s.fails(404, CodeNotFound, "GET", "/v1/workspaces/none/accounts", nil)
	s.fails(404, CodeNotFound, "GET", "/v1/workflows?workspace=none", nil)
	s.fails(404, CodeNotFound, "POST", "/v1/spaces", `{"id":"docs","workspace":"w","base":"none"}`)
	s.ok("POST", "/v1/spaces", `{"id":"docs","workspace":"w","base":"kb"}`)
	s.fails(403, "permission_denied", "POST", "/v1/spaces/docs/publish", `{"draft_revision":1,"account":"bob"}`)
	s.fails(403, "permission_denied", "PUT", "/v1/spaces/docs/active?account=bob", `{"active":false}`)
	s.ok("PUT", "/v1/accounts/bob/grants", `{"space":"docs","permission":"use"}`)
	if got := s.ok("GET", "/v1/accounts/bob", nil)["account"].(object_)["grants"].([]any); len(got) != 1 {
		t.Error(got)
	}
	if got := s.ok("DELETE", "/v1/accounts/bob/grants?space=docs", nil)["account"].(object_); got["grants"] != nil {
		t.Error(got)
	}
	draft := s.ok("PUT", "/v1/spaces/docs/profile?account=ann", `{"revision":1,"defaultMode":"deep","topK":7}`)["draft"].(object_)
	if draft["revision"] != 2.0 || draft["topK"] != 7.0 {
		t.Error(draft)
	}
	s.fails(409, "stale_revision", "PUT", "/v1/spaces/docs/profile", `{"revision":1,"defaultMode":"deep","topK":8}`)
	s.fails(400, "threshold_requires_rerank", "PUT", "/v1/spaces/docs/profile", `{"revision":2,"defaultMode":"deep","topK":8,"scoreThreshold":{"enabled":true,"stage":"final","value":0.5}}`)
	s.ok("POST", "/v1/spaces/docs/publish", `{"draft_revision":2,"account":"ann"}`)
	s.ok("PUT", "/v1/spaces/docs/active", `{"active":false}`)
	s.fails(409, "space_not_active", "POST", "/v1/spaces/retrieve", `{"spaces":["docs"],"query":"money","account":"ann"}`)
	s.ok("PUT", "/v1/spaces/docs/active", `{"active":true}`)
	s.workflows(t)
	if got := s.ok("GET", "/v1/audit?limit=3", nil)["entries"].([]any); len(got) != 3 || got[0].(object_)["seq"] != 1.0 {
		t.Error(got)
	}
	s.ok("DELETE", "/v1/spaces/docs", nil)
	s.fails(404, "space_unavailable", "GET", "/v1/spaces/docs", nil)
}

const flowDSL = `app: {name: Support, mode: workflow}
kind: app
version: 0.3.1
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: [{variable: question, type: text-input}]}}
    - {id: find, data: {type: knowledge-retrieval-v2, title: Find, control_space_ids: [SPACE], query_variable_selector: [start, question]}}
    - {id: end, data: {type: end, title: End, outputs: [{variable: found, value_selector: [find, result]}]}}
    edges: [{source: start, target: find}, {source: find, target: end}]
`

// workflows imports, publishes, runs and revokes one that asks the space docs.
func (s *server) workflows(t *testing.T) {
	t.Helper()
	put := func(space string) object_ {
		return s.ok("PUT", "/v1/workflows/support", object_{"workspace": "w", "definition": strings.Replace(flowDSL, "SPACE", space, 1)})
	}
	got := put("absent")
	if got["runnable"] != true || got["draft_revision"] != 1.0 || len(got["warnings"].([]any)) != 1 {
		t.Error(got)
	}
	s.fails(409, "unresolved_spaces", "POST", "/v1/workflows/support/publish?account=ann", `{"draft_revision":1}`)
	if got := s.ok("PUT", "/v1/workflows/support/spaces", `{"node":"find","spaces":["docs"]}`); len(got["warnings"].([]any)) != 0 || got["draft_revision"] != 2.0 {
		t.Error(got)
	}
	if got := s.ok("GET", "/v1/workflows/support", nil); !strings.Contains(got["definition"].(string), "docs") || got["workflow"].(object_)["name"] != "Support" {
		t.Error(got)
	}
	const ask = `{"input":{"question":"when does the money come back"}}`
	s.fails(409, "not_published", "POST", "/v1/workflows/support/run?account=ann", ask)
	s.fails(403, "permission_denied", "POST", "/v1/workflows/support/publish?account=bob", `{"draft_revision":2}`)
	if got := s.ok("POST", "/v1/workflows/support/publish?account=ann", `{"draft_revision":2}`)["snapshot"].(object_); got["id"] != "support@1" || len(got["spaces"].([]any)) != 1 {
		t.Error(got)
	}
	for _, body := range []string{ask, strings.Replace(ask, `{"input"`, `{"end_user":true,"trace":true,"input"`, 1), strings.Replace(ask, `{"input"`, `{"draft":true,"input"`, 1)} {
		out := s.ok("POST", "/v1/workflows/support/run?account=ann", body)
		if found, _ := out["outputs"].(object_)["found"].([]any); len(found) != 1 || out["error"] != nil {
			t.Errorf("%s: %v", body, out)
		}
	}
	s.fails(400, CodeInvalid, "POST", "/v1/workflows/support/run?account=ann", `{"draft":true,"end_user":true}`)
	if got := s.ok("GET", "/v1/workflows/support/bindings", nil)["bindings"].([]any); len(got) != 1 || got[0].(object_)["state"] != "active" {
		t.Error(got)
	}
	s.ok("DELETE", "/v1/workflows/support/bindings/docs", nil)
	if out := s.ok("POST", "/v1/workflows/support/run?account=ann", ask); out["error"] == nil {
		t.Error("a revoked space is asked:", out)
	}
	if got := s.ok("GET", "/v1/workflows?workspace=w", nil)["workflows"].([]any); len(got) != 1 {
		t.Error(got)
	}
	if p := s.fails(400, CodeInvalid, "PUT", "/v1/workflows/support", object_{"workspace": "w", "definition": "a: [b"}); p.Field != "definition" {
		t.Error(p)
	}
	s.ok("DELETE", "/v1/workflows/support", nil)
	s.fails(404, CodeNotFound, "GET", "/v1/workflows/support", nil)
}

// Who may act as whom: a key as the account it is bound to, an admin key as any.
func TestActors(t *testing.T) {
	s := newServer(t, Options{})
	s.published(t)
	const ask = `{"spaces":["docs"],"query":"money"`
	for _, c := range []struct {
		caller Caller
		named  string
		status int
	}{
		{Caller{Access: Read}, "", 403},
		{Caller{Access: Read}, "ann", 403},
		{Caller{Access: Read, Account: "ann"}, "", 200},
		{Caller{Access: Read, Account: "ann"}, "ann", 200},
		{Caller{Access: Read, Account: "ann"}, "eve", 403},
		{Caller{Access: Read, Account: "eve"}, "", 403},
		{Caller{Access: Read, Account: "eve"}, "ann", 403},
		{Caller{Access: Admin}, "ann", 200},
		{Caller{Access: Admin}, "eve", 403},
		{Caller{Access: Admin}, "", 400}, // a draft run needs an account
		{Caller{Access: Admin, Account: "ann"}, "", 200},
		{Caller{Access: Admin, Account: "eve"}, "ann", 200},
	} {
		s.caller = c.caller
		body := ask + "}"
		if c.named != "" {
			body = ask + `,"account":"` + c.named + `"}`
		}
		if w := s.do("POST", "/v1/spaces/retrieve", body); w.Code != c.status {
			t.Errorf("%+v as %q: %d %s, want %d", c.caller, c.named, w.Code, w.Body, c.status)
		}
	}
	for _, c := range []struct {
		caller Caller
		body   string
		status int
	}{
		{Caller{Access: Write}, `{"draft_revision":1}`, 403},
		{Caller{Access: Write, Account: "ann"}, `{"draft_revision":1}`, 403}, // ann may only use it
		{Caller{Access: Write, Account: "ann"}, `{"draft_revision":1,"account":""}`, 403},
		{Caller{Access: Admin}, `{"draft_revision":1}`, 200},
	} {
		s.caller = c.caller
		if w := s.do("POST", "/v1/spaces/docs/publish", c.body); w.Code != c.status {
			t.Errorf("%+v %s: %d %s, want %d", c.caller, c.body, w.Code, w.Body, c.status)
		}
	}
}
