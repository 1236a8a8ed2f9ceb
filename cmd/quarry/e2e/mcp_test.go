package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call is one tool with what its result must hold.
type call struct {
	tool string
	args map[string]any
	want string
}

var reading = []call{
	{"list", nil, `"collection":"handbook"`},
	{"list", map[string]any{"knowledge_base": "manual"}, `"tides.pdf"`},
	{"stats", map[string]any{"collection": "handbook"}, `"documents":21`},
	{"stats", map[string]any{"knowledge_base": "manual"}, `"documents":4`},
	{"search", map[string]any{"collection": "handbook", "query": "how do I release a new version unnoticed"}, `"mode":"hybrid"`},
	{"search", map[string]any{"knowledge_bases": []string{"manual"}, "query": "when is the harbor deepest"}, `"tides.pdf"`},
	{"get", map[string]any{"collection": "handbook", "id": "guides/01"}, `Rolling updates`},
	{"get", map[string]any{"knowledge_base": "manual", "id": "rules.txt"}, `Ferries go first`},
	{"explain", map[string]any{"collection": "handbook", "query": "deploy", "id": "guides/01"}, `"verdict"`},
	{"explain", map[string]any{"knowledge_bases": []string{"manual"}, "query": "harbor", "id": "rules.txt"}, `"found":true`},
}

var writing = []call{
	{"upsert", map[string]any{"collection": "handbook", "documents": []any{map[string]any{"id": "new", "text": map[string]any{"title": "Quarantine flags", "text": "The yellow flag."}}}}, `"put":1`},
	{"search", map[string]any{"collection": "handbook", "query": "quarantine", "mode": "keyword"}, `"id":"new"`},
	{"delete", map[string]any{"collection": "handbook", "ids": []string{"new", "never"}}, `"removed":1`},
	{"upsert", map[string]any{"knowledge_base": "manual", "documents": []any{map[string]any{"id": "flags.md", "content": "# Flags\n\nThe yellow flag means quarantine."}}}, `"added":1`},
	{"delete", map[string]any{"knowledge_base": "manual", "ids": []string{"flags.md"}}, `"removed":1`},
}

// The SDK's client calls each tool: over stdio beside a server that is at work on
// the same directory, over HTTP beside it and at the server itself, and over stdio
// for writing when the server is gone.
func TestMCP(t *testing.T) {
	s := start(t)
	s.fill(t)
	t.Run("StdioBesideServer", func(t *testing.T) {
		cs := stdio(t, "--data", s.data)
		use(t, cs, reading)
		if tools := toolNames(t, cs); tools != "explain get list search stats" {
			t.Errorf("tools: %s", tools)
		}
	})
	t.Run("HTTP", func(t *testing.T) { overHTTP(t, launch(t, s.data, "mcp")) })
	t.Run("HTTPOfServe", func(t *testing.T) { overHTTP(t, s) })
	t.Run("StdioForWriting", func(t *testing.T) {
		s.stop()
		cs := stdio(t, "--data", s.data, "--write")
		use(t, cs, reading)
		use(t, cs, writing)
		if tools := toolNames(t, cs); tools != "delete explain get list search stats upsert" {
			t.Errorf("tools: %s", tools)
		}
	})
}

func stdio(t *testing.T, args ...string) *sdk.ClientSession {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"mcp"}, args...)...)
	var logs bytes.Buffer
	cmd.Stderr = &logs
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "e2e"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, logs.String())
	}
	t.Cleanup(func() {
		if err := cs.Close(); err != nil {
			t.Errorf("the process ended with %v\n%s", err, logs.String())
		}
	})
	return cs
}

// overHTTP uses a server that reads.
func overHTTP(t *testing.T, m *server) {
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "e2e"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: m.url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	use(t, cs, reading)
	if tools := toolNames(t, cs); tools != "explain get list search stats" {
		t.Errorf("tools: %s", tools)
	}
	if err := cs.Close(); err != nil {
		t.Error(err)
	}
}

func toolNames(t *testing.T, cs *sdk.ClientSession) string {
	t.Helper()
	list, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

func use(t *testing.T, cs *sdk.ClientSession, calls []call) {
	t.Helper()
	for _, c := range calls {
		res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			t.Errorf("%s %v: %v", c.tool, c.args, err)
			continue
		}
		data, err := json.Marshal(res.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if text := res.Content[0].(*sdk.TextContent).Text; res.IsError || !strings.Contains(string(data), c.want) || text == "" {
			t.Errorf("%s %v: no %s in %s\n%s", c.tool, c.args, c.want, data, text)
		}
	}
}
