package analysis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/quarrysearch/quarry/storage"
)

// tok is a Token that outlives the call.
type tok struct {
	Term       string
	Pos        uint32
	Start, End int
}

type tokenizer func(*Scratch, string, func(*Token))

func collect(f tokenizer, s *Scratch, text string) []tok {
	var out []tok
	f(s, text, func(t *Token) { out = append(out, tok{string(t.Term), t.Position, t.Start, t.End}) })
	return out
}

func terms(f tokenizer, text string) []string {
	var out []string
	for _, t := range collect(f, new(Scratch), text) {
		out = append(out, t.Term)
	}
	return out
}

func all(t testing.TB) []*Analyzer {
	var out []*Analyzer
	for _, name := range Names() {
		out = append(out, mustNew(t, name))
	}
	return out
}

// checkTokens verifies what every analyzer promises for every text.
func checkTokens(t testing.TB, a *Analyzer, s *Scratch, text string) {
	t.Helper()
	for m, f := range map[string]tokenizer{"index": a.Tokens, "query": a.QueryTokens, "phrase": a.PhraseTokens} {
		got := collect(f, s, text)
		var start int
		var pos uint32
		for _, k := range got {
			if k.Start < start || k.End <= k.Start || k.End > len(text) || k.Pos < pos {
				t.Fatalf("%s %s %q: token %+v after start %d, position %d", a.Name(), m, text, k, start, pos)
			}
			if k.Term == "" || len(k.Term) > maxTerm || !utf8.ValidString(k.Term) {
				t.Fatalf("%s %s %q: term %q", a.Name(), m, text, k.Term)
			}
			start, pos = k.Start, k.Pos
		}
		if again := collect(f, new(Scratch), text); !slices.Equal(got, again) {
			t.Fatalf("%s %s %q: a warm scratch gives\n%v\na new one\n%v", a.Name(), m, text, got, again)
		}
	}
}

var nasty = []string{
	"", " ", "\x00", "a\x00b", "\xff\xfe", "abc\xe4\xb8", "\xed\xa0\x80x", "a\u202eb\u202c", "\u200d\u200d", "e\u0301\u0301\u0301",
	"İI ıi", "ﬁﬂ ﬀi", "ǅ ŉ ẞ ß ΐ ᾳ ΣΑΣ", "㍿ ㌔ ½ ² ① Ⅷ", "ｶﾞｷﾞ ﾊﾟ", "각각 가", "が か\u3099", "한국어abc日本語123", "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️",
	"''' _ __ ___ a_ _a a__b", "a.b.c 1.2.3 1,000 1,0000 1_000 3,14 12:30 v1.2.3", "l'avion L’été d’", "O'Neil's dogs'", "AR-7 a-b-c-1-2-3-4-5-6-7-8-9 -1 1- --",
	"C++ C# F#x c+++ +++", "getUserName HTTPServer2 x2Y XMLHttpRequest", "สวัสดีครับ ำำ ่่่", "ភាសាខ្មែរ မြန်မာ ລາວ", "ⓐⓑ 𝐇𝐞𝐥𝐥𝐨 ｆｕｌｌ", "מ\"מ צה״ל ג׳", "الْعَرَبِيَّة ـــ", "l·l col·legi",
	"ａ＿ｂ ａ．ｂ", "\u0301", "\u3099\u3099", "ー々", "\ufe0f", "ىة کی", "I\u0307I\u0307", "K팝 팝K a_カ", "١٢٣ १२३ 𝟙𝟚",
	strings.Repeat("a", 300), strings.Repeat("é", 300), strings.Repeat("a_", 300), strings.Repeat("\u0301", 2000), "a" + strings.Repeat("\u0301", 2000),
	"漢" + strings.Repeat("\u0301", 500), strings.Repeat("ﷺ", 100),
}

func TestEveryAnalyzerKeepsItsPromises(t *testing.T) {
	var s Scratch
	for _, a := range all(t) {
		for _, text := range nasty {
			checkTokens(t, a, &s, text)
		}
		checkTokens(t, a, &s, strings.Join(nasty, ""))
		checkTokens(t, a, &s, strings.Join(nasty, " "))
	}
}

func TestRandomTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pool := []rune(strings.ToValidUTF8(strings.Join(nasty, ""), "?"))
	var s Scratch
	analyzers := all(t)
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(20) {
			switch rng.IntN(8) {
			case 0:
				b.WriteByte(byte(rng.IntN(256)))
			case 1:
				b.WriteRune(rune(rng.IntN(0x3000)))
			default:
				b.WriteRune(pool[rng.IntN(len(pool))])
			}
		}
		checkTokens(t, analyzers[rng.IntN(len(analyzers))], &s, b.String())
	}
}

func FuzzTokens(f *testing.F) {
	for _, text := range nasty {
		f.Add(text)
	}
	var s Scratch
	analyzers := all(f)
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range analyzers {
			checkTokens(t, a, &s, text)
		}
	})
}

func TestNew(t *testing.T) {
	for _, a := range all(t) {
		if again := mustNew(t, a.Name()); again.Identity() != a.Identity() || !strings.HasPrefix(a.Identity(), a.Name()+"/") {
			t.Errorf("%s: identity %q", a.Name(), a.Identity())
		}
	}
	_, err := New("klingon")
	if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "english, ") {
		t.Errorf("unknown name gives %v", err)
	}
	for tag, want := range map[string]string{"de": "german", "pt-BR": "portuguese", "NB_no": "norwegian", "zh-Hant": "chinese", "": "standard", "xx": "standard", "ko": "standard", "eng": "english"} {
		if got := ForLanguage(tag).Name(); got != want {
			t.Errorf("ForLanguage(%q) = %s, want %s", tag, got, want)
		}
	}
	seen := map[string]string{}
	for _, l := range languages {
		for _, c := range strings.Fields(l.codes) {
			if seen[c] != "" {
				t.Errorf("code %s belongs to %s and %s", c, seen[c], l.name)
			}
			seen[c] = l.name
		}
	}
}

// found tells whether every query term is among the index terms of text.
func found(a *Analyzer, text, query string) bool {
	index := terms(a.Tokens, text)
	q := terms(a.QueryTokens, query)
	for _, t := range q {
		if !slices.Contains(index, t) {
			return false
		}
	}
	return len(q) > 0
}

// foundPhrase tells whether text holds the phrase.
func foundPhrase(a *Analyzer, text, phrase string) bool {
	index := collect(a.Tokens, new(Scratch), text)
	want := collect(a.PhraseTokens, new(Scratch), phrase)
	has := map[tok]bool{}
	last := uint32(0)
	for _, k := range index {
		has[tok{Term: k.Term, Pos: k.Pos}] = true
		last = k.Pos
	}
	for base := uint32(0); base <= last && len(want) > 0; base++ {
		ok := true
		for _, k := range want {
			ok = ok && has[tok{Term: k.Term, Pos: base + k.Pos - want[0].Pos}]
		}
		if ok {
			return true
		}
	}
	return false
}

// rank orders documents by the throw-away BM25 of the quality test.
func rank(a *Analyzer, query string, docs ...string) []int {
	return buildBrute(a, docs).search(a, new(Scratch), query, 10)
}

func TestC05StopWordQueries(t *testing.T) {
	docs := []string{"no means no", "if let binding", "To be or not to be"}
	for _, name := range []string{"standard", "english"} {
		a := mustNew(t, name)
		for i, q := range []string{"no", "if let", "to be or not to be"} {
			if got := rank(a, q, docs...); len(got) == 0 || got[0] != i {
				t.Errorf("%s: %q ranks %v", name, q, got)
			}
			for d := range docs {
				if got := foundPhrase(a, docs[d], q); got != (d == i) {
					t.Errorf("%s: phrase %q in %q: %v", name, q, docs[d], got)
				}
			}
		}
	}
	a := mustNew(t, "english")
	if got := terms(a.QueryTokens, "what is the capital of France"); !slices.Equal(got, []string{"capit", "franc"}) {
		t.Errorf("stop words stay in %q", got)
	}
	if !a.IsStopWord("The") || a.IsStopWord("capital") {
		t.Error("IsStopWord")
	}
}

