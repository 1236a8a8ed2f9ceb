package parse

import (
	"archive/zip"
	"bytes"
	"fmt"
	"testing"
)

// part is a file of an archive.
type part struct{ name, body string }

func makeZip(t testing.TB, parts ...part) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, p := range parts {
		w, err := z.Create(p.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(p.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const coreXML = `<?xml version="1.0"?><cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t">` +
	`<dc:title>Annual plan</dc:title><dc:creator>Ada</dc:creator><dc:language>en-GB</dc:language>` +
	`<dcterms:created>2024-05-06T07:08:09Z</dcterms:created></cp:coreProperties>`

const stylesXML = `<w:styles xmlns:w="w"><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>` +
	`<w:style w:styleId="Own"><w:name w:val="My head"/><w:basedOn w:val="Base2"/></w:style>` +
	`<w:style w:styleId="Base2"><w:name w:val="heading 2"/><w:basedOn w:val="Base2"/></w:style></w:styles>`

func makeDOCX(t testing.TB, body string) []byte {
	return makeZip(t, part{"[Content_Types].xml", "<Types/>"}, part{"docProps/core.xml", coreXML}, part{"word/styles.xml", stylesXML},
		part{"word/document.xml", `<w:document xmlns:w="w" xmlns:mc="m"><w:body>` + body + `</w:body></w:document>`})
}

func wp(style, text string) string {
	return fmt.Sprintf(`<w:p><w:pPr><w:pStyle w:val=%q/></w:pPr><w:r><w:t>%s</w:t></w:r></w:p>`, style, text)
}

func makeXLSX(t testing.TB, sheets ...part) []byte {
	book, rels := "", ""
	parts := []part{{"docProps/core.xml", coreXML}, {"xl/sharedStrings.xml", `<sst><si><t>name</t></si><si><r><t>Ad</t></r><r><t>a</t></r><rPh><t>x</t></rPh></si></sst>`},
		{"xl/styles.xml", `<styleSheet><numFmts><numFmt numFmtId="164" formatCode="[Red]yyyy\-mm"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/></cellXfs></styleSheet>`}}
	for i, s := range sheets {
		book += fmt.Sprintf(`<sheet name=%q sheetId="%d" r:id="rId%d"/>`, s.name, i+1, i+1)
		rels += fmt.Sprintf(`<Relationship Id="rId%d" Target="worksheets/sheet%d.xml"/>`, i+1, i+1)
		parts = append(parts, part{fmt.Sprintf("xl/worksheets/sheet%d.xml", i+1), "<worksheet><sheetData>" + s.body + "</sheetData></worksheet>"})
	}
	parts = append(parts, part{"xl/workbook.xml", `<workbook xmlns:r="r"><sheets>` + book + `</sheets></workbook>`},
		part{"xl/_rels/workbook.xml.rels", "<Relationships>" + rels + "</Relationships>"})
	return makeZip(t, parts...)
}

// makePDF writes objects, numbered from 1 with the catalog first, and a table.
func makePDF(trailer string, objects ...string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.4\n")
	offs := make([]int, len(objects))
	for i, o := range objects {
		offs[i] = out.Len()
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range offs {
		fmt.Fprintf(&out, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, at)
	return out.Bytes()
}

func pdfStream(body string) string {
	return fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(body), body)
}

// simplePDF has one page for each content stream, in Helvetica.
func simplePDF(pages ...string) []byte {
	kids := ""
	objects := []string{"", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	for i, p := range pages {
		kids += fmt.Sprintf("%d 0 R ", 4+2*i)
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i), pdfStream(p))
	}
	objects[0] = "<< /Type /Catalog /Pages 2 0 R /Lang (en) >>"
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [ %s] /Count %d >>", kids, len(pages))
	return makePDF("", objects...)
}
