package space

import (
	"errors"
	"fmt"
)

// ErrEvidence is returned by Verify when evidence is not what its document says:
// another content, place, version or hash.
var ErrEvidence = errors.New("quarry: evidence does not hold")

// An Error is the failure of one space of a retrieval: the first that failed, in
// the order of the request. Refusals of the catalogue come as they are, as
// *catalog.Error, which names the space, too.
type Error struct {
	Space string
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("space %q: %v", e.Space, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func unverified(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrEvidence, fmt.Sprintf(format, args...))
}
