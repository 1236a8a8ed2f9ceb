package call

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// A Client calls one service.
type Client struct {
	service string
	base    *url.URL
	key     secret
	agent   string
	o       Options
	http    *http.Client
	own     *http.Transport // nil when the caller gave a transport
	slots   chan struct{}

	requests, retries atomic.Int64

	mu    sync.Mutex
	rng   *rand.Rand
	until time.Time // no request before: the service limits its rate
}

// Stats counts what a Client did.
type Stats struct {
	Requests int64 // sent, repeated ones included
	Retries  int64 // of these, repeated ones
}

// New returns a client of the service that errors call by the given name.
// o.BaseURL must be set. The key is read once, here.
func New(service string, o Options) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	base, err := parseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	key, err := o.loadKey()
	if err != nil {
		return nil, err
	}
	if key.value() != "" && base.Scheme == "http" && !o.PlainKey && !loopback(base.Hostname()) {
		return nil, storage.Invalidf("the API key would go to %s in clear text: use https, or allow it with PlainKey", base.Host)
	}
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c := &Client{
		service: service, base: base, key: key, o: o,
		agent: "quarry/" + version(),
		slots: make(chan struct{}, o.Concurrent),
		rng:   rand.New(rand.NewPCG(seed, 0)),
	}
	rt := o.Transport
	if rt == nil {
		c.own = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: o.Concurrent,
			IdleConnTimeout:     90 * time.Second,
		}
		rt = c.own
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: c.checkRedirect}
	return c, nil
}

// Host returns the host and port calls go to, for messages.
func (c *Client) Host() string { return c.base.Host }

// Stats returns the counts so far.
func (c *Client) Stats() Stats { return Stats{c.requests.Load(), c.retries.Load()} }

// Close closes idle connections. Calls that are open go on.
func (c *Client) Close() error {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// version is this module's, as the program was built with it.
func version() string {
	const path = "github.com/quarrysearch/quarry"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "dev"
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

var errRedirect = errors.New("redirect refused")

// checkRedirect follows 307 and 308 on the same host: there the method, the
// body and the key stay what and where they were.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	status := 0
	if req.Response != nil {
		status = req.Response.StatusCode
	}
	switch {
	case req.URL.Host != c.base.Host || req.URL.Scheme != c.base.Scheme:
		return fmt.Errorf("%w: status %d points to another host, %q", errRedirect, status, clip(clean([]byte(req.URL.Host)), 100))
	case status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect:
		return fmt.Errorf("%w: status %d would turn the POST into a GET", errRedirect, status)
	case len(via) > 3:
		return fmt.Errorf("%w: more than 3 in a row", errRedirect)
	}
	return nil
}

// Post sends body, a JSON text, to the base URL with path added, and returns
// the reply's body, of at most limit bytes. Failures that may pass are repeated
// as Options say.
func (c *Client) Post(ctx context.Context, path string, body []byte, limit int64) ([]byte, error) {
	for try := 1; ; try++ {
		d := c.held()
		if t, ok := ctx.Deadline(); ok && d > 0 && t.Before(time.Now().Add(d)) {
			return nil, &Error{Service: c.service, Class: ErrRateLimited, Tries: try - 1,
				Message: fmt.Sprintf("it allows no request for another %v, beyond the deadline", d.Round(time.Millisecond))}
		}
		if err := c.wait(ctx, d); err != nil {
			return nil, c.ended(err, try-1, nil)
		}
		reply, e := c.try(ctx, path, body, limit)
		if e == nil {
			return reply, nil
		}
		e.Tries = try
		if !e.retry || try >= c.o.Tries || ctx.Err() != nil {
			return nil, e
		}
		d = c.backoff(try, e.RetryAfter)
		if d > c.o.MaxWait {
			e.Message += fmt.Sprintf(" (it asks to wait %v, more than the %v allowed)", d.Round(time.Millisecond), c.o.MaxWait)
			return nil, e
		}
		if t, ok := ctx.Deadline(); ok && t.Before(time.Now().Add(d)) {
			e.Message += fmt.Sprintf(" (the next try is due in %v, after the deadline)", d.Round(time.Millisecond))
			return nil, e
		}
		if e.Class == ErrRateLimited && e.RetryAfter > 0 {
			c.hold(e.RetryAfter)
		}
		if err := c.wait(ctx, d); err != nil {
			return nil, c.ended(err, try, e)
		}
		c.retries.Add(1)
	}
}

// wait sleeps; it also notices a context that is over when there is nothing to
// wait for.
func (c *Client) wait(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	return c.o.Sleep(ctx, d)
}

// ended is the error of a call that the caller's context ended.
func (c *Client) ended(err error, tries int, last *Error) *Error {
	e := &Error{Service: c.service, Tries: tries, Err: err, Message: err.Error()}
	if last != nil {
		e.Status = last.Status
		e.Message += ", while waiting to repeat: " + last.Message
	}
	return e
}

// hold keeps all calls from sending for d.
func (c *Client) hold(d time.Duration) {
	t := time.Now().Add(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.until) {
		c.until = t
	}
}

// held is how long to wait before sending.
func (c *Client) held() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.until)
}

