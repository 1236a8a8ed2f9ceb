package parse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

func TestRefused(t *testing.T) {
	docx := makeDOCX(t, wp("", "hello"))
	deep := strings.Repeat("<w:r>", 500) + strings.Repeat("</w:r>", 500)
	locked := bytes.Clone(docx)
	for i := 0; i+4 < len(locked); i++ { // the encryption flag of every entry
		switch string(locked[i : i+4]) {
		case "PK\x03\x04":
			locked[i+6] |= 1
		case "PK\x01\x02":
			locked[i+8] |= 1
		}
	}
	for _, c := range []struct {
		name string
		data []byte
		opt  Options
		want error
	}{
		{"image.png", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), Options{}, ErrUnsupported},
		{"noise.txt", bytes.Repeat([]byte{0, 1, 2, 3, 250}, 100), Options{}, ErrUnsupported},
		{"old.doc", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 600)), Options{}, ErrUnsupported},
		{"locked.docx", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00"), Options{}, ErrEncrypted},
		{"locked2.docx", locked, Options{}, ErrEncrypted},
		{"locked.pdf", makePDF("/ID [(a)(a)] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O ("+strings.Repeat("o", 32)+") /U ("+strings.Repeat("u", 32)+") >>",
			"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 0 >>"), Options{}, ErrEncrypted},
		{"plain.zip", makeZip(t, part{"a.txt", "x"}), Options{}, ErrUnsupported},
		{"text.docx", []byte("just text"), Options{}, storage.ErrCorrupt},
		{"empty.pdf", nil, Options{}, storage.ErrCorrupt},
		{"cut.docx", docx[:len(docx)/2], Options{}, storage.ErrCorrupt},
		{"half.docx", makeDOCX(t, "<w:p><w:r><w:t>open"), Options{}, storage.ErrCorrupt},
		{"deep.docx", makeDOCX(t, "<w:p>"+deep+"</w:p>"), Options{}, storage.ErrTooLarge},
		{"bomb.docx", makeDOCX(t, "<w:p><w:r><w:t>"+strings.Repeat("a", 8<<20)+"</w:t></w:r></w:p>"), Options{}, storage.ErrTooLarge},
		{"big.docx", makeDOCX(t, wp("", strings.Repeat("ab", 600))), Options{MaxInflated: 1000}, storage.ErrTooLarge},
		{"nosheet.xlsx", makeZip(t, part{"xl/workbook.xml", `<workbook xmlns:r="r"><sheet name="a" r:id="x"/></workbook>`},
			part{"xl/_rels/workbook.xml.rels", `<Relationships><Relationship Id="x" Target="../../../etc/passwd"/></Relationships>`}), Options{}, storage.ErrCorrupt},
		{"cells.xlsx", makeXLSX(t, part{"a", `<row><c r="XFD1"><v>1</v></c></row><row><c r="XFD2"><v>1</v></c></row>`}), Options{MaxCells: 20_000}, storage.ErrTooLarge},
		{"none.pdf", []byte("%PDF-1.7\nnothing"), Options{}, storage.ErrCorrupt},
		{"inflate.pdf", simplePDF(strings.Repeat("q Q ", 10)), Options{MaxInflated: 1, MaxBytes: 100}, storage.ErrTooLarge},
		{"quote.csv", []byte("a,b\n1,\"never closed\n2,3\n"), Options{}, storage.ErrCorrupt},
		{"bad.jsonl", []byte("{\n}x\n"), Options{}, storage.ErrCorrupt},
		{"blowup.csv", []byte(strings.Repeat("h", 250) + "\n" + strings.Repeat("1\n", 5000)), Options{MaxText: 100_000}, storage.ErrTooLarge},
		{"cells.csv", []byte(strings.Repeat("a,b,c\n", 100)), Options{MaxCells: 200}, storage.ErrTooLarge},
		{"blocks.md", []byte(strings.Repeat("# a\n", 200)), Options{MaxBlocks: 50}, storage.ErrTooLarge},
		{"size.txt", []byte("abcdef"), Options{MaxBytes: 5}, storage.ErrTooLarge},
		{"options.txt", nil, Options{MaxPages: -1}, storage.ErrInvalid},
		{"format.txt", nil, Options{Format: "tar"}, storage.ErrInvalid},
		{"charset.txt", []byte("x"), Options{Charset: "klingon"}, ErrUnsupported},
		{"asked.txt", simplePDF(""), Options{Format: Text}, ErrUnsupported},
	} {
		_, err := Parse(context.Background(), c.name, c.data, c.opt)
		var e *Error
		if !errors.Is(err, c.want) || !errors.As(err, &e) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: error %v, want %v with the name", c.name, err, c.want)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       Format
	}{
		{"a.MD", "x", Markdown}, {`dir\b.htm`, "x", HTML}, {"noext", "# T\n\nx", Markdown}, {"noext", "<!DOCTYPE html><p>x", HTML},
		{"noext", "<?xml version='1.0'?><html><body>x", HTML}, {"noext", "{\"a\":1}\n{\"a\":2}\n", JSONL}, {"noext", "plain", Text},
		{"noext", "#hashtag", Text}, {"x.txt", "# not a title", Text}, {"x.txt", string(simplePDF("")), PDF}, {"x.md", string(makeDOCX(t, wp("", "x"))), DOCX},
		{"x", "junk before\n" + string(simplePDF("")), PDF}, {"a.txt", "the %PDF- mark in prose", Text}, {"a", "BZhang wrote", Text}, {"a.csv", "ID3,b\n1,2\n", CSV},
	} {
		d := mustParse(t, c.name, []byte(c.data))
		if d.Format != c.want {
			t.Errorf("%s %.20q: %s, want %s", c.name, c.data, d.Format, c.want)
		}
	}
}

