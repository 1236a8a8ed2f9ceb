package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pages is a PDF of plain pages.
func pages(texts ...string) []byte {
	var b strings.Builder
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(at)}, args...)...)
	}
	b.WriteString("%PDF-1.4\n")
	kids := ""
	for i := range texts {
		kids += fmt.Sprintf("%d 0 R ", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [ %s] /Count %d >>", kids, len(texts))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, text := range texts {
		stream := "BT /F1 18 Tf 72 700 Td (" + text + ") Tj ET"
		object("<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 612 792 ] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 5+2*i)
		object("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, o := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return []byte(b.String())
}

// What a piece of evidence cites is what it says (G09), in its source or on its
// page, also when the document has been replaced since.
func TestG09Passages(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/knowledge-bases", object_{"id": "kb", "chunk": object_{"strategy": "count", "unit": "page", "size": 1}})
	put := func(name string, data []byte) { s.ok("PUT", "/v1/knowledge-bases/kb/documents/"+name, data) }
	put("guide.md", []byte("# Häfen\n\nÖffnung um acht.\n\n## Ebbe\n\nMoney comes back within ten days.\n"))
	put("tides.pdf", pages("Tide tables.", "Spring tides come after the new moon.", "Neap tides are weak."))
	s.ok("POST", "/v1/workspaces", `{"id":"w"}`)
	s.ok("POST", "/v1/workspaces/w/accounts", `{"id":"ann","grants":[{"space":"*","permission":"use"}]}`)
	s.ok("POST", "/v1/workspaces/w/accounts", `{"id":"eve"}`)
	s.ok("POST", "/v1/spaces", `{"id":"docs","workspace":"w","base":"kb"}`)
	s.ok("POST", "/v1/spaces/docs/publish", `{"draft_revision":1}`)
	cited := map[string]object_{}
	for _, q := range []string{"money days", "spring moon"} {
		out := s.ok("POST", "/v1/spaces/retrieve", object_{"spaces": []string{"docs"}, "query": q, "account": "ann", "top_n": 1})
		e := out["result"].([]any)[0].(object_)
		body := object_{"content": e["content"], "max_bytes": 1}
		for k, v := range e["metadata"].(object_)["citation"].(object_) {
			if k != "section_path" && k != "artifact_hash" {
				body[k] = v
			}
		}
		cited[q] = body
	}
	check := func(q string, page float64, of string) {
		t.Helper()
		p := s.ok("POST", "/v1/spaces/docs/passage?account=ann", cited[q])
		text, from := p["text"].(string), int(p["offset"].(float64))
		if got := text[int(p["start_offset"].(float64))-from : int(p["end_offset"].(float64))-from]; got != cited[q]["content"] || p["of"] != of {
			t.Errorf("%s: %q of %s is marked, the evidence says %q", q, got, p["of"], cited[q]["content"])
		}
		if got, _ := p["page"].(float64); got != page {
			t.Errorf("%s: page %v, want %v", q, got, page)
		}
	}
	check("money days", 1, "source")
	check("spring moon", 2, "text")
	page := s.ok("POST", "/v1/spaces/docs/passage?account=ann", object_{"document_id": "tides.pdf", "document_version": 1, "page_number": 3})
	if text := page["text"].(string)[int(page["start_offset"].(float64)):int(page["end_offset"].(float64))]; !strings.Contains(text, "Neap") || strings.Contains(text, "Spring") || page["truncated"] != false {
		t.Errorf("page 3 is %q", text)
	}
	put("guide.md", []byte("# Other\n\nNothing of that.\n"))
	check("money days", 1, "source")
	s.fails(403, "permission_denied", "POST", "/v1/spaces/docs/passage?account=eve", cited["money days"])
	s.fails(404, CodeNotFound, "POST", "/v1/spaces/docs/passage?account=ann", `{"document_id":"none","document_version":1}`)
	s.fails(404, CodeNotFound, "POST", "/v1/spaces/docs/passage?account=ann", `{"document_id":"guide.md","document_version":9}`)
	for body, field := range map[string]string{
		`{"document_id":"guide.md","document_version":1,"start_offset":5,"end_offset":4}`:    "end_offset",
		`{"document_id":"guide.md","document_version":1,"start_offset":5}`:                   "end_offset",
		`{"document_id":"guide.md","document_version":1,"start_offset":5,"end_offset":1000}`: "end_offset",
		`{"document_id":"tides.pdf","document_version":1,"content":"not there"}`:             "content",
	} {
		if p := s.fails(400, CodeInvalid, "POST", "/v1/spaces/docs/passage?account=ann", body); p.Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	s.caller = Caller{Access: Read, Account: "ann"}
	if got := s.ok("GET", "/v1/spaces", nil)["spaces"].([]any); len(got) != 1 {
		t.Error(got)
	}
	if got := s.ok("GET", "/v1", nil); got["access"] != "read" || got["account"] != "ann" {
		t.Error(got)
	}
	s.caller = Caller{Access: Read}
	if got := s.ok("GET", "/v1/spaces", nil)["spaces"].([]any); len(got) != 0 {
		t.Error(got)
	}
	s.caller = Caller{Access: Admin}
	if got := s.ok("GET", "/v1/spaces", nil)["spaces"].([]any); len(got) != 1 {
		t.Error(got)
	}
}

// To list spaces makes no catalogue.
func TestNoCatalogueIsMade(t *testing.T) {
	s := newServer(t, Options{})
	if got := s.ok("GET", "/v1/spaces", nil)["spaces"].([]any); len(got) != 0 {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(s.reg.Dir(), "knowledge", "catalog.db")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
