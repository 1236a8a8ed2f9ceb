package chunk

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

var fuzzTokenizers = []Tokenizer{nil, Words, runeTokens, byteTokens,
	func(string, func(int, int)) {},
	func(text string, emit func(int, int)) { // like SentencePiece: the space before goes with the word
		from := 0
		Words(text, func(_, b int) { emit(from, b); from = b })
	},
}

// fuzzOptions makes options of any numbers; only those New accepts go on.
func fuzzOptions(strategy, unit, tok uint8, size, overlap, limit, keep int16, separator string, snap bool) Options {
	o := Options{
		Strategy:  []Strategy{"", Count, Divide, Structure}[strategy%4],
		Unit:      []Unit{"", Token, Word, Sentence, Paragraph, Custom, Page}[unit%7],
		Tokenizer: fuzzTokenizers[int(tok)%len(fuzzTokenizers)], TokenLimit: int(limit), KeepWhole: int(keep), AtSentence: snap, MaxChunks: -1,
	}
	if size != -2 {
		o.Size = new(int(size))
	}
	if overlap != -2 {
		o.Overlap = new(int(overlap))
	}
	if separator != "" {
		o.Separator = &separator
	}
	return o
}

// checkLimit checks the token limit, for tokenizers that count a rune the same
// everywhere. Only one rune may go above it.
func checkLimit(t testing.TB, s *settings, chunks []Chunk) {
	t.Helper()
	for i, c := range chunks {
		n, err := countTokens(s.tokenize, c.Text, 0, len(c.Text))
		if err != nil {
			t.Fatal(err)
		}
		if n > s.limit+3 {
			t.Fatalf("chunk %d: %d tokens, limit %d", i, n, s.limit)
		}
	}
}

// checkSizes checks that chunks are no larger than asked for.
func checkSizes(t testing.TB, text string, c *Chunker, chunks []Chunk) {
	t.Helper()
	s := &c.s
	if s.strategy == Divide {
		if s.unit != Token && s.limit > len(text)*maxTokensPerByte && len(chunks) > s.size {
			t.Fatalf("%d parts, asked for %d", len(chunks), s.size)
		}
		return
	}
	// Units of the whole text by where they start.
	var units []int
	weight := map[int]int{}
	pages := FormFeedPages(text)
	err := feed(s, text, pages, nil, splitter(s, text, func(err error) bool { t.Fatal(err); return false }, func(a atom) bool {
		units = append(units, a.start)
		weight[a.start] += a.weight
		return true
	}))
	if err != nil {
		t.Fatal(err)
	}
	for i, ch := range chunks {
		from, _ := slices.BinarySearch(units, ch.Start)
		to, _ := slices.BinarySearch(units, ch.End)
		n, most := 0, 0
		for k := from; k < to; k++ {
			n += weight[units[k]]
			most = max(most, weight[units[k]])
		}
		bound := max(s.size, most)
		if s.structured {
			bound = max(bound, s.keepWhole)
		}
		if s.unit == Token {
			bound = max(min(bound, s.limit), most)
		}
		if n > bound {
			t.Fatalf("chunk %d: %d units, at most %d", i, n, bound)
		}
	}
}

func FuzzChunks(f *testing.F) {
	f.Add("One two. Three four.\n\n# Five\n```\nsix\n```\n", uint8(3), uint8(1), uint8(0), int16(3), int16(1), int16(0), int16(0), "", false)
	f.Add("e\u0301😀नमस्ते\r\n\f漢字。\xff\xe4", uint8(1), uint8(1), uint8(3), int16(3), int16(2), int16(5), int16(-1), "", true)
	f.Add("0\xf3\xf3\xf300", uint8(2), uint8(1), uint8(3), int16(27), int16(1), int16(0), int16(19), "0", true)
	f.Add("a,b,,c", uint8(2), uint8(5), uint8(1), int16(2), int16(9), int16(1), int16(2), ",", false)
	f.Fuzz(func(t *testing.T, text string, strategy, unit, tok uint8, size, overlap, limit, keep int16, separator string, snap bool) {
		o := fuzzOptions(strategy, unit, tok, size, overlap, limit, keep, separator, snap)
		c, err := New(&o)
		if err != nil {
			return
		}
		chunks, err := Collect(c.Chunks(Document{Text: text}))
		if err != nil {
			t.Fatal(err)
		}
		checkChunks(t, text, &c.s, chunks)
		checkSizes(t, text, c, chunks)
		if k := int(tok) % len(fuzzTokenizers); k == 2 || k == 3 {
			checkLimit(t, &c.s, chunks)
		}
	})
}

