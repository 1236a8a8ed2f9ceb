package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/storage"
)

func TestH09HostAndOrigin(t *testing.T) {
	r := start(t, &Config{AllowHost: []string{"Search.example"}, AllowOrigin: []string{"https://app.example"}})
	r.notes()
	_, port, _ := strings.Cut(r.addr, ":")
	search := func(header ...string) answer {
		return r.do("POST", "/v1/collections/notes/search", `{"query":"rock"}`, header...)
	}
	for _, c := range []struct {
		header []string
		status int
		code   httpapi.Code
	}{
		{nil, 200, ""},
		{[]string{"Host", "localhost:" + port}, 200, ""},
		{[]string{"Host", "LOCALHOST"}, 200, ""},
		{[]string{"Host", "[::1]:" + port}, 200, ""},
		{[]string{"Host", "search.example:443"}, 200, ""},
		{[]string{"Host", "evil.example"}, 403, httpapi.CodeHost},
		{[]string{"Host", "evil.example:" + port}, 403, httpapi.CodeHost},
		{[]string{"Host", "localhost.evil.example"}, 403, httpapi.CodeHost},
		{[]string{"Host", "127.0.0.1.evil.example"}, 403, httpapi.CodeHost},
		{[]string{"Host", "192.0.2.1"}, 403, httpapi.CodeHost},
		{[]string{"Host", "0.0.0.0"}, 403, httpapi.CodeHost},
		{[]string{"Origin", "http://" + r.addr}, 200, ""},
		{[]string{"Origin", "https://app.example"}, 200, ""},
		{[]string{"Origin", "https://search.example", "Host", "search.example"}, 200, ""},
		{[]string{"Origin", "https://evil.example"}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", "null"}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", ""}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", "http://localhost.evil.example"}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", "http://localhost:1"}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", "https://app.example.evil"}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", "http://app.example"}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", "file://" + r.addr}, 403, httpapi.CodeOrigin},
		{[]string{"Origin", "https://evil.example", "Host", "evil.example"}, 403, httpapi.CodeHost}, // rebound
	} {
		a := search(c.header...)
		if a.status != c.status || c.code != "" && a.problem(t).Code != c.code {
			t.Errorf("%q: %d %s, want %d %s", c.header, a.status, a.body, c.status, c.code)
		}
		allow := a.header.Get("Access-Control-Allow-Origin")
		if want := len(c.header) == 2 && c.header[1] == "https://app.example"; (allow != "") != want || allow == "*" || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%q: CORS headers %v", c.header, a.header)
		}
	}
	pre := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type", "Origin"}
	a := r.do("OPTIONS", "/v1/collections/notes/search", nil, append(pre, "https://app.example")...)
	if a.status != 204 || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") || a.header.Get("Vary") != "Origin" {
		t.Error(a)
	}
	if a = r.do("OPTIONS", "/v1/collections/notes/search", nil, append(pre, "https://evil.example")...); a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error(a)
	}
	// A form of a foreign page that gets by the other checks says no JSON.
	if a = r.do("POST", "/v1/collections/notes/delete", strings.NewReader(`{"ids":["a"]}`), "Content-Type", "text/plain"); a.status != 415 {
		t.Error(a)
	}
	for _, c := range []struct{ hosts, origins []string }{{[]string{"a/b"}, nil}, {[]string{""}, nil}, {nil, []string{"*"}}, {nil, []string{"app.example"}}, {nil, []string{"https://a/b"}}, {nil, []string{"https://*.a"}}} {
		if _, err := newGate(DefaultListen, c.hosts, c.origins); err == nil {
			t.Errorf("%q: no error", c)
		}
	}
}

func TestListenBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		listen              string
		keys, tls, insecure bool
		want                string
	}{
		{"127.0.0.1:0", false, false, false, ""},
		{"localhost:0", false, false, false, ""},
		{"[::1]:0", false, false, false, ""},
		{":7700", false, false, false, "a key"},
		{"0.0.0.0:0", false, false, false, "--tls-cert"},
		{"0.0.0.0:0", true, false, false, "--tls-cert"},
		{"0.0.0.0:0", false, true, false, "a key"},
		{"192.0.2.1:0", false, false, true, "a key"},
		{"search.example:0", true, false, false, "--insecure"},
		{"0.0.0.0:0", true, false, true, ""},
		{"[::]:0", true, true, false, ""},
		{"7700", false, false, false, "HOST:PORT"},
	} {
		err := checkListen(c.listen, c.keys, c.tls, c.insecure)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := New(Config{Data: t.TempDir(), Listen: "0.0.0.0:0"}); err == nil {
		t.Error("an open server beyond loopback")
	}
	if _, err := New(Config{Data: t.TempDir(), TLSCert: "x"}); err == nil {
		t.Error("a certificate without a key")
	}
}

func TestBeyondLoopback(t *testing.T) {
	dir := t.TempDir()
	key, _, err := CreateKey(filepath.Join(dir, keysName), "k", "", httpapi.Read)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, &Config{Data: dir, Listen: "0.0.0.0:0", Insecure: true})
	_, port, err := splitPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	r.addr = "127.0.0.1:" + port
	if a := r.do("GET", "/v1/collections", nil); a.status != 401 {
		t.Error(a)
	}
	r.ok("GET", "/v1/collections", nil, "Authorization", "Bearer "+key)
	if a := r.do("GET", "/v1/collections", nil, "Authorization", "Bearer "+key, "Host", "search.example"); a.status != 403 {
		t.Error(a)
	}
}

