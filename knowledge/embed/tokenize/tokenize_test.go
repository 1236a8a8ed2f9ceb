package tokenize

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

func testWordPiece(t testing.TB) *WordPiece {
	t.Helper()
	c := DefaultWordPiece(true)
	c.Added = []AddedToken{{Text: "[SEP]", ID: 3}, {Text: "[CLS]", ID: 2}}
	w, err := NewWordPiece([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "quarry", "qua", "##r", "##ry", "e", "##e", "!", "stone", "##s", "山"}, c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func testUnigram(t testing.TB) *Unigram {
	t.Helper()
	c := DefaultUnigram()
	c.Added = []AddedToken{{Text: "<s>", ID: 0}, {Text: "<mask>", ID: 12, LStrip: true, RStrip: true}, {Text: "word", ID: 13, SingleWord: true}}
	u, err := NewUnigram([]string{"<s>", "<pad>", "</s>", "<unk>", wordMark, wordMark + "st", "one", "s", "t", "o", "n", "e"},
		[]float64{0, 0, 0, 0, -2, -3, -3, -4, -4, -4, -4, -4}, c)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func show(tok Tokenizer, text string) string {
	var b strings.Builder
	for _, t := range tok.Tokenize(nil, text) {
		fmt.Fprintf(&b, "%d[%d:%d] ", t.ID, t.Start, t.End)
	}
	return strings.TrimSpace(b.String())
}

func TestWordPiece(t *testing.T) {
	w := testWordPiece(t)
	for text, want := range map[string]string{
		"":                       "",
		"Quarry!":                "4[0:6] 10[6:7]",
		"quarrys":                "4[0:6] 12[6:7]",
		"quare":                  "5[0:3] 6[3:4] 9[4:5]",
		"é e\u0301e":             "8[0:2] 8[3:4] 9[6:7]",
		"stone山stones":           "11[0:5] 13[5:8] 11[8:13] 12[13:14]",
		"[SEP]e [CLS]":           "3[0:5] 8[5:6] 2[7:12]",
		"quax e":                 "1[0:4] 8[5:6]",
		"\xffe\xff[SEP]\xff":     "8[1:2] 3[3:8]",
		"q\x00uarry":             "4[0:7]",
		strings.Repeat("e", 101): "1[0:101]",
	} {
		if got := show(w, text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if cls, sep, pad, unk := w.Specials(); cls != 2 || sep != 3 || pad != 0 || unk != 1 || w.Size() != 14 {
		t.Error(w.Specials())
	}
}

func TestUnigram(t *testing.T) {
	u := testUnigram(t)
	for text, want := range map[string]string{
		"":                     "",
		"stone":                "5[0:2] 6[2:5]",
		"stone ston":           "5[0:2] 6[2:5] 5[5:8] 9[8:9] 10[9:10]",
		"xyz":                  "4[0:1] 3[0:3]",
		"<s>o":                 "0[0:3] 4[3:4] 9[3:4]",
		"o <mask> o":           "4[0:1] 9[0:1] 12[1:9] 4[9:10] 9[9:10]",
		"word o, sword":        "13[0:4] 4[4:5] 9[5:6] 3[6:7] 4[7:8] 7[8:9] 3[9:10] 9[10:11] 3[11:13]",
		"ｓｔone":                "5[0:6] 6[6:9]",
		"\x01\x02o":            "4[2:3] 9[2:3]", // the reference says 0:1, and would be late in the whole text
		"o\xffo":               "4[0:1] 9[0:1] 4[1:2] 9[2:3]",
		strings.Repeat(" ", 9): "4[8:9]",
	} {
		if got := show(u, text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Ties go to the path found first, the one whose last piece is longest.
func TestUnigramTies(t *testing.T) {
	u, err := NewUnigram([]string{"<unk>", "a", "aa", "aaa", wordMark}, []float64{0, -1, -2, -3, -1},
		UnigramConfig{NoCharsmap: true, Specials: Specials{-1, -1, -1, 0}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(u, "aaaa"), "4[0:1] 1[0:1] 3[1:4]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTrie(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		want := map[string]int32{}
		for range 1 + rnd.IntN(3000) {
			b := make([]byte, 1+rnd.IntN(6))
			for i := range b {
				b[i] = byte(rnd.IntN(1 << (1 + rnd.IntN(8))))
			}
			want[string(b)] = int32(len(want))
		}
		keys := make([]string, 0, len(want))
		for k := range want {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b := newTrieBuilder()
		prev := ""
		for _, k := range keys {
			n := commonPrefix(prev, k)
			b.add(n, []byte(k[n:]), want[k])
			prev = k
		}
		tr := b.finish()
		if len(tr.units)%blockLen != 0 {
			t.Fatal(len(tr.units))
		}
		for _, k := range keys {
			n, ok := tr.walk(0, k)
			if v, has := tr.value(n); !ok || !has || v != want[k] {
				t.Fatalf("%q: %d %v %v, want %d", k, v, ok, has, want[k])
			}
			for _, k := range []string{k + "\x01", k[:len(k)-1], "\x07" + k} {
				n, ok := tr.walk(0, k)
				if ok {
					_, ok = tr.value(n)
				}
				if _, has := want[k]; ok != has {
					t.Fatalf("%q: found %v, want %v", k, ok, has)
				}
			}
		}
	}
}

func TestAppendParse(t *testing.T) {
	for _, tok := range []Tokenizer{testWordPiece(t), testUnigram(t)} {
		enc, err := Append([]byte("before"), tok)
		if err != nil || !bytes.HasPrefix(enc, []byte("before")) {
			t.Fatal(err)
		}
		enc = enc[6:]
		for n := range enc {
			if _, err := Parse(enc[:n:n]); !errors.Is(err, storage.ErrCorrupt) {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
		if _, err := Parse(append(slices.Clone(enc), 0)); !errors.Is(err, storage.ErrCorrupt) {
			t.Fatal(err)
		}
		later := slices.Clone(enc)
		later[4]++
		if _, err := Parse(later); !errors.Is(err, storage.ErrVersion) {
			t.Fatal(err)
		}
	}
	if _, err := Append(nil, struct{ Tokenizer }{testUnigram(t)}); !errors.Is(err, storage.ErrInvalid) {
		t.Fatal(err)
	}
}

func TestInvalid(t *testing.T) {
	for name, c := range map[string]string{
		"no JSON":        `{`,
		"BPE":            `{"model":{"type":"BPE"}}`,
		"normalizer":     `{"normalizer":{"type":"NFKC"},"model":{"type":"WordPiece","vocab":{"[UNK]":0}},"pre_tokenizer":{"type":"BertPreTokenizer"}}`,
		"pre-tokenizer":  `{"model":{"type":"WordPiece","vocab":{"[UNK]":0}},"pre_tokenizer":{"type":"Whitespace"}}`,
		"no unknown":     `{"model":{"type":"WordPiece","vocab":{"a":0}},"pre_tokenizer":{"type":"BertPreTokenizer"}}`,
		"negative id":    `{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":-1}},"pre_tokenizer":{"type":"BertPreTokenizer"}}`,
		"huge id":        `{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":2147483647}},"pre_tokenizer":{"type":"BertPreTokenizer"}}`,
		"byte fallback":  `{"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["a",0]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`,
		"no unk_id":      `{"model":{"type":"Unigram","vocab":[["a",0]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`,
		"unk_id":         `{"model":{"type":"Unigram","unk_id":1,"vocab":[["a",0]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`,
		"no Metaspace":   `{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0]]}}`,
		"Strip left":     `{"normalizer":{"type":"Strip","strip_left":true},"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`,
		"charsmap":       `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA/w=="},"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`,
		"null vocab":     `{"model":{"type":"Unigram","unk_id":0,"vocab":null},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`,
		"scores missing": `{"model":{"type":"Unigram","unk_id":0,"vocab":["a"]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`,
	} {
		tok, err := LoadTokenizerJSON([]byte(c))
		if !errors.Is(err, storage.ErrInvalid) || tok != nil {
			t.Errorf("%s: %v %v", name, tok, err)
		}
	}
}

// A charsmap in the hub's form is reduced to the same entries: this builds a
// double array by hand for "a" → "bc" and "e" + U+0301 → "é".
func TestHubCharsmap(t *testing.T) {
	const block = 256
	units := make([]uint32, 5*block)
	offset := func(from, to int) uint32 { return uint32(from^to) << 10 }
	units[0] = offset(0, block)
	units[block|'a'] = 'a' | 1<<8 | offset(block|'a', 2*block)
	units[2*block] = 1 << 31
	units[block|'e'] = 'e' | offset(block|'e', 3*block)
	units[3*block|0xCC] = 0xCC | offset(3*block|0xCC, 4*block)
	units[4*block|0x81] = 0x81 | 1<<8 | offset(4*block|0x81, 2*block|1)
	units[2*block|1] = 1<<31 | 3
	data := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		data = binary.LittleEndian.AppendUint32(data, u)
	}
	data = append(data, "bc\x00é\x00"...)
	j := fmt.Sprintf(`{"normalizer":{"type":"Precompiled","precompiled_charsmap":%q},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},
		"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1],["b",-2],["c",-3.3],["é",-4]]}}`, base64.StdEncoding.EncodeToString(data))
	tok, err := LoadTokenizerJSON([]byte(j))
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range []Tokenizer{tok, reopen(t, tok)} {
		if got, want := show(tok, "ae\u0301"), "1[0:1] 2[0:1] 3[0:1] 4[1:2]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestLoadVocab(t *testing.T) {
	w, err := LoadVocab([]byte("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nstone\r\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(w, "STONE [MASK]"), "5[0:5] 4[6:12]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNoAllocs(t *testing.T) {
	text := strings.Repeat("Stones, é ﬁ quarry [SEP] ｓｔone 山 क्षत्रि e\u0301 x. ", 50)
	for _, tok := range []Tokenizer{testWordPiece(t), testUnigram(t)} {
		dst := tok.Tokenize(nil, text)
		if n := testing.AllocsPerRun(20, func() { dst = tok.Tokenize(dst[:0], text) }); n > 0 {
			t.Errorf("%s: %v allocations", tok.Name(), n)
		}
	}
}

// A megabyte without a space takes no longer a byte than a kilobyte.
func TestLinear(t *testing.T) {
	for _, unit := range []string{"a", "st", "one", "\u0301", "é", "山", "<", "[", "क्", "\u200d", "👨\u200d", "▁", "\xff", "<mask", "\u302e"} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		for _, tok := range []Tokenizer{testWordPiece(t), testUnigram(t)} {
			start := time.Now()
			checkTokens(t, tok, tok.Tokenize(nil, text), text)
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("%s %q: %v", tok.Name(), unit, d)
			}
		}
	}
}

func checkTokens(t testing.TB, tok Tokenizer, tokens []Token, text string) {
	t.Helper()
	at := 0
	for _, k := range tokens {
		if k.ID < 0 || int(k.ID) >= tok.Size() || k.Start < at || k.End < k.Start || k.End > len(text) {
			t.Fatalf("token %v after %d in text of %d", k, at, len(text))
		}
		for _, p := range []int{k.Start, k.End} {
			if p < len(text) && !utf8.RuneStart(text[p]) && utf8.ValidString(text) {
				t.Fatalf("token %v is not on a rune boundary", k)
			}
		}
		at = k.Start
	}
}

// Two tokenizers of one configuration have one name, of two have two.
func TestName(t *testing.T) {
	a, b := testUnigram(t), testUnigram(t)
	if a.Name() != b.Name() || !strings.HasPrefix(a.Name(), "unigram-14-") {
		t.Error(a.Name(), b.Name())
	}
	c := DefaultWordPiece(false)
	w, err := NewWordPiece([]string{"[UNK]"}, c)
	if err != nil {
		t.Fatal(err)
	}
	c.SplitCJK = false
	v, err := NewWordPiece([]string{"[UNK]"}, c)
	if err != nil || w.Name() == v.Name() {
		t.Error(w.Name(), v.Name(), err)
	}
}

func FuzzTokenize(f *testing.F) {
	for _, s := range []string{"", "Stones\x00 é\u0301\xff<mask> [SEP]", "ﷺ\u0301\r\n👨\u200d👩 가\u11a8", "▁▁ word </s>"} {
		f.Add(s)
	}
	toks := []Tokenizer{testWordPiece(f), testUnigram(f)}
	for _, s := range readGoldens(f).Small {
		tok, err := LoadTokenizerJSON(s.Tokenizer)
		if err != nil {
			f.Fatal(err)
		}
		toks = append(toks, tok)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			got := tok.Tokenize(nil, text)
			checkTokens(t, tok, got, text)
			if again := tok.Tokenize(nil, text); !slices.Equal(got, again) {
				t.Fatal("two runs differ")
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, tok := range []Tokenizer{testWordPiece(f), testUnigram(f)} {
		enc, err := Append(nil, tok)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(enc)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Parse(data)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		checkTokens(t, tok, tok.Tokenize(nil, "Stones\x00 é\u0301\xff[SEP] 山"), "Stones\x00 é\u0301\xff[SEP] 山")
		if again := reopen(t, tok); again.Name() != tok.Name() {
			t.Fatal(again.Name(), tok.Name())
		}
	})
}

func FuzzLoadTokenizerJSON(f *testing.F) {
	for _, s := range readGoldens(f).Small {
		var small map[string]any
		if err := json.Unmarshal(s.Tokenizer, &small); err != nil {
			f.Fatal(err)
		}
		small["model"].(map[string]any)["vocab"] = nil
		b, _ := json.Marshal(small)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := LoadTokenizerJSON(data)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		checkTokens(t, tok, tok.Tokenize(nil, "a é\u0301\xff 山"), "a é\u0301\xff 山")
	})
}
