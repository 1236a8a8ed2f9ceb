package parse

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fuzzLimits keep one input cheap; text beyond a multiple of the input is an
// error, so that memory is bounded too.
func fuzzLimits(f Format) Options {
	return Options{Format: f, MaxText: 1 << 20, MaxInflated: 4 << 20, MaxBlocks: 1 << 16, MaxCells: 1 << 18, PageTime: time.Minute, Time: time.Minute}
}

// fuzzFormat: never a panic, every invariant, the same document twice.
func fuzzFormat(f *testing.F, format Format, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
		f.Add(s[:len(s)*2/3])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		opt := fuzzLimits(format)
		d, err := Parse(ctx, "fuzz", data, opt)
		if err != nil {
			if ctx.Err() != nil || bytes.Contains([]byte(err.Error()), []byte("reader failed")) {
				t.Fatal(err)
			}
			return
		}
		checkDocument(t, d)
		again, err := Parse(ctx, "fuzz", data, opt)
		if err != nil {
			t.Fatal("second time:", err)
		}
		if diff := cmp.Diff(d, again, cmpopts.IgnoreUnexported(Map{})); diff != "" {
			t.Fatal("second time differs:", diff)
		}
	})
}

func FuzzMarkdown(f *testing.F) {
	fuzzFormat(f, Markdown, []byte(mdSource), []byte("> - 1. a\n\n\tcode\n***\n[x]: y\n"), append([]byte("\xff\xfe"), utf16Bytes(mdSource, false)...))
}

func FuzzHTML(f *testing.F) {
	fuzzFormat(f, HTML, []byte(htmlSource), []byte("<table><tr><td><table><pre>\r\n&lt</table>"), []byte("<meta charset=gbk><p>\xb0\xa1"))
}

func FuzzText(f *testing.F) {
	fuzzFormat(f, Text, []byte("a\n\nb\f\fc\r\n\xff"), utf16Bytes("wide text here\n\nnext", false), utf16Bytes("wide text here\n\nnext", true))
}

func FuzzCSV(f *testing.F) {
	fuzzFormat(f, CSV, []byte("a;\"b\"\"c\";d\r\n1;\"x\ny\";\n\n2\n"))
}

func FuzzJSONL(f *testing.F) {
	fuzzFormat(f, JSONL, []byte("{\"a\":[1,{\"b\":\"\\ud83d\\ude00\\n\"}],\"text\":\"x\"}\n[true]\n"), []byte("[{\"a\":1},\n\"x\"]"))
}

func FuzzPDF(f *testing.F) {
	fuzzFormat(f, PDF, simplePDF("BT /F1 12 Tf 72 700 Td (Hello) Tj [(a) -300 <62>] TJ T* (x) ' ET q 1 0 0 1 0 0 cm BI /W 1 ID x EI Q", "BT ET"))
}

func FuzzDOCX(f *testing.F) {
	fuzzFormat(f, DOCX, makeDOCX(f, wp("berschrift1", "Plan")+"<w:tbl><w:tr><w:tc>"+wp("", "a")+"</w:tc></w:tr></w:tbl>"))
}

func FuzzXLSX(f *testing.F) {
	fuzzFormat(f, XLSX, makeXLSX(f, part{"S", `<row r="1"><c r="A1" t="s"><v>0</v></c></row><row r="3"><c s="1"><v>45000</v></c></row>`}))
}

// FuzzWord and FuzzSheet reach the XML readers, which a mutated archive rarely does.
func FuzzWord(f *testing.F) {
	f.Add(wp("berschrift1", "Plan") + "<w:p><w:r><w:br w:type=\"page\"/><w:lastRenderedPageBreak/><w:t>x</w:t></w:r></w:p><w:tbl><w:tr><w:tc></w:tc></w:tr></w:tbl>")
	f.Fuzz(func(t *testing.T, body string) {
		if d, err := Parse(context.Background(), "x.docx", makeDOCX(t, body), fuzzLimits(DOCX)); err == nil {
			checkDocument(t, d)
		}
	})
}

func FuzzSheet(f *testing.F) {
	f.Add(`<row r="1"><c r="A1" t="s"><v>0</v></c><c t="inlineStr"><is><t>x</t></is></c></row><row r="3"><c r="ZZ3" s="1"><v>45000</v></c></row>`)
	f.Fuzz(func(t *testing.T, body string) {
		if d, err := Parse(context.Background(), "x.xlsx", makeXLSX(t, part{"S", body}), fuzzLimits(XLSX)); err == nil {
			checkDocument(t, d)
		}
	})
}

// FuzzPage reaches the content interpreter.
func FuzzPage(f *testing.F) {
	f.Add("BT /F1 12 Tf 72 700 Td (Hello) Tj [(a) -300 <62>] TJ T* (x) ' /Span <</ActualText (y)>> BDC (z) Tj EMC ET")
	f.Fuzz(func(t *testing.T, body string) {
		if d, err := Parse(context.Background(), "x.pdf", simplePDF(body), fuzzLimits(PDF)); err == nil {
			checkDocument(t, d)
		}
	})
}

// FuzzDetect lets the bytes choose the reader.
func FuzzDetect(f *testing.F) {
	fuzzFormat(f, "", []byte(mdSource), []byte(htmlSource), simplePDF("BT (x) Tj ET"), makeDOCX(f, wp("", "a")))
}
