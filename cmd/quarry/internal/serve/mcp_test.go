package serve

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// withKey sends a key with every request.
type withKey struct {
	key  string
	next http.RoundTripper
}

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return k.next.RoundTrip(r)
}

// mcpClient connects the SDK's client.
func (r *running) mcpClient(key string) (*sdk.ClientSession, error) {
	client := &http.Client{Transport: withKey{key, r.client.Transport}}
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(r.t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://" + r.addr + "/mcp", HTTPClient: client}, nil)
	if err == nil {
		r.t.Cleanup(func() { _ = cs.Close() })
	}
	return cs, err
}

// tool calls a tool, and gives its structured result and its text.
func (r *running) tool(cs *sdk.ClientSession, name, args string) (structured, text string) {
	r.t.Helper()
	res, err := cs.CallTool(r.t.Context(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			text += t.Text
		}
	}
	b, err := json.Marshal(res.StructuredContent)
	if err != nil || res.IsError {
		r.t.Fatalf("%s: %v, %s", name, err, text)
	}
	return string(b), text
}

func toolNames(t *testing.T, cs *sdk.ClientSession) []string {
	t.Helper()
	list, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// MCP and /v1 are one server: what one writes the other reads, at once.
func TestMCPOverHTTP(t *testing.T) {
	r := start(t, &Config{MCP: true})
	r.notes()
	cs, err := r.mcpClient("")
	if err != nil {
		t.Fatal(err)
	}
	if names := toolNames(t, cs); strings.Join(names, " ") != "explain get list search stats" {
		t.Errorf("tools without the wish to write: %v", names)
	}
	r.ok("PUT", "/v1/collections/notes/documents/fresh", `{"text":{"text":"basalt columns"}}`)
	if structured, text := r.tool(cs, "search", `{"query":"basalt"}`); !strings.Contains(structured, `"fresh"`) || !strings.Contains(text, "[1]") {
		t.Errorf("%s\n%s", structured, text)
	}
	r.ok("DELETE", "/v1/collections/notes/documents/fresh", nil)
	if structured, _ := r.tool(cs, "search", `{"query":"basalt"}`); strings.Contains(structured, `"fresh"`) {
		t.Errorf("a deleted document is found: %s", structured)
	}
}

// A key is needed where the server needs one, and gives the tools that its access
// allows.
func TestMCPKeys(t *testing.T) {
	dir := t.TempDir()
	keys := map[httpapi.Access]string{}
	for a := httpapi.Read; a <= httpapi.Admin; a++ {
		key, _, err := CreateKey(filepath.Join(dir, keysName), a.String(), "", a)
		if err != nil {
			t.Fatal(err)
		}
		keys[a] = key
	}
	r := start(t, &Config{Data: dir, MCP: true, MCPWrite: true})
	if _, err := r.mcpClient(""); err == nil {
		t.Error("a client without a key is let in")
	}
	if _, err := r.mcpClient("qk_aaaaaaaa_bbbb"); err == nil {
		t.Error("a client with an unknown key is let in")
	}
	for a, key := range keys {
		cs, err := r.mcpClient(key)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := slices.Contains(toolNames(t, cs), "upsert"), a >= httpapi.Write; got != want {
			t.Errorf("%v key: writing tools %v, want %v", a, got, want)
		}
	}
	r.ok("POST", "/v1/collections", `{"name":"c","schema":{"text":[{"name":"text"}]}}`, "X-API-Key", keys[httpapi.Admin])
	cs, err := r.mcpClient(keys[httpapi.Write])
	if err != nil {
		t.Fatal(err)
	}
	r.tool(cs, "upsert", `{"collection":"c","documents":[{"id":"x","text":{"text":"slate"}}]}`)
	if a := r.ok("GET", "/v1/collections/c/documents/x", nil, "X-API-Key", keys[httpapi.Read]); !strings.Contains(a.body, "slate") {
		t.Error(a)
	}
}

// The checks of Host and Origin are those of every route (H09), and so are those
// of bodies (H02); without MCP there is nothing at /mcp.
func TestH09MCP(t *testing.T) {
	r := start(t, &Config{MCP: true})
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 200}, {[]string{"Origin", "https://evil.example"}, 403}, {[]string{"Origin", "null"}, 403}, {[]string{"Host", "evil.example"}, 403}, {[]string{"Origin", "http://" + r.addr}, 200},
	} {
		if a := r.do("POST", "/mcp", hello, append(c.header, "Accept", "application/json, text/event-stream")...); a.status != c.status {
			t.Errorf("%v: %d %s", c.header, a.status, a.body)
		}
	}
	if a := r.do("POST", "/mcp", strings.Repeat(" ", 32<<20), "Accept", "application/json, text/event-stream"); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 32 MiB: %d %.200s", a.status, a.body)
	}
	without := start(t, nil)
	if a := without.do("POST", "/mcp", hello); a.status != 404 {
		t.Error(a)
	}
}
