package index

import (
	"fmt"

	"github.com/quarrysearch/quarry/storage"
)

// Sentinels, matched with errors.Is. They are the ones of package storage, so
// an error keeps its kind wherever in the engine it arose.
var (
	ErrClosed   = storage.ErrClosed
	ErrLocked   = storage.ErrLocked
	ErrReadOnly = storage.ErrReadOnly
	ErrNotFound = storage.ErrNotFound
	ErrCorrupt  = storage.ErrCorrupt
	ErrVersion  = storage.ErrVersion
	ErrSchema   = storage.ErrSchema
	ErrInvalid  = storage.ErrInvalid
	ErrTooLarge = storage.ErrTooLarge
	ErrIO       = storage.ErrIO
)

func invalidf(format string, args ...any) error { return storage.Invalidf(format, args...) }

func schemaf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSchema, fmt.Sprintf(format, args...))
}

func tooLargef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTooLarge, fmt.Sprintf(format, args...))
}

func notFound(id string) error { return fmt.Errorf("%w: document %q", ErrNotFound, id) }

// guard runs f such that a memory fault in a mapped file is an ErrIO, not the
// end of the program.
func guard(f func() error) error { return storage.Guard(f) }
