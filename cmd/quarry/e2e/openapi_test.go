package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// An exchange is a request whose answer is held against the description.
type exchange struct {
	method, path string
	body         any // JSON, unless a string: then it is sent as it is
	media        string
	status       int
}

// exchanges are tried in order; a status of 4xx is a request that the description
// may not allow.
var exchanges = []exchange{
	{method: "GET", path: "/v1", status: 200},
	{method: "POST", path: "/v1/collections", body: map[string]any{"name": "api", "schema": map[string]any{
		"text": []any{map[string]any{"name": "title", "boost": 2}, map[string]any{"name": "text"}}, "vectors": []any{map[string]any{"name": "v", "dim": 2}}, "meta": map[string]any{"n": "int64", "at": "time"}}}, status: 201},
	{method: "POST", path: "/v1/collections", body: map[string]any{"name": "api", "schema": map[string]any{}}, status: 409},
	{method: "POST", path: "/v1/collections", body: map[string]any{"name": "../api", "schema": map[string]any{}}, status: 400},
	{method: "GET", path: "/v1/collections", status: 200},
	{method: "GET", path: "/v1/collections/api", status: 200},
	{method: "GET", path: "/v1/collections/absent", status: 404},
	{method: "PUT", path: "/v1/collections/api/documents", body: map[string]any{"documents": []any{
		map[string]any{"id": "a", "text": map[string]any{"title": "Harbor", "text": "Ships wait outside the harbor."}, "vectors": map[string]any{"v": []any{1, 0.5}}, "meta": map[string]any{"n": 1, "tags": []string{"x", "y"}, "at": "2024-01-31T08:00:00Z"}},
		map[string]any{"id": "b/c", "text": map[string]any{"text": "Ferries leave the harbor first."}, "meta": map[string]any{"n": 2}}}}, status: 200},
	{method: "PUT", path: "/v1/collections/api/documents/d", body: map[string]any{"text": map[string]any{"title": "Dues"}}, status: 200},
	{method: "PUT", path: "/v1/collections/api/documents/d", body: map[string]any{"meta": map[string]any{"n": "one"}}, status: 400},
	{method: "GET", path: "/v1/collections/api/documents/b%2Fc", status: 200},
	{method: "GET", path: "/v1/collections/api/documents/a?vectors=true", status: 200},
	{method: "GET", path: "/v1/collections/api/documents?limit=2", status: 200},
	{method: "POST", path: "/v1/collections/api/bulk", body: `{"id":"e","text":{"text":"bulk"}}` + "\nnonsense\n", media: "application/x-ndjson", status: 200},
	{method: "GET", path: "/v1/collections/api/stats", status: 200},
	{method: "POST", path: "/v1/collections/api/search", body: map[string]any{"query": "harbor", "k": 5, "fields": []string{"*"}, "highlight": []string{"text"}, "facets": []any{map[string]any{"field": "n"}}, "count": true, "explain": true, "explain_id": "d"}, status: 200},
	{method: "POST", path: "/v1/collections/api/search", body: map[string]any{"query": "harbor", "vector": map[string]any{"values": []any{1, 0}}, "fusion": map[string]any{"method": "weighted"}, "filter": "n >= 1"}, status: 200},
	{method: "POST", path: "/v1/collections/api/search", body: map[string]any{"query": "harbor", "filter": "n >="}, status: 400},
	{method: "POST", path: "/v1/collections/api/search", body: map[string]any{"query": "harbor", "k": -1}, status: 400},
	{method: "POST", path: "/v1/collections/api/search/batch", body: map[string]any{"searches": []any{map[string]any{"query": "harbor"}, map[string]any{"query": "x", "filter": "absent = 1"}}}, status: 200},
	{method: "POST", path: "/v1/collections/api/delete", body: map[string]any{"filter": "n = 2", "dry_run": true}, status: 200},
	{method: "DELETE", path: "/v1/collections/api/documents/d", status: 200},
	{method: "POST", path: "/v1/collections/api/snapshots", body: map[string]any{"name": "first"}, status: 201},
	{method: "GET", path: "/v1/collections/api/snapshots", status: 200},
	{method: "POST", path: "/v1/knowledge-bases", body: map[string]any{"id": "base"}, status: 201},
	{method: "GET", path: "/v1/knowledge-bases", status: 200},
	{method: "PUT", path: "/v1/knowledge-bases/base/documents/one.md", body: "# Harbor\n\nShips wait outside.\n", media: "application/octet-stream", status: 200},
	{method: "GET", path: "/v1/knowledge-bases/base", status: 200},
	{method: "GET", path: "/v1/knowledge-bases/base/documents", status: 200},
	{method: "GET", path: "/v1/knowledge-bases/base/documents/one.md", status: 200},
	{method: "POST", path: "/v1/knowledge/search", body: map[string]any{"bases": []string{"base"}, "query": "ships", "mode": "keyword"}, status: 200},
	{method: "POST", path: "/v1/knowledge/context", body: map[string]any{"bases": []string{"base"}, "query": "ships", "mode": "keyword", "max_runes": 500}, status: 200},
	{method: "POST", path: "/v1/knowledge/search", body: map[string]any{"bases": []string{"absent"}, "query": "ships"}, status: 404},
	{method: "POST", path: "/v1/knowledge-bases/base/expand", body: map[string]any{"chunk": "one.md#00000000", "after": 1}, status: 200},
	{method: "POST", path: "/v1/workspaces", body: map[string]any{"id": "port"}, status: 201},
	{method: "GET", path: "/v1/workspaces", status: 200},
	{method: "POST", path: "/v1/workspaces/port/accounts", body: map[string]any{"id": "pilot", "grants": []any{map[string]any{"space": "*", "permission": "admin"}}}, status: 201},
	{method: "GET", path: "/v1/workspaces/port/accounts", status: 200},
	{method: "PUT", path: "/v1/accounts/pilot/grants", body: map[string]any{"space": "*", "permission": "publish"}, status: 200},
	{method: "GET", path: "/v1/accounts/pilot", status: 200},
	{method: "POST", path: "/v1/spaces", body: map[string]any{"id": "office", "workspace": "port", "base": "base"}, status: 201},
	{method: "PUT", path: "/v1/spaces/office/profile", body: map[string]any{"revision": 1, "defaultMode": "fast", "topK": 5, "rerank": map[string]any{"enabled": false}}, status: 200},
	{method: "POST", path: "/v1/spaces/office/publish", body: map[string]any{"draft_revision": 2, "account": "pilot"}, status: 200},
	{method: "PUT", path: "/v1/spaces/office/active", body: map[string]any{"active": true}, status: 200},
	{method: "GET", path: "/v1/spaces", status: 200},
	{method: "GET", path: "/v1/spaces/office", status: 200},
	{method: "POST", path: "/v1/spaces/retrieve", body: map[string]any{"spaces": []string{"office"}, "query": "ships", "account": "pilot"}, status: 200},
	{method: "POST", path: "/v1/spaces/office/passage?account=pilot", body: map[string]any{"document_id": "one.md", "document_version": 1, "start_offset": 0, "end_offset": 5}, status: 200},
	{method: "PUT", path: "/v1/workflows/help", body: map[string]any{"workspace": "port", "definition": `{"name":"Help","nodes":[{"id":"s","type":"start-node","config":{"variables":["q"]}},{"id":"e","type":"end-node","config":{"outputs":["q"]}}]}`}, status: 200},
	{method: "GET", path: "/v1/workflows/help", status: 200},
	{method: "GET", path: "/v1/workflows?workspace=port", status: 200},
	{method: "POST", path: "/v1/workflows/help/publish?account=pilot", body: map[string]any{"draft_revision": 1}, status: 200},
	{method: "POST", path: "/v1/workflows/help/run?account=pilot", body: map[string]any{"input": map[string]any{"q": "x"}, "trace": true}, status: 200},
	{method: "GET", path: "/v1/workflows/help/bindings", status: 200},
	{method: "GET", path: "/v1/audit?limit=2", status: 200},
	{method: "POST", path: "/v1/retrieval", body: map[string]any{"knowledge_id": "base", "query": "ships", "retrieval_setting": map[string]any{"top_k": 2, "score_threshold": 0}}, status: 403},
	{method: "DELETE", path: "/v1/workflows/help", status: 200},
	{method: "DELETE", path: "/v1/spaces/office", status: 200},
	{method: "DELETE", path: "/v1/knowledge-bases/base", status: 200},
	{method: "DELETE", path: "/v1/collections/api", status: 200},
}

