package serve

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

// A Config says what is served, where and to whom. The zero value of each field
// but Data, or Open, is its default.
type Config struct {
	Data     string           // data directory
	Registry registry.Options // Logger is Log
	// Open is a data directory that is open already, served instead of Data. Run
	// closes it; when New fails, it stays the caller's.
	Open *registry.Registry
	API  httpapi.Options // Stopping is the server's

	Listen          string // HOST:PORT, default 127.0.0.1:7700
	TLSCert, TLSKey string // files, PEM; read anew when they change
	Insecure        bool   // beyond loopback without TLS
	Keys            string // file; default keys.json in Data. Named here, a key is always needed
	AllowHost       []string
	AllowOrigin     []string

	// Page serves people, at / and below /page/; nil: there is none.
	Page http.Handler
	// MCP serves the tools of package mcp at /mcp, to every key. With MCPWrite
	// those that write are there for keys with the access write.
	MCP, MCPWrite bool
	// Mounts are other handlers.
	Mounts []httpapi.Route

	Log         *slog.Logger // nil logs nothing
	LogRequests bool         // a line for every request
	// Ready is told the address once the server listens.
	Ready func(address string)

	MaxConcurrent  int           // requests at once; 256
	MaxStreams     int           // streaming ones beside them; 32
	MaxConns       int           // connections; 4096
	HeaderTimeout  time.Duration // 10 s
	RequestTimeout time.Duration // of a request that does not stream; 60 s
	RestTimeout    time.Duration // without a byte read or written; 30 s
	MinFlow        int64         // bytes of a body within RestTimeout; 1 KiB
	StopTimeout    time.Duration // from the wish to stop to the end; 10 s
}

// DefaultListen is where a server listens unless told otherwise.
const DefaultListen = "127.0.0.1:7700"

func (c *Config) defaults() {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.HeaderTimeout, 10 * time.Second}, {&c.RequestTimeout, time.Minute}, {&c.RestTimeout, 30 * time.Second}, {&c.StopTimeout, 10 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	for _, d := range []struct {
		v   *int
		def int
	}{{&c.MaxConcurrent, 256}, {&c.MaxStreams, 32}, {&c.MaxConns, 4096}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.MinFlow == 0 {
		c.MinFlow = 1 << 10
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// A Server is a data directory with an API before it.
type Server struct {
	c       Config
	log     *slog.Logger
	reg     *registry.Registry
	gate    *gate
	auth    *authority
	metrics *metrics
	tls     *tls.Config
	mux     *http.ServeMux
	slots   chan struct{}
	streams chan struct{}

	ready    atomic.Bool
	stopping context.Context // done when the server is to stop
	stop     context.CancelFunc
}

// New opens the data directory and makes a server of it, which Run serves and
// closes.
func New(c Config) (*Server, error) {
	c.defaults()
	if c.Open != nil {
		c.Data = c.Open.Dir()
	}
	s := &Server{c: c, log: c.Log, slots: make(chan struct{}, c.MaxConcurrent), streams: make(chan struct{}, c.MaxStreams)}
	s.stopping, s.stop = context.WithCancel(context.Background())
	c.Registry.Logger = c.Log
	var err error
	if s.gate, err = newGate(c.Listen, c.AllowHost, c.AllowOrigin); err != nil {
		return nil, err
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together")
	}
	if c.TLSCert != "" {
		certificates, err := newCertificates(c.TLSCert, c.TLSKey, c.Log)
		if err != nil {
			return nil, err
		}
		s.tls = &tls.Config{GetCertificate: certificates.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	keys := c.Keys
	if keys == "" {
		keys = filepath.Join(c.Data, keysName)
	}
	if s.auth, err = newAuthority(keys, c.Keys != "", c.Log); err != nil {
		return nil, err
	}
	if err := checkListen(c.Listen, s.auth.needed() && len(s.auth.current().byID) > 0, s.tls != nil, c.Insecure); err != nil {
		return nil, err
	}
	s.auth.always = s.auth.needed() // revoking the last key opens nothing
	if s.reg = c.Open; s.reg == nil {
		if s.reg, err = registry.Open(c.Data, &c.Registry); err != nil {
			return nil, err
		}
	}
	if err := s.routes(); err != nil {
		if c.Open == nil {
			err = errors.Join(err, s.reg.Close(context.Background()))
		}
		return nil, err
	}
	return s, nil
}

// Registry is the open data directory.
func (s *Server) Registry() *registry.Registry { return s.reg }

func (s *Server) routes() error {
	s.c.API.Stopping = s.stopping.Done()
	api, err := httpapi.New(s.reg, s.c.API)
	if err != nil {
		return err
	}
	s.metrics = newMetrics(s.reg, s.c.API.Version)
	s.mux = http.NewServeMux()
	routes := append(api.Routes(), s.c.Mounts...)
	if s.c.MCP {
		mount, err := s.mcp()
		if err != nil {
			return err
		}
		routes = append(routes, mount...)
	}
	routes = append(routes,
		httpapi.Route{Method: "GET", Pattern: "/healthz", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plainText(w, http.StatusOK, "ok") })},
		httpapi.Route{Method: "GET", Pattern: "/readyz", Handler: http.HandlerFunc(s.readyz)},
		httpapi.Route{Method: "GET", Pattern: "/metrics", Access: httpapi.Read, Handler: s.metrics.handler()})
	if s.c.Page != nil {
		for _, pattern := range []string{"/{$}", "/page/"} {
			routes = append(routes, httpapi.Route{Method: "GET", Pattern: pattern, Handler: s.c.Page})
		}
	}
	for i := range routes {
		rt := &routes[i]
		s.mux.Handle(strings.TrimSpace(rt.Method+" "+rt.Pattern), s.guard(rt))
	}
	s.mux.HandleFunc("/", s.noRoute)
	return nil
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that went away
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	switch {
	case s.stopping.Err() != nil:
		plainText(w, http.StatusServiceUnavailable, "stopping")
	case !s.ready.Load():
		plainText(w, http.StatusServiceUnavailable, "starting")
	default:
		plainText(w, http.StatusOK, "ready")
	}
}

// noRoute answers what no route is for.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if r.Method != m {
			r2 := *r
			r2.Method = m
			if _, pattern := s.mux.Handler(&r2); pattern != "/" && pattern != "" {
				allowed = append(allowed, m)
			}
		}
	}
	p := &httpapi.Problem{Status: http.StatusNotFound, Code: httpapi.CodeNotFound, Detail: "there is nothing at this path: /openapi.json tells what there is"}
	if allowed != nil {
		p = &httpapi.Problem{Status: http.StatusMethodNotAllowed, Code: httpapi.CodeMethod, Detail: "this path takes " + strings.Join(allowed, ", ")}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
	}
	s.refuse(w, r, p)
}

