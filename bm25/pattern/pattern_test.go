package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// editErrors is the restricted Damerau–Levenshtein distance by its table.
func editErrors(a, b []rune) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// allWords returns the words of up to n characters over an alphabet, ascending.
func allWords(alphabet string, n int) []string {
	out := []string{""}
	for from := 0; n > 0; n-- {
		to := len(out)
		for _, w := range out[from:to] {
			for _, r := range alphabet {
				out = append(out, w+string(r))
			}
		}
		from = to
	}
	slices.Sort(out)
	return out[1:]
}

// TestFuzzyEqualsTable tries every pair of short words, then random long ones.
func TestFuzzyEqualsTable(t *testing.T) {
	words := allWords("aéb", 5)
	check := func(word, term string, d *DFA, max, prefix int) {
		t.Helper()
		want := editErrors([]rune(word), []rune(term))
		p := []rune(word)[:min(prefix, utf8.RuneCountInString(word))]
		ok := strings.HasPrefix(term, string(p))
		if ok {
			want = editErrors([]rune(word)[len(p):], []rune(term)[len(p):])
			ok = want <= max
		}
		got, match := d.Match([]byte(term))
		if match != ok || match && got != want {
			t.Fatalf("%q against %q, %d errors, prefix %d: got %d %v, want %d %v", word, term, max, prefix, got, match, want, ok)
		}
	}
	for i, word := range words {
		if i%3 != 0 && len(word) > 4 {
			continue
		}
		for max := range 3 {
			prefix := (i + max) % 3
			d, err := Fuzzy(word, max, prefix)
			if err != nil {
				t.Fatal(err)
			}
			for _, term := range words {
				check(word, term, d, max, prefix)
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		word := []rune(randomWord(rng, 1+rng.IntN(30), "abcdeß漢"))
		max := 1 + rng.IntN(2)
		d, err := Fuzzy(string(word), max, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			term := slices.Clone(word)
			for range rng.IntN(4) {
				switch i := rng.IntN(len(term) + 1); {
				case i == len(term) || rng.IntN(3) == 0:
					term = slices.Insert(term, i, 'x')
				case i > 0 && rng.IntN(2) == 0:
					term[i], term[i-1] = term[i-1], term[i]
				default:
					term[i] = 'c'
				}
			}
			check(string(word), string(term), d, max, 0)
		}
	}
}

func randomWord(rng *rand.Rand, n int, alphabet string) string {
	letters := []rune(alphabet)
	var b strings.Builder
	for range n {
		b.WriteRune(letters[rng.IntN(len(letters))])
	}
	return b.String()
}

func TestFuzzyLongWordIsExact(t *testing.T) {
	word := strings.Repeat("ab", 40)
	d, err := Fuzzy(word, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Match([]byte(word)); !ok {
		t.Error("the word itself is refused")
	}
	if _, ok := d.Match([]byte(word[1:])); ok {
		t.Error("an error is accepted")
	}
	for _, bad := range [][2]int{{3, 0}, {-1, 0}, {1, -1}} {
		if _, err := Fuzzy("word", bad[0], bad[1]); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

var expressions = []string{
	"a", "a*", "a+b", "(a|b)*a", "^a.b$", "[^a]b?", "é|ab*", ".*b", "a{2,3}", "(ab|ba){1,2}", "a$|b", "()", "^$", "a$b", "[a-z]+", `\x{e9}.`, "[b-é]a", ".", "(?i)A", "a??b", "x", `[\x{d7ff}-\x{e001}]`,
}

func TestRegexpEqualsPackageRegexp(t *testing.T) {
	words := append(allWords("abé", 4), "\ud7ff", "\ue000", "\U0010ffff", "a\nb")
	slices.Sort(words)
	for _, e := range expressions {
		d, err := Regexp(e, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile("(?is)^(?:" + e + ")$")
		for _, w := range words {
			if _, ok := d.Match([]byte(w)); ok != want.MatchString(w) {
				t.Fatalf("%q on %q: %v", e, w, ok)
			}
		}
		checkWalk(t, d, words)
	}
}

// checkWalk walks over terms, seeking as a dictionary would, and counts.
func checkWalk(t *testing.T, d *DFA, terms []string) (read int) {
	t.Helper()
	var want, got []string
	for _, w := range terms {
		if _, ok := d.Match([]byte(w)); ok {
			want = append(want, w)
		}
	}
	w := NewWalk(d)
	next := w.Next()
	for i := 0; next != nil && i < len(terms); {
		if terms[i] < string(next) {
			i++
			continue
		}
		read++
		r, errs := w.Match([]byte(terms[i]))
		if r == Matches {
			if n, _ := d.Match([]byte(terms[i])); n != errs {
				t.Fatalf("%s on %q: %d errors, want %d", d, terms[i], errs, n)
			}
			got = append(got, terms[i])
		}
		if r == Fails {
			if next = w.Next(); next != nil && string(next) <= terms[i] {
				t.Fatalf("%s: after %q comes %q", d, terms[i], next)
			}
			continue
		}
		i++
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: walk gave %.300q, want %.300q", d, got, want)
	}
	return read
}

func TestWildcard(t *testing.T) {
	upper := func(s string) string { return strings.ToLower(s) }
	for _, c := range []struct {
		pattern string
		yes, no string
	}{
		{"fo*", "fo foo foxes", "of f föö"},
		{"*ing", "ing running", "ingo"},
		{"c?t", "cat cöt c漢t", "ct caat"},
		{"a**b", "ab axb", "a b"},
		{`a\*b`, "a*b", "ab axb"},
		{`a\`, `a\`, "a"},
		{"FO?", "foo fox", "fo"},
		{"[a]", "[a]", "a"},
	} {
		d, err := Wildcard(c.pattern, upper)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range strings.Fields(c.yes) {
			if _, ok := d.Match([]byte(w)); !ok {
				t.Errorf("%s refuses %s", c.pattern, w)
			}
		}
		for _, w := range strings.Fields(c.no) {
			if _, ok := d.Match([]byte(w)); ok {
				t.Errorf("%s accepts %s", c.pattern, w)
			}
		}
	}
}

// TestWalkSkips makes sure that seeking pays: of 30,000 terms few are read.
// TestMayEnd: what the glance at the end refuses does not match.
func TestMayEnd(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	letters := []rune("abskKS1ſKé")
	draw := func(n int) string {
		out := make([]rune, n)
		for i := range out {
			out[i] = letters[r.IntN(len(letters))]
		}
		return string(out)
	}
	refused := 0
	for range 3000 {
		d, err := Wildcard("*"+draw(r.IntN(4)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			term := draw(r.IntN(6))
			if _, ok := d.Match([]byte(term)); !d.MayEnd([]byte(term)) {
				refused++
				if ok {
					t.Fatalf("%v: %q matches and is refused", d, term)
				}
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d refused", refused)
	}
	for _, s := range []string{"a*b", "*a*", "?b", "*é"} {
		if d, _ := Wildcard(s, nil); !d.MayEnd([]byte("zz")) {
			t.Errorf("%s refuses by its end", s)
		}
	}
}

func TestWalkSkips(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var terms []string
	for range 30000 {
		terms = append(terms, randomWord(rng, 2+rng.IntN(9), "abcdefghijklmnop漢é"))
	}
	terms = append(terms, "\xff", "a\xc3", "a\xed\xa0\x80z", "b\x80b")
	slices.Sort(terms)
	terms = slices.Compact(terms)
	for name, limit := range map[string]int{"abcdef": 3000, "漢é": 3000, "mnopabcd": 3000} {
		for errs := range 3 {
			d, err := Fuzzy(name, errs, 0)
			if err != nil {
				t.Fatal(err)
			}
			if n := checkWalk(t, d, terms); n > limit*(1+errs) {
				t.Errorf("%s with %d errors: %d terms read", name, errs, n)
			}
		}
	}
	d, err := Regexp("ab(c|漢).*", nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := checkWalk(t, d, terms); n > 200 {
		t.Errorf("%s: %d terms read", d, n)
	}
}

// TestC14ExplodingExpressions: clear errors, quickly.
func TestC14ExplodingExpressions(t *testing.T) {
	for _, e := range []string{
		"(a|b)*a(a|b){30}", "((a{100}){100}){10}", ".*a.{40}b.{40}", strings.Repeat("(a*)*", 300), `(\p{L}|\p{N}){900}`, strings.Repeat("(", 10000),
		"(x+x+)+y(x|y){20}", ".*.*.*.*a.{20}=.*",
	} {
		d, err := Regexp(e, nil)
		if err != nil && !errors.Is(err, storage.ErrTooLarge) && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%.20s: %v", e, err)
		}
		if err == nil && len(d.states) > MaxStates {
			t.Errorf("%.20s: %d states", e, len(d.states))
		}
	}
	for _, e := range []string{"(", "[", `\bfoo`, "a**", `(?<n>a)\k`, "(?=a)"} {
		if _, err := Regexp(e, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", e, err)
		}
	}
	if _, err := Wildcard(strings.Repeat("*a", 2000), nil); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("long wildcard: %v", err)
	}
	if d, err := Wildcard(strings.Repeat("*", 900), nil); err != nil || len(d.states) > 3 {
		t.Errorf("stars: %v", err)
	}
}

func FuzzPatterns(f *testing.F) {
	for _, e := range expressions {
		f.Add(e, "ab")
	}
	f.Add("f*o?", "foo")
	f.Fuzz(func(t *testing.T, e, term string) {
		if d, err := Regexp(e, nil); err == nil && utf8.ValidString(term) {
			if want, err := regexp.Compile("(?is)^(?:" + e + ")$"); err == nil && !strings.Contains(e, "(?") {
				if _, ok := d.Match([]byte(term)); ok != want.MatchString(term) {
					t.Fatalf("%q on %q: %v", e, term, ok)
				}
			}
		}
		terms := []string{"a", "ab", "b", e, term, term + e}
		slices.Sort(terms)
		terms = slices.DeleteFunc(slices.Compact(terms), func(s string) bool { return s == "" })
		if d, err := Wildcard(e, nil); err == nil {
			checkWalk(t, d, terms)
		}
		if d, err := Fuzzy(e, 2, 1); err == nil {
			checkWalk(t, d, terms)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	for _, errs := range []int{1, 2} {
		b.Run(fmt.Sprintf("fuzzy %d", errs), func(b *testing.B) {
			for b.Loop() {
				if _, err := Fuzzy("international", errs, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("worst", func(b *testing.B) {
		for b.Loop() {
			if _, err := Regexp("(a|b)*a(a|b){30}", nil); err == nil {
				b.Fatal("no error")
			}
		}
	})
}
