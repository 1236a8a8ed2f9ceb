package parse

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outline prints sections as "level title|first line of the body".
func outline(d *Document) []string {
	var out []string
	for _, s := range d.Sections {
		out = append(out, fmt.Sprintf("%d %s", s.Level, strings.Join(s.Path, "/")))
	}
	return out
}

// blocks prints blocks as "kind:text".
func blocks(d *Document) []string {
	var out []string
	for _, b := range d.Blocks {
		out = append(out, fmt.Sprintf("%s:%s", b.Kind, d.Text[b.Start:b.End]))
	}
	return out
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const mdSource = "---\ntitle: The plan\ndate: 2024-03-02T10:00:00+02:00\nupdated: 2024-04-01\nauthor: Ada, Bob and Cy\nlang: en\ntags: [a, 7, true, 1.5]\n" +
	"nested: {k: v}\n---\nIntro.\r\n\r\n# One *two* `x` &amp; [link](u)\n\ntext\n\n## Sub ##\n- item\n  more\n- second\n\n```go info\ncode\n\n# no heading\n```\n\n" +
	"| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n> # not top\n\nSet\next\n===\n<div>\nhi\n</div>\n\n#### Deep\nend"

func TestMarkdown(t *testing.T) {
	d := mustParse(t, "x.md", []byte(mdSource))
	wantEqual(t, "outline", outline(d), []string{"1 One two x & link", "2 One two x & link/Sub", "1 Set ext", "4 Set ext/Deep"})
	wantEqual(t, "blocks", blocks(d), []string{
		"paragraph:Intro.", "heading:# One *two* `x` &amp; [link](u)", "paragraph:text", "heading:## Sub ##", "list item:- item\n  more", "list item:- second",
		"code:```go info\ncode\n\n# no heading\n```", "table:| a | b |\n|---|---|\n| 1 | 2 |", "quote:> quote", "heading:> # not top",
		"heading:Set\next\n===", "literal:<div>\nhi\n</div>", "heading:#### Deep", "paragraph:end"})
	m := d.Metadata
	if m.Title != "The plan" || m.Language != "en" || !m.Date.Equal(time.Date(2024, 3, 2, 8, 0, 0, 0, time.UTC)) || m.Modified.Month() != time.April {
		t.Errorf("metadata %+v", m)
	}
	wantEqual(t, "authors", m.Authors, []string{"Ada", "Bob", "Cy"})
	wantEqual(t, "tags", m.Fields["tags"], []any{"a", int64(7), true, 1.5})
	if from, to, _ := d.Map.Source(0, len(d.Text)); mdSource[from:to] != d.Text || !d.Map.Plain(0, len(d.Text)) {
		t.Error("the text is not the source after the front matter")
	}
}

// cases.md F07: the rest of an unclosed fence stays in the text and in a block.
func TestMarkdownF07UnclosedFence(t *testing.T) {
	for _, fence := range []string{"```py", "~~~", "````"} {
		src := "# T\nintro\n\n" + fence + "\nx = 1\n\n## Key part\nvital text\n"
		d := mustParse(t, "x.md", []byte(src))
		covered := 0
		for _, b := range d.Blocks {
			covered += len(strings.Join(strings.Fields(d.Text[b.Start:b.End]), ""))
		}
		if want := len(strings.Join(strings.Fields(src), "")); covered != want || d.Text != src || len(d.Warnings) != 1 {
			t.Errorf("%s: %d of %d bytes in blocks, warnings %v", fence, covered, want, d.Warnings)
		}
	}
}

func TestMarkdownFrontMatterEdges(t *testing.T) {
	for _, c := range []struct{ src, text string }{
		{"---\n---\nbody", "body"},
		{"---\na: [1\n---\nbody", "body"},
		{"---\nno mapping\n---\nbody", "---\nno mapping\n---\nbody"},
		{"---\na: 1\nbody", "---\na: 1\nbody"},
		{"--- \r\na: 1\r\n---\r\nbody", "body"},
		{"\xef\xbb\xbf---\na: 1\n---\nbody", "body"},
		{"---\na: &x [1,1]\nb: &y [*x,*x]\nc: [*y,*y]\n---\nbody", "body"},
	} {
		if d := mustParse(t, "x.md", []byte(c.src)); d.Text != c.text {
			t.Errorf("%q: text %q, want %q", c.src, d.Text, c.text)
		}
	}
	bomb := "---\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'n'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	if d := mustParse(t, "x.md", []byte(bomb+"---\nbody")); len(d.Warnings) == 0 {
		t.Error("alias bomb read without a warning")
	}
}

const htmlSource = "<!DOCTYPE html><html lang=de><head><title>A &amp; B</title><meta name=description content='About it'>" +
	"<meta property='article:published_time' content='2023-01-02'><style>p{}</style><script>var x='<p>no</p>'</script></head><body>" +
	"<nav><a href=/>Home</a></nav><h1>Top\n <em>head</em></h1><p>One  two&nbsp;th&eacute;n<br>line&lt;</p>loose<h3>Skip</h3><ul><li>a<li>b <b>c</b></ul>" +
	"<pre>\n  keep\n    this\n</pre><table><tr><th>h1<th>h2</tr><tr><td>1<p>2</p><td></td></tr></table><blockquote>said</blockquote><p>x<!-- no -->y</body>"

