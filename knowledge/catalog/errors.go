package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// A Code says why the catalogue refused something. Codes are stable: programs
// may compare and store them. A Code is also the sentinel of its errors:
//
//	errors.Is(err, catalog.ErrPermission)
type Code string

// The codes.
const (
	// ErrUnavailable: there is no such space. Matches storage.ErrNotFound.
	ErrUnavailable Code = "space_unavailable"
	// ErrInactive: the space is there, but switched off.
	ErrInactive Code = "space_not_active"
	// ErrUnpublished: the space, or the workflow, has never been published.
	ErrUnpublished Code = "not_published"
	// ErrNotBound: no publication of the workflow binds the space, or the
	// binding was revoked.
	ErrNotBound Code = "binding_not_enabled"
	// ErrPermission: the account lacks the permission.
	ErrPermission Code = "permission_denied"
	// ErrWorkspace: account, workflow and space lie in different workspaces.
	ErrWorkspace Code = "workspace_mismatch"
	// ErrStale: the revision expected is not the present one; read again.
	ErrStale Code = "stale_revision"
	// ErrFrozen: another embedding model than the frozen one.
	ErrFrozen Code = "embedding_frozen"
	// ErrUnresolved: an import left spaces that must be chosen again.
	ErrUnresolved Code = "unresolved_spaces"
	// ErrThreshold: a score threshold that needs the reranker, without one.
	// Matches storage.ErrInvalid.
	ErrThreshold Code = "threshold_requires_rerank"
	// ErrExists: the id is taken.
	ErrExists Code = "already_exists"
)

// Error returns the code as text.
func (c Code) Error() string { return "quarry: " + string(c) }

// An Error is a refusal of the catalogue. It matches its Code.
type Error struct {
	Code Code
	// Space is the id of the space that failed, the first in the order the
	// caller gave; empty when the refusal is about none.
	Space string
	// Spaces are all that failed, in the caller's order, where all were
	// checked (Publish); else Space alone.
	Spaces  []string
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("quarry: [%s] %s", string(e.Code), e.Message)
}

// Is matches the code, and the class of package storage where it has one.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case target:
		return true
	case ErrUnavailable:
		return target == storage.ErrNotFound
	case ErrThreshold:
		return target == storage.ErrInvalid
	}
	return false
}

// refuse makes the error of one space, or of none.
func refuse(code Code, space, format string, args ...any) error {
	e := &Error{Code: code, Space: space, Message: fmt.Sprintf(format, args...)}
	if space != "" {
		e.Spaces = []string{space}
	}
	return e
}

// refuseAll makes the error of several spaces: what, and their names in order.
func refuseAll(code Code, spaces []string, what string) error {
	return &Error{Code: code, Space: spaces[0], Spaces: slices.Clone(spaces), Message: what + ": " + strings.Join(spaces, ", ")}
}

func notFound(kind, id string) error {
	return fmt.Errorf("%w: %s %q", storage.ErrNotFound, kind, id)
}
