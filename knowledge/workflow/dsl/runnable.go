package dsl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/quarrysearch/quarry/knowledge/workflow"
)

// The types of nodes that these files have and package workflow calls
// otherwise; and of notes, which nothing runs.
const (
	startType = "start"
	endType   = "end"
	noteType  = "custom-note"
)

// plainHandle is the side of a node that an edge without a condition leaves by.
const plainHandle = "source"

// Load reads a definition of either kind and makes it ready to run: one of this
// package, or the JSON of package workflow.
func Load(data []byte) (*workflow.Workflow, error) {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' && len(data) <= MaxBytes {
		root, err := readJSON(data)
		if err != nil {
			return nil, err
		}
		if field(root, "nodes") != nil && field(root, "workflow") == nil {
			return workflow.Parse(data)
		}
	}
	d, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return d.Workflow()
}

// Workflow makes the graph ready to run. A node that this engine does not run as
// it is written is an error that names it and matches workflow.ErrUnsupported;
// a wrong config is a *workflow.ConfigError with the place in the definition.
func (d *Document) Workflow() (*workflow.Workflow, error) {
	var out bytes.Buffer
	out.WriteString(`{"name":`)
	name := d.name
	if strings.TrimSpace(name) == "" {
		name = "workflow"
	}
	appendText(&out, name)
	out.WriteString(`,"nodes":[`)
	var run []*graphNode
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.kind == noteType {
			continue
		}
		if len(run) > 0 {
			out.WriteByte(',')
		}
		run = append(run, n)
		if err := n.write(&out); err != nil {
			return nil, err
		}
	}
	out.WriteString(`],"edges":[`)
	for i, e := range d.edges {
		if e.handle != "" && e.handle != plainHandle {
			return nil, unsupported(e.at, "the edge from %q to %q leaves by %q", e.source, e.target, e.handle)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(`{"from":`)
		appendText(&out, e.source)
		out.WriteString(`,"to":`)
		appendText(&out, e.target)
		out.WriteByte('}')
	}
	out.WriteString(`]}`)
	w, err := workflow.Parse(out.Bytes())
	var c *workflow.ConfigError
	if errors.As(err, &c) {
		return nil, place(c, run)
	}
	return w, err
}

func unsupported(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%w: definition line %d, column %d: %s", workflow.ErrUnsupported, n.Line, n.Column, fmt.Sprintf(format, args...))
}

// place gives an error of the JSON made here the place in the definition.
func place(c *workflow.ConfigError, nodes []*graphNode) *workflow.ConfigError {
	moved := *c
	var i int
	if n, _ := fmt.Sscanf(c.Path, "nodes[%d]", &i); n != 1 || i < 0 || i >= len(nodes) {
		moved.Path, moved.Line, moved.Column = "workflow.graph", 1, 1
		if c.Path != "" {
			moved.Reason = c.Path + ": " + c.Reason
		}
		return &moved
	}
	n := nodes[i]
	_, rest, _ := strings.Cut(c.Path, "]")
	moved.Path = fmt.Sprintf("node %q", n.id) + strings.Replace(rest, ".config", ".data", 1)
	moved.Line, moved.Column = n.data.Line, n.data.Column
	return &moved
}

// write writes a node as package workflow has it.
func (n *graphNode) write(out *bytes.Buffer) error {
	kind, config := n.kind, n.passed
	switch n.kind {
	case startType:
		kind, config = workflow.TypeStart, n.start
	case endType:
		kind, config = workflow.TypeEnd, n.end
	case workflow.TypeRetrieval:
		config = n.retrieval
	case workflow.TypeDataset, workflow.TypeStart, workflow.TypeEnd, workflow.TypeSearch, workflow.TypeRerank, workflow.TypeAISearch, workflow.TypeAgent:
	default:
		return unsupported(n.data, "node %q has the type %q", n.id, n.kind)
	}
	c, err := config()
	if err != nil {
		return err
	}
	out.WriteString(`{"id":`)
	appendText(out, n.id)
	out.WriteString(`,"type":`)
	appendText(out, kind)
	out.WriteString(`,"config":`)
	if err := appendJSON(out, c); err != nil {
		return fmt.Errorf("node %q: %w", n.id, err)
	}
	out.WriteByte('}')
	return nil
}