// refuse answers a request that reaches no handler.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p *httpapi.Problem) {
	s.metrics.rejected.WithLabelValues(p.Code).Inc()
	p.Write(w, httpapi.InfoOf(r.Context()))
}

// refuseFor answers in the form of a route, where it has one of its own.
func (s *Server) refuseFor(rt *httpapi.Route, w http.ResponseWriter, r *http.Request, p *httpapi.Problem) {
	if rt.Refuse == nil {
		s.refuse(w, r, p)
		return
	}
	s.metrics.rejected.WithLabelValues(p.Code).Inc()
	rt.Refuse(w, r, p)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info := httpapi.NewInfo(requestID(r))
	rec := &recorder{ResponseWriter: w, rc: http.NewResponseController(w), timeout: s.c.RestTimeout}
	h := w.Header()
	h["X-Request-Id"] = []string{info.ID}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	r = s.flow(rec, r.WithContext(httpapi.WithInfo(r.Context(), info)))
	s.metrics.inFlight.Inc()
	defer s.finish(rec, r, info)
	if p := cleanPath(r); p != nil {
		s.refuse(rec, r, p)
		return
	}
	if p := s.gate.host(r); p != nil {
		s.refuse(rec, r, p)
		return
	}
	p, done := s.gate.origin(rec, r)
	switch {
	case p != nil:
		s.refuse(rec, r, p)
	case !done:
		s.mux.ServeHTTP(rec, r)
	}
}

// requestID is the client's id of a request, or one made up.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if len(id) > 0 && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}) {
		return id
	}
	return rand.Text()[:16]
}

// cleanPath refuses paths of the API with a segment that is empty, "." or "..":
// it stands where a name is wanted, and others would make another path of it.
func cleanPath(r *http.Request) *httpapi.Problem {
	path := r.URL.EscapedPath()
	if !strings.HasPrefix(path, "/v1/") {
		return nil
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return &httpapi.Problem{Status: http.StatusBadRequest, Code: httpapi.CodeInvalid,
				Detail: fmt.Sprintf("the path has the segment %q: a name is wanted, of the form %s", segment, registry.NamePattern)}
		}
	}
	return nil
}

// finish counts and logs a request, and answers for a handler that failed.
func (s *Server) finish(w *recorder, r *http.Request, info *httpapi.Info) {
	// A handler that wants the connection gone has told its client a length that
	// it did not keep to: net/http closes it.
	if fault := recover(); fault != nil && fault != http.ErrAbortHandler {
		s.log.Error("fault in a handler", "request_id", info.ID, "method", r.Method, "route", w.route, "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
		if w.status == 0 {
			p := &httpapi.Problem{Status: http.StatusInternalServerError, Code: httpapi.CodeInternal, Detail: "a fault of the server: its log has more under this request_id"}
			p.Write(w, info)
		}
	}
	if w.body != nil {
		w.body.leave()
	}
	took := time.Since(info.Start)
	s.metrics.inFlight.Dec()
	s.metrics.done(w, r, info, took.Seconds())
	if w.status >= 500 && w.status != http.StatusServiceUnavailable || info.Err != nil && w.status < 300 {
		s.log.Error("request failed", "request_id", info.ID, "method", r.Method, "route", w.route, "status", w.status, "code", info.Code, "error", fmt.Sprint(info.Err))
	} else if s.c.LogRequests {
		s.log.Info("request", "request_id", info.ID, "method", r.Method, "path", r.URL.Path, "status", w.status, "bytes", w.bytes, "ms", float64(took.Microseconds())/1000, "remote", r.RemoteAddr)
	}
}

// guard puts before a route what all have in common.
func (s *Server) guard(rt *httpapi.Route) http.Handler {
	slots := s.slots
	if rt.Stream {
		slots = s.streams
	}
	free := rt.Access == httpapi.Public
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := w.(*recorder)
		rec.route = rt.Pattern
		info := httpapi.InfoOf(r.Context())
		var p *httpapi.Problem
		if info.Caller, p = s.auth.allow(r, rt.Access); p != nil {
			if p.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="quarry"`)
			}
			s.refuseFor(rt, w, r, p)
			return
		}
		if !free { // health is told under any load
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			default:
				s.refuseFor(rt, w, r, &httpapi.Problem{Status: http.StatusServiceUnavailable, Code: httpapi.CodeOverload, After: 1,
					Detail: fmt.Sprintf("%d requests are at work already", cap(slots))})
				return
			}
		}
		if rt.Stream {
			defer s.stream(rec.body)()
		} else {
			ctx, cancel := context.WithTimeout(r.Context(), s.c.RequestTimeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		rt.Handler.ServeHTTP(w, r)
	})
}
