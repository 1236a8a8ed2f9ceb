package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// sparseKey is the nested object whose keys are sparse fields.
const sparseKey = "sparse"

// metadataKey is the nested object whose keys are metadata without being named.
const metadataKey = "metadata"

// A Mapping says where a document's parts stand in a JSON object. A key is
// looked up as it is written, then with dots as a path into nested objects.
type Mapping struct {
	// ID is the key of the id, a string or an integer. "_id" is read where
	// "id" is asked for and missing, as BEIR has it.
	ID string
	// Text are keys of text fields: strings, or lists of strings, which are
	// joined by newlines.
	Text []string
	// Vectors are the keys of vectors given as lists of numbers.
	Vectors []string
	// Rows are vectors given as files: row i belongs to line i, both from 0,
	// counted over all sources.
	Rows map[string]bench.Matrix[float32]
	// Sparse are sparse fields, taken from the object "sparse" or else from the top
	// level: weights by term, {"12": 0.5}, or {"indices": [12], "values": [0.5]}.
	Sparse []string
	// Meta are metadata fields to take from the top level, or else from the
	// object "metadata". Types are optional; filter.Undeclared takes the type
	// first seen.
	Meta []MetaField
	// AllMeta takes everything in the object "metadata"; nested objects become
	// fields with dots in their names.
	AllMeta bool
	// Encoded are metadata fields that stand as JSON inside a string.
	Encoded []EncodedField
}

// A MetaField is a metadata field and its type.
type MetaField struct {
	Name string
	Type filter.Type
}

// An EncodedField is a metadata field whose value is the JSON in the string at
// a key.
type EncodedField struct{ Name, Key string }

// Document makes the document of one line; row is the line's number over all
// sources, from 0.
func (m *Mapping) Document(line []byte, row int) (index.Document, error) {
	return m.document(new(objectParser), line, row)
}

func (m *Mapping) document(p *objectParser, line []byte, row int) (index.Document, error) {
	var d index.Document
	object, err := p.object(line)
	if err != nil {
		return d, err
	}
	if d.ID, err = m.id(object); err != nil {
		return d, err
	}
	if d.Text, err = m.text(object); err != nil {
		return d, err
	}
	if d.Vectors, err = m.vectors(object, row); err != nil {
		return d, err
	}
	if d.Sparse, err = m.sparse(object); err != nil {
		return d, err
	}
	d.Meta, err = m.meta(object)
	return d, err
}

