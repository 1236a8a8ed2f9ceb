package analysis

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// TestLanguagesFind goes through what a reader of each language expects: the
// query on the left finds the text in the middle, and not that on the right.
func TestLanguagesFind(t *testing.T) {
	for analyzer, cases := range map[string][][3]string{
		"standard": {
			{"ｱﾊﾟｰﾄ", "アパート", "アート"}, // NFKC: half-width Kana
			{"ﬁnal", "FINAL", "fin"},
			{"cafe", "Café", "caff"}, {"CAFÉ", "cafe", ""},
			{"각", "\u1100\u1161\u11a8", "가"}, // Hangul syllable and its letters
			{norm.NFD.String("한국어"), "한국어를 배운다", "중국어"},
			{"한국", norm.NFD.String("한국어"), "국한"},
			{"ß", "SS", "s"}, {"straße", "STRASSE", "strase"},
			{"ελλαδα", "Ελλάδα", "ελλας"}, {"ΣΊΣΥΦΟΣ", "σίσυφος", ""},
			{"елка", "Ёлка", "палка"},
			{"كتاب", "كِتَابٌ", "كاتب"}, {"احمد", "أحمد", "محمد"},
			{"שלום", "שָׁלוֹם", "שלם"},
			{"किताब", "किताब", "कताब"},
			{"ไทย", "ประเทศไทยสวย", "ลาว"}, {"สวัสดี", "สวัสดีครับ", "สวย"},
			{"ខ្មែរ", "ភាសាខ្មែរ", "លាវ"}, {"မြန်မာ", "မြန်မာစာ", "လာ"},
			{"🎉", "party 🎉 time", "party 🎈"}, {"👩‍👩‍👧‍👦", "x👩‍👩‍👧‍👦y", "👩"}, {"🇩🇪", "🇩🇪🇫🇷", "🇫🇷"},
			{"5 kg", "5kg of rice", "50kg"}, {"5kg", "5kg", "kg"}, {"10 GB", "10GB disk", "100GB"}, {"3.5mm", "a 3.5mm jack", "35mm"},
			{"20€", "20 €", "200"}, {"5 kg", "5㎏", "5㎎"}, {"100 km", "100km/h", "10km"}, {"2nd", "the 2nd", "2"}, {"1000", "1,000", "100"}, {"12:30", "at 12:30", "1 230"},
			{"e-mail", "e-mail me", "emai"}, {"mail", "e-mail", "gmail"}, {"state of the art", "state-of-the-art", "state"},
			{"o'neil", "O’Neil", "oneal"}, {"rock'n'roll", "Rock’n’Roll", "rockroll"},
			{"１２３", "123", "1234"}, {"१२३", "123", "12"},
			{"user_id", "the userId", ""}, {"parse url", "parseURL(x)", "parses"}, {"C++", "C++ code", "C code"}, {"c#", "C#", "c"},
			{"node.js", "Node.js", "nodes"}, {"v1.2.3", "v1.2.3", "v1.2.4"},
		},
		"german": {
			{"Häuser", "ein Haus", "die Maus"}, {"haeuser", "Haeuser", ""}, {"Übung", "Ubung", "Umgebung"}, {"größer", "groß", "gras"},
			{"STRASSE", "Straßen", "Strast"}, {"läuft", "lauft", "taufe"},
			{"Donaudampfschiff", "des Donaudampfschiffes", "Schiff"}, // compounds stay whole, as in Snowball
		},
		"turkish": {
			{"ışık", "IŞIK", "aşk"}, {"istanbul", "İSTANBUL'da", "ısparta"}, {"kitap", "kitaplar", "katip"}, {"ILIK", "ılık", "ilkokul"},
		},
		"french":     {{"avion", "l’avion", "camion"}, {"ete", "l'été", "et"}, {"cheval", "chevaux", "cheveu"}, {"aujourd'hui", "Aujourd’hui", ""}},
		"italian":    {{"acqua", "dell'acqua", "aquila"}},
		"spanish":    {{"nino", "los niños", "nido"}, {"corriendo", "corrió", "correo"}},
		"russian":    {{"книги", "книга", "книжный"}, {"ёж", "еж", "нож"}},
		"arabic":     {{"الكتاب", "كتاب", "كاتبة"}},
		"dutch":      {{"boeken", "boek", "boer"}},
		"finnish":    {{"talossa", "talo", "talvi"}},
		"swedish":    {{"hundarna", "hunden", "hundra"}},
		"hungarian":  {{"házak", "ház", "hír"}},
		"portuguese": {{"meninos", "menino", "menta"}},
		"romanian":   {{"cărți", "cărților", "curte"}},
		"norwegian":  {{"bøker", "bøkene", "bakke"}},
		"danish":     {{"husene", "huset", "hest"}},
		"greek":      {{"βιβλία", "βιβλίο", "βία"}},
		"hindi":      {{"किताबें", "किताब", "कमल"}},
		"vietnamese": {{"thắng", "Thắng", "thang"}},
		"english":    {{"running", "runs", "ruins"}, {"dog's", "dogs", "dodge"}, {"universities", "university", "unity"}},
		"chinese":    {{"大学", "北京大学", "学大"}, {"ＡＩ", "ai", "a"}},
		"japanese":   {{"東京", "東京都", "京東"}, {"がっこう", "か\u3099っこう", "かっこう"}, {"ビール", "ﾋﾞｰﾙ", "ビル"}},
		"code":       {{"get name", "getName", "gets"}, {"x", "x = y", "ex"}},
		"tamil":      {{"புத்தகம்", "புத்தகம்", "பூ"}},
		"irish":      {{"athair", "d'athair", "mathair"}},
	} {
		a := mustNew(t, analyzer)
		for _, c := range cases {
			if !found(a, c[1], c[0]) {
				t.Errorf("%s: %q does not find %q: %q in %q", analyzer, c[0], c[1], terms(a.QueryTokens, c[0]), terms(a.Tokens, c[1]))
			}
			if c[2] != "" && found(a, c[2], c[0]) {
				t.Errorf("%s: %q finds %q: %q in %q", analyzer, c[0], c[2], terms(a.QueryTokens, c[0]), terms(a.Tokens, c[2]))
			}
		}
	}
}