func splitPort(addr string) (string, string, error) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", "", errors.New("no port in " + addr)
	}
	return addr[:i], addr[i+1:], nil
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, keysName)
	keys := map[string]string{}
	for _, access := range []string{"read", "write", "admin"} {
		out, err := command(t, "keys", "create", "--data", dir, "--name", access, "--access", access)
		if err != nil {
			t.Fatal(err)
		}
		keys[access] = strings.TrimSpace(out)
		if !regexp.MustCompile(`^qk_[a-z2-7]{8}_[a-z2-7]{32}$`).MatchString(keys[access]) {
			t.Error(out)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	for _, key := range keys {
		if strings.Contains(string(b), key[len(key)-32:]) {
			t.Error("the file holds a key")
		}
	}
	r := start(t, &Config{Data: dir})
	r.notes("X-API-Key", keys["admin"])
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	for _, rt := range routesOf(t, r) {
		if rt.Access == httpapi.Public {
			continue
		}
		path := strings.NewReplacer("{collection}", "none", "{snapshot}", "none", "{base}", "none", "{id}", "none", "{document}", "none", "{space}", "none").Replace(rt.Pattern)
		for access, key := range keys {
			a := r.do(rt.Method, path, nil, as(key)...)
			if rt.Refuse != nil {
				if a.status != 400 { // an empty body is what is wrong
					t.Errorf("%s with a key to %s: %d %s", path, access, a.status, a.body)
				}
				continue
			}
			have, err := httpapi.ParseAccess(access)
			if err != nil {
				t.Fatal(err)
			}
			if denied := a.status == 403 && a.problem(t).Code == httpapi.CodeForbidden; denied != (have < rt.Access) || a.status == 401 {
				t.Errorf("%s %s with a key to %s: %d %s", rt.Method, path, access, a.status, a.body)
			}
		}
		for _, header := range [][]string{nil, as(""), as("qk_none_none"), as(keys["admin"] + "x"), as(keys["admin"][:len(keys["admin"])-1]), as(strings.ToUpper(keys["admin"])),
			{"Authorization", "Basic " + keys["admin"]}, {"Authorization", keys["admin"]}, {"X-API-Key", keys["admin"][3:]}, {"X-API-Key", "qk_" + strings.Repeat("a", 8) + "_" + strings.Repeat("b", 10_000)}} {
			if rt.Refuse != nil {
				if a := r.do(rt.Method, path, nil, header...); a.status != 403 || !strings.Contains(a.body, `{"error_code":100`) {
					t.Errorf("%s with %.80q: %d %s", path, header, a.status, a.body)
				}
				continue
			}
			if a := r.do(rt.Method, path, nil, header...); a.status != 401 || a.problem(t).Code != httpapi.CodeUnauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %.80q: %d %s", rt.Method, path, header, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		r.ok("GET", path, nil)
	}
	if a := r.do("GET", "/metrics", nil); a.status != 401 {
		t.Error(a.status)
	}

	list, err := command(t, "keys", "list", "--data", dir, "--json")
	if err != nil || strings.Count(list, "\n") != 3 || strings.Contains(list, "hash") {
		t.Fatal(list, err)
	}
	for line := range strings.Lines(list) {
		var k Key
		if err := json.Unmarshal([]byte(line), &k); err != nil {
			t.Fatal(err)
		}
		if _, err := command(t, "keys", "revoke", "--keys", file, k.ID); err != nil {
			t.Error(err)
		}
		if _, err := command(t, "keys", "revoke", "--keys", file, k.ID); !errors.Is(err, storage.ErrNotFound) {
			t.Error(err)
		}
	}
	r.s.auth.check.Store(0) // a second later
	if a := r.do("GET", "/v1/collections", nil, as(keys["admin"])...); a.status != 401 {
		t.Error("a revoked key, or none, opens the server:", a)
	}
	if _, err := command(t, "keys", "create", "--data", dir, "--name", "new"); err != nil {
		t.Error(err)
	}
	if _, err := command(t, "keys", "create", "--name", "x"); err == nil {
		t.Error("no file is named, and no error")
	}
}

func routesOf(t *testing.T, r *running) []httpapi.Route {
	t.Helper()
	api, err := httpapi.New(r.s.reg, httpapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return api.Routes()
}

func TestKeysFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, keysName)
	r := start(t, &Config{Data: dir})
	r.ok("GET", "/v1/collections", nil) // no key, loopback: open
	key, _, err := CreateKey(file, "first", "", httpapi.Admin)
	if err != nil {
		t.Fatal(err)
	}
	r.s.auth.check.Store(0)
	if a := r.do("GET", "/v1/collections", nil); a.status != 401 {
		t.Error("the first key closes nothing:", a)
	}
	if err := os.WriteFile(file, []byte(`{"version":1,"keys":[{"id":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.s.auth.check.Store(0)
	r.ok("GET", "/v1/collections", nil, "X-API-Key", key) // those known before still hold
	if log := r.log.String(); !strings.Contains(log, "keys cannot be read") {
		t.Error(log)
	}
	r.stop()
	for _, text := range []string{`{"version":1,"keys":[{"id":"x"}]}`, `{"version":2}`, `{`, ``} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Data: dir}); !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, _, err := CreateKey(filepath.Join(dir, "other"), "a\nb", "", httpapi.Read); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
}

// badNames are those of the registry's test, as a path carries them.
var badNames = []string{"..%2fx", "%2e%2e", "a%2fb", "a%5cb", "C:x", "%00", "a%00b", "CON", "nul", strings.Repeat("x", 300), ".x", "-x", "%c3%a4", "%20"}

func TestH03TraversalInEveryRoute(t *testing.T) {
	outside := t.TempDir()
	r := start(t, &Config{Data: filepath.Join(outside, "data")})
	r.notes()
	r.ok("POST", "/v1/collections/notes/snapshots", `{"name":"snap"}`)
	r.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	before := tree(t, outside)
	good := map[string]string{"collection": "notes", "snapshot": "snap", "base": "kb", "id": "a", "document": "x", "space": "x"}
	params := regexp.MustCompile(`\{(\w+)\}`)
	tried := 0
	for _, rt := range routesOf(t, r) {
		for _, m := range params.FindAllStringSubmatch(rt.Pattern, -1) {
			if slices.Contains([]string{"id", "document", "space", "workspace", "workflow"}, m[1]) { // ids of documents and of the catalogue name no files
				continue
			}
			for _, bad := range badNames {
				path := params.ReplaceAllStringFunc(rt.Pattern, func(p string) string {
					if p == m[0] {
						return bad
					}
					return good[strings.Trim(p, "{}")]
				})
				a := r.verbatim(rt.Method, path, bodyFor(rt))
				if a.status != 400 || !strings.Contains(a.body, registry.NamePattern) {
					t.Errorf("%s %s: %d %s", rt.Method, path, a.status, a.body)
				}
				tried++
			}
		}
	}
	for _, path := range []string{"/v1/collections/../x", "/v1/collections/..", "/v1/collections/./stats", "/v1/collections//stats", "/v1/collections/", "/v1/collections/notes/snapshots/../../x",
		"/v1/knowledge-bases/../x/documents", "/v1/collections/notes/../../../etc/passwd"} {
		for _, method := range []string{"GET", "DELETE", "PUT", "POST"} {
			if a := r.verbatim(method, path, "{}"); a.status != 400 || !strings.Contains(a.body, registry.NamePattern) {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
			tried++
		}
	}
	for _, name := range []string{"../x", "a/b", `a\b`, "", ".", "..", "a\x00", "CON", strings.Repeat("x", 300)} {
		text, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for path, body := range map[string]string{"/v1/collections": `{"name":%s}`, "/v1/collections/notes/restore": `{"snapshot":%s}`, "/v1/knowledge-bases": `{"id":%s}`} {
			if a := r.do("POST", path, fmt.Sprintf(body, text)); a.status != 400 || !strings.Contains(a.body, registry.NamePattern) {
				t.Errorf("%s %q: %d %s", path, name, a.status, a.body)
			}
		}
		if name != "" {
			for path, body := range map[string]string{"/v1/collections/notes/snapshots": `{"name":%s}`, "/v1/collections/notes/restore": `{"snapshot":"snap","from":%s}`} {
				if a := r.do("POST", path, fmt.Sprintf(body, text)); a.status != 400 || !strings.Contains(a.body, registry.NamePattern) {
					t.Errorf("%s %q: %d %s", path, name, a.status, a.body)
				}
			}
		}
	}
	if after := tree(t, outside); after != before {
		t.Errorf("the tree changed:\n%s\nwas\n%s", after, before)
	}
	if tried < 200 {
		t.Errorf("only %d paths were tried", tried)
	}
}

// bodyFor is a body that a route takes.
func bodyFor(rt httpapi.Route) string {
	switch {
	case rt.Method == "GET" || rt.Method == "DELETE":
		return ""
	case strings.HasSuffix(rt.Pattern, "/merge"):
		return `{"max_segments":1}`
	case strings.HasSuffix(rt.Pattern, "/documents"):
		return `{"documents":[]}`
	case strings.HasSuffix(rt.Pattern, "/delete"):
		return `{"ids":["x"]}`
	case strings.HasSuffix(rt.Pattern, "/search"):
		return `{"query":"x"}`
	case strings.HasSuffix(rt.Pattern, "/batch"):
		return `{"searches":[]}`
	case strings.HasSuffix(rt.Pattern, "/suggest"), strings.HasSuffix(rt.Pattern, "/terms"):
		return `{"field":"text","text":"x"}`
	case strings.HasSuffix(rt.Pattern, "/restore"):
		return `{"snapshot":"snap"}`
	case strings.HasSuffix(rt.Pattern, "/enabled"):
		return `{"enabled":true}`
	case strings.HasSuffix(rt.Pattern, "/expand"):
		return `{"chunk":"x"}`
	}
	return `{}`
}

// verbatim sends a path as it is: http.Client would clean it.
func (r *running) verbatim(method, path, body string) answer {
	r.t.Helper()
	media := "application/json"
	switch {
	case strings.HasSuffix(path, "/bulk"):
		media = "application/x-ndjson"
	case strings.HasSuffix(path, "/archive"):
		media = "application/x-tar"
	case method == "POST" && strings.HasSuffix(path, "/documents"):
		media = "multipart/form-data; boundary=b"
	}
	c := r.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, path, media, len(body), body))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close(), c.Close()); err != nil {
		r.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}