// lookup finds a key as it is, or as a path.
func lookup(object map[string]any, key string) (any, bool) {
	if v, ok := object[key]; ok {
		return v, true
	}
	for i := range len(key) {
		if key[i] != '.' {
			continue
		}
		if inner, ok := object[key[:i]].(map[string]any); ok {
			if v, ok := lookup(inner, key[i+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

func (m *Mapping) id(object map[string]any) (string, error) {
	v, ok := lookup(object, m.ID)
	if !ok && m.ID == "id" {
		v, ok = object["_id"]
	}
	if !ok {
		return "", fmt.Errorf("no id: key %q is missing", m.ID)
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return v.String(), nil
		}
	}
	return "", fmt.Errorf("id: key %q is %s, want a string or an integer", m.ID, kind(v))
}

func (m *Mapping) text(object map[string]any) (map[string]string, error) {
	out := make(map[string]string, len(m.Text))
	for _, key := range m.Text {
		v, ok := lookup(object, key)
		if !ok || v == nil {
			continue
		}
		switch v := v.(type) {
		case string:
			out[key] = v
			continue
		case []any:
			if s, ok := joinStrings(v); ok {
				out[key] = s
				continue
			}
		}
		return nil, fmt.Errorf("text field %q is %s, want a string or a list of strings", key, kind(v))
	}
	return out, nil
}

func joinStrings(list []any) (string, bool) {
	parts := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return "", false
		}
		parts[i] = s
	}
	return strings.Join(parts, "\n"), true
}

func (m *Mapping) vectors(object map[string]any, row int) (map[string][]float32, error) {
	if len(m.Vectors)+len(m.Rows) == 0 {
		return nil, nil
	}
	out := make(map[string][]float32, len(m.Vectors)+len(m.Rows))
	for _, key := range m.Vectors {
		v, ok := lookup(object, key)
		if !ok || v == nil {
			continue
		}
		list, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("vector field %q is %s, want a list of numbers", key, kind(v))
		}
		vector := make([]float32, len(list))
		for i, x := range list {
			n, ok := x.(json.Number)
			if !ok {
				return nil, fmt.Errorf("vector field %q: component %d is %s, want a number", key, i, kind(x))
			}
			f, err := n.Float64()
			if err != nil || math.Abs(f) > math.MaxFloat32 {
				return nil, fmt.Errorf("vector field %q: component %d: %s is beyond float32", key, i, n)
			}
			vector[i] = float32(f)
		}
		out[key] = vector
	}
	for name, rows := range m.Rows {
		if row >= rows.Rows() {
			return nil, fmt.Errorf("vector field %q: its file has %d rows, this is line %d", name, rows.Rows(), row+1)
		}
		out[name] = rows.Row(row)
	}
	return out, nil
}

func (m *Mapping) sparse(object map[string]any) (map[string]sparse.Vector, error) {
	nested, _ := object[sparseKey].(map[string]any)
	var out map[string]sparse.Vector
	for _, key := range m.Sparse {
		v, ok := nested[key]
		if !ok {
			v, ok = lookup(object, key)
		}
		if !ok || v == nil {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("sparse field %q: %w", key, err)
		}
		var vector sparse.Vector
		if err := vector.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("sparse field %q: %w", key, err)
		}
		if out == nil {
			out = make(map[string]sparse.Vector, len(m.Sparse))
		}
		out[key] = vector
	}
	return out, nil
}

func (m *Mapping) meta(object map[string]any) (map[string]any, error) {
	out := make(map[string]any)
	nested, _ := object[metadataKey].(map[string]any)
	if v, ok := object[metadataKey]; ok && v != nil && nested == nil && m.AllMeta {
		return nil, fmt.Errorf("%q is %s, want an object", metadataKey, kind(v))
	}
	if m.AllMeta {
		if err := flatten(out, "", nested); err != nil {
			return nil, err
		}
	}
	for _, f := range m.Meta {
		v, ok := lookup(object, f.Name)
		if !ok {
			v, ok = lookup(nested, f.Name)
		}
		if !ok {
			continue
		}
		if inner, ok := v.(map[string]any); ok {
			return nil, fmt.Errorf("metadata field %q is %s: name the keys in it (%s.KEY)", f.Name, kind(inner), f.Name)
		}
		out[f.Name] = v
	}
	for _, f := range m.Encoded {
		v, ok := lookup(object, f.Key)
		if !ok || v == nil {
			continue
		}
		value, err := decodeString(v)
		if err != nil {
			return nil, fmt.Errorf("metadata field %q, key %q: %w", f.Name, f.Key, err)
		}
		out[f.Name] = value
	}
	return out, nil
}

// flatten puts the leaves of nested objects under their paths.
func flatten(out map[string]any, prefix string, object map[string]any) error {
	for k, v := range object {
		if inner, ok := v.(map[string]any); ok {
			if err := flatten(out, prefix+k+".", inner); err != nil {
				return err
			}
			continue
		}
		if _, twice := out[prefix+k]; twice {
			return fmt.Errorf("metadata field %q is there twice, once with dots", prefix+k)
		}
		out[prefix+k] = v
	}
	return nil
}

// decodeString reads the JSON in a string.
func decodeString(v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("is %s, want a string that holds JSON", kind(v))
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	if strings.TrimSpace(s[dec.InputOffset():]) != "" {
		return nil, errors.New("has more after its JSON")
	}
	if _, ok := out.(map[string]any); ok {
		return nil, errors.New("holds an object, want a value or a list")
	}
	return out, nil
}

// kind names the type of a JSON value for messages.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}
