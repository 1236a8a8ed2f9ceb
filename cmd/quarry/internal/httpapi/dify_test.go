package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/catalog"
)

// dify sends a request as Dify does, and holds its answer to have the form that
// Dify documents.
func (s *server) dify(body, auth string) (status int, out object_) {
	s.t.Helper()
	w := s.do("POST", "/v1/retrieval", body, "Authorization", auth)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Header().Get("Content-Type") != "application/json" {
		s.t.Fatalf("%v: %s", err, w.Body)
	}
	if w.Code != 200 {
		if code, isNumber := out["error_code"].(float64); !isNumber || code == 0 || out["error_msg"] == "" || len(out) != 2 {
			s.t.Errorf("a failure of another form: %d %v", w.Code, out)
		}
		return w.Code, out
	}
	for _, r := range out["records"].([]any) {
		rec := r.(object_)
		for key, isKind := range map[string]bool{"content": isString(rec["content"]), "title": isString(rec["title"]), "metadata": rec["metadata"] != nil, "score": rec["score"] != nil} {
			if !isKind {
				s.t.Errorf("%s is missing or of another kind: %v", key, rec)
			}
		}
	}
	return w.Code, out
}

func isString(v any) bool { _, ok := v.(string); return ok }

func titlesOf(out object_) (titles []string) {
	for _, r := range out["records"].([]any) {
		titles = append(titles, r.(object_)["title"].(string))
	}
	slices.Sort(titles)
	return titles
}

// The requests of Dify's documentation, conditions and failures among them.
func TestDifyRetrieval(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	for name, text := range map[string]string{
		"refunds.md": "---\ntitle: Refunds\ncategory: AI money\nlevel: 2\ndate: 2024-01-10\n---\n\nMoney comes back within ten days.",
		"fees.md":    "---\ntitle: Fees\ncategory: shop\nlevel: 5\ndate: 2024-03-10\n---\n\nMoney is taken for shipping.",
	} {
		s.ok("PUT", "/v1/knowledge-bases/kb/documents/"+name, []byte(text))
	}
	const key = "Bearer some-key"
	for _, c := range []struct{ more, want string }{
		{"", "Fees Refunds"},
		{`,"metadata_condition":null`, "Fees Refunds"},
		{`,"metadata_condition":{"logical_operator":"and","conditions":[{"name":["category","tag"],"comparison_operator":"contains","value":"AI"}]}`, "Refunds"},
		{`,"metadata_condition":{"conditions":[{"name":"category","comparison_operator":"is","value":"shop"}]}`, "Fees"},
		{`,"metadata_condition":{"conditions":[{"name":"level","comparison_operator":"≥","value":2},{"name":"level","comparison_operator":"<","value":"3"}]}`, "Refunds"},
		{`,"metadata_condition":{"logical_operator":"or","conditions":[{"name":"document_name","comparison_operator":"start with","value":"Fe"},{"name":"upload_date","comparison_operator":"before","value":"2024-02-01"}]}`, "Fees Refunds"},
		{`,"metadata_condition":{"conditions":[{"name":"level","comparison_operator":"empty"}]}`, ""},
	} {
		status, out := s.dify(`{"knowledge_id":"kb","query":"money","retrieval_setting":{"top_k":3,"score_threshold":0.1}`+c.more+`}`, key)
		if status != 200 || strings.Join(titlesOf(out), " ") != c.want {
			t.Errorf("%s: %d %v, want %s", c.more, status, out, c.want)
		}
	}
	for _, c := range []struct {
		body, auth   string
		status, code int
	}{
		{`{"knowledge_id":"kb","query":"x","retrieval_setting":{"top_k":1}}`, "", 403, 1001},
		{`{"knowledge_id":"kb","query":"x","retrieval_setting":{"top_k":1}}`, "Basic x", 403, 1001},
		{`{"knowledge_id":"none","query":"x","retrieval_setting":{"top_k":1}}`, key, 404, 2001},
		{`{"knowledge_id":"../kb","query":"x","retrieval_setting":{"top_k":1}}`, key, 404, 2001},
		{`{"knowledge_id":"kb","query":"x","retrieval_setting":{"top_k":0}}`, key, 400, 4000},
		{`{"knowledge_id":"kb","query":" ","retrieval_setting":{"top_k":1}}`, key, 400, 4000},
		{`{"knowledge_id":"kb","query":"x","metadata_condition":{"conditions":[{"name":"nobody","comparison_operator":"is","value":"x"}]}}`, key, 400, 4000},
		{``, key, 400, 4000}, // Dify tries an endpoint so, and takes 403 and 404 for wrong ones
	} {
		if status, out := s.dify(c.body, c.auth); status != c.status || out["error_code"] != float64(c.code) {
			t.Errorf("%s: %d %v, want %d, %d", c.body, status, out, c.status, c.code)
		}
	}
}

// A key that is bound to an account may ask the spaces that its account may use.
func TestDifySpaces(t *testing.T) {
	s := newServer(t, Options{})
	s.published(t)
	const ask = `{"knowledge_id":"docs","query":"when does the money come back","retrieval_setting":{"top_k":1,"score_threshold":0}`
	for account, want := range map[string]int{"": 404, "ann": 200, "eve": 403, "nobody": 403} {
		s.caller = Caller{Access: Read, Account: account}
		status, out := s.dify(ask+"}", "Bearer k")
		if status != want {
			t.Errorf("as %q: %d %v, want %d", account, status, out, want)
		}
		if status == 200 && out["records"].([]any)[0].(object_)["metadata"].(object_)["space_id"] != "docs" {
			t.Error(out)
		}
	}
	s.caller.Account = "ann"
	if status, out := s.dify(ask+`,"metadata_condition":{"conditions":[{"name":"tags","comparison_operator":"is","value":"x"}]}}`, "Bearer k"); status != 400 {
		t.Error(status, out)
	}
}

// published makes the space docs of the base kb, published, in a workspace with
// ann, who may use it, and eve, who may not.
func (s *server) published(t *testing.T) {
	t.Helper()
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	s.ok("PUT", "/v1/knowledge-bases/kb/documents/a.md", []byte("# Refunds\n\nMoney comes back within ten days."))
	sp, err := s.reg.Spaces(t.Context())
	if err == nil {
		_, err = sp.Catalog.CreateWorkspace("w", "W")
	}
	if err == nil {
		_, err = sp.Catalog.CreateAccount("", catalog.Account{ID: "ann", Workspace: "w", Name: "Ann", Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Use}}})
	}
	if err == nil {
		_, err = sp.Catalog.CreateAccount("", catalog.Account{ID: "eve", Workspace: "w", Name: "Eve"})
	}
	if err == nil {
		_, err = sp.Catalog.CreateSpace("", catalog.Space{ID: "docs", Workspace: "w", Name: "Docs", Base: "kb"})
	}
	if err == nil {
		_, err = sp.Publish(t.Context(), "", "docs", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
}
