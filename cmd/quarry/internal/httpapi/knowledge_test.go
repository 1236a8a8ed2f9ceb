package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/catalog"
)

// files is a form of files, given as name and content.
func files(t *testing.T, list ...string) (io.Reader, string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(list); i += 2 {
		p, err := w.CreateFormFile("file", list[i])
		if err == nil {
			_, err = p.Write([]byte(list[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b, w.FormDataContentType()
}

func TestKnowledge(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb","name":"Stones","embed":"e5","chunk":{"strategy":"structure","size":100}}`)
	s.fails(409, CodeExists, "POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	s.fails(400, CodeInvalid, "POST", "/v1/knowledge-bases", `{"id":"x","chunk":{"strategy":"count","unit":"word","size":5,"overlap":5}}`)
	body, media := files(t, "stones/granite.md", "# Granite\n\nGranite is a hard rock.\n\n# Use\n\nKitchens and curbs.\n", `..\..\slate.txt`, "Slate splits well.", "broken.pdf", "%PDF-1.7 nothing")
	report := s.ok("POST", "/v1/knowledge-bases/kb/documents?prefix=in", body, "Content-Type", media)
	if report["added"] != 2.0 || len(report["failed"].([]any)) != 1 {
		t.Error(report)
	}
	list := s.ok("GET", "/v1/knowledge-bases/kb/documents?limit=1", nil)
	first := list["documents"].([]any)[0].(object_)
	if first["id"] != "in/slate.txt" && first["id"] != "in/stones/granite.md" || list["next"] == nil {
		t.Error(list)
	}
	list = s.ok("GET", "/v1/knowledge-bases/kb/documents?limit=1&after="+list["next"].(string), nil)
	if second := list["documents"].([]any)[0].(object_); second["id"] == first["id"] || list["next"] != nil {
		t.Error(list)
	}
	granite := "/v1/knowledge-bases/kb/documents/in%2Fstones%2Fgranite.md"
	if d := s.ok("GET", granite, nil)["document"].(object_); d["title"] != "Granite" || d["enabled"] != true {
		t.Error(d)
	}
	w := s.do("GET", granite+"/source", nil)
	if w.Code != 200 || !strings.HasPrefix(w.Body.String(), "# Granite") || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
		t.Error(w.Code, w.Header(), w.Body)
	}
	s.fails(404, CodeNotFound, "GET", granite+"/source?version=2", nil)

	for _, mode := range []string{"vector", "keyword", "hybrid"} {
		out := s.ok("POST", "/v1/knowledge/search", object_{"bases": []string{"kb"}, "query": "hard granite rock", "mode": mode, "top_k": 1})
		it := out["items"].([]any)[0].(object_)
		m := it["metadata"].(object_)
		if !strings.Contains(it["content"].(string), "hard rock") || m["document_id"] != "in/stones/granite.md" {
			t.Errorf("%s: %v", mode, out)
		}
		p := s.ok("POST", "/v1/knowledge-bases/kb/expand", object_{"chunk": m["chunk_id"], "after": 1})["passage"].(object_)
		if !strings.Contains(p["text"].(string), "Kitchens") {
			t.Error(p)
		}
	}
	out := s.ok("POST", "/v1/knowledge/context", `{"bases":["kb"],"query":"hard rock","mode":"keyword","max_tokens":100}`)
	if c := out["context"].(object_); !strings.Contains(c["text"].(string), "[1] in/stones/granite.md") {
		t.Error(out)
	}
	out = s.ok("POST", "/v1/knowledge/search", `{"bases":["kb"],"query":"hard rock","rerank":true,"mode":"keyword"}`)
	if it := out["items"].([]any)[0].(object_); it["score_kind"] != "rerank" {
		t.Error(it)
	}
	s.fails(404, CodeNotFound, "POST", "/v1/knowledge/search", `{"bases":["none"],"query":"x"}`)
	s.fails(400, CodeInvalid, "POST", "/v1/knowledge/search", `{"bases":["kb"],"query":"  "}`)
	if out = s.ok("POST", "/v1/knowledge/search", `{"bases":["none","kb"],"query":"granite","mode":"keyword","on_error":"partial"}`); len(out["degradation_flags"].([]any)) != 1 {
		t.Error(out)
	}

	s.ok("POST", granite+"/enabled", `{"enabled":false}`)
	if out := s.ok("POST", "/v1/knowledge/search", `{"bases":["kb"],"query":"granite","mode":"keyword"}`); len(out["items"].([]any)) != 0 {
		t.Error(out)
	}
	s.ok("POST", granite+"/enabled", `{"enabled":true}`)
	if got := s.ok("DELETE", granite, nil); got["deleted"] != 1.0 {
		t.Error(got)
	}
	if got := s.ok("DELETE", granite, nil); got["deleted"] != 0.0 {
		t.Error(got)
	}
	s.ok("PUT", "/v1/knowledge-bases/kb/documents/new.html?title=New", []byte("<h1>Old</h1><p>Text"))
	if d := s.ok("GET", "/v1/knowledge-bases/kb/documents/new.html", nil)["document"].(object_); d["title"] != "New" || d["format"] != "html" {
		t.Error(d)
	}
	s.fails(400, CodeInvalid, "PUT", "/v1/knowledge-bases/kb/documents/bad.pdf", []byte("no pdf"))
	bases := s.ok("GET", "/v1/knowledge-bases", nil)["bases"].([]any)
	if b := bases[0].(object_); b["documents"] != 2.0 || b["embedder"] != "e5" || b["name"] != "Stones" {
		t.Error(b)
	}
	s.ok("DELETE", "/v1/knowledge-bases/kb", nil)
	s.fails(404, CodeNotFound, "GET", "/v1/knowledge-bases/kb", nil)
}

func TestIngestForms(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	path := "/v1/knowledge-bases/kb/documents"
	s.fails(415, CodeMedia, "POST", path, `{}`)
	s.fails(400, CodeInvalid, "POST", path, []byte("x"), "Content-Type", "multipart/form-data")
	s.fails(400, CodeInvalid, "POST", path, []byte("x"), "Content-Type", "multipart/form-data; boundary=b")
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := errors.Join(w.WriteField("note", "x"), w.Close()); err != nil {
		t.Fatal(err)
	}
	if p := s.fails(400, CodeInvalid, "POST", path, b.Bytes(), "Content-Type", w.FormDataContentType()); p.Field != "note" {
		t.Error(p)
	}
	body, media := files(t, "..", "x")
	s.fails(400, CodeInvalid, "POST", path, body, "Content-Type", media)
	body, media = files(t, "a.txt", "x")
	s.fails(404, CodeNotFound, "POST", "/v1/knowledge-bases/none/documents", body, "Content-Type", media)
}

func TestSnapshots(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	path := "/v1/collections/notes"
	if got := s.ok("POST", path+"/snapshots", `{"name":"one"}`)["snapshot"].(object_); got["documents"] != 3.0 || got["name"] != "one" {
		t.Error(got)
	}
	s.fails(409, CodeExists, "POST", path+"/snapshots", `{"name":"one"}`)
	s.fails(400, CodeInvalid, "POST", path+"/snapshots", `{"name":"../one"}`)
	if got := s.ok("GET", path+"/snapshots", nil)["snapshots"].([]any); len(got) != 1 {
		t.Error(got)
	}
	w := s.do("GET", path+"/snapshots/one/archive", nil)
	if w.Code != 200 || w.Header().Get("Content-Type") != mediaTar || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
		t.Fatal(w.Code, w.Header())
	}
	archive := w.Body.Bytes()
	s.ok("DELETE", path+"/documents/a", nil)
	if got := s.ok("POST", path+"/restore", `{"snapshot":"one"}`); got["name"] != "notes" {
		t.Error(got)
	}
	s.ok("GET", path+"/documents/a", nil)
	s.ok("PUT", "/v1/collections/copy/archive", archive, "Content-Type", mediaTar)
	if got := hits(s.ok("POST", "/v1/collections/copy/search", `{"query":"granite"}`)); !slices.Equal(got, []string{"a"}) {
		t.Error(got)
	}
	s.ok("POST", "/v1/collections/third/restore", `{"snapshot":"one","from":"notes"}`)
	archive[len(archive)/2] ^= 1
	if w := s.do("PUT", "/v1/collections/copy/archive", archive, "Content-Type", mediaTar); w.Code != 400 && w.Code != 500 {
		t.Error(w.Code, w.Body)
	} else if strings.Contains(w.Body.String(), s.reg.Dir()) {
		t.Error("the answer tells where the data is:", w.Body)
	}
	s.fails(415, CodeMedia, "PUT", "/v1/collections/copy/archive", `{}`)
	s.ok("GET", "/v1/collections/copy/documents/a", nil)
	s.ok("DELETE", path+"/snapshots/one", nil)
	s.fails(404, CodeNotFound, "GET", path+"/snapshots/one/archive", nil)
}

func TestNodes(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb","embed":"e5"}`)
	s.ok("PUT", "/v1/knowledge-bases/kb/documents/a.md", []byte("# Refunds\n\nMoney comes back within ten days."))
	s.ok("PUT", "/v1/knowledge-bases/kb/documents/b.md", []byte("# Cookies\n\nBake them at 180 degrees."))
	out := s.ok("POST", "/v1/nodes/search-knowledge", `{"config":{"knowledge_base_ids":["kb"],"query":"{{user.q}}","top_k":2},"variables":{"user":{"q":"when do I get a refund"}}}`)
	items := out["results"].([]any)
	if out["output_variable"] != "search_results" || len(items) != 2 || items[0].(object_)["metadata"].(object_)["source"] != "a.md" {
		t.Error(out)
	}
	out = s.ok("POST", "/v1/nodes/reranker", object_{"config": object_{"input_variable": "found", "top_k": 1, "query": "bake"}, "variables": object_{"found": items}})
	if got := out["results"].([]any); len(got) != 1 || got[0].(object_)["metadata"].(object_)["source"] != "b.md" || got[0].(object_)["retrieval_score"] == nil {
		t.Error(out)
	}
	if p := s.fails(400, CodeInvalid, "POST", "/v1/nodes/search-knowledge", `{"config":{"knowledge_base_ids":["kb"],"query":"x","top_k":0}}`); p.Field != "config.top_k" {
		t.Error(p)
	}
	s.fails(400, CodeInvalid, "POST", "/v1/nodes/search-knowledge", `{"config":{"knowledge_base_ids":["kb"],"query":"{{none}}"}}`)
	if p := s.fails(400, CodeInvalid, "POST", "/v1/nodes/search-knowledge", `{"config":{"knowledge_base_ids":["kb"],"query":"x"},"variables":[]}`); p.Field != "variables" {
		t.Error(p)
	}
	out = s.ok("POST", "/v1/nodes/ai-search", `{"query":"refund","input":["Money comes back.","Cookies."],"resultCount":1,"chunkOptions":{"unit":"sentence","size":1,"overlap":0}}`)
	if got := out["result"].([]any); len(got) != 1 || got[0].(object_)["documentIndex"] != 0.0 {
		t.Error(out)
	}
	out = s.ok("POST", "/v1/nodes/ai-search", `{"query":" ","input":"x"}`)
	if got := out["result"].(object_); got["error"] == nil {
		t.Error(out)
	}
	flow := `{"workflow":{"nodes":[{"id":"s","type":"start-node","config":{"variables":["q"]}},{"id":"k","type":"search-knowledge-node","config":{"knowledge_base_ids":["kb"],"query":"{{q}}","top_k":1}},
		{"id":"e","type":"end-node","config":{"outputs":["search_results"]}}]},"input":{"q":"refund"},"trace":true}`
	out = s.ok("POST", "/v1/workflows/run", flow)
	if got := out["outputs"].(object_)["search_results"].([]any); len(got) != 1 || out["error"] != nil || len(out["trace"].([]any)) != 3 {
		t.Error(out)
	}
	out = s.ok("POST", "/v1/workflows/run", strings.Replace(flow, `["kb"]`, `["none"]`, 1))
	if e := out["error"].(object_); e["node"] != "k" || e["code"] != "not_found" {
		t.Error(out)
	}
	if p := s.fails(400, CodeInvalid, "POST", "/v1/workflows/run", `{"workflow":{"nodes":[{"id":"s","type":"none"}]}}`); p.Field != "nodes[0].type" {
		t.Error(p)
	}
}

func TestSpaces(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	s.ok("PUT", "/v1/knowledge-bases/kb/documents/a.md", []byte("# Refunds\n\nMoney comes back within ten days."))
	sp, err := s.reg.Spaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = sp.Catalog.CreateWorkspace("w", "W")
	if err == nil {
		_, err = sp.Catalog.CreateAccount("", catalog.Account{ID: "ann", Workspace: "w", Name: "Ann", Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Use}}})
	}
	if err == nil {
		_, err = sp.Catalog.CreateSpace("", catalog.Space{ID: "docs", Workspace: "w", Name: "Docs", Base: "kb"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ok("GET", "/v1/spaces?workspace=w", nil)["spaces"].([]any); len(got) != 1 {
		t.Error(got)
	}
	ask := `{"spaces":["docs"],"query":"when does the money come back","account":"ann","verify":true}`
	if p := s.fails(409, "not_published", "POST", "/v1/spaces/retrieve", ask); p.Field != "docs" {
		t.Error(p)
	}
	draft := s.ok("GET", "/v1/spaces/docs", nil)["space"].(object_)["draft"].(object_)["revision"].(float64)
	s.fails(409, "stale_revision", "POST", "/v1/spaces/docs/publish", object_{"draft_revision": draft + 1})
	if got := s.ok("POST", "/v1/spaces/docs/publish", object_{"draft_revision": draft})["publication"].(object_); got["generation"] != 1.0 {
		t.Error(got)
	}
	out := s.ok("POST", "/v1/spaces/retrieve", ask)
	if got := out["result"].([]any); len(got) != 1 || got[0].(object_)["metadata"].(object_)["space_id"] != "docs" || out["metrics"] == nil || out["process_data"] == nil {
		t.Error(out)
	}
	s.fails(404, "space_unavailable", "GET", "/v1/spaces/none", nil)
	if w := s.do("POST", "/v1/spaces/retrieve", strings.Replace(ask, "ann", "bob", 1)); w.Code/100 != 4 {
		t.Error(w.Code, w.Body)
	}
	s.fails(400, CodeInvalid, "POST", "/v1/spaces/retrieve", strings.Replace(ask, `"verify":true`, `"filters":{"tags":[]}`, 1))
	s.fails(400, CodeInvalid, "POST", "/v1/spaces/retrieve", strings.Replace(ask, `"verify":true`, `"mode":"auto"`, 1))
}
