package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
)

// big is no float64.
const big = int64(1)<<53 + 1

// newData makes a data directory: collection "notes" by words, knowledge base
// "guide" of three files, one of three pages.
func newData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r, err := registry.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	c, err := r.Create(ctx, "notes", registry.CreateOptions{Schema: index.Schema{
		Text: []index.TextField{{Name: "title"}, {Name: "body"}},
		Meta: map[string]filter.Type{"serial": filter.Int64, "lang": filter.Keyword, "at": filter.Time},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var docs []index.Document
	for i := range 30 {
		docs = append(docs, index.Document{ID: fmt.Sprintf("n%02d", i),
			Text: map[string]string{"title": fmt.Sprintf("Note %d", i), "body": strings.Repeat("harbor lights over the water. ", 1+i)},
			Meta: map[string]any{"serial": big + int64(i), "lang": []string{"de", "en"}[i%2], "at": time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC)}})
	}
	if err := c.Apply(ctx, docs); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if _, err := r.CreateBase(ctx, "guide", "", nil); err != nil {
		t.Fatal(err)
	}
	store, err := r.Knowledge(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Ingest(ctx, knowledge.IngestRequest{Base: "guide", Sources: []knowledge.Source{
		{Name: "one.txt", Data: []byte("Harbor rules.\n\nShips wait outside.\fPage two: the harbor master calls.\fPage three: harbor dues.")},
		{Name: "two.md", Data: []byte("# Tides\n\nThe tide turns twice a day.\n\n## Spring tide\n\nA harbor is deepest then.\n"), Meta: map[string]any{"level": int64(3)}},
		{Name: "three.md", Data: []byte("# Empty berths\n\nNothing here about boats.\n")},
	}}); err != nil {
		t.Fatal(err)
	}
	closeData(t, r)
	return dir
}

func closeData(t *testing.T, r *registry.Registry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

// connect serves a data directory to a client in this process.
func connect(t *testing.T, dir string, write bool) *sdk.ClientSession {
	t.Helper()
	r, err := registry.Open(dir, &registry.Options{ReadOnly: !write})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeData(t, r) })
	s, err := New(Fixed(r), Options{Version: "test", Write: write})
	if err != nil {
		t.Fatal(err)
	}
	ct, st := sdk.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), st, nil); err != nil {
		t.Fatal(err)
	}
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), ct, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

// call calls a tool, checks the result against the tool's own schema, and
// decodes it.
func call[Out any](t *testing.T, cs *sdk.ClientSession, name string, args map[string]any) (out Out, text string) {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text = res.Content[0].(*sdk.TextContent).Text
	if res.IsError {
		t.Fatalf("%s %.300s: %s", name, fmt.Sprint(args), text)
	}
	data, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		if tool.Name != name {
			continue
		}
		raw, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		check, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Validate(res.StructuredContent); err != nil {
			t.Errorf("%s: result is not as its schema says: %v\n%s", name, err, data)
		}
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out, text
}

// refused calls a tool that must fail, and returns what it says.
func refused(t *testing.T, cs *sdk.ClientSession, name string, args map[string]any) string {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error()
	}
	if !res.IsError {
		t.Errorf("%s %v did not fail", name, args)
	}
	return res.Content[0].(*sdk.TextContent).Text
}

// Tools that change nothing share one directory.
func TestReading(t *testing.T) {
	cs := connect(t, newData(t), false)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *sdk.ClientSession)
	}{
		{"Search", searchesCollections}, {"Groups", groups}, {"G09MarkerIsSource", markerIsSource}, {"SizesAreCapped", sizesAreCapped}, {"List", lists}, {"Get", getsPassages},
		{"Stats", counts}, {"Explain", explains}, {"ReadOnlyByDefault", readOnlyByDefault}, {"ErrorsSayWhatToDo", errorsSayWhatToDo},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, cs) })
	}
}

