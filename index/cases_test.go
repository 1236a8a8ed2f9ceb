package index

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// The hard cases of text search through the whole engine. Those of one package
// alone stand there: C01 in bm25, C06 and C08 to C11 in bm25/analysis as well.

// textIndex has one text field of an analyzer and a document for each text.
func textIndex(t *testing.T, analyzer string, texts ...string) *Index {
	t.Helper()
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) {
		o.Schema = &Schema{Text: []TextField{{Name: "t", Analyzer: analyzer}}, Vectors: []VectorField{{Name: "v", Dim: 2}}}
	})
	for i, s := range texts {
		put(t, ix, Document{ID: fmt.Sprint(i + 1), Text: map[string]string{"t": s}, Vectors: map[string][]float32{"v": {1, float32(i)}}})
	}
	return ix
}

func ask(t *testing.T, ix *Index, q TextQuery) []string {
	t.Helper()
	return hitIDs(mustSearch(t, ix, Query{Text: &q, K: 10}))
}

func TestC02EmptyDocuments(t *testing.T) {
	for _, texts := range [][]string{{}, {"", "   ", "!!!"}} {
		ix := textIndex(t, "standard", texts...)
		if got := ask(t, ix, TextQuery{Text: "river"}); len(got) != 0 {
			t.Errorf("%q: %v", texts, got)
		}
		put(t, ix, Document{ID: "n", Text: map[string]string{"t": "a river"}})
		r := mustSearch(t, ix, Query{Text: &TextQuery{Text: "river"}, K: 10})
		if len(r.Hits) != 1 || !(r.Hits[0].Score > 0 && r.Hits[0].Score <= 1) || math.IsNaN(r.Hits[0].Keyword.Raw) {
			t.Errorf("%q: %+v", texts, r.Hits)
		}
	}
}

func TestC03DeletedDocuments(t *testing.T) {
	one, two := textIndex(t, "standard", "red river", "old red barn"), textIndex(t, "standard", "red river", "old red barn", "red red")
	del(t, two, "3")
	for range 2 {
		put(t, two, Document{ID: "1", Text: map[string]string{"t": "red river"}, Vectors: map[string][]float32{"v": {1, 0}}})
	}
	q := Query{Text: &TextQuery{Text: "red river"}, K: 10}
	if got := hitIDs(mustSearch(t, two, q)); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("before the merge: %v", got)
	}
	for _, ix := range []*Index{one, two} {
		if err := errors.Join(ix.Flush(bg), ix.Merge(bg, 1)); err != nil {
			t.Fatal(err)
		}
	}
	a, b := mustSearch(t, one, q), mustSearch(t, two, q)
	for i, h := range a.Hits {
		if len(b.Hits) != 2 || b.Hits[i].ID != h.ID || b.Hits[i].Score != h.Score {
			t.Fatalf("after the merge: %+v, want %+v", b.Hits, a.Hits)
		}
	}
}

func TestC05StopWordsAlone(t *testing.T) {
	for _, analyzer := range []string{"standard", "english"} {
		ix := textIndex(t, analyzer, "no means no", "if let binding", "To be or not to be", "other")
		for i, text := range []string{"no", "if let", "to be or not to be"} {
			want := fmt.Sprint(i + 1)
			for _, q := range []TextQuery{{Text: text}, {Text: text, Operator: And}, {Text: text, Phrase: true}, {QueryString: `"` + text + `"`}, {QueryString: text}} {
				if got := ask(t, ix, q); len(got) == 0 || got[0] != want || len(got) == 4 {
					t.Errorf("%s, %+v: %v", analyzer, q, got)
				}
			}
			r := mustSearch(t, ix, Query{Text: &TextQuery{Text: text}, Vector: &VectorQuery{Vector: []float32{1, 3}}, K: 10})
			if len(r.Hits) != 4 || !slices.ContainsFunc(r.Hits, func(h Hit) bool { return h.ID == want && h.Keyword != nil }) {
				t.Errorf("%s, hybrid %q: %v", analyzer, text, hitIDs(r))
			}
		}
	}
}

func TestC06ChineseNames(t *testing.T) {
	for _, analyzer := range []string{"standard", "chinese", "english"} {
		ix := textIndex(t, analyzer, "陈景润证明了该定理", "桂林的景色很美", "机器需要润滑油")
		for _, q := range []TextQuery{{Text: "陈景润"}, {Text: "陈景润", Phrase: true}, {QueryString: `"陈景润"`}, {QueryString: `"陈景*"`}} {
			if got := ask(t, ix, q); !slices.Equal(got, []string{"1"}) {
				t.Errorf("%s, %+v: %v", analyzer, q, got)
			}
		}
		if got := ask(t, ix, TextQuery{Text: "景色"}); len(got) == 0 || got[0] != "2" {
			t.Errorf("%s: %v", analyzer, got)
		}
	}
}

