package querystring

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index/keyword"
)

func known(name string) bool { return name == "title" || name == "body" }

// TestParse gives the clauses as JSON; the word "note" begins what a note says.
func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want, note string }{
		{`river bank`, `{"match":"river bank"}`, ""},
		{`title:foo "exact phrase"~2 -bar +baz fo* fuzzy~1 (a OR b)^2`,
			`{"bool":{"must":[{"match":"baz"}],"should":[{"match":"foo","fields":{"title":1}},{"phrase":"exact phrase","slop":2},` +
				`{"prefix":"fo"},{"fuzzy":"fuzzy","errors":1},{"bool":{"must":[{"match":"a b"}]},"boost":2}],"must_not":[{"match":"bar"}]}}`, ""},
		{`a AND b OR c`, `{"bool":{"should":[{"bool":{"must":[{"match":"a"},{"match":"b"}]}},{"match":"c"}]}}`, ""},
		{`a AND NOT b`, `{"bool":{"must":[{"match":"a"}],"must_not":[{"match":"b"}]}}`, ""},
		{`NOT a b`, `{"bool":{"should":[{"match":"b"}],"must_not":[{"match":"a"}]}}`, ""},
		{`title:(a body:b)`, `{"bool":{"should":[{"match":"a"},{"match":"b","fields":{"body":1}}]},"fields":{"title":1}}`, ""},
		{`title:(body:b)`, `{"bool":{"must":[{"match":"b","fields":{"body":1}}]},"fields":{"title":1}}`, ""},
		{`"new yor*"`, `{"phrase_prefix":"new yor"}`, ""},
		{`title:"new yor*"~2^3 x`, `{"bool":{"should":[{"phrase_prefix":"new yor","fields":{"title":1},"slop":2,"boost":3},{"match":"x"}]}}`, ""},
		{`"new yor\*"`, `{"phrase":"new yor*"}`, ""},
		{`"new *" "*" "y*r k"`, `{"bool":{"should":[{"phrase":"new *"},{"phrase":"*"},{"phrase":"y*r k"}]}}`, ""},
		{`title:"a b"^3`, `{"phrase":"a b","fields":{"title":1},"boost":3}`, ""},
		{`r?ver ri*r what?`, `{"bool":{"should":[{"wildcard":"r?ver"},{"wildcard":"ri*r"},{"match":"what?"}]}}`, ""},
		{`a\*b* x~ y~0`, `{"bool":{"should":[{"prefix":"a*b"},{"fuzzy":"x","errors":-1},{"match":"y"}]}}`, ""},
		{`a\?*c`, `{"wildcard":"a\\?*c"}`, ""},
		{`e-mail C\+\+ C++`, `{"bool":{"should":[{"match":"e-mail"},{"match":"C++"},{"match":"C++"}]}}`, ""},
		// No syntax, or bad syntax.
		{`user:/home`, `{"match":"user:/home"}`, `byte 0: "user" is no text field`},
		{`10:30`, `{"match":"10:30"}`, ""},
		{`title:`, `{"match":"title:"}`, ""},
		{`(draft`, `{"match":"draft"}`, "byte 0: a parenthesis that nothing closes"},
		{`a) b`, `{"match":"a b"}`, "byte 1: a parenthesis that nothing opens"},
		{`AND OR`, `{"match":"AND OR"}`, ""},
		{`a AND`, `{"match":"a AND"}`, ""},
		{`a and b or not c`, `{"match":"a and b or not c"}`, ""},
		{`"unclosed a`, `{"match":"unclosed a"}`, "byte 0: a quote that nothing closes"},
		{`\`, `{"match":"\\"}`, ""},
		{`~2`, `{"match":"~2"}`, ""},
		{`a~9`, `{"match":"a~9"}`, "byte 1: a number of errors"},
		{`a^x`, `{"match":"a^x"}`, "byte 1: a boost"},
		{`*`, `null`, `"*" alone finds nothing`},
		{`+-`, `null`, "a sign '+' before nothing"},
		{`[1 TO 10]`, `{"match":"[1 TO 10]"}`, ""},
		{`""`, `null`, ""},
		{`  `, `null`, ""},
		{``, `null`, ""},
		{`()`, `null`, ""},
		{`((((((a))))))`, `{"match":"a"}`, "groups nested deeper"},
		{`fo*~1`, `{"prefix":"fo"}`, "a pattern has no number of errors"},
	} {
		got, notes := Parse(c.in, Options{Field: known})
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, b, c.want)
		}
		if all := strings.Join(notes, "; "); c.note == "" && all != "" || !strings.Contains(all, c.note) {
			t.Errorf("%s: notes %q, want %q", c.in, all, c.note)
		}
	}
}

func TestParseAnd(t *testing.T) {
	for in, want := range map[string]string{
		`a b`:          `{"match":"a b","operator":"and"}`,
		`a b OR c`:     `{"bool":{"should":[{"match":"a b","operator":"and"},{"match":"c","operator":"and"}]}}`,
		`a "b c" -d`:   `{"bool":{"must":[{"match":"a","operator":"and"},{"phrase":"b c"}],"must_not":[{"match":"d","operator":"and"}]}}`,
		`a AND b OR c`: `{"bool":{"should":[{"bool":{"must":[{"match":"a","operator":"and"},{"match":"b","operator":"and"}]}},{"match":"c","operator":"and"}]}}`,
	} {
		got, notes := Parse(in, Options{Operator: keyword.And, Field: known})
		b, err := json.Marshal(got)
		if err != nil || len(notes) > 0 || string(b) != want {
			t.Errorf("%s\n got %s %v\nwant %s", in, b, notes, want)
		}
	}
}

// TestC14NoBlowUp: long texts of nothing but signs take linear time.
func TestC14NoBlowUp(t *testing.T) {
	const n = 300_000
	for _, part := range []string{"(", ")", `"`, "+", "-", "a AND ", "(a ", "NOT ", `\`, "title:", "a^", "a~", "*", `"a"~2`, "AND \u00a0", "OR"} {
		c, notes := Parse(strings.Repeat(part, n/len(part)), Options{Field: known})
		if len(notes) > maxNotes {
			t.Errorf("%s: %d notes", part, len(notes))
		}
		_ = c
	}
	if c, _ := Parse("AND"+strings.Repeat(" AND", 50_000)+strings.Repeat(" ", 500_000), Options{}); c == nil {
		t.Error("words in capitals are lost")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`title:foo "exact phrase"~2 -bar +baz fo* fuzzy~1 (a OR b)^2`, `a\`, `((a) AND NOT b)^3 c?d`, "\xff:\x00\"", `title:(body:(a))~2`} {
		f.Add(s)
	}
	a, err := analysis.New("english")
	if err != nil {
		f.Fatal(err)
	}
	fields := []keyword.Field{{Name: "body", Boost: 1, Analyzer: a}, {Name: "title", Boost: 2, Analyzer: a}}
	f.Fuzz(func(t *testing.T, s string) {
		for _, op := range []keyword.Operator{keyword.Or, keyword.And} {
			c, notes := Parse(s, Options{Operator: op, Field: known})
			if len(notes) > maxNotes {
				t.Fatalf("%d notes", len(notes))
			}
			if c == nil || len(s) > 300 || !utf8.ValidString(s) {
				continue
			}
			// Whatever is parsed can be searched for.
			if _, err := keyword.Build(c, fields, &analysis.Scratch{}); err != nil && !strings.Contains(err.Error(), "too large") {
				t.Fatal(err)
			}
		}
	})
}
