package highlight

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25/analysis"
)

// matcherOf matches the terms that a query has under an analyzer.
func matcherOf(a *analysis.Analyzer, query string) Matcher {
	terms := map[string]int{}
	a.QueryTokens(new(analysis.Scratch), query, func(t *analysis.Token) {
		if _, ok := terms[string(t.Term)]; !ok {
			terms[string(t.Term)] = len(terms)
		}
	})
	return func(term []byte) int {
		if n, ok := terms[string(term)]; ok {
			return n
		}
		return -1
	}
}

func analyzer(t testing.TB, name string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// marked shows the passages with brackets round the matches.
func marked(text string, ps []Passage) string {
	var out []string
	for _, p := range ps {
		var b strings.Builder
		at := p.Start
		for _, m := range p.Marks {
			b.WriteString(text[at:m.Start] + "[" + text[m.Start:m.End] + "]")
			at = m.End
		}
		out = append(out, b.String()+text[at:p.End])
	}
	return strings.Join(out, " … ")
}

func TestPassages(t *testing.T) {
	filler := strings.Repeat("nothing to see here at all. ", 20)
	for _, c := range []struct{ analyzer, query, text, want string }{
		{"english", "running", "He runs every day", "He [runs] every day"},
		{"standard", "cafe\u0301", "un café noir", "un [café] noir"},
		{"standard", "istanbul", "die Stadt İstanbul!", "die Stadt [İstanbul]!"},
		{"standard", "naïve", "nai\u0308ve idea", "[nai\u0308ve] idea"},
		{"standard", "陈景润", "昨天陈景润证明了", "昨天[陈景润]证明了"},
		{"standard", "user name", "see getUserName now", "see get[User][Name] now"},
		{"standard", "absent", "nothing", ""},
		{"standard", "word", "", ""},
		{"english", "gate lock", "A gate. " + filler + "The gate has a lock on it. " + filler + "A lock.", ""},
	} {
		a := analyzer(t, c.analyzer)
		o := Options{Size: 60, Max: 1}
		ps := Passages(a, new(analysis.Scratch), c.text, matcherOf(a, c.query), o)
		got := marked(c.text, ps)
		if c.want == "" && strings.HasPrefix(c.text, "A gate.") {
			if !strings.Contains(got, "[gate] has a [lock]") || len(got) > 80 {
				t.Errorf("the passage with both words is best; got %q", got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%q in %q: got %q, want %q", c.query, c.text, got, c.want)
		}
	}
}

// TestInvariants holds for any text: borders of runes, marks inside their
// passage, passages in order and apart.
func TestInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	pieces := []string{"river", "Rivers ", "東京", "大阪の", " ", "\n", "é", "e\u0301", "😀", "getRiver", "-", "x\xff", "the "}
	a := analyzer(t, "english")
	is := matcherOf(a, "river 東京大阪 getRiver")
	for range 3000 {
		var b strings.Builder
		for range r.IntN(60) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		text := b.String()
		o := Options{Size: 1 + r.IntN(40), Max: 1 + r.IntN(4)}
		ps := Passages(a, new(analysis.Scratch), text, is, o)
		end := 0
		for _, p := range ps {
			if p.Start < end || p.End < p.Start || p.End > len(text) || len(p.Marks) == 0 || len(ps) > o.Max {
				t.Fatalf("%q, %+v: passages %+v", text, o, ps)
			}
			at := p.Start
			for _, m := range p.Marks {
				if m.Start < at || m.End <= m.Start || m.End > p.End {
					t.Fatalf("%q, %+v: marks %+v", text, o, p)
				}
				at = m.End
			}
			for _, i := range []int{p.Start, p.End} {
				if i < len(text) && !utf8.RuneStart(text[i]) {
					t.Fatalf("%q, %+v: passage %+v cuts a rune", text, o, p)
				}
			}
			end = p.End
		}
	}
}

// TestManyMatches: many matches in a long text must not cost their square.
func TestManyMatches(t *testing.T) {
	a := analyzer(t, "standard")
	text := strings.Repeat("river ", 200_000)
	if ps := Passages(a, new(analysis.Scratch), text, matcherOf(a, "river"), Options{}); len(ps) != 3 {
		t.Errorf("%d passages", len(ps))
	}
}
