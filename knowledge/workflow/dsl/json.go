package dsl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/quarrysearch/quarry/storage"
)

// A jsonReader makes the same tree of JSON that the YAML decoder makes of YAML.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	at   int // a byte, and its line and column, from 1
	line int
	col  int
	left int // values
}

// readJSON reads one object that fills data.
func readJSON(data []byte) (*yaml.Node, error) {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1, col: 1, left: MaxValues}
	r.dec.UseNumber()
	root, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, storage.Invalidf("definition: something follows the object")
	}
	return root, nil
}

// node makes a node of the place where the next token starts.
func (r *jsonReader) node(kind yaml.Kind, tag, value string, off int) *yaml.Node {
	for ; r.at < off; r.at++ {
		switch c := r.data[r.at]; {
		case c == '\n':
			r.line, r.col = r.line+1, 1
		case utf8.RuneStart(c):
			r.col++
		}
	}
	return &yaml.Node{Kind: kind, Tag: tag, Value: value, Line: r.line, Column: r.col}
}

// next is the offset of the token that comes next.
func (r *jsonReader) next() int {
	off := int(r.dec.InputOffset())
	for off < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[off]) >= 0 {
		off++
	}
	return off
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	off := r.next()
	t, err := r.dec.Token()
	if err != nil {
		return nil, errorAt(r.node(0, "", "", off), "no JSON: %v", err)
	}
	switch r.left--; {
	case r.left < 0:
		return nil, fmt.Errorf("%w: more than %d values", storage.ErrTooLarge, MaxValues)
	case depth > MaxDepth:
		return nil, fmt.Errorf("%w: byte %d: nested more than %d deep", storage.ErrTooLarge, off, MaxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return r.object(r.node(yaml.MappingNode, "!!map", "", off), depth)
		}
		return r.array(r.node(yaml.SequenceNode, "!!seq", "", off), depth)
	case string:
		n := textNode(t)
		place := r.node(0, "", "", off)
		n.Line, n.Column = place.Line, place.Column
		return n, nil
	case json.Number:
		tag := "!!int"
		if _, err := t.Int64(); err != nil {
			if _, err := strconv.ParseUint(t.String(), 10, 64); err != nil {
				tag = "!!float"
			}
		}
		return r.node(yaml.ScalarNode, tag, t.String(), off), nil
	case bool:
		return r.node(yaml.ScalarNode, "!!bool", strconv.FormatBool(t), off), nil
	}
	return r.node(yaml.ScalarNode, "!!null", "null", off), nil
}

func (r *jsonReader) object(n *yaml.Node, depth int) (*yaml.Node, error) {
	seen := make(map[string]bool)
	for r.dec.More() {
		key, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if seen[key.Value] {
			return nil, errorAt(key, "the key %.40q comes twice", key.Value)
		}
		seen[key.Value] = true
		if key.Style == yaml.LiteralStyle { // no block can be a key
			key.Style = yaml.DoubleQuotedStyle
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, key, value)
	}
	return n, r.close()
}

func (r *jsonReader) array(n *yaml.Node, depth int) (*yaml.Node, error) {
	for r.dec.More() {
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, value)
	}
	return n, r.close()
}

func (r *jsonReader) close() error {
	if _, err := r.dec.Token(); err != nil {
		return errorAt(r.node(0, "", "", min(r.next(), len(r.data))), "no JSON: %v", err)
	}
	return nil
}

// writeJSON writes a tree, indented by two spaces.
func writeJSON(root *yaml.Node) ([]byte, error) {
	var flat, out bytes.Buffer
	if err := appendJSON(&flat, root); err != nil {
		return nil, err
	}
	if err := json.Indent(&out, flat.Bytes(), "", "  "); err != nil {
		return nil, storage.Invalidf("definition: %v", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// appendJSON writes a value, aliases written out. The checker has bounded both.
func appendJSON(out *bytes.Buffer, n *yaml.Node) error {
	n = target(n)
	if out.Len() > MaxBytes {
		return fmt.Errorf("%w: more than %d bytes of JSON", storage.ErrTooLarge, MaxBytes)
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			out.WriteByte("{,"[min(i, 1)])
			appendText(out, n.Content[i].Value)
			out.WriteByte(':')
			if err := appendJSON(out, n.Content[i+1]); err != nil {
				return err
			}
		}
		if len(n.Content) == 0 {
			out.WriteByte('{')
		}
		out.WriteByte('}')
		return checkTag(n, "!!map")
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := appendJSON(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return checkTag(n, "!!seq")
	}
	s, err := scalar(n)
	out.WriteString(s)
	return err
}

// checkTag refuses a tag of one's own.
func checkTag(n *yaml.Node, want string) error {
	if tag := n.ShortTag(); tag != want {
		return errorAt(n, "JSON has nothing for the tag %.40q", tag)
	}
	return nil
}

func appendText(out *bytes.Buffer, s string) {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can be written
	out.Truncate(out.Len() - 1)
}

// scalar is the JSON of a scalar. A number that is one in JSON keeps its
// digits.
func scalar(n *yaml.Node) (string, error) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		var out bytes.Buffer
		appendText(&out, n.Value)
		return out.String(), nil
	case "!!null":
		return "null", nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return "", errorAt(n, "%v", err)
		}
		return strconv.FormatBool(b), nil
	case "!!int", "!!float":
		if number := json.Number(n.Value); json.Valid([]byte(number)) {
			return n.Value, nil
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return "", errorAt(n, "%v", err)
		}
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return "", errorAt(n, "JSON has no %s", n.Value)
		}
		b, err := json.Marshal(v)
		if err != nil {
			return "", errorAt(n, "%v", err)
		}
		return string(b), nil
	}
	return "", errorAt(n, "JSON has nothing for the tag %.40q", n.ShortTag())
}

// equal tells whether two trees hold the same, whatever their style. A time in
// YAML equals its text, numbers are equal by what JSON makes of them.
func equal(a, b *yaml.Node) bool {
	a, b = target(a), target(b)
	if a.Kind != b.Kind || len(a.Content) != len(b.Content) {
		return false
	}
	if a.Kind != yaml.ScalarNode {
		if a.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(a.Content); i += 2 {
				if a.Content[i].Value != b.Content[i].Value || !equal(a.Content[i+1], b.Content[i+1]) {
					return false
				}
			}
			return true
		}
		return slices.EqualFunc(a.Content, b.Content, equal)
	}
	x, errA := scalar(a)
	y, errB := scalar(b)
	if errA != nil || errB != nil {
		return a.ShortTag() == b.ShortTag() && a.Value == b.Value
	}
	return x == y
}