func TestHTML(t *testing.T) {
	d := mustParse(t, "x.html", []byte(htmlSource))
	wantEqual(t, "blocks", blocks(d), []string{"heading:Top head", "paragraph:One two thén\nline<", "paragraph:loose", "heading:Skip", "list item:a", "list item:b c",
		"code:  keep\n    this", "table:h1 | h2\n1 2 |", "quote:said", "paragraph:xy"})
	wantEqual(t, "outline", outline(d), []string{"1 Top head", "3 Top head/Skip"})
	if d.Metadata.Title != "A & B" || d.Metadata.Language != "de" || d.Metadata.Description != "About it" || d.Metadata.Date.Year() != 2023 {
		t.Errorf("metadata %+v", d.Metadata)
	}
	for _, word := range []string{"head", "thén", "loose", "this", "said", "h2"} {
		i := strings.Index(d.Text, word)
		from, to, ok := d.Map.Source(i, i+len(word))
		if got := strings.ReplaceAll(htmlSource[from:to], "&eacute;", "é"); !ok || got != word {
			t.Errorf("%s maps to %q", word, got)
		}
	}
}

func TestHTMLBroken(t *testing.T) {
	for _, c := range []struct{ src, text string }{
		{"<p>a<nav>menu<p>b", "a\n\nmenu\n\nb"},
		{"<p>a<script>never closed", "a"},
		{"a<table><tr><td>1<td>2", "a\n\n1 | 2"},
		{"</p></table></td>a</li>", "a"},
		{"<p>a<", "a<"},
		{"<title>t", ""},
		{"&#0;&#x110000;&bogus;&amp", "\ufffd\ufffd&bogus;&"},
		{"<pre>a\r\nb</pre>", "a\nb"},
		{"<svg><nav></svg>x", "x"},
	} {
		if d := mustParse(t, "x.html", []byte(c.src)); strings.TrimSpace(d.Text) != c.text {
			t.Errorf("%q: text %q, want %q", c.src, d.Text, c.text)
		}
	}
}

// cases.md F05 and G09: line ends stay, form feeds are pages.
func TestText(t *testing.T) {
	src := "uno\r\ndés\r\n😀tres"
	if d := mustParse(t, "x.txt", []byte(src)); d.Text != src || d.Pages != nil {
		t.Errorf("text %q, pages %v", d.Text, d.Pages)
	}
	d := mustParse(t, "x.txt", []byte("one\n\ntwo\fthree\f\ffour"))
	wantEqual(t, "pages", d.Pages, []Page{{1, 0, 9}, {2, 9, 15}, {3, 15, 16}, {4, 16, 20}})
	wantEqual(t, "blocks", blocks(d), []string{"paragraph:one", "paragraph:two", "paragraph:three", "paragraph:four"})
	for off, want := range map[int]int{0: 1, 8: 1, 9: 2, 15: 3, 16: 4, 20: 4, 99: 4} {
		if got := d.PageAt(off); got != want {
			t.Errorf("PageAt(%d) = %d, want %d", off, got, want)
		}
	}
	if d := mustParse(t, "x.txt", nil); d.Text != "" || len(d.Warnings) != 1 {
		t.Errorf("empty file: %+v", d)
	}
}

func TestCSV(t *testing.T) {
	src := "Name;Note;Name\r\nAda;\"says \"\"hi\"\"\nthere\";x\n\nBob;;y;extra\n"
	d := mustParse(t, "x.csv", []byte(src))
	wantEqual(t, "blocks", blocks(d), []string{"record:Name: Ada\nNote: says \"hi\"\nthere\nName: x", "record:Name: Bob\nName: y\ncolumn 4: extra"})
	if d.Blocks[0].Number != 2 || d.Blocks[1].Number != 5 {
		t.Errorf("records in lines %d and %d, want 2 and 5", d.Blocks[0].Number, d.Blocks[1].Number)
	}
	i := strings.Index(d.Text, "Bob")
	if from, to, ok := d.Map.Source(i, i+3); !ok || src[from:to] != "Bob" || !d.Map.Plain(i, i+3) {
		t.Error("Bob maps elsewhere")
	}
	if _, _, ok := d.Map.Source(0, 4); ok {
		t.Error("an inserted name has a source")
	}
	for name, src := range map[string]string{"tab.tsv": "a\tb\n1\t2\n", "bar.csv": "a|b\n1|2\n", "comma.csv": "a,b\r\n1,2"} {
		wantEqual(t, name, blocks(mustParse(t, name, []byte(src))), []string{"record:a: 1\nb: 2"})
	}
}

