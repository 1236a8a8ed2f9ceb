package catalog

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/quarrysearch/quarry/storage"
)

// Options opens a catalogue; nil means all defaults.
type Options struct {
	// ReadOnly opens for reading: beside other readers, not beside a writer.
	ReadOnly bool
	// Timeout is how long to wait for the file's lock; default 1 s, negative
	// does not wait.
	Timeout time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

const defaultTimeout = time.Second

// A Catalog is one open file. Its methods may be called from any number of
// goroutines.
type Catalog struct {
	path     string
	readOnly bool
	now      func() time.Time
	audit    uint64 // entries kept: MaxAudit

	// disk is held by everything that touches the file: a write from its first
	// check until memory has the result, so that whoever holds disk finds file
	// and memory equal. It is taken before mem.
	disk   sync.Mutex
	db     *bbolt.DB
	file   *os.File
	failed error // writes are refused: what the last one left is not known
	broken error // the file is not touched again: bbolt panicked, its locks may be held

	// mem guards the tables. It is never held during input or output.
	mem    sync.RWMutex
	t      *tables
	closed bool

	epoch atomic.Uint64
}

// Open opens the catalogue in a file, or makes one where there is none; its
// directory must be there. It reads and checks the whole file; only what is in
// audit entries is left to Check.
//
// storage.ErrLocked when another handle, in this process or another, has the
// file open and one of the two is for writing; storage.ErrCorrupt, with path
// and offset, for a damaged file, which is left as it is; storage.ErrVersion
// for one of a newer build; storage.ErrNotFound for none when ReadOnly.
func Open(path string, o *Options) (*Catalog, error) {
	c := &Catalog{path: path, now: time.Now, audit: MaxAudit}
	timeout := defaultTimeout
	if o != nil {
		c.readOnly = o.ReadOnly
		if o.Now != nil {
			c.now = o.Now
		}
		if o.Timeout != 0 {
			timeout = o.Timeout
		}
	}
	info, err := os.Stat(path)
	if errors.Is(err, iofs.ErrNotExist) && !c.readOnly {
		if err := create(path, timeout); err != nil {
			return nil, fmt.Errorf("create catalogue %s: %w", path, err)
		}
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil, fmt.Errorf("%w: catalogue %s", storage.ErrNotFound, path)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", storage.ErrIO, err)
	case !info.Mode().IsRegular():
		return nil, storage.Invalidf("catalogue %s is no file", path)
	case info.Size() == 0: // bbolt would take it for a new one
		return nil, storage.Corruptf(path, 0, "empty file")
	}
	if err := c.open(timeout); err != nil {
		return nil, err
	}
	c.epoch.Store(c.t.auditLast)
	return c, nil
}

// open takes the lock and loads the file. It opens for reading first: bbolt
// then looks at the meta pages only, where an open for writing reads the free
// list and believes it.
func (c *Catalog) open(timeout time.Duration) error {
	start := time.Now()
	var err error
	if c.db, c.file, err = openBolt(c.path, true, timeout); err != nil {
		return err
	}
	txid, err := c.load()
	if err == nil && !c.readOnly {
		if err = closeBolt(c.db, c.file); err != nil {
			return err
		}
		// At least 1: 0 would have bbolt wait for ever.
		if c.db, c.file, err = openBolt(c.path, false, max(timeout-time.Since(start), 1)); err != nil {
			return err
		}
		err = c.reload(txid)
	}
	if err != nil {
		return errors.Join(err, closeBolt(c.db, c.file))
	}
	return nil
}

func (c *Catalog) load() (txid uint64, err error) {
	t, txid, err := c.read(context.Background(), false)
	c.t = t
	return txid, err
}

// reload loads again what another writer has changed between the two opens.
func (c *Catalog) reload(txid uint64) error {
	var now uint64
	err := guard(c.path, func() error {
		return c.db.View(func(tx *bbolt.Tx) error { now = uint64(tx.ID()); return nil })
	})
	if err == nil && now != txid {
		_, err = c.load()
	}
	return err
}

// read reads the file as it is now. c.disk is held, or nobody else has c yet.
func (c *Catalog) read(ctx context.Context, audit bool) (*tables, uint64, error) {
	info, err := c.file.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", storage.ErrIO, err)
	}
	return load(ctx, c.file, info.Size(), c.path, audit)
}

// create makes an empty catalogue under a temporary name, syncs it and gives
// it its own: a file that exists is whole. When another was quicker, its file
// stays.
func create(path string, timeout time.Duration) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("%w: %w", storage.ErrIO, err)
	}
	name := tmp.Name()
	defer os.Remove(name)
	if err := tmp.Close(); err != nil {
		return err
	}
	db, file, err := openBolt(name, false, timeout)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, b := range buckets() {
			if _, err := tx.CreateBucket([]byte(b)); err != nil {
				return err
			}
		}
		return putFormat(tx, total{})
	})
	if err = errors.Join(err, closeBolt(db, file)); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrIO, err)
	}
	// A hard link, unlike a rename, does not replace a file made meanwhile.
	fs := storage.OS{}
	if err := fs.Link(name, path); err != nil && !errors.Is(err, iofs.ErrExist) {
		if err := fs.Rename(name, path); err != nil { // a file system without links
			return err
		}
	}
	return fs.SyncDir(dir)
}

// Close waits for calls in flight and closes the file. A second Close is
// storage.ErrClosed.
func (c *Catalog) Close() error {
	c.disk.Lock()
	defer c.disk.Unlock()
	c.mem.Lock()
	defer c.mem.Unlock()
	if c.closed {
		return storage.ErrClosed
	}
	c.closed = true
	if c.broken != nil {
		// bbolt's Close could wait for ever. Closing the file gives up the
		// lock; the map is lost to the process.
		return c.file.Close()
	}
	return closeBolt(c.db, c.file)
}

// Epoch counts the writes to the catalogue since it was made. It costs one
// atomic load, and while it stays the same, Authorize gives the same answers.
func (c *Catalog) Epoch() uint64 { return c.epoch.Load() }

// Check reads the whole file again and recomputes every invariant: the pages,
// the checksums, the records, what they say of each other, and that memory
// holds the same. Writes wait meanwhile. The error joins up to 16 findings.
func (c *Catalog) Check(ctx context.Context) error {
	c.disk.Lock()
	defer c.disk.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	t, _, err := c.read(ctx, true)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(t, c.t) {
		return storage.Corruptf(c.path, 0, "the file is not what was written")
	}
	return nil
}

// view runs f on the tables; what f returns must be copies.
func view[T any](c *Catalog, f func(t *tables) (T, error)) (T, error) {
	c.mem.RLock()
	defer c.mem.RUnlock()
	if c.closed {
		var none T
		return none, storage.ErrClosed
	}
	return f(c.t)
}
