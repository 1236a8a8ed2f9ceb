package httpapi

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

// Options of an API. The zero value of each limit is its default.
type Options struct {
	// Version of the program.
	Version string
	// MaxBody bounds a JSON body, in bytes; default 32 MiB.
	MaxBody int64
	// MaxLine bounds a line of a bulk import; default MaxBody.
	MaxLine int64
	// MaxBulk bounds a bulk import as it is sent; default 64 GiB.
	MaxBulk int64
	// MaxFile bounds a file that is brought into a knowledge base; default
	// 64 MiB. MaxUpload bounds a request that brings several; default 1 GiB.
	MaxFile, MaxUpload int64
	// MaxArchive bounds a snapshot that is restored from an upload; default
	// 64 GiB.
	MaxArchive int64
	// Stopping is closed when the server is about to stop: imports then end
	// behind the batch in hand. Nil: never.
	Stopping <-chan struct{}
}

// An API answers requests about a data directory.
type API struct {
	reg    *registry.Registry
	dir    string // of the registry, with a separator behind it, for messages
	o      Options
	routes []*route
	doc    []byte // the OpenAPI document
}

// New makes an API over an open registry, which stays the caller's.
func New(reg *registry.Registry, o Options) (*API, error) {
	for _, limit := range []struct {
		v   *int64
		def int64
	}{{&o.MaxBody, 32 << 20}, {&o.MaxBulk, 64 << 30}, {&o.MaxFile, 64 << 20}, {&o.MaxUpload, 1 << 30}, {&o.MaxArchive, 64 << 30}} {
		if *limit.v == 0 {
			*limit.v = limit.def
		}
	}
	if o.MaxLine == 0 {
		o.MaxLine = o.MaxBody
	}
	a := &API{reg: reg, dir: reg.Dir() + string(filepath.Separator), o: o, routes: table()}
	external, err := a.difyRoute()
	if err != nil {
		return nil, err
	}
	a.routes = append(a.routes, external)
	for _, r := range a.routes {
		if r.status == 0 {
			r.status = http.StatusOK
		}
		if err := r.compile(); err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
	}
	a.doc, err = a.openAPI()
	return a, err
}

// Routes are those of the API, /openapi.json among them.
func (a *API) Routes() []Route {
	out := make([]Route, 0, len(a.routes)+1)
	for _, r := range a.routes {
		rt := Route{Method: r.method, Pattern: r.path, Access: r.access, Stream: r.stream, Handler: a.handler(r)}
		if r.foreign != nil {
			rt.Refuse = r.foreign.refuse
		}
		out = append(out, rt)
	}
	return append(out, Route{Method: http.MethodGet, Pattern: "/openapi.json", Handler: http.HandlerFunc(a.serveDocument)})
}

func (a *API) serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", itoa(len(a.doc)))
	_, _ = w.Write(a.doc) // a client that went away
}

// table is the API.
func table() []*route {
	var out []*route
	for _, part := range [][]*route{rootRoutes(), collectionRoutes(), documentRoutes(), searchRoutes(), snapshotRoutes(), knowledgeRoutes(), ingestRoutes(), spaceRoutes(), catalogueRoutes(), nodeRoutes()} {
		out = append(out, part...)
	}
	return out
}

// rootAnswer tells what this server is.
type rootAnswer struct {
	Version  string   `json:"version"`
	ReadOnly bool     `json:"read_only"`
	Access   string   `json:"access" doc:"what the key may do: read, write, admin; admin where no key is needed"`
	Account  string   `json:"account,omitempty" doc:"the account of the catalogue that the key is bound to"`
	Models   []string `json:"models" doc:"names of models that collections and knowledge bases can be made with"`
	Limits   limits   `json:"limits" doc:"in bytes"`
}

type limits struct {
	Body    int64 `json:"max_body"`
	Line    int64 `json:"max_line"`
	Bulk    int64 `json:"max_bulk"`
	File    int64 `json:"max_file"`
	Upload  int64 `json:"max_upload"`
	Archive int64 `json:"max_archive"`
}

func rootRoutes() []*route {
	return []*route{
		op(route{method: "GET", path: "/v1", id: "root", tag: "server", access: Read, summary: "What this server is and takes"},
			func(c *call, _ *struct{}) (*rootAnswer, error) {
				o := &c.a.o
				return &rootAnswer{Version: o.Version, ReadOnly: c.a.reg.ReadOnly(), Access: c.info.Caller.Access.String(), Account: c.info.Caller.Account, Models: c.a.reg.Models(),
					Limits: limits{o.MaxBody, o.MaxLine, o.MaxBulk, o.MaxFile, o.MaxUpload, o.MaxArchive}}, nil
			}),
	}
}

// collection gets a handle, to be released.
func (c *call) collection(name string) (*registry.Collection, error) {
	return c.a.reg.Get(c.r.Context(), name)
}

// stage ends a stage that began at since.
func (c *call) stage(name string, since time.Time) { c.info.stage(name, since) }

func itoa(n int) string { return strconv.Itoa(n) }

// bytesOf is a size for people.
func bytesOf(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
