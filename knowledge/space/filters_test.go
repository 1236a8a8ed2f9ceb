package space

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

func quoted(values ...string) string { return `["` + strings.Join(values, `","`) + `"]` }

func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("v", i)
	}
	return out
}

// S3.5: what is wrong with a filter is an error that names its key, and no space
// is searched.
func TestS3_5_BadFilters(t *testing.T) {
	for _, c := range []struct{ json, key string }{
		{`{"colour":["red"]}`, "colour"},
		{`{"Tags":["a"]}`, "Tags"}, // case counts
		{`{"tags":[]}`, "tags"},
		{`{"tags":null}`, "tags"},
		{`{"tags":"a"}`, "tags"},
		{`{"tags":["a",null]}`, "tags"},
		{`{"tags":["a",1]}`, "tags"},
		{`{"tags":{"a":1}}`, "tags"},
		{`{"tags":["a"],"tags":["b"]}`, "tags"},
		{`{"tags":["a"," "]}`, "tags"},
		{`{"entities":` + quoted(many(101)...) + `}`, "entities"},
		{`{"source_ids":["` + strings.Repeat("é", 513) + `"]}`, "source_ids"},
		{`{"freshness":["fresh","rotten"]}`, "freshness"},
		{`{"node_kinds":["paragraph"]}`, "node_kinds"},
		{`{"created_after":5}`, "created_after"},
		{`{"created_after":""}`, "created_after"},
		{`{"created_after":null}`, "created_after"},
		{`{"created_after":"yesterday"}`, "created_after"},
		{`{"created_after":"2024-02-30"}`, "created_after"},
		{`{"created_before":"2024-01-01T1:00:00Z"}`, "created_before"},
		{`{"created_before":"2024-01-01T00:00:00"}`, "created_before"}, // no instant
		{`{"created_before":"` + strings.Repeat("9", 1000) + `"}`, "created_before"},
		{`{"created_after":"2024-02-01","created_before":"2024-01-01"}`, "created_after"},
		{`{"created_after":"2024-01-01","created_before":"2024-01-01T00:00:00Z"}`, "created_before"}, // excluded
		{`{"created_after":"2024-01-01T00:00:00-02:00","created_before":"2024-01-01T01:00:00Z"}`, "created_after"},
		{`[]`, "object"}, {``, "object"}, {`null`, "object"}, {`{} {}`, "follows"}, {`{"tags":["a"]`, "filters"}, {"{\"tags\":[\"\xff\"]}", "UTF-8"},
	} {
		if f, err := ParseFilters([]byte(c.json)); err == nil {
			t.Errorf("%.80s gives %+v", c.json, f)
		} else {
			wantError(t, err, storage.ErrInvalid, c.key)
		}
	}
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha"))
	for key, f := range map[string]Filters{
		"tags":          {Tags: []string{}},
		"languages":     {Languages: many(101)},
		"freshness":     {Freshness: []string{"FRESH"}},
		"created_after": {CreatedAfter: "2025", CreatedBefore: "2026-01-01"},
	} {
		r := draft("alpha", "a")
		r.Filters = f
		w.refused(r, storage.ErrInvalid, key)
	}
}

// S3.5: 100 values of 512 characters are allowed, and an absent filter is none.
func TestS3_5_GoodFilters(t *testing.T) {
	long := many(99)
	long = append(long, strings.Repeat("語", 512))
	f, err := ParseFilters([]byte(`{"entities":` + quoted(long...) + `,"created_after":"2024-01-01","created_before":"2024-01-01T00:00:01+00:00","node_kinds":["chunk","table"]}`))
	must(t, err)
	if !slices.Equal(f.Entities, long) || f.CreatedAfter != "2024-01-01" || !slices.Equal(f.NodeKinds, []string{"chunk", "table"}) || f.Tags != nil {
		t.Errorf("got %+v", f)
	}
	f, err = ParseFilters([]byte(" { } "))
	must(t, err)
	if c, err := f.compile(); err != nil || !c.IsZero() {
		t.Errorf("no filters are %v, %v", c, err)
	}
}

// S3.5: each filter over what an ingest finds in real front matter. After is
// inclusive, before is not; a document without the field passes no filter on it.
func TestS3_5_FilterSpaces(t *testing.T) {
	w := newWorld(t, nil, nil)
	page := func(name, front string) knowledge.Source {
		return knowledge.Source{Name: name, Data: []byte("---\n" + front + "\n---\n\nalpha " + name + " stands here\n")}
	}
	w.addBase("a", nil, nil,
		page("one.md", "title: One\ndate: 2024-03-01T00:00:00Z\ntags: [red, blue]\nlanguage: zh-Hans"),
		page("two.md", "title: Two\ndate: 2024-03-02T00:00:00Z\ntags: [blue]\nlanguage: zh"),
		page("three.md", "title: Three\ndate: 2024-03-03T00:00:00Z\nlanguage: en"),
		knowledge.Source{Name: "four.txt", Data: []byte("alpha four stands here\n")},
	)
	for _, c := range []struct {
		f    Filters
		want string // numbers of the documents that pass
	}{
		{Filters{}, "four one three two"},
		{Filters{CreatedAfter: "2024-03-02"}, "three two"},
		{Filters{CreatedBefore: "2024-03-02"}, "one"},
		{Filters{CreatedAfter: "2024-03-02", CreatedBefore: "2024-03-03"}, "two"},
		{Filters{CreatedAfter: "2024-03-02T01:00:00+01:00"}, "three two"},
		{Filters{DocumentTypes: []string{"markdown"}}, "one three two"},
		{Filters{DocumentTypes: []string{"markdown", "text"}}, "four one three two"},
		{Filters{DocumentTypes: []string{"pdf"}}, ""},
		{Filters{Languages: []string{"zh"}}, "one two"},
		{Filters{Languages: []string{"zh-Hans", "en"}}, "one three"},
		{Filters{Tags: []string{"red"}}, "one"},
		{Filters{Tags: []string{"blue", "green"}}, "one two"},
		{Filters{Tags: []string{"Red"}}, ""}, // case counts
		{Filters{Tags: []string{"blue"}, Languages: []string{"zh"}, CreatedAfter: "2024-03-02"}, "two"},
		{Filters{NodeKinds: []string{"image"}}, ""},
	} {
		for _, mode := range allModes {
			r := draft("alpha stands", "a")
			r.Filters, r.Mode = c.f, mode
			var got []string
			for _, e := range w.retrieve(r).Evidence {
				got = append(got, strings.Fields(strings.NewReplacer(".md", "", ".txt", "").Replace(e.Content))[1])
			}
			slices.Sort(got)
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s, %+v: got %q, want %q", mode, c.f, s, c.want)
			}
		}
	}
}

func FuzzParseFilters(f *testing.F) {
	f.Add([]byte(`{"created_after":"2024-01-01","created_before":"2025-01-01T00:00:00+02:00","document_types":["pdf"],"tags":["a"]}`))
	f.Add([]byte(`{"entities":["x"],"freshness":["fresh"],"languages":["zh"],"node_kinds":["chunk"],"source_ids":["s"]}`))
	f.Add([]byte(`{"tags":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseFilters(data)
		if err != nil {
			return
		}
		if err := got.Check(); err != nil {
			t.Errorf("parsed, but %v", err)
		}
	})
}
