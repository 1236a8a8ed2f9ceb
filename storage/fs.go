package storage

import (
	"errors"
	"io"
	iofs "io/fs"
	"math"
	"os"
	"path/filepath"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/quarrysearch/quarry/internal/writeback"
)

// FS is the seam between the engine and the file system. Names are paths in
// the host's form. Errors name the operation and the file and match
// ErrNotFound, ErrClosed or ErrIO and the errors of io/fs. All methods may be
// called from several goroutines.
//
// A file system must keep three promises a commit stands on: after Sync the
// bytes of a file survive a power loss, after SyncDir the names in a
// directory do, and Rename is atomic. Nothing is promised for anything else.
type FS interface {
	// Create makes a new file for reading and writing. The error matches
	// fs.ErrExist when the name is taken.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename gives a file a new name in one step, replacing a file of that
	// name.
	Rename(oldName, newName string) error
	// Link makes a hard link. It fails where the file system has none or the
	// names lie on different devices; the caller then copies.
	Link(oldName, newName string) error
	// List returns the base names in a directory, sorted; names of
	// directories end in "/".
	List(dir string) ([]string, error)
	// MkdirAll makes a directory and its missing parents, durably: the entry
	// of each directory made has been synced when it returns.
	MkdirAll(dir string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Stat returns the size of a file in bytes.
	Stat(name string) (size int64, err error)
	// Map maps a whole file for reading. A file of no bytes gives an empty
	// mapping.
	Map(name string) (Mapping, error)
	// Lock takes the operating system's lock on a file, made when missing,
	// without waiting, and holds it until Close or the end of the process.
	// The error matches ErrLocked while another handle, in this process or
	// another, holds it (shared locks exclude only exclusive ones). The file
	// itself means nothing: it may be left behind, copied or empty.
	Lock(name string, exclusive bool) (io.Closer, error)
}

// File is an open file. Write appends at the end of what was written and
// truncated; it must not be called by two goroutines at once. The other
// methods may be called from several goroutines. Methods of a closed file
// return an error matching ErrClosed.
type File interface {
	io.Writer
	io.ReaderAt
	Size() (int64, error)
	// StartSync starts to write to the disk what a Sync would, where the system
	// can without waiting. Nothing is durable before a Sync, which then has less
	// to wait for; an error means what one of Sync does.
	StartSync() error
	Sync() error
	// Reserve makes the file at least size bytes long, with zeros behind what
	// was written. The next Write goes on where the last one ended, over the
	// zeros, so that a Sync after it has no new length to make durable. Until a
	// Sync the zeros and the length may be lost, as written bytes may.
	Reserve(size int64) error
	// Truncate cuts the file; the next Write goes to its new end, or over the
	// zeros that are left of a Reserve. It does not extend a file.
	Truncate(size int64) error
	Close() error
}

// Mapping is a read-only view of a file's bytes. Reading beyond the end of a
// file that was cut after it was mapped faults; run readers under Guard.
type Mapping interface {
	// Bytes returns the whole file. It must not be written to, and is dead
	// after Close.
	Bytes() []byte
	// Advise tells the kernel how bytes [off, off+n) will be used. It is a
	// hint: platforms without it return nil.
	Advise(off, n int64, a Advice) error
	Close() error
}

// Advice is a hint on how mapped bytes will be read.
type Advice uint8

// The hints, with the Linux madvise they stand for.
const (
	AdviceNormal     Advice = iota // NORMAL: the kernel's own read-ahead
	AdviceRandom                   // RANDOM: no read-ahead (graph, postings)
	AdviceSequential               // SEQUENTIAL: much read-ahead (merge, check)
	AdviceWillNeed                 // WILLNEED: start reading now, do not wait
	AdvicePopulate                 // POPULATE_READ: read and map now, and wait; WILLNEED where missing
	AdviceDontNeed                 // DONTNEED: drop from this process's memory
)

// OS is the host's file system. The zero value is ready to use.
//
// Locks are flock on Unix and LockFileEx on Windows, so that they die with
// their holder. Windows has no fsync for directories (SyncDir does nothing
// there), no madvise, and refuses to remove or replace a mapped file: callers
// keep such files on a list and retry.
type OS struct{}

var _ FS = OS{}

// Create makes a new file.
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, wrapIO("create", name, err)
	}
	return &osFile{f: f, name: name}, nil
}

// Open opens an existing file for reading.
func (OS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, wrapIO("open", name, err)
	}
	return &osFile{f: f, name: name}, nil
}

// Remove deletes a file or an empty directory.
func (OS) Remove(name string) error { return wrapIO("remove", name, os.Remove(name)) }

// Rename gives a file a new name, replacing a file of that name.
func (OS) Rename(oldName, newName string) error {
	return wrapIO("rename", oldName+" to "+newName, os.Rename(oldName, newName))
}

// Link makes a hard link.
func (OS) Link(oldName, newName string) error {
	return wrapIO("link", oldName+" to "+newName, os.Link(oldName, newName))
}