func TestC06ChineseNames(t *testing.T) {
	docs := []string{"陈景润证明了该定理", "桂林的景色很美", "机器需要润滑油"}
	for _, a := range []*Analyzer{mustNew(t, "standard"), ForLanguage("zh"), mustNew(t, "english")} {
		if got := rank(a, "陈景润", docs...); !slices.Equal(got, []int{0}) {
			t.Errorf("%s: 陈景润 ranks %v", a.Name(), got)
		}
		if got := rank(a, "景色", docs...); !slices.Equal(got, []int{1}) {
			t.Errorf("%s: 景色 ranks %v", a.Name(), got)
		}
		if got := rank(a, "润", docs...); len(got) != 2 {
			t.Errorf("%s: 润 ranks %v", a.Name(), got)
		}
		for d := range docs {
			if got := foundPhrase(a, docs[d], "陈景润"); got != (d == 0) {
				t.Errorf("%s: phrase in %q: %v", a.Name(), docs[d], got)
			}
		}
	}
	got := collect(mustNew(t, "standard").Tokens, new(Scratch), "x 景色 y")
	want := []tok{{"x", 0, 0, 1}, {"景", 1, 2, 5}, {"景色", 1, 2, 8}, {"色", 2, 5, 8}, {"y", 3, 9, 10}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := terms(mustNew(t, "standard").QueryTokens, "สวัสดี"); !slices.Equal(got, []string{"สวัส", "วัสดี"}) {
		t.Errorf("thai query %q", got)
	}
}

func TestC08FoldingKeepsOffsets(t *testing.T) {
	text := "x İstanbul Ünlü café nai\u0308ve ﬁn ＡＢ Straße"
	a := mustNew(t, "standard")
	for query, source := range map[string]string{
		"istanbul": "İstanbul", "ISTANBUL": "İstanbul", "ÜNLÜ": "Ünlü", "cafe\u0301": "café", "cafe": "café", "naïve": "nai\u0308ve",
		"fin": "ﬁn", "ab": "ＡＢ", "STRASSE": "Straße", "strasse": "Straße",
	} {
		want := terms(a.QueryTokens, query)
		ok := false
		for _, k := range collect(a.Tokens, new(Scratch), text) {
			ok = ok || k.Term == want[0] && text[k.Start:k.End] == source
		}
		if !ok || len(want) != 1 {
			t.Errorf("%q does not find %q", query, source)
		}
	}
	for _, b := range all(t) {
		for _, pair := range [][2]string{{"İstanbul", "i̇stanbul"}, {"Ünlü", "U\u0308NLU\u0308"}, {"café", "CAFE\u0301"}, {"naïve", "nai\u0308ve"}} {
			if !reflect.DeepEqual(terms(b.Tokens, pair[0]), terms(b.Tokens, pair[1])) {
				t.Errorf("%s: %q gives %q, %q gives %q", b.Name(), pair[0], terms(b.Tokens, pair[0]), pair[1], terms(b.Tokens, pair[1]))
			}
		}
	}
	// The rule for Işık: "standard" reads ı as i, "turkish" reads I as ı.
	tr := mustNew(t, "turkish")
	for _, b := range []*Analyzer{a, tr} {
		if !found(b, "Işık", "ışık") || !found(b, "IŞIK", "Işık") || !found(b, "İstanbul", "istanbul") {
			t.Errorf("%s: Işık", b.Name())
		}
	}
}

func TestC09Identifiers(t *testing.T) {
	docs := []string{"call getUserName here", "call get_user_name here", "start HTTPServer2 now", "the AR-7 manual", "the AR-70 manual", "7 arms", "PGMP-15 part"}
	for _, name := range []string{"standard", "english", "code"} {
		a := mustNew(t, name)
		for query, want := range map[string][]int{
			"user name": {0, 1}, "getusername": {0, 1}, "getUserName": {0, 1}, "get_user_name": {0, 1}, "http server": {2}, "httpserver2": {2},
			"AR-7": {3}, "ar7": {3}, "pgmp-15": {6}, "PGMP": {6},
		} {
			got := rank(a, query, docs...)
			if len(got) < len(want) || !slices.Equal(slices.Sorted(slices.Values(got[:len(want)])), want) {
				t.Errorf("%s: %q ranks %v, want %v first", name, query, got, want)
			}
		}
		if !foundPhrase(a, docs[0], "call getUserName here") || !foundPhrase(a, docs[0], "user name here") || !foundPhrase(a, docs[3], "the AR-7 manual") || foundPhrase(a, docs[4], "AR-7") {
			t.Errorf("%s: phrases over identifiers", name)
		}
	}
	got := collect(mustNew(t, "standard").Tokens, new(Scratch), "a getUserName b IL-6 c")
	want := []tok{{"a", 0, 0, 1}, {"getusername", 1, 2, 13}, {"get", 1, 2, 5}, {"user", 2, 5, 9}, {"name", 3, 9, 13}, {"b", 4, 14, 15},
		{"il6", 5, 16, 20}, {"il", 5, 16, 18}, {"6", 6, 19, 20}, {"c", 7, 21, 22}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for text, want := range map[string][]string{
		"1,000 3.14 1.2.3 v1.2": {"1000", "3.14", "1.2.3", "v1.2"}, "C++ and C#": {"c++", "c", "and", "c#", "c"}, "mRNA iPhone": {"mrna", "iphone"},
		"U.S.A": {"usa", "u", "s", "a"}, "__init__": {"init"}, "don't": {"don", "t"}, "м'який": {"мякий"}, "🎉 ok": {"🎉", "ok"},
	} {
		if got := terms(mustNew(t, "standard").Tokens, text); !slices.Equal(got, want) {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	if got := terms(mustNew(t, "french").Tokens, "L’avion d'été"); !slices.Equal(got, []string{"avion", "ete"}) {
		t.Errorf("elision: %q", got)
	}
	if got := terms(mustNew(t, "english").Tokens, "John's dogs"); !slices.Equal(got, []string{"john", "dog"}) {
		t.Errorf("possessive: %q", got)
	}
}

func TestC11LongTokens(t *testing.T) {
	name := strings.Repeat("abcdefgh2_", 9) // 90 characters
	hash := strings.Repeat("0123456789abcdef", 4)
	word := strings.Repeat("x", 70000)
	line := strings.Repeat("aGVsbG8gd29ybGQ", 70000) + " needle"
	for _, a := range all(t) {
		if a.kind == kindKeyword {
			continue
		}
		for _, text := range []string{name, hash, word} {
			if !found(a, "see "+text+" there", text) {
				t.Errorf("%s: %.20q… is not found", a.Name(), text)
			}
		}
		if found(a, name, name[:80]+"zz") || found(a, hash, hash[:63]+"0") {
			t.Errorf("%s: a long term matches another", a.Name())
		}
		if !found(a, line, "needle") || len(terms(a.Tokens, line)) > 3 {
			t.Errorf("%s: needle", a.Name())
		}
	}
}

// TestTimeIsLinear runs texts on which look-ahead or rescans would be quadratic.
func TestTimeIsLinear(t *testing.T) {
	const n = 40_000
	var s Scratch
	for _, unit := range []string{"K팝", "é팝", "a-", "1-", "א.", "a.\u0301", "a'\u0301", "\u0301", "क-", "팝\u0301", "א\"", "a_", "aB", "🇩", "漢a"} {
		text := strings.Repeat(unit, n)
		start := time.Now()
		for _, name := range []string{"standard", "english", "code"} {
			a := mustNew(t, name)
			a.Tokens(&s, text, func(*Token) {})
			a.QueryTokens(&s, text, func(*Token) {})
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%q × %d takes %v", unit, n, d)
		}
	}
}

// goldenTokens are hashes of every token of a text for all analyzers, a version.
// When one changes, indexes on disk no longer match the code: add a version.
var goldenTokens = map[int]uint64{1: 0x1579b36fc0ac4f77, 2: 0x3487b33e33090cf4, 3: 0xc7dd657cc0ce91af}

// TestCouples: two Vietnamese syllables with a space between are a term, too,
// unless both are stop words; not in phrases, nor by the rules of version 2.
func TestCouples(t *testing.T) {
	var s Scratch
	terms := func(f tokenizer, text string) (out []string) {
		pos := uint32(0)
		f(&s, text, func(k *Token) {
			if k.Couple != strings.Contains(string(k.Term), " ") || k.Position < pos {
				t.Errorf("%q: %+v after position %d", text, k, pos)
			}
			pos = k.Position
			out = append(out, fmt.Sprintf("%s@%d:%d-%d", k.Term, k.Position, k.Start, k.End))
		})
		return out
	}
	a := mustNew(t, "vietnamese")
	const text = "Việt Nam, và của  Hà Nội"
	index := []string{"việt@0:0-6", "việt nam@0:0-10", "nam@1:7-10", "và@2:12-15", "của@3:16-21", "hà@4:23-26", "hà nội@4:23-32", "nội@5:27-32"}
	if got := terms(a.Tokens, text); !slices.Equal(got, index) {
		t.Errorf("index: %q", got)
	}
	query := slices.DeleteFunc(slices.Clone(index), func(s string) bool { return strings.HasPrefix(s, "và@") || strings.HasPrefix(s, "của@") })
	if got := terms(a.QueryTokens, text); !slices.Equal(got, query) {
		t.Errorf("query: %q", got)
	}
	single := slices.DeleteFunc(slices.Clone(index), func(s string) bool { return strings.Contains(s, " ") })
	if got := terms(a.PhraseTokens, text); !slices.Equal(got, single) {
		t.Errorf("phrase: %q", got)
	}
	if a.Identity() != "vietnamese/3" {
		t.Error(a.Identity())
	}
	old, err := Stored("vietnamese/2")
	if err != nil {
		t.Fatal(err)
	}
	if got := terms(old.Tokens, text); !slices.Equal(got, single) {
		t.Errorf("version 2: %q", got)
	}
	if got := terms(mustNew(t, "english").Tokens, "New York"); len(got) != 2 {
		t.Errorf("english: %q", got)
	}
}

func TestTokensChangeOnlyWithVersion(t *testing.T) {
	text := strings.Join(nasty, " ")
	for i := range languages {
		text += " " + languages[i].stops + " " + languages[i].elisions
	}
	text += " running generalizations nationality Häuser chevaux быстрыми 陈景润证明了该定理 食べました getUserName AR-7"
	var s Scratch
	for v := version1; v <= version3; v++ {
		if v == version2 {
			text += " 5kg 3.5mm 1,000kV 5g 100km/h 2nd ㎏ 5㎏"
		}
		h := xxhash.New()
		for _, name := range Names() {
			a, err := Stored(fmt.Sprint(name, "/", v))
			if v > version2 && name != "vietnamese" {
				if !errors.Is(err, storage.ErrInvalid) {
					t.Errorf("%s/%d: %v", name, v, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []tokenizer{a.Tokens, a.QueryTokens, a.PhraseTokens} {
				f(&s, text, func(k *Token) { fmt.Fprintln(h, string(k.Term), k.Position, k.Start, k.End) })
			}
		}
		if h.Sum64() != goldenTokens[v] {
			t.Errorf("version %d gives hash %#x, not %#x", v, h.Sum64(), goldenTokens[v])
		}
	}
}

func TestC14QuerySyntaxIsText(t *testing.T) {
	var s Scratch
	for _, q := range []string{"user:/home", "swap!", "C++ (draft", "AND OR", "\"unclosed", "a:b", "\\", "~2", "*", "+-", "[1 TO", strings.Repeat("(", 10000)} {
		for _, a := range all(t) {
			checkTokens(t, a, &s, q)
		}
	}
	a := mustNew(t, "standard")
	if got := terms(a.QueryTokens, "user:/home"); !slices.Equal(got, []string{"user", "home"}) {
		t.Errorf("%q", got)
	}
	if got := terms(a.QueryTokens, "AND OR"); !slices.Equal(got, []string{"and", "or"}) {
		t.Errorf("%q", got)
	}
}

func TestKeyword(t *testing.T) {
	a := mustNew(t, "keyword")
	if got := collect(a.Tokens, new(Scratch), "  New YORK’s Café \n"); !slices.Equal(got, []tok{{"new york's cafe", 0, 2, 20}}) {
		t.Errorf("%v", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	text := strings.Join(nasty, " ") + " running quickly connections generalization"
	var wg sync.WaitGroup
	for _, a := range all(t) {
		want := collect(a.Tokens, new(Scratch), text)
		for range 4 {
			wg.Go(func() {
				var s Scratch
				for range 5 {
					if !slices.Equal(collect(a.Tokens, &s, text), want) {
						t.Errorf("%s: tokens differ between goroutines", a.Name())
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestWarmScratchDoesNotAllocate(t *testing.T) {
	text := strings.Join(nasty, " ") + " the quick brown foxes were running happily; L’été, Straße, быстрые лисы, 陈景润证明了该定理"
	n := 0
	emit := func(k *Token) { n += len(k.Term) }
	for _, a := range all(t) {
		var s Scratch
		a.Tokens(&s, text, emit)
		a.QueryTokens(&s, text, emit)
		if got := testing.AllocsPerRun(10, func() { a.Tokens(&s, text, emit); a.QueryTokens(&s, text, emit) }); got != 0 {
			t.Errorf("%s: %v allocations", a.Name(), got)
		}
	}
}
