package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// TestMain lets the test binary be a server of its own, or the client of a
// benchmark.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("QUARRY_TEST_SERVER") != "":
		os.Exit(child(os.Args[1:]))
	case os.Getenv("QUARRY_TEST_CLIENT") != "":
		os.Exit(load(os.Getenv("QUARRY_TEST_CLIENT")))
	}
	goleak.VerifyTestMain(m)
}

// command runs a command line, and returns what it printed.
func command(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var c struct{ Commands }
	var b bytes.Buffer
	parser, err := kong.New(&c, kong.Writers(&b, io.Discard), kong.BindTo(t.Context(), (*context.Context)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(args)
	if err == nil {
		err = k.Run()
	}
	return b.String(), err
}

// A lines collects a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A running server of a test.
type running struct {
	t      *testing.T
	s      *Server
	addr   string
	client *http.Client
	log    *lines
	cancel context.CancelFunc
	done   chan error
}

// start runs a server on loopback; a nil config is the default one.
func start(t *testing.T, c *Config) *running {
	t.Helper()
	if c == nil {
		c = &Config{}
	}
	if c.Data == "" {
		c.Data = t.TempDir()
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	r := &running{t: t, log: &lines{}, done: make(chan error, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	c.Log = slog.New(slog.NewJSONHandler(r.log, nil))
	var err error
	if r.s, err = New(*c); err != nil {
		t.Fatal(err)
	}
	l, err := r.s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() { r.done <- r.s.Run(ctx, l) }()
	t.Cleanup(func() { r.stop() })
	for range 1000 {
		if w := r.do("GET", "/readyz", nil); w.status == 200 || c.TLSCert != "" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return r
}

// stop ends the server, once.
func (r *running) stop() {
	r.t.Helper()
	if r.cancel == nil {
		return
	}
	r.client.CloseIdleConnections()
	r.cancel()
	r.cancel = nil
	if err := <-r.done; err != nil {
		r.t.Error("stop:", err)
	}
	r.client.CloseIdleConnections()
}

// An answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) problem(t *testing.T) httpapi.Problem {
	t.Helper()
	var p httpapi.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" || p.Status != a.status {
		t.Errorf("no problem: %d %s", a.status, a.body)
	}
	return p
}

func (r *running) request(method, path string, body any, header ...string) *http.Request {
	r.t.Helper()
	var in io.Reader
	media := ""
	switch b := body.(type) {
	case nil:
	case string:
		in, media = strings.NewReader(b), "application/json"
	case io.Reader:
		in, media = b, "application/x-ndjson"
	}
	req, err := http.NewRequest(method, "http://"+r.addr+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return req
}

func (r *running) do(method, path string, body any, header ...string) answer {
	r.t.Helper()
	res, err := r.client.Do(r.request(method, path, body, header...))
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

func (r *running) ok(method, path string, body any, header ...string) answer {
	r.t.Helper()
	a := r.do(method, path, body, header...)
	if a.status/100 != 2 {
		r.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a
}

// notes makes a collection with two documents.
func (r *running) notes(header ...string) {
	r.t.Helper()
	r.ok("POST", "/v1/collections", `{"name":"notes","schema":{"text":[{"name":"text"}],"vectors":[{"name":"v","dim":2}]}}`, header...)
	r.ok("PUT", "/v1/collections/notes/documents", `{"documents":[{"id":"a","text":{"text":"granite rock"},"vectors":{"v":[1,0]}},{"id":"b","text":{"text":"slate rock"},"vectors":{"v":[0,1]}}]}`, header...)
}

// raw sends bytes as they are and returns the connection.
func (r *running) raw(text string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err == nil {
		_, err = io.WriteString(c, text)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestHealthAndRoutes(t *testing.T) {
	r := start(t, nil)
	r.notes()
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if a := r.ok("GET", path, nil); a.body != want {
			t.Error(path, a.body)
		}
	}
	a := r.ok("POST", "/v1/collections/notes/search", `{"query":"granite"}`, "X-Request-Id", "my-id.1")
	if a.header.Get("X-Request-Id") != "my-id.1" || a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(a.header.Get("Server-Timing"), "search;dur=") {
		t.Error(a.header)
	}
	for _, id := range []string{"", "a b", strings.Repeat("x", 65), "ä"} {
		if got := r.ok("GET", "/healthz", nil, "X-Request-Id", id).header.Get("X-Request-Id"); got == id || len(got) != 16 {
			t.Errorf("request id %q became %q", id, got)
		}
	}
	if p := r.do("GET", "/v1/collections/none", nil, "X-Request-Id", "x").problem(t); p.RequestID != "x" {
		t.Error(p)
	}
}

func TestNoRoute(t *testing.T) {
	r := start(t, nil)
	if p := r.do("GET", "/v2/none", nil).problem(t); p.Status != 404 || p.Code != httpapi.CodeNotFound {
		t.Error(p)
	}
	a := r.do("PATCH", "/v1/collections/notes/documents/a", nil)
	if p := a.problem(t); p.Status != 405 || p.Code != httpapi.CodeMethod || a.header.Get("Allow") != "GET, PUT, DELETE" {
		t.Error(p, a.header)
	}
	if a := r.do("GET", "/v1/collections/notes/search", nil); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Error(a)
	}
	if a := r.do("GET", "/", nil); a.status != 404 { // no page was given
		t.Error(a)
	}
}

func TestPageAndMounts(t *testing.T) {
	handler := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text, r.URL.Path) })
	}
	r := start(t, &Config{Page: handler("page "), Mounts: []httpapi.Route{{Pattern: "/mcp", Access: httpapi.Write, Stream: true, Handler: handler("mcp ")}}})
	for path, want := range map[string]string{"/": "page /", "/page/app.js": "page /page/app.js", "/mcp": "mcp /mcp"} {
		if a := r.ok("GET", path, nil); a.body != want {
			t.Error(path, a.body)
		}
	}
	r.ok("POST", "/mcp", `{}`)
}

func TestPanicIsAProblemAndALogLine(t *testing.T) {
	r := start(t, &Config{Mounts: []httpapi.Route{{Method: "GET", Pattern: "/fault", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("so it goes") })}}})
	r.notes()
	a := r.do("GET", "/fault", nil, "X-Request-Id", "faulty")
	if p := a.problem(t); p.Status != 500 || p.Code != httpapi.CodeInternal || p.RequestID != "faulty" || strings.Contains(a.body, "so it goes") {
		t.Error(a)
	}
	if log := r.log.String(); !strings.Contains(log, "so it goes") || !strings.Contains(log, "serve_test.go") || !strings.Contains(log, `"request_id":"faulty"`) {
		t.Error(log)
	}
	r.ok("POST", "/v1/collections/notes/search", `{"query":"granite"}`)
}

func TestOverload(t *testing.T) {
	enter, leave := make(chan struct{}), make(chan struct{})
	wait := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { enter <- struct{}{}; <-leave })
	r := start(t, &Config{MaxConcurrent: 1, MaxStreams: 1, Mounts: []httpapi.Route{{Method: "GET", Pattern: "/wait", Access: httpapi.Read, Handler: wait}, {Method: "GET", Pattern: "/stream", Access: httpapi.Read, Stream: true, Handler: wait}}})
	for _, path := range []string{"/wait", "/stream"} {
		held := make(chan answer)
		go func() { held <- r.do("GET", path, nil) }()
		<-enter
		a := r.do("GET", path, nil)
		if p := a.problem(t); p.Status != 503 || p.Code != httpapi.CodeOverload || a.header.Get("Retry-After") != "1" {
			t.Error(p, a.header)
		}
		r.ok("GET", "/healthz", nil)
		leave <- struct{}{}
		if a := <-held; a.status != 200 {
			t.Error(a)
		}
	}
	if m := r.ok("GET", "/metrics", nil).body; !strings.Contains(m, `quarry_http_rejected_total{code="overloaded"} 2`) {
		t.Error(m)
	}
}

