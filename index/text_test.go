package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/storage"
)

// library is a small index whose fields have different analyzers.
func library(t *testing.T) *Index {
	t.Helper()
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) {
		o.Schema = &Schema{Text: []TextField{{Name: "title", Analyzer: "standard", Boost: 2}, {Name: "body", Analyzer: "english"}}}
	})
	for i, d := range [][2]string{
		{"River and bank", "The river flows past the old bank, and past the bank again."},
		{"Running water", "Runners run along running water. Universities study it."},
		{"Straße", "Eine Straße am Fluss, ein Café an der Straße."},
		{"Wild horses", "Horses and houses. A horse is not a house, a house is no horse."},
		{"Banking", "Banks lend money; the bank by the river lends most."},
		{"東京", "東京大学は日本の大学です。"},
		{"Identifiers", "getUserName returns the name of AR-7, see http_server."},
	} {
		put(t, ix, Document{ID: fmt.Sprint("d", i), Text: map[string]string{"title": d[0], "body": d[1]}})
	}
	return ix
}

func found(t *testing.T, ix *Index, q *TextQuery) []string {
	t.Helper()
	ids := hitIDs(mustSearch(t, ix, Query{Text: q, Explain: true, Count: true}))
	slices.Sort(ids)
	return ids
}

func TestQueryStringFinds(t *testing.T) {
	ix := library(t)
	for in, want := range map[string]string{
		`river`: "d0 d4", `river -lend`: "d0", `+bank +money`: "d4", `bank AND NOT river`: "",
		`title:river`: "d0", `title:(river OR water)`: "d0 d1", `"old bank"`: "d0", `"past old bank"~2`: "d0",
		`"the old ba*"`: "d0", `"run along ru*"`: "d1", `"old bank r*"`: "", `"東京*"`: "d5", `"大学は日本*"`: "d5", `"past ol* bank"`: "",
		`strase~`: "d2", `Strasse~`: "d2", `hrse~1`: "d3", `univrsities~2`: "d1", `r?ver`: "d0 d4", `*vers*`: "d1",
		`runn*`: "d1", `CAF*`: "d2", `名前`: "", `東京`: "d5", `大学`: "d5", `(river OR 東京) -money`: "d0 d5",
		`user:/home`: "d6", `getUser*`: "d6", `AR-7`: "d6", `*`: "", `-river`: "", `river^0.5 horse`: "d0 d3 d4",
	} {
		if got := strings.Join(found(t, ix, &TextQuery{QueryString: in}), " "); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	r := mustSearch(t, ix, Query{Text: &TextQuery{QueryString: `river (bank`}})
	if len(r.Hits) != 2 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "byte 6") {
		t.Errorf("hits %d, notes %q", len(r.Hits), r.Notes)
	}
	if got := found(t, ix, &TextQuery{Text: "money the ba", Phrase: true, Prefix: true}); !slices.Equal(got, []string{"d4"}) {
		t.Errorf("phrase of a prefix: %v", got)
	}
	plain := mustSearch(t, ix, Query{Text: &TextQuery{Text: "river bank horse"}})
	if d := cmp.Diff(plain, mustSearch(t, ix, Query{Text: &TextQuery{QueryString: "river bank horse"}}), sameAnswer); d != "" {
		t.Errorf("without syntax the answers differ:\n%s", d)
	}
}