func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, name := range []string{"a.md", "a.html", "a.txt", "a.csv"} {
		if _, err := Parse(ctx, name, []byte("x"), Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	big := bytes.Repeat([]byte("- <b>word</b>, and & more\n"), 1<<20)
	begin := time.Now()
	for _, name := range []string{"a.md", "a.html", "a.csv", "a.txt"} {
		if _, err := Parse(ctx, name, big, Options{MaxBlocks: 1 << 30}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %v to notice", took)
	}
}

// Inputs that are the worst known for readers of their kind: eight times the
// input may cost some eight times the time, not sixty-four.
func TestLinear(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(n int) string
	}{
		{"quotes.md", func(n int) string { return strings.Repeat(">", n) + "a\n" + strings.Repeat("a\n", n) }},
		{"lists.md", func(n int) string { return strings.Repeat("- ", n/2) + "a" + strings.Repeat("\n", n) }},
		{"indent.md", func(n int) string {
			var s strings.Builder
			for i := 0; s.Len() < n; i += 2 {
				s.WriteString(strings.Repeat(" ", i%600) + "- a\n")
			}
			return s.String() + strings.Repeat("\n", n)
		}},
		{"brackets.md", func(n int) string { return "# " + strings.Repeat("[", n) + "\n" + strings.Repeat("[a](", n/4) }},
		{"emphasis.md", func(n int) string { return strings.Repeat("# "+strings.Repeat("*a_", 300)+"\n", n/900) }},
		{"ticks.md", func(n int) string { return strings.Repeat("`a``b", n/5) }},
		{"setext.md", func(n int) string { return strings.Repeat("a\n", n/2) + "===\n" }},
		{"fences.md", func(n int) string { return strings.Repeat("```\n", n/4) }},
		{"html.md", func(n int) string { return strings.Repeat("<!-- ", n/5) }},
		{"navs.html", func(n int) string { return strings.Repeat("<nav>", n/5) }},
		{"kinds.html", func(n int) string { return strings.Repeat("<nav><svg><button>", n/18) }},
		{"tables.html", func(n int) string { return strings.Repeat("<table><td>", n/11) }},
		{"lt.html", func(n int) string { return strings.Repeat("<", n) }},
		{"amp.html", func(n int) string { return strings.Repeat("&", n) }},
		{"attrs.html", func(n int) string { return "<p " + strings.Repeat("a=b ", n/4) + ">" }},
		{"quotes.csv", func(n int) string { return "a\n\"" + strings.Repeat(`""`, n/2) + "\"\n" }},
		{"deep.jsonl", func(n int) string { return strings.Repeat("[", n) + "\n{}\n" }},
		{"escapes.jsonl", func(n int) string { return `{"a":"` + strings.Repeat(`\n`, n/2) + `"}` }},
		{"ff.txt", func(n int) string { return strings.Repeat("a\f", n/2) }},
		{"objects.pdf", func(n int) string { return "%PDF-1.4\n" + strings.Repeat("1 0 obj<</Type/ObjStm>>stream\n", n/30) }},
		{"arrays.pdf", func(n int) string { return string(simplePDF(strings.Repeat("[", n))) }},
		{"trailers.pdf", func(n int) string { return "%PDF-1.4\n" + strings.Repeat("trailer<<", n/9) }},
		{"show.pdf", func(n int) string { return string(simplePDF("BT /F1 9 Tf " + strings.Repeat("(a)Tj ", n/6))) }},
	} {
		small, large := costOf(c.name, c.make(1<<14)), costOf(c.name, c.make(1<<17))
		t.Logf("%s: %v, %v", c.name, small, large)
		if large > 400*time.Millisecond && large > 40*max(small, time.Millisecond) {
			t.Errorf("%s: %v for 16 KiB, %v for 128 KiB", c.name, small, large)
		}
	}
}

// costOf is the least of two runs.
func costOf(name, src string) time.Duration {
	best := time.Hour
	for range 2 {
		begin := time.Now()
		_, _ = Parse(context.Background(), name, []byte(src), Options{})
		best = min(best, time.Since(begin))
	}
	return best
}

func TestWarningsAreBounded(t *testing.T) {
	src := strings.Repeat("<nav>", 3) + "x"
	d := mustParse(t, "x.html", []byte(src))
	if len(d.Warnings) == 0 {
		t.Error("no warning about nav")
	}
	pages := make([]string, 30)
	for i := range pages {
		pages[i] = "/Im0 Do BI ID xx EI"
	}
	d, err := Parse(context.Background(), "x.pdf", simplePDF(pages...), Options{MaxWarnings: 5, MaxPages: 20})
	if err != nil || len(d.Warnings) != 6 || len(d.Pages) != 20 {
		t.Errorf("%d warnings, %d pages, %v", len(d.Warnings), len(d.Pages), err)
	}
	if !strings.Contains(fmt.Sprint(d.Warnings), "has no text layer") || d.Warnings[1].Page == 0 {
		t.Errorf("warnings %v", d.Warnings)
	}
}

// Files whose parts are used again and again stay within the budget.
func TestRepeatedContent(t *testing.T) {
	refs := strings.Repeat("4 0 R ", 20_000)
	data := makePDF("", "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] >>", "<< /Type /Page /Contents ["+refs+"] >>",
		pdfStream(strings.Repeat("q Q\n", 10_000)))
	d, err := Parse(context.Background(), "x.pdf", data, Options{MaxInflated: 8 << 20})
	if err != nil || len(d.Warnings) == 0 {
		t.Errorf("%v, %v", d, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := Parse(ctx, "x.pdf", simplePDF(strings.Repeat("q Q ", 1<<21)), Options{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
