package httpapi

import (
	"slices"
	"testing"
)

// Texts as trees and in people's syntax, and what stands beside a search for
// text.
func TestTextQueries(t *testing.T) {
	s := newServer(t, Options{})
	s.notes()
	const path = "/v1/collections/notes/search"
	for body, want := range map[string][]string{
		`{"query_string":"+granite -slate"}`:                                                      {"a"},
		`{"query_string":"title:slate OR \"hard rock\""}`:                                         {"a", "b/2"},
		`{"query_string":"user:/home (draft"}`:                                                    {},
		`{"text":{"clause":{"bool":{"must":[{"match":"rock"}],"must_not":[{"match":"slate"}]}}}}`: {"a"},
		`{"text":{"clause":{"fuzzy":"granitt","errors":1}}}`:                                      {"a"},
		`{"text":{"clause":{"wildcard":"sl*e"}}}`:                                                 {"b/2"},
		`{"query":"rock","text":{"join":"together"}}`:                                             {"a", "b/2"},
	} {
		got := hits(s.ok("POST", path, body))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
	for body, field := range map[string]string{
		`{"query":"rock","query_string":"rock"}`:                      "query_string",
		`{"query":"rock","text":{"clause":{"match":"rock"}}}`:         "text.clause",
		`{"query_string":"rock","mode":"vector"}`:                     "mode",
		`{"query_string":"rock","mode":"hybrid"}`:                     "vector.values",
		`{"text":{"clause":{"bool":{"must":[{"mach":"rock"}]}}}}`:     "text.clause.bool.must[0].mach",
		`{"text":{"clause":{"match":"rock","term":"x"}}}`:             "text",
		`{"text":{"clause":{"regexp":"("}}}`:                          "text",
		`{"text":{"clause":{"match":"rock","fields":{"nowhere":1}}}}`: "text",
		`{"query":"rock","text":{"join":"best","tie_breaker":2}}`:     "text.tie_breaker",
	} {
		if p := s.fails(400, CodeInvalid, "POST", path, body); p.Field != field {
			t.Errorf("%s: field %q (%s), want %q", body, p.Field, p.Detail, field)
		}
	}
	if out := s.ok("POST", "/v1/collections/notes/terms", `{"field":"text","text":"rocks"}`); len(out["terms"].([]any)) != 1 || out["docs"].(float64) < 2 {
		t.Error(out)
	}
	if out := s.ok("POST", "/v1/collections/notes/suggest", `{"field":"text","text":"rock"}`); out["words"] == nil {
		t.Error(out)
	}
	if p := s.fails(400, CodeInvalid, "POST", "/v1/collections/notes/suggest", `{"field":"nowhere","text":"rock"}`); p.Detail == "" {
		t.Error(p)
	}
}
