package mcp

import (
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// maxRequest bounds a message over HTTP, in bytes: the texts of one upsert, and
// what JSON adds to them.
const maxRequest = 2 * maxText

// Path is where MCP is served over HTTP.
const Path = "/mcp"

// Routes are those of streamable HTTP, for package serve, which has to see to
// Host, Origin, keys, time and room before a request comes here. server is asked
// at every request. There are no sessions: each POST is a whole exchange, and no
// connection is held open.
func Routes(server func() *sdk.Server, access httpapi.Access) []httpapi.Route {
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxRequest, PropagateRequestCancellation: true,
		// Package serve knows more names of this server than localhost.
		DisableLocalhostProtection: true,
	})
	return []httpapi.Route{{Pattern: Path, Access: access, Handler: h}}
}
