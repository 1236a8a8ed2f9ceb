package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// Vars is a workflow context: variables by name, as nodes read and write them.
// A value is what encoding/json decodes, a []string, or what a node wrote. One
// goroutine at a time uses a Vars. The zero Vars is empty; a nil *Vars is empty and
// for reading only.
type Vars struct {
	m       map[string]any
	written []string // names, in the order of their Sets
	results *Results // the last ones written
}

// NewVars returns a context that holds a copy of the map, not of the values in
// it. A name that no template could name is an error matching
// storage.ErrInvalid.
func NewVars(values map[string]any) (*Vars, error) {
	v := &Vars{m: make(map[string]any, len(values))}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := v.Set(name, values[name]); err != nil {
			return nil, err
		}
	}
	v.written, v.results = nil, nil
	return v, nil
}

// Set writes a variable.
func (v *Vars) Set(name string, value any) error {
	if err := checkName(name); err != nil {
		return err
	}
	switch r := value.(type) {
	case *Results:
		v.results = r
	case *Retrieval:
		v.results = r.results()
	}
	if v.m == nil {
		v.m = make(map[string]any)
	}
	v.m[name] = value
	v.written = append(v.written, name)
	return nil
}

// Get returns the value of a variable.
func (v *Vars) Get(name string) (value any, ok bool) {
	if v == nil {
		return nil, false
	}
	value, ok = v.m[name]
	return value, ok
}

// Lookup returns what a path such as "search_results.0.metadata.source" leads
// to: objects by key, arrays by index from 0. The error matches
// storage.ErrInvalid and names the part of the path that leads nowhere.
func (v *Vars) Lookup(path string) (any, error) {
	segments, reason := parsePath(path)
	if reason != "" {
		return nil, storage.Invalidf("path %q: %s", clip(path, 80), reason)
	}
	value, err := v.lookup(segments)
	if err != nil {
		return nil, storage.Invalidf("path %q: %v", clip(path, 80), err)
	}
	return value, nil
}

func (v *Vars) lookup(path []string) (any, error) {
	value, ok := v.Get(path[0])
	if !ok {
		return nil, errors.New("unknown variable " + path[0])
	}
	for i, segment := range path[1:] {
		child, ok := child(value, segment)
		if !ok {
			return nil, fmt.Errorf("%s is %s and has no %q", strings.Join(path[:i+1], "."), describe(value), segment)
		}
		value = child
	}
	return value, nil
}

// child steps into a value.
func child(value any, segment string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		c, ok := v[segment]
		return c, ok
	case map[string]string:
		c, ok := v[segment]
		return c, ok
	case []any:
		return element(v, segment)
	case []string:
		return element(v, segment)
	case *Results:
		if v == nil {
			return nil, false
		}
		return element(v.Items, segment)
	case []knowledge.ContextSource:
		return element(v, segment)
	case *AISearchResult:
		if v == nil {
			return nil, false
		}
		if v.Err != nil {
			return v.Err.Error(), segment == "error"
		}
		return element(v.Passages, segment)
	case knowledge.Item:
		return itemChild(v, segment)
	case *Retrieval:
		if v != nil && segment == "result" {
			return v.Result, true
		}
	case []space.Evidence:
		return element(v, segment)
	case nil, bool, string, float64, int, int64, json.Number:
		return nil, false
	}
	return recoded(value, segment)
}

func element[T any](list []T, segment string) (any, bool) {
	i, err := strconv.Atoi(segment)
	if err != nil || i < 0 || i >= len(list) || strconv.Itoa(i) != segment {
		return nil, false
	}
	return list[i], true
}

// itemChild does not recode the content, which may be long.
func itemChild(it knowledge.Item, segment string) (any, bool) {
	switch segment {
	case "content":
		return it.Content, true
	case "score":
		return it.Score, true
	case "metadata":
		return it.Metadata, true
	}
	it.Content = ""
	return recoded(it, segment)
}

// recoded steps into a struct by the names of its JSON.
func recoded(value any, segment string) (any, bool) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, false
	}
	var plain any
	if json.Unmarshal(b, &plain) != nil {
		return nil, false
	}
	switch plain.(type) {
	case map[string]any, []any:
		return child(plain, segment)
	}
	return nil, false
}

// describe names the kind of a value, for messages: never the value, which may
// be long, or private.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return kindNull
	case string:
		return kindText
	case bool:
		return kindBoolean
	case float64, float32, int, int64, uint64, json.Number:
		return kindNumber
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case []string:
		return fmt.Sprintf("an array of %d", len(v))
	case *Results:
		return fmt.Sprintf("an array of %d results", v.len())
	case []knowledge.ContextSource:
		return fmt.Sprintf("an array of %d", len(v))
	case *AISearchResult:
		return "the result of an AI search"
	case []space.Evidence:
		return fmt.Sprintf("an array of %d pieces of evidence", len(v))
	}
	return kindObject
}