func TestRequestDeadline(t *testing.T) {
	r := start(t, &Config{RequestTimeout: 30 * time.Millisecond, Mounts: []httpapi.Route{{Method: "GET", Pattern: "/wait", Access: httpapi.Read,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done(); fmt.Fprint(w, r.Context().Err()) })}}})
	if a := r.ok("GET", "/wait", nil); a.body != context.DeadlineExceeded.Error() {
		t.Error(a)
	}
}

func TestMetrics(t *testing.T) {
	r := start(t, nil)
	r.notes()
	r.ok("POST", "/v1/collections/notes/search", `{"query":"rock"}`)
	r.do("POST", "/v1/collections/notes/search", `{"k":0}`)
	r.do("BREW", "/v1/pot", nil)
	m := r.ok("GET", "/metrics", nil).body
	for _, want := range []string{
		`quarry_http_requests_total{code="200",method="POST",route="/v1/collections/{collection}/search"} 1`,
		`quarry_http_requests_total{code="400",method="POST",route="/v1/collections/{collection}/search"} 1`,
		`quarry_http_requests_total{code="404",method="other",route="none"} 1`,
		`quarry_http_request_seconds_count{route="/v1/collections/{collection}/search"} 2`,
		`quarry_stage_seconds_count{stage="search"} 1`,
		`quarry_collection_documents{collection="notes"} 2`,
		`quarry_collection_segments{collection="notes"}`,
		`quarry_collection_bytes{collection="notes"}`,
		`quarry_http_in_flight 1`,
		`quarry_build_info{version="`,
		`go_goroutines`, `process_resident_memory_bytes`,
	} {
		if !strings.Contains(m, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestLogRequests(t *testing.T) {
	r := start(t, &Config{LogRequests: true})
	r.ok("GET", "/v1/collections", nil, "X-Request-Id", "logged")
	r.stop()
	found := false
	for line := range strings.Lines(r.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("no JSON: %s", line)
		}
		if m["request_id"] == "logged" {
			found = m["status"] == 200.0 && m["path"] == "/v1/collections" && m["method"] == "GET"
		}
	}
	if !found {
		t.Error(r.log)
	}
}

func TestDamagedCollectionStopsNothing(t *testing.T) {
	dir := t.TempDir()
	r := start(t, &Config{Data: dir})
	r.notes()
	r.ok("POST", "/v1/collections", `{"name":"good"}`)
	r.stop()
	manifests, err := filepath.Glob(filepath.Join(dir, "collections", "notes", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("no manifest"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r = start(t, &Config{Data: dir})
	if p := r.do("GET", "/v1/collections/notes", nil).problem(t); p.Status != 500 || p.Code != httpapi.CodeCorrupt {
		t.Error(p)
	}
	r.ok("GET", "/v1/collections/good", nil)
	r.ok("GET", "/readyz", nil)
	if log := r.log.String(); !strings.Contains(log, "some collections cannot be opened") {
		t.Error(log)
	}
}
