package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/storage"
)

// Bounds of the talk with a node.
const (
	maxAnswer = 256 << 20   // bytes of one answer
	maxText   = 512         // bytes of a node's own words in an error
	knownFor  = time.Second // for less than a node takes to start
	minDown   = 250 * time.Millisecond
	maxDown   = 10 * time.Second
	minPause  = 25 * time.Millisecond
	maxPause  = time.Second

	// majorityFor is how long writes are content with a majority after a
	// replica did not answer.
	majorityFor = 15 * time.Second
	// patience is how often a write is sent to all replicas while the answer is
	// that one is not ready: some 0.5 s.
	patience = 5
)

// A client sends requests to the coordinators of one cluster.
type client struct {
	o     Options
	http  *http.Client
	nodes []*node
	turn  atomic.Uint32
	// majority is the time, in ns since 1970, until which writes are content
	// with a majority of the replicas from the start.
	majority atomic.Int64
}

// A node is a coordinator and what is remembered of it.
type node struct {
	url string

	mu       sync.Mutex
	failures int                  // in a row
	until    time.Time            // passed by until then
	knows    map[string]time.Time // when it was seen to know a class
}

func newClient(o Options) *client {
	rt := o.Transport
	if rt == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy, t.TLSClientConfig, t.DisableCompression = nil, o.TLS, true
		t.MaxIdleConnsPerHost, t.MaxIdleConns = 64, 0
		rt = t
	}
	c := &client{o: o, http: &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for _, u := range o.URLs {
		c.nodes = append(c.nodes, &node{url: u})
	}
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// bound gives a context without a deadline that of the options.
func (c *client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.o.Timeout)
}

// A request may be sent any number of times: what it does ends as once.
type request struct {
	method, path string
	query        string // behind the level
	body         []byte
	write        bool
	// replicated says that the answer waits for replicas: a read for a
	// majority, a write for all of them and, where that fails, for a majority.
	replicated bool
	extra      time.Duration // beside Options.Attempt
	// check reads the answer; a *failure is retried as one of the node.
	check func(data []byte) error
	// only is the node to ask, about what it knows itself; nil is any.
	only *node
}

// A failure is an answer, or none, after which another attempt may succeed.
type failure struct {
	err  error
	node bool // the node is to be passed by for a while
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func transientf(format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...)}
}

