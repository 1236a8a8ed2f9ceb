package service

import (
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// A Provider is a kind of service.
type Provider uint8

// The providers.
const (
	// OpenAI is POST /embeddings under https://api.openai.com/v1, or under
	// the base URL of another server that speaks it.
	OpenAI Provider = iota
	// Ollama is POST /api/embed under http://localhost:11434.
	Ollama
	// Cohere is POST /v2/embed under https://api.cohere.com.
	Cohere
	// Jina is POST /embeddings under https://api.jina.ai/v1.
	Jina
	// Voyage is POST /embeddings under https://api.voyageai.com/v1.
	Voyage
	// TEI is POST /embed of a Text Embeddings Inference server, by default
	// under http://localhost:8080.
	TEI
)

// String returns the name that ParseProvider reads.
func (p Provider) String() string {
	if int(p) < len(shapes) {
		return shapes[p].name
	}
	return "unknown"
}

// ParseProvider reads "openai", "ollama", "cohere", "jina", "voyage" or "tei".
func ParseProvider(name string) (Provider, error) {
	var names []string
	for p := range shapes {
		if shapes[p].name == name {
			return Provider(p), nil
		}
		names = append(names, shapes[p].name)
	}
	return 0, storage.Invalidf("provider %q, want one of %s", name, strings.Join(names, ", "))
}

// Options configure a Service. Model is required; the zero value of every other
// field stands for its default.
type Options struct {
	// Call says how the service is reached: base URL, key, timeouts, tries.
	Call call.Options
	// Model is the name the service knows the model by. TEI serves one model
	// and is not sent the name, but the Identity needs it.
	Model string
	// Revision pins the weights in the Identity, where the user knows them.
	Revision string
	// Dim is the number of components a vector must have. 0 learns it from
	// the first reply; until then Identity().Dim is 0 (see Probe).
	Dim int
	// Shorten asks the service for vectors of Dim components, for models that
	// can give shorter ones. It needs Dim.
	Shorten bool
	// QueryPrefix and PassagePrefix are put before each text, for models that
	// were trained so. Cohere, Jina and Voyage are told the kind of a text
	// instead and need none.
	QueryPrefix, PassagePrefix string
	// Floor is the similarity of unrelated texts (embed.Identity).
	Floor float64
	// MaxTexts and MaxBytes bound one request: texts in it and bytes of its
	// body. Default: the provider's documented limits (package doc).
	MaxTexts, MaxBytes int
	// MaxTextBytes cuts a longer text, prefix not counted, at a rune boundary
	// before it is sent; the Result names it. 0 cuts nothing: what is longer
	// than the model takes is refused by the service, which is an error.
	MaxTextBytes int
	// PlainVectors asks for arrays of numbers where base64, which is a fourth
	// of the size, would be asked for: for servers that refuse the parameter.
	PlainVectors bool
}

const maxDim = 1 << 16

func (o *Options) validate(s *shape) error {
	switch {
	case strings.TrimSpace(o.Model) == "":
		return storage.Invalidf("%s: Model is required", s.name)
	case o.Dim < 0 || o.Dim > maxDim:
		return storage.Invalidf("%s: Dim %d, want 0 to %d", s.name, o.Dim, maxDim)
	case o.Shorten && o.Dim == 0:
		return storage.Invalidf("%s: Shorten needs Dim", s.name)
	case o.MaxTexts < 0, o.MaxBytes < 0, o.MaxTextBytes < 0:
		return storage.Invalidf("%s: a limit is negative", s.name)
	case !(o.Floor >= 0 && o.Floor < 1):
		return storage.Invalidf("%s: Floor %v, want 0 ≤ Floor < 1", s.name, o.Floor)
	}
	return nil
}

// reach fills in the provider's address and, only for that address, the
// variable its key is usually in: a key must not go to a server it was not
// meant for.
func (o *Options) reach(s *shape) call.Options {
	c := o.Call
	if c.BaseURL == "" {
		c.BaseURL = s.base
		if c.KeyEnv == "" && c.KeyFile == "" {
			c.KeyEnv = s.keyEnv
		}
	}
	return c
}