// backoff is the wait after a failed try: Backoff·2^(try−1), of which a random
// half is taken off, so that clients that failed together do not come back
// together; or what the service asked for and up to a tenth more.
func (c *Client) backoff(try int, asked time.Duration) time.Duration {
	c.mu.Lock()
	r := c.rng.Float64()
	c.mu.Unlock()
	d := c.o.Backoff
	for range try - 1 {
		d = min(2*d, c.o.MaxWait)
	}
	d = min(d, c.o.MaxWait)
	d -= time.Duration(r * float64(d) / 2)
	if asked > d {
		d = min(asked+time.Duration(r*float64(asked)/10), max(asked, c.o.MaxWait))
	}
	return d
}

// try sends one request.
func (c *Client) try(ctx context.Context, path string, body []byte, limit int64) ([]byte, *Error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, c.ended(context.Cause(ctx), 0, nil)
	}
	tctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	u := *c.base
	u.Path += path
	req, err := http.NewRequestWithContext(tctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Service: c.service, Class: ErrRefused, Message: "the request cannot be made"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.agent)
	if c.key.value() != "" {
		req.Header.Set("Authorization", "Bearer "+c.key.value())
	}
	c.requests.Add(1)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, tctx, err, "no answer")
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, c.status(resp)
	}
	reply, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, c.failed(ctx, tctx, err, fmt.Sprintf("the line was cut after %d bytes of the reply", len(reply)))
	}
	if int64(len(reply)) > limit {
		return nil, Replyf(c.service, "it has more than %d bytes", limit)
	}
	return reply, nil
}

// failed classes an error of the transport.
func (c *Client) failed(ctx, tctx context.Context, err error, what string) *Error {
	if ctx.Err() != nil {
		return c.ended(context.Cause(ctx), 0, nil)
	}
	e := &Error{Service: c.service, Class: ErrUnavailable, retry: true}
	if tctx.Err() != nil {
		e.Message = fmt.Sprintf("%s within %v", what, c.o.Timeout)
		return e
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // without the URL and the method
	}
	e.Err = err
	e.Message = clip(c.key.redact(what+": "+clean([]byte(err.Error()))), shownBytes)
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.Is(err, errRedirect) || errors.As(err, &cert) || errors.As(err, &record) {
		e.Class, e.retry = ErrRefused, false
	}
	return e
}

// errorBodyBytes bounds what is read of an error's body.
const errorBodyBytes = 64 << 10

// status classes a reply that is no success.
func (c *Client) status(resp *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBodyBytes))
	if n := len(c.key.value()); len(body) == errorBodyBytes && n > 0 {
		body = body[:len(body)-min(n, len(body))] // a key cut in two would not be recognized
	}
	e := &Error{
		Service: c.service, Class: ErrRefused, Status: resp.StatusCode,
		Message:    clip(clean([]byte(c.key.redact(string(body)))), shownBytes),
		RetryAfter: retryAfter(resp.Header, time.Now()),
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests:
		e.Class, e.retry = ErrRateLimited, true
	case code == http.StatusNotImplemented, code == http.StatusHTTPVersionNotSupported:
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500:
		e.Class, e.retry = ErrUnavailable, true
	}
	return e
}

// retryAfter reads Retry-After, in seconds or as a date, or the Retry-After-Ms
// that some services send beside it; 0 when there is none that makes sense.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const longest = 365 * 24 * time.Hour
	if s := h.Get("Retry-After-Ms"); s != "" {
		if ms, err := strconv.ParseFloat(s, 64); err == nil && ms > 0 {
			return time.Duration(min(ms*float64(time.Millisecond), float64(longest)))
		}
	}
	s := h.Get("Retry-After")
	if sec, err := strconv.ParseFloat(s, 64); err == nil {
		if sec > 0 { // false for NaN
			return time.Duration(min(sec*float64(time.Second), float64(longest)))
		}
		return 0
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, min(t.Sub(now), longest))
	}
	return 0
}
