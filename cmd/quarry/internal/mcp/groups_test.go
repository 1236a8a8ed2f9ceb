package mcp

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// groups asks for the best of each value of a field.
func groups(t *testing.T, cs *sdk.ClientSession) {
	out, text := call[searchOut](t, cs, "search", map[string]any{"query": "harbor", "collection": "notes", "group": "lang", "group_size": 2})
	var values []any
	for i, h := range out.Hits {
		values = append(values, h.Group)
		if out.Sources[h.N-1].ID == "" || h.N != i+1 {
			t.Errorf("hit %d is of source %d", i, h.N)
		}
	}
	slices.SortFunc(values, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	if !slices.Equal(values, []any{"de", "de", "en", "en"}) || !strings.Contains(text, "lang de:") || !strings.Contains(text, "lang en:") {
		t.Errorf("%v in\n%s", values, text)
	}
	if got := refused(t, cs, "search", map[string]any{"query": "harbor", "collection": "notes", "group": "nowhere"}); !strings.Contains(got, "nowhere") {
		t.Error(got)
	}
	refused(t, cs, "search", map[string]any{"query": "harbor", "knowledge_bases": []string{"guide"}, "group": "lang"})
}
