package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func serve(t *testing.T) http.Handler {
	t.Helper()
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// sources are the files of the page by name.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := fs.ReadFile(static, "static/"+e.Name())
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

func TestHandler(t *testing.T) {
	h := serve(t)
	for name := range sources(t) {
		target := "/page/" + name
		if name == "index.html" {
			target = "/"
		}
		w := get(h, http.MethodGet, target)
		if w.Code != http.StatusOK {
			t.Errorf("GET %s: %d", target, w.Code)
		}
		want := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)]
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("%s: type %q, want %q", target, got, want)
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'",
			"frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy lacks %q: %s", target, part, csp)
			}
		}
		for _, bad := range []string{"unsafe", "*", "http", "blob:"} {
			if strings.Contains(csp, bad) {
				t.Errorf("%s: the policy has %q: %s", target, bad, csp)
			}
		}
		if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options %q", target, got)
		}
		again := get(h, http.MethodGet, target, "If-None-Match", w.Header().Get("ETag"))
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: %d, %d bytes", target, again.Code, again.Body.Len())
		}
		if head := get(h, http.MethodHead, target); head.Code != http.StatusOK || head.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d, %d bytes", target, head.Code, head.Body.Len())
		}
	}
	for _, target := range []string{"/page/", "/page/doc.go", "/page/../page.go", "/page/%2e%2e/page.go", "/index.html", "/page/static/app.js", "/v1"} {
		if w := get(h, http.MethodGet, target); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d, want 404", target, w.Code)
		}
	}
}

func TestSize(t *testing.T) {
	const most = 150_000
	size := 0
	for _, data := range sources(t) {
		size += len(data)
	}
	if size > most {
		t.Errorf("the page has %d bytes, at most %d", size, most)
	}
	t.Logf("the page has %d bytes", size)
}

// No request leaves the machine: no address of another place stands anywhere,
// but for the name spaces of SVG.
func TestNoForeignAddress(t *testing.T) {
	address := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"'<>)]*`)
	for name, data := range sources(t) {
		for _, found := range address.FindAllString(data, -1) {
			if found != "http://www.w3.org/2000/svg" {
				t.Errorf("%s: %s", name, found)
			}
		}
	}
}

// Strings never become markup or code: the policy forbids it at run time, and
// this test when the page is written.
func TestNoMarkupFromStrings(t *testing.T) {
	sink := regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTMLUnsafe|srcdoc|eval|Function)\b\s*[=(:]|javascript:|\bsetAttribute\('(on|style)`)
	inline := regexp.MustCompile(`(?i)<script(?:[^>]*)>[^<]|\son[a-z]+\s*=|\sstyle\s*=|<style`)
	for name, data := range sources(t) {
		if found := sink.FindString(data); found != "" && path.Ext(name) == ".js" {
			t.Errorf("%s: %s", name, found)
		}
		if found := inline.FindString(data); found != "" && path.Ext(name) == ".html" {
			t.Errorf("%s: %s", name, found)
		}
	}
}

// What is imported is there, is fetched ahead, and nothing lies about unused.
func TestFilesBelongTogether(t *testing.T) {
	files := sources(t)
	used := map[string]bool{"index.html": true, "app.js": true}
	for _, m := range regexp.MustCompile(`(?:href|src)="page/([^"]+)"`).FindAllStringSubmatch(files["index.html"], -1) {
		used[m[1]] = true
	}
	for name, data := range files {
		for _, m := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(data, -1) {
			if files[m[1]] == "" {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
			if !used[m[1]] {
				t.Errorf("%s, which %s imports, is not fetched ahead by index.html", m[1], name)
			}
		}
	}
	for name := range files {
		if !used[name] {
			t.Errorf("%s is not used", name)
		}
	}
}
