package dsl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/quarrysearch/quarry/storage"
)

// readYAML reads one document whose root is a mapping.
func readYAML(data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, storage.Invalidf("definition: it is empty")
		}
		return nil, storage.Invalidf("definition: %v", err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, storage.Invalidf("definition: more than one document")
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, storage.Invalidf("definition: want a mapping")
	}
	root := doc.Content[0]
	root.HeadComment = joinComments(doc.HeadComment, root.HeadComment)
	root.FootComment = joinComments(root.FootComment, doc.FootComment)
	c := checker{left: MaxValues}
	return root, c.check(root, 0)
}

// joinComments puts the comments of a document to its root.
func joinComments(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + "\n\n" + b
}

// A checker holds a tree to the limits.
type checker struct{ left int }

// check counts values, an alias as what it stands for, and looks at keys.
func (c *checker) check(n *yaml.Node, depth int) error {
	switch c.left--; {
	case c.left < 0:
		return fmt.Errorf("%w: more than %d values, aliases written out", storage.ErrTooLarge, MaxValues)
	case depth > MaxDepth:
		return fmt.Errorf("%w: line %d, column %d: nested more than %d deep", storage.ErrTooLarge, n.Line, n.Column, MaxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		if n.Alias == nil {
			return errorAt(n, "an alias leads nowhere")
		}
		return c.check(n.Alias, depth+1)
	case yaml.MappingNode:
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Kind != yaml.ScalarNode:
				return errorAt(key, "a key is no scalar")
			case key.ShortTag() == "!!merge":
				return errorAt(key, "merge keys are not supported")
			case seen[key.Value]:
				return errorAt(key, "the key %.40q comes twice", key.Value)
			}
			seen[key.Value] = true
		}
	}
	for _, child := range n.Content {
		if err := c.check(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// writeYAML writes a tree as the encoder does, in the layout that these files
// have: two spaces, lists not indented.
func writeYAML(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(root); err != nil {
		return nil, storage.Invalidf("definition: %v", err)
	}
	if err := e.Close(); err != nil {
		return nil, storage.Invalidf("definition: %v", err)
	}
	return out.Bytes(), nil
}

// textNode makes a scalar of a text in a style that gives it back: a block for
// several plain lines, quotes for what has control characters or odd white
// space.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	odd := strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
	lines := strings.Contains(s, "\n")
	switch {
	case odd, s == "", strings.TrimSpace(s) != strings.TrimSuffix(s, "\n"), lines && strings.Contains(s, " \n"):
		n.Style = yaml.DoubleQuotedStyle
	case lines:
		n.Style = yaml.LiteralStyle
	}
	return n
}