// Random options over random text, in every run of the tests.
func TestAnyOptions(t *testing.T) {
	pieces := []string{"word", "Mr.", "e\u0301", "😀", "👨\u200d👩", "漢", "字。", "नमस्ते", "กำ", "A", "1.", "3.14", "x=y", "\xff", "\xe4\xb8",
		" ", " ", " ", " ", "\n", "\n\n", "\r\n", "\t", "\f", "\u200b", "\u3000", "\u0301", ".", "! ", ", ", "(", ")", "\n# H\n", "\n## I\n",
		"\n```go\n", "\n```\n", "\n~~~\n", "\n|a|b|\n|-|-|\n|c|d|\n", "\n---\n", "---", "===\n", "||", "\U000110bd", "ᄀ", "ᅡ", "🇩", "🇪"}
	n := 4000
	if testing.Short() {
		n = 800
	}
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(7, seed))
		var b strings.Builder
		for range rng.IntN(40) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		text := b.String()
		num := func(most int) int16 { return int16(rng.IntN(most+3) - 2) }
		tok := rng.IntN(len(fuzzTokenizers))
		o := fuzzOptions(uint8(rng.IntN(4)), uint8(rng.IntN(7)), uint8(tok), num(12), num(8), num(20), num(10), pieces[rng.IntN(len(pieces))], rng.IntN(2) == 0)
		c, err := New(&o)
		if err != nil {
			continue
		}
		chunks, err := Collect(c.Chunks(Document{Text: text}))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Run("", func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, %+v, size %d overlap %d, text %q, chunks %q", seed, o, c.s.size, c.s.overlap, text, texts(chunks))
				}
			}()
			checkChunks(t, text, &c.s, chunks)
			checkSizes(t, text, c, chunks)
			if tok == 2 || tok == 3 {
				checkLimit(t, &c.s, chunks)
			}
		})
		if t.Failed() {
			return
		}
	}
}

func TestOffsets(t *testing.T) {
	text := strings.Repeat("plain ascii text, long enough; ", 5) + "dés 😀\xff\xe4 e\u0301漢" + strings.Repeat("x", 100) + "👩\u200d🚀"
	o := NewOffsets(text)
	for off := range len(text) + 1 {
		if off < len(text) && !utf8.RuneStart(text[off]) {
			continue
		}
		r, u := o.At(off)
		want := []rune(text[:off])
		if r != len(want) || u != len(utf16.Encode(want)) {
			t.Fatalf("at %d: %d, %d", off, r, u)
		}
		if r2, u2 := NewOffsets(text).At(off); r2 != r || u2 != u {
			t.Fatalf("at %d from the start: %d, %d", off, r2, u2)
		}
	}
	for _, off := range []int{7, -5, math.MaxInt, 3} {
		r, _ := o.At(off)
		if want := utf8.RuneCountInString(text[:min(max(off, 0), len(text))]); r != want {
			t.Errorf("at %d: %d, want %d", off, r, want)
		}
	}
}

// White space by hand is that of the standard library.
func TestIsBlank(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if want := unicode.IsSpace(r) || strings.ContainsRune("\u200b\u2060\ufeff", r); isBlank(r) != want {
			t.Errorf("%U: %v", r, !want)
		}
	}
}

// Runes that skip the cluster iterator: any two of them may be cut apart.
func TestSimpleRunes(t *testing.T) {
	var simple []rune
	for r := rune(1); r < 0xd7ff; r++ {
		if isSimple(r) && (r < 0x3500 || r%97 == 0) {
			simple = append(simple, r)
		}
	}
	for _, a := range simple {
		for _, b := range []rune{simple[int(a)%len(simple)], 'a', ' ', 0x4e00, 0xac00, 0xac01, 0x3042} {
			for _, s := range []string{string([]rune{a, b}), string([]rune{b, a})} {
				if it := graphemes.FromString(s); !it.Next() || it.End() == len(s) {
					t.Fatalf("%+q is one cluster", s)
				}
			}
		}
	}
}
