package service

import (
	"encoding/json"
	"fmt"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
)

// A shape is what tells one provider's requests and replies from another's.
type shape struct {
	name, base, path, keyEnv string
	texts, bytes             int    // limits of one request
	list                     string // the field that holds the texts
	fields                   func(o *Options, kind embed.Kind) map[string]any
	decode                   func(service string, data []byte, n int) ([]json.RawMessage, error)
}

// shapes is indexed by Provider.
var shapes = [...]shape{
	OpenAI: {
		name: "openai", base: "https://api.openai.com/v1", path: "/embeddings", keyEnv: "OPENAI_API_KEY",
		texts: 2048, bytes: 300_000, list: "input", fields: openAIFields, decode: decodeData,
	},
	Ollama: {
		name: "ollama", base: "http://localhost:11434", path: "/api/embed",
		texts: 64, bytes: 1 << 20, list: "input", fields: ollamaFields, decode: decodeOllama,
	},
	Cohere: {
		name: "cohere", base: "https://api.cohere.com", path: "/v2/embed", keyEnv: "CO_API_KEY",
		texts: 96, bytes: 1 << 20, list: "texts", fields: cohereFields, decode: decodeCohere,
	},
	Jina: {
		name: "jina", base: "https://api.jina.ai/v1", path: "/embeddings", keyEnv: "JINA_API_KEY",
		texts: 512, bytes: 1 << 20, list: "input", fields: jinaFields, decode: decodeData,
	},
	Voyage: {
		name: "voyage", base: "https://api.voyageai.com/v1", path: "/embeddings", keyEnv: "VOYAGE_API_KEY",
		texts: 1000, bytes: 120_000, list: "input", fields: voyageFields, decode: decodeData,
	},
	TEI: {
		name: "tei", base: "http://localhost:8080", path: "/embed",
		texts: 32, bytes: 1 << 20, list: "inputs", fields: teiFields, decode: decodeTEI,
	},
}

func openAIFields(o *Options, _ embed.Kind) map[string]any {
	m := map[string]any{"model": o.Model, "encoding_format": "base64"}
	if o.PlainVectors {
		m["encoding_format"] = "float"
	}
	if o.Shorten {
		m["dimensions"] = o.Dim
	}
	return m
}

func ollamaFields(o *Options, _ embed.Kind) map[string]any {
	m := map[string]any{"model": o.Model, "truncate": false}
	if o.Shorten {
		m["dimensions"] = o.Dim
	}
	return m
}

func cohereFields(o *Options, kind embed.Kind) map[string]any {
	m := map[string]any{
		"model": o.Model, "truncate": "NONE", "embedding_types": []string{"float"},
		"input_type": pick(kind, "search_query", "search_document"),
	}
	if o.Shorten {
		m["output_dimension"] = o.Dim
	}
	return m
}

func jinaFields(o *Options, kind embed.Kind) map[string]any {
	m := map[string]any{
		"model": o.Model, "truncate": false, "embedding_type": "base64",
		"task": pick(kind, "retrieval.query", "retrieval.passage"),
	}
	if o.PlainVectors {
		m["embedding_type"] = "float"
	}
	if o.Shorten {
		m["dimensions"] = o.Dim
	}
	return m
}

func voyageFields(o *Options, kind embed.Kind) map[string]any {
	m := map[string]any{"model": o.Model, "truncation": false, "input_type": pick(kind, "query", "document")}
	if !o.PlainVectors {
		m["encoding_format"] = "base64"
	}
	if o.Shorten {
		m["output_dimension"] = o.Dim
	}
	return m
}

func teiFields(o *Options, _ embed.Kind) map[string]any {
	m := map[string]any{"truncate": false, "normalize": true}
	if o.Shorten {
		m["dimensions"] = o.Dim
	}
	return m
}

func pick(kind embed.Kind, query, passage string) string {
	if kind == embed.Query {
		return query
	}
	return passage
}

// decodeData reads {"data": [{"index": i, "embedding": …}, …]}: OpenAI, Jina
// and Voyage.
func decodeData(service string, data []byte, n int) ([]json.RawMessage, error) {
	var r struct {
		Data *[]struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Error json.RawMessage `json:"error"`
	}
	if err := call.Decode(service, data, &r); err != nil {
		return nil, err
	}
	if r.Data == nil {
		return nil, call.Unanswered(service, "data", r.Error)
	}
	items := *r.Data
	if len(items) != n {
		return nil, call.Replyf(service, "%d embeddings for %d texts", len(items), n)
	}
	out := make([]json.RawMessage, n)
	indexed := 0
	for i, item := range items {
		at := i
		if item.Index != nil {
			at = *item.Index
			indexed++
		}
		switch {
		case indexed != 0 && indexed != i+1:
			return nil, call.Replyf(service, "some of its %d items have an index and some have not: their order is not known", n)
		case at < 0 || at >= n:
			return nil, call.Replyf(service, "item %d has index %d, want 0 to %d", i, at, n-1)
		case out[at] != nil:
			return nil, call.Replyf(service, "index %d comes twice", at)
		case item.Embedding == nil:
			return nil, call.Replyf(service, "item %d has no \"embedding\"", i)
		}
		out[at] = item.Embedding
	}
	return out, nil
}

// decodeOllama reads {"embeddings": [[…], …]}.
func decodeOllama(service string, data []byte, n int) ([]json.RawMessage, error) {
	var r struct {
		Embeddings *[]json.RawMessage `json:"embeddings"`
		Error      json.RawMessage    `json:"error"`
	}
	if err := call.Decode(service, data, &r); err != nil {
		return nil, err
	}
	if r.Embeddings == nil {
		return nil, call.Unanswered(service, "embeddings", r.Error)
	}
	return counted(service, *r.Embeddings, n)
}

// decodeCohere reads {"embeddings": {"float": [[…], …]}}.
func decodeCohere(service string, data []byte, n int) ([]json.RawMessage, error) {
	var r struct {
		Embeddings *struct {
			Float *[]json.RawMessage `json:"float"`
		} `json:"embeddings"`
		Message json.RawMessage `json:"message"`
	}
	if err := call.Decode(service, data, &r); err != nil {
		return nil, err
	}
	if r.Embeddings == nil || r.Embeddings.Float == nil {
		return nil, call.Unanswered(service, "embeddings.float", r.Message)
	}
	return counted(service, *r.Embeddings.Float, n)
}

// decodeTEI reads [[…], …].
func decodeTEI(service string, data []byte, n int) ([]json.RawMessage, error) {
	var r []json.RawMessage
	if err := call.Decode(service, data, &r); err != nil {
		return nil, err
	}
	return counted(service, r, n)
}

func counted(service string, items []json.RawMessage, n int) ([]json.RawMessage, error) {
	if len(items) != n {
		return nil, call.Replyf(service, "%d embeddings for %d texts", len(items), n)
	}
	return items, nil
}

// A TextError is an error of one text.
type TextError struct {
	// Index of the text in the call's list.
	Index int
	// Err is what is wrong with it.
	Err error
}

func (e *TextError) Error() string { return fmt.Sprintf("text %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *TextError) Unwrap() error { return e.Err }

// TextIndex returns Index.
func (e *TextError) TextIndex() int { return e.Index }

// AtText returns the same error of text index: for callers who sent on only a
// part of their texts.
func (e *TextError) AtText(index int) error { return &TextError{index, e.Err} }
