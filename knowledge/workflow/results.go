package workflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// Results is what a search or a reranker node writes. Its JSON is the array of
// the items, [] when there are none; a node further on also sees the rest.
type Results struct {
	// Query is the text that was searched for; a reranker node uses it.
	Query string
	// Items, best first.
	Items []knowledge.Item
	// Flags tell of degradations, each once: those of the input first.
	Flags []string
	// Notes tell what was done that nobody asked for: bases merged by rank, a
	// query cut.
	Notes []string
	// Errors are failures that an on_error option kept from being one.
	Errors []error
}

// MarshalJSON writes the array of items.
func (r *Results) MarshalJSON() ([]byte, error) {
	if r.len() == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(r.Items)
}

func (r *Results) len() int {
	if r == nil {
		return 0
	}
	return len(r.Items)
}

// resultsOf takes a variable's value for results: those of a node, or a JSON
// array of objects with content and, maybe, score and metadata.
func resultsOf(value any) (*Results, error) {
	switch v := value.(type) {
	case *Results:
		if v == nil {
			return &Results{}, nil
		}
		return v, nil
	case []knowledge.Item:
		return &Results{Items: v}, nil
	case *Retrieval:
		return v.results(), nil
	case []space.Evidence:
		return (&Retrieval{Result: v}).results(), nil
	case []any:
		r := &Results{Items: make([]knowledge.Item, len(v))}
		for i, e := range v {
			it, err := itemOf(e)
			if err != nil {
				return nil, storage.Invalidf("item %d: %v", i, err)
			}
			r.Items[i] = it
		}
		return r, nil
	}
	return nil, storage.Invalidf("it is %s, want search results", describe(value))
}

// itemOf reads an item from decoded JSON.
func itemOf(value any) (it knowledge.Item, err error) {
	m, ok := value.(map[string]any)
	if !ok {
		return it, fmt.Errorf("it is %s, want an object", describe(value))
	}
	if _, ok := m["content"].(string); !ok {
		return it, fmt.Errorf("content is %s, want text", describe(m["content"]))
	}
	b, err := json.Marshal(m)
	if err != nil {
		return it, err
	}
	if err := json.Unmarshal(b, &it); err != nil {
		return it, err
	}
	if !(it.Score >= 0 && it.Score <= 1) {
		return it, fmt.Errorf("score is %v, want 0 to 1", it.Score)
	}
	// What quarry has no name for is kept under meta.
	meta, _ := m["metadata"].(map[string]any)
	var known map[string]any
	if b, err = json.Marshal(it.Metadata); err == nil {
		err = json.Unmarshal(b, &known)
	}
	for key, v := range meta {
		if _, ok := known[key]; ok || isZero(v) {
			continue
		}
		if it.Metadata.Meta == nil {
			it.Metadata.Meta = make(map[string]any)
		}
		it.Metadata.Meta[key] = v
	}
	return it, err
}

// isZero tells that a value may be missing from JSON because it is a zero
// value that is left out.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// union adds flags that are not there yet.
func union(flags []string, more ...string) []string {
	out := slices.Clone(flags)
	for _, f := range more {
		if f != "" && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
