package serve

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// A gate lets pages and names through that are ours.
type gate struct {
	hosts   []string // allowed besides the loopback ones, without port, in small letters
	anyHost bool
	origins []string // allowed besides the Host's own, scheme://host[:port]
}

// newGate makes a gate for a server on a listen address.
func newGate(listen string, hosts, origins []string) (*gate, error) {
	g := &gate{}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		g.hosts = append(g.hosts, strings.ToLower(host))
	}
	for _, h := range hosts {
		if h == "*" {
			g.anyHost = true
			continue
		}
		name := hostName(h)
		if name == "" || strings.ContainsAny(name, "/@*") {
			return nil, fmt.Errorf("allowed host %q: want a name or an address", h)
		}
		g.hosts = append(g.hosts, name)
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.String() != u.Scheme+"://"+u.Host || strings.Contains(o, "*") {
			return nil, fmt.Errorf("allowed origin %q: want scheme://host or scheme://host:port", o)
		}
		g.origins = append(g.origins, strings.ToLower(o))
	}
	return g, nil
}

// hostName is a host without its port, in small letters.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(host, "]"), "["), "."))
}

// host tells whether a request is for a name of ours.
func (g *gate) host(r *http.Request) *httpapi.Problem {
	name := hostName(r.Host)
	if g.anyHost || isLoopback(name) || slices.Contains(g.hosts, name) || isOwnAddress(r, name) {
		return nil
	}
	return &httpapi.Problem{Status: http.StatusForbidden, Code: httpapi.CodeHost,
		Detail: fmt.Sprintf("the Host %.100q is none of this server's: --allow-host adds one", r.Host)}
}

// isLoopback tells whether a name or address is of this machine alone.
func isLoopback(name string) bool {
	if name == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}

// isOwnAddress tells whether name is the address that the connection came to:
// addresses, unlike names, cannot be pointed elsewhere.
func isOwnAddress(r *http.Request, name string) bool {
	a, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && own.Addr().Unmap().WithZone("") == a.Unmap().WithZone("")
}

// origin tells whether the page that sent a request is ours, and adds the
// headers that let an allowed one read the answer. done means that it is
// answered.
func (g *gate) origin(w http.ResponseWriter, r *http.Request) (p *httpapi.Problem, done bool) {
	given, sent := r.Header["Origin"]
	if !sent {
		return nil, false
	}
	origin := strings.ToLower(strings.Join(given, " "))
	allowed := slices.Contains(g.origins, origin)
	if !allowed && !sameOrigin(origin, r) {
		return &httpapi.Problem{Status: http.StatusForbidden, Code: httpapi.CodeOrigin,
			Detail: fmt.Sprintf("the Origin %.100q may not ask here: --allow-origin adds one", strings.Join(given, " "))}, false
	}
	if !allowed {
		return nil, false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", given[0])
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Server-Timing, X-Request-Id, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return nil, false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-API-Key, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return nil, true
}

// sameOrigin tells whether a page came from the host that it asks. The scheme is
// not compared: TLS may end before this server.
func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return strings.TrimSuffix(u.Host, port) == strings.TrimSuffix(strings.ToLower(r.Host), port)
}

// checkListen tells whether a server may listen on an address: beyond loopback
// it needs keys, and TLS or the wish to do without.
func checkListen(address string, hasKeys, hasTLS, insecure bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--listen %s: want HOST:PORT: %w", address, err)
	}
	if isLoopback(strings.ToLower(host)) {
		return nil
	}
	var missing []string
	if !hasKeys {
		missing = append(missing, "a key (quarry keys create)")
	}
	if !hasTLS && !insecure {
		missing = append(missing, "--tls-cert and --tls-key, or --insecure for a network that nobody else is on")
	}
	if missing == nil {
		return nil
	}
	return errors.New("--listen " + address + " can be reached by others: it needs " + strings.Join(missing, ", and "))
}
