package rerank

import (
	"encoding/json"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
)

// A shape is what tells one provider's requests and replies from another's.
type shape struct {
	name, base, path, keyEnv string
	passages                 int // of one request
	scale                    Scale
	request                  func(o *Options, query string, texts []string, topN int) map[string]any
	decode                   func(service string, data []byte) ([]item, error)
}

// shapes is indexed by Provider.
var shapes = [...]shape{
	Cohere: {
		name: "cohere", base: "https://api.cohere.com", path: "/v2/rerank", keyEnv: "CO_API_KEY",
		passages: 1000, scale: ScaleUnit, request: cohereRequest, decode: decodeResults,
	},
	Jina: {
		name: "jina", base: "https://api.jina.ai/v1", path: "/rerank", keyEnv: "JINA_API_KEY",
		passages: 1000, scale: ScaleUnit, request: jinaRequest, decode: decodeResults,
	},
	Voyage: {
		name: "voyage", base: "https://api.voyageai.com/v1", path: "/rerank", keyEnv: "VOYAGE_API_KEY",
		passages: 1000, scale: ScaleUnit, request: voyageRequest, decode: decodeData,
	},
	TEI: {
		name: "tei", base: "http://localhost:8080", path: "/rerank",
		passages: 32, scale: ScaleLogit, request: teiRequest, decode: decodeList,
	},
}

// An item is one scored passage as services write it.
type item struct {
	Index *int
	Score *float64
}

func cohereRequest(o *Options, query string, texts []string, topN int) map[string]any {
	return map[string]any{"model": o.Model, "query": query, "documents": texts, "top_n": topN}
}

func jinaRequest(o *Options, query string, texts []string, topN int) map[string]any {
	m := cohereRequest(o, query, texts, topN)
	m["return_documents"] = false
	return m
}

func voyageRequest(o *Options, query string, texts []string, topN int) map[string]any {
	return map[string]any{
		"model": o.Model, "query": query, "documents": texts, "top_k": topN,
		"return_documents": false, "truncation": o.Truncate,
	}
}

// teiRequest asks for logits unless the caller says that the model has none:
// the server's own sigmoid is not applied by all its versions and models.
func teiRequest(o *Options, query string, texts []string, _ int) map[string]any {
	return map[string]any{
		"query": query, "texts": texts, "return_text": false, "truncate": o.Truncate,
		"raw_scores": o.Scale == ScaleLogit,
	}
}

type relevance struct {
	Index *int     `json:"index"`
	Score *float64 `json:"relevance_score"`
}

func items(list []relevance) []item {
	out := make([]item, len(list))
	for i, r := range list {
		out[i] = item(r)
	}
	return out
}

// decodeResults reads {"results": [{"index": i, "relevance_score": x}, …]}.
func decodeResults(service string, data []byte) ([]item, error) {
	var r struct {
		Results *[]relevance    `json:"results"`
		Error   json.RawMessage `json:"error"`
	}
	if err := call.Decode(service, data, &r); err != nil {
		return nil, err
	}
	if r.Results == nil {
		return nil, call.Unanswered(service, "results", r.Error)
	}
	return items(*r.Results), nil
}

// decodeData reads {"data": [{"index": i, "relevance_score": x}, …]}.
func decodeData(service string, data []byte) ([]item, error) {
	var r struct {
		Data  *[]relevance    `json:"data"`
		Error json.RawMessage `json:"error"`
	}
	if err := call.Decode(service, data, &r); err != nil {
		return nil, err
	}
	if r.Data == nil {
		return nil, call.Unanswered(service, "data", r.Error)
	}
	return items(*r.Data), nil
}

// decodeList reads [{"index": i, "score": x}, …].
func decodeList(service string, data []byte) ([]item, error) {
	var list []struct {
		Index *int     `json:"index"`
		Score *float64 `json:"score"`
	}
	if err := call.Decode(service, data, &list); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, call.Replyf(service, "null, want a list")
	}
	out := make([]item, len(list))
	for i, r := range list {
		out[i] = item(r)
	}
	return out, nil
}
