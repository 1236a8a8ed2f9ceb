package httpapi

import (
	"context"
	"strconv"
	"time"
)

// An Info tells about one request, to those before and behind its handler. It is
// used by one goroutine at a time.
type Info struct {
	ID    string
	Start time.Time
	// Caller is whom the request comes from.
	Caller Caller
	// Stages are what the time was spent on, in order.
	Stages []Stage
	// Err is what the request failed for, and Code the code that was answered.
	Err  error
	Code string

	room [8]Stage
}

// A Caller is whom a request comes from. The zero Caller may do nothing that is
// not public.
type Caller struct {
	Key    string // name of the key, empty where none is needed
	Access Access
	// Account is the account of the catalogue that the key is bound to, if any:
	// the caller acts as that account.
	Account string
}

// A Stage is a part of the work on a request.
type Stage struct {
	Name string
	Took time.Duration
}

type infoKey struct{}

// NewInfo starts the Info of a request.
func NewInfo(id string) *Info {
	i := &Info{ID: id, Start: time.Now()}
	i.Stages = i.room[:0]
	return i
}

// WithInfo puts an Info into a context.
func WithInfo(ctx context.Context, i *Info) context.Context {
	return context.WithValue(ctx, infoKey{}, i)
}

// InfoOf is the Info of a context, a new one if there is none.
func InfoOf(ctx context.Context) *Info {
	if i, ok := ctx.Value(infoKey{}).(*Info); ok {
		return i
	}
	return NewInfo("")
}

// stage adds what a stage took since it began, and begins the next.
func (i *Info) stage(name string, since time.Time) time.Time {
	now := time.Now()
	i.Stages = append(i.Stages, Stage{name, now.Sub(since)})
	return now
}

// timing is the Server-Timing header.
func (i *Info) timing(b []byte) []byte {
	for _, s := range i.Stages {
		b = append(b, s.Name...)
		b = append(b, ";dur="...)
		b = appendMS(b, s.Took)
		b = append(b, ", "...)
	}
	b = append(b, "total;dur="...)
	return appendMS(b, time.Since(i.Start))
}

// took is the member of an answer.
func (i *Info) took(b []byte) []byte {
	b = append(b, `"took":{`...)
	for _, s := range i.Stages {
		b = append(b, '"')
		b = append(b, s.Name...)
		b = append(b, `_ms":`...)
		b = append(appendMS(b, s.Took), ',')
	}
	b = append(b, `"total_ms":`...)
	return append(appendMS(b, time.Since(i.Start)), '}')
}

// appendMS appends milliseconds with three digits.
func appendMS(b []byte, d time.Duration) []byte {
	us := max(d.Microseconds(), 0)
	b = strconv.AppendInt(b, us/1000, 10)
	frac := us % 1000
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
}
