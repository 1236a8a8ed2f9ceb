package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// A recorder is the ResponseWriter of a request: it notes what was answered, and
// gives each write its time, so that a client that does not read is cut off and a
// long stream is not.
type recorder struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	set     time.Time // when the write deadline was last set

	body   *body  // nil: the request has none
	route  string // pattern, empty for none
	status int    // 0: nothing was answered yet
	bytes  int64
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		w.leaveBody()
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.extend()
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// leaveBody gets ready for what net/http does before it writes a header: it reads
// what is left of the body, so that clients that send first and read later are
// not stuck.
func (w *recorder) leaveBody() {
	switch {
	case w.body == nil || w.body.done:
	case w.body.slow: // there is nothing to be had
		w.Header().Set("Connection", "close")
	default:
		w.body.leave()
		w.set = time.Now().Add(w.body.leftover()) // the time to write begins behind it
		_ = w.rc.SetWriteDeadline(w.set.Add(w.timeout))
	}
}

// Flush serves handlers that stream events.
func (w *recorder) Flush() {
	w.extend()
	_ = w.rc.Flush() // a client that went away is found out by the next write
}

// extend sets the write deadline, at most once a second: it costs a timer.
func (w *recorder) extend() {
	if now := time.Now(); now.Sub(w.set) > time.Second {
		w.set = now
		_ = w.rc.SetWriteDeadline(now.Add(w.timeout)) // a connection that has none has no clients either
	}
}

// A body is the body of a request: it must keep flowing. A single deadline for
// all of it would cut long imports, and one for each read would let a byte a
// second hold a connection for ever.
type body struct {
	io.ReadCloser
	rc   *http.ResponseController
	rest time.Duration // longest time without a byte
	min  int64         // bytes within rest
	// end is when all must be there; the zero Time: it may stream.
	end time.Time
	// stopping ends a body that may stream.
	stopping <-chan struct{}

	set    time.Time // when the read deadline was last set
	window time.Time // when the present window ends
	bytes  int64     // in it
	done   bool
	slow   bool
}

// tooSlow is the problem of a body that does not flow.
func (b *body) tooSlow() error {
	b.slow = true
	return &httpapi.Problem{Status: http.StatusRequestTimeout, Code: httpapi.CodeSlow, Detail: "the body came too slowly"}
}

func (b *body) Read(p []byte) (int, error) {
	now := time.Now()
	select {
	case <-b.stopping:
		return 0, httpapi.ErrStopping
	default:
	}
	switch {
	case b.window.IsZero():
		b.window = now.Add(b.rest)
	case !b.end.IsZero() && now.After(b.end):
		return 0, b.tooSlow()
	case now.After(b.window):
		if b.bytes < b.min {
			return 0, b.tooSlow()
		}
		b.window, b.bytes = now.Add(b.rest), 0
	}
	if now.Sub(b.set) > time.Second {
		b.set = now
		deadline := now.Add(b.rest)
		if !b.end.IsZero() && b.end.Before(deadline) {
			deadline = b.end
		}
		_ = b.rc.SetReadDeadline(deadline) // as in recorder.extend
	}
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		select {
		case <-b.stopping:
			return n, httpapi.ErrStopping
		default:
			return n, b.tooSlow()
		}
	}
	if err == io.EOF && !b.done {
		// The connection is watched on while the handler works: a deadline that
		// passed then would look like a client that went away.
		b.done = true
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// interrupt ends a read in progress.
func (b *body) interrupt() { _ = b.rc.SetReadDeadline(time.Unix(1, 0)) }

// leftover is how long the server may at most go on reading what a handler left
// of a body, to keep the connection.
const leftover = 5 * time.Second

func (b *body) leftover() time.Duration { return min(leftover, b.rest) }

// leave bounds what net/http itself reads of the body: before it writes the
// header of an answer, and behind the handler.
func (b *body) leave() {
	if !b.done {
		_ = b.rc.SetReadDeadline(time.Now().Add(b.leftover()))
	}
}

// flow puts the rules of flow on the body of a request.
func (s *Server) flow(w *recorder, r *http.Request) *http.Request {
	if r.ContentLength == 0 {
		return r
	}
	w.body = &body{ReadCloser: r.Body, rc: w.rc, rest: s.c.RestTimeout, min: s.c.MinFlow, end: time.Now().Add(s.c.RequestTimeout)}
	r2 := *r
	r2.Body = w.body
	return &r2
}

// stream lets a body take any time, until the server stops.
func (s *Server) stream(b *body) (done func()) {
	if b == nil {
		return func() {}
	}
	b.end, b.stopping = time.Time{}, s.stopping.Done()
	stop := context.AfterFunc(s.stopping, b.interrupt)
	return func() { stop() }
}
