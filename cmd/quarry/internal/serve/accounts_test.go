package serve

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// Keys that are bound to accounts retrieve with read access, each as its account;
// Dify's API takes the same keys and refuses in its own form.
func TestKeysOfAccounts(t *testing.T) {
	dir := t.TempDir()
	keys := map[string]string{}
	for name, access := range map[string]httpapi.Access{"ann": httpapi.Read, "eve": httpapi.Read, "": httpapi.Read, "root": httpapi.Admin} {
		account := name
		if name == "root" {
			account = ""
		}
		key, k, err := CreateKey(filepath.Join(dir, keysName), "key of "+name, account, access)
		if err != nil || k.Account != account {
			t.Fatal(k, err)
		}
		keys[name] = key
	}
	r := start(t, &Config{Data: dir})
	auth := func(name string) []string { return []string{"Authorization", "Bearer " + keys[name]} }
	for _, step := range [][2]string{
		{"/v1/knowledge-bases", `{"id":"kb"}`},
		{"/v1/workspaces", `{"id":"w"}`},
		{"/v1/workspaces/w/accounts", `{"id":"ann","grants":[{"space":"*","permission":"use"}]}`},
		{"/v1/workspaces/w/accounts", `{"id":"eve"}`},
		{"/v1/spaces", `{"id":"docs","workspace":"w","base":"kb"}`},
	} {
		r.ok("POST", step[0], step[1], auth("root")...)
	}
	r.ok("PUT", "/v1/knowledge-bases/kb/documents/a.md", strings.NewReader("# Refunds\n\nMoney comes back."), auth("root")...)
	r.ok("POST", "/v1/spaces/docs/publish", `{"draft_revision":1}`, auth("root")...)
	for name, want := range map[string]int{"ann": 200, "eve": 403, "": 403, "root": 400} {
		if a := r.do("POST", "/v1/spaces/retrieve", `{"spaces":["docs"],"query":"money"}`, auth(name)...); a.status != want {
			t.Errorf("%q: %d %s, want %d", name, a.status, a.body, want)
		}
		if a := r.do("POST", "/v1/workspaces", `{"id":"x"}`, auth(name)...); name != "root" && a.status != 403 {
			t.Errorf("%q makes a workspace: %d %s", name, a.status, a.body)
		}
	}
	for _, c := range []struct {
		auth         string
		status, code int
	}{{"", 403, 1001}, {"Basic x", 403, 1001}, {"Bearer qk_aaaaaaaa_bbbb", 403, 1002}, {"Bearer " + keys["ann"], 200, 0}, {"Bearer " + keys["eve"], 403, 1002}} {
		header := []string{"Authorization", c.auth}
		if c.auth == "" {
			header = nil
		}
		a := r.do("POST", "/v1/retrieval", `{"knowledge_id":"docs","query":"money","retrieval_setting":{"top_k":2,"score_threshold":0}}`, header...)
		var out struct {
			Code    int    `json:"error_code"`
			Message string `json:"error_msg"`
		}
		if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status != c.status || out.Code != c.code || (out.Message == "") != (c.code == 0) {
			t.Errorf("%q: %d %s, want %d, %d", c.auth, a.status, a.body, c.status, c.code)
		}
	}
	if out, err := command(t, "keys", "list", "--data", dir, "--json"); err != nil || !strings.Contains(out, `"account":"ann"`) || strings.Contains(out, "hash") {
		t.Error(out, err)
	}
	if out, err := command(t, "keys", "create", "--data", dir, "--name", "n", "--account", "bob", "--json"); err != nil || !strings.Contains(out, `"account":"bob"`) {
		t.Error(out, err)
	}
	if _, err := command(t, "keys", "create", "--data", dir, "--name", "n", "--account", "a\tb"); err == nil {
		t.Error("an account with a control character")
	}
}
