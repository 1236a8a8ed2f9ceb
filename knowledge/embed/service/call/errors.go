package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// Classes of errors, matched with errors.Is.
var (
	// ErrUnavailable is the class of failures that may pass: no connection, a
	// cut line, no answer in time, status 408, 425, 429 and 5xx.
	ErrUnavailable = errors.New("service unavailable")
	// ErrRateLimited is the part of ErrUnavailable that status 429 stands for.
	ErrRateLimited = errors.New("rate limited")
	// ErrRefused is the class of failures that repeating does not mend: a bad
	// key, a model that is not there, a redirect elsewhere, a bad certificate.
	ErrRefused = errors.New("request refused")
	// ErrReply is returned when a reply breaks the service's contract: no JSON,
	// another shape, counts, indices or values that cannot be.
	ErrReply = errors.New("bad reply")
)

// An Error tells what a service did.
type Error struct {
	// Service names it, as given to New.
	Service string
	// Class is one of the Err values of this package, or nil when the caller's
	// context ended the call.
	Class error
	// Status is the HTTP status, 0 when there was none.
	Status int
	// Tries is how many requests were sent.
	Tries int
	// RetryAfter is what the service asked for, 0 when it did not.
	RetryAfter time.Duration
	// Message says what happened, with at most 512 bytes of the service's own
	// words, without secrets.
	Message string
	// Err is the cause, if any.
	Err error

	retry bool
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("quarry: service " + e.Service)
	if e.Class != nil {
		b.WriteString(": " + e.Class.Error())
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	if e.Tries > 1 {
		fmt.Fprintf(&b, " after %d tries", e.Tries)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

// Is matches the class and what the class is part of.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return e.Class == ErrUnavailable || e.Class == ErrRateLimited
	case ErrRateLimited, ErrRefused, ErrReply:
		return e.Class == target
	case storage.ErrTooLarge:
		return e.Status == 413
	}
	return false
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Replyf makes an Error of class ErrReply.
func Replyf(service, format string, args ...any) *Error {
	return &Error{Service: service, Class: ErrReply, Message: fmt.Sprintf(format, args...)}
}

// Decode reads one JSON value that fills data, and nothing else, into v. The
// error is of class ErrReply and says what was found where.
func Decode(service string, data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return Replyf(service, "no JSON at byte %d of %d: %s (it begins %q)", syntax.Offset, len(data), trimJSON(err), clip(clean(data), 60))
	case errors.As(err, &kind):
		return Replyf(service, "%s holds a JSON %s at byte %d, want %s", field(kind.Field), kind.Value, kind.Offset, kind.Type)
	}
	return Replyf(service, "%s", clip(clean([]byte(err.Error())), shownBytes))
}

func field(name string) string {
	if name == "" {
		return "the reply"
	}
	return "field " + name
}

func trimJSON(err error) string { return strings.TrimPrefix(err.Error(), "json: ") }

// serviceError returns the message of an error object that came with a status
// of success, or "".
func serviceError(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return ""
	}
	return clip(clean(raw), shownBytes)
}

// Unanswered is the error of a reply without the field it must have. errorField
// is the reply's "error" field, which some services send with status 200.
func Unanswered(service, want string, errorField json.RawMessage) *Error {
	if m := serviceError(errorField); m != "" {
		return Replyf(service, "no %q, but an error: %s", want, m)
	}
	return Replyf(service, "no %q in it", want)
}

// shownBytes bounds what a message repeats of a service's words.
const shownBytes = 512

// clean makes foreign text fit for one line of a message: white space and
// control characters become single spaces, bad UTF-8 is replaced.
func clean(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\ufffd")
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.C, r)
	}), " ")
}

// clip cuts s to at most n bytes at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
