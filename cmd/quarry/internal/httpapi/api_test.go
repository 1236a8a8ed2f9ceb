package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/storage"
)

// A server is the API over a directory of its own, without what package serve
// puts before it.
type server struct {
	t   *testing.T
	reg *registry.Registry
	api *API
	mux *http.ServeMux
	doc object_ // the OpenAPI document, once it was asked for

	caller Caller // whom requests come from
}

func newServer(t *testing.T, o Options) *server {
	t.Helper()
	return serverOn(t, t.TempDir(), nil, o)
}

func serverOn(t *testing.T, dir string, ro *registry.Options, o Options) *server {
	t.Helper()
	reg, err := registry.Open(dir, ro)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reg.Close(context.Background()); err != nil && !errors.Is(err, storage.ErrClosed) {
			t.Error(err)
		}
	})
	api, err := New(reg, o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, r := range api.Routes() {
		mux.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	return &server{t: t, reg: reg, api: api, mux: mux, caller: Caller{Access: Admin}}
}

// do sends a request, and holds the answer against its description; a body that is no string, bytes or reader is sent as JSON.
func (s *server) do(method, path string, body any, header ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	var in io.Reader
	media := ""
	switch b := body.(type) {
	case nil:
	case string:
		in, media = strings.NewReader(b), "application/json"
	case []byte:
		in = bytes.NewReader(b)
	case io.Reader:
		in = b
	default:
		data, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		in, media = bytes.NewReader(data), "application/json"
	}
	r := httptest.NewRequest(method, path, in)
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	info := NewInfo("req-1")
	info.Caller = s.caller
	s.mux.ServeHTTP(w, r.WithContext(WithInfo(r.Context(), info)))
	s.described(r, w)
	return w
}

type object_ = map[string]any

// ok sends a request that succeeds, and reads its answer.
func (s *server) ok(method, path string, body any, header ...string) object_ {
	s.t.Helper()
	w := s.do(method, path, body, header...)
	if w.Code/100 != 2 {
		s.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	var out object_
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		s.t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
	}
	took, _ := out["took"].(object_)
	if _, there := took["total_ms"]; !there || w.Header().Get("Server-Timing") == "" {
		s.t.Errorf("%s %s: no timings: %s", method, path, w.Body)
	}
	delete(out, "took")
	return out
}

// fails sends a request that fails, and returns its problem.
func (s *server) fails(status int, code Code, method, path string, body any, header ...string) Problem {
	s.t.Helper()
	w := s.do(method, path, body, header...)
	var p Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
		s.t.Fatalf("%s %s: %d %s, want a problem", method, path, w.Code, w.Body)
	}
	if w.Code != status || p.Status != status || p.Code != code {
		s.t.Errorf("%s %s: %d %s, want %d %s", method, path, w.Code, w.Body, status, code)
	}
	if p.RequestID != "req-1" || p.Type != "urn:quarry:problem:"+p.Code || p.Title == "" || !slices.Contains(Codes(), p.Code) {
		s.t.Errorf("%s %s: %+v", method, path, p)
	}
	return p
}

// make makes the collection notes: three texts, two of which have vectors.
func (s *server) notes() {
	s.t.Helper()
	s.ok("POST", "/v1/collections", `{"name":"notes","schema":{"text":[{"name":"title","boost":2},{"name":"text","analyzer":"english"}],
		"vectors":[{"name":"v","dim":2,"metric":"l2"}],"meta":{"lang":"keyword","year":"int64"}}}`)
	s.ok("PUT", "/v1/collections/notes/documents", `{"documents":[
		{"id":"a","text":{"title":"Granite","text":"a hard rock"},"vectors":{"v":[1,0]},"meta":{"lang":"en","year":2001,"tags":["x","y"]}},
		{"id":"b/2","text":{"title":"Slate","text":"a rock that splits easily"},"vectors":{"v":[0,1]},"meta":{"lang":"en","year":9007199254740993}},
		{"id":"c","text":{"title":"Marmor","text":"ein Gestein"},"meta":{"lang":"de","year":null}}]}`)
}

