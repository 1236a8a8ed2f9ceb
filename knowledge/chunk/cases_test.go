package chunk

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/storage"
)

// runes and bytes are tokenizers at the two ends of what models have.
func runeTokens(text string, emit func(start, end int)) {
	for i := 0; i < len(text); {
		_, w := utf8.DecodeRuneInString(text[i:])
		emit(i, i+w)
		i += w
	}
}

func byteTokens(text string, emit func(start, end int)) {
	for i := range len(text) {
		emit(i, i+1)
	}
}

// cut chunks text and checks the invariants that hold for all options.
func cut(t testing.TB, text string, o Options) []Chunk {
	t.Helper()
	c, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := Collect(c.Chunks(Document{Text: text}))
	if err != nil {
		t.Fatal(err)
	}
	checkChunks(t, text, &c.s, chunks)
	return chunks
}

func texts(chunks []Chunk) []string {
	var out []string
	for _, c := range chunks {
		out = append(out, c.Text)
	}
	return out
}

func starts(chunks []Chunk) []int {
	var out []int
	for _, c := range chunks {
		out = append(out, c.Start)
	}
	return out
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// S2.1: the first wrong option is the error; S2.2: strategies and units.
func TestS2_1OptionsInOrder(t *testing.T) {
	empty := ""
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Strategy: "parts", Unit: "byte", Size: new(0)}, "strategy"},
		{Options{Unit: "byte", Size: new(0)}, "unit"},
		{Options{Strategy: Structure, Unit: Page}, "unit"},
		{Options{Unit: Custom, Size: new(0), Separator: &empty, Overlap: new(-1)}, "size"},
		{Options{Unit: Custom, Separator: &empty, Overlap: new(-1)}, "separator"},
		{Options{Overlap: new(-1)}, "overlap"},
		{Options{Strategy: Divide, Overlap: new(-1)}, "overlap"},
		{Options{TokenLimit: -1}, "token limit"},
		{Options{MaxChunks: -2}, "most chunks"},
		{Options{KeepWhole: -2}, "keep whole"},
	} {
		_, err := New(&c.o)
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "options: "+c.want) {
			t.Errorf("%+v: got %v, want %s", c.o, err, c.want)
		}
	}
	if _, err := New(&Options{Size: new(3), Separator: &empty}); err != nil {
		t.Errorf("separator of another unit: %v", err)
	}
}

