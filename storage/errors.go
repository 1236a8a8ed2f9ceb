package storage

import (
	"errors"
	"fmt"
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