// TestNormalFormsAgree: the four normal forms of a text give the same terms.
func TestNormalFormsAgree(t *testing.T) {
	text := "Ünlü café naïve ﬁn ＡＢ 한국어 각 がぎぐ Å Ω é ñ ç ţ Ế ế Ệ ỏ ΐ ё й לָ"
	for _, a := range all(t) {
		if a.Name() == "keyword" {
			continue
		}
		want := terms(a.Tokens, text)
		for _, f := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
			for i, word := range strings.Fields(text) {
				one := strings.Fields(text)[i]
				if got, want := terms(a.Tokens, f.String(word)), terms(a.Tokens, one); !slices.Equal(got, want) {
					t.Errorf("%s: %q gives %q, its form %q", a.Name(), one, want, got)
				}
			}
		}
		if len(want) < 15 {
			t.Errorf("%s: only %q", a.Name(), want)
		}
	}
}

// TestVersion1 keeps the rules that indexes of version 1 were built by.
func TestVersion1(t *testing.T) {
	a, err := Stored("standard/1")
	if err != nil {
		t.Fatal(err)
	}
	if got := terms(a.Tokens, "5kg 3.5mm ㎏ 2nd"); !slices.Equal(got, []string{"5kg", "3.5mm", "2nd"}) || a.Identity() != "standard/1" {
		t.Errorf("%s gives %q", a.Identity(), got)
	}
	now := mustNew(t, "standard")
	if got := terms(now.Tokens, "5kg 3.5mm ㎏ 1,000kV"); !slices.Equal(got, []string{"5kg", "5", "kg", "3.5mm", "3.5", "mm", "kg", "1,000kv", "1000", "kv"}) {
		t.Errorf("%s gives %q", now.Identity(), got)
	}
	if got := terms(now.PhraseTokens, "5kg rice"); !slices.Equal(got, []string{"5kg", "rice"}) {
		t.Errorf("phrase %q", got)
	}
	for _, bad := range []string{"standard", "standard/0", "standard/99", "klingon/1", ""} {
		if _, err := Stored(bad); err == nil {
			t.Errorf("%q is known", bad)
		}
	}
}

// known is a dictionary that knows three words.
func known(run string, word func(start, end int)) {
	for i := 0; i < len(run); {
		n := len("一")
		for _, w := range []string{"研究生", "研究", "生命"} {
			if strings.HasPrefix(run[i:], w) {
				n = len(w)
				break
			}
		}
		word(i, min(i+n, len(run)))
		i += n
	}
}

func TestDictionary(t *testing.T) {
	a, err := mustNew(t, "chinese").WithDictionary("three-1", known)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name() != "chinese+three-1" || a.Identity() != "chinese+three-1/2" {
		t.Errorf("name %q, identity %q", a.Name(), a.Identity())
	}
	got := collect(a.Tokens, new(Scratch), "x研究生命 y")
	want := []tok{{"x", 0, 0, 1}, {"研", 1, 1, 4}, {"研究生", 1, 1, 10}, {"研究", 1, 1, 7}, {"究", 2, 4, 7}, {"究生", 2, 4, 10},
		{"生", 3, 7, 10}, {"生命", 3, 7, 13}, {"命", 4, 10, 13}, {"y", 5, 14, 15}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for query, want := range map[string][]string{
		"研究生": {"研究生", "研究", "究生"}, "生命": {"生命"}, "研究生命": {"研究生", "研究", "究生", "生命"}, "命": {"命"},
	} {
		if got := terms(a.QueryTokens, query); !slices.Equal(got, want) {
			t.Errorf("%s asks for %q, want %q", query, got, want)
		}
	}
	if !foundPhrase(a, "我研究生命科学", "究生命科") || foundPhrase(a, "我研究生命科学", "生究") || !foundPhrase(a, "命", "命") {
		t.Error("phrases")
	}
	var s Scratch
	wild, err := mustNew(t, "standard").WithDictionary("wild", func(run string, word func(start, end int)) {
		word(-1, 2)
		word(5, 3)
		word(1, 2)
		word(0, len(run)+9)
		word(3, len(run))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(nasty, strings.Repeat("研究生命", 1000), strings.Join(nasty, "")) {
		checkTokens(t, a, &s, text)
		checkTokens(t, wild, &s, text)
	}
	for _, bad := range []string{"", "A", "a b", strings.Repeat("a", 65)} {
		if _, err := mustNew(t, "chinese").WithDictionary(bad, known); err == nil {
			t.Errorf("the name %q is taken", bad)
		}
	}
	if _, err := a.WithDictionary("again", known); err == nil {
		t.Error("two dictionaries")
	}
}
