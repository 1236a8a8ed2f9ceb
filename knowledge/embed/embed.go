package embed

import (
	"context"
	"errors"
	"fmt"
)

// A Kind tells what a text is, to a model that treats queries and passages
// differently (by a prefix).
type Kind uint8

// The kinds of text.
const (
	// Passage is a stored piece of text.
	Passage Kind = iota
	// Query is what a user asks.
	Query
)

// String returns "passage" or "query".
func (k Kind) String() string {
	if k == Query {
		return "query"
	}
	return "passage"
}

// An Embedder turns texts into vectors. Implementations are safe for
// concurrent use.
type Embedder interface {
	// Identity returns what an index records at its first ingest: two
	// embedders of equal identity give comparable vectors.
	Identity() Identity
	// Embed returns one vector a text, in order. An empty list gives an empty
	// Result. A text longer than the model's limit is cut at it, and the
	// Result says so. A local model gives a blank text a vector like any
	// other; a service may refuse it. On any error the Result is the zero
	// value.
	Embed(ctx context.Context, kind Kind, texts []string) (Result, error)
}

// An Identity names a model and everything that changes its vectors. It is
// comparable with ==; vectors of embedders with different identities (Floor
// aside) must not be mixed in one index.
type Identity struct {
	// Name of the model, "intfloat/multilingual-e5-small" say.
	Name string `json:"name"`
	// Revision pins the weights: a version, a commit or a checksum.
	Revision string `json:"revision,omitempty"`
	// Dim is the number of components of a vector.
	Dim int `json:"dim"`
	// Metric the vectors are made for: "cosine".
	Metric string `json:"metric"`
	// QueryPrefix and PassagePrefix are put before a text of that Kind.
	QueryPrefix   string `json:"query_prefix,omitempty"`
	PassagePrefix string `json:"passage_prefix,omitempty"`
	// Tokenizer names the tokenizer's rules.
	Tokenizer string `json:"tokenizer,omitempty"`
	// Floor is the similarity of unrelated texts (semantics S0.2), in [0,1):
	// cosines are rescaled to max(0, (cos−Floor)/(1−Floor)). 0 for models
	// whose unrelated texts score about 0.
	Floor float64 `json:"floor,omitempty"`
}

// Label names a model for people; nil is no model.
func (id *Identity) Label() string {
	if id == nil {
		return "no embedding model"
	}
	name := id.Name
	if id.Revision != "" {
		name += "@" + id.Revision
	}
	return fmt.Sprintf("%s (%d dimensions, %s)", name, id.Dim, id.Metric)
}

// ErrContract is matched by the errors of callers who find that an embedder's
// answer breaks its contract: a wrong number of components, or components that
// are not finite.
var ErrContract = errors.New("quarry: bad embedding")

// Check returns an ErrContract error unless the result holds that many vectors
// of the model. It does not look at their components.
func (r *Result) Check(model *Identity, texts int) error {
	if model.Dim > 0 && len(r.Vectors) == texts*model.Dim {
		return nil
	}
	return fmt.Errorf("%w: %s gave %d components for %d texts", ErrContract, model.Label(), len(r.Vectors), texts)
}

// NotFinite is the ErrContract error for a vector with a component that is not
// finite.
func NotFinite(model *Identity) error {
	return fmt.Errorf("%w: %s gave a vector that is not finite", ErrContract, model.Label())
}

// A Result holds the vectors of one Embed call.
type Result struct {
	// Vectors holds len(texts) rows of Dim components, each of unit length
	// (or all zero for a text that has no direction).
	Vectors []float32
	// Truncated lists, in ascending order, the texts cut at the model's limit.
	Truncated []int
}

// A TokenEmbedder gives, beside one vector a text, one vector a token: the
// input of late interaction (MaxSim).
type TokenEmbedder interface {
	Embedder
	// Tokens returns the token vectors of each text, in order.
	Tokens(ctx context.Context, kind Kind, texts []string) ([]TokenVectors, error)
}

// TokenVectors are the last layer's vectors of the tokens of one text, without
// prefix and special tokens, each of unit length.
type TokenVectors struct {
	// Dim is the number of components of a vector.
	Dim int
	// Vectors holds len(Spans) rows of Dim components.
	Vectors []float32
	// Spans are the byte ranges of the text that the tokens stand for.
	Spans []Span
	// Truncated tells that the text was cut at the model's limit.
	Truncated bool
}

// A Span is the range [Start, End) of bytes of a text.
type Span struct{ Start, End int }
