package cache

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/quarrysearch/quarry/storage"
)

// Options configure a Cache. The zero value of a field stands for its default.
type Options struct {
	// MaxBytes bounds the files together. At least 1 MiB; default 512 MiB,
	// which is 330,000 vectors of 384 components.
	MaxBytes int64
	// Group is how many missing texts go to the embedder in one call; what a
	// call has answered is kept even if a later one fails. Default 1024.
	Group int
	// FS is the file system. Default storage.OS.
	FS storage.FS
}

const (
	minBytes     = 1 << 20
	defaultBytes = 512 << 20
	defaultGroup = 1024
	logsOfBudget = 8  // a log is this part of MaxBytes
	manyLogs     = 16 // more are merged: each Open that writes begins a new one
)

// A Cache is an open directory of embeddings.
type Cache struct {
	fs    storage.FS
	dir   string
	o     Options
	limit int64 // bytes of a log

	mu      sync.Mutex
	lock    io.Closer // nil when another Cache writes here
	writes  bool      // we hold the lock and nothing has gone wrong
	logs    []*log    // oldest first; the last one is being written if active
	active  bool
	next    uint64
	entries map[key]entry
	stats   Stats
	notes   []string
	buf     []byte
	closed  bool
}

// A log is an open file.
type log struct {
	number uint64
	name   string
	file   storage.File
	size   int64 // of what is good
}

// An entry tells where a record is.
type entry struct {
	log  *log
	off  int64
	dim  int32
	used bool // hit since it was written here
}

// Stats counts what a Cache did since Open, and what it holds.
type Stats struct {
	Hits    int64 // texts answered from the cache, repeats in one call included
	Misses  int64 // texts given to the embedder
	Evicted int64 // entries dropped to keep the bound
	Damaged int64 // entries or logs found damaged
	Entries int   // now
	Bytes   int64 // of all logs, now
	Logs    int   // now
}

// Open opens or makes the cache in dir. Damage is no error, see Notes. The
// errors are those of wrong options (storage.ErrInvalid) and of a directory
// that cannot be made or listed. A directory that another Cache writes to is
// read as it is now, and not written to.
func Open(dir string, o Options) (*Cache, error) {
	switch {
	case o.MaxBytes != 0 && o.MaxBytes < minBytes:
		return nil, storage.Invalidf("embedding cache: MaxBytes %d, want at least %d", o.MaxBytes, minBytes)
	case o.Group < 0:
		return nil, storage.Invalidf("embedding cache: Group %d", o.Group)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	if o.Group == 0 {
		o.Group = defaultGroup
	}
	if o.FS == nil {
		o.FS = storage.OS{}
	}
	c := &Cache{fs: o.FS, dir: dir, o: o, limit: o.MaxBytes / logsOfBudget, entries: make(map[key]entry)}
	if err := c.fs.MkdirAll(dir); err != nil {
		return nil, err
	}
	var err error
	c.lock, err = c.fs.Lock(filepath.Join(dir, lockName), true)
	switch {
	case err == nil:
		c.writes = true
	case errors.Is(err, storage.ErrLocked):
		c.note("another process writes to this cache: it is only read")
	default:
		c.note("no lock, so it is only read: %v", err)
	}
	if err := c.load(); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// note keeps a message for Notes.
func (c *Cache) note(format string, args ...any) {
	const kept = 32
	if len(c.notes) < kept {
		c.notes = append(c.notes, fmt.Sprintf(format, args...))
	}
}

// Notes returns what went wrong since Open: damage, refused writes. The first
// 32 are kept.
func (c *Cache) Notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notes)
}

// Stats returns the counts so far.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries, s.Bytes, s.Logs = len(c.entries), c.bytes(), len(c.logs)
	return s
}

func (c *Cache) bytes() int64 {
	n := int64(0)
	for _, l := range c.logs {
		n += l.size
	}
	return n
}

// Close makes the newest log durable and lets the lock go. Embedders over a
// closed cache still work, without it. The error is the first of those that
// only mean that something will have to be embedded again.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	var err error
	if c.active && c.writes {
		err = c.logs[len(c.logs)-1].file.Sync()
	}
	return errors.Join(err, c.release())
}

func (c *Cache) release() error {
	var errs []error
	for _, l := range c.logs {
		errs = append(errs, l.file.Close())
	}
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
	}
	c.logs, c.lock, c.writes, c.active, c.closed = nil, nil, false, false, true
	clear(c.entries)
	return errors.Join(errs...)
}

// get reads the vector of k into dst, whose length is the dimension.
func (c *Cache) get(k key, dst []float32) (truncated, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if !ok || int(e.dim) != len(dst) {
		return false, false
	}
	record, err := c.read(e)
	if got, _, good := checkRecord(record); err != nil || !good || got != k {
		c.stats.Damaged++
		c.note("%s: record at byte %d is damaged: dropped", e.log.name, e.off)
		delete(c.entries, k)
		return false, false
	}
	if !e.used {
		e.used = true
		c.entries[k] = e
	}
	return readVector(dst, record), true
}

// read reads a record into the scratch buffer.
func (c *Cache) read(e entry) ([]byte, error) {
	n := recordSize(int(e.dim))
	c.buf = slices.Grow(c.buf[:0], n)[:n]
	got, err := e.log.file.ReadAt(c.buf, e.off)
	if got == n {
		err = nil
	}
	return c.buf[:got], err
}

// count adds to the counters.
func (c *Cache) count(hits, misses int) {
	c.mu.Lock()
	c.stats.Hits += int64(hits)
	c.stats.Misses += int64(misses)
	c.mu.Unlock()
}

// put keeps the vectors of keys, one row of dim each.
func (c *Cache) put(keys []key, rows []float32, dim int, truncated func(i int) bool) {
	size := recordSize(dim)
	if dim > maxDim || int64(size) > c.limit-headerSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var pending []byte
	var added []key
	for i, k := range keys {
		if _, ok := c.entries[k]; ok || slices.Contains(added, k) {
			continue
		}
		if len(pending)+size > int(min(c.limit-headerSize, 1<<20)) {
			c.append(pending, added, dim)
			pending, added = pending[:0], added[:0]
		}
		pending = appendRecord(pending, k, rows[i*dim:(i+1)*dim], truncated(i))
		added = append(added, k)
	}
	c.append(pending, added, dim)
	c.shrink()
}