func hits(out object_) []string {
	ids := []string{}
	for _, h := range out["hits"].([]any) {
		ids = append(ids, h.(object_)["id"].(string))
	}
	return ids
}

func TestCollections(t *testing.T) {
	s := newServer(t, Options{Version: "v1"})
	if got := s.ok("GET", "/v1", nil); got["version"] != "v1" || got["read_only"] != false || !cmp.Equal(got["models"], []any{"bge", "e5"}) {
		t.Error(got)
	}
	if got := s.ok("GET", "/v1/collections", nil); !cmp.Equal(got["collections"], []any{}) {
		t.Error(got)
	}
	s.notes()
	s.fails(409, CodeExists, "POST", "/v1/collections", `{"name":"notes"}`)
	got := s.ok("GET", "/v1/collections/notes", nil)
	schema := got["schema"].(object_)
	if meta := schema["meta"].(object_); meta["tags"] != "keyword" || meta["year"] != "int64" {
		t.Error(meta)
	}
	if v := schema["vectors"].([]any)[0].(object_); v["metric"] != "l2" || v["m"] != 16.0 {
		t.Error(v)
	}
	list := s.ok("GET", "/v1/collections", nil)["collections"].([]any)
	if c := list[0].(object_); len(list) != 1 || c["documents"] != 3.0 || c["name"] != "notes" || c["bytes"] == 0.0 {
		t.Error(list)
	}
	stats := s.ok("GET", "/v1/collections/notes/stats", nil)
	if stats["documents"] != 3.0 || len(stats["fields"].([]any)) == 0 {
		t.Error(stats)
	}
	s.ok("POST", "/v1/collections/notes/flush", nil)
	s.ok("POST", "/v1/collections/notes/merge", `{"max_segments":1}`)
	s.ok("DELETE", "/v1/collections/notes", nil)
	s.fails(404, CodeNotFound, "DELETE", "/v1/collections/notes", nil)
	s.fails(404, CodeNotFound, "GET", "/v1/collections/notes/stats", nil)

	s.fails(400, CodeSchema, "POST", "/v1/collections", `{"name":"x","schema":{"text":[{"name":"t","analyzer":"none"}]}}`)
	s.fails(400, CodeInvalid, "POST", "/v1/collections", `{"name":"x","schema":{"meta":{"a":"number"}}}`)
	if p := s.fails(400, CodeInvalid, "POST", "/v1/collections", `{"name":"x","schema":{"vectors":[{"name":"v","dim":5000}]}}`); p.Field != "schema.vectors[0].dim" {
		t.Error(p)
	}
	if p := s.fails(400, CodeInvalid, "POST", "/v1/collections", `{"name":"x","embed":"openai:x","schema":{"text":[{"name":"t"}]}}`); !strings.Contains(p.Detail, "want one of bge, e5") {
		t.Error(p)
	}
}