// List returns the sorted base names in dir, directories ending in "/".
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, wrapIO("list", dir, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
		if e.IsDir() {
			names[i] += "/"
		}
	}
	return names, nil
}

// MkdirAll makes dir and its missing parents and syncs the parent of each.
func (o OS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return wrapIO("mkdir", dir, iofs.ErrExist)
		}
		return nil
	}
	if !errors.Is(err, iofs.ErrNotExist) {
		return wrapIO("mkdir", dir, err)
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, iofs.ErrExist) {
		return wrapIO("mkdir", dir, err)
	}
	return o.SyncDir(parent)
}

// SyncDir makes the names in dir durable.
func (OS) SyncDir(dir string) error { return wrapIO("sync directory", dir, syncDir(dir)) }

// Stat returns the size of a file.
func (OS) Stat(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, wrapIO("stat", name, err)
	}
	return info.Size(), nil
}

// Map maps a whole file for reading. The file need not stay open.
func (OS) Map(name string) (Mapping, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, wrapIO("map", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, wrapIO("map", name, err)
	}
	size := info.Size()
	switch {
	case info.IsDir():
		return nil, wrapIO("map", name, errors.New("is a directory"))
	case size == 0:
		// mmap of no bytes is EINVAL on Linux and fails on Windows.
		return &osMapping{name: name}, nil
	case size > math.MaxInt:
		return nil, wrapIO("map", name, errors.New("file exceeds the address space"))
	}
	m, err := mmap.MapRegion(f, int(size), mmap.RDONLY, 0, 0)
	if err != nil {
		return nil, wrapIO("map", name, err)
	}
	return &osMapping{name: name, m: m}, nil
}

// Lock takes an advisory lock on the file called name.
func (OS) Lock(name string, exclusive bool) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil && !exclusive && errors.Is(err, iofs.ErrPermission) {
		f, err = os.Open(name) // a reader of a directory it may not write to
	}
	if err != nil {
		return nil, wrapIO("lock", name, err)
	}
	if err := lockFile(f, exclusive); err != nil {
		f.Close()
		if errors.Is(err, ErrLocked) {
			return nil, &lockedError{name}
		}
		return nil, wrapIO("lock", name, err)
	}
	return &osLock{f: f, name: name}, nil
}

// A lockedError names the file whose lock another handle holds.
type lockedError struct{ file string }

func (e *lockedError) Error() string { return ErrLocked.Error() + ": lock " + e.file }
func (e *lockedError) Unwrap() error { return ErrLocked }

type osLock struct {
	f    *os.File
	name string
}

// Close releases the lock. The file stays: removing it would let a second
// writer lock a new file of the same name while a third holds the old one.
func (l *osLock) Close() error { return wrapIO("unlock", l.name, l.f.Close()) }

// An osFile writes by pwrite at an offset of its own, so that Truncate moves
// the place of the next write on every platform.
type osFile struct {
	f    *os.File
	name string
	off  int64
}

func (f *osFile) Write(p []byte) (int, error) {
	n, err := f.f.WriteAt(p, f.off)
	f.off += int64(n)
	return n, wrapIO("write", f.name, err)
}

// ReadAt returns io.EOF unwrapped, as io.ReaderAt asks for.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	if err == io.EOF {
		return n, err
	}
	return n, wrapIO("read", f.name, err)
}

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, wrapIO("stat", f.name, err)
	}
	return info.Size(), nil
}

func (f *osFile) StartSync() error { return wrapIO("start sync", f.name, writeback.Start(f.f)) }

// Sync is fsync; F_FULLFSYNC on darwin, FlushFileBuffers on Windows.
func (f *osFile) Sync() error { return wrapIO("sync", f.name, f.f.Sync()) }

// Reserve writes the zeros. Blocks that were only allocated would be marked as
// written by the Sync that is to be cheap.
func (f *osFile) Reserve(size int64) error {
	if size <= f.off {
		return nil
	}
	_, err := f.f.WriteAt(make([]byte, size-f.off), f.off)
	return wrapIO("reserve", f.name, err)
}

func (f *osFile) Truncate(size int64) error {
	if err := f.f.Truncate(size); err != nil {
		return wrapIO("truncate", f.name, err)
	}
	f.off = min(f.off, size)
	return nil
}

func (f *osFile) Close() error { return wrapIO("close", f.name, f.f.Close()) }

type osMapping struct {
	name string
	m    mmap.MMap
}

func (m *osMapping) Bytes() []byte { return m.m }

func (m *osMapping) Advise(off, n int64, a Advice) error {
	if off < 0 || n < 0 || off+n > int64(len(m.m)) {
		return Invalidf("advise: bytes [%d,%d) of %s, which has %d", off, off+n, m.name, len(m.m))
	}
	if n == 0 {
		return nil
	}
	start := off &^ int64(os.Getpagesize()-1) // madvise wants a page boundary
	return wrapIO("advise", m.name, advise(m.m[start:off+n], a))
}

func (m *osMapping) Close() error {
	if m.m == nil {
		return nil
	}
	return wrapIO("unmap", m.name, m.m.Unmap())
}
