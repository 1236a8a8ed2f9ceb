package parse

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// prose makes some n bytes of text with headings, for benchmarks.
func prose(n int, heading, para string) string {
	var s strings.Builder
	for i := 0; s.Len() < n; i++ {
		if i%8 == 0 {
			fmt.Fprintf(&s, heading, i/8)
		}
		fmt.Fprintf(&s, para, i)
	}
	return s.String()
}

// benchParse counts the source's bytes, or for archives those they inflate to.
func benchParse(b *testing.B, name string, data []byte, inflated ...int) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	for _, n := range inflated {
		b.SetBytes(int64(n))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(context.Background(), name, data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

const sentence = "The quick brown fox no. %d jumps over the lazy dog, then rests in the shade & sleeps until the sun goes down behind the hill."

func BenchmarkMarkdown(b *testing.B) {
	benchParse(b, "x.md", []byte(prose(1<<20, "## Section %d\n\n", sentence+"\n\n- item\n- item\n\n```go\nx := 1\n```\n\n")))
}

func BenchmarkHTML(b *testing.B) {
	benchParse(b, "x.html", []byte(prose(1<<20, "<h2>Section %d</h2>\n", "<p class=\"x\">"+sentence+"</p><ul><li>item &amp; <b>more</b></li></ul>\n")))
}

func BenchmarkText(b *testing.B) {
	benchParse(b, "x.txt", []byte(prose(1<<20, "Section %d\n\n", sentence+"\n\n")))
}

func BenchmarkUTF16(b *testing.B) {
	benchParse(b, "x.txt", append([]byte("\xff\xfe"), utf16Bytes(prose(1<<19, "Section %d\n\n", sentence+"\n\n"), false)...))
}

func BenchmarkCSV(b *testing.B) {
	benchParse(b, "x.csv", []byte("id,text,note\n"+prose(1<<20, "%d,head,\n", "%d,\"The quick, brown fox\",some note of a few words\n")))
}

func BenchmarkJSONL(b *testing.B) {
	benchParse(b, "x.jsonl", []byte(prose(1<<20, "{\"id\":%d}\n", "{\"title\":\"Row\",\"text\":\""+sentence+"\\nnext line\",\"n\":[1,2]}\n")))
}

func BenchmarkDOCX(b *testing.B) {
	body := prose(1<<20, wp("berschrift1", "Section %d"), wp("", strings.ReplaceAll(sentence, "&", "&amp;")))
	benchParse(b, "x.docx", makeDOCX(b, body), len(body))
}

func BenchmarkXLSX(b *testing.B) {
	rows := prose(1<<20, "<row><c><v>%d</v></c></row>", "<row><c><v>%d</v></c><c t=\"s\"><v>1</v></c><c t=\"str\"><v>some words</v></c></row>")
	benchParse(b, "x.xlsx", makeXLSX(b, part{"S", rows}), len(rows))
}

func BenchmarkPDF(b *testing.B) {
	page := "BT /F1 10 Tf 72 700 Td " + prose(4000, "(Section %d) Tj 0 -12 Td ", "("+sentence+") Tj 0 -12 Td ") + "ET"
	pages := make([]string, 100)
	for i := range pages {
		pages[i] = page
	}
	benchParse(b, "x.pdf", simplePDF(pages...))
}

func BenchmarkMapSource(b *testing.B) {
	d, err := Parse(context.Background(), "x.html", []byte(prose(1<<20, "<h2>Section %d</h2>\n", "<p>"+sentence+"</p>\n")), Options{})
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		i = (i + 7919) % (len(d.Text) - 500)
		if _, _, ok := d.Map.Source(i, i+400); !ok {
			b.Fatal(i)
		}
	}
}
