package catalog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/quarrysearch/quarry/storage"
)

// openBolt opens a bbolt file that is there. The file it returns is the one
// bbolt uses.
func openBolt(path string, readOnly bool, timeout time.Duration) (db *bbolt.DB, file *os.File, err error) {
	err = guard(path, func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			ReadOnly:     readOnly,
			Timeout:      timeout,
			NoStatistics: true,
			OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				var err error
				file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
				return file, err
			},
		})
		return err
	})
	switch {
	case err == nil:
		return db, file, nil
	case errors.Is(err, berrors.ErrTimeout):
		err = fmt.Errorf("%w: catalogue %s", storage.ErrLocked, path)
	case errors.Is(err, storage.ErrCorrupt):
		if file != nil { // bbolt panicked and left it open
			err = errors.Join(err, file.Close())
		}
	case errors.Is(err, os.ErrNotExist):
		err = fmt.Errorf("%w: catalogue %s", storage.ErrNotFound, path)
	case isPathError(err):
		err = fmt.Errorf("%w: %w", storage.ErrIO, err)
	default:
		err = storage.Corruptf(path, 0, "bbolt: %v", err)
	}
	return nil, nil, err
}

func isPathError(err error) bool {
	var pe *os.PathError
	var se *os.SyscallError
	return errors.As(err, &pe) || errors.As(err, &se)
}

// closeBolt closes db, and file in case bbolt fails before it comes to that.
func closeBolt(db *bbolt.DB, file *os.File) error {
	err := guard(file.Name(), db.Close)
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("%w: close catalogue: %w", storage.ErrIO, err)
	}
	return nil
}

// guard runs a call of bbolt and turns its panics, and the fault of a map whose
// file was cut, into storage.ErrCorrupt.
func guard(path string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = storage.Corruptf(path, 0, "bbolt: %v", r)
		}
	}()
	err = storage.Guard(f)
	var fault *storage.FaultError
	if errors.As(err, &fault) {
		err = fmt.Errorf("%w: %w", storage.Corruptf(path, 0, "the file was cut or cannot be read"), fault)
	}
	return err
}

// usable tells whether the file may be touched; c.disk is held.
func (c *Catalog) usable() error {
	c.mem.RLock()
	defer c.mem.RUnlock()
	if c.closed {
		return storage.ErrClosed
	}
	return c.broken
}

// transact runs f in a transaction of bbolt; c.disk is held. What f must not
// do is fail for any reason but bbolt's.
func (c *Catalog) transact(write bool, f func(tx *bbolt.Tx) error) error {
	if err := c.usable(); err != nil {
		return err
	}
	run := c.db.View
	if write {
		run = c.db.Update
	}
	err := guard(c.path, func() error { return run(f) })
	if errors.Is(err, storage.ErrCorrupt) {
		c.broken = err
	}
	return err
}

// A change is one pair to be written, with its record for the tables.
type change struct {
	bucket, key string
	value       []byte // sealed; nil deletes
	r           record // nil for the raw buckets
}

// apply writes the change and counts it.
func (ch *change) apply(tx *bbolt.Tx, sum *total) error {
	b, key := tx.Bucket([]byte(ch.bucket)), []byte(ch.key)
	if old := b.Get(key); old != nil {
		sum.remove(old)
	}
	if ch.value == nil {
		return b.Delete(key)
	}
	sum.add(ch.value)
	return b.Put(key, ch.value)
}

func putFormat(tx *bbolt.Tx, sum total) error {
	f := &format{Format: formatName, Version: formatVersion, Total: sum}
	payload, err := encode(f)
	if err != nil {
		return err
	}
	b, key := f.place()
	return tx.Bucket([]byte(b)).Put([]byte(key), seal(b, key, payload))
}

// commit writes changes in one transaction and then applies them to memory;
// c.disk is held. After an error of bbolt nobody knows what the file holds
// until it is opened again.
func (c *Catalog) commit(changes []change) error {
	sum := c.t.total
	err := c.transact(true, func(tx *bbolt.Tx) error {
		for _, ch := range changes {
			if err := ch.apply(tx, &sum); err != nil {
				return err
			}
		}
		return putFormat(tx, sum)
	})
	if err != nil {
		if !errors.Is(err, storage.ErrCorrupt) {
			err = fmt.Errorf("%w: write catalogue %s: %w", storage.ErrIO, c.path, err)
		}
		c.failed = fmt.Errorf("%w until reopened: %w", storage.ErrReadOnly, err)
		return c.failed
	}
	c.mem.Lock()
	defer c.mem.Unlock()
	c.t.total = sum
	for _, ch := range changes {
		switch {
		case ch.r == nil:
		case ch.value == nil:
			c.t.unset(ch.r)
		default:
			c.t.set(ch.r)
		}
	}
	c.epoch.Store(c.t.auditLast)
	return nil
}

// raw reads a draft or a definition; c.disk is held.
func (c *Catalog) raw(bucket, key string) ([]byte, error) {
	var out []byte
	err := c.transact(false, func(tx *bbolt.Tx) error {
		out = append([]byte{}, tx.Bucket([]byte(bucket)).Get([]byte(key))...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	payload, err := unseal(bucket, key, out)
	if err != nil {
		return nil, storage.Corruptf(c.path, 0, "%s %q: %v", bucket, key, err)
	}
	return payload, nil
}
