package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
)

// Bounds of results.
const (
	minChars     = 200
	maxChars     = 200_000
	defaultChars = 12_000
	maxK         = 100
	defaultK     = 10
	maxList      = 200
	defaultList  = 50

	// maxQuery bounds a query or filter, in characters.
	maxQuery = 16_000

	// maxValue bounds a metadata value in a result, in characters; maxMeta the
	// metadata values of one hit.
	maxValue = 300
	maxMeta  = 40
	// maxSnippet bounds what is shown of a hit of a collection.
	maxSnippet = 900
)

// cut returns the first n characters of a text, and whether that is less than
// all of it.
func cut(text string, n int) (string, bool) {
	if len(text) <= n {
		return text, false
	}
	i := 0
	for at := range text {
		if i == n {
			return text[:at], true
		}
		i++
	}
	return text, false
}

// slice is the text from character off on, at most n of them; next is where it
// goes on, 0 at the end.
func slice(text string, off, n int) (part string, next int, total int) {
	total = utf8.RuneCountInString(text)
	off = min(off, total)
	start := len(text)
	i := 0
	for at := range text {
		if i == off {
			start = at
			break
		}
		i++
	}
	part, more := cut(text[start:], n)
	if more {
		next = off + n
	}
	return part, next, total
}

// snippet is what is shown of a hit: the passages that matched, or the start of
// its texts.
func snippet(h *index.Hit, texts []string, n int) string {
	var parts []string
	for _, name := range texts {
		for _, p := range h.Highlights[name] {
			parts = append(parts, show.Passage(p, false))
		}
	}
	if len(parts) == 0 {
		for _, name := range texts {
			if s, ok := h.Fields[name].(string); ok && s != "" {
				parts = append(parts, show.Line(s, n))
			}
		}
	}
	s, more := cut(strings.Join(parts, "\n"), n)
	if more {
		s += "…"
	}
	return s
}

// brief bounds metadata: long values and lists are cut, and beyond maxMeta fields
// left out. shortened counts all these.
func brief(meta map[string]any, skip func(string) bool) (out map[string]any, shortened int) {
	out = make(map[string]any, min(len(meta), maxMeta))
	for _, name := range sortedKeys(meta) {
		if skip != nil && skip(name) {
			continue
		}
		if len(out) == maxMeta {
			shortened++
			continue
		}
		v, more := shorten(meta[name])
		if more {
			shortened++
		}
		out[name] = v
	}
	return out, shortened
}

// shorten cuts a value.
func shorten(v any) (any, bool) {
	if s, ok := v.(string); ok {
		s, more := cut(s, maxValue)
		if more {
			s += "…"
		}
		return s, more
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return v, false
	}
	n := min(list.Len(), maxMeta)
	cutOff := n < list.Len()
	out := make([]any, n)
	for i := range out {
		var more bool
		out[i], more = shorten(list.Index(i).Interface())
		cutOff = cutOff || more
	}
	return out, cutOff
}

// jsonSize is the size of a value in a result, in bytes.
func jsonSize(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // the result as a whole will say so
	}
	return len(data)
}

// plural is a number and what it counts.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// titleField is the field that names a document in a list, empty for none.
func titleField(schema *index.Schema) string {
	texts := storedTexts(schema)
	for _, name := range []string{"title", "name", "symbol", "heading", "subject"} {
		if _, ok := schema.Meta[name]; ok || slices.Contains(texts, name) {
			return name
		}
	}
	return ""
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