func TestJSONL(t *testing.T) {
	src := "{\"id\":1,\"text\":\"a\\nb \\u00e9\\ud83d\\ude00\",\"meta\":{\"tags\":[\"x\",null,true],\"n\":1.50}}\nbroken\n\n[\"y\"]\n"
	d := mustParse(t, "x.jsonl", []byte(src))
	wantEqual(t, "blocks", blocks(d), []string{"record:id: 1\na\nb é😀\nmeta.tags: x\nmeta.tags: true\nmeta.n: 1.50", "record:y"})
	if len(d.Warnings) != 1 || d.Blocks[1].Number != 4 {
		t.Errorf("warnings %v, line %d", d.Warnings, d.Blocks[1].Number)
	}
	arr := "[ {\"a\":1},\n {\"a\":2} ]"
	d = mustParse(t, "x.json", []byte(arr))
	wantEqual(t, "array", blocks(d), []string{"record:a: 1", "record:a: 2"})
	if d.Blocks[0].Number != 1 || d.Blocks[1].Number != 2 {
		t.Errorf("lines %+v", d.Blocks)
	}
	wantEqual(t, "object", blocks(mustParse(t, "x.json", []byte("{\n \"a\": {\n\"b\": 1}\n}"))), []string{"record:a.b: 1"})
}

func TestDOCX(t *testing.T) {
	body := wp("berschrift1", "Plan") + wp("", "First &amp; last") +
		`<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:br w:type="page"/></w:r><w:r><w:lastRenderedPageBreak/><w:t>next</w:t><w:tab/><w:t>x</w:t></w:r></w:p>` +
		wp("Own", "Part") + `<w:tbl><w:tr><w:tc>` + wp("", "a") + wp("", "b") + `</w:tc><w:tc>` + wp("", "c") + `</w:tc></w:tr></w:tbl>` +
		`<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p>` +
		`<w:p><mc:AlternateContent><mc:Choice><w:r><w:t>new</w:t></w:r></mc:Choice><mc:Fallback><w:r><w:t>old</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>`
	d := mustParse(t, "x.docx", makeDOCX(t, body))
	wantEqual(t, "blocks", blocks(d), []string{"heading:Plan", "paragraph:First & last", "paragraph:kept\fnext\tx", "heading:Part", "table:a b | c", "list item:item", "paragraph:new"})
	wantEqual(t, "outline", outline(d), []string{"1 Plan", "2 Plan/Part"})
	if len(d.Pages) != 2 || d.PageAt(strings.Index(d.Text, "next")) != 2 || d.PageAt(0) != 1 {
		t.Errorf("pages %v", d.Pages)
	}
	i := strings.Index(d.Text, "a b | c")
	if from, to, ok := d.Map.Source(i, i+1); !ok || from != 5 || to != 8 {
		t.Errorf("the row maps to paragraphs %d–%d, want 5–8", from, to)
	}
	if d.Metadata.Title != "Annual plan" || d.Metadata.Language != "en-GB" || d.Metadata.Date.Year() != 2024 {
		t.Errorf("metadata %+v", d.Metadata)
	}
}

func TestXLSX(t *testing.T) {
	d := mustParse(t, "x.xlsx", makeXLSX(t,
		part{"People", `<row r="2"><c r="B2" t="s"><v>0</v></c><c r="C2" t="inlineStr"><is><t>when</t></is></c><c t="str"><v>n</v></c></row>` +
			`<row r="5"><c r="B5" t="s"><v>1</v></c><c r="C5" s="1"><v>45000</v></c><c r="D5"><v>0.30000000000000004</v></c></row>` +
			`<row r="6"><c r="C6" s="2"><v>45000.5</v></c><c r="D6" t="b"><v>1</v></c></row>`},
		part{"Empty", ""}))
	wantEqual(t, "blocks", blocks(d), []string{"heading:People", "record:name: Ada\nwhen: 2023-03-15\nn: 0.3", "record:when: 2023-03-15T12:00:00\nn: TRUE", "heading:Empty"})
	wantEqual(t, "outline", outline(d), []string{"1 People", "1 Empty"})
	if d.Blocks[1].Number != 5 {
		t.Errorf("record in row %d, want 5", d.Blocks[1].Number)
	}
}

func TestPDF(t *testing.T) {
	d := mustParse(t, "x.pdf", simplePDF(
		"BT /F1 12 Tf 72 700 Td (Hello) Tj 40 0 Td (World \\(1\\)) Tj 0 -14 Td [(kern) -300 (ed w) 20 (ord)] TJ 0 -40 Td (para-) Tj 0 -14 Td (graph) Tj ET",
		"", "BT /F1 1 Tf 12 0 0 12 72 700 Tm (last \\351) Tj ET"))
	want := "Hello World (1)\nkern ed word\n\nparagraph\f\flast é"
	if d.Text != want || len(d.Pages) != 3 || d.Metadata.Language != "en" {
		t.Errorf("text %q, want %q; pages %v, language %q", d.Text, want, d.Pages, d.Metadata.Language)
	}
}
