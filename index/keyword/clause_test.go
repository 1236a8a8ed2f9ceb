package keyword

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/storage"
)

func fields(t testing.TB) []Field {
	t.Helper()
	var out []Field
	for name, analyzer := range map[string]string{"title": "standard", "body": "english"} {
		a, err := analysis.New(analyzer)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Field{name, 1, a})
	}
	return out
}

func build(t testing.TB, clause string) (*Query, error) {
	t.Helper()
	var c Clause
	d := json.NewDecoder(strings.NewReader(clause))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return Build(&c, fields(t), new(analysis.Scratch))
}

// TestBuild reads clauses as a client writes them.
func TestBuild(t *testing.T) {
	for clause, want := range map[string]string{
		`{"match":"running"}`:                                          "Terms",
		`{"phrase":"a b","slop":2}`:                                    "Boolean", // the analyzers place words alike, but name them apart
		`{"term":"x","boost":2}`:                                       "Boost",
		`{"prefix":"run"}`:                                             "Boolean",
		`{"fuzzy":"runing","errors":1}`:                                "Boolean",
		`{"wildcard":"r*n"}`:                                           "Pattern",
		`{"match":"a","join":"best","tie_breaker":0.3}`:                "Best",
		`{"constant":{"match":"a"},"score":2}`:                         "Constant",
		`{"bool":{"must":[{"match":"a"}]}}`:                            "Terms",
		`{"bool":{"must":[{"match":"a"}],"must_not":[{"match":"b"}]}}`: "Boolean",
		`{"match":"?!"}`:                                               "",
		`{"bool":{"must_not":[{"match":"b"}]}}`:                        "",
	} {
		q, err := build(t, clause)
		if err != nil {
			t.Errorf("%s: %v", clause, err)
			continue
		}
		got := ""
		switch q.Tree.(type) {
		case bm25.Terms:
			got = "Terms"
		case bm25.Phrase:
			got = "Phrase"
		case bm25.Boost:
			got = "Boost"
		case bm25.Boolean:
			got = "Boolean"
		case bm25.Pattern:
			got = "Pattern"
		case bm25.Best:
			got = "Best"
		case bm25.Constant:
			got = "Constant"
		}
		if got != want && !(got == "Phrase" && want == "Boolean") {
			t.Errorf("%s gives %q, want %q", clause, got, want)
		}
		if (got == "") != (len(q.Notes) > 0) {
			t.Errorf("%s: notes %q", clause, q.Notes)
		}
	}
}

func TestMatcher(t *testing.T) {
	q, err := build(t, `{"bool":{"should":[{"match":"running"},{"prefix":"stones"},{"fuzzy":"rivr","errors":1}],"must_not":[{"match":"dog"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	body, title := q.Matcher("body"), q.Matcher("title")
	for term, want := range map[string]int{"run": 0, "running": -1, "stone": 1, "stonework": 1, "river": 2, "dog": -1} {
		if got := body([]byte(term)); got != want {
			t.Errorf("%s in the body: word %d, want %d", term, got, want)
		}
	}
	if title([]byte("running")) != 0 || title([]byte("run")) != -1 || q.Matcher("other") != nil {
		t.Error("the title has words of its own")
	}
	if !slices.Equal(q.Fields, []string{"body", "title"}) {
		t.Errorf("fields %q", q.Fields)
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, clause := range []string{
		`{}`, `{"match":"a","term":"b"}`, `{"match":"a","boost":-1}`, `{"match":"a","boost":1e9}`, `{"fuzzy":"abc","errors":9}`, `{"regexp":"("}`,
		`{"match":"a","fields":{"none":1}}`, `{"match":"a","operator":"xor"}`, `{"match":"a","join":"some"}`, `{"wildcard":"a","max_terms":9999}`,
		`{"bool":{"should":[{"match":"a"}],"min_should_match":-1}}`, `{"constant":{"match":"a"},"score":-2}`, `{"match":"a","tie_breaker":2}`,
	} {
		if _, err := build(t, clause); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", clause, err)
		}
	}
	if _, err := build(t, `{"match":"`+strings.Repeat("a", MaxText+1)+`"}`); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("a long text: %v", err)
	}
}
