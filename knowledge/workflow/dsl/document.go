package dsl

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

// A Format is how a definition is written.
type Format string

// The formats.
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// Limits of definitions.
const (
	// MaxBytes bounds a definition, read or written.
	MaxBytes = workflow.MaxWorkflowBytes
	// MaxDepth bounds the nesting of values.
	MaxDepth = 64
	// MaxValues bounds the values, keys included, with aliases written out.
	MaxValues = 200_000
	// MaxNodes and MaxEdges bound the graph.
	MaxNodes = 1000
	MaxEdges = 5000
)

// A Document is a definition that was read. It is immutable.
type Document struct {
	source []byte
	format Format
	root   *yaml.Node // a mapping
	nodes  []graphNode
	edges  []graphEdge
	name   string
}

// graphNode is a node of the graph.
type graphNode struct {
	id, kind, title string
	data            *yaml.Node // a mapping
}

type graphEdge struct {
	source, target, handle string
	at                     *yaml.Node
}

// A Node tells of a node of a Document.
type Node struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title,omitempty"`
}

// Parse reads a definition: JSON when it starts with a brace, else YAML. Errors
// match storage.ErrInvalid or storage.ErrTooLarge and name line and column.
func Parse(data []byte) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: definition of %d bytes, at most %d", storage.ErrTooLarge, len(data), MaxBytes)
	}
	if !utf8.Valid(data) {
		return nil, storage.Invalidf("definition: it is no UTF-8")
	}
	d := &Document{source: bytes.Clone(data), format: YAML}
	var err error
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		d.format = JSON
		d.root, err = readJSON(data)
	} else {
		d.root, err = readYAML(data)
	}
	if err == nil {
		err = d.graph()
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Format returns the format that the definition was read in.
func (d *Document) Format() Format { return d.format }

// Name returns the name of the app, "" when it has none.
func (d *Document) Name() string { return d.name }

// Nodes returns the nodes of the graph in their order.
func (d *Document) Nodes() []Node {
	out := make([]Node, len(d.nodes))
	for i, n := range d.nodes {
		out[i] = Node{n.id, n.kind, n.title}
	}
	return out
}

// Export writes the definition: in the format it was read in, its bytes; see the
// package comment for the other one.
func (d *Document) Export(f Format) ([]byte, error) {
	if f == d.format {
		return bytes.Clone(d.source), nil
	}
	return write(d.root, f)
}

// write writes a tree and reads it back.
func write(root *yaml.Node, f Format) (out []byte, err error) {
	switch f {
	case JSON:
		out, err = writeJSON(root)
	case YAML:
		out, err = writeYAML(root)
	default:
		return nil, storage.Invalidf("format %q: want %s or %s", f, YAML, JSON)
	}
	if err != nil {
		return nil, err
	}
	if len(out) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes as %s, at most %d", storage.ErrTooLarge, len(out), f, MaxBytes)
	}
	again, err := Parse(out)
	if err != nil {
		return nil, fmt.Errorf("the definition cannot be written as %s: %w", f, err)
	}
	if !equal(root, again.root) {
		return nil, storage.Invalidf("the definition cannot be written as %s: a value comes back changed", f)
	}
	return out, nil
}

// errorAt makes an error of a place.
func errorAt(n *yaml.Node, format string, args ...any) error {
	return storage.Invalidf("definition line %d, column %d: %s", n.Line, n.Column, fmt.Sprintf(format, args...))
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// field returns the value of a key of a mapping, nil when it has none.
func field(mapping *yaml.Node, key string) *yaml.Node {
	mapping = target(mapping)
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return target(mapping.Content[i+1])
		}
	}
	return nil
}

// text returns the text of a key, "" when it has none.
func text(mapping *yaml.Node, key string) string {
	if n := field(mapping, key); n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		return n.Value
	}
	return ""
}

// graph finds nodes and edges.
func (d *Document) graph() error {
	if kind := text(d.root, "kind"); kind != "app" {
		return errorAt(d.root, "kind is %.40q, want app", kind)
	}
	d.name = text(field(d.root, "app"), "name")
	graph := field(field(d.root, "workflow"), "graph")
	if graph == nil || graph.Kind != yaml.MappingNode {
		return errorAt(d.root, "there is no workflow.graph")
	}
	nodes, edges := field(graph, "nodes"), field(graph, "edges")
	if nodes == nil || nodes.Kind != yaml.SequenceNode || len(nodes.Content) == 0 {
		return errorAt(graph, "workflow.graph.nodes: want a list of nodes")
	}
	if len(nodes.Content) > MaxNodes {
		return fmt.Errorf("%w: %d nodes, at most %d", storage.ErrTooLarge, len(nodes.Content), MaxNodes)
	}
	seen := make(map[string]bool, len(nodes.Content))
	for _, n := range nodes.Content {
		n = target(n)
		g := graphNode{id: text(n, "id"), data: field(n, "data")}
		switch {
		case g.id == "":
			return errorAt(n, "a node has no id")
		case seen[g.id]:
			return errorAt(n, "the node id %.80q comes twice", g.id)
		case g.data == nil || g.data.Kind != yaml.MappingNode:
			return errorAt(n, "node %.80q has no data", g.id)
		}
		seen[g.id] = true
		g.kind, g.title = text(g.data, "type"), text(g.data, "title")
		if outer := text(n, "type"); outer == noteType {
			g.kind = noteType
		}
		d.nodes = append(d.nodes, g)
	}
	if edges == nil {
		return nil
	}
	if edges.Kind != yaml.SequenceNode {
		return errorAt(edges, "workflow.graph.edges: want a list")
	}
	if len(edges.Content) > MaxEdges {
		return fmt.Errorf("%w: %d edges, at most %d", storage.ErrTooLarge, len(edges.Content), MaxEdges)
	}
	for _, n := range edges.Content {
		n = target(n)
		e := graphEdge{text(n, "source"), text(n, "target"), text(n, "sourceHandle"), n}
		if !seen[e.source] || !seen[e.target] {
			return errorAt(n, "an edge leads from %.80q to %.80q, which are not both nodes", e.source, e.target)
		}
		d.edges = append(d.edges, e)
	}
	return nil
}

// find returns a node by its id.
func (d *Document) find(id string) (*graphNode, bool) {
	i := slices.IndexFunc(d.nodes, func(n graphNode) bool { return n.id == id })
	if i < 0 {
		return nil, false
	}
	return &d.nodes[i], true
}
