package manage

import (
	"context"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

// A Call is one request on the catalogue.
type Call struct {
	Context  context.Context
	Registry *registry.Registry
	Spaces   *registry.Spaces
	// By is the account that acts; empty: the operator.
	By string
}

// A By in an input names the account that is to act.
type By struct {
	Account string `query:"account" shape:"maxlen=512" doc:"who does it; default the account of the key, or the operator"`
}

// Actor is the account that a request names.
func (b *By) Actor() string { return b.Account }

// An Actor is an input with a By.
type Actor interface{ Actor() string }

// Done is the answer of changes that have nothing else to tell.
type Done struct {
	Done bool `json:"done"`
}

func done(err error) (*Done, error) { return &Done{true}, err }

// list is never nil: an answer has [] for none.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