func searchesCollections(t *testing.T, cs *sdk.ClientSession) {
	out, text := call[searchOut](t, cs, "search", map[string]any{"collection": "notes", "query": "harbor", "k": 5, "filter": `lang = "de"`})
	if len(out.Hits) != 5 || out.Total != 15 || out.Mode != "keyword" {
		t.Errorf("got %d hits of %d, mode %s", len(out.Hits), out.Total, out.Mode)
	}
	for i, h := range out.Hits {
		if h.N != i+1 || out.Sources[i].N != i+1 || out.Sources[i].Collection != "notes" {
			t.Errorf("hit %d has number %d, source %+v", i, h.N, out.Sources[i])
		}
		if want := fmt.Sprintf("\n[%d] %s\nid %s,", h.N, out.Sources[i].Title, out.Sources[i].ID); !strings.Contains(text, want) {
			t.Errorf("text has no %q:\n%s", want, text)
		}
	}
	if out.Truncated || !strings.Contains(out.Hits[0].Text, "harbor lights") {
		t.Errorf("truncated %v, text %q", out.Truncated, out.Hits[0].Text)
	}
}

// An empty directory, and one without knowledge bases, are no errors.
func TestNothingThere(t *testing.T) {
	for _, write := range []bool{true, false} { // the first makes it
		dir := t.TempDir()
		if !write {
			r, err := registry.Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			closeData(t, r)
		}
		cs := connect(t, dir, write)
		if out, text := call[listOut](t, cs, "list", nil); len(out.Targets) != 0 || text != "nothing there" {
			t.Errorf("write %v: %+v, %q", write, out, text)
		}
		if got := refused(t, cs, "search", map[string]any{"query": "x"}); !strings.Contains(got, "no collection and no knowledge base") {
			t.Errorf("write %v: %s", write, got)
		}
	}
}

