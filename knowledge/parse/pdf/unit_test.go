package pdf

import (
	"bytes"
	"compress/lzw"
	"compress/zlib"
	"context"
	"encoding/ascii85"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(fixtures[name], "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// build writes objects, the catalog first, without a cross-reference table:
// what Extract then has to find on its own.
func build(objects ...string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.4\n")
	for i, o := range objects {
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	return out.Bytes()
}

func streamOf(entries, body string) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", entries, len(body), body)
}

// onePage shows content with the font dictionary as F1; more are objects from 6.
func onePage(font, content string, more ...string) []byte {
	return build(append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >> >>",
		"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>", streamOf("", content), font}, more...)...)
}

const helvetica = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"

func extract(t *testing.T, data []byte) *Result {
	t.Helper()
	r, err := Extract(context.Background(), data, defaults())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEncryptedAndObjectStreams(t *testing.T) {
	for name := range fixtures {
		data := fixture(t, name)
		if strings.HasPrefix(name, "pw") {
			if _, err := Extract(context.Background(), data, defaults()); !errors.Is(err, ErrEncrypted) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		r := extract(t, data)
		if len(r.Pages) != 2 || r.Pages[0].Text != "Hello reportlab world" || r.Pages[1].Text != "Second página" || r.Author != "anonymous" || r.Repaired {
			t.Errorf("%s: %+v", name, r)
		}
		// Without its table the file reads the same.
		broken := bytes.Replace(data, []byte("startxref"), []byte("startxxxx"), 1)
		if r := extract(t, broken); len(r.Pages) != 2 || r.Pages[1].Text != "Second página" || !r.Repaired {
			t.Errorf("%s without its table: %+v", name, r)
		}
	}
}

func TestText(t *testing.T) {
	toUnicode := streamOf("", "1 begincodespacerange <0000> <ffff> endcodespacerange 2 beginbfrange <0001> <0003> <0041> <0010> <0011> [<0066006C> <D83DDE00>] endbfrange 1 beginbfchar <0020> <00200020> endbfchar")
	type0 := "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 6 0 R /DescendantFonts [<< /DW 500 /W [1 [600 600] 3 9 700] >>] >>"
	sjis := "<< /Type /Font /Subtype /Type0 /Encoding /90ms-RKSJ-H /DescendantFonts [<< >>] >>"
	diff := "<< /Type /Font /Subtype /Type1 /BaseFont /X /Encoding << /Differences [1 /eacute /f_i /uni20AC /Scaron /bullet 65 /B] >> /Widths [500 500 500 500 500] /FirstChar 1 >>"
	form := streamOf("/Subtype /Form /Matrix [1 0 0 1 0 -50]", "BT /F1 10 Tf 72 700 Td (in form) Tj ET /X Do")
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"escapes", onePage(helvetica, `BT /F1 10 Tf (a\(b\)\101\
c\\) Tj <6465 6> Tj ET`), "a(b)Ac\\de‘"},
		{"lines", onePage(helvetica, "BT /F1 10 Tf 12 TL 72 700 Td (one) ' (two) ' T* T* (three) Tj ET"), "one\ntwo\n\nthree"},
		{"gaps", onePage(helvetica, "BT /F1 10 Tf [(a) -100 (b) -250 (c) 50 (d)] TJ ET"), "ab cd"},
		{"cells", onePage(helvetica, "BT /F1 10 Tf 1 0 0 1 72 700 Tm (left) Tj 1 0 0 1 200 700 Tm (right) Tj 1 0 0 1 72 688 Tm (next) Tj ET"), "left right\nnext"},
		{"raised", onePage(helvetica, "BT /F1 10 Tf (x) Tj /F1 6 Tf 4 Ts (2) Tj 0 Ts /F1 10 Tf ( y) Tj ET"), "x2 y"},
		{"turned", onePage(helvetica, "BT /F1 10 Tf 0 1 -1 0 100 100 Tm (up) Tj ( wards) Tj 0 1 -1 0 112 100 Tm (too) Tj ET"), "up wards\ntoo"},
		{"bold twice", onePage(helvetica, "BT /F1 10 Tf 72 700 Td (W) Tj ET BT /F1 10 Tf 72.3 700 Td (W) Tj ET"), "W"},
		{"hyphen", onePage(helvetica, "BT /F1 10 Tf 72 700 Td (exam-) Tj 0 -12 Td (ple A-) Tj 0 -12 Td (B) Tj ET"), "example A-\nB"},
		{"actual text", onePage(helvetica, "BT /F1 10 Tf /Span << /ActualText <FEFF00660069> >> BDC (XY) Tj EMC (n) Tj ET"), "fin"},
		{"inline image", onePage(helvetica, "BT /F1 10 Tf (a) Tj ET BI /W 1 ID \x00EIx\xff EI BT /F1 10 Tf 72 500 Td (b) Tj ET"), "a\n\nb"},
		{"form", onePage(helvetica, "BT /F1 10 Tf 72 700 Td (out) Tj ET q /X Do Q", form), "out" + strings.Repeat("\n\nin form", 12)},
		{"composite", onePage(type0, "BT /F1 10 Tf <00010002000300100011> Tj ET", toUnicode), "ABCfl😀"},
		{"shift-jis", onePage(sjis, "BT /F1 10 Tf <82A041> Tj ET"), "あA"},
		{"differences", onePage(diff, "BT /F1 10 Tf <0102030405414243> Tj ET"), "éfi€Š•BBC"},
		{"junk", onePage(helvetica, "]] >> BT /F1 10 Tf [[[ (a) Tj ) } { /F1 10 Tf (b) Tj ET Q Q EMC"), ""},
		{"no font", onePage("null", "BT /F1 10 Tf (a) Tj ET"), ""},
	} {
		r := extract(t, c.data)
		if len(r.Pages) != 1 || c.want != "" && r.Pages[0].Text != c.want {
			t.Errorf("%s: %q, want %q", c.name, r.Pages[0].Text, c.want)
		}
	}
}