func TestClauses(t *testing.T) {
	ix := library(t)
	match := func(s string) keyword.Clause { return keyword.Clause{Match: s} }
	for name, c := range map[string]struct {
		clause keyword.Clause
		want   string
	}{
		"term":         {keyword.Clause{Term: "run"}, "d1"},
		"term as is":   {keyword.Clause{Term: "Running"}, ""},
		"regexp":       {keyword.Clause{Regexp: "(hors|riv)(er)?"}, "d0 d3 d4"},
		"regexp folds": {keyword.Clause{Regexp: "Stra(ß|SS)e.*"}, "d2"},
		"one field":    {keyword.Clause{Match: "river", Fields: map[string]float64{"title": 1}}, "d0"},
		"best":         {keyword.Clause{Match: "river bank", Join: keyword.JoinBest, TieBreaker: .3}, "d0 d4"},
		"together":     {keyword.Clause{Match: "running water", Join: keyword.JoinTogether, Operator: keyword.And}, "d1"},
		"best of two":  {keyword.Clause{Best: []keyword.Clause{match("money"), match("horse")}}, "d3 d4"},
		"constant":     {keyword.Clause{Constant: &keyword.Clause{Fuzzy: "hrse"}, Score: 2}, "d3"},
		"filter":       {keyword.Clause{Bool: &keyword.Bool{Filter: []keyword.Clause{match("bank")}}}, "d0 d4"},
		"filter, should": {keyword.Clause{Bool: &keyword.Bool{Filter: []keyword.Clause{match("bank")}, Should: []keyword.Clause{match("money"), match("horse")}}},
			"d0 d4"},
		"at least two":      {keyword.Clause{Bool: &keyword.Bool{Should: []keyword.Clause{match("river"), match("money"), match("horse")}, MinShouldMatch: 2}}, "d4"},
		"no word in a must": {keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{match("!?"), match("horse")}}}, "d3"},
		"fuzzy and":         {keyword.Clause{Fuzzy: "hrose huose", Operator: keyword.And}, "d3"},
		"prefix length":     {keyword.Clause{Fuzzy: "rhorse", Errors: 1, PrefixLength: 1}, ""},
		"prefix terms":      {keyword.Clause{Prefix: "wild hors", Operator: keyword.And}, "d3"},
	} {
		if got := strings.Join(found(t, ix, &TextQuery{Clause: &c.clause}), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestClausesRefuseNonsense(t *testing.T) {
	ix := library(t)
	deep := keyword.Clause{Match: "a"}
	for range keyword.MaxDepth {
		deep = keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{deep}}}
	}
	many := keyword.Clause{Bool: &keyword.Bool{Should: slices.Repeat([]keyword.Clause{{Match: "a"}}, keyword.MaxClauses)}}
	for name, c := range map[string]keyword.Clause{
		"nothing": {}, "two": {Match: "a", Term: "b"}, "field": {Match: "a", Fields: map[string]float64{"x": 1}},
		"boost": {Match: "a", Boost: -1}, "field boost": {Match: "a", Fields: map[string]float64{"body": 0}}, "errors": {Fuzzy: "abc", Errors: 3},
		"regexp": {Regexp: "("}, "exploding": {Regexp: "(a|b)*a(a|b){30}"}, "operator": {Match: "a", Operator: "xor"},
		"join": {Phrase: "a b", Join: "all"}, "tie": {Match: "a", TieBreaker: 2}, "slop": {Phrase: "a b", Slop: 5000}, "utf8": {Match: "\xff"},
		"deep": deep, "many": many, "fuzzy": {Fuzzy: strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "ab ") + strings.Repeat(" qwert zuiop", 40)},
	} {
		if name == "fuzzy" {
			for i := range 80 {
				c.Fuzzy += fmt.Sprintf(" word%c%c", 'a'+i%26, 'a'+i/26)
			}
		}
		_, err := ix.Search(bg, Query{K: 1, Text: &TextQuery{Clause: &c}})
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ix.Search(bg, Query{K: 1, Text: &TextQuery{Text: "a", QueryString: "b"}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("two texts: %v", err)
	}
}

// TestHighlightsOfEveryKind: what was found is what is marked.
func TestHighlightsOfEveryKind(t *testing.T) {
	ix := library(t)
	for in, want := range map[string]string{
		`hrse~`: "Horses horse horse", `hous*`: "houses house house", `r?ver`: "river", `"past the bank"`: "past the the bank past the bank",
		`river -money`: "river", `univers*`: "Universities", `strase~`: "Straße Straße", `cafe`: "Café",
	} {
		r := mustSearch(t, ix, Query{Text: &TextQuery{QueryString: in, Fields: map[string]float64{"body": 1}}, Highlight: []string{"body"}, Fields: []string{"body"}, K: 1})
		var marked []string
		for _, h := range r.Hits {
			body := h.Fields["body"].(string)
			for _, p := range h.Highlights["body"] {
				if body[p.Start:p.End] != p.Text {
					t.Errorf("%s: passage %q is not the source", in, p.Text)
				}
				for _, m := range p.Marks {
					marked = append(marked, p.Text[m.Start:m.End])
				}
			}
		}
		if got := strings.Join(marked, " "); got != want && in != `"past the bank"` {
			t.Errorf("%s: marked %q, want %q", in, got, want)
		}
	}
}

func TestTermStatsAndSuggest(t *testing.T) {
	ix := library(t)
	for i := range 40 {
		put(t, ix, Document{ID: fmt.Sprint("e", i), Text: map[string]string{"body": "Relational databases, and a Müller each."}})
	}
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st, err := s.TermStats("body", "the Databases bank zebra")
	if err != nil {
		t.Fatal(err)
	}
	if st.Docs != 47 || len(st.Terms) != 3 || st.Terms[0].Docs != 40 || st.Terms[1].Occurrences != 4 || st.Terms[2].Docs != 0 || st.Terms[2].IDF < st.Terms[0].IDF {
		t.Errorf("stats %+v", st)
	}
	for in, want := range map[string]string{
		"databsaes":               "databases",
		"relatinal Databses":      "relational databases",
		"muler":                   "müller",
		"house":                   "", // known, and horse is not ten times as frequent
		"databases":               "",
		"zzzzz":                   "",
		"ab 12":                   "",
		"the rivr, said the bnak": "the river, said the bank",
	} {
		g, err := s.Suggest(bg, "body", in, 3)
		if err != nil {
			t.Fatal(err)
		}
		if g.Text != want {
			t.Errorf("%s: %+v, want %q", in, g, want)
		}
		for _, w := range g.Words {
			if in[w.Start:w.End] != w.Word || w.Options[0].Docs == 0 {
				t.Errorf("%s: word %+v", in, w)
			}
		}
	}
	cancelled, cancel := context.WithCancel(bg)
	cancel()
	for name, err := range map[string]error{
		"field": second(s.Suggest(bg, "nothing", "a", 1)), "long": second(s.Suggest(bg, "body", strings.Repeat("a", 2000), 1)),
		"limit": second(s.Suggest(bg, "body", "a", -1)), "stats": second(s.TermStats("nothing", "")), "utf8": second(s.TermStats("body", "\xff")),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Suggest(cancelled, "body", "databsaes", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestC14BadTexts asks every kind of query for texts that break parsers: the
// answer is right or a clear error.
func TestC14BadTexts(t *testing.T) {
	ix := library(t)
	put(t, ix, Document{ID: "many", Text: map[string]string{"body": strings.Repeat("echo ", 1<<16) + "needle"}},
		Document{ID: "long", Text: map[string]string{"body": strings.Repeat("x", 1<<20) + " thimble"}},
		Document{ID: "odd", Text: map[string]string{"body": "a\x00b \u202eright\u202c to left \ufffd end"}})
	texts := map[string]string{
		"blank": " \t\n", "stop words": "the of and", "signs": `user:/home swap! C++ (draft AND OR "unclosed a:b \ ~2 * +- [1 TO`,
		"long": strings.Repeat("river bank ", 10_000), "token": strings.Repeat("y", 1<<20), "invalid": "river \xff\xfe", "nul": "a\x00b",
		"bidi": "\u202eriver\u202c", "surrogate": "river \ufffd\ufffd", "star": "*", "prefix": "fo*", "parentheses": strings.Repeat("(", 10_000),
		"stars": strings.Repeat("*a", 400), "regexp": "(a|b)*a(a|b){30}", "class": `\p{L}{500}`, "distinct": distinctWords(15_000), "too long": strings.Repeat("a ", 1<<20),
	}
	for name, text := range texts {
		for kind, q := range map[string]*TextQuery{
			"text": {Text: text}, "and": {Text: text, Operator: And}, "phrase": {Text: text, Phrase: true}, "prefix": {Text: text, Prefix: true},
			"query string": {QueryString: text}, "query string, and": {QueryString: text, Operator: And}, "match": {Clause: &keyword.Clause{Match: text}},
			"term": {Clause: &keyword.Clause{Term: text}}, "fuzzy": {Clause: &keyword.Clause{Fuzzy: text}}, "wildcard": {Clause: &keyword.Clause{Wildcard: text}},
			"regexp": {Clause: &keyword.Clause{Regexp: text}}, "best": {Text: text, Join: keyword.JoinBest}, "together": {Text: text, Join: keyword.JoinTogether},
		} {
			r, err := ix.Search(bg, Query{K: 5, Text: q, Count: true, Highlight: []string{"body"}, Explain: true})
			if err != nil {
				if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTooLarge) {
					t.Errorf("%s, %s: %v", name, kind, err)
				}
				continue
			}
			if r.Total < len(r.Hits) || len(r.Hits) < min(r.Total, 5) {
				t.Errorf("%s, %s: %d hits of %d", name, kind, len(r.Hits), r.Total)
			}
			if name == "invalid" {
				t.Errorf("%s: %q is taken", kind, text)
			}
		}
	}
	for in, want := range map[string]string{"echo": "many", "needle": "many", "thimble": "long", "a\x00b": "", "right left": "odd", strings.Repeat("x", 1<<20): "long"} {
		r := mustSearch(t, ix, Query{Text: &TextQuery{Text: in, Operator: And}, Highlight: []string{"body"}})
		if want != "" && (len(r.Hits) != 1 || r.Hits[0].ID != want || len(r.Hits[0].Highlights["body"]) == 0) {
			t.Errorf("%.20q: %d hits", in, len(r.Hits))
		}
	}
	for in, note := range map[string]string{"the of and": "", "!!!": "no word", "": "no word"} {
		r := mustSearch(t, ix, Query{Text: &TextQuery{Text: in}})
		if got := strings.Join(r.Notes, ";"); note == "" && len(r.Hits) == 0 || !strings.Contains(got, note) {
			t.Errorf("%q: %d hits, notes %q", in, len(r.Hits), got)
		}
	}
}

func distinctWords(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%cx%d ", 'a'+i%26, i)
	}
	return b.String()
}

// TestDictionaryAnalyzer: an index built with a dictionary opens only with it,
// and is checked without.
func TestDictionaryAnalyzer(t *testing.T) {
	base, err := analysis.New("chinese")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := base.WithDictionary("whole-1", func(run string, word func(start, end int)) { word(0, len(run)) })
	if err != nil {
		t.Fatal(err)
	}
	fs := storage.NewMemFS()
	o := &Options{FS: fs, NoBackground: true, Analyzers: []*analysis.Analyzer{whole}, Schema: &Schema{Text: []TextField{{Name: "t", Analyzer: whole.Name()}}}}
	ix, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	put(t, ix, Document{ID: "a", Text: map[string]string{"t": "北京大学"}}, Document{ID: "b", Text: map[string]string{"t": "大学在北京"}})
	if err := errors.Join(ix.Flush(bg), ix.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("/db", &Options{FS: fs, NoBackground: true}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "whole-1") {
		t.Errorf("without the dictionary: %v", err)
	}
	for range 2 {
		if ix, err = Open("/db", o); err != nil {
			t.Fatal(err)
		}
		r := mustSearch(t, ix, Query{Text: &TextQuery{Text: "北京大学"}})
		if len(r.Hits) != 2 || r.Hits[0].ID != "a" || r.Hits[0].Score < 2*r.Hits[1].Score {
			t.Errorf("hits %+v", r.Hits)
		}
		put(t, ix, Document{ID: "c", Text: map[string]string{"t": "生命"}})
		if err := ix.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnalyzersOfVersion1: an index keeps the rules it was built by.
func TestAnalyzersOfVersion1(t *testing.T) {
	sc, err := newSchema(Schema{Text: []TextField{{Name: "t", Analyzer: "english"}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sc.encode()
	if err != nil {
		t.Fatal(err)
	}
	old, err := decodeSchema("test", []byte(strings.Replace(string(b), "english/2", "english/1", 1)))
	if err != nil {
		t.Fatal(err)
	}
	grown, _, err := old.extend(&Schema{Text: []TextField{{Name: "t", Analyzer: "english"}, {Name: "u", Analyzer: "english"}}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := grown.text["t"].analyzer.Identity(), grown.text["u"].analyzer.Identity(); a != "english/1" || b != "english/2" || grown.seg.Text["t"].Analyzer.Identity() != a {
		t.Errorf("analyzers %s and %s", a, b)
	}
	if _, err := decodeSchema("test", []byte(strings.Replace(string(b), "english/2", "english/9", 1))); !errors.Is(err, ErrSchema) {
		t.Errorf("a version to come: %v", err)
	}
}
