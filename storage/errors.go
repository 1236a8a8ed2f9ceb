package storage

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
)

// Sentinels of the whole engine, matched with errors.Is. Package index gives
// them again under its own name.
var (
	// ErrClosed is returned by every call on a closed index, snapshot or file.
	ErrClosed = errors.New("quarry: closed")
	// ErrLocked is returned by an open for writing while another process or
	// another handle in this process holds the directory's lock.
	ErrLocked = errors.New("quarry: locked by another writer")
	// ErrReadOnly is returned by a write on an index opened for reading, or
	// one poisoned by a failed fsync.
	ErrReadOnly = errors.New("quarry: read-only")
	// ErrNotFound is returned when a document, field or file does not exist.
	ErrNotFound = errors.New("quarry: not found")
	// ErrCorrupt is the class of every CorruptError.
	ErrCorrupt = errors.New("quarry: corrupt")
	// ErrVersion is returned for a format this build does not read.
	ErrVersion = errors.New("quarry: unsupported format version")
	// ErrSchema is returned when a document or an open disagrees with the
	// index's schema.
	ErrSchema = errors.New("quarry: schema conflict")
	// ErrInvalid is returned for an argument out of its documented range.
	ErrInvalid = errors.New("quarry: invalid")
	// ErrTooLarge is returned when an input exceeds a documented limit.
	ErrTooLarge = errors.New("quarry: too large")
	// ErrIO is returned when the operating system failed a read or a write,
	// faults in a mapped file included.
	ErrIO = errors.New("quarry: i/o error")
)

// A CorruptError tells which bytes broke which rule. It matches ErrCorrupt.
type CorruptError struct {
	File   string // file name, or the section's name until the file is known
	Offset int64  // byte offset in File where the rule broke
	What   string // the rule that broke
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("quarry: corrupt: %s at byte %d of %s", e.What, e.Offset, e.File)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Corruptf makes a CorruptError.
func Corruptf(file string, off int64, format string, args ...any) error {
	return &CorruptError{File: file, Offset: off, What: fmt.Sprintf(format, args...)}
}

// Invalidf makes an error that matches ErrInvalid and starts with the name of
// the thing that is wrong.
func Invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// VersionError tells that a file is of a format version, or uses a feature,
// this build does not read. It matches ErrVersion.
type VersionError struct {
	File     string
	Have     uint32 // format version of the file
	Min, Max uint32 // versions this build reads
	Features uint64 // feature bits of the file that this build does not know
}

func (e *VersionError) Error() string {
	if e.Features != 0 {
		return fmt.Sprintf("quarry: unsupported format version: %s uses unknown features %#x; open it with the release that wrote it",
			e.File, e.Features)
	}
	return fmt.Sprintf("quarry: unsupported format version: %s has version %d, this build reads %d to %d; open it with the release that wrote it",
		e.File, e.Have, e.Min, e.Max)
}

// Is makes errors.Is(err, ErrVersion) true.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// An ioError names the operation and the file beside the cause. It matches
// exactly one class: ErrNotFound when the file does not exist, ErrClosed when
// the handle was closed, ErrIO otherwise; and, through Unwrap, the errors of
// io/fs and syscall.
type ioError struct {
	op, file string
	err      error
}

func (e *ioError) Error() string { return "quarry: " + e.op + " " + e.file + ": " + e.err.Error() }
func (e *ioError) Unwrap() error { return e.err }

func (e *ioError) Is(target error) bool {
	switch {
	case errors.Is(e.err, iofs.ErrNotExist):
		return target == ErrNotFound
	case errors.Is(e.err, iofs.ErrClosed):
		return target == ErrClosed
	}
	return target == ErrIO
}

// wrapIO gives err the operation, the file and its class; nil stays nil. The
// wrapping that package os does itself is taken off, so that a message says
// each thing once.
func wrapIO(op, file string, err error) error {
	if err == nil {
		return nil
	}
	var pe *iofs.PathError
	var le *os.LinkError
	var se *os.SyscallError
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	case errors.As(err, &se):
		err = se.Err
	}
	return &ioError{op: op, file: file, err: err}
}

// IsDiskFull reports whether err comes from a full disk or an exhausted
// quota: the write failed as a whole, and writing may go on once there is
// space. ErrIO matches such an error too.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isPlatformDiskFull(err)
}

// poisoned marks an error after which the state of the disk is not known, a
// failed fsync above all: the kernel may have dropped the dirty pages and
// report success the next time, so that nothing may be written any more until
// the directory is opened again. It matches ErrReadOnly and the cause.
func poisoned(err error) error {
	if err == nil || errors.Is(err, ErrReadOnly) {
		return err
	}
	return fmt.Errorf("%w until reopened: %w", ErrReadOnly, err)
}

// A FaultError is a memory fault, met while reading a mapped file: the file
// was cut, or the device failed. It matches ErrIO. Segment.FaultOffset turns
// the address into an offset in a file.
type FaultError struct{ Addr uintptr }

func (e *FaultError) Error() string {
	return fmt.Sprintf("quarry: i/o error: memory fault at address %#x of a mapped file", e.Addr)
}

// Is makes errors.Is(err, ErrIO) true.
func (e *FaultError) Is(target error) bool { return target == ErrIO }

// Guard calls f and turns a memory fault in this goroutine into a FaultError,
// where the program would otherwise die of SIGBUS or SIGSEGV. Every goroutine
// that reads mapped bytes runs under a Guard of its own; goroutines started
// by f are not covered. Any other panic, a nil dereference included, goes on
// unchanged. The cost is one deferred call.
func Guard(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		err = &FaultError{Addr: fault.Addr()}
	}()
	return f()
}