func TestDocuments(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	d := s.ok("GET", "/v1/collections/notes/documents/b%2F2", nil)["document"].(object_)
	if d["id"] != "b/2" || d["vectors"] != nil || d["text"].(object_)["title"] != "Slate" {
		t.Error(d)
	}
	if w := s.do("GET", "/v1/collections/notes/documents/b%2F2?vectors=true", nil); !strings.Contains(w.Body.String(), `"year":9007199254740993`) || !strings.Contains(w.Body.String(), `"v":[0,1]`) {
		t.Error(w.Body)
	}
	s.fails(404, CodeNotFound, "GET", "/v1/collections/notes/documents/none", nil)
	s.fails(400, CodeInvalid, "GET", "/v1/collections/notes/documents/a?vectors=yes", nil)
	s.ok("PUT", "/v1/collections/notes/documents/%2e%2e", `{"text":{"title":"Dots"}}`)
	if d := s.ok("GET", "/v1/collections/notes/documents/%2e%2e", nil)["document"].(object_); d["id"] != ".." {
		t.Error(d)
	}
	if got := s.ok("DELETE", "/v1/collections/notes/documents/%2e%2e", nil); got["deleted"] != 1.0 {
		t.Error(got)
	}
	if got := s.ok("DELETE", "/v1/collections/notes/documents/%2e%2e", nil); got["deleted"] != 0.0 { // G10
		t.Error(got)
	}

	// All or none.
	for _, c := range []struct {
		body  string
		code  Code
		field string
	}{
		{`{"documents":[{"id":"n"},{"id":"m","text":{"none":"x"}}]}`, CodeSchema, ""},
		{`{"documents":[{"id":"n"},{"id":"m","meta":{"year":"x"}}]}`, CodeSchema, ""},
		{`{"documents":[{"id":"n"},{"id":"m","vectors":{"v":[1,2,3]}}]}`, CodeInvalid, ""}, // A15
		{`{"documents":[{"id":"n"},{"id":"m","vectors":{"v":[1,1e39]}}]}`, CodeInvalid, "documents[1].vectors.v[1]"},
		{`{"documents":[{"id":"n"},{"id":"m","vectors":{"v":[NaN,1]}}]}`, CodeInvalid, "documents[1].vectors.v[0]"},
		{`{"documents":[{"id":"n"},{"id":""}]}`, CodeInvalid, "documents[1].id"},
		{`{"documents":[{"id":"n"},{}]}`, CodeInvalid, "documents[1].id"},
		{`{"documents":[{"id":"n"},{"id":"m","meta":{"o":{"p":1}}}]}`, CodeInvalid, ""},
		{`{"documents":[{"id":"n"},{"id":"m","body":"x"}]}`, CodeInvalid, "documents[1].body"},
		{`{}`, CodeInvalid, "documents"},
	} {
		if p := s.fails(400, c.code, "PUT", "/v1/collections/notes/documents", c.body); p.Field != c.field {
			t.Errorf("%s: field %q, want %q (%s)", c.body, p.Field, c.field, p.Detail)
		}
	}
	s.fails(404, CodeNotFound, "GET", "/v1/collections/notes/documents/n", nil)
}