// The description is valid OpenAPI 3.1, and what the server takes and answers is
// as it says.
func TestOpenAPI(t *testing.T) {
	s := start(t)
	res, err := client.Get(s.url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(spec)
	if err != nil {
		t.Fatal(err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Errorf("version %s", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	doc.Servers = openapi3.Servers{{URL: s.url}}
	v, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, x := range exchanges {
		x.try(t, s, v)
		tried[x.method+" "+shapeOf(x.path)] = true
	}
	t.Logf("%d operations of the description were tried", len(tried))
	// The validator is one that can say no.
	x := exchange{method: "POST", path: "/v1/collections/api/search", body: map[string]any{"query": "harbor"}, status: 200}
	r, err := http.NewRequestWithContext(t.Context(), x.method, s.url+x.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	input := x.find(t, v, r)
	for _, wrong := range []string{`{"hits":"none"}`, `{"hits":[],"total":"many"}`, `{"hits":[{"id":7,"score":1,"score_kind":"rrf"}]}`} {
		answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Options: input.Options}
		if openapi3filter.ValidateResponse(t.Context(), answer.SetBodyBytes([]byte(wrong))) == nil {
			t.Errorf("an answer %s would pass", wrong)
		}
	}
}

// shapeOf is a path without names and parameters.
func shapeOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.NewReplacer("/api", "/{}", "/base", "/{}", "/absent", "/{}", "/a", "/{}", "/d", "/{}").Replace(path)
}

func (x *exchange) try(t *testing.T, s *server, v routers.Router) {
	t.Helper()
	var body []byte
	media := x.media
	switch b := x.body.(type) {
	case nil:
	case string:
		body = []byte(b)
	default:
		var err error
		if body, err = json.Marshal(b); err != nil {
			t.Fatal(err)
		}
		media = "application/json"
	}
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), x.method, s.url+x.path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if media != "" {
			r.Header.Set("Content-Type", media)
		}
		return r
	}
	name := fmt.Sprintf("%s %s %.120s", x.method, x.path, body)
	input := x.find(t, v, request())
	if x.status < 300 && (media == "" || media == "application/json") {
		if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
			t.Errorf("%s: the description refuses what the server takes: %v", name, err)
		}
	}
	res, err := client.Do(request())
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != x.status {
		t.Errorf("%s: %s, want %d\n%s", name, res.Status, x.status, data)
	}
	answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: res.StatusCode, Header: res.Header, Options: input.Options}
	if err := openapi3filter.ValidateResponse(t.Context(), answer.SetBodyBytes(data)); err != nil {
		t.Errorf("%s: the answer is not as described: %v\n%s", name, err, data)
	}
}

// find finds the operation of a request.
func (x *exchange) find(t *testing.T, v routers.Router, r *http.Request) *openapi3filter.RequestValidationInput {
	t.Helper()
	route, params, err := v.FindRoute(r)
	if err != nil {
		t.Fatalf("%s %s is not described: %v", x.method, x.path, err)
	}
	return &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
}
