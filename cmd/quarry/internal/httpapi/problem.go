package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

// A Code classes a failure, for programs. Codes are stable.
type Code = string

// The codes.
const (
	CodeInvalid      Code = "invalid_request"        // 400: "field" tells where
	CodeFilter       Code = "invalid_filter"         // 400
	CodeSchema       Code = "schema_conflict"        // 400: a document and the schema
	CodeUnauthorized Code = "unauthorized"           // 401: no key, or an unknown one
	CodeForbidden    Code = "forbidden"              // 403: the key may not do this
	CodeHost         Code = "foreign_host"           // 403: the Host is not one of ours
	CodeOrigin       Code = "foreign_origin"         // 403: a page of somebody else asks
	CodeReadOnly     Code = "read_only"              // 403: opened so, or after a failed sync
	CodeNotFound     Code = "not_found"              // 404
	CodeMethod       Code = "method_not_allowed"     // 405
	CodeSlow         Code = "body_too_slow"          // 408: the body came too slowly
	CodeExists       Code = "already_exists"         // 409
	CodeBusy         Code = "busy"                   // 409: others are at work on it
	CodeModel        Code = "model_mismatch"         // 409: vectors of another model
	CodeTooLarge     Code = "too_large"              // 413: "limit" tells, where it is the body's
	CodeMedia        Code = "unsupported_media_type" // 415
	CodeOverload     Code = "overloaded"             // 503: too many at once
	CodeStopping     Code = "stopping"               // 503: the server is going down
	CodeNoModel      Code = "model_unavailable"      // 503: a model or a service; later, maybe
	CodeCluster      Code = "cluster_unavailable"    // 503: too few nodes answered; it may have been carried out
	CodeRefused      Code = "service_refused"        // 502: a service; repeating does not help
	CodeUnset        Code = "not_configured"         // 501: this server has no such service
	CodeTimeout      Code = "timeout"                // 504: it may have been carried out
	CodeCanceled     Code = "canceled"               // 499: the client went away
	CodeFull         Code = "storage_full"           // 507
	CodeCorrupt      Code = "corrupt"                // 500: damaged files
	CodeIO           Code = "io_error"               // 500
	CodeInternal     Code = "internal"               // 500: a fault of this program
)

// ErrStopping is the cause with which a server ends the contexts of requests
// when it stops.
var ErrStopping = errors.New("quarry: the server is stopping")

const statusCanceled = 499 // as others have it: there is nobody to read it

// A Problem is a failed request, as RFC 9457 has it.
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty" doc:"what is wrong, for people"`
	Code      Code   `json:"code" doc:"the class of the failure, stable"`
	RequestID string `json:"request_id,omitempty"`
	Field     string `json:"field,omitempty" doc:"what in the request is wrong"`
	Limit     int64  `json:"limit,omitempty" doc:"the limit that was exceeded, in bytes"`
	// Durable tells what an import that failed has stored all the same.
	Durable *bulkAnswer `json:"durable,omitempty" doc:"what an import had stored for good when it failed"`
	// After is the Retry-After header, in seconds; 0 sends none.
	After int `json:"-"`

	cause error
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Unwrap returns what the problem was made of.
func (p *Problem) Unwrap() error { return p.cause }

// classes are tried in order: what ended a request goes before what it caused,
// and the narrower class before the wider.
var classes = [...]struct {
	err    error
	status int
	code   Code
	after  int
}{
	{ErrStopping, http.StatusServiceUnavailable, CodeStopping, 1},
	{collection.ErrUnavailable, http.StatusServiceUnavailable, CodeCluster, 1},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, CodeTimeout, 0},
	{context.Canceled, statusCanceled, CodeCanceled, 0},
	{registry.ErrBusy, http.StatusConflict, CodeBusy, 1},
	{registry.ErrExists, http.StatusConflict, CodeExists, 0},
	{knowledge.ErrExists, http.StatusConflict, CodeExists, 0},
	{knowledge.ErrModel, http.StatusConflict, CodeModel, 0},
	{models.ErrOtherModel, http.StatusConflict, CodeModel, 0},
	{registry.ErrModel, http.StatusServiceUnavailable, CodeNoModel, 5},
	{syscall.ENOSPC, http.StatusInsufficientStorage, CodeFull, 0},
	{storage.ErrClosed, http.StatusServiceUnavailable, CodeStopping, 1},
	{storage.ErrReadOnly, http.StatusForbidden, CodeReadOnly, 0},
	{storage.ErrLocked, http.StatusConflict, CodeBusy, 1},
	{storage.ErrTooLarge, http.StatusRequestEntityTooLarge, CodeTooLarge, 0},
	{storage.ErrSchema, http.StatusBadRequest, CodeSchema, 0},
	{storage.ErrCorrupt, http.StatusInternalServerError, CodeCorrupt, 0},
	{storage.ErrVersion, http.StatusInternalServerError, CodeCorrupt, 0},
	{storage.ErrNotFound, http.StatusNotFound, CodeNotFound, 0},
	{storage.ErrInvalid, http.StatusBadRequest, CodeInvalid, 0},
	{storage.ErrIO, http.StatusInternalServerError, CodeIO, 0},
}

// services are the classes of what a model or a service failed for.
var services = map[workflow.Code]struct {
	status int
	code   Code
}{
	workflow.CodeNotConfigured: {http.StatusNotImplemented, CodeUnset},
	workflow.CodeUnavailable:   {http.StatusServiceUnavailable, CodeNoModel},
	workflow.CodeRefused:       {http.StatusBadGateway, CodeRefused},
	workflow.CodeBadReply:      {http.StatusBadGateway, CodeRefused},
}

