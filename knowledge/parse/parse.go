package parse

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// Parse reads one file. name serves errors and, by its extension, detection; it
// is never opened. data is kept as Document.Source and must not change after.
//
// Time is linear in data and the inflated text. Every error is an *Error that
// names the file; what a reader can survive is a Warning instead. Malformed
// input never panics, and costs at most what opt allows.
func Parse(ctx context.Context, name string, data []byte, opt Options) (doc *Document, err error) {
	var format Format
	fail := func(err error) (*Document, error) { return nil, &Error{Name: name, Format: format, Err: err} }
	if err := opt.fill(); err != nil {
		return fail(err)
	}
	if len(data) > opt.MaxBytes {
		return fail(tooLarge("%d bytes, at most %d", len(data), opt.MaxBytes))
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	b := &builder{ctx: ctx, name: name, opt: &opt}
	if format, err = b.detect(data); err != nil {
		return fail(err)
	}
	// The readers of Markdown, HTML and YAML are other people's; a fault of
	// theirs is an error about this file, and the import goes on.
	defer func() {
		if r := recover(); r != nil {
			doc, err = fail(fmt.Errorf("%w: reader failed: %v", storage.ErrCorrupt, r))
		}
	}()
	doc = &Document{Name: name, Format: format, Source: data, Hash: sha256.Sum256(data)}
	if err := b.read(doc, data); err != nil {
		return fail(err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	b.finish(doc)
	return doc, nil
}

// read runs the reader of the format and fills Text and Map.
func (b *builder) read(doc *Document, data []byte) error {
	switch doc.Format {
	case PDF:
		return b.binary(doc, b.pdf(data))
	case DOCX:
		return b.binary(doc, b.docx(data))
	case XLSX:
		return b.binary(doc, b.xlsx(data))
	}
	label := b.opt.Charset
	if label == "" && doc.Format == HTML {
		label = htmlCharset(data)
	}
	dec, err := decode(data, label, b.opt.MaxText, b.warn)
	if err != nil {
		return err
	}
	doc.Encoding = dec.label
	b.src = string(dec.text)
	if len(b.src) > b.opt.MaxText {
		return tooLarge("more than %d bytes of text", b.opt.MaxText)
	}
	switch doc.Format {
	case Markdown:
		err = b.markdown()
	case HTML:
		err = b.html()
	case CSV:
		err = b.csv()
	case JSONL:
		err = b.jsonl()
	default:
		err = b.text()
	}
	if err == nil {
		err = b.err
	}
	if err != nil {
		return err
	}
	doc.Map = Map{Unit: Bytes, Spans: dec.compose(data, b.spans), enc: dec.enc, src: data}
	return nil
}

// binary takes over what the reader of an archive or a PDF found.
func (b *builder) binary(doc *Document, err error) error {
	if err == nil {
		err = b.err
	}
	if err != nil {
		return err
	}
	doc.Map = Map{Unit: b.unit, Spans: b.spans}
	return nil
}

// finish moves what was collected into the document.
func (b *builder) finish(doc *Document) {
	if doc.Text = b.kept; doc.Text == "" {
		b.clipBlocks()
		doc.Text = string(b.buf)
	}
	doc.Blocks = b.blocks
	doc.Sections = sectionsFrom(b.heads, len(doc.Text))
	if doc.Pages = b.pages; doc.Pages == nil {
		doc.Pages = pagesFrom(doc.Text)
	}
	doc.Metadata = b.meta
	if doc.Metadata.Title == "" && len(doc.Sections) > 0 && (doc.Format == Markdown || doc.Format == HTML) {
		for _, s := range doc.Sections {
			if s.Level == doc.Sections[0].Level && s.Title != "" {
				doc.Metadata.Title = s.Title
				break
			}
		}
	}
	if strings.TrimSpace(doc.Text) == "" {
		b.warn(-1, "no text")
	}
	if b.dropped > 0 {
		b.warnings = append(b.warnings, Warning{Message: fmt.Sprintf("%d more warnings", b.dropped), Offset: -1})
	}
	doc.Warnings = b.warnings
}

// keep makes src[from:] the text, without a copy.
func (b *builder) keep(from int) {
	b.kept = b.src[from:]
	b.spans = addSpan(b.spans, Span{Start: 0, End: len(b.kept), From: from, To: len(b.src)})
}

// text reads plain text: kept as it is, blocks are paragraphs between blank
// lines and form feeds.
func (b *builder) text() error {
	b.keep(0)
	start, end := -1, 0
	flush := func() {
		if start >= 0 {
			b.block(Paragraph, start, end, 0, "")
		}
		start = -1
	}
	for off := 0; off < len(b.src) && b.alive(); {
		n := strings.IndexAny(b.src[off:], "\n\f") + 1
		if n == 0 {
			n = len(b.src) - off
		}
		line := b.src[off : off+n]
		body := strings.TrimRight(line, "\r\n\f")
		if strings.TrimSpace(body) == "" {
			flush()
		} else {
			if start < 0 {
				start = off
			}
			end = off + len(body)
			if line[n-1] == '\f' {
				flush()
			}
		}
		off += n
	}
	flush()
	return b.err
}

// validText replaces invalid bytes of text that comes from archives.
func validText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
