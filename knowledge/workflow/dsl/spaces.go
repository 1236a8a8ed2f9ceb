package dsl

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

// spacesKey names the spaces in the data of a knowledge-retrieval-v2 node.
const spacesKey = "control_space_ids"

// A Warning tells what an import leaves to be done. It is no error: the
// definition is imported as it is.
type Warning struct {
	Node    string `json:"node"` // id
	Title   string `json:"title,omitempty"`
	Space   string `json:"space"`
	Message string `json:"message"`
}

func (w Warning) String() string { return w.Message }

// Spaces returns the spaces of all knowledge-retrieval-v2 nodes, each once, in
// the order of the graph.
func (d *Document) Spaces() []string {
	var out []string
	for i := range d.nodes {
		for _, id := range d.nodes[i].spaces() {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// spaces are those of one node, trimmed, each once.
func (n *graphNode) spaces() (out []string) {
	list := field(n.data, spacesKey)
	if n.kind != workflow.TypeRetrieval || list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		id := strings.TrimSpace(target(item).Value)
		if target(item).Kind == yaml.ScalarNode && id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// Missing returns a warning for each space of each node that the workspace does
// not have, in the order of the graph.
func (d *Document) Missing(has func(space string) bool) []Warning {
	var out []Warning
	for i := range d.nodes {
		n := &d.nodes[i]
		for _, id := range n.spaces() {
			if !has(id) {
				out = append(out, Warning{n.id, n.title, id,
					fmt.Sprintf("node %q: the space %q is not in this workspace; choose one before publishing", n.id, id)})
			}
		}
	}
	return out
}

// Unresolved returns the spaces of warnings, each once: what the catalogue keeps
// with the workflow (catalog.Workflow.Unresolved), so that it is not published.
func Unresolved(warnings []Warning) []string {
	var out []string
	for _, w := range warnings {
		if !slices.Contains(out, w.Space) {
			out = append(out, w.Space)
		}
	}
	return out
}

// Select returns the definition with other spaces for one knowledge-retrieval-v2
// node, 1 to catalog.MaxSpaces. Nothing else is changed.
func (d *Document) Select(node string, spaces []string) (*Document, error) {
	n, ok := d.find(node)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: there is no node %.80q", storage.ErrNotFound, node)
	case n.kind != workflow.TypeRetrieval:
		return nil, storage.Invalidf("node %q has the type %q, want %s", node, n.kind, workflow.TypeRetrieval)
	case len(spaces) == 0 || len(spaces) > catalog.MaxSpaces:
		return nil, storage.Invalidf("node %q: %d spaces, want 1 to %d", node, len(spaces), catalog.MaxSpaces)
	}
	again, err := Parse(d.source) // a tree of its own
	if err != nil {
		return nil, err
	}
	n, _ = again.find(node)
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for i, id := range spaces {
		if strings.TrimSpace(id) == "" {
			return nil, storage.Invalidf("node %q: space %d is blank", node, i)
		}
		list.Content = append(list.Content, textNode(id))
	}
	if shared(again.root, n.data) {
		return nil, errorAt(n.data, "the data of node %q is shared by an alias, so one node cannot be changed", node)
	}
	set(n.data, spacesKey, list)
	out, err := write(again.root, d.format)
	if err != nil {
		return nil, err
	}
	return Parse(out)
}

// set sets a key of a mapping, with the comments that the old value had.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			old := mapping.Content[i+1]
			value.HeadComment, value.LineComment, value.FootComment = old.HeadComment, old.LineComment, old.FootComment
			value.Style = old.Style & yaml.FlowStyle
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, textNode(key), value)
}

// shared tells whether an alias leads to a value, or into one that holds it.
func shared(n, value *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return holds(n.Alias, value)
	}
	return slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return shared(c, value) })
}

func holds(n, value *yaml.Node) bool {
	return n == value || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return holds(c, value) })
}
