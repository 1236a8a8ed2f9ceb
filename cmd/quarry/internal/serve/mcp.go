package serve

import (
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/mcp"
)

// mcp mounts the tools over the server's own data directory: what a client reads
// is what /v1 reads. A key sees the tools that it may use.
func (s *Server) mcp() ([]httpapi.Route, error) {
	mount := func(write bool) (httpapi.Route, error) {
		tools, err := mcp.New(mcp.Fixed(s.reg), mcp.Options{Version: s.c.API.Version, Write: write, Logger: s.log})
		if err != nil {
			return httpapi.Route{}, err
		}
		return mcp.Routes(func() *sdk.Server { return tools }, httpapi.Read)[0], nil
	}
	read, err := mount(false)
	if err != nil || !s.c.MCPWrite {
		return []httpapi.Route{read}, err
	}
	write, err := mount(true)
	if err != nil {
		return nil, err
	}
	both := read
	both.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if httpapi.InfoOf(r.Context()).Caller.Access >= httpapi.Write {
			write.Handler.ServeHTTP(w, r)
			return
		}
		read.Handler.ServeHTTP(w, r)
	})
	return []httpapi.Route{both}, nil
}