func TestS2_2Defaults(t *testing.T) {
	c, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := c.s
	equal(t, []any{s.strategy, s.unit, s.size, s.overlap, s.separator, s.limit, s.maxChunks},
		[]any{Count, Token, 500, 50, "\n\n", 32768, 50000})
	// The forced options may be nonsense; the others may not.
	o, err := OptionsFrom(map[string]any{"tokenModel": math.NaN(), "tokenLimit": "x", "size": 7.0, "overlap": nil, "unit": "word"})
	if err != nil || *o.Size != 7 || o.Overlap != nil || o.Unit != Word || o.TokenLimit != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []map[string]any{
		{"size": math.NaN()}, {"size": 1.5}, {"size": math.Inf(1)}, {"size": 1e300}, {"overlap": "5"}, {"overlap": true},
		{"unit": 3}, {"unit": ""}, {"strategy": []any{}}, {"separator": 1}, {"sizes": 3},
	} {
		if _, err := OptionsFrom(bad); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestS2_3Units(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		text string
		want []string
	}{
		{Token, "Hi, you", []string{"Hi", ",", "you"}},
		{Word, "Hi, “you” (there)!", []string{"Hi,", "“you”", "(there)!"}},
		{Word, "can't 3.14 foo_bar a—b", []string{"can't", "3.14", "foo_bar", "a—", "b"}},
		{Sentence, "One. Two!  Three?", []string{"One.", "Two!", "Three?"}},
		{Paragraph, "a\nb\n\n\nc\r\n \r\nd\n", []string{"a\nb", "c", "d"}},
		{Custom, "a\n\nb\n\n\n\nc", []string{"a", "b", "c"}},
		{Page, "one\fy\f\n\fz", []string{"one", "y", "z"}},
		{Word, "+++ ===", []string{"+++ ==="}},
		{Sentence, " \n\t", nil},
		{Token, "", nil},
	} {
		equal(t, texts(cut(t, c.text, Options{Unit: c.unit, Size: new(1)})), c.want)
	}
	equal(t, texts(cut(t, "a---b------c", Options{Unit: Custom, Size: new(2), Separator: new("---")})),
		[]string{"a---b", "b------c"})
}

// S2.3: no chunk is longer than the token limit, whatever the unit.
func TestS2_3TokenLimit(t *testing.T) {
	long := strings.Repeat("word ", 100) + "\n\n" + strings.Repeat("One two three. ", 50) + "\n\nend"
	for _, unit := range []Unit{Token, Word, Sentence, Paragraph, Custom, Page} {
		for _, strategy := range []Strategy{Count, Divide} {
			for _, size := range []int{1, 3, 1000} {
				for _, c := range cut(t, long, Options{Strategy: strategy, Unit: unit, Size: &size, TokenLimit: 40}) {
					n, _ := countTokens(Words, c.Text, 0, len(c.Text))
					if n > 40 {
						t.Errorf("%s %s %d: %d tokens", strategy, unit, size, n)
					}
				}
			}
		}
	}
	// The real limit, and a unit that is cut after its sentences.
	got := cut(t, strings.Repeat("One two three. ", 10000), Options{Unit: Page, Size: new(1)})
	if len(got) != 2 || !strings.HasSuffix(got[0].Text, "three.") {
		t.Errorf("%d chunks, first ends %q", len(got), got[0].Text[len(got[0].Text)-10:])
	}
}

func TestS2_4Overlap(t *testing.T) {
	const text = "a b c d e f g h i j"
	for _, c := range []struct {
		size, overlap int
		want          []string
	}{
		{4, 0, []string{"a b c d", "e f g h", "i j"}},
		{4, 1, []string{"a b c d", "d e f g", "g h i j"}}, // no chunk "j"
		{4, 3, []string{"a b c d", "b c d e", "c d e f", "d e f g", "e f g h", "f g h i", "g h i j"}},
		{10, 9, []string{text}},
		{11, 0, []string{text}},
	} {
		for _, unit := range []Unit{Token, Word} {
			equal(t, texts(cut(t, text, Options{Unit: unit, Size: &c.size, Overlap: &c.overlap})), c.want)
		}
	}
	// Unset: min(50, size−1).
	equal(t, texts(cut(t, "a b c", Options{Unit: Word, Size: new(2)})), []string{"a b", "b c"})
	got := cut(t, strings.Repeat("x ", 130), Options{Unit: Word, Size: new(100)})
	equal(t, starts(got), []int{0, 100})
}

func TestS2_5Divide(t *testing.T) {
	const text = "a b c d e f g h"
	for _, c := range []struct {
		parts   int
		overlap *int
		want    []string
	}{
		{3, nil, []string{"a b c", "d e f", "g h"}},
		{1, nil, []string{text}},
		{100, nil, strings.Fields(text)},
		{math.MaxInt, nil, strings.Fields(text)},
		{3, new(1), []string{"a b c", "c d e f", "f g h"}},
		{3, new(100), []string{"a b c", "b c d e f", "c d e f g h"}},
	} {
		equal(t, texts(cut(t, text, Options{Strategy: Divide, Unit: Word, Size: &c.parts, Overlap: c.overlap})), c.want)
		equal(t, texts(cut(t, text, Options{Strategy: Divide, Size: &c.parts, Overlap: c.overlap})), c.want)
	}
	equal(t, cut(t, " \n ", Options{Strategy: Divide}), []Chunk(nil))
}

// S2.6: exactly the limit is fine, one more is an error as soon as it is met,
// over all documents together; blank chunks do not count.
func TestS2_6TooManyChunks(t *testing.T) {
	c, err := New(&Options{Unit: Custom, Separator: new(","), Size: new(1)})
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Repeat("x, ,", 25_000)
	docs := func(more string) func(func(Document) bool) {
		return func(yield func(Document) bool) {
			for _, text := range []string{at, at, more} {
				if !yield(Document{Text: text}) {
					return
				}
			}
		}
	}
	got, err := Collect(c.Documents(docs(" ")))
	if err != nil || len(got) != 50_000 || got[25_000].Document != 1 || got[25_000].Index != 0 {
		t.Errorf("%d chunks, %v", len(got), err)
	}
	_, err = Collect(c.Documents(docs("y")))
	if !errors.Is(err, ErrTooManyChunks) || !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("50,001: %v", err)
	}
	// Found while chunking: the tokenizer does not see the rest.
	seen := 0
	c, err = New(&Options{Size: new(1), MaxChunks: 10, Tokenizer: func(text string, emit func(int, int)) {
		seen += len(text)
		Words(text, emit)
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Collect(c.Chunks(Document{Text: strings.Repeat("some words\n", 1<<17)}))
	if !errors.Is(err, ErrTooManyChunks) || seen > tokenBlock {
		t.Errorf("%v after %d bytes", err, seen)
	}
}

func TestF01OverlapAndTail(t *testing.T) {
	for _, o := range []Options{
		{Size: new(50), Overlap: new(50)}, {Size: new(50), Overlap: new(60)}, {Size: new(50), Overlap: new(-1)}, {Size: new(0)},
	} {
		if _, err := New(&o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
	text := strings.Repeat("x", 101)
	got := cut(t, text, Options{Size: new(40), Overlap: new(8), Tokenizer: runeTokens})
	equal(t, starts(got), []int{0, 32, 64})
	equal(t, got[2].End, 101)
}

func TestF03RepeatedText(t *testing.T) {
	const text = "tick tick tock tick"
	for overlap := range 5 {
		got := cut(t, text, Options{Size: new(5), Overlap: &overlap, Tokenizer: runeTokens})
		if overlap == 0 {
			equal(t, starts(got), []int{0, 5, 10, 15})
			equal(t, texts(got), []string{"tick", "tick", "tock", "tick"})
		}
	}
	for overlap := range 3 {
		got := cut(t, strings.Repeat("The same again. ", 300), Options{Unit: Sentence, Size: new(3), Overlap: &overlap})
		for i, c := range got {
			if c.Start != i*16*(3-overlap) {
				t.Fatalf("overlap %d: chunk %d starts at %d", overlap, i, c.Start)
			}
		}
	}
}

func TestF05LineEndsAndWideRunes(t *testing.T) {
	const text = "uno\r\ndés\r\n😀tres"
	for _, o := range []Options{
		{Unit: Custom, Separator: new("\r\n"), Size: new(1)}, {Unit: Custom, Separator: new("\n"), Size: new(1)}, {Unit: Sentence, Size: new(1)},
	} {
		got := cut(t, text, o)
		equal(t, texts(got), []string{"uno", "dés", "😀tres"})
		equal(t, starts(got), []int{0, 5, 11})
		equal(t, []int{got[0].RuneStart, got[1].RuneStart, got[2].RuneStart, got[2].RuneEnd}, []int{0, 5, 10, 15})
		equal(t, []int{got[2].End, got[2].UTF16Start, got[2].UTF16End}, []int{19, 10, 16})
	}
}

func TestF06NeverInsideACluster(t *testing.T) {
	for _, text := range []string{strings.Repeat("😀", 5), strings.Repeat("e\u0301", 50), strings.Repeat("नमस्ते", 20)} {
		for name, tok := range map[string]Tokenizer{"bytes": byteTokens, "runes": runeTokens, "tokens": Words} {
			for size := 1; size <= 4; size++ {
				got := cut(t, text, Options{Size: &size, Overlap: new(0), Tokenizer: tok})
				if j := strings.Join(texts(got), ""); j != text {
					t.Errorf("%s %d: joined %q", name, size, j)
				}
				if name == "runes" && size >= 2 && text[0] == 'e' && len(got) != 50/(size/2) {
					t.Errorf("size %d: %d chunks", size, len(got))
				}
			}
		}
	}
	equal(t, len(cut(t, strings.Repeat("😀", 5), Options{Size: new(3), Overlap: new(2), Tokenizer: byteTokens})), 5)
	// A cluster above the token limit is cut between runes.
	for _, c := range cut(t, "e"+strings.Repeat("\u0301", 1000), Options{Tokenizer: byteTokens, TokenLimit: 9}) {
		if len(c.Text) > 10 {
			t.Errorf("%d bytes", len(c.Text))
		}
	}
}

func TestF07UnclosedFence(t *testing.T) {
	for _, fence := range []string{"```", "~~~", "````"} {
		text := "# T\nintro\n\n" + fence + "py\nx = 1\n\n## Key part\nvital text\n"
		got := cut(t, text, Options{Strategy: Structure})
		last := got[len(got)-1]
		if !strings.Contains(last.Text, "vital text") {
			t.Errorf("%s: %q", fence, texts(got))
		}
		equal(t, last.Path, []string{"T", "Key part"})
		// With a later block that is closed, and a bare end that is too short.
		text += fence + "go\ny\n" + fence + "\n## After\nthe end\n"
		got = cut(t, text, Options{Strategy: Structure})
		equal(t, got[len(got)-1].Path, []string{"T", "After"})
	}
}

func TestF10ChineseAndThai(t *testing.T) {
	marks := []rune("。！？")
	var b strings.Builder
	for i := range 3000 {
		if i%61 == 60 {
			b.WriteRune(marks[i/61%3])
		} else {
			b.WriteRune(rune(0x4e00 + i*7%5000))
		}
	}
	marked := b.String()
	plain := strings.NewReplacer("。", "", "！", "", "？", "").Replace(marked)
	thai := strings.Repeat("ประเทศไทยมีประชากรจำนวนมาก", 60)
	for _, text := range []string{marked, plain, thai} {
		for _, o := range []Options{
			{Size: new(200)}, {Unit: Word, Size: new(200)}, {Size: new(200), AtSentence: true}, {Unit: Word, Size: new(200), AtSentence: true},
			{Strategy: Structure, Size: new(200)}, {Strategy: Structure, Unit: Word, Size: new(200)},
			{Unit: Sentence, Size: new(3), TokenLimit: 200}, {Size: new(200), Tokenizer: runeTokens},
		} {
			got := cut(t, text, o)
			for i, c := range got {
				n := 0
				for _, r := range c.Text {
					if o.Unit != Word || r >= 0x4e00 && r < 0xa000 {
						n++ // marks are no words
					}
				}
				if n > 200 && text != thai {
					t.Errorf("%v: %d runes", o, n)
				}
				end, _ := utf8.DecodeLastRuneInString(c.Text)
				if snapped := o.AtSentence || o.Strategy == Structure; snapped && text == marked && i < len(got)-1 && !strings.ContainsRune("。！？", end) {
					t.Errorf("%v: chunk %d ends with %c", o, i, end)
				}
			}
		}
	}
}

func TestF11Sentences(t *testing.T) {
	const text = "Dr. Vega paid 3.14 EUR, e.g. by card. J. R. Ost agreed on 29. Juli. Done."
	equal(t, texts(cut(t, text, Options{Unit: Sentence, Size: new(1)})),
		[]string{"Dr. Vega paid 3.14 EUR, e.g. by card.", "J. R. Ost agreed on 29. Juli.", "Done."})
}

// G09: a chunk across pages has a range, within the document's pages.
func TestG09Pages(t *testing.T) {
	got := cut(t, "one one\ftwo two two\f\fthree", Options{Unit: Word, Size: new(3), Overlap: new(0)})
	var pages []string
	for _, c := range got {
		pages = append(pages, fmt.Sprint(c.Page, "-", c.PageEnd))
	}
	equal(t, pages, []string{"1-2", "2-4"})
	equal(t, cut(t, "no pages", Options{})[0].Page, 0)
	c, err := New(&Options{Unit: Page, Size: new(1)})
	if err != nil {
		t.Fatal(err)
	}
	doc := Document{Text: "cover text more", Pages: []PageSpan{{0, 5, 7}, {6, 10, 8}, {11, 15, 9}}}
	chunks, err := Collect(c.Chunks(doc))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, texts(chunks), []string{"cover", "text", "more"})
	equal(t, []int{chunks[2].Page, chunks[2].PageEnd}, []int{9, 9})
}