func TestC08HighlightsCoverTheSource(t *testing.T) {
	ix := textIndex(t, "standard", "eski İstanbul evi", "der Ünlü da", "un café noir", "so nai\u0308ve!")
	for query, want := range map[string]string{"istanbul": "İstanbul", "ÜNLÜ": "Ünlü", "cafe\u0301": "café", "naïve": "nai\u0308ve"} {
		r := mustSearch(t, ix, Query{Text: &TextQuery{Text: query}, Highlight: []string{"t"}, K: 5})
		if len(r.Hits) != 1 || len(r.Hits[0].Highlights["t"]) != 1 {
			t.Fatalf("%s: %+v", query, r.Hits)
		}
		p := r.Hits[0].Highlights["t"][0]
		if len(p.Marks) != 1 || p.Text[p.Marks[0].Start:p.Marks[0].End] != want {
			t.Errorf("%s marks %v in %q, want %q", query, p.Marks, p.Text, want)
		}
	}
}

func TestC09IdentifiersFirst(t *testing.T) {
	ix := textIndex(t, "standard", "call getUserName", "call get_user_name", "HTTPServer2 starts", "the AR-7 manual", "the AR-70 manual", "7 arms", "PGMP-15 part")
	for query, want := range map[string][]string{
		"user name": {"1", "2"}, "getusername": {"1", "2"}, "http server": {"3"}, "AR-7": {"4"}, "pgmp-15": {"7"},
	} {
		got := ask(t, ix, TextQuery{Text: query})
		if len(got) < len(want) || !slices.Equal(slices.Sorted(slices.Values(got[:len(want)])), want) {
			t.Errorf("%s: %v, want %v first", query, got, want)
		}
	}
}

func TestC11LongWords(t *testing.T) {
	name, hash := strings.Repeat("abcdefgh2_", 9), strings.Repeat("0123456789abcdef", 4)
	word, line := strings.Repeat("x", 70_000), strings.Repeat("aGVsbG8gd29ybGQ", 70_000)+" needle"
	ix := textIndex(t, "english", "file "+name, "sum "+hash, "see "+word, line)
	for i, query := range []string{name, hash, word, "needle"} {
		if got := ask(t, ix, TextQuery{Text: query, Operator: And}); !slices.Equal(got, []string{fmt.Sprint(i + 1)}) {
			t.Errorf("%.20s: %v", query, got)
		}
	}
	if got := ask(t, ix, TextQuery{Text: hash[:63] + "0"}); len(got) != 0 {
		t.Errorf("another hash: %v", got)
	}
}

// TestFieldOf10MB: every word of it is found, once.
func TestFieldOf10MB(t *testing.T) {
	if testing.Short() {
		t.Skip("10 MB of text")
	}
	text := strings.Repeat("sand gravel silt clay loam ", 400_000) + "opal"
	ix := textIndex(t, "english", text, "sand and opal")
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	r := mustSearch(t, ix, Query{Text: &TextQuery{Text: "opal gravel", Operator: And}, Highlight: []string{"t"}, Fields: []string{"t"}, K: 5})
	if len(r.Hits) != 1 || r.Hits[0].Fields["t"] != text || len(r.Hits[0].Highlights["t"]) == 0 {
		t.Errorf("%d hits", len(r.Hits))
	}
	if got := ask(t, ix, TextQuery{Text: "clay loam sand", Phrase: true}); !slices.Equal(got, []string{"1"}) {
		t.Errorf("phrase: %v", got)
	}
	if got := ask(t, ix, TextQuery{Text: "opal"}); len(got) != 2 || got[0] != "2" {
		t.Errorf("the shorter one is not first: %v", got)
	}
}

// TestCouplesOfSyllables: what Vietnamese writes as one word ranks above its
// syllables apart, and asks for no more than these under And.
func TestCouplesOfSyllables(t *testing.T) {
	ix := textIndex(t, "vietnamese", "nam giới ở đất việt", "người việt nam ta", "một hai ba")
	for _, q := range []TextQuery{{Text: "Việt Nam"}, {Text: "Việt Nam", Operator: And}} {
		if got := ask(t, ix, q); !slices.Equal(got, []string{"2", "1"}) {
			t.Errorf("%+v: %v", q, got)
		}
	}
	if got := ask(t, ix, TextQuery{Text: "Việt Nam", Phrase: true}); !slices.Equal(got, []string{"2"}) {
		t.Errorf("phrase: %v", got)
	}
	r := mustSearch(t, ix, Query{Text: &TextQuery{Text: "việt nam"}, Highlight: []string{"t"}, K: 1, Explain: true})
	p := r.Hits[0].Highlights["t"][0]
	marked := ""
	for _, m := range p.Marks {
		marked += "[" + p.Text[m.Start:m.End] + "]"
	}
	if marked != "[việt nam]" && marked != "[việt][nam]" {
		t.Errorf("marks %s", marked)
	}
}
