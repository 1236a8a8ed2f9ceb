package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// Sentinels, matched with errors.Is. Those of package storage, such as
// ErrNotFound, ErrInvalid and ErrCorrupt, keep their meaning here.
var (
	// ErrModel is returned when a base is used with another embedding model
	// than the one its vectors were made by. The text names both, and the
	// command that rebuilds the base.
	ErrModel = errors.New("quarry: embedding model mismatch")
	// ErrExists is returned when a base of that id is there already.
	ErrExists = errors.New("quarry: already exists")
)

// Options opens a store; nil means all defaults. Open clones it.
type Options struct {
	// Embedder makes the vectors of bases that name none. Nil: those bases are
	// searched by keyword only.
	Embedder embed.Embedder
	// Embedders are those that a base may name (BaseOptions.Embedder).
	Embedders map[string]embed.Embedder
	// ReadOnly opens beside a writer: bases are seen as they were when first
	// used, and nothing can be changed.
	ReadOnly bool
	// Threads bounds the sources parsed and the bases searched at the same
	// time; default GOMAXPROCS.
	Threads int
	// Sync says when an ingested version is durable; default storage.SyncAlways.
	Sync storage.SyncPolicy
	// KeepVersions is how many earlier versions of a document keep their
	// source bytes, so that citations of them can still be checked; default 8,
	// negative keeps none.
	KeepVersions int
	// Elsewhere keeps the indexes of the bases that are made with it, as on a
	// cluster; their catalogs and sources stay in the directory. Nil makes
	// bases whose indexes are in the directory; bases of both kinds can stand
	// side by side. It never becomes one that keeps other indexes.
	Elsewhere *Elsewhere
	// FS is the file system of the store; default storage.OS. Files to be
	// ingested are always read from the host's.
	FS storage.FS
	// Logger gets background failures of the bases' indexes; nil logs nothing.
	Logger *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Elsewhere opens and drops indexes that are in no directory of the store. Their
// names are at most 96 letters, digits, '-', '_' and '.'.
type Elsewhere struct {
	// Open opens an index, and makes it where there is none; a schema of more
	// fields adds them.
	Open func(ctx context.Context, name string, schema *index.Schema) (collection.Collection, error)
	// Drop removes an index; storage.ErrNotFound where there is none.
	Drop func(ctx context.Context, name string) error
}

// Ranges and defaults of Options.
const (
	defaultKeepVersions = 8
	maxKeepVersions     = 1000

	lockName  = "LOCK"
	basesName = "bases"
)

// A Store is one directory of bases. Its methods may be called from any number
// of goroutines.
type Store struct {
	dir  string
	fs   storage.FS
	o    Options // defaults filled in
	lock io.Closer

	coders     coders
	detector   *analysis.Detector
	blobNumber atomic.Uint64 // of temporary names

	life   sync.RWMutex // held for reading by every call, for writing by Close
	closed bool

	mu    sync.Mutex // bases
	bases map[string]*base
}

// Open opens the store in dir, or makes one where there is none. One handle at
// a time may write: another is storage.ErrLocked. Bases are opened when they
// are first used. What a crash left of deleted bases is removed.
func Open(dir string, o *Options) (*Store, error) {
	s := &Store{dir: dir, bases: make(map[string]*base), detector: analysis.NewDetector()}
	if err := s.options(o); err != nil {
		return nil, err
	}
	var err error
	if s.coders, err = newCoders(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		err = errors.Join(fmt.Errorf("open %s: %w", dir, err), s.coders.close())
		if s.lock != nil {
			err = errors.Join(err, s.lock.Close())
		}
		return nil, err
	}
	return s, nil
}

func (s *Store) open() error {
	if s.o.ReadOnly {
		_, err := s.fs.List(s.dir)
		return err
	}
	if err := s.fs.MkdirAll(filepath.Join(s.dir, basesName)); err != nil {
		return fmt.Errorf("not a directory: %w", err)
	}
	var err error
	if s.lock, err = s.fs.Lock(filepath.Join(s.dir, lockName), true); err != nil {
		return err
	}
	return s.sweep()
}

func (s *Store) options(o *Options) error {
	if o != nil {
		s.o = *o
	}
	if s.o.Threads == 0 {
		s.o.Threads = runtime.GOMAXPROCS(0)
	}
	if s.o.KeepVersions == 0 {
		s.o.KeepVersions = defaultKeepVersions
	}
	s.o.KeepVersions = max(s.o.KeepVersions, 0)
	if s.o.FS == nil {
		s.o.FS = storage.OS{}
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	s.fs = s.o.FS
	embedders := make(map[string]embed.Embedder, len(s.o.Embedders))
	for name, e := range s.o.Embedders {
		if name == "" || e == nil {
			return storage.Invalidf("Options.Embedders: %q has no name or no embedder", name)
		}
		embedders[name] = e
	}
	s.o.Embedders = embedders
	if s.o.Threads < 0 || s.o.KeepVersions > maxKeepVersions {
		return storage.Invalidf("Options.Threads %d, Options.KeepVersions %d: want 0 or more, and at most %d versions",
			s.o.Threads, s.o.KeepVersions, maxKeepVersions)
	}
	return nil
}

// enter starts a call; leave ends it.
func (s *Store) enter() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return storage.ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

// now is the time as the index keeps times.
func (s *Store) now() time.Time { return s.o.Now().UTC().Truncate(time.Microsecond) }

func (s *Store) writable() error {
	if s.o.ReadOnly {
		return fmt.Errorf("%w: the store was opened so", storage.ErrReadOnly)
	}
	return nil
}

// Close waits for calls in flight and closes all bases. A second Close is
// storage.ErrClosed.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	s.closed = true
	var errs []error
	for _, b := range s.bases {
		errs = append(errs, b.close())
	}
	errs = append(errs, s.coders.close())
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// Create makes an empty base. The id is 1 to 64 letters, digits, '-' and '_'
// and starts with a letter or digit; ErrExists when it is taken. Nil options
// are all defaults.
func (s *Store) Create(ctx context.Context, id string, o *BaseOptions) (BaseInfo, error) {
	if err := s.enter(); err != nil {
		return BaseInfo{}, err
	}
	defer s.leave()
	if err := errors.Join(s.writable(), ctx.Err(), checkBaseID(id)); err != nil {
		return BaseInfo{}, err
	}
	cat, err := newCatalog(id, o, s)
	if err != nil {
		return BaseInfo{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.baseDir(id)
	if _, err := s.fs.Stat(filepath.Join(dir, catalogName)); err == nil {
		return BaseInfo{}, fmt.Errorf("%w: knowledge base %q", ErrExists, id)
	}
	// What is left of a base deleted before must not come back.
	if err := errors.Join(removeTree(s.fs, dir), s.fs.MkdirAll(dir)); err != nil {
		return BaseInfo{}, err
	}
	// The index is made first: the catalog file is what makes the base exist,
	// and a reader that sees it must find the index it names.
	ix, err := (&base{s: s, id: id, dir: dir}).openIndex(ctx, cat)
	if err == nil {
		err = ix.Close()
	}
	if err == nil {
		err = cat.write(s.fs, dir)
	}
	if err != nil {
		return BaseInfo{}, err
	}
	delete(s.bases, id)
	return cat.info(), nil
}

// exclusively runs f on a base while nothing else writes to it; ErrReadOnly and
// a base that is not there are found first.
func (s *Store) exclusively(baseID string, f func(b *base) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	b, err := s.writableBase(context.Background(), baseID)
	if err != nil {
		return err
	}
	b.write.Lock()
	defer b.write.Unlock()
	return f(b)
}

// Delete removes a base and everything in it, its generations too; storage.ErrNotFound when there is
// none. It is atomic: a base is there exactly as long as its catalog file, and
// that goes first, by a rename. It waits for an ingest in flight.
func (s *Store) Delete(ctx context.Context, id string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := checkBaseID(id); err != nil {
		return err
	}
	b, err := s.writableBase(ctx, id)
	if err != nil {
		return err
	}
	b.write.Lock()
	defer b.write.Unlock()
	b.links.Lock()
	defer b.links.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bases[id] != b {
		return noBase(id)
	}
	if err := b.unname(); err != nil {
		return fmt.Errorf("delete knowledge base %q: %w", id, err)
	}
	var errs []error
	for ref, handle := range s.bases { // its generations, too
		if handle.id == id {
			delete(s.bases, ref)
			errs = append(errs, handle.close())
		}
	}
	// Searches in flight hold snapshots, which outlive the files' names.
	if b.cat.Collection != "" {
		errs = append(errs, b.dropIndex(ctx, &b.cat))
	}
	return errors.Join(append(errs, removeTree(s.fs, b.dir))...)
}

// Bases lists the bases by id. It reads one small file a base.
func (s *Store) Bases(ctx context.Context) ([]BaseInfo, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	names, err := s.fs.List(filepath.Join(s.dir, basesName))
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	var out []BaseInfo
	for _, name := range names {
		id, ok := strings.CutSuffix(name, "/")
		if !ok || checkBaseID(id) != nil {
			continue
		}
		cat, err := readCatalog(s.fs, s.baseDir(id), id, 0)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, cat.info())
	}
	slices.SortFunc(out, func(a, b BaseInfo) int { return strings.Compare(a.ID, b.ID) })
	return out, ctx.Err()
}

// Base describes one base, its documents and chunks counted.
func (s *Store) Base(ctx context.Context, id string) (BaseInfo, error) {
	if err := s.enter(); err != nil {
		return BaseInfo{}, err
	}
	defer s.leave()
	v, err := s.view(ctx, id)
	if err != nil {
		return BaseInfo{}, err
	}
	defer v.close()
	info := v.cat.info()
	if info.Documents, err = v.snap.Count(ctx, ofKind(kindDocument)); err != nil {
		return BaseInfo{}, err
	}
	info.Chunks, err = v.snap.Count(ctx, ofKind(kindChunk))
	return info, err
}

// base returns the handle of a base, or of a generation.
func (s *Store) base(ref string) (*base, error) {
	id, n, err := parseReference(ref)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.bases[ref]; b != nil {
		return b, nil
	}
	b := &base{s: s, id: id, generation: n, dir: s.baseDir(id)}
	if n > 0 { // there as long as its base is
		_, err = s.fs.Stat(b.path(catalogName))
		b.dir = b.path(generationDir(n))
	}
	var cat *catalog
	if err == nil {
		cat, err = readCatalog(s.fs, b.dir, id, n)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil, noBase(ref)
	}
	if err != nil {
		return nil, err
	}
	b.cat = *cat
	s.bases[ref] = b
	return b, nil
}

func noBase(id string) error { return fmt.Errorf("%w: knowledge base %q", storage.ErrNotFound, id) }

// baseDir is the directory of a base whose id has passed checkBaseID, so that
// it lies in the store.
func (s *Store) baseDir(id string) string { return filepath.Join(s.dir, basesName, id) }

// sweep removes the bases whose deletion a crash has interrupted.
func (s *Store) sweep() error {
	dir := filepath.Join(s.dir, basesName)
	names, err := s.fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ok := strings.CutSuffix(name, "/")
		if !ok || checkBaseID(id) != nil {
			continue
		}
		has := func(file string) bool { _, err := s.fs.Stat(filepath.Join(dir, id, file)); return err == nil }
		if has(trashName) && !has(catalogName) {
			if err := removeTree(s.fs, filepath.Join(dir, id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeTree removes a directory and what is in it; none is no error. The trash
// mark goes last, so that an interrupted removal is taken up again.
func removeTree(fs storage.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	}
	if i := slices.Index(names, trashName); i >= 0 {
		names = append(slices.Delete(names, i, i+1), trashName)
	}
	for _, name := range names {
		if sub, ok := strings.CutSuffix(name, "/"); ok {
			err = removeTree(fs, filepath.Join(dir, sub))
		} else {
			err = fs.Remove(filepath.Join(dir, name))
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	if err := fs.Remove(dir); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

func checkBaseID(id string) error {
	const pattern = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
	ok := len(id) >= 1 && len(id) <= 64 && id[0] != '-' && id[0] != '_'
	for i := range len(id) {
		c := id[i]
		ok = ok && (c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	if !ok {
		if len(id) > 80 {
			id = id[:80]
		}
		return storage.Invalidf("knowledge base id %q: want %s", id, pattern)
	}
	return nil
}