// cffFont encodes code 1 as fi, 2 as a glyph named "eacute" by its own string and
// 9 by a supplement.
const cffFont = "\x01\x00\x04\x01" + "\x00\x01\x01\x01\x02A" + // header, names
	"\x00\x01\x01\x01\x0a" + "\xb8\x0f" + "\xbd\x10" + "\xc7\x11" + "\x8b\x8b\x05" + // top dictionary: charset 45, encoding 50, glyphs 60
	"\x00\x01\x01\x01\x08own_one" + "\x00\x00" + "......" + // strings, subroutines
	"\x00\x00\x6d\x01\x87" // charset

func TestBuiltinEncodings(t *testing.T) {
	type1 := "%!PS-AdobeFont\n/Encoding 256 array\n0 1 255 {1 index exch /.notdef put} for\ndup 12 /fi put\ndup 65 /alpha put\nreadonly def\ncurrentfile eexec \x80\x81"
	font := "<< /Type /Font /Subtype /Type1 /BaseFont /CMR10 /FontDescriptor << /Flags 4 /FontFile 6 0 R >> >>"
	if r := extract(t, onePage(font, "BT /F1 10 Tf <0C6E4121> Tj ET", streamOf("", type1))); r.Pages[0].Text != "finα!" {
		t.Errorf("Type 1: %q", r.Pages[0].Text)
	}
	b := []byte(cffFont)
	b = append(b[:45:45], "\x00\x00\x6d\x01\x87"...)                // at 45: glyph 1 is string 109, fi; 2 is 391, the first own one
	b = append(b, "\x80\x02\x01\x02\x01\x09\x00\x22"+"\x00\x00"...) // at 50: codes 1 and 2, then 9 as string 34, A
	b = append(b, "\x00\x03"+"\x01\x01\x02\x03\x04xyz"...)          // at 60: three glyphs
	got := cffEncoding(b)
	if got[1] != "fi" || got[2] != "own_one" || got[9] != "A" || len(got) != 3 {
		t.Errorf("CFF: %q", got)
	}
	for n := range b {
		cffEncoding(b[:n])
	}
}

func FuzzBuiltin(f *testing.F) {
	f.Add([]byte(cffFont))
	f.Add([]byte("/Encoding 256 array dup 1 /a put def"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := len(cffEncoding(data)) + len(type1Encoding(data)); n > 512 {
			t.Fatal(n)
		}
	})
}

func TestLoops(t *testing.T) {
	for name, data := range map[string][]byte{
		"kids":      build("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 3 0 R 3 0 R] >>", "<< /Type /Page >>"),
		"reference": build("<< /Type /Catalog /Pages 2 0 R >>", "3 0 R", "2 0 R"),
		"length":    build("<< /Type /Catalog /Pages 2 0 R >>", "<< /Kids [3 0 R] >>", "<< /Contents 4 0 R >>", "<< /Length 4 0 R >> stream\nBT\nendstream"),
		"outline":   build("<< /Type /Catalog /Pages 2 0 R /Outlines << /First 3 0 R >> >>", "<< /Kids [] >>", "<< /Title (a) /Next 3 0 R /First 3 0 R >>"),
		"filters":   build("<< /Type /Catalog /Pages 2 0 R >>", "<< /Kids [3 0 R] >>", "<< /Contents 4 0 R >>", streamOf("/Filter ["+strings.Repeat("/RL ", 99)+"]", "\xff")),
		"prev":      []byte("%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Kids[]>>endobj\nxref\n0 0\ntrailer<</Prev 71>>startxref\n71\n%%EOF"),
	} {
		if r, err := Extract(context.Background(), data, defaults()); err == nil && len(r.Pages) > 1 {
			t.Errorf("%s: %d pages", name, len(r.Pages))
		}
	}
}