// problem classes an error.
func (c *call) problem(err error) *Problem {
	var p *Problem
	var tooLarge *http.MaxBytesError
	var field *shape.Error
	var syntax *filter.SyntaxError
	var refused *catalog.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLarge):
		return TooLarge(tooLarge.Limit)
	case errors.As(err, &field):
		return &Problem{Status: http.StatusBadRequest, Code: CodeInvalid, Field: field.Field, Detail: strings.TrimPrefix(field.Error(), "quarry: invalid: ")}
	case errors.As(err, &refused):
		return &Problem{Status: refusals(refused.Code), Code: string(refused.Code), Field: refused.Space, Detail: c.a.plain(err), cause: err}
	case errors.As(err, &syntax):
		return &Problem{Status: http.StatusBadRequest, Code: CodeFilter, Field: "filter", Detail: c.a.plain(err)}
	}
	if cause := context.Cause(c.r.Context()); errors.Is(cause, ErrStopping) && errors.Is(err, context.Canceled) {
		err = cause
	}
	out := &Problem{Status: http.StatusInternalServerError, Code: CodeInternal, Detail: "a fault of the server: its log has more under this request_id", cause: err}
	for _, class := range classes {
		if errors.Is(err, class.err) {
			out.Status, out.Code, out.After, out.Detail = class.status, class.code, class.after, c.a.plain(err)
			break
		}
	}
	if s, ok := services[workflow.CodeOf(err)]; ok && out.Code != CodeTimeout && out.Code != CodeCanceled && out.Code != CodeStopping {
		out.Status, out.Code, out.Detail = s.status, s.code, c.a.plain(err)
	}
	var config *workflow.ConfigError
	switch {
	case errors.As(err, &config):
		out.Field = config.Path
	case out.Code == CodeInvalid:
		if out.Field = fieldOf(out.Detail); out.Field == "filter" {
			out.Code = CodeFilter
		}
	}
	return out
}

// fieldOf is the part of a request that a message of the engine begins with, as
// its own do: "filter: field "x": unknown field". A deletion names the field of
// its filter at once.
func fieldOf(detail string) string {
	word := detail
	if i := strings.IndexAny(detail, ": "); i >= 0 {
		word = detail[:i]
	}
	switch word {
	case "field":
		return "filter"
	case "k", "filter", "facets", "fields", "highlight", "vector", "text", "after", "offset", "depth", "group":
		return word
	}
	if strings.HasPrefix(detail, "regular expression ") {
		return "text"
	}
	if strings.Contains(detail, ": filter: ") { // of a knowledge base
		return "filter"
	}
	return ""
}

// catalogCodes are those of the catalogue, which are codes of problems too, and
// their statuses.
var catalogCodes = map[catalog.Code]int{
	catalog.ErrUnavailable: http.StatusNotFound, catalog.ErrInactive: http.StatusConflict, catalog.ErrUnpublished: http.StatusConflict,
	catalog.ErrNotBound: http.StatusForbidden, catalog.ErrPermission: http.StatusForbidden, catalog.ErrWorkspace: http.StatusForbidden,
	catalog.ErrStale: http.StatusConflict, catalog.ErrFrozen: http.StatusConflict, catalog.ErrUnresolved: http.StatusConflict,
	catalog.ErrThreshold: http.StatusBadRequest, catalog.ErrExists: http.StatusConflict,
}

func refusals(c catalog.Code) int {
	if status := catalogCodes[c]; status != 0 {
		return status
	}
	return http.StatusConflict
}

// TooLarge is the problem of a body beyond its limit.
func TooLarge(limit int64) *Problem {
	return &Problem{Status: http.StatusRequestEntityTooLarge, Code: CodeTooLarge, Limit: limit, Detail: "the body is larger than " + bytesOf(limit) + ", the most that is taken here"}
}

// plain is an error's text on one line, without our name, and with paths as they
// are in the data directory.
func (a *API) plain(err error) string {
	s := strings.ReplaceAll(err.Error(), "\n", "; ")
	s = strings.ReplaceAll(s, ": quarry: ", ": ")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "quarry: "), "invalid: ")
	return strings.ReplaceAll(s, a.dir, "")
}

func (c *call) fail(err error) {
	p := c.problem(err)
	c.info.Err = err
	p.Write(c.w, c.info)
}

// fill fills in what the code and the request tell.
func (p *Problem) fill(info *Info) *Problem {
	p.Type, p.RequestID = "urn:quarry:problem:"+p.Code, info.ID
	if p.Title = http.StatusText(p.Status); p.Title == "" {
		p.Title = "Client Closed Request"
	}
	return p
}

// Write answers with a problem. Title and request id are filled in.
func (p *Problem) Write(w http.ResponseWriter, info *Info) {
	info.Code = p.Code
	p.fill(info)
	b, err := json.Marshal(p)
	if err != nil { // there is nothing in it that cannot be encoded
		b = []byte(`{"status":500,"code":"internal"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Server-Timing", string(info.timing(nil)))
	if p.After > 0 {
		h.Set("Retry-After", itoa(p.After))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n')) // a client that went away
}

// Codes lists the codes, sorted.
func Codes() []Code {
	codes := []Code{CodeInvalid, CodeFilter, CodeSchema, CodeUnauthorized, CodeForbidden, CodeHost, CodeOrigin, CodeReadOnly, CodeNotFound, CodeMethod,
		CodeSlow, CodeExists, CodeBusy, CodeModel, CodeTooLarge, CodeMedia, CodeOverload, CodeStopping, CodeNoModel, CodeRefused, CodeUnset, CodeTimeout,
		CodeCanceled, CodeFull, CodeCorrupt, CodeIO, CodeInternal}
	for c := range catalogCodes {
		codes = append(codes, string(c))
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}