func TestDeleteNeverWidens(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	path := "/v1/collections/notes/delete"
	for _, body := range []string{`{}`, `{"filter":""}`, `{"filter":" "}`, `{"filter":{}}`, `{"ids":["a"],"filter":"lang = \"en\""}`, `{"filter":"'12t3"}`, `{"filter":"tags ="}`,
		`{"filter":"none = 1"}`, `{"filter":{"$where":"1"}}`, `{"filter":5}`} {
		if w := s.do("POST", path, body); w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if p := s.fails(400, CodeFilter, "POST", path, `{"filter":"none = 1"}`); p.Field != "filter" {
		t.Error(p)
	}
	for body, want := range map[string]float64{`{"ids":[]}`: 0, `{"ids":["none"]}`: 0, `{"filter":"lang in []"}`: 0, `{"filter":"year = 1.5"}`: 0,
		`{"filter":"lang = \"en\"","dry_run":true}`: 2, `{"ids":["a","a","none"],"dry_run":true}`: 1} {
		if got := s.ok("POST", path, body); got["deleted"] != want {
			t.Errorf("%s: %v", body, got)
		}
	}
	if got := s.ok("GET", "/v1/collections/notes/stats", nil); got["documents"] != 3.0 {
		t.Error(got)
	}
	if got := s.ok("POST", path, object_{"filter": object_{"field": "lang", "op": "eq", "value": "en"}}); got["deleted"] != 2.0 {
		t.Error(got)
	}
	if got := s.ok("POST", path, `{"ids":["c","c"]}`); got["deleted"] != 1.0 {
		t.Error(got)
	}
}

func TestScroll(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/collections", `{"name":"c","schema":{}}`)
	var docs []object_
	for i := range 25 {
		docs = append(docs, object_{"id": fmt.Sprintf("%02d", i), "meta": object_{"even": i%2 == 0}})
	}
	s.ok("PUT", "/v1/collections/c/documents", object_{"documents": docs})
	for filter, want := range map[string]int{"": 25, "even = true": 13} {
		var got []string
		after := ""
		for {
			page := s.ok("GET", "/v1/collections/c/documents?limit=4&filter="+url.QueryEscape(filter)+"&after="+url.QueryEscape(after), nil)
			for _, d := range page["documents"].([]any) {
				got = append(got, d.(object_)["id"].(string))
			}
			next, more := page["next"].(string)
			if !more {
				break
			}
			after = next
		}
		if len(got) != want || !slices.IsSorted(got) || len(slices.Compact(got)) != want {
			t.Errorf("filter %q: %v", filter, got)
		}
	}
	for _, q := range []string{"limit=0", "limit=1001", "after=%25", "filter=even", "filter=even&after=x", "other=1"} {
		if w := s.do("GET", "/v1/collections/c/documents?"+q, nil); w.Code != 400 {
			t.Errorf("%s: %d %s", q, w.Code, w.Body)
		}
	}
}

func TestSearch(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	path := "/v1/collections/notes/search"
	for body, want := range map[string][]string{
		`{"query":"rock"}`:            {"a", "b/2"},
		`{"query":"rock","k":1}`:      {"a"},
		`{"query":"rock","offset":1}`: {"b/2"},
		`{"query":"granite rock","text":{"operator":"and","fields":{"text":1,"title":1}}}`:     {"a"},
		`{"query":"hard rock","text":{"phrase":true}}`:                                         {"a"},
		`{"query":"gran","text":{"prefix":true}}`:                                              {"a"},
		`{"vector":{"values":[0,1]}}`:                                                          {"b/2", "a"},
		`{"vector":{"field":"v","values":[0,1],"exact":true},"query":"hard"}`:                  {"a", "b/2"},
		`{"vector":{"values":[0,1],"weight":9},"query":"hard","fusion":{"method":"weighted"}}`: {"b/2", "a"},
		`{"filter":"lang = \"en\""}`:                                                           {"a", "b/2"},
		`{"filter":{"field":"year","op":"eq","value":9007199254740993}}`:                       {"b/2"}, // D06
		`{"filter":{"field":"year","op":"gt","value":9007199254740992}}`:                       {"b/2"},
		`{"query":"rock","filter":"lang = \"de\""}`:                                            {},
		`{"query":"user:/home AND OR (draft \"x"}`:                                             {}, // C14
		`{"query":"rock","min_score":1}`:                                                       {},
	} {
		if got := hits(s.ok("POST", path, body)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
	out := s.ok("POST", path, `{"query":"rock","vector":{"values":[1,0]},"fields":["*"],"highlight":["text"],"facets":[{"field":"lang"},{"field":"tags","limit":1}],"count":true,"explain_id":"c"}`)
	hit := out["hits"].([]any)[0].(object_)
	if out["total"] != 3.0 || hit["fields"].(object_)["title"] != "Granite" || hit["score_kind"] != "rrf" || hit["keyword"] == nil || hit["vector"] == nil || hit["explanation"] == nil {
		t.Errorf("%v", out)
	}
	if m := hit["highlights"].(object_)["text"].([]any)[0].(object_); len(m["marks"].([]any)) != 1 {
		t.Error(m)
	}
	if f := out["facets"].(object_); !cmp.Equal(f["lang"], []any{object_{"value": "en", "count": 2.0}, object_{"value": "de", "count": 1.0}}) {
		t.Error(f)
	}
	if out["plan"].(object_)["lost"] == nil {
		t.Error(out["plan"])
	}
	grouped := s.ok("POST", path, `{"filter":"exists lang","group":{"field":"lang","size":1},"k":5,"fields":["title"],"count":true}`)
	var values []any
	for _, g := range grouped["groups"].([]any) {
		values = append(values, g.(object_)["value"])
		if got := g.(object_)["hits"].([]any); len(got) != 1 || got[0].(object_)["fields"].(object_)["title"] == nil {
			t.Error(g)
		}
	}
	if !cmp.Equal(values, []any{"en", "de"}) && !cmp.Equal(values, []any{"de", "en"}) || len(grouped["hits"].([]any)) != 0 || grouped["total"] != 3.0 {
		t.Error(grouped)
	}
	for _, bad := range []string{`{"field":"none"}`, `{"field":"title"}`} {
		if p := s.fails(400, CodeInvalid, "POST", path, `{"query":"rock","group":`+bad+`}`); p.Field != "group" {
			t.Errorf("%s: %+v", bad, p)
		}
	}
	if p := s.fails(400, CodeInvalid, "POST", path, `{"query":"rock","group":{"field":"lang","size":-1}}`); p.Field != "group.size" {
		t.Error(p)
	}
	page := s.ok("POST", path, `{"query":"rock","k":1}`)
	if next := s.ok("POST", path, object_{"query": "rock", "k": 1, "after": page["next"]}); !slices.Equal(hits(next), []string{"b/2"}) || next["next"] != nil {
		t.Error(next)
	}
}

func TestH06SearchRanges(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	for _, field := range []string{"k", "offset", "depth", "timeout_ms", "vector.ef"} {
		for _, value := range []string{"-1", "2147483648", "9223372036854775807", "9223372036854775808", "1.5", `"10"`, "1e3", "null", "NaN", "[]"} {
			body := fmt.Sprintf(`{"query":"rock",%q:%s}`, field, value)
			if outer, inner, ok := strings.Cut(field, "."); ok {
				body = fmt.Sprintf(`{"query":"rock",%q:{"values":[1,0],%q:%s}}`, outer, inner, value)
			}
			if p := s.fails(400, CodeInvalid, "POST", "/v1/collections/notes/search", body); p.Field != field {
				t.Errorf("%s: field %q", body, p.Field)
			}
		}
	}
	for body, field := range map[string]string{
		`{"query":"rock","min_score":-0.1}`:                              "min_score",
		`{"query":"rock","min_score":1.5}`:                               "min_score",
		`{"query":"rock","mode":"meaning"}`:                              "mode",
		`{"query":"rock","limit":5}`:                                     "limit",
		`{"query":"rock","text":{"weight":0},"vector":{"values":[1,0]}}`: "text.weight", // E04
		`{"query":"rock","vector":{"values":[1,0],"weight":-1}}`:         "vector.weight",
		`{"query":"rock","vector":{"values":[1,0],"weight":NaN}}`:        "vector.weight",
		`{"query":"rock","facets":[{"field":"lang","limit":-1}]}`:        "facets[0].limit",
		`{"query":"rock","facets":[{}]}`:                                 "facets[0].field",
		`{"query":"rock","text":{"slop":-1}}`:                            "text.slop",
		`{"query":"rock","fusion":{"rank_constant":-60}}`:                "fusion.rank_constant",
		`{"query":" ","mode":"keyword"}`:                                 "query",
		`{"mode":"vector","query":"rock"}`:                               "vector.values",
		`{"mode":"hybrid","query":"rock"}`:                               "vector.values",
		`{"mode":"keyword","query":"rock","vector":{"values":[1,0]}}`:    "vector",
		`{"mode":"vector","vector":{"values":[1,0]},"text":{}}`:          "text",
		`{"query":"rock","vector":{}}`:                                   "vector.values",
		`{"query":"rock","filter":"lang ="}`:                             "filter",
		`{"query":"rock","filter":{"field":"lang","op":"eq"}}`:           "filter",
		`{"query":"rock","filter":7}`:                                    "filter",
		`{}`:                                                             "",
	} {
		w := s.do("POST", "/v1/collections/notes/search", body)
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 400 || p.Field != field {
			t.Errorf("%s: %d %s, want field %q", body, w.Code, w.Body, field)
		}
	}
	for body, field := range map[string]string{ // refused by the engine
		`{"query":"rock","k":0}`:                                         "k",
		`{"query":"rock","offset":100000,"k":10}`:                        "offset",
		`{"query":"rock","offset":99999,"k":10}`:                         "offset",
		`{"query":"rock","vector":{"values":[1]}}`:                       "vector",
		`{"query":"rock","vector":{"values":[]}}`:                        "vector",
		`{"query":"rock","vector":{"field":"none","values":[1,0]}}`:      "vector",
		`{"query":"rock","fields":["none"]}`:                             "fields",
		`{"query":"rock","filter":"none = 1"}`:                           "filter",
		`{"query":"rock","filter":"year = \"x\""}`:                       "filter",
		`{"query":"rock","filter":{"field":"Lang","op":"eq","value":1}}`: "filter",
		`{"query":"rock","facets":[{"field":"none"}]}`:                   "facets",
		`{"query":"rock","after":"x"}`:                                   "after",
		`{"query":"rock","highlight":["lang"]}`:                          "highlight",
	} {
		code := CodeInvalid
		if field == "filter" {
			code = CodeFilter
		}
		if p := s.fails(400, code, "POST", "/v1/collections/notes/search", body); p.Field != field {
			t.Errorf("%s: field %q (%s), want %q", body, p.Field, p.Detail, field)
		}
	}
	if got := s.ok("POST", "/v1/collections/notes/search", `{"query":"rock","k":0,"count":true}`); len(hits(got)) != 0 || got["total"] != 2.0 {
		t.Error(got)
	}
	for within, want := range map[string]int{"-1": 0, "0.9": 1, "2": 2} {
		if got := hits(s.ok("POST", "/v1/collections/notes/search", `{"vector":{"values":[1,0],"within":`+within+`}}`)); len(got) != want {
			t.Errorf("within %s: %v", within, got)
		}
	}
	if got := hits(s.ok("POST", "/v1/collections/notes/search", `{"query":"rock","k":10000,"depth":10000,"vector":{"values":[1,0],"ef":10000}}`)); len(got) != 2 {
		t.Error(got)
	}
}

func TestSearchBatch(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	out := s.ok("POST", "/v1/collections/notes/search/batch", `{"searches":[{"query":"rock"},{"query":"rock","k":1},{},{"vector":{"values":[1,0]}},{"query":"rock","filter":"no ="}]}`)
	results := out["results"].([]any)
	for i, want := range [][]string{{"a", "b/2"}, {"a"}, nil, {"a", "b/2"}, nil} {
		r := results[i].(object_)
		if want == nil {
			if p := r["problem"].(object_); p["status"] != 400.0 || p["request_id"] != "req-1" {
				t.Error(p)
			}
		} else if got := hits(r["result"].(object_)); !slices.Equal(got, want) {
			t.Errorf("%d: %v", i, got)
		}
	}
	s.fails(400, CodeInvalid, "POST", "/v1/collections/notes/search/batch", `{"searches":[`+strings.Repeat(`{},`, 100)+`{}]}`)
	if out := s.ok("POST", "/v1/collections/notes/search/batch", `{"searches":[]}`); len(out["results"].([]any)) != 0 {
		t.Error(out)
	}
}

func TestEmbeddingCollection(t *testing.T) {
	s := newServer(t, Options{})
	got := s.ok("POST", "/v1/collections", `{"name":"m","embed":"e5","schema":{"text":[{"name":"text"}]}}`)
	if e := got["embedding"].(object_); e["field"] != "embedding" || e["dim"] != 384.0 {
		t.Error(got)
	}
	s.ok("PUT", "/v1/collections/m/documents", `{"documents":[{"id":"dog","text":{"text":"My dog barks at the postman."}},{"id":"tax","text":{"text":"The tax return is due in July."}}]}`)
	for body, want := range map[string]string{
		`{"query":"a barking hound","k":1}`:                                    "rrf",
		`{"query":"a barking hound","k":1,"mode":"vector"}`:                    "cosine",
		`{"query":"dog","k":1,"text":{"phrase":true}}`:                         "keyword",
		`{"query":"dog","k":1,"mode":"keyword"}`:                               "keyword",
		`{"query":"dog","k":1,"mode":"hybrid","text":{"operator":"and"}}`:      "rrf",
		`{"query":"dog","k":1,"vector":{"exact":true},"text":{"phrase":true}}`: "rrf",
	} {
		h := s.ok("POST", "/v1/collections/m/search", body)["hits"].([]any)[0].(object_)
		if h["id"] != "dog" || h["score_kind"] != want {
			t.Errorf("%s: %v", body, h)
		}
	}
	s.fails(400, CodeInvalid, "PUT", "/v1/collections/m/documents/x", `{"vectors":{"embedding":[1]}}`)
	lines := `{"id":"cat","text":{"text":"a cat"}}` + "\n" + `{"id":"bad","text":{"none":"x"}}` + "\n"
	if got := s.ok("POST", "/v1/collections/m/bulk", []byte(lines), "Content-Type", mediaNDJSON); got["documents"] != 1.0 || got["bad"] != 1.0 {
		t.Error(got)
	}
}

func TestReadOnlyServer(t *testing.T) {
	dir := t.TempDir()
	w := serverOn(t, dir, nil, Options{})
	w.notes()
	s := serverOn(t, dir, &registry.Options{ReadOnly: true}, Options{})
	if got := s.ok("GET", "/v1", nil); got["read_only"] != true {
		t.Error(got)
	}
	if got := hits(s.ok("POST", "/v1/collections/notes/search", `{"query":"granite"}`)); !slices.Equal(got, []string{"a"}) {
		t.Error(got)
	}
	if got := s.ok("GET", "/v1/knowledge-bases", nil)["bases"].([]any); len(got) != 0 {
		t.Error(got)
	}
	for _, c := range [][3]string{{"PUT", "/v1/collections/notes/documents/x", `{}`}, {"POST", "/v1/collections", `{"name":"x"}`}, {"DELETE", "/v1/collections/notes", ""},
		{"POST", "/v1/collections/notes/delete", `{"ids":["a"]}`}, {"POST", "/v1/collections/notes/snapshots", `{}`}, {"POST", "/v1/knowledge-bases", `{"id":"x"}`}} {
		var body any
		if c[2] != "" {
			body = c[2]
		}
		s.fails(403, CodeReadOnly, c[0], c[1], body)
	}
	s.fails(403, CodeReadOnly, "POST", "/v1/collections/notes/bulk", []byte(`{"id":"x"}`), "Content-Type", mediaNDJSON)
}

func TestTimeout(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := httptest.NewRequest("POST", "/v1/collections/notes/search", strings.NewReader(`{"query":"rock"}`)).WithContext(WithInfo(ctx, NewInfo("req-1")))
	r.Header.Set("Content-Type", "application/json")
	cancel(ErrStopping)
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), CodeStopping) {
		t.Error(w.Code, w.Body)
	}
}

func TestDamagedCollectionIsToldNotHidden(t *testing.T) {
	dir := t.TempDir()
	s := serverOn(t, dir, nil, Options{})
	s.notes()
	if err := s.reg.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "collections", "notes", "MANIFEST-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		if err := os.Truncate(m, 30); err != nil {
			t.Fatal(err)
		}
	}
	s = serverOn(t, dir, nil, Options{})
	if p := s.fails(500, CodeCorrupt, "GET", "/v1/collections/notes", nil); strings.Contains(p.Detail, dir) || !strings.Contains(p.Detail, "MANIFEST") {
		t.Error(p)
	}
	if c := s.ok("GET", "/v1/collections", nil)["collections"].([]any)[0].(object_); c["error"] == nil {
		t.Error(c)
	}
}
