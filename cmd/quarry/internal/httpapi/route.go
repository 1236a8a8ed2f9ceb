package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
)

// An Access is what a caller must be allowed to do.
type Access uint8

// Accesses include those before them.
const (
	Public Access = iota // anybody
	Read
	Write
	Admin
)

// String returns "public", "read", "write" or "admin".
func (a Access) String() string { return [...]string{"public", "read", "write", "admin"}[a] }

// ParseAccess is the inverse of String for the accesses of keys.
func ParseAccess(s string) (Access, error) {
	for a := Read; a <= Admin; a++ {
		if a.String() == s {
			return a, nil
		}
	}
	return Public, fmt.Errorf("access %q: want read, write or admin", s)
}

// A Route is a path with what is behind it.
type Route struct {
	Method, Pattern string
	Access          Access
	// Stream tells that the request or the answer may take any time, as long
	// as it flows.
	Stream  bool
	Handler http.Handler
	// Refuse, where it is not nil, answers for what a request failed before the
	// handler, where the answers have a form of their own.
	Refuse func(http.ResponseWriter, *http.Request, *Problem)
}

// A route is a row of the table.
type route struct {
	method, path string
	id           string // of the operation
	tag          string
	summary      string
	access       Access
	stream       bool
	status       int    // of success, default 200
	takes        string // media types of the body, where it is not JSON
	gives        string // media type of the answer, where it is not JSON
	foreign      *foreign

	in, out reflect.Type
	run     func(c *call) (any, error)

	params *shape.Params
	body   *shape.Shape // nil: no JSON body
	bodyAt int          // field of in
	answer *shape.Shape
}

// foreign is a route whose requests and answers are of somebody else's making.
// The types only describe them.
type foreign struct {
	in, out, failure *shape.Shape
	handler          http.Handler
	refuse           func(http.ResponseWriter, *http.Request, *Problem)
}

// none is the answer of routes that write theirs themselves.
type none struct{}

// op completes a row with its types: In has parameters by path and query tags
// (shape.Params), and a body in a field with the tag body; Out is the answer.
func op[In, Out any](rt route, f func(c *call, in *In) (*Out, error)) *route {
	rt.in, rt.out = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	r := &rt
	r.run = func(c *call) (any, error) {
		in := new(In)
		if err := c.decode(r, in); err != nil {
			return nil, err
		}
		out, err := f(c, in)
		if err != nil || out == nil {
			return nil, err
		}
		return out, nil
	}
	return r
}

// compile looks at the types of a row.
func (r *route) compile() error {
	var err error
	if r.params, err = shape.ParamsOf(r.in); err != nil {
		return err
	}
	for i := range r.in.NumField() {
		if f := r.in.Field(i); f.Tag.Get("body") != "" {
			r.bodyAt = i
			if r.body, err = shape.Of(f.Type); err != nil {
				return err
			}
		}
	}
	if r.out != reflect.TypeFor[none]() {
		r.answer, err = shape.Of(r.out)
	}
	return err
}

// A call is one request on its way.
type call struct {
	a    *API
	w    http.ResponseWriter
	r    *http.Request
	info *Info
}

func (a *API) handler(rt *route) http.Handler {
	if rt.foreign != nil {
		return rt.foreign.handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{a: a, w: w, r: r, info: InfoOf(r.Context())}
		answer, err := rt.run(c)
		switch {
		case err != nil:
			c.fail(err)
		case answer != nil:
			if err := c.give(rt, answer); err != nil {
				c.fail(err)
			}
		}
	})
}

// decode reads parameters and body.
func (c *call) decode(rt *route, in any) error {
	if err := rt.params.Decode(c.r.PathValue, c.r.URL.RawQuery, in); err != nil {
		return err
	}
	if rt.body == nil {
		return nil
	}
	if err := c.wantMedia("application/json"); err != nil {
		return err
	}
	start := time.Now()
	text, err := c.text(c.a.o.MaxBody)
	if err != nil {
		return err
	}
	start = c.info.stage("read", start)
	body := reflect.ValueOf(in).Elem().Field(rt.bodyAt).Addr().Interface()
	if err := rt.body.Decode(text, body); err != nil {
		return err
	}
	c.info.stage("decode", start)
	return nil
}

// wantMedia refuses a body that does not say it is of one of the media types.
// A form that a foreign page sends cannot say so.
func (c *call) wantMedia(types ...string) error {
	given := c.r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(given)
	if err == nil {
		for _, t := range types {
			if media == t {
				return nil
			}
		}
	}
	return &Problem{Status: http.StatusUnsupportedMediaType, Code: CodeMedia,
		Detail: fmt.Sprintf("the Content-Type is %.80q, want %s", given, strings.Join(types, " or "))}
}

// limit bounds the body, and refuses at once one that says it is larger.
func (c *call) limit(maxBytes int64) (io.Reader, error) {
	if c.r.ContentLength > maxBytes {
		if c.r.ContentLength > abandon {
			c.w.Header().Set("Connection", "close")
			_ = c.r.Body.Close() // net/http then lets the client read the answer before the connection goes
		}
		return nil, &http.MaxBytesError{Limit: maxBytes}
	}
	w := c.w // net/http's own, which closes the connection of a body that is too large
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return http.MaxBytesReader(w, c.r.Body, maxBytes), nil
		}
		w = u.Unwrap()
	}
}

// abandon is the size from which net/http does not read what is left of a body.
const abandon = 256 << 10

// text reads the body.
func (c *call) text(maxBytes int64) (string, error) {
	in, err := c.limit(maxBytes)
	if err != nil {
		return "", err
	}
	buf := getBuffer()
	defer putBuffer(buf)
	if _, err := buf.ReadFrom(in); err != nil {
		return "", bodyError(err)
	}
	return buf.String(), nil
}

// bodyError classes what reading a body can end in.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	var p *Problem
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &p), errors.Is(err, ErrStopping):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{Status: http.StatusBadRequest, Code: CodeInvalid, Detail: "the body is cut short"}
	}
	return &Problem{Status: http.StatusBadRequest, Code: CodeInvalid, Detail: "the body cannot be read: " + err.Error(), cause: err}
}

// An appender writes itself as JSON, faster than encoding/json does.
type appender interface {
	appendJSON(b []byte) ([]byte, error)
}

// give writes an answer: an object, with the time it took as its last member.
func (c *call) give(rt *route, answer any) error {
	start := time.Now()
	buf := getBuffer()
	defer putBuffer(buf)
	var b []byte
	if a, ok := answer.(appender); ok {
		var err error
		if b, err = a.appendJSON(buf.AvailableBuffer()); err != nil {
			return err
		}
	} else {
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(answer); err != nil {
			return err
		}
		b = bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	}
	if len(b) < 2 || b[len(b)-1] != '}' {
		return fmt.Errorf("answer %T is no JSON object", answer)
	}
	c.info.stage("encode", start)
	b = b[:len(b)-1]
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(c.info.took(b), "}\n"...)
	h := c.w.Header()
	h["Content-Type"] = jsonType()
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	h["Server-Timing"] = []string{string(c.info.timing(nil))}
	c.w.WriteHeader(rt.status)
	_, _ = c.w.Write(b) // a client that went away
	keep(buf, b)
	return nil
}

func jsonType() []string { return []string{"application/json"} }

// Buffers that grew beyond this are not kept.
const maxPooled = 1 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}

// keep lets a buffer have the memory that its available part grew into.
func keep(buf *bytes.Buffer, b []byte) {
	if cap(b) > buf.Cap() {
		*buf = *bytes.NewBuffer(b[:0])
	}
}
