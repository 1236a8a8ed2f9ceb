package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// Errors, matched with errors.Is, beside those of package storage.
var (
	// ErrExists is returned when a name is taken.
	ErrExists = errors.New("quarry: already exists")
	// ErrBusy is returned when handles on a collection stayed out for as long
	// as its deletion or its replacement could wait. Nothing has happened.
	ErrBusy = errors.New("quarry: in use")
	// ErrModel is returned when a model is needed that cannot be opened now.
	ErrModel = errors.New("quarry: model not available")
)

// MaxCollections bounds the collections of a data directory.
const MaxCollections = 10_000

// Options open a data directory; nil means all defaults.
type Options struct {
	// ReadOnly changes nothing, and opens beside a writer.
	ReadOnly bool
	// Verify is index.Options.Verify, for every collection.
	Verify bool
	// Logger gets background failures of indexes; nil logs nothing.
	Logger *slog.Logger
	// Sync says when what is written is durable; default storage.SyncAlways.
	Sync storage.SyncPolicy
	// Models are those that a caller may name, by name. models.E5 and models.BGE
	// always are two of them.
	Models map[string]models.Source
	// Reranker is what the reranker "cross-encoder" stands for: "late" (the
	// default: token vectors of e5), "none", or a service: cohere:MODEL,
	// jina:MODEL, voyage:MODEL, tei:URL.
	Reranker string
	// Chat answers the agents of workflows; nil: there is none.
	Chat chat.Model
	// Cluster is where new collections and the indexes of new knowledge bases are
	// made, and where collections that are not in the directory are looked for;
	// nil: there is none. Records of models stay in the directory.
	Cluster *cluster.Options
}

// A Registry is an open data directory.
type Registry struct {
	dir  string
	o    Options
	log  *slog.Logger
	lock io.Closer

	mu     sync.Mutex
	closed bool
	open   map[string]*entry
	busy   map[string]chan struct{} // names being made, removed or replaced; closed at the end
	idle   chan struct{}            // closed when no handle is out, while somebody waits for that

	models   shared[models.Source, *models.Model]
	store    shared[struct{}, *knowledge.Store]
	reranker shared[struct{}, rerank.Reranker]
	spaces   shared[struct{}, *Spaces]

	closers struct {
		sync.Mutex
		list []func() error // of models, caches, services, in the order of opening
	}
}

// Open opens a data directory, and makes it unless Options.ReadOnly. One
// Registry at a time may write: another is storage.ErrLocked. What a crash left
// half done is put right.
func Open(data string, o *Options) (*Registry, error) {
	r := &Registry{open: make(map[string]*entry), busy: make(map[string]chan struct{}), log: slog.New(slog.DiscardHandler)}
	if o != nil {
		r.o = *o
	}
	r.o.Models = maps.Clone(r.o.Models)
	if r.o.Models == nil {
		r.o.Models = make(map[string]models.Source, 1)
	}
	for _, name := range []string{models.E5, models.BGE} {
		r.o.Models[name] = models.Source{Model: name}
	}
	if r.o.Logger != nil {
		r.log = r.o.Logger
	}
	if err := checkReranker(r.o.Reranker); err != nil {
		return nil, err
	}
	if err := r.openDir(data); err != nil {
		return nil, fmt.Errorf("open %s: %w", data, err)
	}
	return r, nil
}

func (r *Registry) openDir(data string) error {
	fs := storage.OS{}
	if !r.o.ReadOnly {
		for _, part := range []string{collectionsName, snapshotsName, tmpName, trashName} {
			if err := fs.MkdirAll(filepath.Join(data, part)); err != nil {
				return err
			}
		}
	}
	dir, err := filepath.Abs(data)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: no directory", storage.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return errors.Join(storage.Invalidf("it is no directory"), err)
	}
	r.dir = dir
	if r.o.ReadOnly {
		return nil
	}
	if r.lock, err = fs.Lock(filepath.Join(dir, storage.LockName), true); err != nil {
		return err
	}
	if err := r.recover(); err != nil {
		return errors.Join(err, r.lock.Close())
	}
	return nil
}

// Dir is the data directory, absolute and without links.
func (r *Registry) Dir() string { return r.dir }

// ReadOnly tells whether nothing can be changed.
func (r *Registry) ReadOnly() bool { return r.o.ReadOnly }

// Models are the names of models that Create and CreateBase take, sorted.
func (r *Registry) Models() []string { return slices.Sorted(maps.Keys(r.o.Models)) }

func (r *Registry) writable() error {
	if r.o.ReadOnly {
		return fmt.Errorf("%w: the data directory was opened so", storage.ErrReadOnly)
	}
	return nil
}

// Close gives out no more handles, waits for those that are out until ctx is
// done, and closes everything. What was acknowledged is on disk before Close is
// called; what is still out when ctx is done is left to the end of the process,
// and named in the error. A second Close is storage.ErrClosed.
func (r *Registry) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return storage.ErrClosed
	}
	r.closed = true
	idle := make(chan struct{})
	r.idle = idle
	r.checkIdle()
	r.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
		return fmt.Errorf("%w: handles are out: %w", ErrBusy, ctx.Err())
	}
	done := make(chan error, 1)
	go func() { done <- r.closeAll() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("closing %s: %w", r.dir, ctx.Err())
	}
}

// checkIdle tells a waiting Close that nobody has a handle. r.mu is held.
func (r *Registry) checkIdle() {
	if r.idle == nil {
		return
	}
	for _, e := range r.open {
		if e.refs > 0 {
			return
		}
	}
	if len(r.busy) == 0 {
		close(r.idle)
		r.idle = nil
	}
}

func (r *Registry) closeAll() error {
	r.mu.Lock()
	entries := slices.Collect(maps.Values(r.open))
	r.mu.Unlock()
	var wg sync.WaitGroup
	errs := make(chan error, len(entries)+1)
	for _, e := range entries {
		wg.Go(func() { errs <- e.close() })
	}
	if store, ok := r.store.get(struct{}{}); ok {
		wg.Go(func() { errs <- store.Close() })
	}
	wg.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	r.closers.Lock()
	defer r.closers.Unlock()
	for _, f := range slices.Backward(r.closers.list) {
		err = errors.Join(err, f())
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	return err
}

// onClose has f called by Close, before what was opened earlier is closed.
func (r *Registry) onClose(f func() error) {
	r.closers.Lock()
	defer r.closers.Unlock()
	r.closers.list = append(r.closers.list, f)
}