func TestBudgets(t *testing.T) {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(bytes.Repeat([]byte(" "), 8<<20))
	_ = w.Close()
	bomb := onePage(helvetica, "", streamOf("/Filter /FlateDecode", z.String()))
	bomb = bytes.Replace(bomb, []byte("/Contents 4 0 R"), []byte("/Contents 6 0 R"), 1)
	limits := defaults()
	limits.Decoded = 1 << 20
	if r, err := Extract(context.Background(), bomb, limits); err != nil || r.Pages[0].Cut == "" {
		t.Errorf("inflated past the budget: %+v, %v", r, err)
	}
	limits = defaults()
	limits.PageOps = 100
	r, err := Extract(context.Background(), onePage(helvetica, "BT /F1 10 Tf "+strings.Repeat("(abc) Tj ", 1000)), limits)
	if err != nil || r.Pages[0].Cut == "" || len(r.Pages[0].Text) > 400 {
		t.Errorf("too many operations: %+v, %v", r, err)
	}
	limits = defaults()
	limits.Time = 1
	if r, err := Extract(context.Background(), onePage(helvetica, "BT /F1 10 Tf (x) Tj ET"), limits); err != nil || r.Pages[0].Cut == "" {
		t.Errorf("out of time: %+v, %v", r, err)
	}
}

func TestFilters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := &file{ctx: context.Background(), limits: defaults()}
	for n := range 300 {
		want := make([]byte, n*n)
		for i := range want {
			want[i] = byte(r.IntN(1 + n%7))
		}
		var lz, a85 bytes.Buffer
		// The library's codes grow one later: EarlyChange 0.
		w := lzw.NewWriter(&lz, lzw.MSB, 8)
		_, _ = w.Write(want)
		_ = w.Close()
		if n < 100 {
			if got := f.lzw(lz.Bytes(), 0); !bytes.Equal(got, want) {
				t.Fatalf("LZW of %d bytes: %d came back", len(want), len(got))
			}
		}
		e := ascii85.NewEncoder(&a85)
		_, _ = e.Write(want)
		_ = e.Close()
		if got := f.ascii85(append(a85.Bytes(), "~>"...)); !bytes.Equal(got, want) {
			t.Fatalf("ASCII85 of %d bytes", len(want))
		}
		if got, _ := f.filter("AHx", nil, []byte(hex.EncodeToString(want)+">")); !bytes.Equal(got, want) {
			t.Fatalf("hex of %d bytes", len(want))
		}
	}
	if got := f.runLength([]byte("\x02abc\xfed\x80x")); string(got) != "abcddd" {
		t.Errorf("run length: %q", got)
	}
	// PNG rows of three bytes: none, left, up, average, Paeth.
	got := f.predict([]byte("\x00\x01\x02\x03\x01\x01\x01\x01\x02\x01\x01\x01\x03\x01\x01\x01\x04\x01\x01\x01"), dict{"Predictor": 12, "Columns": 3})
	if want := "\x01\x02\x03\x01\x02\x03\x02\x03\x04\x02\x03\x04\x03\x04\x05"; string(got) != want {
		t.Errorf("PNG: %x, want %x", got, want)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(onePage(helvetica, "BT /F1 10 Tf (a) Tj ET /X Do", streamOf("/Subtype /Form", "BT ET")))
	for _, s := range fixtures {
		if b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "\n", "")); err == nil {
			f.Add(b)
		}
	}
	limits := defaults()
	limits.Decoded, limits.PageBytes = 4<<20, 1<<20
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Extract(context.Background(), data, limits)
	})
}

func FuzzCMap(f *testing.F) {
	f.Add([]byte("1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <01> <09> <D83DDE00> endbfrange 1 begincidrange <00> <ff> 3 endcidrange"), "\x01\x02")
	f.Fuzz(func(t *testing.T, data []byte, s string) {
		m := parseCMap(data)
		font := &font{composite: true, unicode: m, cids: m}
		n := 0
		font.each(str(s), func(glyph) { n++ })
		if n > len(s) {
			t.Fatal("more codes than bytes")
		}
	})
}

func FuzzFilters(f *testing.F) {
	f.Add([]byte("x"), 1, 2)
	f.Fuzz(func(t *testing.T, data []byte, columns, kind int) {
		limits := defaults()
		limits.Decoded = 1 << 20
		fl := &file{ctx: context.Background(), limits: limits}
		p := dict{"Predictor": kind, "Columns": columns}
		for _, n := range []name{"Fl", "LZW", "AHx", "A85", "RL"} {
			if out, _ := fl.filter(n, p, bytes.Clone(data)); len(out) > 2<<20 {
				t.Fatalf("%s: %d bytes past the budget", n, len(out))
			}
			fl.decoded, fl.stop = 0, nil
		}
	})
}
