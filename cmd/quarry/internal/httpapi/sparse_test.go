package httpapi

import (
	"slices"
	"strings"
	"testing"
)

// TestSparse: sparse vectors are declared, put in three ways, found, given back
// and refused.
func TestSparse(t *testing.T) {
	s := newServer(t, Options{})
	s.ok("POST", "/v1/collections", `{"name":"learned","schema":{"text":[{"name":"text"}],"sparse":[{"name":"splade"}]}}`)
	const path = "/v1/collections/learned"
	if got := s.do("GET", path, nil).Body.String(); !strings.Contains(got, `"sparse":[{"name":"splade"}]`) {
		t.Error(got)
	}
	s.ok("PUT", path+"/documents", `{"documents":[{"id":"a","text":{"text":"rock"},"sparse":{"splade":{"indices":[7,3],"values":[0.5,2]}}}]}`)
	s.ok("PUT", path+"/documents/b", `{"sparse":{"splade":{"indices":[7],"values":[3]}}}`)
	if w := s.do("POST", path+"/bulk", []byte(`{"id":"c","sparse":{"splade":{"indices":[9,9],"values":[1,1]}}}`), "Content-Type", mediaNDJSON); !strings.Contains(w.Body.String(), "term 9 is given twice") {
		t.Error(w.Body)
	}
	for body, want := range map[string][]string{
		`{"sparse":{"vector":{"indices":[7],"values":[1]}}}`:                                                                              {"b", "a"},
		`{"sparse":{"field":"splade","vector":{"indices":[3,7],"values":[1,0.1]}}}`:                                                       {"a", "b"},
		`{"query":"rock","sparse":{"vector":{"indices":[7],"values":[1]},"weight":0.01},"fusion":{"method":"weighted"},"mode":"keyword"}`: {"a", "b"},
		`{"sparse":{"vector":{"indices":[8],"values":[1]}}}`:                                                                              {},
	} {
		if got := hits(s.ok("POST", path+"/search", body)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
	if got := s.do("POST", path+"/search", `{"sparse":{"vector":{"indices":[7],"values":[1]}}}`).Body.String(); !strings.Contains(got, `"score_kind":"sparse"`) || !strings.Contains(got, `"sparse":{"rank":1,"raw":3`) {
		t.Error(got)
	}
	if got := s.do("GET", path+"/documents/a?vectors=true", nil).Body.String(); !strings.Contains(got, `"sparse":{"splade":{"indices":[3,7],"values":[2,0.5]}}`) {
		t.Error(got)
	}
	if got := s.do("GET", path+"/documents/a", nil).Body.String(); strings.Contains(got, "sparse") {
		t.Error(got)
	}
	for _, body := range []string{
		`{"sparse":{"vector":{"indices":[7],"values":[]}}}`,
		`{"sparse":{"vector":{"indices":[7],"values":[-1]}}}`,
		`{"sparse":{"vector":{"indices":[-7],"values":[1]}}}`,
		`{"sparse":{"vector":{"indices":[7],"values":[1]},"weight":0}}`,
		`{"sparse":{"field":"none","vector":{"indices":[7],"values":[1]}}}`,
	} {
		if w := s.do("POST", path+"/search", body); w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}
