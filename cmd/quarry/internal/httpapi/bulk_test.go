package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func TestBulk(t *testing.T) {
	s := newServer(t, Options{MaxLine: 1 << 20, MaxBulk: 4 << 20})
	s.ok("POST", "/v1/collections", `{"name":"c","schema":{"text":[{"name":"t"}],"meta":{"n":"int64"}}}`)
	path, media := "/v1/collections/c/bulk", []string{"Content-Type", mediaNDJSON}
	var b strings.Builder
	for i := range 2500 {
		switch i {
		case 7:
			b.WriteString("no json\n")
		case 1203:
			b.WriteString(`{"id":"x","meta":{"n":"text"}}` + "\n") // refused by the index
		case 1700:
			b.WriteString("\r\n")
		default:
			fmt.Fprintf(&b, `{"id":"%d","text":{"t":"word %d"},"meta":{"n":%d}}`+"\n", i, i, i)
		}
	}
	text := strings.TrimSuffix(b.String(), "\n") // a last line without an end
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{"plain": []byte(text), "gzip": z.Bytes()} {
		got := s.ok("POST", path, body, media...)
		bad := got["errors"].([]any)
		if got["lines"] != 2500.0 || got["documents"] != 2497.0 || got["bad"] != 2.0 || got["durable_line"] != 2500.0 ||
			bad[0].(object_)["line"] != 8.0 || bad[1].(object_)["line"] != 1204.0 || bad[1].(object_)["id"] != "x" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := s.ok("GET", "/v1/collections/c/stats", nil); got["documents"] != 2497.0 {
		t.Error(got)
	}
	if got := s.ok("POST", path, []byte(nil), media...); got["lines"] != 0.0 {
		t.Error(got)
	}
	s.fails(415, CodeMedia, "POST", path, `{"id":"a"}`)
	s.fails(415, CodeMedia, "POST", path, []byte("x"), "Content-Type", mediaNDJSON, "Content-Encoding", "br")
	s.fails(404, CodeNotFound, "POST", "/v1/collections/none/bulk", []byte(text), media...)

	// What is durable is told when a line has no end.
	long := `{"id":"first"}` + "\n" + `{"id":"long","text":{"t":"` + strings.Repeat("x", 2<<20)
	p := s.fails(413, CodeTooLarge, "POST", path, strings.NewReader(long), media...)
	if p.Limit != 1<<20 || !strings.Contains(p.Detail, "line 2") || p.Durable == nil || p.Durable.Durable != 0 || p.Durable.Documents != 0 {
		t.Errorf("%+v", p)
	}
	s.fails(404, CodeNotFound, "GET", "/v1/collections/c/documents/first", nil)
	// An endless stream ends at the limit, and what was durable before it stays.
	p = s.fails(413, CodeTooLarge, "POST", path, io.MultiReader(strings.NewReader(text+"\n"), endless{}), media...)
	if p.Durable == nil || p.Durable.Durable < 2000 || p.Durable.Documents < 1998 {
		t.Errorf("%+v", p.Durable)
	}
	stopping := make(chan struct{})
	close(stopping)
	s.api.o.Stopping = stopping
	p = s.fails(503, CodeStopping, "POST", path, []byte(text), media...)
	if p.Durable == nil || p.Durable.Documents != 0 {
		t.Errorf("%+v", p)
	}
}

// endless gives blank lines without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func TestH02BodyLimits(t *testing.T) {
	s := newServer(t, Options{MaxBody: 1000, MaxFile: 1000, MaxUpload: 3000, MaxArchive: 1000})
	s.ok("POST", "/v1/collections", `{"name":"c","schema":{"text":[{"name":"t"}]}}`)
	s.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	big := strings.Repeat("x", 1001)
	for _, c := range []struct {
		method, path string
		body         any
		media        string
	}{
		{"PUT", "/v1/collections/c/documents/a", `{"text":{"t":"` + big + `"}}`, "application/json"},
		{"PUT", "/v1/collections/c/documents/a", io.MultiReader(strings.NewReader(`{"text":{"t":"`), endlessText{}), "application/json"},
		{"PUT", "/v1/knowledge-bases/kb/documents/a.txt", []byte(big), "text/plain"},
		{"PUT", "/v1/knowledge-bases/kb/documents/a.txt", endlessText{}, "text/plain"},
		{"PUT", "/v1/collections/d/archive", []byte(big), mediaTar},
	} {
		if p := s.fails(413, CodeTooLarge, c.method, c.path, c.body, "Content-Type", c.media); p.Limit != 1000 || !strings.Contains(p.Detail, "1000 bytes") {
			t.Errorf("%+v", p)
		}
	}
	body, media := files(t, "a.txt", "small", "b.txt", big)
	if p := s.fails(413, CodeTooLarge, "POST", "/v1/knowledge-bases/kb/documents", body, "Content-Type", media); p.Limit != 1000 || !strings.Contains(p.Detail, `"b.txt"`) {
		t.Errorf("%+v", p)
	}
	if got := s.ok("GET", "/v1/knowledge-bases/kb/documents", nil)["documents"].([]any); len(got) != 0 {
		t.Error("stored in part:", got)
	}
	if got := s.ok("GET", "/v1/collections/c/stats", nil); got["documents"] != 0.0 {
		t.Error("stored in part:", got)
	}
}

type endlessText struct{}

func (endlessText) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