// call sends a request until a node has answered it or ctx ends, and returns the
// answer. The other nodes are asked at once, then with growing pauses. A write to
// documents that got no answer in its time is not sent again.
func (c *client) call(ctx context.Context, r request) ([]byte, error) {
	var last error
	all := r.write && r.replicated && time.Now().UnixNano() > c.majority.Load()
	for try := 0; ; try++ {
		n := r.only
		if n == nil {
			n = c.pick()
		}
		data, err := c.once(ctx, n, r, all)
		if err == nil && r.check != nil {
			err = r.check(data)
		} else if r.only != nil && errors.Is(err, storage.ErrNotFound) {
			err = &failure{err: err} // it has not heard of it yet
		} else if class, ok := strings.CutPrefix(r.path, objectsPath); ok && errors.Is(err, storage.ErrNotFound) {
			class, _, _ = strings.Cut(class, "/")
			err = c.believe(ctx, n, class, err)
		}
		var f *failure
		if !errors.As(err, &f) {
			n.answered()
			return data, err
		}
		if r.only != nil && f.node && try >= 2 {
			return nil, err // the others do not wait for it
		}
		dial := new(net.OpError)
		reached := !errors.As(err, &dial) || dial.Op != "dial"
		if r.write && r.replicated && reached && errors.Is(err, context.DeadlineExceeded) {
			// It may be alive in its node, which waits for a leader, and would
			// then undo what was written after another attempt.
			c.degrade()
			n.failed()
			return nil, unavailable(context.DeadlineExceeded, fmt.Errorf("the write may yet be carried out: %w", err))
		}
		switch {
		case all && reached && (f.node || try >= patience):
			all = false // whether it was the node that was asked is not known
			c.degrade()
		case f.node && ctx.Err() == nil && !(all && reached):
			n.failed()
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if err := c.pause(ctx, try, r.only != nil); err != nil {
			return nil, unavailable(err, last)
		}
	}
}

// believe returns a node's word that a document is not there, or a *failure where it
// does not know the collection: one that comes back has no documents until it has
// heard of their collection.
func (c *client) believe(ctx context.Context, n *node, class string, notFound error) error {
	now := time.Now()
	n.mu.Lock()
	knows := n.knows[class]
	n.mu.Unlock()
	if now.Sub(knows) < knownFor {
		return notFound
	}
	look := request{method: http.MethodGet, path: "/v1/schema/" + class, only: n}
	_, err := c.once(ctx, n, look, false)
	if err == nil { // it may have heard of it just now
		n.mu.Lock()
		if n.knows == nil {
			n.knows = make(map[string]time.Time)
		}
		n.knows[class] = now
		n.mu.Unlock()
		return transientf("%s: its word that a document is missing is asked for again", n.url)
	}
	if errors.Is(err, storage.ErrNotFound) {
		look.only = nil // the leader's word
		if _, err = c.once(ctx, n, look, false); errors.Is(err, storage.ErrNotFound) {
			return notFound // the collection is gone
		}
	}
	return &failure{fmt.Errorf("%s does not know the collection: %w", n.url, notFound), true}
}

// unavailable is the error of a call that ctx ended.
func unavailable(ctxErr, last error) error {
	if errors.Is(ctxErr, context.Canceled) {
		return ctxErr
	}
	return fmt.Errorf("%w: %w: %w", collection.ErrUnavailable, ctxErr, last)
}

// pause waits before the next attempt: not at all while there are nodes that
// were not asked.
func (c *client) pause(ctx context.Context, try int, only bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rounds := try - len(c.nodes) + 1
	if only {
		rounds = try
	}
	if rounds < 0 {
		return nil
	}
	d := min(minPause<<min(rounds, 10), maxPause)
	d = d/2 + rand.N(d/2)
	if at, ok := ctx.Deadline(); ok && time.Until(at) < d {
		return context.DeadlineExceeded // no time is left for another attempt
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pick chooses a node: in turn among those in health, else the one whose time
// is nearest.
func (c *client) pick() *node {
	start, now := int(c.turn.Add(1)), time.Now()
	var best *node
	var at time.Time
	for i := range c.nodes {
		n := c.nodes[(start+i)%len(c.nodes)]
		n.mu.Lock()
		until := n.until
		n.mu.Unlock()
		if until.Before(now) {
			return n
		}
		if best == nil || until.Before(at) {
			best, at = n, until
		}
	}
	return best
}

// degrade makes writes content with a majority of the replicas for a while.
func (c *client) degrade() { c.majority.Store(time.Now().Add(majorityFor).UnixNano()) }

func (n *node) answered() {
	n.mu.Lock()
	n.failures, n.until = 0, time.Time{}
	n.mu.Unlock()
}

func (n *node) failed() {
	n.mu.Lock()
	n.until = time.Now().Add(min(minDown<<min(n.failures, 10), maxDown))
	n.failures++
	n.mu.Unlock()
}

// once sends a request to a node; all tells that it waits for all replicas.
func (c *client) once(ctx context.Context, n *node, r request, all bool) ([]byte, error) {
	// A node that just lost its leader hangs: what is small is not waited for.
	attempt, path := c.o.Attempt+time.Duration(len(r.body))*time.Microsecond+r.extra, r.path
	switch {
	case all:
		path += "?consistency_level=ALL"
	case r.replicated:
		path += "?consistency_level=QUORUM"
	}
	if r.query != "" {
		path += "&" + r.query
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, n.url+path, bytes.NewReader(r.body))
	if err != nil {
		return nil, storage.Invalidf("request to %s: %v", n.url, err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.only != nil {
		req.Header.Set("consistency", "false") // of the schema: not the leader's
	}
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &failure{fmt.Errorf("%s: %w", n.url, err), true}
	}
	defer resp.Body.Close()
	data, err := readAnswer(resp)
	if err != nil {
		return nil, &failure{fmt.Errorf("%s: %w", n.url, err), true}
	}
	return data, checkStatus(n.url, resp.StatusCode, data)
}

var errLong = errors.New("answer is too long")

// readAnswer reads a body of at most maxAnswer bytes.
func readAnswer(resp *http.Response) ([]byte, error) {
	if resp.ContentLength > maxAnswer {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errLong, resp.ContentLength, maxAnswer)
	}
	var b bytes.Buffer
	if resp.ContentLength > 0 {
		b.Grow(int(resp.ContentLength) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1)); err != nil {
		return nil, err
	}
	if b.Len() > maxAnswer {
		return nil, fmt.Errorf("%w: more than %d bytes", errLong, maxAnswer)
	}
	return b.Bytes(), nil
}

// checkStatus makes an error of a status.
func checkStatus(url string, status int, data []byte) error {
	if status >= 200 && status < 300 {
		return nil
	}
	text := words(data)
	switch status {
	case http.StatusNotFound:
		if text == "" {
			return storage.ErrNotFound
		}
		return fmt.Errorf("%w: %s", storage.ErrNotFound, text)
	case http.StatusUnauthorized, http.StatusForbidden:
		return storage.Invalidf("%s refuses the API key (status %d): %s", url, status, text)
	case http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %s: %s", storage.ErrTooLarge, url, text)
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed:
		if isPassing(text) {
			return transientf("%s: status %d: %s", url, status, text)
		}
		return storage.Invalidf("%s: status %d: %s", url, status, text)
	}
	if status >= 300 && status < 400 {
		return storage.Invalidf("%s: status %d: it points elsewhere", url, status)
	}
	return &failure{fmt.Errorf("%s: status %d: %s", url, status, text), status >= 500 && !isPassing(text)}
}

// isPassing tells from a node's words that the state it complains of passes by
// itself: a leader is being elected, a replica is down, or a schema has not
// reached the node.
func isPassing(text string) bool {
	text = strings.ToLower(text)
	for _, s := range []string{"leader", "raft", "replica", "resolve node", "connection refused", "connection reset", "deadline exceeded",
		"timeout", "could not find class", "not found in schema", "could not find bucket", "no such prop", "consistency level", "broadcast",
		"no graphql provider", "shutdown", "shut down", "not ready", "eof", "no route to host", "schema version", "unavailable", "read-only", "memory"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// words returns what a node said in an error: the messages of its JSON, or the
// start of the text.
func words(data []byte) string {
	var e struct {
		Error []struct {
			Message string `json:"message"`
		} `json:"error"`
		Message string `json:"message"`
	}
	text := ""
	if len(data) <= 1<<20 && json.Unmarshal(data, &e) == nil {
		text = e.Message
		for _, m := range e.Error {
			text += m.Message + " "
		}
	}
	if text == "" {
		text = string(data[:min(len(data), maxText)])
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
