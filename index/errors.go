package index

import "github.com/quarrysearch/quarry/storage"

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
