package parse

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/japanese"
)

func utf16Bytes(s string, big bool) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(s)) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

// Every character of every encoding maps to its own bytes.
func TestEncodings(t *testing.T) {
	text := "# Día 1\n\nEine Straße, 😀 und “quotes” – "
	text += strings.Repeat("añb😀c ", 3000) // more than a piece
	latin := strings.ReplaceAll(text, "😀", "€")
	var cp []byte
	for _, r := range latin {
		b := byte(r)
		for i, x := range cp1252 {
			if x == r {
				b = byte(0x80 + i)
			}
		}
		cp = append(cp, b)
	}
	for _, c := range []struct {
		name, text, label string
		src               []byte
	}{
		{"utf-8 with mark", text, "utf-8", append([]byte("\xef\xbb\xbf"), text...)},
		{"utf-16le with mark", text, "utf-16le", append([]byte("\xff\xfe"), utf16Bytes(text, false)...)},
		{"utf-16be with mark", text, "utf-16be", append([]byte("\xfe\xff"), utf16Bytes(text, true)...)},
		{"utf-16le", latin, "utf-16le", utf16Bytes(latin, false)},
		{"utf-16be", latin, "utf-16be", utf16Bytes(latin, true)},
		{"windows-1252", latin, "windows-1252", cp},
	} {
		d := mustParse(t, c.name+".md", c.src)
		if d.Text != c.text || d.Encoding != c.label {
			t.Errorf("%s: read as %s, text equal %v", c.name, d.Encoding, d.Text == c.text)
			continue
		}
		if len(d.Sections) != 1 || d.Sections[0].Title != "Día 1" {
			t.Errorf("%s: sections %+v", c.name, d.Sections)
		}
		for i := 0; i < len(d.Text); {
			r, n := utf8.DecodeRuneInString(d.Text[i:])
			from, to, ok := d.Map.Source(i, i+n)
			if !ok {
				t.Fatalf("%s: byte %d maps nowhere", c.name, i)
			}
			if got, size, _ := d.Map.enc.next(c.src[from:to]); got != r || size != to-from {
				t.Fatalf("%s: byte %d %q maps to [%d:%d] %q", c.name, i, r, from, to, got)
			}
			i += n
		}
	}
}

func TestInvalidBytes(t *testing.T) {
	src := "good é text \xff then " + strings.Repeat("é", 50) + " and \xe2\x82 cut"
	d := mustParse(t, "x.txt", []byte(src))
	if want := strings.ReplaceAll(strings.Replace(src, "\xff", "\ufffd", 1), "\xe2\x82", "\ufffd\ufffd"); d.Text != want {
		t.Errorf("text %q, want %q", d.Text, want)
	}
	if len(d.Warnings) != 1 || d.Warnings[0].Offset != strings.IndexByte(src, 0xff) {
		t.Errorf("warnings %+v", d.Warnings)
	}
	for _, word := range []string{"then", "cut", "good"} {
		i := strings.Index(d.Text, word)
		if from, to, ok := d.Map.Source(i, i+len(word)); !ok || src[from:to] != word {
			t.Errorf("%s maps to %q", word, src[from:to])
		}
	}
}

func TestDeclaredCharset(t *testing.T) {
	page := "<html><head><meta charset=shift_jis><title>表</title></head><body><h1>見出し</h1><p>" + strings.Repeat("日本語の文章。", 200) + "</p>"
	src, err := japanese.ShiftJIS.NewEncoder().String(page)
	if err != nil {
		t.Fatal(err)
	}
	d := mustParse(t, "x.html", []byte(src))
	if d.Metadata.Title != "表" || d.Sections[0].Title != "見出し" || !strings.Contains(d.Text, "日本語の文章。日本語") || d.Encoding != "shift_jis" {
		t.Errorf("%s %+v %.60q", d.Encoding, d.Metadata, d.Text)
	}
	// A declaration that lies: the bytes are UTF-8.
	d = mustParse(t, "x.html", []byte("<meta charset=utf-16><p>caf\u00e9"))
	if d.Text != "café" {
		t.Errorf("text %q", d.Text)
	}
}

// Random edits of random text in random encodings keep every invariant.
func TestRandomBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	alphabet := []string{"a", "é", "😀", "\n", "\n\n", "\r\n", "# ", "## ", "```\n", "> ", "- ", "| a | b |\n|---|---|\n", "<p>", "<pre>", "</pre>", "<table><tr><td>", "</table>",
		"&amp;", "&eacute", "<h2>", "</h2>", "<nav>", "\xff", "\x80", "\f", "\"", ",", ";", "{\"a\":", "}", "[", "]", "\\u00e9", "\\n", "---\n", "a: b\n", "word "}
	names := []string{"x.md", "x.html", "x.txt", "x.csv", "x.jsonl"}
	for round := range 4000 {
		var src strings.Builder
		for range r.IntN(60) {
			src.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		data := []byte(src.String())
		switch r.IntN(6) {
		case 0:
			data = append([]byte("\xff\xfe"), utf16Bytes(src.String(), false)...)
		case 1:
			data = append([]byte("\xef\xbb\xbf"), data...)
		}
		name := names[round%len(names)]
		d, err := Parse(t.Context(), name, data, Options{})
		if err != nil {
			continue
		}
		if testing.Verbose() {
			t.Logf("%s %q", name, data) // the last one is the culprit
		}
		checkDocument(t, d)
		if name == "x.md" || name == "x.txt" {
			// Every byte but white space is in some block.
			end := 0
			for _, b := range append(d.Blocks, Block{Start: len(d.Text), End: len(d.Text)}) {
				if gap := strings.Trim(d.Text[end:b.Start], " \t\r\n\f>-"); name == "x.txt" && gap != "" {
					t.Fatalf("%q: %q is in no block", data, gap)
				}
				end = b.End
			}
		}
	}
}
