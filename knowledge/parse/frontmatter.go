package parse

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits of front matter. Aliases count each time they are used.
const (
	maxFrontBytes = 64 << 10
	maxFrontNodes = 10_000
	maxFrontDepth = 16
)

// frontMatter reads the YAML between two --- lines at the start of src into the
// metadata, and returns where the body starts: 0 when there is none.
func (b *builder) frontMatter() int {
	first, rest, ok := strings.Cut(b.src, "\n")
	if !ok || strings.TrimRight(first, " \t\r") != "---" {
		return 0
	}
	start := len(first) + 1
	for off := start; off < len(b.src) && off-start <= maxFrontBytes; {
		line, _, more := strings.Cut(b.src[off:], "\n")
		end := off + len(line)
		if more {
			end++
		}
		if t := strings.TrimRight(line, " \t\r"); t == "---" || t == "..." {
			return b.yaml(b.src[start:off], end)
		}
		off = end
	}
	if strings.Contains(rest[:min(len(rest), maxFrontBytes)], ": ") && len(rest) > maxFrontBytes {
		b.warn(0, "front matter longer than %d bytes or not closed is read as text", maxFrontBytes)
	}
	return 0
}

func (b *builder) yaml(front string, body int) int {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(front), &root); err != nil {
		b.warn(0, "front matter is no YAML: %v", err)
		return body
	}
	if root.Kind == 0 || len(root.Content) == 0 { // empty or comments only
		return body
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return 0 // a thematic break and prose between two of them
	}
	c := yamlReader{}
	if m, ok := c.value(top, 0).(map[string]any); ok {
		b.meta.Fields = m
	}
	if c.err != nil {
		b.warn(0, "front matter: %v", c.err)
	}
	return body
}

type yamlReader struct {
	nodes int
	err   error
}

// value converts a node to the types that Metadata.Fields names.
func (c *yamlReader) value(n *yaml.Node, depth int) any {
	if c.nodes++; c.nodes > maxFrontNodes || depth > maxFrontDepth {
		c.err = fmt.Errorf("more than %d values or %d levels, the rest is dropped", maxFrontNodes, maxFrontDepth)
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, e := range n.Content {
			list = append(list, c.value(e, depth+1))
		}
		return list
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = c.value(n.Content[i+1], depth+1)
		}
		return m
	}
	return scalar(n)
}

func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var v bool
		if n.Decode(&v) == nil {
			return v
		}
	case "!!int":
		var v int64
		if n.Decode(&v) == nil {
			return v
		}
	case "!!float":
		var v float64
		if n.Decode(&v) == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	case "!!timestamp":
		var v time.Time
		if n.Decode(&v) == nil {
			return v
		}
	}
	return n.Value
}

// setTitleFields lifts the usual names out of Fields.
func (b *builder) setTitleFields() {
	f := b.meta.Fields
	if f == nil {
		return
	}
	b.meta.Title = firstString(f, "title")
	b.meta.Description = firstString(f, "description", "summary")
	b.meta.Language = firstString(f, "lang", "language", "locale")
	b.meta.Date = firstTime(f, "date", "published", "created", "pubDate", "publishDate")
	b.meta.Modified = firstTime(f, "updated", "modified", "lastmod", "last_modified_at")
	for _, key := range []string{"authors", "author"} {
		switch v := f[key].(type) {
		case string:
			b.meta.Authors = splitAuthors(v)
		case []any:
			for _, e := range v {
				switch e := e.(type) {
				case string:
					b.meta.Authors = append(b.meta.Authors, e)
				case map[string]any:
					if s := firstString(e, "name"); s != "" {
						b.meta.Authors = append(b.meta.Authors, s)
					}
				}
			}
		}
		if b.meta.Authors != nil {
			return
		}
	}
}

// splitAuthors splits at commas and "and", the way front matter lists them.
func splitAuthors(s string) []string {
	var out []string
	for _, part := range strings.Split(strings.ReplaceAll(s, " and ", ","), ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func firstString(f map[string]any, keys ...string) string {
	for _, k := range keys {
		switch v := f[k].(type) {
		case string:
			if v != "" {
				return v
			}
		case int64:
			return strconv.FormatInt(v, 10)
		case float64:
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return ""
}

func firstTime(f map[string]any, keys ...string) time.Time {
	for _, k := range keys {
		switch v := f[k].(type) {
		case time.Time:
			return v
		case string:
			if t := parseTime(v); !t.IsZero() {
				return t
			}
		}
	}
	return time.Time{}
}

// parseTime reads the spellings of dates that files use; zero when none fits.
// A time without a zone is UTC.
func parseTime(s string) time.Time {
	s = strings.TrimSpace(s)
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", "2006/01/02", time.RFC1123, time.RFC1123Z,
		"January 2, 2006", "2 January 2006", "Jan 2, 2006",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}