// passed is the data without what every node has: where it stands, how it is
// called. What would make the node run otherwise is unsupported.
func (n *graphNode) passed() (*yaml.Node, error) {
	out := mapping()
	for i := 0; i+1 < len(n.data.Content); i += 2 {
		key, value := n.data.Content[i], target(n.data.Content[i+1])
		switch key.Value {
		case "type", "title", "desc", "selected", "height", "width", "version":
			continue
		case "error_strategy":
			if null(value) || value.Value == "none" {
				continue
			}
			return nil, unsupported(key, "node %q has an error strategy", n.id)
		case "retry_config":
			if enabled := field(value, "retry_enabled"); enabled == nil || enabled.Value != "true" {
				continue
			}
			return nil, unsupported(key, "node %q retries", n.id)
		case "isInIteration", "isInLoop":
			if value.Value != "true" {
				continue
			}
			return nil, unsupported(key, "node %q is part of an iteration or a loop", n.id)
		}
		if !strings.HasPrefix(key.Value, "_") {
			out.Content = append(out.Content, key, value)
		}
	}
	return out, nil
}

func mapping(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: content}
}

func null(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!null" || n.Value == "")
}

// retrieval renames what has another name here, and leaves out what is null.
func (n *graphNode) retrieval() (*yaml.Node, error) {
	all, err := n.passed()
	if err != nil {
		return nil, err
	}
	out := mapping()
	for i := 0; i+1 < len(all.Content); i += 2 {
		key, value := all.Content[i], all.Content[i+1]
		switch {
		case null(value):
			continue
		case key.Value == "query_attachment_selector":
			if len(value.Content) > 0 {
				return nil, unsupported(key, "node %q takes an attachment", n.id)
			}
			continue
		case key.Value == "metadata_filters":
			value = filters(value)
		}
		out.Content = append(out.Content, key, value)
	}
	return out, nil
}

// filterNames are filters that have another name in a definition, in either
// style of names.
var filterNames = [...][2]string{
	{"createdAfter", "created_after"}, {"createdBefore", "created_before"}, {"documentTypes", "document_types"},
	{"freshness_statuses", "freshness"}, {"freshnessStatuses", "freshness"}, {"nodeKinds", "node_kinds"}, {"sourceIds", "source_ids"},
}

// filters renames filters and leaves out those that are null.
func filters(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return n
	}
	out := mapping()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], target(n.Content[i+1])
		if null(value) {
			continue
		}
		if j := slices.IndexFunc(filterNames[:], func(names [2]string) bool { return names[0] == key.Value }); j >= 0 {
			key = textNode(filterNames[j][1])
		}
		out.Content = append(out.Content, key, value)
	}
	return out
}

// start wants the variables that are required.
func (n *graphNode) start() (*yaml.Node, error) {
	names := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if list := field(n.data, "variables"); list != nil {
		for _, v := range list.Content {
			if required := field(v, "required"); required != nil && required.Value == "true" {
				names.Content = append(names.Content, textNode(text(v, "variable")))
			}
		}
	}
	return mapping(textNode("variables"), names), nil
}

// end gives each output its selector.
func (n *graphNode) end() (*yaml.Node, error) {
	outputs := mapping()
	if list := field(n.data, "outputs"); list != nil {
		for _, o := range list.Content {
			selector := field(o, "value_selector")
			if selector == nil {
				return nil, errorAt(o, "an output of node %q has no value_selector", n.id)
			}
			outputs.Content = append(outputs.Content, textNode(text(o, "variable")), selector)
		}
	}
	return mapping(textNode("outputs"), outputs), nil
}
