package mcp

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

// Data is a data directory as the tools use it.
type Data interface {
	// Use gives the registry for one call; done gives it back.
	Use() (r *registry.Registry, done func(), err error)
	// Close closes what Data itself has opened.
	Close() error
}

// Fixed is a registry that somebody else opened and will close.
func Fixed(r *registry.Registry) Data { return fixed{r} }

type fixed struct{ r *registry.Registry }

func (f fixed) Use() (*registry.Registry, func(), error) { return f.r, func() {}, nil }
func (f fixed) Close() error                             { return nil }

// Ages for Reopening.
const (
	// Fresh is for a directory that others may be writing to.
	Fresh = 5 * time.Second
	// Forever is for one that nobody else can write to.
	Forever = time.Duration(math.MaxInt64)
)

// closeWait bounds how long Close waits for calls that are out.
const closeWait = 10 * time.Second

// Reopening opens a directory by open, now, and again when a call comes and what
// is open is older than age. When that fails, calls go on with what is open.
func Reopening(open func() (*registry.Registry, error), age time.Duration) (Data, error) {
	d := &reopening{open: open, age: age}
	var err error
	d.now, err = d.lease()
	return d, err
}

type reopening struct {
	open func() (*registry.Registry, error)
	age  time.Duration

	mu     sync.Mutex
	now    *lease
	errs   error // of closing what was replaced
	closed bool
}

// A lease is an open registry and the calls it is out to. refs is under the
// mutex of reopening.
type lease struct {
	r      *registry.Registry
	opened time.Time
	refs   int
	old    bool
}

func (d *reopening) lease() (*lease, error) {
	r, err := d.open()
	if err != nil {
		return nil, err
	}
	return &lease{r: r, opened: time.Now()}, nil
}

// Use gives the registry, opened anew when it is old.
func (d *reopening) Use() (*registry.Registry, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, errors.New("the server is stopping")
	}
	if time.Since(d.now.opened) > d.age {
		// Opening reads no index, only names: the lock is held for microseconds.
		if next, err := d.lease(); err == nil {
			d.now.old = true
			d.drop(d.now)
			d.now = next
		}
	}
	l := d.now
	l.refs++
	return l.r, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		l.refs--
		d.drop(l)
	}, nil
}

// drop closes a lease that was replaced when nobody has it. d.mu is held.
func (d *reopening) drop(l *lease) {
	if !l.old || l.refs > 0 {
		return
	}
	d.errs = errors.Join(d.errs, closeRegistry(l.r))
}

// Close closes the registry.
func (d *reopening) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return errors.Join(d.errs, closeRegistry(d.now.r))
}

func closeRegistry(r *registry.Registry) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return r.Close(ctx)
}