// Whatever a document holds, a result stays within its bounds.
func TestHugeMetadata(t *testing.T) {
	cs := connect(t, newData(t), true)
	long, list := strings.Repeat("långt ", 4000), make([]any, 5000)
	for i := range list {
		list[i] = fmt.Sprint("value ", i)
	}
	var docs []any
	for i := range 20 {
		meta := map[string]any{"long": long, "list": list}
		for j := range 100 {
			meta[fmt.Sprintf("f%03d", j)] = "x"
		}
		docs = append(docs, map[string]any{"id": fmt.Sprintf("huge%02d", i), "text": map[string]any{"body": "leviathan " + long}, "meta": meta})
	}
	call[upsertOut](t, cs, "upsert", map[string]any{"collection": "notes", "documents": docs})
	res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "search", Arguments: map[string]any{"collection": "notes", "query": "leviathan", "k": 20}})
	if err != nil || res.IsError {
		t.Fatal(err, res)
	}
	data, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"truncated":true`) || len(data) > 8*defaultChars {
		t.Errorf("%d bytes, truncated: %v", len(data), strings.Contains(string(data), `"truncated":true`))
	}
}

func TestIntegersKeepTheirBits(t *testing.T) {
	dir := newData(t)
	cs := connect(t, dir, true)
	raw := json.RawMessage(fmt.Sprintf(`{"collection":"notes","documents":[{"id":"x","text":{"title":"X"},"meta":{"serial":%d}}]}`, big+100))
	res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "upsert", Arguments: raw})
	if err != nil || res.IsError {
		t.Fatal(err, res)
	}
	out, text := call[searchOut](t, cs, "search", map[string]any{"collection": "notes", "filter": fmt.Sprintf("serial = %d", big+100)})
	if out.Total != 1 || out.Sources[0].ID != "x" {
		t.Errorf("got %+v", out)
	}
	if want := fmt.Sprint(big + 100); !strings.Contains(text, want) {
		t.Errorf("text does not say %s:\n%s", want, text)
	}
}

// The marker [n] in the text is source n of the result, and of its passages.
func markerIsSource(t *testing.T, cs *sdk.ClientSession) {
	out, text := call[searchOut](t, cs, "search", map[string]any{"knowledge_bases": []string{"guide"}, "query": "harbor"})
	if len(out.Sources) < 2 || len(out.Hits) < 2 {
		t.Fatalf("got %d sources, %d hits", len(out.Sources), len(out.Hits))
	}
	for i, s := range out.Sources {
		if s.N != i+1 {
			t.Errorf("source %d has number %d", i, s.N)
		}
		if want := fmt.Sprintf("[%d] %s", s.N, s.Source); !strings.Contains(text, want) {
			t.Errorf("text has no %q:\n%s", want, text)
		}
	}
	for _, h := range out.Hits {
		if src := out.Sources[h.N-1]; !strings.HasPrefix(h.Chunk, src.ID+"#") {
			t.Errorf("hit of chunk %s is given to source %+v", h.Chunk, src)
		}
		if h.Page < 0 || h.Page > 3 || h.PageEnd != 0 && h.PageEnd <= h.Page {
			t.Errorf("chunk %s: pages %d to %d", h.Chunk, h.Page, h.PageEnd)
		}
	}
}

func sizesAreCapped(t *testing.T, cs *sdk.ClientSession) {
	out, text := call[searchOut](t, cs, "search", map[string]any{"collection": "notes", "query": "harbor", "k": 30, "max_chars": 1000})
	if !out.Truncated || len(out.Hits) >= 30 || len(out.Hits) == 0 || len([]rune(text)) > 1400 {
		t.Errorf("truncated %v, %d hits, %d characters", out.Truncated, len(out.Hits), len([]rune(text)))
	}
	if !strings.Contains(text, "did not fit") {
		t.Errorf("the text does not say so:\n%s", text)
	}
	got, _ := call[getOut](t, cs, "get", map[string]any{"collection": "notes", "id": "n29", "max_chars": 300})
	if !got.Truncated || len(got.Notes) == 0 {
		t.Fatalf("got %+v", got)
	}
	// Read on, part by part, it is the whole text.
	var whole string
	for off := 0; ; {
		part, _ := call[getOut](t, cs, "get", map[string]any{"collection": "notes", "id": "n29", "field": "body", "offset": off, "max_chars": 300})
		whole += part.Texts[0].Text
		if off = part.Texts[0].Next; off == 0 {
			break
		}
	}
	if want := strings.Repeat("harbor lights over the water. ", 30); whole != want {
		t.Errorf("read %d bytes in parts, want %d", len(whole), len(want))
	}
	for _, k := range []any{-1, 0, 101, 1e18, 1.5, "10"} {
		if msg := refused(t, cs, "search", map[string]any{"collection": "notes", "query": "x", "k": k}); !strings.Contains(msg, "k") {
			t.Errorf("k %v: %s", k, msg)
		}
	}
}

func lists(t *testing.T, cs *sdk.ClientSession) {
	all, _ := call[listOut](t, cs, "list", nil)
	if len(all.Targets) != 2 || all.Targets[0].Collection != "notes" || all.Targets[0].Documents != 30 || all.Targets[1].KnowledgeBase != "guide" || all.Targets[1].Documents != 3 {
		t.Errorf("got %+v", all.Targets)
	}
	for _, target := range []string{"collection", "knowledge_base"} {
		want := map[string]int{"collection": 30, "knowledge_base": 3}[target]
		name := map[string]string{"collection": "notes", "knowledge_base": "guide"}[target]
		seen, after := map[string]bool{}, ""
		for range 40 {
			page, _ := call[listOut](t, cs, "list", map[string]any{target: name, "limit": 2, "after": after})
			if page.Total != want || len(page.Documents) > 2 {
				t.Errorf("%s: %d documents of %d", target, len(page.Documents), page.Total)
			}
			for _, d := range page.Documents {
				seen[d.ID] = true
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if len(seen) != want {
			t.Errorf("%s: the pages held %d documents, want %d", target, len(seen), want)
		}
	}
}

func getsPassages(t *testing.T, cs *sdk.ClientSession) {
	out, text := call[getOut](t, cs, "get", map[string]any{"knowledge_base": "guide", "id": "one.txt"})
	if !strings.Contains(text, "Ships wait outside") || out.Page != 1 || *out.Start != 0 {
		t.Errorf("got %+v\n%s", out, text)
	}
	hits, _ := call[searchOut](t, cs, "search", map[string]any{"knowledge_bases": []string{"guide"}, "query": "tide"})
	chunk, _ := call[getOut](t, cs, "get", map[string]any{"knowledge_base": "guide", "id": hits.Hits[0].Chunk, "chunks": 1})
	if chunk.ID != "two.md" || !strings.Contains(chunk.Texts[0].Text, "tide") {
		t.Errorf("got %+v", chunk)
	}
}

func counts(t *testing.T, cs *sdk.ClientSession) {
	out, _ := call[statsOut](t, cs, "stats", map[string]any{"collection": "notes"})
	if out.Documents != 30 || len(out.Modes) != 1 {
		t.Errorf("got %+v", out)
	}
	found := false
	for _, f := range out.Fields {
		if f.Name == "lang" {
			found = len(f.Values) == 2 && f.Values[0].Count == 15
		}
	}
	if !found {
		t.Errorf("no values of lang in %+v", out.Fields)
	}
	base, _ := call[statsOut](t, cs, "stats", map[string]any{"knowledge_base": "guide"})
	if base.Documents != 3 || base.Chunks == 0 {
		t.Errorf("got %+v", base)
	}
	found = false
	for _, f := range base.Fields {
		found = found || f.Name == "meta.level" && f.Type == "int64"
	}
	if !found {
		t.Errorf("no field meta.level in %+v", base.Fields)
	}
}

func explains(t *testing.T, cs *sdk.ClientSession) {
	ask := func(args map[string]any) explainOut {
		out, _ := call[explainOut](t, cs, "explain", args)
		return out
	}
	if o := ask(map[string]any{"collection": "notes", "query": "harbor", "id": "n00", "k": 30}); !o.Found || o.Rank < 1 || o.Tree == "" {
		t.Errorf("a hit: %+v", o)
	}
	if o := ask(map[string]any{"collection": "notes", "query": "harbor", "id": "n00", "filter": `lang = "en"`}); o.Found || o.Verdict == "" || o.Matches != 15 {
		t.Errorf("lost to the filter: %+v", o)
	}
	for id, want := range map[string]string{"one.txt": "hit", "three.md": "no leg returns it", "none.md": "no such document"} {
		if o := ask(map[string]any{"knowledge_bases": []string{"guide"}, "query": "harbor", "id": id}); !strings.Contains(o.Verdict, want) {
			t.Errorf("%s: %+v", id, o)
		}
	}
	if o := ask(map[string]any{"knowledge_bases": []string{"guide"}, "query": "harbor", "id": "two.md", "filter": `format = "text"`}); o.Found || !strings.Contains(o.Verdict, "filter") {
		t.Errorf("lost to the filter: %+v", o)
	}
}

func TestWriting(t *testing.T) {
	cs := connect(t, newData(t), true)
	put, _ := call[upsertOut](t, cs, "upsert", map[string]any{"collection": "notes", "documents": []any{
		map[string]any{"id": "new", "text": map[string]any{"title": "Fresh", "body": "zeppelin"}, "meta": map[string]any{"lang": "fr", "at": "2025-01-01T00:00:00Z"}}}})
	if put.Put != 1 {
		t.Errorf("got %+v", put)
	}
	if out, _ := call[searchOut](t, cs, "search", map[string]any{"collection": "notes", "query": "zeppelin", "filter": "at >= 2025-01-01"}); len(out.Hits) != 1 {
		t.Errorf("what was put is not found: %+v", out)
	}
	base, _ := call[upsertOut](t, cs, "upsert", map[string]any{"knowledge_base": "guide", "documents": []any{
		map[string]any{"id": "four.md", "content": "# Fog\n\nThe zeppelin waits.", "meta": map[string]any{"level": 4}}}})
	if base.Added != 1 || base.Chunks == 0 {
		t.Errorf("got %+v", base)
	}
	del, text := call[deleteOut](t, cs, "delete", map[string]any{"collection": "notes", "ids": []string{"new", "new", "never"}})
	if del.Removed != 1 || len(del.Missing) != 1 || !strings.Contains(text, "never") {
		t.Errorf("got %+v, %s", del, text)
	}
	del, _ = call[deleteOut](t, cs, "delete", map[string]any{"knowledge_base": "guide", "ids": []string{"four.md", "never.md"}})
	if del.Removed != 1 || len(del.Missing) != 1 {
		t.Errorf("got %+v", del)
	}
	for _, args := range []map[string]any{
		{"collection": "notes", "query": "zeppelin"},
		{"knowledge_bases": []string{"guide"}, "query": "zeppelin"},
	} {
		if out, _ := call[searchOut](t, cs, "search", args); len(out.Hits) != 0 {
			t.Errorf("%v: what was deleted is found: %+v", args, out)
		}
	}
	for _, bad := range []map[string]any{
		{"collection": "notes", "documents": []any{map[string]any{"id": "a", "meta": map[string]any{"serial": "seven"}}}},
		{"collection": "notes", "documents": []any{map[string]any{"id": "a", "content": "x"}}},
		{"knowledge_base": "guide", "documents": []any{map[string]any{"id": "a.md"}}},
		{"collection": "notes", "documents": []any{}},
		{"collection": "notes", "documents": []any{map[string]any{"id": "a", "colour": "red"}}},
	} {
		refused(t, cs, "upsert", bad)
	}
}

func readOnlyByDefault(t *testing.T, cs *sdk.ClientSession) {
	tools, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		if a := tool.Annotations; a == nil || !a.ReadOnlyHint || a.OpenWorldHint == nil || *a.OpenWorldHint {
			t.Errorf("%s: annotations %+v", tool.Name, a)
		}
		if tool.Description == "" || tool.Title == "" {
			t.Errorf("%s has no description or title", tool.Name)
		}
	}
	if got := strings.Join(names, " "); got != "explain get list search stats" {
		t.Errorf("tools: %s", got)
	}
	refused(t, cs, "upsert", map[string]any{"collection": "notes", "documents": []any{map[string]any{"id": "a"}}})
	refused(t, cs, "delete", map[string]any{"collection": "notes", "ids": []string{"n00"}})
	if out, _ := call[statsOut](t, cs, "stats", map[string]any{"collection": "notes"}); out.Documents != 30 {
		t.Errorf("%d documents left", out.Documents)
	}
}

func errorsSayWhatToDo(t *testing.T, cs *sdk.ClientSession) {
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"search", map[string]any{"query": "x"}, "collection: notes; knowledge_base: guide"},
		{"search", map[string]any{"query": "x", "collection": "../../etc"}, "A-Za-z0-9"},
		{"search", map[string]any{"query": "x", "collection": "absent"}, "not found"},
		{"search", map[string]any{"query": "x", "knowledge_bases": []string{"absent"}}, "not found"},
		{"search", map[string]any{"query": "x", "collection": "notes", "filter": "lang ="}, "filter"},
		{"search", map[string]any{"query": "x", "collection": "notes", "filter": "nope = 1"}, "nope"},
		{"search", map[string]any{"query": "x", "collection": "notes", "mode": "vector"}, "no model"},
		{"search", map[string]any{"query": "x", "collection": "notes", "mode": "psychic"}, "mode"},
		{"search", map[string]any{"collection": "notes"}, "query"},
		{"search", map[string]any{"query": "x", "collection": "notes", "colour": 1}, "colour"},
		{"get", map[string]any{"collection": "notes", "id": "absent"}, "absent"},
		{"get", map[string]any{"collection": "notes"}, "id"},
		{"get", map[string]any{"knowledge_base": "guide", "id": "absent.md"}, "absent.md"},
		{"list", map[string]any{"collection": "notes", "knowledge_base": "guide"}, "not both"},
	} {
		if got := refused(t, cs, c.tool, c.args); !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s %v: got %q, want something with %q", c.tool, c.args, got, c.want)
		}
	}
}

// broken is a data directory whose use is a fault.
type broken struct{}

func (broken) Use() (*registry.Registry, func(), error) { panic("a fault of this program") }
func (broken) Close() error                             { return nil }

// A panic in a tool is a failed call and a line in the log, and the session goes
// on.
func TestPanicInTool(t *testing.T) {
	var log bytes.Buffer
	s, err := New(broken{}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ct, st := sdk.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), st, nil); err != nil {
		t.Fatal(err)
	}
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), ct, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := refused(t, cs, "list", nil); !strings.Contains(got, "internal error") || strings.Contains(got, "fault of this program") {
			t.Errorf("got %q", got)
		}
	}
	if err := cs.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "a fault of this program") {
		t.Errorf("log: %s", log.String())
	}
}

func TestReopening(t *testing.T) {
	dir := newData(t)
	d, err := Reopening(func() (*registry.Registry, error) { return registry.Open(dir, &registry.Options{ReadOnly: true}) }, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	count := func() int {
		r, done, err := d.Use()
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		c, err := r.Get(t.Context(), "notes")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		n, err := c.Index().Count(t.Context(), filter.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 30 {
		t.Errorf("%d documents", n)
	}
	w, err := registry.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeData(t, w)
	c, err := w.Get(t.Context(), "notes")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := c.Apply(t.Context(), []index.Document{{ID: "late"}}); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 31 {
		t.Errorf("%d documents after a write beside: the old state is shown", n)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := d.Use(); err == nil {
		t.Error("used after Close")
	}
}
